//! The request of a survey: its processes, its tests and its other options.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use campaign::quiet::findings::Test;
use cli::nearest::{nearest, question};
use cli::parser::device_hint;
use facts::child::PROGRAM;
use facts::device::{DeviceName, LIBCXI_VARIABLE};
use facts::error::{Failure, invalid};
use facts::expect::Expectation;
use load::conductor::Cap;
use load::spec::LoadSpec;
use members::nics::{TestPlan, is_two_sided};
use node::traffic_class::TrafficClass;
use page::documents::Places;
use plan::Plan;
use plan::command_line;
use plan::command_line::Request;
use plan::tool::Tool;
use plan::tools::peer_tools;

/// Largest number of tests of a survey.
const MOST_TESTS: usize = 256;

/// The processes of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessSource {
    /// The tasks of a launcher.
    #[default]
    Launcher,
    /// This number of processes on this machine.
    Loopback(u32),
    /// A process of `cxidiag serve` on each of these hosts.
    Hosts(Vec<String>),
}

/// A test, and how its tool is run.
#[derive(Clone, Debug)]
pub struct RequestedTest {
    pub test: Test,
    /// How it is measured.
    pub plan: TestPlan,
    /// Arguments of the tool, as on a command line.
    pub arguments: Vec<String>,
    /// Limits of `--expect`.
    pub expectations: Vec<Expectation>,
}

/// A limit of `--expect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedBound {
    /// As typed.
    pub text: String,
    /// Whether bandwidth tools measure it.
    pub is_bandwidth: bool,
}

/// The load of a survey.
#[derive(Debug)]
pub struct LoadRequest {
    pub wanted: LoadSpec,
    pub victims_percent: u8,
    pub cap: Cap,
    pub size_bytes: u64,
    /// `None` for the default of the NICs.
    pub window_bytes: Option<u64>,
    /// The test of the aggressors, of victims, and of victims in another traffic class.
    pub tests: Vec<RequestedTest>,
    pub other_class: TrafficClass,
}

impl LoadRequest {
    pub fn victim_test(&self) -> &RequestedTest {
        &self.tests[1]
    }

    /// Returns whether the software of the targets of victims answers.
    pub fn is_two_sided(&self) -> bool {
        is_two_sided(self.victim_test().plan.tool)
    }
}

/// The survey that the arguments ask for.
#[derive(Debug, Default)]
pub struct SurveyRequest {
    pub processes: ProcessSource,
    /// The nodes are checked first.
    pub checks_nodes: bool,
    /// The survey finds out why NICs are bad or suspect.
    pub explains: bool,
    /// The NICs of each process; empty for all hardware.
    pub devices: Vec<DeviceName>,
    /// All NICs of a node measure at the same time.
    pub at_once: bool,
    /// Options of the tools about service, VNI and traffic class, as typed.
    pub service: Vec<String>,
    pub tests: Vec<RequestedTest>,
    /// What loads the fabric after the quiet part.
    pub load: Option<LoadRequest>,
    /// As typed.
    pub pairs: String,
    pub pair_time: Duration,
    pub time_limit: Option<Duration>,
    /// Ratio to good pairs from which on a part is bad.
    pub sensitivity: Option<f64>,
    pub max_active: Option<u32>,
    pub seed: u64,
    pub keeps_matrix: bool,
    pub locations: Option<PathBuf>,
    /// The fabric: a file, or the short form.
    pub topology: Option<String>,
    pub meeting_point: Option<PathBuf>,
    pub port: Option<u16>,
    /// How long the first block waits for processes that have not joined.
    pub join_limit: Option<Duration>,
    pub resume: Option<PathBuf>,
    /// Where the documents go.
    pub places: Places,
    /// Only the first line of the text is printed.
    pub is_quiet: bool,
    /// A line about the options without effect.
    pub without_effect: Option<String>,
}

/// The tools of a survey without any: small writes, whose data travel in the command; small reads,
/// for which NICs read and write the memory of hosts; and the bandwidth.
const DEFAULT_TOOLS: [&str; 3] = ["write-lat", "read-lat", "write-bw"];

/// Returns the tools with these names, the default ones without any.
///
/// # Errors
///
/// A name that no tool has.
pub fn tools(names: &[String]) -> Result<Vec<&'static Tool>, Failure> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        names.extend(DEFAULT_TOOLS);
    }
    let mut tools = Vec::new();
    for name in names {
        let tool =
            peer_tools().iter().find(|tool| tool.name == name).ok_or_else(|| unknown_tool(name))?;
        if !tools.iter().any(|own: &&Tool| own.name == name) {
            tools.push(tool);
        }
    }
    Ok(tools)
}

/// Returns the tests: each tool with each of the sizes, and with the arguments `further`.
///
/// # Errors
///
/// Arguments that a tool refuses, bounds that no tool measures, and too many tests.
pub fn tests(
    tools: &[&'static Tool],
    sizes: &[String],
    further: &[String],
    bounds: &[ExpectedBound],
) -> Result<Vec<RequestedTest>, Failure> {
    let mut tests = Vec::new();
    for tool in tools {
        let further: Vec<String> = own_defaults(tool).chain(further.iter().cloned()).collect();
        let is_bandwidth = tool.measures_bandwidth();
        let own = bounds.iter().filter(|bound| bound.is_bandwidth == is_bandwidth);
        let own: Vec<&str> = own.map(|bound| bound.text.as_str()).collect();
        if !tool.has_data() || sizes.is_empty() {
            tests.extend(range_tests(tool, None, &further, &own)?);
        }
        for size in sizes.iter().filter(|_| tool.has_data()) {
            tests.extend(range_tests(tool, Some(size), &further, &own)?);
        }
    }
    let is_measured = |bound: &ExpectedBound| {
        let mut tests = tests.iter();
        tests.any(|own| own.test.of_bandwidth == bound.is_bandwidth)
    };
    if let Some(bound) = bounds.iter().find(|bound| !is_measured(bound)) {
        let allowed = "none of the tools measures it";
        return Err(Failure::usage(invalid("expect", &bound.text, allowed)));
    }
    if tests.len() > MOST_TESTS {
        let message =
            format!("{} tools with sizes are too many (at most {MOST_TESTS})", tests.len());
        return Err(Failure::usage(message));
    }
    Ok(tests)
}

/// Returns the defaults of a survey that differ from the defaults of the tool, for the short time
/// of a pair: pauses would leave few samples, and large buffers take long to set up.
fn own_defaults(tool: &Tool) -> impl Iterator<Item = String> {
    let gap = (!tool.measures_bandwidth()).then_some("--latency-gap=0");
    let has_buffers = tool.measures_bandwidth() && tool.has_data();
    let list = has_buffers.then_some("--list-size=32");
    gap.into_iter().chain(list).map(str::to_owned)
}

fn unknown_tool(name: &str) -> Failure {
    let names: Vec<&str> = peer_tools().iter().map(|tool| tool.name).collect();
    let near = nearest(name, names.iter().copied());
    let meant =
        if near.is_empty() { format!("expected {}", names.join(", ")) } else { question(&near) };
    let hint = device_hint(name.as_ref());
    Failure::usage(format!("unknown tool '{name}': {meant}")).with_hint_if(hint)
}

/// Returns the tests of a tool with the sizes of a range.
fn range_tests(
    tool: &'static Tool,
    range: Option<&str>,
    further: &[String],
    bounds: &[&str],
) -> Result<Vec<RequestedTest>, Failure> {
    let mut arguments = further.to_vec();
    arguments.extend(range.map(|range| format!("--size={range}")));
    if !bounds.is_empty() {
        arguments.push(format!("--expect={}", bounds.join(",")));
    }
    let plan = plan(tool, &arguments)?;
    let size_test = |size: u64| {
        let mut arguments = further.to_vec();
        arguments.extend(tool.has_data().then(|| format!("--size={size}")));
        let test = test_plan(tool, &arguments)?;
        let expectations = plan.outputs.expectations.iter().filter(|own| own.applies_to(size));
        Ok(RequestedTest {
            test: Test {
                tool: tool.name.into(),
                size_bytes: size,
                of_bandwidth: tool.measures_bandwidth(),
            },
            plan: test,
            arguments,
            expectations: expectations.cloned().collect(),
        })
    };
    plan.run.sizes().map(size_test).collect()
}

/// Returns the plan of a client of `tool` with these arguments.
pub fn plan(tool: &'static Tool, arguments: &[String]) -> Result<Plan, Failure> {
    let peer = ["--".to_owned(), "peer".to_owned()];
    let all = arguments.iter().chain(&peer).map(OsString::from).collect();
    let request = command_line::parse(tool, all).map_err(|refusal| refusal.failure)?;
    let Request::Run(typed) = request else {
        let message = "expected options of the tools after '--', not --help or --version";
        return Err(Failure::usage(message));
    };
    let libcxi = env::var_os(LIBCXI_VARIABLE).filter(|path| !path.is_empty());
    Plan::new(tool, PROGRAM.into(), *typed, libcxi.map(PathBuf::from))
}

/// Returns what a test measures: `tool` with these arguments.
///
/// # Errors
///
/// Invalid arguments, and options that a survey cannot measure with.
pub fn test_plan(tool: &'static Tool, arguments: &[String]) -> Result<TestPlan, Failure> {
    let plan = plan(tool, arguments)?;
    Ok(TestPlan { class: plan.service_options.class, ..TestPlan::new(tool, plan.run)? })
}
