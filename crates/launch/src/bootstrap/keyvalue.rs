//! What all PMI versions offer: a space of keys and values, and a fence.

use super::membership::BootstrapError;
use castell_base::Rank;

/// The key-value space of a group.
///
/// Keys are short and plain; values hold what [`quote`] gives. Each key is put once.
pub(super) trait KeyValueSpace {
    /// This process's rank.
    fn rank(&self) -> Rank;
    /// The group's size.
    fn ranks(&self) -> u32;
    /// Puts a value; seen by the others after the next fence.
    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError>;
    /// Waits until all ranks are here.
    fn fence(&mut self) -> Result<(), BootstrapError>;
    /// Gets what `from` put before the last fence.
    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError>;
    /// The largest value. Bytes.
    fn value_bytes_max(&self) -> usize;
    /// Whether a second one in the same process who takes leave would speak to nobody.
    fn leaves_once(&self) -> bool {
        true
    }
    /// Takes leave of the service; the process counts as well-behaved whenever it ends.
    fn finish(&mut self) -> Result<(), BootstrapError>;
}

/// Puts a value of any length, in as many pieces as it takes; the first begins with their number.
pub(super) fn put_long(space: &mut impl KeyValueSpace, key: &str, value: &str) -> Result<(), BootstrapError> {
    // Room for the number and what stands behind it.
    let room = space.value_bytes_max().saturating_sub(16).max(1);
    let pieces: Vec<&[u8]> = value.as_bytes().chunks(room).collect();
    for (at, piece) in pieces.iter().enumerate() {
        // Quoted text is plain ASCII.
        let piece = String::from_utf8_lossy(piece);
        match at {
            0 => space.put(key, &format!("{}:{piece}", pieces.len()))?,
            at => space.put(&format!("{key}.{at}"), &piece)?,
        }
    }
    Ok(())
}

/// Gets what [`put_long`] put.
pub(super) fn get_long(
    space: &mut impl KeyValueSpace,
    from: Rank,
    key: &str,
) -> Result<String, BootstrapError> {
    let first = space.get(from, key)?;
    let (count, first) = first.split_once(':').unwrap_or(("1", &first));
    let mut all = first.to_owned();
    for at in 1..count.parse().unwrap_or(1) {
        all += &space.get(from, &format!("{key}.{at}"))?;
    }
    Ok(all)
}

/// Writes `text` with nothing but letters, digits and `-._/:@%`: all else would clash with one of the protocols.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for &byte in text.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' | b'@' => {
                quoted.push(byte as char);
            }
            _ => quoted.push_str(&format!("%{byte:02x}")),
        }
    }
    quoted
}

/// Undoes [`quote`]; what is no quote stays as it is.
pub(super) fn unquote(quoted: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = quoted.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex =
            (*first == b'%').then(|| tail.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        let text = "rank 3: `a=b;c` 100%\nü";
        assert!(quote(text).bytes().all(|byte| byte.is_ascii_graphic() && byte != b'=' && byte != b';'));
        assert_eq!(unquote(&quote(text)), text);
        assert_eq!(unquote("50%"), "50%");
        assert_eq!(unquote("%zz%4"), "%zz%4");
    }
}
