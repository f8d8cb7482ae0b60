//! Reading a text on several threads.
//!
//! The text is cut where a line begins with `rank R`, and each part is read as if nothing but whole ranks stood before it. That
//! is so if the part before it ends between two ranks, without a mistake, and the rank that it expects next is R. If anything is
//! otherwise (a cut in a comment, a mistake anywhere), the text is read once more as a whole: what is said of it is then the same.

use super::error::ParseErrors;
use super::parser::{Parser, Piece};
use crate::graph::Graph;
use crate::program::Program;
use castell_base::{Job, Threads};
use std::ops::Range;
use std::sync::Mutex;

/// Shorter parts are not worth another thread.
const PART_BYTES_MIN: usize = 256 << 10;
/// Parts a thread: threads are not equally quick, and parts not equally easy.
const PARTS_A_THREAD: usize = 4;

/// Reads a text on as many threads as are lent.
pub(super) fn parse(text: &[u8], file: &str, threads: &dyn Threads) -> Result<Program, ParseErrors> {
    let count = threads.count().min(text.len() / PART_BYTES_MIN);
    let parts = if count > 1 { cut(text, count * PARTS_A_THREAD) } else { Vec::new() };
    if parts.len() > 1
        && let Some(program) = read(text, parts, threads)
    {
        return Ok(program);
    }
    Parser::new(text).parse(file)
}

/// A part of a text, and the rank with which it begins (0 for the first).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    bytes: Range<usize>,
    rank: u32,
}

/// Cuts a text into at most so many parts of about the same length, none where no rank seems to begin.
fn cut(text: &[u8], count: usize) -> Vec<Part> {
    let mut parts = vec![Part { bytes: 0..text.len(), rank: 0 }];
    for index in 1..count {
        let target = |index: usize| (text.len() as u128 * index as u128 / count as u128) as usize;
        let last = parts.last_mut().expect("the first part is always there");
        let wanted = target(index).max(last.bytes.start + 1);
        if let Some((at, rank)) = rank_line(text, wanted..target(index + 1)) {
            let end = std::mem::replace(&mut last.bytes.end, at);
            parts.push(Part { bytes: at..end, rank });
        }
    }
    parts
}

/// The first line that begins in `within` and with `rank R`: where it begins, and R.
fn rank_line(text: &[u8], within: Range<usize>) -> Option<(usize, u32)> {
    let mut at = within.start;
    while at < within.end {
        let line = at + text[at - 1..within.end - 1].iter().position(|&byte| byte == b'\n')?;
        if let Some(rank) = rank_behind(&text[line..]) {
            return Some((line, rank));
        }
        at = line + 1;
    }
    None
}

/// R, if the text begins with `rank R`.
fn rank_behind(text: &[u8]) -> Option<u32> {
    let digits = skip_blanks(skip_blanks(text).strip_prefix(b"rank")?);
    let length = digits.iter().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

/// What threads share: parts that nobody reads yet, and what has been read.
struct Shared {
    waiting: std::iter::Enumerate<std::vec::IntoIter<Part>>,
    /// The line in which the next part begins.
    line: usize,
    /// In order of the parts; `None`: not read yet.
    pieces: Vec<Option<Piece>>,
}

/// Reads the parts and puts them together; `None`: something is wrong somewhere.
fn read(text: &[u8], parts: Vec<Part>, threads: &dyn Threads) -> Option<Program> {
    let pieces = parts.iter().map(|_| None).collect();
    let first_ranks: Vec<u32> = parts.iter().map(|part| part.rank).collect();
    let shared = Mutex::new(Shared { waiting: parts.into_iter().enumerate(), line: 1, pieces });
    let job = || {
        while let Some((index, part, line)) = shared.lock().ok().and_then(|mut shared| shared.next(text)) {
            let bytes = &text[part.bytes];
            let parser = if index == 0 { Parser::new(bytes) } else { Parser::behind(bytes, line, part.rank) };
            let piece = parser.parse_piece();
            let Ok(mut shared) = shared.lock() else { return };
            if piece.is_none() {
                shared.waiting = Vec::new().into_iter().enumerate();
            }
            shared.pieces[index] = piece;
        }
    };
    threads.run((0..threads.count()).map(|_| Box::new(job) as Job<'_>).collect());
    let pieces: Option<Vec<Piece>> = shared.into_inner().ok()?.pieces.into_iter().collect();
    join(pieces?, &first_ranks)
}

impl Shared {
    /// The next part, its index, and its first line.
    fn next(&mut self, text: &[u8]) -> Option<(usize, Part, u32)> {
        let (index, part) = self.waiting.next()?;
        let line = u32::try_from(self.line).unwrap_or(u32::MAX);
        self.line += lines(&text[part.bytes.clone()]);
        Some((index, part, line))
    }
}

/// How many lines end in a text. In groups so short that a byte counts one.
fn lines(text: &[u8]) -> usize {
    let group = |group: &[u8]| group.iter().fold(0, |count: u8, &byte| count + u8::from(byte == b'\n'));
    text.chunks(255).map(|bytes| usize::from(group(bytes))).sum()
}

/// Puts pieces together whose ranks follow each other.
fn join(pieces: Vec<Piece>, first_ranks: &[u32]) -> Option<Program> {
    let ranks = pieces.first()?.num_ranks;
    let follow = pieces.iter().zip(&first_ranks[1..]).all(|(piece, &next)| piece.rank_next == next);
    if !follow || pieces.last()?.rank_next > ranks {
        return None;
    }
    let mut all: Vec<Graph> = Vec::with_capacity(pieces.iter().map(|piece| piece.ranks.len()).sum());
    pieces.into_iter().for_each(|mut piece| all.append(&mut piece.ranks));
    Some(Program::with_graphs(ranks, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::print;
    use castell_base::OwnThread;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    struct Scoped(usize);

    impl Threads for Scoped {
        fn count(&self) -> usize {
            self.0
        }

        fn run(&self, jobs: Vec<Job<'_>>) {
            std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
        }
    }

    /// Everything that a text says of a program.
    fn told(program: &Program) -> (String, Vec<String>) {
        let mut printed = String::new();
        print(program, &mut printed).expect("a string takes everything");
        let graphs = program.graphs().flat_map(|(rank, graph)| {
            let vertex =
                move |vertex| format!("{rank} {:?} {:?}", graph.label(vertex), graph.position(vertex));
            graph.vertices().map(vertex)
        });
        (printed, graphs.collect())
    }

    /// Reads a text in up to so many parts and compares; whether it was read in parts.
    #[track_caller]
    fn same_in_parts(text: &[u8], count: usize, threads: usize) -> bool {
        let parts = cut(text, count);
        assert_eq!((parts[0].bytes.start, parts.last().map(|part| part.bytes.end)), (0, Some(text.len())));
        assert!(parts.windows(2).all(|pair| pair[0].bytes.end == pair[1].bytes.start));
        let in_parts = parts.len() > 1;
        let read =
            if threads > 1 { read(text, parts, &Scoped(threads)) } else { read(text, parts, &OwnThread) };
        let whole = Parser::new(text).parse("text").ok();
        match (&read, &whole) {
            (Some(read), Some(whole)) => {
                assert_eq!(told(read), told(whole), "{}", String::from_utf8_lossy(text))
            }
            (None, _) => {}
            (Some(_), None) => panic!("wrong, but read in parts: {}", String::from_utf8_lossy(text)),
        }
        in_parts && read.is_some()
    }

    /// Ranks with many kinds of lines between and in them.
    fn text(random: &mut ChaCha8Rng) -> Vec<u8> {
        let ranks = random.random_range(1..12);
        let newline = ["\n", "\r\n"][usize::from(random.random_bool(0.3))];
        let mut text = format!("num_ranks {}{newline}", ranks + random.random_range(0..3));
        for rank in 0..ranks {
            let before =
                ["", "// rank 3 {", "/* over", "  ", "\t", "/* one */ "].choose(random).expect("some");
            text += before;
            match *before {
                "// rank 3 {" => text += newline,
                "/* over" if random.random_bool(0.5) => {
                    text += &format!("{newline}rank {rank} {{{newline}*/")
                }
                "/* over" => text += &format!("{newline}lines */{newline}"),
                _ => {}
            }
            text += &format!("rank {rank}{}{{{newline}", [" ", newline, "\t "].choose(random).expect("some"));
            for line in 0..random.random_range(0..4) {
                text += &format!("l{line}: send {line}b to 1{newline}");
                if line > 0 {
                    text += &format!("  l{line} requires l{}{newline}", line - 1);
                }
            }
            text += ["}", "}\n", "} \r\n", "calc 5 }\n\n"].choose(random).expect("some");
            text += newline;
        }
        text.into_bytes()
    }

    #[test]
    fn texts_say_the_same_in_parts() {
        let seed = 20_261_123;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut in_parts = 0;
        for round in 0..3000 {
            let text = text(&mut random);
            let threads = if round % 50 == 0 { 3 } else { 1 };
            in_parts += u32::from(same_in_parts(&text, random.random_range(2..40), threads));
        }
        assert!(in_parts > 1000, "only {in_parts} texts were read in parts");
    }

    #[test]
    fn wrong_texts_are_never_read_in_parts() {
        let seed = 20_261_124;
        println!("seed {seed}");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for _ in 0..6000 {
            let mut text = text(&mut random);
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..text.len());
                match random.random_range(0..4) {
                    0 => text[at] = *b" \t\n\r:}{/*b-0129ar_\x00\xff".choose(&mut random).expect("some"),
                    1 => drop(text.remove(at)),
                    2 => {
                        // Whole lines change places: ranks out of order, twice, or not closed.
                        let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
                        let (one, other) =
                            (random.random_range(0..lines.len()), random.random_range(0..lines.len()));
                        lines.swap(one, other);
                        text = lines.concat();
                    }
                    _ => text.truncate(at.max(1)),
                }
                if text.is_empty() {
                    text = b"x".to_vec();
                }
            }
            same_in_parts(&text, random.random_range(2..40), 1);
        }
    }

    #[test]
    fn ranks_beyond_the_last_and_lost_ones_are_found_between_parts() {
        let ranks = |from: u32, to: u32| {
            (from..to).map(|rank| format!("rank {rank} {{\ncalc 1\n}}\n")).collect::<String>()
        };
        let wrong = [
            format!("num_ranks 9\n{}", ranks(0, 10)),
            format!("num_ranks 20\n{}{}", ranks(0, 5), ranks(6, 10)),
            format!("num_ranks 20\n{}{}", ranks(0, 5), ranks(4, 10)),
            format!("num_ranks 20\n{}num_ranks 20\n{}", ranks(0, 5), ranks(5, 10)),
            ranks(0, 10),
            format!("num_ranks 20\n{}", ranks(1, 10)),
        ];
        for text in wrong {
            for count in 2..30 {
                assert!(!same_in_parts(text.as_bytes(), count, 1), "{text}");
            }
        }
        let right = format!("num_ranks 10\n{}", ranks(0, 10));
        for count in 2..30 {
            assert!(same_in_parts(right.as_bytes(), count, 2));
        }
    }

    #[test]
    fn long_texts_give_the_errors_of_the_sequential_reader() {
        let mut text = String::from("num_ranks 20000\n");
        for rank in 0..20_000 {
            text += &format!("rank {rank} {{\na: send 8b to 1\nb: recv 8b from 1\nb requires a\n}}\n");
        }
        assert!(text.len() > 3 * PART_BYTES_MIN, "long enough for three threads");
        let both = |text: &str| {
            (parse(text.as_bytes(), "long", &Scoped(3)), Parser::new(text.as_bytes()).parse("long"))
        };
        let (parts, whole) = both(&text);
        assert_eq!(told(&parts.expect("a program")), told(&whole.expect("a program")));
        for at in [0, 17, text.len() / 3, text.len() / 2 + 5, text.len() - 40] {
            let mut wrong = text.clone();
            wrong.insert_str(at, " ? ");
            let (parts, whole) = both(&wrong);
            assert_eq!(parts.expect_err("a mistake"), whole.expect_err("a mistake"));
        }
    }

    #[test]
    fn ranks_are_told_from_what_else_begins_a_line() {
        for (line, rank) in [
            ("rank 5 {", Some(5)),
            (" \t rank\t 07", Some(7)),
            ("rank12", Some(12)),
            ("rank 4294967295", Some(u32::MAX)),
            ("rank 4294967296", None),
            ("rank 00000000009", Some(9)),
            ("rank x", None),
            ("rank", None),
            ("ran 5", None),
            ("/rank 5", None),
            ("", None),
        ] {
            assert_eq!(rank_behind(line.as_bytes()), rank, "{line}");
        }
    }

    /// Of each stretch of the text the first line that begins with a rank, found by looking at all of them.
    #[test]
    fn cuts_are_where_ranks_begin() {
        let mut random = ChaCha8Rng::seed_from_u64(20_261_127);
        for _ in 0..300 {
            let text = text(&mut random);
            let begins = |at: &usize| *at == 0 || text[at - 1] == b'\n';
            let ranks: Vec<(usize, u32)> = (1..text.len())
                .filter(begins)
                .filter_map(|at| Some((at, rank_behind(&text[at..])?)))
                .collect();
            let count = random.random_range(1..40);
            let mut expected = vec![(0, 0)];
            for index in 1..count {
                let (from, to) = (text.len() * index / count, text.len() * (index + 1) / count);
                let last = expected[expected.len() - 1].0;
                expected.extend(ranks.iter().find(|(at, _)| *at >= from && *at < to && *at > last));
            }
            let parts = cut(&text, count);
            let found: Vec<(usize, u32)> = parts.iter().map(|part| (part.bytes.start, part.rank)).collect();
            assert_eq!(found, expected, "{count}: {}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn lines_are_counted_in_groups() {
        for bytes in [0, 1, 254, 255, 256, 510, 1000] {
            assert_eq!(lines(&vec![b'\n'; bytes]), bytes);
            assert_eq!(lines(&b"x\n".repeat(bytes)), bytes);
        }
    }

    /// Counts how often threads are asked to run jobs, and how many.
    struct Counted(usize, Mutex<Vec<usize>>);

    impl Threads for Counted {
        fn count(&self) -> usize {
            self.0
        }

        fn run(&self, jobs: Vec<Job<'_>>) {
            self.1.lock().expect("nobody panicked").push(jobs.len());
            jobs.into_iter().for_each(|job| job());
        }
    }

    #[test]
    fn threads_are_used_where_each_has_enough_to_read() {
        // Long, but of one rank.
        let alone = format!("num_ranks 1\nrank 0 {{ // {}\n}}", "x".repeat(3 * PART_BYTES_MIN));
        let counted = Counted(3, Mutex::new(Vec::new()));
        assert!(parse(alone.as_bytes(), "text", &counted).is_ok());
        assert_eq!(counted.1.into_inner().expect("nobody panicked"), [0; 0]);
        let rank = |rank: usize| format!("rank {rank} {{ // {}\n}}\n", "x".repeat(1000));
        let mut text = String::from("num_ranks 1000\n");
        (0..600).for_each(|index| text += &rank(index));
        assert!(text.len() > 2 * PART_BYTES_MIN);
        for (bytes, threads, jobs) in [
            (text.len(), 0, None),
            (text.len(), 1, None),
            (text.len(), 2, Some(2)),
            (text.len(), 7, Some(7)),
            (2 * PART_BYTES_MIN, 2, Some(2)),
            (2 * PART_BYTES_MIN - 1, 2, None),
        ] {
            // A comment at the end has the right length.
            let mut whole: String = text.clone();
            while whole.len() + 4 > bytes && bytes < text.len() {
                whole.truncate(whole[..whole.len() - 1].rfind("rank").expect("more ranks"));
            }
            let rest = bytes - whole.len();
            if rest > 0 {
                whole += &format!("//{}", "x".repeat(rest - 2));
            }
            assert_eq!(whole.len(), bytes);
            let counted = Counted(threads, Mutex::new(Vec::new()));
            let program =
                parse(whole.as_bytes(), "text", &counted).unwrap_or_else(|errors| panic!("{errors}"));
            assert!(program.graphs().len() > 400);
            assert_eq!(
                counted.1.into_inner().expect("nobody panicked"),
                Vec::from_iter(jobs),
                "{bytes} {threads}"
            );
        }
    }
}
