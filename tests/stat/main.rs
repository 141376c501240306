//! `cxidiag stat`: what the NICs did while a command ran (monitoring.md 1.6).

#[path = "../harness/mod.rs"]
mod harness;

mod attached;
mod documents;
mod ending;
mod interval;
mod kills;
mod launchers;
mod nodes;
mod programs;
mod ranks;
mod signals;
mod top;
mod transparent;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Command, Fabric};

/// Interval at which tests look for a file.
const SLICE: Duration = Duration::from_millis(5);

/// How long a test waits for something, which is less than the time limit of a process.
const LIMIT: Duration = Duration::from_secs(150);

/// A directory and a fabric for one test.
struct Place {
    directory: tempfile::TempDir,
    fabric: Fabric,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            fabric: Fabric::new(),
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `cxidiag stat` with `options`, which reads soft0 around `command`.
    fn stat(&self, options: &[&str], command: &[&str]) -> Command {
        self.cxidiag(&[&["stat", "soft0"], options, &["--"], command].concat())
    }

    /// `cxidiag` with `arguments`, in the directory.
    fn cxidiag(&self, arguments: &[&str]) -> Command {
        let mut command = self.fabric.command(arguments);
        command.current_dir(self.path());
        for name in ["SLURM_STEP_ID", "SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"] {
            command.env_remove(name);
        }
        command
    }

    /// A name that no other test of this machine has.
    fn key(&self) -> String {
        let name = self.path().file_name().expect("a name").to_string_lossy();
        format!("{}-{}", std::process::id(), name.replace('.', ""))
    }

    /// Writes a file and returns its path.
    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    /// Waits until there is a file with this name.
    #[track_caller]
    fn wait_for_file(&self, name: &str) {
        let path = self.path().join(name);
        wait_for(name, || path.exists().then_some(()));
    }

    /// By how much a counter of each NIC has grown, as `--csv=counters.csv` has it.
    #[track_caller]
    fn deltas(&self, counter: &str) -> Vec<u64> {
        let table = fs::read_to_string(self.path().join("counters.csv")).expect("a file");
        let rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let rows = rows.filter(|row| row[2] == counter);
        rows.map(|row| row[5].parse().expect("a number")).collect()
    }

    /// By how much a counter of the only NIC has grown.
    #[track_caller]
    fn delta(&self, counter: &str) -> u64 {
        let [delta] = self.deltas(counter)[..] else {
            panic!("not one row of {counter}");
        };
        delta
    }

    /// The names of all files that are left in the directory.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("a directory").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// The variables that Slurm sets for a task of a job with this many tasks on one node.
fn slurm_task(job: &str, rank: u32, tasks: u32) -> Vec<(&'static str, String)> {
    vec![
        ("SLURM_JOB_ID", job.to_owned()),
        ("SLURM_STEP_ID", "0".into()),
        ("SLURM_PROCID", rank.to_string()),
        ("SLURM_LOCALID", rank.to_string()),
        ("SLURM_STEP_NUM_TASKS", tasks.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", tasks.to_string()),
        ("SLURM_STEP_NODELIST", "nid1".into()),
        ("SLURM_NODEID", "0".into()),
        ("SLURMD_NODENAME", "nid1".into()),
    ]
}

/// The files of rosters with this text in their names.
fn roster_files(part: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let has_part = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("cxidiag-stat.") && name.contains(part)
    };
    entries.map(|entry| entry.path()).filter(has_part).collect()
}

/// Waits until `find` finds something.
///
/// # Panics
///
/// It finds nothing for [`LIMIT`]: `what` is missing. The test fails and ends its processes, before
/// the harness ends the whole test program.
#[track_caller]
fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "waited {} s for {what}", LIMIT.as_secs());
        thread::sleep(SLICE);
    }
}
