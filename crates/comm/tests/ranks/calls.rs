//! Every collective call by every algorithm, against a serial oracle.

use crate::group::{group, group_with};
use crate::oracle::every::{all, chosen, sample};
use castell_comm::collective::Reduction;
use castell_comm::job::{JobOptions, Net, OverTcp, Reads};

#[test]
fn one_to_five_ranks() {
    for ranks in 1..=5 {
        group(ranks, |comm| all(comm, &[0, 1, 5], &[0, ranks - 1]));
    }
}

/// The same calls with the same results where messages go over TCP, also longer ones than go at once.
#[test]
fn over_tcp() {
    for ranks in [2, 3, 4] {
        let options = JobOptions { net: Net::Tcp(OverTcp::default()), ..JobOptions::new(ranks) };
        let counts: &[u64] = if ranks == 3 { &[1, 3000] } else { &[0, 5] };
        group_with(&options, |comm| all(comm, counts, &[ranks - 1]));
    }
}

/// The same where some ranks share memory and others don't, in order and scattered, also on one host alone.
#[test]
fn over_memory_and_tcp() {
    for hosts in [&[0, 0, 1][..], &[0, 1, 0, 1], &[5, 2, 2, 7, 2], &[3, 3]] {
        let ranks = hosts.len() as u32;
        let options = JobOptions { hosts: hosts.to_vec(), ..JobOptions::new(ranks) };
        let counts: &[u64] = if ranks == 4 { &[1, 3000] } else { &[5] };
        group_with(&options, |comm| {
            all(comm, counts, &[ranks - 1]);
            // Among those that share memory there is a shorter way.
            let world = comm.world();
            let here = world.split_shared(0).expect("it is made");
            let expected = hosts.iter().filter(|host| **host == hosts[world.rank().index()]).count();
            assert_eq!(here.size() as usize, expected);
            let mut sum = [0u64];
            for _ in 0..100 {
                here.allreduce(&[1u64], &mut sum, Reduction::Sum).expect("it ends well");
                assert_eq!(sum[0] as usize, expected);
            }
        });
    }
}

#[test]
fn six_to_nine_ranks() {
    for ranks in 6..=9 {
        group(ranks, |comm| all(comm, &[1, 11], &[ranks / 2]));
    }
}

#[test]
fn large_blocks() {
    for ranks in [2, 3, 4] {
        group(ranks, |comm| all(comm, &[3000], &[ranks - 1]));
    }
}

/// Calls are chosen, cut and read otherwise where each rank has a processor, as it is said to have here.
#[test]
fn as_if_each_rank_had_a_processor() {
    for ranks in [3, 8] {
        let options = JobOptions { processors: 64, reads: Reads::Always, ..JobOptions::new(ranks) };
        group_with(&options, |comm| {
            chosen(comm, &[1, 20, 100, 500, 3000, 10_000, 66_001]);
            if ranks == 3 {
                chosen(comm, &[180_001]);
            }
            assert_eq!(comm.world().reads_peers(), Some(true));
        });
    }
}

#[test]
fn many_ranks() {
    for ranks in [16, 33] {
        group(ranks, |comm| all(comm, &[2], &[ranks / 3]));
    }
}

/// Every algorithm, on more ranks than anybody has cores for; with `CASTELL_ALL_RANKS=1` on every number of ranks up to there,
/// which takes long where there are few cores.
#[test]
fn up_to_seventy_ranks() {
    let all_ranks = std::env::var_os("CASTELL_ALL_RANKS").is_some();
    for ranks in if all_ranks { 1 } else { 70 }..=70 {
        group(ranks, |comm| sample(comm, 3));
        if all_ranks {
            group(ranks, |comm| all(comm, &[2], &[ranks / 3]));
        }
    }
}
