//! The strategies that come with castell, ready to decide.

use castell_luau::Script;
use castell_luau::sandbox::Limits;
use castell_luau::shipped::named;

/// One of them.
pub fn shipped(name: &str) -> Script {
    let shipped = named(name).expect("it comes with castell");
    Script::load(name, shipped.text, Limits::default()).expect("it loads")
}
