//! Pipelining latency and bandwidth.

use crate::lambert::{lambert_w_minus_1, lambert_w0};
use crate::parameters::{Parameters, Slot};
use crate::{BySize, ClosedForms};
use castell_base::{PerByte, Time};

/// PLB, the pipelining latency-bandwidth model: of b messages of n bytes that a rank sends one after the other, the i-th
/// (from 1) arrives i·α_r + α_p + nβ after the start; the sender is busy for b·α_r. A blocking send returns with the
/// arrival of the last. The bandwidths of different messages are not shared.
///
/// Source: equations 4.4 to 4.6 of "Larger-scale collectives" (2020), section 4.3; β and γ as in its equation 4.3. Table
/// 4.1 there has both α's as functions of the message's size, so each may be a table here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plb {
    /// α_p: the part of the latency that overlaps with other messages (default 880 ns, table 4.1 for 8 bytes).
    pub alpha_p: BySize,
    /// α_r: the part for which the sender is busy (default 380 ns, as above).
    pub alpha_r: BySize,
    /// β: time a byte, which does not occupy the sender (default 0).
    pub beta: PerByte,
    /// γ: time to reduce a byte (default 0).
    pub gamma: PerByte,
}

impl Default for Plb {
    fn default() -> Plb {
        Plb {
            alpha_p: Time::from_ns(880).into(),
            alpha_r: Time::from_ns(380).into(),
            beta: PerByte::ZERO,
            gamma: PerByte::ZERO,
        }
    }
}

impl Plb {
    /// For how long one message of `bytes` bytes keeps its sender busy: α_r.
    pub fn send_busy(&self, bytes: u64) -> Time {
        self.alpha_r.of(bytes)
    }

    /// From the moment when the sender is free again to the arrival: α_p + nβ.
    pub fn flight(&self, bytes: u64) -> Time {
        self.alpha_p.of(bytes) + self.beta.of(bytes)
    }

    /// From the start of a send to the arrival, if the sender was free: α_r + α_p + nβ.
    pub fn message(&self, bytes: u64) -> Time {
        self.send_busy(bytes) + self.flight(bytes)
    }

    /// For how long a rank is busy that sends `count` messages of `bytes` bytes without waiting for them: b·α_r
    /// (equation 4.4).
    pub fn burst_busy(&self, count: u64, bytes: u64) -> Time {
        self.send_busy(bytes) * count
    }

    /// A stage in which each rank sends `bytes` bytes to each of `fan_out` ranks, waits for as many, reduces each and
    /// computes for `compute`: α_p + b·α_r + nβ + b·nγ + compute.
    pub fn stage(&self, fan_out: u64, bytes: u64, compute: Time) -> Time {
        self.arrival(fan_out, fan_out, bytes) + self.reduction(bytes) * fan_out + compute
    }

    /// An allreduce by recursive multiplying, whose stages join `factors[0]`, `factors[1]`, … ranks: the sum of the stages
    /// with b = factor - 1 (equation 5.7, for different factors as its section 5.4.1 says).
    pub fn recursive_multiplying(&self, factors: &[u32], bytes: u64, compute: Time) -> Time {
        let stage = |&factor: &u32| self.stage(u64::from(factor).saturating_sub(1), bytes, compute);
        factors.iter().filter(|&&factor| factor > 1).map(stage).sum()
    }
}

/// b_opt, the fan-out with which recursive multiplying is fastest, for a machine with c = α_p / α_r ≥ 0 and messages whose
/// bytes cost nothing; a real number (equation 5.8).
pub fn optimal_fan_out(ratio: f64) -> f64 {
    (lambert_w0((ratio - 1.0) / std::f64::consts::E) + 1.0).exp() - 1.0
}

/// b_upper, the fan-out beyond which recursive multiplying is slower than recursive doubling, for c = α_p / α_r; at least
/// 1, and a real number (equation 5.9).
pub fn largest_useful_fan_out(ratio: f64) -> f64 {
    let ln2 = std::f64::consts::LN_2;
    // Where b = 1 is the best there is, the equation's other root is the one below 1.
    let argument = -ln2 / (ratio + 1.0) * ((ratio - 1.0) / (ratio + 1.0)).exp2();
    let upper = -(ratio + 1.0) / ln2 * lambert_w_minus_1(argument) - 1.0;
    upper.max(1.0)
}

/// α_p + i·α_r + nβ; other messages' bytes don't delay a message.
impl ClosedForms for Plb {
    fn arrival(&self, index: u64, _count: u64, bytes: u64) -> Time {
        self.send_busy(bytes) * index + self.flight(bytes)
    }

    /// α_p + b·α_r + nβ (equation 4.6).
    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        if peers == 0 { Time::ZERO } else { self.arrival(peers, peers, bytes) }
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        (self.message(bytes), Time::ZERO)
    }

    /// nγ.
    fn reduction(&self, bytes: u64) -> Time {
        self.gamma.of(bytes)
    }
}

impl Parameters for Plb {
    const NAME: &'static str = "plb";
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        vec![
            ("alpha_p", Slot::BySize(&mut self.alpha_p)),
            ("alpha_r", Slot::BySize(&mut self.alpha_r)),
            ("beta", Slot::PerByte(&mut self.beta)),
            ("gamma", Slot::PerByte(&mut self.gamma)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    fn thesis_5_6() -> Plb {
        Plb {
            alpha_p: Time::from_ns(500).into(),
            alpha_r: Time::from_ns(100).into(),
            beta: PerByte::new(400, 1),
            gamma: PerByte::ZERO,
        }
    }

    #[test]
    fn pure_factor_schedules_take_what_section_5_6_says() {
        let plb = thesis_5_6();
        let rows = include_str!("../../../../vectors/model/pure-factors.csv");
        let rows = rows.lines().filter(|line| !line.starts_with('#')).skip(1);
        let mut count = 0;
        for row in rows {
            let fields: Vec<&str> = row.split(',').collect();
            let [factors, bytes, compute, end] = fields[..] else { panic!("{row}") };
            let factors: Vec<u32> = factors.split(' ').map(|factor| factor.parse().unwrap()).collect();
            let (compute, end) = (Time::parse(compute).unwrap(), Time::parse(end).unwrap());
            let found = plb.recursive_multiplying(&factors, bytes.parse().unwrap(), compute);
            assert_eq!(found, end, "{row}");
            count += 1;
        }
        assert!(count > 3);
    }

    #[test]
    fn the_messages_of_a_multicast_arrive_one_alpha_r_apart() {
        let plb = Plb::default();
        assert_eq!(plb.multicast(4, 8), Time::from_ns(880 + 4 * 380));
        assert_eq!(plb.arrival(2, 4, 8), Time::from_ns(880 + 2 * 380));
        assert_eq!(plb.burst_busy(4, 8), Time::from_ns(4 * 380));
        assert_eq!(plb.multicast(0, 8), Time::ZERO);
        assert_eq!(plb.ping_pong(8), Time::from_ns(2520));
        // 64 ranks: the vectors of the thesis' schedules say 6.06, 7.56 and 7.08 us.
        assert_eq!(plb.recursive_multiplying(&[4, 4, 4], 8, Time::ZERO), Time::from_ns(6060));
        assert_eq!(plb.recursive_doubling(64, 8, Time::ZERO), Time::from_ns(7560));
        assert_eq!(plb.recursive_multiplying(&[8, 8], 8, Time::ZERO), Time::from_ns(7080));
        // Root, child of the first round, child of that in the second: or the root's second child.
        assert_eq!(plb.broadcast(Tree::BINOMIAL, 4, 8), Time::from_ns(2 * 1260));
    }

    #[test]
    fn reductions_are_paid_a_message() {
        let plb = Plb { gamma: PerByte::from_ns(1), ..thesis_5_6() };
        assert_eq!(plb.stage(3, 10, Time::ZERO), Time::from_ns(500 + 300 + 4 + 30));
    }

    #[test]
    fn the_best_fan_outs_are_the_roots_of_their_equations() {
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-3, "{found}, not {expected}");
        close(optimal_fan_out(0.88 / 0.38), 2.832);
        close(largest_useful_fan_out(0.88 / 0.38), 8.406);
        close(optimal_fan_out(2.911), 3.258);
        close(largest_useful_fan_out(2.911), 11.206);
        for ratio in [0.5, 1.0, 2.0, 5.0, 100.0] {
            let best = optimal_fan_out(ratio);
            close((best + 1.0) * (best + 1.0).ln() - best, ratio);
            let upper = largest_useful_fan_out(ratio);
            let cost = |fan_out: f64| (ratio + fan_out) / (fan_out + 1.0).ln();
            assert!(upper == 1.0 || (cost(upper) - cost(1.0)).abs() < 1e-9 * cost(1.0), "{ratio}: {upper}");
        }
    }
}
