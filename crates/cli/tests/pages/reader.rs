//! Who reads the book: a folder to work in, with what the checkout has, and what pages speak of and do not have.

use super::Terminal;
use super::lack::{Lack, mpi4py};
use super::tables::{COMPILED, FILES, NOT_RUN, PROGRAMS, ROOM, Why};
use crate::INSTALLED;
use crate::installed::{output, root, target_and_profile};
use castell_daemon::learn::{Knowledge, Step, this_machine};
use castell_interference::learn::Observation;
use castell_prof::binary::Binary;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Reader {
    folder: tempfile::TempDir,
    /// What commands need that is not here.
    pub lacks: Vec<Lack>,
    /// Which rows of [`NOT_RUN`] have left something out.
    pub used: Vec<bool>,
}

impl Reader {
    pub fn new() -> Reader {
        // Hosts of a lab have a /tmp of their own.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let reader = Reader { folder, lacks: Vec::new(), used: vec![false; NOT_RUN.len()] };
        for name in ["examples", "packaging", "vectors"] {
            symlink(root().join(name), reader.path(name)).expect("a link");
        }
        symlink(&INSTALLED.prefix, reader.path("castell")).expect("a link");
        // The README's program is that of all pages.
        symlink("ring", reader.path("program")).expect("a link");
        reader
    }

    /// With programs and files that are the reader's own, and what the machine lacks found out.
    pub fn with_everything() -> Reader {
        let mut reader = Reader::new();
        let lacks = Lack::ALL.into_iter().filter(|lack| lack.is_so(&INSTALLED));
        reader.lacks = lacks.collect();
        for (name, text) in FILES {
            reader.write(name, text);
        }
        reader.write(".room", ROOM);
        // Where a build puts it.
        symlink(INSTALLED.prefix.join("bin"), reader.path("target/release")).expect("a link");
        for (name, script) in PROGRAMS.iter().copied().chain([(".bin/cargo", &*cargo())]) {
            let path = reader.write(name, &format!("#!/bin/sh\n{script}\n"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("rights");
        }
        for (name, compiler, source) in COMPILED {
            let lacks = |what| reader.lacks.contains(&what);
            if compiler.starts_with("mpicc ") && lacks(Lack::OpenMpi)
                || compiler.starts_with("mpicc.mpich") && lacks(Lack::Mpich)
            {
                continue;
            }
            let source = reader.write(&format!(".sources/{name}.c"), source);
            let mut words = compiler.split(' ');
            let mut command = Command::new(words.next().expect("a compiler"));
            output(command.args(words).arg(source).arg("-o").arg(reader.write(name, "")));
        }
        reader
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, in a folder that need not be there.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }

    /// A terminal, with these variables.
    pub fn terminal(&self, more: &[(&str, &str)]) -> Terminal {
        let (mpi4py, (_, profile)) = (mpi4py().display().to_string(), target_and_profile());
        let own = [("MPI4PY", &*mpi4py), ("PROFILE", profile)];
        Terminal::new(self.folder(), &INSTALLED, &[&own, more].concat())
    }

    /// Whether the command is one of those that are not run.
    pub fn leaves_out(&mut self, page: &str, command: &str) -> bool {
        let named = format!("{page}: {command}");
        let at = NOT_RUN.iter().position(|(part, why)| {
            let holds = match why {
                Why::Always(_) => true,
                Why::Without(what) => self.lacks.contains(what),
            };
            holds && named.contains(part)
        });
        if let Some(at) = at {
            self.used[at] = true;
            let why = if let Why::Always(why) = NOT_RUN[at].1 { why } else { "this machine lacks something" };
            println!("not run ({why}): {command}");
        }
        at.is_some()
    }

    /// What a daemon has seen of programs: it takes hours.
    pub fn has_learned(&self) {
        let file = self.path(".local/share/castell/learned");
        let mut knowledge = Knowledge::open(&file, &this_machine());
        let hash = |name: &str| {
            let command =
                if self.path(name).exists() { self.path(name).display().to_string() } else { name.into() };
            let binary = Binary::of_command(&[command]).expect("it is installed");
            binary.sha256
        };
        let mut seen = |pair: [&str; 2], slowdown: f64, times: u32| {
            for name in pair {
                knowledge.take(1, Step::Seen(hash(name), name.to_owned()));
            }
            let [program, neighbour] = pair.map(hash);
            for _ in 0..times {
                let (program, neighbour) = (program.clone(), neighbour.clone());
                let seen = Observation { program, neighbour, instead_of: None, slowdown, others: 0 };
                knowledge.take(1, Step::Compared(seen));
            }
        };
        seen(["triad", "matrix"], 1.2, 9);
        seen(["matrix", "triad"], 1.5, 9);
        // Nobody was seen beside the first of these, and nothing disturbs the last.
        let programs = ["sha256sum", "matrix", "sort", "tail", "md5sum"];
        for program in &programs[..4] {
            for neighbour in programs[1..].iter().filter(|neighbour| *neighbour != program) {
                let slowdown = if *program == "sha256sum" { 0.94 } else { 1.1 };
                seen([program, neighbour], slowdown, 7);
            }
        }
        knowledge.keep();
    }
}

/// Cargo in the checkout, as this test was built by it: what else it finds in its environment would have it build again.
fn cargo() -> String {
    let (target, _) = target_and_profile();
    let of_a_package = r"s/^\(CARGO_\(PKG\|MANIFEST\)_[A-Z_]*\)=.*/\1/p";
    let [home, paths] = ["HOME", "PATH"].map(|name| std::env::var(name).unwrap_or_default());
    format!(
        "cd '{}' && unset $(env | sed -n '{of_a_package}')\nHOME='{home}' PATH='{paths}' CARGO_TARGET_DIR='{}' exec '{}' \"$@\"",
        root().display(),
        target.display(),
        env!("CARGO"),
    )
}
