//! What a description of a scheduler or a machine can get wrong.

/// Why a description was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedError {
    /// A topology that cannot be.
    #[error("topology `{description}`: {reason}; write for instance `numa:2 cpu:24`")]
    Topology {
        /// What was asked for.
        description: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A scheduler's description that cannot be read.
    #[error(
        "scheduler `{description}`: `{part}` {reason}; write for instance `tree:lifo,dynamic,rebalance` or `central:priority`"
    )]
    Options {
        /// What was asked for.
        description: String,
        /// The part that is wrong.
        part: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}
