//! Whether a core file of a rank, of its launcher or of an agent would give the job's secret away.

use castell_comm::Comm;
use castell_host::secret::Secret;
use std::io::BufRead as _;
use std::os::unix::fs::FileExt as _;

/// How often the job's secret stands in this process's memory, and in that of each launcher and agent which can be seen from here.
pub fn copies(comm: &Comm) -> Vec<usize> {
    let secret = comm.job().secret();
    let is_castell = |pid: &String| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("castell"))
    };
    let takes_part = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = line.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        [&b"launch"[..], b"agent"].contains(&command)
    };
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let processes = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let others = processes.filter(|pid| is_castell(pid) && takes_part(pid));
    std::iter::once("self".to_owned()).chain(others).map(|pid| copies_in(&pid, &secret)).collect()
}

/// As it is or as digits, that apart which the kernel leaves out of core files.
fn copies_in(process: &str, secret: &Secret) -> usize {
    // Never written down: that would be a copy.
    let digit = |four: u8| b"0123456789abcdef"[usize::from(four)];
    let is_digits = |window: &[u8]| {
        let mut pairs = window.as_chunks::<2>().0.iter().zip(secret.bytes());
        pairs.all(|(pair, byte)| *pair == [digit(byte >> 4), digit(byte & 15)])
    };
    // Most of memory is zero: where another byte of the secret stands, the secret may.
    let place = secret.bytes().iter().position(|byte| *byte != 0).expect("a secret");
    let (byte, first) = (secret.bytes()[place], digit(secret.bytes()[0] >> 4));
    let smaps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("a file");
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).expect("a file");
    let pages = std::fs::File::open(format!("/proc/{process}/pagemap")).expect("a file");
    let (mut range, mut copies, mut searched) = ((0, 0), 0, 0);
    // A copy may go on in the next page.
    let mut bytes = [0; 4096 + 63];
    for line in smaps.lines() {
        let head = line.split_once(' ').and_then(|(range, rest)| Some((range.split_once('-')?, rest)));
        let address = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some(((Some(from), Some(to)), rest)) =
            head.map(|((a, b), rest)| ((address(a), address(b)), rest))
        {
            range = if rest.starts_with('r') { (from, to) } else { (0, 0) };
        } else if line
            .strip_prefix("VmFlags:")
            .is_some_and(|flags| !flags.split(' ').any(|flag| flag == "dd"))
        {
            let mut entries = vec![0; ((range.1 - range.0) / 4096 * 8) as usize];
            let known = pages.read_at(&mut entries, range.0 / 4096 * 8).unwrap_or(0);
            let is_there = |entry: &[u8; 8]| u64::from_le_bytes(*entry) >> 62 != 0;
            let there =
                entries[..known].as_chunks::<8>().0.iter().enumerate().filter(|(_, entry)| is_there(entry));
            for (page, _) in there {
                let read = memory.read_at(&mut bytes, range.0 + page as u64 * 4096).unwrap_or(0);
                let is_secret = |at: &usize| bytes[*at..read].starts_with(secret.bytes());
                let starts =
                    places(&bytes[..read.min(4096 + place)], byte).filter_map(|at| at.checked_sub(place));
                copies += starts.filter(is_secret).count();
                let starts = places(&bytes[..read.min(4096)], first);
                copies += starts.filter(|at| bytes[..read].get(*at..at + 64).is_some_and(is_digits)).count();
                searched += read;
            }
        }
    }
    assert!(searched > 1 << 18, "{searched} bytes were searched");
    copies
}

/// Where a byte stands. What searches is optimised in whatever this is compiled into: byte by byte the memory of a rank takes seconds.
fn places(bytes: &[u8], byte: u8) -> impl Iterator<Item = usize> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let passed = rest.skip_until(byte).ok()?;
        let at = (bytes.len() - rest.len()).checked_sub(1)?;
        (passed > 0 && bytes[at] == byte).then_some(at)
    })
}
