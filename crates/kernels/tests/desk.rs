//! What a desk answers, and in which order.

use castell_base::Time;
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
    desk.join(0, Held { name: "a".into(), pid: 1, mailbox: mailbox.clone() });
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
