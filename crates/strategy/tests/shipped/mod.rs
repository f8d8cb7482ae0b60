//! The strategies that come with castell, ready to decide.

use castell_strategy::lua::Script;
use castell_strategy::lua::sandbox::Limits;
use castell_strategy::shipped::named;

/// One of them.
pub fn shipped(name: &str) -> Script {
    let shipped = named(name).expect("it comes with castell");
    Script::load(name, shipped.text, Limits::default()).expect("it loads")
}
