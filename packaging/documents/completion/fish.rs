//! Completion for fish: one line for each option.

use cxidiag::cli::usage::{Completion, Entry, Usage};
use cxidiag::tool::PROGRAM;

use super::SOFTWARE_NICS;
use crate::documents::Subcommand;

/// Returns the script for the program.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let mut text = format!("# Completion of {PROGRAM} for fish.\n\ncomplete -c {PROGRAM} -f\n");
    for subcommand in program.subcommands.iter().flat_map(|(_, list)| list) {
        text += &format!(
            "complete -c {PROGRAM} -n __fish_use_subcommand -a {} -d '{}'\n",
            subcommand.name,
            quoted(subcommand.about)
        );
    }
    for entry in &program.options {
        let option = option(entry);
        text += &format!("complete -c {PROGRAM} -n __fish_use_subcommand {option}\n");
    }
    for tool in all {
        let condition = format!(" -n '__fish_seen_subcommand_from {}'", tool.name);
        text.push('\n');
        text += &tool_lines(PROGRAM, &condition, tool);
    }
    text
}

/// Returns the script for a legacy name.
pub fn legacy_script(name: &str, tool: &Subcommand) -> String {
    format!("# Completion of {name} for fish.\n\ncomplete -c {name} -f\n")
        + &tool_lines(name, "", tool)
}

fn tool_lines(name: &str, condition: &str, tool: &Subcommand) -> String {
    let arguments = match tool.usage.arguments {
        Completion::Devices => format!(" -a '{}'", devices()),
        Completion::Files => " -F".to_owned(),
        Completion::Hosts => " -a '(__fish_print_hostnames)'".to_owned(),
        Completion::Words(_) | Completion::Nothing => String::new(),
    };
    let mut text = format!("complete -c {name}{condition}{arguments}\n");
    for entry in tool.usage.all_options() {
        text += &format!("complete -c {name}{condition} {}\n", option(entry));
    }
    text
}

/// Returns the devices, as words that fish expands.
fn devices() -> String {
    let software = SOFTWARE_NICS.join(" ");
    format!("{software} (ls /sys/class/cxi 2>/dev/null)")
}

/// Returns the arguments of `complete` for an option.
fn option(entry: &Entry) -> String {
    let short = entry
        .short
        .map_or(String::new(), |letter| format!("-s {letter} "));
    let value = match entry.value {
        None => String::new(),
        // fish cannot complete a value that may be omitted.
        Some(value) if value.is_optional => String::new(),
        Some(value) => match value.completion {
            Completion::Devices => format!(" -x -a '{}'", devices()),
            Completion::Files => " -r -F".to_owned(),
            Completion::Hosts => " -x -a '(__fish_print_hostnames)'".to_owned(),
            Completion::Words(words) => format!(" -x -a '{}'", words().join(" ")),
            Completion::Nothing => " -x".to_owned(),
        },
    };
    format!(
        "{short}-l {}{value} -d '{}'",
        entry.long,
        quoted(&entry.summary())
    )
}

fn quoted(text: &str) -> String {
    text.replace('\'', "\\'")
}
