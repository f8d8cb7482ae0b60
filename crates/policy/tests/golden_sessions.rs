//! Random workloads under every policy, beside what was decided about them before: a faster way to decide decides the same.

use castell_base::Rank;
use castell_base::random::Philox;
use castell_policy::session::simulate::{Coefficients, Speed, Summary, run};
use castell_policy::session::workload::{Job, Lublin, Role, Workload};
use castell_policy::session::{Cluster, Level, Request, Rules, SessionId, Shape};
use rand_core::RngCore;

const POLICIES: [&str; 7] =
    ["wait", "surpass", "overbook", "overbook+spread", "sidestep", "sidestep+spread", "give-way"];

/// Everything that a session may ask for, at random: a few hundred sessions, more work than fits.
fn random_workload(seed: u64) -> Workload {
    let mut random = Philox::new(seed, Rank(0), 1, 0);
    let mut below = |end: u64| random.next_u64() % end;
    let (mut submit_ms, mut jobs) = (0, Vec::new());
    for index in 0..300 {
        submit_ms += below(60) * below(20);
        let (longest, most) = (1 << (1 + below(14)), 1 + below(12));
        let run_ms = 1 + below(longest);
        let request = Request {
            threads: if below(4) == 0 { 1 + below(3) as u32 } else { 1 },
            whole: [Level::Thread, Level::Thread, Level::Core, Level::Socket][below(4) as usize],
            memory_bytes: below(2) * below(30),
            per_node_max: (below(5) == 0).then(|| 1 + below(4) as u32),
            priority: (below(6) == 0).into(),
            estimate: (below(4) > 0).then(|| run_ms * (1 + below(8)) / 2),
            with: (index > 0 && below(10) == 0).then(|| SessionId(index - 1 - below(index.min(5)))),
            ..Request::new(1 + below(most) as u32)
        };
        jobs.push(Job { number: index, submit_ms, run_ms, request, role: Role::Other });
    }
    Workload { name: format!("seed {seed}"), jobs, ..Workload::default() }
}

fn fingerprint(workload: &Workload, cluster: &Cluster, rules: &Rules, speed: &str) -> u64 {
    let speed: Speed = speed.parse().expect("a model");
    let outcome = run(workload, cluster, rules, &speed, 0, &mut |_| ());
    Summary::new(workload, cluster, &outcome, &Coefficients::default()).fingerprint
}

fn cluster(nodes: u32, shape: Shape) -> Cluster {
    Cluster::uniform(nodes, shape).expect("a cluster")
}

#[test]
fn decisions_are_those_of_before() {
    let hierarchy = Shape { sockets: 2, cores: 2, threads: 2, memory_bytes: 100 };
    let mut found = Vec::new();
    for policy in POLICIES {
        let rules: Rules = policy.parse().expect("a policy");
        let tight = Rules { overtaken_max: 3, surpassed_max: 2, sharing_max: 2, backfill_depth: 20, ..rules };
        let mut all = [0u64; 3];
        let mut add = |which: usize, one: u64| all[which] = all[which].rotate_left(9) ^ one;
        for seed in 0..6 {
            let workload = random_workload(seed);
            for (rules, speed) in [(rules, "tight"), (tight, "loose,bandwidth=3")] {
                add(0, fingerprint(&workload, &cluster(4, hierarchy), &rules, speed));
                add(0, fingerprint(&workload, &cluster(3, Shape { sockets: 1, ..hierarchy }), &rules, speed));
            }
            let lublin =
                |jobs, load| Lublin { jobs, seed, processors: 64, load: Some(load), ..Lublin::default() };
            for rules in [rules, tight] {
                add(
                    1,
                    fingerprint(&lublin(300, 1.3).workload(), &cluster(64, Shape::flat(1)), &rules, "tight"),
                );
                add(
                    2,
                    fingerprint(&lublin(300, 0.9).workload(), &cluster(5, Shape::flat(14)), &rules, "tight"),
                );
            }
        }
        found.push(format!("{policy} {:016x} {:016x} {:016x}", all[0], all[1], all[2]));
    }
    assert_eq!(found, BEFORE);
}

/// Mixed requests on a hierarchy; Lublin-Feitelson on nodes of one slot, and of several.
const BEFORE: [&str; 7] = [
    "wait a1c24604ab0a2f9f 744bd307595d93e6 55d1b2a693ff6456",
    "surpass 75e704cbe6800401 3c1b1de141636d4c cb8979aaad48ac20",
    "overbook 4027bccb16f6efb2 49e354716c324029 3695003082bfb017",
    "overbook+spread 02938c5d71e4d9bd 33ea8a94aca414b3 3d4bf34eb7ef5306",
    "sidestep 2db7cf1d14247bed 49e354716c324029 ff7e6ae0f2c637a8",
    "sidestep+spread 4d2569e6ffd1fd98 33ea8a94aca414b3 fbfd98db65d0495a",
    "give-way d65693be196ec00a 3dd9a3217082ce15 aa196d5fcb169e10",
];
