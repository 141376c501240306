//! What the arguments of `check` ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli::output::MetricsRequest;
use facts::device::{DeviceName, LibraryFile};
use facts::error::Failure;
use node::machine::Machine;
use node::machine::placement::Cpus;
use node::slingshot::Grant;
use page::destination::Place;

/// Default of `--window`.
pub const WINDOW: Duration = Duration::from_secs(2);

/// Default of `--stress`: heat sinks are warm after some minutes.
pub const STRESS_TIME: Duration = Duration::from_secs(300);

/// Default of `--interval`.
pub const STRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The file with the settings of the site, named without the leading slash.
pub const SITE_FILE: &str = "etc/cxidiag/check.conf";

/// Whose settings `--job` checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobProcess {
    /// This process, in whose environment the program of the job will start.
    Own,
    /// A running process, by its id.
    Running(u32),
}

/// What the arguments ask for.
#[derive(Clone, Debug, Default)]
pub struct CheckRequest {
    pub devices: Vec<DeviceName>,
    pub is_quick: bool,
    pub no_traffic: bool,
    pub busy_ok: bool,
    pub is_quiet: bool,
    /// The NICs are loaded for this time, instead of being checked.
    pub stress: Option<Duration>,
    /// Time between two samples.
    pub interval: Option<Duration>,
    /// The CPUs that load the NICs.
    pub cpus: Cpus,
    pub window: Option<Duration>,
    pub link_gigabits: Option<f64>,
    /// Number of NICs that the machine must have.
    pub expected_nics: Option<u32>,
    /// Ranks of an MPI job, for which the service of this user needs resources.
    pub ranks: Option<u32>,
    /// The settings of this process are checked, instead of NICs.
    pub job: Option<JobProcess>,
    /// The command that will start with these settings.
    pub command: Vec<OsString>,
    /// The hosts to check, through `cxidiag serve`.
    pub hosts: Option<Vec<String>>,
    /// The port of these servers.
    pub port: Option<u16>,
    /// The process uses the NICs during the check.
    pub uses_nic: bool,
    /// A task of a launcher checks its own node only.
    pub is_local: bool,
    /// Where the tasks of a launcher meet.
    pub meeting_point: Option<PathBuf>,
    /// A survey follows, whose results standard output is for.
    pub is_before_survey: bool,
    /// When tasks are waited for at the latest.
    pub until: Option<Instant>,
    pub csv: Option<Place>,
    pub bad_nodes: Option<PathBuf>,
    pub json: Option<Place>,
    pub metrics: MetricsRequest,
    pub libcxi: Option<LibraryFile>,
}

impl CheckRequest {
    /// Takes what the arguments do not say from the settings of the site.
    pub fn fill_from(&mut self, site: Self) {
        self.expected_nics = self.expected_nics.or(site.expected_nics);
        self.link_gigabits = self.link_gigabits.or(site.link_gigabits);
    }

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
        let names = machine.cxi_devices();
        let mut devices: Vec<DeviceName> =
            names.iter().filter_map(|name| name.parse().ok()).collect();
        devices.sort_by_key(|device| device.index);
        Ok(devices)
    }
}
