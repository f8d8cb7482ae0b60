//! A leaf's own queue: what [`castell_sched::ReadyQueue`] decides, in a ring of addresses, as short as it gets.

use super::tree::{Queued, priority};
use crate::scheduler::schedulable::Schedulable;
use castell_sched::{QueuePolicy, ReadyQueue};
use std::ptr::NonNull;

/// Room at first; a power of two.
const ROOM: usize = 512;

/// Ready tasks in the order in which they came. Under LIFO and FIFO a task's number is its place in that order, for ever.
pub(super) struct Line<T> {
    policy: QueuePolicy,
    /// The number of the oldest task, and the one that the next task gets.
    start: u64,
    end: u64,
    /// A power of two of cells; a task lies in the one of its number.
    ring: Box<[Option<NonNull<T>>]>,
    /// All of them, if the policy is priority.
    sorted: ReadyQueue<Queued<T>>,
}

// SAFETY: queued tasks belong to their queue, wherever its thread is.
unsafe impl<T> Send for Line<T> {}

impl<T: Schedulable> Line<T> {
    pub(super) fn new(policy: QueuePolicy) -> Self {
        let room = if policy == QueuePolicy::Priority { 1 } else { ROOM };
        Line { policy, start: 0, end: 0, ring: vec![None; room].into(), sorted: ReadyQueue::new(policy) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.policy == QueuePolicy::Priority {
            self.sorted.len()
        } else {
            (self.end - self.start) as usize
        }
    }

    /// The number that the next task gets.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    fn cell(&mut self, number: u64) -> &mut Option<NonNull<T>> {
        let mask = self.ring.len() - 1;
        // SAFETY: the ring has a power of two of cells, at least one.
        unsafe { self.ring.get_unchecked_mut(number as usize & mask) }
    }

    /// Adds a task as the youngest; returns how many there are.
    #[inline]
    pub(super) fn add(&mut self, task: NonNull<T>) -> usize {
        if self.policy == QueuePolicy::Priority {
            return self.add_sorted(task);
        }
        let length = (self.end - self.start) as usize;
        if length == self.ring.len() {
            self.grow();
        }
        *self.cell(self.end) = Some(task);
        self.end += 1;
        length + 1
    }

    #[cold]
    #[inline(never)]
    fn add_sorted(&mut self, task: NonNull<T>) -> usize {
        self.sorted.add(priority(task), Queued(task));
        self.sorted.len()
    }

    #[cold]
    #[inline(never)]
    fn youngest_sorted(&self) -> Option<NonNull<T>> {
        self.sorted.youngest().map(|task| task.0)
    }

    #[cold]
    #[inline(never)]
    fn take_youngest_sorted(&mut self) -> Option<NonNull<T>> {
        self.sorted.take_youngest().map(|task| task.0)
    }

    #[cold]
    #[inline(never)]
    fn take_sorted(&mut self) -> Option<NonNull<T>> {
        self.sorted.take().map(|task| task.0)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut larger = vec![None; self.ring.len() * 2];
        let mask = larger.len() - 1;
        for number in self.start..self.end {
            larger[number as usize & mask] = *self.cell(number);
        }
        self.ring = larger.into();
    }

    /// Takes the task that is next.
    #[inline]
    pub(super) fn take(&mut self) -> Option<NonNull<T>> {
        match self.policy {
            QueuePolicy::Priority => self.take_sorted(),
            QueuePolicy::Lifo => self.take_youngest(),
            QueuePolicy::Fifo if self.start == self.end => None,
            QueuePolicy::Fifo => {
                self.start += 1;
                *self.cell(self.start - 1)
            }
        }
    }

    /// The task that [`Line::take`] would take; `None` for priorities, where that costs a search.
    #[inline]
    pub(super) fn next(&mut self) -> Option<NonNull<T>> {
        match self.policy {
            QueuePolicy::Fifo if self.start != self.end => *self.cell(self.start),
            QueuePolicy::Lifo if self.start != self.end => *self.cell(self.end - 1),
            _ => None,
        }
    }

    /// The task that is next, or would be under LIFO.
    #[inline]
    pub(super) fn youngest(&mut self) -> Option<NonNull<T>> {
        if self.policy == QueuePolicy::Priority {
            return self.youngest_sorted();
        }
        if self.start == self.end { None } else { *self.cell(self.end - 1) }
    }

    /// Takes the task that [`Line::youngest`] shows.
    #[inline]
    pub(super) fn take_youngest(&mut self) -> Option<NonNull<T>> {
        if self.policy == QueuePolicy::Priority {
            return self.take_youngest_sorted();
        }
        if self.start == self.end {
            return None;
        }
        self.end -= 1;
        *self.cell(self.end)
    }

    /// Under LIFO and FIFO, takes the youngest task if `wants` it; also gives the one that comes into its place, or, if there is none,
    /// the address of something that may be gone: only to be prefetched.
    #[inline]
    pub(super) fn take_youngest_if(
        &mut self,
        wants: impl FnOnce(u64, NonNull<T>) -> bool,
    ) -> Option<(NonNull<T>, Option<NonNull<T>>)> {
        if self.start == self.end {
            return None;
        }
        let youngest = (*self.cell(self.end - 1))?;
        if !wants(self.end, youngest) {
            return None;
        }
        self.end -= 1;
        // What lies there now may be gone if the queue is empty: nobody reads it then.
        Some((youngest, *self.cell(self.end.wrapping_sub(1))))
    }

    /// Takes the youngest task that `wants` chooses, of the `most` youngest; the others keep their order. Under LIFO and FIFO
    /// those behind it get the numbers before theirs.
    pub(super) fn take_youngest_where(
        &mut self,
        most: usize,
        wants: impl Fn(NonNull<T>) -> bool,
    ) -> Option<NonNull<T>> {
        if self.policy == QueuePolicy::Priority {
            return self.sorted.take_youngest_where(most, |task| wants(task.0)).map(|task| task.0);
        }
        let first = self.start.max(self.end.saturating_sub(most as u64));
        self.take_first((first..self.end).rev(), wants)
    }

    /// As [`Line::take_youngest_where`], of the `most` oldest the oldest.
    pub(super) fn take_oldest_where(
        &mut self,
        most: usize,
        wants: impl Fn(NonNull<T>) -> bool,
    ) -> Option<NonNull<T>> {
        if self.policy == QueuePolicy::Priority {
            return self.take_youngest_where(most, wants);
        }
        let last = self.end.min(self.start.saturating_add(most as u64));
        self.take_first(self.start..last, wants)
    }

    /// Takes the first of these that `wants` chooses. Those behind it get the numbers before theirs: whoever knows something of all from a number
    /// on is right about fewer, never wrong.
    fn take_first(
        &mut self,
        mut numbers: impl Iterator<Item = u64>,
        wants: impl Fn(NonNull<T>) -> bool,
    ) -> Option<NonNull<T>> {
        let number = numbers.find(|&number| self.cell(number).is_some_and(&wants))?;
        let found = *self.cell(number);
        for behind in number + 1..self.end {
            *self.cell(behind - 1) = *self.cell(behind);
        }
        self.end -= 1;
        found
    }

    /// [`Line::move_set`] for somebody who is idle. Under LIFO it is what is nested as deep as the oldest and no more: in recursion each level has
    /// about as much work as all behind it, and who gave half of the *tasks* away would have nearly nothing left, and wait for them.
    pub(super) fn move_level(&mut self, count: usize, give: impl FnMut(Queued<T>)) {
        if self.policy != QueuePolicy::Lifo {
            return self.move_set(count, give);
        }
        if self.start == self.end {
            return; // what lies in its cells may be gone
        }
        let (start, end) = (self.start, self.start + count.min(self.len()) as u64);
        // SAFETY: queued tasks are alive.
        let mut nesting = |number| self.cell(number).map(|task| unsafe { task.as_ref() }.nesting());
        let oldest = nesting(start);
        let alike = (start..end).take_while(|&number| nesting(number) == oldest).count();
        self.move_set(alike, give);
    }

    /// Takes up to `count` tasks for another queue: those that this one would give out last.
    pub(super) fn move_set(&mut self, count: usize, mut give: impl FnMut(Queued<T>)) {
        if self.policy == QueuePolicy::Priority {
            return self.sorted.move_set(count, give);
        }
        let count = count.min(self.len()) as u64;
        let first = if self.policy == QueuePolicy::Lifo { self.start } else { self.end - count };
        for number in first..first + count {
            self.cell(number).iter().for_each(|task| give(Queued(*task)));
        }
        if self.policy == QueuePolicy::Lifo {
            self.start += count;
        } else {
            self.end -= count;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scheduler::schedulable::tests::Item;
    use std::sync::atomic::Ordering;

    #[test]
    fn one_of_the_oldest_is_chosen_and_the_others_keep_their_order() {
        for (policy, left) in [(QueuePolicy::Lifo, [5, 4, 2, 1, 0]), (QueuePolicy::Fifo, [0, 1, 2, 4, 5])] {
            let items: Vec<Item> = (0..6).map(Item::new).collect();
            let mut line = Line::new(policy);
            items.iter().for_each(|item| _ = line.add(NonNull::from(item)));
            // SAFETY: the items are alive.
            let number = |task: NonNull<Item>| unsafe { task.as_ref() }.number;
            assert!(line.take_oldest_where(3, |task| number(task) >= 3).is_none());
            assert_eq!(line.take_oldest_where(4, |task| number(task) >= 3).map(number), Some(3));
            assert_eq!(std::iter::from_fn(|| line.take()).map(number).collect::<Vec<_>>(), left);
        }
    }

    #[test]
    fn who_is_idle_gets_the_oldest_level() {
        // Of a recursion: two siblings, one below one of them, and two below that.
        let mut items: Vec<Item> = (0..5).map(Item::new).collect();
        items.iter_mut().zip([1, 1, 2, 3, 3]).for_each(|(item, nesting)| item.nesting = nesting);
        let moved = |policy, counts: &[usize]| {
            let mut line = Line::new(policy);
            items.iter().for_each(|item| _ = line.add(NonNull::from(item)));
            let mut moved = Vec::new();
            for &count in counts {
                let mut set = Vec::new();
                // SAFETY: the items outlive the line.
                line.move_level(count, |task| set.push(unsafe { task.0.as_ref() }.number));
                moved.push(set);
            }
            moved
        };
        assert_eq!(
            moved(QueuePolicy::Lifo, &[3, 2, 1, 2, 1]),
            [vec![0, 1], vec![2], vec![3], vec![4], vec![]]
        );
        assert_eq!(moved(QueuePolicy::Fifo, &[3, 2]), [vec![2, 3, 4], vec![0, 1]]);
    }

    /// What was taken from it may be gone.
    #[test]
    fn nothing_is_asked_of_what_lay_in_an_empty_line() {
        let item = Item::new(0);
        let mut line = Line::new(QueuePolicy::Lifo);
        line.add(NonNull::from(&item));
        assert!(line.take().is_some());
        line.move_level(1, |_| panic!("it is empty"));
        assert_eq!(item.asked.load(Ordering::Relaxed), 0);
    }

    /// The same steps on both, and the same comes out.
    #[test]
    fn does_what_the_ready_queue_does() {
        let mut items: Vec<Item> = (0..5000).map(Item::new).collect();
        items.iter_mut().for_each(|item| item.priority = (item.number * 7 % 5) as i32);
        for policy in [QueuePolicy::Fifo, QueuePolicy::Lifo, QueuePolicy::Priority] {
            let (mut line, mut queue) = (Line::new(policy), ReadyQueue::new(policy));
            let mut state = 88_172_645_463_325_252_u64;
            for item in &items {
                let task = NonNull::from(item);
                line.add(task);
                queue.add(item.priority, task);
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                match state % 16 {
                    0..4 => assert_eq!(line.take(), queue.take()),
                    4..6 => {
                        assert_eq!(line.youngest(), queue.youngest().copied());
                        assert_eq!(line.take_youngest(), queue.take_youngest());
                    }
                    7 => {
                        // SAFETY: the items outlive both queues.
                        let wants = |task: NonNull<Item>| unsafe { task.as_ref() }.number.is_multiple_of(3);
                        let (found, other) = (
                            line.take_youngest_where(5, wants),
                            queue.take_youngest_where(5, |task| wants(*task)),
                        );
                        assert_eq!(found, other);
                    }
                    6 => {
                        let mut set = Vec::new();
                        line.move_set(3, |task| set.push(task.0));
                        assert_eq!(set, queue.take_set(3));
                    }
                    _ => {}
                }
                assert_eq!(line.len(), queue.len());
            }
            while let Some(task) = queue.take() {
                assert_eq!(line.take(), Some(task), "{policy}");
            }
            assert!(line.take().is_none() && line.youngest().is_none());
        }
    }
}
