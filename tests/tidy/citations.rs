//! Every citation of a fact names a section of `docs/reference` that exists.
//!
//! A citation is the name of a page and a section: `nic.md 2.8`. Further sections follow after a
//! comma, a semicolon, `and`, `or` or `to`. `question`, `step` or `vector` and a number name a row
//! of a table in the section. `T5` names a row of the table of defects, section 12 of `tools.md`. A
//! page without a section is its whole subject and is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The numbered sections of a page: number, and the first cells of the section's table rows.
type Sections = BTreeMap<String, BTreeSet<String>>;

/// The pages of `docs/reference` by file name.
type Pages = BTreeMap<String, Sections>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Citation {
    line: usize,
    page: String,
    section: String,
    row: Option<String>,
}

impl Citation {
    fn is_valid(&self, pages: &Pages) -> bool {
        let rows = pages.get(&self.page).and_then(|page| page.get(&self.section));
        rows.is_some_and(|rows| self.row.as_ref().is_none_or(|row| rows.contains(row)))
    }

    fn describe(&self) -> String {
        let row = self.row.as_ref().map_or(String::new(), |row| format!(", row {row}"));
        format!("{} {}{row}", self.page, self.section)
    }
}

#[test]
fn citations_name_sections_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = pages(&root.join("docs/reference"));
    let mut count = 0;
    let mut unknown = Vec::new();
    for path in citing_files(root) {
        let text = fs::read_to_string(&path).expect("text");
        let shown = path.strip_prefix(root).expect("below the root").display();
        for citation in citations(&text) {
            count += 1;
            if !citation.is_valid(&pages) {
                unknown.push(format!("{shown}:{}: {}", citation.line, citation.describe()));
            }
        }
    }
    assert!(count > 200, "only {count} citations found");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// Reads the sections of all pages in `directory`.
fn pages(directory: &Path) -> Pages {
    let mut pages = Pages::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        pages.insert(name, sections(&fs::read_to_string(&path).expect("text")));
    }
    pages
}

fn sections(page: &str) -> Sections {
    let mut sections = Sections::new();
    let mut current = String::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            continue;
        } else if line.starts_with('#') {
            if let Some(number) = heading_number(line) {
                sections.insert(number.clone(), BTreeSet::new());
                current = number;
            }
        } else if let (Some(row), Some(rows)) = (line.strip_prefix('|'), sections.get_mut(&current))
        {
            rows.extend(row.split('|').next().map(|cell| cell.trim().to_owned()));
        }
    }
    sections
}

/// The number of a heading such as `### 2.8 Low-latency writes` or `## Appendix B. Examples`.
fn heading_number(line: &str) -> Option<String> {
    let mut words = line.trim_start_matches('#').split_whitespace();
    let first = words.next()?;
    if first == "Appendix" {
        return Some(format!("Appendix {}", words.next()?.trim_end_matches('.')));
    }
    first.starts_with(|c: char| c.is_ascii_digit()).then(|| first.trim_end_matches('.').to_owned())
}

/// Files that may cite: sources, pages, scripts.
fn citing_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending: Vec<PathBuf> =
        ["src", "ffi", "tests", "docs", "packaging", "build.rs", "CONTRIBUTING.md", "README.md"]
            .iter()
            .map(|path| root.join(path))
            .collect();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            if !path.ends_with("target") {
                let entries = fs::read_dir(&path).expect("a directory");
                pending.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
        } else if may_cite(&path) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn may_cite(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => ["rs", "c", "h", "py", "md", "toml", "sh"].contains(&extension),
        None => fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!")),
    }
}

/// The words of a text with their line numbers, without what marks a line as a comment.
fn words(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| {
            let content = line.trim_start().trim_start_matches(['/', '!', '*', '#']);
            content.split_whitespace().map(move |word| (index + 1, word))
        })
        .collect()
}

fn citations(text: &str) -> Vec<Citation> {
    let words = words(text);
    let mut found = Vec::new();
    for (index, &(line, word)) in words.iter().enumerate() {
        for defect in defects(word) {
            let (page, section) = ("tools.md".to_owned(), "12".to_owned());
            found.push(Citation { line, page, section, row: Some(defect) });
        }
        if let Some(page) = page_name(word) {
            found.extend(cited_sections(line, page, &words[index + 1..]));
        }
    }
    found
}

/// The page that a word names with nothing behind the name.
fn page_name(word: &str) -> Option<&str> {
    let name = word.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = name.rsplit('/').next()?;
    let stem = name.strip_suffix(".md")?;
    let is_name = stem.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    (is_name && !stem.is_empty()).then_some(name)
}

/// The sections, and rows of their tables, that follow the name of `page`.
fn cited_sections(line: usize, page: &str, words: &[(usize, &str)]) -> Vec<Citation> {
    let mut found: Vec<Citation> = Vec::new();
    let mut in_rows = false;
    let mut words = words.iter().map(|&(_, word)| word).peekable();
    while let Some(word) = words.next() {
        if ["section", "sections"].contains(&word) || is_connective(word) && !found.is_empty() {
            continue;
        }
        if ["question", "questions", "step", "vector"].contains(&word) && !found.is_empty() {
            in_rows = true;
            continue;
        }
        let is_appendix = word.eq_ignore_ascii_case("appendix");
        let label = if is_appendix {
            words.next().and_then(|letter| split_label(letter, char::is_alphabetic))
        } else if in_rows {
            split_label(word, char::is_alphanumeric)
        } else {
            split_label(word, |c| c.is_ascii_digit() || c == '.')
        };
        let Some((label, rest)) = label else {
            break;
        };
        let (section, row) = match found.last() {
            _ if is_appendix => (format!("Appendix {label}"), None),
            _ if !label.starts_with(|c: char| c.is_ascii_digit()) => break,
            Some(last) if in_rows => (last.section.clone(), Some(label.to_owned())),
            _ => (label.to_owned(), None),
        };
        found.push(Citation { line, page: page.to_owned(), section, row });
        match rest {
            "," => {}
            ";" => in_rows = false,
            "" if words.peek().is_some_and(|word| is_connective(word)) => {}
            _ => break,
        }
    }
    found
}

fn is_connective(word: &str) -> bool {
    ["and", "or", "to"].contains(&word)
}

/// Splits a word into the characters of a label and the punctuation behind it: `2.8` and `),`. None
/// if the label is empty or letters follow it.
fn split_label(word: &str, belongs: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let word = word.trim_start_matches('§');
    let end = word.find(|c| !belongs(c)).unwrap_or(word.len());
    let label = word[..end].trim_end_matches('.');
    let rest = &word[label.len()..];
    (!label.is_empty() && !rest.starts_with(char::is_alphabetic)).then_some((label, rest))
}

/// Numbers of defects in a word: `T5` in `(T5).`
fn defects(word: &str) -> impl Iterator<Item = String> {
    word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter_map(|part| {
        let digits = part.strip_prefix('T')?;
        let is_defect = digits.starts_with(|c| ('1'..='9').contains(&c))
            && digits.chars().all(|c| c.is_ascii_digit());
        is_defect.then(|| part.to_owned())
    })
}

/// The tests name pages and defects indirectly, so that their own text cites nothing.
mod tests {
    use super::*;

    const PAGE: &str = "facts.md";

    const FACTS: &str = "# Facts\n\n## 1. One\n\n### 1.2 Two\n\n| # | fact |\n|---|---|\n\
                         | 7 | x |\n\n```\n## 3. Code\n```\n\n## Appendix B. More\n";

    fn cited(text: &str) -> Vec<String> {
        citations(text).iter().map(Citation::describe).collect()
    }

    #[test]
    fn reads_numbered_headings_outside_code() {
        let sections = sections(FACTS);
        let numbers: Vec<&String> = sections.keys().collect();
        assert_eq!(numbers, ["1", "1.2", "Appendix B"]);
        assert!(sections["1.2"].contains("7"));
    }

    #[test]
    fn finds_lists_of_sections() {
        for (text, expected) in [
            ("(P 1.2).", &["P 1.2"][..]),
            ("`P 1.2`", &["P 1.2"]),
            ("P 1, 1.2 and Appendix B: 5 bits", &["P 1", "P 1.2", "P Appendix B"]),
            ("P 1 to 3", &["P 1", "P 3"]),
            ("P 1; 1.2", &["P 1", "P 1.2"]),
            ("P 1, question 7; 2", &["P 1", "P 1, row 7", "P 2"]),
            ("P 1, questions 7 and 8)", &["P 1", "P 1, row 7", "P 1, row 8"]),
            ("P, 1.2", &[]),
            ("P 0x10 and 2nd", &[]),
            ("as P describes 2 of them", &[]),
        ] {
            let expected: Vec<String> = expected.iter().map(|c| c.replace('P', PAGE)).collect();
            assert_eq!(cited(&text.replace('P', PAGE)), expected, "{text}");
        }
    }

    #[test]
    fn finds_citation_across_comment_lines() {
        for leader in ["/// ", "//! ", "    // ", " * ", "# ", ""] {
            let text = format!("first\n{leader}see {PAGE}\n{leader}1.2).\n");
            let found = citations(&text);
            assert_eq!(found.len(), 1, "{leader:?}");
            assert_eq!((found[0].line, found[0].section.as_str()), (2, "1.2"), "{leader:?}");
        }
    }

    #[test]
    fn finds_defect_numbers() {
        let defect = format!("T{}", 99);
        assert_eq!(cited(&format!("({defect}).")), [format!("tools.md 12, row {defect}")]);
        assert_eq!(cited(&format!("x_{defect} {defect}x")), [""; 0]);
    }

    #[test]
    fn reports_unknown_page_section_and_row() {
        let pages = Pages::from([(PAGE.to_owned(), sections(FACTS))]);
        for (text, is_valid) in [
            ("P 1.2", true),
            ("P Appendix B", true),
            ("P 1.3", false),
            ("P 3", false),
            ("other-P 1.2", false),
        ] {
            let citation = &citations(&text.replace('P', PAGE))[0];
            assert_eq!(citation.is_valid(&pages), is_valid, "{text}");
        }
        for (row, is_valid) in [(7, true), (8, false)] {
            let citation = &citations(&format!("{PAGE} 1.2, question {row}"))[1];
            assert_eq!(citation.is_valid(&pages), is_valid, "{row}");
        }
    }
}
