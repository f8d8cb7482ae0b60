//! What is said on standard error.

use rustix::io::Errno;

/// Says a text, `castell: ` in front of each line, in one write: what other processes say at the same time gets in between, not
/// into it.
pub fn say(text: &str) {
    let lines: String = text.lines().map(|line| format!("castell: {line}\n")).collect();
    raw(&lines);
}

/// The same as it is, for what has its lines already.
///
/// No lock is taken: in the child of a fork, the one of the standard library may be held by a thread that is not there.
pub fn raw(text: &str) {
    let mut left = text.as_bytes();
    while !left.is_empty() {
        match rustix::io::write(std::io::stderr(), left) {
            // Where nobody can be told, nobody is.
            Ok(0) => return,
            Ok(written) => left = &left[written..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
