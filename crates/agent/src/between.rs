//! Between two agents: one has ended, or was killed, and the runners of its sessions have not found the next one as yet.

use crate::connection::Connection;
use crate::runner::{ALONE_AFTER, LOOK_AGAIN};
use crate::sessions::Books;
use crate::store::Store;
use crate::{AgentError, Allocation, Place, Tree};
use std::thread;
use std::time::{Duration, Instant};

/// Waits, where no agent listens although sessions live of which one stands in the books, until one does. Where none is to be expected this
/// returns at once.
///
/// # Errors
/// They look for one in vain, and go on by themselves.
pub fn until_found(place: &Place, allocation: Option<&Allocation>) -> Result<(), AgentError> {
    let begun = Instant::now();
    loop {
        let is_missing = || {
            let found = Connection::existing(place, allocation);
            matches!(found, Err(AgentError::NoAgent { .. } | AgentError::Unreached { .. } | AgentError::Gone))
        };
        // Who is not here is asked by another node's castell, which takes long; runners cannot be seen from here either.
        if !place.socket.parent().is_some_and(|folder| folder.exists()) || !is_missing() {
            return Ok(());
        }
        let sessions = looking(place);
        if sessions == 0 {
            return Ok(());
        }
        if begun.elapsed() >= ALONE_AFTER + LOOK_AGAIN {
            return Err(AgentError::Between { path: place.socket.clone(), sessions });
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// How many sessions of the last agent live; as far as that can be told, where its books are of no use, or another user's.
fn looking(place: &Place) -> usize {
    let books: Result<Option<Books>, String> = Store::of_books(place.books()).peek();
    let marks: Vec<String> = match books {
        Ok(None) => return 0,
        Ok(Some(books)) if !books.is_of_now() => return 0,
        Ok(Some(books)) => books.marks(),
        Err(_) => Tree::marks().into_iter().collect(),
    };
    marks.iter().filter(|mark| Tree::runner_lives(mark) == Some(true)).count()
}
