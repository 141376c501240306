//! Machines on which GPU runtimes are installed: stand-ins, compiled from the C files of cxi-sys.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::{Command, Fabric, Server, finish};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys/tests/gpu");

/// A runtime, by the type of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Amd,
    Nvidia,
    Intel,
}

pub use Runtime::{Amd, Intel, Nvidia};

pub const ALL: [Runtime; 3] = [Amd, Nvidia, Intel];

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Amd => "AMD",
            Nvidia => "NVIDIA",
            Intel => "INTEL",
        }
    }

    /// The names under which the program looks for its libraries.
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Amd => &[
                HIP,
                "libamdhip64.so",
                "libamdhip64.so.7",
                "libamdhip64.so.5",
                "libhsa-runtime64.so.1",
            ],
            Nvidia => &["libcuda.so.1"],
            Intel => &["libze_loader.so.1"],
        }
    }
}

const HIP: &str = "libamdhip64.so.6";

/// The compiled stand-ins.
static BUILT: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = directory.path();
    let library = |name: &str, sources: &[&str], others: &[String]| {
        let status = Command::new("cc")
            .args("-std=gnu11 -Wall -Wextra -Werror -O1 -shared -fPIC -pthread".split(' '))
            .arg(format!("-Wl,-soname,{name}"))
            .arg("-o")
            .arg(at.join(name))
            .args(sources.iter().map(|file| Path::new(SOURCES).join(file)))
            .args(others)
            .status();
        assert!(status.expect("cc starts").success(), "{name}");
    };
    library("libcuda.so.1", &["cuda.c", "device.c"], &[]);
    library("libze_loader.so.1", &["level_zero.c", "device.c"], &[]);
    library(HIP, &["hip.c", "device.c"], &[]);
    // HSA shares the memory of HIP.
    let linked = [format!("-L{}", at.display()), format!("-l:{HIP}")];
    library("libhsa-runtime64.so.1", &["hsa.c"], &linked);
    directory
});

/// A machine on which some runtimes are installed, and a fabric on it.
pub struct Machine {
    pub fabric: Fabric,
    pub directory: TempDir,
}

impl Machine {
    /// Makes empty files of the other runtimes, which the dynamic linker refuses. So the tests do
    /// not find the runtimes of this machine.
    pub fn with(runtimes: &[Runtime]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for runtime in ALL {
            let is_installed = runtimes.contains(&runtime);
            for name in runtime.libraries() {
                let (place, built) = (directory.path().join(name), BUILT.path().join(name));
                if is_installed && built.exists() {
                    std::os::unix::fs::symlink(built, place).expect("a link");
                } else {
                    File::create(place).expect("an empty file");
                }
            }
        }
        Self { fabric: Fabric::new(), directory }
    }

    pub fn command(&self, args: &str) -> Command {
        let mut command = self.fabric.command(args);
        command.env("LD_LIBRARY_PATH", self.directory.path()).env("STANDIN_LOG", self.log());
        command
    }

    pub fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &str) -> Output {
        finish(self.command(args))
    }

    /// Runs the program with a variable of the stand-ins.
    pub fn run_with(&self, variable: (&str, &str), args: &str) -> Output {
        let mut command = self.command(args);
        command.env(variable.0, variable.1);
        finish(command)
    }

    pub fn server(&self, tool: &str, args: &str) -> Server {
        Server::start(self.command(&format!("{tool} -p 0 -d soft0 {args}")))
    }

    pub fn client(&self, tool: &str, server: &Server, args: &str) -> Output {
        self.run(&format!("{tool} 127.0.0.1 -p {} -d soft1 {args}", server.port))
    }

    /// Counts what was done on the GPUs: `allocate 0`.
    pub fn done(&self) -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let mut done = BTreeMap::new();
        for line in text.lines() {
            let (_process, what) = line.split_once(' ').expect("a process and what it did");
            *done.entry(what.to_owned()).or_default() += 1;
        }
        done
    }

    /// Fails unless each GPU held this number of buffers, and all memory was freed.
    #[track_caller]
    pub fn assert_buffers(&self, buffers: &[(usize, usize)]) {
        let done = self.done();
        let times = |what: &str| done.get(what).copied().unwrap_or_default();
        for (gpu, count) in buffers {
            assert_eq!(times(&format!("allocate {gpu}")), *count, "{done:?}");
            let freed = times(&format!("free {gpu}"));
            assert_eq!(freed, count + times(&format!("import {gpu}")), "{done:?}");
        }
        assert!(done.keys().all(|what| !what.starts_with("left")), "{done:?}");
        self.fabric.assert_nothing_left();
    }
}
