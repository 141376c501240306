//! The parallel program that a process of `stat` belongs to: its launcher, its name, its nodes.

use std::{env, process};

use super::note::note;
use crate::record::StepRecord;
use crew::launcher::LauncherTask;
use facts::error::Failure;
use facts::host::host_name;
use facts::job::Job;
use rustix::process::{Pid, getppid};

/// How often Slurm has put the job back into its queue; not set before that.
const RESTARTS: &str = "SLURM_RESTART_COUNT";

/// Characters that tell one boot from another.
const SHORT_BOOT: usize = 8;

/// The program, from the point of view of one of its processes.
#[derive(Debug)]
pub struct ParallelProgram {
    task: Option<LauncherTask>,
    job: Option<Job>,
    host: String,
    /// Tells runs of a job that Slurm has put back into its queue: `.r2`.
    restart: String,
}

impl ParallelProgram {
    /// Finds the program in the environment. Variables of a launcher that are incomplete or
    /// contradict each other must not keep a command from running: this process is the only one
    /// of its program then, and a line is printed.
    pub fn from_environment() -> Self {
        let alone = |failure: Failure| {
            note(&format!("{} (the report is of this process alone)", failure.message()));
            None
        };
        Self {
            task: LauncherTask::from_environment().unwrap_or_else(alone),
            job: Job::from_environment(),
            host: host_name(),
            restart: restart(env::var(RESTARTS).ok()),
        }
    }

    /// Returns whether other processes of the program may be on this node.
    pub fn has_others(&self) -> bool {
        let others = |task: &LauncherTask| task.size > 1 && task.local_size != Some(1);
        self.task.as_ref().is_some_and(others)
    }

    /// Returns whether this process leads its node; `None` if the launcher does not tell.
    pub fn is_leader(&self) -> Option<bool> {
        let rank = self.task.as_ref()?.local_rank?;
        Some(rank == 0)
    }

    /// Returns the number of other processes on this node, if the launcher tells it. Without local
    /// ranks, all other processes may be here: a later one would lead again if the first one had
    /// ended.
    pub fn others(&self) -> Option<u32> {
        let task = self.task.as_ref()?;
        let most = task.local_rank.is_none().then_some(task.size);
        Some(task.local_size.or(most)?.saturating_sub(1))
    }

    /// Returns whether this process leads if the processes of a node cannot find each other.
    pub fn leads_alone(&self) -> bool {
        let is_first = self.task.as_ref().is_none_or(|task| task.rank == 0);
        self.is_leader().unwrap_or(is_first)
    }

    /// Returns what tells the program from other programs of the same user on this node and, if a
    /// launcher has named it, on all nodes.
    pub fn key(&self) -> String {
        let Some(task) = &self.task else {
            return format!("{}.{}", self.host, process::id());
        };
        let job = task.job.as_deref().unwrap_or("0");
        match &task.step {
            Some(step) => format!("{job}.{step}{}", self.restart),
            // Without a name, the processes of a node still have the same parent.
            None => {
                let parent = getppid().map_or(0, Pid::as_raw_pid);
                format!("{job}.{}.{parent}", task.launcher.replace(' ', "-"))
            }
        }
    }

    /// Returns what tells the processes on this node since this boot from others on this host,
    /// which may be several nodes of Slurm.
    pub fn key_on_node(&self, boot: Option<&str>) -> String {
        let boot: String = boot.unwrap_or_default().chars().take(SHORT_BOOT).collect();
        format!("{}.{boot}.{}", self.key(), self.node())
    }

    /// Returns whether the program has processes on other nodes, as far as the launcher tells.
    pub fn has_other_nodes(&self) -> bool {
        let others = |task: &LauncherTask| match (task.local_rank, task.local_size) {
            // No process knows whether its node is the first one.
            (None, _) => false,
            // The nodes have no common name for their directory.
            _ if task.step.is_none() => false,
            (_, Some(local_size)) => local_size < task.size,
            (_, None) => task.size > 1,
        };
        self.task.as_ref().is_some_and(others)
    }

    /// Returns whether this node is the first one of the program: its leader gathers.
    pub fn is_first_node(&self) -> bool {
        let first = |task: &LauncherTask| match task.node_index {
            Some(index) => index == 0,
            None => task.rank == 0,
        };
        self.task.as_ref().is_none_or(first)
    }

    /// Returns the name of this node.
    pub fn node(&self) -> &str {
        let named = self.task.as_ref().and_then(|task| task.node.as_deref());
        named.unwrap_or(&self.host)
    }

    pub fn step(&self) -> Option<StepRecord> {
        let task = self.task.as_ref()?;
        let job = self.job.as_ref().map(Job::to_string);
        let step = task.known_step().map(|step| format!("step {step}"));
        let parts: Vec<String> = job.into_iter().chain(step).collect();
        let mut nodes: Vec<String> = Vec::new();
        for host in &task.hosts {
            if nodes.last() != Some(host) && !nodes.contains(host) {
                nodes.push(host.clone());
            }
        }
        Some(StepRecord {
            name: if parts.is_empty() {
                format!("{}, {} processes", task.launcher, task.size)
            } else {
                parts.join(" ")
            },
            node_index: task.node_index,
            nodes,
            local_size: task.local_size,
            size: task.size,
        })
    }
}

/// Returns the part of a key for a job that Slurm has put back into its queue so often.
fn restart(count: Option<String>) -> String {
    let count = count.filter(|count| count != "0");
    count.map_or(String::new(), |count| format!(".r{count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(task: LauncherTask) -> ParallelProgram {
        ParallelProgram { task: Some(task), job: None, host: "nid1".into(), restart: String::new() }
    }

    /// Process 1 of 4, the first one of two on its node.
    fn task() -> LauncherTask {
        LauncherTask {
            launcher: "Slurm",
            variable: "SLURM_PROCID",
            rank: 1,
            size: 4,
            local_rank: Some(0),
            local_size: Some(2),
            node_index: None,
            node: None,
            job: Some("17".into()),
            step: Some("3".into()),
            end_of_job: None,
            hosts: Vec::new(),
            topology: None,
        }
    }

    #[test]
    fn keys_tell_steps_restarts_nodes_and_boots_apart() {
        let mut program = program(task());
        assert_eq!(program.key(), "17.3");
        assert_eq!(program.key_on_node(Some("1234567890")), "17.3.12345678.nid1");
        program.restart = restart(Some("2".into()));
        assert_eq!(program.key(), "17.3.r2");
        assert_eq!([restart(None), restart(Some("0".into()))], ["", ""]);
    }

    #[test]
    fn reports_name_no_number_that_open_mpi_draws() {
        assert_eq!(program(task()).step().unwrap().name, "step 3");
        let drawn = LauncherTask {
            launcher: "Open MPI",
            variable: "OMPI_COMM_WORLD_RANK",
            step: Some("1520566273".into()),
            ..task()
        };
        let program = program(drawn);
        assert_eq!(program.step().unwrap().name, "Open MPI, 4 processes");
        assert_eq!(program.key(), "17.1520566273");
    }

    #[test]
    fn gathers_only_if_the_nodes_have_a_common_name() {
        assert!(program(task()).has_other_nodes());
        let without_step = LauncherTask { step: None, ..task() };
        assert!(!program(without_step).has_other_nodes());
    }

    #[test]
    fn all_processes_may_be_on_a_node_without_local_ranks() {
        assert_eq!(program(task()).others(), Some(1));
        let unknown = LauncherTask { local_rank: None, local_size: None, ..task() };
        let unknown = program(unknown);
        assert_eq!((unknown.others(), unknown.leads_alone()), (Some(3), false));
        assert!(program(task()).leads_alone());
    }
}
