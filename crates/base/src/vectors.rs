//! Loops compiled for wider vectors than all processors of an architecture have.

/// How wide the vectors are that a loop may use. Results do not depend on it: nothing is reassociated, or contracted into fused operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Baseline,
    // What is under test with sanitizers or loom computes nothing, and loops for each width are long to compile.
    #[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
    Avx2,
    #[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
    Avx512,
}

impl Vectors {
    /// What every processor of this architecture has.
    pub const BASELINE: Vectors = Vectors(Width::Baseline);

    /// The widest that this processor has.
    #[inline]
    pub fn widest() -> Vectors {
        #[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
        {
            let has_avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt");
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if has_avx2 {
                return Vectors(if has_avx512 { Width::Avx512 } else { Width::Avx2 });
            }
        }
        Vectors::BASELINE
    }

    /// Runs `loops`, compiled for these vectors as far as all down to the loops is `#[inline(always)]`.
    #[inline(always)]
    pub fn run<R>(self, loops: impl FnOnce() -> R) -> R {
        match self.0 {
            Width::Baseline => loops(),
            #[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
            // SAFETY: who made this has seen that the processor has them.
            Width::Avx2 => unsafe { avx2(loops) },
            #[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
            // SAFETY: who made this has seen that the processor has them.
            Width::Avx512 => unsafe { avx512(loops) },
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
#[target_feature(enable = "avx2,popcnt,bmi2,lzcnt")]
fn avx2<R>(loops: impl FnOnce() -> R) -> R {
    loops()
}

#[cfg(all(target_arch = "x86_64", not(any(fuzzing, loom))))]
#[target_feature(enable = "avx2,popcnt,bmi2,lzcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn avx512<R>(loops: impl FnOnce() -> R) -> R {
    loops()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    fn sums(a: &[f32], b: &[f32]) -> Vec<f32> {
        a.iter().zip(b).map(|(a, b)| a * b + a).collect()
    }

    #[test]
    fn results_have_the_same_bits_with_any() {
        let (a, b): (Vec<f32>, Vec<f32>) = (1..1000).map(|at| (at as f32 / 7.0, at as f32 / 3.0)).unzip();
        let [plain, wide] = [Vectors::BASELINE, Vectors::widest()].map(|vectors| {
            vectors.run(
                #[inline(always)]
                || sums(&a, &b),
            )
        });
        assert_eq!(plain, wide);
        assert_eq!(plain[20], 21.0 / 7.0 * (21.0 / 3.0) + 21.0 / 7.0);
    }
}
