//! `cargo bench --profile dev --bench trust`: whether the verdicts of surveys are right. It plants
//! faults in clusters of software NICs, surveys them beside busy loops, and counts the verdicts.
//!
//! Arguments after `--`: names of faults (all but `big` and the blind trial without any; `blind`
//! for the blind trial: default options, 8 to 24 NICs), and
//!
//! * `--seeds=COUNT`: surveys of each fault with each load, by default 1;
//! * `--first=SEED`: the seed of the first one, by default 1;
//! * `--load=COUNT,...`: busy loops, by default 0, 2 and 10;
//! * `--program=PATH`: another cxidiag than the one of this build;
//! * `--keep=DIRECTORY`: where the documents of the surveys go.
//!
//! The command that an undecided survey of the blind trial proposes is run too: the last columns
//! show how many undecided surveys propose one, and how many of these commands decide.

#[path = "../harness/mod.rs"]
mod harness;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::getppid;

use harness::planted::{Fault, Judgement, faults, is_blind};
use harness::{CXIDIAG, Command, Process};

/// The argument with which this program is a busy loop.
const LOOP: &str = "busy-loop";

/// The fault that is surveyed on request only: it takes minutes.
const LONG: &str = "big";

const JUDGEMENTS: [(Judgement, &str); 7] = [
    (Judgement::Right, "right"),
    (Judgement::Suspect, "suspect"),
    (Judgement::Partly, "partly"),
    (Judgement::Undecided, "undecided"),
    (Judgement::Missed, "missed"),
    (Judgement::CalledGood, "called good"),
    (Judgement::WrongName, "wrong name"),
];

/// What to survey.
struct Request {
    faults: Vec<&'static Fault>,
    loads: Vec<usize>,
    seeds: u64,
    first: u64,
    program: PathBuf,
    keep: Option<PathBuf>,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == LOOP) {
        spin();
        return;
    }
    let request = Request::read(&arguments);
    let heads: String = JUDGEMENTS.iter().map(|(_, head)| format!("  {head}")).collect();
    println!(
        "{:13} {:>4} {:>4}{heads}  with command  decides  median time",
        "fault", "load", "runs"
    );
    for fault in &request.faults {
        for load in &request.loads {
            request.measure(fault, *load);
        }
    }
}

impl Request {
    fn read(arguments: &[String]) -> Self {
        let mut request = Self {
            faults: Vec::new(),
            loads: vec![0, 2, 10],
            seeds: 1,
            first: 1,
            program: CXIDIAG.into(),
            keep: None,
        };
        for argument in arguments.iter().filter(|argument| *argument != "--bench") {
            match argument.split_once('=').unwrap_or((argument, "")) {
                ("--seeds", count) => request.seeds = count.parse().expect("a number"),
                ("--first", seed) => request.first = seed.parse().expect("a number"),
                ("--load", counts) => {
                    let counts = counts.split(',').map(|count| count.parse().expect("a number"));
                    request.loads = counts.collect();
                }
                ("--program", path) => request.program = path.into(),
                ("--keep", path) => request.keep = Some(path.into()),
                ("blind", _) => request.faults.extend(faults().filter(|fault| is_blind(fault))),
                (name, _) => {
                    let fault = faults().find(|fault| fault.name == name);
                    let names: Vec<&str> = faults().map(|fault| fault.name).collect();
                    let names = names.join(", ");
                    let fault = fault.unwrap_or_else(|| panic!("{name}: the faults are {names}"));
                    request.faults.push(fault);
                }
            }
        }
        if request.faults.is_empty() {
            let is_usual = |fault: &&Fault| fault.name != LONG && !is_blind(fault);
            request.faults = faults().filter(is_usual).collect();
        }
        request
    }

    /// Surveys a fault with each seed, and prints a row of the table.
    fn measure(&self, fault: &Fault, load: usize) {
        let _loops: Vec<Process> = (0..load).map(|_| start_loop()).collect();
        let mut counts = [0; JUDGEMENTS.len()];
        let mut times = Vec::new();
        let (mut with_command, mut decides) = (0, 0);
        for seed in self.first..self.first + self.seeds {
            let directory = tempfile::tempdir().expect("a directory");
            let outcome = fault.survey(&self.program, seed, directory.path());
            let found =
                JUDGEMENTS.iter().position(|(judgement, _)| *judgement == outcome.judgement);
            counts[found.expect("each is listed")] += 1;
            times.push(outcome.took);
            eprintln!(
                "{} {load} {seed}: {:?} after {:.1} s: {}",
                fault.name,
                outcome.judgement,
                outcome.took.as_secs_f64(),
                outcome.text.lines().next().unwrap_or_default(),
            );
            if is_blind(fault) && outcome.document["conclusion"] == "undecided" {
                with_command += usize::from(outcome.document["next"].is_string());
                let is_decided = fault.follow(&self.program, &outcome);
                decides += usize::from(is_decided == Some(true));
                eprintln!("  next: {} -> {is_decided:?}", outcome.document["next"]);
            }
            if let Some(keep) = &self.keep {
                let name = format!("{}-{load}-{seed}", fault.name);
                copy(directory.path(), &keep.join(name));
            }
        }
        times.sort();
        let time = times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64);
        let counts = JUDGEMENTS.iter().zip(counts);
        let counts: String = counts
            .map(|((_, head), count)| format!("  {count:>width$}", width = head.len()))
            .collect();
        println!(
            "{:13} {load:>4} {:>4}{counts}  {with_command:>12}  {decides:>7}  {time:9.1} s",
            fault.name, self.seeds
        );
    }
}

/// Copies the files of a directory.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for file in fs::read_dir(from).expect("a directory").flatten() {
        fs::copy(file.path(), to.join(file.file_name())).expect("a file");
    }
}

/// Starts a process that uses all of a CPU.
fn start_loop() -> Process {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.arg(LOOP).limit(Duration::from_secs(1 << 20));
    command.spawn().expect("a process")
}

/// Uses all of a CPU until the parent ends.
fn spin() {
    let parent = getppid();
    while getppid() == parent {
        (0..1_000_000).for_each(|number| {
            std::hint::black_box(number);
        });
    }
}
