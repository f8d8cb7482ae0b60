//! How often something happens.

/// A probability, compared with random bits without floating-point numbers on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probability {
    /// Of 2^32.
    parts: u64,
}

impl Probability {
    /// Never.
    pub const NEVER: Probability = Probability { parts: 0 };
    /// Always.
    pub const ALWAYS: Probability = Probability { parts: 1 << 32 };

    /// From 0 (never) to 1 (always); what lies outside is moved to the nearer end, and no number means never.
    pub fn new(probability: f64) -> Probability {
        Probability { parts: (probability.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64 }
    }

    /// As a number from 0 to 1.
    pub fn as_f64(self) -> f64 {
        self.parts as f64 / (1u64 << 32) as f64
    }

    /// Whether it happens this time; `draw` gives 32 random bits and is asked only where both outcomes are possible.
    #[inline]
    pub fn happens(self, draw: impl FnOnce() -> u32) -> bool {
        match self {
            Probability::NEVER => false,
            Probability::ALWAYS => true,
            _ => u64::from(draw()) < self.parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middle() {
        assert!(!Probability::new(-3.0).happens(|| 0));
        assert!(Probability::new(7.0).happens(|| u32::MAX));
        assert!(!Probability::new(f64::NAN).happens(|| 0));
        let quarter = Probability::new(0.25);
        assert!(quarter.happens(|| (1 << 30) - 1) && !quarter.happens(|| 1 << 30));
        assert_eq!(quarter.as_f64(), 0.25);
    }
}
