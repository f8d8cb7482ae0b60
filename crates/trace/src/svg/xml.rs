//! Text and numbers as they may stand in XML.

use std::fmt;

/// Text in content and in attributes: what has a meaning in XML is escaped, what XML 1.0 forbids (section 2.2) becomes
/// U+FFFD.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\t' | '\n' | '\r' => f.write_str(" ")?,
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => f.write_str("\u{fffd}")?,
                other => write!(f, "{other}")?,
            }
        }
        Ok(())
    }
}

/// A length in pixels, to a hundredth.
#[derive(Clone, Copy)]
pub(super) struct Px(pub f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Adding 0 turns -0 into 0.
        write!(f, "{}", (self.0 * 100.0).round() / 100.0 + 0.0)
    }
}

/// Breaks text into at most `lines` lines of at most `width` characters, behind blanks and commas where it can; the
/// last ends in an ellipsis where something is left out.
pub(super) fn wrapped(text: &str, width: usize, lines: usize) -> Vec<String> {
    let mut rest: Vec<char> = text.trim().chars().collect();
    let mut wrapped = Vec::new();
    while !rest.is_empty() {
        if rest.len() <= width {
            wrapped.push(rest.iter().collect());
            break;
        }
        if wrapped.len() + 1 == lines {
            rest.truncate(width.saturating_sub(1));
            wrapped.push(rest.iter().collect::<String>() + "…");
            break;
        }
        let breaks = rest[..width].iter().rposition(|character| matches!(character, ' ' | ','));
        let end = breaks.map_or(width, |at| at + 1);
        wrapped.push(rest[..end].iter().collect::<String>().trim_end().to_owned());
        rest.drain(..end);
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_does_not_take_is_replaced() {
        assert_eq!(
            Escaped("a<b> & \"c\"\u{1}\u{ffff}\n😀").to_string(),
            "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}\u{fffd} 😀"
        );
    }

    #[test]
    fn lengths_are_short() {
        let shown = [0.0, -0.001, 1.0, 1.239, 12345.678].map(|length| Px(length).to_string());
        assert_eq!(shown, ["0", "0", "1", "1.24", "12345.68"]);
    }

    #[test]
    fn long_text_is_broken_or_cut() {
        assert_eq!(wrapped("one two three", 8, 2), ["one two", "three"]);
        assert_eq!(wrapped("one two three four", 8, 2), ["one two", "three f…"]);
        assert_eq!(wrapped("L=1,o=2,g=3", 6, 3), ["L=1,", "o=2,", "g=3"]);
        assert_eq!(wrapped("abcdefgh", 4, 2), ["abcd", "efgh"]);
        assert!(wrapped("  ", 4, 2).is_empty());
    }
}
