//! Whether a task descends from another one, in trees of any depth.
//!
//! A thread that waits runs only what descends from its task, so this is asked for whatever it finds. Parent by parent it would take longer
//! the deeper the tree is, and where each task creates the next one trees are as deep as there are tasks. So every
//! [`MILESTONE`]th generation knows an ancestor far above, chosen such that from any depth to any other one it takes about the
//! logarithm of their distance (skew-binary jumps: E. W. Myers, "An applicative random-access stack", 1983).

use castell_base::sync::{AtomicPtr, Ordering};

/// Tasks of every so many generations know ancestors far above them. Most trees are not even that deep.
const MILESTONE: u32 = 32;

/// A member of a tree, which lives as long as what descends from it.
pub(super) trait Kin: Sized {
    /// The distance to the root.
    fn depth(&self) -> u32;
    fn parent(&self) -> Option<&Self>;
    /// What it has noted; for milestones.
    fn above(&self) -> Option<&Above<Self>>;
}

/// Ancestors that one of such a generation knows: the next milestone above, and one further up.
pub(super) struct Above<T> {
    next: AtomicPtr<T>,
    far: AtomicPtr<T>,
}

impl<T> Default for Above<T> {
    fn default() -> Self {
        let nobody = || AtomicPtr::new(std::ptr::null_mut());
        Above { next: nobody(), far: nobody() }
    }
}

impl<T: Kin> Above<T> {
    /// Notes the milestone above `task`, and beyond it: if its jump and the one after that are equally long, where both together lead; else
    /// itself. Before others see the task.
    pub(super) fn note(&self, task: &T) {
        let mut ancestors = std::iter::successors(Some(task), |task| task.parent());
        let Some(next) = ancestors.nth(MILESTONE as usize) else { return };
        let jump = |from| known(from).map_or(from, |(_, far)| far);
        let (first, second) = (jump(next), jump(jump(next)));
        let is_even = next.depth() - first.depth() == first.depth() - second.depth();
        let far = if is_even { second } else { next };
        self.next.store(std::ptr::from_ref(next).cast_mut(), Ordering::Release);
        self.far.store(std::ptr::from_ref(far).cast_mut(), Ordering::Release);
    }
}

/// Whether a new task has to [note](Above::note) ancestors.
#[inline]
pub(super) fn is_milestone<T: Kin>(task: &T) -> bool {
    task.depth().is_multiple_of(MILESTONE) && task.depth() > 0
}

/// What a milestone has noted.
#[inline]
fn known<T: Kin>(task: &T) -> Option<(&T, &T)> {
    if !is_milestone(task) {
        return None;
    }
    let above = task.above()?;
    // SAFETY: ancestors live as long as what descends from them.
    unsafe {
        Some((above.next.load(Ordering::Acquire).as_ref()?, above.far.load(Ordering::Acquire).as_ref()?))
    }
}

/// The farthest ancestor that `task` knows, none of those before generation `depth` unless it is its parent.
#[inline]
fn step<T: Kin>(task: &T, depth: u32) -> Option<&T> {
    match known(task) {
        Some((_, far)) if far.depth() >= depth => Some(far),
        Some((next, _)) if next.depth() >= depth => Some(next),
        _ => task.parent(),
    }
}

/// Whether `task` descends from `ancestor`, and is another one.
#[inline]
pub(super) fn descends_from<T: Kin>(task: &T, ancestor: &T) -> bool {
    let mut task = task;
    while task.depth() > ancestor.depth() {
        let Some(above) = step(task, ancestor.depth()) else { return false };
        if std::ptr::eq(above, ancestor) {
            return true;
        }
        task = above;
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Member {
        depth: u32,
        parent: *const Member,
        above: Above<Member>,
    }

    impl Kin for Member {
        fn depth(&self) -> u32 {
            self.depth
        }

        fn parent(&self) -> Option<&Member> {
            // SAFETY: a leaked one.
            unsafe { self.parent.as_ref() }
        }

        fn above(&self) -> Option<&Above<Member>> {
            Some(&self.above)
        }
    }

    /// Members stay until the tests end.
    #[derive(Default)]
    struct Tree(Vec<&'static Member>);

    impl Tree {
        fn add(&mut self, parent: Option<usize>) -> usize {
            let parent = parent.map(|parent| self.0[parent]);
            let member: &Member = Box::leak(Box::new(Member {
                depth: parent.map_or(0, |parent| parent.depth + 1),
                parent: parent.map_or(std::ptr::null(), std::ptr::from_ref),
                above: Above::default(),
            }));
            if is_milestone(member) {
                member.above.note(member);
            }
            self.0.push(member);
            self.0.len() - 1
        }
    }

    fn parent_by_parent(task: &Member, ancestor: &Member) -> bool {
        std::iter::successors(task.parent(), |task| task.parent()).any(|above| std::ptr::eq(above, ancestor))
    }

    #[test]
    fn it_is_as_parent_by_parent() {
        let mut tree = Tree::default();
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut tips = vec![tree.add(None)];
        for _ in 0..3000 {
            let tip = draw(tips.len());
            let next = tree.add(Some(tips[tip]));
            if tips.len() < 4 && draw(100) == 0 {
                tips.push(next);
            }
            tips[tip] = next;
        }
        assert!(tips.iter().any(|&tip| tree.0[tip].depth > 20 * MILESTONE), "too flat to show something");
        for _ in 0..100_000 {
            let (task, other) = (tree.0[draw(3000)], tree.0[draw(3000)]);
            assert_eq!(
                descends_from(task, other),
                parent_by_parent(task, other),
                "{} {}",
                task.depth,
                other.depth
            );
        }
    }

    #[test]
    fn the_way_up_is_short() {
        let mut tree = Tree::default();
        let mut last = tree.add(None);
        for _ in 0..100_000 {
            last = tree.add(Some(last));
        }
        for depth in [0, 1, 31, 32, 33, 1000, 54_321, 99_999] {
            let way = std::iter::successors(Some(tree.0[last]), |&task| {
                step(task, depth).filter(|above| above.depth >= depth)
            });
            let steps = way.count();
            assert!(steps < 100, "{steps} steps from 100000 to {depth}");
        }
    }
}
