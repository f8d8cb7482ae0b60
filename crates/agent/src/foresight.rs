//! What programs do to each other, asked of whoever has learned that.

use castell_policy::session::Slowdown;
use castell_policy::session::protocol::Predicted;

/// Knows what programs do to each other. Programs are known by the hashes of their files.
pub trait Foresight: Send {
    /// Another number whenever something else is known than before.
    fn version(&self) -> u64;

    /// What the session with this mark was seen to run.
    fn program(&self, mark: &str) -> Option<String>;

    /// A program's class: N, C or S.
    fn class(&self, program: &str) -> Option<String>;

    /// By which factor a program runs longer beside another one, as far as somebody may be kept waiting because of it; none where nothing is known
    /// of the two.
    fn slowdown(&self, program: &str, neighbour: &str) -> Option<Slowdown>;

    /// What is predicted for a program beside all of these, of which some may be unknown; none where nothing is known of any.
    fn predict(&self, program: &str, neighbours: &[Option<&str>]) -> Option<Predicted>;
}
