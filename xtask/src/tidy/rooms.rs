//! The rooms and who may import whom: ARCHITECTURE.md's table against the crates as they are.

use super::{File, Finding};
use anyhow::Context as _;
use std::path::Path;
use std::process::Command;

const TABLE: &str = "ARCHITECTURE.md";
/// From the ground up.
pub const FLOORS: [&str; 4] = ["ground", "pure", "worldly", "doors"];

/// A row of the table.
pub struct Room {
    /// Folder below `crates/`.
    pub name: String,
    /// One of the four floors.
    pub floor: String,
    /// Rooms that it may import.
    pub may_import: Vec<String>,
    line: usize,
}

/// ARCHITECTURE.md's table.
pub struct Table {
    /// Its rows.
    pub rooms: Vec<Room>,
}

impl Table {
    /// Reads the rows `| floor | crate | what it is for | may import |`.
    pub fn read(files: &[File]) -> anyhow::Result<Table> {
        let file = files.iter().find(|file| file.path == TABLE).context("no ARCHITECTURE.md")?;
        let rows = file.text.lines().enumerate().filter_map(|(number, line)| Room::read(number + 1, line));
        Ok(Table { rooms: rows.collect() })
    }

    fn room(&self, name: &str) -> Option<&Room> {
        self.rooms.iter().find(|room| room.name == name)
    }
}

impl Room {
    fn read(line: usize, row: &str) -> Option<Room> {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let ["", floor, name, _purpose, may_import, ""] = cells[..] else { return None };
        if !FLOORS.contains(&floor) {
            return None;
        }
        let may_import =
            may_import.split_whitespace().filter(|word| *word != "-").map(str::to_owned).collect();
        Some(Room { name: name.trim_matches('`').to_owned(), floor: floor.to_owned(), may_import, line })
    }

    /// Its floor, counted from the ground.
    pub fn height(&self) -> usize {
        FLOORS.iter().position(|floor| *floor == self.floor).expect("rows are read with a known floor")
    }
}

/// A crate below `crates/` as cargo sees it.
struct Crate {
    name: String,
    imports: Vec<String>,
}

/// Every edge in the table and every entry an edge, every crate a row, every row a crate; each crate opens with its purpose and takes the
/// workspace's lints.
pub fn check(root: &Path, table: &Table, files: &[File]) -> anyhow::Result<Vec<Finding>> {
    let crates = read_crates(root)?;
    let mut findings = check_edges(table, &crates);
    for room in &crates {
        let manifest = format!("crates/{}/Cargo.toml", room.name);
        let text =
            |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
        if !text(&manifest).contains("[lints]\nworkspace = true") {
            findings.push(Finding::new(&manifest, 1, "add `[lints]` with `workspace = true`"));
        }
        let opening = ["lib.rs", "main.rs"].map(|name| format!("crates/{}/src/{name}", room.name));
        let opening = opening.iter().find(|path| !text(path).is_empty());
        if opening.is_none_or(|path| !text(path).starts_with("//!")) {
            let path = opening.unwrap_or(&manifest);
            let message =
                "open with `//!`: what this room does, what it refuses to do, where to start reading";
            findings.push(Finding::new(path, 1, message));
        }
    }
    Ok(findings)
}

fn check_edges(table: &Table, crates: &[Crate]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for room in crates {
        let manifest = format!("crates/{}/Cargo.toml", room.name);
        let Some(row) = table.room(&room.name) else {
            let message = format!("no row for `{}` in {TABLE}: add one, in the same commit", room.name);
            findings.push(Finding::new(&manifest, 1, message));
            continue;
        };
        for import in room.imports.iter().filter(|import| !row.may_import.contains(import)) {
            let message = format!("`{}` may not import `{import}` ({TABLE}:{})", room.name, row.line);
            findings.push(Finding::new(&manifest, 1, message));
        }
    }
    for row in &table.rooms {
        let room = crates.iter().find(|room| room.name == row.name);
        if room.is_none() {
            let message = format!("`{}` has a row and no crate: take the row out", row.name);
            findings.push(Finding::new(TABLE, row.line, message));
        }
        for import in &row.may_import {
            if room.is_some_and(|room| !room.imports.contains(import)) {
                let message = format!("`{}` does not import `{import}`: take it out of its row", row.name);
                findings.push(Finding::new(TABLE, row.line, message));
            }
            match table.room(import) {
                None => {
                    let message = format!("`{}` may import `{import}`, which is no room", row.name);
                    findings.push(Finding::new(TABLE, row.line, message));
                }
                Some(below) if below.height() > row.height() => {
                    let message =
                        format!("`{}` may not import `{import}`, which is on a higher floor", row.name);
                    findings.push(Finding::new(TABLE, row.line, message));
                }
                Some(_) => {}
            }
        }
    }
    findings
}

/// The crates below `crates/` and which of each other they import (for tests and builds as well).
fn read_crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("could not start cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let folder_of = |path: &str| {
        let path = Path::new(path).strip_prefix(root.join("crates")).ok()?;
        Some(path.iter().next()?.to_str()?.to_owned())
    };
    let mut crates = Vec::new();
    for package in packages {
        let Some(name) = package["manifest_path"].as_str().and_then(folder_of) else { continue };
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        let mut imports: Vec<String> = dependencies
            .iter()
            .filter_map(|dependency| dependency["path"].as_str())
            .filter_map(folder_of)
            .filter(|import| *import != name)
            .collect();
        imports.sort();
        imports.dedup();
        crates.push(Crate { name, imports });
    }
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = "| floor | crate | what it is for | may import |\n|---|---|---|---|\n\
                    | worldly | `comm` | runs | goal base |\n| pure | `goal` | graphs | base |\n| ground | `base` | ids | - |\n";
        Table::read(&[File { path: TABLE.to_owned(), text: text.to_owned() }]).expect("there is a table")
    }

    fn room(name: &str, imports: &[&str]) -> Crate {
        Crate { name: name.to_owned(), imports: imports.iter().map(|import| (*import).to_owned()).collect() }
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_named() {
        let good = [room("comm", &["goal", "base"]), room("goal", &["base"]), room("base", &[])];
        assert!(check_edges(&table(), &good).is_empty());
        let bad = [room("comm", &["goal", "base"]), room("goal", &["comm"]), room("lobby", &[])];
        let findings: Vec<String> = check_edges(&table(), &bad).iter().map(ToString::to_string).collect();
        assert_eq!(findings.len(), 4, "{findings:?}");
        assert!(findings[0].contains("`goal` may not import `comm`"));
        assert!(findings[1].contains("no row for `lobby`"));
        assert!(findings[2].contains("`goal` does not import `base`"));
        assert!(findings[3].contains("`base` has a row and no crate"));
    }
}
