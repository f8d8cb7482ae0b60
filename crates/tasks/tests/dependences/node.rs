//! A task that only has accesses, for the engine.

use castell_base::sync::{AtomicBool, AtomicU32, Ordering};
use castell_deps::Region;
use castell_deps::oracle::TaskNumber;
use castell_tasks::dependences::engine::{Access, Domain, free_chunk};
use castell_tasks::dependences::{Dependent, Exclusive, Outcome};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// A task of a program.
pub struct Node {
    pub number: TaskNumber,
    pub parent: Option<NonNull<Node>>,
    pub poisoned: AtomicBool,
    blocking: AtomicU32,
    references: AtomicU32,
    accesses: UnsafeCell<Vec<Access<Node>>>,
    domain: UnsafeCell<Domain<Node>>,
    exclusive: Arc<Exclusive<Node>>,
}

impl Node {
    /// A node with one reference, the caller's.
    pub fn create(
        number: TaskNumber,
        parent: Option<NonNull<Node>>,
        declared: &[castell_deps::Access],
        exclusive: &Arc<Exclusive<Node>>,
    ) -> NonNull<Node> {
        let node = Box::new(Node {
            number,
            parent,
            poisoned: AtomicBool::new(false),
            blocking: AtomicU32::new(0),
            references: AtomicU32::new(1),
            accesses: UnsafeCell::new(Vec::new()),
            domain: UnsafeCell::new(Domain::default()),
            exclusive: Arc::clone(exclusive),
        });
        let node = NonNull::from(Box::leak(node));
        let accesses = declared.iter().map(|access| Access::new(node, access)).collect();
        // SAFETY: nobody else sees the node yet.
        unsafe { *node.as_ref().accesses.get() = accesses };
        node
    }

    /// How many references there are.
    pub fn references(&self) -> u32 {
        self.references.load(Ordering::Acquire)
    }

    /// The domain of the node's children.
    ///
    /// # Safety
    /// On the thread of the node's body, with no other such reference around.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn domain(&self) -> &mut Domain<Node> {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.domain.get() }
    }
}

/// Ends references; frees the node with the last.
///
/// # Safety
/// The caller holds that many, and does not use them any more.
pub unsafe fn end_references(node: NonNull<Node>, count: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        let before = node.as_ref().references.fetch_sub(count, Ordering::AcqRel);
        assert!(before >= count, "task {} loses references that nobody had", node.as_ref().number);
        if before == count {
            for access in node.as_ref().accesses() {
                access.dispose(&mut |chunk, bytes| free_chunk(chunk, bytes));
            }
            drop(Box::from_raw(node.as_ptr()));
        }
    }
}

// SAFETY: plain atomic counters; a node is freed with its last reference.
unsafe impl Dependent for Node {
    fn begin_blocking(&self, count: u32) {
        self.blocking.store(count, Ordering::Relaxed);
    }

    fn block(&self, count: u32) {
        self.blocking.fetch_add(count, Ordering::Relaxed);
    }

    fn unblock(&self, count: u32) -> u32 {
        let before = self.blocking.fetch_sub(count, Ordering::AcqRel);
        assert!(before & 0x7fff_ffff >= count, "task {} is unblocked too often", self.number);
        before - count
    }

    fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    fn begin_retaining(&self, accesses: u32) {
        self.retain(accesses);
    }

    fn retain(&self, accesses: u32) {
        self.references.fetch_add(accesses, Ordering::Relaxed);
    }

    fn descends_from(&self, ancestor: &Self) -> bool {
        let mut at = self.parent;
        while let Some(parent) = at {
            if std::ptr::eq(parent.as_ptr(), ancestor) {
                return true;
            }
            // SAFETY: the tests keep parents while their children live.
            at = unsafe { parent.as_ref() }.parent;
        }
        false
    }

    fn parent(&self) -> Option<&Self> {
        // SAFETY: as above.
        self.parent.map(|parent| unsafe { parent.as_ref() })
    }

    fn accesses(&self) -> &[Access<Self>] {
        // SAFETY: written before anybody else saw the node, and not changed since.
        unsafe { &*self.accesses.get() }
    }

    fn exclusive(&self) -> &Exclusive<Self> {
        &self.exclusive
    }
}

/// Collects what the engine says.
#[derive(Default)]
pub struct Collected {
    pub ready: Vec<NonNull<Node>>,
    pub combined: Vec<(NonNull<Node>, Region)>,
}

impl Outcome<Node> for Collected {
    fn ready(&mut self, task: NonNull<Node>) {
        self.ready.push(task);
    }

    fn gone(&mut self, task: NonNull<Node>, accesses: u32) {
        // SAFETY: each access held a reference.
        unsafe { end_references(task, accesses) };
    }

    fn combine(&mut self, task: NonNull<Node>, region: Region, _group_ends: bool) {
        self.combined.push((task, region));
    }
}
