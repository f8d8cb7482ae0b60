//! What a desk answers, and in which order.

use castell_base::{Moment, Time};
use castell_kernels::mailbox::{Mailbox, State};
use castell_kernels::protocol::Shape;
use castell_kernels::{Desk, Held};
use castell_strategy::{FirstFit, Keeper, Node, ResourceKind};
use std::sync::Arc;

/// A step has ended and another run is asked for before anybody looks: the second gets what it likes best, since it is free by then.
#[test]
fn what_has_ended_makes_room_before_what_is_asked() {
    let names = ["best", "second"].map(|name| (name.to_owned(), ResourceKind::Device));
    let mut desk = Desk::new(Keeper::new(Node::new(names).expect("two names"), Box::new(FirstFit)));
    let mailbox = Arc::new(Mailbox::create().expect("there is memory"));
    desk.join(0, Held { name: "a".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
    let kernels = [("best", Some(1)), ("second", Some(2))].map(|(name, ns)| (name.to_owned(), ns)).to_vec();
    desk.register(0, &Shape { kernels, rankings: Vec::new() }).expect("registered");
    assert!(desk.open(Time::ZERO).is_empty());
    desk.take_in(Time::ZERO, 0).expect("nothing is in it");
    let words = mailbox.words();
    // The one that asks is looked at first, by its place in the mailbox.
    let (ends, asks) = (5, 2);
    let _ = words.ask(ends, 0, 1, 0);
    assert!(desk.serve(Time::from_ns(1), 0).expect("all is right"));
    let _ = words.end_step(ends);
    let _ = words.ask(asks, 0, 1, 0);
    assert!(desk.serve(Time::from_ns(2), 0).expect("all is right"));
    assert_eq!(words.slot(ends).state, Some(State::Done));
    assert_eq!((words.slot(asks).state, words.slot(asks).kernel), (Some(State::Granted), 0));
}

/// Whoever decides is killed in the middle of a grant: of that nothing counts, and no step is left out.
#[test]
fn half_a_grant_is_none() {
    let names = ["best", "second"].map(|name| (name.to_owned(), ResourceKind::Device));
    let desk = || Desk::new(Keeper::new(Node::new(names.clone()).expect("two names"), Box::new(FirstFit)));
    let mailbox = Arc::new(Mailbox::create().expect("there is memory"));
    let come = |desk: &mut Desk| {
        desk.join(0, Held { name: "a".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
        let kernels = [("best", Some(1)), ("second", Some(2))].map(|(name, ns)| (name.to_owned(), ns));
        desk.register(0, &Shape { kernels: kernels.to_vec(), rankings: Vec::new() }).expect("registered");
        desk.take_in(Time::ZERO, 0).expect("all is right");
        assert!(desk.open(Time::ZERO).is_empty());
    };
    let words = mailbox.words();
    let (three, other) = (3, 4);
    let mut first = desk();
    come(&mut first);
    let _ = words.ask(three, 0, 3, 1);
    let _ = words.ask(other, 0, 1, 2);
    assert!(first.serve(Time::from_ns(1), 0).expect("all is right"));
    assert_eq!([three, other].map(|slot| words.slot(slot).kernel), [0, 1]);
    let _ = words.end_step(three);
    // What a grant writes before it is one: as if the first of three steps had ended on the other resource, where another one runs.
    words.begin_grant(three, 1, 1);
    drop(first);
    let mut next = desk();
    come(&mut next);
    let said = words.slot(three);
    assert_eq!((said.state, said.steps_done, said.kernel), (Some(State::Granted), 1, 0));
    assert_eq!((words.slot(other).state, words.slot(other).kernel), (Some(State::Granted), 1));
}

/// A desk whose clock says more than a [`Time`] can.
#[test]
fn years_later_waits_are_counted_and_what_ends_makes_room() {
    let names = [("best".to_owned(), ResourceKind::Device)];
    let mut desk = Desk::new(Keeper::new(Node::new(names).expect("a name"), Box::new(FirstFit)));
    let mailbox = Arc::new(Mailbox::create().expect("there is memory"));
    desk.join(0, Held { name: "a".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
    let kernels = vec![("best".to_owned(), Some(1))];
    desk.register(0, &Shape { kernels, rankings: Vec::new() }).expect("registered");
    let end = Moment::from(Time::MAX);
    assert!(desk.open(end).is_empty());
    desk.take_in(end, 0).expect("nothing is in it");
    let words = mailbox.words();
    for at_s in 1..=3 {
        // The second waits a second for the first.
        let _ = words.ask(at_s, 0, 1, 0);
        let now = end + Time::from_ns(at_s as u64 * 1_000_000_000);
        assert!(desk.serve(now, 0).expect("all is right"));
        let _ = words.ask(9 + at_s, 0, 1, 0);
        assert!(desk.serve(now, 0).expect("all is right"));
        let _ = words.end_step(at_s);
        assert!(desk.serve(now + Time::from_ns(1_000_000_000), 0).expect("all is right"));
        let _ = words.end_step(9 + at_s);
        assert!(desk.serve(now + Time::from_ns(1_000_000_000), 0).expect("all is right"));
        assert_eq!(desk.status().waited_ns, at_s as u64 * 1_000_000_000);
    }
    assert_eq!(desk.status().done, 6);
}

/// Runs of as many steps as can be counted, just before their end, after which another desk looks on: each is over behind its last step, and
/// none begins again; also where the desk does not know what runs, and where more steps were done than there are.
#[test]
fn the_last_step_that_can_be_counted_is_the_last() {
    let names = ["best", "second"].map(|name| (name.to_owned(), ResourceKind::Device));
    let (known, unknown) = (0, 9);
    for (kernel, done, left) in [
        (known, u32::MAX - 3, 3),
        (known, u32::MAX - 1, 1),
        (unknown, u32::MAX - 1, 1),
        (unknown, u32::MAX, 1),
    ] {
        let mailbox = Arc::new(Mailbox::create().expect("there is memory"));
        let come = || {
            let node = Node::new(names.clone()).expect("two names");
            let mut desk = Desk::new(Keeper::new(node, Box::new(FirstFit)));
            desk.join(0, Held { name: "a".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
            let kernels = [("best", Some(1)), ("second", Some(2))].map(|(name, ns)| (name.to_owned(), ns));
            desk.register(0, &Shape { kernels: kernels.to_vec(), rankings: Vec::new() }).expect("registered");
            desk.take_in(Time::ZERO, 0).expect("all is right");
            assert!(desk.open(Time::ZERO).is_empty());
            desk
        };
        let words = mailbox.words();
        let mut first = come();
        let _ = words.ask(3, 0, u32::MAX, 1);
        assert!(first.serve(Time::from_ns(1), 0).expect("all is right"));
        assert_eq!((words.slot(3).state, words.slot(3).steps_done), (Some(State::Granted), 0));
        words.begin_grant(3, kernel, done);
        drop(first);
        let mut next = come();
        let mut steps = 0;
        while words.slot(3).state == Some(State::Granted) && steps < 10 {
            let _ = words.end_step(3);
            steps += 1;
            assert!(next.serve(Time::from_ns(1 + steps), 0).expect("all is right"));
        }
        assert_eq!((words.slot(3).state, steps), (Some(State::Done), left), "{done} were done of {kernel}");
        assert_eq!(words.slot(3).steps_ended, u32::MAX);
        assert_eq!(next.status().done, 1);
    }
}

/// In the way is who runs where somebody else could, and waits to.
#[test]
fn who_runs_where_others_wait_is_in_the_way() {
    let names = ["best", "second"].map(|name| (name.to_owned(), ResourceKind::Device));
    let mut desk = Desk::new(Keeper::new(Node::new(names).expect("two names"), Box::new(FirstFit)));
    let mailboxes = [0, 1].map(|_| Arc::new(Mailbox::create().expect("there is memory")));
    for (number, mailbox) in (0..).zip(&mailboxes) {
        desk.join(number, Held { name: "a".into(), pid: 1, user: 1, mailbox: mailbox.clone() });
        for resource in ["best", "second"] {
            let kernels = vec![(resource.to_owned(), Some(1))];
            desk.register(number, &Shape { kernels, rankings: Vec::new() }).expect("registered");
        }
        desk.take_in(Time::ZERO, number).expect("nothing is in it");
    }
    assert!(desk.open(Time::ZERO).is_empty());
    let mut ask = |member: u64, slot: usize, shape: u32| {
        let _ = mailboxes[member as usize].words().ask(slot, shape, 1, 1);
        desk.serve(Time::from_ns(1), member).expect("all is right");
        Vec::from_iter(desk.in_the_way())
    };
    let (best, second) = (0, 1);
    assert!(ask(0, 0, best).is_empty() && ask(1, 0, second).is_empty());
    // Behind itself one waits for nobody else.
    assert!(ask(0, 1, best).is_empty());
    assert_eq!(ask(1, 1, best), [0]);
    assert_eq!(ask(0, 2, second), [0, 1]);
}
