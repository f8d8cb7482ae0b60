//! Where a value lies along an axis, and what is written beside it.

use super::{Axis, Place, Powers};

/// An axis with its ends.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    powers: Powers,
    unit: String,
    /// Both ends; logarithms where the axis goes by powers.
    low: f64,
    high: f64,
    /// Ticks that somebody has asked for.
    asked: Vec<f64>,
    /// What stands on an axis without numbers.
    pub names: Vec<String>,
}

/// What lies on an axis, beside what it asks for itself.
#[derive(Default)]
pub(super) struct Held<'a> {
    pub places: Vec<&'a Place>,
    pub numbers: Vec<f64>,
    /// Goes on to round numbers, as values do; a line goes from edge to edge.
    pub is_value: bool,
    /// Part of the length that stays free at the end, for numbers beside bars.
    pub room: f64,
}

impl Scale {
    pub fn of(axis: &Axis, held: &Held<'_>) -> Scale {
        let mut names = axis.names.clone();
        for place in &held.places {
            if let Place::Name(name) = place
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        }
        let mut scale = Scale {
            powers: axis.scale,
            unit: axis.unit.clone(),
            low: 0.0,
            high: 1.0,
            asked: axis.ticks.clone(),
            names,
        };
        if scale.has_names() {
            (scale.low, scale.high) = (-0.5, scale.names.len() as f64 - 0.5);
            return scale;
        }
        let numbers = held.places.iter().filter_map(|place| place.number());
        let marked = axis.marks.iter().map(|mark| mark.at).chain(axis.base);
        let asked = axis.from.into_iter().chain(axis.to);
        let outside = |value: &f64| {
            axis.from.is_some_and(|from| *value < from) || axis.to.is_some_and(|to| *value > to)
        };
        let inside =
            numbers.chain(held.numbers.iter().copied()).chain(marked).filter(|value| !outside(value));
        let all = inside.chain(asked).map(|value| scale.along(value)).filter(|value| value.is_finite());
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let (round_low, round_high) = scale.rounded(low, high, held);
        scale.low = if axis.from.is_some() { low } else { round_low };
        scale.high = if axis.to.is_some() { high } else { round_high };
        if scale.high - scale.low < 1e-12 {
            scale.high = scale.low + 1.0;
        }
        scale
    }

    /// Ends a little further out.
    fn rounded(&self, low: f64, high: f64, held: &Held<'_>) -> (f64, f64) {
        let high = high + (high - low) * held.room;
        match self.powers {
            Powers::None if held.is_value => {
                let step = round_step((high - low).max(high.abs() * 1e-9).max(1e-12) / 5.0);
                let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
                (low, if high > low { high } else { low + step })
            }
            Powers::None if high > low => (low, high),
            Powers::None => (low - 0.5, high + 0.5),
            Powers::Two => (low.floor(), high.ceil().max(low.floor() + 1.0)),
            // Whole powers where there are many, else 1, 2 or 5 times one.
            Powers::Ten if high - low > 4.0 => (low.floor(), high.ceil()),
            Powers::Ten => {
                let (low, high) = (below(low), above(high));
                (low, if high > low { high } else { low + 1.0 })
            }
        }
    }

    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    fn along(&self, value: f64) -> f64 {
        match self.powers {
            // Differences of numbers beyond that have none.
            _ if self.has_names() || self.powers == Powers::None => value.clamp(-1e300, 1e300),
            Powers::Two if value > 0.0 => value.log2(),
            Powers::Ten if value > 0.0 => value.log10(),
            // Has no place there.
            _ => f64::NEG_INFINITY,
        }
    }

    fn value(&self, along: f64) -> f64 {
        match self.powers {
            Powers::None => along,
            Powers::Two => along.exp2().min(f64::MAX),
            Powers::Ten => 10f64.powf(along).min(f64::MAX),
        }
    }

    /// How far along the axis a number lies, from 0 to 1; at the edge where it is outside.
    pub fn part(&self, value: f64) -> f64 {
        let along = self.along(value);
        if along.is_nan() {
            0.0
        } else {
            (along.clamp(self.low, self.high) - self.low) / (self.high - self.low)
        }
    }

    /// The same of a number or a name.
    pub fn part_of(&self, place: &Place) -> f64 {
        match place {
            Place::Number(number) => self.part(*number),
            Place::Name(name) => {
                let at = self.names.iter().position(|known| known == name).unwrap_or(0);
                (at as f64 + 0.5) / self.names.len().max(1) as f64
            }
        }
    }

    /// Numbers for grid lines, no more than fit: of `length` pixels a label takes what `taken` says.
    pub fn ticks(&self, length: f64, taken: impl Fn(&str) -> f64) -> Vec<f64> {
        if self.has_names() {
            return Vec::new();
        }
        if !self.asked.is_empty() {
            let inside = |tick: &&f64| (self.low - 1e-9..=self.high + 1e-9).contains(&self.along(**tick));
            return self.asked.iter().filter(inside).copied().collect();
        }
        let mut ticks = Vec::new();
        for most in (2..=10).rev() {
            ticks = self.about(most);
            let widest = ticks.iter().map(|tick| taken(&self.text(*tick))).fold(0.0, f64::max);
            if ticks.len() <= most + 1 && widest * ticks.len() as f64 <= length {
                break;
            }
        }
        ticks
    }

    /// About so many.
    fn about(&self, most: usize) -> Vec<f64> {
        let length = self.high - self.low;
        let step = match self.powers {
            Powers::None => round_step(length / most as f64),
            Powers::Two | Powers::Ten => (length / most as f64).ceil().max(1.0),
        };
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).clamp(0.0, 100.0) as usize;
        let whole = (0..=count).map(|at| (first + at as f64) * step);
        if self.powers != Powers::Ten || length > 2.5 || most < 4 {
            return whole.map(|at| self.value(at)).collect();
        }
        // Where there are few powers, what lies between them is marked as well.
        let powers = self.low.floor() as i32..=self.high.ceil() as i32;
        let between = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10f64.powi(power)));
        let inside = |tick: &f64| (self.low - 1e-9..=self.high + 1e-9).contains(&tick.log10());
        between.filter(inside).collect()
    }

    /// A number on this axis with its unit.
    pub fn text(&self, value: f64) -> String {
        let unit = self.unit.as_str();
        if unit == "bytes" {
            return in_units(value, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
        }
        let Some((_, ns)) = TIMES.into_iter().find(|(name, _)| *name == unit) else {
            return if unit.is_empty() {
                self.bare(value)
            } else {
                format!("{} {unit}", self.plain(value, 1.0))
            };
        };
        // By powers an axis may go from ns to s; else one unit does for all of it.
        let most = if self.powers == Powers::None { self.high.abs().max(self.low.abs()) } else { value };
        let short = TIMES.into_iter().rev().find(|(_, size)| most * ns * (1.0 + 1e-9) >= *size);
        let (unit, size) = short.unwrap_or(TIMES[0]);
        format!("{} {unit}", self.plain(value, ns / size))
    }

    /// A number of this axis in another unit, with as many digits as tell it from its neighbours.
    fn plain(&self, value: f64, factor: f64) -> String {
        let range = (self.high - self.low) * factor;
        if self.powers != Powers::None || !(1e-6..1e9).contains(&range) {
            return plain(value * factor);
        }
        let digits = (2.0 - range.log10().floor()).max(0.0) as usize;
        trimmed(format!("{:.digits$}", value * factor + 0.0))
    }

    /// A measured number or a name with its unit.
    pub fn told(&self, place: &Place) -> String {
        match (place, self.unit.as_str()) {
            (Place::Name(name), _) => name.clone(),
            (Place::Number(number), "bytes") => self.text(*number),
            (Place::Number(number), unit) => format!("{} {unit}", figure(*number)).trim_end().to_owned(),
        }
    }

    fn bare(&self, value: f64) -> String {
        match self.powers {
            Powers::Two if value > 0.0 && value < 1.0 => format!("1/{}", plain(1.0 / value)),
            Powers::Two if value >= 8192.0 => in_units(value, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
            Powers::Ten if !(9e-4..99_999.0).contains(&value) => format!("{value:.0e}"),
            _ => self.plain(value, 1.0),
        }
    }
}

/// Units of time in ns.
const TIMES: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

fn in_units(value: f64, units: &[&str]) -> String {
    let power = (value.abs().max(1.0).log(1024.0) + 1e-9).floor().min(units.len() as f64 - 1.0);
    format!("{} {}", plain(value / 1024f64.powf(power)), units[power as usize]).trim_end().to_owned()
}

/// Of 1, 2 and 5 times a power of ten the last one up to here, and the first one from here on; as logarithms.
fn below(log: f64) -> f64 {
    let power = (log + 1e-9).floor();
    let times = [5f64, 2.0, 1.0].map(|times| power + times.log10());
    times.into_iter().find(|round| *round <= log + 1e-9).unwrap_or(power)
}

fn above(log: f64) -> f64 {
    let power = (log - 1e-9).floor();
    let times = [1f64, 2.0, 5.0, 10.0].map(|times| power + times.log10());
    times.into_iter().find(|round| *round >= log - 1e-9).unwrap_or(power + 1.0)
}

/// 1, 2 or 5 times a power of ten, not below `step`.
pub(in crate::svg) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|round| *round >= step)
        .unwrap_or(power)
}

/// Up to three digits behind the point.
pub(in crate::svg) fn short(value: f64) -> String {
    trimmed(format!("{value:.3}"))
}

fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number,
    }
}

/// As [`short`], also of what is so small or so large that this would not do.
fn plain(value: f64) -> String {
    match value.abs() {
        size if size > 0.0 && size < 1e-3 || size >= 1e9 => format!("{value:.1e}").replace(".0e", "e"),
        _ => short(value + 0.0),
    }
}

/// A measured number: four digits, no more than two of them behind the point where one stands before it.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => trimmed(format!("{value:.1}")),
        size if size >= 1.0 => trimmed(format!("{value:.2}")),
        size if size >= 1e-3 => trimmed(format!("{value:.*}", (2.0 - size.log10().floor()) as usize)),
        0.0 => "0".to_owned(),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(powers: Powers, unit: &str, numbers: &[f64]) -> Scale {
        let axis = Axis { scale: powers, unit: unit.to_owned(), ..Axis::default() };
        Scale::of(&axis, &Held { numbers: numbers.to_vec(), is_value: true, ..Held::default() })
    }

    fn labels(scale: &Scale) -> Vec<String> {
        let ticks = scale.ticks(200.0, |text| text.len() as f64 * 6.0);
        ticks.into_iter().map(|tick| scale.text(tick)).collect()
    }

    #[test]
    fn powers_of_ten_lie_evenly_and_few_are_subdivided() {
        let wide = scale(Powers::Ten, "", &[0.002, 300.0]);
        assert_eq!((wide.low, wide.high), (-3.0, 3.0));
        assert!((wide.part(1.0) - 0.5).abs() < 1e-12 && wide.part(0.0) == 0.0);
        assert_eq!(labels(&scale(Powers::Ten, "", &[3.0, 70.0])), ["2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&scale(Powers::Ten, "", &[10.0])).len(), 4, "a value alone has a scale, too");
        assert_eq!(labels(&scale(Powers::Ten, "ns", &[10.0, 1e4])).last().map(String::as_str), Some("10 µs"));
    }

    #[test]
    fn powers_of_two_are_named_as_people_say_them() {
        assert_eq!(labels(&scale(Powers::Two, "", &[0.25, 2.0])), ["1/4", "1/2", "1", "2"]);
        assert_eq!(labels(&scale(Powers::Two, "", &[8192.0, 16384.0])), ["8 Ki", "16 Ki"]);
        assert_eq!(labels(&scale(Powers::Two, "bytes", &[512.0, 2048.0])), ["512 B", "1 KiB", "2 KiB"]);
    }

    #[test]
    fn values_go_on_to_round_numbers() {
        assert_eq!(
            labels(&scale(Powers::None, "%", &[0.0, 93.0])),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
        );
        assert_eq!(
            labels(&scale(Powers::None, "s", &[0.0, 0.0019])),
            ["0 ms", "0.5 ms", "1 ms", "1.5 ms", "2 ms"]
        );
        assert_eq!(labels(&scale(Powers::None, "", &[1.0, 1.0003])), ["1", "1.0001", "1.0002", "1.0003"]);
        let asked = Axis { from: Some(2.0), to: Some(14.0), ..Axis::default() };
        let asked = Scale::of(&asked, &Held { numbers: vec![1.0, 99.0], is_value: true, ..Held::default() });
        assert_eq!((asked.part(2.0), asked.part(99.0)), (0.0, 1.0));
    }

    #[test]
    fn numbers_have_four_digits_or_fewer() {
        let shown = [0.0, 0.01234, 0.5, 1.0 / 3.0, 12.345, 123.45, 12345.6, -2.5, 1e-7].map(figure);
        assert_eq!(shown, ["0", "0.0123", "0.5", "0.333", "12.35", "123.5", "12346", "-2.5", "1.0e-7"]);
    }
}
