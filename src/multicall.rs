//! `argv[0]` or first argument -> tool or command. The registries are arguments.
//!
//! Started under the legacy name of a tool (a symlink `cxi_write_lat`) the program is that tool;
//! under any other name its first argument names the tool, also in the spelling of a legacy name.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::command::{Command, LEGACY_COMMANDS, legacy_command};
use cli::parser::{nearest, question, unknown_option};
use facts::child::PROGRAM;
use facts::error::Failure;
use plan::tool::Tool;
use plan::tools::legacy_form;

/// Beginning of all legacy names; a program started as `cxi_...` must be one of the tools.
const LEGACY: &str = "cxi_";

/// Words in place of a tool or command that need no help of their own.
const OWN_WORDS: [&str; 4] = ["help", "version", "-h", "--help"];

/// What the user has requested.
#[derive(Debug)]
pub enum Call {
    /// Help for the program as a whole.
    Help,
    /// Version of the program.
    Version,
    /// List of the tools.
    List,
    Command {
        /// Its definition.
        command: &'static Command,
        /// Name of the program for messages: `cxidiag compare`.
        program: String,
        /// The arguments after that.
        arguments: Vec<OsString>,
    },
    Tool {
        /// Its definition.
        tool: &'static Tool,
        /// Name of the program for messages: `cxidiag write-lat` or `cxi_write_lat`.
        program: String,
        /// The arguments after that.
        arguments: Vec<OsString>,
    },
}

/// The tool or command for `argv`.
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
    let name = &*program_name(&started, tools);
    if let Some(tool) = tools.iter().find(|tool| tool.legacy_name == name) {
        let tool = legacy_form(tool);
        return Ok(Call::Tool { tool, program: name.to_owned(), arguments: argv.collect() });
    }
    if let Some(command) = legacy_command(name) {
        let arguments = argv.collect();
        return Ok(Call::Command { command, program: name.to_owned(), arguments });
    }
    if name.starts_with(LEGACY) {
        let names = legacy_names(tools);
        // The prefix that all have does not make two names alike.
        let own = |name: &'static str| name.trim_start_matches(LEGACY);
        let near = nearest(name.trim_start_matches(LEGACY), names.clone().map(own));
        let message = if near.is_empty() {
            let names: Vec<&str> = names.collect();
            format!("no tool has this name; the tools are {}", names.join(", "))
        } else {
            let near: Vec<String> = near.iter().map(|name| format!("{LEGACY}{name}")).collect();
            format!("no tool has this name: {}", question(&near))
        };
        return Err((name.to_owned(), Failure::usage(message)));
    }
    let refused = |message| (PROGRAM.to_owned(), Failure::usage(message));
    let Some(first) = argv.next() else {
        return Ok(Call::Help);
    };
    let call = match first.to_str() {
        Some("-V" | "--version" | "version") => Call::Version,
        Some("--list") => Call::List,
        Some("help" | "-h" | "--help") => match argv.next() {
            None => Call::Help,
            Some(subject) if OWN_WORDS.iter().any(|own| subject == *own) => Call::Help,
            Some(subject) => {
                named(&subject, vec!["--help".into()], tools, commands).map_err(refused)?
            }
        },
        Some(option) if option.starts_with('-') => {
            return Err(refused(unknown_option(option, ["help", "version", "list"])));
        }
        _ => return named(&first, argv.collect(), tools, commands).map_err(refused),
    };
    match argv.next() {
        None => Ok(call),
        Some(asked) if asked == "-h" || asked == "--help" => Ok(Call::Help),
        Some(surplus) => Err(refused(format!("unexpected argument '{}'", surplus.display()))),
    }
}

/// The legacy name that the file name of a program contains as a word: build tools and package
/// managers add to it, as in `lt-cxi_write_lat`, `cxi_write_lat.distrib` and
/// `.cxi_write_lat-wrapped`. Otherwise the first word that begins as legacy names do, or the file
/// name.
pub fn program_name(started: &OsStr, tools: &[Tool]) -> String {
    let name = Path::new(started).file_name().unwrap_or_default().to_string_lossy();
    let is_word = |legacy: &&str| {
        let mut around = name.match_indices(legacy).map(|(at, _)| (&name[..at], &name[at..]));
        around.any(|(before, rest)| {
            let after = &rest[legacy.len()..];
            !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
        })
    };
    let mut words = name.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let found = legacy_names(tools).find(is_word);
    found.or_else(|| words.find(|word| word.starts_with(LEGACY))).unwrap_or(&name).to_owned()
}

/// The names of all programs that tools and commands replace.
fn legacy_names(tools: &[Tool]) -> impl Iterator<Item = &'static str> + Clone {
    let names = tools.iter().map(|tool| tool.legacy_name);
    names.chain(LEGACY_COMMANDS.iter().map(|legacy| legacy.command.name))
}

/// The tool or command with this name, with `arguments`. A tool may be called by its legacy name,
/// and a hyphen may be an underscore.
///
/// # Errors
///
/// An unknown name.
fn named(
    typed: &OsStr,
    arguments: Vec<OsString>,
    tools: &'static [Tool],
    commands: &'static [Command],
) -> Result<Call, String> {
    let text = typed.to_string_lossy();
    let name = text.strip_prefix(LEGACY).unwrap_or(&text).replace('_', "-").to_lowercase();
    if let Some(command) = commands.iter().find(|command| command.name == text) {
        return Ok(Call::Command {
            command,
            program: format!("{PROGRAM} {}", command.name),
            arguments,
        });
    }
    if let Some(command) = legacy_command(&text) {
        return Ok(Call::Command { command, program: command.name.to_owned(), arguments });
    }
    if let Some(tool) =
        tools.iter().find(|tool| tool.legacy_name == text || tool.name == text.replace('_', "-"))
    {
        let (tool, name) = match legacy_form(tool) {
            // The legacy name decides about the options.
            form if !std::ptr::eq(form, tool) && tool.legacy_name == text => {
                (form, tool.legacy_name)
            }
            _ => (tool, tool.name),
        };
        return Ok(Call::Tool { tool, program: format!("{PROGRAM} {name}"), arguments });
    }
    let tools = tools.iter().map(|tool| tool.name);
    let names = tools.chain(commands.iter().map(|command| command.name)).chain(["help", "version"]);
    Err(match nearest(&name, names.clone()) {
        near if near.is_empty() => {
            let names: Vec<&str> = names.collect();
            format!("unknown tool or command '{text}'; there are {}", names.join(", "))
        }
        near => {
            format!("unknown tool or command '{text}': {} (see {PROGRAM} --help)", question(&near))
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::command::COMMANDS;
    use plan::tools::{TOOLS, has_one_status};

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
            for argv in
                [&["/usr/bin/cxidiag", tool.name, "-n", "5"][..], &[tool.legacy_name, "-n", "5"]]
            {
                let Ok(Call::Tool { tool: found, program, arguments }) = call(argv) else {
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
    fn finds_legacy_name_as_word_of_longer_name() {
        let around = [
            ("lt-", ""),
            (".", "-wrapped"),
            (".", "-wrapped_"),
            (".", "-real"),
            ("", ".distrib"),
            ("", ".dpkg-dist"),
            ("", ".real"),
            ("", "_real"),
            ("", "-2.0.0"),
            ("", ".bin"),
            ("", "~"),
            ("-", ""),
            ("my_", ""),
            ("été-", "-été"),
        ];
        for (before, after) in around {
            for tool in TOOLS {
                let name = format!("/gnu/store/x/bin/{before}{}{after}", tool.legacy_name);
                let Ok(Call::Tool { tool: found, program, .. }) = call(&[&name]) else {
                    panic!("{name}");
                };
                assert_eq!((found.name, &*program), (tool.name, tool.legacy_name), "{name}");
            }
            for legacy in LEGACY_COMMANDS {
                let name = format!("/x/{before}{}{after}", legacy.command.name);
                let Ok(Call::Command { command, program, .. }) = call(&[&name, "-l"]) else {
                    panic!("{name}");
                };
                assert_eq!((command.name, &*program), (legacy.command.name, command.name));
            }
        }
        for name in ["/x/.cxi_write_lot-wrapped", "/x/lt-cxi_write_lot"] {
            let (program, message) = refusal(&[name, "10.1.1.8"]);
            assert_eq!(program, "cxi_write_lot");
            assert!(message.starts_with("no tool has this name"), "{message}");
        }
        for name in [".cxidiag-wrapped", "lt-cxidiag", "cxidiag.distrib", "xcxi_write_lat"] {
            assert!(matches!(call(&[name, "version"]), Ok(Call::Version)), "{name}");
        }
    }

    #[test]
    fn finds_programs_that_commands_replace_by_their_names() {
        for legacy in LEGACY_COMMANDS {
            let name = legacy.command.name;
            assert!(COMMANDS.iter().any(|command| command.name == legacy.replaced_by));
            for argv in [&[&*format!("/opt/bin/{name}"), "-l"][..], &["cxidiag", name, "-l"]] {
                let Ok(Call::Command { command, program, arguments }) = call(argv) else {
                    panic!("{argv:?}");
                };
                assert_eq!((command.name, &*program), (name, name));
                assert_eq!(arguments, ["-l"]);
            }
        }
        let (program, message) = refusal(&["/opt/cxi_stats"]);
        assert_eq!(
            (&*program, &*message),
            ("cxi_stats", "no tool has this name: did you mean cxi_stat?",)
        );
    }

    #[test]
    fn finds_each_command() {
        for command in COMMANDS {
            let Ok(Call::Command { command: found, program, arguments }) =
                call(&["cxidiag", command.name, "-h"])
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
        assert!(matches!(call(&["cxidiag-0.1", TOOLS[0].name]), Ok(Call::Tool { .. })));
    }

    #[test]
    fn finds_help_version_and_list() {
        assert!(matches!(call(&["cxidiag"]), Ok(Call::Help)));
        assert!(matches!(call(&[]), Ok(Call::Help)));
        assert!(matches!(call(&["cxidiag", "--help"]), Ok(Call::Help)));
        assert!(matches!(call(&["cxidiag", "-V"]), Ok(Call::Version)));
        assert!(matches!(call(&["cxidiag", "version"]), Ok(Call::Version)));
        assert!(matches!(call(&["cxidiag", "--list"]), Ok(Call::List)));
    }

    #[test]
    fn finds_tool_by_spelling_of_legacy_name() {
        for tool in TOOLS {
            for name in [tool.legacy_name, &tool.name.replace('-', "_")] {
                let Ok(Call::Tool { tool: found, program, .. }) = call(&["cxidiag", name]) else {
                    panic!("{name}");
                };
                assert_eq!(found.name, tool.name);
                // The options of `loopback-bw` depend on the name.
                let is_legacy = !tool.has_peer() && name == tool.legacy_name;
                let shown = if is_legacy { tool.legacy_name } else { tool.name };
                assert_eq!(program, format!("cxidiag {shown}"));
                assert_eq!(has_one_status(found), is_legacy);
            }
        }
    }

    #[test]
    fn finds_help_of_tool_or_command() {
        for subject in [TOOLS[0].name, TOOLS[0].legacy_name, COMMANDS[0].name] {
            let found = call(&["cxidiag", "help", subject]);
            let (Ok(Call::Tool { arguments, .. }) | Ok(Call::Command { arguments, .. })) = found
            else {
                panic!("{subject}");
            };
            assert_eq!(arguments, ["--help"]);
        }
        assert!(matches!(call(&["cxidiag", "help"]), Ok(Call::Help)));
        assert!(matches!(call(&["cxidiag", "help", "help"]), Ok(Call::Help)));
        assert!(refusal(&["cxidiag", "help", "nothing"]).1.contains("'nothing'"));
    }

    #[test]
    fn suggests_names_near_unknown_name() {
        for (typed, message) in [
            (
                "write-lot",
                "unknown tool or command 'write-lot': did you mean write-lat or write-bw? (see cxidiag --help)",
            ),
            (
                "divices",
                "unknown tool or command 'divices': did you mean devices? (see cxidiag --help)",
            ),
            ("--verison", "unknown option '--verison': did you mean --version? (see --help)"),
        ] {
            assert_eq!(refusal(&["cxidiag", typed]), ("cxidiag".into(), message.into()));
        }
        let (program, message) = refusal(&["/opt/cxi_write_lot", "10.1.1.8"]);
        assert_eq!(program, "cxi_write_lot");
        assert!(message.ends_with("did you mean cxi_write_lat or cxi_write_bw?"), "{message}");
    }

    #[test]
    fn lists_valid_names_if_none_is_near() {
        let (_, message) = refusal(&["cxidiag", "xyzzy"]);
        for part in ["'xyzzy'", TOOLS[0].name, COMMANDS[0].name] {
            assert!(message.contains(part), "{message}");
        }
        let (_, message) = refusal(&["/opt/cxi_ping"]);
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
