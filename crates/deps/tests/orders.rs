//! Every order in which messages can come and tasks can act, on small graphs: each ends in the same states, each task is
//! satisfied once, each access goes once, and nothing reaches an access that has gone.

use castell_deps::{Access, Effects, Kind, Message, Permits, Region, State, Tokens};
use std::collections::HashSet;

/// An access and its neighbours, by number.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    state: State,
    next: Option<usize>,
    child: Option<usize>,
    satisfied: u32,
    /// Its task is skipped: what it waited for came poisoned.
    poisoned: bool,
    /// Its parent has waited, and this is the parent's access, if it has one.
    forgiven_by: Option<Option<usize>>,
    gone: bool,
}

/// What somebody does, in the order of that somebody's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// The creator puts the second behind the first.
    Link(usize, usize),
    /// The creator ends: nobody comes behind.
    Close(usize),
    /// The task's body finishes; first it must be satisfied, unless it is weak.
    Finish(usize),
    /// The body fails; first it must be satisfied.
    Fail(usize),
    /// The creator waits for the tasks from the first to the last, which is the end of a chain below the access, if any, of the
    /// creator's own, and what failed among them does not count any more.
    Forgive { first: usize, last: usize, parent: Option<usize> },
    /// The body creates a child, fed by its access.
    Feed(usize, usize),
    /// The body ends its children's chain: the parent's access comes behind the child's.
    LinkParent(usize, usize),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    nodes: Vec<Node>,
    /// Threads of acts: each goes on by itself.
    programs: Vec<Vec<Act>>,
    /// Messages under way, sorted: they arrive in any order.
    parcels: Vec<(usize, Message)>,
}

impl World {
    fn new(accesses: &[(Kind, bool, Tokens)], programs: &[&[Act]]) -> World {
        let region = Region::new(0, 8).expect("not empty");
        let node = |(kind, weak, tokens): &(Kind, bool, Tokens)| Node {
            state: State::new(
                &Access { weak: *weak, ..Access::strong(*kind, region) },
                Permits::clean(*tokens),
            ),
            next: None,
            child: None,
            satisfied: 0,
            poisoned: false,
            forgiven_by: None,
            gone: false,
        };
        let programs = programs.iter().map(|acts| acts.iter().rev().copied().collect()).collect();
        World { nodes: accesses.iter().map(node).collect(), programs, parcels: Vec::new() }
    }

    fn is_possible(&self, act: Act) -> bool {
        match act {
            Act::Finish(node) | Act::Fail(node) | Act::Feed(node, _) => {
                self.nodes[node].state.is_weak() || self.nodes[node].state.is_satisfied()
            }
            Act::Forgive { first, last, .. } => {
                self.nodes[first..=last].iter().all(|node| node.state.is_finished())
            }
            _ => true,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Link(before, next) => {
                self.nodes[before].next = Some(next);
                let (one, other) = (self.nodes[before].state, self.nodes[next].state);
                let shares = match one.kind() {
                    Kind::Reduction => other.kind() == Kind::Reduction,
                    kind => kind.shares() && (other.is_weak() || other.kind() == kind),
                };
                self.step(before, Message::Linked { shares, parent: false, had: Tokens::NONE });
            }
            Act::LinkParent(last, parent) => {
                self.nodes[last].next = Some(parent);
                let shares = self.nodes[last].state.kind() != Kind::Reduction;
                self.step(last, Message::Linked { shares, parent: true, had: Tokens::NONE });
            }
            Act::Close(node) => self.step(node, Message::Closed),
            Act::Finish(node) => {
                let failed = self.nodes[node].poisoned;
                self.step(node, Message::Finished { failed });
            }
            Act::Fail(node) => self.step(node, Message::Finished { failed: true }),
            Act::Forgive { last, parent, .. } => self.forgive(last, parent),
            Act::Feed(node, child) => {
                self.nodes[node].child = Some(child);
                self.step(node, Message::ChildrenLinked { feeds: true });
            }
        }
    }

    /// As whoever drives the automaton has to do it: at once if nothing is to come any more.
    fn forgive(&mut self, last: usize, parent: Option<usize>) {
        self.nodes[last].forgiven_by = Some(parent);
        let poisoned = self.poisoned_in(parent);
        let state = self.nodes[last].state;
        if state.is_done() {
            self.nodes[last].state = state.forgiven(poisoned);
        } else {
            self.step(last, Message::Forgiven);
        }
    }

    fn poisoned_in(&self, parent: Option<usize>) -> Tokens {
        parent.map_or(NONE, |parent| self.nodes[parent].state.poisoned())
    }

    fn step(&mut self, at: usize, message: Message) {
        assert!(!self.nodes[at].gone, "{message:?} reaches access {at}, which has gone");
        let (after, mut effects) = self.nodes[at].state.after(message);
        self.nodes[at].state = after;
        if effects.forgiven && !effects.to_next.is_empty() {
            let parent = self.nodes[at].forgiven_by.expect("only what is forgiven says so");
            effects.poison_from_parent(self.poisoned_in(parent));
        }
        self.carry_out(at, effects);
    }

    fn carry_out(&mut self, at: usize, effects: Effects) {
        if effects.satisfied {
            self.nodes[at].satisfied += 1;
            self.nodes[at].poisoned = effects.poisons;
        }
        if effects.combine {
            self.parcels.push((at, Message::Combined));
        }
        if !effects.to_child.is_empty() {
            let child = self.nodes[at].child.expect("fed");
            self.parcels.push((child, Message::Satisfied(effects.to_child)));
        }
        if !effects.to_next.is_empty() {
            let next = self.nodes[at].next.expect("linked");
            let message = if effects.next_is_parent { Message::ChildrenPassed } else { Message::Satisfied };
            self.parcels.push((next, message(effects.to_next)));
        }
        if effects.acknowledge {
            self.parcels.push((at, Message::Acknowledged(effects.to_next.tokens)));
        }
        if effects.dispose {
            assert!(!self.nodes[at].gone, "access {at} goes twice");
            self.nodes[at].gone = true;
        }
    }

    /// All worlds that one act or one delivery makes of this one.
    fn following(&self) -> Vec<World> {
        let mut worlds = Vec::new();
        for (index, acts) in self.programs.iter().enumerate() {
            if let Some(act) = acts.last().filter(|act| self.is_possible(**act)) {
                let mut world = self.clone();
                world.programs[index].pop();
                world.act(*act);
                worlds.push(world);
            }
        }
        for index in 0..self.parcels.len() {
            let mut world = self.clone();
            let (to, message) = world.parcels.remove(index);
            world.step(to, message);
            worlds.push(world);
        }
        for world in &mut worlds {
            world.parcels.sort_by_key(|(to, message)| (*to, format!("{message:?}")));
        }
        worlds
    }
}

/// Goes through all orders; returns how many different worlds there are on the way.
fn explore(accesses: &[(Kind, bool, Tokens)], programs: &[&[Act]]) -> usize {
    explore_to(accesses, programs, &[]).0
}

/// [`explore`], and which of `asked` are skipped in the end, whatever the order.
fn explore_to(
    accesses: &[(Kind, bool, Tokens)],
    programs: &[&[Act]],
    asked: &[usize],
) -> (usize, Vec<usize>) {
    let start = World::new(accesses, programs);
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![start];
    let mut last: Option<World> = None;
    while let Some(world) = left.pop() {
        let following = world.following();
        if following.is_empty() {
            assert!(world.programs.iter().all(Vec::is_empty), "somebody waits for ever");
            for (number, node) in world.nodes.iter().enumerate() {
                assert!(node.gone, "access {number} stays for ever: {:?}", node.state);
                let starts = u32::from(!node.state.is_weak() && accesses[number].2.is_empty());
                assert_eq!(node.satisfied, starts, "access {number} is satisfied once");
            }
            if let Some(last) = &last {
                let same = last.nodes.iter().zip(&world.nodes).all(|(one, other)| {
                    // One that is forgiven hands on what its parent has, whatever it met itself.
                    (one.forgiven_by.is_some() || one.state.handed_on() == other.state.handed_on())
                        && one.state.tokens() == other.state.tokens()
                        && one.poisoned == other.poisoned
                });
                assert!(same, "two orders end differently");
            }
            last = Some(world);
        } else {
            left.extend(following.into_iter().filter(|world| seen.insert(world.clone())));
        }
    }
    let last = last.expect("every program ends");
    (seen.len(), asked.iter().copied().filter(|&node| last.nodes[node].poisoned).collect())
}

const NONE: Tokens = Tokens::NONE;
const ALL: Tokens = Tokens::ALL;

#[test]
fn chains_of_every_three_kinds() {
    let kinds = Kind::ALL.map(|kind| [(kind, false), (kind, true)]);
    let kinds: Vec<(Kind, bool)> = kinds.into_iter().flatten().collect();
    let mut worlds = 0;
    for first in &kinds {
        for second in &kinds {
            for third in &kinds {
                let accesses =
                    [(first.0, first.1, ALL), (second.0, second.1, NONE), (third.0, third.1, NONE)];
                worlds += explore(
                    &accesses,
                    &[
                        &[Act::Link(0, 1), Act::Link(1, 2), Act::Close(2)],
                        &[Act::Finish(0)],
                        &[Act::Finish(1)],
                        &[Act::Finish(2)],
                    ],
                );
            }
        }
    }
    assert!(worlds > 10_000, "{worlds} worlds are fewer than there must be");
}

#[test]
fn a_weak_parent_between_two_with_every_kind_of_child() {
    for outer in Kind::ALL {
        for child in Kind::ALL {
            for behind in Kind::ALL {
                // 0, then the weak parent 1 with the child 2, then 3.
                let accesses = [
                    (outer, false, ALL),
                    (Kind::InOut, true, NONE),
                    (child, false, NONE),
                    (behind, false, NONE),
                ];
                explore(
                    &accesses,
                    &[
                        &[Act::Link(0, 1), Act::Link(1, 3), Act::Close(3)],
                        &[Act::Finish(0)],
                        &[Act::Feed(1, 2), Act::LinkParent(2, 1), Act::Finish(1)],
                        &[Act::Finish(2)],
                        &[Act::Finish(3)],
                    ],
                );
            }
        }
    }
}

#[test]
fn two_children_inside_a_weak_reader_among_readers() {
    let read = Kind::In;
    let accesses = [
        (Kind::InOut, false, ALL),
        (read, false, NONE),
        (read, true, NONE),
        (read, false, NONE),
        (read, false, NONE),
        (Kind::Out, false, NONE),
    ];
    explore(
        &accesses,
        &[
            &[Act::Link(0, 1), Act::Link(1, 2), Act::Link(2, 5), Act::Close(5)],
            &[Act::Feed(2, 3), Act::Link(3, 4), Act::LinkParent(4, 2), Act::Finish(2)],
            &[Act::Finish(0), Act::Finish(1)],
            &[Act::Finish(3)],
            &[Act::Finish(4)],
            &[Act::Finish(5)],
        ],
    );
}

#[test]
fn what_failed_before_a_wait_does_not_count_behind_it() {
    for first in Kind::ALL {
        for (second, weak) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            for behind in Kind::ALL {
                // 0 fails, 1 meets that, the creator waits, then 2.
                let accesses = [(first, false, ALL), (second, weak, NONE), (behind, false, NONE)];
                let wait = Act::Forgive { first: 0, last: 1, parent: None };
                let others: [&[Act]; 3] = [&[Act::Fail(0)], &[Act::Finish(1)], &[Act::Finish(2)]];
                let waits: &[Act] = &[Act::Link(0, 1), wait, Act::Link(1, 2), Act::Close(2)];
                let programs = [waits, others[0], others[1], others[2]];
                let (_, skipped) = explore_to(&accesses, &programs, &[2]);
                assert!(skipped.is_empty(), "{first:?}, {second:?} (weak: {weak}), {behind:?}: skipped");
            }
        }
    }
}

#[test]
fn without_a_wait_it_counts() {
    let accesses = [(Kind::InOut, false, ALL), (Kind::In, true, NONE), (Kind::InOut, false, NONE)];
    let creator: &[Act] = &[Act::Link(0, 1), Act::Link(1, 2), Act::Close(2)];
    let programs = [creator, &[Act::Fail(0)], &[Act::Finish(1)], &[Act::Finish(2)]];
    assert_eq!(explore_to(&accesses, &programs, &[2]).1, [2]);
}

#[test]
fn what_failed_outside_counts_behind_a_wait_inside() {
    for fails_outside in [false, true] {
        for child in Kind::ALL {
            for behind in Kind::ALL {
                // 0, then the weak parent 1 with 2, which fails, a wait, and 3; then 4.
                let accesses = [
                    (Kind::InOut, false, ALL),
                    (Kind::InOut, true, NONE),
                    (child, false, NONE),
                    (behind, false, NONE),
                    (Kind::In, false, NONE),
                ];
                let wait = Act::Forgive { first: 2, last: 2, parent: Some(1) };
                let outside = if fails_outside { Act::Fail(0) } else { Act::Finish(0) };
                let programs: [&[Act]; 6] = [
                    &[Act::Link(0, 1), Act::Link(1, 4), Act::Close(4)],
                    &[outside],
                    &[Act::Feed(1, 2), wait, Act::Link(2, 3), Act::LinkParent(3, 1), Act::Finish(1)],
                    &[Act::Fail(2)],
                    &[Act::Finish(3)],
                    &[Act::Finish(4)],
                ];
                let (_, skipped) = explore_to(&accesses, &programs, &[3, 4]);
                let expected: &[usize] = if fails_outside { &[3, 4] } else { &[] };
                assert_eq!(skipped, expected, "{child:?}, {behind:?}, outside: {fails_outside}");
            }
        }
    }
}
