//! A provider that can less, or wants more, than the one below: for tests, since most networks can't be had there.

/// What is hidden of a provider, and what it seems to demand. Demands are checked: whoever breaks one panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// It has no plain messages.
    pub messages: bool,
    /// It has no tagged messages.
    pub tagged: bool,
    /// It cannot access memory of others.
    pub remote_access: bool,
    /// It promises no order.
    pub order: bool,
    /// It has no descriptor to sleep on.
    pub descriptor: bool,
    /// It cannot copy short messages at once.
    pub inject: bool,
    /// It uses the memory behind the context of each operation until that ends.
    pub wants_contexts: bool,
    /// All memory that is sent from, received into or written from has to be registered.
    pub wants_registration: bool,
}
