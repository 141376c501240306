//! Texts from outside: from other processes and from files.

use std::borrow::Cow;
use std::fmt::Write;

/// Longest text of another process that is kept, in bytes.
pub const MOST_TEXT: usize = 1024;

/// Returns a text for output: control characters appear as `\x1b`, so that they have no effect on a
/// terminal and no text has more than one line.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(shown, "\\x{:02x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Takes over a text of another process: without control characters, and cut at [`MOST_TEXT`].
pub fn accept(text: &mut String) {
    cut(text);
    if let Cow::Owned(mut shown) = shown(text) {
        cut(&mut shown);
        *text = shown;
    }
}

fn cut(text: &mut String) {
    let mut ends = (0..=text.len().min(MOST_TEXT)).rev();
    let end = ends.find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_control_characters_as_numbers() {
        for (text, expected) in [
            ("nid1", "nid1"),
            ("\x1b[2Jnid1\r\n", "\\x1b[2Jnid1\\x0d\\x0a"),
            ("\u{9b}1m\u{7f}ü", "\\x9b1m\\x7fü"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert!(matches!(shown("ü \\x1b"), Cow::Borrowed(_)));
    }

    #[test]
    fn cuts_long_texts() {
        for text in ["x".repeat(3_000_000), "\x1b".repeat(999), "ü".repeat(999)] {
            let mut accepted = text;
            accept(&mut accepted);
            assert!((MOST_TEXT - 1..=MOST_TEXT).contains(&accepted.len()));
            assert!(!accepted.contains(char::is_control));
        }
    }
}
