//! The commands in the book's pages that promise it: run as they stand there, in an empty folder, with castell as it is installed.
//! A block behind "as `NAME`:" is that file; a line below a command stands in what it prints; a picture is what a command wrote.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;

use installed::{Installed, root};
use std::path::Path;
use std::process::Command;

/// A block of code with what stands before it.
struct Block<'a> {
    before: &'a str,
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("```").collect();
    let pairs = parts.chunks(2).filter(|pair| pair.len() == 2);
    let found = pairs.filter_map(|pair| {
        let (language, text) = pair[1].split_once('\n')?;
        Some(Block { before: pair[0], language, text })
    });
    found.collect()
}

/// The name that the block is to be saved under.
fn file_name<'a>(block: &Block<'a>) -> Option<&'a str> {
    let (_, name) = block.before.trim_end().strip_suffix("`:")?.rsplit_once("as `")?;
    Some(name)
}

fn run(line: &str, folder: &Path, installed: &Installed) -> String {
    let paths = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder);
    shell.env("PATH", format!("{}:{paths}", installed.prefix.join("bin").display()));
    shell.env("PKG_CONFIG_PATH", installed.prefix.join("lib/pkgconfig"));
    installed::output(&mut shell)
}

/// Runs a page's commands; how many there were.
fn follow(page: &str, folder: &Path, installed: &Installed) -> usize {
    let mut commands = 0;
    for block in blocks(page) {
        if let Some(name) = file_name(&block) {
            std::fs::write(folder.join(name), block.text).expect("the folder can be written");
        }
        if block.language != "console" {
            continue;
        }
        let mut printed = String::new();
        for line in block.text.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    printed = run(command, folder, installed);
                    commands += 1;
                }
                None => {
                    assert!(printed.contains(line), "the book says `{line}`, and what came is:\n{printed}")
                }
            }
        }
    }
    commands
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
    let installed = Installed::new("book");
    for (page, commands, pictures) in [("tutorial", 11, 3), ("pictures", 5, 5)] {
        let text =
            std::fs::read_to_string(root().join(format!("docs/src/{page}.md"))).expect("the page is there");
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
        assert_eq!(follow(&text, folder.path(), &installed), commands, "commands of {page}");
        assert_eq!(compare_pictures(&text, folder.path()), pictures, "pictures of {page}");
    }
}
