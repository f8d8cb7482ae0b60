//! Peers that do not exist and bytes that leave the scratchpad: what compiling refuses, and what the check says.

use castell_base::Rank;
use castell_goal::check::{self, Kind};
use castell_goal::compile::CompileError;
use castell_goal::program::Program;
use castell_goal::text;

/// A program of three ranks, whose rank 0 has one operation and a scratchpad, and rank 1 a scratchpad.
fn program(operation: &str, own: u64, other: u64) -> Program {
    let text = format!(
        "num_ranks 3\nrank 0 {{\nscratchpad {own}b\nx: {operation}\n}}\nrank 1 {{\nscratchpad {other}b\n}}"
    );
    text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"))
}

/// What the check says of peers and bounds.
fn said(program: &Program) -> Vec<String> {
    let problems = check::check(program).problems;
    let own = problems.iter().filter(|problem| matches!(problem.kind, Kind::Peer | Kind::Bounds));
    own.map(|problem| problem.to_string()).collect()
}

/// The first of its bytes that lies outside is named, of an operation with a list the block.
#[test]
fn what_leaves_the_scratchpad_is_named_with_its_bytes() {
    let outside = |operation: &str, scratchpad: u64| {
        let program = program(operation, scratchpad, 1 << 40);
        let said = said(&program);
        match program.rank(Rank(0)).compile() {
            Err(CompileError::OutsideScratchpad { offset, end, scratchpad_bytes, name, .. }) => {
                assert_eq!((scratchpad_bytes, name.as_str()), (scratchpad, "`x`"));
                let expected = format!(
                    "4:1: error: rank 0 `x`: it uses bytes {offset} to {end} of the scratchpad, which has {scratchpad}"
                );
                assert_eq!(said, [expected]);
                Some((offset, end))
            }
            compiled => {
                assert_eq!(said, [""; 0]);
                compiled.map(|_| None).unwrap()
            }
        }
    };
    for (operation, offset, end) in [
        ("send 8b to 0 at @16", 16, 24),
        ("recv 8b from 0 at @16", 16, 24),
        ("send 9b to 0 at @[0:4,20:4,3:1]", 20, 24),
        ("recv 9b from 0 at @[20:4,16:5]", 20, 24),
        ("local add u32 2 @16 @0 into @8", 16, 24),
        ("local add u32 2 @0 @16 into @8", 16, 24),
        ("local add u32 2 @0 @8 into @16", 16, 24),
        ("local add u32 2 @[0:4,20:4] @8 into @0", 20, 24),
        ("local add u32 2 @0 @[4:4,20:4] into @0", 20, 24),
        ("local add u32 2 @0 @8 into @[0:4,20:4]", 20, 24),
        ("wtime into @16", 16, 24),
        ("put 8b to 1 at @16 into @99", 16, 24),
        ("get 8b from 1 at @99 into @16", 16, 24),
    ] {
        assert_eq!(outside(operation, end), None, "{operation}");
        assert_eq!(outside(operation, end - 1), Some((offset, end)), "{operation}");
    }
}

/// The other side of a put or get lies in the scratchpad of its rank, which has one of its own size.
#[test]
fn what_leaves_the_scratchpad_of_the_other_side_is_named() {
    for (operation, offset) in [
        ("put 8b to 1 at @0 into @16", 16),
        ("get 8b from 1 at @16 into @0", 16),
        ("put 8b to 1 into @0", 0),
        ("get 8b from 1 at @4096", 4096),
    ] {
        let end = offset + 8;
        assert_eq!(said(&program(operation, 8, end)), [""; 0], "{operation}");
        let scratchpad = end - 1;
        let expected = format!(
            "4:1: error: rank 0 `x`: it uses bytes {offset} to {end} of the scratchpad of rank 1, which has {scratchpad}"
        );
        assert_eq!(said(&program(operation, 8, scratchpad)), [expected]);
    }
    // Without memory there is nothing to leave; a rank that has no graph has no scratchpad.
    assert_eq!(said(&program("put 8b to 1", 0, 0)), [""; 0]);
    let none = "4:1: error: rank 0 `x`: it uses bytes 0 to 1 of the scratchpad of rank 2, which has 0";
    assert_eq!(said(&program("get 1b from 2 at @0", 0, 0)), [none]);
}

#[test]
fn the_last_rank_exists_and_the_next_does_not() {
    for operation in ["send 8b to", "recv 8b from", "put 8b to", "get 8b from"] {
        assert_eq!(said(&program(&format!("{operation} 2"), 0, 0)), [""; 0]);
        for peer in [3, u32::MAX - 1] {
            let expected = format!(
                "4:1: error: rank 0 `x`: its peer, rank {peer}, does not exist: the program has 3 ranks, so the last is 2"
            );
            let program = program(&format!("{operation} {peer}"), 0, 0);
            assert_eq!(said(&program), [expected]);
            // Nothing else is said of it: nobody could send there, or receive from there.
            assert_eq!(check::check(&program).problems.len(), 1);
        }
    }
    assert_eq!(said(&program("recv 8b from -1", 0, 0)), [""; 0]);
}
