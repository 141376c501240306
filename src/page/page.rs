//! What people read of a result: lines, paragraphs, facts and tables, as data. It becomes a text
//! for terminals, with its verdicts in colour, or Markdown. Names in it may come from files or from
//! other hosts: control characters are shown.

use std::env;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use super::progress_line::{columns, has_cursor};
use super::table::{self, TextStyle};
use super::table::{WIDTH, wrapped};
use facts::error::{Failure, UNDECIDED};
use facts::interrupt;
use facts::severity::Severity;
use facts::text::{markdown, shown_lines};

/// Blanks between two columns of a table.
const GAP: usize = 2;

/// A longer cell of the last column gets several lines rather than that a column is left out.
const LONG_CELL: usize = 20;

/// No cell has several lines because of fewer columns.
const SHORT_CELL: usize = 12;

/// A text with the severity of each of its verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<(Severity, String)>);

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Self {
        Self(vec![(Severity::Shown, text.into())])
    }
}

impl Words {
    pub fn verdict(severity: Severity, text: impl Into<String>) -> Self {
        Self(vec![(severity, text.into())])
    }

    /// A text whose first word is a verdict.
    pub fn first(severity: Severity, text: &str) -> Self {
        let end = text.find([' ', ':', ',']).unwrap_or(text.len());
        Self::verdict(severity, &text[..end]).and(&text[end..])
    }

    /// Returns these words with others behind them.
    pub fn and(mut self, others: impl Into<Self>) -> Self {
        self.0.extend(others.into().0);
        self
    }

    /// The words in lines of at most `width` columns, if no word is wider. Verdicts stay whole.
    fn fitted(&self, width: usize) -> Self {
        let is_blank = |severity: &Severity, letter| *severity == Severity::Shown && letter == ' ';
        let letters = self.0.iter().flat_map(|(severity, text)| {
            text.chars().map(move |letter| (letter, is_blank(severity, letter)))
        });
        let (mut letters, may_break): (Vec<char>, Vec<bool>) = letters.unzip();
        let (mut start, mut blank) = (0, None);
        for at in 0..letters.len() {
            match letters[at] {
                '\n' => (start, blank) = (at + 1, None),
                _ if may_break[at] => blank = Some(at),
                _ => {}
            }
            if at >= start + width
                && let Some(end) = blank
            {
                letters[end] = '\n';
                (start, blank) = (end + 1, None);
            }
        }
        let mut letters = letters.into_iter();
        let part = |(severity, text): &(Severity, String)| {
            (*severity, letters.by_ref().take(text.chars().count()).collect())
        };
        Self(self.0.iter().map(part).collect())
    }

    /// The columns of the longest line.
    pub fn width(&self) -> usize {
        let text = self.text(TextStyle::Plain);
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    fn text(&self, style: TextStyle) -> String {
        self.0
            .iter()
            .map(|(severity, text)| painted(*severity, &shown_in(style, text), style))
            .collect()
    }
}

/// A text whose names can do nothing in texts of this style.
fn shown_in(style: TextStyle, text: &str) -> String {
    match style {
        TextStyle::Plain | TextStyle::Colored => shown_lines(text).into_owned(),
        TextStyle::Markdown => markdown(&shown_lines(text)),
    }
}

/// A verdict in the colour of its severity, if the style has colours.
fn painted(severity: Severity, text: &str, style: TextStyle) -> String {
    let color = match severity {
        Severity::Bad => AnsiColor::Red,
        Severity::Suspect => AnsiColor::Yellow,
        Severity::Shown | Severity::NotAvailable | Severity::Good => return text.to_owned(),
    };
    match style {
        TextStyle::Colored => {
            let style: Style = color.on_default();
            format!("{style}{text}{style:#}")
        }
        TextStyle::Plain | TextStyle::Markdown => text.to_owned(),
    }
}

#[derive(Clone, Debug)]
enum PageBlock {
    Line(Words),
    /// The title of a section of a Markdown page, with its level.
    Heading(usize, String),
    /// An entry of a list.
    Item(String),
    /// A line to be typed as it is.
    Command(String),
    /// A text in which the columns count.
    Preformatted(String),
    /// Words in lines of at most this width, and what the lines behind the first one begin with.
    Paragraph(Words, &'static str),
    Fact(String, String),
    Table(PageTable),
    /// An empty line in Markdown, without which the next line is a row of the table before it.
    EndOfTable,
}

#[derive(Clone, Debug)]
struct PageTable {
    titles: Vec<String>,
    /// Which columns have numbers.
    numbers: Vec<bool>,
    rows: Vec<Vec<Words>>,
    /// The columns that a narrow terminal does not show, the first one first. `None` for a table
    /// that has any width.
    optional: Option<&'static [&'static str]>,
}

/// What people read of a result.
#[derive(Clone, Debug, Default)]
pub struct Page(Vec<PageBlock>);

impl Page {
    /// A page with the first line of a result, whose first word is the verdict that the program
    /// ends with.
    pub fn headline(summary: &str, exit_status: u8) -> Self {
        let severity = match exit_status {
            0 => Severity::Good,
            UNDECIDED | 130 => Severity::Suspect,
            _ => Severity::Bad,
        };
        let mut page = Self::default();
        page.line(Words::first(severity, summary));
        page
    }

    /// The first line of this page.
    pub fn first_line(mut self) -> Self {
        self.0.truncate(1);
        self
    }

    /// Returns this page with another one behind it.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds a line, however long it is.
    pub fn line(&mut self, words: impl Into<Words>) {
        self.0.push(PageBlock::Line(words.into()));
    }

    /// Says how many of `all` entries follow after the `shown` ones, if any do.
    pub fn and_more(&mut self, all: usize, shown: usize) {
        if let more @ 1.. = all.saturating_sub(shown) {
            self.line(format!("and {more} more"));
        }
    }

    pub fn lines(&mut self, lines: impl IntoIterator<Item = impl Into<Words>>) {
        self.0.extend(lines.into_iter().map(|line| PageBlock::Line(line.into())));
    }

    pub fn empty_line(&mut self) {
        self.line("");
    }

    /// Adds the title of a section, with an empty line behind it. 1 is the level of a page's title.
    pub fn heading(&mut self, level: usize, title: &str) {
        self.0.push(PageBlock::Heading(level, title.to_owned()));
        self.empty_line();
    }

    /// Adds a list.
    pub fn list(&mut self, items: impl IntoIterator<Item = String>) {
        self.0.extend(items.into_iter().map(PageBlock::Item));
    }

    /// Adds a command, with an empty line before it.
    pub fn command(&mut self, command: impl Into<String>) {
        self.empty_line();
        self.0.push(PageBlock::Command(command.into()));
    }

    /// Adds the text of another page, in which the columns count.
    pub fn preformatted(&mut self, page: &Self) {
        self.0.push(PageBlock::Preformatted(page.text(TextStyle::Plain)));
    }

    /// Adds words in lines of at most [`WIDTH`] columns, as [`wrapped`] makes them. Only their
    /// beginning is a verdict.
    pub fn paragraph(&mut self, words: impl Into<Words>, indent: &'static str) {
        self.0.push(PageBlock::Paragraph(words.into(), indent));
    }

    /// Adds a paragraph two columns to the right.
    pub fn indented(&mut self, text: &str, indent: &str) {
        let lines = wrapped(text, WIDTH - 2, indent);
        self.lines(lines.iter().map(|line| format!("  {line}")));
    }

    /// Adds a label and its value.
    pub fn fact(&mut self, label: &str, value: impl ToString) {
        self.0.push(PageBlock::Fact(label.to_owned(), value.to_string()));
    }

    /// Adds the first `most` of `values` with the same label, and how many follow.
    pub fn facts(&mut self, label: &str, values: &[String], most: usize) {
        values.iter().take(most).for_each(|value| self.fact(label, value));
        if let more @ 1.. = values.len().saturating_sub(most) {
            self.fact(label, format!("and {more} more"));
        }
    }

    /// Adds a table of titles and rows; the title of a column of numbers begins with `>`. Only the
    /// last column has verdicts: its colours need no space.
    pub fn table<W: Into<Words>>(
        &mut self,
        columns: &[&str],
        rows: impl IntoIterator<Item = Vec<W>>,
    ) {
        let titles = columns.iter().map(|column| table::title(column));
        let (titles, numbers) = titles.map(|(title, is)| (title.to_owned(), is)).unzip();
        let rows = rows.into_iter().map(|row| row.into_iter().map(W::into).collect()).collect();
        self.0.push(PageBlock::Table(PageTable { titles, numbers, rows, optional: None }));
    }

    /// Lets the last table leave out these columns where the terminal is too narrow for them, the
    /// first one first. If that is not enough, long cells have several lines.
    pub fn fit_table(&mut self, optional: &'static [&'static str]) {
        if let Some(PageBlock::Table(table)) = self.0.last_mut() {
            table.optional = Some(optional);
        }
    }

    /// Separates a table from the line behind it in Markdown.
    pub fn end_table(&mut self) {
        self.0.push(PageBlock::EndOfTable);
    }

    /// The text of the page, for a terminal with 80 columns.
    pub fn text(&self, style: TextStyle) -> String {
        self.text_within(style, WIDTH)
    }

    /// The text of the page, for a terminal with this number of columns.
    fn text_within(&self, style: TextStyle, width: usize) -> String {
        let mut text = String::new();
        for line in self.0.iter().flat_map(|block| block.lines(style, width)) {
            text += &line;
            text.push('\n');
        }
        text
    }

    /// Prints the page.
    ///
    /// # Errors
    ///
    /// Standard output that cannot be written.
    pub fn print(&self, style: TextStyle) -> Result<(), Failure> {
        let text = self.text_within(style, columns(&io::stdout()));
        io::stdout().write_all(text.as_bytes()).map_err(interrupt::output_failed)
    }
}

impl PageBlock {
    fn lines(&self, style: TextStyle, columns: usize) -> Vec<String> {
        match self {
            Self::Line(words) => vec![words.text(style)],
            Self::Heading(level, title) => match style {
                TextStyle::Plain | TextStyle::Colored => vec![shown_in(style, title)],
                TextStyle::Markdown => {
                    vec![format!("{} {}", "#".repeat(*level), shown_in(style, title))]
                }
            },
            Self::Item(item) => vec![format!("* {}", shown_in(style, item))],
            // Markdown shows a line with four spaces before it as it is.
            Self::Command(command) => vec![format!("    {}", shown_lines(command))],
            Self::Preformatted(text) => match style {
                TextStyle::Plain | TextStyle::Colored => vec![text.trim_end().to_owned()],
                // A name must not end the block.
                TextStyle::Markdown => {
                    vec![format!("```text\n{}```", text.replace("```", "` ``"))]
                }
            },
            Self::Paragraph(words, indent) => {
                let uncolored = match style {
                    TextStyle::Plain | TextStyle::Colored => TextStyle::Plain,
                    TextStyle::Markdown => TextStyle::Markdown,
                };
                let mut lines = wrapped(&words.text(uncolored), WIDTH, indent);
                if let Some((severity, verdict)) = words.0.first()
                    && let Some(rest) = lines[0].strip_prefix(verdict)
                {
                    lines[0] = painted(*severity, verdict, style) + rest;
                }
                lines
            }
            Self::Fact(label, value) => {
                let value = shown_in(style, value);
                vec![match style {
                    TextStyle::Plain | TextStyle::Colored => format!("{label:17}: {value}"),
                    TextStyle::Markdown => format!("* {label}: {value}"),
                }]
            }
            Self::EndOfTable if style == TextStyle::Markdown => vec![String::new()],
            Self::EndOfTable => Vec::new(),
            Self::Table(table) if style == TextStyle::Markdown => table.lines(style),
            Self::Table(table) => table.fitted(columns).lines(style),
        }
    }
}

impl PageTable {
    fn lines(&self, style: TextStyle) -> Vec<String> {
        let titles: Vec<_> = self.titles.iter().map(|title| shown_in(style, title)).collect();
        let titles: Vec<&str> = titles.iter().map(AsRef::as_ref).collect();
        let cells = |row: &Vec<Words>| row.iter().map(|words| words.text(style)).collect();
        table::lines_in(style, &titles, self.rows.iter().map(cells).collect(), &self.numbers)
    }

    /// The table for a terminal with `columns` columns.
    fn fitted(&self, columns: usize) -> Self {
        let mut table = self.clone();
        let Some(optional) = self.optional else { return table };
        let sum = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>() - GAP;
        for title in optional {
            let mut widths = table.widths();
            if let Some(last) = widths.last_mut() {
                *last = LONG_CELL.min(*last);
            }
            if sum(&widths) > columns
                && let Some(column) = table.titles.iter().position(|own| own == title)
            {
                table.titles.remove(column);
                table.numbers.remove(column);
                table.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        let mut widths = table.widths();
        let is_words = |column: &usize| !table.numbers[*column];
        // The verdict is in the last column, and stays in one line rather than the others.
        let share = |widths: &[usize], column: usize| {
            widths[column] / if column + 1 == widths.len() { 2 } else { 1 }
        };
        while let Some(widest) =
            (0..widths.len()).filter(is_words).max_by_key(|column| share(&widths, *column))
            && sum(&widths) > columns
            && widths[widest] > SHORT_CELL
        {
            widths[widest] -= 1;
        }
        for row in &mut table.rows {
            for (words, width) in row.iter_mut().zip(&widths) {
                *words = words.fitted(*width);
            }
        }
        table
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let cells = |at: usize| self.rows.iter().map(move |row| row[at].width());
        let widths = self.titles.iter().enumerate();
        widths.map(|(at, title)| cells(at).fold(title.chars().count(), usize::max)).collect()
    }
}

/// The style of texts on standard output: in colour on a terminal, unless the user's environment
/// rules it out (`NO_COLOR`, `TERM=dumb`).
pub fn style_of_stdout() -> TextStyle {
    let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && has_cursor() && !is_refused {
        TextStyle::Colored
    } else {
        TextStyle::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_verdicts_alone() {
        let mut page = Page::headline("bad: 1 of 2 NICs", 3);
        let sentence = format!("SUSPECT a b (1 node): {} c d", "e".repeat(64));
        page.paragraph(Words::first(Severity::Suspect, &sentence), "  ");
        let verdict = Words::verdict(Severity::Bad, "BAD").and(" x\n").and("good");
        let row = |name: &str, verdict| vec![name.into(), verdict];
        let rows = [row("a", verdict), row("bcdefg", Words::verdict(Severity::Good, "good"))];
        page.table(&[">Item", "Verdict"], rows);
        let plain = "\
bad: 1 of 2 NICs
SUSPECT a b (1 node):
  eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee c d
  Item  Verdict
     a  BAD x
        good
bcdefg  good
";
        assert_eq!(page.text(TextStyle::Plain), plain);
        let colored = plain
            .replace("bad:", "\x1b[31mbad\x1b[0m:")
            .replace("SUSPECT", "\x1b[33mSUSPECT\x1b[0m")
            .replace("BAD", "\x1b[31mBAD\x1b[0m");
        assert_eq!(page.text(TextStyle::Colored), colored);
    }

    #[test]
    fn narrow_table_leaves_out_columns_and_then_breaks_long_cells() {
        let columns = ["Item", "Value", "Source", "V"];
        let text = |value: &str, verdict: Words, columns_of_terminal| {
            let mut page = Page::default();
            let row = ["width".into(), value.into(), "driver".into(), verdict];
            page.table(&columns, [row.to_vec()]);
            page.fit_table(&["Source"]);
            page.text_within(TextStyle::Colored, columns_of_terminal)
        };
        assert_eq!(
            text("x8", "good".into(), 27),
            "Item   Value  Source  V\nwidth  x8     driver  good\n"
        );
        assert_eq!(text("x8", "good".into(), 25), "Item   Value  V\nwidth  x8     good\n");
        let words = Words::verdict(Severity::Bad, "not tested").and(": it has no link");
        let expected = "\
Item   Value  V
width  x8     \x1b[31mnot tested\x1b[0m: it
              has no link
";
        assert_eq!(text("x8", words, 30), expected);
        let long = text("0 during the check, 0 in all", "good".into(), 30);
        assert_eq!(
            long,
            "\
Item   Value            V
width  0 during the     good
       check, 0 in all
"
        );
    }

    #[test]
    fn says_how_many_entries_follow() {
        let mut page = Page::default();
        for (all, shown) in [(3, 4), (4, 4), (5, 4), (9, 4)] {
            page.and_more(all, shown);
        }
        assert_eq!(page.text(TextStyle::Plain), "and 1 more\nand 5 more\n");
        let mut page = Page::default();
        let values = ["a", "b", "c"].map(str::to_owned);
        page.facts("File", &values, 3);
        page.facts("File", &values, 1);
        let text = page.text(TextStyle::Plain).replace("File             : ", "");
        assert_eq!(text, "a\nb\nc\na\nand 2 more\n");
    }

    #[test]
    fn shows_control_characters_of_names() {
        let mut page = Page::default();
        page.line("a\x1b[31m");
        page.paragraph("\x07üüü", "");
        page.fact("c", "\x1b");
        page.table(&["d\x1b"], [vec!["e\x1b"]]);
        let expected = "a\\x1b[31m\n\\x07üüü\nc                : \\x1b\nd\\x1b\ne\\x1b\n";
        assert_eq!(page.text(TextStyle::Colored), expected);
    }

    #[test]
    fn colors_headline_by_exit_status() {
        for (status, first) in [(0, "OK"), (3, "\x1b[31mOK\x1b[0m"), (4, "\x1b[33mOK\x1b[0m")] {
            let text = Page::headline("OK cxi0", status).text(TextStyle::Colored);
            assert_eq!(text, format!("{first} cxi0\n"));
        }
    }

    #[test]
    fn writes_facts_as_lists_of_markdown() {
        let mut page = Page::default();
        page.fact("Base", 5);
        assert_eq!(page.text(TextStyle::Plain), "Base             : 5\n");
        assert_eq!(page.text(TextStyle::Markdown), "* Base: 5\n");
    }

    #[test]
    fn names_in_markdown_are_neither_html_nor_the_end_of_a_block() {
        let mut text = Page::default();
        text.line("a```");
        let mut page = Page::default();
        page.heading(2, "<b>");
        page.list(["<c>".to_owned()]);
        page.paragraph("<d>", "");
        page.command("cxidiag <e>");
        page.preformatted(&text);
        let expected = "\
## &lt;b&gt;

* &lt;c&gt;
&lt;d&gt;

    cxidiag <e>
```text
a` ``
```
";
        assert_eq!(page.text(TextStyle::Markdown), expected);
    }
}
