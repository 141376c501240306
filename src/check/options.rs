//! What `check` takes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use super::request::{CheckRequest, JobProcess, SITE_FILE, STRESS_INTERVAL, STRESS_TIME, WINDOW};
use cli::definition::OptionDef;
use cli::usage::{Completion, Usage, Value};
use cli::values::{LEFT_OUT, text};
use cli::{arguments, output};
use crew::host_list;
use facts::error::{Failure, invalid};
use facts::number::{time, time_text, within};
use node::machine::placement::Cpus;
use plan::DEFAULT_PORT;

/// Bounds of `--window`.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(120);

/// Bounds of `--stress`.
const STRESS_TIMES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86400);

/// Bounds of `--interval`.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Most ranks of `--ranks`.
const MOST_RANKS: u32 = 100_000_000;

/// Largest number of a process in Linux.
const MOST_PIDS: u64 = 1 << 22;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag check".into(),
        about: "Check the health of NICs, with a write and a read",
        synopsis: vec![
            ("cxidiag check [DEVICE...] [OPTIONS]".into(), ""),
            ("cxidiag check --hosts=LIST [DEVICE...] [OPTIONS]".into(), ""),
            ("cxidiag check --job[=PID] [OPTIONS] [-- COMMAND]".into(), ""),
        ],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, the\n\
                          NICs of the job (SLINGSHOT_DEVICES) are checked, else all of this machine.",
        options: arguments::entries(options()),
        remarks: vec![
            "The first line is 'OK DEVICE...', 'FAIL CODE DEVICE: what' or\n\
             'UNDECIDED untested DEVICE: why'. Exit status: 0 passed, 3 an item is bad or\n\
             a NIC is missing, 4 nothing is bad but a NIC could not be tested, 1 the check\n\
             itself failed, 2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Returns the option with the speed that links must have, in Gb/s.
pub fn link_speed() -> OptionDef<Option<f64>> {
    let set = |gigabits: &mut Option<f64>, typed: &str| {
        if !matches!(typed, "50" | "100" | "200" | "400") {
            return Err("expected 50, 100, 200 or 400 (Gb/s)".into());
        }
        *gigabits = typed.parse().ok();
        Ok(())
    };
    OptionDef::text("link-speed", "GBPS", set).explained(
        "Speed that links must have, in Gb/s (default: that of the hardware, 200 or 400)",
    )
}

pub fn options() -> Vec<OptionDef<CheckRequest>> {
    type Def = OptionDef<CheckRequest>;
    let mut options = vec![
        arguments::devices().within(|request: &mut CheckRequest| &mut request.devices),
        Def::switch("no-traffic", |request| request.no_traffic = true)
            .explained("Do not write and read through the NICs"),
        Def::switch("quick", |request| request.is_quick = true)
            .explained("Read files once: no error rates, no traffic"),
        Def::switch("busy-ok", |request| request.busy_ok = true).explained(
            "Write and read also if others use a NIC\n\n\
             Without this option, NICs that other processes use are checked without traffic.",
        ),
        Def::time("window", WINDOWS, |request| &mut request.window).explained(format!(
            "Time in which errors of the link are counted (default: {}); in a longer \
                     one, lower rates show",
            time_text(WINDOW)
        )),
        Def::new(
            "stress",
            Some(Value::optional("TIME", Completion::Nothing)),
            |request: &mut CheckRequest, typed| {
                request.stress = Some(match typed.to_str() {
                    Some(LEFT_OUT) => STRESS_TIME,
                    _ => time(text(typed)?, STRESS_TIMES)?,
                });
                Ok(())
            },
        )
        .explained(format!(
            "Load the NICs for TIME instead, and watch their temperatures (default: {})\n\n\
             Each NIC writes to itself from all CPUs near it, all NICs at the same time. A row \
             shows rate, temperatures and power at each interval. A temperature at its limit and \
             a rate below 19 GB/s are bad; the load ends at once if a temperature is 5 C above \
             its limit.",
            time_text(STRESS_TIME)
        )),
        Def::time("interval", INTERVALS, |request| &mut request.interval).explained(format!(
            "Time between two rows with --stress (default: {})",
            time_text(STRESS_INTERVAL)
        )),
        Def::value("cpu", "CPUS", str::parse, |request| &mut request.cpus)
            .completed_by(Completion::Cpus)
            .explained(
                "CPUs that load the NICs with --stress, such as 0-3,8 (default: near each NIC)",
            ),
        link_speed().within(|request| &mut request.link_gigabits),
        Def::number("expect-nics", "COUNT", 1..=64_u32, |request| &mut request.expected_nics)
            .explained(format!(
                "Number of NICs that this machine must have (default: as in /{})\n\n\
                     Fewer are bad, more are suspect. NICs in hardware count whether they are \
                     checked or not, software NICs if they are checked.",
                SITE_FILE
            )),
        Def::number("ranks", "COUNT", 1..=MOST_RANKS, |request| &mut request.ranks).explained(
            "Also show for how many ranks of an MPI job with COUNT ranks the service has resources \
             (default: not shown)\n\n\
             The line names the resource that ends first, and how many ranks have reserved ones. \
             What a rank needs is an estimate: docs/batch.md has the rules. Suspect if there is no \
             room for one rank without peers.",
        ),
        Def::new(
            "job",
            Some(Value::optional("PID", Completion::Nothing)),
            |request: &mut CheckRequest, typed| {
                request.job = Some(match typed.to_str() {
                    Some(LEFT_OUT) => JobProcess::Own,
                    _ => JobProcess::Running(within(text(typed)?, 1..=MOST_PIDS)? as u32),
                });
                Ok(())
            },
        )
        .explained(
            "Check whether the settings of a job take effect, instead of NICs: of the running process \
             PID (default: of this environment)\n\n\
             The libfabric of the job is asked which settings it knows and what it uses. COMMAND is \
             not started: its words NAME=VALUE are settings, too. The tasks of a launcher are \
             compared. docs/settings.md has the rules.",
        ),
        Def::text("hosts", "LIST|@FILE", |request, typed| {
            let hosts: BTreeSet<String> = host_list::option_hosts(typed)?.into_iter().collect();
            request.hosts = Some(hosts.into_iter().collect());
            Ok(())
        })
        .explained(
            "Check these hosts, on which 'cxidiag serve' runs, without traffic, such as \
             nid[0001-0512] (default: this machine, or the tasks of a launcher)\n\n\
             LIST is a host list; FILE has one on each line. The check is quick: it counts no \
             errors and sends nothing through the NICs. Each server runs one check a second.",
        ),
        Def::number("port", "PORT", 1..=u16::MAX, |request| &mut request.port)
            .letter('p')
            .explained(format!("TCP port of the servers of --hosts (default: {DEFAULT_PORT})")),
        Def::switch("local", |request| request.is_local = true).explained(
            "Check this node only, also as a task of a launcher\n\n\
             Without this option, the tasks of a launcher check their nodes together, and the \
             first one prints one result.",
        ),
        Def::file("meeting-point", |request| &mut request.meeting_point).explained(
            "File by which the tasks of a launcher find each other (default: in the working \
             directory)\n\n\
             All nodes share its directory. With CXIDIAG_TOKEN in the environment of all tasks, \
             they need no file if the launcher names the hosts.",
        ),
        Def::file("bad-nodes", |request| &mut request.bad_nodes).explained(
            "Write the nodes that are bad to FILE, as a host list\n\n\
             The list is in the form of 'scontrol update NodeName='. The check drains no node.",
        ),
        Def::document("csv", |request| &mut request.csv).explained(
            "Print the findings of all nodes as CSV instead of the text, or write them to FILE\n\n\
             Each finding about a node has a row, and each node without any has one.",
        ),
        output::quiet().within(|request| &mut request.is_quiet),
        output::json().within(|request| &mut request.json),
    ];
    let metrics = output::metrics();
    options.extend(
        metrics.map(|option| option.within(|request: &mut CheckRequest| &mut request.metrics)),
    );
    options.push(arguments::libcxi().within(|request| &mut request.libcxi));
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<CheckRequest>, Failure> {
    let mut request = CheckRequest::default();
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    if request.job.is_some() {
        request.command = words;
        return check_modes(&request).map(|()| Some(request));
    }
    arguments::add_devices(&mut request.devices, words, arguments)?;
    request.libcxi = request.libcxi.or_else(arguments::library_of_environment);
    if request.is_quick && request.window.is_some() {
        return Err(Failure::usage("--window has no effect with --quick, which counts no errors"));
    }
    check_modes(&request)?;
    if request.hosts.is_some() {
        let on_servers = [
            ("window", request.window.is_some()),
            ("busy-ok", request.busy_ok),
            ("no-traffic", request.no_traffic),
            ("local", request.is_local),
            ("ranks", request.ranks.is_some()),
            ("meeting-point", request.meeting_point.is_some()),
        ];
        if let Some((option, _)) = on_servers.iter().find(|(_, is_given)| *is_given) {
            let message =
                format!("--{option} has no effect with --hosts, whose servers check quickly");
            return Err(Failure::usage(message));
        }
    } else if let Some(port) = request.port {
        return Err(Failure::usage(invalid("port", port, "it is for --hosts")));
    }
    Ok(Some(request))
}

/// Checks the options of `--stress`, and those that have no effect beside it.
///
/// # Errors
///
/// The first option without effect.
fn check_modes(request: &CheckRequest) -> Result<(), Failure> {
    let options = [
        ("stress", request.stress.is_some()),
        ("interval", request.interval.is_some()),
        ("cpu", request.cpus != Cpus::Any),
        ("no-traffic", request.no_traffic),
        ("quick", request.is_quick),
        ("busy-ok", request.busy_ok),
        ("window", request.window.is_some()),
        ("link-speed", request.link_gigabits.is_some()),
        ("expect-nics", request.expected_nics.is_some()),
        ("ranks", request.ranks.is_some()),
        ("hosts", request.hosts.is_some()),
        ("meeting-point", request.meeting_point.is_some()),
        ("bad-nodes", request.bad_nodes.is_some()),
        ("csv", request.csv.is_some()),
        ("openmetrics", request.metrics.is_given()),
    ];
    let given: Vec<&str> =
        options.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    let message = if request.stress.is_some() {
        let own = ["stress", "interval", "cpu", "busy-ok", "openmetrics"];
        let why = "has no effect with --stress, which loads the NICs of this machine";
        given.iter().find(|name| !own.contains(name)).map(|name| format!("--{name} {why}"))
    } else if request.job.is_some() {
        let own = ["meeting-point", "openmetrics"];
        let why = "has no effect with --job, which checks settings";
        given.iter().find(|name| !own.contains(name)).map(|name| format!("--{name} {why}"))
    } else {
        let needs_load = given.iter().find(|name| matches!(**name, "interval" | "cpu"));
        needs_load.map(|name| format!("--{name} needs --stress"))
    };
    message.map_or(Ok(()), |message| Err(Failure::usage(message)))
}
