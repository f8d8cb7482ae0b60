//! What only the processes of a job know.

use crate::random;
use memmap2::{Advice, MmapMut};
use std::fmt;
use std::sync::Arc;

const BYTES: usize = 32;

/// 32 random bytes in memory of their own that no core file has. Clones share it.
#[derive(Clone)]
pub struct Secret(Arc<MmapMut>);

/// Not what it is.
impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Secret {}

impl Secret {
    /// One that whoever started the job has drawn.
    pub fn new(bytes: [u8; BYTES]) -> Secret {
        Secret::filled(|place| *place = bytes)
    }

    /// The same, written to its place by `fill`, so that it lies nowhere else.
    ///
    /// # Panics
    /// If the system has not a page of memory.
    pub fn filled(fill: impl FnOnce(&mut [u8; BYTES])) -> Secret {
        let mut page = MmapMut::map_anon(BYTES).expect("there is a page of memory");
        // Where the system does not know how, core files have it as before.
        let _ = page.advise(Advice::DontDump);
        fill(page.first_chunk_mut().expect("it is as long"));
        Secret(Arc::new(page))
    }

    /// Draws one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> std::io::Result<Secret> {
        let mut drawn = Ok(());
        let secret = Secret::filled(|place| drawn = random::fill(place));
        drawn.map(|()| secret)
    }

    /// For whoever hands it on, by a way that nobody else reads: never on a command line, in the environment or in a log.
    pub fn bytes(&self) -> &[u8; BYTES] {
        self.0.first_chunk().expect("it is as long")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_say_nothing_and_are_left_out_of_core_files() {
        let secret = Secret::random().expect("the system has random numbers");
        assert_eq!((secret.clone(), format!("{secret:?}").as_str()), (secret.clone(), "Secret(..)"));
        assert_ne!(secret, Secret::new([7; 32]));
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("a file");
        let head = format!("{:x}-", secret.bytes().as_ptr() as usize);
        let at = smaps.find(&format!("\n{head}")).expect("it has a mapping of its own");
        let flags = smaps[at..].lines().find_map(|line| line.strip_prefix("VmFlags:")).expect("flags");
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
    }
}
