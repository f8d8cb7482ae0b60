//! What the observer sends: messages of at most 4,096 bytes from any number of processes, see `tools/distances/README.md`.
//!
//! Nothing is trusted: bytes that are no message are an error, never a panic.

/// Bytes before each message's payload.
const HEADER_BYTES: usize = 24;
/// The most that one message has, with its header.
pub const MESSAGE_BYTES_MAX: usize = 4096;

/// A message of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The process.
    pub pid: u32,
    /// Accesses that it has made so far.
    pub accesses: u64,
    /// What it says.
    pub content: Content<'a>,
}

/// What a process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// It began, or executed another program.
    Start {
        /// The process that started it.
        parent: u32,
        /// The program's name.
        name: &'a [u8],
    },
    /// Records, eight bytes each; see [`records`].
    Records(&'a [u8]),
    /// A function that records name from now on.
    Function {
        /// Its number.
        id: u64,
        /// Its name.
        name: &'a [u8],
    },
    /// It ended in order.
    End,
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block is touched that is not the one touched just before.
    Block(u64),
    /// What follows is this thread's.
    Thread(u64),
    /// What follows is this function's.
    Function(u64),
}

/// The bytes are not what an observer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the observer's messages are broken ({0}): is it of this version of castell?")]
pub struct Broken(&'static str);

/// The first message, and the bytes behind it; `None`: more bytes are needed.
///
/// # Errors
/// The bytes are no message.
pub fn split(bytes: &[u8]) -> Result<Option<(Message<'_>, &[u8])>, Broken> {
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (kind, pid, length) = (word(0), word(4), word(8) as usize);
    if length > MESSAGE_BYTES_MAX - HEADER_BYTES {
        return Err(Broken("a length"));
    }
    let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    let content = match kind {
        1 => payload.split_first_chunk().map(|(parent, name)| {
            let parent = u32::from_le_bytes(*parent);
            Content::Start { parent, name }
        }),
        2 => length.is_multiple_of(8).then_some(Content::Records(payload)),
        3 => payload
            .split_first_chunk()
            .map(|(id, name)| Content::Function { id: u64::from_le_bytes(*id), name }),
        4 => Some(Content::End),
        _ => return Err(Broken("a kind")),
    };
    let content = content.ok_or(Broken("a payload"))?;
    let accesses = u64::from_le_bytes(header[16..].try_into().expect("eight bytes"));
    Ok(Some((Message { pid, accesses, content }, rest)))
}

/// The records of a payload.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Record> + '_ {
    const VALUE: u64 = (1 << 60) - 1;
    payload.chunks_exact(8).map(|bytes| {
        let word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        match word >> 60 {
            1 => Record::Thread(word & VALUE),
            2 => Record::Function(word & VALUE),
            _ => Record::Block(word),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u32, pid: u32, accesses: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [kind, pid, payload.len() as u32, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(accesses.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn messages_come_apart_again_wherever_they_are_cut() {
        let words: Vec<u8> =
            [5u64, 1 << 60 | 2, 2 << 60 | 7].iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = [message(2, 9, 40, &words), message(4, 9, 41, &[])].concat();
        for cut in 0..bytes.len() {
            let first = split(&bytes[..cut]).expect("no error");
            assert_eq!(first.is_some(), cut >= HEADER_BYTES + words.len(), "cut at {cut}");
        }
        let (first, rest) = split(&bytes).expect("no error").expect("a message");
        assert_eq!(first, Message { pid: 9, accesses: 40, content: Content::Records(&words) });
        let expected = [Record::Block(5), Record::Thread(2), Record::Function(7)];
        assert_eq!(records(&words).collect::<Vec<_>>(), expected);
        let (second, rest) = split(rest).expect("no error").expect("a message");
        assert_eq!((second.content, rest), (Content::End, &[][..]));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let odd = [
            message(0, 1, 0, &[]),
            message(5, 1, 0, &[]),
            message(2, 1, 0, &[0; 7]),
            message(1, 1, 0, &[0; 3]),
            message(3, 1, 0, &[0; 7]),
            message(2, 1, 0, &vec![0; MESSAGE_BYTES_MAX]),
        ];
        for bytes in odd {
            assert!(split(&bytes).is_err(), "{bytes:?}");
        }
    }
}
