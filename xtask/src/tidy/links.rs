//! Links in Markdown lead somewhere; test vectors that are named exist.

use super::{File, Finding};
use std::path::Path;

/// Relative links of `.md` files, and paths below `vectors/` in any file.
pub fn check(root: &Path, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.extension() == "md" {
        let folder = root.join(&file.path);
        let folder = folder.parent().expect("a file lies in a folder");
        for (line, target) in markdown_links(&file.text) {
            if !folder.join(&target).exists() {
                findings.push(Finding::new(&file.path, line, format!("the link leads nowhere: {target}")));
            }
        }
    }
    if !file.path.starts_with("xtask/") {
        for (line, path) in vectors(&file.text) {
            if !root.join(&path).exists() {
                findings.push(Finding::new(&file.path, line, format!("no such test vector: {path}")));
            }
        }
    }
    findings
}

/// Every chapter of the book is in its table of contents.
pub fn check_book(files: &[File]) -> Vec<Finding> {
    const SUMMARY: &str = "docs/src/SUMMARY.md";
    let chapters: Vec<String> = files
        .iter()
        .filter(|file| file.path == SUMMARY)
        .flat_map(|file| markdown_links(&file.text))
        .map(|(_, path)| format!("docs/src/{path}"))
        .collect();
    let is_page = |file: &&File| file.path.starts_with("docs/src/") && file.extension() == "md";
    let pages = files.iter().filter(is_page).map(|file| &file.path);
    let missing = pages.filter(|path| *path != SUMMARY && !chapters.contains(path));
    missing.map(|path| Finding::new(path, 1, format!("not in {SUMMARY}: add a line there"))).collect()
}

/// Line and path of every relative link outside code blocks.
fn markdown_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let line = without_code_spans(line);
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or("");
            let path = target.split('#').next().unwrap_or("");
            if !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:") {
                found.push((number + 1, path.to_owned()));
            }
        }
    }
    found
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Line and path of every mention of a file below `vectors/` (patterns and format strings are left out).
fn vectors(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("vectors/") {
            let part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let before = line[..at].chars().next_back();
            let rest = &line[at..];
            let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches('.');
            let is_pattern = rest[end..].starts_with(['*', '{', '<', '$', '%']);
            let is_own_name = before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"_-".contains(c));
            if is_own_name && !is_pattern && path != "vectors/" {
                found.push((number + 1, path.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_without_an_entry_are_named() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let summary = file("docs/src/SUMMARY.md", "- [A](a.md)\n");
        let files = [summary, file("docs/src/a.md", ""), file("docs/src/b.md", "")];
        let findings = check_book(&files);
        assert_eq!(
            findings.iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(),
            ["docs/src/b.md"]
        );
    }

    #[test]
    fn finds_links_and_vectors() {
        let text = "[a](b.md#c) [d](https://e) `[f](g)`\n```\n[h](i)\n```\n![j](k/l.svg)\n";
        assert_eq!(markdown_links(text), [(1, "b.md".to_owned()), (5, "k/l.svg".to_owned())]);
        let text =
            "\"../../vectors/goal/a.goal\", vectors/{name}, subvectors/b. See vectors/c.txt. In vectors/.";
        assert_eq!(vectors(text), [(1, "vectors/goal/a.goal".to_owned()), (1, "vectors/c.txt".to_owned())]);
    }
}
