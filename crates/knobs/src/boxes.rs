//! Quartiles of what was measured, by a knob's value.

use crate::space::{Knob, Setting};

/// Five numbers of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// The least.
    pub least: f64,
    /// A quarter lies below it.
    pub lower: f64,
    /// Half of them do.
    pub median: f64,
    /// Three quarters do.
    pub upper: f64,
    /// The greatest.
    pub most: f64,
    /// How many there are.
    pub count: usize,
}

impl Quartiles {
    /// Of some values, if there are any; between two of them, in proportion.
    pub fn of(values: &[f64]) -> Option<Quartiles> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |part: f64| {
            let place = part * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let [least, lower, median, upper, most] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        Some(Quartiles { least, lower, median, upper, most, count: sorted.len() })
    }
}

/// What was measured at parts of a knob's range, one beside the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Boxes {
    /// From which value to which, and what was measured there.
    pub parts: Vec<(i64, i64, Option<Quartiles>)>,
}

impl Boxes {
    /// Of the knob at this place of the settings, in so many parts at most: each has as many of its values as the others, or nearly.
    pub fn of(knob: &Knob, place: usize, measured: &[(Setting, Option<f64>)], parts: u64) -> Boxes {
        let count = knob.count();
        let parts = parts.clamp(1, count);
        let edge = |part: u64| (u128::from(count) * u128::from(part) / u128::from(parts)) as u64;
        let part = |part: u64| {
            let (first, last) = (knob.value(edge(part)), knob.value(edge(part + 1) - 1));
            let is_here = |setting: &Setting| (first..=last).contains(&setting[place]);
            let values = measured.iter().filter(|(setting, _)| is_here(setting));
            let values: Vec<f64> = values.filter_map(|(_, value)| *value).collect();
            (first, last, Quartiles::of(&values))
        };
        Boxes { parts: (0..parts).map(part).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_values_in_proportion() {
        let found = Quartiles::of(&[4.0, 1.0, 3.0, 2.0]).expect("four values");
        let expected = Quartiles { least: 1.0, lower: 1.75, median: 2.5, upper: 3.25, most: 4.0, count: 4 };
        assert_eq!(found, expected);
        assert_eq!(Quartiles::of(&[f64::NAN]), None);
    }

    #[test]
    fn each_measurement_lies_in_one_part() {
        let knob = Knob::parse("a=1..10:2").expect("six values");
        let measured: Vec<(Setting, Option<f64>)> =
            (0..knob.count()).map(|number| (vec![0, knob.value(number)], Some(number as f64))).collect();
        for parts in 1..9 {
            let boxes = Boxes::of(&knob, 1, &measured, parts);
            let counts = boxes.parts.iter().map(|(_, _, found)| found.expect("some").count);
            assert_eq!(counts.sum::<usize>(), 6, "{parts}: {boxes:?}");
            assert_eq!(boxes.parts.len() as u64, parts.min(6));
        }
    }
}
