//! An application's own node: the same resources, and only its own collections. What starts there stands in line at the node that it
//! was made of, with the kernel for that resource only, and begins when that one says so.

use super::Node;
use crate::collection::Place;
use crate::node::ResourceId;
use std::collections::{BTreeMap, VecDeque};

impl Node {
    /// An application's own node, without collections as yet.
    #[must_use]
    pub fn of_application(&self) -> Node {
        let mut own = self.clone();
        (own.waiting, own.collections, own.next, own.is_own) = (Vec::new(), BTreeMap::new(), 1, true);
        for resource in &mut own.resources {
            (resource.running, resource.queue, resource.is_busy) = (None, VecDeque::new(), false);
        }
        own
    }

    /// Others run on these resources, and on no further ones.
    pub fn set_busy(&mut self, busy: &[ResourceId]) {
        for (at, resource) in self.resources.iter_mut().enumerate() {
            resource.is_busy = busy.contains(&ResourceId(at));
        }
    }

    /// What stands in line for this resource has begun there.
    pub fn began(&mut self, on: ResourceId) {
        let now = self.now;
        let running = self.resources.get(on.0).and_then(|resource| resource.running);
        if let Some(collection) = running.and_then(|id| self.collections.get_mut(&id)) {
            collection.started = Some(now);
        }
    }

    /// What stood in line for this resource does not any more: it waits again, before all others. Nothing else starts by that.
    pub fn came_back(&mut self, on: ResourceId) {
        let running = self.resources.get_mut(on.0).and_then(|resource| resource.running.take());
        let Some(collection) = running.and_then(|id| self.collections.get_mut(&id)) else { return };
        (collection.place, collection.started) = (Place::Waiting, None);
        self.waiting.insert(0, collection.id);
    }
}
