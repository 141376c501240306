//! Completion for fish: one line for each option.

use cxidiag::tool::PROGRAM;

use super::{SOFTWARE_NICS, Values, values};
use crate::documents::usage::{Entry, Usage, summary};
use crate::documents::{Arguments, Subcommand};

/// The script for the program.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let mut text = format!("# Completion of {PROGRAM} for fish.\n\ncomplete -c {PROGRAM} -f\n");
    for (name, about) in &program.subcommands {
        text += &format!(
            "complete -c {PROGRAM} -n __fish_use_subcommand -a {name} -d '{}'\n",
            quoted(summary(about))
        );
    }
    for entry in &program.options {
        let option = option(program, entry);
        text += &format!("complete -c {PROGRAM} -n __fish_use_subcommand {option}\n");
    }
    for tool in all {
        let condition = format!(" -n '__fish_seen_subcommand_from {}'", tool.name);
        text.push('\n');
        text += &tool_lines(PROGRAM, &condition, tool);
    }
    text
}

/// The script for a legacy name.
pub fn legacy_script(name: &str, tool: &Subcommand) -> String {
    format!("# Completion of {name} for fish.\n\ncomplete -c {name} -f\n")
        + &tool_lines(name, "", tool)
}

fn tool_lines(name: &str, condition: &str, tool: &Subcommand) -> String {
    let mut text = match tool.arguments {
        Arguments::Host => format!("complete -c {name}{condition} -a '(__fish_print_hostnames)'\n"),
        Arguments::Devices => format!("complete -c {name}{condition} -a '{}'\n", devices()),
        Arguments::Files => format!("complete -c {name}{condition} -F\n"),
    };
    for entry in &tool.usage.options {
        text += &format!(
            "complete -c {name}{condition} {}\n",
            option(&tool.usage, entry)
        );
    }
    text
}

/// Devices, in words that fish expands.
fn devices() -> String {
    let software = SOFTWARE_NICS.join(" ");
    format!("{software} (ls /sys/class/cxi 2>/dev/null)")
}

fn option(usage: &Usage, entry: &Entry) -> String {
    let short = entry
        .short
        .map_or(String::new(), |letter| format!("-s {letter} "));
    let value = match (&entry.value, values(usage, entry)) {
        (None, _) => String::new(),
        (Some(_), Values::Files) if entry.value_is_optional => String::new(),
        (Some(_), Values::Files) => " -r -F".to_owned(),
        (Some(_), Values::Devices) => {
            format!(" -x -a '{}'", devices())
        }
        (Some(_), Values::Words(words)) => format!(" -x -a '{}'", words.join(" ")),
        (Some(_), Values::Free) => " -x".to_owned(),
    };
    format!(
        "{short}-l {}{value} -d '{}'",
        entry.long,
        quoted(summary(&entry.help))
    )
}

fn quoted(text: &str) -> String {
    text.replace('\'', "\\'")
}
