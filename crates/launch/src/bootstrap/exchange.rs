//! How the ranks of a foreign launcher come to share one segment; the steps are in `README.md`.

use super::handover::{Offer, Owner};
use super::keyvalue::{KeyValueSpace, quote, unquote};
use super::membership::BootstrapError;
use super::membership::Membership;
use castell_base::Rank;
use std::os::fd::{AsFd, OwnedFd};

const OWNER: &str = "owner";
const OUTCOME: &str = "outcome";
const VERDICT: &str = "verdict";
/// What stands before an error's text where a value was expected.
const FAILED: char = '%';
const FINE: &str = "fine";
/// Fine, but this rank and rank 0 don't see each other's processes by number.
const UNSEEN: &str = "unseen";

/// Forms the group over `space`, and takes leave of it. All ranks succeed, or all fail with the same reason.
pub(super) fn form<S: KeyValueSpace>(
    mut space: S,
    create: impl FnOnce(u32) -> Result<OwnedFd, String>,
    take_leave: impl FnOnce(S) -> Result<(), BootstrapError>,
) -> Result<Membership, BootstrapError> {
    let formed = agree(&mut space, create);
    // Where the service itself failed, the others may wait for us for ever. Ending without taking leave makes the
    // launcher end them.
    if matches!(formed, Ok(_) | Err(BootstrapError::Group(_))) {
        take_leave(space)?;
    }
    formed
}

fn agree(
    space: &mut impl KeyValueSpace,
    create: impl FnOnce(u32) -> Result<OwnedFd, String>,
) -> Result<Membership, BootstrapError> {
    let (segment, verdict) = if space.rank() == Rank(0) {
        let segment = create(space.ranks());
        let offer = segment.as_ref().map_err(String::clone).and_then(|segment| Offer::start(segment.as_fd()));
        put(space, OWNER, offer.as_ref().map(|offer| offer.owner().to_text()))?;
        space.fence()?;
        space.fence()?;
        let verdict = match offer.map(drop) {
            Ok(()) => collect(space)?,
            Err(error) => Err(format!("rank 0: {error}")),
        };
        put(space, VERDICT, verdict.as_ref().copied().map(String::from))?;
        space.fence()?;
        (segment, verdict.map(String::from))
    } else {
        space.fence()?;
        let opened =
            take(space, OWNER)?.and_then(|owner| Owner::from_text(&owner)).and_then(|owner| owner.open());
        let outcome = opened.as_ref().map(|(_, visible)| if *visible { FINE } else { UNSEEN });
        put(space, OUTCOME, outcome.map(String::from))?;
        space.fence()?;
        space.fence()?;
        let verdict = take(space, VERDICT)?;
        (opened.map(|(segment, _)| segment), verdict)
    };
    let processes_visible = verdict.map_err(BootstrapError::Group)? == FINE;
    let segment = segment.map_err(BootstrapError::Group)?;
    Ok(Membership { rank: space.rank(), segment, is_supervised: false, processes_visible })
}

/// Looks at all outcomes: fine, or unseen if any is, or the first failure and how many there are.
fn collect(space: &mut impl KeyValueSpace) -> Result<Result<&'static str, String>, BootstrapError> {
    let (mut seen, mut failures) = (FINE, Vec::new());
    for rank in (1..space.ranks()).map(Rank) {
        match space.get(rank, OUTCOME)?.as_str() {
            FINE => {}
            UNSEEN => seen = UNSEEN,
            text => failures.push(format!("rank {rank}: {}", decode(text).unwrap_or_else(|error| error))),
        }
    }
    Ok(match failures.as_slice() {
        [] => Ok(seen),
        [only] => Err(only.clone()),
        [first, others @ ..] => Err(format!("{first} (and {} more ranks have trouble)", others.len())),
    })
}

/// Puts a value or an error's text.
fn put(
    space: &mut impl KeyValueSpace,
    key: &str,
    value: Result<String, &String>,
) -> Result<(), BootstrapError> {
    let limit = space.value_bytes_max();
    match value {
        Ok(value) if value.len() >= limit => Err(BootstrapError::TooLong { bytes: value.len(), limit }),
        Ok(value) => space.put(key, &value),
        Err(error) => {
            let mut text = format!("{FAILED}{}", quote(error));
            text.truncate(limit - 1);
            space.put(key, &text)
        }
    }
}

/// Gets from rank 0 what [`put`] put there.
fn take(space: &mut impl KeyValueSpace, key: &str) -> Result<Result<String, String>, BootstrapError> {
    Ok(decode(&space.get(Rank(0), key)?))
}

fn decode(text: &str) -> Result<String, String> {
    match text.strip_prefix(FAILED) {
        Some(error) => Err(unquote(error)),
        None => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};

    /// A key-value space among threads.
    #[derive(Clone)]
    struct Threads {
        rank: u32,
        ranks: u32,
        values: Arc<Mutex<HashMap<String, String>>>,
        barrier: Arc<Barrier>,
    }

    impl KeyValueSpace for Threads {
        fn rank(&self) -> Rank {
            Rank(self.rank)
        }
        fn ranks(&self) -> u32 {
            self.ranks
        }
        fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
            self.values.lock().expect("values").insert(format!("{}.{key}", self.rank), value.into());
            Ok(())
        }
        fn fence(&mut self) -> Result<(), BootstrapError> {
            self.barrier.wait();
            Ok(())
        }
        fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
            Ok(self.values.lock().expect("values")[&format!("{from}.{key}")].clone())
        }
        fn value_bytes_max(&self) -> usize {
            300
        }
        fn finish(&mut self) -> Result<(), BootstrapError> {
            Ok(())
        }
    }

    /// Forms a group of threads; `spoil` may change what rank 0 told about itself.
    fn group(
        ranks: u32,
        create: fn(u32) -> Result<OwnedFd, String>,
        spoil: fn(&mut Owner),
    ) -> Vec<Result<Membership, String>> {
        let (values, barrier) = (Arc::default(), Arc::new(Barrier::new(ranks as usize)));
        let start = |rank| {
            let space = Threads { rank, ranks, values: Arc::clone(&values), barrier: Arc::clone(&barrier) };
            std::thread::spawn(move || {
                let space = Spoiler { space, spoil };
                form(space, create, |mut space| space.finish()).map_err(|error| error.to_string())
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    }

    struct Spoiler {
        space: Threads,
        spoil: fn(&mut Owner),
    }

    impl KeyValueSpace for Spoiler {
        fn rank(&self) -> Rank {
            self.space.rank()
        }
        fn ranks(&self) -> u32 {
            self.space.ranks()
        }
        fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
            let Ok(mut owner) = Owner::from_text(value) else { return self.space.put(key, value) };
            (self.spoil)(&mut owner);
            self.space.put(key, &owner.to_text())
        }
        fn fence(&mut self) -> Result<(), BootstrapError> {
            self.space.fence()
        }
        fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
            self.space.get(from, key)
        }
        fn value_bytes_max(&self) -> usize {
            self.space.value_bytes_max()
        }
        fn finish(&mut self) -> Result<(), BootstrapError> {
            self.space.finish()
        }
    }

    fn segment(ranks: u32) -> Result<OwnedFd, String> {
        let segment =
            castell_host::shm::Segment::create("castell-test", 4096).map_err(|error| error.to_string())?;
        // SAFETY: inside the segment, nobody else has it yet.
        unsafe { segment.as_ptr().write(ranks as u8) };
        segment.fd().try_clone_to_owned().map_err(|error| error.to_string())
    }

    fn content(fd: &OwnedFd) -> u8 {
        let segment =
            castell_host::shm::Segment::from_fd(fd.try_clone().expect("a copy")).expect("a segment");
        // SAFETY: inside the segment; nobody writes any more.
        unsafe { segment.as_ptr().read() }
    }

    #[test]
    fn all_ranks_share_one_segment() {
        for ranks in [1, 2, 5] {
            for (rank, member) in group(ranks, segment, |_| ()).into_iter().enumerate() {
                let member = member.expect("a group");
                assert_eq!((member.rank, member.is_supervised), (Rank(rank as u32), false));
                assert!(member.processes_visible);
                assert_eq!(content(&member.segment), ranks as u8);
            }
        }
    }

    #[test]
    fn the_socket_serves_where_proc_does_not() {
        let spoil = |owner: &mut Owner| owner.pid_namespace = "pid:[elsewhere]".into();
        for member in group(3, segment, spoil) {
            let member = member.expect("a group");
            assert!(!member.processes_visible);
            assert_eq!(content(&member.segment), 3);
        }
    }

    #[test]
    fn all_fail_together() {
        for (rank, member) in group(3, segment, |owner| owner.boot = "another".into()).into_iter().enumerate()
        {
            let error = member.expect_err("two hosts");
            assert!(error.contains("rank 1") && error.contains("only one host"), "rank {rank}: {error}");
            assert!(error.contains("1 more ranks"), "rank {rank}: {error}");
        }
        for member in group(2, |_| Err("no memory = none; \"really\"".into()), |_| ()) {
            let error = member.expect_err("no segment");
            assert!(error.contains("rank 0") || error.contains("no memory = none; \"really\""), "{error}");
        }
        let spoil = |owner: &mut Owner| {
            owner.pid_namespace = "elsewhere".into();
            owner.socket = "castell-nobody-listens".into();
        };
        for member in group(2, segment, spoil) {
            let error = member.expect_err("no way");
            assert!(error.contains("rank 1") && error.contains("/proc"), "{error}");
        }
    }
}
