//! What a tool, a command or the program takes, as data. Help texts, manual pages and completion
//! are made from it.

use std::fmt;

/// Column at which an explanation begins.
pub(super) const EXPLANATION: usize = 26;

/// What a shell offers for a value or an argument.
#[derive(Clone, Copy, Debug, Default)]
pub enum Completion {
    /// Devices, of hardware and of software.
    Devices,
    /// Files.
    Files,
    /// Hosts.
    Hosts,
    /// These words.
    Words(fn() -> Vec<String>),
    /// Nothing: a number, or a list.
    #[default]
    Nothing,
}

/// The value of an option.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Name in the help text.
    pub name: &'static str,
    /// Whether the value may be omitted.
    pub is_optional: bool,
    /// What a shell offers.
    pub completion: Completion,
}

impl Value {
    /// Returns a value that must be given.
    pub const fn new(name: &'static str, completion: Completion) -> Self {
        Self {
            name,
            is_optional: false,
            completion,
        }
    }

    /// Returns a value that may be omitted.
    pub const fn optional(name: &'static str, completion: Completion) -> Self {
        Self {
            name,
            is_optional: true,
            completion,
        }
    }
}

/// One option, as help, manual and completion show it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Letter of the short form.
    pub short: Option<char>,
    /// Long form, without the dashes.
    pub long: &'static str,
    /// Its value; a switch has none.
    pub value: Option<Value>,
    /// Explanation in the help text, in lines.
    pub help: String,
    /// Explanation in the manual, in Markdown.
    pub manual: &'static str,
}

impl Entry {
    /// Returns `-h, --help`.
    pub fn help() -> Self {
        Self {
            short: Some('h'),
            long: "help",
            value: None,
            help: "Print this help and exit".into(),
            manual: "Print a summary of options and exit.",
        }
    }

    /// Returns `-V, --version`.
    pub fn version() -> Self {
        Self {
            short: Some('V'),
            long: "version",
            value: None,
            help: "Print the version and exit".into(),
            manual: "Print the version and exit.",
        }
    }

    /// Returns the forms of the option with its value: `-s, --size=MIN[:MAX]`, `    --json[=FILE]`.
    pub fn syntax(&self) -> String {
        let short = self
            .short
            .map_or("    ".into(), |letter| format!("-{letter}, "));
        let value = match self.value {
            None => String::new(),
            Some(value) if value.is_optional => format!("[={}]", value.name),
            Some(value) => format!("={}", value.name),
        };
        format!("{short}--{}{value}", self.long)
    }

    /// Returns the default that the help text states.
    pub fn default(&self) -> Option<String> {
        let help = self.help.replace('\n', " ");
        let (_, rest) = help.split_once("(default: ")?;
        rest.split_once(')').map(|(default, _)| default.to_owned())
    }
}

/// A subcommand in the list of the program.
#[derive(Clone, Debug)]
pub struct Subcommand {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its other name, which starts it through a symbolic link.
    pub legacy_name: Option<&'static str>,
}

/// Everything that is accepted on one command line.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// What it does, in one line.
    pub about: &'static str,
    /// Each way to start it, with its explanation or an empty text.
    pub synopsis: Vec<(String, &'static str)>,
    /// What a shell offers for an argument.
    pub arguments: Completion,
    /// Explanation of the arguments, or an empty text.
    pub about_arguments: &'static str,
    /// Lists of subcommands with their titles.
    pub subcommands: Vec<(&'static str, Vec<Subcommand>)>,
    /// The options.
    pub options: Vec<Entry>,
    /// Words that are values of options, with a title.
    pub words: Vec<(&'static str, String)>,
    /// Last paragraphs of the help text.
    pub remarks: Vec<&'static str>,
}

/// Writes the help text.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\nUsage:", self.about)?;
        for (words, explanation) in &self.synopsis {
            f.write_str(&entry(words, explanation))?;
        }
        if !self.about_arguments.is_empty() {
            writeln!(f, "\n{}", self.about_arguments)?;
        }
        for (title, subcommands) in &self.subcommands {
            writeln!(f, "\n{title}:")?;
            for Subcommand {
                name,
                about,
                legacy_name,
            } in subcommands
            {
                let explanation = match legacy_name {
                    Some(legacy) => format!("{about}\n(also when started as {legacy})"),
                    None => (*about).to_owned(),
                };
                f.write_str(&entry(name, &explanation))?;
            }
        }
        writeln!(f, "\nOptions:")?;
        for option in &self.options {
            f.write_str(&entry(&option.syntax(), &option.help))?;
        }
        for (title, words) in &self.words {
            write!(f, "\n{title}:\n{}", wrapped(words))?;
        }
        for remark in &self.remarks {
            writeln!(f, "\n{remark}")?;
        }
        Ok(())
    }
}

/// Returns an entry of a list: its subject, and its explanation from column [`EXPLANATION`] on,
/// on a new line if the subject is too long.
fn entry(subject: &str, explanation: &str) -> String {
    let mut text = format!("  {subject}");
    let mut lines = explanation.lines();
    if text.len() + 2 <= EXPLANATION
        && let Some(first) = lines.next()
    {
        text = format!("{text:EXPLANATION$}{first}");
    }
    text.push('\n');
    for line in lines {
        text += &format!("{:EXPLANATION$}{line}\n", "");
    }
    text
}

/// Returns words in indented lines of at most 78 columns.
fn wrapped(words: &str) -> String {
    let mut text = String::from(" ");
    let mut width = 1;
    for word in words.split(' ') {
        if width + 1 + word.len() > 78 {
            text += "\n ";
            width = 1;
        }
        text += " ";
        text += word;
        width += 1 + word.len();
    }
    text + "\n"
}
