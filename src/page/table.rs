//! Tables for people: columns as wide as their content, two spaces apart, without borders, or as
//! Markdown. Text in lines of a limited width.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Padding, Style};

/// What the title of a column of numbers begins with: such a column ends on the right.
const NUMBERS: char = '>';

/// The title of a column, and whether it is one of numbers.
pub fn title(column: &str) -> (&str, bool) {
    match column.strip_prefix(NUMBERS) {
        Some(title) => (title, true),
        None => (column, false),
    }
}

/// The form of a text with tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextStyle {
    /// For files, and for programs.
    #[default]
    Plain,
    /// For terminals: verdicts have colours.
    Colored,
    /// For issues and wikis.
    Markdown,
}

/// The titles and the rows as lines, without spaces at their ends. The title of a column of numbers
/// begins with `>`. A cell may have several lines.
pub fn lines(columns: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    let (titles, numbers): (Vec<&str>, Vec<bool>) =
        columns.iter().map(|column| title(column)).unzip();
    lines_in(TextStyle::Plain, &titles, rows, &numbers)
}

/// A table in this form; `numbers` says which columns have numbers. Cells of Markdown have one
/// line.
pub fn lines_in(
    form: TextStyle,
    titles: &[&str],
    mut rows: Vec<Vec<String>>,
    numbers: &[bool],
) -> Vec<String> {
    if form == TextStyle::Markdown {
        for cell in rows.iter_mut().flatten() {
            *cell = cell.replace('|', "\\|").replace('\n', " ");
        }
    }
    let mut builder = Builder::default();
    builder.push_record(titles.iter().copied());
    for row in rows {
        builder.push_record(row);
    }
    let mut table = builder.build();
    match form {
        TextStyle::Plain | TextStyle::Colored => {
            table.with(Style::empty()).with(Padding::new(0, 2, 0, 0))
        }
        TextStyle::Markdown => table.with(Style::markdown()),
    };
    for (column, is_of_numbers) in numbers.iter().enumerate() {
        if *is_of_numbers {
            table.modify(Columns::one(column), Alignment::right());
        }
    }
    let text = table.to_string();
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

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
    fn writes_markdown() {
        let rows = vec![vec!["a|b".into(), "5".into()]];
        let lines = lines_in(TextStyle::Markdown, &["Name", "Count"], rows, &[false, true]);
        let expected = ["| Name | Count |", "|------|-------|", "| a\\|b |     5 |"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn aligns_words_left_and_numbers_right() {
        let titles = ["Name", ">Count", "Note"];
        let rows = [["a", "5", "x\ny"], ["bcdef", "12345678", ""]];
        let rows = rows.map(|row| row.map(String::from).to_vec());
        let lines = lines(&titles, rows.to_vec());
        let expected = [
            "Name      Count  Note",
            "a             5  x",
            "                 y",
            "bcdef  12345678",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn wraps_long_lines() {
        let words = ["abcdefghi"; 11].join(" ");
        let lines = wrapped(&words, 100, "  ");
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].len(), lines[1].as_str()), (99, "  abcdefghi"));
    }
}
