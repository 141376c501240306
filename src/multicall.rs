//! `argv[0]` or first argument -> tool or command. The registries are arguments.
//!
//! Started under the legacy name of a tool (a symlink `cxi_write_lat`) the program is that tool;
//! under any other name its first argument names the tool.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::command::Command;
use crate::error::Failure;
use crate::tool::{PROGRAM, Tool};

/// Beginning of all legacy names; a program started as `cxi_...` must be one of the tools.
const LEGACY: &str = "cxi_";

/// What the user has requested.
#[derive(Debug)]
pub enum Call {
    /// Help for the program as a whole.
    Help,
    /// Version of the program.
    Version,
    /// List of the tools.
    List,
    /// A command.
    Command {
        /// Its definition.
        command: &'static Command,
        /// Name of the program for messages: `cxidiag compare`.
        program: String,
        /// The arguments after that.
        arguments: Vec<OsString>,
    },
    /// A tool.
    Tool {
        /// Its definition.
        tool: &'static Tool,
        /// Name of the program for messages: `cxidiag write-lat` or `cxi_write_lat`.
        program: String,
        /// The arguments after that.
        arguments: Vec<OsString>,
    },
}

/// Returns the tool or command for `argv`.
///
/// # Errors
///
/// An unknown name, with the name of the program for the message.
pub fn resolve(
    argv: impl IntoIterator<Item = OsString>,
    tools: &'static [Tool],
    commands: &'static [Command],
) -> Result<Call, (String, Failure)> {
    let mut argv = argv.into_iter();
    let started = argv.next().unwrap_or_default();
    let name = Path::new(&started)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    if let Some(tool) = tools.iter().find(|tool| tool.legacy_name == name) {
        return Ok(Call::Tool {
            tool,
            program: name.into_owned(),
            arguments: argv.collect(),
        });
    }
    if name.starts_with(LEGACY) {
        let names = names(tools, |tool| tool.legacy_name);
        let message = format!("no tool has this name; the tools are {names}");
        return Err((name.into_owned(), Failure::usage(message)));
    }
    let Some(first) = argv.next() else {
        return Ok(Call::Help);
    };
    let complain = |message| Err((PROGRAM.to_owned(), Failure::usage(message)));
    let call = match first.to_str() {
        Some("-h" | "--help") => Call::Help,
        Some("-V" | "--version") => Call::Version,
        Some("--list") => Call::List,
        Some(option) if option.starts_with('-') => {
            return complain(format!("unknown option '{option}' (see {PROGRAM} --help)"));
        }
        _ => {
            let is_named = |command: &&Command| OsStr::new(command.name) == first;
            if let Some(command) = commands.iter().find(is_named) {
                return Ok(Call::Command {
                    command,
                    program: format!("{PROGRAM} {}", command.name),
                    arguments: argv.collect(),
                });
            }
            let Some(tool) = tools.iter().find(|tool| OsStr::new(tool.name) == first) else {
                let names = [
                    names(tools, |tool| tool.name),
                    names(commands, |command| command.name),
                ]
                .join(", ");
                return complain(format!(
                    "unknown tool '{}'; the tools are {names}",
                    first.display()
                ));
            };
            let program = format!("{PROGRAM} {}", tool.name);
            return Ok(Call::Tool {
                tool,
                program,
                arguments: argv.collect(),
            });
        }
    };
    match argv.next() {
        None => Ok(call),
        Some(surplus) => complain(format!("unexpected argument '{}'", surplus.display())),
    }
}

fn names<T>(list: &[T], name: impl Fn(&T) -> &'static str) -> String {
    list.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::COMMANDS;
    use crate::tools::TOOLS;

    fn call(argv: &[&str]) -> Result<Call, (String, Failure)> {
        resolve(argv.iter().map(OsString::from), TOOLS, COMMANDS)
    }

    fn refusal(argv: &[&str]) -> (String, String) {
        let (program, failure) = call(argv).unwrap_err();
        (program, failure.message())
    }

    #[test]
    fn finds_each_tool_by_both_names() {
        for tool in TOOLS {
            for argv in [
                &["/usr/bin/cxidiag", tool.name, "-n", "5"][..],
                &[tool.legacy_name, "-n", "5"],
            ] {
                let Ok(Call::Tool {
                    tool: found,
                    program,
                    arguments,
                }) = call(argv)
                else {
                    panic!("{argv:?}");
                };
                assert_eq!(found.name, tool.name);
                assert_eq!(arguments, ["-n", "5"]);
                let words = if argv.len() == 4 {
                    format!("cxidiag {}", tool.name)
                } else {
                    tool.legacy_name.into()
                };
                assert_eq!(program, words);
            }
        }
    }

    #[test]
    fn finds_each_command() {
        for command in COMMANDS {
            let Ok(Call::Command {
                command: found,
                program,
                arguments,
            }) = call(&["cxidiag", command.name, "-h"])
            else {
                panic!("{}", command.name);
            };
            assert_eq!(found.name, command.name);
            assert_eq!(program, format!("cxidiag {}", command.name));
            assert_eq!(arguments, ["-h"]);
        }
    }

    #[test]
    fn ignores_directory_of_program() {
        let path = format!("./some/where/{}", TOOLS[0].legacy_name);
        assert!(matches!(call(&[&path, "--help"]), Ok(Call::Tool { .. })));
    }

    #[test]
    fn renamed_program_uses_first_argument() {
        assert!(matches!(
            call(&["cxidiag-0.1", TOOLS[0].name]),
            Ok(Call::Tool { .. })
        ));
    }

    #[test]
    fn finds_help_version_and_list() {
        assert!(matches!(call(&["cxidiag"]), Ok(Call::Help)));
        assert!(matches!(call(&[]), Ok(Call::Help)));
        assert!(matches!(call(&["cxidiag", "--help"]), Ok(Call::Help)));
        assert!(matches!(call(&["cxidiag", "-V"]), Ok(Call::Version)));
        assert!(matches!(call(&["cxidiag", "--list"]), Ok(Call::List)));
    }

    #[test]
    fn lists_valid_names_for_unknown_name() {
        let (program, message) = refusal(&["cxidiag", "write-lot"]);
        assert_eq!(program, "cxidiag");
        assert!(
            message.contains("'write-lot'")
                && message.contains(TOOLS[0].name)
                && message.contains(COMMANDS[0].name),
            "{message}"
        );
        let (program, message) = refusal(&["/opt/cxi_write_lot", "10.1.1.8"]);
        assert_eq!(program, "cxi_write_lot");
        assert!(message.contains(TOOLS[0].legacy_name), "{message}");
    }

    #[test]
    fn refuses_extra_arguments() {
        assert!(refusal(&["cxidiag", "--foo"]).1.contains("'--foo'"));
        assert!(refusal(&["cxidiag", "-V", "now"]).1.contains("'now'"));
    }

    proptest! {
        #[test]
        fn accepts_any_argv_without_panic(argv in prop::collection::vec("\\PC{0,12}", 0..4)) {
            let _ = resolve(argv.into_iter().map(OsString::from), TOOLS, COMMANDS);
        }
    }
}
