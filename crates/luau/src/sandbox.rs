//! A Luau machine in which a script can compute, and do nothing else.
//!
//! It has the libraries `string`, `table`, `math`, `bit32` and `coroutine` without what reads a clock, loads code or shows addresses.
//! Its steps are counted (a step is a call or a turn of a loop), its memory is bounded, and the caller may lend a clock.

use castell_base::Time;
use castell_base::sync::{AtomicU64, Ordering};
use mlua::{ChunkMode, Error, Function, Lua, LuaOptions, StdLib, Table, Value, Variadic, VmState};
use std::sync::{Arc, Mutex, PoisonError};

/// A clock that the caller lends: time since some moment. Behind [`Time::MAX`] it may begin anew.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// What a script may use up.
#[derive(Clone)]
pub struct Limits {
    /// Steps of one call: calls of functions and turns of loops.
    pub steps_max: u64,
    /// Memory of the script with all that it sees of the node.
    pub memory_bytes_max: usize,
    /// How long one call may take by this clock. Without one only the steps count, and whether a script is stopped does not depend
    /// on the machine.
    pub time: Option<(Clock, Time)>,
}

impl Default for Limits {
    /// Ten million steps, which take well below a second, 64 MiB, no clock.
    fn default() -> Limits {
        Limits { steps_max: 10_000_000, memory_bytes_max: 64 << 20, time: None }
    }
}

/// The longest script that is read.
pub const SCRIPT_BYTES_MAX: usize = 256 << 10;

/// Globals that stay. All else of the base library goes: `loadstring`, `require`, `getfenv`, `collectgarbage`, `newproxy`, …
const GLOBALS: [&str; 27] = [
    "_G",
    "_VERSION",
    "assert",
    "bit32",
    "coroutine",
    "error",
    "getmetatable",
    "ipairs",
    "math",
    "next",
    "pairs",
    "pcall",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "typeof",
    "unpack",
    "xpcall",
];

/// Lines that a script printed and that nobody has taken; further ones are dropped.
const PRINTED_MAX: usize = 1000;
/// Bytes of such a line.
const LINE_BYTES_MAX: usize = 1000;
/// Frames above a script's own function.
const FRAMES_MAX: usize = 4;
/// Steps between two looks at the clock.
const STEPS_A_LOOK: u64 = 256;

/// A machine for one script.
pub(crate) struct Sandbox {
    pub lua: Lua,
    limits: Limits,
    steps_left: Arc<AtomicU64>,
    /// When the call has begun, in picoseconds of the lent clock.
    began_ps: Arc<AtomicU64>,
    pub printed: Printed,
}

/// What a script printed, for whoever shows it.
#[derive(Clone, Default)]
pub struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    /// The lines since this was asked last.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < PRINTED_MAX {
            lines.push(line);
        }
    }
}

impl Sandbox {
    /// An empty one.
    pub fn new(limits: Limits) -> mlua::Result<Sandbox> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::BIT | StdLib::COROUTINE;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let printed = Printed::default();
        furnish(&lua, &printed)?;
        lua.sandbox(true)?;
        lua.set_memory_limit(limits.memory_bytes_max)?;
        let sandbox = Sandbox {
            lua,
            limits,
            steps_left: Arc::new(AtomicU64::new(0)),
            began_ps: Arc::new(AtomicU64::new(0)),
            printed,
        };
        sandbox.watch();
        Ok(sandbox)
    }

    /// Runs something with a call's full limits.
    pub fn limited<T>(&self, call: impl FnOnce() -> mlua::Result<T>) -> Result<T, String> {
        // Relaxed: the machine runs in this thread only.
        self.steps_left.store(self.limits.steps_max, Ordering::Relaxed);
        if let Some((clock, _)) = &self.limits.time {
            self.began_ps.store(clock().0, Ordering::Relaxed);
        }
        call().map_err(|error| self.told(&error))
    }

    /// Reads a script and runs it: what it returns.
    pub fn load(&self, name: &str, text: &str) -> Result<Value, String> {
        if text.len() > SCRIPT_BYTES_MAX {
            return Err(format!("{name}: the script has more than {} KiB", SCRIPT_BYTES_MAX >> 10));
        }
        // As text only: compiled code is believed by the machine, whatever it does.
        let chunk = self.lua.load(text).set_name(format!("={name}")).set_mode(ChunkMode::Text);
        self.limited(|| chunk.eval::<Value>())
    }

    /// Counts steps and looks at the clock.
    fn watch(&self) {
        let (steps_left, began_ps) = (self.steps_left.clone(), self.began_ps.clone());
        let (steps_max, time) = (self.limits.steps_max, self.limits.time.clone());
        self.lua.set_interrupt(move |lua| {
            let left = steps_left.load(Ordering::Relaxed);
            let is_time_up = |(clock, longest): &&(Clock, Time)| {
                clock().0.wrapping_sub(began_ps.load(Ordering::Relaxed)) > longest.0
            };
            if let Some((_, longest)) = time.as_ref().filter(|_| left % STEPS_A_LOOK == 0).filter(is_time_up)
            {
                // Whoever catches the error gets it again at once.
                steps_left.store(0, Ordering::Relaxed);
                return Err(stopped(lua, &format!("after {longest}: that is too long for a decision")));
            }
            if left == 0 {
                let why = format!("after {steps_max} steps: does a loop or a recursion not end?");
                return Err(stopped(lua, &why));
            }
            steps_left.store(left - 1, Ordering::Relaxed);
            Ok(VmState::Continue)
        });
    }

    /// An error of the machine as people read it, in one line.
    fn told(&self, error: &Error) -> String {
        let text = match error {
            Error::CallbackError { cause, .. } => return self.told(cause),
            Error::SyntaxError { message, .. } => message.clone(),
            Error::RuntimeError(message) => message.clone(),
            Error::MemoryError(_) => {
                let most = self.limits.memory_bytes_max >> 10;
                format!("stopped: the script needs more than {most} KiB of memory")
            }
            other => other.to_string(),
        };
        let text = text.split("\nstack traceback:").next().unwrap_or_default();
        let mut line: String = text.lines().next().unwrap_or_default().chars().take(400).collect();
        if let Some(address) = line.find(": 0x").filter(|at| !line[..*at].contains(':')) {
            line.truncate(address);
            line = format!("`error` was called with a {line} instead of a text");
        } else if line.is_empty() || line == "nil" {
            line = "`error` was called without a text".into();
        }
        line
    }
}

/// The error that stops a script, with the line at which it is.
fn stopped(lua: &Lua, why: &str) -> Error {
    // Functions of the libraries have no lines; whoever called them has.
    let place = (0..FRAMES_MAX).find_map(|level| {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            frame
                .current_line()
                .map(|line| format!("{}:{line}: ", source.short_src.as_deref().unwrap_or("?")))
        });
        place.flatten()
    });
    Error::runtime(format!("{}stopped {why}", place.unwrap_or_default()))
}

/// Takes away what a script must not have, and puts in what it gets instead.
fn furnish(lua: &Lua, printed: &Printed) -> mlua::Result<()> {
    let globals = lua.globals();
    let math: Table = globals.raw_get("math")?;
    // The same numbers in every run.
    math.raw_get::<Function>("randomseed")?.call::<()>(1)?;
    math.raw_set("randomseed", Value::Nil)?;
    let shown: Function = lua.load(include_str!("prelude.luau")).set_name("=castell").eval()?;
    globals.raw_set("tostring", shown.clone())?;
    let printed = printed.clone();
    let print = lua.create_function(move |_, values: Variadic<Value>| {
        let words: mlua::Result<Vec<String>> = values.iter().map(|value| shown.call(value)).collect();
        let mut line = words?.join(" ");
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        printed.push(line);
        Ok(())
    })?;
    globals.raw_set("print", print)?;
    let mut unwanted = Vec::new();
    for pair in globals.pairs::<Value, Value>() {
        let (key, _) = pair?;
        if !key.as_string().is_some_and(|name| GLOBALS.iter().any(|known| name == *known)) {
            unwanted.push(key);
        }
    }
    unwanted.into_iter().try_for_each(|key| globals.raw_set(key, Value::Nil))
}
