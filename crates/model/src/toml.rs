//! Models as TOML: a key `model` and a key a parameter.

use crate::{Model, ModelError};
use std::fmt::Write;
use toml::{Table, Value};

impl Model {
    /// Reads a model from TOML. Times are strings, counts are numbers, and a table over sizes (or numbers of messages) is a
    /// table:
    ///
    /// ```
    /// # use castell_model::Model;
    /// let model = Model::from_toml(
    ///     r#"
    ///     model = "plb"
    ///     alpha_p = "880ns"
    ///     alpha_r = { 8 = "380ns", 2048 = "790ns" }
    ///     "#,
    /// )?;
    /// assert_eq!(model, Model::parse("plb:alpha_p=880ns,alpha_r=table(8:380ns,2048:790ns)")?);
    /// # Ok::<(), castell_model::ModelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Text that is not TOML, without `model`, or with values of other types; then those of [`Model::parse`].
    pub fn from_toml(text: &str) -> Result<Model, ModelError> {
        Model::parse(&to_text(text)?)
    }

    /// The model as TOML, with every parameter; [`Model::from_toml`] reads it as the same model.
    pub fn to_toml(&self) -> String {
        let text = self.to_string();
        let (name, list) = text.split_once(':').expect("a printed model has parameters");
        let mut toml = format!("model = \"{name}\"\n");
        for item in crate::parameters::split_outside_parentheses(list) {
            let (key, value) = item.split_once('=').expect("a printed parameter has a value");
            let table = value.strip_prefix("table(").and_then(|rest| rest.strip_suffix(')'));
            let value = match table {
                Some(entries) => {
                    let entries = entries.split(',').filter_map(|entry| entry.split_once(':'));
                    let entries: Vec<String> =
                        entries.map(|(at, time)| format!("{at} = \"{time}\"")).collect();
                    format!("{{ {} }}", entries.join(", "))
                }
                None if value.parse::<i64>().is_ok() => value.to_owned(),
                None => format!("\"{value}\""),
            };
            writeln!(toml, "{key} = {value}").expect("a string takes everything");
        }
        toml
    }
}

/// A model's TOML as the text that says the same.
pub(crate) fn to_text(text: &str) -> Result<String, ModelError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| ModelError::Toml(error.to_string()))?;
    table_to_text(&table)
}

/// The same of a table that has been read.
pub(crate) fn table_to_text(table: &Table) -> Result<String, ModelError> {
    let Some(Value::String(name)) = table.get("model") else {
        return Err(ModelError::Toml("expected a line such as `model = \"plb\"`".to_owned()));
    };
    let parameters = table.iter().filter(|(key, _)| *key != "model");
    let items = parameters.map(|(key, value)| Ok(format!("{key}={}", value_text(key, value)?)));
    let items: Vec<String> = items.collect::<Result<_, ModelError>>()?;
    let colon = if items.is_empty() { "" } else { ":" };
    Ok(format!("{name}{colon}{}", items.join(",")))
}

fn value_text(key: &str, value: &Value) -> Result<String, ModelError> {
    match value {
        // The text's own separators would make other parameters of it.
        Value::String(text) if balanced(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Table(table) => {
            let entry = |(at, time): (&String, &Value)| match time {
                Value::String(time) if !time.contains(['(', ')', ',']) => Ok(format!("{at}:{time}")),
                other => Err(wrong(&format!("{key}.{at}"), other)),
            };
            let entries: Vec<String> = table.iter().map(entry).collect::<Result<_, ModelError>>()?;
            Ok(format!("table({})", entries.join(",")))
        }
        other => Err(wrong(key, other)),
    }
}

/// Commas only in parentheses, each of which is closed.
fn balanced(text: &str) -> bool {
    let mut depth = 0u32;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            ',' if depth == 0 => return false,
            _ => {}
        }
    }
    depth == 0
}

fn wrong(key: &str, found: &Value) -> ModelError {
    ModelError::Toml(format!(
        "{key}: expected a string such as \"880ns\", a whole number, or a table such as {{ 8 = \"380ns\" }}; this is a \
         value of type {}",
        found.type_str()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_reads_as_itself() {
        let plb = Model::parse("plb:alpha_p=table(8:1ns,64:2ns),beta=1ps/3B").unwrap();
        let names = Model::NAMES.iter().map(|name| Model::parse(name).unwrap());
        for model in names.chain([plb]) {
            let toml = model.to_toml();
            assert_eq!(Model::from_toml(&toml).as_ref(), Ok(&model), "{toml}");
        }
        let logp = Model::parse("logp").unwrap().to_toml();
        assert_eq!(logp, "model = \"logp\"\nL = \"2.5us\"\no = \"1.5us\"\ng = \"1us\"\n");
        assert_eq!(Model::from_toml("model = 'lb'"), Model::parse("lb"));
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        for (toml, message) in [
            ("model = ", "not a model in TOML: TOML parse error at line 1"),
            ("L = \"1ns\"", "not a model in TOML: expected a line such as `model = \"plb\"`"),
            ("model = 3", "not a model in TOML: expected a line such as"),
            ("model = 'logp'\nL = 1.5", "not a model in TOML: L: expected a string such as \"880ns\""),
            ("model = 'logp'\nL = 3", "logp: L: expected a time such as 880ns"),
            ("model = 'logp'\nL = '1ns,o=2ns'", "not a model in TOML: L: expected a string"),
            ("model = 'plb'\nalpha_p = { 8 = 3 }", "not a model in TOML: alpha_p.8: expected a string"),
            ("model = 'plb'\nalpha_q = '8ns'", "plb has no parameter `alpha_q`"),
        ] {
            let error = Model::from_toml(toml).unwrap_err().to_string();
            assert!(error.starts_with(message), "{toml}: {error}");
        }
    }
}
