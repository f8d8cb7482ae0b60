//! Calls under way that end in any order and are passed in the order in which they were started.

use std::collections::VecDeque;

/// The calls that were started and not passed yet, the oldest first; `None` for one that has ended before an older one.
#[derive(Debug)]
pub struct Window<T>(VecDeque<(u64, Option<T>)>);

impl<T> Default for Window<T> {
    fn default() -> Window<T> {
        Window(VecDeque::new())
    }
}

impl<T> Window<T> {
    /// A call begins; turns only ever grow.
    #[inline]
    pub fn begin(&mut self, turn: u64, call: T) {
        self.0.push_back((turn, Some(call)));
    }

    /// Calls that have not been passed.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all have been passed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them, unless it has ended.
    #[inline]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.0.get_mut(at)?.1.as_mut()
    }

    /// Those that have not ended, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|(_, call)| call.as_ref())
    }

    /// A call has ended.
    #[inline]
    pub fn end(&mut self, at: usize) -> Option<T> {
        self.0.get_mut(at)?.1.take()
    }

    /// Forgets those in front that have ended; the last one's turn, if there are any: it has been passed, with all before it.
    #[inline]
    pub fn passed(&mut self) -> Option<u64> {
        let mut passed = None;
        while let Some((turn, None)) = self.0.front() {
            passed = Some(*turn);
            self.0.pop_front();
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_have_not_ended_are_there() {
        let mut window: Window<u32> = Window::default();
        assert!(window.is_empty() && window.get_mut(0).is_none() && window.end(0).is_none());
        window.begin(4, 40);
        window.begin(6, 60);
        assert!(!window.is_empty() && window.len() == 2);
        *window.get_mut(1).expect("it has not ended") += 1;
        assert_eq!(window.iter().copied().collect::<Vec<_>>(), [40, 61]);
        assert_eq!((window.end(0), window.passed()), (Some(40), Some(4)));
        assert_eq!((window.len(), window.get_mut(0).copied(), window.end(1)), (1, Some(61), None));
        assert_eq!((window.end(0), window.passed(), window.is_empty()), (Some(61), Some(6), true));
    }

    #[test]
    fn what_ends_early_is_passed_late() {
        let mut window = Window::default();
        [3, 5, 9].into_iter().for_each(|turn| window.begin(turn, turn));
        assert_eq!((window.end(1), window.passed(), window.len()), (Some(5), None, 3));
        assert!(window.end(1).is_none() && window.get_mut(1).is_none() && window.iter().count() == 2);
        assert_eq!((window.end(0), window.passed(), window.passed()), (Some(3), Some(5), None));
        assert_eq!((window.end(0), window.passed(), window.len()), (Some(9), Some(9), 0));
    }
}
