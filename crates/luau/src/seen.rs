//! The collections that a script has been shown.

use crate::mirror::seconds;
use castell_strategy::{Collection, CollectionId, Kernels, Node, ResourceId};
use mlua::{Function, Lua, Table};
use std::collections::HashMap;
use std::sync::Arc;

/// Below this number of shapes none is looked for that nobody uses any more.
const SHAPES_KEPT: usize = 64;

/// The tables of all collections that a node has.
pub(crate) struct Seen {
    describe: Function,
    progress: Function,
    /// Of the node's resources.
    names: Vec<mlua::String>,
    by_id: HashMap<CollectionId, Described>,
    /// No collection with a number below has yet to be seen.
    next: CollectionId,
    shapes: Shapes,
    /// Have left a place, for another or for good.
    moved: Vec<CollectionId>,
}

/// A collection's table, and what it says of what changes.
struct Described {
    table: Table,
    steps_done: u32,
    last: Option<ResourceId>,
}

/// What collections of the same kernels have in common. By the kernels' address, and with the kernels, so that no others get it.
struct Shapes {
    tables: HashMap<usize, (Arc<Kernels>, Table)>,
    prune_at: usize,
}

impl Seen {
    /// None as yet, of a node with these resources; the two functions are mirror.luau's.
    pub fn new(lua: &Lua, node: &Node, describe: Function, progress: Function) -> mlua::Result<Seen> {
        let names = node.resources().iter().map(|resource| lua.create_string(&resource.name));
        let shapes = Shapes { tables: HashMap::new(), prune_at: SHAPES_KEPT };
        let (by_id, moved) = (HashMap::new(), Vec::new());
        let names = names.collect::<mlua::Result<_>>()?;
        Ok(Seen { describe, progress, names, by_id, next: CollectionId(0), shapes, moved })
    }

    /// Describes those that have come.
    pub fn look(&mut self, lua: &Lua, node: &Node) -> mlua::Result<()> {
        for collection in node.collections_from(self.next) {
            let Collection { id, steps, steps_done, last, .. } = *collection;
            let shape = self.shapes.of(lua, node, &collection.kernels)?;
            let (application, arrived) = (&*collection.application, collection.arrived.as_s_f64());
            let words = (shape, id.0, application, steps, arrived, steps_done, self.name(last));
            let table = self.describe.call(words)?;
            self.by_id.insert(id, Described { table, steps_done, last });
            self.next = CollectionId(id.0 + 1);
        }
        Ok(())
    }

    /// The table of one that is in another place than before: only then can something about it have changed.
    pub fn up_to_date(&mut self, collection: &Collection) -> mlua::Result<&Table> {
        let (steps_done, last) = (collection.steps_done, collection.last);
        let name = self.name(last).cloned();
        let described = self.by_id.get_mut(&collection.id).expect("all that came were described");
        if (described.steps_done, described.last) != (steps_done, last) {
            described.table.set_readonly(false);
            self.progress.call::<()>((&described.table, steps_done, name))?;
            described.table.set_readonly(true);
            (described.steps_done, described.last) = (steps_done, last);
        }
        Ok(&described.table)
    }

    /// These have left where they were.
    pub fn may_have_gone(&mut self, ids: impl IntoIterator<Item = CollectionId>) {
        self.moved.extend(ids);
    }

    /// What has left its place and is nowhere else is done or withdrawn.
    pub fn forget_gone(&mut self, node: &Node) {
        for id in self.moved.drain(..).filter(|id| node.collection(*id).is_none()) {
            self.by_id.remove(&id);
        }
    }

    fn name(&self, of: Option<ResourceId>) -> Option<&mlua::String> {
        of.map(|id| &self.names[id.0])
    }
}

impl Shapes {
    fn of(&mut self, lua: &Lua, node: &Node, kernels: &Arc<Kernels>) -> mlua::Result<Table> {
        let address = Arc::as_ptr(kernels).addr();
        if let Some((_, table)) = self.tables.get(&address) {
            return Ok(table.clone());
        }
        if self.tables.len() >= self.prune_at {
            self.tables.retain(|_, (kernels, _)| Arc::strong_count(kernels) > 1);
            self.prune_at = (2 * self.tables.len()).max(SHAPES_KEPT);
        }
        let table = shape(lua, node, kernels)?;
        self.tables.insert(address, (kernels.clone(), table.clone()));
        Ok(table)
    }
}

/// Rankings and times of kernels as a script sees them.
fn shape(lua: &Lua, node: &Node, kernels: &Kernels) -> mlua::Result<Table> {
    let name = |id: &ResourceId| node.resources()[id.0].name.as_str();
    let (table, rankings, time) = (lua.create_table()?, lua.create_table()?, lua.create_table()?);
    for (at, ranking) in kernels.rankings().iter().enumerate() {
        let order = lua.create_sequence_from(ranking.order.iter().map(name))?;
        order.set_readonly(true);
        rankings.raw_set(ranking.name.as_str(), &order)?;
        if at == 0 {
            table.raw_set("ranking", &order)?;
        }
    }
    for kernel in kernels.all() {
        time.raw_set(name(&kernel.resource), kernel.step_time.map(seconds))?;
    }
    [&rankings, &time].into_iter().for_each(|table| table.set_readonly(true));
    table.raw_set("rankings", rankings)?;
    table.raw_set("time", time)?;
    Ok(table)
}
