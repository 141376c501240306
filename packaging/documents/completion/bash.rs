//! Completion for bash: one function for all names.

use plan::cli::usage::{Completion, Entry, Usage};
use plan::tool::PROGRAM;

use super::{CPU_LISTS, SOFTWARE_NICS};
use crate::documents::Subcommand;

/// Returns the script.
pub fn script(program: &Usage, all: &[Subcommand]) -> String {
    let mut text = format!(
        "# Completion of {PROGRAM} for bash.\n\n_{PROGRAM}() {{\n    \
         local tool=${{1##*/}} current=$2 option=$3 \
         options with_value optional devices files cpus words=() arguments\n    COMPREPLY=()\n"
    );
    text += &format!(
        "    if [[ $tool == {PROGRAM} ]]; then\n        if ((COMP_CWORD == 1)); then\n            \
         mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$current\")\n            \
         return\n        fi\n        \
         tool=${{COMP_WORDS[1]}}\n    fi\n",
        first_words(program)
    );
    let names: Vec<&str> = all.iter().map(|tool| tool.name).collect();
    text += &format!(
        "    if [[ $tool == help ]]; then\n        \
         mapfile -t COMPREPLY < <(compgen -W \"{}\" -- \"$current\")\n        \
         return\n    fi\n",
        names.join(" ")
    );
    text += "    case $tool in\n";
    for tool in all {
        let names: Vec<&str> = [tool.name].into_iter().chain(tool.legacy_name).collect();
        text += &format!("    {})\n", names.join(" | "));
        let lists = [
            ("options", forms(tool, |_| true)),
            ("with_value", forms(tool, takes_next_word)),
            ("optional", forms(tool, has_optional_value)),
            ("devices", forms(tool, completes_devices)),
            ("files", forms(tool, completes_files)),
            ("cpus", forms(tool, completes_cpus)),
        ];
        for (name, forms) in lists {
            text += &format!("        {name}=\"{forms}\"\n");
        }
        for entry in tool.usage.all_options() {
            if let Some(Completion::Words(words)) = completion(entry) {
                text += &format!(
                    "        words+=(\"{}: {}\")\n",
                    forms_of(entry).join(" "),
                    words().join(" ")
                );
            }
        }
        let arguments = match tool.usage.arguments {
            Completion::Devices => "device",
            Completion::Files => "file",
            Completion::Hosts => "hostname",
            Completion::Cpus | Completion::Words(_) | Completion::Nothing => "",
        };
        text += &format!("        arguments={arguments}\n        ;;\n");
    }
    text += "    *) return ;;\n    esac\n";
    let body = BODY.replace("CPU_LISTS", CPU_LISTS);
    text += &body.replace("SOFTWARE_NICS", &SOFTWARE_NICS.join(" "));
    let legacy: Vec<&str> = all.iter().filter_map(|tool| tool.legacy_name).collect();
    text += &format!("}}\n\ncomplete -F _{PROGRAM} {PROGRAM} {}\n", legacy.join(" "));
    text
}

/// Completes an option, its value, or an argument of the tool. Bash passes `=` as a separate word.
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
    elif [[ -n $option && " $cpus " == *" $option "* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "auto $(CPU_LISTS)" -- "$current")
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
        # The value follows after '=', not after a blank.
        if [[ ${#COMPREPLY[@]} == 1 && " $optional " == *" ${COMPREPLY[0]} "* ]]; then
            compopt -o nospace
        fi
    else
        [[ $arguments == file ]] && compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -A "$arguments" -- "$current")
    fi
"#;

/// Returns the words that may come first: subcommands and options of the program.
fn first_words(program: &Usage) -> String {
    let lists = program.subcommands.iter();
    let names = lists.flat_map(|(_, list)| list.iter().map(|own| own.name.to_owned()));
    let options = program.options.iter();
    let options = options.map(|entry| format!("--{}", entry.long));
    names.chain(options).collect::<Vec<_>>().join(" ")
}

fn completion(entry: &Entry) -> Option<Completion> {
    entry.value.map(|value| value.completion)
}

fn takes_next_word(entry: &Entry) -> bool {
    entry.value.is_some_and(|value| !value.is_optional)
}

fn has_optional_value(entry: &Entry) -> bool {
    entry.value.is_some_and(|value| value.is_optional)
}

fn completes_cpus(entry: &Entry) -> bool {
    matches!(completion(entry), Some(Completion::Cpus))
}

fn completes_devices(entry: &Entry) -> bool {
    matches!(completion(entry), Some(Completion::Devices))
}

fn completes_files(entry: &Entry) -> bool {
    matches!(completion(entry), Some(Completion::Files))
}

/// Returns the forms of the options of `tool` for which `is_wanted` holds.
fn forms(tool: &Subcommand, is_wanted: impl Fn(&Entry) -> bool) -> String {
    let wanted = tool.usage.all_options().filter(|entry| is_wanted(entry));
    wanted.flat_map(forms_of).collect::<Vec<_>>().join(" ")
}

/// Returns the short and the long form of an option.
fn forms_of(entry: &Entry) -> Vec<String> {
    let short = entry.short.map(|letter| format!("-{letter}"));
    let long = format!("--{}", entry.long);
    short.into_iter().chain([long]).collect()
}
