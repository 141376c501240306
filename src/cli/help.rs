//! Help and version texts, made from the registry and the option definitions.

use super::options::{self, OptionDef};
use crate::atomic;
use crate::tool::{Opt, Tool};

/// Column at which the explanation of an option begins.
const EXPLANATION: usize = 26;

/// Help for one tool; `program` is what the user started.
pub fn usage(tool: &Tool, program: &str) -> String {
    let mut text = format!("{}\n\nUsage:\n", tool.about);
    text += &entry(
        &format!("{program} [-d DEV] [-p PORT]"),
        "Start a server and wait for a client",
    );
    text += &entry(
        &format!("{program} ADDR [OPTIONS]"),
        "Connect to the server at ADDR and measure",
    );
    if tool.takes(Opt::Loopback) {
        text += &entry(
            &format!("{program} --loopback [OPTIONS]"),
            "Run both sides on this machine and measure",
        );
    }
    text += "\nOptions:\n";
    for option in options::of(tool) {
        text += &entry(&syntax(option), &(option.help)(tool));
    }
    text += &entry("-h, --help", "Print this help and exit");
    text += &entry("-V, --version", "Print the version and exit");
    if tool.takes(Opt::AtomicOp) {
        text += &names("Atomic operations", &atomic::list(&atomic::OPS));
        text += &names("Comparisons of CSWAP", &atomic::list(&atomic::CSWAP_OPS));
        text += &names("Atomic types", &atomic::list(&atomic::TYPES));
    }
    if tool.defaults.lists.is_some() {
        text += "\nA list counts when the peer's NIC has acknowledged it. The time of a side ends\nwith its last list or answer, not with the barrier behind.\n";
    }
    text += "\nThe options of the client decide how both sides run.\n";
    text
}

/// Help for the program as a whole; `commands` are names and what each does.
pub fn overview(
    tools: &[Tool],
    commands: impl Iterator<Item = (&'static str, &'static str)>,
) -> String {
    let mut text = String::from(
        "Latency and bandwidth diagnostics for HPE Slingshot NICs\n\nUsage:\n  cxidiag TOOL [ADDR] [OPTIONS]\n  cxidiag COMMAND [ARGUMENTS]\n\nTools:\n",
    );
    for tool in tools {
        text += &entry(
            tool.name,
            &format!(
                "{}\n(also when started as {})",
                tool.about, tool.legacy_name
            ),
        );
    }
    text += "\nCommands:\n";
    for (name, about) in commands {
        text += &entry(name, about);
    }
    text += "\nOptions:\n";
    text += &entry(
        "-h, --help",
        "Print this help and exit; after a tool or command, its\nhelp",
    );
    text += &entry("-V, --version", "Print the version and exit");
    text += &entry(
        "    --list",
        "Print each tool with its legacy name and exit",
    );
    text
}

/// Each tool with its legacy name, for scripts: what a package makes its symlinks from.
pub fn list(tools: &[Tool]) -> String {
    tools
        .iter()
        .map(|tool| format!("{} {}\n", tool.name, tool.legacy_name))
        .collect()
}

/// Version of one tool. Under a legacy name it is the version of the legacy program that it
/// stands in for, which is also what the peer compares.
pub fn tool_version(tool: &Tool, program: &str) -> String {
    let version = if program == tool.legacy_name {
        tool.wire_version
    } else {
        env!("CARGO_PKG_VERSION")
    };
    format!("{program} version: {version}\n")
}

/// Version of the program, with the build facts of `build.rs` as far as they are known.
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

/// A list of names under its title, in lines that fit.
fn names(title: &str, list: &str) -> String {
    let mut text = format!("\n{title}:\n ");
    let mut width = 1;
    for name in list.split_inclusive(' ') {
        let name = name.trim_end();
        if width + 1 + name.len() > 78 {
            text += "\n ";
            width = 1;
        }
        text += " ";
        text += name;
        width += 1 + name.len();
    }
    text + "\n"
}

fn syntax(option: &OptionDef) -> String {
    let short = option
        .short
        .map_or("    ".into(), |letter| format!("-{letter}, "));
    let value = match option.value {
        None => String::new(),
        // The sign goes with the value where both may be left out.
        Some(name) if option.value_is_optional() => name.replacen('[', "[=", 1),
        Some(name) => format!("={name}"),
    };
    format!("{short}--{}{value}", option.long)
}

/// One entry of a list: what it is about, then its explanation at a column of its own; on a line
/// of its own where the former leaves no room.
pub fn entry(subject: &str, explanation: &str) -> String {
    let mut text = format!("  {subject}");
    let mut lines = explanation.lines();
    if text.len() + 2 <= EXPLANATION
        && let Some(first) = lines.next()
    {
        text = format!("{text:EXPLANATION$}{first}");
    }
    text.push('\n');
    for line in lines {
        text += &format!("{:EXPLANATION$}{line}\n", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{self, COMMANDS};
    use crate::tools::TOOLS;

    #[test]
    fn help_fits_80_columns() {
        let texts = TOOLS
            .iter()
            .map(|tool| usage(tool, &format!("cxidiag {}", tool.name)));
        let commands = COMMANDS.iter().map(|command| (command.help)());
        for text in texts
            .chain(commands)
            .chain([overview(TOOLS, command::summaries())])
        {
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert_eq!(line, line.trim_end());
            }
        }
    }

    #[test]
    fn every_option_is_listed_with_its_explanation() {
        for tool in TOOLS {
            let text = usage(tool, tool.legacy_name);
            let (_, list) = text.split_once("\nOptions:\n").unwrap();
            for option in options::of(tool) {
                let explanation = (option.help)(tool);
                let first = explanation.lines().next().unwrap();
                // On the same line, or on the next where there is no room.
                let mut lines = list
                    .lines()
                    .skip_while(|line| !line.starts_with(&format!("  {}", syntax(option))));
                let line = lines.next().unwrap();
                let line = match line.contains(first) {
                    true => line,
                    false => lines.next().unwrap(),
                };
                assert_eq!(line.find(first), Some(EXPLANATION), "{line}");
            }
        }
    }

    #[test]
    fn versions() {
        let tool = &TOOLS[0];
        let legacy = format!("{} version: {}\n", tool.legacy_name, tool.wire_version);
        assert_eq!(tool_version(tool, tool.legacy_name), legacy);
        let ours = format!(
            "cxidiag {0} version: {1}\n",
            tool.name,
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(tool_version(tool, &format!("cxidiag {}", tool.name)), ours);
    }
}
