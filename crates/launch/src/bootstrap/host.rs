//! A group that the program has already, told by functions of its own: its rank, how many there are, and an exchange of bytes.
//!
//! Fences of the key-value space become exchanges, so the steps are those of `README.md`; in front of them stands one exchange in
//! which the ranks see that they mean the same group.

use super::exchange::{self, Brings};
use super::keyvalue::KeyValueSpace;
use super::membership::{BootstrapError, Membership};
use super::{alone, net_of_environment};
use castell_base::Rank;
use castell_shm::job::{JobOptions, Net};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// What a program that has a group already lends to [`join_by`]: MPI's rank, size and allgather, for example.
///
/// All of it is called by the thread that joins, and only while it does.
pub trait HostFunctions {
    /// This process's rank.
    fn rank(&self) -> Rank;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Fills `all` with the `mine` of every rank, in the order of ranks. All ranks call it with a `mine` of the same length.
    ///
    /// # Errors
    /// It failed, for this reason. The others may wait for this rank then: what becomes of them is the program's matter.
    fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), String>;

    /// A number that the ranks of this process's host have in common, and those of no other host. `None`: the kernels'
    /// ids tell the hosts apart. Called before the first exchange; may exchange itself.
    ///
    /// # Errors
    /// It could not be found out, for this reason.
    fn host(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }

    /// Whether [`NET_VARIABLE`](super::NET_VARIABLE) says what carries messages; else shared memory does, and TCP between hosts. Rank 0's
    /// answer counts.
    fn asks_environment(&self) -> bool {
        true
    }
}

/// Forms the group whose ranks call this, with the functions of the program: no launcher is asked.
///
/// `create` makes a segment; it is called in one rank of each host only. Either all ranks succeed or all fail, unless
/// the exchange fails in some of them only.
///
/// # Errors
/// The ranks don't agree on who they are; the exchange failed; there is no memory.
pub fn join_by<'a, E: std::fmt::Display>(
    functions: &'a mut dyn HostFunctions,
    create: impl FnOnce(&JobOptions) -> Result<OwnedFd, E>,
) -> Result<Membership<'a>, BootstrapError> {
    let create = |options: &JobOptions| create(options).map_err(|error| error.to_string());
    let (rank, ranks) = (functions.rank(), functions.ranks());
    if rank.0 >= ranks {
        let why = format!("rank {rank} is not one of {ranks} ranks");
        return Err(BootstrapError::HostFunction { function: "rank and size", why });
    }
    let asks = functions.asks_environment();
    let net = move || if asks { net_of_environment() } else { Ok(Net::default()) };
    if ranks == 1 {
        return alone(net, create);
    }
    let greeting = Greeting::of(functions);
    let all = gather(functions, &greeting.to_bytes())?;
    compare(&greeting, &all).map_err(BootstrapError::Group)?;
    let brings = Brings { host: greeting.host.unwrap_or_default(), net, create };
    let space = Space { functions, put: Vec::new(), values: HashMap::new() };
    exchange::form(space, brings, |mut space| space.finish())
}

/// What each rank tells first. Both sides are builds of this library, so the first word also has its version.
#[derive(Debug)]
struct Greeting {
    rank: u32,
    ranks: u32,
    host: Result<Option<u64>, String>,
}

const GREETING_BYTES: usize = 32;

impl Greeting {
    fn of(functions: &mut dyn HostFunctions) -> Greeting {
        let host = functions.host();
        Greeting { rank: functions.rank().0, ranks: functions.ranks(), host }
    }

    fn to_bytes(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&version());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ranks.to_le_bytes());
        let (kind, host) = match self.host {
            Ok(None) => (0u64, 0),
            Ok(Some(host)) => (1, host),
            Err(_) => (2, 0),
        };
        bytes[16..24].copy_from_slice(&kind.to_le_bytes());
        bytes[24..].copy_from_slice(&host.to_le_bytes());
        bytes
    }
}

/// Eight bytes by which builds of different versions differ.
fn version() -> [u8; 8] {
    let mut bytes = *b"castell\0";
    let text = env!("CARGO_PKG_VERSION").bytes();
    bytes[7] = text.fold(0u8, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte));
    bytes
}

/// Whether the greetings, one rank's behind the other's, are those of one group. All ranks come to the same result.
fn compare(own: &Greeting, all: &[u8]) -> Result<(), String> {
    let greetings: Vec<&[u8]> = all.chunks_exact(GREETING_BYTES).collect();
    let first = greetings[0];
    for (rank, greeting) in (0u32..).zip(&greetings) {
        if greeting[..8] != version() {
            return Err(format!("rank {rank} runs another version of castell than rank {}", own.rank));
        }
        if greeting[8..12] != rank.to_le_bytes() {
            let said = u32::from_le_bytes(greeting[8..12].try_into().expect("four bytes"));
            return Err(format!(
                "the exchange put what rank {said} gave into the place of rank {rank}: it has to keep the order of ranks"
            ));
        }
        if greeting[12..16] != first[12..16] {
            return Err(format!("rank {rank} says that there is another number of ranks than rank 0 says"));
        }
        if greeting[16] == 2 {
            let why = own.host.as_ref().err().filter(|_| own.rank == rank);
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            return Err(format!("rank {rank} could not tell on which host it is{why}"));
        }
    }
    Ok(())
}

/// What every rank has, in the order of ranks.
fn gather(functions: &mut dyn HostFunctions, mine: &[u8]) -> Result<Vec<u8>, BootstrapError> {
    let mut all = vec![0; mine.len() * functions.ranks() as usize];
    functions
        .allgather(mine, &mut all)
        .map_err(|why| BootstrapError::HostFunction { function: "exchange (allgather)", why })?;
    Ok(all)
}

/// The key-value space over exchanges.
struct Space<'a> {
    functions: &'a mut dyn HostFunctions,
    /// Key, `=`, value and a zero for each that was put since the last fence.
    put: Vec<u8>,
    values: HashMap<(u32, String), String>,
}

/// What one rank may say in a fence. Bytes.
const FENCE_BYTES_MAX: usize = 64 * 1024;

impl KeyValueSpace for Space<'_> {
    fn rank(&self) -> Rank {
        self.functions.rank()
    }

    fn ranks(&self) -> u32 {
        self.functions.ranks()
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        self.put.extend(format!("{key}={value}\0").bytes());
        Ok(())
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        let mine = std::mem::take(&mut self.put);
        let lengths = gather(self.functions, &(mine.len() as u64).to_le_bytes())?;
        let lengths =
            lengths.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
        let longest = usize::try_from(lengths.max().unwrap_or(0)).unwrap_or(usize::MAX);
        if longest > FENCE_BYTES_MAX {
            return Err(self.garbled(format!("a length of {longest} bytes")));
        }
        if longest == 0 {
            return Ok(());
        }
        let mut padded = mine;
        padded.resize(longest, 0);
        let all = gather(self.functions, &padded)?;
        for (rank, said) in (0..).zip(all.chunks_exact(longest)) {
            for item in said.split(|byte| *byte == 0).filter(|item| !item.is_empty()) {
                let text = String::from_utf8_lossy(item);
                let Some((key, value)) = text.split_once('=') else {
                    return Err(self.garbled(text.into_owned()));
                };
                self.values.insert((rank, key.into()), value.into());
            }
        }
        Ok(())
    }

    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
        let value = self.values.get(&(from.0, key.to_owned())).cloned();
        value.ok_or_else(|| self.garbled(format!("nothing of rank {from} where `{key}` was expected")))
    }

    fn value_bytes_max(&self) -> usize {
        4096
    }

    fn finish(&mut self) -> Result<(), BootstrapError> {
        Ok(())
    }
}

impl Space<'_> {
    fn garbled(&self, found: String) -> BootstrapError {
        let why =
            format!("it brought {found}: every rank has to get every rank's bytes, in the order of ranks");
        BootstrapError::HostFunction { function: "exchange (allgather)", why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_shm::job::Job;
    use std::sync::{Arc, Barrier, Mutex};

    /// A program whose ranks are threads; `spoil` may change what an exchange brings to a rank.
    #[derive(Clone)]
    struct Threads {
        rank: u32,
        ranks: u32,
        host: Result<Option<u64>, String>,
        board: Arc<Mutex<Vec<u8>>>,
        barrier: Arc<Barrier>,
        spoil: fn(u32, &mut [u8]) -> Result<(), String>,
        exchanges: u32,
    }

    impl HostFunctions for Threads {
        fn rank(&self) -> Rank {
            Rank(self.rank)
        }
        fn ranks(&self) -> u32 {
            self.ranks
        }
        fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), String> {
            self.board.lock().expect("a board").resize(all.len(), 0);
            self.barrier.wait();
            let start = mine.len() * self.rank as usize;
            self.board.lock().expect("a board")[start..start + mine.len()].copy_from_slice(mine);
            self.barrier.wait();
            all.copy_from_slice(&self.board.lock().expect("a board"));
            self.barrier.wait();
            self.exchanges += 1;
            (self.spoil)(self.exchanges, all)
        }
        fn host(&mut self) -> Result<Option<u64>, String> {
            self.host.clone()
        }
    }

    type Host = fn(u32) -> Result<Option<u64>, String>;
    type Spoil = fn(u32, &mut [u8]) -> Result<(), String>;

    fn group(ranks: u32, host: Host, spoil: Spoil) -> Vec<Result<Seen, String>> {
        let (board, barrier) = (Arc::default(), Arc::new(Barrier::new(ranks as usize)));
        let start = |rank| {
            let (board, barrier) = (Arc::clone(&board), Arc::clone(&barrier));
            let mut functions =
                Threads { rank, ranks, host: host(rank), board, barrier, spoil, exchanges: 0 };
            std::thread::spawn(move || {
                let member = join_by(&mut functions, segment).map_err(|error| error.to_string())?;
                let job = Job::attach(member.segment).expect("a job");
                if let Some(introduction) = member.introduction {
                    job.publish_net_address(member.rank, &[1, 2, 3]);
                    introduction.meet(Ok(&job)).map_err(|error| error.to_string())?;
                }
                Ok((member.rank, (0..ranks).map(|rank| job.host_of(Rank(rank))).collect()))
            })
        };
        let threads: Vec<_> = (0..ranks).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    }

    fn segment(options: &JobOptions) -> Result<OwnedFd, String> {
        let job = Job::create(options).map_err(|error| error.to_string())?;
        job.fd().try_clone_to_owned().map_err(|error| error.to_string())
    }

    /// The hosts of all ranks, as a rank sees them.
    type Seen = (Rank, Vec<u32>);

    #[test]
    fn all_ranks_share_one_segment() {
        let hosts: [Host; 2] = [|_| Ok(None), |_| Ok(Some(7))];
        for (ranks, host) in [(1, hosts[0]), (2, hosts[1]), (5, hosts[0])] {
            for (rank, member) in (0..).map(Rank).zip(group(ranks, host, |_, _| Ok(()))) {
                assert_eq!(member, Ok((rank, vec![0; ranks as usize])));
            }
        }
    }

    #[test]
    fn the_program_may_say_who_is_on_which_host() {
        for member in group(4, |rank| Ok(Some(u64::from(rank % 2))), |_, _| Ok(())) {
            assert_eq!(member.expect("a group").1, [1, 2, 1, 2]);
        }
        let unknown: Host = |rank| if rank == 1 { Err("no name".into()) } else { Ok(None) };
        for (rank, member) in group(2, unknown, |_, _| Ok(())).into_iter().enumerate() {
            let error = member.expect_err("rank 1 does not know");
            assert!(error.contains("rank 1 could not tell"), "{error}");
            assert_eq!(error.contains("no name"), rank == 1, "{error}");
        }
    }

    #[test]
    fn exchanges_that_do_not_keep_the_order_are_seen() {
        let swapped: Spoil = |_, all| {
            let half = all.len() / 2;
            all.rotate_left(half);
            Ok(())
        };
        let garbled: Spoil = |exchange, all| {
            if exchange > 1 {
                all.fill(255);
            }
            Ok(())
        };
        let broken: Spoil = |exchange, _| if exchange == 3 { Err("a cable".into()) } else { Ok(()) };
        for (spoil, expected) in [(swapped, "order of ranks"), (garbled, "it brought"), (broken, "a cable")] {
            for member in group(2, |_| Ok(None), spoil) {
                let error = member.expect_err(expected);
                assert!(error.contains(expected), "{error}");
            }
        }
    }

    #[test]
    fn a_rank_outside_the_group_is_refused() {
        let (board, barrier) = (Arc::default(), Arc::new(Barrier::new(1)));
        let mut functions =
            Threads { rank: 3, ranks: 3, host: Ok(None), board, barrier, spoil: |_, _| Ok(()), exchanges: 0 };
        let error = join_by(&mut functions, segment).expect_err("three ranks").to_string();
        assert!(error.contains("rank 3 is not one of 3 ranks"), "{error}");
    }
}
