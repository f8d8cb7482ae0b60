//! Just enough of Rust's and C's lexical rules to tell code from comments and literals.

/// `text` with comments and the insides of string and character literals blanked out: same length in bytes, same lines.
pub fn code_only(text: &str) -> String {
    let mut out: Vec<u8> = text.as_bytes().to_vec();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => end_of_block_comment(bytes, at),
            b'"' => end_of_string(bytes, at),
            b'r' if !follows_word(bytes, at) => end_of_raw_string(bytes, at),
            b'\'' => end_of_character(bytes, at),
            _ => None,
        };
        match end {
            Some(end) => {
                blank(&mut out[at..end]);
                at = end;
            }
            None => at += 1,
        }
    }
    String::from_utf8(out).expect("only whole characters were blanked")
}

/// `text` up to the module of tests at its end.
pub fn without_tests(text: &str) -> &str {
    let inline = text
        .match_indices("#[cfg(test)]\nmod ")
        .find(|(at, _)| text[*at..].lines().nth(1).is_some_and(|line| line.ends_with('{')));
    inline.map_or(text, |(at, _)| &text[..at])
}

fn blank(span: &mut [u8]) {
    for byte in span.iter_mut().filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    // `br"…"` is a raw string too; its `b` stays, which does no harm.
    at > 0 && is_word(bytes[at - 1]) && bytes[at - 1] != b'b'
}

/// Whether a byte may be part of a name.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn end_of_line(bytes: &[u8], at: usize) -> Option<usize> {
    Some(bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length))
}

/// Nested, as in Rust.
fn end_of_block_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let (mut depth, mut at) = (0, at);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") if depth == 1 => return Some(at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(bytes.len())
}

fn end_of_string(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    Some(bytes.len())
}

fn end_of_raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut closing = vec![b'"'];
    closing.resize(hashes + 1, b'#');
    let from = at + hashes + 2;
    let found = bytes.get(from..)?.windows(closing.len()).position(|window| window == closing);
    Some(found.map_or(bytes.len(), |length| from + length + closing.len()))
}

/// `None` for a lifetime.
fn end_of_character(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at + 1) == Some(&b'\\') {
        let closing = bytes.get(at + 3..)?.iter().position(|byte| *byte == b'\'')?;
        return Some(at + 3 + closing + 1);
    }
    // One character of up to four bytes, then the closing quote.
    let characters = bytes.get(at + 1..)?;
    let length = match characters.first()? {
        0x00..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (characters.get(length) == Some(&b'\'')).then_some(at + length + 2)
}

/// The positions at which `word` stands as a whole word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line of a position, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "a /* b /* c */ d */ e \"f\\\"g\" 'h' '\\'' <'i> r#\"j\"k\"# // l\nm";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "e", "<'i>", "m"]);
    }

    #[test]
    fn whole_words_only() {
        assert_eq!(words("unsafe_op unsafe un unsafe{", "unsafe").collect::<Vec<_>>(), [10, 20]);
    }
}
