//! Runs several programs in one allocation, each a session: an agent keeps the state and decides, and a runner around each program
//! waits, starts, suspends, moves and continues it. On several nodes, a keeper on each does the same to what the program starts there.
//!
//! What it refuses to do: decide (that is `policy`'s scheduler), or speak another language than `policy`'s protocol. Start at [`run`],
//! which is around a program, and [`serve`], which is the agent: `agent` hears who says what, `sessions` does what follows from it, in the
//! order that `orders` keeps, and what the next agent needs goes into a `store`: an agent may be killed at any moment. [`Tree`] are the processes of a session, also those that left its process group or terminal.
#![forbid(unsafe_code)]

mod agent;
mod allocation;
mod between;
mod clients;
mod connection;
mod environment;
mod error;
mod foresight;
mod guard;
mod hear;
mod keeper;
mod keepers;
mod listen;
mod machine;
mod news;
mod orders;
mod place;
mod relay;
mod runner;
mod serve;
mod sessions;
mod spawned;
mod store;
mod tree;
mod workers;

pub use allocation::{Allocation, here};
pub use between::until_found;
pub use connection::{list, steer};
pub use environment::{HOSTS, PROGRAM, REMOTE, SOCKET};
pub use error::AgentError;
pub use foresight::Foresight;
pub use guard::guard;
pub use keeper::keep;
pub use news::{Life, Marks, Stills, Watcher};
pub use place::Place;
pub use relay::relay;
pub use runner::{Asked, run};
pub use serve::{Options, serve};
pub use spawned::{Granted, ask, become_member, watch};
pub use store::Store;
pub use tree::{MARK, NO_MARK, Tree, mark_of, named_in};
