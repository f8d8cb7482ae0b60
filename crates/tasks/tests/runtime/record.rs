//! Recordings: who was created by whom, and who had to wait for whom.

use castell_tasks::data::Data;
use castell_tasks::record::Recording;
use castell_tasks::workloads::Workload;
use castell_tasks::{Context, Runtime};
use castell_trace::Activity;

fn record(workers: usize, program: impl FnOnce(&Context<'_>) + Send) -> Recording {
    let runtime = Runtime::builder().workers(workers).record(true).build().expect("threads start");
    runtime.run(program).expect("nothing fails");
    runtime.recording().expect("asked for")
}

/// The task with this label.
fn named(recording: &Recording, label: &str) -> usize {
    recording.tasks.iter().position(|task| task.label == label).expect("it was created")
}

#[test]
fn the_graph_is_that_of_the_program() {
    let recording = record(2, |context| {
        let numbers = Data::from(vec![0_u64; 8]);
        context.task().label("writer").submit(numbers.part(0..4).write(), |_, _| ());
        context.task().label("other").submit(numbers.part(4..8).write(), |_, _| ());
        context.task().label("outer").submit(numbers.all().weak_read(), |context, numbers| {
            context.task().label("inner").submit(numbers.part(3..5).read(), |_, _| ());
        });
        context.taskwait().expect("nothing fails");
        context.task().label("late").submit(numbers.part(0..8).write(), |_, _| ());
    });
    let at = |label| named(&recording, label);
    let after = |label| &recording.tasks[at(label)].after;
    assert_eq!(recording.tasks.len(), 6);
    assert!(recording.is_whole);
    assert_eq!(*after("inner"), [at("writer"), at("other")]);
    assert_eq!(*after("outer"), [0; 0]);
    assert_eq!(*after("writer"), [0; 0]);
    assert!(after("late").contains(&at("inner")));
    assert_eq!(recording.tasks[at("inner")].parent, Some((at("outer"), 0)));
    // Main: three creations, a wait, a creation, the rest.
    let main: Vec<bool> = recording.tasks[0].stretches.iter().map(|stretch| stretch.waits).collect();
    assert_eq!(main, [false, false, false, false, true, false]);
    assert_eq!(recording.tasks[at("late")].parent, Some((0, 4)));
    assert!(recording.tasks.iter().all(|task| task.ran.is_some_and(|(begin, end, _)| begin <= end)));
}

#[test]
fn nobody_begins_before_those_it_waits_for_are_over() {
    for workload in [
        Workload::Wave { side: 12 },
        Workload::Cholesky { tiles: 7 },
        Workload::Chains { tasks: 100, chains: 5 },
    ] {
        let recording = record(3, |context| workload.run(context).expect("nothing fails"));
        assert_eq!(recording.tasks.len() as u64, 1 + workload.tasks());
        let edges: usize = recording.tasks.iter().map(|task| task.after.len()).sum();
        match workload {
            Workload::Wave { .. } => assert_eq!(edges, 2 * 12 * 11),
            Workload::Chains { .. } => assert_eq!(edges, 95),
            _ => assert!(edges > 0),
        }
        for (index, task) in recording.tasks.iter().enumerate() {
            let (begin, ..) = task.ran.expect("all ran");
            let ready = recording.ready_ns(index);
            assert!(ready <= begin, "{workload:?}: task {index} began at {begin}, ready at {ready}");
        }
    }
}

#[test]
fn files_are_made() {
    let recording = record(2, |context| Workload::Fib { number: 6 }.run(context).expect("nothing fails"));
    let goal = goal(&recording);
    assert!(goal.contains("num_ranks 1\nrank 0 {"), "{goal}");
    let timeline = recording.timeline();
    let bodies = timeline.spans.iter().filter(|span| span.activity == Activity::Compute);
    assert_eq!(bodies.count(), recording.tasks.len());
    let names: Vec<&str> = timeline.counters.iter().map(|counter| &*counter.name).collect();
    assert_eq!(names[..3], ["live", "ready", "running"]);
    assert_eq!(names[3..6], ["queue of worker 0", "queue of worker 1", "shared queues"]);
    for counter in &timeline.counters {
        assert!(counter.samples.is_sorted_by_key(|(at, _)| *at), "{}", counter.name);
    }
    for counter in &timeline.counters[..3] {
        assert!(
            counter.samples.iter().all(|(_, value)| *value >= 0),
            "{}: {:?}",
            counter.name,
            counter.samples
        );
        assert_eq!(counter.samples.last().map(|(_, value)| *value), Some(0), "{}", counter.name);
    }
    let summary = recording.summary();
    assert!(summary.starts_with(&format!("castell: {} tasks in ", recording.tasks.len())), "{summary}");
}

#[test]
fn costs_are_told_and_stand_for_what_did_not_run() {
    use std::time::{Duration, Instant};
    const RAN: u32 = 50;
    let recording = record(1, |context| {
        let busy = |context: &Context<'_>| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(100) {}
            context.cancel();
        };
        context.task().label("plain").submit((), |_, ()| ());
        let place = Data::new(0_u64);
        let costly = |cost| context.task().label("costly").cost(cost);
        let group = context.group(|| {
            costly(RAN).submit(place.write(), move |context, _| busy(context));
            // Behind the first, which cancels the group.
            costly(3 * RAN).submit(place.read(), |_, _| ());
        });
        group.expect("nothing fails");
    });
    let rate = recording.ns_per_cost("costly").expect("one of them ran");
    let ran = &recording.tasks[named(&recording, "costly")];
    assert!((rate - ran.own_ns() as f64 / f64::from(RAN)).abs() < 1e-6, "{rate} ns a unit");
    assert_eq!(recording.ns_per_cost("plain"), None);
    let summary = recording.summary();
    assert!(summary.contains(&format!("{rate:.3} ns a unit of cost")), "{summary}");
    assert_eq!(summary.matches("a unit of cost").count(), 1, "{summary}");
    let goal = goal(&recording);
    assert!(goal.contains("`costly`, cost 50"), "{goal}");
    let skipped = (rate * f64::from(3 * RAN)).round() as u64;
    assert!(
        goal.contains(&format!("calc {skipped} cpu")),
        "not as long as its cost says ({skipped}): {goal}"
    );
}

#[test]
fn queues_and_the_threshold_are_looked_at() {
    let look = |scheduler: &str| {
        let runtime =
            Runtime::builder().workers(2).scheduler(scheduler).record(true).build().expect("threads start");
        runtime
            .run(|context| {
                for _ in 0..100 {
                    context.task().label("waits").submit((), |_, ()| {
                        std::thread::sleep(std::time::Duration::from_micros(30));
                    });
                }
            })
            .expect("nothing fails");
        let recording = runtime.recording().expect("asked for");
        assert!(recording.levels.len() > 10, "{scheduler}: {} looks", recording.levels.len());
        recording
    };
    let tree = look("tree:fifo,threshold=20");
    assert!(tree.levels.iter().all(|level| level.threshold == 20 && level.workers.len() == 2));
    assert!(tree.levels.iter().any(|level| level.shared + level.workers.iter().sum::<usize>() > 0));
    assert_eq!(tree.timeline().counters.last().map(|counter| &*counter.name), Some("threshold"));
    let central = look("central");
    assert!(central.levels.iter().all(|level| level.threshold == 0 && level.workers.is_empty()));
    assert_eq!(central.timeline().counters.last().map(|counter| &*counter.name), Some("shared queues"));
}

#[test]
fn off_it_records_nothing() {
    let runtime = Runtime::builder().workers(1).build().expect("threads start");
    runtime.run(|_| ()).expect("nothing fails");
    assert!(runtime.recording().is_none());
}

/// The vertices of a GOAL text, and for each which others it requires.
fn requirements(goal: &str) -> std::collections::BTreeMap<&str, Vec<&str>> {
    let mut required = std::collections::BTreeMap::new();
    for line in goal.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some((vertex, _)) = line.split_once(": ") {
            required.insert(vertex, Vec::new());
        } else if let Some((vertex, before)) = line.split_once(" requires ") {
            required.get_mut(vertex).expect("vertices come first").push(before);
        }
    }
    required
}

fn goal(recording: &Recording) -> String {
    let mut goal = Vec::new();
    recording.write_goal(&mut goal).expect("memory takes everything");
    String::from_utf8(goal).expect("text")
}

#[test]
fn vertices_are_named_after_their_tasks() {
    let recording = record(1, |context| {
        context.task().label("gemm").submit((), |_, ()| ());
        context.task().label("2nd half, Größe").submit((), |_, ()| ());
        context.task().label("a_1").submit((), |_, ()| ());
        context.submit((), |_, ()| ());
    });
    let text = goal(&recording);
    let vertices = requirements(&text);
    for name in ["t0_0", "gemm_1_0", "t2nd_half__Gr__e_2_0", "a_1_3_0", "t4_0", "t0_done"] {
        assert!(vertices.contains_key(name), "{name}: {text}");
    }
    assert_eq!(vertices["t0_done"].len(), 5, "its body and four children: {text}");
    assert!(!text.contains("thread"), "one run follows nothing: {text}");
}

#[test]
fn a_run_follows_those_that_its_thread_had_waited_for() {
    let runtime = Runtime::builder().workers(2).record(true).build().expect("threads start");
    let run = |label| {
        runtime.run(|context| context.task().label(label).submit((), |_, ()| ())).expect("nothing fails");
    };
    run("first");
    let beside = runtime.spawn(|_| ()).expect("no fork");
    run("second");
    beside.join().expect("nothing fails");
    std::thread::scope(|scope| scope.spawn(|| run("elsewhere")).join()).expect("it does not panic");
    run("third");
    let recording = runtime.recording().expect("asked for");
    let text = goal(&recording);
    let required = requirements(&text);
    // All that a vertex waits for, near and far.
    let before = |label: &str| {
        let mut open = vec![format!("{label}_{}_0", named(&recording, label))];
        let mut all = std::collections::BTreeSet::new();
        while let Some(vertex) = open.pop() {
            for &next in &required[&*vertex] {
                if all.insert(next.to_owned()) {
                    open.push(next.to_owned());
                }
            }
        }
        all
    };
    let vertex = |label: &str| format!("{label}_{}_0", named(&recording, label));
    let root = |number: usize| {
        let roots = recording.tasks.iter().enumerate().filter(|(_, task)| task.parent.is_none());
        roots.map(|(index, _)| index).nth(number).expect("so many roots")
    };
    assert!(!before("first").iter().any(|name| name.contains("done")), "{text}");
    assert!(before("second").contains(&vertex("first")), "{text}");
    let beside = format!("t{}_0", root(1));
    assert!(!before("second").contains(&beside), "nobody had waited for it: {text}");
    for earlier in [vertex("first"), vertex("second"), beside] {
        assert!(before("third").contains(&earlier), "{earlier}: {text}");
    }
    assert!(!before("third").contains(&vertex("elsewhere")), "another thread's: {text}");
    assert!(!before("elsewhere").iter().any(|name| name.contains("thread")), "{text}");
}

#[test]
fn bodies_wait_for_groups_and_for_what_runs_before_they_go_on() {
    let recording = record(2, |context| {
        context.task().label("before").submit((), |_, ()| ());
        let group = context.group(|| {
            for _ in 0..3 {
                context.task().label("member").submit((), |_, ()| ());
            }
        });
        group.expect("nothing fails");
        context.task().label("undeferred").deferred_if(false).submit((), |_, ()| ());
        context.task().label("behind").submit((), |_, ()| ());
    });
    let text = goal(&recording);
    let required = requirements(&text);
    let root = &recording.tasks[0];
    let waited: Vec<(usize, &[usize])> =
        root.stretches.iter().enumerate().map(|(number, stretch)| (number, &*stretch.waits_for)).collect();
    let members: Vec<usize> = (2..5).collect();
    let at = |awaited: &[usize]| {
        let found = waited.iter().find(|(_, waits_for)| *waits_for == awaited);
        found.unwrap_or_else(|| panic!("nobody waits for {awaited:?}: {text}")).0
    };
    let (group, undeferred) = (at(&members), at(&[5]));
    assert!(group < undeferred, "{text}");
    for member in members {
        assert!(required[&*format!("t0_{group}")].contains(&&*format!("member_{member}_0")), "{text}");
    }
    assert!(!required[&*format!("t0_{group}")].contains(&"before_1_0"), "it is in no group: {text}");
    let (work, longest) = (recording.work_ns(), recording.longest_chain_ns());
    assert!(root.own_ns() <= longest && longest <= work, "{work} ns of work, {longest} in a row");
}
