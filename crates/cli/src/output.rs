//! Files are not overwritten silently where that loses something: what stands in a file that is to be written has to be of the kind
//! that is written there, as its beginning shows, or `--force` has to be given.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once, before anything is written.
static IS_FORCED: AtomicBool = AtomicBool::new(false);

/// Whatever is there may be overwritten from now on.
pub fn force(is_forced: bool) {
    IS_FORCED.store(is_forced, Ordering::Relaxed);
}

/// Whether `path` may and can be written: for commands that have something to write only after minutes.
///
/// # Errors
/// It cannot, or holds something else; says which.
pub fn check(path: &Path) -> anyhow::Result<()> {
    if !IS_FORCED.load(Ordering::Relaxed) && !may_go(path) {
        bail!(
            "{} is there already, and castell has not written it: choose another name, or --force overwrites it",
            path.display()
        );
    }
    castell_host::check_writable(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file, unless that loses something.
///
/// # Errors
/// It cannot be written, or holds something else.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    check(path)?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Bytes at a file's beginning that say what it is.
const BEGINNING: u64 = 512;

/// Whether nothing is lost with what is there: nothing, a pipe or device, an empty file, or what castell writes under such a name.
fn may_go(path: &Path) -> bool {
    // What cannot be looked at cannot be written, as a rule, and that is said then.
    let Ok(metadata) = std::fs::metadata(path) else { return true };
    if !metadata.is_file() || metadata.len() == 0 {
        return true;
    }
    let mut beginning = Vec::new();
    let Ok(_) = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning)) else {
        return true;
    };
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    is_ours(ending, &beginning)
}

/// Whether a file whose name ends so and that begins so is castell's own.
fn is_ours(ending: &str, beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    match ending {
        "svg" => text.starts_with("<svg ") && text.contains(" role=\"img\""),
        "png" | "pdf" => text.contains("castell"),
        "html" => text.contains("<meta name=\"generator\" content=\"castell\">"),
        "prv" => text.starts_with("#Paraver "),
        "pcf" | "row" => true,
        // Objects without a space behind the brace: how castell writes them, and hardly anybody by hand.
        "json" => text.starts_with("{\"") || text.starts_with("[{\""),
        "goal" => text.starts_with("num_ranks "),
        "toml" => text.starts_with("model = ") || text.starts_with("# castell"),
        "swf" => text.starts_with(';') || text.starts_with(|c: char| c.is_ascii_digit() || c == ' '),
        "csv" => !text.starts_with(['<', '#', '{', '\0']),
        // Compiled schedules and LogGOPSim's format are no text.
        _ => beginning.contains(&0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_castell_writes_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" role=\"img\">";
        for (name, text, goes) in [
            ("new.svg", svg, true),
            ("drawn.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"><!-- by hand -->", false),
            ("notes.svg", "things to do", false),
            ("empty.svg", "", true),
            ("trace.json", "{\"displayTimeUnit\":\"ns\"", true),
            ("package.json", "{\n  \"name\": \"mine\"", false),
            ("printed.goal", "num_ranks 2\n", true),
            ("mine.goal", "// a ring\nnum_ranks 2\n", false),
            ("main.c", "int main(void) {}", false),
            ("graph.bin", "\u{1}\0\0\0", true),
            ("photo.png", "\u{89}PNG\r\n\u{1a}\n\0\0\0\rIHDR", false),
            ("drawn.png", "\u{89}PNG\r\n\u{1a}\n\0\0\0\rIHDR\0\0\0\0tEXtSoftware\0castell", true),
            ("paper.pdf", "%PDF-1.7\n", false),
        ] {
            assert_eq!(check(&file(name, text)).is_ok(), goes, "{name}");
        }
        assert!(check(&folder.path().join("nothing.there")).is_ok());
        assert!(check(Path::new("/dev/null")).is_ok());
        let path = file("letter.svg", "Dear all");
        let error = write(&path, "<svg").expect_err("it is a letter").to_string();
        assert!(error.contains("letter.svg is there already") && error.contains("--force"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "Dear all");
    }
}
