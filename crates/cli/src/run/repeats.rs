//! Several rounds of one program: how long they took, how much that varies, and which stand out.

use super::results::Round;
use castell_base::Rank;
use serde_json::{Value, json};

/// A round is named if it is so many interquartile ranges beyond the quartiles (Tukey's fences).
const FENCE: f64 = 1.5;
/// Fewer rounds have no quartiles that mean anything.
const ROUNDS_FOR_OUTLIERS: usize = 5;
/// No more outliers are listed one by one.
const LISTED_MAX: usize = 5;

/// What the rounds took, in order.
#[derive(Debug)]
pub struct Repeats {
    warmup: u32,
    rounds: Vec<Round>,
    /// Sorted.
    times_ns: Vec<u64>,
}

impl Repeats {
    /// Of the rounds behind the first `warmup`.
    ///
    /// # Panics
    /// Without rounds.
    pub fn new(warmup: u32, rounds: Vec<Round>) -> Repeats {
        assert!(!rounds.is_empty(), "a program is run at least once");
        let mut times_ns: Vec<u64> = rounds.iter().map(|round| round.wall_ns).collect();
        times_ns.sort_unstable();
        Repeats { warmup, rounds, times_ns }
    }

    /// A quantile, between the two nearest times.
    fn quantile_ns(&self, part: f64) -> f64 {
        let at = part * (self.times_ns.len() - 1) as f64;
        let (low, high) =
            (self.times_ns[at.floor() as usize] as f64, self.times_ns[at.ceil() as usize] as f64);
        low + (high - low) * at.fract()
    }

    /// The middle one of the times.
    pub fn median_ns(&self) -> f64 {
        self.quantile_ns(0.5)
    }

    /// Rounds that took far less or more time than most, by their number among all, warm-up included.
    fn outliers(&self) -> Vec<(usize, &Round)> {
        if self.rounds.len() < ROUNDS_FOR_OUTLIERS {
            return Vec::new();
        }
        let (low, high) = (self.quantile_ns(0.25), self.quantile_ns(0.75));
        let reach = FENCE * (high - low);
        let is_far = |round: &Round| {
            let time = round.wall_ns as f64;
            time < low - reach || time > high + reach
        };
        let numbered =
            self.rounds.iter().enumerate().map(|(at, round)| (self.warmup as usize + at + 1, round));
        numbered.filter(|(_, round)| is_far(round)).collect()
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let outlier = |(number, round): (usize, &Round)| json!({"round": number, "wall_ns": round.wall_ns, "last_rank": round.last.0});
        json!({
            "warmup": self.warmup,
            "times_ns": self.rounds.iter().map(|round| round.wall_ns).collect::<Vec<_>>(),
            "median_ns": self.median_ns(),
            "min_ns": self.times_ns[0],
            "max_ns": self.times_ns[self.times_ns.len() - 1],
            "quartiles_ns": [self.quantile_ns(0.25), self.quantile_ns(0.75)],
            "outliers": self.outliers().into_iter().map(outlier).collect::<Vec<_>>(),
        })
    }

    /// For people.
    pub fn print(&self) {
        let ms = |ns: f64| format!("{:.4} ms", ns / 1e6);
        let (low, high, median) = (self.quantile_ns(0.25), self.quantile_ns(0.75), self.median_ns());
        let spread = if median > 0.0 { 100.0 * (high - low) / median } else { 0.0 };
        println!("{} rounds, {} before them to warm up", self.rounds.len(), self.warmup);
        println!("  median {}   half of them {} .. {} (spread {spread:.0} %)", ms(median), ms(low), ms(high));
        println!(
            "  all    {} .. {}",
            ms(self.times_ns[0] as f64),
            ms(self.times_ns[self.times_ns.len() - 1] as f64)
        );
        let outliers = self.outliers();
        for (number, round) in outliers.iter().take(LISTED_MAX) {
            println!(
                "  outlier: round {number} took {}; rank {} was the last",
                ms(round.wall_ns as f64),
                round.last
            );
        }
        if outliers.len() > LISTED_MAX {
            println!("  and {} more outliers (--json lists them)", outliers.len() - LISTED_MAX);
        }
    }
}

impl Round {
    /// From when each rank started and ended.
    pub fn of(times: impl Iterator<Item = (Rank, u64, u64)>) -> Option<Round> {
        let times: Vec<_> = times.collect();
        let first_ns = times.iter().map(|(_, start_ns, _)| *start_ns).min()?;
        let &(last, _, last_ns) = times.iter().max_by_key(|(_, _, end_ns)| *end_ns)?;
        Some(Round { wall_ns: last_ns.saturating_sub(first_ns), last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(times: &[u64]) -> Repeats {
        let round = |&wall_ns: &u64| Round { wall_ns, last: Rank(1) };
        Repeats::new(2, times.iter().map(round).collect())
    }

    #[test]
    fn the_middle_is_reported_and_what_is_far_from_it_named() {
        let repeats = repeats(&[100, 104, 98, 5000, 102, 101, 99]);
        let told = repeats.json();
        assert_eq!(
            (&told["median_ns"], &told["min_ns"], &told["max_ns"]),
            (&json!(101.0), &json!(98), &json!(5000))
        );
        assert_eq!(told["quartiles_ns"], json!([99.5, 103.0]));
        assert_eq!(told["outliers"], json!([{"round": 6, "wall_ns": 5000, "last_rank": 1}]));
    }

    #[test]
    fn few_rounds_have_no_outliers() {
        let one = repeats(&[7]);
        assert_eq!((one.median_ns(), one.outliers().len()), (7.0, 0));
        assert!(repeats(&[1, 2, 1, 9000]).outliers().is_empty());
        assert!(repeats(&[5; 9]).outliers().is_empty());
    }

    #[test]
    fn a_round_lasts_from_the_first_start_to_the_last_end() {
        let times = [(Rank(0), 10, 30), (Rank(1), 5, 25)];
        assert_eq!(Round::of(times.into_iter()), Some(Round { wall_ns: 25, last: Rank(0) }));
        assert_eq!(Round::of(std::iter::empty()), None);
    }
}
