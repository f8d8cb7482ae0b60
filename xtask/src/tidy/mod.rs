//! The house's own rules, each a module with one `check`: what no compiler or linter looks at.

mod circles;
mod drawing;
mod lengths;
mod links;
mod rooms;
mod source;
mod times;
mod unsafe_code;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A text file of the repository.
pub struct File {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// The part of the name behind the last dot.
    fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }
}

/// A rule broken at a place.
#[derive(Debug)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    /// Names the place (lines count from 1) and says what to do.
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Arguments of `cargo xtask tidy`.
#[derive(clap::Args, Default)]
pub struct Args {
    /// First draw the house anew from ARCHITECTURE.md's table
    #[arg(long)]
    draw: bool,
}

/// Runs every check and prints what it found.
pub fn report(root: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if args.draw {
        drawing::write(root, &read_files(root)?)?;
    }
    let findings = check(root)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!("tidy: nothing to mend");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} to mend", findings.len());
    Ok(ExitCode::FAILURE)
}

/// Runs every check.
fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = read_files(root)?;
    let rooms = rooms::Table::read(&files)?;
    let mut findings = rooms::check(root, &rooms, &files)?;
    for file in &files {
        findings.extend(lengths::check(file));
        findings.extend(unsafe_code::check(file));
        findings.extend(words::check(file));
        findings.extend(times::check(file));
        findings.extend(links::check(root, file));
    }
    findings.extend(unsafe_code::check_pure_rooms(&rooms, &files));
    findings.extend(drawing::check(root, &rooms));
    findings.extend(circles::check(&files));
    findings.extend(links::check_book(&files));
    findings.extend(links::check_anchors(root, &files)?);
    findings.extend(links::check_headers(root, &files)?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(findings)
}

const TEXT_EXTENSIONS: [&str; 14] =
    ["rs", "c", "h", "cpp", "hpp", "py", "md", "toml", "sh", "cmake", "in", "txt", "yml", "goal"];
const FOLDERS_LEFT_OUT: [&str; 7] =
    ["target", ".git", "__pycache__", "corpus", "artifacts", "book", "node_modules"];

/// All text files below `root`, sorted by path; build output and fuzzing corpora are left out.
fn read_files(root: &Path) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if !FOLDERS_LEFT_OUT.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if is_text(&path) {
                let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                files.push(File { path: relative(root, &path), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn is_text(path: &Path) -> bool {
    match path.extension() {
        Some(extension) => TEXT_EXTENSIONS.iter().any(|known| extension == *known),
        // Scripts without an extension, as `.ci/run`.
        None => path
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|folder| folder == ".ci" || folder == "scripts"),
    }
}

fn relative(root: &Path, path: &Path) -> String {
    let path: PathBuf = path.strip_prefix(root).unwrap_or(path).to_path_buf();
    path.to_string_lossy().replace('\\', "/")
}
