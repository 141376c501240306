//! `cxidiag why --job`: planted hangs on software NICs. The ranks are `tests/libcxi/hang.c`, and
//! check afterwards that their NIC still works.

#[path = "../harness/mod.rs"]
mod harness;
mod nodes;
mod planted;
mod stacks;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use harness::c_program::{SOURCES, compile};
use harness::slurm::{are_installed, outside_of_jobs};
use harness::{
    Command, Fabric, Pipe, Process, SOFTWARE_NIC, assert_success, finish, schema, stderr, stdout,
};

static RANK: LazyLock<PathBuf> = LazyLock::new(|| compiled("libcxi/hang", &[]));

/// A stack tool that does not end as it should.
static TOOL: LazyLock<PathBuf> =
    LazyLock::new(|| compiled("hang/tool", &[&format!("-Wl,-rpath,{}", SOFTWARE_NIC.display())]));

/// Whether this machine has a stack tool. Without one, jobs are not planted whose verdict needs the
/// functions of ranks.
static HAS_STACKS: LazyLock<bool> = LazyLock::new(|| {
    let has =
        ["eu-stack", "gdb"].iter().any(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !has {
        eprintln!("left out: neither eu-stack nor gdb is installed");
    }
    has
});

/// Time for a stack tool on a busy machine.
const STACKS: &[&str] = &["--stack-time=60s"];
const NO_STACKS: &[&str] = &["--no-stacks"];

/// Compiles a program in `tests/`.
fn compiled(source: &str, options: &[&str]) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hang");
    std::fs::create_dir_all(&directory).expect("a directory");
    let source = Path::new(SOURCES).join("..").join(source);
    let name = source.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    // A program that another run of these tests executes cannot be written, but replaced.
    let new = format!("{name}.{}", std::process::id());
    compile(&directory, &source, &new, options);
    std::fs::rename(directory.join(new), directory.join(&name)).expect("one file system");
    directory.join(name)
}

/// A job. Its number keeps it apart from jobs of other tests.
struct Job {
    fabric: Fabric,
    /// Settings of the software NICs.
    faults: &'static str,
    /// The user of its processes, if it is another one.
    user: Option<u32>,
    ranks: Vec<(Process, BufReader<Pipe<ChildStdout>>)>,
}

impl Job {
    /// Starts a rank for each word, which says how it hangs.
    fn start(size: usize, ranks: &str, faults: &'static str) -> Self {
        Self::start_on(Fabric::new(), size, ranks, faults)
    }

    fn start_on(fabric: Fabric, size: usize, ranks: &str, faults: &'static str) -> Self {
        let mut job = Self { fabric, faults, user: None, ranks: Vec::new() };
        job.start_ranks(size, ranks);
        job
    }

    /// Starts the ranks of a node, `size` of them for the launcher.
    fn start_ranks(&mut self, size: usize, ranks: &str) {
        for (local, how) in ranks.split(' ').enumerate() {
            let mut command = self.fabric.command_of(&RANK, how);
            command
                .env("LD_LIBRARY_PATH", &*SOFTWARE_NIC)
                .env("OMPI_COMM_WORLD_RANK", (40 + self.ranks.len()).to_string())
                .env("OMPI_COMM_WORLD_SIZE", "128")
                .env("OMPI_COMM_WORLD_LOCAL_RANK", local.to_string())
                .env("OMPI_COMM_WORLD_LOCAL_SIZE", size.to_string())
                .stdin(Stdio::piped());
            let mut process = self.in_job(&mut command).spawn().expect("the rank starts");
            let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
            let mut line = String::new();
            lines.read_line(&mut line).expect("a line");
            assert_eq!(line, "ready\n");
            self.ranks.push((process, lines));
        }
    }

    /// Makes a process one of this job and of its software NICs.
    fn in_job<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let id = self.fabric.path().display().to_string();
        if let Some(user) = self.user {
            command.user(user, user);
        }
        command.env("PBS_JOBID", id).env("CXIDIAG_FAULTS", self.faults)
    }

    fn why_command(&self, options: &[&str]) -> Command {
        let mut command = self.fabric.command(&["why", "--interval=200ms"]);
        command.args(options);
        if !options.iter().any(|option| option.starts_with("--job")) {
            command.arg("--job");
        }
        self.in_job(&mut command);
        command
    }

    fn why(&self, options: &[&str]) -> Output {
        let output = finish_in(&mut self.why_command(options));
        assert_eq!(stderr(&output), "");
        output
    }

    /// Asserts the exit status, the beginning of the first line and words of the text, which has
    /// at most 16 lines. `PID2` stands for the process of the third rank.
    #[track_caller]
    fn assert_verdict(&self, options: &[&str], (status, first, words): (i32, &str, &[&str])) {
        let output = self.why(options);
        let text = stdout(&output);
        let named = |words: &str| {
            let pids = (0..self.ranks.len()).map(|local| (format!("PID{local}"), self.pid(local)));
            pids.fold(words.to_owned(), |words, (name, pid)| words.replace(&name, &pid))
        };
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.starts_with(&named(first)), "{}: {text}", named(first));
        for word in words.iter().map(|word| named(word)) {
            assert!(text.contains(&word), "{word}: {text}");
        }
        assert!(text.lines().count() <= 16, "{text}");
    }

    /// The process of a rank of this node, if it has so many.
    fn pid(&self, local: usize) -> String {
        self.ranks.get(local).map_or(String::new(), |(process, _)| process.id().to_string())
    }

    /// The process that traces a rank.
    fn tracer(&self, local: usize) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid(local)));
        let status = status.expect("the rank lives");
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        line.expect("a line of Linux").trim().to_owned()
    }

    /// A search path on which `eu-stack` is the tool that does not end as it should.
    fn tool_path(&self) -> String {
        let directory = self.fabric.path().parent().expect("a directory").join("tools");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::os::unix::fs::symlink(&*TOOL, directory.join("eu-stack")).expect("a link");
        directory.display().to_string()
    }

    /// Lets the ranks go on: each checks its NIC.
    #[track_caller]
    fn assert_unharmed(self) {
        for (process, mut lines) in self.ranks {
            process.signal("USR1");
            let mut line = String::new();
            lines.read_line(&mut line).expect("a line");
            assert_eq!(line, "unharmed\n");
            assert_success(&process.finish());
        }
    }
}

fn finish_in(command: &mut Command) -> Output {
    command.output().expect("cxidiag starts")
}

#[test]
fn ranks_that_go_from_call_to_call_are_not_called_hung() {
    if !*HAS_STACKS {
        return;
    }
    let job = Job::start(2, "moves MPI_Barrier/wait", "");
    loop {
        let output = job.why(STACKS);
        let text = stdout(&output);
        assert_ne!(output.status.code(), Some(3), "{text}");
        if text.starts_with("moving: rank 40 (pid") {
            assert!(text.contains("rank 41 (pid"), "{text}");
            break;
        }
    }
    job.assert_unharmed();
}

#[test]
fn names_a_rank_that_has_ended() {
    let mut job = Job::start(3, "nobody wait wait", "");
    let pid = job.pid(2);
    job.ranks[2].0.kill();
    // The zombie has a number in the first line only if no process of another test has just ended.
    let words: &[&str] = &[" has ended; the others wait for it\n"];
    job.assert_verdict(NO_STACKS, (3, "hung: because rank 42 ", words));
    let named = job.why(&[NO_STACKS[0], &format!("--job={},{pid}", job.pid(0)), "-q"]);
    assert_eq!(
        stdout(&named),
        format!("hung: because process {pid} has ended; the others wait for it\n")
    );
    job.ranks[2].0.wait();
    job.ranks.truncate(2);
    let proof = "has started 3 ranks on this node; local rank 2 has no process";
    job.assert_verdict(NO_STACKS, (3, "hung: because rank 42 has ended", &[proof]));
    job.assert_unharmed();
}

#[test]
fn a_job_that_moves_is_not_called_hung() {
    let fabric = Fabric::new();
    let server = fabric.server("write-bw", "-d soft0");
    let mut client = fabric.client_command("write-bw", &server, "-d soft1 -D 60");
    let client = client.spawn().expect("cxidiag starts");
    // The ranks are named: other tests have jobs, too.
    let pids = format!("--job={},{}", server.id(), client.id());
    let motion = loop {
        let words = ["why", &pids, "--interval=200ms", "--no-stacks", "--json"];
        let output = finish(fabric.command(&words));
        let document = document(&output);
        assert_ne!(document["exit_status"], 3, "{document:#}");
        let nics = document["node"]["nics"].as_array().expect("NICs").clone();
        let found = nics.iter().find(|nic| nic["device"] == "soft1" && nic["motion"] != "silent");
        if let Some(nic) = found {
            break nic["motion"].clone();
        }
    };
    assert!(["busy", "trickle"].map(Value::from).contains(&motion), "{motion}");
}

#[track_caller]
fn document(output: &Output) -> Value {
    schema::document(include_str!("../../docs/hang.schema.json"), &stdout(output))
}

#[test]
fn document_has_what_the_text_says() {
    let job = Job::start(2, "wait pause", "");
    let output = job.why(&["--json", STACKS[0]]);
    let document = document(&output);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(document["exit_status"], 4);
    assert_eq!(document["node"]["job"], format!("Open MPI job {}", job.fabric.path().display()));
    assert_eq!(
        (&document["node"]["size"], &document["node"]["ended"]),
        (&128.into(), &Value::Array(vec![]))
    );
    let ranks = document["node"]["ranks"].as_array().expect("ranks");
    let field = |name: &str| ranks.iter().map(|rank| rank[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("rank"), [40, 41]);
    assert_eq!(field("activity"), ["descriptors", "signal"]);
    if *HAS_STACKS {
        assert_eq!(ranks[0]["call"]["caller"], "hang");
        assert_eq!(ranks[0]["call"]["stays"], true);
    }
    assert_eq!(ranks[0]["holdings"]["nics"][0], "soft0");
    let text = stdout(&job.why(STACKS));
    assert_eq!(document["summary"], text.lines().next().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let ticket = directory.path().join("ticket.md");
    job.why(&["-q", &format!("--ticket={}", ticket.display())]);
    assert!(std::fs::read_to_string(ticket).unwrap().starts_with("# undecided: "));
    job.assert_unharmed();
}

#[test]
fn refuses_what_is_no_job() {
    let fabric = Fabric::new();
    let mut command = fabric.command("why --job --interval=10ms");
    let output = finish_in(command.env("CXIDIAG_ROOT", fabric.path()));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no process of yours on this node has a NIC open"));
    for (arguments, refused) in [
        ("why --no-stacks", "--no-stacks needs --job"),
        ("why --stack-time=5s", "--stack-time needs --job"),
        ("why --job --stack-time=1ms", "invalid value '1ms' for --stack-time"),
        (
            "why --job --no-stacks --stack-time=5s",
            "--no-stacks and --stack-time exclude each other",
        ),
    ] {
        let output = fabric.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(refused), "{}", stderr(&output));
    }
    let output = fabric.run("why --job soft0");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("leave out soft0"), "{}", stderr(&output));
}
