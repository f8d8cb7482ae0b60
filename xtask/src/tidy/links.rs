//! Links in Markdown lead somewhere; test vectors that are named exist.

use super::{File, Finding};
use crate::headers;
use crate::slug::slug;
use std::collections::BTreeMap;
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

/// Links to a heading lead to one; pages of headers are seen as they will be built.
pub fn check_anchors(root: &Path, files: &[File]) -> anyhow::Result<Vec<Finding>> {
    let pages = headers::Pages::read(root)?;
    let mut texts = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension() == "md") {
        texts.insert(root.join(&file.path).canonicalize()?, (file, pages.expand(&file.text)?));
    }
    let mut findings = Vec::new();
    for (path, (file, text)) in &texts {
        let folder = path.parent().expect("a file lies in a folder");
        for (line, target) in link_targets(text) {
            let Some((to, anchor)) = target.split_once('#') else { continue };
            let to = if to.is_empty() { Ok(path.clone()) } else { folder.join(to).canonicalize() };
            // A file that is not there is another finding.
            if let Some((_, page)) = to.ok().and_then(|to| texts.get(&to))
                && !has_anchor(page, anchor)
            {
                let message = format!("no heading is called so there: {target}");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    Ok(findings)
}

fn has_anchor(page: &str, anchor: &str) -> bool {
    let mut seen = BTreeMap::new();
    let mut fenced = false;
    let headings = page.lines().filter(|line| {
        fenced ^= line.trim_start().starts_with("```");
        !fenced && line.starts_with('#')
    });
    let mut slugs = headings.map(|line| {
        let of_it = slug(line.trim_start_matches('#'));
        let before = seen.entry(of_it.clone()).or_insert(0);
        *before += 1;
        if *before == 1 { of_it } else { format!("{of_it}-{}", *before - 1) }
    });
    slugs.any(|slug| slug == anchor) || page.contains(&format!("id=\"{anchor}\""))
}

/// Every C header has a page, and says of each of its functions what it does.
pub fn check_headers(root: &Path, files: &[File]) -> anyhow::Result<Vec<Finding>> {
    let pages = headers::Pages::read(root)?;
    let mut findings = Vec::new();
    for name in pages.names() {
        let line = format!("{{{{#header {name}}}}}");
        if !files.iter().any(|file| file.path.starts_with("docs/src/") && file.text.contains(&line)) {
            let message = format!("no page of the book has `{line}`: add one to docs/src/headers");
            findings.push(Finding::new(&format!("include/{name}"), 1, message));
        }
    }
    for (name, function) in pages.without_words() {
        let message = format!("{function} has no comment: say what it does, and how it fails");
        findings.push(Finding::new(&format!("include/{name}"), 1, message));
    }
    Ok(findings)
}

/// Line and path of every relative link outside code blocks.
fn markdown_links(text: &str) -> Vec<(usize, String)> {
    let targets = link_targets(text).into_iter();
    // What `cargo doc` makes lies beside the book as it is built, and is looked for there.
    let files = targets.filter(|(_, target)| !target.starts_with('#') && !target.starts_with("../doc/"));
    files.map(|(line, target)| (line, target.split('#').next().unwrap_or("").to_owned())).collect()
}

/// Line, path and anchor of the same, also to headings of the same page.
fn link_targets(text: &str) -> Vec<(usize, String)> {
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
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number + 1, target.to_owned()));
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
    fn headings_are_found_by_their_links() {
        let page = "# A `b(c)` → d\n```\n# code\n```\n## e\n## e\n<a id=\"f\"></a>";
        for (anchor, is_there) in
            [("a-bc--d", true), ("e-1", true), ("f", true), ("code", false), ("e-2", false)]
        {
            assert_eq!(has_anchor(page, anchor), is_there, "{anchor}");
        }
    }

    #[test]
    fn finds_links_and_vectors() {
        let text = "[a](b.md#c) [d](https://e) `[f](g)`\n```\n[h](i)\n```\n![j](k/l.svg)\n";
        assert_eq!(markdown_links(text), [(1, "b.md".to_owned()), (5, "k/l.svg".to_owned())]);
        assert_eq!(link_targets(text)[0], (1, "b.md#c".to_owned()));
        let text =
            "\"../../vectors/goal/a.goal\", vectors/{name}, subvectors/b. See vectors/c.txt. In vectors/.";
        assert_eq!(vectors(text), [(1, "vectors/goal/a.goal".to_owned()), (1, "vectors/c.txt".to_owned())]);
    }
}
