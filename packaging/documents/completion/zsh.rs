//! Completion for zsh: `_arguments` does the work.

use plan::cli::usage::{Completion, Entry, Usage};
use plan::tool::PROGRAM;

use super::{CPU_LISTS, SOFTWARE_NICS};
use crate::documents::Subcommand;

/// Returns the script.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let legacy: Vec<&str> = all.iter().filter_map(|tool| tool.legacy_name).collect();
    let mut text =
        format!("#compdef {PROGRAM} {}\n# Completion of {PROGRAM} for zsh.\n\n", legacy.join(" "));
    text += &format!(
        "_{PROGRAM}_devices() {{\n    local -a devices=({} /sys/class/cxi/*(N:t))\n    \
         compadd -a devices\n}}\n\n",
        SOFTWARE_NICS.join(" ")
    );
    text += &format!(
        "_{PROGRAM}_cpus() {{\n    local -a lists=(auto $({CPU_LISTS}))\n    compadd -a lists\n}}\n\n"
    );
    text += &format!("_{PROGRAM}_tool() {{\n    case $1 in\n");
    for tool in all {
        let names: Vec<&str> = [tool.name].into_iter().chain(tool.legacy_name).collect();
        text += &format!("    {})\n        _arguments -s -S", names.join(" | "));
        for entry in tool.usage.all_options() {
            text += &format!(" \\\n            {}", specification(entry));
        }
        let arguments = match tool.usage.arguments {
            Completion::Devices => "'*:device:",
            Completion::Files => "'*:file:",
            Completion::Hosts => "':server:",
            Completion::Cpus | Completion::Words(_) | Completion::Nothing => "'*: :",
        };
        let action = action(tool.usage.arguments);
        text += &format!(" \\\n            {arguments}{action}'\n");
        text += "        ;;\n";
    }
    text += "    esac\n}\n\n";
    text += &format!(
        "if [[ $service != {PROGRAM} ]]; then\n    _{PROGRAM}_tool $service\n\
         elif ((CURRENT == 2)) || {{ ((CURRENT == 3)) && [[ $words[2] == help ]]; }}; then\n    \
         local -a commands=(\n"
    );
    for subcommand in program.subcommands.iter().flat_map(|(_, list)| list) {
        let about = quoted(subcommand.about);
        text += &format!("        '{}:{about}'\n", subcommand.name);
    }
    text += "    )\n    local -a options=(\n";
    for entry in &program.options {
        text += &format!("        '--{}:{}'\n", entry.long, quoted(&entry.summary()));
    }
    text += "    )\n    _describe -t commands command commands\n    \
             _describe -o -t options option options\nelse\n    \
             shift words\n    ((CURRENT--))\n";
    text += &format!("    _{PROGRAM}_tool $words[1]\nfi\n");
    text
}

/// Returns the specification of an option for `_arguments`.
fn specification(entry: &Entry) -> String {
    let summary = quoted(&entry.summary()).replace('[', "\\[").replace(']', "\\]");
    let long = entry.long;
    let (sign, value) = match entry.value {
        None => ("", String::new()),
        Some(value) => {
            let completed = format!("{}:{}", quoted(value.name), action(value.completion));
            if value.is_optional {
                // `=-` and `::`: the value may be omitted, and is part of the same word.
                ("=-", format!("::{completed}"))
            } else {
                ("=", format!(":{completed}"))
            }
        }
    };
    match entry.short {
        None => format!("'--{long}{sign}[{summary}]{value}'"),
        Some(letter) => {
            let plus = if entry.value.is_some() { "+" } else { "" };
            format!("'(-{letter} --{long})'{{-{letter}{plus},--{long}{sign}}}'[{summary}]{value}'")
        }
    }
}

/// Returns the action of `_arguments` that offers values.
fn action(completion: Completion) -> String {
    match completion {
        Completion::Devices => format!("_{PROGRAM}_devices"),
        Completion::Files => "_files".to_owned(),
        Completion::Hosts => "_hosts".to_owned(),
        Completion::Cpus => format!("_{PROGRAM}_cpus"),
        Completion::Words(words) => format!("({})", words().join(" ")),
        Completion::Nothing => " ".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''").replace(':', "\\:")
}
