use super::*;
use crate::region::Region;

fn new(kind: Kind, weak: bool, tokens: Tokens) -> State {
    let region = Region::new(64, 8).expect("not empty");
    State::new(&Access { weak, ..Access::strong(kind, region) }, Permits::clean(tokens))
}

fn run(mut state: State, messages: &[Message]) -> (State, Vec<Effects>) {
    let mut all = Vec::new();
    for message in messages {
        let (after, effects) = state.after(*message);
        state = after;
        all.push(effects);
    }
    (state, all)
}

const FINISHES: Message = Message::Finished { failed: false };
const NEXT_WAITS: Message = Message::Linked { shares: false, parent: false, had: Tokens::NONE };
const NEXT_SHARES_TOO: Message = Message::Linked { shares: true, parent: false, had: Tokens::NONE };

#[test]
fn a_chain_of_writers_takes_two_steps_a_task() {
    let (_, effects) = run(
        new(Kind::InOut, false, Tokens::NONE),
        &[NEXT_WAITS, Message::Satisfied(Permits::clean(Tokens::ALL)), FINISHES],
    );
    assert!(effects[1].satisfied && effects[1].to_next.is_empty());
    assert!(effects[2].dispose && !effects[2].acknowledge);
    assert_eq!(effects[2].to_next.tokens, Tokens::ALL);
}

#[test]
fn a_reader_lets_readers_pass_and_goes_after_those_who_look_at_it() {
    let read = Tokens::READ;
    let (_, effects) = run(
        new(Kind::In, false, Tokens::NONE),
        &[NEXT_SHARES_TOO, Message::Satisfied(Permits::clean(Tokens::ALL)), FINISHES],
    );
    // The task cannot have finished while the one who satisfies it passes the token on.
    assert!(effects[1].satisfied && effects[1].to_next.tokens == read && !effects[1].acknowledge);
    assert!(effects[2].to_next.tokens == !read && effects[2].dispose);
    let rest = Message::Satisfied(Permits::clean(!read));
    let weak = new(Kind::In, true, Tokens::NONE);
    let (state, effects) =
        run(weak, &[NEXT_SHARES_TOO, FINISHES, Message::Satisfied(Permits::clean(read)), rest]);
    assert!(effects[2].to_next.tokens == read && effects[2].acknowledge);
    assert!(effects[3].to_next.tokens == !read && effects[3].acknowledge && !effects[3].dispose);
    let (state, effects) = state.after(Message::Acknowledged(!read));
    assert!(!effects.dispose);
    assert!(state.after(Message::Acknowledged(read)).1.dispose);
}

#[test]
fn a_weak_access_passes_what_its_children_passed() {
    let (_, effects) = run(
        new(Kind::InOut, true, Tokens::READ),
        &[
            Message::ChildrenLinked { feeds: true },
            NEXT_SHARES_TOO,
            FINISHES,
            Message::ChildrenPassed(Permits::clean(Tokens::READ)),
            Message::Satisfied(Permits::clean(!Tokens::READ)),
            Message::ChildrenPassed(Permits::clean(!Tokens::READ)),
        ],
    );
    let passed: Vec<Tokens> = effects.iter().map(|step| step.to_next.tokens).collect();
    let none = Tokens::NONE;
    assert_eq!(passed, [none, none, none, Tokens::READ, none, !Tokens::READ]);
    assert_eq!(effects[0].to_child.tokens, Tokens::READ);
    assert_eq!(effects[4].to_child.tokens, !Tokens::READ);
    assert!(effects.iter().all(|step| !step.satisfied));
}

/// A commutative task has the bytes for itself from its start until it has finished with them; no other does.
#[test]
fn only_commutative_tasks_at_work_hold_exclusion() {
    for kind in Kind::ALL {
        for weak in [false, true] {
            let (state, _) =
                run(new(kind, weak, Tokens::NONE), &[Message::Satisfied(Permits::clean(Tokens::ALL))]);
            assert_eq!(state.holds_exclusion(), kind == Kind::Commutative && !weak, "{state:?}");
            assert!(!state.after(FINISHES).0.holds_exclusion(), "{state:?}");
        }
    }
}

#[test]
fn a_reduction_is_combined_in_its_turn_and_only_then_seen() {
    let reduce = Tokens::REDUCE;
    let (state, effects) = run(
        new(Kind::Reduction, false, Tokens::NONE),
        &[
            NEXT_SHARES_TOO,
            Message::Satisfied(Permits::clean(reduce)),
            FINISHES,
            Message::Satisfied(Permits::clean(!reduce)),
        ],
    );
    assert!(effects[1].satisfied && effects[1].to_next.tokens == reduce);
    assert!(!effects[2].combine && effects[2].to_next.is_empty());
    assert!(effects[3].combine && !effects[3].group_ends && effects[3].to_next.is_empty());
    assert_eq!(state.after(Message::Combined).1.to_next.tokens, !reduce);
}

#[test]
fn a_reduction_joins_its_group_until_its_copies_are_seen() {
    let (state, effects) = run(new(Kind::Reduction, false, Tokens::ALL), &[FINISHES, NEXT_SHARES_TOO]);
    assert!(effects[0].combine && effects[0].group_ends);
    assert_eq!(effects[1].to_next.tokens, Tokens::REDUCE);
    assert_eq!(state.after(Message::Combined).1.to_next.tokens, !Tokens::REDUCE);
}

#[test]
fn another_group_waits_for_the_whole_of_a_group() {
    let reduce = Tokens::REDUCE;
    let steps = [
        Message::Linked { shares: false, parent: false, had: Tokens::NONE },
        FINISHES,
        Message::Satisfied(Permits::clean(reduce)),
        Message::Satisfied(Permits { tokens: !reduce, poisoned: Tokens::WRITE }),
    ];
    let (_, effects) = run(new(Kind::Reduction, true, Tokens::NONE), &steps);
    assert!(effects[2].to_next.is_empty(), "earlier copies of the group are not combined yet");
    let last = Permits { tokens: Tokens::ALL, poisoned: Tokens::WRITE | reduce };
    assert_eq!(effects[3].to_next, last, "nor is it spared when one of them failed");
}

#[test]
fn exclusion_ends_with_the_children() {
    let (_, effects) = run(
        new(Kind::Commutative, false, Tokens::COMMUTATIVE),
        &[
            Message::ChildrenLinked { feeds: false },
            FINISHES,
            Message::ChildrenPassed(Permits::clean(Tokens::ALL)),
            Message::Satisfied(Permits::clean(!Tokens::COMMUTATIVE)),
            Message::Closed,
        ],
    );
    let ends: Vec<bool> = effects.iter().map(|step| step.exclusion_ends).collect();
    assert_eq!(ends, [false, false, true, false, false]);
    assert!(effects[4].dispose);
}

#[test]
fn a_parent_behind_is_no_sibling() {
    let parent = |shares| Message::Linked { shares, parent: true, had: Tokens::NONE };
    for (link, sibling, shares) in [
        (Message::Closed, false, false),
        (NEXT_WAITS, true, false),
        (NEXT_SHARES_TOO, true, true),
        (parent(false), false, false),
        (parent(true), false, false),
    ] {
        let (state, _) = new(Kind::In, false, Tokens::NONE).after(link);
        assert_eq!((state.has_sibling_behind(), state.shares_with_sibling()), (sibling, shares), "{link:?}");
    }
}

#[test]
fn failure_travels_with_what_depends_on_it() {
    let failed = Message::Finished { failed: true };
    let (_, effects) = run(new(Kind::InOut, false, Tokens::ALL), &[NEXT_WAITS, failed]);
    assert_eq!(effects[1].to_next.poisoned, Tokens::ALL);
    // A reader that failed wrote nothing that another reader would miss; a writer behind both must not run.
    let (_, effects) = run(new(Kind::In, false, Tokens::ALL), &[failed, NEXT_SHARES_TOO]);
    assert_eq!(effects[1].to_next, Permits { tokens: Tokens::ALL, poisoned: !Tokens::READ });
    let poison = Permits { tokens: Tokens::ALL, poisoned: Tokens::ALL };
    let (state, effects) = new(Kind::InOut, false, Tokens::NONE).after(Message::Satisfied(poison));
    assert!(effects.satisfied && effects.poisons);
    assert_eq!(state.forgiven(Tokens::NONE).handed_on(), Permits::clean(Tokens::ALL));
}

#[test]
fn what_a_state_tells_of_itself() {
    for kind in Kind::ALL {
        for weak in [false, true] {
            let waits = new(kind, weak, Tokens::NONE);
            let (runs, _) = waits.after(Message::Satisfied(Permits::clean(Tokens::ALL)));
            assert_eq!((waits.delays_task(), runs.delays_task()), (!weak, false), "{waits:?}");
            assert_eq!(waits.after(NEXT_WAITS).0.delays_task(), !weak, "{waits:?}");
            for state in [waits, runs] {
                assert!(!state.is_finished() && state.after(FINISHES).0.is_finished(), "{state:?}");
                assert!(!state.is_split() && state.split().is_split() && !state.is_aside(), "{state:?}");
                assert_eq!(state.split().split(), state.split());
                assert_eq!(State::from_bits(state.bits()), state);
                assert_ne!(state.split().bits(), state.bits());
            }
        }
    }
}

#[test]
fn a_reduction_is_combined_once_all_children_have_passed() {
    let read = Tokens::READ;
    let (_, effects) = run(
        new(Kind::Reduction, false, Tokens::ALL),
        &[
            Message::ChildrenLinked { feeds: false },
            FINISHES,
            Message::ChildrenPassed(Permits::clean(read)),
            Message::ChildrenPassed(Permits::clean(!read)),
        ],
    );
    let combined: Vec<bool> = effects.iter().map(|step| step.combine).collect();
    assert_eq!(combined, [false, false, false, true]);
}

#[test]
fn tokens_are_counted_and_joined() {
    let mut some = Tokens::READ;
    assert_eq!([Tokens::NONE, some, !some, Tokens::ALL].map(Tokens::count), [0, 1, 4, 5]);
    some |= Tokens::WRITE;
    assert_eq!(some, Tokens::READ | Tokens::WRITE);
}

#[test]
fn states_are_written_out() {
    let (state, _) = run(
        new(Kind::In, true, Tokens::READ | Tokens::WRITE),
        &[NEXT_SHARES_TOO, Message::ChildrenPassed(Permits::clean(Tokens::COMMUTATIVE))],
    );
    let tokens = "weak in, has rw, children passed m";
    assert_eq!(format!("{state:?}"), format!("{tokens}, acknowledged r, next, next shares"));
    assert_eq!(format!("{:?}", new(Kind::Out, false, Tokens::NONE)), "out");
    assert_eq!(format!("{:?}", Tokens::ALL), "rcmxw");
}
