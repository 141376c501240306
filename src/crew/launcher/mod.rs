//! The launcher of a parallel program: which task this process is, of how many (jobs.md 2.1); the
//! file of PALS about the program, which the variable PALS_APINFO names (jobs.md 1.6).

pub mod command_line;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::{env, iter};

use super::host_list;
use facts::error::Failure;
use facts::host::short_name;
use facts::job::Job;
use facts::number::{decimal, within};
use facts::user_file;

/// The most tasks of a launcher.
const MOST_TASKS: u64 = 1 << 24;

/// Step of Slurm in which the shell of `salloc` runs (jobs.md 2.1).
const INTERACTIVE_STEP: &str = "4294967290";

/// One of the processes that a launcher has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LauncherTask {
    /// Name of the launcher: `Slurm`.
    pub launcher: &'static str,
    /// The variable that has the rank.
    pub variable: &'static str,
    /// Number of the task, from 0.
    pub rank: u32,
    /// Number of tasks.
    pub size: u32,
    /// Number of the task among the tasks of its node, if the launcher numbers them.
    pub local_rank: Option<u32>,
    /// Number of tasks of its node, if the launcher tells it.
    pub local_size: Option<u32>,
    /// Number of the node among the nodes of the step, if the launcher numbers them.
    pub node_index: Option<u32>,
    /// Name of the node, if the launcher has one.
    pub node: Option<String>,
    /// The batch job.
    pub job: Option<String>,
    /// The step of the job: what tells two parallel programs of one job apart.
    pub step: Option<String>,
    /// When the job ends, in seconds since 1970.
    pub end_of_job: Option<u64>,
    /// The hosts in the launcher's list, one for each task as far as the launcher tells how many
    /// tasks each has. The first one has the task on the first node, or with rank 0. Only
    /// PALS tells which task is where.
    pub hosts: Vec<String>,
    /// The switches above the node, from the top of the tree down, if the launcher names them:
    /// `s0.s4`.
    pub topology: Option<String>,
}

/// The variables with which a launcher numbers its tasks.
struct LauncherVariables {
    name: &'static str,
    /// Number of the task: the first one that is set.
    rank: &'static [&'static str],
    /// Number of tasks: the first one that is set.
    size: &'static [&'static str],
    local_rank: &'static [&'static str],
    /// Number of tasks of the node: the first one that is set.
    local_size: &'static [&'static str],
    node_index: Option<&'static str>,
    node: Option<&'static str>,
    step: Option<&'static str>,
    /// A variable that Slurm does not set on behalf of this launcher.
    mark: Option<&'static str>,
}

const SLURM: LauncherVariables = LauncherVariables {
    name: "Slurm",
    rank: &["SLURM_PROCID"],
    size: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
    local_rank: &["SLURM_LOCALID"],
    local_size: &[],
    node_index: Some("SLURM_NODEID"),
    node: Some("SLURMD_NODENAME"),
    step: Some("SLURM_STEP_ID"),
    mark: None,
};

/// The launchers beside Slurm. Those that may run inside another one come before it; PALS sets the
/// variables of PMI, too.
const OTHERS: [LauncherVariables; 4] = [
    LauncherVariables {
        name: "Flux",
        rank: &["FLUX_TASK_RANK"],
        size: &["FLUX_JOB_SIZE"],
        local_rank: &["FLUX_TASK_LOCAL_ID"],
        local_size: &[],
        node_index: None,
        node: None,
        step: None,
        mark: Some("FLUX_TASK_RANK"),
    },
    LauncherVariables {
        name: "Open MPI",
        rank: &[OPEN_MPI_RANK],
        size: &["OMPI_COMM_WORLD_SIZE"],
        local_rank: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        node_index: None,
        node: None,
        step: Some("PMIX_NAMESPACE"),
        mark: Some(OPEN_MPI_RANK),
    },
    LauncherVariables {
        name: "PALS",
        rank: &["PALS_RANKID"],
        size: &["PMI_SIZE"],
        local_rank: &["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"],
        local_size: &["PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"],
        node_index: Some("PALS_NODEID"),
        node: None,
        step: Some("PALS_APID"),
        mark: None,
    },
    LauncherVariables {
        name: "Hydra",
        rank: &["PMI_RANK", "PMI_ID"],
        size: &["PMI_SIZE"],
        local_rank: &["MPI_LOCALRANKID"],
        local_size: &["MPI_LOCALNRANKS"],
        node_index: None,
        node: Some("PMI_HOSTNAME"),
        step: None,
        mark: Some("MPI_LOCALRANKID"),
    },
];

/// The number of a process of Open MPI.
const OPEN_MPI_RANK: &str = "OMPI_COMM_WORLD_RANK";

/// The number of a process of PMIx, which sets no number of processes (jobs.md 2.1).
const PMIX_RANK: &str = "PMIX_RANK";

/// Variables with the number of nodes of the step, else of the job (jobs.md 2.1).
const NODE_COUNTS: [&str; 4] =
    ["FLUX_JOB_NNODES", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"];

/// The number of nodes of the parallel program or, in a batch script, of the job, as far as the
/// launcher shows it.
pub fn node_count(value: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let environment = Environment(&value);
    let count = |name: &str| environment.get(name)?.parse().ok();
    let listed = || {
        let launcher = environment.launcher().ok().flatten();
        // PBS names the nodes of the job in a file, also to its script.
        let hosts = environment.hosts(launcher.unwrap_or(&OTHERS[0]), 0)?;
        let hosts: BTreeSet<String> = hosts.iter().map(|host| short_name(host)).collect();
        u32::try_from(hosts.len()).ok().filter(|count| *count > 0)
    };
    NODE_COUNTS.iter().find_map(|name| count(name)).or_else(listed)
}

/// The nodes of all tasks, by rank. `hosts` is the list of the launcher, with one for each task;
/// `joined` are the nodes of the tasks that have said it. An absent task is on one of the others;
/// without a host for it, it has the name `rank 3`. Lists may have names with or without domain, in
/// any case.
pub fn nodes_of_tasks(size: u32, hosts: &[String], joined: &BTreeMap<u32, &str>) -> Vec<String> {
    let mut present: HashMap<String, usize> = HashMap::new();
    for host in joined.values() {
        *present.entry(short_name(host)).or_default() += 1;
    }
    let mut remaining: Vec<&String> = hosts.iter().collect();
    remaining.retain(|host| match present.get_mut(&short_name(host)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    let is_of_tasks = remaining.len() + joined.len() == size as usize;
    let mut remaining = remaining.into_iter().filter(|_| is_of_tasks);
    let name = |rank| match joined.get(&rank) {
        Some(host) => (*host).to_owned(),
        None => remaining.next().map_or_else(|| format!("rank {rank}"), String::clone),
    };
    (0..size).map(name).collect()
}

impl LauncherTask {
    /// The task that the environment of this process describes; `None` if no launcher has started
    /// the process as one of several.
    ///
    /// # Errors
    ///
    /// Variables that are incomplete or contradict each other.
    pub fn from_environment() -> Result<Option<Self>, Failure> {
        Self::find(|name| env::var_os(name).map(|text| text.to_string_lossy().into_owned()))
            .map_err(Failure::usage)
    }

    /// The task that the variables describe which `value` returns.
    ///
    /// # Errors
    ///
    /// Variables that are incomplete or contradict each other.
    pub fn find(value: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let environment = Environment(&value);
        let launcher = environment.launcher()?;
        launcher.map(|launcher| environment.task(launcher)).transpose()
    }

    /// A task of which the launcher gives only rank and size.
    #[cfg(any(test, feature = "testing"))]
    pub fn numbered(launcher: &'static str, variable: &'static str, rank: u32, size: u32) -> Self {
        Self { launcher, variable, rank, size, ..Self::default() }
    }

    /// Whether the task speaks for its node: the first one there, or each one if the launcher does
    /// not number the tasks of a node.
    pub fn is_first_of_node(&self) -> bool {
        self.local_rank.is_none_or(|rank| rank == 0)
    }

    /// The step as users know it. The step of Open MPI is a number that it draws.
    pub fn known_step(&self) -> Option<&str> {
        self.step.as_deref().filter(|_| self.variable != OPEN_MPI_RANK)
    }

    /// Returns rank, size and where they come from: `rank 3 of 8 from Slurm (SLURM_PROCID)`.
    pub fn source(&self) -> String {
        let Self { launcher, variable, rank, size, .. } = self;
        format!("rank {rank} of {size} from {launcher} ({variable})")
    }
}

struct Environment<'a, Value>(&'a Value);

impl<Value: Fn(&str) -> Option<String>> Environment<'_, Value> {
    /// The value of a variable that is set and not empty.
    fn get(&self, name: &str) -> Option<String> {
        let text = (self.0)(name)?.trim().to_owned();
        Some(text).filter(|text| !text.is_empty())
    }

    /// The first of the variables that is set, and its value.
    fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// The launcher that has started this process: the innermost one where they are nested.
    fn launcher(&self) -> Result<Option<&'static LauncherVariables>, String> {
        let slurm = self.is_task_of_slurm().then_some(&SLURM);
        let other = OTHERS.iter().find(|other| self.first(other.rank).is_some());
        let (slurm, other) = match (slurm, other) {
            (Some(slurm), Some(other)) => (slurm, other),
            (one, other) => {
                let found = one.or(other);
                if found.is_none() && self.get(PMIX_RANK).is_some() {
                    return Err(format!(
                        "{PMIX_RANK} is set, but no variable has the number of processes"
                    ));
                }
                return Ok(found);
            }
        };
        // `mpirun` in a step of Slurm leaves the variables of the step. The rank of the step may
        // equal the rank of a process of `mpirun`. Slurm sets variables of PMI and PALS for
        // plugins, with its own ranks.
        let rank = |launcher: &LauncherVariables| self.first(launcher.rank).map(|(_, rank)| rank);
        let is_marked = other.mark.is_some_and(|mark| self.get(mark).is_some());
        let is_inner = is_marked || rank(other) != rank(slurm);
        Ok(Some(if is_inner { other } else { slurm }))
    }

    /// Whether this process is a task of a step of Slurm, not a batch script or the shell of an
    /// allocation.
    fn is_task_of_slurm(&self) -> bool {
        let step = self.get("SLURM_STEP_ID");
        step.is_some_and(|step| step != INTERACTIVE_STEP)
            && self.get("SLURM_PROCID").is_some()
            && self.get("SLURM_STEP_TASKS_PER_NODE").is_some()
    }

    fn task(&self, launcher: &'static LauncherVariables) -> Result<LauncherTask, String> {
        let (variable, rank) = self.first(launcher.rank).unwrap_or_default();
        let Some((size_variable, size)) = self.first(launcher.size) else {
            return Err(format!(
                "{variable}={rank}, but the number of processes is missing: {} is not set",
                launcher.size.join(" or ")
            ));
        };
        let size = number(size_variable, &size, 1..=MOST_TASKS)?;
        let rank = number(variable, &rank, 0..=u64::from(size) - 1)
            .map_err(|refused| format!("{refused}, because {size_variable}={size}"))?;
        let local_rank = self.first(launcher.local_rank);
        let node_index = launcher.node_index.and_then(|name| Some((name, self.get(name)?)));
        let optional = |variable: Option<(&str, String)>| {
            variable.map(|(name, text)| number(name, &text, 0..=MOST_TASKS)).transpose()
        };
        let node_index = optional(node_index)?;
        let local_size = match optional(self.first(launcher.local_size))? {
            Some(local_size) => Some(local_size),
            None => self.tasks_of_node(launcher, node_index),
        };
        Ok(LauncherTask {
            launcher: launcher.name,
            variable,
            rank,
            size,
            local_rank: optional(local_rank)?,
            local_size,
            node_index,
            node: launcher.node.and_then(|name| self.get(name)),
            job: Job::find(self.0).map(|job| job.id),
            step: launcher.step.and_then(|name| self.get(name)),
            end_of_job: self.get("SLURM_JOB_END_TIME").and_then(|time| decimal(&time)),
            hosts: self.hosts(launcher, size).unwrap_or_default(),
            topology: self.topology(),
        })
    }

    /// The number of tasks that Slurm has started on a node.
    fn tasks_of_node(&self, launcher: &LauncherVariables, node_index: Option<u32>) -> Option<u32> {
        if launcher.name != SLURM.name {
            return None;
        }
        let counts = self.get("SLURM_STEP_TASKS_PER_NODE")?;
        let counts = host_list::task_counts(&counts).ok()?;
        counts.get(node_index? as usize).copied()
    }

    /// The switches above the node. Slurm writes the name of the node after them: `s0.s4.nid8`.
    fn topology(&self) -> Option<String> {
        let address = self.get("SLURM_TOPOLOGY_ADDR")?;
        let node = self.get("SLURMD_NODENAME")?;
        let switches = address.strip_suffix(&node)?.strip_suffix('.')?;
        Some(switches.to_owned())
    }

    /// The hosts of the tasks, as far as lists of hosts show them (jobs.md 2.1).
    fn hosts(&self, launcher: &LauncherVariables, size: u32) -> Option<Vec<String>> {
        let listed = |name: &str| host_list::expand(&self.get(name)?).ok();
        if launcher.name == SLURM.name {
            let nodes = listed("SLURM_STEP_NODELIST")?;
            let counts = self.get("SLURM_STEP_TASKS_PER_NODE");
            let counts = counts.and_then(|text| host_list::task_counts(&text).ok());
            let counts = counts.filter(|counts| {
                let tasks = counts.iter().copied().map(u64::from).sum::<u64>();
                counts.len() == nodes.len() && tasks == u64::from(size)
            });
            let counts = counts.unwrap_or_else(|| vec![1; nodes.len()]);
            let task_hosts = |(node, count)| iter::repeat_n(node, count as usize);
            return Some(nodes.into_iter().zip(counts).flat_map(task_hosts).collect());
        }
        let apinfo = self.get("PALS_APINFO");
        apinfo
            .and_then(|path| hosts(&path))
            .or_else(|| {
                let text = user_file::text(self.get("PBS_NODEFILE")?.as_ref()).ok()?;
                host_list::listed_hosts(&text).ok()
            })
            .or_else(|| listed("SLURM_JOB_NODELIST"))
    }
}

/// The value of a variable that is a number.
fn number(name: &str, text: &str, range: RangeInclusive<u64>) -> Result<u32, String> {
    let number = within(text, range).map_err(|expected| format!("{name}={text}: {expected}"))?;
    Ok(number as u32)
}

/// The version that is understood.
const VERSION: i32 = 5;

/// Offset of the table of processes in the header.
const PROCESSES: usize = 64;

/// Offset of the table of nodes in the header.
const NODES: usize = 88;

/// Offset of the index of the node in a process.
const NODE_OF_PROCESS: usize = 8;

/// Offset of the name in a node.
const NAME_OF_NODE: usize = 4;

/// The longest name of a node, in bytes.
const LONGEST_NAME: usize = 64;

/// The largest file, in bytes: 65,536 nodes with 64 processes each have less.
const LARGEST_FILE: u64 = 64 << 20;

/// The hosts of the processes, by rank. There are none in a file that is missing, of another
/// version, or incomplete.
pub fn hosts(path: &str) -> Option<Vec<String>> {
    let bytes = user_file::bytes(path.as_ref(), LARGEST_FILE).ok()?;
    hosts_of(&bytes)
}

fn hosts_of(bytes: &[u8]) -> Option<Vec<String>> {
    if number_at(bytes, 0)? != VERSION {
        return None;
    }
    let processes = count(bytes, PROCESSES).filter(|count| *count > 0)?;
    (0..processes).map(|rank| host(bytes, rank)).collect()
}

/// The host of the process with this rank.
fn host(bytes: &[u8], rank: usize) -> Option<String> {
    let process = record(bytes, PROCESSES, rank)?;
    let node = number_at(process, NODE_OF_PROCESS)?.try_into().ok()?;
    let name = record(bytes, NODES, node)?.get(NAME_OF_NODE..)?;
    let name = &name[..name.len().min(LONGEST_NAME)];
    let name = name.split(|byte| *byte == 0).next()?;
    let name = std::str::from_utf8(name).ok()?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| name.to_owned())
}

/// Returns record `index` of the table that the header describes at `group`: size of a record,
/// offset of the first one, their number.
fn record(bytes: &[u8], group: usize, index: usize) -> Option<&[u8]> {
    let [size, offset] = [group, group + 8].map(|at| {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_ne_bytes(bytes)).ok()
    });
    let (size, offset) = (size?, offset?);
    let start = offset.checked_add(size.checked_mul(index)?)?;
    let record = bytes.get(start..start.checked_add(size)?)?;
    (index < count(bytes, group)?).then_some(record)
}

/// The number of records of the table that the header describes at `group`.
fn count(bytes: &[u8], group: usize) -> Option<usize> {
    usize::try_from(number_at(bytes, group + 16)?).ok()
}

/// The integer at `offset`, in the byte order of the machine.
fn number_at(bytes: &[u8], offset: usize) -> Option<i32> {
    let bytes = bytes.get(offset..offset + 4)?;
    bytes.try_into().ok().map(i32::from_ne_bytes)
}

#[cfg(test)]
mod apinfo_tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with two nodes. The process with rank 0 is on the second one. Records are larger than
    /// in jobs.md 1.6.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; 160 + 2 * 16 + 2 * 72];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        put(0, &5_i32.to_ne_bytes());
        for (group, size, offset) in [(64, 16_u64, 160_u64), (88, 72, 192)] {
            put(group, &size.to_ne_bytes());
            put(group + 8, &offset.to_ne_bytes());
            put(group + 16, &2_i32.to_ne_bytes());
        }
        put(160 + 8, &1_i32.to_ne_bytes());
        put(192 + 4, b"nid000001");
        put(192 + 72 + 4, b"nid000002");
        bytes
    }

    #[test]
    fn finds_hosts_by_rank() {
        let hosts_of_ranks = ["nid000002", "nid000001"].map(str::to_owned).to_vec();
        assert_eq!(hosts_of(&file()), Some(hosts_of_ranks.clone()));
        let mut written = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut written, &file()).unwrap();
        let path = written.path().to_str().unwrap();
        assert_eq!(hosts(path), Some(hosts_of_ranks));
        assert_eq!(hosts("/nowhere"), None);
    }

    #[test]
    fn refuses_other_version_and_offsets_outside_the_file() {
        for (at, value) in [(0, 4_i32), (72, 10_000), (80, 0), (168, 2), (168, -1), (96, -1)] {
            let mut bytes = file();
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(hosts_of(&bytes), None, "{value} at {at}");
        }
        for end in 0..192 + 72 {
            assert_eq!(hosts_of(&file()[..end]), None, "{end} bytes");
        }
    }

    proptest! {
        #[test]
        fn survives_altered_files(at in 0_usize..336, byte: u8, end in 0_usize..337) {
            let mut bytes = file();
            bytes[at] = byte;
            let _ = hosts_of(&bytes[..end.min(bytes.len())]);
        }
    }
}

#[cfg(test)]
mod tests;
