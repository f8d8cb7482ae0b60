//! Where the tree puts tasks and whom it wakes, seen in what it logs.

use castell_sched::tree::Tree;
use castell_sched::{AnyScheduler, Effect, Kind, LeafId, Node, Options, Ready, Topology};
use std::collections::BTreeSet;

/// Three NUMA nodes of two processors each.
fn tree(options: &str) -> Tree<u32> {
    let topology: Topology = "numa:3 cpu:2".parse().expect("a topology");
    assert_eq!((topology.leaves(), topology.numa_of(LeafId(1)), topology.numa_of(LeafId(2))), (6, 0, 1));
    Tree::new(topology, options.parse().expect("options"), 7)
}

fn ready(task: u32, place: Option<usize>) -> Ready<u32> {
    Ready { task, priority: 0, kind: Kind::CPU, place }
}

fn log(tree: &mut Tree<u32>) -> Vec<Effect> {
    tree.drain_log().collect()
}

fn leaf(leaf: u32, tasks: usize) -> Effect {
    Effect::Touched { node: Node::Leaf(LeafId(leaf)), tasks }
}

fn numa(numa: usize, tasks: usize) -> Effect {
    Effect::Touched { node: Node::Numa(numa), tasks }
}

#[test]
fn work_from_outside_wakes_a_leaf_that_waits_and_no_other() {
    let mut tree = tree("tree");
    for waits in 0..6 {
        assert!(tree.get(LeafId(waits)).is_none());
    }
    log(&mut tree);
    for task in 0..6 {
        tree.add(None, ready(task, None));
        let effects = log(&mut tree);
        let Some(&Effect::Woken(woken)) = effects.last() else { panic!("nobody is woken: {effects:?}") };
        assert!(effects.contains(&leaf(woken.0, 1)), "{effects:?}");
        assert_eq!(tree.get(woken).map(|ready| ready.task), Some(task));
        assert!(log(&mut tree).is_empty(), "it lay in the woken leaf's slot");
    }
    // Now all run.
    tree.add(None, ready(6, None));
    assert!(!log(&mut tree).iter().any(|effect| matches!(effect, Effect::Woken(_))));
}

#[test]
fn work_from_outside_goes_straight_to_a_leaf_drawn_from_all() {
    let (mut running, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    let mut busy = tree("tree");
    for task in 0..200 {
        busy.add(None, ready(task, None));
        let effects = log(&mut busy);
        let [Effect::Touched { node: Node::Leaf(leaf), tasks: 1 }] = effects[..] else {
            panic!("{effects:?}")
        };
        running.insert(leaf);
    }
    assert_eq!((0..6).map(|at| busy.queued_at(LeafId(at))).sum::<usize>(), 200);
    let mut idle = tree("tree");
    (0..6).for_each(|leaf| assert!(idle.get(LeafId(leaf)).is_none()));
    for task in 0..200 {
        log(&mut idle);
        idle.add(None, ready(task, None));
        let effects = log(&mut idle);
        let [Effect::Touched { tasks: 1, .. }, Effect::Woken(leaf)] = effects[..] else {
            panic!("{effects:?}")
        };
        waiting.insert(leaf);
        assert!(idle.get(leaf).is_some() && idle.get(leaf).is_none());
    }
    assert_eq!((running.len(), waiting.len()), (6, 6));
}

#[test]
fn what_waits_in_a_leaf_is_counted_there() {
    let mut tree = tree("tree");
    for count in 1..=5 {
        tree.add(Some(LeafId(3)), ready(count, None));
        let queued: Vec<usize> = (0..6).map(|leaf| tree.queued_at(LeafId(leaf))).collect();
        assert_eq!((queued, tree.len()), (vec![0, 0, 0, count as usize, 0, 0], count as usize));
    }
    assert!(tree.get(LeafId(3)).is_some());
    assert_eq!((tree.queued_at(LeafId(3)), tree.queued_above()), (4, 0));
}

#[test]
fn schedulers_are_empty_until_something_waits() {
    for text in ["tree", "central", "delegation"] {
        let (topology, options): (Topology, Options) = ("cpu:2".parse().unwrap(), text.parse().unwrap());
        let mut scheduler = AnyScheduler::new(topology, options, 7);
        assert!(scheduler.is_empty(), "{text}");
        scheduler.add(None, ready(1, None));
        assert!(
            !scheduler.is_empty() && scheduler.get(LeafId(0)).is_some() && scheduler.is_empty(),
            "{text}"
        );
    }
    let mut tree = tree("tree");
    assert!(tree.is_empty());
    tree.add(None, ready(1, None));
    assert!(!tree.is_empty());
}

/// A task follows the one that made it ready on the same leaf, without a queue, unless it is wanted elsewhere.
#[test]
fn immediate_successors_stay_where_they_are_wanted() {
    for (options, place, expected) in [
        ("tree", None, vec![]),
        ("tree", Some(1), vec![]),
        ("tree", Some(2), vec![numa(2, 1)]),
        ("tree:locality=off", Some(2), vec![]),
        ("tree:locality=off", None, vec![]),
        ("tree:successor=off", None, vec![leaf(2, 1)]),
    ] {
        let mut tree = tree(options);
        tree.add_ready(LeafId(2), vec![ready(1, place)]);
        assert_eq!(log(&mut tree), expected, "{options}, {place:?}");
        assert_eq!(tree.len(), 1);
    }
}

#[test]
fn who_has_nothing_fetches_from_the_node_that_has() {
    let mut tree = tree("tree");
    for task in 0..4 {
        tree.add(None, ready(task, Some(2)));
    }
    assert_eq!((tree.queued_above(), log(&mut tree).last()), (4, Some(&numa(2, 1))));
    assert!(tree.get(LeafId(0)).is_some());
    assert!(log(&mut tree).contains(&numa(2, 0)));
    // Half of four: one runs, one waits for its leaf.
    assert_eq!((tree.queued_at(LeafId(0)), tree.queued_above()), (1, 2));
}

#[test]
fn who_has_nothing_fetches_from_a_neighbour_first() {
    let mut tree = tree("tree");
    for holder in [0, 1, 3, 5] {
        for task in 0..4 {
            tree.add(Some(LeafId(holder)), ready(10 * holder + task, None));
        }
    }
    log(&mut tree);
    assert!(tree.get(LeafId(2)).is_some_and(|ready| ready.task / 10 == 3));
    assert!(log(&mut tree).contains(&leaf(3, 0)));
    assert_eq!((0..6).map(|at| tree.queued_at(LeafId(at))).collect::<Vec<_>>(), [4, 4, 1, 2, 0, 4]);
    // Nobody is near: the first of all.
    assert!(tree.get(LeafId(4)).is_some_and(|ready| ready.task / 10 == 5));
    for _ in 0..2 {
        assert!(tree.get(LeafId(4)).is_some());
    }
}

/// Without `pull`, and with a threshold that has come down, the nodes give away what they hold too much of, without being
/// asked for more than one task.
#[test]
fn hungry_leaves_bring_the_threshold_and_the_hoards_down() {
    let gather = |options: &str| {
        let mut tree = tree(options);
        for task in 0..64 {
            tree.add(Some(LeafId(5)), ready(task, None));
        }
        let got = (0..400).filter(|_| tree.get(LeafId(0)).is_some()).count();
        (got, tree.len())
    };
    assert_eq!(gather("tree:pull=off"), (64, 0));
    assert_eq!(gather("tree"), (64, 0));
    let (got, left) = gather("tree:pull=off,rebalance=off,threshold=500");
    assert_eq!((got, left), (0, 64));
}
