//! `unsafe` stays in the rooms that touch the machine.

use super::rooms::Table;
use super::source::{code_only, line_of, words};
use super::{File, Finding};

const ROOMS: [&str; 16] = [
    "base", "host", "shm", "lab", "launch", "queues", "engine", "coll", "comm", "tasks", "devices", "fabric",
    "bench", "capi", "omp", "py",
];

/// No `unsafe` outside the rooms that may have it, and inside a `// SAFETY:` for each block. Clippy asks for it too, where it
/// looks: not at what is compiled under loom only.
pub fn check(file: &File) -> Vec<Finding> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let found = |at: usize, message: String| Finding::new(&file.path, line_of(&code, at), message);
    if ROOMS.iter().any(|room| file.path.starts_with(&format!("crates/{room}/"))) {
        let lines: Vec<&str> = file.text.lines().collect();
        let is_block = |at: &usize| {
            let rest = code[at + "unsafe".len()..].trim_start();
            rest.starts_with('{') || rest.starts_with("impl")
        };
        let bare = words(&code, "unsafe").filter(is_block);
        let bare = bare.filter(|at| !is_documented(&lines[..line_of(&code, *at)]));
        return bare.map(|at| found(at, "say `// SAFETY:` why this is sound".to_owned())).collect();
    }
    let message = format!("`unsafe` outside {}: give that room a safe function for it", ROOMS.join(", "));
    words(&code, "unsafe").map(|at| found(at, message.clone())).collect()
}

/// Whether the statement that reaches into the last line has its comment: in that line, or above the statement's first.
fn is_documented(lines: &[&str]) -> bool {
    const STATEMENT_LINES_MAX: usize = 7;
    let Some((last, above)) = lines.split_last() else { return false };
    let mut lines_of_code = 0;
    for line in std::iter::once(last).chain(above.iter().rev()).map(|line| line.trim()) {
        if line.contains("SAFETY:") {
            return true;
        }
        if line.starts_with("//") || line.starts_with("#[") {
            continue;
        }
        let ends_another = lines_of_code > 0 && (line.is_empty() || line.ends_with([';', '}']));
        if ends_another || lines_of_code > STATEMENT_LINES_MAX {
            return false;
        }
        lines_of_code += 1;
    }
    false
}

/// The pure rooms say so themselves.
pub fn check_pure_rooms(table: &Table, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in table.rooms.iter().filter(|room| room.floor == "pure") {
        let path = format!("crates/{}/src/lib.rs", room.name);
        let Some(file) = files.iter().find(|file| file.path == path) else { continue };
        if !code_only(&file.text).contains("#![forbid(unsafe_code)]") {
            findings.push(Finding::new(&path, 1, "a pure room: add `#![forbid(unsafe_code)]`"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_it_is_allowed() {
        let text = "// unsafe\nlet a = \"unsafe\";\nunsafe { f() }\n".to_owned();
        let outside = File { path: "crates/goal/src/a.rs".to_owned(), text: text.clone() };
        assert_eq!(check(&outside).iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        assert_eq!(check(&File { path: "crates/comm/src/a.rs".to_owned(), text }).len(), 1);
    }

    #[test]
    fn blocks_without_a_reason_are_named() {
        let text = "unsafe fn f() {}\n// SAFETY: a.\nunsafe impl S for T {}\n// SAFETY: b,\n// and c.\nlet d = g(\n    \
                    1,\n    unsafe { f() },\n);\nlet e = unsafe { f() };\n\nunsafe { f() } // SAFETY: h.\n";
        let findings = check(&File { path: "crates/host/src/a.rs".to_owned(), text: text.to_owned() });
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [10]);
    }
}
