//! One node of a job over some seconds: its ranks, each with what it does, and its NICs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::call_watch::{CallWatch, StackSource};
use crate::calls::RankCall;
use crate::nics::{NicState, NicWatch};
use crate::process::{self, Activity, Holdings, ProcessSample, ThreadSample};
use crate::ranks::{EndedRank, JobProcesses, RankName, RankProcess, RankSearch, names};
use crate::stacks::StackFailure;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::host::host_name;
use facts::interrupt;
use facts::job::Job;
use facts::number::decimal;
use node::machine::Machine;

/// Time between two readings, unless the user chooses another one (hangs.md 1).
pub const INTERVAL: Duration = Duration::from_secs(4);

/// Shortest time between two readings.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Time for the stacks of all ranks at a reading, unless the user chooses another one (hangs.md 1).
pub const STACK_TIME: Duration = Duration::from_secs(2);

/// The times of the readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingTimes {
    /// Time between two readings.
    pub interval: Duration,
    /// Time for the stacks of the ranks at a reading; without it, they are left out.
    pub stacks: Option<Duration>,
}

impl ReadingTimes {
    /// The longest time of all readings.
    pub fn total(&self) -> Duration {
        2 * (self.interval + self.stacks.unwrap_or_default())
    }
}

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
    /// The functions in which it is; null if they were not read.
    pub call: Option<RankCall>,
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

/// Reads these processes of this node and their NICs three times, and the stacks of the processes
/// after the first and the last time. Without `pids`, the ranks of `job`, or else of the job of
/// this process.
///
/// # Errors
///
/// The failures of [`JobProcesses::find`], and an interruption.
pub fn read(
    pids: &[u32],
    job: Option<String>,
    times: ReadingTimes,
) -> Result<NodeReading, Failure> {
    let search = &RankSearch {
        machine: &Machine::this(),
        pids,
        own_job: job.or_else(|| Job::from_environment().map(|job| job.id)),
        own_pid: std::process::id(),
        user: geteuid().as_raw(),
        page: cxi::page_size() as u64,
    };
    let stacks = &StackSource::find(search.machine, times.stacks);
    let mut found = JobProcesses::find(search)?;
    let mut nics = watched_nics(&found, search.machine);
    let mut samples: Vec<Vec<ProcessSample>> = vec![Vec::new(); found.ranks.len()];
    let mut order = Vec::new();
    let mut calls = CallWatch::new(stacks, search.machine);
    let begin = Instant::now();
    let mut last = begin;
    for round in 0..READINGS {
        if round > 0 {
            let wait = times.interval.saturating_sub(last.elapsed());
            interrupt::wait_for_any(&mut Vec::new(), Some(wait))?;
            last = Instant::now();
        }
        nics.iter_mut().for_each(NicWatch::read);
        for (rank, samples) in found.ranks.iter().zip(&mut samples) {
            let sample = process::sample(&process::directory(search.machine, rank.pid));
            samples.extend(sample.filter(|sample| sample.start == rank.start));
        }
        if round == 0 {
            order = rarest_first(&found.ranks, &samples);
            calls.read(&order)?;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    calls.read_again(&order)?;
    let (ranks, ended) = rank_states(search, &found.ranks, &samples, &calls);
    found.ended.extend(ended);
    let nics = nic_states(&found.ranks, &nics);
    let mut unreadable = unreadable(&found.hidden, &nics);
    unreadable.extend(unread_calls(&ranks, stacks, &calls.failures));
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

/// Begins to watch the NICs of the ranks.
fn watched_nics(found: &JobProcesses, machine: &Machine) -> Vec<NicWatch> {
    let nics: BTreeSet<&str> =
        found.ranks.iter().flat_map(|rank| &rank.holdings.nics).map(String::as_str).collect();
    let mut nics: Vec<DeviceName> = nics.into_iter().filter_map(|nic| nic.parse().ok()).collect();
    if found.ranks.is_empty() && found.hidden.is_empty() {
        // What processes have left there that have ended.
        nics = machine.nics();
    }
    nics.into_iter().map(|nic| NicWatch::begin(nic, machine)).collect()
}

/// Returns what the NICs do, with the services that the ranks use on them.
fn nic_states(ranks: &[RankProcess], nics: &[NicWatch]) -> Vec<NicState> {
    let service = |nic: &NicWatch| {
        let mut services = ranks.iter().filter_map(|rank| rank.services.get(&nic.name()));
        services.next().copied()
    };
    nics.iter().map(|nic| nic.state(service(nic))).collect()
}

/// Returns what the ranks do, and the ranks that have ended during the readings.
fn rank_states(
    search: &RankSearch,
    ranks: &[RankProcess],
    samples: &[Vec<ProcessSample>],
    calls: &CallWatch,
) -> (Vec<RankState>, Vec<EndedRank>) {
    let (mut states, mut ended) = (Vec::new(), Vec::new());
    for (rank, samples) in ranks.iter().zip(samples) {
        let call = calls.call(rank.pid).cloned();
        let state = RankState { call, ..RankState::new(search, rank, samples) };
        // A zombie keeps its last state.
        if samples.len() < READINGS || state.activity == Activity::Ended {
            let proof = format!("process {} has ended during the readings", rank.pid);
            let (rank, pid) = (rank.number.rank, Some(rank.pid));
            ended.push(EndedRank { rank, pid, proof });
        } else {
            states.push(state);
        }
    }
    (states, ended)
}

impl RankState {
    fn new(search: &RankSearch, rank: &RankProcess, samples: &[ProcessSample]) -> Self {
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
            call: None,
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

    /// Returns what it does, for texts: the call in which it is, if this is known.
    pub fn does(&self) -> String {
        let call = self.call.as_ref().and_then(RankCall::text);
        call.unwrap_or_else(|| self.activity.name().to_owned())
    }

    /// Whether one of its threads does this.
    pub fn has_thread(&self, activity: Activity) -> bool {
        self.activity == activity || self.other_threads.contains_key(activity.name())
    }
}

/// The processes, those that do what few do first.
fn rarest_first(ranks: &[RankProcess], samples: &[Vec<ProcessSample>]) -> Vec<u32> {
    let activities = ranks.iter().zip(samples).map(|(rank, samples)| {
        let main = samples.first().and_then(|sample| sample.threads.get(&rank.pid));
        process::activity(&main.into_iter().collect::<Vec<_>>())
    });
    let activities: Vec<Activity> = activities.collect();
    let count = |activity| activities.iter().filter(|other| **other == activity).count();
    let mut pids: Vec<_> = ranks
        .iter()
        .zip(&activities)
        .map(|(rank, activity)| (count(*activity), rank.pid))
        .collect();
    pids.sort_by_key(|(count, _)| *count);
    pids.into_iter().map(|(_, pid)| pid).collect()
}

fn administrator(what: String, command: String) -> Unreadable {
    Unreadable { what, reader: "the administrator".into(), command }
}

/// Returns what is not readable, with the command of the person who can read it.
fn unreadable(hidden: &[u32], nics: &[NicState]) -> Vec<Unreadable> {
    let mut all = Vec::new();
    for pid in hidden {
        let what = format!("process {pid}, which hides what it holds");
        all.push(administrator(what, format!("cxidiag why --job={pid}")));
    }
    let unreadable = nics.iter().flat_map(|nic| &nic.unreadable);
    all.extend(unreadable.map(|what| administrator(what.clone(), "cxidiag devices".into())));
    all
}

/// The ranks whose functions are not known, together for each reason.
fn unread_calls(
    ranks: &[RankState],
    stacks: &StackSource,
    failures: &BTreeMap<u32, StackFailure>,
) -> Vec<Unreadable> {
    const ADMINISTRATOR: &str = "the administrator";
    const STACK: &str = "eu-stack -p $p";
    const LONGER: &str = "cxidiag why --job --stack-time=60s";
    let mut reasons: BTreeMap<(String, &str, &str), Vec<&RankState>> = BTreeMap::new();
    for rank in ranks.iter().filter(|rank| rank.call.is_none()) {
        let (reason, reader, command) = match (stacks, failures.get(&rank.pid)) {
            // The first lines say so.
            (_, Some(StackFailure::Stopped)) => continue,
            (StackSource::LeftOut, _) => ("--no-stacks", "you", "cxidiag why --job"),
            (StackSource::Missing, _) => {
                ("neither eu-stack nor gdb is in PATH", ADMINISTRATOR, "install elfutils")
            }
            (_, Some(StackFailure::InKernel)) => {
                ("a thread is in the kernel", ADMINISTRATOR, "cat /proc/$p/task/*/stack")
            }
            (_, Some(StackFailure::Denied)) => {
                ("this user may not trace them", ADMINISTRATOR, STACK)
            }
            (_, Some(StackFailure::NoTime) | None) => ("no time was left", "you", LONGER),
            (_, Some(StackFailure::Late(why))) => (why.as_str(), "you", LONGER),
            (_, Some(StackFailure::Failed(why))) => (why.as_str(), "you", STACK),
        };
        reasons.entry((reason.to_owned(), reader, command)).or_default().push(rank);
    }
    let unread = reasons.into_iter().map(|((reason, reader, command), ranks)| {
        let numbers: Vec<_> = ranks.iter().map(|rank| rank.numbers()).collect();
        let pids = ranks.iter().take(MOST_PIDS).map(|rank| rank.pid.to_string());
        let pids: Vec<String> = pids.collect();
        let command = match pids.as_slice() {
            [pid] => command.replace("$p", pid),
            _ if command.contains("$p") => {
                format!("for p in {}; do {command}; done", pids.join(" "))
            }
            _ => command.to_owned(),
        };
        let what = format!("the functions of {} ({reason})", names(&numbers));
        Unreadable { what, reader: reader.to_owned(), command }
    });
    unread.collect()
}

#[cfg(test)]
mod tests {
    use node::machine::testing::MadeUp;

    use super::*;
    use crate::stacks::StackTool;

    #[test]
    fn ranks_that_stand_out_are_read_first() {
        let read = |pid: u32, state: char| {
            let thread = ThreadSample { state, ..ThreadSample::default() };
            let threads = [(pid, thread)].into();
            let rank = RankProcess { pid, ..RankProcess::default() };
            (rank, vec![ProcessSample { start: 0, threads }])
        };
        let all = [read(1, 'R'), read(2, 'R'), read(3, 'S'), read(4, 'R'), read(5, 'D')];
        let (ranks, samples): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        assert_eq!(rarest_first(&ranks, &samples), [3, 5, 1, 2, 4]);
    }

    #[test]
    fn each_reason_for_unread_functions_has_a_command() {
        let rank = |pid: u32| {
            let json = format!(
                r#"{{"rank": null, "pid": {pid}, "host": null, "name": "a", "activity": "runs",
                "call": null, "wait_channel": null, "system_call": null, "other_threads": {{}},
                "tracer": null, "holdings": {{"nics": [], "has_wait_objects": false,
                "command_queues": 0, "event_queues": 0, "libraries": []}}}}"#
            );
            page::json::read::<RankState>(json.as_bytes()).unwrap()
        };
        let ranks: Vec<RankState> = (1..=5).map(rank).collect();
        let failures = [
            (1, StackFailure::Stopped),
            (2, StackFailure::Denied),
            (3, StackFailure::Denied),
            (4, StackFailure::InKernel),
            (5, StackFailure::Late("gdb did not end in 2.0 s".into())),
        ];
        let shown = |source: &StackSource, failures: BTreeMap<u32, StackFailure>| {
            let unread = unread_calls(&ranks, source, &failures).into_iter();
            let text = |one: Unreadable| format!("{}; {}: {}", one.what, one.reader, one.command);
            unread.map(text).collect::<Vec<_>>()
        };
        let made_up = MadeUp::new(&[("gdb", "")]);
        let tool = StackTool::find(Some(made_up.machine().root().as_os_str())).unwrap();
        assert_eq!(
            shown(&StackSource::Tool(tool, Duration::from_secs(2)), failures.into()),
            [
                "the functions of process 4 (a thread is in the kernel); the administrator: cat \
                 /proc/4/task/*/stack",
                "the functions of process 5 (gdb did not end in 2.0 s); you: cxidiag why --job \
                 --stack-time=60s",
                "the functions of processes 2, 3 (this user may not trace them); the \
                 administrator: for p in 2 3; do eu-stack -p $p; done",
            ]
        );
        assert_eq!(
            shown(&StackSource::Missing, BTreeMap::new()),
            [
                "the functions of processes 1, 2, 3, 4, 5 (neither eu-stack nor gdb is in PATH); the \
              administrator: install elfutils"
            ]
        );
    }
}
