//! Parameters by name: what lets every model be read and printed by the same few functions.

use crate::{ByCount, BySize, ModelError};
use castell_base::{PerByte, Time};

/// A struct of parameters that have names.
pub(crate) trait Parameters: Default {
    /// The model's name in texts.
    const NAME: &'static str;
    /// Its parameters by their symbols, in the order in which they are printed.
    fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)>;
}

/// A parameter's place.
pub(crate) enum Slot<'a> {
    Time(&'a mut Time),
    PerByte(&'a mut PerByte),
    BySize(&'a mut BySize),
    ByCount(&'a mut ByCount),
    Count(&'a mut u64),
}

impl Slot<'_> {
    fn set(&mut self, text: &str) -> Result<(), String> {
        match self {
            Slot::Time(time) => **time = Time::parse(text).map_err(|error| error.to_string())?,
            Slot::PerByte(per_byte) => {
                **per_byte = PerByte::parse(text).map_err(|error| error.to_string())?;
            }
            Slot::BySize(by_size) => **by_size = BySize::parse(text)?,
            Slot::ByCount(by_count) => **by_count = ByCount::parse(text)?,
            Slot::Count(count) => {
                **count = text.parse().map_err(|_| format!("expected a whole number, found `{text}`"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn print(&self) -> String {
        match self {
            Slot::Time(time) => time.to_string(),
            Slot::PerByte(per_byte) => per_byte.to_string(),
            Slot::BySize(by_size) => by_size.to_string(),
            Slot::ByCount(by_count) => by_count.to_string(),
            Slot::Count(count) => count.to_string(),
        }
    }
}

/// Reads `key=value,key=value`; what is not named keeps its default.
pub(crate) fn parse<P: Parameters>(list: &str) -> Result<P, ModelError> {
    let mut parameters = P::default();
    let mut seen = Vec::new();
    for item in split_outside_parentheses(list) {
        let Some((key, value)) = item.split_once('=') else {
            let example = print(P::default());
            return Err(ModelError::Syntax { model: P::NAME, found: item.trim().to_owned(), example });
        };
        let key = key.trim();
        if seen.contains(&key) {
            return Err(ModelError::Twice { model: P::NAME, key: key.to_owned() });
        }
        set(&mut parameters, key, value.trim())?;
        seen.push(key);
    }
    Ok(parameters)
}

/// Sets one parameter.
pub(crate) fn set<P: Parameters>(parameters: &mut P, key: &str, value: &str) -> Result<(), ModelError> {
    let mut slots = parameters.slots();
    let Some((_, slot)) = slots.iter_mut().find(|(name, _)| *name == key) else {
        let known = slots.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(ModelError::UnknownParameter { model: P::NAME, key: key.to_owned(), known });
    };
    let wrong = |reason| ModelError::Value { model: P::NAME, key: key.to_owned(), reason };
    slot.set(value).map_err(wrong)
}

/// Prints the name and every parameter.
pub(crate) fn print<P: Parameters>(mut parameters: P) -> String {
    let slots = parameters.slots();
    let list: Vec<String> = slots.iter().map(|(key, slot)| format!("{key}={}", slot.print())).collect();
    format!("{}:{}", P::NAME, list.join(","))
}

/// The parts between the commas that stand in no parentheses; none if there is nothing but white space.
pub(crate) fn split_outside_parentheses(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0u32, 0, Vec::new());
    if list.trim().is_empty() {
        return parts;
    }
    for (at, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}
