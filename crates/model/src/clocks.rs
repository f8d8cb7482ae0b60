//! What another machine's clock says in terms of one's own, from questions that were answered with its time.
//!
//! A question leaves at `sent_ns`, is answered with the other clock's time `theirs_ns`, and the answer is back at `back_ns`, both on one's own
//! clock. Whatever the two ways took, the other clock said `theirs_ns` in between: each round trip is a gate that the map from their times to
//! one's own goes through. Short round trips are narrow gates. For clocks that drift evenly the map is a straight line, and all lines that pass
//! through all gates are a convex polygon of offsets and drifts (Duda, Harrus, Haddad, Bernard, "Estimating global time in distributed systems",
//! 1987). [`ClockMap`] is the middle of that polygon, and its error the distance to the farthest line in it: a bound, whichever of the two ways
//! was the slow one.
//!
//! Clocks that are being steered may leave no line. Then the gates are widened until there is one, and the error is what it misses the farther
//! posts by.

/// Clocks do not gain or lose more against each other: quartz keeps within 200 ppm, and time daemons steer by 500 ppm.
pub const DRIFT_MAX: f64 = 1e-3;

/// Stamps are whole nanoseconds: each may be one off.
const STAMP_NS: f64 = 1.0;

/// A question and its answer. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the question left, on one's own clock.
    pub sent_ns: u64,
    /// What the other clock said.
    pub theirs_ns: u64,
    /// When the answer was there, on one's own clock.
    pub back_ns: u64,
}

impl RoundTrip {
    /// How long it took.
    pub fn took_ns(&self) -> u64 {
        self.back_ns.saturating_sub(self.sent_ns)
    }
}

/// Another clock's times as one's own.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockMap {
    /// Their time from which the others count.
    theirs_ns: u64,
    /// One's own at that time, as far as whole numbers go.
    own_ns: u64,
    /// Nanoseconds that the lines count their slopes in.
    span_ns: f64,
    /// The map.
    line: Line,
    /// Where the true one may be.
    corners: Vec<Line>,
    /// Errors are not less.
    misfit_ns: f64,
}

/// What is added to a time: nanoseconds at the beginning, and what that grows by over the span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    at_first: f64,
    over_span: f64,
}

impl Line {
    fn at(self, part: f64) -> f64 {
        self.at_first + part * self.over_span
    }
}

/// The lines have to be between `low` and `high` there.
#[derive(Clone, Copy)]
struct Gate {
    /// In parts of the span.
    at: f64,
    low: f64,
    high: f64,
}

impl ClockMap {
    /// A clock that is one's own.
    pub fn same() -> ClockMap {
        let line = Line::default();
        ClockMap { theirs_ns: 0, own_ns: 0, span_ns: 1.0, line, corners: vec![line], misfit_ns: 0.0 }
    }

    /// What round trips tell; `None` without any. Those whose answer is back before the question left say nothing.
    pub fn of(round_trips: &[RoundTrip]) -> Option<ClockMap> {
        let trips = || round_trips.iter().filter(|trip| trip.back_ns >= trip.sent_ns);
        let narrowest = trips().min_by_key(|trip| trip.took_ns())?;
        let theirs_ns = trips().map(|trip| trip.theirs_ns).min()?;
        let last_ns = trips().map(|trip| trip.theirs_ns).max()?;
        let span_ns = ((last_ns - theirs_ns) as f64).max(1.0);
        // What is left are small numbers, that fractions can be taken of.
        let own_ns = narrowest.sent_ns.wrapping_sub(narrowest.theirs_ns - theirs_ns);
        let gates: Vec<Gate> = trips()
            .map(|trip| {
                let since_ns = trip.theirs_ns - theirs_ns;
                let off = |own: u64| own.wrapping_sub(own_ns).wrapping_sub(since_ns) as i64 as f64;
                let (low, high) = (off(trip.sent_ns) - STAMP_NS, off(trip.back_ns) + STAMP_NS);
                Gate { at: since_ns as f64 / span_ns, low, high }
            })
            .collect();
        let mut wider_ns = 0.0;
        let corners = loop {
            let corners = lines_through(&gates, wider_ns, DRIFT_MAX * span_ns);
            if !corners.is_empty() {
                break corners;
            }
            wider_ns = if wider_ns == 0.0 { 1.0 } else { wider_ns * 1.25 };
        };
        let count = corners.len() as f64;
        let mean = |of: fn(&Line) -> f64| corners.iter().map(of).sum::<f64>() / count;
        let line = Line { at_first: mean(|line| line.at_first), over_span: mean(|line| line.over_span) };
        let missed = |gate: &Gate| (gate.high - line.at(gate.at)).max(line.at(gate.at) - gate.low);
        let misfit_ns = if wider_ns == 0.0 { 0.0 } else { gates.iter().map(missed).fold(0.0, f64::max) };
        Some(ClockMap { theirs_ns, own_ns, span_ns, line, corners, misfit_ns })
    }

    fn part(&self, theirs_ns: u64) -> f64 {
        theirs_ns.wrapping_sub(self.theirs_ns) as i64 as f64 / self.span_ns
    }

    /// One's own time when the other clock says this.
    pub fn to_own(&self, theirs_ns: u64) -> u64 {
        let since_ns = theirs_ns.wrapping_sub(self.theirs_ns);
        let more = self.line.at(self.part(theirs_ns)).round() as i64;
        self.own_ns.wrapping_add(since_ns).wrapping_add_signed(more)
    }

    /// How far off that may be, nanoseconds.
    pub fn error_ns(&self, theirs_ns: u64) -> f64 {
        let part = self.part(theirs_ns);
        let off = |corner: &Line| (corner.at(part) - self.line.at(part)).abs();
        // And rounding.
        self.corners.iter().map(off).fold(self.misfit_ns, f64::max) + if self.is_same() { 0.0 } else { 1.0 }
    }

    /// How far the other clock is ahead of one's own, when it says this. Nanoseconds.
    pub fn ahead_ns(&self, theirs_ns: u64) -> i64 {
        theirs_ns.wrapping_sub(self.to_own(theirs_ns)) as i64
    }

    /// How much faster the other clock goes: 1e-6 gains a microsecond a second.
    pub fn drift(&self) -> f64 {
        -self.line.over_span / self.span_ns
    }

    /// How far off that may be.
    pub fn drift_error(&self) -> f64 {
        let off = |corner: &Line| (corner.over_span - self.line.over_span).abs();
        self.corners.iter().map(off).fold(0.0, f64::max) / self.span_ns
    }

    /// Whether the two clocks went evenly against each other, as far as was seen.
    pub fn is_even(&self) -> bool {
        self.misfit_ns == 0.0
    }

    fn is_same(&self) -> bool {
        self.corners == [Line::default()]
    }
}

/// The corners of the polygon of lines that pass all gates, each wider by so much to both sides; none where no line does.
fn lines_through(gates: &[Gate], wider_ns: f64, over_span_max: f64) -> Vec<Line> {
    let far = gates.iter().map(|gate| gate.low.abs().max(gate.high.abs())).fold(0.0, f64::max);
    let far = far + wider_ns + over_span_max;
    let corner = |at_first, over_span| Line { at_first, over_span };
    let mut polygon = vec![
        corner(-far, -over_span_max),
        corner(far, -over_span_max),
        corner(far, over_span_max),
        corner(-far, over_span_max),
    ];
    for gate in gates {
        polygon = cut(&polygon, |line| gate.high + wider_ns - line.at(gate.at));
        polygon = cut(&polygon, |line| line.at(gate.at) - (gate.low - wider_ns));
    }
    polygon
}

/// What is left of a convex polygon where `room`, which is linear, is not negative.
fn cut(polygon: &[Line], room: impl Fn(Line) -> f64) -> Vec<Line> {
    let mut left = Vec::with_capacity(polygon.len() + 1);
    for (at, &one) in polygon.iter().enumerate() {
        let next = polygon[(at + 1) % polygon.len()];
        let (here, there) = (room(one), room(next));
        if here >= 0.0 {
            left.push(one);
        }
        if (here > 0.0 && there < 0.0) || (here < 0.0 && there > 0.0) {
            let part = here / (here - there);
            left.push(Line {
                at_first: one.at_first + part * (next.at_first - one.at_first),
                over_span: one.over_span + part * (next.over_span - one.over_span),
            });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;
    use castell_base::random::Philox;
    use rand_core::RngCore;

    struct Random(Philox);

    impl Random {
        fn new(seed: u64) -> Random {
            Random(Philox::new(seed, Rank(0), 0, 0))
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.0.next_u64() % bound
        }

        /// From 0 to 1.
        fn part(&mut self) -> f64 {
            self.below(1 << 40) as f64 / (1u64 << 40) as f64
        }

        /// Long now and then, and not the same there and back.
        fn way_ns(&mut self, least: u64) -> u64 {
            least + (-(1.0 - self.part()).ln() * 20_000.0) as u64
        }
    }

    /// Round trips to a clock that says `theirs` at a time of one's own.
    fn ask(random: &mut Random, count: u64, every_ns: u64, theirs: &dyn Fn(u64) -> u64) -> Vec<RoundTrip> {
        let first_ns = 1 << 44 | random.below(1 << 40);
        let least = [random.below(40_000), random.below(40_000)];
        (0..count)
            .map(|at| {
                let sent_ns = first_ns + at * every_ns + random.below(1000);
                let there_ns = sent_ns + random.way_ns(least[0]);
                RoundTrip {
                    sent_ns,
                    theirs_ns: theirs(there_ns),
                    back_ns: there_ns + random.way_ns(least[1]),
                }
            })
            .collect()
    }

    /// Whatever the ways took: what the map says is right within what it says of its error, between the questions and long after.
    #[test]
    fn even_clocks_are_known_within_the_error() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let ahead = random.below(1 << 44) as i64 - (1 << 43);
            let drift = (random.part() - 0.5) * 4e-4;
            let begins = 1u64 << 44;
            let theirs = |own: u64| {
                let gained = ((own - begins) as f64 * drift).floor() as i64;
                own.wrapping_add_signed(ahead).wrapping_add_signed(gained)
            };
            let (count, every_ns) = (1 + random.below(60), 1 << random.below(31));
            let trips = ask(&mut random, count, every_ns, &theirs);
            let map = ClockMap::of(&trips).expect("there is one");
            assert!(map.is_even(), "seed {seed}");
            // The map divides by what the clock gains: a square less than anything told apart here.
            let off = (map.drift() - drift).abs();
            assert!(off <= map.drift_error() + 1e-7, "seed {seed}: drift {drift}, said {}", map.drift());
            for _ in 0..50 {
                let own = trips[0].sent_ns + random.below(3 * count * every_ns + 1000);
                let (said, error) = (map.to_own(theirs(own)), map.error_ns(theirs(own)));
                // A nanosecond of the other clock's own rounding.
                let off = (said.wrapping_sub(own) as i64 as f64).abs() - 1.0;
                assert!(off <= error, "seed {seed}: {off} ns off, where {error} ns at most were promised");
            }
        }
    }

    /// The error is less than the shortest way there and back, and gets smaller with more questions.
    #[test]
    fn many_questions_tell_more() {
        let mut random = Random::new(7);
        let theirs = |own: u64| own + 4_321_000_000_000;
        let trips = ask(&mut random, 200, 50_000_000, &theirs);
        let all = ClockMap::of(&trips).expect("there is one");
        let middle = trips[100].theirs_ns;
        let shortest = trips.iter().map(RoundTrip::took_ns).min().expect("some");
        assert!(all.error_ns(middle) <= shortest as f64 * 0.75, "{} of {shortest}", all.error_ns(middle));
        let few = ClockMap::of(&trips[..10]).expect("there is one");
        assert!(few.error_ns(middle) > all.error_ns(middle));
        assert!((all.ahead_ns(middle) - 4_321_000_000_000).abs() as f64 <= all.error_ns(middle));
        assert!(all.drift().abs() < 1e-5, "{}", all.drift());
    }

    /// Two answers, each of ten nanoseconds there and back, a second apart; one clock counts from 1970, the other from its start.
    #[test]
    fn two_questions_tell_what_they_took() {
        let ahead_ns = 1_760_000_000_123_456_789;
        for drift_ns in [0, 100_000] {
            let (first_ns, second_ns) = (5_000, 1_000_005_000);
            let trip = |own_ns: u64, gained_ns| RoundTrip {
                sent_ns: own_ns - 5,
                theirs_ns: own_ns + ahead_ns + gained_ns,
                back_ns: own_ns + 5,
            };
            let trips = [trip(second_ns, drift_ns), trip(first_ns, 0)];
            let map = ClockMap::of(&trips).expect("there are two");
            assert_eq!(trips.map(|trip| map.to_own(trip.theirs_ns)), [second_ns, first_ns]);
            let off_ns = 5.0 + STAMP_NS;
            let near = |told: f64, expected: f64| (told / expected - 1.0).abs() < 1e-3;
            for trip in &trips {
                assert!(near(map.error_ns(trip.theirs_ns), off_ns + 1.0), "{}", map.error_ns(trip.theirs_ns));
            }
            assert!(near(map.drift_error(), 2.0 * off_ns / 1e9), "{}", map.drift_error());
            assert!(
                (map.drift() - drift_ns as f64 / 1e9).abs() <= 1e-12 + 1e-4 * map.drift(),
                "{}",
                map.drift()
            );
        }
    }

    /// A clock that is steered back and forth: what is promised at the questions holds.
    #[test]
    fn uneven_clocks_are_said_to_be_so() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let theirs = |own: u64| {
                let seconds = (own & ((1 << 44) - 1)) as f64 * 1e-9;
                own + 1_000_000_000 + ((seconds * 0.7).sin() * 3e5) as u64
            };
            let trips = ask(&mut random, 60, 1_000_000_000, &theirs);
            let map = ClockMap::of(&trips).expect("there is one");
            assert!(!map.is_even(), "seed {seed}");
            for trip in &trips {
                let (said, error) = (map.to_own(trip.theirs_ns), map.error_ns(trip.theirs_ns));
                let worst = said.abs_diff(trip.sent_ns).max(said.abs_diff(trip.back_ns));
                assert!(worst as f64 <= error + 1.0, "seed {seed}: {worst} {error}");
            }
        }
    }

    #[test]
    fn ones_own_clock_and_none() {
        let same = ClockMap::same();
        let found = (same.to_own(77), same.error_ns(1 << 50), same.ahead_ns(5), same.drift());
        assert_eq!(found, (77, 0.0, 0, 0.0));
        assert_eq!(ClockMap::of(&[]), None);
        let nonsense = RoundTrip { sent_ns: 9, theirs_ns: 5, back_ns: 8 };
        assert_eq!(ClockMap::of(&[nonsense]), None);
        let one = ClockMap::of(&[RoundTrip { sent_ns: 100, theirs_ns: 7, back_ns: 200 }]).expect("a gate");
        assert!(one.to_own(7).abs_diff(150) <= 1 && (50.0..55.0).contains(&one.error_ns(7)));
    }
}
