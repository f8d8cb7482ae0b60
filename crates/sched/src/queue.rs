//! A queue of ready tasks under one of three policies.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;

/// In which order a queue gives its tasks out (paper, section 4.1.4; priority is ours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueuePolicy {
    /// One task: the oldest. A set: the youngest.
    Fifo,
    /// One task: the youngest. A set: the oldest.
    #[default]
    Lifo,
    /// One task: the highest priority, the oldest among equals. A set: the lowest, the youngest among equals.
    Priority,
}

impl fmt::Display for QueuePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QueuePolicy::Fifo => "fifo",
            QueuePolicy::Lifo => "lifo",
            QueuePolicy::Priority => "priority",
        })
    }
}

impl FromStr for QueuePolicy {
    type Err = ();

    fn from_str(text: &str) -> Result<QueuePolicy, ()> {
        match text {
            "fifo" => Ok(QueuePolicy::Fifo),
            "lifo" => Ok(QueuePolicy::Lifo),
            "priority" => Ok(QueuePolicy::Priority),
            _ => Err(()),
        }
    }
}

/// Ready tasks in the order in which they came, given out as the policy says.
#[derive(Clone, Debug)]
pub struct ReadyQueue<T> {
    policy: QueuePolicy,
    length: usize,
    /// All of them, unless the policy is priority.
    list: VecDeque<T>,
    /// By priority, if that is the policy. No list is empty.
    lists: BTreeMap<i32, VecDeque<T>>,
}

impl<T> ReadyQueue<T> {
    /// An empty queue.
    pub fn new(policy: QueuePolicy) -> ReadyQueue<T> {
        ReadyQueue { policy, length: 0, list: VecDeque::new(), lists: BTreeMap::new() }
    }

    /// How many tasks it holds.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it holds none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a task as the youngest.
    #[inline]
    pub fn add(&mut self, priority: i32, task: T) {
        self.length += 1;
        match self.policy {
            QueuePolicy::Fifo | QueuePolicy::Lifo => self.list.push_back(task),
            QueuePolicy::Priority => self.lists.entry(priority).or_default().push_back(task),
        }
    }

    /// Takes the task that is next.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        let task = match self.policy {
            QueuePolicy::Lifo => self.list.pop_back(),
            QueuePolicy::Fifo => self.list.pop_front(),
            QueuePolicy::Priority => self.take_highest(),
        };
        self.length -= usize::from(task.is_some());
        task
    }

    fn take_highest(&mut self) -> Option<T> {
        let mut entry = self.lists.last_entry()?;
        let task = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        }
        task
    }

    /// The task that is next, or would be under LIFO; of the highest priority the youngest.
    #[inline]
    pub fn youngest(&self) -> Option<&T> {
        match self.policy {
            QueuePolicy::Priority => self.lists.last_key_value()?.1.back(),
            _ => self.list.back(),
        }
    }

    /// The task that [`ReadyQueue::take`] would take.
    #[inline]
    pub fn next(&self) -> Option<&T> {
        match self.policy {
            QueuePolicy::Lifo => self.list.back(),
            QueuePolicy::Fifo => self.list.front(),
            QueuePolicy::Priority => self.lists.last_key_value()?.1.front(),
        }
    }

    /// Takes the task that [`ReadyQueue::youngest`] shows.
    #[inline]
    pub fn take_youngest(&mut self) -> Option<T> {
        let task = match self.policy {
            QueuePolicy::Fifo | QueuePolicy::Lifo => self.list.pop_back(),
            QueuePolicy::Priority => {
                let mut entry = self.lists.last_entry()?;
                let task = entry.get_mut().pop_back();
                if entry.get().is_empty() {
                    entry.remove();
                }
                task
            }
        };
        self.length -= usize::from(task.is_some());
        task
    }

    /// Takes the youngest task that `wants` chooses, of the highest priority that has one; looks at the `most` youngest of each.
    pub fn take_youngest_where(&mut self, most: usize, mut wants: impl FnMut(&T) -> bool) -> Option<T> {
        let mut take = |list: &mut VecDeque<T>| {
            let behind = list.iter().rev().take(most).position(&mut wants)?;
            list.remove(list.len() - 1 - behind)
        };
        let task = match self.policy {
            QueuePolicy::Fifo | QueuePolicy::Lifo => take(&mut self.list),
            QueuePolicy::Priority => {
                let mut found = self.lists.iter_mut().rev();
                let found =
                    found.find_map(|(&priority, list)| Some((priority, take(list)?, list.is_empty())));
                found.map(|(priority, task, was_last)| {
                    if was_last {
                        self.lists.remove(&priority);
                    }
                    task
                })
            }
        };
        self.length -= usize::from(task.is_some());
        task
    }

    /// Takes up to `count` tasks for another queue: those that this one would give out last. `give` gets them in the
    /// order in which they would have to be added elsewhere.
    pub fn move_set(&mut self, count: usize, give: impl FnMut(T)) {
        let count = count.min(self.length);
        self.length -= count;
        match self.policy {
            QueuePolicy::Lifo => self.list.drain(..count).for_each(give),
            QueuePolicy::Fifo => self.list.drain(self.list.len() - count..).for_each(give),
            QueuePolicy::Priority => self.move_lowest(count, give),
        }
    }

    fn move_lowest(&mut self, count: usize, give: impl FnMut(T)) {
        let mut set = VecDeque::with_capacity(count);
        while set.len() < count {
            let Some(mut entry) = self.lists.first_entry() else { break };
            if let Some(task) = entry.get_mut().pop_back() {
                set.push_front(task);
            }
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        set.into_iter().for_each(give);
    }

    /// [`ReadyQueue::move_set`] into a list.
    pub fn take_set(&mut self, count: usize) -> Vec<T> {
        let mut set = Vec::with_capacity(count.min(self.length));
        self.move_set(count, |task| set.push(task));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(policy: QueuePolicy) -> ReadyQueue<u32> {
        let mut queue = ReadyQueue::new(policy);
        for (task, priority) in [(0, 5), (1, 0), (2, 9), (3, 5), (4, 0)] {
            queue.add(priority, task);
        }
        queue
    }

    fn drained(mut queue: ReadyQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn one_task() {
        assert_eq!(drained(filled(QueuePolicy::Fifo)), [0, 1, 2, 3, 4]);
        assert_eq!(drained(filled(QueuePolicy::Lifo)), [4, 3, 2, 1, 0]);
        assert_eq!(drained(filled(QueuePolicy::Priority)), [2, 0, 3, 1, 4]);
    }

    #[test]
    fn sets_come_from_the_other_end() {
        for (policy, set, rest) in [
            (QueuePolicy::Fifo, [3, 4], [0, 1, 2]),
            (QueuePolicy::Lifo, [0, 1], [4, 3, 2]),
            (QueuePolicy::Priority, [1, 4], [2, 0, 3]),
        ] {
            let mut queue = filled(policy);
            assert_eq!(queue.take_set(2), set, "{policy}");
            assert_eq!(queue.len(), 3);
            assert_eq!(drained(queue), rest, "{policy}");
        }
        let mut queue = filled(QueuePolicy::Fifo);
        assert_eq!(queue.take_set(9), [0, 1, 2, 3, 4]);
        assert!(queue.is_empty() && queue.take().is_none() && queue.take_set(1).is_empty());
    }

    #[test]
    fn the_youngest_can_be_looked_at_first() {
        for (policy, youngest) in [(QueuePolicy::Fifo, 4), (QueuePolicy::Lifo, 4), (QueuePolicy::Priority, 2)]
        {
            let mut queue = filled(policy);
            assert_eq!(queue.youngest(), Some(&youngest));
            assert_eq!(queue.next().copied(), queue.clone().take());
            assert_eq!(queue.take_youngest(), Some(youngest));
            assert_eq!((queue.len(), drained(queue).len()), (4, 4));
        }
    }

    #[test]
    fn the_youngest_that_somebody_wants() {
        for (policy, youngest_odd) in [(QueuePolicy::Fifo, 3), (QueuePolicy::Lifo, 3)] {
            let mut queue = filled(policy);
            assert_eq!(
                queue.take_youngest_where(1, |task| task % 2 == 1),
                None,
                "that is not among the youngest"
            );
            assert_eq!(queue.take_youngest_where(2, |task| task % 2 == 1), Some(youngest_odd));
            assert_eq!((queue.len(), drained(queue).len()), (4, 4));
        }
        let mut queue = filled(QueuePolicy::Priority);
        let highest = queue.youngest().copied();
        assert_eq!(queue.take_youngest_where(9, |_| true), highest);
        assert_eq!((queue.len(), drained(queue).len()), (4, 4));
    }

    #[test]
    fn names() {
        for policy in [QueuePolicy::Fifo, QueuePolicy::Lifo, QueuePolicy::Priority] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!("stack".parse::<QueuePolicy>().is_err());
    }
}
