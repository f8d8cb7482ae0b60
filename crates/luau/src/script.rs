//! A script that decides.

use crate::mirror::Mirror;
use crate::sandbox::{Limits, Printed, Sandbox};
use castell_base::Time;
use castell_strategy::{CollectionId, Decision, During, Fault, Node, ResourceId, Strategy};
use mlua::{Function, Lua, Table, Value};
use std::collections::BTreeMap;

/// The types of what scripts see, for editors (luau-lsp).
pub const DEFINITIONS: &str = include_str!("strategies/castell.d.luau");

/// What a strategy's table may have.
const FIELDS: [&str; 7] = ["choose", "description", "name", "on_tick", "parameters", "shown", "tick"];
/// Numbers that one can show, and bytes of a name of theirs.
const SHOWN_MAX: usize = 32;
const SHOWN_NAME_BYTES_MAX: usize = 64;
/// The shortest interval of ticks, in seconds.
const TICK_S_MIN: f64 = 1e-3;
/// The longest: a year.
const TICK_S_MAX: f64 = 366.0 * 86_400.0;

/// A value that a script's `parameters` has.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// `true` or `false`.
    Flag(bool),
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
}

/// A script that decides.
pub struct Script {
    name: String,
    description: String,
    sandbox: Sandbox,
    table: Table,
    choose: Function,
    keys: Keys,
    mirror: Option<Mirror>,
}

/// Names of fields that are asked for at every decision; made once, since the machine makes strings slowly.
struct Keys {
    id: mlua::String,
    name: mlua::String,
    tick: mlua::String,
    on_tick: mlua::String,
}

impl Keys {
    fn new(lua: &Lua) -> mlua::Result<Keys> {
        let key = |name: &str| lua.create_string(name);
        Ok(Keys { id: key("id")?, name: key("name")?, tick: key("tick")?, on_tick: key("on_tick")? })
    }
}

impl Script {
    /// Reads a script, runs it and checks its interface. `name` is the file's, as errors have it.
    ///
    /// # Errors
    /// It is no Luau, it fails or uses up its limits, or what it returns is no strategy.
    pub fn load(name: &str, text: &str, limits: Limits) -> Result<Script, Fault> {
        let fault = |message: String| Fault { strategy: name.into(), during: During::Load, message };
        let sandbox = Sandbox::new(limits).map_err(|error| fault(error.to_string()))?;
        let returned = sandbox.load(name, text).map_err(fault)?;
        let Value::Table(table) = returned else {
            let kind = returned.type_name();
            return Err(fault(format!(
                "{name} returns {kind}: end it with `return strategy`, a table with a function `choose`"
            )));
        };
        interface(&table).map_err(|message| fault(format!("{name}: {message}")))?;
        let said = |key: &str| -> Option<String> { table.raw_get::<Option<String>>(key).ok().flatten() };
        let choose = table.raw_get("choose").map_err(|error| fault(error.to_string()))?;
        let keys = Keys::new(&sandbox.lua).map_err(|error| fault(error.to_string()))?;
        let (called, description) = (said("name"), said("description").unwrap_or_default());
        Ok(Script {
            name: called.unwrap_or_else(|| name.into()),
            description,
            sandbox,
            table,
            choose,
            keys,
            mirror: None,
        })
    }

    /// What it says it does.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its parameters, by name.
    pub fn parameters(&self) -> Vec<(String, Parameter)> {
        let Ok(Some(table)) = self.table.raw_get::<Option<Table>>("parameters") else { return Vec::new() };
        let pairs = table.pairs::<String, Value>().filter_map(Result::ok);
        let mut parameters: Vec<_> =
            pairs.filter_map(|(name, value)| Some((name, parameter(&value)?))).collect();
        parameters.sort_by(|one, other| one.0.cmp(&other.0));
        parameters
    }

    /// Sets one of its parameters: a word for what is a word there, a number for a number, `true` or `false` for a flag.
    ///
    /// # Errors
    /// It has no such parameter, or the text is nothing of its kind.
    pub fn set_parameter(&mut self, name: &str, text: &str) -> Result<(), String> {
        let known = self.parameters();
        let Some((_, now)) = known.iter().find(|(known, _)| known == name) else {
            let names: Vec<_> = known.iter().map(|(name, _)| name.as_str()).collect();
            let has = if names.is_empty() { "none".into() } else { names.join(", ") };
            return Err(format!("{} has no parameter `{name}`; it has: {has}", self.name));
        };
        let value = match now {
            Parameter::Flag(_) => text.parse().ok().map(Value::Boolean),
            Parameter::Number(_) => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Number)
            }
            Parameter::Text(_) => self.sandbox.lua.create_string(text).ok().map(Value::String),
        };
        let kind = match now {
            Parameter::Flag(_) => "true or false",
            Parameter::Number(_) => "a number",
            Parameter::Text(_) => "a word",
        };
        let value = value.ok_or_else(|| format!("{}: {name} is {kind}, not `{text}`", self.name))?;
        let set = || self.table.raw_get::<Table>("parameters")?.raw_set(name, value);
        set().map_err(|error| error.to_string())
    }

    /// Where what it prints can be read, also after somebody else has taken it.
    pub fn printed(&self) -> Printed {
        self.sandbox.printed.clone()
    }

    fn fault(&self, during: During, message: String) -> Fault {
        Fault { strategy: self.name.clone(), during, message }
    }

    /// The node's tables as they have to be now.
    fn seen(&mut self, node: &Node) -> mlua::Result<Table> {
        let lua = &self.sandbox.lua;
        let mirror = match &mut self.mirror {
            Some(mirror) => mirror,
            empty => empty.insert(Mirror::new(lua, node)?),
        };
        mirror.follow(lua, node)?;
        Ok(mirror.node.clone())
    }

    fn called<T: mlua::FromLuaMulti>(
        &mut self,
        during: During,
        function: Function,
        node: &Node,
    ) -> Result<T, Fault> {
        let seen = self.seen(node);
        let called = self.sandbox.limited(|| function.call::<T>(seen?));
        called.map_err(|message| self.fault(during, message))
    }
}

impl Strategy for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn tick(&self) -> Option<Time> {
        let interval_s = self.table.raw_get::<Option<f64>>(&self.keys.tick).ok().flatten()?;
        let has_handler = self.table.raw_get::<Option<Function>>(&self.keys.on_tick).ok().flatten().is_some();
        (has_handler && interval_s > 0.0)
            .then(|| Time::from_ps_f64(interval_s.clamp(TICK_S_MIN, TICK_S_MAX) * 1e12))
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        let (collection, resource): (Value, Value) =
            self.called(During::Choose, self.choose.clone(), node)?;
        if collection.is_nil() {
            return Ok(None);
        }
        let decision = decision(&self.keys, &collection, &resource, node);
        decision.map(Some).map_err(|message| self.fault(During::Choose, message))
    }

    fn on_tick(&mut self, node: &Node) -> Result<(), Fault> {
        match self.table.raw_get::<Option<Function>>(&self.keys.on_tick) {
            Ok(Some(handler)) => self.called(During::Tick, handler, node),
            _ => Ok(()),
        }
    }

    fn shown(&self) -> BTreeMap<String, f64> {
        let Ok(Some(table)) = self.table.raw_get::<Option<Table>>("shown") else { return BTreeMap::new() };
        let pairs = table.pairs::<String, Value>().take(SHOWN_MAX).filter_map(Result::ok);
        let numbers = pairs.filter_map(|(name, value)| Some((name, number(&value)?)));
        // Words of the protocol are JSON, which has no infinity.
        numbers.filter(|(name, value)| name.len() <= SHOWN_NAME_BYTES_MAX && value.is_finite()).collect()
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

fn parameter(value: &Value) -> Option<Parameter> {
    match value {
        Value::Boolean(flag) => Some(Parameter::Flag(*flag)),
        Value::String(text) => Some(Parameter::Text(text.to_string_lossy())),
        other => number(other).map(Parameter::Number),
    }
}

/// What `choose` returned, as a decision.
fn decision(keys: &Keys, collection: &Value, resource: &Value, node: &Node) -> Result<Decision, String> {
    let id = match collection {
        Value::Table(table) => table.raw_get::<Value>(&keys.id).ok().and_then(|id| number(&id)),
        other => number(other),
    };
    let id = id.filter(|id| *id >= 0.0 && id.fract() == 0.0 && *id < 9e15).ok_or_else(|| {
        format!(
            "choose returned a {} first: return a collection of the node, or its id",
            collection.type_name()
        )
    })?;
    let name = match resource {
        Value::Table(table) => table.raw_get::<Value>(&keys.name).unwrap_or(Value::Nil),
        other => other.clone(),
    };
    let name = name.as_string().map(mlua::String::to_string_lossy).ok_or_else(|| {
        format!(
            "choose returned a {} second: return a resource of the node, or its name",
            resource.type_name()
        )
    })?;
    let resource: ResourceId = node.resource_named(&name).ok_or_else(|| {
        let names: Vec<_> = node.resources().iter().map(|resource| resource.name.as_str()).collect();
        format!("choose returned the resource `{name}`; there are {}", names.join(", "))
    })?;
    Ok(Decision { collection: CollectionId(id as u64), resource })
}

/// Whether a table is a strategy.
fn interface(table: &Table) -> Result<(), String> {
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair.map_err(|error| error.to_string())?;
        let name =
            key.as_string().map(mlua::String::to_string_lossy).unwrap_or_else(|| key.type_name().into());
        if !FIELDS.contains(&name.as_str()) {
            return Err(format!("a strategy has no `{name}`; it has {}", FIELDS.join(", ")));
        }
    }
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if !field("choose").is_function() {
        return Err(format!(
            "`choose` is a {}: it has to be a function(node) that returns a collection and a resource, or nothing",
            field("choose").type_name()
        ));
    }
    for (name, is_right, kind) in [
        ("on_tick", field("on_tick").is_function(), "a function(node)"),
        ("name", field("name").is_string(), "a string"),
        ("description", field("description").is_string(), "a string"),
        ("parameters", field("parameters").is_table(), "a table of numbers, strings and booleans"),
        ("shown", field("shown").is_table(), "a table of numbers by name"),
        (
            "tick",
            number(&field("tick"))
                .is_some_and(|tick| tick == 0.0 || (TICK_S_MIN..=TICK_S_MAX).contains(&tick)),
            "an interval in seconds, 0.001 at least, or 0 for no ticks",
        ),
    ] {
        if !field(name).is_nil() && !is_right {
            return Err(format!("`{name}` has to be {kind}"));
        }
    }
    if number(&field("tick")).is_some_and(|tick| tick > 0.0) && field("on_tick").is_nil() {
        return Err("there is a `tick` and no `on_tick`: add the function, or take the interval out".into());
    }
    if let Value::Table(parameters) = field("parameters") {
        for pair in parameters.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            if !key.is_string() || parameter(&value).is_none() {
                return Err(
                    "`parameters` has to be a table of numbers, strings and booleans, each with a name"
                        .into(),
                );
            }
        }
    }
    Ok(())
}
