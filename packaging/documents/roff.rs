//! A manual page in the man(7) macros, from the few forms of Markdown that the prose uses: paragraphs, `##` headings,
//! fenced examples, bullets, definitions (`term`, then `: text`), **bold**, *italic*, `code`.

/// A page in the making.
pub struct Page {
    text: String,
    /// Whether a paragraph begins here without being told so: after a heading or a tag.
    at_start: bool,
}

impl Page {
    /// A page with its header: name, section, date and the footers of man(7).
    pub fn new(name: &str, section: u8, date: &str, source: &str) -> Self {
        let name = escaped(&name.to_uppercase(), true);
        // Flush left and without hyphenation: options stay whole.
        let text = format!(
            ".TH \"{name}\" {section} \"{date}\" \"{source}\" \"CXI Diagnostics\"\n.nh\n.ad l\n"
        );
        Self {
            text,
            at_start: true,
        }
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }

    /// A section.
    pub fn section(&mut self, title: &str) {
        self.text += &format!(".SH {}\n", escaped(title, false));
        self.at_start = true;
    }

    /// A section within a section.
    pub fn subsection(&mut self, title: &str) {
        self.text += &format!(".SS {}\n", escaped(title, false));
        self.at_start = true;
    }

    /// One line of the section NAME.
    pub fn name_line(&mut self, name: &str, about: &str) {
        let line = format!("{} \\- {}", escaped(name, true), escaped(about, false));
        self.line(&line);
    }

    /// The ways to start a program.
    pub fn synopsis(&mut self, ways: &[String]) {
        for (number, words) in ways.iter().enumerate() {
            if number > 0 {
                self.text += ".br\n";
            }
            self.line(&synopsis(words));
        }
    }

    /// The tag of a definition whose text follows: an option.
    pub fn tag(&mut self, syntax: &str) {
        self.text += ".TP\n";
        self.line(syntax);
        self.at_start = true;
    }

    /// Text that is roff already.
    pub fn verbatim(&mut self, text: &str) {
        self.line(text);
    }

    /// Prose. In a definition (`inside`) its paragraphs are indented.
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

    /// Lines as they are, indented.
    fn example(&mut self, lines: &str) {
        if !self.at_start {
            self.text += ".PP\n";
        }
        self.text += ".RS 4\n.nf\n";
        self.line(&escaped(lines, true));
        self.text += ".fi\n.RE\n";
        self.at_start = false;
    }

    /// A line of text; one that looks like a request is kept from being one.
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

/// Blocks between empty lines; a fenced example is one, whatever it holds.
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

/// Emphasis. What is code, or bold, is to be typed as it stands.
pub fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['*', '`', '\\']) {
        out += &escaped(&rest[..at], false);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix('\\') {
            // The next character stands for itself.
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

/// Words of a synopsis: values in italics, everything else bold.
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

/// Whether a word names a value: capital letters.
fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
}

/// The tag of an option: forms in bold, the value in italics.
pub fn option(short: Option<char>, long: &str, value: Option<&str>, optional: bool) -> String {
    let long = escaped(long, true);
    let mut text = match short {
        Some(letter) => format!("\\fB\\-{letter}\\fP, \\fB\\-\\-{long}\\fP"),
        None => format!("\\fB\\-\\-{long}\\fP"),
    };
    if let Some(value) = value {
        let value = escaped(value, true);
        text += &match optional {
            true => format!("[=\\fI{value}\\fP]"),
            false => format!("=\\fI{value}\\fP"),
        };
    }
    text
}

/// Text that roff takes as it is. With `literal`, dashes and quotes are those that a terminal takes.
fn escaped(text: &str, literal: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out += "\\e",
            '"' => out += "\\(dq",
            '-' if literal => out += "\\-",
            '\'' if literal => out += "\\(aq",
            '`' => out += "\\(ga",
            '^' => out += "\\(ha",
            '~' => out += "\\(ti",
            _ => out.push(c),
        }
    }
    out
}
