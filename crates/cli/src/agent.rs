//! `castell agent`: what `castell launch --hosts` starts on each host.

use castell_comm::hosts;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// An agent of a job on several hosts; `castell launch --hosts` starts it and describes the job on its standard input
#[derive(clap::Args)]
pub struct Args {}

/// Carries the command out.
pub fn run() -> anyhow::Result<ExitCode> {
    // Without a buffer: what follows the description is rank 0's.
    let mut input = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    Ok(ExitCode::from(hosts::serve(&mut input) as u8))
}
