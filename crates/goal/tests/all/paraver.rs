//! Paraver traces become programs that run to their end.

use castell_base::Rank;
use castell_goal::check::check;
use castell_goal::file::{self, Contents};
use castell_goal::paraver::{self, Conversion, Note, ParaverError};
use castell_goal::text;
use std::path::{Path, PathBuf};

fn vector(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/paraver").join(name)
}

fn printed(conversion: &Conversion) -> String {
    let mut printed = String::new();
    text::print(&conversion.program, &mut printed).expect("memory takes everything");
    printed
}

/// A trace of so many tasks of one thread, in nanoseconds.
fn trace(tasks: usize, body: &str) -> String {
    let threads = vec!["1:1"; tasks].join(",");
    format!("#Paraver (22/11/2026 at 10:15):1000000_ns:1({tasks}):1:{tasks}({threads}),0\n{body}")
}

fn convert(tasks: usize, body: &str) -> Conversion {
    paraver::read(trace(tasks, body).as_bytes()).expect("a trace")
}

/// The lines of one rank.
fn rank(conversion: &Conversion, rank: u32) -> Vec<String> {
    let mut printed = String::new();
    let rank = Rank(rank);
    text::print_rank(rank, conversion.program.rank(rank), &mut printed).expect("memory takes everything");
    let lines = printed.lines().filter(|line| !line.is_empty() && !line.starts_with("rank") && *line != "}");
    lines.map(str::to_owned).collect()
}

#[test]
fn a_trace_as_extrae_writes_it() {
    let bytes = std::fs::read(vector("halo.prv")).expect("a vector");
    let conversion = paraver::read(&bytes).expect("a trace");
    let expected = std::fs::read_to_string(vector("halo.goal")).expect("a vector");
    assert_eq!(printed(&conversion), expected);
    let report = check(&conversion.program);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let notes: Vec<String> = conversion.notes.iter().map(Note::to_string).collect();
    assert_eq!(
        notes,
        [
            "1 x MPI_Allreduce became recursive doubling, without computation",
            "1 x MPI_Barrier became dissemination, one byte a message",
            "2 x MPI_Bcast became a binomial tree"
        ]
    );
    let contents = file::read(&bytes, "halo.prv", false).expect("known by its first bytes");
    assert!(matches!(contents, Contents::Program(program) if program.num_ranks() == 4));
}

#[test]
fn immediate_calls_wait_for_starts_and_waits_for_ends() {
    let conversion = convert(
        2,
        "2:1:1:1:1:100:50000001:4\n2:1:1:1:1:110:50000001:0\n\
         2:1:1:1:1:150:50000001:3\n2:1:1:1:1:160:50000001:0\n\
         2:1:1:1:1:200:50000001:5\n2:1:1:1:1:300:50000001:0\n\
         2:1:1:1:1:340:50000001:5\n2:1:1:1:1:350:50000001:0\n\
         1:1:1:1:1:350:400:1\n\
         3:1:1:1:1:150:160:2:1:2:1:0:170:16:3\n\
         3:2:1:2:1:20:30:1:1:1:1:110:300:8:4\n",
    );
    assert_eq!(
        rank(&conversion, 0),
        [
            "v0: calc 100",
            "v1: recv 8b from 1 tag 4",
            "v1 requires v0",
            "v2: calc 40",
            "v2 irequires v1",
            "v3: send 16b to 1 tag 3",
            "v3 requires v2",
            "v4: calc 40",
            "v4 irequires v3",
            "v5: calc 40",
            "v5 requires v4",
            "v5 requires v1",
            "v6: calc 50",
            "v6 requires v5",
            "v6 requires v3",
        ]
        .map(String::from)
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .as_slice()
    );
}

#[test]
fn traces_without_calls_are_taken_by_their_communications() {
    let conversion = convert(
        2,
        "1:1:1:1:1:0:500:1\n1:1:1:1:1:500:900:0\n1:1:1:1:1:900:1000:1\n3:1:1:1:1:500:510:2:1:2:1:300:800:64:1\n\
         1:2:1:2:1:0:300:1\n1:2:1:2:1:300:800:3\n1:2:1:2:1:800:950:1\n",
    );
    assert_eq!(
        rank(&conversion, 0),
        ["v0: calc 500", "v1: send 64b to 1 tag 1", "v1 requires v0", "v2: calc 100", "v2 requires v1"]
    );
    assert_eq!(
        rank(&conversion, 1),
        ["v0: calc 300", "v1: recv 64b from 0 tag 1", "v1 requires v0", "v2: calc 150", "v2 requires v1"]
    );
}

#[test]
fn units_applications_and_threads() {
    let trace = "#Paraver (22/11/2026 at 10:15):1000:1(2):2:1(2:1):1(1:1)\r\n\
                 # a comment\r\n\
                 2:1:1:1:2:5:50000001:1:42000050:123456\r\n2:1:1:1:2:6:42000050:99:50000001:0\r\n\
                 3:1:1:1:2:5:5:2:2:1:1:3:9:10:2\r\n";
    let conversion = paraver::read(trace.as_bytes()).expect("a trace");
    assert_eq!(conversion.program.num_ranks(), 2);
    let sender = ["v0: calc 5000 cpu 1", "v1: send 10b to 1 tag 2 cpu 1", "v1 requires v0"];
    assert_eq!(rank(&conversion, 0), sender);
    assert_eq!(rank(&conversion, 1), ["v0: calc 9000", "v1: recv 10b from 0 tag 2", "v1 requires v0"]);
}

#[test]
fn threads_have_numbers_of_eight_bits() {
    let trace = |thread: u32| {
        format!(
            "#Paraver (22/11/2026 at 10:15):1000_ns:1(2):2:2(1:1,1:1):2(1:1,300:1)\n\
             2:1:2:2:{thread}:5:50000001:1\n2:1:2:2:{thread}:9:50000001:0\n"
        )
    };
    assert_eq!(paraver::read(trace(256).as_bytes()).expect("a trace").program.num_ranks(), 4);
    let error = paraver::read(trace(257).as_bytes()).expect_err("too many threads");
    assert!(matches!(error, ParaverError::ThreadBeyond { task: 2, thread: 257 }), "{error}");
}

/// Task, time and call of collective calls that last 10 ns.
fn calls(calls: &[(u32, u64, u32)]) -> String {
    let call = |&(task, time, call): &(u32, u64, u32)| {
        let end = time + 10;
        format!(
            "2:{task}:1:{task}:1:{time}:50000002:{call}:50100001:8:50100002:8\n2:{task}:1:{task}:1:{end}:50000002:0\n"
        )
    };
    calls.iter().map(call).collect()
}

#[test]
fn collective_calls_of_all_kinds_run_to_their_end() {
    let kinds: Vec<u32> = (7..=18).chain([30, 80]).chain(154..=171).chain([214, 215]).collect();
    for tasks in [1, 2, 3, 5, 8, 13] {
        let body: String = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| {
                let all: Vec<_> = (1..=tasks as u32).map(|task| (task, 100 * index as u64, *kind)).collect();
                calls(&all)
            })
            .collect();
        let conversion = convert(tasks, &body);
        let report = check(&conversion.program);
        assert!(report.problems.is_empty(), "{tasks} tasks: {:?}", report.problems);
        assert_eq!(conversion.notes.len(), kinds.len(), "{:?}", conversion.notes);
    }
}

#[test]
fn what_a_trace_does_not_say_is_noted() {
    let one_sided = "2:1:1:1:1:100:50000004:65\n2:1:1:1:1:110:50000004:0\n";
    // A send, a receive, and a send that does not wait.
    let lost = [1, 2, 3].map(|call| {
        let at = 200 + 20 * call;
        format!("2:1:1:1:1:{at}:50000001:{call}\n2:1:1:1:1:{}:50000001:0\n", at + 10)
    });
    let cut = calls(&[(1, 300, 8), (2, 300, 8), (1, 400, 10)]);
    let foreign = "2:1:1:1:1:500:50000002:8:50100004:9\n2:1:1:1:1:510:50000002:0\n";
    let overtaken = "3:1:1:1:1:600:600:2:1:2:1:700:900:1:0\n3:1:1:1:1:610:610:2:1:2:1:650:660:1:0\n";
    let conversion = convert(2, &[one_sided, &lost.concat(), &cut, foreign, overtaken].concat());
    let notes: Vec<String> = conversion.notes.iter().map(Note::to_string).collect();
    for said in [
        "1 x MPI_Barrier became",
        "1 collective operations that not all members reached were left out",
        "1 collective calls on communicators that the trace does not list were left out",
        "1 one-sided calls",
        "3 sends and receives without a communication record",
        "1 messages overtook",
    ] {
        assert!(notes.iter().any(|note| note.starts_with(said)), "{said}: {notes:#?}");
    }
    assert!(check(&conversion.program).is_ok());
}

#[test]
fn wrong_traces_are_refused_with_the_place() {
    for (body, said) in [
        ("5:1\n", "line 2: expected a record"),
        ("1:1:1:1:1:5:6\n", "line 2: expected processor"),
        ("\n2:1:1:1:1:x\n", "line 3: expected processor"),
        ("2:1:1:1:1:5:50000001\n", "line 2: expected"),
        ("2:1:1:3:1:5:1:1\n", "line 2 names task 3, thread 1 of application 1"),
        ("2:1:0:1:1:5:1:1\n", "line 2 names task 1"),
        ("2:1:1:1:0:5:1:1\n", "thread 0"),
        ("c:1:1:3:1:2\n", "line 2: expected as many members"),
        ("c:0:1:0\n", "line 2: expected an application from 1 on"),
        ("3:1:1:1:1:5:5:2:1:2:1:5:5:8:2147483648\n", "line 2: the tag 2147483648 is too large"),
        ("3:1:1:1:1:5:5:2:1:2:1:5:5:8\n", "line 2: expected sender"),
        ("2:1:1:1:1:99999999999999999999:1:1\n", "line 2: expected processor"),
    ] {
        let error = paraver::read(trace(2, body).as_bytes()).expect_err(body).to_string();
        assert!(error.starts_with(said) || error.contains(said), "{body}: {error}");
    }
    let differ =
        paraver::read(trace(2, &calls(&[(1, 5, 8), (2, 7, 10)])).as_bytes()).expect_err("they differ");
    assert!(
        matches!(differ, ParaverError::CollectivesDiffer { rank: Rank(1), other: Rank(0), .. }),
        "{differ}"
    );
    let outside = format!("c:1:4:1:2\n{}", calls(&[(1, 5, 8)]).replace(":50100001:8", ":50100004:4"));
    let error = paraver::read(trace(2, &outside).as_bytes()).expect_err("no member");
    assert!(matches!(error, ParaverError::NotMember { rank: Rank(0), communicator: 4, .. }), "{error}");
    let many: Vec<_> = (1..=1000).flat_map(|task| (0..100).map(move |call| (task, 20 * call, 11))).collect();
    let error = paraver::read(trace(1000, &calls(&many)).as_bytes()).expect_err("too many");
    assert!(matches!(error, ParaverError::CollectivesMany { operations } if operations > 1 << 27), "{error}");
    let packed = file::read(&[0x1f, 0x8b, 8, 0], "trace.prv.gz", false).expect_err("compressed");
    assert!(packed.to_string().contains("unpack it first"), "{packed}");
}

#[test]
fn a_thread_that_never_communicates_is_no_part_of_the_program() {
    let trace =
        "#Paraver (22/11/2026 at 10:15):1000_ns:1(2):1:1(2:1)\n1:1:1:1:1:0:500:1\n1:2:1:1:2:0:700:1\n";
    let conversion = paraver::read(trace.as_bytes()).expect("a trace");
    assert_eq!(rank(&conversion, 0), ["calc 500"]);
}

#[test]
fn a_thread_too_many_is_named_by_its_task_in_its_application() {
    let trace = "#Paraver (22/11/2026 at 10:15):1000_ns:1(2):2:1(1:1):2(1:1,300:1)\n\
                 2:1:2:2:257:5:50000001:1\n2:1:2:2:257:9:50000001:0\n";
    let error = paraver::read(trace.as_bytes()).expect_err("too many threads");
    assert!(matches!(error, ParaverError::ThreadBeyond { task: 2, thread: 257 }), "{error}");
}

/// Times in which a thread did nothing are no computation, also where a call lies in one of them.
#[test]
fn doing_nothing_is_taken_off_the_computation_around_it() {
    let conversion = convert(
        2,
        "1:1:1:1:1:0:1000:1\n1:1:1:1:1:10:20:0\n1:1:1:1:1:15:30:3\n1:1:1:1:1:30:40:3\n1:1:1:1:1:100:900:0\n1:1:1:1:1:850:950:3\n\
         2:1:1:1:1:400:50000001:1\n2:1:1:1:1:500:50000001:0\n2:1:1:1:1:960:50000001:1\n2:1:1:1:1:970:50000001:0\n\
         3:1:1:1:1:400:410:2:1:2:1:0:170:16:3\n3:1:1:1:1:960:965:2:1:2:1:0:980:16:3\n",
    );
    let lines = rank(&conversion, 0);
    let calculations: Vec<&String> = lines.iter().filter(|line| line.contains("calc")).collect();
    // 0 to 400 without 10 to 40 and from 100; 500 to 960 from 950; 970 to 1000.
    assert_eq!(calculations, ["v0: calc 70", "v2: calc 10", "v4: calc 30"]);
}

#[test]
fn messages_asked_for_at_once_do_not_overtake() {
    let noted = |second: u32| {
        let conversion = convert(
            2,
            &format!("3:1:1:1:1:600:600:2:1:2:1:700:900:1:0\n3:1:1:1:1:610:610:2:1:2:1:{second}:960:1:0\n"),
        );
        conversion.notes.iter().any(|note| matches!(note, Note::Overtaking { messages: 1 }))
    };
    assert_eq!([699, 700, 701].map(noted), [true, false, false]);
}

/// The root says 1 of itself, the others 0 or nothing.
#[test]
fn the_root_is_who_says_so() {
    let call = |task: u32, root: &str| {
        format!(
            "2:{task}:1:{task}:1:100:50000002:7:50100001:8:50100002:8{root}\n2:{task}:1:{task}:1:110:50000002:0\n"
        )
    };
    let body = [call(1, ":50100003:0"), call(2, ":50100003:1"), call(3, ":50100003:0")].concat();
    let conversion = convert(3, &format!("{body}1:1:1:1:1:0:200:1\n"));
    let receives = [
        "v0: calc 100",
        "v1: recv 8b from 1 tag 2147483648",
        "v1 requires v0",
        "v2: calc 90",
        "v2 requires v1",
    ];
    assert_eq!(rank(&conversion, 0), receives);
    let sends = ["v1: send 8b to 0 tag 2147483648", "v2: send 8b to 2 tag 2147483648"];
    assert!(
        sends.iter().all(|send| rank(&conversion, 1).contains(&String::from(*send))),
        "{:?}",
        rank(&conversion, 1)
    );
}

/// A communicator lists its members in an order of its own, by which they have their places.
#[test]
fn members_have_the_places_of_their_communicator() {
    let call = |task: u32| {
        let bytes = 10 * task;
        format!(
            "2:{task}:1:{task}:1:100:50000002:15:50100001:90:50100002:{bytes}:50100003:{}:50100004:7\n\
             2:{task}:1:{task}:1:110:50000002:0\n",
            u32::from(task == 3)
        )
    };
    let conversion = convert(3, &format!("c:1:7:3:3:1:2\n{}", [1, 2, 3].map(call).concat()));
    let report = check(&conversion.program);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    // Task 3 scatters to the place of task 2, which is two further, then to that of task 1: each what it got.
    let root: Vec<String> = rank(&conversion, 2).into_iter().filter(|line| line.contains("send")).collect();
    assert_eq!(root, ["v1: send 20b to 1 tag 2147483648", "v2: send 10b to 0 tag 2147483648"]);
}

/// What follows an immediate operation waits for its first steps to start, and a wait for its last to end.
#[test]
fn immediate_collective_calls_are_waited_for_later() {
    let call = |task: u32, number: u32| {
        format!(
            "2:{task}:1:{task}:1:100:50000002:{number}:50100001:8:50100002:8\n2:{task}:1:{task}:1:110:50000002:0\n\
             2:{task}:1:{task}:1:150:50000001:5\n2:{task}:1:{task}:1:160:50000001:0\n1:{task}:1:{task}:1:0:200:1\n"
        )
    };
    let lines = |number: u32, tasks: u32| {
        let body: String = (1..=tasks).map(|task| call(task, number)).collect();
        rank(&convert(tasks as usize, &body), 0)
    };
    let exchange = [
        "v0: calc 100",
        "v1: send 8b to 1 tag 2147483648",
        "v1 requires v0",
        "v2: recv 8b from 1 tag 2147483648",
        "v2 requires v0",
    ];
    let blocking = [&exchange[..], &["v3: calc 80", "v3 requires v1", "v3 requires v2"]].concat();
    assert_eq!(lines(10, 2), blocking);
    let immediate = [
        "v3: calc 40",
        "v3 irequires v1",
        "v3 irequires v2",
        "v4: calc 40",
        "v4 requires v3",
        "v4 requires v1",
        "v4 requires v2",
    ];
    assert_eq!(lines(155, 2), [&exchange[..], &immediate].concat());
    // Alone there is nothing to do, and the computation goes on.
    assert_eq!(lines(155, 1), ["v0: calc 100", "v1: calc 80", "v1 requires v0"]);
    assert_eq!(lines(10, 1), lines(155, 1));
}

/// The largest number of operations that is made, and one call more: counted are calls of one member, of which nothing
/// is made in the end.
#[test]
fn collective_calls_may_become_so_many_operations() {
    // Between each pair of 1024, twice: 2^21. Or in ten rounds and two more, twice for each: 24576.
    for (kind, most) in [(11, 64), (8, 5461)] {
        for (count, is_right) in [(most, true), (most + 1, false)] {
            let all: Vec<_> = (0..count).map(|call| (1, 20 * call, kind)).collect();
            match paraver::read(trace(1024, &calls(&all)).as_bytes()) {
                Ok(conversion) => {
                    let note = Note::LeftOut {
                        what: "collective operations that not all members reached were",
                        calls: count,
                    };
                    assert_eq!((is_right, conversion.notes), (true, vec![note]));
                }
                Err(error) => {
                    assert!(!is_right && matches!(error, ParaverError::CollectivesMany { .. }), "{error}")
                }
            }
        }
    }
}

#[test]
fn calls_that_do_not_belong_together_are_named_with_their_number() {
    let body = calls(&[(1, 5, 8), (2, 7, 8), (1, 100, 8), (2, 107, 10)]);
    let error = paraver::read(trace(2, &body).as_bytes()).expect_err("they differ").to_string();
    let expected = "communicator 0: in its collective call number 2, rank 1 calls MPI_Allreduce at 107 ns, but rank 0 calls \
                    MPI_Barrier";
    assert!(error.starts_with(expected), "{error}");
}
