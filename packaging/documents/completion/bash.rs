//! Completion for bash: one function for all names.

use cxidiag::tool::PROGRAM;

use super::{SOFTWARE_NICS, Values, values};
use crate::documents::usage::{Entry, Usage};
use crate::documents::{Arguments, Subcommand};

/// The script.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let mut text = format!(
        "# Completion of {PROGRAM} for bash.\n\n_{PROGRAM}() {{\n    local tool=${{1##*/}} current=$2 option=$3 \
         options with_value devices files words=() arguments\n    COMPREPLY=()\n"
    );
    text += &format!(
        "    if [[ $tool == {PROGRAM} ]]; then\n        if ((COMP_CWORD == 1)); then\n            \
         mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$current\")\n            return\n        fi\n        \
         tool=${{COMP_WORDS[1]}}\n    fi\n",
        first_words(program)
    );
    text += "    case $tool in\n";
    for tool in all {
        let names: Vec<&str> = [tool.name].into_iter().chain(tool.legacy_name).collect();
        text += &format!("    {})\n", names.join(" | "));
        text += &format!("        options=\"{}\"\n", forms(tool, |_| true));
        text += &format!(
            "        with_value=\"{}\"\n",
            forms(tool, |entry| entry.value.is_some()
                && !entry.value_is_optional)
        );
        text += &format!(
            "        devices=\"{}\"\n",
            forms(tool, |entry| values(&tool.usage, entry) == Values::Devices)
        );
        text += &format!(
            "        files=\"{}\"\n",
            forms(tool, |entry| values(&tool.usage, entry) == Values::Files)
        );
        for entry in &tool.usage.options {
            if let Values::Words(words) = values(&tool.usage, entry) {
                text += &format!(
                    "        words+=(\"{}: {}\")\n",
                    forms_of(entry).join(" "),
                    words.join(" ")
                );
            }
        }
        let arguments = match tool.arguments {
            Arguments::Host => "hostname",
            Arguments::Devices => "device",
            Arguments::Files => "file",
        };
        text += &format!("        arguments={arguments}\n        ;;\n");
    }
    text += "    *) return ;;\n    esac\n";
    text += &BODY.replace("SOFTWARE_NICS", &SOFTWARE_NICS.join(" "));
    let legacy: Vec<&str> = all.iter().filter_map(|tool| tool.legacy_name).collect();
    text += &format!(
        "}}\n\ncomplete -F _{PROGRAM} {PROGRAM} {}\n",
        legacy.join(" ")
    );
    text
}

/// What completes an option, its value, or an argument, once the tool is known. The shell makes words of their own of
/// `=` signs.
const BODY: &str = r#"
    if [[ $current == = ]]; then
        current=
    elif [[ $option == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ " $with_value " != *" $option "* ]]; then
        option=
    fi
    local list
    if [[ -n $option && " $devices " == *" $option "* ]] ||
        [[ -z $option && $arguments == device && $current != -* ]]; then
        list="SOFTWARE_NICS $(compgen -G '/sys/class/cxi/*' | sed 's,.*/,,')"
        mapfile -t COMPREPLY < <(compgen -W "$list" -- "$current")
    elif [[ -n $option && " $files " == *" $option "* ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    elif [[ -n $option ]]; then
        for list in "${words[@]}"; do
            if [[ " ${list%%:*} " == *" $option "* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "${list#*:}" -- "$current")
            fi
        done
    elif [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    else
        [[ $arguments == file ]] && compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -A "$arguments" -- "$current")
    fi
"#;

/// What may come first: subcommands and options of the program.
fn first_words(program: &Usage) -> String {
    let options = program
        .options
        .iter()
        .map(|entry| format!("--{}", entry.long));
    let names = program.subcommands.iter().map(|(name, _)| name.clone());
    names.chain(options).collect::<Vec<_>>().join(" ")
}

/// The forms of those options of a tool that `is_wanted`.
fn forms(tool: &Subcommand, is_wanted: impl Fn(&Entry) -> bool) -> String {
    let wanted = tool.usage.options.iter().filter(|entry| is_wanted(entry));
    wanted.flat_map(forms_of).collect::<Vec<_>>().join(" ")
}

fn forms_of(entry: &Entry) -> Vec<String> {
    let short = entry.short.map(|letter| format!("-{letter}"));
    short
        .into_iter()
        .chain([format!("--{}", entry.long)])
        .collect()
}
