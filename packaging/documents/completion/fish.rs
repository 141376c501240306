//! Completion for fish: one line for each option.

use plan::cli::usage::{Completion, Entry, Usage};
use plan::tool::PROGRAM;

use super::{CPU_LISTS, SOFTWARE_NICS};
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
    let names: Vec<&str> = all.iter().map(|tool| tool.name).collect();
    text += &format!(
        "complete -c {PROGRAM} -n '__fish_seen_subcommand_from help' -a '{}'\n",
        names.join(" ")
    );
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
        Completion::Cpus | Completion::Words(_) | Completion::Nothing => String::new(),
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
    let short = entry.short.map_or(String::new(), |letter| format!("-s {letter} "));
    let value = match entry.value {
        None => String::new(),
        // Without -r or -x, the value may be omitted: fish offers the option with and without `=`.
        Some(value) if value.is_optional => {
            " -a '(__fish_complete_path (string replace -r \"^--[^=]*=\" \"\" -- (commandline -ct)))'".to_owned()
        }
        Some(value) => match value.completion {
            Completion::Devices => format!(" -x -a '{}'", devices()),
            Completion::Files => " -r -F".to_owned(),
            Completion::Hosts => " -x -a '(__fish_print_hostnames)'".to_owned(),
            Completion::Cpus => format!(" -x -a 'auto ({CPU_LISTS})'"),
            Completion::Words(words) => format!(" -x -a '{}'", words().join(" ")),
            Completion::Nothing => " -x".to_owned(),
        },
    };
    format!("{short}-l {}{value} -d '{}'", entry.long, quoted(&entry.summary()))
}

fn quoted(text: &str) -> String {
    text.replace('\'', "\\'")
}
