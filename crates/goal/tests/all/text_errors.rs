//! What is said of wrong text, and where: line and column of the byte that could not stand there.

use castell_goal::text::{self, ERRORS_MAX, LABEL_BYTES_MAX};

/// What is said of lines in the block of rank 0, the first of which is line 3. That it is in rank 0 is left out.
fn said(lines: impl AsRef<[u8]>) -> String {
    let text = [b"num_ranks 1\nrank 0 {\n", lines.as_ref(), b"\n}"].concat();
    let errors = text::parse(&text, "x").expect_err("wrong").to_string();
    let lines = errors
        .lines()
        .map(|line| line.strip_prefix("x:").unwrap_or_else(|| panic!("{line}")).replace(" (in rank 0)", ""));
    lines.collect::<Vec<_>>().join("\n")
}

/// Numbers, addresses, and what stands where one should.
const NUMBERS: &[(&str, &str)] = &[
    ("calc", "3:5: expected a number (a duration in nanoseconds), found the end of the line"),
    (
        "calc  18446744073709551616",
        "3:7: 18446744073709551616 (a duration in nanoseconds) is too large: at most 18446744073709551615",
    ),
    ("calc é", "3:6: expected a number (a duration in nanoseconds), found `é`"),
    (
        "calc \r5",
        "3:6: expected a number (a duration in nanoseconds), found a carriage return without a line feed",
    ),
    ("calc 😀", "3:6: expected a number (a duration in nanoseconds), found `😀`"),
    ("calc €", "3:6: expected a number (a duration in nanoseconds), found `€`"),
    ("call 0x(0x1)", "3:8: expected hexadecimal digits, found `(`"),
    (
        "call 0x10000000000000000(1)",
        "3:6: 0x10000000000000000 (the address of a function) is too large: at most 18446744073709551615",
    ),
    (
        "call 0xffffffffffffffff(18446744073709551616)",
        "3:25: 18446744073709551616 (the function's argument) is too large: at most 18446744073709551615",
    ),
    ("call 1 (0X)", "3:11: expected hexadecimal digits, found `)`"),
    ("call 1[2)", "3:7: expected `(`, found `[`"),
    ("call 1(2]", "3:9: expected `)`, found `]`"),
    ("call (1)", "3:6: expected a number (the address of a function), found `(`"),
    ("send 8b to 4294967295", "3:12: 4294967295 (the receiver) is too large: at most 4294967294"),
    ("send 8b to -1", "3:12: a send has one receiver: -1 (any) is for receives"),
    ("send 8b to -10", "3:12: a send has one receiver: -1 (any) is for receives"),
    ("recv 8b from -10", "3:14: expected a number (the sender) or -1 (any), found `-`"),
    ("recv 8b from -2", "3:14: expected a number (the sender) or -1 (any), found `-`"),
    ("recv 8b from 4294967296", "3:14: 4294967296 (the sender) is too large: at most 4294967294"),
    ("recv 8b from -1 tag -11", "3:21: expected a number (the tag) or -1 (any), found `-`"),
    ("send 8b to 1 tag -1", "3:18: a send has one tag: -1 (any) is for receives"),
    ("send 8b to 1 tag 4294967295", "3:18: a send has one tag: -1 (any) is for receives"),
    ("send 8b to 1 tag 4294967296", "3:18: 4294967296 (the tag) is too large: at most 4294967294"),
    ("recv 8b from 1 tag 4294967296", "3:20: 4294967296 (the tag) is too large: at most 4294967294"),
    ("send 8 to 1", "3:8: expected `b` (bytes) behind the size, found `to`"),
    ("send 8b from 1", "3:9: expected `to`, found `from`"),
    ("recv 8b to 1", "3:9: expected `from`, found `to`"),
    ("calc 1 cpu 256", "3:12: 256 (the processor) is too large: at most 255"),
    ("calc 1 nic 256", "3:12: 256 (the network interface) is too large: at most 255"),
    (
        "sleep 1 any 4294967296",
        "3:13: 4294967296 (a number of dependencies) is too large: at most 4294967295",
    ),
    (
        "calc 1 any 0",
        "3:1: vertex 0: `any` must be at least 1; a vertex that waits for nothing has no dependencies",
    ),
];

/// Options that an operation has not, or has twice.
const OPTIONS: &[(&str, &str)] = &[
    ("calc 1 tag 5", "3:8: `calc` has no `tag`"),
    ("calc 1 at @0", "3:8: `calc` has no `at`"),
    ("proxy into @0", "3:7: `proxy` has no `into`"),
    ("put 8b to 1 tag 1", "3:13: `put` has no `tag`"),
    ("send 8b to 1 into @5", "3:14: `send` has no `into`"),
    ("recv 8b from 1 concurrent concurrent", "3:27: `concurrent` is given twice for this operation"),
    ("calc 1 any 1 any 1", "3:14: `any` is given twice for this operation"),
    ("put 8b to 1 at @0 at @0", "3:19: `at` is given twice for this operation"),
    ("get 8b from 1 into @0 into @0", "3:23: `into` is given twice for this operation"),
    ("send 8b to 1 tag 1 tag 1", "3:20: `tag` is given twice for this operation"),
    ("calc 1 nic 1 nic 1", "3:14: `nic` is given twice for this operation"),
    ("calc 1 cpu 1 cpu 1", "3:14: `cpu` is given twice for this operation"),
    ("calc 1 x", "3:8: expected `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x`"),
    (
        "send 8b to 1 x",
        "3:14: expected `tag`, `at`, `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x`",
    ),
    (
        "put 8b to 1 x",
        "3:13: expected `at`, `into`, `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x`",
    ),
    (
        "a: calc 1 x",
        "3:11: expected `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x` (in `a` of rank 0)",
    ),
    (
        "recv 8b from 1 at 0x8 x",
        "3:23: expected `tag`, `at`, `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x`",
    ),
];

/// Local operations, buffers and lists.
const BUFFERS: &[(&str, &str)] = &[
    ("send 8b to 1 at 08", "3:17: expected a buffer (`@offset`, `0xaddress`, `void` or a list), found `08`"),
    ("wtime @0", "3:7: expected `into`, found `@`"),
    (
        "wtime into @[0:8]",
        "3:12: expected one place (`@offset`, `0xaddress` or `void`), found a list of blocks",
    ),
    (
        "put 8b to 1 at @[0:8]",
        "3:16: expected one place (`@offset`, `0xaddress` or `void`), found a list of blocks",
    ),
    (
        "get 8b from 1 into [0:8]",
        "3:20: expected one place (`@offset`, `0xaddress` or `void`), found a list of blocks",
    ),
    (
        "local mod f64 1 @0 @0 into @0",
        "3:7: expected an operator (max, min, add, sub, div, mul, copy, and, or, xor), found `mod`",
    ),
    (
        "local add f65 1 @0 @0 into @0",
        "3:11: expected a type (i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, f16, bf16), found `f65`",
    ),
    (
        "local and f32 1 @0 @0 into @0",
        "3:7: `and` is not defined for f32: and, or and xor take integers only",
    ),
    ("local add f32 x", "3:15: expected a number (a number of elements), found `x`"),
    ("local add f32 1 x", "3:17: expected a buffer (`@offset`, `0xaddress`, `void` or a list), found `x`"),
    ("local add f32 1 @0 @0 @0", "3:23: expected `into`, found `@`"),
    (
        "local add f32 4611686018427387904 @[] @[] into @[]",
        "3:1: add: the sizes add up to more than 64 bits can hold; check the lengths",
    ),
    ("local add f32 2 @[0:4] @0 into @0", "3:17: the blocks hold 4 bytes, but the operation needs 8"),
    ("local add f32 2 @[0:4,8:4] @[0:9] into @0", "3:28: the blocks hold 9 bytes, but the operation needs 8"),
    ("local add f32 2 @0 @0 into void[0:7]", "3:28: the blocks hold 7 bytes, but the operation needs 8"),
    ("send 8b to 1 at @x", "3:18: expected a number (an offset in the scratchpad), found `x`"),
    ("send 8b to 1 at x", "3:17: expected a buffer (`@offset`, `0xaddress`, `void` or a list), found `x`"),
    ("send 8b to 1 at @[0:8 8:0]", "3:23: expected `,` or `]`, found `8`"),
    ("send 8b to 1 at @[0;8]", "3:20: expected `:`, found `;`"),
    ("send 8b to 1 at @[0:8,]", "3:23: expected a number (the offset of a block), found `]`"),
    ("send 8b to 1 at @[x:8]", "3:19: expected a number (the offset of a block), found `x`"),
    ("send 8b to 1 at [0:x]", "3:20: expected a number (the length of a block in bytes), found `x`"),
    ("send 8b to 1 at [0:8", "3:21: expected `,` or `]`, found the end of the line"),
    ("send 9b to 1 at [0:8]", "3:17: the blocks hold 8 bytes, but the operation needs 9"),
    (
        "send 8b to 1 at [0:18446744073709551615,0:9]",
        "3:17: the blocks hold 18446744073709551615 bytes, but the operation needs 8",
    ),
    (
        "send 2b to 1 at 0xffffffffffffffff",
        "3:1: send: 2 bytes at 0xffffffffffffffff end beyond 64 bits; check the offset and the size",
    ),
];

/// Labels, dependencies and scratchpads.
const STATEMENTS: &[(&str, &str)] = &[
    ("scratchpad x", "3:12: expected a number (a size in bytes), found `x`"),
    ("scratchpad 8", "3:13: expected `b` (bytes) behind the size, found the end of the line"),
    ("scratchpad 8b 8", "3:15: expected the end of the line, found `8`"),
    ("scratchpad 8b\nscratchpad 8b", "4:1: the scratchpad of this rank is given twice"),
    ("send: calc 1", "3:1: `send` cannot be a label: it begins an operation or a rank"),
    ("rank: calc 1", "3:1: `rank` cannot be a label: it begins an operation or a rank"),
    ("num_ranks: calc 1", "3:1: `num_ranks` cannot be a label: it begins an operation or a rank"),
    ("num_ranks 5", "3:1: `num_ranks` is given twice"),
    ("a", "3:2: expected `:`, `requires` or `irequires`, found the end of the line"),
    ("a b", "3:3: expected `:`, `requires` or `irequires`, found `b`"),
    ("a : ", "3:5: expected an operation behind the label, found the end of the line (in `a` of rank 0)"),
    ("a: b", "3:4: expected an operation behind the label, found `b` (in `a` of rank 0)"),
    ("a requires", "3:11: expected a label, found the end of the line"),
    ("a requires 5", "3:12: expected a label, found `5`"),
    ("a requires b c", "3:14: expected the end of the line, found `c`"),
    ("a: calc 1\na requires a", "4:1: `a` cannot wait for itself"),
    ("a: calc 1\na: calc 2", "4:1: label `a` is defined twice: first in line 3 (in `a` of rank 0)"),
    (
        "a requires b\nb: calc 1\na: calc 1",
        "3:1: label `a` is used before its definition in line 5: move this line below it\n3:12: label `b` is used before its definition in line 4: move this line below it",
    ),
    ("aa: calc 1\naa requires ab", "4:13: no operation of this rank has the label `ab`; did you mean `aa`?"),
    (
        "a: calc 1\nb: sned\nb requires a\nb requires c",
        "4:4: expected an operation behind the label, found `sned` (in `b` of rank 0)\n6:12: no operation of this rank has the label `c`",
    ),
];

/// Comments, braces and ranks.
const BLOCKS: &[(&str, &str)] = &[
    (
        "} rank 1 { } rank 2 {",
        "3:8: rank 1 does not exist: num_ranks is 1, so the last rank is 0 (in rank 1)\n\
         3:19: rank 2 does not exist: num_ranks is 1, so the last rank is 0 (in rank 2)",
    ),
    ("calc \u{a0}5", "3:6: expected a number (a duration in nanoseconds), found the blank U+00A0"),
    ("calc \u{1}", "3:6: expected a number (a duration in nanoseconds), found the control character U+0001"),
    ("5", "3:1: expected an operation, a label or `}`, found `5`"),
    ("/ calc", "3:1: expected an operation, a label or `}`, found `/`"),
    (
        "/* open",
        "3:1: this comment is never closed: `*/` is missing\n4:2: rank 0, opened in line 2, is not closed: `}` is missing before this",
    ),
    (
        "calc 1 /* open\n\n",
        "3:8: this comment is never closed: `*/` is missing\n6:2: rank 0, opened in line 2, is not closed: `}` is missing before this",
    ),
    (
        "calc 1 /* a\n\n*/ x",
        "5:4: expected `cpu`, `nic`, `any`, `concurrent` or the end of the line, found `x`",
    ),
    ("} x", "3:3: expected `rank R {`, found `x`\n4:1: expected `rank R {`, found `}`"),
    ("} }", "3:3: expected `rank R {`, found `}`\n4:1: expected `rank R {`, found `}`"),
    ("}\nrank 0 { calc 1", "4:6: rank 0 is given twice"),
    ("} rank 1 {", "3:8: rank 1 does not exist: num_ranks is 1, so the last rank is 0 (in rank 1)"),
    (
        "} rank x {\ncalc y\n",
        "3:8: expected a number (the rank), found `x` (in rank 1)\n4:6: expected a number (a duration in nanoseconds), found `y` (in rank 1)",
    ),
    ("} rank 0 [", "3:10: expected `{`, found `[`\n4:1: expected `rank R {`, found `}`"),
    (
        "} num_ranks 2\n{",
        "3:3: `num_ranks` is given twice\n4:1: expected `rank R {`, found `{`\n5:1: expected `rank R {`, found `}`",
    ),
    ("calc 1 } calc", "3:10: expected `rank R {`, found `calc`\n4:1: expected `rank R {`, found `}`"),
];

#[test]
fn every_mistake_is_named_with_its_place() {
    for &(lines, expected) in [NUMBERS, OPTIONS, BUFFERS, STATEMENTS, BLOCKS].into_iter().flatten() {
        assert_eq!(said(lines), expected, "{lines}");
    }
}

#[test]
fn what_may_stand_first_is_named() {
    for (text, expected) in [
        ("5", "x:1:1: expected `num_ranks N`, found `5`"),
        ("{", "x:1:1: expected `num_ranks N`, found `{`"),
        ("num_ranks 1\n{", "x:2:1: expected `rank R {`, found `{`"),
        ("num_ranks 1\ncalc", "x:2:1: expected `rank R {`, found `calc`"),
    ] {
        assert_eq!(text::parse(text, "x").unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_is_long_is_cut_short() {
    let large = |digits: &str| {
        format!("3:6: {digits} (a duration in nanoseconds) is too large: at most 18446744073709551615")
    };
    let nines = |count| "9".repeat(count);
    assert_eq!(said(format!("calc {}", nines(40))), large(&nines(40)));
    assert_eq!(said(format!("calc {}", nines(41))), large(&format!("{}… (41 digits)", nines(20))));
    let found = |word: &str| format!("3:6: expected a number (a duration in nanoseconds), found `{word}`");
    let word = |count| "x".repeat(count);
    assert_eq!(said(format!("calc {}", word(40))), found(&word(40)));
    assert_eq!(said(format!("calc {}", word(41))), found(&format!("{}…", word(40))));
    let label = |bytes| word(bytes);
    let text = |bytes| {
        format!("num_ranks 1\nrank 0 {{\n{0}: calc 1\nb: calc 1 any 1\nb requires {0}\n}}", label(bytes))
    };
    assert!(text::parse(text(LABEL_BYTES_MAX), "").is_ok());
    assert!(text::parse(text(LABEL_BYTES_MAX).replace(": calc 1", ": calc 1 concurrent"), "").is_ok());
    let long =
        format!("3:1: a label of 4097 bytes: at most 4096 are allowed (in `{}` of rank 0)", label(4096));
    assert_eq!(said(format!("{}: calc 1", label(4097))), long);
    let unknown = format!("3:12: no operation of this rank has the label `{}`", label(4096));
    assert_eq!(said(format!("a requires {}", label(4097))).lines().last(), Some(unknown.as_str()));
}

#[test]
fn what_is_no_text_is_named_by_its_bytes() {
    let found = |what: &str| format!("3:6: expected a number (a duration in nanoseconds), found {what}");
    assert_eq!(said(b"calc \xff"), found("the byte 0xFF, which is not UTF-8"));
    // A character that is cut off.
    assert_eq!(said(b"calc \xe2\x82"), found("the byte 0xE2, which is not UTF-8"));
    assert_eq!(said("calc €€"), found("`€`"));
}

/// The largest numbers that fit, in decimal and hexadecimal, with as many zeros before them as one likes.
#[test]
fn the_largest_numbers_are_read() {
    for address in [
        "18446744073709551615",
        "0xffffffffffffffff",
        "0XFFFFffffFFFFffff",
        "0x000000000000000000ffffffffffffffff",
    ] {
        let text = format!("num_ranks 1\nrank 0 {{\ncall {address}({address})\n}}");
        let program = text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
        let expected = castell_goal::op::Op::Call { function: u64::MAX, context: u64::MAX };
        let graph = program.rank(castell_base::Rank(0));
        assert_eq!(graph.op(castell_goal::graph::Vertex(0)), expected);
    }
    for number in ["01", "0000000000000000000000001"] {
        assert!(text::parse(format!("num_ranks 1\nrank 0 {{\ncalc {number}\n}}"), "").is_ok());
    }
}

/// As many mistakes as are told, and one more or less: only what was not read any more is said to be left.
#[test]
fn reading_stops_at_so_many_mistakes() {
    for (count, told, stopped) in [
        (ERRORS_MAX - 1, ERRORS_MAX - 1, false),
        (ERRORS_MAX, ERRORS_MAX, true),
        (ERRORS_MAX + 1, ERRORS_MAX, true),
    ] {
        let text = format!("num_ranks 1\nrank 0 {{\n{}}}\n", "calc x\n".repeat(count));
        let errors = text::parse(text, "x").unwrap_err();
        assert_eq!((errors.errors.len(), errors.stopped), (told, stopped));
        let said = errors.to_string();
        assert_eq!(said.lines().count(), told + usize::from(stopped));
        let last = "x: too many errors; the rest of the file was not read";
        assert_eq!(said.lines().last() == Some(last), stopped);
    }
    // The last mistake is the last of the file.
    let text = format!("num_ranks 1\nrank 0 {{\n{}calc x", "calc x\n".repeat(ERRORS_MAX - 1));
    let errors = text::parse(text, "x").unwrap_err();
    assert_eq!((errors.errors.len(), errors.stopped), (ERRORS_MAX, false));
    // Labels that were never defined are found at the end, and told in the order of the lines.
    let uses: String = (0..ERRORS_MAX + 5).map(|use_| format!("a requires l{use_}\n")).collect();
    let text = format!("num_ranks 1\nrank 0 {{\na: calc 1\n{uses}calc x\n}}\n");
    let errors = text::parse(text, "x").unwrap_err();
    assert_eq!(errors.errors.len(), ERRORS_MAX);
    assert!(errors.errors.is_sorted_by_key(|error| error.line));
}
