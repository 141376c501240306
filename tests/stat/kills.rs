//! What `stat` leaves behind when its processes are killed: nothing, except what `--stop` needs.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Process, finish, stderr};
use crate::{Place, roster_files, slurm_task, wait_for};

/// Number of programs that run, unless this variable says otherwise.
const PROGRAMS: u32 = 50;
const PROGRAMS_VARIABLE: &str = "CXIDIAG_TEST_STAT_KILLS";

/// Programs that run at the same time.
const AT_ONCE: u32 = 5;

/// How long leaders wait for others: some are killed before they join.
const SHORT: &str = "--linger=0.2";
/// How long they wait where none is killed.
const LONG: &str = "--linger=100";

/// Marks the processes of one test in their environments.
const MARK: &str = "CXIDIAG_TEST_MARK";

const SIGNALS: [Signal; 4] = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP];

/// Commands that end by themselves.
const COMMANDS: [&str; 3] = ["true", "sleep 0.1", "sleep 0.05; exit 3"];

/// A program of some ranks on this node.
struct Program {
    job: String,
    ranks: u32,
    processes: Vec<Process>,
    /// Whether its leader, which is its first process, gets SIGKILL.
    kills_leader: bool,
}

impl Program {
    fn start(place: &Place, job: &str, ranks: u32, linger: &str, command: &str) -> Self {
        let start = |rank: u32| {
            let mut stat = place.stat(&[linger], &["sh", "-c", command]);
            stat.env(MARK, place.key());
            stat.envs(slurm_task(job, rank, ranks));
            stat.spawn().expect("it starts")
        };
        Self {
            job: job.to_owned(),
            ranks,
            processes: (0..ranks).map(start).collect(),
            kills_leader: false,
        }
    }

    /// Kills one of its processes.
    fn kill(&mut self, random: &mut Rng) {
        let rank = random.usize(0..self.processes.len());
        let signal = *random.choice(&SIGNALS).expect("a signal");
        self.kills_leader = rank == 0 && signal == Signal::KILL;
        let process = Pid::from_raw(self.processes[rank].id().cast_signed());
        // It has not been waited for, so its number is its own.
        kill_process(process.expect("a process"), signal).expect("a process");
    }

    /// Waits for its end. Returns how its leader ended.
    fn end(&mut self) -> Output {
        let mut processes = self.processes.drain(..);
        let leader = processes.next().expect("a leader").finish();
        for process in processes {
            process.finish();
        }
        let errors = stderr(&leader);
        assert!(!errors.contains("panicked"), "{errors}");
        leader
    }

    /// Whether its leader, which has ended like this, was killed.
    fn was_killed(&self, leader: &Output) -> bool {
        self.kills_leader && leader.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// Whether others may have made a file that its leader, which has ended like this, has not
    /// removed: a signal has ended it before it handled signals, or they came late.
    fn may_leave_roster(leader: &Output) -> bool {
        let ended_early = leader.status.signal().is_some() && leader.stderr.is_empty();
        ended_early || stderr(leader).contains("still running")
    }
}

/// The files of rosters of these programs.
fn rosters(programs: &[Program]) -> Vec<PathBuf> {
    let program_paths = |program: &Program| roster_files(&format!(".{}.", program.job));
    programs.iter().flat_map(program_paths).collect()
}

/// Whether a process of this test runs.
fn has_processes(place: &Place) -> bool {
    let mark = format!("{MARK}={}", place.key());
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let mut environments = entries.filter_map(|entry| fs::read(entry.path().join("environ")).ok());
    environments
        .any(|environment| environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()))
}

#[test]
fn killed_programs_leave_nothing_that_the_next_ones_do_not_remove() {
    let place = Place::new();
    let count =
        env::var(PROGRAMS_VARIABLE).map_or(PROGRAMS, |text| text.parse().expect("a number"));
    let mut random = Rng::new();
    let seed = random.get_seed();
    // Signals come at any time of a program, however fast this machine is.
    let began = Instant::now();
    Program::start(&place, &format!("{}first", place.key()), 3, SHORT, COMMANDS[1]).end();
    let takes = began.elapsed().as_micros() as u64;

    let mut killed = Vec::new();
    for first in (0..count).step_by(AT_ONCE as usize) {
        let start = |number: u32| {
            let command = random.choice(&COMMANDS).expect("a command");
            let ranks = random.u32(1..=3);
            Program::start(&place, &format!("{}n{number}", place.key()), ranks, SHORT, command)
        };
        let mut programs: Vec<Program> = (first..count.min(first + AT_ONCE)).map(start).collect();
        for program in &mut programs {
            let pause = random.u64(0..2 * takes / u64::from(AT_ONCE));
            thread::sleep(Duration::from_micros(pause));
            program.kill(&mut random);
        }
        for mut program in programs {
            let leader = program.end();
            if program.was_killed(&leader) {
                killed.push(program);
            } else {
                let step = format!("cxidiag-stat.{}.0", program.job);
                let left = fs::read_dir(place.path().join(&step)).map(|files| files.count());
                assert!(left.is_err(), "seed {seed}: {left:?} files in {step}, {leader:?}");
                if Program::may_leave_roster(&leader) {
                    killed.push(program);
                } else {
                    assert!(rosters(&[program]).is_empty(), "seed {seed}: {step}, {leader:?}");
                }
            }
        }
    }
    println!("{} of {count} leaders were killed", killed.len());
    // The commands of killed leaders go on to their ends.
    wait_for("the end of all commands", || (!has_processes(&place)).then_some(()));
    for path in rosters(&killed) {
        let file = File::options().append(true).open(&path).expect("a file");
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("no lock is left");
        // Only a file that has not changed for long is left over.
        let old = SystemTime::now() - Duration::from_secs(3600);
        file.set_modified(old).expect("a file");
    }
    // The next command of each step removes its files.
    for program in &killed {
        Program::start(&place, &program.job, program.ranks, LONG, "true").end();
    }
    assert!(rosters(&killed).is_empty(), "seed {seed}");
    assert_eq!(place.left(), [""; 0], "seed {seed}");
    let mut last = place.cxidiag(&["stat", "soft0", "--start=before"]);
    last.env_remove(MARK);
    finish(last);
    place.fabric.assert_nothing_left();
}
