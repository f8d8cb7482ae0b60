//! Which format a file is in, told by its first bytes, and what is said of one that is in none.

use castell_goal::file::{Contents, Format, ReadError, read};
use castell_goal::schedule_set::ScheduleSet;
use castell_goal::{binary, text};

/// What is said of bytes that are no program.
fn refused(bytes: &[u8]) -> String {
    read(bytes, "x", false).expect_err("no program").to_string()
}

#[test]
fn every_format_is_known_by_its_first_bytes() {
    let goal = "num_ranks 2\nrank 0 {\ncalc 5\n}";
    let program = text::parse(goal, "").unwrap();
    let (packed, set) =
        (binary::write(&program).unwrap(), ScheduleSet::compile(&program).unwrap().to_bytes());
    let trace = "#Paraver (22/11/2026 at 10:00):1000_ns:1(2):1:2(1:1,1:1),0\n1:1:1:1:1:0:5:1\n";
    for (bytes, format) in [
        (goal.as_bytes(), Format::Text),
        (&packed, Format::LogGopSim),
        (&set, Format::Schedules),
        (trace.as_bytes(), Format::Paraver),
    ] {
        assert_eq!(Format::of(bytes), format);
        let contents = read(bytes, "x", false).unwrap();
        assert_eq!(matches!(contents, Contents::Schedules(_)), format == Format::Schedules);
        let program = contents.into_program();
        assert_eq!((program.num_ranks(), program.operations()), (2, 1), "{format:?}");
        // Cut within the magic number, everything is taken as text.
        assert_eq!(Format::of(&bytes[..3]), Format::Text);
    }
    let used_up = [&2342_u64.to_le_bytes()[..], &packed[8..]].concat();
    assert_eq!(Format::of(&used_up), Format::LogGopSim);
    assert!(refused(&used_up).starts_with("x: this LogGOPSim binary was used up"));
}

#[test]
fn what_is_wrong_is_said_with_the_name_of_the_file() {
    assert_eq!(refused(b""), "x: the file is empty");
    assert_eq!(refused(&[0x1f, 0x8b, 8, 0]), "x: the file is compressed; unpack it first (gunzip)");
    assert!(refused(b"CSET").starts_with("x: the header announces 32 bytes, but there are 4"));
    assert!(refused(b"#Paraver").starts_with("x: line 1 is no header of a Paraver trace"));
    assert!(refused(b"num_ranks 0").starts_with("x:1:11: a program has at least one rank"));
}

/// In the first 4096 bytes it tells that something is no text; further behind, its place in the text is said.
#[test]
fn a_control_byte_tells_that_something_is_no_text() {
    for (at, is_text) in [(0, false), (4095, false), (4096, true)] {
        for byte in [0, 1, 8, 0x0b, 0x1b, 0x7f] {
            let mut bytes = vec![b' '; 5000];
            bytes[at] = byte;
            match read(&bytes, "x", false).expect_err("no program") {
                ReadError::Unknown(name, found) => {
                    assert_eq!((name.as_str(), found, is_text), ("x", at, false))
                }
                ReadError::Text(_) => assert!(is_text, "{byte} at {at}"),
                error => panic!("{error}"),
            }
        }
    }
    for blank in [b' ', b'\t', b'\n', b'\r'] {
        assert!(matches!(read(&[blank], "x", false), Err(ReadError::Text(_))), "{blank}");
    }
}
