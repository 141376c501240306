//! `completion`: prints the script that makes a shell complete the names, options and values of the
//! program. The script asks the program (`cxidiag::completion`) for each word.

use std::env;
use std::ffi::OsString;
use std::path::{MAIN_SEPARATOR, absolute};
use std::sync::LazyLock;

use clap::{Args, Command};
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};

use check::cxi_heatsink_check;
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived};
use facts::child::PROGRAM;
use facts::error::Failure;
use link::cxi_stat;
use plan::tools::TOOLS;

/// The environment variable in which a script names its shell when it asks the program.
pub const VARIABLE: &str = "_CXIDIAG_COMPLETE";

/// The shells that have scripts.
pub const SHELLS: Shells<'static> = Shells(&[&Bash, &Zsh, &Fish]);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag completion".into(),
        about: "Print the script that completes words in a shell",
        synopsis: vec![("cxidiag completion SHELL".into(), "")],
        arguments: Completion::Words(names),
        about_arguments: "SHELL is bash, zsh or fish. Packages install these scripts.",
        options: derived::entries(&COMMAND),
        examples: vec![
            (
                "source <(cxidiag completion bash)".into(),
                "Completes in this bash; as a line of ~/.bashrc, in each new one".into(),
            ),
            (
                "source <(cxidiag completion zsh)".into(),
                "The same for zsh, after compinit; as a line of ~/.zshrc".into(),
            ),
            (
                "cxidiag completion fish >~/.config/fish/completions/cxidiag.fish".into(),
                "Completes in each new fish".into(),
            ),
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<NoOptions>);

/// The command has arguments only.
#[derive(Args)]
struct NoOptions {}

fn names() -> Vec<String> {
    SHELLS.names().map(str::to_owned).collect()
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// A shell without a script, and surplus arguments.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let typed = TypedArguments::<NoOptions>::read(&usage(), &COMMAND, &arguments)?;
    let Some(TypedArguments { words, .. }) = typed else { return Ok(()) };
    let words = arguments::texts(words)?;
    let [name] = words.as_slice() else {
        return Err(Failure::usage("expected one SHELL: bash, zsh or fish (see --help)"));
    };
    let shell = SHELLS.completer(name).ok_or_else(|| {
        Failure::usage(format!("unknown shell '{name}': expected bash, zsh or fish"))
    })?;
    page::print(&script(shell, &started()))
}

/// The command that starts this program from any directory: its name if `PATH` has it.
fn started() -> String {
    let started = env::args_os().next().unwrap_or_default().to_string_lossy().into_owned();
    let path = absolute(&started).ok().filter(|_| started.contains(MAIN_SEPARATOR));
    path.map_or(started, |path| path.display().to_string())
}

/// The script of `shell` for the program and all legacy names; `completer` is the command that
/// answers.
pub fn script(shell: &dyn EnvCompleter, completer: &str) -> String {
    /// Stands for all names: the crate quotes each as one.
    const NAMES: &str = "NAMES";
    /// Stands for the completer in bash, where the crate quotes it twice.
    const COMPLETER: &str = "COMPLETER";
    let is_bash = shell.is("bash");
    let own_completer = if is_bash { COMPLETER } else { completer };
    let mut bytes = Vec::new();
    let written = shell.write_registration(VARIABLE, PROGRAM, NAMES, own_completer, &mut bytes);
    written.expect("memory takes any text");
    let names = TOOLS.iter().map(|tool| tool.legacy_name);
    let names = names.chain([cxi_stat::NAME, cxi_heatsink_check::NAME]);
    let names = [PROGRAM].into_iter().chain(names);
    let between = if shell.is("fish") { " --command " } else { " " };
    let names = names.collect::<Vec<_>>().join(between);
    let mut script = String::from_utf8_lossy(&bytes).replace(NAMES, &names);
    if is_bash {
        let quoted = format!("'{}'", completer.replace('\'', r"'\''"));
        script = script.replace(&format!("\"{COMPLETER}\""), &quoted);
        // Where files may stand, the program offers nothing: bash quotes names of files itself.
        script = script.replace(" -o bashdefault", " -o bashdefault -o default");
    }
    if shell.is("zsh") {
        // As a file in `fpath`, the script is also the first call of the function.
        script += "if [[ $funcstack[1] == _cxidiag ]]; then\n    \
                   _clap_dynamic_completer_cxidiag \"$@\"\nfi\n";
    }
    script
}
