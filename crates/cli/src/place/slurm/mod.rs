//! `castell place --slurm`: what it would do with the queue of Slurm, and with `--apply` does.
//!
//! The plug-in of `packaging/slurm` marks the jobs that are castell's to place, and has them begin in a minute. Until then this has told
//! them to begin now on a node, or later. So whatever goes wrong here, Slurm starts each job itself soon after.

mod cluster;
mod identify;
mod plan;

use crate::profiles::seconds_now;
use anyhow::Context as _;
use castell_agent::Place;
use castell_prof::binary::Remembered;
use cluster::{Cluster, ask};
use identify::identify;
pub use plan::Question;
use plan::{Knowledge, Plan};
use std::fs::{File, TryLockError};
use std::time::Duration;

/// Between two looks of `--apply`, and how many in a row without anything to do it takes: a job whose submission has started this is in the
/// queue a moment later.
const LOOK: (Duration, u32) = (Duration::from_millis(500), 3);

/// Prints what would be done with the queue as it is.
pub fn show(question: &Question, as_json: bool) -> anyhow::Result<()> {
    let knowledge = Knowledge::read(question)?;
    let cluster = Cluster::now()?;
    let programs = identify(&cluster, knowledge.kept.as_ref(), &mut Remembered::default());
    let plan = Plan::make(&cluster, &programs, question, &knowledge, seconds_now(), false);
    if as_json {
        println!("{:#}", plan.to_json());
    } else {
        print!("{}", plan.text());
    }
    Ok(())
}

/// Does it, until there is nothing more to do. At once if another one is about to look.
pub fn apply(question: &Question) -> anyhow::Result<()> {
    let knowledge = Knowledge::read(question)?;
    let usual = Place::usual()?.socket;
    let lock = |name: &str| {
        let path = usual.with_file_name(name);
        File::create(&path).with_context(|| path.display().to_string())
    };
    let (next, now) = (lock("place-next.lock")?, lock("place-now.lock")?);
    match next.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(()), // it will see whatever we would
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock place-next.lock"),
    }
    now.lock().context("cannot lock place-now.lock")?;
    next.unlock().context("cannot unlock place-next.lock")?;
    let mut remembered = Remembered::of_file(usual.with_file_name("place-binaries.json"));
    let mut idle = 0;
    while idle < LOOK.1 {
        let cluster = Cluster::now()?;
        let programs = identify(&cluster, knowledge.kept.as_ref(), &mut remembered);
        remembered.keep();
        let plan = Plan::make(&cluster, &programs, question, &knowledge, seconds_now(), true);
        let orders = plan.orders();
        for (job, words) in &orders {
            let id = format!("JobId={job}");
            let arguments: Vec<&str> =
                ["update", &id].into_iter().chain(words.iter().map(String::as_str)).collect();
            match ask("scontrol", &arguments) {
                Ok(_) => println!("job {job}: {}", words.join(" ")),
                // It may have ended meanwhile; whatever it is, Slurm starts it itself later.
                Err(error) => eprintln!("castell: job {job} is left to Slurm: {error:#}"),
            }
        }
        idle = if orders.is_empty() { idle + 1 } else { 0 };
        std::thread::sleep(LOOK.0);
    }
    Ok(())
}
