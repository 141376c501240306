//! Stacks of ranks: stopped and traced ones, tools that end badly, and ranks of Open MPI.

use super::*;

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
