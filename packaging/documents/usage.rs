//! Reads a help text back into its parts.

/// The parts of a help text.
pub struct Usage {
    /// First line: what it does.
    pub about: String,
    /// Each way to start it, without its explanation.
    pub synopsis: Vec<String>,
    /// The subcommands, with what they do.
    pub subcommands: Vec<(String, String)>,
    /// The options.
    pub options: Vec<Entry>,
    /// Lists after the options: title and contents.
    pub lists: Vec<(String, String)>,
}

/// One option as the help shows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Letter of the short form.
    pub short: Option<char>,
    /// Long form, without the dashes.
    pub long: String,
    /// Name of its value; an option without one is a switch.
    pub value: Option<String>,
    /// Whether the value may be left out.
    pub value_is_optional: bool,
    /// Explanation, in one line.
    pub help: String,
}

impl Usage {
    /// Reads a help text.
    pub fn read(text: &str) -> Self {
        let mut usage = Self {
            about: text.lines().next().unwrap_or_default().to_owned(),
            synopsis: Vec::new(),
            subcommands: Vec::new(),
            options: Vec::new(),
            lists: Vec::new(),
        };
        for block in text.split("\n\n") {
            let Some((title, body)) = block.split_once(":\n") else {
                continue;
            };
            match title.trim() {
                "Usage" => {
                    usage.synopsis = entries(body).into_iter().map(|(s, _)| s).collect();
                }
                "Tools" | "Commands" => usage.subcommands.extend(entries(body)),
                "Options" => {
                    usage.options = entries(body).iter().map(|(s, h)| entry(s, h)).collect();
                }
                title => usage.lists.push((title.to_owned(), joined(body))),
            }
        }
        usage
    }

    /// The words of the list with this title.
    pub fn list(&self, title: &str) -> Vec<String> {
        let found = self.lists.iter().find(|(own, _)| own == title);
        found.map_or(Vec::new(), |(_, words)| {
            words.split(", ").map(str::to_owned).collect()
        })
    }
}

impl Entry {
    /// What the help says the default is.
    pub fn default(&self) -> Option<&str> {
        let (_, rest) = self.help.split_once("(default: ")?;
        rest.split_once(')').map(|(default, _)| default)
    }
}

/// An explanation up to its remarks, for a list of completions.
pub fn summary(help: &str) -> &str {
    let end = ["; ", " (default", " (also"]
        .iter()
        .filter_map(|remark| help.find(remark))
        .min();
    &help[..end.unwrap_or(help.len())]
}

/// The entries of a list: subject, and explanation in one line. A line that is indented further
/// than a subject goes on explaining.
fn entries(body: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    for line in body.lines() {
        let is_explanation = line.starts_with("          ");
        match entries.last_mut() {
            Some((_, explanation)) if is_explanation => {
                if !explanation.is_empty() {
                    explanation.push(' ');
                }
                explanation.push_str(line.trim());
            }
            _ => {
                // Two blanks end the subject.
                let line = line.trim_start();
                let (subject, explanation) = line.split_once("  ").unwrap_or((line, ""));
                entries.push((subject.to_owned(), explanation.trim().to_owned()));
            }
        }
    }
    entries
}

/// An option from its syntax: `-s, --size=MIN[:MAX]`, `--json[=FILE]`.
fn entry(subject: &str, help: &str) -> Entry {
    let (short, long) = match subject.split_once(", --") {
        Some((short, long)) => (short.chars().nth(1), long),
        None => (None, subject.trim_start_matches("--")),
    };
    let name_end = long.find(['=', '[']).unwrap_or(long.len());
    let (long, value) = long.split_at(name_end);
    let value_is_optional = value.starts_with("[=");
    let value = if value_is_optional {
        value.trim_start_matches("[=").trim_end_matches(']')
    } else {
        value.trim_start_matches('=')
    };
    Entry {
        short,
        long: long.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        value_is_optional,
        help: help.to_owned(),
    }
}

fn joined(body: &str) -> String {
    body.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
