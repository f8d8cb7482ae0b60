//! The strategies that come with castell.

/// A strategy's script.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// What it is called.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The four of the paper, in its order, and one of castell's own.
pub const ALL: [Shipped; 5] = [
    Shipped { name: "short-term", text: include_str!("strategies/short-term.luau") },
    Shipped { name: "long-term", text: include_str!("strategies/long-term.luau") },
    Shipped { name: "banking", text: include_str!("strategies/banking.luau") },
    Shipped { name: "constraint", text: include_str!("strategies/constraint.luau") },
    Shipped { name: "plan-ahead", text: include_str!("strategies/plan-ahead.luau") },
];

/// The one of this name.
pub fn named(name: &str) -> Option<Shipped> {
    ALL.into_iter().find(|shipped| shipped.name == name)
}
