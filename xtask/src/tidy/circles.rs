//! Circles of files: files of a crate that take names from each other, in a round, can only be read together.
//!
//! Reads `use` declarations and paths as text. A name that a module passes on (`pub use`) counts for the file that it comes
//! from, so that a folder's `mod.rs` is in no circle for showing what lies in it.

use super::source::{code_only, without_tests};
use super::{File, Finding};
use std::collections::{BTreeMap, BTreeSet};

/// The most files that one circle may have.
const FILES_MAX: usize = 4;
/// Rooms with larger ones, and how large: these numbers only go down.
const LARGER: [(&str, usize); 6] =
    [("collectives", 10), ("goal", 7), ("model", 8), ("sim", 6), ("tasks", 31), ("trace", 6)];
/// How often a name may be passed on.
const PASSED_ON_MAX: usize = 8;

/// Circles larger than that, each once, at its first file.
pub fn check(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let mut parts = file.path.split('/');
        if let (Some("crates"), Some(name), Some("src")) = (parts.next(), parts.next(), parts.next()) {
            crates.entry(name).or_default().push(file);
        }
    }
    let max = |name: &str| LARGER.iter().find(|(room, _)| *room == name).map_or(FILES_MAX, |(_, max)| *max);
    crates.iter().flat_map(|(name, files)| check_crate(files, max(name))).collect()
}

fn check_crate(files: &[&File], files_max: usize) -> Vec<Finding> {
    let modules = Modules::read(files);
    let arrows = modules.arrows();
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for start in 0..files.len() {
        let circle = circle_of(start, &arrows);
        if circle.len() > files_max && seen.insert(circle.clone()) {
            let names: Vec<&str> = circle.iter().map(|at| files[*at].path.as_str()).collect();
            let message = format!(
                "a circle of {} files (at most {files_max}): {}: let some know less of the others",
                circle.len(),
                names.join(", ")
            );
            findings.push(Finding::new(names[0], 1, message));
        }
    }
    findings
}

/// The files that a file reaches and that reach it, itself among them.
fn circle_of(start: usize, arrows: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let reach = |from: usize| {
        let (mut found, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(arrows[at].iter().filter(|next| found.insert(**next)));
        }
        found
    };
    reach(start).into_iter().filter(|at| reach(*at).contains(&start)).collect()
}

type ModulePath = Vec<String>;

/// The modules of a crate by their paths, each the file that it is.
#[derive(Default)]
struct Modules {
    file_of: BTreeMap<ModulePath, usize>,
    paths: Vec<ModulePath>,
    uses: Vec<Vec<Use>>,
    /// Paths that stand in the code, not in `use` declarations.
    inline: Vec<Vec<Vec<String>>>,
}

/// A name that a `use` declaration brings in.
struct Use {
    name: String,
    path: Vec<String>,
    is_passed_on: bool,
}

impl Modules {
    fn read(files: &[&File]) -> Modules {
        let mut modules = Modules::default();
        for (at, file) in files.iter().enumerate() {
            let path = module_path(&file.path);
            modules.file_of.insert(path.clone(), at);
            modules.paths.push(path);
            let code = code_only(without_tests(&file.text));
            let (uses, rest) = take_uses(&code);
            modules.uses.push(uses);
            modules.inline.push(inline_paths(&rest));
        }
        modules
    }

    /// For each file those that it takes names from.
    fn arrows(&self) -> Vec<BTreeSet<usize>> {
        let of = |at: usize| {
            let own = self.uses[at].iter().filter(|used| !used.is_passed_on).map(|used| &used.path);
            let found = own.chain(&self.inline[at]).filter_map(|path| self.resolve(at, path, 0));
            found.filter(|to| *to != at).collect()
        };
        (0..self.paths.len()).map(of).collect()
    }

    /// The file that a path seen from a file leads to; `None`: another crate.
    fn resolve(&self, from: usize, path: &[String], passed_on: usize) -> Option<usize> {
        let mut module = self.paths[from].clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                if !self.file_of.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(word) = rest.first() {
            let child = [&module[..], std::slice::from_ref(word)].concat();
            if !self.file_of.contains_key(&child) {
                break;
            }
            (module, rest) = (child, &rest[1..]);
        }
        let file = *self.file_of.get(&module)?;
        let Some(name) = rest.first() else { return Some(file) };
        let passing = self.uses[file].iter().find(|used| used.name == *name);
        match passing {
            Some(used) if passed_on < PASSED_ON_MAX => {
                self.resolve(file, &used.path, passed_on + 1).or(Some(file))
            }
            _ => Some(file),
        }
    }
}

/// `crates/x/src/a/b.rs` is `a::b`.
fn module_path(path: &str) -> ModulePath {
    let inside = path.splitn(4, '/').nth(3).unwrap_or_default();
    let mut parts: ModulePath = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

/// The `use` declarations, and the code without them.
fn take_uses(code: &str) -> (Vec<Use>, String) {
    let (mut uses, mut rest) = (Vec::new(), String::new());
    let mut open: Option<(bool, String)> = None;
    for line in code.lines() {
        let text = line.trim_start();
        let words = text.strip_prefix("pub").map_or(text, |after| {
            let after = after.trim_start();
            after.strip_prefix('(').and_then(|after| after.split_once(')')).map_or(after, |(_, after)| after)
        });
        match (&mut open, words.trim_start().strip_prefix("use ")) {
            (Some((_, tree)), _) => tree.push_str(text),
            (None, Some(tree)) => open = Some((text.starts_with("pub"), tree.to_owned())),
            (None, None) => rest.push_str(&format!("{line}\n")),
        }
        if let Some((is_passed_on, tree)) = open.take_if(|(_, tree)| tree.contains(';')) {
            let tree = tree.split(';').next().unwrap_or_default().to_owned();
            spread(&[], tree.trim(), is_passed_on, &mut uses);
        }
    }
    (uses, rest)
}

/// The names of a `use` tree.
fn spread(before: &[String], tree: &str, is_passed_on: bool, uses: &mut Vec<Use>) {
    let (path, group) = tree.split_once('{').map_or((tree, None), |(path, group)| (path, Some(group)));
    let (path, alias) =
        path.split_once(" as ").map_or((path, None), |(path, alias)| (path, Some(alias.trim())));
    let words = path.split("::").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned);
    let mut path: Vec<String> = before.iter().cloned().chain(words).collect();
    if let Some(group) = group {
        let inside = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
        for part in parts(inside) {
            spread(&path, part, is_passed_on, uses);
        }
        return;
    }
    path.pop_if(|last| last == "self");
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
    uses.extend(name.map(|name| Use { name, path, is_passed_on }));
}

/// What commas separate, outside inner braces.
fn parts(text: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|part| !part.is_empty());
    found
}

/// Paths in the code that name another place in the crate.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = code.split(|letter| !is_part(letter)).filter(|word| word.contains("::"));
    words.map(|word| word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> File {
        File { path: format!("crates/room/src/{name}.rs"), text: text.to_owned() }
    }

    #[test]
    fn a_circle_is_found_through_what_modules_pass_on() {
        let letters = ["a", "b", "c", "d", "e"];
        let next = |at: usize| letters[(at + 1) % letters.len()].to_uppercase();
        let mut files: Vec<File> = (0..letters.len())
            .map(|at| file(&format!("folder/{}", letters[at]), &format!("use super::{{{}}};", next(at))))
            .collect();
        files.push(file(
            "folder/mod",
            "pub use a::A;\npub use self::{b::B, c::C};\npub use d::D;\nuse e::E as E;",
        ));
        let findings = check(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].to_string().contains("a circle of 5 files"), "{}", findings[0]);
        // One arrow less, and there is none; what tests use does not count.
        files[2].text = "struct C;\n#[cfg(test)]\nmod tests {\nuse super::super::D;\n}\n".to_owned();
        assert!(check(&files).is_empty());
    }
}
