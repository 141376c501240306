//! One node of a job over some seconds: its ranks, each with what it does, and its NICs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::nics::{NicState, NicWatch};
use crate::process::{self, Activity, Holdings, ProcessSample, ThreadSample};
use crate::ranks::{EndedRank, JobProcesses, RankName, RankProcess, Search, names};
use facts::error::Failure;
use facts::host::host_name;
use facts::interrupt;
use facts::job::Job;
use facts::number::decimal;
use node::machine::Machine;
use node::reading;

/// Time between two readings, unless the user chooses another one (hangs.md 1).
pub const INTERVAL: Duration = Duration::from_secs(4);

/// Shortest time between two readings.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// How often the node is read.
const READINGS: usize = 3;

/// Processes that a line names.
const MOST_PIDS: usize = 4;

/// One node of a job, or several nodes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeReading {
    /// Name of the node; of several, how many there are.
    pub host: String,
    /// The parallel program, as its launcher numbers it; null without a launcher.
    pub job: Option<String>,
    /// The batch job of the program; null outside a job.
    #[serde(default)]
    pub job_id: Option<String>,
    /// What tells two parallel programs of one job apart; null if the launcher does not tell.
    #[serde(default)]
    pub step: Option<String>,
    /// Number of ranks of the whole job; null if it is unknown.
    pub size: Option<u32>,
    /// Time between the first and the last reading, in seconds.
    pub seconds: f64,
    /// The ranks on this node.
    pub ranks: Vec<RankState>,
    /// Ranks that have ended.
    pub ended: Vec<EndedRank>,
    /// Processes of the job that hide what they hold.
    pub hidden: Vec<u32>,
    /// Number of processes of the job without a NIC and without a communication library.
    pub helpers: u32,
    /// The NICs of the ranks.
    pub nics: Vec<NicState>,
    /// What is not readable, and who can read it.
    pub unreadable: Vec<Unreadable>,
    /// In a report of several nodes, the nodes whose ranks were not read.
    #[serde(default)]
    pub without_answer: Vec<UnansweredNodes>,
}

/// A rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankState {
    /// Its rank; null without a launcher.
    pub rank: Option<u32>,
    /// Its process.
    pub pid: u32,
    /// Its node, in a report of several nodes.
    pub host: Option<String>,
    /// Name of its program.
    pub name: String,
    /// What its main thread does.
    pub activity: Activity,
    /// The kernel function in which the main thread sleeps; null if it runs, or if the kernel hides
    /// it.
    pub wait_channel: Option<String>,
    /// Number of the system call of the main thread; null if it runs, or if it is not readable.
    pub system_call: Option<String>,
    /// What its other threads do, each with the number of threads.
    pub other_threads: BTreeMap<String, u32>,
    /// The process that traces it.
    pub tracer: Option<u32>,
    /// What it holds.
    pub holdings: Holdings,
}

/// Nodes whose ranks were not read, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct UnansweredNodes {
    /// The nodes, as a host list.
    pub nodes: String,
    /// Number of nodes.
    pub count: u32,
    /// Why they were not read.
    pub why: String,
}

/// Something that is not readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Unreadable {
    /// What it is.
    pub what: String,
    /// Who can read it: you, or the administrator.
    pub reader: String,
    /// The command with which this person reads it.
    pub command: String,
}

/// Reads these processes of this node and their NICs three times, `interval` apart. Without `pids`,
/// the ranks of `job`, or else of the job of this process.
///
/// # Errors
///
/// The failures of [`JobProcesses::find`], and an interruption.
pub fn read(pids: &[u32], job: Option<String>, interval: Duration) -> Result<NodeReading, Failure> {
    let search = &Search {
        machine: &Machine::this(),
        pids,
        own_job: job.or_else(|| Job::from_environment().map(|job| job.id)),
        own_pid: std::process::id(),
        user: geteuid().as_raw(),
        page: cxi::page_size() as u64,
    };
    let mut found = JobProcesses::find(search)?;
    let nics: BTreeSet<&str> =
        found.ranks.iter().flat_map(|rank| &rank.holdings.nics).map(String::as_str).collect();
    let nics = nics.into_iter().filter_map(|nic| nic.parse().ok());
    let mut nics: Vec<NicWatch> = nics.map(|nic| NicWatch::begin(nic, search.machine)).collect();
    let mut samples: Vec<Vec<ProcessSample>> = vec![Vec::new(); found.ranks.len()];
    let begin = Instant::now();
    for round in 0..READINGS {
        if round > 0 {
            interrupt::wait_for_any(&mut Vec::new(), Some(interval))?;
        }
        nics.iter_mut().for_each(NicWatch::read);
        for (rank, samples) in found.ranks.iter().zip(&mut samples) {
            let sample = process::sample(&process::directory(search.machine, rank.pid));
            samples.extend(sample.filter(|sample| sample.start == rank.start));
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut ranks = Vec::new();
    for (rank, samples) in found.ranks.iter().zip(&samples) {
        let state = RankState::new(search, rank, samples);
        // A zombie keeps its last state.
        if samples.len() < READINGS || state.activity == Activity::Ended {
            let proof = format!("process {} has ended during the readings", rank.pid);
            let (rank, pid) = (rank.number.rank, Some(rank.pid));
            found.ended.push(EndedRank { rank, pid, proof });
        } else {
            ranks.push(state);
        }
    }
    let service = |nic: &NicWatch| {
        let mut services = found.ranks.iter().filter_map(|rank| rank.services.get(&nic.name()));
        services.next().copied()
    };
    let nics: Vec<NicState> = nics.iter().map(|nic| nic.state(service(nic))).collect();
    let unreadable = unreadable(search, &ranks, &found.hidden, &nics);
    Ok(NodeReading {
        host: host_name(),
        job: found.job,
        job_id: found.job_id,
        step: found.step,
        size: found.size,
        seconds,
        ranks,
        ended: found.ended,
        hidden: found.hidden,
        helpers: found.helpers.len() as u32,
        nics,
        unreadable,
        without_answer: Vec::new(),
    })
}

impl RankState {
    fn new(search: &Search, rank: &RankProcess, samples: &[ProcessSample]) -> Self {
        let thread = |tid: u32| -> Vec<&ThreadSample> {
            samples.iter().filter_map(|sample| sample.threads.get(&tid)).collect()
        };
        let last = samples.last();
        let threads = last.into_iter().flat_map(|sample| sample.threads.keys());
        let mut other_threads: BTreeMap<String, u32> = BTreeMap::new();
        for tid in threads.filter(|tid| **tid != rank.pid) {
            *other_threads.entry(process::activity(&thread(*tid)).name().into()).or_default() += 1;
        }
        let main = last.and_then(|sample| sample.threads.get(&rank.pid));
        let directory = process::directory(search.machine, rank.pid);
        let tracer = process::status_field(&directory, "TracerPid");
        let tracer = tracer.and_then(|text| decimal(&text)).filter(|pid| *pid > 0);
        Self {
            rank: rank.number.rank,
            pid: rank.pid,
            host: None,
            name: rank.name.clone(),
            activity: process::activity(&thread(rank.pid)),
            wait_channel: main.and_then(|main| main.wait_channel.clone()),
            system_call: main.and_then(|main| main.call.clone()),
            other_threads,
            tracer: tracer.and_then(|pid| u32::try_from(pid).ok()),
            holdings: rank.holdings.clone(),
        }
    }

    /// Returns what its name consists of.
    pub fn numbers(&self) -> RankName<'_> {
        (self.rank, self.pid, self.host.as_deref())
    }

    /// Returns its name in texts.
    pub fn label(&self) -> String {
        names(&[self.numbers()])
    }

    /// Returns whether one of its threads does this.
    pub fn has_thread(&self, activity: Activity) -> bool {
        self.activity == activity || self.other_threads.contains_key(activity.name())
    }
}

/// Returns what is not readable, with the command of the person who can read it.
fn unreadable(
    search: &Search,
    ranks: &[RankState],
    hidden: &[u32],
    nics: &[NicState],
) -> Vec<Unreadable> {
    let administrator = |what: String, command: String| Unreadable {
        what,
        reader: "the administrator".into(),
        command,
    };
    let mut all = Vec::new();
    for pid in hidden {
        let what = format!("process {pid}, which hides what it holds");
        all.push(administrator(what, format!("cxidiag why --job={pid}")));
    }
    let unreadable = nics.iter().flat_map(|nic| &nic.unreadable);
    for what in unreadable {
        all.push(administrator(what.clone(), "cxidiag devices".into()));
    }
    if !ranks.is_empty() {
        let file = search.machine.root().join("proc/sys/kernel/yama/ptrace_scope");
        let scope = reading::text(&file).ok().and_then(|text| decimal(text.trim()));
        let what = "the functions in which the ranks are".to_owned();
        let pids = ranks.iter().take(MOST_PIDS).map(|rank| rank.pid.to_string());
        let pids = pids.collect::<Vec<_>>().join(" ");
        if scope.unwrap_or(0) == 0 || search.user == 0 {
            let command = format!("for p in {pids}; do eu-stack -p $p; done");
            all.push(Unreadable { what, reader: "you".into(), command });
        } else {
            let what = format!("{what} (kernel.yama.ptrace_scope is {})", scope.unwrap_or(0));
            all.push(administrator(what, format!("for p in {pids}; do eu-stack -p $p; done")));
        }
    }
    all
}
