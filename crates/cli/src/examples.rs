//! The examples in `--help`: each can be copied from a terminal of 80 columns and run.

use clap::Command;

/// Columns of a terminal.
const WIDTH: usize = 80;
const INDENT: &str = "  ";

/// The same command with examples that fit.
pub fn readable(command: Command) -> Command {
    readable_of(command, &|_| true)
}

/// The same with examples that fit in its own help, and in that of the commands below which a command line names: whoever starts castell
/// does not wait for all of them.
pub fn readable_of(command: Command, is_named: &dyn Fn(&str) -> bool) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(narrow(&text)),
        None => command,
    };
    command.mut_subcommands(
        |below| if is_named(below.get_name()) { readable_of(below, is_named) } else { below },
    )
}

/// Where a line of a list of examples is too long, the list's comments stand above its commands, and long commands go on in the next line.
fn narrow(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        lines.push(line.to_owned());
        if line != "Examples:" {
            continue;
        }
        let mut examples = Vec::new();
        while let Some(example) = rest.next_if(|line| line.starts_with(INDENT)) {
            examples.push(example);
        }
        if examples.iter().all(|example| example.len() <= WIDTH) {
            lines.extend(examples.into_iter().map(str::to_owned));
        } else {
            examples.into_iter().for_each(|example| lines.extend(stacked(example)));
        }
    }
    lines.join("\n")
}

/// An example as lines: what it is about, then the command.
fn stacked(example: &str) -> Vec<String> {
    let (command, comment) = parts(example);
    let room = WIDTH - INDENT.len() - " \\".len();
    let comment = filled(comment.split(' ').filter(|word| !word.is_empty()), room).into_iter();
    let mut lines: Vec<String> = comment.map(|line| format!("{INDENT}# {line}")).collect();
    let commands = filled(options(command).into_iter(), room - INDENT.len());
    let last = commands.len() - 1;
    for (at, part) in commands.into_iter().enumerate() {
        let indent = if at > 0 { INDENT } else { "" };
        let goes_on = if at < last { " \\" } else { "" };
        lines.push(format!("{INDENT}{indent}{part}{goes_on}"));
    }
    lines
}

/// The command, and what is said of it: behind two blanks, or a hash.
fn parts(example: &str) -> (&str, &str) {
    let example = example.trim();
    let ends = ["  ", " # "].into_iter().filter_map(|mark| example.find(mark));
    let end = ends.min().unwrap_or(example.len());
    let (command, comment) = example.split_at(end);
    (command, comment.trim().trim_start_matches('#').trim())
}

/// The words of a command, an option's value with it; what stands in quotes is one.
fn options(command: &str) -> Vec<&str> {
    let (mut begin, mut quote) = (0, None);
    let mut found = Vec::new();
    for (at, character) in command.char_indices() {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, ' ') if command[at + 1..].starts_with(['-', '&', '|']) => {
                found.push(&command[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&command[begin..]);
    found
}

/// As many words a line as fit.
fn filled<'a>(words: impl Iterator<Item = &'a str>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn walk(command: &Command, path: &str, seen: &mut dyn FnMut(&str, &str)) {
        let path = format!("{path} {}", command.get_name());
        seen(&path, &command.get_after_help().map(ToString::to_string).unwrap_or_default());
        command.get_subcommands().for_each(|below| walk(below, &path, seen));
    }

    #[test]
    fn every_example_fits() {
        let mut count = 0;
        walk(&readable(crate::Cli::command()), "", &mut |path, text| {
            let examples = text.split_once("Examples:\n").map_or("", |(_, behind)| behind);
            for line in examples.lines().take_while(|line| line.starts_with(INDENT)) {
                assert!(line.len() <= WIDTH, "{path}: {line}");
                count += 1;
            }
        });
        assert!(count > 150, "{count}");
    }

    /// A shell's function in the program's place: what it was called with, each word ended by a 0, and a 1 as the last one; in one write, which a
    /// line's end would part, since some run in the background. Nothing else runs.
    const STAND_IN: &str = "castell() { printf '%s\\0' \"$@\" $'\\1' >&7; }
        command_not_found_handle() { return 0; }
        exec 7>calls\n";

    /// What a shell makes of the examples: the words of each call of castell, also of those within others' command lines.
    fn calls(examples: &str) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        for file in examples.split("< ").skip(1).filter_map(|rest| rest.split_whitespace().next()) {
            std::fs::write(folder.path().join(file), "").expect("a file");
        }
        // What is written goes nowhere.
        let mut parts = examples.split(" > ");
        let mut script = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find([' ', '\n']).unwrap_or(part.len());
            script.push_str(&format!(" > /dev/null{}", &part[end..]));
        }
        let mut shell = std::process::Command::new("/bin/bash");
        // Without a path there is no other program.
        shell.args(["-c", &format!("{STAND_IN}{script}\nwait")]).current_dir(folder.path()).env_clear();
        shell.env("HOME", folder.path()).env("PATH", "/nowhere").stdin(std::process::Stdio::null());
        shell.output().expect("bash starts");
        let said = std::fs::read_to_string(folder.path().join("calls")).expect("written");
        let mut calls = Vec::new();
        for call in said.split_terminator("\u{1}\0") {
            let words: Vec<String> = call.split_terminator('\0').map(str::to_owned).collect();
            let inner = words.iter().enumerate().filter(|(_, word)| *word == "castell");
            let inner: Vec<Vec<String>> = inner.map(|(at, _)| words[at + 1..].to_vec()).collect();
            calls.push(words);
            calls.extend(inner);
        }
        calls
    }

    #[test]
    fn every_example_is_understood() {
        let (mut count, mut wrong) = (0, Vec::new());
        walk(&crate::Cli::command(), "", &mut |path, text| {
            let examples = text.split_once("Examples:\n").map_or("", |(_, behind)| behind);
            let lines =
                examples.lines().take_while(|line| line.starts_with(INDENT)).map(|line| parts(line).0);
            let lines: Vec<&str> = lines.collect();
            let names = lines.iter().filter(|line| line.starts_with("castell ")).count();
            let calls = calls(&lines.join("\n"));
            assert!(calls.len() >= names, "{path}: {} calls in {names} examples: {lines:?}", calls.len());
            count += calls.len();
            wrong.extend(calls.iter().filter_map(|call| misunderstood(path, call)));
        });
        assert!(wrong.is_empty() && count > 200, "{count} examples: {}", wrong.join("\n"));
    }

    /// What is wrong with the words of a call.
    fn misunderstood(place: &str, call: &[String]) -> Option<String> {
        let words = ["castell"].into_iter().chain(call.iter().map(String::as_str));
        let error = crate::Cli::command().try_get_matches_from(words).err()?;
        Some(format!("{place}: {}: {error}", call.join(" ")))
    }

    /// Also of those that the book's test does not run.
    #[test]
    fn every_command_of_the_book_is_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = std::fs::read_dir(root.join("docs/src")).expect("the book");
        let pages = pages.map(|page| page.expect("a page").path()).chain([root.join("README.md")]);
        let (mut count, mut wrong) = (0, Vec::new());
        for page in pages.filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
            let text = std::fs::read_to_string(&page).expect("text").replace("\\\n", "");
            let blocks = text.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
            for command in blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("$ ")) {
                let calls = calls(command);
                count += calls.len();
                wrong.extend(calls.iter().filter_map(|call| misunderstood(&page.to_string_lossy(), call)));
            }
        }
        assert!(wrong.is_empty() && count > 200, "{count} commands: {}", wrong.join("\n"));
    }

    /// What stands between quotes in Rust text, outside of comments, but for what is looked for in what was printed.
    fn literals(text: &str) -> Vec<&str> {
        let (bytes, mut at, mut found) = (text.as_bytes(), 0, Vec::new());
        let find =
            |from: usize, what: &str| text[from..].find(what).map_or(bytes.len(), |length| from + length);
        while at < bytes.len() {
            let rest = &text.as_bytes()[at..];
            at = match rest {
                [b'/', b'/', ..] => find(at, "\n"),
                [b'/', b'*', ..] => find(at, "*/") + 2,
                // A quote as a character, and a lifetime.
                [b'\'', b'"', b'\'', ..] => at + 3,
                [b'r', b'#', b'"', ..] => {
                    let end = find(at + 3, "\"#");
                    found.push(&text[at + 3..end]);
                    end + 2
                }
                [b'"', ..] => {
                    let inside = rest[1..].iter().scan(false, |escapes, byte| {
                        let is_end = *byte == b'"' && !*escapes;
                        *escapes = *byte == b'\\' && !*escapes;
                        (!is_end).then_some(())
                    });
                    let end = at + 1 + inside.count();
                    let is_looked_for = ["contains(", "starts_with(", "ends_with("];
                    if !is_looked_for.iter().any(|call| text[..at].ends_with(call)) {
                        found.push(&text[at + 1..end]);
                    }
                    end + 1
                }
                _ => at + 1,
            };
        }
        found
    }

    /// Some test, or what tests start, gives each option, as a word of its own; hidden ones aside, and those that clap makes. Not what stands
    /// in comments, or is looked for in what was printed.
    #[test]
    fn every_option_is_given_by_a_test() {
        fn given(folder: &Path, into: &mut BTreeSet<String>) {
            for entry in
                std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
            {
                if entry.is_dir() {
                    given(&entry, into);
                    continue;
                }
                let text = std::fs::read_to_string(&entry).unwrap_or_default();
                let is_script = entry.extension().is_none_or(|extension| extension != "rs");
                let lines = text.lines().map(|line| line.split(" # ").next().unwrap_or_default());
                let lines = lines.filter(|line| !line.trim_start().starts_with(['#', '/', '*']));
                let parts: Vec<&str> = if is_script { lines.collect() } else { literals(&text) };
                let words = parts.iter().flat_map(|part| part.split_whitespace());
                let options = words.filter_map(|word| word.trim_matches(['\'', '"']).strip_prefix("--"));
                into.extend(options.map(|option| option.split('=').next().unwrap_or_default().to_owned()));
            }
        }
        fn options(command: &Command, into: &mut BTreeSet<String>) {
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            into.extend(shown.filter_map(|argument| argument.get_long().map(str::to_owned)));
            let below = command.get_subcommands().filter(|below| !below.is_hide_set());
            below.for_each(|below| options(below, into));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (mut found, mut wanted) = (BTreeSet::new(), BTreeSet::new());
        for folder in ["crates/cli/tests", "crates/capi/tests", "crates/agent/tests", "packaging/slurm"] {
            given(&root.join(folder), &mut found);
        }
        options(&crate::Cli::command(), &mut wanted);
        let missing: Vec<&String> = wanted.difference(&found).collect();
        assert!(wanted.len() > 200 && missing.is_empty(), "{missing:?} of {}", wanted.len());
    }

    #[test]
    fn only_what_is_said_by_a_test_counts() {
        let text = "// \"--a\"\n/* \"--i\" */ run(&[\"--b\", \"x --c\"]); assert!(out.contains(\"--d\")); let e = '\"'; let f = \"\\\"--g\"; r#\"--h\"#";
        assert_eq!(literals(text), ["--b", "x --c", "\\\"--g", "--h"]);
    }

    #[test]
    fn long_ones_are_stacked() {
        let short = "Examples:\n  castell top     all of it\n\nMore.";
        assert_eq!(narrow(short), short);
        let long = "Examples:\n  castell top   # a screen\n  castell run --measure './a -b | c -d' --search genetic --knob A=1..100 -- ./program input  \
                    what that one does is said here in a comment that is too long, too, for a line\n\nMore.";
        let expected = "Examples:\n  # a screen\n  castell top\n  # what that one does is said here in a comment that is too long, too, for a\n  # line\n  \
                        castell run --measure './a -b | c -d' --search genetic --knob A=1..100 \\\n    -- ./program input\n\nMore.";
        assert_eq!(narrow(long), expected);
    }
}
