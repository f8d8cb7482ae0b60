//! Scripts that want too much are stopped with an error that helps, and the strategy before them goes on.

mod shipped;

use castell_base::Time;
use castell_luau::Script;
use castell_luau::sandbox::Limits;
use castell_strategy::{
    During, Fault, Happened, Keeper, Kernel, Kernels, Node, ResourceId, ResourceKind, Strategy as _,
};
use shipped::shipped;
use std::sync::Arc;

/// One core, all cores, a GPU.
fn node() -> Node {
    let names = ["one_core", "all_cores", "gpu"].map(|name| (name.to_owned(), ResourceKind::of(name)));
    Node::new(names).expect("three names")
}

/// Kernels for these resources, with times in seconds.
fn kernels(times_s: &[(usize, u64)]) -> Arc<Kernels> {
    let kernel = |&(resource, seconds): &(usize, u64)| Kernel {
        resource: ResourceId(resource),
        step_time: Some(Time::from_ns(seconds * 1_000_000_000)),
    };
    Arc::new(Kernels::new(times_s.iter().map(kernel).collect(), Vec::new()).expect("kernels"))
}

const LIMITS: Limits = Limits { steps_max: 50_000, memory_bytes_max: 16 << 20, time: None };

fn load(text: &str) -> Result<Script, Fault> {
    Script::load("hostile.luau", text, LIMITS)
}

/// A strategy whose `choose` does this.
fn with_body(body: &str) -> String {
    format!("local strategy = {{}}\nfunction strategy.choose(node)\n{body}\nend\nreturn strategy")
}

/// What is wrong with a script whose `choose` does this.
#[track_caller]
fn fault(body: &str) -> Fault {
    let mut script = load(&with_body(body)).unwrap_or_else(|fault| panic!("{body}: {fault}"));
    let mut node = node();
    node.register("a".into(), kernels(&[(0, 5), (2, 3)]), 1).expect("registered");
    match script.choose(&node) {
        Err(fault) => fault,
        Ok(decision) => panic!("{body}: {decision:?}"),
    }
}

/// Each of these has to fail with a message that has the words behind it.
const HOSTILE: [(&str, &str); 34] = [
    ("while true do end", "hostile.luau:3: stopped after 50000 steps"),
    ("local function f() return f() end f()", "stack overflow"),
    ("repeat local ok = pcall(function() while true do end end) until false", "stopped after"),
    ("while true do pcall(error) end", "stopped after"),
    (
        "xpcall(function() while true do end end, function() while true do end end) while true do end",
        "stopped",
    ),
    ("local function f() pcall(f) pcall(f) end f() while true do end", "stopped"),
    ("local function f(n) return 1 + f(n + 1) end f(0)", "stack overflow"),
    ("local t = {} while true do t[#t + 1] = string.rep('x', 100000) .. #t end", "memory"),
    ("string.rep('x', 1e9)", "memory"),
    ("local s = 'x' while true do s = s .. s end", "memory"),
    ("table.create(2 ^ 26, 0)", "memory"),
    ("return table.unpack({}, 1, 1e8)", "too many results"),
    ("table.move({}, 1, 2 ^ 31 - 2, 2)", "a million elements at most"),
    ("return string.find(string.rep('a', 5000), string.rep('a?', 5000) .. 'b')", ""),
    ("return (string.rep('a', 300)):match('.-.-.-.-.-.-.-.-b')", "hostile.luau:3: stopped"),
    (
        "local c = coroutine.create(function() while true do end end) coroutine.resume(c) while true do end",
        "stopped",
    ),
    ("while true do coroutine.wrap(function() coroutine.yield() end)() end", ""),
    ("local function f() coroutine.wrap(f)() end f()", ""),
    ("coroutine.yield(1)", "yield"),
    ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "loop"),
    ("local t = setmetatable({}, { __index = function(t, k) return t[k .. 'x'] end }) return t.a", ""),
    ("return setmetatable({}, { __index = function() while true do end end })", "return a collection"),
    ("getmetatable('').__index = nil", "readonly"),
    ("string.rep = nil", "readonly"),
    ("node.now = 0", "readonly"),
    ("node.waiting[1] = nil", "readonly"),
    ("rawset(node.waiting[1], 'id', 7)", "readonly"),
    ("table.insert(node.waiting, 1)", "readonly"),
    ("error()", "without a text"),
    ("error({})", "with a table instead of a text"),
    ("error(setmetatable({}, { __tostring = function() while true do end end }))", ""),
    ("return node.waiting[1]", "return a resource of the node, or its name"),
    ("return node.waiting[1], 'fpga'", "there are one_core, all_cores, gpu"),
    ("return 0 / 0, 'gpu'", "return a collection of the node"),
];

#[test]
fn scripts_that_want_too_much_are_stopped() {
    for (body, words) in HOSTILE {
        let told = fault(body).to_string();
        assert!(told.contains(words), "{body}: {told}");
        assert!(!told.contains('\n') && told.len() < 1000, "{body}: {told}");
    }
}

#[test]
fn nothing_of_the_world_is_there() {
    for name in [
        "io",
        "os",
        "debug",
        "require",
        "loadstring",
        "load",
        "dofile",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "gcinfo",
        "newproxy",
        "buffer",
        "vector",
        "math.randomseed",
        "string.dump",
        "package",
    ] {
        let told = fault(&format!("error(type({name}))")).to_string();
        assert!(told.contains("nil (in choose"), "{name}: {told}");
    }
    // Addresses differ from run to run, so no script sees one.
    for shown in [
        "tostring({})",
        "`{ {} }`",
        "string.format('%s %*', print, {})",
        "('%s'):format(coroutine.create(print))",
    ] {
        let told = fault(&format!("error({shown})")).to_string();
        assert!(!told.contains("0x"), "{shown}: {told}");
    }
    let random = || fault("error(math.random(1, 1000000000))").to_string();
    assert_eq!(random(), random());
}

#[test]
fn loading_is_bounded_as_well() {
    let wrong = |text: &str, words: &str| {
        let told = load(text).err().unwrap_or_else(|| panic!("{text:.60} loads")).to_string();
        assert!(told.contains(words), "{text:.60}: {told}");
        assert!(told.contains("(in load of hostile.luau)"), "{told}");
    };
    wrong("while true do end", "hostile.luau:1: stopped after");
    wrong("local x = ", "hostile.luau:1:");
    wrong(&format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000)), "");
    wrong(&format!("return {}{}", "{".repeat(50_000), "}".repeat(50_000)), "");
    wrong(&"x".repeat(300 << 10), "more than 256 KiB");
    wrong("\u{1b}Lua", "");
    wrong("return 1", "end it with `return strategy`");
    wrong("return {}", "`choose` is a nil");
    wrong("return { choose = print, ontick = print }", "a strategy has no `ontick`");
    wrong("return { choose = print, tick = 5 }", "no `on_tick`");
    wrong("return { choose = print, tick = 1e-9, on_tick = print }", "`tick` has to be");
    wrong("return { choose = print, tick = 0 / 0, on_tick = print }", "`tick` has to be");
    wrong("return { choose = print, parameters = { 1 } }", "each with a name");
    wrong("return { choose = print, parameters = { a = {} } }", "numbers, strings and booleans");
    wrong("return setmetatable({}, { __index = { choose = print } })", "`choose` is a nil");
    // Compiled code is no text; the machine would believe it.
    wrong("\u{6}\u{3}\u{0}\u{0}", "");
}

#[test]
fn what_it_prints_is_bounded() {
    let script = load(
        "for i = 1, 2000 do print(i, {}) end print(string.rep('y', 1e6)) return { choose = function() end }",
    );
    let script = script.expect("it loads");
    let lines = script.printed().take();
    assert_eq!((lines.len(), lines[6].as_str()), (1000, "7 table"));
    assert!(lines.iter().all(|line| line.len() <= 1000));
}

#[test]
fn a_lent_clock_stops_what_is_slow() {
    // The second one begins anew in the middle.
    for begin in [Time::ZERO, Time(Time::MAX.0 - Time::from_us(10).0)] {
        let ticks = std::sync::Mutex::new(begin.0);
        let looked = std::sync::Arc::new(std::sync::Mutex::new(0));
        let looks = looked.clone();
        let clock = std::sync::Arc::new(move || {
            let mut now = ticks.lock().expect("unharmed");
            *now = now.wrapping_add(Time::from_us(1).0);
            *looks.lock().expect("unharmed") += 1;
            Time(*now)
        });
        let limits = Limits { time: Some((clock, Time::from_us(20))), ..LIMITS };
        let text = "while true do pcall(function() while true do end end) end";
        let told = Script::load("slow.luau", text, limits).err().expect("it is stopped").to_string();
        assert!(told.contains("stopped after 20us"), "{told}");
        assert!(*looked.lock().expect("unharmed") > 20, "its time was not up before");
    }
}

/// The queues go over to the new strategy and back, whatever it did.
#[test]
fn the_last_good_strategy_goes_on() {
    for (body, _) in HOSTILE {
        let mut keeper = Keeper::new(node(), Box::new(shipped("long-term")));
        let at = Time::from_ns;
        for number in 0..6 {
            keeper
                .register(at(number), "a".into(), kernels(&[(0, 5), (1, 4), (2, 3)]), 1)
                .expect("registered");
        }
        keeper.replace(at(10), Box::new(load(&with_body(body)).expect("it loads")));
        keeper.register(at(11), "b".into(), kernels(&[(0, 5), (2, 3)]), 1).expect("registered");
        assert_eq!(keeper.strategy(), "long-term", "{body}");
        let events = keeper.take_events();
        let faults = events.iter().filter(|event| matches!(event.what, Happened::Fault(_))).count();
        assert_eq!(faults, 1, "{body}");
        let waiting = keeper.node().waiting().len();
        assert_eq!((waiting, keeper.node().collections().len()), (0, 7), "{body}");
    }
}

#[test]
fn decisions_that_cannot_be_carried_out_are_faults() {
    let mut keeper = Keeper::new(node(), Box::new(shipped("short-term")));
    let register = |keeper: &mut Keeper| {
        keeper.register(Time::ZERO, "a".into(), kernels(&[(0, 5), (2, 3)]), 1).expect("registered");
    };
    (0..3).for_each(|_| register(&mut keeper));
    for (body, words) in [
        ("return 99, 'gpu'", "there is no collection 99"),
        ("return 3, 'all_cores'", "has no kernel for all_cores"),
        ("return node.resource.gpu.running, 'one_core'", "runs already"),
        (
            "local r = if #node.resource.gpu.queue > 0 then 'one_core' else 'gpu' return 3, r",
            "decides without end",
        ),
    ] {
        keeper.replace(Time::ZERO, Box::new(load(&with_body(body)).expect("it loads")));
        let events = keeper.take_events();
        let told = events.iter().find_map(|event| match &event.what {
            Happened::Fault(fault) => Some(fault),
            _ => None,
        });
        let told = told.unwrap_or_else(|| panic!("{body}: no fault"));
        assert!(told.message.contains(words) && told.during == During::Choose, "{body}: {told}");
        assert_eq!(keeper.strategy(), "short-term");
    }
}
