//! What `survey` takes, how its arguments are read, and the effects of tool options, which follow
//! after `--`.

use std::ffi::OsString;

use super::load_setup;
use super::request::{COMMAND, ProcessSource, SurveyRequest, tests, tools};
use campaign::quiet::pairs::{self, Selection, TypedSelection};
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{arguments as shared, derived};
use facts::error::{Failure, invalid};
use plan::command_line::{self, Request};
use plan::options::{Governs, ToolOption};
use plan::tool::Tool;
use plan::tools::peer_tools;
use plan::typed::{self, Ineffective};

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag survey".into(),
        about: "Measure all NICs of a cluster, and name what is slow",
        synopsis: vec![
            ("srun --ntasks-per-node=1 --mpi=none cxidiag survey [TOOL...] [OPTIONS]".into(), ""),
            ("cxidiag survey --hosts=LIST [TOOL...] [OPTIONS]".into(), ""),
            ("cxidiag survey --loopback=COUNT [TOOL...] [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Words(|| {
            peer_tools().iter().map(|tool| tool.name.to_owned()).collect()
        }),
        about_arguments: "TOOL is write-lat, read-lat, atomic-lat, send-lat, trig-lat, write-bw, read-bw,\n\
                          atomic-bw or send-bw (default: write-lat, read-lat and write-bw). Each\n\
                          measures all pairs. Options of the tools follow after '--'.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Each task of srun, mpiexec, flux run or mpirun measures with the NICs of its\nnode.",
            "Exit status: 0 all good, 3 something is bad, 4 something was not measured or is\n\
             suspect, 1 failed, 130 interrupted, with the results so far.",
        ],
        ..Usage::default()
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<SurveyRequest>, Failure> {
    let (own, tool_texts) = shared::parts(arguments);
    let Some(mut typed) = TypedArguments::<SurveyRequest>::read(&usage(), &COMMAND, own)? else {
        return Ok(None);
    };
    let names = shared::texts(std::mem::take(&mut typed.words))?;
    let tool_texts = shared::texts(tool_texts.unwrap_or_default().to_vec())?;
    let request = &mut typed.request;
    request.processes = match (request.loopback, request.hosts.take()) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("--loopback and --hosts exclude each other"));
        }
        (Some(count), None) => ProcessSource::Loopback(count),
        (None, Some(hosts)) => ProcessSource::Hosts(hosts),
        (None, None) => ProcessSource::Launcher,
    };
    check_combinations(request)?;
    let by_servers = matches!(request.processes, ProcessSource::Hosts(_));
    let tools = tools(&names)?;
    let mut without_effect: Vec<Ineffective> = Vec::new();
    for tool in &tools {
        for option in options_without_effect(tool, &tool_texts, by_servers)? {
            if !without_effect.contains(&option) {
                without_effect.push(option);
            }
        }
    }
    if request.loopback.is_some() && request.bad_nodes.is_some() {
        without_effect.push(Ineffective {
            option: "bad-nodes",
            reason: "the file stays empty: --loopback has no nodes of a cluster",
        });
    }
    request.without_effect = typed::ineffective_note(&without_effect);
    let further = [request.service.arguments(), tool_texts].concat();
    let bounds = request.bounds.as_deref().unwrap_or_default();
    request.tests = tests(&tools, &request.sizes, &further, bounds)?;
    load_setup::complete(&mut typed)?;
    let request = typed.request;
    // Only the coordinator reads the files of pairs.
    let loopback = TypedSelection::Named(Selection::Loopback);
    if pairs::typed(&request.pairs).is_ok_and(|selections| selections.contains(&loopback)) {
        request.tests.iter().try_for_each(|test| test.plan.check_loopback())?;
    }
    request.places()?;
    Ok(Some(request))
}

/// Checks that options which exclude each other are not given together.
fn check_combinations(request: &SurveyRequest) -> Result<(), Failure> {
    let is_loopback = request.loopback.is_some();
    if is_loopback && request.devices.is_some() {
        let message = "--loopback uses soft0 and the following NICs: leave out --device";
        return Err(Failure::usage(message));
    }
    if matches!(request.processes, ProcessSource::Hosts(_)) && request.port == Some(0) {
        let allowed = "expected the port of the servers, 1 to 65535";
        return Err(Failure::usage(invalid("port", 0, allowed)));
    }
    if request.locations.is_some() && request.topology.is_some() {
        return Err(Failure::usage("--locations and --topology exclude each other"));
    }
    if is_loopback && request.checks_nodes {
        return Err(Failure::usage("--check checks nodes: those of a launcher, or of --hosts"));
    }
    if let Some(file) = request.ticket.as_ref().filter(|_| !request.explains) {
        let allowed = "the page says why parts are bad, so it is not possible with --no-why";
        return Err(Failure::usage(invalid("ticket", file.display(), allowed)));
    }
    Ok(())
}

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

/// The effect of an option with this long name in a survey.
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

/// The options of `tool` in `arguments` that have no effect in a survey, whose processes are
/// started `by_servers` or not.
///
/// # Errors
///
/// Invalid arguments, and an option that contradicts the survey.
fn options_without_effect(
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
    use plan::tools::TOOLS;

    /// A value that an option takes.
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
                let result = options_without_effect(tool, std::slice::from_ref(&typed), false);
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
                |by_servers| options_without_effect(&TOOLS[0], &[typed.to_owned()], by_servers);
            assert_eq!(ineffective(false).unwrap(), []);
            let [found] = ineffective(true).unwrap()[..] else {
                panic!("{typed} has an effect");
            };
            assert_eq!(found.reason, "with --hosts, the options of the servers apply");
        }
    }

    #[test]
    fn names_tool_whose_help_lists_the_options() {
        let unknown =
            options_without_effect(&TOOLS[0], &["--hugepages".to_owned()], false).unwrap_err();
        let hint = "'cxidiag write-lat --help' lists the options of the tool";
        assert_eq!(unknown.hint.as_deref(), Some(hint));
    }

    #[test]
    fn names_short_options_and_addresses() {
        let message = |typed: &str| {
            let result = options_without_effect(&TOOLS[0], &[typed.to_owned()], false);
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
