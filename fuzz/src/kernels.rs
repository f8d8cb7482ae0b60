//! What has to hold for whatever applications say to a node's daemon and write into their mailboxes: the fuzz target asserts it, and
//! so does a quick test of `castell-kernels`.

use castell_base::Time;
use castell_base::sync::Ordering;
use castell_host::shm::Segment;
use castell_kernels::mailbox::{Mailbox, SLOTS};
use castell_kernels::protocol::{FromDaemon, Shape, ToDaemon};
use castell_kernels::{Desk, Held};
use castell_policy::session::protocol::{LINE_BYTES_MAX, Lines, decode, encode};
use castell_strategy::own::{Chosen, Own, Ticket};
use castell_strategy::{FirstFit, Input, Keeper, Node, ResourceId, ResourceKind};
use std::sync::Arc;

/// Words in front of the slots, and of a slot.
const HEADER: usize = 16;
const STRIDE: usize = 16;

/// Lines are refused or messages, which are written as they were read; kernels are refused or registered.
pub fn anything_said(bytes: &[u8]) {
    let (mut lines, mut desk, mailbox) = (Lines::default(), desk(), mailbox());
    desk.join(0, held(&mailbox));
    for part in bytes.chunks(7) {
        if lines.push(part).is_err() {
            assert!(bytes.len() > LINE_BYTES_MAX);
            return;
        }
        while let Some(line) = lines.next_line() {
            if let Ok(message) = decode::<FromDaemon>(&line) {
                assert_eq!(decode(encode(&message).trim_ascii_end()).as_ref(), Ok(&message));
            }
            let Ok(message) = decode::<ToDaemon>(&line) else { continue };
            assert_eq!(decode(encode(&message).trim_ascii_end()).as_ref(), Ok(&message));
            if let ToDaemon::Shape(shape) = message {
                let _ = desk.register(0, &shape);
            }
        }
    }
}

/// Four bytes are something that one of two applications writes, or that happens: no desk breaks, no resource has two, and what was
/// decided follows from what happened. Applications bring strategies of their own and give them up; these may also choose anything.
pub fn anything_written(bytes: &[u8]) {
    let mailboxes = [mailbox(), mailbox()];
    let mut desk = desk();
    desk.keep_inputs();
    let mut wrong = desk.open(Time::ZERO);
    let mut owns: [Option<Own>; 2] = [None, None];
    for (member, mailbox) in (0..).zip(&mailboxes) {
        come(&mut desk, member, mailbox, Time::ZERO);
    }
    for (at, command) in (1..).zip(bytes.as_chunks::<4>().0) {
        let ([what, slot, one, other], now) = (*command, Time::from_us(at));
        let (member, slot) = (u64::from(what & 1), usize::from(slot) % SLOTS);
        let words = mailboxes[member as usize].words();
        match what >> 1 & 7 {
            0 => _ = words.ask(slot, u32::from(one % 3), u32::from(other % 4), at),
            1 => _ = words.end_step(slot),
            2 => _ = words.abandon(slot),
            3 => {
                let memory =
                    mailboxes[member as usize].descriptor().try_clone_to_owned().expect("a descriptor");
                let memory = Segment::from_fd(memory).expect("it is a segment");
                let word = HEADER + slot * STRIDE + usize::from(one % 8);
                memory.short_words()[word].store(u32::from(other) % 9, Ordering::Relaxed);
            }
            4 => {
                desk.leave(member, now);
                come(&mut desk, member, &mailboxes[member as usize], now);
            }
            5 => match one % 8 {
                0 => {
                    desk.set_own(now, member);
                    owns[member as usize] = Some(Own::new(desk.keeper().node(), Box::new(FirstFit)));
                }
                1 => desk.end_own(now, member),
                2 => desk.change(now, Input::Governor(["high", "low"][usize::from(other % 2)].into())),
                3 => {
                    let (ticket, resource) = (Ticket(u64::from(other)), ResourceId(usize::from(other % 3)));
                    desk.own_says(now, member, &[Chosen { ticket, resource }]);
                }
                _ => tell(&mut desk, &mut owns, now),
            },
            _ => wrong.extend(desk.serve(now, member).err().map(|violation| (member, violation))),
        }
        // As the daemon does: who writes what it must not is sent away; it may come again.
        for (member, _) in wrong.drain(..) {
            desk.leave(member, now);
            come(&mut desk, member, &mailboxes[member as usize], now);
        }
        let node = desk.keeper().node();
        let running: Vec<_> = node.resources().iter().filter_map(|resource| resource.running).collect();
        assert!(running.iter().all(|id| running.iter().filter(|other| *other == id).count() == 1));
    }
    let mut keeper = Keeper::new(node(), Box::new(FirstFit));
    for (at, input) in desk.take_inputs() {
        keeper.apply(at, input).expect("it happened before");
        while keeper.decide() {}
    }
    assert_eq!(keeper.take_events(), desk.take_log());
}

/// Own strategies hear what has happened, and what they choose counts.
fn tell(desk: &mut Desk, owns: &mut [Option<Own>; 2], now: Time) {
    for (member, news) in desk.take_news() {
        if let Some(own) = &mut owns[member as usize] {
            let chosen = own.hear(now, news).expect("this strategy does not fail");
            desk.own_says(now, member, &chosen);
        }
    }
}

fn come(desk: &mut Desk, member: u64, mailbox: &Arc<Mailbox>, now: Time) {
    desk.join(member, held(mailbox));
    for names in [&["one_core", "gpu"][..], &["all_cores"]] {
        let kernels = names.iter().map(|name| ((*name).to_owned(), Some(5))).collect();
        desk.register(member, &Shape { kernels, rankings: Vec::new() }).expect("kernels for what is there");
    }
    if desk.take_in(now, member).is_err() {
        desk.leave(member, now);
    }
}

fn held(mailbox: &Arc<Mailbox>) -> Held {
    Held { name: "any".into(), pid: 1, user: 1, mailbox: mailbox.clone() }
}

fn mailbox() -> Arc<Mailbox> {
    Arc::new(Mailbox::create().expect("there is memory"))
}

fn node() -> Node {
    let names = ["one_core", "all_cores", "gpu"].map(|name| (name.to_owned(), ResourceKind::of(name)));
    let mut node = Node::new(names).expect("three names");
    node.set_forbidden("low", &["gpu".to_owned()]).expect("it is there");
    node
}

fn desk() -> Desk {
    Desk::new(Keeper::new(node(), Box::new(FirstFit)))
}
