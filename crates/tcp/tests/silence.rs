//! A connection on which nothing comes: first another one is tried, then the peer is given up.

use castell_base::Rank;
use castell_tcp::Settings;
use castell_tcp::handshake::{Hello, Verdict};
use castell_tcp::link::{Link, News};
use castell_transport::Down;

const MS: u64 = 1_000_000;
const START: u64 = 1000 * MS;

/// Rank 0's link, which rank 1 dials for the `attempt`-th time.
fn dialed(link: &mut Link, attempt: u32, now: u64) {
    let said =
        Hello { from: Rank(1), to: Rank(0), instance: 7, attempt, welcomed: 0, taken: 0, window: 1 << 20 };
    assert_eq!(link.meet(&said, 3, now).verdict, Verdict::Welcome);
}

fn silent_link() -> Link {
    let mut link = Link::new(Rank(0), Rank(1), &Settings::default());
    link.may_dial();
    dialed(&mut link, 1, START);
    assert!(!link.doubts(START + 2100 * MS) && link.doubts(START + 2300 * MS));
    assert!(link.next_time().is_some_and(|next| next <= START + 2200 * MS));
    link.doubt(START + 2200 * MS);
    assert!(!link.is_together() && link.wants_dial(START + 2200 * MS), "another connection is tried");
    link
}

#[test]
fn who_stays_silent_is_given_up_in_time() {
    let mut link = silent_link();
    assert!(link.next_time().is_some_and(|next| next <= START + 5000 * MS));
    link.tick(START + 4999 * MS);
    assert!(!link.is_over());
    link.tick(START + 5000 * MS);
    assert_eq!(link.take_news(), Some(News::Down(Down::PathLost)));
}

#[test]
fn who_is_heard_again_is_there() {
    let mut link = silent_link();
    dialed(&mut link, 2, START + 4000 * MS);
    link.tick(START + 5000 * MS);
    assert!(link.is_together() && link.take_news().is_none());
    // Whoever did not look has heard nobody.
    link.doubt(START + 6200 * MS);
    link.was_away(3000 * MS);
    link.tick(START + 9500 * MS);
    assert!(!link.is_over());
}
