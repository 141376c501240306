//! What a package holds beside the program: manual pages and completion scripts.
//!
//! Syntax, options and defaults come from the definitions that the program itself uses
//! ([`cli::usage`]), other prose from `docs/manual/`.

pub mod manual;
pub mod prose;
pub mod roff;

use std::fs;
use std::path::Path;

use cli::usage::Usage;
use cxidiag::command::completion::{self, SHELLS};
use cxidiag::command::{self, COMMANDS, LEGACY_COMMANDS};
use facts::child::PROGRAM;
use plan::command_line;
use plan::tools::{TOOLS, legacy_form};

/// One subcommand of the program.
pub struct Subcommand {
    /// Its name: `write-lat`.
    pub name: &'static str,
    /// Its name when it is started through a symbolic link.
    pub legacy_name: Option<&'static str>,
    /// What it takes as `cxidiag write-lat`.
    pub usage: Usage,
    /// What it takes under its legacy name.
    pub legacy_usage: Option<Usage>,
}

/// All subcommands, in the order of listings.
pub fn subcommands() -> Vec<Subcommand> {
    let tools = TOOLS.iter().map(|tool| Subcommand {
        name: tool.name,
        legacy_name: Some(tool.legacy_name),
        usage: command_line::usage(tool, &format!("{PROGRAM} {}", tool.name)),
        legacy_usage: Some(command_line::usage(legacy_form(tool), tool.legacy_name)),
    });
    let commands = COMMANDS.iter().map(|command| {
        let mut legacy = LEGACY_COMMANDS.iter();
        let legacy = legacy.find(|legacy| legacy.replaced_by == command.name);
        Subcommand {
            name: command.name,
            legacy_name: legacy.map(|legacy| legacy.command.name),
            usage: (command.usage)(),
            legacy_usage: legacy.map(|legacy| (legacy.command.usage)()),
        }
    });
    tools.chain(commands).collect()
}

/// Returns what the program as a whole takes.
pub fn overview() -> Usage {
    command_line::overview(TOOLS, command::summaries())
}

/// A generated file: its path and its text.
pub type File = (String, String);

/// All files. Their paths begin with `man/`, or with `bash/`, `zsh/` and `fish/` for completion.
/// Shells look for a script by the name of the program: one script serves all names.
///
/// # Errors
///
/// A page without a section that it needs.
pub fn files() -> Result<Vec<File>, String> {
    let mut files = manual::pages()?;
    files.extend(SHELLS.iter().map(|shell| {
        let path = match shell.name() {
            "zsh" => format!("zsh/_{PROGRAM}"),
            "fish" => format!("fish/{PROGRAM}.fish"),
            name => format!("{name}/{PROGRAM}"),
        };
        (path, completion::script(shell, PROGRAM))
    }));
    Ok(files)
}

/// Writes all files below `directory`.
///
/// # Errors
///
/// A page without a section that it needs, or a file that cannot be written.
pub fn write(directory: &Path) -> Result<(), String> {
    for (name, text) in files()? {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
