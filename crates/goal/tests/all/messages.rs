//! Sizes of messages and receives: where they cannot agree, where they may not, and where wildcards choose.

use castell_goal::check::{self, Kind, Problem};
use castell_goal::text;

/// Rank 1 sends these sizes to rank 0, which receives those; `in order`: each waits for the one before it.
fn program(
    sent: &[u64],
    sends_in_order: bool,
    received: &[u64],
    receives_in_order: bool,
    from: &str,
) -> String {
    let lines = |sizes: &[u64], in_order: bool, line: &dyn Fn(u64) -> String| -> String {
        let operation = |(index, size): (usize, &u64)| format!("m{index}: {}\n", line(*size));
        let operations: String = sizes.iter().enumerate().map(operation).collect();
        let order =
            (1..sizes.len()).filter(|_| in_order).map(|index| format!("m{index} requires m{}\n", index - 1));
        operations + &order.collect::<String>()
    };
    let receives = lines(received, receives_in_order, &|size| format!("recv {size}b from {from}"));
    let sends = lines(sent, sends_in_order, &|size| format!("send {size}b to 0"));
    format!("num_ranks 2\nrank 0 {{\n{receives}}}\nrank 1 {{\n{sends}}}")
}

fn problems(text: &str) -> Vec<Problem> {
    check::check(&text::parse(text, "").unwrap_or_else(|errors| panic!("{errors}"))).problems
}

#[test]
fn sizes_that_agree_in_another_order_are_a_warning_unless_both_sides_have_one() {
    let in_order = |sent: &[u64], sends: bool, received: &[u64], receives: bool| {
        let problems = problems(&program(sent, sends, received, receives, "1"));
        let said: Vec<String> =
            problems.iter().map(|problem| format!("{}: {}", problem.severity, problem.message)).collect();
        assert!(problems.iter().all(|problem| problem.kind == Kind::Size));
        said
    };
    for (sends, receives) in [(false, false), (true, false), (false, true), (true, true)] {
        assert_eq!(in_order(&[8, 16, 24], sends, &[8, 16, 24], receives), [""; 0]);
        let meets = "rank 1 `m0`: it sends 8 bytes, but meets `m0` of rank 0 (line 3), which receives 16";
        let swapped = in_order(&[8, 16], sends, &[16, 8], receives);
        if sends && receives {
            assert_eq!(swapped, [format!("error: {meets}")]);
        } else {
            let why = "; the sizes would agree in another order, and no dependencies fix the order";
            assert_eq!(swapped, [format!("warning: {meets}{why}")], "{sends} {receives}");
        }
        // In no order.
        assert_eq!(in_order(&[8, 16], sends, &[16, 9], receives), [format!("error: {meets}")]);
        let other = "rank 1 `m1`: it sends 16 bytes, but meets `m1` of rank 0 (line 4), which receives 8";
        assert_eq!(in_order(&[8, 16], sends, &[8, 8], receives), [format!("error: {other}")]);
        let other = "rank 1 `m1`: it sends 8 bytes, but meets `m1` of rank 0 (line 4), which receives 16";
        assert_eq!(in_order(&[8, 8], sends, &[8, 16], receives), [format!("error: {other}")]);
        let later =
            "error: rank 1 `m2`: it sends 8 bytes, but meets `m2` of rank 0 (line 5), which receives 16";
        assert_eq!(in_order(&[8, 16, 8, 16], sends, &[8, 16, 16, 17], receives), [later]);
    }
}

#[test]
fn wildcards_take_what_has_their_size() {
    let in_size = |sent: &[u64], received: &[u64]| {
        problems(&program(sent, false, received, false, "-1 tag -1"))
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<String>>()
    };
    assert_eq!(in_size(&[8, 16, 8, 16], &[16, 16, 8, 8]), [""; 0]);
    assert_eq!(in_size(&[8, 8, 8, 16], &[8, 8, 8, 16]), [""; 0]);
    assert_eq!(in_size(&[8; 4], &[8; 4]), [""; 0]);
    let cannot = |count: u64, sender: &str, sent: u64, receiver: &str, received: u64| {
        format!(
            "rank 1 `{sender}`: however wildcards choose, {count} of the messages to rank 0 find no receive of their \
             size: it sends {sent} bytes, {receiver} receives {received}"
        )
    };
    assert_eq!(in_size(&[8, 8], &[8, 9]), [cannot(1, "m1", 8, "`m1` of rank 0 (line 4)", 9)]);
    assert_eq!(in_size(&[8, 9, 9], &[8, 8, 8]), [cannot(2, "m1", 9, "`m1` of rank 0 (line 4)", 8)]);
    assert_eq!(in_size(&[7], &[8]), [cannot(1, "m0", 7, "`m0` of rank 0 (line 3)", 8)]);
}

#[test]
fn what_is_left_over_is_counted_from_the_end_and_has_a_hint() {
    for (receives, sends, said) in [
        // One and several, each with what was perhaps meant.
        ("recv 1b from 1", "", "rank 0 `r0`: 1 receive of rank 0 from rank 1 with tag 0 gets no message"),
        (
            "recv 1b from 1|recv 1b from 1|recv 1b from 1",
            "send 1b to 0",
            "rank 0 `r1`: 2 receives of rank 0 from rank 1 with tag 0 get no message",
        ),
        (
            "recv 1b from -1 tag -1|recv 1b from -1 tag -1",
            "send 1b to 0",
            "rank 0 `r1`: 1 receive of rank 0 from any rank with any tag gets no message",
        ),
        (
            "recv 1b from 1",
            "send 1b to 0|send 1b to 0|send 1b to 0",
            "rank 1 `s1`: 2 sends of rank 1 to rank 0 with tag 0 have no receive",
        ),
        (
            "recv 1b from 1",
            "send 1b to 0 tag 5",
            "rank 1 `s0`: 1 send of rank 1 to rank 0 with tag 5 has no receive; `r0` of rank 0 (line 3) waits for tag 0 instead",
        ),
        (
            "recv 1b from 1",
            "send 1b to 0 tag 5",
            "rank 0 `r0`: 1 receive of rank 0 from rank 1 with tag 0 gets no message; `s0` of rank 1 (line 6) sends with tag 5 instead",
        ),
        (
            "recv 1b from 2",
            "send 1b to 0",
            "rank 1 `s0`: 1 send of rank 1 to rank 0 with tag 0 has no receive; `r0` of rank 0 (line 3) waits for it from rank 2 instead",
        ),
        (
            "recv 1b from 2",
            "send 1b to 0",
            "rank 0 `r0`: 1 receive of rank 0 from rank 2 with tag 0 gets no message; `s0` of rank 1 (line 6) sends with this tag",
        ),
        (
            "recv 1b from -1 tag 3|recv 1b from 1 tag -1",
            "send 1b to 0 tag 5|send 1b to 0 tag 5",
            "rank 0 `r0`: 1 receive of rank 0 from any rank with tag 3 gets no message",
        ),
    ] {
        let named = |letter: char, list: &str| -> String {
            let lines = list.split('|').filter(|line| !line.is_empty()).enumerate();
            lines.map(|(index, line)| format!("{letter}{index}: {line}\n")).collect()
        };
        let text =
            format!("num_ranks 3\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}", named('r', receives), named('s', sends));
        let problems: Vec<String> = problems(&text).into_iter().map(|problem| problem.message).collect();
        assert!(problems.iter().any(|problem| problem == said), "{said}\n{problems:#?}");
    }
}

/// Operations that wait for one another in a circle never start: they count as later than all others.
#[test]
fn what_never_starts_comes_last() {
    let text = "num_ranks 2\nrank 0 {\na: recv 16b from 1\nb: recv 8b from 1\nb requires a\n}\nrank 1 {\n\
                never: send 8b to 0\nproxy: proxy\nonce: send 16b to 0\nnever requires proxy\nproxy requires never\n}";
    let problems = problems(text);
    assert_eq!(problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(), [Kind::Cycle]);
}
