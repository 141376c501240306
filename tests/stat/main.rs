//! `cxidiag stat`: what the NICs did while a command ran (monitoring.md 1.6).

#[path = "../harness/mod.rs"]
mod harness;

mod attached;
mod documents;
mod ending;
mod interval;
mod kills;
mod nodes;
mod programs;
mod ranks;
mod signals;
mod top;

use std::fs;
use std::path::Path;
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
        for name in [
            "SLURM_STEP_ID",
            "SLURM_PROCID",
            "PMI_RANK",
            "OMPI_COMM_WORLD_RANK",
        ] {
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

    /// The names of all files that are left in the directory.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("a directory").flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
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
        assert!(
            Instant::now() < end,
            "waited {} s for {what}",
            LIMIT.as_secs()
        );
        thread::sleep(SLICE);
    }
}
