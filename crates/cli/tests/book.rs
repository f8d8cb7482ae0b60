//! The commands in the book's pages: run as they stand there, each section in a terminal of its own, with castell as it is installed;
//! [`NOT_RUN`] says which are not, and why.
//! A block behind "as `NAME`:" is that file; a line below a command stands in what it prints; a picture is what a command wrote.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;
mod pages;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
#[path = "../../comm/tests/slurm/mod.rs"]
mod slurm;

use installed::{Installed, root};
use pages::lack::Lack;
use pages::reader::Reader;
use pages::tables::{AFTER, BEFORE, MEASURES, NOT_RUN, PLACES, SMALLER, VARIES, Why};
use pages::{Terminal, Typed, blocks, is_printed};
use skipped::skip;
use slurm::{Layout, Slurm};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// What goes on behind a command says at the latest what the page says that it does.
const SAYS_WITHIN: Duration = Duration::from_secs(20);

static INSTALLED: LazyLock<Installed> =
    LazyLock::new(|| Installed::with("book", &["--mpi", "mpicc", "--mpi", "mpicc.mpich"]));

/// In a page's place of lines that are not told.
const MORE: &str = "...";

/// Pages whose commands other tests run.
const OTHER_TESTS: &[&str] = &["tutorial", "pictures", "charts"];

/// Pages with commands of Slurm's: how many nodes theirs has, of how many processors.
const CLUSTERS: &[(&str, u16, u16)] =
    &[("hosts", 2, 4), ("mpi-programs", 2, 4), ("placing", 2, 2), ("sessions", 4, 2)];

/// Follows a page; how many commands were run, and how many not.
fn follow(reader: &mut Reader, path: &Path) -> (usize, usize) {
    let name = path.file_stem().expect("a page has a name").to_string_lossy();
    let page = fs::read_to_string(path).expect("a page");
    let (mut commands, mut others) = (0, 0);
    let (mut terminal, mut elsewhere) = (None, None);
    let slurm = cluster(reader, &name);
    let more: Vec<(&str, &str)> = slurm.iter().map(|slurm| ("SLURM_CONF", slurm.configuration())).collect();
    for block in blocks(&page) {
        block.save(reader.folder());
        for typed in block.commands() {
            let is_left_out = reader.leaves_out(&name, &typed.command);
            // What follows is typed in that job.
            if is_left_out && typed.command.starts_with("salloc") {
                elsewhere = Some(block.section);
            }
            if is_left_out || elsewhere == Some(block.section) {
                others += 1;
                continue;
            }
            let (_, terminal) = match terminal.take() {
                Some((section, open)) if section == block.section => terminal.insert((section, open)),
                // Which ends what the section before has started.
                _ => terminal.insert((block.section, reader.terminal(&more))),
            };
            run(&name, &typed, terminal);
            commands += 1;
        }
    }
    (commands, others)
}

/// The Slurm of a page that wants one.
fn cluster(reader: &mut Reader, page: &str) -> Option<Slurm> {
    let (_, nodes, processors) = *CLUSTERS.iter().find(|(name, ..)| *name == page)?;
    // Jobs have a part of a node.
    let settings = "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU";
    let layout = Layout { nodes, processors, settings, ..Layout::default() };
    let started = Slurm::start_with(&layout);
    if let Err(why) = &started {
        skip("slurm", why);
        reader.lacks.push(Lack::Slurm);
    }
    started.ok()
}

/// Runs a command and compares what it prints with the page.
fn run(page: &str, typed: &Typed<'_>, terminal: &mut Terminal) {
    let of = |table: &[(&str, &'static str)]| {
        let row = table.iter().find(|(part, _)| typed.command.contains(part));
        row.map(|(_, value)| *value)
    };
    let named = format!("{page}: {}", typed.command);
    if let Some((_, before)) = BEFORE.iter().find(|(part, _)| named.contains(part)) {
        let (succeeds, said) = terminal.run(before, None);
        assert!(succeeds, "`{before}`: {said}");
    }
    if typed.command.starts_with("salloc") {
        return terminal.enter(&typed.command);
    }
    let smaller = SMALLER.iter().find(|(part, _)| typed.command.contains(part));
    let command = smaller.map_or(typed.command.clone(), |(part, small)| typed.command.replace(part, small));
    let begun = Instant::now();
    let (succeeds, printed) = terminal.run(&command, of(PLACES));
    println!("{:5.1} s: {command}", begun.elapsed().as_secs_f64());
    // A refusal is what the page has under the command.
    let is_refused =
        !typed.prints.is_empty() && typed.prints.iter().all(|line| line.starts_with("castell: "));
    assert!(succeeds || is_refused, "`{command}` has failed:\n{printed}");
    let compared =
        if VARIES.iter().any(|part| typed.command.contains(part)) { &[] } else { &typed.prints[..] };
    let with_numbers = !MEASURES.iter().any(|part| typed.command.contains(part));
    let asks = command.starts_with("castell session list");
    let mut number = terminal.typed();
    let begun = Instant::now();
    for line in compared.iter().filter(|line| **line != MORE) {
        let line = terminal.here(line);
        // What stays says it when it comes to that.
        while !is_printed(&line, &terminal.said(number), with_numbers) {
            let printed = terminal.said(number);
            let is_over = !(asks || command.ends_with('&')) || begun.elapsed() > SAYS_WITHIN;
            assert!(!is_over, "below `{command}` the book says `{line}`, and what came is:\n{printed}");
            thread::sleep(Duration::from_millis(20));
            // Those whose state it is may be on their way to it.
            if asks {
                terminal.run(&command, None);
                number = terminal.typed();
            }
        }
    }
    let ends_or_stays = command.ends_with('&') || command.contains("kill %1");
    if let Some(check) = of(AFTER).filter(|_| ends_or_stays) {
        let program = command.split(" -- ").nth(1).map_or("", |rest| rest.trim_end_matches(" &"));
        let check = check.replace("PROGRAM", program);
        let (succeeds, said) = terminal.run(&format!("until {check}; do sleep 0.05; done"), None);
        assert!(succeeds, "`{check}`: {said}");
    }
}

/// The pictures of a page that a command of its has written are those in the book.
fn compare_pictures(page: &str, folder: &Path) -> usize {
    let names: Vec<&str> =
        page.split("(pictures/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for name in &names {
        let [drawn, kept] = [folder.join(name), root().join("docs/src/pictures").join(name)]
            .map(|path| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        assert!(drawn == kept, "docs/src/pictures/{name} is not what its command draws: draw it again");
    }
    names.len()
}

#[test]
fn the_tutorial_and_the_pictures_are_what_their_commands_give() {
    for (page, commands, pictures) in [("tutorial", 11, 3), ("pictures", 7, 7), ("charts", 3, 2)] {
        let path = root().join(format!("docs/src/{page}.md"));
        let text = fs::read_to_string(&path).expect("the page is there");
        let mut reader = Reader::new();
        assert_eq!(follow(&mut reader, &path), (commands, 0), "commands of {page}");
        assert_eq!(compare_pictures(&text, reader.folder()), pictures, "pictures of {page}");
    }
}

/// Files of pages, without those that other tests follow.
fn all_pages() -> Vec<PathBuf> {
    let book = fs::read_dir(root().join("docs/src")).expect("the book is there");
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.expect("it can be read").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.retain(|path| !OTHER_TESTS.iter().any(|name| path.ends_with(format!("{name}.md"))));
    pages.sort();
    // It has the program that is everybody's.
    pages.insert(0, root().join("README.md"));
    pages
}

#[test]
fn commands_of_all_pages_do_what_the_pages_say() {
    let mut reader = Reader::with_everything();
    let (mut commands, mut others) = (0, 0);
    for page in all_pages() {
        println!("{}", page.display());
        if page.ends_with("predicting.md") {
            reader.has_learned();
        }
        let (run, not_run) = follow(&mut reader, &page);
        (commands, others) = (commands + run, others + not_run);
    }
    println!("{commands} commands run, {others} not");
    assert!(commands > 0);
    for ((part, why), used) in NOT_RUN.iter().zip(&reader.used) {
        let is_needed = *used || matches!(why, Why::Without(_));
        assert!(is_needed, "no command of the book has `{part}`: NOT_RUN needs it no more");
    }
}
