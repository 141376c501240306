//! The answers to the scripts of shells (`cxidiag completion`): the words that may stand at the
//! cursor.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
    complete,
};

use crate::command::completion::{SHELLS, VARIABLE};
use crate::command::{COMMANDS, LEGACY_COMMANDS, legacy_command, summaries};
use crate::multicall::program_name;
use cli::usage::{Completion, Usage};
use facts::child::PROGRAM;
use node::machine::{Machine, shown};
use plan::command_line::{overview, usage};
use plan::tools::{TOOLS, legacy_form};

/// Stands for the names of files in bash, which finds and quotes them itself.
const FILES: &str = "\u{1}";

/// Software NICs that are offered.
const SOFTWARE_NICS: [&str; 4] = ["soft0", "soft1", "soft2", "soft3"];

/// Prints the words that may stand at the cursor. `argv` has the words on the command line of
/// `shell` after `--`. Errors are silent: they would disturb the command line.
pub fn answer(shell: &str, argv: impl IntoIterator<Item = OsString>) {
    let Some(shell) = SHELLS.completer(shell) else {
        return;
    };
    let mut words: Vec<OsString> =
        argv.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let Some(name) = words.first() else {
        return;
    };
    let mut command = started_as(name);
    let directory = env::current_dir().ok();
    let mut bytes = Vec::new();
    if shell.is("bash") {
        // bash splits words at `=`, and replaces only the part after it.
        let cursor = env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        words.truncate(cursor.map_or(words.len(), |index: usize| index + 1));
        words.retain(|word| word != "=");
        let last = words.len().saturating_sub(1);
        let found = complete(&mut command, words, last, directory.as_deref()).unwrap_or_default();
        let found = found.iter().map(|candidate| candidate.get_value().as_encoded_bytes());
        let found: Vec<&[u8]> = found.collect();
        if !found.iter().any(|word| word.ends_with(FILES.as_bytes())) {
            bytes = found.join(&b"\x0b"[..]);
        }
    } else {
        let _ = shell.write_complete(&mut command, words, directory.as_deref(), &mut bytes);
    }
    let _ = io::stdout().write_all(&bytes);
}

/// Returns what the program takes that was started under `name`.
fn started_as(name: &OsStr) -> Command {
    let name = program_name(name, TOOLS);
    if let Some(tool) = TOOLS.iter().find(|tool| tool.legacy_name == name) {
        return declared(tool.legacy_name, &usage(legacy_form(tool), tool.legacy_name));
    }
    if let Some(legacy) = legacy_command(&name) {
        return declared(legacy.name, &(legacy.usage)());
    }
    let tools = TOOLS.iter().map(|tool| {
        let own = declared(tool.name, &usage(tool, tool.name));
        own.alias(tool.legacy_name).alias(tool.legacy_name.trim_start_matches("cxi_"))
    });
    let commands = COMMANDS.iter().map(|command| declared(command.name, &(command.usage)()));
    // As the names of legacy tools, these complete, but are not offered.
    let legacy = LEGACY_COMMANDS.iter().map(|legacy| &legacy.command);
    let legacy = legacy.map(|command| declared(command.name, &(command.usage)()).hide(true));
    let help = Usage { arguments: Completion::Words(subcommands), ..Usage::default() };
    declared(PROGRAM, &overview(TOOLS, summaries()))
        .disable_help_subcommand(true)
        .subcommands(tools.chain(commands).chain(legacy))
        .subcommand(declared("help", &help).about("Print the help of a tool or command"))
        .subcommand(Command::new("version").about("Print the version"))
}

/// The names of all tools and commands.
fn subcommands() -> Vec<String> {
    let tools = TOOLS.iter().map(|tool| tool.name);
    tools.chain(COMMANDS.iter().map(|command| command.name)).map(str::to_owned).collect()
}

/// Returns what is accepted on one command line.
fn declared(name: &'static str, usage: &Usage) -> Command {
    let options = usage.all_options().map(|entry| match entry.value {
        Some(value) => completed(entry.declared(), value.completion),
        None => entry.declared(),
    });
    let words = completed(Arg::new("WORDS").num_args(0..), usage.arguments);
    Command::new(name)
        .about(usage.about)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(options)
        .arg(words)
}

/// Adds what is offered for a value.
fn completed(argument: Arg, completion: Completion) -> Arg {
    let candidates = match completion {
        Completion::Nothing => return argument,
        Completion::Files => return argument.add(ArgValueCompleter::new(files)),
        Completion::Words(words) => words,
        Completion::Devices => devices,
        Completion::Cpus => cpus,
        Completion::Hosts => hosts,
    };
    argument.add(ArgValueCandidates::new(move || {
        let words = candidates().into_iter().filter(|word| is_plain(word));
        words.map(CompletionCandidate::new).collect()
    }))
}

/// Whether each shell takes a word as it is.
fn is_plain(word: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "-_.,:/@%+=".contains(one);
    !word.starts_with('-') && word.chars().all(is_plain)
}

/// The files that a value may name.
fn files(current: &OsStr) -> Vec<CompletionCandidate> {
    if env::var_os(VARIABLE).is_some_and(|shell| shell == "bash") {
        vec![CompletionCandidate::new(FILES)]
    } else {
        PathCompleter::any().complete(current)
    }
}

fn devices() -> Vec<String> {
    let software = SOFTWARE_NICS.map(str::to_owned);
    Machine::this().cxi_devices().into_iter().chain(software).collect()
}

/// Returns `auto`, and the lists of the CPUs of this machine and of its NUMA nodes.
fn cpus() -> Vec<String> {
    let machine = Machine::this();
    let nodes = machine.nodes().into_iter().map(|node| machine.cpus_of_node(node));
    let mut lists: Vec<String> =
        nodes.chain([machine.online_cpus()]).map(|cpus| shown(&cpus)).collect();
    lists.sort();
    lists.dedup();
    [vec!["auto".to_owned()], lists].concat()
}

/// The hosts that this machine and the user's ssh know by name.
fn hosts() -> Vec<String> {
    let text = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let machine = lines.flat_map(|line| line.split_whitespace().skip(1));
    let home = env::var_os("HOME").unwrap_or_default();
    let text = fs::read_to_string(Path::new(&home).join(".ssh/known_hosts")).unwrap_or_default();
    // Hashed names begin with `|`, marks of keys with `@`.
    let lines = text.lines().filter(|line| !line.starts_with(['|', '@', '#']));
    let ssh = lines.filter_map(|line| line.split(' ').next()).flat_map(|names| names.split(','));
    // A name with a port is `[name]:port`.
    let ssh = ssh.map(|name| name.trim_start_matches('[').split(']').next().unwrap_or(name));
    let mut names: Vec<String> = machine.chain(ssh).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}
