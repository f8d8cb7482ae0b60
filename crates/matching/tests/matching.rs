//! The matcher against a list that is scanned in order, and with many on either side.

use castell_base::{Rank, Tag};
use castell_matching::{Key, Matcher, Pattern};
use proptest::collection::vec;
use proptest::prelude::*;

/// The definition: two lists in order.
#[derive(Default)]
struct Oracle {
    posted: Vec<(Pattern, u32)>,
    unexpected: Vec<(Key, u32)>,
}

impl Oracle {
    fn post(&mut self, pattern: Pattern, id: u32) -> Option<u32> {
        let found = self.unexpected.iter().position(|&(key, _)| pattern.matches(key));
        if found.is_none() {
            self.posted.push((pattern, id));
        }
        found.map(|index| self.unexpected.remove(index).1)
    }

    fn arrive(&mut self, key: Key, id: u32) -> Option<u32> {
        let found = self.posted.iter().position(|&(pattern, _)| pattern.matches(key));
        if found.is_none() {
            self.unexpected.push((key, id));
        }
        found.map(|index| self.posted.remove(index).1)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post(Pattern),
    Arrive(Key),
    TakeContext(u64),
}

/// Steps over few keys, so that matches are frequent; `posts` of ten are receives, so that either side grows.
fn steps(posts: u32) -> impl Strategy<Value = Vec<Step>> {
    let pattern = (0..2u64, prop::option::weighted(0.7, 0..4u32), prop::option::weighted(0.7, 0..4u32))
        .prop_map(|(context, source, tag)| {
            Step::Post(Pattern { context, source: source.map(Rank), tag: tag.map(Tag) })
        });
    let key = (0..2u64, 0..4u32, 0..4u32).prop_map(|(context, source, tag)| {
        Step::Arrive(Key { context, source: Rank(source), tag: Tag(tag) })
    });
    let step = prop_oneof![
        10 * posts => pattern,
        10 * (10 - posts) => key,
        1 => (0..2u64).prop_map(Step::TakeContext),
    ];
    vec(step, 0..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn matches_like_a_list_scanned_in_order(steps in (2u32..9).prop_flat_map(steps)) {
        let (mut matcher, mut oracle) = (Matcher::new(), Oracle::default());
        for (id, step) in steps.into_iter().enumerate() {
            let id = id as u32;
            match step {
                Step::Post(pattern) => prop_assert_eq!(matcher.post(pattern, id), oracle.post(pattern, id)),
                Step::Arrive(key) => prop_assert_eq!(matcher.arrive(key, || id), oracle.arrive(key, id)),
                Step::TakeContext(context) => {
                    let posted = oracle.posted.extract_if(.., |(pattern, _)| pattern.context == context);
                    let unexpected = oracle.unexpected.extract_if(.., |(key, _)| key.context == context);
                    let ids = (posted.map(|p| p.1).collect(), unexpected.map(|u| u.1).collect());
                    prop_assert_eq!(matcher.take_context(context), ids);
                }
            }
            prop_assert_eq!(matcher.posted_len(), oracle.posted.len());
            prop_assert_eq!(matcher.unexpected_len(), oracle.unexpected.len());
        }
        let mut posted: Vec<_> = matcher.posted().map(|(pattern, &id)| (pattern, id)).collect();
        posted.sort_by_key(|&(_, id)| id);
        prop_assert_eq!(posted, oracle.posted);
        let mut unexpected: Vec<_> = matcher.unexpected().map(|(key, &id)| (key, id)).collect();
        unexpected.sort_by_key(|&(_, id)| id);
        prop_assert_eq!(unexpected, oracle.unexpected);
    }
}

/// With `many` messages waiting, each kind of receive finds its own at once: this would take hours by scanning.
fn many_messages(many: u32, key: impl Fn(u32) -> Key, pattern: impl Fn(u32) -> Pattern) {
    let mut matcher = Matcher::new();
    for id in 0..many {
        assert_eq!(matcher.arrive(key(id), || id), None);
    }
    assert_eq!(matcher.unexpected_len(), many as usize);
    for id in 0..many {
        assert_eq!(matcher.post(pattern(id), ()), Some(id));
    }
    assert_eq!((matcher.unexpected_len(), matcher.posted_len()), (0, 0));
}

fn key(source: u32, tag: u32) -> Key {
    Key { context: 5, source: Rank(source), tag: Tag(tag) }
}

fn pattern(source: Option<u32>, tag: Option<u32>) -> Pattern {
    Pattern { context: 5, source: source.map(Rank), tag: tag.map(Tag) }
}

const MANY: u32 = 200_000;

#[test]
fn crowds_of_one_key_leave_in_order() {
    many_messages(MANY, |_| key(1, 2), |_| pattern(Some(1), Some(2)));
    many_messages(MANY, |_| key(1, 2), |_| pattern(None, None));
}

#[test]
fn crowds_of_many_keys_are_found() {
    many_messages(MANY, |id| key(id % 1000, id / 1000), |id| pattern(Some(id % 1000), Some(id / 1000)));
    many_messages(MANY, |id| key(id, 0), |id| pattern(Some(id), None));
    many_messages(MANY, |id| key(0, id), |id| pattern(None, Some(id)));
    many_messages(
        MANY,
        |id| key(id % 7, id),
        |id| if id % 2 == 0 { pattern(None, None) } else { pattern(Some(id % 7), Some(id)) },
    );
}

#[test]
fn crowds_of_receives_are_found() {
    let mut matcher = Matcher::new();
    let wanted = |id: u32| match id % 4 {
        0 => pattern(Some(id), Some(id)),
        1 => pattern(None, Some(id)),
        2 => pattern(Some(id), None),
        _ => pattern(Some(3), Some(3)),
    };
    for id in 0..MANY {
        assert_eq!(matcher.post(wanted(id), id), None::<()>);
    }
    for id in 0..MANY {
        let key = if id % 4 == 3 { key(3, 3) } else { key(id, id) };
        assert_eq!(matcher.arrive(key, || ()), Some(id));
    }
    assert_eq!((matcher.unexpected_len(), matcher.posted_len()), (0, 0));
}

#[test]
fn what_lies_deep_in_a_row_is_found() {
    for many in [1, 2, 31, 32, 33, 34, 16_383, 16_384, 16_385, 16_386] {
        let mut matcher = Matcher::new();
        for tag in 0..many {
            assert_eq!(matcher.arrive(key(1, tag), || tag), None);
        }
        assert_eq!(matcher.post(pattern(Some(2), None), ()), None);
        for tag in (0..many).rev().step_by(2).chain((0..many).rev().skip(1).step_by(2)) {
            assert_eq!(matcher.post(pattern(None, Some(tag)), ()), Some(tag), "of {many}");
        }
        assert_eq!((matcher.unexpected_len(), matcher.posted_len()), (0, 1));
    }
}

/// However many wait, all that belongs to them can be changed, and comes out changed.
#[test]
fn what_belongs_to_those_that_wait_can_be_changed() {
    for many in [3, 16_390] {
        let (mut posted, mut unexpected) = (Matcher::<u32, ()>::new(), Matcher::<(), u32>::new());
        for tag in 0..many {
            assert_eq!(posted.post(pattern(None, Some(tag)), tag), None);
            assert_eq!(unexpected.arrive(key(1, tag), || tag), None);
        }
        posted.posted_mut().for_each(|(pattern, value)| *value += pattern.tag.map_or(0, |tag| tag.0));
        unexpected.unexpected_mut().for_each(|(key, value)| *value += key.tag.0);
        for tag in 0..many {
            assert_eq!(posted.arrive(key(1, tag), || ()), Some(2 * tag), "of {many}");
            assert_eq!(unexpected.post(pattern(None, Some(tag)), ()), Some(2 * tag), "of {many}");
        }
    }
}
