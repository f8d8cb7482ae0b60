//! What a rank called, as it stands on its board in shared memory.

use castell_base::{Rank, Tag};
use castell_shm::board::{ENTRIES, Entry};
use castell_shm::job::Job;

/// What a rank called, as far as all ranks of the communicator must agree on it; who makes calls knows what the words say. The
/// last one is the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record([u64; 7]);

/// Says in words what was called, for errors.
pub type Describe = fn(&Record) -> String;

impl Record {
    /// A number that differs where calls differ.
    pub fn signature(&self) -> u64 {
        self.0[6]
    }

    /// The tag of the call's first message between two ranks: half of the tags are left for the messages behind it.
    pub fn first_tag(&self) -> Tag {
        Tag((self.signature() >> 33) as u32)
    }

    /// As it is written in a log of calls.
    pub fn words(&self) -> &[u64; 7] {
        &self.0
    }

    /// What a log of calls holds.
    pub fn from_words(words: [u64; 7]) -> Record {
        Record(words)
    }

    /// Whether both are the same call.
    pub fn is_like(&self, other: &Record) -> bool {
        self.signature() == other.signature()
    }
}

/// A rank's board, to look at.
pub struct Board<'a>(&'a [Entry; ENTRIES]);

impl<'a> Board<'a> {
    /// The board of `rank`.
    pub fn of(job: &'a Job, rank: Rank) -> Board<'a> {
        Board(job.board(rank))
    }

    /// What the rank called under this word, if it did and has not made too many calls since.
    pub fn find(&self, word: u32) -> Option<Record> {
        self.0.iter().find_map(|entry| entry.read(word)).map(Record)
    }
}

/// A rank's own board.
pub(crate) struct BoardWriter {
    entries: *const [Entry; ENTRIES],
    written: u32,
}

impl BoardWriter {
    /// The board of `me`; the job stays mapped while it is used.
    pub(crate) fn new(job: &Job, me: Rank) -> BoardWriter {
        BoardWriter { entries: job.board(me), written: 0 }
    }

    /// Notes the next call.
    #[inline]
    pub(crate) fn write(&mut self, word: u32, record: &Record) {
        // SAFETY: the board lies in the job's segment, which the engine keeps mapped for as long as it has its writer.
        let entries = unsafe { &*self.entries };
        entries[self.written as usize % ENTRIES].write(word, &record.0);
        self.written = self.written.wrapping_add(1);
    }

    /// As after so many calls.
    pub(crate) fn grow_old(&mut self, written: u32) {
        self.written = written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_shm::job::JobOptions;

    /// The last calls are found and those before them are not, whichever of them is the one behind which the count begins again.
    #[test]
    fn the_last_calls_stand_on_the_board_where_its_count_begins_again() {
        let job = Job::create(&JobOptions::new(1)).expect("a small job");
        for left in [0, 1, 100, ENTRIES as u32 + 50] {
            let mut writer = BoardWriter::new(&job, Rank(0));
            writer.grow_old(u32::MAX - left);
            let calls = 2 * ENTRIES as u32;
            for word in 1..=calls {
                writer.write(word, &Record([word.into(); 7]));
            }
            let board = Board::of(&job, Rank(0));
            let found: Vec<u32> = (1..=calls).filter(|word| board.find(*word).is_some()).collect();
            let last: Vec<u32> = (calls - ENTRIES as u32 + 1..=calls).collect();
            assert_eq!(found, last, "{left} calls before the end");
            assert_eq!(board.find(calls), Some(Record([calls.into(); 7])));
        }
    }
}
