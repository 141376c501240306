//! What a tool, a command or the program takes, as data. Help texts, manual pages and completion
//! are made from it.

use std::fmt;

use clap::builder::{ArgExt, ValueParser};
use clap::{Arg, ArgAction};

use super::values::LEFT_OUT;

/// Column at which an explanation begins.
const EXPLANATION: usize = 26;

/// Begins the paragraph of [`Entry::text`] that only the manual shows.
pub const DETAILS: &str = "\n\n";

/// What a shell offers for a value or an argument.
#[derive(Clone, Copy, Debug, Default)]
pub enum Completion {
    /// Devices, of hardware and of software.
    Devices,
    Files,
    Hosts,
    /// `auto`, and the lists of the CPUs of this machine and of its NUMA nodes.
    Cpus,
    /// These words.
    Words(fn() -> Vec<String>),
    /// Nothing: a number, or a list.
    #[default]
    Nothing,
}

/// An option of a request ([`super::derived`]) has it with `#[arg(add = ...)]`.
impl ArgExt for Completion {}

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
    /// A value that must be given.
    pub const fn new(name: &'static str, completion: Completion) -> Self {
        Self { name, is_optional: false, completion }
    }

    /// A value that may be omitted.
    pub const fn optional(name: &'static str, completion: Completion) -> Self {
        Self { name, is_optional: true, completion }
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
    /// Its only explanation. The first paragraph says what the option does, then has remarks such
    /// as `(default: VALUE)`: `--help` shows all of it, `-h` and completion leave out the remarks.
    /// The manual page shows the second paragraph, too, which has details.
    pub text: String,
}

impl Entry {
    pub fn help() -> Self {
        Self {
            short: Some('h'),
            long: "help",
            value: None,
            text: "Print this help and exit".into(),
        }
    }

    pub fn version() -> Self {
        Self {
            short: Some('V'),
            long: "version",
            value: None,
            text: "Print the version and exit".into(),
        }
    }

    /// The option as clap declares it.
    pub fn declared(&self) -> Arg {
        let long = self.long;
        let argument = match self.value {
            Some(value) if value.is_optional => Arg::new(long)
                .value_name(value.name)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(LEFT_OUT)
                .action(ArgAction::Append)
                .value_parser(ValueParser::os_string()),
            // In `-n -3`, `-3` is a value: the error is about the number, not about an option.
            Some(value) => Arg::new(long)
                .value_name(value.name)
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .value_parser(ValueParser::os_string()),
            None => Arg::new(long).action(ArgAction::SetTrue),
        };
        argument.long(long).short(self.short).help(self.summary().to_owned())
    }

    /// The forms of the option with its value: `-s, --size=MIN[:MAX]`, `    --json[=FILE]`.
    pub fn syntax(&self) -> String {
        let short = self.short.map_or("    ".into(), |letter| format!("-{letter}, "));
        let value = match self.value {
            None => String::new(),
            Some(value) if value.is_optional => format!("[={}]", value.name),
            Some(value) => format!("={}", value.name),
        };
        format!("{short}--{}{value}", self.long)
    }

    /// The explanation in the help text.
    pub fn help_text(&self) -> &str {
        self.text.split_once(DETAILS).map_or(&self.text, |(help, _)| help)
    }

    /// The explanation in the help text without its remarks.
    pub fn summary(&self) -> &str {
        let help = self.help_text();
        let end = ["; ", " (default"].iter().filter_map(|remark| help.find(remark)).min();
        &help[..end.unwrap_or(help.len())]
    }

    /// The default that the help text states.
    pub fn default(&self) -> Option<&str> {
        let (_, rest) = self.help_text().split_once("(default: ")?;
        rest.split_once(')').map(|(default, _)| default)
    }

    /// The explanation in the manual: sentences, the default as the last one.
    pub fn manual(&self) -> String {
        let mut help = self.help_text().to_owned();
        let mut last = String::new();
        if let Some(default) = self.default() {
            help = help.replace(&format!(" (default: {default})"), "");
            last = format!(" Default: {default}.");
        }
        let end = if help.ends_with('?') { "" } else { "." };
        let details =
            self.text.split_once(DETAILS).map_or(String::new(), |(_, text)| format!(" {text}"));
        help + end + &details + &last
    }
}

/// A subcommand in the list of the program.
#[derive(Clone, Debug)]
pub struct Subcommand {
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its other name, which starts it through a symbolic link.
    pub legacy_name: Option<&'static str>,
}

/// Everything that is accepted on one command line.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Name of the program: `cxidiag write-lat`, `cxi_write_lat`.
    pub program: String,
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
    /// Options in groups, with their titles.
    pub groups: Vec<(&'static str, Vec<Entry>)>,
    /// The options outside the groups.
    pub options: Vec<Entry>,
    /// Long forms of the options that the short help shows. Without any, it shows all options.
    pub frequent: Vec<&'static str>,
    /// Words that are values of options, with a title.
    pub words: Vec<(&'static str, String)>,
    /// Commands, and what each does.
    pub examples: Vec<(String, String)>,
    /// Exit statuses and their meaning, in lines, or an empty text.
    pub statuses: &'static str,
    /// Paragraphs after the options.
    pub remarks: Vec<&'static str>,
    /// Version of the program of HPE that has this name.
    pub replaced_version: Option<&'static str>,
}

impl Usage {
    /// All options, in the order of the help text.
    pub fn all_options(&self) -> impl Iterator<Item = &Entry> {
        let grouped = self.groups.iter().flat_map(|(_, options)| options);
        grouped.chain(&self.options)
    }

    /// The help text: all of it, or its short form.
    pub fn text(&self, is_long: bool) -> String {
        if is_long || self.frequent.is_empty() { self.to_string() } else { self.short() }
    }

    /// Returns what it does, and each way to start it.
    fn beginning(&self) -> String {
        let mut text = format!("{}\n\nUsage:\n", self.about);
        let ways = self.synopsis.iter();
        let width = ways.clone().map(|(words, _)| words.len()).max();
        let width = width.unwrap_or_default();
        for (words, explanation) in ways {
            let line = format!("  {words:width$}  {explanation}");
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// Returns how to start it, and the options that most people need.
    fn short(&self) -> String {
        let mut text = self.beginning();
        text += "\nThe options that most people need:\n";
        let frequent = |entry: &&Entry| self.frequent.contains(&entry.long);
        for option in self.all_options().filter(frequent) {
            let default = option.default();
            let default = default.map_or(String::new(), |default| format!(" (default: {default})"));
            text += &entry(&option.syntax(), &(option.summary().to_owned() + &default));
        }
        let all = format!("{} --help shows all options, examples and exit statuses.", self.program);
        text + "\n" + &all + "\n"
    }
}

/// Writes all of the help text.
impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.beginning())?;
        if !self.about_arguments.is_empty() {
            writeln!(f, "\n{}", self.about_arguments)?;
        }
        for (title, subcommands) in &self.subcommands {
            writeln!(f, "\n{title}:")?;
            for Subcommand { name, about, legacy_name } in subcommands {
                let explanation = match legacy_name {
                    Some(legacy) => format!("{about}\n(also when started as {legacy})"),
                    None => (*about).to_owned(),
                };
                f.write_str(&entry(name, &explanation))?;
            }
        }
        let own_title = if self.groups.is_empty() { "Options" } else { "Help" };
        let groups = self.groups.iter().map(|(title, options)| (*title, options));
        for (title, options) in groups.chain([(own_title, &self.options)]) {
            writeln!(f, "\n{title}:")?;
            for option in options {
                f.write_str(&entry(&option.syntax(), option.help_text()))?;
            }
        }
        for (title, words) in &self.words {
            writeln!(f, "\n{title}:")?;
            for line in wrapped(words, 76).lines() {
                writeln!(f, "  {line}")?;
            }
        }
        for remark in &self.remarks {
            writeln!(f, "\n{remark}")?;
        }
        if !self.examples.is_empty() {
            writeln!(f, "\nExamples:")?;
        }
        for (command, explanation) in &self.examples {
            writeln!(f, "  {command}\n      {explanation}")?;
        }
        if !self.statuses.is_empty() {
            writeln!(f, "\n{}", self.statuses)?;
        }
        Ok(())
    }
}

/// An entry of a list: its subject, and its explanation from column [`EXPLANATION`] on, on a new
/// line if the subject is too long.
fn entry(subject: &str, explanation: &str) -> String {
    let mut text = format!("  {subject}");
    let explanation = wrapped(explanation, 80 - EXPLANATION);
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

/// Text in lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for given in text.lines() {
        let mut line = String::new();
        for word in given.split(' ') {
            if !line.is_empty() && line.len() + 1 + word.len() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! What holds for the help texts of all tools and commands.

    use super::*;

    /// Checks that the help fits into 80 columns and explains each option.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn check_help(usage: &Usage) {
        for text in [usage.text(true), usage.text(false)] {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert_eq!(line, line.trim_end());
            }
        }
        let text = usage.to_string();
        for option in usage.all_options() {
            let help = wrapped(option.help_text(), 80 - EXPLANATION);
            let first = help.lines().next().unwrap();
            // The explanation begins on the same line, or on the next one if it does not fit.
            let mut lines = text
                .lines()
                .skip_while(|line| !line.starts_with(&format!("  {}", option.syntax())));
            let line = lines.next().unwrap();
            let line = if line.contains(first) { line } else { lines.next().unwrap() };
            assert_eq!(line.find(first), Some(EXPLANATION), "{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_each_explanation_from_one_text() {
        let entry = |text: &str| Entry { text: text.into(), ..Entry::help() };
        let all = entry("Time to wait, such as 30s (default: 0); at most 7d\n\nTIME is in s.");
        assert_eq!(all.help_text(), "Time to wait, such as 30s (default: 0); at most 7d");
        assert_eq!((all.summary(), all.default()), ("Time to wait, such as 30s", Some("0")));
        let manual = "Time to wait, such as 30s; at most 7d. TIME is in s. Default: 0.";
        assert_eq!(all.manual(), manual);
        let short = entry("Read every TIME: when did it happen?");
        assert_eq!(short.summary(), short.help_text());
        assert_eq!(short.manual(), "Read every TIME: when did it happen?");
        assert_eq!(entry("Do it").manual(), "Do it.");
    }
}
