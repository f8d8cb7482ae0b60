//! `unsafe` stays in the rooms that touch the machine.

use super::rooms::Table;
use super::source::{code_only, line_of, words};
use super::{File, Finding};

const ROOMS: [&str; 7] = ["base", "host", "comm", "tasks", "opencl", "capi", "py"];

/// No `unsafe` outside the rooms that may have it. (`// SAFETY:` on each block is clippy's job.)
pub fn check(file: &File) -> Vec<Finding> {
    let allowed = ROOMS.iter().any(|room| file.path.starts_with(&format!("crates/{room}/")));
    if allowed || file.extension() != "rs" {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let message = format!("`unsafe` outside {}: give that room a safe function for it", ROOMS.join(", "));
    words(&code, "unsafe").map(|at| Finding::new(&file.path, line_of(&code, at), message.clone())).collect()
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
        assert!(check(&File { path: "crates/comm/src/a.rs".to_owned(), text }).is_empty());
    }
}
