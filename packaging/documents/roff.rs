//! A manual page in the man(7) macros, from the few forms of Markdown that the prose uses:
//! paragraphs, `##` headings, fenced examples, bullets, definitions (`term`, then `: text`),
//! **bold**, *italic*, `code`.

use plan::cli::usage::Entry;

/// A page under construction.
pub struct Page {
    text: String,
    /// Whether a paragraph begins here without a macro: after a heading or a tag.
    at_start: bool,
}

impl Page {
    /// Returns a page with its header: name, section, date and the footers of man(7).
    pub fn new(name: &str, section: u8, date: &str, source: &str) -> Self {
        let name = escaped(&name.to_uppercase(), true);
        // Flush left and without hyphenation: options stay whole.
        let text = format!(
            ".TH \"{name}\" {section} \"{date}\" \"{source}\" \"CXI Diagnostics\"\n.nh\n.ad l\n"
        );
        Self { text, at_start: true }
    }

    /// Returns the text of the page.
    pub fn finish(self) -> String {
        self.text
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.text += &format!(".SH {}\n", escaped(title, false));
        self.at_start = true;
    }

    /// Begins a section within a section.
    pub fn subsection(&mut self, title: &str) {
        self.text += &format!(".SS {}\n", escaped(title, false));
        self.at_start = true;
    }

    /// Adds the line of the section NAME.
    pub fn name_line(&mut self, name: &str, about: &str) {
        let line = format!("{} \\- {}", escaped(name, true), escaped(about, false));
        self.line(&line);
    }

    /// Adds the ways to start a program.
    pub fn synopsis<'a>(&mut self, ways: impl Iterator<Item = &'a String>) {
        for (number, words) in ways.enumerate() {
            if number > 0 {
                self.text += ".br\n";
            }
            self.line(&synopsis(words));
        }
    }

    /// Begins a definition with its tag, for example an option.
    pub fn tag(&mut self, syntax: &str) {
        self.text += ".TP\n";
        self.line(syntax);
        self.at_start = true;
    }

    /// Adds text that is already roff.
    pub fn verbatim(&mut self, text: &str) {
        self.line(text);
    }

    /// Adds prose. In a definition (`inside`), its paragraphs are indented.
    pub fn prose(&mut self, text: &str, inside: bool) {
        for block in blocks(text) {
            if let Some(title) = block.strip_prefix("## ") {
                self.subsection(title);
            } else if let Some(example) = block.strip_prefix("```\n") {
                self.example(example);
            } else if let Some((term, definition)) = block.split_once("\n: ") {
                self.tag(&inline(term));
                self.line(&inline(definition));
            } else if block.starts_with("* ") {
                for item in block.split("\n* ") {
                    self.text += ".IP \\(bu 2\n";
                    self.line(&inline(item.trim_start_matches("* ")));
                }
            } else {
                if !self.at_start {
                    self.text += if inside { ".IP\n" } else { ".PP\n" };
                }
                self.line(&inline(&block));
            }
        }
    }

    /// Adds lines without filling them, indented.
    fn example(&mut self, lines: &str) {
        if !self.at_start {
            self.text += ".PP\n";
        }
        self.text += ".RS 4\n.nf\n";
        self.line(&escaped(lines, true));
        self.text += ".fi\n.RE\n";
        self.at_start = false;
    }

    /// Adds lines of text. `\&` keeps a line that begins like a request from being one.
    fn line(&mut self, text: &str) {
        for line in text.lines() {
            if line.starts_with(['.', '\'']) {
                self.text += "\\&";
            }
            self.text += line;
            self.text.push('\n');
        }
        self.at_start = false;
    }
}

/// Returns the blocks between empty lines. A fenced example is one block.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut open = false;
    let mut in_example = false;
    for line in text.lines() {
        if line.starts_with("```") {
            if !in_example {
                blocks.push("```\n".into());
            }
            open = false;
            in_example = !in_example;
        } else if in_example {
            let block = blocks.last_mut().expect("an example has begun");
            block.push_str(line);
            block.push('\n');
        } else if line.trim().is_empty() {
            open = false;
        } else if open {
            let block = blocks.last_mut().expect("a block has begun");
            block.push('\n');
            block.push_str(line);
        } else {
            blocks.push(line.to_owned());
            open = true;
        }
    }
    blocks
}

/// Returns a line as roff: code and bold text in bold, with dashes and quotes as typed.
pub fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['*', '`', '\\']) {
        out += &escaped(&rest[..at], false);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('\\') {
            // The next character is literal.
            let end = after.chars().next().map_or(0, char::len_utf8);
            out += &escaped(&after[..end], false);
            rest = &after[end..];
            continue;
        }
        let (mark, font) = [("**", 'B'), ("*", 'I'), ("`", 'B')]
            .into_iter()
            .find(|(mark, _)| rest.starts_with(mark))
            .expect("one of these was found");
        let inner = &rest[mark.len()..];
        let end = inner.find(mark).unwrap_or(inner.len());
        out += &format!("\\f{font}{}\\fP", escaped(&inner[..end], font == 'B'));
        rest = inner.get(end + mark.len()..).unwrap_or_default();
    }
    out + &escaped(rest, false)
}

/// Returns the words of a synopsis: values in italics, all other words in bold.
fn synopsis(words: &str) -> String {
    words
        .split(' ')
        .map(|word| {
            let bare = word.trim_matches(['[', ']', '.']);
            let font = if is_value(bare) { 'I' } else { 'B' };
            let word = escaped(word, true);
            let bare = escaped(bare, true);
            word.replacen(&bare, &format!("\\f{font}{bare}\\fP"), 1)
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether a word is the name of a value, which begins with a capital letter.
fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// Returns the tag of an option: its forms in bold, its value in italics.
pub fn option(entry: &Entry) -> String {
    let long = escaped(entry.long, true);
    let mut text = match entry.short {
        Some(letter) => format!("\\fB\\-{letter}\\fP, \\fB\\-\\-{long}\\fP"),
        None => format!("\\fB\\-\\-{long}\\fP"),
    };
    if let Some(value) = entry.value {
        let name = escaped(value.name, true);
        text += &if value.is_optional {
            format!("[=\\fI{name}\\fP]")
        } else {
            format!("=\\fI{name}\\fP")
        };
    }
    text
}

/// Returns text in which roff interprets nothing. Dashes are the ASCII character, at which no line
/// breaks: names and options stay whole, and a search finds them. With `literal`, quotes are the
/// ASCII characters too.
fn escaped(text: &str, literal: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out += "\\e",
            '"' => out += "\\(dq",
            '-' => out += "\\-",
            '\'' if literal => out += "\\(aq",
            '`' => out += "\\(ga",
            '^' => out += "\\(ha",
            '~' => out += "\\(ti",
            _ => out.push(c),
        }
    }
    out
}
