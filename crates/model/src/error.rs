//! What can be wrong with a model.

/// Why a text is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No model has this name.
    #[error("unknown model `{found}`: expected one of {known}")]
    UnknownModel {
        /// The name.
        found: String,
        /// The names there are.
        known: String,
    },
    /// The model has no such parameter.
    #[error("{model} has no parameter `{key}`: expected one of {known}")]
    UnknownParameter {
        /// The model's name.
        model: &'static str,
        /// The parameter.
        key: String,
        /// The parameters there are.
        known: String,
    },
    /// A parameter is given more than once.
    #[error("{model}: `{key}` is given twice")]
    Twice {
        /// The model's name.
        model: &'static str,
        /// The parameter.
        key: String,
    },
    /// Something else than `key=value` stands in the list of parameters.
    #[error("{model}: expected `parameter=value`, found `{found}`; an example: {example}")]
    Syntax {
        /// The model's name.
        model: &'static str,
        /// What stands there.
        found: String,
        /// The model with its default values.
        example: String,
    },
    /// A parameter's value is not what it should be.
    #[error("{model}: {key}: {reason}")]
    Value {
        /// The model's name.
        model: &'static str,
        /// The parameter.
        key: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// A file is not TOML, or not a model's.
    #[error("not a model in TOML: {0}")]
    Toml(String),
}
