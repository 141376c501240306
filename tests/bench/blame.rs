//! Trials of blame: models of clusters with planted faults, counted by how right the verdicts of
//! surveys are. The program needs nothing else to run, so it can be copied to a larger machine:
//!
//! ```text
//! cargo build --release -p load --features testing --example blame \
//!     --config profile.release.package.campaign.opt-level=3
//! target/release/examples/blame --seeds=2000 --threads=16
//! ```
//!
//! Arguments: texts, one of which the name of a trial must contain (without any, all trials), and
//!
//! * `--seeds=COUNT`: clusters of each trial, by default 100;
//! * `--first=SEED`: the first seed, by default 0;
//! * `--threads=COUNT`: by default one for each CPU;
//! * `--wrong`: prints each verdict that names a wrong part.
//!
//! The table counts outcomes. Its hash is of all that the verdicts say: it is equal for two builds
//! whose verdicts are equal. 1,000 clusters of each trial take about 1,700 CPU seconds.

use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use campaign::quiet::trials;
use campaign::quiet::trials::{Correctness, Trial, TrialVerdict};

/// Clusters that a thread surveys before it asks for further ones.
const CHUNK: u64 = 50;

/// What some clusters of a trial have shown.
#[derive(Clone, Default)]
struct Row {
    counts: [u64; Correctness::ALL.len()],
    /// Sum of the hashes of all verdicts, so that their order does not matter.
    hash: u64,
    wrong: Vec<String>,
    seconds: f64,
}

impl Row {
    fn add(&mut self, seed: u64, verdict: &TrialVerdict) {
        self.counts[verdict.outcome as usize] += 1;
        self.hash = self.hash.wrapping_add(hash(seed, &verdict.text));
        if verdict.outcome >= Correctness::CalledGood {
            self.wrong.push(format!("  seed {seed}: {:?}: {}", verdict.outcome, verdict.text));
        }
    }

    fn merge(&mut self, other: Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
        self.hash = self.hash.wrapping_add(other.hash);
        self.wrong.extend(other.wrong);
        self.seconds += other.seconds;
    }

    fn print(&self, name: &str) {
        let counts: String = self.counts.iter().map(|count| format!(" {count:>6}")).collect();
        println!("{name:64}{counts} {:016x} {:6.1}", self.hash, self.seconds);
    }
}

/// FNV-1a.
fn hash(seed: u64, text: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn main() {
    let (mut seeds, mut first, mut prints_wrong) = (100_u64, 0, false);
    let mut threads = thread::available_parallelism().map_or(1, usize::from);
    let mut texts: Vec<String> = Vec::new();
    for argument in env::args().skip(1) {
        match argument.split_once('=').unwrap_or((&argument, "")) {
            ("--seeds", count) => seeds = count.parse().expect("a number"),
            ("--first", seed) => first = seed.parse().expect("a number"),
            ("--threads", count) => threads = count.parse().expect("a number"),
            ("--wrong", _) => prints_wrong = true,
            _ => texts.push(argument),
        }
    }
    let is_wanted =
        |trial: &Trial| texts.is_empty() || texts.iter().any(|text| trial.name.contains(text));
    let trials = trials::trials().into_iter().chain(load::trials::trials());
    let trials: Vec<Trial> = trials.filter(is_wanted).collect();
    let rows: Vec<Mutex<Row>> = trials.iter().map(|_| Mutex::default()).collect();
    let chunks = seeds.div_ceil(CHUNK) as usize;
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let work = next.fetch_add(1, Ordering::Relaxed);
                    let (index, chunk) = (work / chunks, (work % chunks) as u64);
                    let Some(trial) = trials.get(index) else {
                        break;
                    };
                    let began = Instant::now();
                    let mut row = Row::default();
                    let end = seeds.min((chunk + 1) * CHUNK);
                    for seed in first + chunk * CHUNK..first + end {
                        row.add(seed, &(trial.survey)(seed));
                    }
                    row.seconds = began.elapsed().as_secs_f64();
                    rows[index].lock().expect("a row").merge(row);
                }
            });
        }
    });
    println!(
        "{:64}  right suspct partly  undec cgood  wrong su.inn bl.inn {:16} {:>6}",
        "trial", "hash", "CPU s"
    );
    let mut all = Row::default();
    for (trial, row) in trials.iter().zip(rows) {
        let mut row = row.into_inner().expect("a row");
        row.print(&trial.name);
        row.wrong.sort();
        if prints_wrong {
            row.wrong.iter().for_each(|text| println!("{text}"));
        }
        all.merge(row);
    }
    all.print("all");
}
