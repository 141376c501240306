//! Texts from outside: from other processes and from files.

use std::borrow::Cow;
use std::fmt::Write;

/// Longest text of another process that is kept, in bytes.
pub const MOST_TEXT: usize = 1024;

/// A text for output: control characters appear as `\x1b`, so that they have no effect on a
/// terminal and no text has more than one line.
pub fn shown(text: &str) -> Cow<'_, str> {
    without(text, char::is_control)
}

/// The lines of an output, as [`shown`] does: only the ends of lines stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    without(text, |c| c.is_control() && c != '\n')
}

/// The text of a log, as [`shown`] does: each end of a line is a line feed, and a tabulator is a
/// blank.
pub fn shown_log(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n").replace('\t', " ");
    shown_lines(&lines).into_owned()
}

/// The ending of a noun that this number counts.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn without(text: &str, is_shown: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_shown) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_shown(c) {
            let _ = write!(shown, "\\x{:02x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// A JSON document whose strings are as [`shown`] returns them. Anything else stays as it is, valid
/// or not.
pub fn shown_json(document: &[u8]) -> Cow<'_, [u8]> {
    // A backslash occurs in strings only; a document has no other control characters than spaces.
    if !document.iter().any(|byte| [b'\\', 0x7f, 0xc2].contains(byte)) {
        return document.into();
    }
    let mut shown = Vec::with_capacity(document.len() + 16);
    let mut rest = document;
    while let [first, behind @ ..] = rest {
        let (length, control) = match behind {
            [kind, more @ ..] if *first == b'\\' => escape(*kind, more),
            [next @ 0x80..=0x9f, ..] if *first == 0xc2 => (2, Some(*next)),
            _ => (1, Some(0x7f).filter(|_| *first == 0x7f)),
        };
        match control {
            Some(control) => shown.extend(format!("\\\\x{control:02x}").bytes()),
            None => shown.extend(&rest[..length]),
        }
        rest = &rest[length..];
    }
    shown.into()
}

/// The length of an escape with this `kind` behind the backslash, and the control character that it
/// stands for, if it stands for one.
fn escape(kind: u8, more: &[u8]) -> (usize, Option<u8>) {
    let digits = more.get(..4).and_then(|digits| str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match kind {
        b'b' => (2, Some(8)),
        b't' => (2, Some(9)),
        b'n' => (2, Some(10)),
        b'f' => (2, Some(12)),
        b'r' => (2, Some(13)),
        b'u' => match number.filter(|number| char::from(*number).is_control()) {
            Some(control) => (6, Some(control)),
            None => (2, None),
        },
        _ => (2, None),
    }
}

/// A cell of comma-separated values, as [`shown`] does. Spreadsheets take a text that begins with
/// one of these characters as a formula, unless an apostrophe stands before it.
pub fn cell(text: &str) -> Cow<'_, str> {
    let shown = shown(text);
    if shown.starts_with(['=', '+', '-', '@']) && shown.parse::<f64>().is_err() {
        format!("'{shown}").into()
    } else {
        shown
    }
}

/// A text for Markdown, in which names cannot become HTML or links.
pub fn markdown(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    escaped.replace('>', "&gt;").replace("](", "]\\(")
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
    fn names_in_markdown_are_neither_html_nor_links() {
        let expected = "&lt;script&gt; &amp; ![x]\\(y), nid[1-2] is bad";
        assert_eq!(markdown("<script> & ![x](y), nid[1-2] is bad"), expected);
    }

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
    fn shows_control_characters_in_strings_of_json() {
        let names = ["a\x1b[2J\"\\", "\\u001b", "ü\u{9b}\u{7f}\n", "\u{2028}"];
        for text in [
            serde_json::to_string(&names).unwrap(),
            r#"["a\u001B[2J\u0022\u005c","\\u001b","\u00fc\u009b\u007F\u000a","\u2028"]"#.into(),
        ] {
            let shown = shown_json(text.as_bytes());
            let read: Vec<String> = serde_json::from_slice(&shown).unwrap();
            assert_eq!(read, names.map(super::shown));
        }
        for text in [&b"[1]"[..], b"\"\\", b"\"\\u00", b"\xc2"] {
            assert_eq!(shown_json(text), text);
        }
    }

    #[test]
    fn makes_no_formulas() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("-", "'-"),
            ("@\t", "'@\\x09"),
            ("-1.5e3", "-1.5e3"),
            ("a=b", "a=b"),
        ] {
            assert_eq!(cell(text), expected);
        }
        assert_eq!(shown_lines("a\n\tb\r"), "a\n\\x09b\\x0d");
        assert_eq!(shown_log("a\r\n\tb\rc\u{1b}"), "a\n b\nc\\x1b");
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
