//! The tuning that a job is made with, in its shared memory.
//!
//! Ranks that looked for tuning files by themselves could find different ones, on file systems of their own or for users
//! of their own, and would then run different algorithms for one call. So whoever makes the job looks once, and all ranks read
//! what was found there.

use super::Found;
use castell_collectives::decision::{Decisions, TuningFile};

/// Room for it in a job. Bytes.
pub(crate) const BYTES: usize = 256 << 10;

/// Kind and length, a word each, before the text.
const HEAD_BYTES: usize = 16;

/// What was found where the job was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// No file: what is built in.
    Nothing,
    /// The text of a tuning file of this machine.
    File(String),
    /// Why the file is not used.
    Refused(String),
}

impl Announced {
    /// What this process finds.
    pub(crate) fn load() -> Announced {
        match Found::load() {
            Found::Nothing => Announced::Nothing,
            Found::File(path, text, _) if text.len() > BYTES - HEAD_BYTES => Announced::Refused(format!(
                "{} is not used: it has {} bytes, at most {} are read",
                path.display(),
                text.len(),
                BYTES - HEAD_BYTES
            )),
            Found::File(_, text, _) => Announced::File(text),
            Found::Refused(_, reason) => Announced::Refused(reason),
        }
    }

    /// What to choose by.
    ///
    /// # Errors
    /// Why the file is not used.
    pub(crate) fn decisions(self) -> Result<Decisions, String> {
        match self {
            Announced::Nothing => Ok(Decisions::builtin()),
            // The machine was compared where the job was made.
            Announced::File(text) => {
                TuningFile::parse(&text).map(TuningFile::decisions).map_err(|error| error.to_string())
            }
            Announced::Refused(reason) => Err(reason),
        }
    }
}

/// Writes it; a reason that is too long loses its end.
///
/// # Safety
/// [`BYTES`] bytes that nobody else looks at meanwhile.
pub(crate) unsafe fn write(at: *mut u8, announced: &Announced) {
    let (kind, text) = match announced {
        // Fresh memory says so already.
        Announced::Nothing => return,
        Announced::File(text) => (1_u64, text.as_bytes()),
        Announced::Refused(reason) => (2, reason.as_bytes()),
    };
    let text = &text[..text.len().min(BYTES - HEAD_BYTES)];
    // SAFETY: the caller's promise; head and text fit.
    unsafe {
        at.copy_from(kind.to_le_bytes().as_ptr(), 8);
        at.add(8).copy_from((text.len() as u64).to_le_bytes().as_ptr(), 8);
        at.add(HEAD_BYTES).copy_from(text.as_ptr(), text.len());
    }
}

/// Reads it.
///
/// # Safety
/// [`BYTES`] bytes that nobody writes any more.
pub(crate) unsafe fn read(at: *const u8) -> Announced {
    // SAFETY: the caller's promise.
    let word = |offset: usize| u64::from_le_bytes(unsafe { at.add(offset).cast::<[u8; 8]>().read() });
    let length = (word(8) as usize).min(BYTES - HEAD_BYTES);
    // SAFETY: as above; the length was bounded.
    let bytes = || unsafe { std::slice::from_raw_parts(at.add(HEAD_BYTES), length) };
    let text = || String::from_utf8_lossy(bytes()).into_owned();
    match word(0) {
        1 => Announced::File(text()),
        2 => Announced::Refused(text()),
        _ => Announced::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = "x".repeat(BYTES);
        for announced in [
            Announced::Nothing,
            Announced::File("format = 1".into()),
            Announced::Refused("of another machine".into()),
            Announced::Refused(long),
        ] {
            let mut memory = vec![0_u8; BYTES];
            // SAFETY: so many bytes, which are this test's own.
            let found = unsafe {
                write(memory.as_mut_ptr(), &announced);
                read(memory.as_ptr())
            };
            match announced {
                Announced::Refused(reason) if reason.len() >= BYTES => {
                    assert_eq!(found, Announced::Refused(reason[..BYTES - HEAD_BYTES].to_owned()));
                }
                other => assert_eq!(found, other),
            }
        }
        assert!(Announced::File("format = 7".into()).decisions().is_err());
    }
}
