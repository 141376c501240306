//! A cluster of Slurm on this machine: `slurmctld`, and a `slurmd` for each of its nodes, with a
//! `munged` of its own. It belongs to the user of the tests, and leaves the machine's own Slurm
//! alone.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};
use tempfile::TempDir;

use super::{Command, Process, finish, stdout};

/// What a cluster needs, from the packages slurmctld, slurmd, slurm-client and munge of Debian.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "sinfo"];

/// Time in which the nodes must be ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Time limit of a daemon, which lives as long as its test.
const DAEMON_LIMIT: Duration = Duration::from_secs(900);

/// Starts of the variables that launchers set: the tests may run in a job themselves.
const LAUNCHERS: [&str; 8] =
    ["FLUX_", "MPI_LOCAL", "OMPI_", "PALS_", "PBS_", "PMI", "SLINGSHOT_", "SLURM"];

/// A running cluster. It ends with this value.
pub struct Slurm {
    directory: TempDir,
    daemons: Vec<Process>,
    /// Number of the first job. Other clusters on this machine have other numbers.
    pub first_job: u32,
}

impl Slurm {
    /// Starts a cluster of `nodes`, two at each switch. Returns `None` where Slurm is not
    /// installed.
    pub fn start(nodes: usize) -> Option<Self> {
        if !are_installed(&PROGRAMS) {
            return None;
        }
        // Processes of steps outlive their daemons; this process waits for them instead of init.
        set_child_subreaper(Some(getpid())).expect("a system call of Linux 3.4");
        // Between the choice of the ports and their use, another process may take one.
        let mut slurm = (0..3).find_map(|_| Self::try_start(nodes));
        assert!(slurm.is_some(), "Slurm did not start three times");
        slurm.take()
    }

    fn try_start(nodes: usize) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| directory.path().join(name);
        let mut key = [0; 128];
        let random = File::open("/dev/urandom");
        random.and_then(|mut file| file.read_exact(&mut key)).expect("random numbers");
        fs::write(at("key"), key).expect("a file");
        fs::set_permissions(at("key"), Permissions::from_mode(0o400)).expect("a file");
        fs::create_dir(at("state")).expect("a directory");
        let first_job = u32::from_ne_bytes(*key.first_chunk().expect("4 bytes")) % 10_000_000 + 1;
        let configuration = configuration(directory.path(), nodes, first_job);
        fs::write(at("slurm.conf"), configuration).expect("a file");
        fs::write(at("topology.conf"), topology(nodes)).expect("a file");

        let option = |name: &str, file: &str| format!("--{name}={}", at(file).display());
        let munged = [
            // The permissions of the temporary directory are too strict for it.
            "--force".into(),
            "--foreground".into(),
            "--num-threads=1".into(),
            option("key-file", "key"),
            option("socket", "munge"),
            option("pid-file", "munged.pid"),
            option("log-file", "munged.log"),
            option("seed-file", "munged.seed"),
        ];
        let mut slurm = Self { directory, daemons: Vec::new(), first_job };
        slurm.start_daemon("munged", &munged);
        slurm.start_daemon("slurmctld", &["-D".into(), "-i".into()]);
        for node in (1..=nodes).map(node) {
            let spool = slurm.directory.path().join(format!("spool-{node}"));
            fs::create_dir(spool).expect("a directory");
            slurm.start_daemon("slurmd", &["-D".into(), "-N".into(), node]);
        }
        slurm.becomes_ready(nodes).then_some(slurm)
    }

    fn start_daemon(&mut self, program: &str, arguments: &[String]) {
        let output = self.directory.path().join(format!("output-{}", self.daemons.len()));
        let output = File::create(output).expect("a file");
        // A daemon ends with the thread of its test, also if that ends without `drop`.
        let child = self
            .command("setpriv")
            .args(["--pdeathsig", "KILL", program])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output)
            .limit(DAEMON_LIMIT)
            .spawn();
        self.daemons.push(child.expect("setpriv starts"));
    }

    /// Waits until all nodes are idle. Returns false if a daemon ends before.
    fn becomes_ready(&mut self, nodes: usize) -> bool {
        let end = Instant::now() + START_LIMIT;
        let ready = format!("{nodes} idle\n");
        while stdout(&finish(self.program("sinfo", ["-h", "-o", "%D %T"]))) != ready {
            let has_ended = |daemon: &mut Process| daemon.try_wait().is_some();
            if self.daemons.iter_mut().any(has_ended) {
                let _ = writeln!(std::io::stderr(), "a daemon has ended:\n{}", self.logs());
                return false;
            }
            assert!(Instant::now() < end, "the nodes are not ready:\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// A program of Slurm with `arguments`, for this cluster.
    pub fn program<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The directory in which its programs run.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = outside_of_jobs(program);
        command
            .env("SLURM_CONF", self.directory.path().join("slurm.conf"))
            .current_dir(self.directory.path());
        command
    }

    /// The ends of the logs of all daemons.
    fn logs(&self) -> String {
        let files = fs::read_dir(self.directory.path()).expect("a directory");
        let mut text = String::new();
        for path in files.map(|file| file.expect("an entry").path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(".log") || name.starts_with("output-") {
                let log = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = lines.iter().rev().take(10).rev();
                text += &format!("{name}:\n");
                last.for_each(|line| text += &format!("  {line}\n"));
            }
        }
        text
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}", self.logs());
        }
        for daemon in &mut self.daemons {
            daemon.kill();
        }
        for daemon in &mut self.daemons {
            daemon.wait();
        }
        end_steps(self.directory.path());
    }
}

/// Ends the processes of the steps of a cluster, which its daemons have left, and waits for them.
fn end_steps(directory: &Path) {
    let own = getpid().as_raw_pid().to_string();
    for process in fs::read_dir("/proc").expect("proc") {
        let process = process.expect("an entry").path();
        let number = process.file_name().and_then(|name| name.to_str()?.parse().ok());
        let status = fs::read_to_string(process.join("stat")).unwrap_or_default();
        // 4711 (slurmstepd) S 1 ..., or (slurmscriptd)
        let Some((name, rest)) = status.rsplit_once(')') else {
            continue;
        };
        let fields: Vec<&str> = rest.split_whitespace().take(2).collect();
        let is_step = name.contains("(slurms") && fields.get(1) == Some(&own.as_str());
        let Some(process_id) = number.and_then(Pid::from_raw).filter(|_| is_step) else {
            continue;
        };
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let is_of_cluster =
            String::from_utf8_lossy(&environment).contains(&*directory.to_string_lossy());
        if is_of_cluster {
            let _ = kill_process(process_id, Signal::KILL);
        }
        if is_of_cluster || fields[0] == "Z" {
            let _ = waitpid(Some(process_id), WaitOptions::empty());
        }
    }
}

/// The configuration of a cluster.
fn configuration(directory: &Path, nodes: usize, first_job: u32) -> String {
    let listeners: Vec<TcpListener> =
        (0..=nodes).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<u16> = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("an address").port())
        .collect();
    let name = |command: &str, option: &str| {
        let output = Command::new(command).arg(option).output().expect("it starts");
        stdout(&output).trim().to_owned()
    };
    let (user, host) = (name("id", "-un"), name("uname", "-n"));
    let at = directory.display();
    let mut text = format!(
        "ClusterName=test\n\
         FirstJobId={first_job}\n\
         SlurmctldHost={host}(127.0.0.1)\n\
         SlurmctldPort={}\n\
         SlurmUser={user}\n\
         SlurmdUser={user}\n\
         AuthType=auth/munge\n\
         CredType=cred/munge\n\
         AuthInfo=socket={at}/munge\n\
         StateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/slurmd-%n.pid\n\
         SlurmctldLogFile={at}/slurmctld.log\n\
         SlurmdLogFile={at}/slurmd-%n.log\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         SelectType=select/linear\n\
         SwitchType=switch/none\n\
         TopologyPlugin=topology/tree\n\
         JobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\n\
         MpiDefault=none\n\
         KillWait=1\n\
         SlurmdParameters=config_overrides\n\
         PartitionName=all Nodes=ALL Default=YES State=UP\n",
        ports[0]
    );
    for (name, port) in (1..).map(node).zip(&ports[1..]) {
        text +=
            &format!("NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2\n");
    }
    text
}

/// The name of a node. It is an address of this machine, so that it can be resolved.
pub fn node(number: usize) -> String {
    format!("127.0.0.{number}")
}

/// The switches of a cluster: s1, s2, ... with two nodes each, below s0.
fn topology(nodes: usize) -> String {
    let switches = nodes.div_ceil(2);
    let mut text = format!("SwitchName=s0 Switches=s[1-{switches}]\n");
    for switch in 1..=switches {
        let nodes: Vec<String> = (2 * switch - 1..=nodes).take(2).map(node).collect();
        text += &format!("SwitchName=s{switch} Nodes={}\n", nodes.join(","));
    }
    text
}

/// Whether all `programs` are installed. If not, it prints that their test is left out.
pub fn are_installed(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| {
            let mut directories = directories().into_iter();
            !directories.any(|directory| Path::new(&directory).join(program).is_file())
        })
        .collect();
    if !missing.is_empty() {
        // The macros for output are captured in tests that pass.
        let missing = missing.join(", ");
        let _ = writeln!(std::io::stderr(), "left out: {missing} not installed");
    }
    missing.is_empty()
}

/// The directories of programs. The directories of daemons are not in every user's PATH.
fn directories() -> Vec<String> {
    let path = env::var("PATH").unwrap_or_default();
    let all = path.split(':').chain(["/usr/sbin", "/sbin"]);
    all.map(str::to_owned).collect()
}

/// A program that finds no variable of a launcher in its environment.
pub fn outside_of_jobs(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", directories().join(":"));
    command.env_remove("CXIDIAG_TOKEN");
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if LAUNCHERS.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
}
