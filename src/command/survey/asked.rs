//! What the arguments of `survey` ask for.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches};

use super::tool_options;
use super::usage::{PAIR_TIME, PAIRS, usage};
use crate::command::output::{json_place, metrics_options, metrics_place};
use cluster::host_list;
use cluster::survey::findings::Test;
use cluster::survey::pairs::{self, Selection, Typed};
use diag::run::survey::TestPlan;
use facts::device::{DeviceName, LIBCXI_VARIABLE};
use facts::error::{Failure, cause, invalid};
use facts::expect::{Expectation, Metric};
use facts::number::{decimal, time, within};
use plan::Plan;
use plan::cli::nearest::{nearest, question};
use plan::cli::parser::with_optional_value;
use plan::cli::values::place;
use plan::cli::{self, Request};
use plan::ineffective::{self, Ineffective};
use plan::outputs::Place;
use plan::tool::{Opt, PROGRAM, Tool};
use plan::tools::TOOLS;
use report::survey::documents::Places;

/// The longest time of an option: a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Largest number of tests of a survey.
const MOST_TESTS: usize = 256;

/// The processes of a survey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Processes {
    /// The tasks of a launcher.
    Launcher,
    /// This number of processes on this machine.
    Loopback(u32),
    /// A process of `cxidiag serve` on each of these hosts.
    Hosts(Vec<String>),
}

/// A test, and how its tool is run.
#[derive(Clone, Debug)]
pub struct AskedTest {
    /// The test.
    pub test: Test,
    /// How it is measured.
    pub plan: TestPlan,
    /// Arguments of the tool, as on a command line.
    pub arguments: Vec<String>,
    /// Limits of `--expect`.
    pub expectations: Vec<Expectation>,
}

/// What the arguments ask for.
#[derive(Debug)]
pub struct Asked {
    pub processes: Processes,
    /// The NICs of each process; empty for all hardware.
    pub devices: Vec<DeviceName>,
    /// All NICs of a node measure at the same time.
    pub at_once: bool,
    /// Options of the tools about service, VNI and traffic class, as typed.
    pub service: Vec<String>,
    pub tests: Vec<AskedTest>,
    /// As typed.
    pub pairs: String,
    pub pair_time: Duration,
    pub time_limit: Option<Duration>,
    pub max_active: Option<u32>,
    pub seed: u64,
    pub keeps_matrix: bool,
    pub locations: Option<PathBuf>,
    pub meeting_point: Option<PathBuf>,
    pub port: Option<u16>,
    pub resume: Option<PathBuf>,
    /// Where the documents go.
    pub places: Places,
    /// Only the first line of the text is printed.
    pub is_quiet: bool,
    /// A line about the options without effect.
    pub without_effect: Option<String>,
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
///
/// # Errors
///
/// Invalid arguments.
pub fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let valued = |name| Arg::new(name).long(name).allow_hyphen_values(true);
    let switch = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let declared = [
        valued("hosts"),
        valued("loopback"),
        valued("device").short('d'),
        valued("nics"),
        valued("svc-id").short('v'),
        valued("vni"),
        valued("traffic-class"),
        valued("locations"),
        valued("meeting-point"),
        valued("port").short('p'),
        valued("pairs"),
        valued("size").short('s'),
        valued("pair-time"),
        valued("time-limit"),
        valued("max-active"),
        valued("seed"),
        valued("expect"),
        valued("bad-nodes"),
        with_optional_value("json"),
        valued("jsonl"),
        with_optional_value("csv"),
        switch("matrix"),
        valued("resume"),
        switch("quiet").short('q'),
        Arg::new("TOOL").num_args(0..),
        Arg::new("FURTHER").num_args(0..).last(true),
    ];
    let declared = declared.into_iter().chain(metrics_options());
    let Some(matches) = crate::command::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let options = Options(&matches);
    let processes = options.processes()?;
    let devices = options.devices()?;
    if matches!(processes, Processes::Loopback(_)) && !devices.is_empty() {
        let message = "--loopback uses soft0 and the following NICs: leave out --device";
        return Err(Failure::usage(message));
    }
    let service = ["svc-id", "vni", "traffic-class"];
    let service = service.into_iter().filter_map(|name| {
        let typed = options.text(name)?;
        Some(format!("--{name}={typed}"))
    });
    let service: Vec<String> = service.collect();
    let port = options.read("port", |typed| {
        Ok(within(typed, 0..=u16::MAX.into())? as u16)
    })?;
    if port == Some(0) && matches!(processes, Processes::Hosts(_)) {
        let allowed = "expected the port of the servers, 1 to 65535";
        return Err(Failure::usage(invalid("port", 0, allowed)));
    }
    let tools = options.tools()?;
    let without_effect = options.without_effect(&tools, &processes)?;
    let tests = options.tests(&tools, &service)?;
    let pairs = options.pairs(&tests)?;
    Ok(Some(Asked {
        tests,
        processes,
        devices,
        at_once: options
            .read("nics", |typed| match typed {
                "turn" => Ok(false),
                "once" => Ok(true),
                _ => Err("expected turn or once".into()),
            })?
            .unwrap_or(false),
        service,
        pairs,
        pair_time: options.time("pair-time", 3600)?.unwrap_or(PAIR_TIME),
        time_limit: options.time("time-limit", LONGEST.as_secs())?,
        max_active: options
            .read("max-active", |typed| within(typed, 1..=1 << 20))?
            .map(|count| count as u32),
        seed: options
            .read("seed", |typed| {
                decimal(typed).ok_or_else(|| "expected a whole number".into())
            })?
            .unwrap_or(1),
        keeps_matrix: matches.get_flag("matrix"),
        locations: options.file("locations")?,
        meeting_point: options.file("meeting-point")?,
        port,
        resume: options.file("resume")?,
        places: Places {
            json: json_place(matches.get_one("json"))?,
            jsonl: options.file("jsonl")?,
            csv: options.csv()?,
            metrics: metrics_place(&matches)?,
            bad_nodes: options.file("bad-nodes")?.map(Place::File),
        },
        is_quiet: matches.get_flag("quiet"),
        without_effect: ineffective::note(&without_effect),
    }))
}

/// The typed options.
struct Options<'a>(&'a ArgMatches);

impl<'a> Options<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get_one::<String>(name).map(String::as_str)
    }

    fn read<T>(
        &self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let refused = |typed, allowed| Failure::usage(invalid(name, typed, allowed));
        self.text(name)
            .map(|typed| read(typed).map_err(|allowed| refused(typed, allowed)))
            .transpose()
    }

    fn time(&self, name: &'static str, most_s: u64) -> Result<Option<Duration>, Failure> {
        let range = Duration::from_millis(1)..=Duration::from_secs(most_s);
        self.read(name, |typed| time(typed, range))
    }

    fn file(&self, name: &'static str) -> Result<Option<PathBuf>, Failure> {
        self.read(name, |typed| match place(typed.as_ref())? {
            Place::File(path) => Ok(path),
            Place::Stdout => Err("expected the name of a file".into()),
        })
    }

    fn csv(&self) -> Result<Option<Place>, Failure> {
        let typed = self.0.get_one::<OsString>("csv");
        let read = |value: &OsString| {
            place(value).map_err(|why| Failure::usage(invalid("csv", value.display(), why)))
        };
        typed.map(read).transpose()
    }

    fn processes(&self) -> Result<Processes, Failure> {
        let loopback = self.read("loopback", |typed| Ok(within(typed, 2..=100)? as u32))?;
        let hosts = self.read("hosts", host_list::of_option)?;
        match (loopback, hosts) {
            (Some(_), Some(_)) => Err(Failure::usage("--loopback and --hosts exclude each other")),
            (Some(count), None) => Ok(Processes::Loopback(count)),
            (None, Some(hosts)) => Ok(Processes::Hosts(hosts)),
            (None, None) => Ok(Processes::Launcher),
        }
    }

    fn devices(&self) -> Result<Vec<DeviceName>, Failure> {
        let read = |typed: &str| {
            let names = typed
                .split(',')
                .map(|name| name.parse().map_err(str::to_owned));
            let mut devices = names.collect::<Result<Vec<DeviceName>, String>>()?;
            devices.sort_by_key(|device| (device.kind as u8, device.index));
            let count = devices.len();
            devices.dedup();
            if devices.len() == count {
                Ok(devices)
            } else {
                Err("expected each NIC once".into())
            }
        };
        Ok(self.read("device", read)?.unwrap_or_default())
    }

    /// Returns the pairs as typed. Only the coordinator reads their files.
    fn pairs(&self, tests: &[AskedTest]) -> Result<String, Failure> {
        let selections = self.read("pairs", pairs::typed)?.unwrap_or_default();
        if selections.contains(&Typed::Named(Selection::Loopback)) {
            tests
                .iter()
                .try_for_each(|test| test.plan.check_loopback())?;
        }
        Ok(self.text("pairs").unwrap_or(PAIRS).to_owned())
    }

    fn strings(&self, name: &str) -> Vec<String> {
        let values = self.0.get_many::<String>(name).into_iter().flatten();
        values.cloned().collect()
    }

    /// Returns the tools, the default one without any.
    fn tools(&self) -> Result<Vec<&'static Tool>, Failure> {
        let mut tools = Vec::new();
        for name in self.strings("TOOL") {
            let found = TOOLS.iter().find(|tool| tool.name == name);
            let tool = found.ok_or_else(|| unknown_tool(&name))?;
            if !tools.iter().any(|own: &&Tool| own.name == name) {
                tools.push(tool);
            }
        }
        if tools.is_empty() {
            tools.push(&TOOLS[0]);
        }
        Ok(tools)
    }

    /// Returns the options without effect.
    fn without_effect(
        &self,
        tools: &[&'static Tool],
        processes: &Processes,
    ) -> Result<Vec<Ineffective>, Failure> {
        let of_tools = self.strings("FURTHER");
        let by_servers = matches!(processes, Processes::Hosts(_));
        let mut found: Vec<Ineffective> = Vec::new();
        for tool in tools {
            for option in tool_options::without_effect(tool, &of_tools, by_servers)? {
                if !found.contains(&option) {
                    found.push(option);
                }
            }
        }
        if matches!(processes, Processes::Loopback(_)) && self.text("bad-nodes").is_some() {
            found.push(Ineffective {
                option: "bad-nodes",
                reason: "the file stays empty: --loopback has no nodes of a cluster",
            });
        }
        Ok(found)
    }

    /// Returns the tests: each tool with each of its sizes.
    fn tests(
        &self,
        tools: &[&'static Tool],
        service: &[String],
    ) -> Result<Vec<AskedTest>, Failure> {
        let further = [service, &self.strings("FURTHER")].concat();
        let bounds = self.read("expect", |typed| bounds(&file_or_text(typed)?))?;
        let bounds = bounds.unwrap_or_default();
        let sizes: Vec<&str> = self
            .text("size")
            .map_or(Vec::new(), |text| text.split(',').collect());
        let mut tests = Vec::new();
        for tool in tools {
            let further: Vec<String> = own_defaults(tool).chain(further.clone()).collect();
            let of_bandwidth = tool.measures_bandwidth();
            let own = bounds.iter().filter(|(_, of)| *of == of_bandwidth);
            let own: Vec<&str> = own.map(|(text, _)| text.as_str()).collect();
            if !tool.takes(Opt::Size) || sizes.is_empty() {
                tests.extend(of_range(tool, None, &further, &own)?);
            }
            for size in sizes.iter().filter(|_| tool.takes(Opt::Size)) {
                tests.extend(of_range(tool, Some(size), &further, &own)?);
            }
        }
        if let Some((text, _)) = bounds
            .iter()
            .find(|(_, of)| tests.iter().all(|own| own.test.of_bandwidth != *of))
        {
            return Err(Failure::usage(invalid(
                "expect",
                text,
                "none of the tools measures it",
            )));
        }
        if tests.len() > MOST_TESTS {
            let message = format!(
                "{} tools with sizes are too many (at most {MOST_TESTS})",
                tests.len()
            );
            return Err(Failure::usage(message));
        }
        Ok(tests)
    }
}

/// Returns the defaults of a survey where they are not those of the tool, for the short time of a pair:
/// pauses would leave few samples, and large buffers take long to set up.
fn own_defaults(tool: &Tool) -> impl Iterator<Item = String> {
    let gap = tool.takes(Opt::LatencyGap).then_some("--latency-gap=0");
    let has_buffers = tool.takes(Opt::ListSize) && tool.takes(Opt::Size);
    let list = has_buffers.then_some("--list-size=32");
    gap.into_iter().chain(list).map(str::to_owned)
}

fn unknown_tool(name: &str) -> Failure {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    let near = nearest(name, names.iter().copied());
    let meant = if near.is_empty() {
        format!("expected {}", names.join(", "))
    } else {
        question(&near)
    };
    Failure::usage(format!("unknown tool '{name}': {meant}"))
}

/// Returns the text of an option, or of the file that it names after `@`.
fn file_or_text(typed: &str) -> Result<String, String> {
    match typed.strip_prefix('@') {
        Some(path) => fs::read_to_string(path).map_err(|error| cause(&error)),
        None => Ok(typed.to_owned()),
    }
}

/// Divides bounds, and tells which are of bandwidth tools.
fn bounds(text: &str) -> Result<Vec<(String, bool)>, String> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let bounds = lines.flat_map(|line| line.split(',')).map(str::trim);
    let bounds = bounds.filter(|bound| !bound.is_empty()).map(|bound| {
        let metric = bound.rsplit(':').next().unwrap_or(bound);
        let name = metric.split(['<', '>']).next().unwrap_or_default().trim();
        let of_bandwidth = name
            .parse()
            .is_ok_and(|metric| matches!(metric, Metric::Bandwidth | Metric::PacketRate));
        (bound.to_owned(), of_bandwidth)
    });
    Ok(bounds.collect())
}

/// Returns the tests of a tool with the sizes of a range.
fn of_range(
    tool: &'static Tool,
    range: Option<&str>,
    further: &[String],
    bounds: &[&str],
) -> Result<Vec<AskedTest>, Failure> {
    let mut arguments = further.to_vec();
    arguments.extend(range.map(|range| format!("--size={range}")));
    if !bounds.is_empty() {
        arguments.push(format!("--expect={}", bounds.join(",")));
    }
    let plan = plan(tool, &arguments)?;
    let of_size = |size: u64| {
        let mut arguments = further.to_vec();
        arguments.extend(tool.takes(Opt::Size).then(|| format!("--size={size}")));
        let of_test = test_plan(tool, &arguments)?;
        let expectations = plan.outputs.expectations.iter();
        let expectations = expectations.filter(|own| own.applies_to(size));
        Ok(AskedTest {
            test: Test {
                tool: tool.name.into(),
                size_bytes: size,
                of_bandwidth: tool.measures_bandwidth(),
            },
            plan: of_test,
            arguments,
            expectations: expectations.cloned().collect(),
        })
    };
    plan.run.sizes().map(of_size).collect()
}

/// Returns the plan of a client of `tool` with these arguments.
///
/// # Errors
///
/// Invalid arguments.
pub fn plan(tool: &'static Tool, arguments: &[String]) -> Result<Plan, Failure> {
    let peer = ["--".to_owned(), "peer".to_owned()];
    let all = arguments.iter().chain(&peer).map(OsString::from).collect();
    let request = cli::parse(tool, all).map_err(|refusal| refusal.failure)?;
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
    TestPlan::new(tool, plan(tool, arguments)?.run)
}
