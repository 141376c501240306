//! What a package holds beside the program, made from its help texts and `docs/manual/`.

pub mod completion;
pub mod manual;
pub mod prose;
pub mod roff;
pub mod usage;

use std::fs;
use std::path::Path;

use cxidiag::cli::help;
use cxidiag::command::{self, COMMANDS};
use cxidiag::tool::PROGRAM;
use cxidiag::tools::TOOLS;
use usage::Usage;

/// One subcommand of the program, with what its help says.
pub struct Subcommand {
    /// Its name: `write-lat`.
    pub name: &'static str,
    /// The name that it has when started through a symlink.
    pub legacy_name: Option<&'static str>,
    /// Its help as `cxidiag write-lat`.
    pub usage: Usage,
    /// Its help under its legacy name.
    pub legacy_usage: Option<Usage>,
    /// What it takes beside options.
    pub arguments: Arguments,
}

/// What stands on a command line that is no option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// The server.
    Host,
    /// Devices.
    Devices,
    /// Files.
    Files,
}

/// All subcommands, in the order of listings.
pub fn subcommands() -> Vec<Subcommand> {
    let tools = TOOLS.iter().map(|tool| Subcommand {
        name: tool.name,
        legacy_name: Some(tool.legacy_name),
        usage: Usage::read(&help::usage(tool, &format!("{PROGRAM} {}", tool.name))),
        legacy_usage: Some(Usage::read(&help::usage(tool, tool.legacy_name))),
        arguments: Arguments::Host,
    });
    let commands = COMMANDS.iter().map(|command| Subcommand {
        name: command.name,
        legacy_name: None,
        usage: Usage::read(&(command.help)()),
        legacy_usage: None,
        arguments: match command.name {
            "devices" => Arguments::Devices,
            _ => Arguments::Files,
        },
    });
    tools.chain(commands).collect()
}

/// The help of the program as a whole.
pub fn overview() -> Usage {
    Usage::read(&help::overview(TOOLS, command::summaries()))
}

/// A file to be made: its path, and its text.
pub type File = (String, String);

/// All files. Their paths begin with `man/`, or `bash/`, `zsh/` and `fish/` for completion.
pub fn files() -> Result<Vec<File>, String> {
    let mut files = manual::pages()?;
    files.extend(completion::scripts());
    Ok(files)
}

/// Writes all files below `directory`.
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
