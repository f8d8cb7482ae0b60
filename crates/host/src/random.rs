//! Random numbers of the system's, which nobody can guess.

use rustix::rand::{GetRandomFlags, getrandom};

/// So many random bytes.
///
/// # Errors
/// The system has none.
pub fn random_bytes<const BYTES: usize>() -> std::io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// The same where they are wanted, so that they lie nowhere else.
///
/// # Errors
/// The system has none.
pub fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let (one, other) = (random_bytes::<32>().expect("bytes"), random_bytes::<32>().expect("bytes"));
        assert_ne!(one, other);
    }
}
