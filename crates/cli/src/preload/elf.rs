//! What an ELF file says about the libraries that it loads: enough to follow them as the loader would. Any bytes are fine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What the loader is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Elf {
    /// The kind of processor that it is for, by its number.
    pub machine: u16,
    /// Whether there is a dynamic section at all.
    pub is_dynamic: bool,
    /// The libraries that it needs, in order.
    pub needed: Vec<String>,
    /// What it is called as a library.
    pub name: Option<String>,
    /// Folders in which its libraries, and those of these, are looked for before `LD_LIBRARY_PATH`.
    pub rpath: Vec<String>,
    /// Folders in which its own libraries are looked for behind `LD_LIBRARY_PATH`; where there are some, `rpath` does not count.
    pub runpath: Vec<String>,
}

/// Most entries of a table that are looked at, and longest name: more is no program that anybody has linked.
const ENTRIES_MAX: u64 = 4096;
const NAME_MAX: usize = 16 * 1024;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Bytes at places.
trait Source {
    /// As many as there are from there on.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> usize;
}

impl Source for File {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let mut got = 0;
        while got < bytes.len() {
            match self.read_at(&mut bytes[got..], offset.saturating_add(got as u64)) {
                Ok(0) | Err(_) => break,
                Ok(more) => got += more,
            }
        }
        got
    }
}

impl Source for &[u8] {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> usize {
        let from = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let count = from.len().min(bytes.len());
        bytes[..count].copy_from_slice(&from[..count]);
        count
    }
}

impl Elf {
    /// Reads a file; none if it is no ELF file of 64 bits for a little-endian machine.
    pub fn of_file(path: &Path) -> Option<Elf> {
        // Devices and pipes might wait for ever.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        Elf::read(&File::open(path).ok()?)
    }

    /// Whether it is for processors of the kind for which castell itself was compiled.
    pub fn is_for_this_machine(&self) -> bool {
        let own = match std::env::consts::ARCH {
            "x86_64" => 62,
            "aarch64" => 183,
            "riscv64" => 243,
            _ => return true,
        };
        self.machine == own
    }

    fn read(source: &impl Source) -> Option<Elf> {
        let header = take::<64>(source, 0)?;
        // 64 bits, little-endian.
        if header[..6] != *b"\x7fELF\x02\x01" {
            return None;
        }
        let machine = word(&header, 18, 2) as u16;
        let (start, size, count) = (word(&header, 32, 8), word(&header, 54, 2), word(&header, 56, 2));
        let segments: Vec<Segment> = (0..count.min(ENTRIES_MAX))
            .map_while(|index| Segment::read(source, start.checked_add(index * size)?))
            .collect();
        let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
            return Some(Elf { machine, ..Elf::default() });
        };
        let entries: Vec<(u64, u64)> = (0..(dynamic.bytes / 16).min(ENTRIES_MAX))
            .map_while(|index| {
                let entry = take::<16>(source, dynamic.offset.checked_add(index * 16)?)?;
                Some((word(&entry, 0, 8), word(&entry, 8, 8)))
            })
            .take_while(|(tag, _)| *tag != DT_NULL)
            .collect();
        let mut elf = Elf { machine, is_dynamic: true, ..Elf::default() };
        let table = entries.iter().find(|(tag, _)| *tag == DT_STRTAB).map(|entry| entry.1);
        let Some(table) = table.and_then(|address| place(&segments, address)) else { return Some(elf) };
        for (tag, value) in entries {
            let name = || name(source, table.checked_add(value)?);
            match tag {
                DT_NEEDED => elf.needed.extend(name()),
                DT_SONAME => elf.name = name(),
                DT_RPATH => elf.rpath.extend(name().iter().flat_map(|text| folders(text))),
                DT_RUNPATH => elf.runpath.extend(name().iter().flat_map(|text| folders(text))),
                _ => {}
            }
        }
        Some(elf)
    }
}

/// What kind of machine an ELF file is for, whichever that is, for people; none if it is no such file.
pub fn machine_of(path: &Path) -> Option<String> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let header = take::<20>(&File::open(path).ok()?, 0)?;
    if header[..4] != *b"\x7fELF" {
        return None;
    }
    let number = if header[5] == 2 {
        u16::from_be_bytes([header[18], header[19]])
    } else {
        u16::from_le_bytes([header[18], header[19]])
    };
    let name = match number {
        3 => "x86".to_owned(),
        20 | 21 => "PowerPC".to_owned(),
        22 => "IBM Z".to_owned(),
        40 => "Arm".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "AArch64".to_owned(),
        243 => "RISC-V".to_owned(),
        258 => "LoongArch".to_owned(),
        other => format!("kind {other}"),
    };
    let bits = if header[4] == 1 { ", 32 bits" } else { "" };
    let order = if header[5] == 2 { ", big-endian" } else { "" };
    Some(format!("{name}{bits}{order}"))
}

/// Whether one of these words, between zeros, is in the file: as the name of a function in a table of symbols is.
pub fn has_word(path: &Path, words: &[&str]) -> bool {
    const CHUNK: usize = 1 << 20;
    const OVERLAP: usize = 64;
    let Ok(file) = File::open(path) else { return false };
    let wanted: Vec<Vec<u8>> = words.iter().map(|word| format!("\0{word}\0").into_bytes()).collect();
    let mut chunk = vec![0; CHUNK + OVERLAP];
    for index in 0.. {
        let got = Source::read(&file, index * CHUNK as u64, &mut chunk);
        let found = |word: &Vec<u8>| chunk[..got].windows(word.len()).any(|window| window == &word[..]);
        if wanted.iter().any(found) {
            return true;
        }
        if got <= CHUNK {
            break;
        }
    }
    false
}

struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Segment {
    fn read(source: &impl Source, at: u64) -> Option<Segment> {
        let bytes = take::<56>(source, at)?;
        let field = |at| word(&bytes, at, 8);
        Some(Segment { kind: word(&bytes, 0, 4), offset: field(8), address: field(16), bytes: field(32) })
    }
}

/// Where in the file an address lies.
fn place(segments: &[Segment], address: u64) -> Option<u64> {
    let loaded = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let mut inside = loaded.filter_map(|segment| {
        let into = address.checked_sub(segment.address).filter(|into| *into < segment.bytes)?;
        segment.offset.checked_add(into)
    });
    inside.next()
}

fn take<const BYTES: usize>(source: &impl Source, offset: u64) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    (source.read(offset, &mut bytes) == BYTES).then_some(bytes)
}

fn word(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(word)
}

/// The text from there to the next zero.
fn name(source: &impl Source, offset: u64) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < NAME_MAX {
        let mut piece = [0; 256];
        let got = source.read(offset.checked_add(bytes.len() as u64)?, &mut piece);
        if let Some(end) = piece[..got].iter().position(|byte| *byte == 0) {
            bytes.extend(&piece[..end]);
            return String::from_utf8(bytes).ok();
        }
        if got < piece.len() {
            return None;
        }
        bytes.extend(&piece);
    }
    None
}

fn folders(text: &str) -> Vec<String> {
    text.split(':').filter(|folder| !folder.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::random::philox4x32;

    /// A file with one segment of everything, whose names begin at byte 256.
    fn made(entries: &[(u64, u64)], names: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 256];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&2u16.to_le_bytes());
        file.extend(names);
        let dynamic = file.len() as u64;
        for (tag, value) in entries.iter().chain([&(DT_STRTAB, 0x1000 + 256), &(DT_NULL, 0)]) {
            file.extend(tag.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        let bytes = file.len() as u64;
        for (at, kind, offset, address, bytes) in
            [(64, PT_LOAD, 0, 0x1000, bytes), (120, PT_DYNAMIC, dynamic, 0x1000 + dynamic, bytes - dynamic)]
        {
            for (field, value) in [(0, kind), (8, offset), (16, address), (32, bytes)] {
                file[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        file
    }

    fn sample() -> Vec<u8> {
        let names = b"\0libmpi.so.40\0libc.so.6\0/opt/a:$ORIGIN/../lib\0";
        made(&[(DT_NEEDED, 1), (DT_NEEDED, 14), (DT_RUNPATH, 24), (DT_SONAME, 3)], names)
    }

    #[test]
    fn the_loaders_part_is_read() {
        let elf = Elf::read(&sample().as_slice()).expect("an ELF file");
        assert_eq!(elf.needed, ["libmpi.so.40", "libc.so.6"]);
        assert_eq!(elf.name.as_deref(), Some("bmpi.so.40"), "the end of another name");
        assert_eq!((elf.rpath.len(), elf.runpath), (0, vec!["/opt/a".into(), "$ORIGIN/../lib".into()]));
        let myself = Elf::of_file(&std::env::current_exe().expect("a program")).expect("an ELF file");
        assert!(myself.needed.iter().any(|name| name.starts_with("libc.so")), "{myself:?}");
        assert_eq!(Elf::of_file(Path::new("/dev/zero")), None);
        assert_eq!(Elf::of_file(Path::new("/proc/self/maps")), None);
    }

    #[test]
    fn garbage_is_survived() {
        let seed = castell_host::clock::now_ns();
        println!("seed {seed}");
        let mut draws = 0;
        let mut below = |end: usize| {
            draws += 1;
            philox4x32([draws, 0, 0, 0], [seed as u32, (seed >> 32) as u32])[0] as usize % end
        };
        let good = sample();
        for _ in 0..20_000 {
            let mut bad = good.clone();
            for _ in 0..1 + below(4) {
                let at = below(bad.len());
                bad[at] = [0, 0xff, 0x7f, 0x80, below(256) as u8][below(5)];
            }
            bad.truncate(good.len() - below(40));
            let _ = Elf::read(&bad.as_slice());
        }
    }
}
