//! The effects of tool options, which follow after `--`, in a survey.

use std::ffi::OsString;

use facts::error::Failure;
use plan::command_line::{self, Request};
use plan::options::{Governs, ToolOption};
use plan::tool::Tool;
use plan::typed::{self, Ineffective};

/// The effect of a tool option in a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionEffect {
    /// The tool measures with it, or `TestPlan::new` refuses it.
    Measured,
    /// The option has no effect, for this reason.
    Nothing(&'static str),
    /// The option contradicts the survey, for this reason.
    Refused(&'static str),
    /// The survey has an option with this name.
    OfSurvey,
}

/// Returns the effect of an option with this long name in a survey.
fn effect(option: &ToolOption, long: &str) -> OptionEffect {
    use OptionEffect::{Measured, Nothing, OfSurvey, Refused};
    match long {
        "counters" | "cpu" | "libcxi" => Measured,
        "clock" => Nothing("a survey chooses the clock of each process"),
        "percentiles" | "histogram" | "show-error" | "unit" | "interval" => {
            Nothing("the text of a survey does not depend on it")
        }
        "label" => Nothing("the documents of a survey have no labels"),
        "latency-gap" => Refused("it measures without pauses between operations"),
        "iters" | "duration" | "until" | "until-stopped" => {
            Refused("--pair-time sets how long a pair is measured")
        }
        "all-sizes" => Refused("--size of the survey lists the sizes"),
        "samples" | "hdr-log" => Refused("a survey keeps no single samples"),
        "tx-gpu" | "rx-gpu" | "gpu-type" | "gpu-map" => Refused("all buffers are in host memory"),
        "any-job" | "token" => {
            Refused("its processes admit each other by the secret in CXIDIAG_TOKEN")
        }
        "ignore-link" => Refused("it leaves out NICs whose link is down"),
        "peer-device" | "wait" | "connect-timeout" | "bind" | "persist" | "timeout"
        | "port-file" => Refused("the processes of a pair have no connection to each other"),
        "size" => OfSurvey,
        _ if option.governs == Governs::Run => Measured,
        _ => OfSurvey,
    }
}

/// Returns the options of `tool` in `arguments` that have no effect in a survey, whose processes
/// are started `by_servers` or not.
///
/// # Errors
///
/// Invalid arguments, and an option that contradicts the survey.
pub fn without_effect(
    tool: &'static Tool,
    arguments: &[String],
    by_servers: bool,
) -> Result<Vec<Ineffective>, Failure> {
    let words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    let mut found = Vec::new();
    let help = format!("'cxidiag {} --help' lists the options of the tool", tool.name);
    let given = command_line::given(tool, &words).map_err(|failure| failure.with_hint(help))?;
    for (option, long) in given {
        match effect(option, long) {
            OptionEffect::Measured if by_servers && matches!(long, "cpu" | "libcxi") => {
                found.push(Ineffective {
                    option: long,
                    reason: "with --hosts, the options of the servers apply",
                });
            }
            OptionEffect::Measured => {}
            OptionEffect::Nothing(reason) => found.push(Ineffective { option: long, reason }),
            OptionEffect::Refused(reason) => {
                return Err(Failure::usage(format!(
                    "--{long} is not possible in a survey: {reason}"
                )));
            }
            OptionEffect::OfSurvey => {
                return Err(Failure::usage(format!(
                    "--{long} is an option of the survey: it stands before '--'"
                )));
            }
        }
    }
    if let Request::Run(typed) = command_line::parse(tool, words)? {
        if let Some(address) = &typed.address {
            return Err(Failure::usage(format!(
                "unexpected argument '{address}' after '--': expected options of the tools"
            )));
        }
        found.extend(typed::find_ineffective(&typed));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::options;
    use plan::tools::{TOOLS, peer_tools};

    /// Returns a value that an option takes.
    fn valid(long: &str) -> &'static str {
        match long {
            "atomic-op" => "=SUM",
            "cswap-op" => "=EQ",
            "atomic-type" => "=UINT64",
            "gpu-type" => "=AMD",
            "cpu" | "peer-device" => "=auto",
            "clock" => "=tsc",
            "unit" => "=GB/s",
            "label" => "=a=b",
            "until" => "=1%",
            "hops" | "fan" => "=2",
            "start" => "=doorbell",
            "rate" => "=1000",
            "expect" => "=p50<1s",
            "traffic-class" => "=BEST_EFFORT",
            "device" => "=soft0",
            "use-hp" => "=2M",
            "buf-sz" => "=1M",
            "samples" | "hdr-log" | "jsonl" | "port-file" | "libcxi" => "=./file",
            "bind" => "=localhost",
            "token" => "=secret",
            _ => "=1",
        }
    }

    #[test]
    fn each_option_of_each_tool_is_measured_named_or_refused() {
        for tool in peer_tools() {
            for (option, definition) in options::of(tool) {
                let long = definition.entry.long;
                let typed = match definition.entry.value {
                    Some(value) if !value.is_optional => {
                        format!("--{long}{}", valid(long))
                    }
                    _ => format!("--{long}"),
                };
                let result = without_effect(tool, std::slice::from_ref(&typed), false);
                let message = || result.as_ref().map_err(Failure::message);
                match effect(option, long) {
                    // Rules of the tool, such as those about CSWAP, may name it as well.
                    OptionEffect::Measured => assert!(result.is_ok(), "{typed}: {:?}", message()),
                    OptionEffect::Nothing(reason) => {
                        let expected = Ineffective { option: long, reason };
                        assert_eq!(message(), Ok(&vec![expected]), "{typed}");
                    }
                    OptionEffect::Refused(reason) => {
                        let message = message().unwrap_err();
                        assert!(message.starts_with(&format!("--{long} ")));
                        assert!(message.ends_with(reason), "{message}");
                    }
                    OptionEffect::OfSurvey => {
                        let message = message().unwrap_err();
                        assert!(message.ends_with("it stands before '--'"), "{message}");
                        let own = crate::options::usage().options;
                        assert!(own.iter().any(|own| own.long == long), "--{long}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_options_of_nics_that_servers_open() {
        for typed in ["--cpu=auto", "--libcxi=./file"] {
            let ineffective =
                |by_servers| without_effect(&TOOLS[0], &[typed.to_owned()], by_servers);
            assert_eq!(ineffective(false).unwrap(), []);
            let [found] = ineffective(true).unwrap()[..] else {
                panic!("{typed} has an effect");
            };
            assert_eq!(found.reason, "with --hosts, the options of the servers apply");
        }
    }

    #[test]
    fn names_tool_whose_help_lists_the_options() {
        let unknown = without_effect(&TOOLS[0], &["--hugepages".to_owned()], false).unwrap_err();
        let hint = "'cxidiag write-lat --help' lists the options of the tool";
        assert_eq!(unknown.hint.as_deref(), Some(hint));
    }

    #[test]
    fn names_short_options_and_addresses() {
        let message = |typed: &str| {
            let result = without_effect(&TOOLS[0], &[typed.to_owned()], false);
            result.unwrap_err().message()
        };
        assert_eq!(
            message("-D5"),
            "--duration is not possible in a survey: --pair-time sets how long a pair is measured"
        );
        assert_eq!(
            message("--latency-gap=100000"),
            "--latency-gap is not possible in a survey: it measures without pauses between operations"
        );
        assert_eq!(message("-s8"), "--size is an option of the survey: it stands before '--'");
        assert_eq!(
            message("nid000001"),
            "unexpected argument 'nid000001' after '--': expected options of the tools"
        );
    }
}
