//! Pages of the book, and the shell that their commands are typed into.

pub mod lack;
pub mod reader;
pub mod tables;

use crate::installed::Installed;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A block of code with what stands before it.
pub struct Block<'a> {
    before: &'a str,
    language: &'a str,
    text: &'a str,
    /// The block is in the section with this number.
    pub section: usize,
}

/// A command of a page, and the lines that the page says it prints.
pub struct Typed<'a> {
    pub command: String,
    pub prints: Vec<&'a str>,
}

pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("```").collect();
    let mut section = 0;
    let pairs = parts.chunks(2).filter(|pair| pair.len() == 2);
    let found = pairs.filter_map(|pair| {
        section += pair[0].matches("\n## ").count();
        let (language, text) = pair[1].split_once('\n')?;
        Some(Block { before: pair[0], language, text, section })
    });
    found.collect()
}

impl<'a> Block<'a> {
    /// Saved where it is a file that the page names.
    pub fn save(&self, folder: &Path) {
        let named = self.before.trim_end().strip_suffix("`:").and_then(|before| before.rsplit_once('`'));
        if let Some((before, name)) = named
            && before.trim_end().ends_with("as")
        {
            fs::write(folder.join(name), self.text).expect("the folder can be written");
        }
    }

    pub fn commands(&self) -> Vec<Typed<'a>> {
        let mut all: Vec<Typed<'a>> = Vec::new();
        let mut goes_on = false;
        let console = if self.language == "console" { self.text } else { "" };
        for line in console.lines() {
            match (line.strip_prefix("$ "), all.last_mut()) {
                (None, Some(last)) if goes_on => last.command.push_str(line),
                (None, Some(last)) => last.prints.push(line),
                (None, None) => {}
                (Some(command), _) => all.push(Typed { command: command.to_owned(), prints: Vec::new() }),
            }
            // A command that goes on on the next line is one.
            let last = all.last_mut().map(|last| &mut last.command);
            goes_on = last.is_some_and(|last| last.ends_with('\\') && last.pop().is_some());
        }
        for typed in &mut all {
            // Without what it says to the reader.
            let command = typed.command.split(" # ").next().unwrap_or_default().trim_end().len();
            typed.command.truncate(command);
        }
        all
    }
}

/// A reader's terminal, with folders of its own for all that castell keeps of a user. What was started in it ends with it.
pub struct Terminal {
    shell: Child,
    typed: Option<ChildStdin>,
    codes: Receiver<String>,
    commands: PathBuf,
    count: usize,
    /// In the environment of all that was started here.
    mark: String,
    sockets: tempfile::TempDir,
    installed: PathBuf,
}

/// The variable with the mark.
const MARK: &str = "BOOK_READERS_TERMINAL";
/// No command takes as long on the slowest machine.
const HANGS: Duration = Duration::from_secs(300);

impl Terminal {
    /// With these variables besides its own.
    pub fn new(folder: &Path, installed: &Installed, more: &[(&str, &str)]) -> Terminal {
        // Names of sockets are short.
        let sockets = tempfile::tempdir().expect("a folder");
        fs::set_permissions(sockets.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        let commands = folder.join(".typed");
        fs::create_dir_all(&commands).expect("a folder");
        let mark = sockets.path().display().to_string();
        let paths = std::env::var("PATH").unwrap_or_default();
        let [stubs, programs] = [folder.join(".bin"), installed.prefix.join("bin")];
        // As many processors as the pages' sessions have, where there are as many.
        let mut shell = Command::new("taskset");
        shell.args(["-c", &two_processors(), "bash", "--noprofile", "--norc", "-s"]).current_dir(folder);
        shell.env("PATH", format!("{}:{}:{paths}", stubs.display(), programs.display()));
        shell.env("PKG_CONFIG_PATH", installed.prefix.join("lib/pkgconfig"));
        // Where the pages have it installed: a link.
        shell.env("HOME", folder).env("XDG_RUNTIME_DIR", sockets.path()).env(MARK, &mark);
        for kept in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            shell.env_remove(kept);
        }
        // Open MPI asks for these, where a test runs as root and on few processors.
        for allowed in ["ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"] {
            shell.env(format!("OMPI_{allowed}"), "1");
        }
        // Version 5 has another name for the last one.
        shell.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        // What `salloc` starts.
        shell.env("SHELL", "/bin/bash").envs(more.iter().copied());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("taskset and bash are there");
        let said = BufReader::new(shell.stdout.take().expect("a pipe"));
        let (tell, codes) = channel();
        thread::spawn(move || said.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let typed = shell.stdin.take();
        let mut terminal = Terminal {
            typed,
            shell,
            codes,
            commands,
            count: 0,
            mark,
            sockets,
            installed: installed.prefix.clone(),
        };
        // As where somebody types.
        terminal.run("shopt -s expand_aliases", None);
        terminal
    }

    /// Types a command: whether it succeeded, and what it printed. `before` are the words that run a file with it, where it is not for this
    /// shell.
    pub fn run(&mut self, command: &str, before: Option<&str>) -> (bool, String) {
        self.count += 1;
        let [file, said] = ["command", "said"].map(|name| self.file(name, self.count));
        fs::write(&file, command).expect("the folder can be written");
        let words = before.map_or(r#"eval "$(cat FILE)""#.to_owned(), |before| format!("{before} FILE"));
        let words = words.replace("FILE", &format!("'{}'", file.display()));
        self.send(&format!("{words} </dev/null >'{}' 2>&1; echo $?", said.display()));
        self.answer(command)
    }

    /// Types a command that starts a shell, into which is typed from then on.
    pub fn enter(&mut self, command: &str) {
        self.count += 1;
        self.send(&format!("{command} 2>'{}'\necho $?", self.file("said", self.count).display()));
        let (succeeds, said) = self.answer(command);
        assert!(succeeds, "`{command}` has failed:\n{said}");
    }

    fn send(&mut self, line: &str) {
        let typed = self.typed.as_mut().expect("it is there until the end");
        writeln!(typed, "{line}").expect("the shell reads");
    }

    fn answer(&self, command: &str) -> (bool, String) {
        let code = self.codes.recv_timeout(HANGS);
        let said = self.said(self.count);
        (code.unwrap_or_else(|error| panic!("`{command}`: {error}, and it has said:\n{said}")) == "0", said)
    }

    /// A line of a page as it is printed here: sockets lie elsewhere, and so does what is installed.
    pub fn here(&self, line: &str) -> String {
        let line = line.replace("/run/user/1000", &self.sockets.path().display().to_string());
        line.replace("/opt/castell", &self.installed.display().to_string())
    }

    /// How many commands were typed.
    pub fn typed(&self) -> usize {
        self.count
    }

    /// What the command of this number has printed so far.
    pub fn said(&self, number: usize) -> String {
        String::from_utf8_lossy(&fs::read(self.file("said", number)).unwrap_or_default()).into_owned()
    }

    fn file(&self, name: &str, number: usize) -> PathBuf {
        self.commands.join(format!("{name}.{number}"))
    }

    /// All that was started here and has not ended.
    fn left(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark).into_bytes();
        let processes = fs::read_dir("/proc").expect("processes are seen").filter_map(Result::ok);
        let has_it = |environment: Vec<u8>| environment.split(|byte| *byte == 0).any(|it| it == mark);
        let ours = processes.filter(|it| fs::read(it.path().join("environ")).is_ok_and(has_it));
        ours.map(|it| it.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.typed.take());
        let (begun, mut signal) = (Instant::now(), "-TERM");
        loop {
            let left = self.left();
            if left.is_empty() {
                break;
            }
            let _ = Command::new("kill").arg(signal).args(&left).stderr(Stdio::null()).status();
            // Sessions give their programs five seconds.
            if begun.elapsed() > Duration::from_secs(10) {
                signal = "-KILL";
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.shell.wait();
    }
}

/// The first two that this test may use.
fn two_processors() -> String {
    let all = castell_host::topology::Processors::usable();
    let two: Vec<String> = all.cpus.iter().take(2).map(|it| it.to_string()).collect();
    two.join(",")
}

/// Whether a line of a page is among what was printed. Numbers of a machine's, with their units, are all alike.
pub fn is_printed(line: &str, printed: &str, with_numbers: bool) -> bool {
    if with_numbers {
        return printed.contains(line);
    }
    let line = without_numbers(line);
    printed.lines().any(|it| without_numbers(it) == line)
}

fn without_numbers(line: &str) -> String {
    const UNITS: [&str; 9] = ["ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB"];
    let spaced = line.replace(|c: char| "(),:;=-+".contains(c), " ");
    let mut words: Vec<&str> = spaced.split_whitespace().collect();
    for word in &mut words {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        // Numbers of processes and hosts end a name.
        *word = if is_number { "#" } else { word.trim_end_matches(|c: char| c.is_ascii_digit()) };
    }
    words.dedup_by(|unit, number| *number == "#" && (*unit == "#" || UNITS.contains(unit)));
    words.join(" ")
}
