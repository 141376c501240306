//! What the arguments of `stat` ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::forwarding::Forwarding;
use crate::counter_set::CounterSet;
use crate::text::Level;
use cli::output::MetricsRequest;
use facts::device::DeviceName;
use page::destination::Place;

/// How long the leader waits for the other processes of its node.
pub const LINGER: Duration = Duration::from_secs(1);

/// What the arguments ask for.
#[derive(Clone, Debug, Default)]
pub struct StatRequest {
    /// The NICs; without any, what the job has, else all of this machine.
    pub devices: Vec<DeviceName>,
    /// What to do.
    pub form: StatAction,
    pub set: CounterSet,
    /// How much the report shows.
    pub level: Level,
    /// Whether the report is left out if nothing is unusual.
    pub is_quiet: bool,
    /// A file for the report.
    pub output: Option<PathBuf>,
    pub json: Option<Place>,
    pub csv: Option<Place>,
    /// `--openmetrics`.
    pub metrics: MetricsRequest,
    /// Codes of findings with which `--stop` and `--merge` fail.
    pub fail_on: Vec<&'static str>,
    /// Which signals the command gets.
    pub forwarding: Forwarding,
    /// How long the leader waits for the other processes of its node.
    pub linger: Duration,
    /// Whether results have the arguments of the command.
    pub with_arguments: bool,
    /// `--dir`: where the directory of the step goes.
    pub directory: PathBuf,
    /// Whether the first node reports what all nodes have read.
    pub is_gathered: bool,
    /// How long it waits for the others; `None` for a time that grows with the run.
    pub gather: Option<Duration>,
    /// `--interval`: how often some counters are read while the command runs.
    pub interval: Option<Duration>,
    /// Whether the directory of the step stays.
    pub is_kept: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatAction {
    /// Reads the counters, runs a command, and reads them again.
    Run(Vec<OsString>),
    /// Reads the counters into a file.
    Start(PathBuf),
    /// Reads them again, and reports since this file was written.
    Stop(PathBuf),
    /// Reports what the nodes in these directories have read.
    Merge(Vec<PathBuf>),
    /// Shows what the NICs do once a second.
    Top,
}

impl Default for StatAction {
    /// Returns the form without options, before its command is read.
    fn default() -> Self {
        Self::Run(Vec::new())
    }
}
