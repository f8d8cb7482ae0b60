//! Applications that bring strategies for their own collections to a daemon: good ones, and those that would do harm.

#[path = "with_daemon/applications.rs"]
mod applications;
mod with_daemon;

use applications::{Seen, applications, open, signal, wait_until};
use castell_kernels::protocol::OwnStrategy;
use castell_kernels::{Application, Collection, OwnState};
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;
use with_daemon::{Daemon, RESOURCES, kernel, start};

/// Everything to the GPU, the last that came first.
const TO_THE_GPU: &str = "
local function choose(node: Node)
    if node.resource.gpu.free and #node.waiting > 0 then return node.waiting[#node.waiting], node.resource.gpu end
    return nil
end
return { name = 'to-the-gpu', choose = choose }";

fn script(name: &str, script: &str) -> OwnStrategy {
    OwnStrategy { name: name.into(), script: Some(script.into()), parameters: Vec::new() }
}

fn shown(daemon: &Daemon, application: &str) -> Value {
    let status = daemon.status();
    let applications = status["applications"].as_array().expect("applications");
    let found = applications.iter().find(|shown| shown["application"] == application);
    found.map_or(Value::Null, |shown| shown["strategy"].clone())
}

fn kernels_of(collection: &Collection, runs: u32) -> Vec<usize> {
    let mut kernels = Vec::new();
    (0..runs).for_each(|_| collection.run(2, |step| kernels.push(step.kernel)).expect("it can run"));
    kernels
}

#[test]
fn an_own_strategy_says_where_until_it_is_given_up() {
    let daemon = Daemon::start(&[]);
    let (one, other) = (open(&daemon, "one"), open(&daemon, "other"));
    let collection = |application: &Application| {
        application.register(&RESOURCES.map(kernel), &[]).expect("kernels for what is there")
    };
    let (of_one, of_other) = (collection(&one), collection(&other));
    assert_eq!((one.own_strategy(), shown(&daemon, "one")), (OwnState::None, Value::Null));
    assert_eq!(kernels_of(&of_one, 3), [0; 6], "the ranking's first, where all are free");
    let decides = one.bring_strategy(script("mine.luau", TO_THE_GPU)).expect("it is sound");
    assert_eq!((decides, one.own_strategy()), (OwnState::Decides, OwnState::Decides));
    assert_eq!(kernels_of(&of_one, 20), [2; 40]);
    assert_eq!(kernels_of(&of_other, 3), [0; 6], "others are not concerned");
    assert_eq!(shown(&daemon, "one")["decides"], true);
    assert_eq!(shown(&daemon, "other"), Value::Null);
    let text = daemon.strategy(&["status"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("by its own mine.luau"));
    // Others come with castell; what is none leaves the node's strategy with the say.
    one.bring_strategy(OwnStrategy::shipped("constraint:limit_high=3").expect("a name")).expect("shipped");
    assert_eq!(kernels_of(&of_one, 5), [0; 10], "that is what one core costs");
    for (wrong, said) in [
        (script("none.luau", "return 3"), "none.luau returns"),
        (script("ends.luau", "while true do end"), "stopped after 1000000 steps"),
        (OwnStrategy::shipped("no-such").expect("a name"), "no strategy `no-such` comes with castell"),
    ] {
        let error = one.bring_strategy(wrong).expect_err("it is no strategy").to_string();
        assert!(error.contains(said), "{error}");
        assert!(matches!(one.own_strategy(), OwnState::Stopped(reason) if reason.contains(said)));
        assert!(shown(&daemon, "one")["stopped"].as_str().is_some_and(|reason| reason.contains(said)));
        assert_eq!(kernels_of(&of_one, 3), [0; 6]);
    }
    one.bring_strategy(script("mine.luau", TO_THE_GPU)).expect("it is sound");
    one.give_up_strategy();
    wait_until("it is given up", || shown(&daemon, "one") == Value::Null);
    assert_eq!(kernels_of(&of_one, 3), [0; 6]);
}

#[test]
fn one_that_fails_harms_nobody_else() {
    let daemon = Daemon::start(&[]);
    let seen = Seen::default();
    // All are sound when they are tried out: there no more happens on a node than what they wait for.
    let hostile = [
        ("endless", "if n > 500 then while true do end end", "steps"),
        (
            "allocates",
            "if n > 500 then local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1000) .. i end end",
            "memory",
        ),
        ("fails", "if n > 500 then error('enough of that') end", "enough of that"),
        (
            "foreign",
            "if n > 500 and node.waiting[1] then return node.waiting[1], 'fpga' end",
            "no resource `fpga`|the resource `fpga`",
        ),
        ("invents", "if n > 500 then return 1e9, 'gpu' end", "no collection 1000000000"),
        // Each of these takes as long as it may, nearly; it need not be all of them.
        ("slow", "if n > 500 and n % 10 == 0 then for i = 1, 400000 do local _ = i end end", ""),
    ];
    applications(&daemon, 2, &seen, || {
        for (name, does, said) in hostile {
            let text = format!(
                "local n = 0
                local function choose(node: Node)
                    n += 1
                    {does}
                    for _, c in node.waiting do
                        for _, on in c.ranking do
                            if node.resource[on].free then return c, on end
                        end
                    end
                    return nil
                end
                return {{ choose = choose }}"
            );
            let application = open(&daemon, name);
            let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
            application.bring_strategy(script(name, &text)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let before = seen.runs.load(Ordering::Relaxed);
            if said.is_empty() {
                kernels_of(&collection, 300);
                assert_eq!(
                    application.own_strategy(),
                    OwnState::Decides,
                    "it is slow, and that is its own matter"
                );
            } else {
                while application.own_strategy() == OwnState::Decides {
                    kernels_of(&collection, 10);
                }
                let OwnState::Stopped(reason) = application.own_strategy() else { panic!("{name}") };
                assert!(said.split('|').any(|said| reason.contains(said)), "{name}: {reason}");
                assert!(shown(&daemon, name)["stopped"].is_string());
            }
            // It goes on by the node's strategy, and so do the others.
            kernels_of(&collection, 20);
            wait_until("the others go on", || seen.runs.load(Ordering::Relaxed) > before + 20);
        }
    });
    wait_until("all have gone", || daemon.is_empty());
    assert_eq!(daemon.status()["faults"], 0, "the node's strategy is none of them");
}

#[test]
fn it_is_with_the_next_daemon_as_well() {
    let mut daemon = Daemon::start(&[]);
    let socket = daemon.socket();
    let (mine, stopped) = (open(&daemon, "mine"), open(&daemon, "stopped"));
    let collection = mine.register(&RESOURCES.map(kernel), &[]).expect("sound");
    mine.bring_strategy(script("mine.luau", TO_THE_GPU)).expect("it is sound");
    stopped.bring_strategy(script("bad.luau", "return 3")).expect_err("it is none");
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (ends, collection, mine) = (&ends, &collection, &mine);
            scope.spawn(move || {
                while !ends.load(Ordering::Acquire) {
                    let mut next = 0;
                    collection
                        .run(3, |step| {
                            assert_eq!(step.step, next, "each step runs once, in order");
                            next += 1;
                            // Alone it is to wait for the next daemon in the middle of a run, and leave it the processors.
                            if mine.own_strategy() == OwnState::Alone {
                                std::thread::sleep(Duration::from_millis(1));
                            }
                        })
                        .expect("it can run");
                    assert_eq!(next, 3);
                }
            });
        }
        for _ in 0..10 {
            daemon.child.kill().expect("it is ours");
            daemon.child.wait().expect("it was started");
            daemon.child = start(&socket, &[]);
            wait_until("it decides again", || shown(&daemon, "mine")["decides"] == true);
            wait_until("the application knows", || mine.own_strategy() == OwnState::Decides);
        }
        ends.store(true, Ordering::Release);
    });
    assert_eq!(kernels_of(&collection, 20), [2; 40]);
    assert_eq!(shown(&daemon, "stopped"), Value::Null, "what was stopped is not tried again");
    assert!(matches!(stopped.own_strategy(), OwnState::Stopped(_)));
}

#[test]
fn without_a_daemon_it_waits_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("daemon.sock");
    let application = Application::open_at("early", Some(&socket)).expect("opens");
    let collection = application.register(&RESOURCES.map(kernel), &[]).expect("sound");
    let state = application.bring_strategy(script("mine.luau", TO_THE_GPU)).expect("it is kept");
    assert_eq!(state, OwnState::Alone);
    assert_eq!(kernels_of(&collection, 3), [0; 6], "the ranking decides");
    let child = start(&socket, &[]);
    let daemon = Daemon { folder, child };
    wait_until("it decides", || application.own_strategy() == OwnState::Decides);
    assert_eq!(kernels_of(&collection, 3), [2; 6]);
    signal(&daemon, "-TERM");
    wait_until("it is alone", || application.own_strategy() == OwnState::Alone);
    assert_eq!(kernels_of(&collection, 3), [0; 6]);
}

#[test]
fn what_it_chose_is_recorded_and_decided_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let day = folder.path().join("day.jsonl");
    let mut daemon = Daemon::start(&["--record", day.to_str().expect("text"), "--forbid", "low:gpu"]);
    let seen = Seen::default();
    applications(&daemon, 2, &seen, || {
        let mine = open(&daemon, "mine");
        let collection = mine.register(&RESOURCES.map(kernel), &[]).expect("sound");
        mine.bring_strategy(script("mine.luau", TO_THE_GPU)).expect("it is sound");
        kernels_of(&collection, 50);
        mine.bring_strategy(OwnStrategy::shipped("short-term").expect("a name")).expect("it is sound");
        assert!(daemon.strategy(&["governor", "low"]).status.success());
        kernels_of(&collection, 50);
        assert!(daemon.strategy(&["governor", "high"]).status.success());
        kernels_of(&collection, 10);
        mine.give_up_strategy();
        kernels_of(&collection, 10);
    });
    wait_until("all have gone", || daemon.is_empty());
    signal(&daemon, "-TERM");
    daemon.child.wait().expect("it ends");
    let replay = Command::new(env!("CARGO_BIN_EXE_castell")).args(["strategy", "replay"]).arg(&day).output();
    let replay = replay.expect("castell can be started");
    assert!(replay.status.success(), "{replay:?}");
    let text = std::fs::read_to_string(&day).expect("it is there");
    let owns: Vec<_> = text.lines().filter(|line| line.starts_with("{\"own\"")).collect();
    assert!(owns[0].contains("to-the-gpu") && owns.len() == 4, "{owns:?}");
}
