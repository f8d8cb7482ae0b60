//! Which libraries a program loads and where they lie, found as the dynamic loader finds them.

use super::elf::Elf;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// More files than any program loads.
const FILES_MAX: usize = 4096;

/// Where libraries are looked for, whatever asks for them.
pub struct Loader {
    /// `LD_LIBRARY_PATH`.
    asked: Vec<PathBuf>,
    /// What the loader's cache knows, by name.
    cached: HashMap<String, PathBuf>,
}

impl Loader {
    /// As this process's environment and machine say.
    pub fn of_this_machine() -> Loader {
        let asked = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let asked = std::env::split_paths(&asked).filter(|path| !path.as_os_str().is_empty()).collect();
        let print = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"].into_iter().find_map(|program| {
            let output =
                Command::new(program).arg("-p").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        });
        Loader { asked, cached: cache(&print.unwrap_or_default()) }
    }

    /// The first library about whose file name `wanted` says something, nearest to the program first, with its place.
    pub fn find<T>(
        &self,
        program: &Path,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Option<(T, String, PathBuf)> {
        let mut seen = HashSet::new();
        let mut queue = VecDeque::from([(program.to_owned(), Vec::new())]);
        while let Some((file, inherited)) = queue.pop_front() {
            let Some(elf) = Elf::of_file(&file) else { continue };
            let own = expanded(&elf.rpath, &file);
            let runpath = expanded(&elf.runpath, &file);
            // Those of whoever asked for this file come behind its own.
            let rpath: Vec<PathBuf> = own.into_iter().chain(inherited).collect();
            for name in elf.needed {
                let searched = if runpath.is_empty() { &rpath[..] } else { &[] };
                let place = self.place(&name, searched, &runpath);
                let file = name.rsplit('/').next().unwrap_or(&name);
                if let Some(found) = wanted(file) {
                    let place = place.unwrap_or_else(|| name.clone().into());
                    return Some((found, name, place));
                }
                if let Some(place) = place.filter(|_| seen.len() < FILES_MAX && seen.insert(name)) {
                    queue.push_back((place, rpath.clone()));
                }
            }
        }
        None
    }

    /// All libraries of which `wanted` says so, by name: those of `LD_LIBRARY_PATH` before those that the loader's cache knows.
    pub fn installed(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
        let entries = self.asked.iter().filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
        let asked = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
        let cached = self.cached.iter().map(|(name, place)| (name.clone(), place.clone()));
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for (name, place) in asked.chain(cached).filter(|(name, _)| wanted(name)) {
            if found.iter().all(|(known, _)| *known != name) {
                found.push((name, place));
            }
        }
        found.sort();
        found
    }

    fn place(&self, name: &str, rpath: &[PathBuf], runpath: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(name.into()).filter(|path: &PathBuf| path.is_file());
        }
        let before = rpath.iter().chain(&self.asked).chain(runpath).map(|folder| folder.join(name));
        let cached = self.cached.get(name).cloned();
        let usual = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(|folder| Path::new(folder).join(name));
        before.chain(cached).chain(usual).find(|path| path.is_file())
    }
}

/// Folders with `$ORIGIN` filled in.
fn expanded(folders: &[String], file: &Path) -> Vec<PathBuf> {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let fill = |folder: &String| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into();
    folders.iter().map(fill).collect()
}

/// Reads what `ldconfig -p` prints. The first library of a name is the one that the loader takes.
fn cache(print: &str) -> HashMap<String, PathBuf> {
    let mut cached = HashMap::new();
    for line in print.lines() {
        let Some((name, place)) = line.split_once(" => ") else { continue };
        let (name, kind) = name.trim().split_once(' ').unwrap_or((name.trim(), ""));
        if kind.contains("64") {
            cached.entry(name.to_owned()).or_insert_with(|| place.trim().into());
        }
    }
    cached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_read() {
        let print = "2 libs found in cache `/etc/ld.so.cache'\n\tlibmpi.so.40 (libc6,x86-64) => /a/libmpi.so.40\n\
                     \tlibmpi.so.40 (libc6) => /lib32/libmpi.so.40\n\tlibx.so (libc6,x86-64, OS ABI: Linux 3.2.0) => /b/libx.so\n";
        let cached = cache(print);
        assert_eq!(cached["libmpi.so.40"], Path::new("/a/libmpi.so.40"));
        assert_eq!(cached["libx.so"], Path::new("/b/libx.so"));
    }

    #[test]
    fn what_this_program_loads_is_found() {
        let myself = std::env::current_exe().expect("a program");
        let loader = Loader::of_this_machine();
        let (_, name, place) =
            loader.find(&myself, |name| name.starts_with("libc.so").then_some(())).expect("the C library");
        assert!(place.is_file(), "{name} at {}", place.display());
        assert!(loader.find(&myself, |name| name.starts_with("libmpi").then_some(())).is_none());
    }
}
