//! What a script sees of a node: tables that follow the node and that the script cannot write to.

use crate::seen::Seen;
use castell_base::{Moment, Time};
use castell_strategy::{Collection, CollectionId, Node, Place, Resource};
use mlua::{Function, Lua, Table};

/// Times as scripts have them.
pub(crate) fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e12
}

/// A node's tables. Only what has changed is written anew: with ten thousand collections a decision costs a few writes.
pub(crate) struct Mirror {
    pub node: Table,
    sensors: Table,
    write_node: Function,
    governor: String,
    write_resource: Function,
    waiting: List,
    resources: Vec<Slot>,
    seen: Seen,
}

/// A queue as a script sees it.
struct List {
    table: Table,
    ids: Vec<CollectionId>,
}

struct Slot {
    table: Table,
    queue: List,
    said: Option<Said>,
}

/// What a resource's table says.
#[derive(Clone, Copy, PartialEq)]
struct Said {
    is_free: bool,
    is_forbidden: bool,
    is_busy: bool,
    length: usize,
    running: Option<CollectionId>,
    started: Option<Moment>,
    ends: Option<Moment>,
}

impl Mirror {
    /// The tables of a node, whose resources stay the same.
    pub fn new(lua: &Lua, node: &Node) -> mlua::Result<Mirror> {
        let (root, by_name, all) = (lua.create_table()?, lua.create_table()?, lua.create_table()?);
        let mut resources = Vec::new();
        for (at, resource) in node.resources().iter().enumerate() {
            let slot = Slot { table: lua.create_table()?, queue: List::new(lua)?, said: None };
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
        let functions = lua.load(include_str!("mirror.luau")).set_name("=castell").eval();
        let (write_node, write_resource, describe, progress) = functions?;
        let seen = Seen::new(lua, node, describe, progress)?;
        let mirror = Mirror {
            node: root,
            sensors,
            write_node,
            governor: String::new(),
            write_resource,
            waiting,
            resources,
            seen,
        };
        Ok(mirror)
    }

    /// Follows the node.
    pub fn follow(&mut self, lua: &Lua, node: &Node) -> mlua::Result<()> {
        self.root(node)?;
        self.seen.look(lua, node)?;
        self.waiting.follow(node.waiting(), node, &mut self.seen)?;
        for (slot, resource) in self.resources.iter_mut().zip(node.resources()) {
            let (front, back) = resource.queue.as_slices();
            let joined;
            let ids = if back.is_empty() {
                front
            } else {
                joined = [front, back].concat();
                &joined
            };
            slot.queue.follow(ids, node, &mut self.seen)?;
            slot.follow(&self.write_resource, resource, node, &mut self.seen)?;
        }
        self.seen.forget_gone(node);
        Ok(())
    }

    fn root(&mut self, node: &Node) -> mlua::Result<()> {
        self.node.set_readonly(false);
        self.write_node.call::<()>((&self.node, node.now().as_s_f64()))?;
        if self.governor != node.governor() {
            node.governor().clone_into(&mut self.governor);
            self.node.raw_set("governor", node.governor())?;
        }
        self.node.set_readonly(true);
        if !node.sensors().is_empty() {
            self.sensors.set_readonly(false);
            for (name, value) in node.sensors() {
                self.sensors.raw_set(name.as_str(), *value)?;
            }
            self.sensors.set_readonly(true);
        }
        Ok(())
    }
}

impl Slot {
    fn follow(
        &mut self,
        write: &Function,
        resource: &Resource,
        node: &Node,
        seen: &mut Seen,
    ) -> mlua::Result<()> {
        let running = resource.running.and_then(|id| node.collection(id));
        let says = Said {
            is_free: resource.is_free(),
            is_forbidden: resource.is_forbidden,
            is_busy: resource.is_busy,
            length: resource.queue.len() + usize::from(running.is_some()),
            running: running.map(|running| running.id),
            started: running.and_then(|running| running.started),
            ends: running.and_then(ends),
        };
        let before = self.said.replace(says);
        if before == Some(says) {
            return Ok(());
        }
        seen.may_have_gone(before.and_then(|before| before.running).filter(|was| says.running != Some(*was)));
        let table = running.map(|running| seen.up_to_date(running)).transpose()?;
        let (started, ends) = (says.started.map(Moment::as_s_f64), says.ends.map(Moment::as_s_f64));
        self.table.set_readonly(false);
        write.call::<()>((
            &self.table,
            says.is_free,
            says.is_forbidden,
            says.is_busy,
            says.length,
            table,
            started,
            ends,
        ))?;
        self.table.set_readonly(true);
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
    fn follow(&mut self, ids: &[CollectionId], node: &Node, seen: &mut Seen) -> mlua::Result<()> {
        if self.ids == ids {
            return Ok(());
        }
        let same = self.ids.iter().zip(ids).take_while(|(one, other)| one == other).count();
        self.table.set_readonly(false);
        if self.ids.len() == ids.len() + 1 && self.ids[same + 1..] == ids[same..] {
            self.table.raw_remove(same + 1)?;
            seen.may_have_gone([self.ids.remove(same)]);
        } else {
            for (at, id) in ids.iter().enumerate().skip(same) {
                let table = seen.up_to_date(node.collection(*id).expect("it is in a queue"))?;
                self.table.raw_set(at + 1, table)?;
            }
            for at in (ids.len()..self.ids.len()).rev() {
                self.table.raw_set(at + 1, mlua::Nil)?;
            }
            seen.may_have_gone(self.ids.drain(same..));
            self.ids.extend(&ids[same..]);
        }
        self.table.set_readonly(true);
        Ok(())
    }
}

/// When the step that runs will end, if its kernel's time is known.
fn ends(collection: &Collection) -> Option<Moment> {
    let Place::Running(on) = collection.place else { return None };
    Some(collection.started? + collection.kernels.on(on)?.step_time?)
}
