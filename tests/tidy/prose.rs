//! How comments and documents are written: comments are at most 100 columns wide, and phrases that
//! hide a noun do not occur.

use std::fs;
use std::path::Path;

use super::scanner::comments;
use super::{files, root};

/// The widest line with a comment. Rows of tables may be wider.
const WIDTH: usize = 100;

const PHRASES: [[&str; 2]; 3] = [["that", "of"], ["those", "of"], ["is", "meant"]];

/// How many wide comments and how many phrases each directory may have, outside the other
/// directories of the list. These numbers may only shrink. Five phrases in `docs` are texts of the
/// program, in the tables of items.md and troubleshooting.md.
const LIMITS: [(&str, usize, usize); 5] =
    [("docs", 0, 5), ("ffi", 0, 0), ("packaging", 0, 0), ("src", 0, 0), ("tests", 0, 0)];

#[test]
fn comments_and_documents_are_written_plainly() {
    let mut found: Vec<Counts> = LIMITS.iter().map(|_| Counts::default()).collect();
    for (directory, extension) in
        [("src", "rs"), ("ffi", "rs"), ("tests", "rs"), ("packaging", "rs"), ("docs", "md")]
    {
        for path in files(directory, extension) {
            let below = path.strip_prefix(root()).expect("below the root");
            if below.starts_with("docs/reference")
                || below.components().any(|part| part.as_os_str() == "target")
            {
                continue;
            }
            let text = fs::read_to_string(&path).expect("text");
            let limits = LIMITS.iter().enumerate();
            let (index, _) = limits
                .filter(|(_, (directory, ..))| below.starts_with(directory))
                .max_by_key(|(_, (directory, ..))| directory.len())
                .unwrap_or_else(|| panic!("{}: in no directory of the list", below.display()));
            found[index].add(below, &text);
        }
    }
    let mut offences = Vec::new();
    for (&(directory, wide, phrases), found) in LIMITS.iter().zip(&found) {
        for (what, places, most) in
            [("wide comments", &found.wide_lines, wide), ("phrases", &found.phrase_lines, phrases)]
        {
            if places.len() > most {
                let count = places.len();
                offences.push(format!("{directory}: {count} {what}, at most {most} are allowed:"));
                offences.extend(places.iter().cloned());
            }
        }
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// `tests/run` runs examples in comments of the packages below ffi only: rustdoc takes a second for
/// each package, and the others have no other users.
#[test]
fn packages_of_the_program_have_no_examples_in_comments() {
    let mut offences = Vec::new();
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        for (line, block) in blocks(&text) {
            let examples = examples(&block).into_iter();
            offences.extend(examples.map(|below| format!("{}:{}", path.display(), line + below)));
        }
    }
    assert!(offences.is_empty(), "examples:\n{}\n", offences.join("\n"));
}

/// The lines of `prose`, from 0, at which a block begins that rustdoc runs.
fn examples(prose: &str) -> Vec<usize> {
    let fences = prose.lines().enumerate().filter_map(|(number, line)| {
        line.trim_start().strip_prefix("```").map(|language| (number, language))
    });
    let openings = fences.step_by(2);
    openings.filter(|(_, language)| *language != "text").map(|(number, _)| number).collect()
}

/// Where wide comments and phrases are.
#[derive(Default)]
struct Counts {
    wide_lines: Vec<String>,
    phrase_lines: Vec<String>,
}

impl Counts {
    fn add(&mut self, file: &Path, text: &str) {
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        let shown = |line: usize| format!("{}:{line}", file.display());
        let prose = if is_rust {
            self.wide_lines.extend(wide_lines(text).into_iter().map(shown));
            blocks(text)
        } else {
            vec![(1, text.to_owned())]
        };
        for (line, text) in prose {
            let lines = phrase_lines(&text).into_iter();
            self.phrase_lines.extend(lines.map(|below| shown(line + below)));
        }
    }
}

/// The numbers of the lines with a comment that are too wide.
fn wide_lines(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let numbers = comments(text)
        .into_iter()
        .flat_map(|(first, comment)| (first..).take(comment.lines().count()));
    numbers
        .filter(|number| {
            let line = lines[number - 1];
            let is_row = line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
            line.chars().count() > WIDTH && !is_row
        })
        .collect()
}

/// The comments of `text` as prose, each with its first line. Comments on subsequent lines are one,
/// unless code stands before them.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut next = 0;
    for (line, comment) in comments(text) {
        let is_alone = comment.starts_with(lines[line - 1].trim());
        if line != next || !is_alone {
            blocks.push((line, String::new()));
        }
        if let Some((_, block)) = blocks.last_mut() {
            for part in comment.lines() {
                *block += part.trim_start().trim_start_matches(['/', '!', '*']);
                block.push('\n');
            }
        }
        next = line + comment.lines().count();
    }
    blocks
}

/// The lines of `prose`, from 0, on which one of the phrases begins.
fn phrase_lines(prose: &str) -> Vec<usize> {
    let lines = prose.lines().enumerate();
    let words: Vec<(usize, &str)> = lines
        .flat_map(|(number, line)| line.split_whitespace().map(move |word| (number, word)))
        .collect();
    let is = |word: &str, expected: &str| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        word.eq_ignore_ascii_case(expected)
    };
    let ends = |word: &str, expected: &str| {
        word.trim_end_matches(|c: char| !c.is_alphanumeric()) == expected
    };
    words
        .windows(2)
        .filter(|two| {
            PHRASES.iter().any(|[first, second]| is(two[0].1, first) && ends(two[1].1, second))
        })
        .map(|two| two[0].0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(file: &str, text: &str) -> (Vec<String>, Vec<String>) {
        let mut counts = Counts::default();
        counts.add(Path::new(file), text);
        (counts.wide_lines, counts.phrase_lines)
    }

    #[test]
    fn finds_examples_beside_drawings() {
        let prose = " A ring.\n ```text\n +--+\n ```\n Used so:\n ```\n ring.push(1);\n ```\n";
        assert_eq!(examples(prose), [5]);
        assert_eq!(examples("```compile_fail,E0499\n```"), [0]);
    }

    #[test]
    fn counts_wide_comments_without_tables_and_code() {
        let wide = "x".repeat(WIDTH);
        let text = format!(
            "// {wide}\n/// short\nconst A: &str = \"{wide}\";\n/// | {wide} |\nf(); // {wide}\n/* a\n{wide}x */\n"
        );
        let places = ["a.rs:1", "a.rs:5", "a.rs:7"].map(str::to_owned);
        assert_eq!(counts("a.rs", &text).0, places);
        assert!(counts("a.md", &text).0.is_empty());
    }

    #[test]
    fn counts_phrases_in_comments_and_documents() {
        for (text, lines) in [
            ("/// Like that of a queue, or (those of) two.", &[1, 1][..]),
            ("\n// The queue that\n// of all is meant: which is meant.", &[2, 3, 3]),
            ("/* One that\nof two */", &[1]),
            ("// That often, that. Of, this of.", &[]),
            ("// that\nf(); // of", &[]),
            ("const A: &str = \"that of\";", &[]),
        ] {
            let places: Vec<String> = lines.iter().map(|line| format!("a.rs:{line}")).collect();
            assert_eq!(counts("a.rs", text).1, places, "{text}");
        }
        assert_eq!(counts("a.md", "a\nthat\nof b").1, ["a.md:2"]);
    }
}
