//! What `check` takes and what its arguments ask for, and the settings of a site for all checks of
//! a machine, in a file with a line for each.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use clap::{Args, Command};
use cli::arguments::{self, TypedArguments};
use cli::derived;
use cli::output::{self, MetricsRequest};
use cli::parser::{self, Parsed};
use cli::usage::{Completion, Usage};
use cli::values::LEFT_OUT;
use crew::gathering::Gathering;
use crew::host_list;
use facts::device::{DeviceName, LibraryFile};
use facts::error::{Context, Failure, invalid};
use facts::number::{time, within};
use node::machine::Machine;
use node::machine::placement::Cpus;
use node::reading;
use node::slingshot::Grant;
use page::destination::Place;
use plan::DEFAULT_PORT;

/// Options about the NICs that are checked, and the nodes.
const OF_CHECK: [&str; 10] = [
    "no-traffic",
    "quick",
    "window",
    "link-speed",
    "expect-nics",
    "ranks",
    "hosts",
    "meeting-point",
    "bad-nodes",
    "csv",
];

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
        options: derived::entries(&COMMAND),
        remarks: vec![
            "The first line is 'OK DEVICE...', 'FAIL CODE DEVICE: what' or\n\
             'UNDECIDED untested DEVICE: why'. Exit status: 0 passed, 3 an item is bad or\n\
             a NIC is missing, 4 nothing is bad but a NIC could not be tested, 1 the check\n\
             itself failed, 2 invalid arguments, 130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<CheckRequest>, Failure> {
    let Some(mut typed) = TypedArguments::<CheckRequest>::read(&usage(), &COMMAND, arguments)?
    else {
        return Ok(None);
    };
    let words = std::mem::take(&mut typed.words);
    if typed.request.job.is_some() {
        let refusal = excluded(&typed).map(Failure::usage);
        let request = CheckRequest { command: words, ..typed.request };
        return refusal.map_or(Ok(Some(request)), Err);
    }
    arguments::add_devices(&mut typed.request.devices, words, arguments)?;
    if let Some(why) = excluded(&typed) {
        return Err(Failure::usage(why));
    }
    let request = typed.request;
    match request.port {
        Some(port) if request.hosts.is_none() => {
            Err(Failure::usage(invalid("port", port, "it is for --hosts")))
        }
        _ => {
            let libcxi = request.libcxi.or_else(arguments::library_of_environment);
            Ok(Some(CheckRequest { libcxi, ..request }))
        }
    }
}

/// Returns what is wrong with the first option that has no effect beside others, if there is one.
fn excluded(typed: &TypedArguments<CheckRequest>) -> Option<String> {
    let request = &typed.request;
    let given = |longs: &[&'static str]| longs.iter().find(|long| typed.is_given(long)).copied();
    if request.is_quick && request.window.is_some() {
        return Some("--window has no effect with --quick, which counts no errors".into());
    }
    if request.stress.is_some() {
        let why = "has no effect with --stress, which loads the NICs of this machine";
        return given(&OF_CHECK).map(|long| format!("--{long} {why}"));
    }
    if request.job.is_some() {
        let why = "has no effect with --job, which checks settings";
        let own = ["device", "libcxi", "interval", "cpu", "busy-ok"];
        let others = OF_CHECK.into_iter().filter(|long| *long != "meeting-point");
        let others: Vec<&str> = own.into_iter().chain(others).collect();
        return given(&others).map(|long| format!("--{long} {why}"));
    }
    if let Some(long) = given(&["interval", "cpu"]) {
        return Some(format!("--{long} needs --stress"));
    }
    request.hosts.as_ref()?;
    let why = "has no effect with --hosts, whose servers check quickly";
    let found = given(&["window", "busy-ok", "no-traffic", "local", "ranks", "meeting-point"]);
    found.map(|long| format!("--{long} {why}"))
}

/// The file, named without the leading slash.
const FILE: &str = "etc/cxidiag/check.conf";

static SITE_COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<SiteSettings>);

/// Returns what the file asks for; nothing without the file.
///
/// # Errors
///
/// A file that cannot be read, and a line that is not an option with a valid value.
pub fn read(machine: &Machine) -> Result<SiteSettings, Failure> {
    let path = machine.root().join(FILE);
    let text = match reading::text(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(SiteSettings::default()),
        text => text.environment(format_args!("cannot read {}", path.display()))?,
    };
    request(&text).map_err(|failure| failure.context(path.display()))
}

/// The speed that links must have, in Gb/s, if the file names it.
///
/// # Errors
///
/// A file that cannot be read, and a line that is no setting.
pub fn link_speed(machine: &Machine) -> Result<Option<f64>, Failure> {
    Ok(read(machine)?.link_gigabits)
}

fn request(text: &str) -> Result<SiteSettings, Failure> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let argument = |line: &str| match line.split_once('=') {
        Some((name, value)) => format!("--{}={}", name.trim(), value.trim()).into(),
        None => format!("--{line}").into(),
    };
    let arguments: Vec<_> = lines.map(argument).collect();
    let declared = derived::options(&SITE_COMMAND).map(|option| option.declared());
    match parser::read(declared, &arguments, |_| None)? {
        Parsed::Matches(matches) => derived::read(&SITE_COMMAND, &matches),
        Parsed::Help { .. } | Parsed::Version => Ok(SiteSettings::default()),
    }
}

/// Default of `--window`.
pub const WINDOW: Duration = Duration::from_secs(2);

/// Bounds of `--window`.
const WINDOWS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(120);

/// Bounds of `--stress`.
const STRESS_TIMES: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(86400);

/// Bounds of `--interval`.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Most ranks of `--ranks`.
const MOST_RANKS: u32 = 100_000_000;

/// Largest number of a process in Linux.
const MOST_PIDS: u64 = 1 << 22;

/// What `--link-speed` does.
pub const LINK_SPEED: &str =
    "Speed that links must have, in Gb/s (default: that of the hardware, 200 or 400)";

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<CheckRequest>);

/// Whose settings `--job` checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobProcess {
    /// This process, in whose environment the program of the job will start.
    Own,
    /// A running process, by its id.
    Running(u32),
}

/// What the arguments ask for.
#[derive(Clone, Debug, Args)]
pub struct CheckRequest {
    #[arg(short, long = "device", help = arguments::DEVICES, value_name = "DEV,...", value_delimiter = ',')]
    #[arg(add = Completion::Devices)]
    pub devices: Vec<DeviceName>,

    /// Do not write and read through the NICs
    #[arg(long)]
    pub no_traffic: bool,

    /// Read files once: no error rates, no traffic
    #[arg(long = "quick")]
    pub is_quick: bool,

    /// Write and read also if others use a NIC
    ///
    /// Without this option, NICs that other processes use are checked without traffic.
    #[arg(long)]
    pub busy_ok: bool,

    /// Time in which errors of the link are counted (default: 2s); in a longer one, lower rates
    /// show
    #[arg(long, value_name = "TIME", value_parser = |typed: &str| time(typed, WINDOWS))]
    pub window: Option<Duration>,

    /// Load the NICs for TIME instead, and watch their temperatures (default: 5m)
    ///
    /// Each NIC writes to itself from all CPUs near it, all NICs at the same time. A row shows
    /// rate, temperatures and power at each interval. A temperature at its limit and a rate below
    /// 19 GB/s are bad; the load ends at once if a temperature is 5 C above its limit.
    // Heat sinks are warm after some minutes.
    #[arg(long, value_name = "TIME", require_equals = true)]
    #[arg(value_parser = derived::time_or("5m", STRESS_TIMES))]
    pub stress: Option<Duration>,

    /// Time between two rows with --stress
    #[arg(long, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = |typed: &str| time(typed, INTERVALS))]
    pub interval: Duration,

    /// CPUs that load the NICs with --stress, such as 0-3,8 (default: near each NIC)
    #[arg(long = "cpu", value_name = "CPUS", add = Completion::Cpus)]
    pub cpus: Option<Cpus>,

    #[command(flatten)]
    pub site: SiteSettings,

    /// Also show for how many ranks of an MPI job with COUNT ranks the service has resources
    /// (default: not shown)
    ///
    /// The line names the resource that ends first, and how many ranks have reserved ones. What a
    /// rank needs is an estimate: docs/batch.md has the rules. Suspect if there is no room for one
    /// rank without peers.
    #[arg(long, value_name = "COUNT", value_parser = derived::number(1..=MOST_RANKS))]
    pub ranks: Option<u32>,

    /// Check whether the settings of a job take effect, instead of NICs: of the running process PID
    /// (default: of this environment)
    ///
    /// The libfabric of the job is asked which settings it knows and what it uses. COMMAND is not
    /// started: its words NAME=VALUE are settings, too, and the libfabric that its program loads is
    /// asked. The tasks of a launcher are compared. docs/settings.md has the rules.
    #[arg(long, value_name = "PID", require_equals = true, value_parser = job_process)]
    pub job: Option<JobProcess>,

    /// Check these hosts, on which 'cxidiag serve' runs, without traffic, such as nid[0001-0512]
    /// (default: this machine, or the tasks of a launcher)
    ///
    /// LIST is a host list; FILE has one on each line. The check is quick: it counts no errors and
    /// sends nothing through the NICs. Each server runs one check a second.
    #[arg(long, value_name = "LIST|@FILE", value_parser = hosts)]
    pub hosts: Option<Hosts>,

    #[arg(short, long, help = format!("TCP port of the servers of --hosts (default: {DEFAULT_PORT})"))]
    #[arg(value_name = "PORT", value_parser = derived::number(1..=u16::MAX))]
    pub port: Option<u16>,

    /// Check this node only, also as a task of a launcher
    ///
    /// Without this option, the tasks of a launcher check their nodes together, and the first one
    /// prints one result.
    #[arg(long = "local")]
    pub is_local: bool,

    /// File by which the tasks of a launcher find each other (default: in the working directory)
    ///
    /// All nodes share its directory. With CXIDIAG_TOKEN in the environment of all tasks, they need
    /// no file if the launcher names the hosts.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub meeting_point: Option<PathBuf>,

    /// Write the nodes that are bad to FILE, as a host list
    ///
    /// The list is in the form of 'scontrol update NodeName='. The check drains no node.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub bad_nodes: Option<PathBuf>,

    /// Print the findings of all nodes as CSV instead of the text, or write them to FILE
    ///
    /// Each finding about a node has a row, and each node without any has one.
    #[arg(long, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub csv: Option<Place>,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    pub is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    #[command(flatten)]
    pub metrics: MetricsRequest,

    #[arg(long, help = arguments::LIBCXI, value_name = "PATH")]
    #[arg(value_parser = arguments::library(), add = Completion::Files)]
    pub libcxi: Option<LibraryFile>,

    /// The process uses the NICs during the check.
    #[arg(skip)]
    pub uses_nic: bool,

    /// A survey follows, whose results standard output is for.
    #[arg(skip)]
    pub is_before_survey: bool,

    /// When tasks are waited for at the latest.
    #[arg(skip)]
    pub until: Option<Instant>,

    /// The command of --job, with its arguments.
    #[arg(skip)]
    pub command: Vec<OsString>,
}

/// What the file of the site may contain, too.
#[derive(Clone, Debug, Default, Args)]
pub struct SiteSettings {
    #[arg(long = "link-speed", help = LINK_SPEED, value_name = "GBPS", value_parser = gigabits)]
    pub link_gigabits: Option<f64>,

    /// Number of NICs that this machine must have (default: as in /etc/cxidiag/check.conf)
    ///
    /// Fewer are bad, more are suspect. NICs in hardware count whether they are checked or not,
    /// software NICs if they are checked.
    #[arg(long = "expect-nics", value_name = "COUNT", value_parser = derived::number(1..=64_u32))]
    pub expected_nics: Option<u32>,
}

impl CheckRequest {
    /// Returns how the tasks of a launcher come together.
    pub fn gathering(&self) -> Gathering<'_> {
        Gathering {
            command: "check",
            meeting_point: self.meeting_point.as_deref(),
            window: self.window.unwrap_or_default(),
            last: self.until.map(|until| (until, "no check within a quarter of --time-limit")),
        }
    }
}

/// The hosts of a list, each once.
type Hosts = Vec<String>;

fn hosts(typed: &str) -> Result<Hosts, String> {
    let hosts: BTreeSet<String> = host_list::option_hosts(typed)?.into_iter().collect();
    Ok(hosts.into_iter().collect())
}

/// The process whose settings are checked.
fn job_process(typed: &str) -> Result<JobProcess, String> {
    if typed == LEFT_OUT {
        return Ok(JobProcess::Own);
    }
    Ok(JobProcess::Running(within(typed, 1..=MOST_PIDS)? as u32))
}

/// The speed of a link in Gb/s.
pub fn gigabits(typed: &str) -> Result<f64, &'static str> {
    let is_known = matches!(typed, "50" | "100" | "200" | "400");
    typed.parse().ok().filter(|_| is_known).ok_or("expected 50, 100, 200 or 400 (Gb/s)")
}

impl Default for CheckRequest {
    fn default() -> Self {
        derived::unset(&COMMAND)
    }
}

impl SiteSettings {
    /// Takes what the arguments do not say from the settings of the site.
    pub fn fill_from(&mut self, site: &Self) {
        self.expected_nics = self.expected_nics.or(site.expected_nics);
        self.link_gigabits = self.link_gigabits.or(site.link_gigabits);
    }
}

impl CheckRequest {
    pub fn has_traffic(&self) -> bool {
        !self.is_quick && !self.no_traffic
    }

    pub fn has_window(&self) -> bool {
        !self.is_quick
    }

    /// Returns why the traffic of other processes is unknown, if it is.
    pub fn own_traffic(&self) -> Option<&'static str> {
        if self.is_quick {
            Some("--quick")
        } else if self.uses_nic || self.has_traffic() {
            Some("the check itself uses the NIC; --no-traffic")
        } else {
            None
        }
    }

    /// The devices to check: the devices of the arguments, else of the job, else all hardware.
    ///
    /// # Errors
    ///
    /// A NIC of the job whose name is not the name of a device.
    pub fn devices(
        &self,
        grant: Option<&Grant>,
        machine: &Machine,
    ) -> Result<Vec<DeviceName>, Failure> {
        if !self.devices.is_empty() {
            return Ok(self.devices.clone());
        }
        if let Some(grant) = grant {
            let devices = grant.devices().map(|name| {
                name.parse().map_err(|why: &str| {
                    Failure::usage(format!("SLINGSHOT_DEVICES: '{name}': {why}"))
                })
            });
            return devices.collect();
        }
        Ok(machine.nics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_for_each_setting() {
        let found = request("# of this site\n\nexpect-nics=4\n  link-speed=100\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        let found = request("\u{feff} expect-nics = 4 \r\nlink-speed =100\r\n").unwrap();
        assert_eq!(found.expected_nics, Some(4));
        assert_eq!(found.link_gigabits, Some(100.0));
        for wrong in ["expect-nics=0", "expect-nics", "quick", "json=/tmp/x", "cxi0", "help", "-"] {
            let failure = request(wrong).unwrap_err();
            assert_eq!(failure.status(), 2, "{wrong}: {failure}");
        }
    }
}
