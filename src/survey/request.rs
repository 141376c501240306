//! The request of a survey: its processes, its tests and its other options.

use std::env;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgAction, Args, Command};

use crate::result::metrics::SERIES;
use campaign::quiet::findings::Test;
use campaign::quiet::pairs;
use cli::arguments::ServiceArguments;
use cli::derived;
use cli::output::{self, MetricsRequest};
use cli::parser::{device_hint, nearest, question};
use cli::usage::Completion;
use cli::values::LEFT_OUT;
use crew::host_list;
use facts::child::PROGRAM;
use facts::device::{DeviceName, LIBCXI_VARIABLE};
use facts::error::{Failure, cause, invalid};
use facts::expect::{Expectation, Metric};
use facts::number::{bytes_within, decimal, time, within};
use facts::user_file;
use load::conductor::Cap;
use load::roles::VICTIMS_PERCENT;
use load::spec::{self, LoadSpec};
use members::nics::{TestPlan, is_two_sided};
use page::destination::Place;
use page::documents::Places;
use plan::command_line::Request;
use plan::tool::Tool;
use plan::tools::peer_tools;
use plan::{Plan, command_line};

/// The longest time of an option: a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The shortest time of an option.
const SHORTEST: Duration = Duration::from_millis(1);

/// The range of `--sensitivity`.
const RATIOS: RangeInclusive<f64> = 1.01..=100.0;

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
#[derive(Debug, Args)]
pub struct LoadRequest {
    /// Then load the fabric: standard, plan, bisect, bisect:switch, bisect:group, bisect:system,
    /// shift, all2all, incast:COUNT, incast-same:COUNT, victims, classes
    ///
    /// After the quiet survey, the load measures bandwidths of random halves (bisect),
    /// bisect:switch, bisect:group, bisect:system, shift, all2all and incast, latencies of victims
    /// beside load, and how far traffic classes isolate. 'standard', the default, leaves out
    /// bisect, shift, incast-same and classes. 'plan' sends nothing: it prints what the survey
    /// would do. Hardware outside a batch job needs --load-cap. To measure one pair beside load,
    /// use --load=incast:2 with the hosts of both and of the load.
    #[arg(long = "load", value_name = "PATTERN,...", require_equals = true)]
    #[arg(value_parser = load_spec)]
    pub wanted: Option<LoadSpec>,

    /// Nodes that measure beside load
    ///
    /// In percent, from 1 to 90. Small fabrics need more: a class of fewer than 8 pairs gets no
    /// verdict.
    #[arg(long = "victims", value_name = "PERCENT", default_value_t = VICTIMS_PERCENT)]
    #[arg(value_parser = derived::number(1..=90_u8))]
    pub victims_percent: u8,

    /// Most NICs that send at once (default: 64 and a quarter of all; software NICs: all)
    ///
    /// Without 'all', the result is of a partial load: it has no shares of what the fabric can do.
    #[arg(long = "load-cap", value_name = "COUNT|all", value_parser = cap)]
    pub cap: Option<Cap>,

    /// Bytes of an operation of the load
    ///
    /// From 64 bytes to 1 MiB. GPCNeT uses 4K.
    // One operation fits into the smallest window.
    #[arg(long = "load-size", value_name = "SIZE", default_value = "64K")]
    #[arg(value_parser = |typed: &str| bytes_within(typed, 64..=1 << 20))]
    pub size_bytes: u64,

    /// Bytes that a NIC has under way (default: 1M; software NICs: 256K)
    ///
    /// From 4 KiB to 64 MiB. Rate times round trip times 10 fills each link.
    #[arg(long = "load-window", value_name = "SIZE")]
    #[arg(value_parser = |typed: &str| bytes_within(typed, 4 << 10..=64 << 20))]
    pub window_bytes: Option<u64>,

    /// The test of the aggressors, of victims, and of victims in another traffic class.
    #[arg(skip)]
    pub tests: Vec<RequestedTest>,
}

fn load_spec(typed: &str) -> Result<LoadSpec, String> {
    if typed == LEFT_OUT { Ok(LoadSpec::default()) } else { spec::parse(typed) }
}

fn cap(typed: &str) -> Result<Cap, String> {
    match typed {
        "all" => Ok(Cap::All),
        _ => Ok(Cap::Most(within(typed, 1..=1 << 20).map_err(|why| why + ", or all")? as u32)),
    }
}

impl LoadRequest {
    pub fn victim_test(&self) -> &RequestedTest {
        &self.tests[1]
    }

    /// Whether the software of the targets of victims answers.
    pub fn is_two_sided(&self) -> bool {
        is_two_sided(self.victim_test().plan.tool)
    }
}

/// Hosts in the order of their list.
pub type Hosts = Vec<String>;

/// The hosts of an option.
pub fn hosts(typed: &str) -> Result<Hosts, String> {
    let hosts = host_list::option_hosts(typed)?;
    match host_list::repeated(&hosts) {
        Some(host) => Err(format!("{host} is named twice")),
        None => Ok(hosts),
    }
}

/// NICs without repetition, in order.
type Nics = Vec<DeviceName>;

fn devices(typed: &str) -> Result<Nics, String> {
    let names = typed.split(',').map(|name| name.parse().map_err(str::to_owned));
    let mut devices = names.collect::<Result<Nics, String>>()?;
    devices.sort_by_key(|device| (device.kind as u8, device.index));
    let count = devices.len();
    devices.dedup();
    if devices.len() == count { Ok(devices) } else { Err("expected each NIC once".into()) }
}

fn at_once(typed: &str) -> Result<bool, &'static str> {
    match typed {
        "turn" => Ok(false),
        "once" => Ok(true),
        _ => Err("expected turn or once"),
    }
}

fn pairs_text(typed: &str) -> Result<String, String> {
    pairs::typed(typed).map(|_| typed.to_owned())
}

fn sensitivity(typed: &str) -> Result<f64, String> {
    let ratio = typed.parse().ok().filter(|ratio| RATIOS.contains(ratio));
    ratio.ok_or_else(|| format!("expected a ratio from {} to {}", RATIOS.start(), RATIOS.end()))
}

fn seed(typed: &str) -> Result<u64, &'static str> {
    decimal(typed).ok_or("expected a whole number")
}

/// Limits of pairs.
type Bounds = Vec<ExpectedBound>;

/// Divides bounds, also of a file after `@`, and tells which of them are for bandwidth tools.
fn bounds(typed: &str) -> Result<Bounds, String> {
    let text = match typed.strip_prefix('@') {
        Some(path) => user_file::text(path.as_ref()).map_err(|error| cause(&error))?,
        None => typed.to_owned(),
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let bounds = lines.flat_map(|line| line.split(',')).map(str::trim);
    let bounds = bounds.filter(|bound| !bound.is_empty()).map(|bound| {
        let metric = bound.rsplit(':').next().unwrap_or(bound);
        let name = metric.split(['<', '>']).next().unwrap_or_default().trim();
        ExpectedBound {
            text: bound.to_owned(),
            is_bandwidth: name
                .parse()
                .is_ok_and(|metric| matches!(metric, Metric::Bandwidth | Metric::PacketRate)),
        }
    });
    Ok(bounds.collect())
}

pub static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<SurveyRequest>);

/// The survey that the arguments ask for.
#[derive(Debug, Args)]
pub struct SurveyRequest {
    /// Hosts on which 'cxidiag serve' runs, such as nid[000001-000512] (default: the hosts of the
    /// launcher)
    ///
    /// A host list in the notation of Slurm, or FILE with one on each line.
    #[arg(long, value_name = "LIST|@FILE", value_parser = hosts)]
    pub hosts: Option<Hosts>,

    /// Try it: measure between COUNT (2 to 100) software NICs of this machine
    ///
    /// Each of COUNT processes has one.
    #[arg(long, value_name = "COUNT", value_parser = derived::number(2..=100_u32))]
    pub loopback: Option<u32>,

    /// NICs of each node (default: all of its hardware)
    ///
    /// With commas between them.
    #[arg(short, long = "device", value_name = "DEV,...")]
    #[arg(value_parser = devices, add = Completion::Devices)]
    pub devices: Option<Nics>,

    /// NICs of a node: in turn, or all at once
    ///
    /// 'turn' measures with one NIC of a node at a time. 'once' also loads what they share: PCIe
    /// switches and memory.
    #[arg(long = "nics", value_name = "turn|once", default_value = "turn")]
    #[arg(action = ArgAction::Set, value_parser = at_once)]
    pub at_once: bool,

    #[command(flatten)]
    pub service: ServiceArguments,

    /// Check the nodes first, as 'cxidiag check' does
    ///
    /// What the checks amount to goes to standard error. The survey measures whatever they find; if
    /// it is good, the checks determine the exit status.
    #[arg(long = "check")]
    pub checks_nodes: bool,

    /// Lines of 'HOST SWITCH GROUP' (default: by the addresses of the NICs)
    ///
    /// HOST may be a host list; switches and groups are numbers or names. Results have numbers: the
    /// number at the end of a name if the names differ in it alone, else the place of the name in
    /// alphabetical order, from 0. SLURM_TOPOLOGY_ADDR replaces the addresses.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub locations: Option<PathBuf>,

    /// Switches, NICs and cables of the fabric, as CXIDIAG_TOPOLOGY has them (default: by the
    /// addresses of the NICs)
    ///
    /// FILE has this form, or its short form, such as dragonfly:groups=4,switches=2,nics=2: of
    /// software NICs by their names, of hardware by their addresses. Other NICs have the location
    /// in their addresses. It changes no NIC: for software NICs on this fabric, set
    /// CXIDIAG_TOPOLOGY to the same value. Not with --locations.
    #[arg(long, value_name = "FILE|FORM", add = Completion::Files)]
    pub topology: Option<String>,

    /// File by which the tasks find each other, in a directory that all nodes share (default: in
    /// the working directory)
    ///
    /// The first task writes its address and a secret there. Not needed if CXIDIAG_TOKEN is set and
    /// the launcher names the hosts.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub meeting_point: Option<PathBuf>,

    /// TCP port of the first task, or of the servers of --hosts (default: any free one, or 49194)
    #[arg(short, long, value_name = "PORT", value_parser = derived::number(0..=u16::MAX))]
    pub port: Option<u16>,

    /// Time to wait for processes that are missing (default: 30s, 1s more for each 1000)
    ///
    /// From 1 s to a week. A process that joins later takes part from the next block on. The tasks
    /// of a launcher look for the first one for the same time, but at least for a minute.
    // A process starts within the shortest time.
    #[arg(long = "join", value_name = "TIME")]
    #[arg(value_parser = |typed: &str| time(typed, Duration::from_secs(1)..=LONGEST))]
    pub join_limit: Option<Duration>,

    /// Pairs of NICs: loopback, neighbours, halves, random:COUNT, within-switch, switches, groups,
    /// all, @FILE, or several with commas
    ///
    /// 'loopback' is each NIC with itself; 'neighbours', log2 of the number of nodes for each;
    /// 'halves', the first half with the second one; random:COUNT, this number of partners for
    /// each; 'within-switch', 'switches' and 'groups' share a switch, a group, or only the fabric.
    /// Several are measured in the order of the list. FILE has a line 'ROUND NODE NODE' for each
    /// pair.
    #[arg(long, value_name = "WHICH", default_value = "random:4", value_parser = pairs_text)]
    pub pairs: String,

    /// Sizes of operations, or ranges MIN:MAX (default: the size of the tool)
    ///
    /// They are in bytes, as of the tools, with commas between them.
    #[arg(short, long = "size", value_name = "SIZE,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Set)]
    pub sizes: Vec<String>,

    /// Time to measure a pair
    ///
    /// The time holds for each test: from 1 ms to 1 h, in seconds without a unit. The time from one
    /// pair to the next is longer.
    // The thread of a software NIC takes up to 20 ms before it polls without sleeping.
    #[arg(long, value_name = "TIME", default_value = "33ms")]
    #[arg(value_parser = |typed: &str| time(typed, SHORTEST..=Duration::from_secs(3600)))]
    pub pair_time: Duration,

    /// Ratio to good pairs from which on a part is bad (default: 1.3; bandwidths 1.075)
    ///
    /// From 1.01 to 100. The default for bandwidths is 1/0.93. A smaller ratio needs more pairs of
    /// each NIC: the last lines show the ratio that each test could have found.
    #[arg(long, value_name = "RATIO", value_parser = sensitivity)]
    pub sensitivity: Option<f64>,

    /// Do not find out why bad and suspect NICs are slow, which takes 10 s for each, a minute in
    /// all
    ///
    /// By default, the survey reads the files of each of them and of good NICs after the last pair,
    /// and measures both in turn with tests that separate the causes. Culprits whose files and
    /// failing tests are the same are measured once. The verdict and the exit status do not depend
    /// on it.
    #[arg(long = "no-why", action = ArgAction::SetFalse)]
    pub explains: bool,

    /// End the survey after TIME (default: a minute before the end of the job)
    ///
    /// Pairs that were not measured by then are untested. The launcher tells the end of the job.
    #[arg(long, value_name = "TIME", value_parser = |typed: &str| time(typed, SHORTEST..=LONGEST))]
    pub time_limit: Option<Duration>,

    /// Most pairs at the same time (default: no limit)
    ///
    /// It loads the fabric less. With --loopback, one for two CPUs.
    #[arg(long, value_name = "COUNT", value_parser = derived::number(1..=1_u32 << 20))]
    pub max_active: Option<u32>,

    /// Seed of random pairs
    ///
    /// The same seed chooses the same random pairs and retests.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = seed)]
    pub seed: u64,

    /// Limits of each pair, such as p50<2us,bw>=23GB/s, in addition to those from the population
    ///
    /// LIST has the form of --expect of the tools: of latency tools, of bandwidth tools, or of
    /// both. A limit holds for each tool that measures it. A pair outside it is suspect, also if it
    /// is like all the others.
    #[arg(long = "expect", value_name = "LIST|@FILE", value_parser = bounds)]
    pub bounds: Option<Bounds>,

    #[command(flatten)]
    pub load: LoadRequest,

    /// Write the nodes that are bad to FILE, as a host list
    ///
    /// A node is bad if it has a bad NIC, too. The list is in the form of 'scontrol update
    /// NodeName='; the survey drains no node. With --loopback the file stays empty: its nodes have
    /// invented names.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub bad_nodes: Option<PathBuf>,

    /// Write what is bad, and why, to FILE, as a page of Markdown
    ///
    /// The page suits a ticket. It has each bad or suspect part with its figures, its cause, the
    /// evidence and what to do.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub ticket: Option<PathBuf>,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    /// Append each result to FILE as it is measured
    ///
    /// Each pair has a line. --resume continues from such a file.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub jsonl: Option<PathBuf>,

    /// Print the results of the pairs as CSV instead of the text, or write them to FILE
    ///
    /// Each pair that was kept has a row.
    #[arg(long, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub csv: Option<Place>,

    /// Keep the figures of all pairs, also of more than 1024 NICs
    ///
    /// The document of --json has them. They need 12 bytes of memory each, and about 20 bytes in
    /// the document.
    #[arg(long = "matrix")]
    pub keeps_matrix: bool,

    /// Continue a survey whose results --jsonl has written to FILE
    ///
    /// What is missing is measured. The other options must be the same. FILE grows only if --jsonl
    /// names it too.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub resume: Option<PathBuf>,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    pub is_quiet: bool,

    #[command(flatten)]
    pub metrics: MetricsRequest,

    #[arg(skip)]
    pub processes: ProcessSource,

    #[arg(skip)]
    pub tests: Vec<RequestedTest>,

    /// A line about the options without effect.
    #[arg(skip)]
    pub without_effect: Option<String>,
}

impl Default for SurveyRequest {
    fn default() -> Self {
        derived::unset(&COMMAND)
    }
}

impl SurveyRequest {
    /// The NICs of each process; none for all hardware.
    pub fn devices(&self) -> &[DeviceName] {
        self.devices.as_deref().unwrap_or_default()
    }

    /// Returns where the documents go.
    ///
    /// # Errors
    ///
    /// A form of metrics without their file.
    pub fn places(&self) -> Result<Places, Failure> {
        Ok(Places {
            json: self.json.clone(),
            jsonl: self.jsonl.clone(),
            csv: self.csv.clone(),
            metrics: self.metrics.file_with(SERIES)?,
            bad_nodes: self.bad_nodes.clone().map(Place::File),
            ticket: self.ticket.clone().map(Place::File),
            ..Places::default()
        })
    }
}

/// The tools of a survey without any: small writes, whose data travel in the command; small reads,
/// for which NICs read and write the memory of hosts; and the bandwidth.
const DEFAULT_TOOLS: [&str; 3] = ["write-lat", "read-lat", "write-bw"];

/// The tools with these names, the default ones without any.
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

/// The tests: each tool with each of the sizes, and with the arguments `further`.
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

/// The defaults of a survey that differ from the defaults of the tool, for the short time of a
/// pair: pauses would leave few samples, and large buffers take long to set up.
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

/// The tests of a tool with the sizes of a range.
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

/// The plan of a client of `tool` with these arguments.
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
