//! The parallel program that a process of `stat` belongs to: its launcher, its name, its nodes.

use std::process;

use super::note::note;
use cluster::launcher::LauncherTask;
use facts::error::Failure;
use facts::host::host_name;
use facts::job::Job;
use report::stat::record::StepRecord;
use rustix::process::{Pid, getppid};

/// The program, from the point of view of one of its processes.
#[derive(Debug)]
pub struct Program {
    task: Option<LauncherTask>,
    job: Option<Job>,
    host: String,
}

impl Program {
    /// Finds the program in the environment. Variables of a launcher that are incomplete or
    /// contradict each other must not keep a command from running: this process is the only one
    /// of its program then, and a line is printed.
    pub fn of_environment() -> Self {
        let alone = |failure: Failure| {
            note(&format!(
                "{} (the report is of this process alone)",
                failure.message()
            ));
            None
        };
        Self {
            task: LauncherTask::of_environment().unwrap_or_else(alone),
            job: Job::of_environment(),
            host: host_name(),
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

    /// Returns the number of other processes on this node, if the launcher tells it.
    pub fn others(&self) -> Option<u32> {
        Some(self.task.as_ref()?.local_size?.saturating_sub(1))
    }

    /// Returns what tells the program from other programs of the same user on this node and, if a
    /// launcher has named it, on all nodes.
    pub fn key(&self) -> String {
        let Some(task) = &self.task else {
            return format!("{}.{}", self.host, process::id());
        };
        let job = task.job.as_deref().unwrap_or("0");
        match &task.step {
            Some(step) => format!("{job}.{step}"),
            // Without a name, the processes of a node still have the same parent.
            None => {
                let parent = getppid().map_or(0, Pid::as_raw_pid);
                format!("{job}.{}.{parent}", task.launcher.replace(' ', "-"))
            }
        }
    }

    /// Returns what tells the processes on this node from others on this host, which may
    /// be several nodes of Slurm.
    pub fn key_on_node(&self) -> String {
        format!("{}.{}", self.key(), self.node())
    }

    /// Returns whether the program has processes on other nodes, as far as the launcher tells.
    pub fn has_other_nodes(&self) -> bool {
        let others = |task: &LauncherTask| match (task.local_rank, task.local_size) {
            // No process knows whether its node is the first one.
            (None, _) => false,
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

    /// Returns the program as records have it.
    pub fn step(&self) -> Option<StepRecord> {
        let task = self.task.as_ref()?;
        let job = self.job.as_ref().map(Job::to_string);
        let step = task.step.as_ref().map(|step| format!("step {step}"));
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
