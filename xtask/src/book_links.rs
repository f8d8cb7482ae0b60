//! The book as it was built: every link of its pages leads to a page, and to a heading on it, that is there.
//!
//! `cargo doc` leaves its pages beside the book's, in `target/doc`; where it has not run, links to them are not followed.

use anyhow::{Context as _, bail};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Fails with a line for each link that leads nowhere.
pub fn check(book: &Path) -> anyhow::Result<()> {
    let mut pages = BTreeMap::new();
    read(book, &mut pages)?;
    let rustdoc = book.with_file_name("doc");
    let (mut followed, mut dead) = (0, Vec::new());
    for (path, text) in &pages {
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().context("a page lies in a folder")?;
            let target = if file.is_empty() { path.clone() } else { plain(&folder.join(file)) };
            if target.starts_with(&rustdoc) && !rustdoc.exists() {
                continue;
            }
            followed += 1;
            let is_there = match pages.get(&target) {
                Some(page) => anchor.is_empty() || page.contains(&format!("id=\"{anchor}\"")),
                None => target.exists(),
            };
            if !is_there {
                dead.push(format!("{}: {link}", path.strip_prefix(book).unwrap_or(path).display()));
            }
        }
    }
    if !dead.is_empty() {
        bail!("links of the book that lead nowhere:\n  {}", dead.join("\n  "));
    }
    println!("book: {followed} links lead somewhere");
    Ok(())
}

/// All pages below a folder, without the one that has all in one, and the one for what is not found.
fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html")
            && !path.ends_with("print.html")
            && !path.ends_with("404.html")
        {
            pages.insert(path.clone(), std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// The links of a page that stay on this machine.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let main = page.split_once("<main>").map_or(page, |(_, rest)| rest);
    let main = main.split_once("</main>").map_or(main, |(main, _)| main);
    let targets = [" href=\"", " src=\""].into_iter().flat_map(move |start| main.split(start).skip(1));
    let targets = targets.filter_map(|rest| rest.split('"').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = out.pop(),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let book = folder.path().join("book");
        std::fs::create_dir_all(book.join("more")).expect("a folder");
        let write = |name: &str, body: &str| {
            std::fs::write(book.join(name), format!("<main>{body}</main>")).expect("can be written");
        };
        write("a.html", r##"<h2 id="here"><a href="#here"></a></h2><a href="more/b.html#there">"##);
        write(
            "more/b.html",
            r#"<h2 id="there"></h2><a href="../a.html"><a href="https://x/y"><a href="../../doc/c.html">"#,
        );
        check(&book).expect("all lead somewhere");
        write("a.html", r#"<a href="more/b.html#nowhere"><img src="none.svg">"#);
        let error = check(&book).expect_err("two do not").to_string();
        assert!(
            error.contains("a.html: more/b.html#nowhere") && error.contains("a.html: none.svg"),
            "{error}"
        );
        std::fs::create_dir(folder.path().join("doc")).expect("a folder");
        let error = check(&book).expect_err("nor does the third, now").to_string();
        assert!(error.contains("more/b.html: ../../doc/c.html"), "{error}");
    }
}
