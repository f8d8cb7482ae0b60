//! `castell bench`: measures this machine, castell beside its peers, in interleaved rounds.
//!
//! A [`Workload`](workload::Workload) lists its cases (message sizes, say) and its subjects: castell first, then plain code where
//! that is the yardstick. MPI implementations found on the machine join with the program of the same name below `benches/mpi/`.
//! Every subject measures a case once a round, A B A B …, so that a machine that slows down slows down all of them; the
//! figures are the median of the rounds' medians and the minimum of their minima.
//!
//! It prints what it measures and judges nothing: `castell tune` chooses by what is measured here. Start at [`run`];
//! [`measure`] has what is timed inside a group of ranks.

pub mod bar;
pub mod collectives;
mod command;
mod folder;
mod group;
mod joined;
pub mod levels;
mod localops;
pub mod measure;
mod messages;
mod mpi;
pub mod multicasts;
mod net;
mod omp;
mod overlap;
mod parse;
pub mod peers;
mod pingpong;
mod plain;
mod progress;
mod queues;
pub mod report;
mod sim;
mod sockets;
mod startup;
mod tasks;
pub mod workload;

pub use command::{Args, run};
pub use group::Interrupted;
pub use plain::find_program;
