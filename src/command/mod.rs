//! Commands, the subcommands that measure no transaction: one entry for each. Each is a package.

pub mod completion;

use std::ffi::OsString;

use cli::usage::{Subcommand, Usage};
use facts::error::Failure;

/// A subcommand that is not a tool. It has no peer.
#[derive(Debug)]
pub struct Command {
    /// Its name as a subcommand of `cxidiag`: `compare`.
    pub name: &'static str,
    /// What it takes.
    pub usage: fn() -> Usage,
    /// Runs it with the arguments after its name.
    pub run: fn(Vec<OsString>) -> Result<(), Failure>,
}

/// The commands, as the help of the program lists them.
pub fn summaries() -> impl Iterator<Item = Subcommand> {
    COMMANDS.iter().map(|command| {
        let mut legacy = LEGACY_COMMANDS.iter();
        let legacy = legacy.find(|legacy| legacy.replaced_by == command.name);
        Subcommand {
            name: command.name,
            about: (command.usage)().about,
            legacy_name: legacy.map(|legacy| legacy.command.name),
        }
    })
}

/// The name of the command that runs another program.
const STAT: &str = "stat";

/// Whether a command with these arguments runs another program.
pub fn runs_a_program(command: &Command, arguments: &[OsString]) -> bool {
    command.name == STAT && cli::arguments::parts(arguments).1.is_some()
}

/// All commands, in the order of listings.
pub static COMMANDS: &[Command] = &[
    Command { name: "devices", usage: devices::command::usage, run: devices::command::run },
    Command { name: "ping", usage: ping::command::usage, run: ping::command::run },
    Command { name: "link", usage: link::usage, run: link::run },
    Command { name: "check", usage: check::usage, run: check::run },
    Command { name: "selftest", usage: selftest::usage, run: selftest::run },
    Command { name: "survey", usage: survey::usage, run: survey::run },
    Command { name: "why", usage: survey::why_command::usage, run: survey::why_command::run },
    Command { name: "explain", usage: explain::usage, run: explain::run },
    Command { name: STAT, usage: stat::usage, run: stat::run },
    Command { name: "compare", usage: compare::command::usage, run: compare::command::run },
    Command { name: "report", usage: compare::report::usage, run: compare::report::run },
    Command { name: "serve", usage: serve::usage, run: serve::run },
    Command { name: "completion", usage: completion::usage, run: completion::run },
];

/// A program that a command replaces. Under its name it has the options and the text of that
/// program.
#[derive(Debug)]
pub struct LegacyCommand {
    /// The command.
    pub replaced_by: &'static str,
    /// The program, by its own name.
    pub command: Command,
}

/// All programs that commands replace.
pub static LEGACY_COMMANDS: &[LegacyCommand] = &[
    LegacyCommand {
        replaced_by: "link",
        command: Command {
            name: link::cxi_stat::NAME,
            usage: link::cxi_stat::usage,
            run: link::cxi_stat::run,
        },
    },
    LegacyCommand {
        replaced_by: "check",
        command: Command {
            name: check::cxi_heatsink_check::NAME,
            usage: check::cxi_heatsink_check::usage,
            run: check::cxi_heatsink_check::run,
        },
    },
];

/// The program of this name that a command replaces.
pub fn legacy_command(name: &str) -> Option<&'static Command> {
    let mut commands = LEGACY_COMMANDS.iter().map(|legacy| &legacy.command);
    commands.find(|command| command.name == name)
}

#[cfg(test)]
mod tests {
    use cli::usage::testing::check_help;
    use plan::command_line::overview;
    use plan::tools::TOOLS;

    use super::*;

    #[test]
    fn help_fits_and_explains_each_option() {
        let legacy = LEGACY_COMMANDS.iter().map(|legacy| &legacy.command);
        for command in COMMANDS.iter().chain(legacy) {
            check_help(&(command.usage)());
        }
        check_help(&overview(TOOLS, summaries()));
    }

    #[test]
    fn commands_with_a_verdict_may_be_quiet() {
        for name in ["check", "compare", "link", "ping", "selftest", "stat", "survey", "why"] {
            let command = COMMANDS.iter().find(|command| command.name == name).expect(name);
            let options = (command.usage)().options;
            let quiet = options.iter().find(|option| option.long == "quiet").expect(name);
            assert_eq!(quiet.short, Some('q'), "{name}");
        }
    }
}
