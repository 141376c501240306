//! What `survey` takes, and how its arguments are read.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::request::{ExpectedBound, ProcessSource, SurveyRequest, hosts, tests, tools};
use super::tool_options;
use crate::load_options;
use crate::load_options::LoadArgs;
use crate::result::metrics::SERIES;
use campaign::quiet::pairs;
use campaign::quiet::pairs::{Selection, TypedSelection};
use cli::arguments as shared;
use cli::definition::OptionDef;
use cli::output;
use cli::output::MetricsRequest;
use cli::usage::{Completion, Usage};
use facts::device::DeviceName;
use facts::error::{Failure, cause, invalid};
use facts::expect::Metric;
use facts::number::{decimal, time_text};
use facts::user_file;
use page::destination::Place;
use page::documents::Places;
use plan::ineffective::{self, Ineffective};
use plan::tools::peer_tools;

/// Default of `--pair-time`. The thread of a software NIC takes up to 20 ms before it polls without
/// sleeping.
const PAIR_TIME: Duration = Duration::from_millis(33);

/// Default of `--pairs`.
const PAIRS: &str = "random:4";

/// The longest time of an option: a week.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The shortest time of an option.
const SHORTEST: Duration = Duration::from_millis(1);

/// The shortest `--join`: a process starts within it.
const SHORTEST_JOIN: Duration = Duration::from_secs(1);

/// The range of `--sensitivity`.
const RATIOS: RangeInclusive<f64> = 1.01..=100.0;

/// The longest `--pair-time`.
const LONGEST_PAIR: Duration = Duration::from_secs(3600);

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
        options: shared::entries(options()),
        remarks: vec![
            "Each task of srun, mpiexec, flux run or mpirun measures with the NICs of its\nnode.",
            "Exit status: 0 all good, 3 something is bad, 4 something was not measured or is\n\
             suspect, 1 failed, 130 interrupted, with the results so far.",
        ],
        ..Usage::default()
    }
}

/// What the arguments say, option by option.
#[derive(Default)]
struct Args {
    /// What an option sets alone.
    request: SurveyRequest,
    loopback: Option<u32>,
    hosts: Option<Vec<String>>,
    /// What `--pairs` selects.
    selections: Vec<TypedSelection>,
    sizes: Vec<String>,
    bounds: Vec<ExpectedBound>,
    load: LoadArgs,
    bad_nodes: Option<PathBuf>,
    ticket: Option<PathBuf>,
    metrics: MetricsRequest,
}

type SurveyOption = OptionDef<Args>;

/// Returns the options, in the order of the help text.
fn options() -> Vec<SurveyOption> {
    let mut options = places();
    options.extend(measurements());
    let load = load_options::options().into_iter();
    options.extend(load.map(|option| option.within(|args: &mut Args| &mut args.load)));
    options.extend(outputs());
    options
}

/// Where the processes are, and with which NICs they measure.
fn places() -> Vec<SurveyOption> {
    let mut options = vec![
        SurveyOption::text("hosts", "LIST|@FILE", |args, typed| {
            args.hosts = Some(hosts(typed)?);
            Ok(())
        })
        .explained(
            "Hosts on which 'cxidiag serve' runs, such as nid[000001-000512] (default: those of \
             the launcher)\n\n\
             A host list in the notation of Slurm, or FILE with one on each line.",
        ),
        SurveyOption::number("loopback", "COUNT", 2..=100_u32, |args| &mut args.loopback)
            .explained(
                "Try it: measure between COUNT (2 to 100) software NICs of this machine\n\n\
             Each of COUNT processes has one.",
            ),
        SurveyOption::value("device", "DEV,...", devices, |args| &mut args.request.devices)
            .letter('d')
            .completed_by(Completion::Devices)
            .explained(
                "NICs of each node (default: all of its hardware)\n\n\
             With commas between them.",
            ),
        SurveyOption::text("nics", "turn|once", |args, typed| {
            args.request.at_once = match typed {
                "turn" => false,
                "once" => true,
                _ => return Err("expected turn or once".into()),
            };
            Ok(())
        })
        .explained(
            "NICs of a node: in turn, or all at once (default: turn)\n\n\
             'turn' measures with one NIC of a node at a time. 'once' also loads what they share: \
             PCIe switches and memory.",
        ),
    ];
    let service = shared::service();
    options
        .extend(service.map(|option| option.within(|args: &mut Args| &mut args.request.service)));
    options.extend([
        SurveyOption::switch("check", |args| args.request.checks_nodes = true).explained(
            "Check the nodes first, as 'cxidiag check' does\n\n\
             What the checks amount to goes to standard error. The survey measures whatever they \
             find; if it is good, the checks determine the exit status.",
        ),
        SurveyOption::file("locations", |args| &mut args.request.locations).explained(
            "Lines of 'HOST SWITCH GROUP' (default: by the addresses of the NICs)\n\n\
             HOST may be a host list; switches and groups are numbers or names. Results have \
             numbers: the number at the end of a name if the names differ in it alone, else the \
             place of the name in alphabetical order, from 0. SLURM_TOPOLOGY_ADDR replaces the \
             addresses.",
        ),
        SurveyOption::text("topology", "FILE|FORM", |args, typed| {
            args.request.topology = Some(typed.to_owned());
            Ok(())
        })
        .completed_by(Completion::Files)
        .explained(
            "Switches, NICs and cables of the fabric, as CXIDIAG_TOPOLOGY has them (default: by \
             the addresses of the NICs)\n\n\
             FILE has this form, or its short form, such as dragonfly:groups=4,switches=2,nics=2: \
             of software NICs by their names, of hardware by their addresses. Other NICs have the \
             location in their addresses. It changes no NIC: for software NICs on this fabric, \
             set CXIDIAG_TOPOLOGY to the same value. Not with --locations.",
        ),
        SurveyOption::file("meeting-point", |args| &mut args.request.meeting_point).explained(
            "File by which the tasks find each other, in a directory that all nodes share \
             (default: in the working directory)\n\n\
             The first task writes its address and a secret there. Not needed if CXIDIAG_TOKEN is \
             set and the launcher names the hosts.",
        ),
        SurveyOption::number("port", "PORT", 0..=u16::MAX, |args| &mut args.request.port)
        .letter('p')
        .explained(
            "TCP port of the first task, or of the servers of --hosts (default: any free one, or \
             49194)",
        ),
        SurveyOption::time("join", SHORTEST_JOIN..=LONGEST, |args| &mut args.request.join_limit)
        .explained(
            "Time to wait for processes that are missing (default: 30s, 1s more for each 1000)\n\n\
             From 1 s to a week. A process that joins later takes part from the next block on. \
             The tasks of a launcher look for the first one for the same time, but at least for a \
             minute.",
        ),
    ]);
    options
}

/// What is measured, and what is good.
fn measurements() -> Vec<SurveyOption> {
    vec![
        SurveyOption::text("pairs", "WHICH", |args, typed| {
            args.selections = pairs::typed(typed)?;
            args.request.pairs = typed.to_owned();
            Ok(())
        })
        .explained(format!(
            "Pairs of NICs: loopback, neighbours, halves, random:COUNT, within-switch, \
                     switches, groups, all, @FILE, or several with commas (default: {PAIRS})\n\n\
                     'loopback' is each NIC with itself; 'neighbours', log2 of the number of \
                     nodes for each; 'halves', the first half with the second one; random:COUNT, \
                     this number of partners for each; 'within-switch', 'switches' and 'groups' \
                     share a switch, a group, or only the fabric. Several are measured in the \
                     order of the list. FILE has a line 'ROUND NODE NODE' for each pair."
        )),
        SurveyOption::text("size", "SIZE,...", |args, typed| {
            args.sizes = typed.split(',').map(str::to_owned).collect();
            Ok(())
        })
        .letter('s')
        .explained(
            "Sizes of operations, or ranges MIN:MAX (default: that of the tool)\n\n\
             They are in bytes, as of the tools, with commas between them.",
        ),
        SurveyOption::time("pair-time", SHORTEST..=LONGEST_PAIR, |args| &mut args.request.pair_time)
        .explained(format!(
            "Time to measure a pair (default: {})\n\n\
                     The time holds for each test: from 1 ms to 1 h, in seconds without a unit. The time from \
                     one pair to the next is longer.",
            time_text(PAIR_TIME)
        )),
        SurveyOption::text("sensitivity", "RATIO", |args, typed| {
            let ratio = typed.parse().ok().filter(|ratio| RATIOS.contains(ratio));
            let allowed = format!("expected a ratio from {} to {}", RATIOS.start(), RATIOS.end());
            args.request.sensitivity = Some(ratio.ok_or(allowed)?);
            Ok(())
        })
        .explained(
            "Ratio to good pairs from which on a part is bad (default: 1.3; bandwidths 1.075)\n\n\
             From 1.01 to 100. The default for bandwidths is 1/0.93. A smaller ratio needs more \
             pairs of each NIC: the last lines show the ratio that each test could have found.",
        ),
        SurveyOption::switch("no-why", |args| args.request.explains = false).explained(
            "Do not find out why bad and suspect NICs are slow, which takes 10 s for each, a \
             minute in all\n\n\
             By default, the survey reads the files of each of them and of good NICs after the \
             last pair, and measures both in turn with tests that separate the causes. Culprits \
             whose files and failing tests are the same are measured once. The verdict and the \
             exit status do not depend on it.",
        ),
        SurveyOption::time("time-limit", SHORTEST..=LONGEST, |args| &mut args.request.time_limit)
        .explained(
            "End the survey after TIME (default: a minute before the end of the job)\n\n\
             Pairs that were not measured by then are untested. The launcher tells the end of the \
             job.",
        ),
        SurveyOption::number("max-active", "COUNT", 1..=1_u32 << 20, |args| &mut args.request.max_active)
        .explained(
            "Most pairs at the same time (default: no limit)\n\n\
             It loads the fabric less. With --loopback, one for two CPUs.",
        ),
        SurveyOption::text("seed", "NUMBER", |args, typed| {
            args.request.seed = decimal(typed).ok_or("expected a whole number")?;
            Ok(())
        })
        .explained(
            "Seed of random pairs (default: 1)\n\n\
             The same seed chooses the same random pairs and retests.",
        ),
        SurveyOption::text("expect", "LIST|@FILE", |args, typed| {
            args.bounds = bounds(&file_or_text(typed)?);
            Ok(())
        })
        .explained(
            "Limits of each pair, such as p50<2us,bw>=23GB/s, in addition to those from the \
             population\n\n\
             LIST has the form of --expect of the tools: of latency tools, of bandwidth tools, or of both. A limit \
             holds for each tool that measures it. A pair outside it is suspect, also if it is like all the others.",
        ),
    ]
}

/// What is written.
fn outputs() -> Vec<SurveyOption> {
    let mut options = vec![
        SurveyOption::file("bad-nodes", |args| &mut args.bad_nodes).explained(
            "Write the nodes that are bad to FILE, as a host list\n\n\
             A node is bad if it has a bad NIC, too. The list is in the form of 'scontrol update \
             NodeName='; the survey drains no node. With --loopback the file stays empty: its \
             nodes have invented names.",
        ),
        SurveyOption::file("ticket", |args| &mut args.ticket).explained(
            "Write what is bad, and why, to FILE, as a page of Markdown\n\n\
             The page suits a ticket. It has each bad or suspect part with its figures, its cause, the evidence and \
             what to do.",
        ),
        output::json().within(|args| &mut args.request.places.json),
        SurveyOption::file("jsonl", |args| &mut args.request.places.jsonl).explained(
            "Append each result to FILE as it is measured\n\n\
             Each pair has a line. --resume continues from such a file.",
        ),
        SurveyOption::document("csv", |args| &mut args.request.places.csv).explained(
            "Print the results of the pairs as CSV instead of the text, or write them to FILE\n\n\
             Each pair that was kept has a row.",
        ),
        SurveyOption::switch("matrix", |args| args.request.keeps_matrix = true).explained(
            "Keep the figures of all pairs, also of more than 1024 NICs\n\n\
             The document of --json has them. They need 12 bytes of memory each, and about 20 bytes in \
             the document.",
        ),
        SurveyOption::file("resume", |args| &mut args.request.resume).explained(
            "Continue a survey whose results --jsonl has written to FILE\n\n\
             What is missing is measured. The other options must be the same. FILE grows only if \
             --jsonl names it too.",
        ),
        output::quiet().within(|args| &mut args.request.is_quiet),
    ];
    let metrics = output::metrics();
    options.extend(metrics.map(|option| option.within(|args: &mut Args| &mut args.metrics)));
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<SurveyRequest>, Failure> {
    let mut args = Args {
        request: SurveyRequest {
            explains: true,
            pairs: PAIRS.to_owned(),
            pair_time: PAIR_TIME,
            seed: 1,
            ..SurveyRequest::default()
        },
        ..Args::default()
    };
    let (own, tool_texts) = shared::parts(arguments);
    let Some(names) = shared::read(&usage(), &options(), own, &mut args)? else {
        return Ok(None);
    };
    let names = shared::texts(names)?;
    let tool_texts = shared::texts(tool_texts.unwrap_or_default().to_vec())?;
    let processes = match (args.loopback, args.hosts.take()) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("--loopback and --hosts exclude each other"));
        }
        (Some(count), None) => ProcessSource::Loopback(count),
        (None, Some(hosts)) => ProcessSource::Hosts(hosts),
        (None, None) => ProcessSource::Launcher,
    };
    let is_loopback = matches!(processes, ProcessSource::Loopback(_));
    let by_servers = matches!(processes, ProcessSource::Hosts(_));
    check_combinations(&args, &processes)?;
    let tools = tools(&names)?;
    let mut without_effect: Vec<Ineffective> = Vec::new();
    for tool in &tools {
        for option in tool_options::without_effect(tool, &tool_texts, by_servers)? {
            if !without_effect.contains(&option) {
                without_effect.push(option);
            }
        }
    }
    if is_loopback && args.bad_nodes.is_some() {
        without_effect.push(Ineffective {
            option: "bad-nodes",
            reason: "the file stays empty: --loopback has no nodes of a cluster",
        });
    }
    let further = [args.request.service.as_slice(), &tool_texts].concat();
    let tests = tests(&tools, &args.sizes, &further, &args.bounds)?;
    let load = args.load.request(&processes, &tests, &args.request.service)?;
    // Only the coordinator reads the files of pairs.
    if args.selections.contains(&TypedSelection::Named(Selection::Loopback)) {
        tests.iter().try_for_each(|test| test.plan.check_loopback())?;
    }
    Ok(Some(SurveyRequest {
        processes,
        load,
        tests,
        places: Places {
            metrics: args.metrics.file_with(SERIES)?,
            bad_nodes: args.bad_nodes.map(Place::File),
            ticket: args.ticket.map(Place::File),
            ..args.request.places
        },
        without_effect: ineffective::note(&without_effect),
        ..args.request
    }))
}

/// Checks that options which exclude each other are not given together.
fn check_combinations(args: &Args, processes: &ProcessSource) -> Result<(), Failure> {
    let is_loopback = matches!(processes, ProcessSource::Loopback(_));
    if is_loopback && !args.request.devices.is_empty() {
        let message = "--loopback uses soft0 and the following NICs: leave out --device";
        return Err(Failure::usage(message));
    }
    if matches!(processes, ProcessSource::Hosts(_)) && args.request.port == Some(0) {
        let allowed = "expected the port of the servers, 1 to 65535";
        return Err(Failure::usage(invalid("port", 0, allowed)));
    }
    if args.request.locations.is_some() && args.request.topology.is_some() {
        return Err(Failure::usage("--locations and --topology exclude each other"));
    }
    if is_loopback && args.request.checks_nodes {
        return Err(Failure::usage("--check checks nodes: those of a launcher, or of --hosts"));
    }
    if let Some(file) = args.ticket.as_ref().filter(|_| !args.request.explains) {
        let allowed = "the page says why parts are bad, so it is not possible with --no-why";
        return Err(Failure::usage(invalid("ticket", file.display(), allowed)));
    }
    Ok(())
}

/// Returns the NICs of a list, in order.
fn devices(typed: &str) -> Result<Vec<DeviceName>, String> {
    let names = typed.split(',').map(|name| name.parse().map_err(str::to_owned));
    let mut devices = names.collect::<Result<Vec<DeviceName>, String>>()?;
    devices.sort_by_key(|device| (device.kind as u8, device.index));
    let count = devices.len();
    devices.dedup();
    if devices.len() == count { Ok(devices) } else { Err("expected each NIC once".into()) }
}

/// Returns the text of an option, or of the file that it names after `@`.
fn file_or_text(typed: &str) -> Result<String, String> {
    match typed.strip_prefix('@') {
        Some(path) => user_file::text(path.as_ref()).map_err(|error| cause(&error)),
        None => Ok(typed.to_owned()),
    }
}

/// Divides bounds, and tells which of them are for bandwidth tools.
fn bounds(text: &str) -> Vec<ExpectedBound> {
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
    bounds.collect()
}
