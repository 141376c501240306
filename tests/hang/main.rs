//! `cxidiag why --job`: planted hangs on software NICs. The ranks are `tests/libcxi/hang.c`, and
//! check afterwards that their NIC still works.

#[path = "../harness/mod.rs"]
mod harness;
mod nodes;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use harness::c_program::{SOURCES, compile};
use harness::{
    Command, Fabric, Pipe, Process, SOFTWARE_NIC, assert_success, finish, schema, stderr, stdout,
};

static RANK: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hang");
    std::fs::create_dir_all(&directory).expect("a directory");
    // A program that another run of these tests executes cannot be written, but replaced.
    let new = format!("hang.{}", std::process::id());
    compile(&directory, &Path::new(SOURCES).join("hang"), &new, &[]);
    std::fs::rename(directory.join(new), directory.join("hang")).expect("one file system");
    directory.join("hang")
});

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

    fn why(&self, options: &[&str]) -> Output {
        let mut command = self.fabric.command(&["why", "--interval=200ms"]);
        command.args(options);
        if !options.iter().any(|option| option.starts_with("--job")) {
            command.arg("--job");
        }
        let output = finish_in(self.in_job(&mut command));
        assert_eq!(stderr(&output), "");
        output
    }

    /// Asserts the exit status, the beginning of the first line and words of the text, which has
    /// at most 16 lines.
    #[track_caller]
    fn assert_verdict(&self, status: i32, first: &str, words: &[&str]) {
        let output = self.why(&[]);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(text.starts_with(&first.replace("PID", &self.pid(2))), "{text}");
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().count() <= 16, "{text}");
    }

    /// Returns the process of a rank of this node, if it has so many.
    fn pid(&self, local: usize) -> String {
        self.ranks.get(local).map_or(String::new(), |(process, _)| process.id().to_string())
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
fn names_the_rank_that_waits_for_something_else() {
    for (how, does) in [
        ("pause", "waiting for a signal"),
        ("pipe", "waiting for a pipe"),
        ("sleep", "sleeping for a time"),
    ] {
        let job = Job::start(4, &format!("wait wait {how} wait"), "");
        let first = "hung: probably 3 ranks wait for rank 42 (pid PID), which neither";
        let odd = format!("rank 42 (pid {}): {does} (stands out)", job.pid(2));
        let others = "3 ranks          : ranks 40-41,43: sleeping until a descriptor is ready";
        job.assert_verdict(3, first, &[&odd, others, "soft0 silent, nothing outstanding"]);
        job.assert_unharmed();
    }
}

#[test]
fn names_a_stopped_rank() {
    let job = Job::start(4, "wait wait wait wait", "");
    job.ranks[2].0.signal("STOP");
    let first = "hung: because rank 42 (pid PID) is stopped by a signal\n";
    job.assert_verdict(3, first, &["next             : kill -CONT "]);
    job.ranks[2].0.signal("CONT");
    job.assert_unharmed();
}

#[test]
fn names_a_rank_that_has_ended() {
    let mut job = Job::start(3, "wait wait wait", "");
    let pid = job.pid(2);
    job.ranks[2].0.kill();
    // The zombie has a number in the first line only if no process of another test has just ended.
    job.assert_verdict(3, "hung: because rank 42 ", &[" has ended; the others wait for it\n"]);
    let named = job.why(&[&format!("--job={},{pid}", job.pid(0)), "-q"]);
    assert_eq!(
        stdout(&named),
        format!("hung: because process {pid} has ended; the others wait for it\n")
    );
    job.ranks[2].0.wait();
    job.ranks.truncate(2);
    let proof = "has started 3 ranks on this node; local rank 2 has no process";
    job.assert_verdict(3, "hung: because rank 42 has ended", &[proof]);
    job.assert_unharmed();
}

#[test]
fn ranks_that_all_wait_are_undecided() {
    for how in ["wait", "sleep"] {
        let job = Job::start(3, &[how; 3].join(" "), "");
        let first = "undecided: 3 ranks sleeping";
        let words =
            ["no packet is lost here", "cxidiag why --job on the other nodes", "3 of 128 ranks"];
        job.assert_verdict(4, first, &words);
        job.assert_unharmed();
    }
    let job = Job::start(2, "pipe pipe", "");
    job.assert_verdict(4, "undecided: 2 ranks waiting for a pipe\n", &["eu-stack"]);
    job.assert_unharmed();
}

#[test]
fn names_a_link_that_is_down() {
    let job = Job::start(2, "wait wait", "down=1ms");
    job.assert_verdict(
        3,
        "hung: because soft0 has no link\n",
        &["next             : cxidiag link -d soft0"],
    );
}

#[test]
fn names_lost_packets_and_a_missing_retry_handler() {
    let job = Job::start(2, "nobody wait", "loss=1");
    job.assert_verdict(
        3,
        "hung: probably packets of soft0 get no answer",
        &["retry_handler/spt_timeouts +"],
    );
    let job = Job::start(2, "wait wait", "retry-handler=off");
    let first = "undecided: possibly soft0 has no retry handler, but nothing is outstanding now\n";
    job.assert_verdict(4, first, &["that this explains the hang"]);
    job.assert_unharmed();
}

#[test]
fn names_messages_for_a_process_that_has_ended() {
    let job = Job::start(2, "nobody wait", "");
    let first = "undecided: possibly messages reach soft0 for a process that has ended\n";
    job.assert_verdict(4, first, &["soft0 rmu_ptl_no_ptlte_cntr +", "soft0 few packets"]);
    job.assert_unharmed();
}

#[test]
fn names_an_event_queue_that_nobody_reads() {
    let job = Job::start(2, "events wait", "");
    let first =
        "hung: probably an event queue on soft0 loses events: its process waits for them forever\n";
    job.assert_verdict(3, first, &["soft0 ee_events_dropped_ordinary_cntr +"]);
    job.assert_unharmed();
}

#[test]
fn names_the_limit_of_a_service() {
    // Two transmit queues and two target queues, of which each rank has one.
    const TWO: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                       2047 0 2 0 512 0 2047 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";
    let fabric = Fabric::new();
    fabric.write_services(0x12, TWO);
    let job = Job::start_on(fabric, 2, "wait wait", "");
    let first = "undecided: possibly the limit of TXQ of service 1 is reached on soft0\n";
    job.assert_verdict(4, first, &["2 of 2 TXQ are in use", "service 1 uses 2 of 2 TXQ"]);
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
        let output = finish(fabric.command(&["why", &pids, "--interval=200ms", "--json"]));
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
    let output = job.why(&["--json"]);
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
    assert_eq!(ranks[0]["holdings"]["nics"][0], "soft0");
    let text = stdout(&job.why(&[]));
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
    let output = fabric.run("why --job soft0");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("leave out soft0"), "{}", stderr(&output));
}
