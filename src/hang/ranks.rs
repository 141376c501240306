//! The processes of a job on this node (hangs.md 5): ranks, helpers, and ranks that have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::process::{self, Holdings};
use crew::launcher::LauncherTask;
use facts::child::{Duty, PROGRAM};
use facts::error::Failure;
use facts::job::Job;
use facts::number::{decimal, listed};
use node::machine::{Machine, shown};
use node::slingshot::Launcher;

/// Jobs and processes that a failure names.
const MOST_NAMES: usize = 8;

/// The processes that are looked at, and who looks.
pub struct RankSearch<'a> {
    pub machine: &'a Machine,
    /// The processes that the user has named; without them, processes are searched for.
    pub pids: &'a [u32],
    /// The job of the user who looks, if it is known.
    pub own_job: Option<String>,
    pub own_pid: u32,
    /// The user who looks; root sees the processes of all.
    pub user: u32,
    /// Size of a page in bytes.
    pub page: u64,
}

/// The processes of a job on this node.
#[derive(Clone, Debug, Default)]
pub struct JobProcesses {
    /// The parallel program, as its launcher numbers it.
    pub job: Option<String>,
    /// The batch job alone.
    pub job_id: Option<String>,
    /// What tells two parallel programs of one job apart.
    pub step: Option<String>,
    /// Number of ranks of the whole job.
    pub size: Option<u32>,
    pub ranks: Vec<RankProcess>,
    /// Processes of the job without a NIC and without a communication library.
    pub helpers: Vec<u32>,
    /// Processes that hide what they hold.
    pub hidden: Vec<u32>,
    pub ended: Vec<EndedRank>,
}

/// A rank.
#[derive(Clone, Debug, Default)]
pub struct RankProcess {
    pub pid: u32,
    pub parent: u32,
    pub name: String,
    pub start: u64,
    pub number: RankNumber,
    pub holdings: Holdings,
    /// The service of the job on each of its NICs.
    pub services: BTreeMap<String, u32>,
}

/// A rank that should be there and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct EndedRank {
    /// Its rank, if it is known.
    pub rank: Option<u32>,
    /// Its process, if it is known.
    pub pid: Option<u32>,
    /// What shows that it has ended.
    pub proof: String,
}

/// The numbers that a launcher has given to a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankNumber {
    pub launcher: &'static str,
    pub job: Option<String>,
    pub step: Option<String>,
    pub rank: Option<u32>,
    pub local_rank: Option<u32>,
    pub size: Option<u32>,
    pub local_size: Option<u32>,
}

/// The user of a process, if it is not the one of this search.
fn other_owner(search: &RankSearch, directory: &Path) -> Option<u64> {
    let owner = process::status_field(directory, "Uid");
    let owner = owner.and_then(|ids| decimal(ids.split_whitespace().next()?));
    let owner = owner.unwrap_or_default();
    (search.user != 0 && owner != u64::from(search.user)).then_some(owner)
}

/// A process of this user.
struct RankCandidate {
    process: RankProcess,
    is_rank: bool,
    cgroup: Option<String>,
}

impl RankNumber {
    /// The numbers in an environment. torchrun runs inside of other launchers, and PMIx gives no
    /// number of processes.
    fn find(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| value(name)?.parse().ok();
        let job = Job::find(&value).map(|job| job.id);
        if let (Some(run), Some(rank)) = (value("TORCHELASTIC_RUN_ID"), number("RANK")) {
            return Some(Self {
                launcher: "torchrun",
                job,
                step: Some(run),
                rank: Some(rank),
                local_rank: number("LOCAL_RANK"),
                size: number("WORLD_SIZE"),
                local_size: number("LOCAL_WORLD_SIZE"),
            });
        }
        match LauncherTask::find(&value) {
            Ok(Some(task)) => Some(Self {
                launcher: task.launcher,
                job: task.job,
                step: task.step,
                rank: Some(task.rank),
                local_rank: task.local_rank,
                size: Some(task.size),
                local_size: task.local_size,
            }),
            Ok(None) | Err(_) => {
                let rank = Some(number("PMIX_RANK")?);
                let step = value("PMIX_NAMESPACE");
                Some(Self { launcher: "PMIx", job, step, rank, ..Self::default() })
            }
        }
    }

    /// Returns what all ranks of one parallel program share.
    fn program(&self) -> (&'static str, Option<&str>, Option<&str>) {
        (self.launcher, self.job.as_deref(), self.step.as_deref())
    }

    /// The name of the parallel program.
    fn program_name(&self) -> String {
        let job = self.job.as_ref().map(|job| format!(" job {job}"));
        // The steps of other launchers are long names that no user types.
        let step = self.step.as_ref().filter(|_| matches!(self.launcher, "Slurm" | "PALS"));
        let step = step.map(|step| format!(" step {step}"));
        format!("{}{}{}", self.launcher, job.unwrap_or_default(), step.unwrap_or_default())
    }
}

impl JobProcesses {
    /// Finds the ranks of the job, or describes the named processes.
    ///
    /// # Errors
    ///
    /// No rank, processes of another user, and several jobs among which the user has to choose.
    pub fn find(search: &RankSearch) -> Result<Self, Failure> {
        let mut found = Self::default();
        let (mut candidates, mut zombies, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        let is_named = !search.pids.is_empty();
        let pids = if is_named { search.pids.to_vec() } else { process::all(search.machine) };
        for pid in pids.into_iter().filter(|pid| *pid != search.own_pid) {
            let directory = process::directory(search.machine, pid);
            let Some(stat) = process::stat(&directory) else {
                if is_named {
                    let proof = format!("there is no process {pid}");
                    found.ended.push(EndedRank { rank: None, pid: Some(pid), proof });
                }
                continue;
            };
            if let Some(owner) = other_owner(search, &directory) {
                if is_named {
                    return Err(Failure::environment(format!(
                        "process {pid} belongs to user {owner}: run as this user, or as root"
                    )));
                }
                continue;
            }
            if stat.state == 'Z' {
                zombies.push((pid, stat));
                continue;
            }
            let cgroup = cgroup_of_step(search.machine, pid);
            let environment = process::environment(&directory);
            let holdings = process::holdings(&directory, search.page);
            let (Some(environment), Some(holdings)) = (environment, holdings) else {
                hidden.push((pid, stat.parent, cgroup));
                continue;
            };
            if !is_named && is_served(&stat.name, &environment, &directory) {
                continue;
            }
            let value = |name: &str| environment.get(name).cloned();
            let is_rank = is_named || !holdings.nics.is_empty() || !holdings.libraries.is_empty();
            let process = RankProcess {
                pid,
                parent: stat.parent,
                name: stat.name,
                start: stat.start,
                number: RankNumber::find(value).unwrap_or_default(),
                services: services(value, &holdings),
                holdings,
            };
            candidates.push(RankCandidate { process, is_rank, cgroup });
        }
        if !is_named {
            candidates = one_program(candidates, search)?;
        }
        found.complete(candidates, zombies, hidden, is_named)
    }

    /// Takes the ranks, and the zombies and unreadable processes that belong to the job.
    fn complete(
        mut self,
        candidates: Vec<RankCandidate>,
        zombies: Vec<(u32, process::ProcessStat)>,
        hidden: Vec<(u32, u32, Option<String>)>,
        is_named: bool,
    ) -> Result<Self, Failure> {
        let parents: BTreeSet<u32> = candidates.iter().map(|one| one.process.parent).collect();
        let cgroups: BTreeSet<String> =
            candidates.iter().filter_map(|one| one.cgroup.clone()).collect();
        self.take(candidates, is_named);
        let is_of_job = |parent: u32, cgroup: Option<&String>| {
            is_named
                || parents.contains(&parent) && parent > 1
                || cgroup.is_some_and(|path| cgroups.contains(path))
        };
        let hidden =
            hidden.into_iter().filter(|(_, parent, cgroup)| is_of_job(*parent, cgroup.as_ref()));
        self.hidden = hidden.map(|(pid, ..)| pid).collect();
        let names: BTreeSet<&str> = self.ranks.iter().map(|rank| rank.name.as_str()).collect();
        let zombies = zombies.into_iter().filter(|(_, stat)| {
            is_named || is_of_job(stat.parent, None) && names.contains(stat.name.as_str())
        });
        let zombies: Vec<u32> = zombies.map(|(pid, _)| pid).collect();
        // The user may have named some of the ranks only.
        self.note_ended(&zombies, !is_named);
        if self.ranks.is_empty() && self.hidden.is_empty() && self.ended.is_empty() {
            return Err(Failure::environment("no process of yours on this node has a NIC open")
                .with_hint("name the processes of the job: --job=PID,..."));
        }
        Ok(self)
    }

    /// Takes the processes of one program. Of several with one rank, the one with a NIC is the
    /// rank, unless the user has named them all.
    fn take(&mut self, candidates: Vec<RankCandidate>, is_named: bool) {
        let (ranks, helpers): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|one| one.is_rank);
        self.helpers = helpers.into_iter().map(|one| one.process.pid).collect();
        let mut ranks: Vec<RankProcess> = ranks.into_iter().map(|one| one.process).collect();
        ranks.sort_by_key(|rank| (rank.number.rank, rank.holdings.nics.is_empty(), rank.pid));
        for rank in ranks {
            let last = self.ranks.last().filter(|last| !is_named && last.number.rank.is_some());
            if last.is_some_and(|last| last.number == rank.number) {
                self.helpers.push(rank.pid);
            } else {
                self.ranks.push(rank);
            }
        }
        let numbered = self.ranks.iter().find(|rank| rank.number.rank.is_some());
        if let Some(RankProcess { number, .. }) = numbered {
            self.job = Some(number.program_name());
            (self.job_id, self.step) = (number.job.clone(), number.step.clone());
            self.size = number.size;
        }
    }

    /// Notes zombies that the user has named, or else the ranks that the launcher has started on
    /// this node and that are not there.
    fn note_ended(&mut self, zombies: &[u32], has_all: bool) {
        let mut sizes = self.ranks.iter().filter(|_| has_all);
        let expected = sizes.find_map(|rank| rank.number.local_size);
        let present: BTreeSet<u32> =
            self.ranks.iter().filter_map(|rank| rank.number.local_rank).collect();
        let has_all_numbers = present.len() == self.ranks.len();
        let absent: Vec<u32> = (0..expected.unwrap_or(0))
            .filter(|local| has_all_numbers && !present.contains(local))
            .collect();
        // Where ranks of a node follow each other, the first one tells all.
        let mut firsts = self.ranks.iter().map(|rank| {
            rank.number
                .rank
                .zip(rank.number.local_rank)
                .and_then(|(rank, local)| rank.checked_sub(local))
        });
        let first = firsts.next().flatten();
        let first = first.filter(|_| firsts.all(|other| other == first));
        // A hidden process may be the rank.
        for local in absent.into_iter().skip(self.hidden.len()) {
            let started = expected.unwrap_or(0);
            let proof = format!(
                "the launcher has started {started} ranks on this node; local rank {local} has no \
                 process"
            );
            let rank = first.map(|first| first + local);
            self.ended.push(EndedRank { rank, pid: None, proof });
        }
        if !has_all {
            self.ended.extend(zombies.iter().map(|pid| EndedRank {
                rank: None,
                pid: Some(*pid),
                proof: format!("process {pid} is a zombie"),
            }));
        } else if zombies.len() <= self.ended.len() {
            // More of them may be processes of an earlier program.
            for (ended, pid) in self.ended.iter_mut().zip(zombies) {
                ended.pid = Some(*pid);
                ended.proof = format!("{}; process {pid} is a zombie", ended.proof);
            }
        }
    }
}

/// Whether a process is `cxidiag serve` or one of its processes, which have NICs open and may be a
/// step of a job.
fn is_served(name: &str, environment: &BTreeMap<String, String>, directory: &Path) -> bool {
    name == PROGRAM
        && (environment.contains_key(Duty::ServedClient.variable())
            || process::argument(directory, 1).as_deref() == Some("serve"))
}

/// The processes of one parallel program: of the job of this process, or the only one.
fn one_program(
    candidates: Vec<RankCandidate>,
    search: &RankSearch,
) -> Result<Vec<RankCandidate>, Failure> {
    let is_numbered = |one: &&RankCandidate| one.is_rank && one.process.number.rank.is_some();
    let mut programs: BTreeMap<_, Vec<u32>> = BTreeMap::new();
    for one in candidates.iter().filter(is_numbered) {
        let RankProcess { number, pid, .. } = &one.process;
        let program = number.program();
        programs.entry((program, number.program_name())).or_default().push(*pid);
    }
    if let Some(own) = &search.own_job
        && programs.keys().any(|((_, job, _), _)| *job == Some(own.as_str()))
    {
        programs.retain(|((_, job, _), _), _| *job == Some(own.as_str()));
    }
    if programs.len() > 1 {
        let texts: Vec<String> = programs
            .iter()
            .map(|((_, name), pids)| {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                format!("--job={} ({name})", pids.join(","))
            })
            .collect();
        let names: BTreeSet<&String> = programs.keys().map(|(_, name)| name).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        let names = listed(&names, MOST_NAMES);
        let message = format!("several parallel programs of yours run on this node: {names}");
        return Err(Failure::environment(message)
            .with_hint(format!("choose one: {}", listed(&texts, MOST_NAMES))));
    }
    let program = programs.into_keys().next().map(|((launcher, job, step), _)| {
        (launcher, job.map(str::to_owned), step.map(str::to_owned))
    });
    let mut candidates = candidates;
    candidates.retain(|one| match &program {
        Some((launcher, job, step)) => {
            one.process.number.program() == (*launcher, job.as_deref(), step.as_deref())
        }
        None => !one.process.holdings.nics.is_empty(),
    });
    Ok(candidates)
}

/// The cgroup of the step of Slurm in which a process is.
fn cgroup_of_step(machine: &Machine, pid: u32) -> Option<String> {
    let file = process::directory(machine, pid).join("cgroup");
    let text = node::reading::lossy_text(&file).ok()?;
    let path = text.lines().find(|line| line.contains("/job_") && line.contains("/step_"))?;
    let step = path.find("/step_")? + 1;
    let end = path.get(step..)?.find('/').map_or(path.len(), |length| step + length);
    path.get(..end).map(str::to_owned)
}

/// The services that the launcher has granted on the NICs of a process.
fn services(value: impl Fn(&str) -> Option<String>, holdings: &Holdings) -> BTreeMap<String, u32> {
    let Ok(Launcher::Granted(grant)) = Launcher::find(value) else { return BTreeMap::new() };
    let ids = holdings.nics.iter().filter_map(|nic| Some((nic.clone(), grant.on(nic)?.svc_id?)));
    ids.collect()
}

/// The rank and the process of a rank, and its node in a report of several nodes.
pub type RankName<'a> = (Option<u32>, u32, Option<&'a str>);

/// The name of one rank, or of several: `rank 3 (pid 812)`, `ranks 0-3`, `processes 812, 813`.
pub fn names(ranks: &[RankName]) -> String {
    let mut numbers: Vec<u32> = ranks.iter().filter_map(|(rank, ..)| *rank).collect();
    let pids: Vec<u32> = ranks.iter().map(|(_, pid, _)| *pid).collect();
    match (ranks, numbers.len() == ranks.len()) {
        ([(Some(rank), pid, Some(host))], _) => format!("rank {rank} ({host}, pid {pid})"),
        ([(Some(rank), pid, None)], _) => format!("rank {rank} (pid {pid})"),
        ([(None, pid, Some(host))], _) => format!("process {pid} of {host}"),
        ([(None, pid, None)], _) => format!("process {pid}"),
        (_, true) => {
            numbers.sort_unstable();
            numbers.dedup();
            format!("ranks {}", shown(&numbers))
        }
        (_, false) => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("processes {}", listed(&pids, MOST_NAMES))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use node::machine::testing::MadeUp;

    use super::*;

    /// A process: its number, parent, state, environment and files that it has open.
    fn add(made_up: &MadeUp, pid: u32, parent: u32, state: char, environment: &str, nic: bool) {
        let stat =
            format!("{pid} (app) {state} {parent} 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 {pid} 1");
        made_up.write(&format!("proc/{pid}/stat"), &stat);
        made_up.write(&format!("proc/{pid}/status"), "Uid:\t1000\t1000\t1000\t1000\n");
        if state == 'Z' {
            return;
        }
        if environment != "hidden" {
            made_up.write(&format!("proc/{pid}/environ"), &environment.replace(' ', "\0"));
        }
        made_up.write(&format!("proc/{pid}/maps"), "");
        let directory = process::directory(&made_up.machine(), pid).join("fd");
        fs::create_dir_all(&directory).unwrap();
        if nic {
            std::os::unix::fs::symlink("/dev/cxi0", directory.join("3")).unwrap();
        }
    }

    fn find(made_up: &MadeUp, pids: &[u32], own: &str) -> Result<JobProcesses, Failure> {
        JobProcesses::find(&RankSearch {
            machine: &made_up.machine(),
            pids,
            own_job: Some(own.to_owned()).filter(|own| !own.is_empty()),
            own_pid: 99,
            user: 1000,
            page: 4096,
        })
    }

    fn open_mpi(rank: u32, step: &str) -> String {
        format!(
            "OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK={} \
             OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE={step}",
            rank - 8
        )
    }

    fn numbers(found: &JobProcesses) -> Vec<(Option<u32>, u32)> {
        found.ranks.iter().map(|rank| (rank.number.rank, rank.pid)).collect()
    }

    #[test]
    fn ranks_have_a_nic_and_helpers_have_none() {
        let made_up = MadeUp::new(&[]);
        for (pid, rank) in [(30, 11), (31, 8), (32, 9), (33, 10)] {
            add(&made_up, pid, 20, 'R', &open_mpi(rank, "x"), true);
        }
        add(&made_up, 40, 31, 'S', &open_mpi(8, "x"), false);
        add(&made_up, 41, 31, 'S', &open_mpi(8, "x"), true);
        add(&made_up, 50, 1, 'S', "A=1", false);
        let named = find(&made_up, &[31, 40, 41], "").unwrap();
        assert_eq!(numbers(&named), [(Some(8), 31), (Some(8), 41), (Some(8), 40)]);
        let found = find(&made_up, &[], "").unwrap();
        assert_eq!(numbers(&found), [(Some(8), 31), (Some(9), 32), (Some(10), 33), (Some(11), 30)]);
        assert_eq!((found.helpers, found.size), (vec![40, 41], Some(16)));
        assert_eq!(found.job.as_deref(), Some("Open MPI"));
        assert!(found.ended.is_empty() && found.hidden.is_empty());
    }

    #[test]
    fn names_ranks_that_have_ended() {
        let made_up = MadeUp::new(&[]);
        for (pid, rank) in [(31, 8), (32, 9), (33, 11)] {
            add(&made_up, pid, 20, 'R', &open_mpi(rank, "x"), true);
        }
        let ended = find(&made_up, &[], "").unwrap().ended;
        assert_eq!((ended.len(), ended[0].rank, ended[0].pid), (1, Some(10), None));
        add(&made_up, 34, 20, 'Z', "", false);
        let ended = find(&made_up, &[], "").unwrap().ended;
        assert_eq!((ended.len(), ended[0].rank, ended[0].pid), (1, Some(10), Some(34)));
        add(&made_up, 35, 20, 'Z', "", false);
        let ended = find(&made_up, &[], "").unwrap().ended;
        assert_eq!((ended.len(), ended[0].rank, ended[0].pid), (1, Some(10), None));
        add(&made_up, 36, 20, 'R', &open_mpi(10, "x"), true);
        assert!(find(&made_up, &[], "").unwrap().ended.is_empty());
        let named = find(&made_up, &[31, 34, 77], "").unwrap();
        let pids: Vec<Option<u32>> = named.ended.iter().map(|ended| ended.pid).collect();
        assert_eq!((pids, numbers(&named)), (vec![Some(77), Some(34)], vec![(Some(8), 31)]));
    }

    #[test]
    fn hidden_processes_are_not_guessed_about() {
        let made_up = MadeUp::new(&[]);
        for (pid, rank) in [(31, 8), (32, 9), (33, 11)] {
            add(&made_up, pid, 20, 'R', &open_mpi(rank, "x"), true);
        }
        add(&made_up, 35, 20, 'S', "hidden", false);
        add(&made_up, 36, 5, 'S', "hidden", false);
        let found = find(&made_up, &[], "").unwrap();
        assert_eq!((found.hidden, found.ended), (vec![35], vec![]));
        assert_eq!(find(&made_up, &[36], "").unwrap().hidden, [36]);
        let slurm = "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_1\n";
        for pid in [31, 36] {
            made_up.write(&format!("proc/{pid}/cgroup"), slurm);
        }
        assert_eq!(find(&made_up, &[], "").unwrap().hidden, [35, 36]);
    }

    #[test]
    fn chooses_the_job_of_this_process_or_asks() {
        let made_up = MadeUp::new(&[]);
        let rank = |job: u32| {
            format!(
                "SLURM_PROCID=0 SLURM_STEP_ID=3 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 \
                 SLURM_STEP_TASKS_PER_NODE=2 SLURM_JOB_ID={job}"
            )
        };
        add(&made_up, 31, 20, 'R', &rank(5), true);
        add(&made_up, 32, 21, 'R', &rank(6), true);
        let failure = find(&made_up, &[], "").unwrap_err();
        assert!(failure.message().contains("several parallel programs"), "{}", failure.message());
        let found = find(&made_up, &[], "6").unwrap();
        assert_eq!(
            (numbers(&found), found.job.as_deref()),
            (vec![(Some(0), 32)], Some("Slurm job 6 step 3"))
        );
        let torch = format!("{} TORCHELASTIC_RUN_ID=r RANK=7 WORLD_SIZE=9", rank(6));
        let made_up = MadeUp::new(&[]);
        add(&made_up, 33, 21, 'R', &torch, true);
        let found = find(&made_up, &[], "6").unwrap();
        assert_eq!((numbers(&found), found.size), (vec![(Some(7), 33)], Some(9)));
    }

    #[test]
    fn servers_are_no_ranks() {
        let made_up = MadeUp::new(&[]);
        add(&made_up, 31, 20, 'R', &open_mpi(8, "x"), true);
        for (pid, environment, command) in [
            (40, open_mpi(8, "server"), "serve"),
            (41, open_mpi(8, "server") + " CXIDIAG_SERVE_CLIENT=40", "survey"),
        ] {
            add(&made_up, pid, 20, 'S', &environment, true);
            let stat = format!("proc/{pid}/stat");
            let text = fs::read_to_string(made_up.machine().root().join(&stat)).unwrap();
            made_up.write(&stat, &text.replace("(app)", "(cxidiag)"));
            made_up.write(&format!("proc/{pid}/cmdline"), &format!("cxidiag\0{command}\0"));
        }
        assert_eq!(numbers(&find(&made_up, &[], "").unwrap()), [(Some(8), 31)]);
        assert_eq!(numbers(&find(&made_up, &[41], "").unwrap()), [(Some(8), 41)]);
    }

    #[test]
    fn without_a_launcher_processes_with_a_nic_are_ranks() {
        let made_up = MadeUp::new(&[]);
        assert!(find(&made_up, &[], "").is_err());
        add(&made_up, 31, 20, 'R', "A=1", true);
        add(&made_up, 32, 20, 'R', "A=1", false);
        let found = find(&made_up, &[], "").unwrap();
        assert_eq!((numbers(&found), found.job), (vec![(None, 31)], None));
        let refused = JobProcesses::find(&RankSearch {
            machine: &made_up.machine(),
            pids: &[31],
            own_job: None,
            own_pid: 99,
            user: 7,
            page: 4096,
        });
        assert!(refused.unwrap_err().message().contains("belongs to user 1000"));
    }

    #[test]
    fn names_say_ranks_or_processes() {
        assert_eq!(names(&[(Some(3), 812, None)]), "rank 3 (pid 812)");
        assert_eq!(names(&[(Some(3), 812, Some("n1"))]), "rank 3 (n1, pid 812)");
        assert_eq!(names(&[(None, 812, Some("n1"))]), "process 812 of n1");
        assert_eq!(names(&[(None, 812, None)]), "process 812");
        assert_eq!(
            names(&[(Some(3), 1, None), (Some(1), 2, None), (Some(2), 3, None)]),
            "ranks 1-3"
        );
        assert_eq!(names(&[(None, 5, None), (Some(1), 2, None)]), "processes 5, 2");
    }
}
