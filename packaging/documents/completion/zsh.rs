//! Completion for zsh: `_arguments` does the work.

use cxidiag::tool::PROGRAM;

use super::{SOFTWARE_NICS, Values, values};
use crate::documents::usage::{Entry, Usage, summary};
use crate::documents::{Arguments, Subcommand};

/// The script.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let legacy: Vec<&str> = all.iter().filter_map(|tool| tool.legacy_name).collect();
    let mut text = format!(
        "#compdef {PROGRAM} {}\n# Completion of {PROGRAM} for zsh.\n\n",
        legacy.join(" ")
    );
    text += &format!(
        "_{PROGRAM}_devices() {{\n    local -a devices=({} /sys/class/cxi/*(N:t))\n    compadd -a devices\n}}\n\n",
        SOFTWARE_NICS.join(" ")
    );
    text += &format!("_{PROGRAM}_tool() {{\n    case $1 in\n");
    for tool in all {
        let names: Vec<&str> = [tool.name].into_iter().chain(tool.legacy_name).collect();
        text += &format!("    {})\n        _arguments -s -S", names.join(" | "));
        for entry in &tool.usage.options {
            text += &format!(" \\\n            {}", specification(&tool.usage, entry));
        }
        let devices = format!(" \\\n            '*:device:_{PROGRAM}_devices'\n");
        text += match tool.arguments {
            Arguments::Host => " \\\n            ':server:_hosts'\n",
            Arguments::Devices => &devices,
            Arguments::Files => " \\\n            '*:file:_files'\n",
        };
        text += "        ;;\n";
    }
    text += "    esac\n}\n\n";
    text += &format!(
        "if [[ $service != {PROGRAM} ]]; then\n    _{PROGRAM}_tool $service\nelif ((CURRENT == 2)); then\n    \
         local -a commands=(\n"
    );
    for (name, about) in &program.subcommands {
        text += &format!("        '{name}:{}'\n", quoted(summary(about)));
    }
    text += "    )\n    local -a options=(\n";
    for entry in &program.options {
        text += &format!(
            "        '--{}:{}'\n",
            entry.long,
            quoted(summary(&entry.help))
        );
    }
    text += "    )\n    _describe -t commands command commands\n    _describe -o -t options option options\nelse\n    \
             shift words\n    ((CURRENT--))\n";
    text += &format!("    _{PROGRAM}_tool $words[1]\nfi\n");
    text
}

/// One option, as `_arguments` has it.
fn specification(usage: &Usage, entry: &Entry) -> String {
    let summary = quoted(summary(&entry.help))
        .replace('[', "\\[")
        .replace(']', "\\]");
    let long = &entry.long;
    let action = match values(usage, entry) {
        Values::Devices => format!("_{PROGRAM}_devices"),
        Values::Files => "_files".to_owned(),
        Values::Words(words) => format!("({})", words.join(" ")),
        Values::Free => " ".to_owned(),
    };
    let (sign, value) = match &entry.value {
        None => ("", String::new()),
        // Two signs at the end: the value, if there is one, stands in the same word.
        Some(name) if entry.value_is_optional => ("=-", format!("::{}:{action}", quoted(name))),
        Some(name) => ("=", format!(":{}:{action}", quoted(name))),
    };
    match entry.short {
        None => format!("'--{long}{sign}[{summary}]{value}'"),
        Some(letter) => {
            let plus = if entry.value.is_some() { "+" } else { "" };
            format!("'(-{letter} --{long})'{{-{letter}{plus},--{long}{sign}}}'[{summary}]{value}'")
        }
    }
}

fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''").replace(':', "\\:")
}
