//! What the program and each tool take, and their versions, from the registry and the option
//! definitions.

use super::options;
use super::usage::{Completion, Entry, Subcommand, Usage};
use crate::atomic;
use crate::tool::{Opt, Tool};

/// Returns what `tool` takes; `program` is the name that the user started.
pub fn usage(tool: &Tool, program: &str) -> Usage {
    let mut synopsis = vec![
        (
            format!("{program} [-d DEV] [-p PORT]"),
            "Start a server and wait for a client",
        ),
        (
            format!("{program} ADDR [OPTIONS]"),
            "Connect to the server at ADDR and measure",
        ),
    ];
    if tool.takes(Opt::Loopback) {
        synopsis.push((
            format!("{program} --loopback [OPTIONS]"),
            "Run both sides on this machine and measure",
        ));
    }
    let mut options: Vec<Entry> = options::of(tool).map(|option| option.entry(tool)).collect();
    options.extend([Entry::help(), Entry::version()]);
    let mut words = Vec::new();
    if tool.takes(Opt::AtomicOp) {
        words = vec![
            ("Atomic operations", atomic::list(&atomic::OPS)),
            ("Comparisons of CSWAP", atomic::list(&atomic::CSWAP_OPS)),
            ("Atomic types", atomic::list(&atomic::TYPES)),
        ];
    }
    let mut remarks = Vec::new();
    if tool.measures_bandwidth() {
        remarks.push(
            "A list counts when it is complete. The time of a side ends with its last list or\n\
             reply; the final barrier is not counted.",
        );
    }
    remarks.push("The client's options apply to both sides.");
    Usage {
        about: tool.about,
        synopsis,
        arguments: Completion::Hosts,
        options,
        words,
        remarks,
        ..Usage::default()
    }
}

/// Returns what the program takes; `commands` are names and what each does.
pub fn overview(
    tools: &[Tool],
    commands: impl Iterator<Item = (&'static str, &'static str)>,
) -> Usage {
    let tools = tools.iter().map(|tool| Subcommand {
        name: tool.name,
        about: tool.about,
        legacy_name: Some(tool.legacy_name),
    });
    let commands = commands.map(|(name, about)| Subcommand {
        name,
        about,
        legacy_name: None,
    });
    Usage {
        about: "Latency and bandwidth diagnostics for HPE Slingshot NICs",
        synopsis: vec![
            ("cxidiag TOOL [ADDR] [OPTIONS]".into(), ""),
            ("cxidiag COMMAND [ARGUMENTS]".into(), ""),
        ],
        subcommands: vec![("Tools", tools.collect()), ("Commands", commands.collect())],
        options: vec![
            Entry {
                help: "Print this help and exit; after a tool or command,\nprint its help".into(),
                ..Entry::help()
            },
            Entry::version(),
            Entry {
                short: None,
                long: "list",
                value: None,
                help: "Print each tool with its legacy name and exit".into(),
                manual: "Print each tool with its legacy name, one on a line, and exit.",
            },
        ],
        ..Usage::default()
    }
}

/// Returns each tool with its legacy name, one on a line. Packages make symbolic links from it.
pub fn list(tools: &[Tool]) -> String {
    tools
        .iter()
        .map(|tool| format!("{} {}\n", tool.name, tool.legacy_name))
        .collect()
}

/// Returns the version of a tool. Under a legacy name it is the version of the legacy program,
/// which the peer compares as well.
pub fn tool_version(tool: &Tool, program: &str) -> String {
    let version = if program == tool.legacy_name {
        tool.wire_version
    } else {
        env!("CARGO_PKG_VERSION")
    };
    format!("{program} version: {version}\n")
}

/// Returns the version of the program, with revision and date if `build.rs` found them.
pub fn version() -> String {
    let facts: Vec<&str> = [option_env!("CXIDIAG_REVISION"), option_env!("CXIDIAG_DATE")]
        .into_iter()
        .flatten()
        .collect();
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!(" ({})", facts.join(", "))
    };
    format!("cxidiag version: {}{facts}\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::super::usage::EXPLANATION;
    use super::*;
    use crate::command::{self, COMMANDS};
    use crate::tools::TOOLS;

    #[test]
    fn fits_help_into_80_columns() {
        let tools = TOOLS
            .iter()
            .map(|tool| usage(tool, &format!("cxidiag {}", tool.name)));
        let commands = COMMANDS.iter().map(|command| (command.usage)());
        let program = overview(TOOLS, command::summaries());
        for usage in tools.chain(commands).chain([program]) {
            for line in usage.to_string().lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert_eq!(line, line.trim_end());
            }
        }
    }

    #[test]
    fn lists_each_option_with_its_explanation() {
        for tool in TOOLS {
            let usage = usage(tool, tool.legacy_name);
            let text = usage.to_string();
            let (_, list) = text.split_once("\nOptions:\n").unwrap();
            for option in &usage.options {
                let first = option.help.lines().next().unwrap();
                // The explanation begins on the same line, or on the next one if it does not fit.
                let mut lines = list
                    .lines()
                    .skip_while(|line| !line.starts_with(&format!("  {}", option.syntax())));
                let line = lines.next().unwrap();
                let line = if line.contains(first) {
                    line
                } else {
                    lines.next().unwrap()
                };
                assert_eq!(line.find(first), Some(EXPLANATION), "{line}");
            }
        }
    }

    #[test]
    fn shows_legacy_version_under_legacy_name() {
        let tool = &TOOLS[0];
        let legacy = format!("{} version: {}\n", tool.legacy_name, tool.wire_version);
        assert_eq!(tool_version(tool, tool.legacy_name), legacy);
        let own = format!(
            "cxidiag {0} version: {1}\n",
            tool.name,
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(tool_version(tool, &format!("cxidiag {}", tool.name)), own);
    }
}
