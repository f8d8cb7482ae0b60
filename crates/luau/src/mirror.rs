//! What a script sees of a node: tables that follow the node and that the script cannot write to.

use castell_base::Time;
use castell_strategy::{Collection, CollectionId, Node, Place, ResourceId};
use mlua::{Lua, Table};
use std::collections::BTreeMap;

/// Times as scripts have them.
pub(crate) fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e12
}

/// A node's tables. Only what has changed is written anew: with ten thousand collections a decision costs a few writes.
pub(crate) struct Mirror {
    pub node: Table,
    sensors: Table,
    waiting: List,
    resources: Vec<Slot>,
    collections: BTreeMap<CollectionId, Table>,
    /// No collection with a number below has yet to be seen.
    next: CollectionId,
}

/// A queue as a script sees it.
struct List {
    table: Table,
    ids: Vec<CollectionId>,
}

struct Slot {
    table: Table,
    queue: List,
}

impl Mirror {
    /// The tables of a node, whose resources stay the same.
    pub fn new(lua: &Lua, node: &Node) -> mlua::Result<Mirror> {
        let (root, by_name, all) = (lua.create_table()?, lua.create_table()?, lua.create_table()?);
        let mut resources = Vec::new();
        for (at, resource) in node.resources().iter().enumerate() {
            let slot = Slot { table: lua.create_table()?, queue: List::new(lua)? };
            slot.table.raw_set("name", resource.name.as_str())?;
            slot.table.raw_set("kind", resource.kind.name())?;
            slot.table.raw_set("index", at + 1)?;
            slot.table.raw_set("queue", &slot.queue.table)?;
            by_name.raw_set(resource.name.as_str(), &slot.table)?;
            all.raw_push(&slot.table)?;
            slot.table.set_readonly(true);
            resources.push(slot);
        }
        let (sensors, waiting) = (lua.create_table()?, List::new(lua)?);
        root.raw_set("resources", &all)?;
        root.raw_set("resource", &by_name)?;
        root.raw_set("sensors", &sensors)?;
        root.raw_set("waiting", &waiting.table)?;
        [&root, &by_name, &all, &sensors].into_iter().for_each(|table| table.set_readonly(true));
        let (collections, next) = (BTreeMap::new(), CollectionId(0));
        Ok(Mirror { node: root, sensors, waiting, resources, collections, next })
    }

    /// Follows the node.
    pub fn follow(&mut self, lua: &Lua, node: &Node) -> mlua::Result<()> {
        self.root(node)?;
        for collection in node.collections_from(self.next) {
            let table = described(lua, node, collection)?;
            self.collections.insert(collection.id, table);
            self.next = CollectionId(collection.id.0 + 1);
        }
        self.waiting.follow(node.waiting(), node, &self.collections)?;
        for (slot, resource) in self.resources.iter_mut().zip(node.resources()) {
            let (front, back) = resource.queue.as_slices();
            let joined;
            let ids = if back.is_empty() {
                front
            } else {
                joined = [front, back].concat();
                &joined
            };
            slot.queue.follow(ids, node, &self.collections)?;
            let running = resource.running.and_then(|id| node.collection(id));
            let table = &slot.table;
            table.set_readonly(false);
            table.raw_set("free", resource.is_free())?;
            table.raw_set("forbidden", resource.is_forbidden)?;
            table.raw_set("length", ids.len() + usize::from(running.is_some()))?;
            let of = running.and_then(|running| self.collections.get(&running.id));
            table.raw_set("running", of)?;
            let started = running.and_then(|running| running.started);
            table.raw_set("started", started.map(seconds))?;
            table.raw_set("ends", running.and_then(ends).map(seconds))?;
            table.set_readonly(true);
        }
        if self.collections.len() > node.collections().len() {
            self.collections.retain(|id, _| node.collection(*id).is_some());
        }
        Ok(())
    }

    fn root(&mut self, node: &Node) -> mlua::Result<()> {
        self.node.set_readonly(false);
        self.node.raw_set("now", seconds(node.now()))?;
        self.node.raw_set("governor", node.governor())?;
        self.node.set_readonly(true);
        self.sensors.set_readonly(false);
        for (name, value) in node.sensors() {
            self.sensors.raw_set(name.as_str(), *value)?;
        }
        self.sensors.set_readonly(true);
        Ok(())
    }
}

impl List {
    fn new(lua: &Lua) -> mlua::Result<List> {
        let table = lua.create_table()?;
        table.set_readonly(true);
        Ok(List { table, ids: Vec::new() })
    }

    /// Becomes these collections. Usually one has gone or been added.
    fn follow(
        &mut self,
        ids: &[CollectionId],
        node: &Node,
        tables: &BTreeMap<CollectionId, Table>,
    ) -> mlua::Result<()> {
        if self.ids == ids {
            return Ok(());
        }
        let same = self.ids.iter().zip(ids).take_while(|(one, other)| one == other).count();
        self.table.set_readonly(false);
        if self.ids.len() == ids.len() + 1 && self.ids[same + 1..] == ids[same..] {
            self.table.raw_remove(same + 1)?;
        } else {
            for (at, id) in ids.iter().enumerate().skip(same) {
                let table = &tables[id];
                update(table, node, node.collection(*id).expect("it is in a queue"))?;
                self.table.raw_set(at + 1, table)?;
            }
            for at in (ids.len()..self.ids.len()).rev() {
                self.table.raw_set(at + 1, mlua::Nil)?;
            }
        }
        self.table.set_readonly(true);
        self.ids = ids.to_vec();
        Ok(())
    }
}

/// When the step that runs will end, if its kernel's time is known.
fn ends(collection: &Collection) -> Option<Time> {
    let Place::Running(on) = collection.place else { return None };
    Some(collection.started? + collection.kernels.on(on)?.step_time?)
}

/// A collection as a script sees it.
fn described(lua: &Lua, node: &Node, collection: &Collection) -> mlua::Result<Table> {
    let name = |id: &ResourceId| node.resources()[id.0].name.as_str();
    let (table, rankings, time) = (lua.create_table()?, lua.create_table()?, lua.create_table()?);
    for (at, ranking) in collection.kernels.rankings().iter().enumerate() {
        let order = lua.create_sequence_from(ranking.order.iter().map(name))?;
        order.set_readonly(true);
        rankings.raw_set(ranking.name.as_str(), &order)?;
        if at == 0 {
            table.raw_set("ranking", &order)?;
        }
    }
    for kernel in collection.kernels.all() {
        time.raw_set(name(&kernel.resource), kernel.step_time.map(seconds))?;
    }
    table.raw_set("id", collection.id.0)?;
    table.raw_set("application", &*collection.application)?;
    table.raw_set("rankings", &rankings)?;
    table.raw_set("time", &time)?;
    table.raw_set("steps", collection.steps)?;
    table.raw_set("arrived", seconds(collection.arrived))?;
    [&table, &rankings, &time].into_iter().for_each(|table| table.set_readonly(true));
    update(&table, node, collection)?;
    Ok(table)
}

/// What changes about a collection; it has been in another place since, whenever it does.
fn update(table: &Table, node: &Node, collection: &Collection) -> mlua::Result<()> {
    table.set_readonly(false);
    table.raw_set("steps_done", collection.steps_done)?;
    table.raw_set("last", collection.last.map(|last| node.resources()[last.0].name.as_str()))?;
    table.set_readonly(true);
    Ok(())
}
