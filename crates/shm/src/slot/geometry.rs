//! Where slots lie in the job's segment.
//!
//! ```text
//! [blocking calls of a context | ...] [started calls of a context | ...]
//! blocking calls: [a page a rank: line of the consumer index | log of calls] [lines] [pages] [bounce buffers]; started ones the same without bounce buffers
//! lines and pages: [receiver][generation][sender][place]; bounce buffers: [sender][one of two]
//! ```

use super::{
    BOUNCE_BYTES, BYTES_MAX, CONTEXTS, GENERATIONS, PAGE_GENERATIONS, PLACES, RANKS_MAX, SETS, SlotSet,
};

pub(super) const LINE_BYTES: usize = 64;
const PAGE: usize = 4096;
/// The log lies behind the line of the consumer index and a line that keeps them apart.
const LOG_AT: usize = 128;

/// Entries of a rank's log of calls.
pub const LOG_ENTRIES: usize = (PAGE - LOG_AT) / super::log::ENTRY_BYTES;

/// Shape of a job's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    ranks: usize,
}

/// Offsets of one message's places in the first generation, and how far behind those of the next one lie. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The page.
    pub page: usize,
    /// From a line to the next generation's.
    pub next_line: usize,
    /// From a page to the next generation's.
    pub next_page: usize,
}

impl Geometry {
    /// Of a job of so many ranks.
    pub fn new(ranks: u32) -> Geometry {
        Geometry { ranks: if ranks <= RANKS_MAX { ranks as usize } else { 0 } }
    }

    /// Whether there are any.
    pub fn is_empty(self) -> bool {
        self.ranks == 0
    }

    /// Bytes of all.
    pub fn bytes(self) -> usize {
        CONTEXTS as usize * self.blocking_bytes() + (SETS - CONTEXTS) as usize * self.bounces_at()
    }

    /// Places of all receivers in one generation.
    fn places(self) -> usize {
        self.ranks * self.ranks * PLACES
    }

    fn lines_bytes(self) -> usize {
        (self.places() * GENERATIONS * LINE_BYTES).next_multiple_of(PAGE)
    }

    fn blocking_bytes(self) -> usize {
        self.bounces_at() + self.ranks * 2 * BOUNCE_BYTES
    }

    fn bounces_at(self) -> usize {
        self.ranks * PAGE + self.lines_bytes() + self.places() * PAGE_GENERATIONS * BYTES_MAX
    }

    /// Where a rank's consumer index in a set of slots lies.
    pub fn consumer_index(self, set: SlotSet, rank: usize) -> usize {
        assert!(rank < self.ranks, "rank {rank} has slots");
        let behind = if set.is_started() { self.bounces_at() } else { self.blocking_bytes() };
        let first = if set.is_started() { CONTEXTS as usize * self.blocking_bytes() } else { 0 };
        first + set.context() as usize * behind + rank * PAGE
    }

    /// Where its log of calls lies.
    pub fn log(self, set: SlotSet, rank: usize) -> usize {
        self.consumer_index(set, rank) + LOG_AT
    }

    /// Where one of the two bounce buffers of a sender lies.
    pub fn bounce(self, context: u32, sender: usize, bounce: usize) -> usize {
        assert!(sender < self.ranks && bounce < 2, "one of a rank's two bounce buffers");
        self.consumer_index(SlotSet::blocking(context), 0)
            + self.bounces_at()
            + (2 * sender + bounce) * BOUNCE_BYTES
    }

    /// Where a message lies.
    pub fn place(self, set: SlotSet, receiver: usize, sender: usize, place: usize) -> Place {
        assert!(receiver < self.ranks && sender < self.ranks && place < PLACES, "a message that has a place");
        let lines = self.consumer_index(set, 0) + self.ranks * PAGE;
        let generation = self.ranks * PLACES;
        let index = |generations| receiver * generations * generation + sender * PLACES + place;
        Place {
            line: lines + index(GENERATIONS) * LINE_BYTES,
            page: lines + self.lines_bytes() + index(PAGE_GENERATIONS) * BYTES_MAX,
            next_line: generation * LINE_BYTES,
            next_page: generation * BYTES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_are_apart_and_inside() {
        for ranks in [1, 2, 5] {
            let geometry = Geometry::new(ranks);
            let (mut lines, mut pages) = (HashSet::new(), HashSet::new());
            let ranks = ranks as usize;
            for set in (0..SETS).map(SlotSet) {
                for (receiver, sender) in (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)) {
                    for index in 0..PLACES {
                        let place = geometry.place(set, receiver, sender, index);
                        for generation in 0..GENERATIONS {
                            assert!(lines.insert(place.line + generation * place.next_line));
                        }
                        for generation in 0..PAGE_GENERATIONS {
                            let page = place.page + generation * place.next_page;
                            assert!(pages.insert(page) && page + BYTES_MAX <= geometry.bytes());
                        }
                    }
                }
            }
            assert!(lines.iter().all(|line| pages.iter().all(|page| line / PAGE != page / PAGE)));
            let mut bounces: Vec<usize> = (0..2 * ranks * CONTEXTS as usize)
                .map(|at| geometry.bounce((at / 2 / ranks) as u32, at / 2 % ranks, at % 2))
                .collect();
            let apart = |page: &usize| {
                bounces.iter().all(|bounce| page + BYTES_MAX <= *bounce || bounce + BOUNCE_BYTES <= *page)
            };
            assert!(pages.iter().all(apart));
            bounces.push(geometry.bytes());
            assert!(bounces.windows(2).all(|pair| pair[0] + BOUNCE_BYTES <= pair[1]));
        }
        assert!(Geometry::new(RANKS_MAX + 1).is_empty() && Geometry::new(RANKS_MAX + 1).bytes() == 0);
    }

    /// The picture at the top of this file, walked through from its beginning to its end.
    #[test]
    fn everything_lies_where_the_picture_says() {
        for ranks in [1, 2, 3, 7] {
            let geometry = Geometry::new(ranks);
            assert!(!geometry.is_empty());
            let (ranks, mut at) = (ranks as usize, 0);
            for set in (0..SETS).map(SlotSet) {
                for rank in 0..ranks {
                    assert_eq!((geometry.consumer_index(set, rank), geometry.log(set, rank)), (at, at + 128));
                    at += 4096;
                }
                let place = |receiver, sender, place| geometry.place(set, receiver, sender, place);
                let all = |generations: usize| {
                    (0..ranks * generations * ranks * PLACES).map(move |index| {
                        let (rest, place) = (index / PLACES, index % PLACES);
                        let (rest, sender) = (rest / ranks, rest % ranks);
                        (rest / generations, rest % generations, sender, place)
                    })
                };
                for (receiver, generation, sender, number) in all(GENERATIONS) {
                    let place = place(receiver, sender, number);
                    assert_eq!(place.line + generation * place.next_line, at);
                    at += 64;
                }
                at = at.next_multiple_of(4096);
                for (receiver, generation, sender, number) in all(PAGE_GENERATIONS) {
                    let place = place(receiver, sender, number);
                    assert_eq!(place.page + generation * place.next_page, at);
                    at += 4096;
                }
                for (sender, bounce) in (0..2 * ranks).map(|index| (index / 2, index % 2)) {
                    if !set.is_started() {
                        assert_eq!(geometry.bounce(set.context(), sender, bounce), at);
                        at += 1 << 20;
                    }
                }
            }
            assert_eq!(geometry.bytes(), at, "{ranks} ranks");
        }
    }

    #[test]
    fn consumer_indices_and_logs_have_pages_of_their_own() {
        for ranks in [1, 2, 5, RANKS_MAX] {
            let geometry = Geometry::new(ranks);
            let mut taken = HashSet::new();
            for set in (0..SETS).map(SlotSet) {
                for rank in 0..ranks as usize {
                    let index = geometry.consumer_index(set, rank);
                    assert!(
                        index.is_multiple_of(PAGE) && taken.insert(index),
                        "{ranks} ranks: {set:?}, {rank}"
                    );
                    let log = geometry.log(set, rank);
                    assert!(log >= index + 2 * LINE_BYTES && log.is_multiple_of(LINE_BYTES));
                    let end = log + LOG_ENTRIES * super::super::log::ENTRY_BYTES;
                    assert!(
                        (index + PAGE - super::super::log::ENTRY_BYTES + 1..=index + PAGE).contains(&end)
                    );
                }
                for (receiver, sender) in [(0, 0), (ranks as usize - 1, ranks as usize - 1)] {
                    let place = geometry.place(set, receiver, sender, PLACES - 1);
                    assert!(place.line.is_multiple_of(LINE_BYTES) && place.page.is_multiple_of(PAGE));
                    let lines = (0..GENERATIONS).map(|generation| place.line + generation * place.next_line);
                    let pages = (0..PAGE_GENERATIONS).map(|number| place.page + number * place.next_page);
                    for at in lines.chain(pages) {
                        assert!(!taken.contains(&(at / PAGE * PAGE)), "{ranks} ranks: {set:?}, {at}");
                        assert!(at < geometry.bytes());
                    }
                }
            }
        }
    }
}
