//! What the program and each tool take, and their versions, from the registry and the option
//! definitions.

use crate::options;
use crate::tool::Tool;
use crate::tools::has_one_status;
use cli::usage::{Completion, Entry, Subcommand, Usage};
use facts::atomic;
use facts::child::PROGRAM;

/// Returns what `tool` takes; `program` is the name that the user started.
pub fn usage(tool: &Tool, program: &str) -> Usage {
    let groups = options::GROUPS.iter().map(|group| {
        let own = group.options.iter().filter(|option| (option.takers)(tool));
        let own: Vec<Entry> = own.map(|option| (option.definition)(tool).entry).collect();
        (group.title, own)
    });
    let groups = groups.filter(|(_, own)| !own.is_empty());
    let frequent = options::of(tool).filter(|(option, _)| option.frequent);
    let frequent = frequent.map(|(_, definition)| definition.entry.long);
    let mut words = Vec::new();
    if !tool.has_data() {
        words = vec![
            ("Atomic operations", atomic::list(&atomic::OPS)),
            ("Comparisons of CSWAP", atomic::list(&atomic::CSWAP_OPS)),
            ("Atomic types", atomic::list(&atomic::TYPES)),
        ];
    }
    Usage {
        program: program.to_owned(),
        about: tool.about,
        synopsis: synopsis(tool, program),
        arguments: if tool.has_peer() { Completion::Hosts } else { Completion::Nothing },
        groups: groups.collect(),
        options: vec![
            Entry {
                text: "Print the most used options (-h) or all (--help)".into(),
                ..Entry::help()
            },
            Entry::version(),
        ],
        frequent: frequent.chain(["help", "version"]).collect(),
        words,
        examples: examples(tool, program),
        statuses: statuses(tool),
        remarks: remarks(tool),
        ..Usage::default()
    }
}

/// Returns the ways to start a tool, and what each does.
fn synopsis(tool: &Tool, program: &str) -> Vec<(String, &'static str)> {
    if tool.has_peer() {
        vec![
            (format!("{program} [-d DEV] [-p PORT]"), "Start a server and wait for a client"),
            (format!("{program} ADDR [OPTIONS]"), "Measure against the server at ADDR"),
            (format!("{program} --loopback [OPTIONS]"), "Run both sides on this machine"),
        ]
    } else {
        vec![
            (format!("{program} [-d DEV] [OPTIONS]"), "Measure one NIC"),
            (format!("{program} --all-nics [OPTIONS]"), "Measure each NIC by itself"),
            (format!("{program} --all-gpus [OPTIONS]"), "Measure each NIC with each GPU"),
        ]
    }
}

/// Returns what a tool measures, in sentences.
fn remarks(tool: &Tool) -> Vec<&'static str> {
    let mut remarks = Vec::new();
    if !tool.has_peer() {
        remarks.push(
            "The NIC writes to itself: the packets go to the switch and come back. All writes\n\
             of a list have the same source and the same target.",
        );
    } else if tool.measures_bandwidth() {
        remarks.push(
            "A list counts when it is complete. The time of a side ends with its last list or\n\
             reply; the final barrier is not counted.",
        );
    }
    if tool.has_peer() {
        remarks.push("The client's options apply to both sides.");
    }
    remarks
}

/// Returns the exit statuses of a tool.
fn statuses(tool: &Tool) -> &'static str {
    if has_one_status(tool) {
        "Exit status: 0 success, 1 invalid arguments or the run failed, 3 an expectation\n\
         (--expect) is not met, 130 interrupted."
    } else if tool.measures_bandwidth() {
        "Exit status: 0 success, 1 the run failed, 2 invalid arguments, 3 an expectation\n\
         (--expect) is not met, 130 interrupted."
    } else {
        "Exit status: 0 success, 1 the run failed, 2 invalid arguments, 3 an expectation\n\
         (--expect) is not met or a median (--until) is unstable, 130 interrupted."
    }
}

/// Returns two commands, and what each does.
fn examples(tool: &Tool, program: &str) -> Vec<(String, String)> {
    if !tool.has_peer() {
        return vec![
            (
                format!("{program} -d soft0"),
                "Measures on the software NIC: needs no hardware".into(),
            ),
            (
                format!("{program} --all-nics -D 5 --json=nics.json"),
                "Measures each NIC of this machine for 5 seconds".into(),
            ),
        ];
    }
    let options = match (tool.measures_bandwidth(), tool.has_data()) {
        (true, true) => "-b -D 5 -s 1024:65536",
        (true, false) => "-b -D 5",
        (false, true) => "-D 1 -s 1:4096",
        (false, false) => "-D 1 -A CSWAP -T UINT64",
    };
    vec![
        (
            format!("{program} --loopback -d soft0"),
            "Measures on this machine, on the software NIC: needs no hardware".into(),
        ),
        (
            format!("{program} node1 {options}"),
            format!("Measures against node1, on which \"{program}\" is the server"),
        ),
    ]
}

/// Returns what the program takes.
pub fn overview(tools: &[Tool], commands: impl Iterator<Item = Subcommand>) -> Usage {
    let tools = tools.iter().map(|tool| Subcommand {
        name: tool.name,
        about: tool.about,
        legacy_name: Some(tool.legacy_name),
    });
    let own = [("help", "Print the help of a tool or command"), ("version", "Print the version")];
    let own = own.map(|(name, about)| Subcommand { name, about, legacy_name: None });
    let commands = commands.chain(own);
    Usage {
        program: PROGRAM.into(),
        about: "Latency and bandwidth diagnostics for HPE Slingshot NICs",
        synopsis: vec![
            ("cxidiag TOOL [ADDR] [OPTIONS]".into(), ""),
            ("cxidiag COMMAND [ARGUMENTS]".into(), ""),
        ],
        subcommands: vec![("Tools", tools.collect()), ("Commands", commands.collect())],
        options: vec![
            Entry {
                text: "Print this help and exit; after a tool, -h prints the options that most \
                       people need, --help all of them"
                    .into(),
                ..Entry::help()
            },
            Entry::version(),
            Entry {
                short: None,
                long: "list",
                value: None,
                text: "Print each tool with its legacy name and exit\n\nOne on a line.".into(),
            },
        ],
        ..Usage::default()
    }
}

/// Returns each tool with its legacy name, one on a line. Packages make symbolic links from it.
pub fn list(tools: &[Tool]) -> String {
    tools.iter().map(|tool| format!("{} {}\n", tool.name, tool.legacy_name)).collect()
}

/// Returns the version of the legacy program if `tool` was started under its name `name`: the peer
/// compares it as well.
pub fn replaced_version(tool: &Tool, name: &str) -> Option<&'static str> {
    (name == tool.legacy_name).then_some(tool.wire_version)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::Plan;
    use crate::command_line::{self, Request};
    use crate::tools::{TOOLS, legacy_form, with_status_of};
    use cli::arguments::{version, version_under};
    use cli::usage::testing::check_help;
    use facts::error::Failure;

    #[test]
    fn help_fits_and_explains_each_option() {
        let tools = TOOLS.iter().flat_map(|tool| {
            let program = format!("cxidiag {}", tool.name);
            [usage(tool, &program), usage(tool, tool.legacy_name)]
        });
        for usage in tools {
            check_help(&usage);
        }
    }

    #[test]
    fn help_of_tool_has_groups_examples_and_exit_statuses() {
        for tool in TOOLS {
            let text = usage(tool, tool.legacy_name).text(true);
            let titles = options::GROUPS.iter().filter_map(|group| {
                let is_empty = !group.options.iter().any(|option| (option.takers)(tool));
                assert!(!is_empty || !text.contains(group.title), "{text}");
                (!is_empty).then(|| format!("\n{}:\n", group.title))
            });
            let parts = ["\nExamples:\n", "\nExit status: 0 success, 1 "].map(str::to_owned);
            let places: Vec<_> = titles.chain(parts).map(|part| text.find(&part)).collect();
            assert!(places.is_sorted() && places[0].is_some(), "{places:?} {text}");
        }
    }

    #[test]
    fn invalid_arguments_have_the_status_of_the_legacy_tool_under_its_name() {
        let loopback = TOOLS.iter().find(|tool| !tool.has_peer()).unwrap();
        for (tool, status) in
            [(loopback, "2 invalid arguments"), (legacy_form(loopback), "1 invalid arguments")]
        {
            let text = usage(tool, tool.name).text(true);
            assert!(text.contains(status), "{status}: {text}");
            let failure = with_status_of(tool, Failure::usage("wrong"));
            assert_eq!(failure.status().to_string(), status[..1]);
        }
    }

    #[test]
    fn short_help_of_tool_fits_on_a_screen_and_names_the_long_one() {
        for tool in TOOLS {
            let text = usage(tool, tool.legacy_name).text(false);
            assert!(text.lines().count() <= 25, "{text}");
            for part in ["--device=", "--iters=", " --help shows all options"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn examples_of_tools_are_valid() {
        for tool in TOOLS {
            let examples = usage(tool, tool.legacy_name).examples;
            assert_eq!(examples.len(), 2);
            for (command, _) in examples {
                let arguments = command.split(' ').skip(1).map(OsString::from).collect();
                let Ok(Request::Run(typed)) = command_line::parse(tool, arguments) else {
                    panic!("{command}");
                };
                let plan = Plan::new(tool, String::new(), *typed, None).unwrap();
                assert_eq!(plan.note(), None, "{command}");
            }
        }
    }

    #[test]
    fn shows_legacy_version_under_legacy_name() {
        let tool = &TOOLS[0];
        let text = |name| version_under(name, replaced_version(tool, name));
        let legacy = format!("{} version: {}\n", tool.legacy_name, tool.wire_version);
        assert_eq!(text(tool.legacy_name), legacy);
        let own = version().replacen("cxidiag", &format!("cxidiag {}", tool.name), 1);
        assert_eq!(text(&format!("cxidiag {}", tool.name)), own);
    }
}
