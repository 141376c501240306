//! `cxidiag why --job`: planted hangs on software NICs. The ranks are `tests/libcxi/hang.c`, and
//! check afterwards that their NIC still works.

#[path = "../harness/mod.rs"]
mod harness;
mod nodes;

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

    /// Returns the process of a rank of this node, if it has so many.
    fn pid(&self, local: usize) -> String {
        self.ranks.get(local).map_or(String::new(), |(process, _)| process.id().to_string())
    }

    /// Returns the process that traces a rank.
    fn tracer(&self, local: usize) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid(local)));
        let status = status.expect("the rank lives");
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        line.expect("a line of Linux").trim().to_owned()
    }

    /// Returns a search path on which `eu-stack` is the tool that does not end as it should.
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

/// A job that is planted, with its verdict: exit status, beginning of the first line, and words of
/// the text.
struct Planted {
    ranks: &'static str,
    verdict: (i32, &'static str, &'static [&'static str]),
    faults: &'static str,
    services: Option<&'static str>,
    needs_stacks: bool,
    /// Whether the ranks check their NIC afterwards.
    can_go_on: bool,
}

impl Planted {
    /// Plants the job, and asserts what is said of it and that its ranks are unharmed.
    fn check(&self) {
        if self.needs_stacks && !*HAS_STACKS {
            return;
        }
        let fabric = Fabric::new();
        if let Some(services) = self.services {
            fabric.write_services(0x12, services);
        }
        let job = Job::start_on(fabric, self.ranks.split(' ').count(), self.ranks, self.faults);
        let options = if self.needs_stacks { STACKS } else { NO_STACKS };
        job.assert_verdict(options, self.verdict);
        if self.can_go_on {
            job.assert_unharmed();
        }
    }
}

/// Checks planted jobs, several at a time.
fn check_all(planted: &[Planted]) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(planted) = planted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    planted.check();
                }
            });
        }
    });
}

const fn planted(
    ranks: &'static str,
    status: i32,
    first: &'static str,
    words: &'static [&'static str],
) -> Planted {
    let verdict = (status, first, words);
    Planted { ranks, verdict, faults: "", services: None, needs_stacks: false, can_go_on: true }
}

/// With these functions of ranks, which a stack tool reads.
const fn called(
    ranks: &'static str,
    status: i32,
    first: &'static str,
    words: &'static [&'static str],
) -> Planted {
    Planted { needs_stacks: true, ..planted(ranks, status, first, words) }
}

/// Two transmit queues and two target queues, of which each rank has one.
const TWO_QUEUES: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                          2047 0 2 0 512 0 2047 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";

/// Four event queues, of which each rank has two.
const FOUR_EVENT_QUEUES: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                                 2047 0 512 0 512 0 4 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";

const QUIET: &str = "soft0 silent, nothing outstanding";

#[test]
fn names_the_rank_that_waits_for_something_else() {
    const FIRST: &str = "hung: probably 3 ranks wait for rank 42 (pid PID2), which neither computes \
                         nor polls: it is ";
    const OTHERS: &str = "3 ranks          : ranks 40-41,43: sleeping until a descriptor is ready";
    check_all(&[
        planted(
            "wait wait pause wait",
            3,
            FIRST,
            &["1 rank           : rank 42 (pid PID2): waiting for a signal", OTHERS, QUIET],
        ),
        planted("wait wait pipe wait", 3, FIRST, &["PID2): waiting for a pipe", OTHERS]),
        planted("wait wait sleep wait", 3, FIRST, &["PID2): sleeping for a time", OTHERS]),
        planted("wait wait socket wait", 3, FIRST, &["PID2): waiting for a socket", OTHERS]),
        planted("wait wait child wait", 3, FIRST, &["PID2): waiting for a child process", OTHERS]),
        planted("wait wait file-lock wait", 3, FIRST, &["waiting for the lock of a file", OTHERS]),
        called(
            "PMPI_Recv/wait PMPI_Recv/wait solve/pause",
            3,
            "hung: probably 2 ranks wait for rank 42 (pid PID2), which neither",
            &["it is waiting for a signal, in its function hang", "in MPI_Recv, called by main"],
        ),
        called(
            "MPI_Barrier/yield MPI_Barrier/yield solve/pause",
            3,
            "hung: probably 2 ranks wait for rank 42 (pid PID2), which neither",
            &[
                "ranks 40-41: in MPI_Barrier, called by main",
                "do not conclude  : a fault of the network",
            ],
        ),
    ]);
}

#[test]
fn names_no_rank_without_a_proof() {
    const OTHERS: &str = "cxidiag why --job on the other nodes";
    check_all(&[
        planted(
            "wait wait wait",
            4,
            "undecided: 3 ranks sleeping until",
            &["no packet is lost here", OTHERS],
        ),
        planted(
            "sleep sleep sleep",
            4,
            "undecided: 3 ranks sleeping for",
            &["3 of 128 ranks", OTHERS],
        ),
        planted("pipe pipe", 4, "undecided: 2 ranks waiting for a pipe", &[QUIET]),
        planted("socket socket", 4, "undecided: 2 ranks waiting for a socket", &[QUIET]),
        // A rank that runs may wait or compute.
        planted("wait yield wait", 4, "undecided: 1 rank ", &["rank 41 (pid PID1): "]),
        planted("counter wait", 4, "undecided: 1 rank ", &[QUIET]),
        planted("receive wait", 4, "undecided: 1 rank ", &[QUIET]),
        planted("unposted wait", 4, "undecided: ", &["soft0 few packets"]),
        planted("slow wait", 4, "undecided: ", &["soft0 few packets"]),
        called(
            "wait kernel wait",
            4,
            "undecided: possibly rank 41 (pid PID1) does not come back from the kernel\n",
            &["(a thread is in the kernel); the administrator can: cat /proc/PID1/task/*/stack"],
        ),
        called(
            "MPI_Allreduce/wait MPI_Allreduce/yield",
            4,
            "undecided: 2 ranks in MPI_Allreduce, called by main, and nothing is outstanding",
            &["they wait for others", "that this node is healthy, so the network is bad"],
        ),
        called(
            "MPI_Barrier/wait MPI_Barrier/wait solve/yield",
            4,
            "undecided: possibly 2 ranks wait for rank 42 (pid PID2), which is in functions of the program",
            &["a hang: this rank may have more work"],
        ),
        called(
            "MPI_Init/wait MPI_Init/wait",
            4,
            "undecided: possibly ranks 40-41 are still in MPI_Init",
            &["ranks that are missing"],
        ),
        called(
            "MPI_Finalize/wait MPI_Finalize/wait PMPI_Recv/wait",
            4,
            "undecided: possibly ranks 40-41 are in MPI_Finalize, and rank 42 (pid PID2) is in MPI_Recv",
            &["some ranks may be done earlier"],
        ),
    ]);
}

#[test]
fn names_ranks_in_different_calls() {
    const FIRST: &str = "hung: probably ranks are in different calls: rank 42 (pid PID2) in ";
    const OTHERS: &str = "2 ranks          : ranks 40-41: in MPI_Allreduce, called by main";
    check_all(&[
        called(
            "MPI_Allreduce/wait MPI_Allreduce/cxip_evtq_progress/yield MPI_Send/wait",
            3,
            FIRST,
            &["PID2): in MPI_Send, called by main (stands out)", OTHERS],
        ),
        called(
            "MPI_Allreduce/wait MPI_Allreduce/wait MPI_Barrier/wait",
            3,
            FIRST,
            &["PID2) in MPI_Barrier, called by main; 2 ranks in MPI_Allreduce", QUIET],
        ),
        // The memory of the node may have their messages.
        called(
            "MPI_Barrier/wait PMPI_Recv/wait",
            4,
            "undecided: possibly ranks are in different calls: ",
            &["rank 41 (pid PID1) in MPI_Recv"],
        ),
    ]);
}

#[test]
fn names_what_calls_wait_for() {
    check_all(&[
        called(
            "MPI_Send/cxip_tsend/yield MPI_Send/MPIDI_OFI_retry_progress/cxip_evtq_progress/wait",
            3,
            "hung: probably none of 2 ranks can send",
            &["in the loop that repeats a send, at both readings"],
        ),
        called(
            "PMPI_Recv/cxip_evtq_progress/wait MPI_Send/cxip_tsend/wait",
            4,
            "undecided: possibly rank 41 (pid PID1) is not able to send",
            &["service 1 uses 2 of 512"],
        ),
        called(
            "cudaStreamSynchronize/wait cudaStreamSynchronize/wait solve/wait",
            4,
            "undecided: possibly 2 ranks wait for their GPUs, and rank 42 (pid PID2) does not",
            &["py-spy dump --pid PID2"],
        ),
        called(
            "cudaStreamSynchronize/yield cudaStreamSynchronize/wait",
            4,
            "undecided: possibly 2 ranks wait for their GPUs\n",
            &["that a silent NIC has a fault"],
        ),
        called(
            "cxip_mr_wait_append/yield wait",
            3,
            "hung: probably the NIC does not execute a command of rank 40 (pid PID0)\n",
            &["(cxip_mr_wait_append)"],
        ),
        called(
            "PMPI_Recv/cxip_recv_reenable/wait wait",
            4,
            "undecided: possibly rank 40 (pid PID0) is in flow control",
            &["that flow control by itself is an error"],
        ),
        called(
            "locked PMPI_Recv/wait",
            4,
            "undecided: possibly threads of rank 40 (pid PID0) block each other",
            &["a thread waits for a lock in a call of MPI"],
        ),
    ]);
}

#[test]
fn names_what_nics_show() {
    let lossy = |faults, job| Planted { faults, ..job };
    let broken = |faults, job| Planted { faults, can_go_on: false, ..job };
    let limited = |services, job| Planted { services: Some(services), ..job };
    check_all(&[
        broken(
            "down=1ms",
            planted(
                "wait wait",
                3,
                "hung: because soft0 has no link\n",
                &["next             : cxidiag link -d soft0"],
            ),
        ),
        broken(
            "loss=1",
            planted(
                "nobody wait",
                3,
                "hung: probably packets of soft0 get no answer",
                &["retry_handler/spt_timeouts +"],
            ),
        ),
        // A link that loses packets, all of which get through.
        lossy(
            "loss=0.2",
            planted(
                "slow wait",
                4,
                "undecided: possibly packets of soft0 get no answer",
                &["a deadlock of the program"],
            ),
        ),
        lossy(
            "retry-handler=off",
            planted(
                "wait wait",
                4,
                "undecided: possibly soft0 has no retry handler, but nothing is outstanding now\n",
                &["that this explains the hang"],
            ),
        ),
        planted(
            "nobody wait",
            4,
            "undecided: possibly messages reach soft0 for a process that has ended\n",
            &["soft0 rmu_ptl_no_ptlte_cntr +", "soft0 few packets"],
        ),
        planted(
            "events wait",
            3,
            "hung: probably an event queue on soft0 loses events: its process waits for them forever\n",
            &["soft0 ee_events_dropped_ordinary_cntr +"],
        ),
        planted(
            "entries wait",
            3,
            "hung: probably a receiver on soft0 is in flow control",
            &["soft0 lpe_err_no_space_append +"],
        ),
        limited(
            TWO_QUEUES,
            planted(
                "wait wait",
                4,
                "undecided: possibly the limit of TXQ of service 1 is reached on soft0\n",
                &["2 of 2 TXQ are in use", "service 1 uses 2 of 2 TXQ"],
            ),
        ),
        limited(
            FOUR_EVENT_QUEUES,
            planted(
                "wait wait",
                4,
                "undecided: possibly the limit of EQ of service 1 is reached on soft0\n",
                &["4 of 4 EQ are in use"],
            ),
        ),
    ]);
}

#[test]
fn names_stopped_and_traced_ranks() {
    let job = Job::start(4, "wait wait wait wait", "");
    job.ranks[2].0.signal("STOP");
    let next = "next             : kill -CONT PID2";
    job.assert_verdict(
        NO_STACKS,
        (3, "hung: because rank 42 (pid PID2) is stopped by a signal\n", &[next]),
    );
    job.ranks[1].0.signal("STOP");
    let also = "also             : because rank 42 (pid PID2) is stopped by a signal";
    job.assert_verdict(&[], (3, "hung: because rank 41 (pid PID1) is stopped", &[also]));
    job.ranks[1].0.signal("CONT");
    job.ranks[2].0.signal("CONT");
    let mut debugger = Command::new(&*TOOL);
    debugger.env("HOLD", "holds").args(["-p", &job.pid(3)]).stdout(Stdio::piped());
    let mut debugger = debugger.spawn().expect("the debugger starts");
    let mut line = String::new();
    let mut lines = BufReader::new(debugger.stdout.take().expect("a pipe"));
    lines.read_line(&mut line).expect("a line");
    let first = format!("hung: because rank 43 (pid PID3) is held by process {}\n", debugger.id());
    job.assert_verdict(&[], (3, &first, &["detach the debugger"]));
    debugger.kill();
    debugger.wait();
    // It depends on the kernel whether the rank is stopped now.
    job.ranks[3].0.signal("CONT");
    job.assert_unharmed();
}

#[test]
fn ranks_go_on_after_a_stack_tool_that_was_killed() {
    for (how, why) in [
        ("killed", "(eu-stack: no stack in its output)"),
        ("dies", "(eu-stack: no stack in its output)"),
        ("exits", "(eu-stack: no stack in its output)"),
        ("holds", "(eu-stack did not end in 2.0 s)"),
    ] {
        let job = Job::start(2, "wait wait", "");
        let mut command = job.why_command(&[]);
        let path = job.tool_path();
        let output = finish_in(command.env("HOLD", how).env("PATH", path));
        let text = stdout(&output);
        assert!(text.starts_with("undecided: 2 ranks sleeping until"), "{how}: {text}");
        assert!(text.contains(why), "{how}: {text}");
        assert!(how != "holds" || text.contains("(no time was left)"), "{text}");
        for local in 0..2 {
            assert_eq!(job.tracer(local), "0", "{how}");
        }
        job.assert_unharmed();
    }
}

#[test]
fn stack_tool_lets_ranks_go_on_if_the_command_is_killed() {
    let job = Job::start(1, "wait", "");
    let directory = job.fabric.path().parent().expect("a directory").join("files");
    std::fs::create_dir_all(&directory).expect("a directory");
    let mut command = job.why_command(&[]);
    command.env("HOLD", "waits").env("PATH", job.tool_path()).current_dir(&directory);
    let mut command = command.stdout(Stdio::null()).spawn().expect("cxidiag starts");
    wait_until(|| directory.join("held").exists());
    command.kill();
    command.wait();
    assert_ne!(job.tracer(0), "0");
    std::fs::write(directory.join("go"), "").expect("a file");
    wait_until(|| job.tracer(0) == "0");
    let first = "undecided: 1 rank sleeping until a descriptor is ready";
    job.assert_verdict(&["--no-stacks"], (4, first, &["--no-stacks"]));
    job.assert_unharmed();
}

#[test]
fn stacks_end_with_a_tool_that_is_late() {
    let job = Job::start(3, "wait wait wait", "");
    let mut command = job.why_command(&["--json", "--stack-time=3s"]);
    command.env("HOLD", "holds").env("HOLD_PID", job.pid(1)).env("PATH", job.tool_path());
    let document = document(&finish_in(&mut command));
    let ranks = document["node"]["ranks"].as_array().expect("ranks");
    let stays: Vec<Option<&Value>> =
        ranks.iter().map(|rank| rank["call"].as_object().map(|call| &call["stays"])).collect();
    // The first one has been read once, and the last one never.
    assert_eq!(stays, [Some(&Value::Null), None, None], "{document:#}");
    job.assert_unharmed();
}

/// Waits for something that another process does. The time limits of processes end it.
fn wait_until(happened: impl Fn() -> bool) {
    while !happened() {
        thread::sleep(Duration::from_millis(1));
    }
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

/// A job of Open MPI, whose ranks have a software NIC open. Their messages pass the memory of the
/// node: Debian's Open MPI has no provider for this NIC.
#[test]
fn ranks_of_open_mpi_are_judged_by_their_calls() {
    let library = Command::new("cc").arg("-print-file-name=libmpi.so.40").output();
    let library = library.expect("the compiler starts");
    if !are_installed(&["mpirun.openmpi"]) || !*HAS_STACKS || !stdout(&library).contains('/') {
        return;
    }
    // The programs for libcxi have a function `send`, which would stand in for the C library's.
    let options = ["-Dsend=send_to_nic", "-Wl,--no-as-needed", "-l:libmpi.so.40"];
    let program = compiled("hang/mpi", &options);
    for (how, status, first, words) in [
        (
            "receive",
            4,
            "undecided: possibly ranks are in different calls: rank 1 (pid PID1) in MPI_Recv, called \
             by main; 2 ranks in MPI_Barrier",
            "ranks 0,2: in MPI_Barrier",
        ),
        (
            "mismatch",
            4,
            "undecided: possibly ranks are in different calls: rank 2 (pid PID2) in MPI_Allreduce",
            "ranks 0-1: in MPI_Barrier",
        ),
        (
            "solve",
            4,
            "undecided: possibly 2 ranks wait for rank 1 (pid PID1), which is in functions of the \
             program (solve)",
            "ranks 0,2: in MPI_Barrier",
        ),
        ("solve", 3, "hung: because rank 1 (pid PID1) is stopped by a signal", "kill -CONT PID1"),
    ] {
        let fabric = Fabric::new();
        let job = Job { fabric, faults: "", user: None, ranks: Vec::new() };
        let mut launcher = outside_of_jobs("mpirun.openmpi");
        launcher
            .args("--allow-run-as-root --oversubscribe --mca btl self,vader -np 3".split(' '))
            .arg(&program)
            .arg(how)
            .env("CXIDIAG_FABRIC_DIR", job.fabric.path())
            .env("LD_LIBRARY_PATH", &*SOFTWARE_NIC)
            .stdout(Stdio::piped());
        let mut launcher = job.in_job(&mut launcher).spawn().expect("the launcher starts");
        let lines = BufReader::new(launcher.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map(|line| line.expect("a line"));
        let mut pids = BTreeMap::new();
        while pids.len() < 3 {
            let line = lines.next().expect("all ranks are ready");
            let mut words = line.strip_prefix("ready ").expect("ready").split(' ');
            pids.insert(words.next().expect("a rank").to_owned(), words.next().unwrap().to_owned());
        }
        let signal = |name: &str, pid: &String| {
            let status = Command::new("kill").args([&format!("-{name}"), pid]).status();
            assert!(status.expect("kill starts").success());
        };
        if status == 3 {
            signal("STOP", &pids["1"]);
        }
        let named = |text: &str| {
            pids.iter()
                .fold(text.to_owned(), |text, (rank, pid)| text.replace(&format!("PID{rank}"), pid))
        };
        let words = [&*named(words), "3 of 3 ranks"];
        job.assert_verdict(STACKS, (status, &named(first), &words));
        if status == 3 {
            signal("CONT", &pids["1"]);
        }
        pids.values().for_each(|pid| signal("USR1", pid));
        assert_eq!(lines.by_ref().filter(|line| line == "unharmed").count(), 3);
        assert!(launcher.wait().success());
    }
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
