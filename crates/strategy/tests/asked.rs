//! When a strategy is asked.

use castell_base::Time;
use castell_strategy::{Decision, Fault, Keeper, Kernel, Kernels, Node, ResourceId, ResourceKind, Strategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Puts what waits first onto the first resource, and counts how often it is asked.
struct Counts(Arc<AtomicUsize>);

impl Strategy for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn tick(&self) -> Option<Time> {
        None
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let first = node.waiting().first();
        Ok(first.map(|collection| Decision { collection: *collection, resource: ResourceId(0) }))
    }

    fn on_tick(&mut self, _: &Node) -> Result<(), Fault> {
        Ok(())
    }
}

#[test]
fn only_where_something_could_be_put_elsewhere() {
    let asked = Arc::new(AtomicUsize::new(0));
    let names = ["core", "gpu"].map(|name| (name.to_owned(), ResourceKind::of(name)));
    let node = Node::new(names).expect("two names");
    let mut keeper = Keeper::new(node, Box::new(Counts(asked.clone())));
    let kernel = Kernel { resource: ResourceId(0), step_time: None };
    let kernels = Arc::new(Kernels::new(vec![kernel], Vec::new()).expect("one kernel"));
    let register = |keeper: &mut Keeper| {
        keeper.register(Time::ZERO, "a".into(), kernels.clone(), 1).expect("it has a kernel for the first");
        asked.swap(0, Ordering::Relaxed)
    };
    assert_eq!(register(&mut keeper), 1, "it runs at once, and nothing else waits");
    assert_eq!(register(&mut keeper), 2, "it stands in line, and could be taken out of it");
    keeper.ended(Time::ZERO, ResourceId(0)).expect("the first runs");
    keeper.ended(Time::ZERO, ResourceId(0)).expect("and then the second");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "nothing waits");
}
