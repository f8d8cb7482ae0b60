//! Rings of ranks that wait for one another: the circle that is named, whatever its length.

use castell_goal::check::{self, Kind, Problem, Severity};
use castell_goal::text;

/// Problems of a ring in which each rank receives from the one before it, then sends to the one behind it (or the other
/// way round), each in the lines of its own rank.
fn ring(ranks: usize, first: &str, second: &str) -> Vec<Problem> {
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        let line = |which: &str| match which {
            "r" => format!("r: recv 1b from {}\n", (rank + ranks - 1) % ranks),
            _ => format!("s: send 1b to {}\n", (rank + 1) % ranks),
        };
        text += &format!("rank {rank} {{\n{}{}{second} requires {first}\n}}\n", line(first), line(second));
    }
    let program = text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
    check::check(&program).problems
}

/// Line of an operation of a rank: each rank has five.
fn line(rank: usize, index: usize) -> usize {
    3 + 5 * rank + index
}

#[test]
fn a_ring_that_receives_first_is_a_deadlock_however_long() {
    for ranks in [2, 3, 8, 9, 10, 64, 65, 66, 499, 500, 501] {
        let problems = ring(ranks, "r", "s");
        // `r` waits for `s` of the rank before, which waits for `r` of that rank.
        let steps: Vec<String> = (1..ranks)
            .rev()
            .flat_map(|rank| [("s", rank, 1), ("r", rank, 0)])
            .chain([("s", 0, 1)])
            .map(|(name, rank, index)| format!(" for `{name}` of rank {rank} (line {})", line(rank, index)))
            .collect();
        // Looked at are a thousand steps, the first of which is where it begins.
        let looked_at = steps.len().min(999);
        let shown = steps[..looked_at.min(16)].join(", which waits");
        let more = match looked_at {
            ..=16 => String::new(),
            _ => format!(", which waits for {} others", looked_at - 16),
        };
        let closed = if 2 * ranks < 1000 { ", which waits for `r` again" } else { "" };
        let expected = format!(
            "3:1: error: rank 0 `r`: deadlock: it waits{shown}{more}{closed}; {} operations of {ranks} ranks never finish",
            2 * ranks
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].to_string(), expected, "{ranks}");
        assert_eq!(problems[0].kind, Kind::Deadlock);
    }
}

#[test]
fn a_ring_that_sends_first_needs_buffers() {
    for ranks in [2, 3, 64, 65] {
        let problems = ring(ranks, "s", "r");
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].kind, problems[0].severity), (Kind::Buffering, Severity::Warning));
        let expected = format!(
            "3:1: warning: rank 0 `s`: unless its messages are buffered, this program does not finish: it waits for `r` \
             of rank 1 (line {}), which waits for `s` of rank 1 (line {}), which",
            line(1, 1),
            line(1, 0)
        );
        assert!(problems[0].to_string().starts_with(&expected), "{}", problems[0]);
    }
}

/// Where receives take any source or tag, or operations wait for some of their dependencies, another order may run.
#[test]
fn with_wildcards_a_deadlock_is_a_warning() {
    for (recv, any, severity) in [
        ("recv 1b from 1 tag 0", "", Severity::Error),
        ("recv 1b from -1 tag 0", "", Severity::Warning),
        ("recv 1b from 1 tag -1", "", Severity::Warning),
        ("recv 1b from -1 tag -1", "", Severity::Warning),
        ("recv 1b from 1", " any 1", Severity::Warning),
    ] {
        let text = format!(
            "num_ranks 2\nrank 0 {{\nr: {recv}\ns: send 1b to 1{any}\ns requires r\n}}\n\
             rank 1 {{\nr: recv 1b from 0\ns: send 1b to 0\ns requires r\n}}"
        );
        let program = text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
        let problems = check::check(&program).problems;
        assert_eq!(problems.len(), 1, "{recv}");
        assert_eq!((problems[0].kind, problems[0].severity), (Kind::Deadlock, severity), "{recv}");
        let chain = "it waits for `s` of rank 1 (line 9), which waits for `r` of rank 1 (line 8), which waits for `s` \
                     of rank 0 (line 4), which waits for `r` again; 4 operations of 2 ranks never finish";
        assert!(problems[0].message.ends_with(chain), "{}", problems[0]);
    }
}

/// A receive from any rank took what another would have needed: there the way ends, after as many as are shown.
#[test]
fn a_way_that_does_not_come_around_ends_where_nothing_is_sent() {
    let mut text = String::from("num_ranks 11\n");
    for rank in 0..8 {
        let send = rank.max(1) - 1;
        text += &format!(
            "rank {rank} {{\nr: recv 1b from {}\ns: send 1b to {send} tag {}\ns requires r\n}}\n",
            rank + 1,
            u32::from(rank == 0)
        );
    }
    text += "rank 8 {\nw: recv 1b from -1\nr: recv 1b from 9\ns: send 1b to 7\ns requires r\n}\n";
    text += "rank 9 { send 1b to 8 }\nrank 10 {\ncalc 1\nsend 1b to 8\n}";
    let text = text.replace("r: recv 1b from 1\n", "r: recv 1b from 1\nown: recv 1b from 0 tag 1\n");
    let line =
        |rank: usize, index: usize| 3 + 5 * rank + index + usize::from(rank > 0) + usize::from(rank == 8);
    let steps: Vec<String> = (1..=8)
        .flat_map(|rank| [("s", rank, 1), ("r", rank, 0)])
        .map(|(name, rank, index)| format!(" for `{name}` of rank {rank} (line {})", line(rank, index)))
        .collect();
    let expected = format!(
        "3:1: warning: rank 0 `r`: deadlock: it waits{}; 19 operations of 9 ranks never finish",
        steps.join(", which waits")
    );
    assert_eq!(problems(&text), [expected]);
}

/// What is stuck behind the circle, and what has run, is not part of it.
#[test]
fn the_way_into_a_circle_is_left_out() {
    let text = "num_ranks 3\nrank 0 {\ndone: calc 5\nlast: recv 1b from 1 tag 9\nbefore: proxy\nlast requires before\n\
                before irequires done\n}\nrank 1 {\nto: send 1b to 0 tag 9\nr: recv 1b from 2\nm: calc 1\nn: calc 1\n\
                s: send 1b to 2\nto requires s\nm irequires r\nn requires m\ns requires r\ns requires n\n}\nrank 2 {\n\
                r: recv 1b from 1\ns: send 1b to 1\ns requires r\n}";
    assert_eq!(
        problems(text),
        [
            "11:1: error: rank 1 `r`: deadlock: it waits for `s` of rank 2 (line 23), which waits for `r` of rank 2 (line \
          22), which waits for `s` of rank 1 (line 14), which waits for `r` again; 6 operations of 3 ranks never finish"
        ]
    );
}

/// Before each partner stands one that fits in the rank only, and one that fits in the tag only.
#[test]
fn partners_fit_in_rank_and_tag() {
    let receives = "num_ranks 3\nrank 0 {\nr: recv 1b from 1\na: send 1b to 1 tag 7\nb: send 1b to 2\ns: send 1b to 1\n\
                    a requires r\nb requires r\ns requires r\n}\nrank 1 {\nr: recv 1b from 0\ns: send 1b to 0\n\
                    s requires r\nt: recv 1b from 0 tag 7\n}\nrank 2 {\nrecv 1b from 0\n}";
    assert_eq!(
        problems(receives),
        [
            "3:1: error: rank 0 `r`: deadlock: it waits for `s` of rank 1 (line 13), which waits for `r` of rank 1 (line \
          12), which waits for `s` of rank 0 (line 6), which waits for `r` again; 8 operations of 3 ranks never finish"
        ]
    );
    let sends = "num_ranks 3\nrank 0 {\ns: send 1b to 1\na: send 1b to 1 tag 7\nr: recv 1b from 1\na requires s\n\
                 r requires s\n}\nrank 1 {\ns: send 1b to 0\na: recv 1b from 0 tag 7\nb: recv 1b from 2\n\
                 r: recv 1b from 0\na requires s\nb requires s\nr requires s\n}\nrank 2 {\nsend 1b to 1\n}";
    assert_eq!(
        problems(sends),
        [
            "3:1: warning: rank 0 `s`: unless its messages are buffered, this program does not finish: it waits for `r` of \
          rank 1 (line 13), which waits for `s` of rank 1 (line 10), which waits for `r` of rank 0 (line 5), which waits \
          for `s` again; 8 operations of 3 ranks never finish"
        ]
    );
}

fn problems(text: &str) -> Vec<String> {
    let program = text::parse(text, "").unwrap_or_else(|errors| panic!("{errors}"));
    check::check(&program).problems.iter().map(Problem::to_string).collect()
}
