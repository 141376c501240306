//! Text in lines of a limited width.

/// Columns of a paragraph, and of a terminal that does not report its size.
pub const WIDTH: usize = 80;

/// Returns `text` in lines of at most `width` columns, where its words allow it. Each line but the
/// first begins with `indent`.
pub fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{indent}{word}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_long_lines() {
        let words = ["abcdefghi"; 11].join(" ");
        let lines = wrapped(&words, 100, "  ");
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].len(), lines[1].as_str()), (99, "  abcdefghi"));
    }
}
