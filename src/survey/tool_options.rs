//! The effects of tool options, which follow after `--`, in a survey.

use std::ffi::OsString;

use facts::error::Failure;
use plan::command_line;
use plan::command_line::Request;
use plan::ineffective::{self, Ineffective};
use plan::tool::{Opt, Tool};

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

const NO_CONNECTION: &str = "the processes of a pair have no connection to each other";
const PAIR_TIME: &str = "--pair-time sets how long a pair is measured";
const OWN_SIZES: &str = "--size of the survey lists the sizes";
const NO_PAUSES: &str = "it measures without pauses between operations";
const NO_SAMPLES: &str = "a survey keeps no single samples";
const SECRET: &str = "its processes admit each other by the secret in CXIDIAG_TOKEN";
const HOST_MEMORY: &str = "all buffers are in host memory";
const NO_LINK: &str = "it leaves out NICs whose link is down";
const OWN_TEXT: &str = "the text of a survey does not depend on it";

/// Returns the effect of an option in a survey.
fn effect(option: Opt) -> OptionEffect {
    match option {
        Opt::Warmup
        | Opt::Rate
        | Opt::LegacySync
        | Opt::Hops
        | Opt::ChainStart
        | Opt::Fan
        | Opt::Restricted
        | Opt::CompareWrite
        | Opt::Posted
        | Opt::Unexpected
        | Opt::AtomicOp
        | Opt::CswapOp
        | Opt::AtomicType
        | Opt::Fetching
        | Opt::Matching
        | Opt::ListSize
        | Opt::NumXfers
        | Opt::Bidirectional
        | Opt::Reverse
        | Opt::Pairs
        | Opt::Threads
        | Opt::BothEnds
        | Opt::Rdzv
        | Opt::BufSz
        | Opt::BufAlign
        | Opt::Unrestricted
        | Opt::NoIdc
        | Opt::NoHrp
        | Opt::NoLl
        | Opt::Verify
        | Opt::ReportAll
        | Opt::Counters
        | Opt::UseHp
        | Opt::Cpu
        | Opt::Libcxi => OptionEffect::Measured,
        Opt::Clock => OptionEffect::Nothing("a survey chooses the clock of each process"),
        Opt::Percentiles | Opt::Histogram | Opt::ShowError | Opt::Unit | Opt::Interval => {
            OptionEffect::Nothing(OWN_TEXT)
        }
        Opt::Label => OptionEffect::Nothing("the documents of a survey have no labels"),
        Opt::LatencyGap => OptionEffect::Refused(NO_PAUSES),
        Opt::Iters | Opt::LoopIters | Opt::Duration | Opt::Until | Opt::UntilStopped => {
            OptionEffect::Refused(PAIR_TIME)
        }
        Opt::AllSizes => OptionEffect::Refused(OWN_SIZES),
        Opt::Samples | Opt::HdrLog => OptionEffect::Refused(NO_SAMPLES),
        Opt::TxGpu | Opt::RxGpu | Opt::GpuType | Opt::GpuMap => OptionEffect::Refused(HOST_MEMORY),
        Opt::AnyJob | Opt::Token => OptionEffect::Refused(SECRET),
        Opt::IgnoreLink => OptionEffect::Refused(NO_LINK),
        Opt::PeerDevice
        | Opt::Wait
        | Opt::ConnectTimeout
        | Opt::Bind
        | Opt::Persist
        | Opt::Timeout
        | Opt::PortFile => OptionEffect::Refused(NO_CONNECTION),
        Opt::Device
        | Opt::AllNics
        | Opt::AllGpus
        | Opt::SvcId
        | Opt::Vni
        | Opt::TrafficClass
        | Opt::Port
        | Opt::Size
        | Opt::Expect
        | Opt::Json
        | Opt::Jsonl
        | Opt::Csv
        | Opt::Quiet
        | Opt::Loopback => OptionEffect::OfSurvey,
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
        match effect(option) {
            OptionEffect::Measured if by_servers && matches!(option, Opt::Cpu | Opt::Libcxi) => {
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
        found.extend(ineffective::find(&typed));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::command_line::options;
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
                match effect(option.id) {
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
