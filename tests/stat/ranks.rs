//! Several processes of one program on this node (monitoring.md 1.6 vectors 2 and 3).

use std::fs;
use std::path::PathBuf;

use crate::harness::{CXIDIAG, Command, Process, assert_status, finish, stderr, stdout};
use crate::{Place, roster_files, slurm_task, wait_for};

/// The variables of rank `rank` of 4, by the launcher.
fn variables(launcher: &str, job: &str, rank: u32) -> Vec<(&'static str, String)> {
    if launcher == "Slurm" {
        return slurm_task(job, rank, 4);
    }
    vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", "4".into()), ("SLURM_JOB_ID", job.into())]
}

/// Starts four ranks. Each runs `command`, a line for a shell.
fn start(place: &Place, launcher: &str, options: &[&str], commands: [&str; 4]) -> Vec<Process> {
    let job = format!("{}{}", std::process::id(), place.path().display());
    let start = |(rank, command): (usize, &str)| {
        let mut stat = place.stat(options, &["sh", "-c", command]);
        stat.envs(variables(launcher, &job, rank as u32));
        stat.spawn().expect("it starts")
    };
    // The last one first: without local ranks, it probably leads.
    let mut processes: Vec<Process> = commands.into_iter().enumerate().rev().map(start).collect();
    processes.reverse();
    processes
}

/// The files of rosters of this test.
fn rosters(place: &Place) -> Vec<PathBuf> {
    let name = place.path().file_name().expect("a name");
    roster_files(&name.to_string_lossy().replace('.', ""))
}

#[test]
fn one_rank_of_a_node_reads_and_the_others_are_the_command() {
    for launcher in ["Slurm", "PMI"] {
        let place = Place::new();
        let processes = start(&place, launcher, &["--linger=60"], ["echo $$"; 4]);
        let ids: Vec<u32> = processes.iter().map(Process::id).collect();
        let outputs: Vec<_> = processes.into_iter().map(Process::finish).collect();
        let are_commands = outputs.iter().zip(&ids).filter(|(output, id)| {
            assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
            stdout(output).trim() == id.to_string()
        });
        assert_eq!(are_commands.count(), 3, "{launcher}");
        let reports: Vec<String> =
            outputs.iter().map(stderr).filter(|text| !text.is_empty()).collect();
        assert_eq!(reports.len(), 1, "{launcher}: {reports:?}");
        assert!(!reports[0].contains("still running"), "{reports:?}");
        assert_eq!(place.left(), [""; 0], "{launcher}");
        assert!(rosters(&place).is_empty(), "{launcher}");
    }
}

#[test]
fn counts_what_ranks_send_that_end_later() {
    let place = Place::new();
    let tool = format!("{CXIDIAG} write-lat --loopback -d soft0 -n 100 > /dev/null");
    // The last rank begins after the others have ended.
    let last = format!("while [ -d \"$PWD\" ] && [ ! -e ended ]; do sleep 0.02; done; {tool}");
    let options = ["--linger=600", "--csv=counters.csv"];
    let processes = start(&place, "Slurm", &options, ["true", "true", "touch ended", &last]);
    for process in processes {
        let output = process.finish();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let sent = place.delta("hni_tx_ok_opt");
    assert!(sent >= 200, "{sent}");
}

#[test]
fn says_how_many_ranks_were_still_running() {
    let place = Place::new();
    let waits =
        "touch \"$SLURM_PROCID\"; while [ -d \"$PWD\" ] && [ ! -e go ]; do sleep 0.02; done";
    let first = "until [ -e 2 ] && [ -e 3 ]; do sleep 0.02; done; exit 9";
    let mut processes = start(&place, "Slurm", &["--linger=0.01"], [first, "true", waits, waits]);
    let leader = processes.remove(0).finish();
    let errors = stderr(&leader);
    assert_eq!(leader.status.code(), Some(9), "{errors}");
    assert!(errors.contains("processes of this node were still running\n"), "{errors}");
    place.write("go", "");
    for process in processes {
        assert_eq!(process.finish().status.code(), Some(0));
    }
}

#[test]
fn killed_leader_leaves_a_file_that_the_next_one_removes() {
    let place = Place::new();
    let waits =
        "touch \"$SLURM_PROCID\"; while [ -d \"$PWD\" ] && [ ! -e go ]; do sleep 0.02; done";
    let mut processes = start(&place, "Slurm", &[], [waits; 4]);
    wait_for("the commands of all ranks", || {
        (0..4).all(|rank| place.path().join(rank.to_string()).exists()).then_some(())
    });
    processes[0].kill();
    place.write("go", "");
    for process in processes {
        let _ = process.finish();
    }
    // Only a file that has not changed for long is left over.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for path in rosters(&place) {
        let file = fs::File::options().append(true).open(path);
        file.and_then(|file| file.set_modified(old)).expect("a file");
    }
    let other = Place::new();
    for process in start(&other, "Slurm", &["--linger=60"], ["true"; 4]) {
        let _ = process.finish();
    }
    assert!(rosters(&place).is_empty() && rosters(&other).is_empty());
}

/// A process that is not started by a launcher waits for no other.
#[test]
fn processes_without_launcher_each_lead() {
    let place = Place::new();
    let start = |_| -> Process {
        let mut stat: Command = place.stat(&[], &["true"]);
        stat.spawn().expect("it starts")
    };
    let processes: Vec<Process> = (0..3).map(start).collect();
    for process in processes {
        let errors = stderr(&process.finish());
        assert!(errors.starts_with("1 node, 1 NIC"), "{errors}");
    }
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn incomplete_launcher_variables_do_not_keep_the_command_from_running() {
    let place = Place::new();
    let mut stat = place.stat(&[], &["sh", "-c", "exit 7"]);
    stat.env("PMIX_RANK", "1");
    let errors = assert_status(&finish(stat), 7);
    let expected = "cxidiag stat: PMIX_RANK is set, but no variable has the number of processes (the \
                    report is of this process alone)\n1 node, 1 NIC";
    assert!(errors.starts_with(expected), "{errors}");
    assert_eq!(place.left(), [""; 0]);
}

/// The other ranks are the command already when the leader opens its files.
#[test]
fn file_that_cannot_be_written_does_not_end_the_leader_of_a_program() {
    let place = Place::new();
    let options = ["--output=/none/x", "--linger=60"];
    let mut processes = start(&place, "Slurm", &options, ["exit 3", "true", "true", "true"]);
    let leader = processes.remove(0).finish();
    let errors = stderr(&leader);
    assert_eq!(leader.status.code(), Some(3), "{errors}");
    assert!(errors.contains("cannot write /none/x"), "{errors}");
    for process in processes {
        assert_eq!(process.finish().status.code(), Some(0));
    }
}

#[test]
fn other_ranks_have_the_descriptors_of_stat_and_one_high_one() {
    let place = Place::new();
    let list = "ls /proc/$$/fd";
    let mut alone = Command::new("sh");
    alone.args(["-c", list]);
    let alone = stdout(&crate::harness::finish(alone));
    let commands = ["true", list, "true", "true"];
    let processes = start(&place, "Slurm", &["--linger=60"], commands);
    let outputs: Vec<_> = processes.into_iter().map(Process::finish).collect();
    let numbers = |text: &str| -> Vec<i32> {
        text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
    };
    // The tests may have inherited others.
    let alone = numbers(&alone);
    let mut more = numbers(&stdout(&outputs[1]));
    more.retain(|number| *number > 2 && !alone.contains(number));
    assert!(more.len() == 1 && more[0] >= 64, "{more:?}");
}
