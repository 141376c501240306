//! Jobs of several nodes: the tasks of a launcher, servers of the same user, and documents. A node
//! is a directory whose `proc` has some of the processes of this machine.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use super::{Job, document};
use crate::harness::{
    Command, Fabric, Process, Server, assert_status, assert_success, finish,
    is_open_to_other_users, stderr, stdout,
};

/// A job on nodes, each with a directory of its processes.
struct Nodes {
    job: Job,
    ranks: Vec<Range<usize>>,
    directory: TempDir,
}

impl Nodes {
    /// Starts a rank for each word, which says how it hangs, on a node for each text.
    fn start(nodes: &[&str]) -> Self {
        Self::start_as(None, nodes)
    }

    /// Starts the ranks as this user.
    fn start_as(user: Option<u32>, nodes: &[&str]) -> Self {
        let (fabric, directory) = (Fabric::new(), tempfile::tempdir().expect("a directory"));
        let fabric_directory = fabric.path().parent().expect("a directory").to_owned();
        for path in [directory.path(), &fabric_directory] {
            if user.is_some() {
                std::os::unix::fs::chown(path, user, user).expect("root may do this");
            }
        }
        let mut job = Job { fabric, faults: "", user, ranks: Vec::new() };
        let mut ranks = Vec::new();
        for node in nodes {
            let first = job.ranks.len();
            job.start_ranks(node.split(' ').count(), node);
            ranks.push(first..job.ranks.len());
        }
        let nodes = Self { job, ranks, directory };
        for (node, ranks) in nodes.ranks.iter().enumerate() {
            let pids = ranks.clone().map(|rank| nodes.job.pid(rank));
            nodes.add(node, &pids.collect::<Vec<_>>());
        }
        nodes
    }

    /// The directory of a node.
    fn root(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("node{node}"))
    }

    /// Shows processes on a node.
    fn add(&self, node: usize, pids: &[String]) {
        let proc = self.root(node).join("proc");
        fs::create_dir_all(&proc).expect("a directory");
        for pid in pids {
            symlink(Path::new("/proc").join(pid), proc.join(pid)).expect("a link");
        }
    }

    fn command(&self, node: usize, arguments: &str) -> Command {
        let mut command = self.job.fabric.command(arguments);
        self.job.in_job(&mut command);
        command.env("CXIDIAG_ROOT", self.root(node)).current_dir(self.directory.path());
        command
    }

    /// Starts a task of Hydra on each of `count` nodes, and a second one on the first node, which
    /// sees no process; returns what they print.
    fn tasks(&self, count: usize, more: &str) -> Vec<Output> {
        let start = |rank: usize| {
            let is_second = rank == count;
            let arguments = format!("why --job --interval=200ms {more}");
            let mut task = self.command(if is_second { 99 } else { rank }, &arguments);
            task.env("PMI_RANK", rank.to_string())
                .env("PMI_SIZE", (count + 1).to_string())
                .env("MPI_LOCALRANKID", u32::from(is_second).to_string())
                .env("PMI_HOSTNAME", format!("nid{:04}", rank % count));
            task.spawn().expect("cxidiag starts")
        };
        let tasks: Vec<Process> = (0..=count).map(start).collect();
        tasks.into_iter().map(Process::finish).collect()
    }

    /// Writes the document of each node; returns the paths.
    fn documents(&self) -> Vec<String> {
        let write = |node| {
            let path = self.directory.path().join(format!("{node}.json")).display().to_string();
            let options = "why --job --local --interval=200ms -q --json=";
            finish(self.command(node, &format!("{options}{path}")));
            path
        };
        (0..self.ranks.len()).map(write).collect()
    }

    fn merge(&self, files: &[String]) -> Output {
        self.job.fabric.run(&["why --merge".into(), files.join(" ")].join(" "))
    }
}

/// Returns what the ranks of a document do, and what that says.
fn verdict(document: &Value) -> [Value; 3] {
    let findings = document["findings"].as_array().expect("findings").iter();
    let rows = findings.map(|finding| finding["row"].clone()).collect::<Vec<_>>();
    let groups = document["groups"].as_array().expect("groups").iter();
    let groups = groups.map(|group| group["activity"].clone()).collect::<Vec<_>>();
    [document["exit_status"].clone(), rows.into(), groups.into()]
}

/// The user of jobs whose servers answer, if it is another one: root's do not. `Err` if this user
/// does not reach the programs.
fn ordinary_user() -> Result<Option<u32>, ()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    if is_open_to_other_users() { Ok(Some(65_533)) } else { Err(()) }
}

#[test]
fn tasks_of_a_launcher_name_the_odd_rank_of_another_node() {
    let nodes = Nodes::start(&["wait wait", "wait pause", "wait wait wait"]);
    let mut outputs = nodes.tasks(3, "").into_iter();
    let first = outputs.next().expect("the first task");
    let text = stdout(&first);
    assert_eq!(assert_status(&first, 3), "");
    let odd = format!("rank 43 (nid0001, pid {})", nodes.job.pid(3));
    let start = format!("hung: probably 6 ranks wait for {odd}, which neither computes nor polls");
    assert!(text.starts_with(&start), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1..].iter().any(|line| line.starts_with("node             : 3 nodes, ")),
        "{text}"
    );
    assert!(text.contains(&format!("{odd}: waiting for a signal (stands out)")), "{text}");
    assert!(text.contains("ranks 40-42,44-46: sleeping"), "{text}");
    assert!(!text.contains("without answer"), "{text}");
    for output in outputs {
        assert_success(&output);
        assert_eq!((stdout(&output), stderr(&output)), Default::default());
    }
    nodes.job.assert_unharmed();
}

#[test]
fn tasks_and_documents_have_one_verdict() {
    let nodes = Nodes::start(&["wait wait", "pipe wait"]);
    let outputs = nodes.tasks(2, "--json=found.json -q");
    assert_eq!(assert_status(&outputs[0], 3), "");
    let read = |path: &Path| fs::read_to_string(path).expect("a file");
    let gathered = read(&nodes.directory.path().join("found.json"));
    let gathered: Value = serde_json::from_str(&gathered).expect("JSON");
    assert_eq!(stdout(&outputs[0]).trim_end(), gathered["summary"]);
    let documents = nodes.documents();
    let merged = finish(nodes.command(0, &format!("why --merge {} --json", documents.join(" "))));
    let merged = document(&merged);
    assert_eq!(verdict(&gathered), verdict(&merged));
    assert_eq!(gathered["node"]["without_answer"], Value::Array(Vec::new()));
    // One document twice is one node.
    let twice = [documents[0].clone(), documents[0].clone()];
    let text = stdout(&nodes.merge(&twice));
    assert!(text.contains(": 1 node, ") && text.contains(", 2 of 128 ranks, "), "{text}");
    nodes.job.assert_unharmed();
}

#[test]
fn nodes_without_a_rank_are_named_and_accuse_nobody() {
    let nodes = Nodes::start(&["wait wait"]);
    nodes.add(1, &[]);
    nodes.add(2, &[]);
    let outputs = nodes.tasks(3, "");
    let text = stdout(&outputs[0]);
    assert_eq!(assert_status(&outputs[0], 4), "");
    assert!(text.starts_with("undecided: 2 ranks sleeping until a descriptor"), "{text}");
    assert!(text.contains("node             : 1 of 3 nodes, "), "{text}");
    let missing = "without answer   : nid[0001-0002] (2 nodes): no process of yours on this node";
    assert!(text.contains(missing), "{text}");
    assert!(
        text.contains("next             : read the ranks of the nodes without answer"),
        "{text}"
    );
    for output in &outputs[1..] {
        assert_success(output);
        assert_eq!((stdout(output), stderr(output)), Default::default());
    }
    nodes.job.assert_unharmed();
}

#[test]
fn task_with_local_option_or_processes_looks_at_its_node_alone() {
    let nodes = Nodes::start(&["wait pause", "wait"]);
    for options in ["--job --local".to_owned(), format!("--job={}", nodes.job.pid(0))] {
        let mut task = nodes.command(0, &format!("why {options} --interval=10ms"));
        task.env("PMI_RANK", "1").env("PMI_SIZE", "2").env("MPI_LOCALRANKID", "0");
        let output = finish(task);
        assert_eq!(assert_status(&output, 4), "");
        let count = if options.ends_with("local") { "2 of 128 ranks" } else { "1 of 128 ranks" };
        assert!(stdout(&output).contains(count), "{}", stdout(&output));
    }
}

#[test]
fn documents_of_two_jobs_are_not_merged() {
    let one = Nodes::start(&["wait"]);
    let other = Nodes::start(&["wait"]);
    let files: Vec<String> = [&one, &other].iter().flat_map(|nodes| nodes.documents()).collect();
    let error = assert_status(&one.merge(&files), 1);
    assert!(
        error.contains("several parallel programs of yours run on these nodes: Open MPI job"),
        "{error}"
    );
    let several = one.directory.path().join("several.json").display().to_string();
    let merged = format!("why --merge {} {} --json={several} -q", files[0], files[0]);
    assert_status(&one.job.fabric.run(&merged), 4);
    let error = assert_status(&one.merge(&[several]), 1);
    assert!(error.contains("it has several nodes already"), "{error}");
    fs::write(&files[1], "{}").expect("a file");
    let error = assert_status(&one.merge(&files[1..]), 1);
    assert!(error.contains("no document of why --job"), "{error}");
}

#[test]
fn servers_read_the_ranks_of_their_user() {
    let Ok(user) = ordinary_user() else { return };
    let nodes = Nodes::start_as(user, &["wait wait", "wait pause"]);
    let serve = |node, port: &str| {
        let line = format!("serve -d soft0 --bind=127.0.4.{} --port={port}", node + 1);
        Server::start(nodes.command(node, &line))
    };
    let first = serve(0, "0");
    let mut second = serve(1, &first.port);
    let ask = |options: &str| {
        let line =
            format!("why --job --hosts=127.0.4.[{options} -p {} --interval=200ms", first.port);
        // Not a node of the job.
        finish(nodes.command(7, &line))
    };
    let output = ask("1-2]");
    let text = stdout(&output);
    assert_eq!(assert_status(&output, 3), "");
    let odd = format!("rank 43 (127.0.4.2, pid {})", nodes.job.pid(3));
    assert!(text.starts_with(&format!("hung: probably 3 ranks wait for {odd}, which")), "{text}");
    assert!(text.contains("node             : 2 nodes, Open MPI job"), "{text}");
    second.wait_for(" why on soft0: done");
    // A host that is down accuses nobody.
    let output = ask("1,3] --json");
    let document = document(&output);
    assert_eq!(assert_status(&output, 4), "");
    let missing = &document["node"]["without_answer"][0];
    assert_eq!((&missing["nodes"], &missing["count"]), (&"127.0.4.3".into(), &1.into()));
    let why = missing["why"].as_str().expect("a reason");
    assert!(why.ends_with("(does 'cxidiag serve' run there?)"), "{why}");
    // Two readings of one node at once: the other client comes again.
    let both = [ask("1]"), ask("1]")];
    both.iter().for_each(|output| assert_eq!(assert_status(output, 4), ""));
    nodes.job.assert_unharmed();
}

#[test]
fn server_reads_the_job_of_its_client() {
    let Ok(user) = ordinary_user() else { return };
    let nodes = Nodes::start_as(user, &["wait wait"]);
    let other = Nodes::start_as(user, &["wait"]);
    nodes.add(0, &[other.job.pid(0)]);
    let mut serve = nodes.command(0, "serve -d soft0 --port=0");
    serve.env_remove("PBS_JOBID");
    let server = Server::start(serve);
    let ask = |is_in_job: bool| {
        let line = format!("why --job --hosts=127.0.0.1 -p {} --interval=10ms", server.port);
        let mut command = nodes.command(0, &line);
        if !is_in_job {
            command.env_remove("PBS_JOBID");
        }
        finish(command)
    };
    let output = ask(true);
    assert_eq!(assert_status(&output, 4), "");
    assert!(stdout(&output).contains(", 2 of 128 ranks, "), "{}", stdout(&output));
    let error = assert_status(&ask(false), 1);
    let words = "several parallel programs of yours run on this node: Open MPI job ";
    assert!(error.contains(words), "{error}");
}

#[test]
fn servers_of_others_and_older_servers_say_why_they_read_no_rank() {
    let Ok(user) = ordinary_user() else { return };
    let nodes = Nodes::start_as(user, &["wait"]);
    let ask = |port: &str, user: Option<u32>| {
        let line = format!("why --job --hosts=127.0.0.1 -p {port} --interval=10ms");
        let mut command = nodes.command(0, &line);
        if let Some(user) = user {
            command.user(user, user);
        }
        assert_status(&finish(command), 1)
    };
    let other = Fabric::new();
    let older = other.server("write-lat", "-d soft0 --persist");
    let error = ask(&older.port, user);
    assert!(error.contains("does not know 'why': it is older than this cxidiag, or"), "{error}");
    if user.is_some() {
        let server = Server::start(nodes.command(0, "serve -d soft0 --port=0"));
        let error = ask(&server.port, Some(65_532));
        let words = "this server runs as user 65533, and its client as user 65532: run 'cxidiag";
        assert!(error.contains(words), "{error}");
        let mut command = nodes.command(0, "serve -d soft0 --port=0");
        command.user(0, 0);
        let server = Server::start(command);
        let error = ask(&server.port, user);
        assert!(error.contains("this server runs as root, and reads no ranks: run"), "{error}");
    }
}
