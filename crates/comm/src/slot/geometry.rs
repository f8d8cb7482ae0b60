//! Where slots lie in the job's segment.
//!
//! ```text
//! a context: [a page a rank: standing line | log of calls] [lines] [pages] [heaps]
//! lines and pages: [receiver][generation][sender][place]; heaps: [sender][one of two]
//! ```

use super::{BYTES_MAX, CONTEXTS, GENERATIONS, HEAP_BYTES, PAGE_GENERATIONS, PLACES, RANKS_MAX};

pub(super) const LINE_BYTES: usize = 64;
const PAGE: usize = 4096;
/// The log lies behind the standing line and a line that keeps them apart.
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
        CONTEXTS as usize * self.context_bytes()
    }

    /// Places of all receivers in one generation.
    fn places(self) -> usize {
        self.ranks * self.ranks * PLACES
    }

    fn lines_bytes(self) -> usize {
        (self.places() * GENERATIONS * LINE_BYTES).next_multiple_of(PAGE)
    }

    fn context_bytes(self) -> usize {
        self.heaps_at() + self.ranks * 2 * HEAP_BYTES
    }

    fn heaps_at(self) -> usize {
        self.ranks * PAGE + self.lines_bytes() + self.places() * PAGE_GENERATIONS * BYTES_MAX
    }

    /// Where a rank's standing in a context lies.
    pub fn standing(self, context: u32, rank: usize) -> usize {
        assert!(context < CONTEXTS && rank < self.ranks, "rank {rank} in context {context} has slots");
        context as usize * self.context_bytes() + rank * PAGE
    }

    /// Where its log of calls lies.
    pub fn log(self, context: u32, rank: usize) -> usize {
        self.standing(context, rank) + LOG_AT
    }

    /// Where one of the two heaps of a sender lies.
    pub fn heap(self, context: u32, sender: usize, heap: usize) -> usize {
        assert!(sender < self.ranks && heap < 2, "one of a rank's two heaps");
        self.standing(context, 0) + self.heaps_at() + (2 * sender + heap) * HEAP_BYTES
    }

    /// Where a message lies.
    pub fn place(self, context: u32, receiver: usize, sender: usize, place: usize) -> Place {
        assert!(receiver < self.ranks && sender < self.ranks && place < PLACES, "a message that has a place");
        let lines = self.standing(context, 0) + self.ranks * PAGE;
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
            for context in 0..CONTEXTS {
                for (receiver, sender) in (0..ranks * ranks).map(|pair| (pair / ranks, pair % ranks)) {
                    for index in 0..PLACES {
                        let place = geometry.place(context, receiver, sender, index);
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
            let mut heaps: Vec<usize> = (0..2 * ranks * CONTEXTS as usize)
                .map(|at| geometry.heap((at / 2 / ranks) as u32, at / 2 % ranks, at % 2))
                .collect();
            let apart = |page: &usize| {
                heaps.iter().all(|heap| page + BYTES_MAX <= *heap || heap + HEAP_BYTES <= *page)
            };
            assert!(pages.iter().all(apart));
            heaps.push(geometry.bytes());
            assert!(heaps.windows(2).all(|pair| pair[0] + HEAP_BYTES <= pair[1]));
        }
        assert!(Geometry::new(RANKS_MAX + 1).is_empty() && Geometry::new(RANKS_MAX + 1).bytes() == 0);
    }
}
