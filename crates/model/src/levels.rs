//! Models of two levels in one text: between the ranks of a host, and between hosts.

use crate::toml::table_to_text;
use crate::{Model, ModelError};
use std::fmt::Write;
use toml::{Table, Value};

/// Two models, and where they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// What messages between ranks of one host cost.
    pub within: Model,
    /// What messages between hosts cost.
    pub between: Model,
    /// The hosts that were measured, as `a:4,b:4`.
    pub hosts: Option<String>,
}

impl Levels {
    /// Reads both from TOML: a table `within` and a table `between`, each as [`Model::from_toml`] has it, and perhaps `hosts`.
    ///
    /// ```
    /// # use castell_model::Levels;
    /// let levels = Levels::from_toml(
    ///     r#"
    ///     hosts = "a:4,b:4"
    ///     [within]
    ///     model = "plb"
    ///     alpha_p = "400ns"
    ///     [between]
    ///     model = "plb"
    ///     alpha_p = "20us"
    ///     "#,
    /// )?;
    /// assert_eq!(Levels::from_toml(&levels.to_toml())?, levels);
    /// # Ok::<(), castell_model::ModelError>(())
    /// ```
    ///
    /// # Errors
    /// Text that is not TOML, one of the two is missing, or is no model.
    pub fn from_toml(text: &str) -> Result<Levels, ModelError> {
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| ModelError::Toml(error.to_string()))?;
        let model = |name: &str| match table.get(name) {
            Some(Value::Table(table)) => Model::parse(&table_to_text(table)?),
            _ => Err(ModelError::Toml(format!("expected a table [{name}] with a model's parameters"))),
        };
        let hosts = match table.get("hosts") {
            None => None,
            Some(Value::String(hosts)) => Some(hosts.clone()),
            Some(_) => return Err(ModelError::Toml("hosts: expected a text such as \"a:4,b:4\"".into())),
        };
        Ok(Levels { within: model("within")?, between: model("between")?, hosts })
    }

    /// As TOML, with every parameter.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        if let Some(hosts) = &self.hosts {
            let _ = writeln!(text, "hosts = {hosts:?}");
        }
        let _ = writeln!(
            text,
            "\n[within]\n{}\n[between]\n{}",
            self.within.to_toml(),
            self.between.to_toml().trim_end()
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        for (text, told) in [
            ("x", "expected"),
            ("[within]\nmodel = \"plb\"", "table [between]"),
            ("[within]\nmodel = \"plb\"\n[between]\nmodel = \"plp\"", "unknown model `plp`"),
            ("hosts = 3\n[within]\nmodel = \"plb\"\n[between]\nmodel = \"plb\"", "hosts: expected"),
        ] {
            let error = Levels::from_toml(text).expect_err(text).to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn tables_over_sizes_come_back() {
        let within = Model::parse("plb:alpha_p=table(8:880ns,64:890ns),beta=0.4ns").expect("a model");
        let between = Model::parse("loggops:L=30us").expect("a model");
        let levels = Levels { within, between, hosts: None };
        assert_eq!(Levels::from_toml(&levels.to_toml()), Ok(levels));
    }
}
