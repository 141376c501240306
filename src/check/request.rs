//! What the arguments of `check` ask for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use clap::{Args, Command};

use cli::output::MetricsRequest;
use cli::usage::Completion;
use cli::values::LEFT_OUT;
use cli::{arguments, derived, output};
use crew::gathering::Gathering;
use crew::host_list;
use facts::device::{DeviceName, LibraryFile};
use facts::error::Failure;
use facts::number::{time, within};
use node::machine::Machine;
use node::machine::placement::Cpus;
use node::slingshot::Grant;
use page::destination::Place;
use plan::DEFAULT_PORT;

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

pub static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<CheckRequest>);

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

/// Returns the process whose settings are checked.
fn job_process(typed: &str) -> Result<JobProcess, String> {
    if typed == LEFT_OUT {
        return Ok(JobProcess::Own);
    }
    Ok(JobProcess::Running(within(typed, 1..=MOST_PIDS)? as u32))
}

/// Returns the speed of a link in Gb/s.
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

    /// Returns the devices to check: the devices of the arguments, else of the job, else all
    /// hardware.
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
