//! Distributions in a model's text.

use super::{Combination, Distribution, Noise, NoisyModel, Parameter, Variation};
use crate::parameters::{Slot, split_outside_parentheses};
use crate::{Model, ModelError};
use castell_base::{PerByte, Time};

type Files<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// Names of the distributions with their arguments.
const DISTRIBUTIONS: [(&str, &str); 7] = [
    ("normal", "MEAN,DEVIATION"),
    ("lognormal", "MEAN,DEVIATION"),
    ("exponential", "MEAN"),
    ("gamma", "MEAN,DEVIATION"),
    ("uniform", "LOW,HIGH"),
    ("pareto", "MINIMUM,SHAPE"),
    ("sample", "VALUE,VALUE,… or FILE or FILE,UNIT"),
];

/// What the numbers in a distribution are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    PerByte,
    Factor,
}

pub(super) fn parse(text: &str, files: &mut Files) -> Result<NoisyModel, ModelError> {
    let (name, list) = text.split_once(':').unwrap_or((text, ""));
    let (mut constants, mut random) = (Vec::new(), Vec::new());
    for item in split_outside_parentheses(list) {
        let parts = item.split_once('=').and_then(|(key, value)| Some((key.trim(), distribution_in(value)?)));
        match parts {
            Some((key, parts)) => random.push((key, parts)),
            None => constants.push(item.trim().to_owned()),
        }
    }
    // What is drawn altogether needs a value to stand there until then; wrong keys and doubles are found in passing.
    let placeholder =
        |(key, parts): &(&str, Parts)| (*key != "compute").then(|| format!("{key}={}", parts.base));
    let bases = random.iter().filter_map(placeholder);
    let list: Vec<String> = constants.into_iter().chain(bases).collect();
    let colon = if list.is_empty() { "" } else { ":" };
    let mut model = Model::parse(&format!("{name}{colon}{}", list.join(",")))?;
    let mut noise = Noise::default();
    for (key, parts) in random {
        let wrong = |reason| ModelError::Value { model: model.name(), key: key.to_owned(), reason };
        let variation = if key == "compute" {
            compute(&parts, noise.varies(Parameter::Compute), files).map_err(wrong)?
        } else {
            let name = model.name();
            let mut slots = model.slots();
            let (_, slot) =
                slots.iter_mut().find(|(name, _)| *name == key).expect("the model knows its keys");
            vary(&parts, slot, files).map_err(|reason| ModelError::Value {
                model: name,
                key: key.to_owned(),
                reason,
            })?
        };
        if let (Some(parameter), Some(variation)) = (Parameter::of(key), variation) {
            noise.variations[parameter as usize] = Some(Box::new(variation));
        }
    }
    Ok(NoisyModel { model, noise })
}

/// A value with a distribution in it.
struct Parts<'a> {
    combination: Combination,
    base: &'a str,
    name: &'a str,
    arguments: Vec<&'a str>,
}

/// Takes `normal(…)`, `BASE+normal(…)` or `BASE*normal(…)` apart; nothing if it is none of these.
fn distribution_in(value: &str) -> Option<Parts<'_>> {
    let value = value.trim();
    let inside = value.strip_suffix(')')?;
    // A base may have parentheses of its own: the distribution is after the last plus or times outside all of them.
    let mut depth = 0u32;
    let mut joint = None;
    for (at, character) in inside.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '+' | '*' if depth == 0 => joint = Some((at, character)),
            _ => {}
        }
    }
    let (combination, base, call) = match joint {
        Some((at, '+')) => (Combination::Plus, value[..at].trim(), &inside[at + 1..]),
        Some((at, _)) => (Combination::Times, value[..at].trim(), &inside[at + 1..]),
        None => (Combination::Instead, "0ns", inside),
    };
    let (name, arguments) = call.split_once('(')?;
    let name = name.trim();
    if name == "table" && joint.is_none() {
        return None;
    }
    Some(Parts { combination, base, name, arguments: split_outside_parentheses(arguments) })
}

fn compute(parts: &Parts, again: bool, files: &mut Files) -> Result<Option<Variation>, String> {
    if again {
        return Err("it is given twice".to_owned());
    }
    if parts.combination != Combination::Instead {
        return Err("expected a factor such as normal(1,0.05), without anything before it".to_owned());
    }
    let (distribution, text) = distribution(parts, Kind::Factor, files)?;
    let constant = distribution.constant() == Some(1.0);
    Ok((!constant).then_some(Variation { combination: Combination::Times, distribution, text }))
}

/// Puts what does not vary into the slot; nothing is left of a distribution with one value.
fn vary(parts: &Parts, slot: &mut Slot, files: &mut Files) -> Result<Option<Variation>, String> {
    let kind = match (parts.combination, &slot) {
        (_, Slot::Count(_)) => return Err("a whole number cannot vary".to_owned()),
        (Combination::Times, _) => Kind::Factor,
        (_, Slot::PerByte(_)) => Kind::PerByte,
        _ => Kind::Time,
    };
    let (distribution, text) = distribution(parts, kind, files)?;
    let combination = parts.combination;
    let variation = Variation { combination, distribution, text };
    let constant = variation.distribution.constant();
    // A factor of 1 changes nothing, not even by rounding.
    if combination == Combination::Times && constant == Some(1.0) {
        return Ok(None);
    }
    let value = match (combination, constant) {
        (_, Some(value)) => value,
        (Combination::Instead, None) => variation.distribution.mean(),
        _ => return Ok(Some(variation)),
    };
    let time = |base: Time| match combination {
        // Exact, where the sum of two doubles might not be.
        Combination::Plus => base + Time::from_ps_f64(value),
        _ => Time::from_ps_f64(variation.combine(base.0 as f64, value)),
    };
    match slot {
        Slot::Time(base) => **base = time(**base),
        Slot::PerByte(base) => {
            **base = exact_per_byte(parts, **base, variation.combine(base.as_ps_f64(), value))
        }
        Slot::BySize(base) => **base = base.map(time),
        Slot::ByCount(base) => **base = base.map(time),
        Slot::Count(_) => {}
    }
    Ok(constant.is_none().then_some(variation))
}

/// A time a byte that does not vary is the fraction that was written, not its double.
fn exact_per_byte(parts: &Parts, base: PerByte, otherwise_ps: f64) -> PerByte {
    let written = parts.arguments.first().and_then(|argument| PerByte::parse(argument).ok());
    match (parts.combination, written) {
        (Combination::Instead, Some(written)) if parts.name != "sample" && parts.name != "exponential" => {
            written
        }
        (Combination::Plus, Some(written)) if base == PerByte::ZERO && parts.name != "exponential" => written,
        (Combination::Plus, _) if otherwise_ps == base.as_ps_f64() => base,
        _ => PerByte::from_ps_f64(otherwise_ps),
    }
}

/// The distribution, and how it is written.
fn distribution(parts: &Parts, kind: Kind, files: &mut Files) -> Result<(Distribution, String), String> {
    let Some((name, usage)) = DISTRIBUTIONS.iter().find(|(name, _)| *name == parts.name) else {
        let known: Vec<&str> = DISTRIBUTIONS.iter().map(|(name, _)| *name).collect();
        return Err(format!("unknown distribution `{}`: expected one of {}", parts.name, known.join(", ")));
    };
    if *name == "sample" {
        return sample(parts, kind, files);
    }
    let shapes = |index: usize| *name == "pareto" && index == 1;
    let values: Vec<(f64, String)> = parts
        .arguments
        .iter()
        .enumerate()
        .map(|(index, argument)| number(argument, if shapes(index) { Kind::Factor } else { kind }))
        .collect::<Result<_, String>>()?;
    let numbers: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    let distribution = match (*name, &numbers[..]) {
        ("normal", &[mean, deviation]) => Distribution::Normal { mean, deviation },
        ("lognormal", &[mean, deviation]) => Distribution::Lognormal { mean, deviation },
        ("exponential", &[mean]) => Distribution::Exponential { mean },
        ("gamma", &[mean, deviation]) => Distribution::Gamma { mean, deviation },
        ("uniform", &[low, high]) => Distribution::Uniform { low, high },
        ("pareto", &[minimum, shape]) => Distribution::Pareto { minimum, shape },
        _ => return Err(format!("expected {name}({usage}), found {} arguments", numbers.len())),
    };
    match distribution {
        Distribution::Lognormal { mean, .. } | Distribution::Gamma { mean, .. } if mean == 0.0 => {
            Err(format!("{name} needs a mean above 0"))
        }
        Distribution::Uniform { low, high } if low > high => {
            Err("uniform needs its smaller value first".to_owned())
        }
        Distribution::Pareto { minimum, shape } if minimum == 0.0 || shape <= 1.0 => {
            Err("pareto needs a minimum above 0 and a shape above 1, so that it has a mean".to_owned())
        }
        distribution => {
            let texts: Vec<&str> = values.iter().map(|(_, text)| text.as_str()).collect();
            Ok((distribution, format!("{name}({})", texts.join(","))))
        }
    }
}

/// A number with the unit that its kind has, and how it is written.
fn number(text: &str, kind: Kind) -> Result<(f64, String), String> {
    let text = text.trim();
    match kind {
        Kind::Time => {
            let time = Time::parse(text).map_err(|error| error.to_string())?;
            Ok((time.0 as f64, time.to_string()))
        }
        Kind::PerByte => {
            let per_byte = PerByte::parse(text).map_err(|error| error.to_string())?;
            Ok((per_byte.as_ps_f64(), per_byte.to_string()))
        }
        Kind::Factor => {
            let wrong = || format!("expected a number such as 0.1, found `{text}`");
            let value: f64 = text.parse().map_err(|_| wrong())?;
            let valid = value.is_finite() && value >= 0.0;
            valid.then(|| (value, value.to_string())).ok_or_else(wrong)
        }
    }
}

fn sample(parts: &Parts, kind: Kind, files: &mut Files) -> Result<(Distribution, String), String> {
    let listed: Result<Vec<(f64, String)>, String> =
        parts.arguments.iter().map(|argument| number(argument, kind)).collect();
    let (values, text) = match (listed, &parts.arguments[..]) {
        (Ok(listed), arguments) if !arguments.is_empty() => {
            let texts: Vec<String> = listed.iter().map(|(_, text)| text.clone()).collect();
            (listed.into_iter().map(|(value, _)| value).collect(), texts.join(","))
        }
        (_, &[file]) => (from_file(file.trim(), "", kind, files)?, file.trim().to_owned()),
        (_, &[file, unit]) if number(&format!("1{}", unit.trim()), kind).is_ok() => {
            let (file, unit) = (file.trim(), unit.trim());
            (from_file(file, unit, kind, files)?, format!("{file},{unit}"))
        }
        (Err(problem), _) => return Err(problem),
        (Ok(_), _) => return Err("sample needs values, or the name of a file".to_owned()),
    };
    if values.is_empty() {
        return Err(format!("sample({text}): there are no values"));
    }
    Ok((Distribution::Sample(values.into()), format!("sample({text})")))
}

/// Values between white space and commas; lines that start with `#` say nothing.
fn from_file(name: &str, unit: &str, kind: Kind, files: &mut Files) -> Result<Vec<f64>, String> {
    let text = files(name)?;
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with('#'));
    let separators = |c: char| c.is_whitespace() || c == ',';
    let values = lines.flat_map(|(line, number)| line.split(separators).map(move |value| (value, number)));
    let value = |(value, line): (&str, u32)| {
        let found = number(&format!("{value}{unit}"), kind);
        found.map(|(value, _)| value).map_err(|error| format!("{name}, line {line}: {error}"))
    };
    values.filter(|(value, _)| !value.is_empty()).map(value).collect()
}
