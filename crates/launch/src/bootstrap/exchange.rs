//! How the ranks of a foreign launcher come to share one segment a host, and find those of other hosts; the steps are in `README.md`.

use super::handover::{Offer, Owner};
use super::keyvalue::{KeyValueSpace, get_long, put_long, quote, unquote};
use super::layout::{Layout, from_hex, to_hex};
use super::membership::{BootstrapError, Introduction, Membership};
use super::sealed::{Opener, seal};
use super::whereabouts::Whereabouts;
use castell_base::Rank;
use castell_host::secret::Secret;
use castell_shm::job::{Job, JobOptions, NET_ADDRESS_BYTES_MAX, Net, draw_secret};
use std::os::fd::{AsFd, OwnedFd};

const WHEREABOUTS: &str = "where";
const LAYOUT: &str = "layout";
/// What a rank's secret is sealed to, if it is to make its host's segment.
const KEY: &str = "key";
/// With a host's number: the job's secret, for the rank that makes the segment there.
const SEALED: &str = "sealed";
const OWNER: &str = "owner";
const OUTCOME: &str = "outcome";
const VERDICT: &str = "verdict";
const ADDRESS: &str = "address";
const INTRODUCED: &str = "introduced";
/// What stands before an error's text where a value was expected.
const FAILED: char = '%';
const FINE: &str = "fine";
/// Fine, but this rank and the one that made its segment don't see each other's processes by number.
const UNSEEN: &str = "unseen";

/// What a process brings along.
pub(super) struct Brings<N, C> {
    /// What the program says of its host.
    pub host: Option<u64>,
    /// What is to carry messages; rank 0's counts.
    pub net: N,
    /// Makes a segment; called in one rank of each host.
    pub create: C,
}

/// Forms the group over `space`, and takes leave of it. All ranks succeed, or all fail with the same reason. Where they are on several
/// hosts, leave is taken when they have been introduced to each other ([`Introduction`]).
pub(super) fn form<'a, S, N, C>(
    mut space: S,
    brings: Brings<N, C>,
    take_leave: impl FnOnce(S) -> Result<(), BootstrapError> + 'a,
) -> Result<Membership<'a>, BootstrapError>
where
    S: KeyValueSpace + 'a,
    N: FnOnce() -> Result<Net, String>,
    C: FnOnce(&JobOptions) -> Result<OwnedFd, String>,
{
    let rank = space.rank();
    let formed = match agree(&mut space, brings) {
        Ok(formed) => formed,
        // Where the service itself failed, the others may wait for us for ever. Ending without taking leave makes the launcher end them.
        Err(error @ BootstrapError::Group(_)) => {
            take_leave(space)?;
            return Err(error);
        }
        Err(error) => return Err(error),
    };
    let Formed { segment, processes_visible, layout } = formed;
    let introduction = if layout.has_hosts() {
        Some(Introduction::new(move |joined| match introduce(&mut space, &layout, joined) {
            Err(error @ BootstrapError::Group(_)) => take_leave(space).and(Err(error)),
            Err(error) => Err(error),
            Ok(()) => take_leave(space),
        }))
    } else {
        take_leave(space)?;
        None
    };
    Ok(Membership { rank, segment, is_supervised: false, processes_visible, introduction })
}

/// What all ranks have agreed on.
struct Formed {
    segment: OwnedFd,
    processes_visible: bool,
    layout: Layout,
}

fn agree<S, N, C>(space: &mut S, brings: Brings<N, C>) -> Result<Formed, BootstrapError>
where
    S: KeyValueSpace,
    N: FnOnce() -> Result<Net, String>,
    C: FnOnce(&JobOptions) -> Result<OwnedFd, String>,
{
    let me = space.rank();
    put(space, WHEREABOUTS, Ok(Whereabouts::of_this_process(brings.host).to_text()))?;
    let opener = Opener::new();
    put(space, KEY, opener.as_ref().map(|opener| to_hex(opener.public_key())))?;
    space.fence()?;
    let mut drawn = None;
    if me == Rank(0) {
        let layout = (brings.net)().and_then(|net| Ok((net, collect_whereabouts(space)?)));
        let layout = layout.and_then(|(net, all)| Layout::of(&all, net));
        let layout = layout.and_then(|layout| {
            drawn = hand_out_secret(space, &layout)?;
            Ok(layout)
        });
        let text =
            layout.map_or_else(|error| format!("{FAILED}{}", quote(&error)), |layout| layout.to_text());
        put_long(space, LAYOUT, &text)?;
    }
    space.fence()?;
    let text = decode(&get_long(space, Rank(0), LAYOUT)?).map_err(BootstrapError::Group)?;
    let layout = Layout::from_text(&text, space.ranks());
    let layout =
        layout.ok_or_else(|| BootstrapError::Group(format!("rank 0 told `{text}`, which makes no sense")))?;
    let secret = match opener {
        Ok(opener) if drawn.is_none() && layout.has_hosts() && layout.leader_of(me) == me => {
            let sealed = from_hex(&space.get(Rank(0), &format!("{SEALED}{}", layout.host_of(me)))?);
            let opened = sealed.and_then(|sealed| opener.open(&sealed));
            opened.map(Some).ok_or_else(|| "rank 0 told no secret of the job's".to_owned())
        }
        _ => Ok(drawn),
    };
    let create = |layout: &Layout| (brings.create)(&layout.options(me, secret?));
    let (segment, verdict) = share(space, &layout, create)?;
    let processes_visible = verdict.map_err(BootstrapError::Group)? == FINE;
    let segment = segment.map_err(BootstrapError::Group)?;
    Ok(Formed { segment, processes_visible, layout })
}

/// Rank 0 draws the job's secret, and seals it to the rank of each other host that makes the segment there. `None`: there is one host.
fn hand_out_secret(space: &mut impl KeyValueSpace, layout: &Layout) -> Result<Option<Secret>, String> {
    if !layout.has_hosts() {
        return Ok(None);
    }
    let text = |error: BootstrapError| error.to_string();
    let secret = draw_secret().map_err(|error| error.to_string())?;
    for (host, leader) in layout.leaders().filter(|(_, leader)| *leader != Rank(0)) {
        let key = decode(&space.get(leader, KEY).map_err(text)?)
            .map_err(|why| format!("rank {leader} on {}: {why}", layout.host_name(leader)))?;
        let sealed = seal(&secret, &from_hex(&key).unwrap_or_default())?;
        put(space, &format!("{SEALED}{host}"), Ok(to_hex(&sealed))).map_err(text)?;
    }
    Ok(Some(secret))
}

/// Where all ranks are.
fn collect_whereabouts(space: &mut impl KeyValueSpace) -> Result<Vec<Whereabouts>, String> {
    let ranks = space.ranks();
    let told = |rank: Rank| {
        let text = space.get(rank, WHEREABOUTS).map_err(|error| error.to_string())?;
        Whereabouts::from_text(&text).ok_or_else(|| {
            format!("rank {rank} told `{text}`, which makes no sense: is it the same version of castell?")
        })
    };
    (0..ranks).map(Rank).map(told).collect()
}

/// A rank's segment, and what became of all of them.
type Shared = (Result<OwnedFd, String>, Result<String, String>);

/// One rank of each host makes its segment, the others open that.
fn share<S: KeyValueSpace>(
    space: &mut S,
    layout: &Layout,
    create: impl FnOnce(&Layout) -> Result<OwnedFd, String>,
) -> Result<Shared, BootstrapError> {
    let (me, leader) = (space.rank(), layout.leader_of(space.rank()));
    let mut offer = None;
    let segment = if me == leader {
        let made = create(layout);
        let offered =
            made.as_ref().map_err(String::clone).and_then(|segment| Offer::start(me, segment.as_fd()));
        put(space, OWNER, offered.as_ref().map(|offer| offer.owner().to_text()))?;
        space.fence()?;
        made.and_then(|segment| {
            offer = Some(offered?);
            Ok((segment, true))
        })
    } else {
        space.fence()?;
        let owner = decode(&space.get(leader, OWNER)?);
        owner.and_then(|owner| Owner::from_text(&owner)).and_then(|owner| owner.open())
    };
    let outcome = segment.as_ref().map(|(_, visible)| if *visible { FINE } else { UNSEEN });
    put(space, OUTCOME, outcome.map(String::from))?;
    space.fence()?;
    drop(offer);
    if me == Rank(0) {
        let verdict = collect(space, layout)?;
        put(space, VERDICT, verdict.as_ref().copied().map(String::from))?;
    }
    space.fence()?;
    let verdict = decode(&space.get(Rank(0), VERDICT)?);
    Ok((segment.map(|(segment, _)| segment), verdict))
}

/// Looks at all outcomes: fine, or unseen if any is, or what failed.
fn collect(
    space: &mut impl KeyValueSpace,
    layout: &Layout,
) -> Result<Result<&'static str, String>, BootstrapError> {
    let told = collect_told(space, layout, OUTCOME)?;
    Ok(told.map(|told| if told.iter().any(|text| text == UNSEEN) { UNSEEN } else { FINE }))
}

/// What all ranks told under a key, or the first failure and how many there are.
fn collect_told(
    space: &mut impl KeyValueSpace,
    layout: &Layout,
    key: &str,
) -> Result<Result<Vec<String>, String>, BootstrapError> {
    let (mut told, mut failures) = (Vec::new(), Vec::new());
    for rank in (0..space.ranks()).map(Rank) {
        match decode(&space.get(rank, key)?) {
            Ok(text) => told.push(text),
            Err(why) => failures.push(format!("rank {rank} on {}: {why}", layout.host_name(rank))),
        }
    }
    Ok(match failures.as_slice() {
        [] => Ok(told),
        [only] => Err(only.clone()),
        [first, others @ ..] => Err(format!("{first} (and {} more ranks have trouble)", others.len())),
    })
}

/// Tells ranks of other hosts where this one listens, and writes into its host's segment where they do. One rank does that for all of a
/// host; whoever sends before waits for it. Where a rank did not join, all fail.
fn introduce(
    space: &mut impl KeyValueSpace,
    layout: &Layout,
    joined: Result<&Job, &BootstrapError>,
) -> Result<(), BootstrapError> {
    let me = space.rank();
    let address = joined.map(|job| to_hex(&job.net_address(me).unwrap_or_default()));
    put(space, ADDRESS, address.map_err(|error| error.to_string()).as_ref().cloned())?;
    space.fence()?;
    if me == Rank(0) {
        let verdict = collect_told(space, layout, ADDRESS)?;
        put(space, INTRODUCED, verdict.as_ref().map(|_| FINE.to_owned()))?;
    }
    space.fence()?;
    decode(&space.get(Rank(0), INTRODUCED)?).map_err(BootstrapError::Group)?;
    let Ok(job) = joined else {
        return Err(BootstrapError::Group(format!("rank 0 did not hear that rank {me} failed")));
    };
    if layout.leader_of(me) != me {
        return Ok(());
    }
    for rank in layout.elsewhere(me) {
        let text = space.get(rank, ADDRESS)?;
        let address = from_hex(&text).filter(|address| (1..=NET_ADDRESS_BYTES_MAX).contains(&address.len()));
        let address = address.ok_or_else(|| {
            BootstrapError::Group(format!("rank {rank} told `{text}`, which is no address to find it at"))
        })?;
        job.publish_net_address(rank, &address);
        job.note_joined_elsewhere(rank);
    }
    job.wake_everybody();
    Ok(())
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
            600
        }
        fn finish(&mut self) -> Result<(), BootstrapError> {
            Ok(())
        }
    }

    /// What a rank says is changed before the others hear it.
    type Spoil = fn(u32, &mut Whereabouts, &mut Owner);

    struct Member {
        rank: Rank,
        is_supervised: bool,
        processes_visible: bool,
        is_introduced: bool,
        job: Job,
    }

    fn group(
        ranks: u32,
        create: fn(&JobOptions) -> Result<OwnedFd, String>,
        spoil: Spoil,
    ) -> Vec<Result<Member, String>> {
        group_without(None, ranks, create, spoil)
    }

    /// Forms a group of threads; where they are on several hosts, each says that it is found at its number, but for one that does not join.
    fn group_without(
        absent: Option<u32>,
        ranks: u32,
        create: fn(&JobOptions) -> Result<OwnedFd, String>,
        spoil: Spoil,
    ) -> Vec<Result<Member, String>> {
        let (values, barrier) = (Arc::default(), Arc::new(Barrier::new(ranks as usize)));
        let start = |rank| {
            let space = Threads { rank, ranks, values: Arc::clone(&values), barrier: Arc::clone(&barrier) };
            std::thread::spawn(move || {
                let space = Spoiler { space, spoil };
                let brings = Brings { host: None, net: || Ok(Net::default()), create };
                let formed = form(space, brings, |mut space| space.finish());
                let Membership { rank, segment, is_supervised, processes_visible, introduction } =
                    formed.map_err(|error| error.to_string())?;
                let (job, is_introduced) = (Job::attach(segment).expect("a job"), introduction.is_some());
                if let Some(introduction) = introduction {
                    job.publish_net_address(rank, &[rank.0 as u8 + 1; 30]);
                    let error = BootstrapError::Group("no such network".into());
                    let joined = if absent == Some(rank.0) { Err(&error) } else { Ok(&job) };
                    introduction.meet(joined).map_err(|error| error.to_string())?;
                }
                Ok(Member { rank, is_supervised, processes_visible, is_introduced, job })
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    }

    struct Spoiler {
        space: Threads,
        spoil: Spoil,
    }

    impl KeyValueSpace for Spoiler {
        fn rank(&self) -> Rank {
            self.space.rank()
        }
        fn ranks(&self) -> u32 {
            self.space.ranks()
        }
        fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
            let mut here = Whereabouts::of_this_process(None);
            let mut owner = Owner::from_text("0,pid,1,1,socket").expect("an owner");
            match key {
                WHEREABOUTS => here = Whereabouts::from_text(value).expect("it is one"),
                OWNER if !value.starts_with(FAILED) => owner = Owner::from_text(value).expect("it is one"),
                _ => return self.space.put(key, value),
            }
            (self.spoil)(self.space.rank, &mut here, &mut owner);
            self.space.put(key, &if key == OWNER { owner.to_text() } else { here.to_text() })
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

    fn segment(options: &JobOptions) -> Result<OwnedFd, String> {
        let job = Job::create(options).map_err(|error| error.to_string())?;
        job.fd().try_clone_to_owned().map_err(|error| error.to_string())
    }

    #[test]
    fn all_ranks_share_one_segment() {
        for ranks in [1, 2, 5] {
            let members = group(ranks, segment, |_, _, _| ());
            let members: Vec<_> = members.into_iter().map(|member| member.expect("a group")).collect();
            members[0].job.publish_net_address(Rank(0), &[7]);
            for (rank, member) in (0..).map(Rank).zip(&members) {
                assert_eq!((member.rank, member.is_supervised), (rank, false));
                assert!(member.processes_visible && !member.is_introduced);
                assert_eq!(member.job.ranks(), ranks);
                assert_eq!(member.job.net_address(Rank(0)).as_deref(), Some(&[7][..]));
            }
        }
    }

    #[test]
    fn the_socket_serves_where_proc_does_not() {
        let spoil: Spoil = |rank, here, owner| {
            here.pid_namespace = format!("pid:[{rank}]");
            owner.pid_namespace = "pid:[elsewhere]".into();
        };
        for member in group(3, segment, spoil) {
            let member = member.expect("a group");
            assert!(!member.processes_visible);
            assert_eq!(member.job.ranks(), 3);
        }
    }

    #[test]
    fn each_host_has_a_segment_and_all_are_introduced() {
        let spoil: Spoil = |rank, here, _| {
            here.boot = format!("boot {}", rank % 2);
            here.host = format!("h{}", rank % 2);
            here.processors = 4;
        };
        let members: Vec<_> = group(5, segment, spoil).into_iter().map(|one| one.expect("a group")).collect();
        for Member { job, is_introduced, .. } in &members {
            assert!(*is_introduced && job.is_networked() && job.processors() == 8);
            let hosts: Vec<u32> = (0..5).map(|other| job.host_of(Rank(other))).collect();
            assert_eq!(hosts, [1, 2, 1, 2, 1]);
            assert_eq!(job.host_name(Rank(3)).as_deref(), Some("h1"));
            assert_eq!(job.secret(), members[0].job.secret());
            for rank in (0..5).map(Rank) {
                assert_eq!(job.net_address(rank).as_deref(), Some(&[rank.0 as u8 + 1; 30][..]));
            }
        }
        members[0].job.publish_net_address(Rank(0), &[99]);
        let found: Vec<u8> =
            members.iter().map(|member| member.job.net_address(Rank(0)).expect("it has one")[0]).collect();
        assert_eq!(found, [99, 1, 99, 1, 99], "two segments");
    }

    #[test]
    fn all_hear_of_a_rank_that_does_not_join() {
        let two_hosts: Spoil = |rank, here, _| here.boot = format!("boot {}", rank % 2);
        for absent in 0..5 {
            for member in group_without(Some(absent), 5, segment, two_hosts) {
                let error = member.err().expect("one is not there");
                assert!(error.contains(&format!("rank {absent} on ")), "{error}");
                assert!(error.contains("no such network"), "{error}");
            }
        }
    }

    #[test]
    fn all_fail_together() {
        for member in group(2, |_| Err("no memory = none; \"really\"".into()), |_, _, _| ()) {
            let error = member.err().expect("no segment");
            assert!(
                error.contains("rank 0 on ") && error.contains("no memory = none; \"really\""),
                "{error}"
            );
        }
        let spoil: Spoil = |_, _, owner| {
            owner.pid_namespace = "elsewhere".into();
            owner.socket = "castell-nobody-listens".into();
        };
        for member in group(3, segment, spoil) {
            let error = member.err().expect("no way");
            assert!(error.contains("rank 1") && error.contains("/proc"), "{error}");
            assert!(error.contains("1 more ranks"), "{error}");
        }
        let spoil: Spoil = |rank, here, _| here.version = format!("1.0.{rank}");
        for member in group(2, segment, spoil) {
            assert!(member.err().expect("other versions").contains("rank 1 (on"));
        }
    }
}
