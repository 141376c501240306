//! The parallel program that a process of `stat` belongs to: its launcher, its name, its nodes. Its
//! processes on one node: which of them leads, and whether the others have ended (monitoring.md
//! 1.3).
//!
//! The processes of a node share a file in memory. Each of them holds a shared lock of it; a
//! process that is not the leader appends one byte and hands the lock on to its command, which it
//! executes. So the leader sees how many have come, and gets an exclusive lock as soon as all have
//! ended. It removes the file. A file whose leader was killed has no locks, and goes with the next
//! leader of this user.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, process};

use crew::launcher::LauncherTask;
use facts::error::Failure;
use facts::host::host_name;
use facts::job::Job;
use rustix::fs::{FlockOperation, OFlags, flock, major, minor};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, getppid, getuid};

use crate::note::note;
use crate::record::StepRecord;
use crate::step_directory::shortened;

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

    /// Whether other processes of the program may be on this node.
    pub fn has_others(&self) -> bool {
        let others = |task: &LauncherTask| task.size > 1 && task.local_size != Some(1);
        self.task.as_ref().is_some_and(others)
    }

    /// Whether this process leads its node; `None` if the launcher does not tell.
    pub fn is_leader(&self) -> Option<bool> {
        let rank = self.task.as_ref()?.local_rank?;
        Some(rank == 0)
    }

    /// The number of other processes on this node, if the launcher tells it. Without local ranks,
    /// all other processes may be here: a later one would lead again if the first one had ended.
    pub fn others(&self) -> Option<u32> {
        let task = self.task.as_ref()?;
        let most = task.local_rank.is_none().then_some(task.size);
        Some(task.local_size.or(most)?.saturating_sub(1))
    }

    /// Whether this process leads if the processes of a node cannot find each other.
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

    /// Whether the program has processes on other nodes, as far as the launcher tells.
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

    /// Whether this node is the first one of the program: its leader gathers.
    pub fn is_first_node(&self) -> bool {
        let first = |task: &LauncherTask| match task.node_index {
            Some(index) => index == 0,
            None => task.rank == 0,
        };
        self.task.as_ref().is_none_or(first)
    }

    /// The name of this node.
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

/// The part of a key for a job that Slurm has put back into its queue so often.
fn restart(count: Option<String>) -> String {
    let count = count.filter(|count| count != "0");
    count.map_or(String::new(), |count| format!(".r{count}"))
}

/// Where the files are: in memory, on this node.
const DIRECTORY: &str = "/dev/shm";

/// The longest part of a name that tells one program from another.
const LONGEST_KEY: usize = 160;

/// The lowest number of a descriptor that a command inherits.
const LOWEST_DESCRIPTOR: i32 = 64;

/// How often a process tries to open a file that others remove.
const TRIES: usize = 100;

/// Age of a file above which no more processes are expected to join.
const OLD: Duration = Duration::from_secs(60);

/// Pauses of the leader while it waits for others.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// What a process is on its node.
#[derive(Debug)]
pub enum NodeRole {
    /// It reads the NICs. Without a roster, it waits for no other process.
    Leader(Option<RosterFile>),
    /// It executes the command, which inherits this descriptor.
    Other(OwnedFd),
}

/// The file, with a shared lock of this process.
#[derive(Debug)]
pub struct RosterFile {
    path: PathBuf,
    file: File,
}

/// Joins the processes of a program on this node, which `key` tells from other programs.
/// `is_leader` says which part this process has; without it, the first process leads.
///
/// # Errors
///
/// A file that cannot be made or locked.
pub fn join_roster(key: &str, is_leader: Option<bool>) -> io::Result<NodeRole> {
    join_in(Path::new(DIRECTORY), key, is_leader)
}

fn join_in(directory: &Path, key: &str, is_leader: Option<bool>) -> io::Result<NodeRole> {
    let name = format!("{}{}", prefix(), shortened(key, LONGEST_KEY));
    let path = directory.join(name);
    for _ in 0..TRIES {
        let (file, is_new) = match open(&path, true) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match open(&path, false) {
                Ok(file) => (file, false),
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        // A file that no process locks is left over: its processes were killed. With known ranks,
        // they may also have ended before the leader came, but not long before.
        if !is_new && (is_leader.is_none() || is_old(&file)) && flock(&file, EXCLUSIVE).is_ok() {
            if is_at(&path, &file) {
                fs::remove_file(&path)?;
            }
            continue;
        }
        flock(&file, FlockOperation::LockShared)?;
        // Its leader may have removed it before the lock.
        if !is_at(&path, &file) {
            continue;
        }
        return if is_leader.unwrap_or(is_new) {
            Ok(NodeRole::Leader(Some(RosterFile { path, file })))
        } else {
            (&file).write_all(b".")?;
            let inherited = fcntl_dupfd_cloexec(&file, LOWEST_DESCRIPTOR)?;
            fcntl_setfd(&inherited, FdFlags::empty())?;
            Ok(NodeRole::Other(inherited))
        };
    }
    Err(ErrorKind::TimedOut.into())
}

const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;

/// Opens the file, which must be new if `is_new`.
fn open(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).read(true).create_new(is_new).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.uid() != getuid().as_raw() || !found.is_file() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(file)
}

/// Whether no process has joined for longer than a launcher takes to start all of them.
fn is_old(file: &File) -> bool {
    let changed = file.metadata().and_then(|found| found.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD))
}

/// Whether this is still the file with this name.
fn is_at(path: &Path, file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (fs::symlink_metadata(path), file.metadata()) {
        (Ok(named), Ok(opened)) => identity(named) == identity(opened),
        _ => false,
    }
}

/// The beginning of the names of all files of this user.
fn prefix() -> String {
    format!("cxidiag-stat.{}.", getuid().as_raw())
}

impl RosterFile {
    /// Waits until the other processes have come and their commands have ended, at most for this
    /// long. `others` is their number, if it is known. Returns how many were still running.
    /// `pause_for` pauses for a time, and returns whether to go on waiting.
    pub fn wait(
        &self,
        others: Option<u32>,
        at_most: Duration,
        mut pause_for: impl FnMut(Duration) -> bool,
    ) -> u32 {
        let until = Instant::now() + at_most;
        let [mut pause, longest] = PAUSES;
        loop {
            if self.have_ended(others) {
                return 0;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !pause_for(pause.min(left)) {
                // The kernel may not list the locks of processes in other namespaces.
                return if self.is_free() { 0 } else { running(&self.file).max(1) };
            }
            pause = (2 * pause).min(longest);
        }
    }

    /// Whether the other processes have come and their commands have ended.
    pub fn have_ended(&self, others: Option<u32>) -> bool {
        self.missing(others) == 0 && self.is_free()
    }

    /// Whether no other process locks the file. If so, this process has it for itself.
    fn is_free(&self) -> bool {
        if flock(&self.file, EXCLUSIVE).is_ok() {
            return true;
        }
        // A try that fails costs the shared lock, and without it a process that comes later takes
        // the file for one that was left over. If one just did, all others had ended.
        let is_locked = flock(&self.file, FlockOperation::LockShared).is_ok();
        is_locked && !is_at(&self.path, &self.file)
    }

    /// Returns how many of the other processes have not come.
    fn missing(&self, others: Option<u32>) -> u32 {
        let come = self.file.metadata().map_or(0, |found| found.len());
        let come = u32::try_from(come).unwrap_or(u32::MAX);
        others.unwrap_or(0).saturating_sub(come)
    }
}

impl Drop for RosterFile {
    fn drop(&mut self) {
        if is_at(&self.path, &self.file) {
            let _ = fs::remove_file(&self.path);
        }
        sweep(self.path.parent().unwrap_or(Path::new(DIRECTORY)));
    }
}

/// Removes old files of this user that no process locks. A new one may be of processes that have
/// ended before their leader came.
fn sweep(directory: &Path) {
    let prefix = prefix();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)) {
        let path = entry.path();
        if let Ok(file) = open(&path, false)
            && is_old(&file)
            && flock(&file, EXCLUSIVE).is_ok()
            && is_at(&path, &file)
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns how many other processes lock a file, as the kernel lists locks.
fn running(file: &File) -> u32 {
    let Ok(found) = file.metadata() else {
        return 0;
    };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let (major, minor, inode) = (major(found.dev()), minor(found.dev()), found.ino());
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    let all = locks_of(&locks, &file);
    // The lock of this process is among them.
    let own = format!(" {} ", std::process::id());
    let is_own = |line: &&str| line.contains(&own);
    u32::try_from(all.filter(|line| !is_own(line)).count()).unwrap_or(u32::MAX)
}

/// The lines about locks of this file, which `flock` has taken.
fn locks_of<'a>(locks: &'a str, file: &str) -> impl Iterator<Item = &'a str> {
    locks.lines().filter(move |line| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "FLOCK") && words.any(|word| word == file)
    })
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

    const SHORT: Duration = Duration::from_millis(30);

    const LONG: Duration = Duration::from_secs(60);

    fn leader(directory: &Path, is_leader: Option<bool>) -> RosterFile {
        match join_in(directory, "1.0", is_leader).unwrap() {
            NodeRole::Leader(Some(roster)) => roster,
            part => panic!("{part:?}"),
        }
    }

    fn other(directory: &Path, is_leader: Option<bool>) -> OwnedFd {
        match join_in(directory, "1.0", is_leader).unwrap() {
            NodeRole::Other(descriptor) => descriptor,
            part => panic!("{part:?}"),
        }
    }

    fn wait(roster: &RosterFile, at_most: Duration) -> u32 {
        roster.wait(Some(3), at_most, |time| {
            std::thread::sleep(time);
            true
        })
    }

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn leader_waits_for_those_that_come_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let first = other(directory.path(), Some(false));
        let roster = leader(directory.path(), Some(true));
        let second = other(directory.path(), Some(false));
        assert_eq!(wait(&roster, SHORT), 1, "locks of one process");
        let third = other(directory.path(), Some(false));
        drop(third);
        assert_eq!(wait(&roster, SHORT), 1);
        drop((first, second));
        assert_eq!(wait(&roster, LONG), 0);
        assert_eq!(roster.wait(None, LONG, |_| unreachable!()), 0);
        drop(roster);
        assert_eq!(names(directory.path()), 0);
    }

    #[test]
    fn leader_stops_waiting_when_a_pause_ends_early() {
        let directory = tempfile::tempdir().unwrap();
        let _other = other(directory.path(), Some(false));
        let roster = leader(directory.path(), Some(true));
        assert_eq!(roster.wait(Some(2), LONG, |_| false), 1);
    }

    /// The kernel gives up the shared lock of a process that cannot have an exclusive one instead.
    #[test]
    fn waiting_leader_stays_the_only_one() {
        let directory = tempfile::tempdir().unwrap();
        let roster = leader(directory.path(), None);
        let second = other(directory.path(), None);
        assert_eq!(wait(&roster, SHORT), 1);
        assert_eq!(roster.wait(Some(1), LONG, |_| false), 1);
        drop(second);
        let third = other(directory.path(), None);
        drop(third);
        assert_eq!(roster.wait(Some(2), LONG, |_| unreachable!()), 0);
    }

    #[test]
    fn first_one_leads_without_local_ranks() {
        let directory = tempfile::tempdir().unwrap();
        let roster = leader(directory.path(), None);
        let descriptor = other(directory.path(), None);
        assert!(std::os::fd::AsRawFd::as_raw_fd(&descriptor) >= LOWEST_DESCRIPTOR);
        drop((roster, descriptor));
        assert_eq!(names(directory.path()), 0);
    }

    #[test]
    fn file_of_killed_processes_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(prefix() + "1.0");
        let others = directory.path().join(prefix() + "other");
        fs::write(&left, "..").unwrap();
        make_old(&others);
        let roster = leader(directory.path(), None);
        assert_eq!(roster.missing(Some(2)), 2);
        drop(roster);
        assert_eq!(names(directory.path()), 0, "the next leader removes all that is left over");
    }

    fn make_old(path: &Path) {
        let before = std::time::SystemTime::now() - 2 * OLD;
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path).unwrap();
        file.set_modified(before).unwrap();
    }

    #[test]
    fn counts_short_processes_and_none_of_a_killed_leader() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(prefix() + "1.0");
        drop(other(directory.path(), Some(false)));
        assert_eq!(leader(directory.path(), Some(true)).missing(Some(1)), 0);
        drop(other(directory.path(), Some(false)));
        make_old(&file);
        assert_eq!(leader(directory.path(), Some(true)).missing(Some(1)), 1);
    }

    #[test]
    fn sweep_leaves_files_of_programs_that_begin() {
        let directory = tempfile::tempdir().unwrap();
        let begins = directory.path().join(prefix() + "begins");
        fs::write(&begins, ".").unwrap();
        drop(leader(directory.path(), None));
        assert!(begins.exists());
    }

    #[test]
    fn keys_are_names_of_files() {
        let name = shortened("17.prterun-a@1/../x", LONGEST_KEY);
        assert_eq!(name, "17.prterun-a_1_.._x");
        assert_eq!(shortened(&"x".repeat(500), LONGEST_KEY).len(), LONGEST_KEY);
    }

    #[test]
    fn counts_locks_of_one_file() {
        let locks = "1: FLOCK  ADVISORY  READ 17 00:1a:5 0 EOF\n\
                     2: POSIX  ADVISORY  READ 18 00:1a:5 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 19 00:1a:55 0 EOF\n";
        assert_eq!(locks_of(locks, "00:1a:5").count(), 1);
    }
}
