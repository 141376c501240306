//! `cargo bench --profile dist --bench load_scale`: what the coordinator of
//! `survey --load=standard` does for 10,000 nodes (`CXIDIAG_BENCH_NODES=2500`, in steps of 500).
//!
//! It plans the load slots, writes an order for each process, reads and checks the reports, and
//! judges. The messages have the bytes that they have between processes; no process and no
//! connection exists.

mod status;

use std::env;
use std::time::{Duration, Instant};

use campaign::quiet::roster::Roster;
use campaign::timetable::{
    Block, BlockTimes, Histogram, PARTS, Report, Slot, SlotTask, SlotTimes, SurveyWork, Task,
    TaskAnswer, TaskResult, Watched, blocks, by_slot,
};
use crew::star::{Expected, Work};
use facts::device::FabricAddress;
use fastrand::Rng;
use load::conductor::{Cap, LoadConductor, LoadSetup};
use load::slot::{LoadSlot, slot};
use load::testing::{fabric, setup};
use postcard::{from_bytes, to_stdvec};

use status::status_kib;

/// Nodes of a group: 25 switches with 20 nodes each, each with one NIC.
const OF_GROUP: u32 = 25 * 20;

/// Samples of a victim in a slot: 130 ms at 5 us.
const SAMPLES: u32 = 26_000;

/// Bandwidth of a NIC, in bytes per second.
const RATE: f64 = 21.5e9;

/// What the coordinator has done, and for how long.
#[derive(Default)]
struct Costs {
    planned: Duration,
    written: Duration,
    read: Duration,
    judged: Duration,
    /// Bytes of the orders and of the reports.
    sent: usize,
    received: usize,
    most_received: usize,
    slots: usize,
    /// Length of all slots, in nanoseconds.
    slots_ns: u64,
}

fn main() {
    let nodes = env::var("CXIDIAG_BENCH_NODES");
    let nodes: u32 = nodes.map_or(10_000, |text| text.parse().expect("a number"));
    let roster = fabric([(nodes / OF_GROUP) as u16, 25, 20, 1]);
    let nodes = roster.nodes.len();
    let mut setup = LoadSetup { cap: Cap::All, nic_rate: Some(RATE), ..setup("standard") };
    setup.facts.is_software = false;
    let before = status_kib("VmHWM") / 1024;
    let began = Instant::now();
    let usable = roster.nic_ids().collect();
    let mut conductor = LoadConductor::new(&roster, usable, setup).expect("a load");
    let mut costs = Costs { planned: began.elapsed(), ..Costs::default() };
    let quiet = histograms(2_000.0, 0.05);
    let loaded = histograms(2_400.0, 0.25);
    loop {
        let began = Instant::now();
        let load_slots = conductor.next_load_slots();
        costs.planned += began.elapsed();
        if load_slots.is_empty() {
            break;
        }
        let latencies = if load_slots[0].is_quiet() { &quiet } else { &loaded };
        run(&roster, &mut conductor, load_slots, latencies, &mut costs);
    }
    let began = Instant::now();
    let findings = conductor.findings();
    costs.judged += began.elapsed();
    assert_eq!((findings.judgements.len(), findings.aborted), (0, None));

    let all = costs.planned + costs.written + costs.read + costs.judged;
    println!(
        "{nodes} nodes, {} slots of {:.0} s in sum\n",
        costs.slots,
        costs.slots_ns as f64 / 1e9
    );
    for (what, time) in [
        ("plan", costs.planned),
        ("write orders", costs.written),
        ("read and check reports", costs.read),
        ("add up and judge", costs.judged),
        ("all of this", all),
    ] {
        println!("{what:24}{:8.2} s", time.as_secs_f64());
    }
    println!(
        "{:24}{:8} MiB at most, {before} MiB of them before",
        "memory",
        status_kib("VmHWM") / 1024
    );
    println!(
        "{:24}{:8.1} KB to each process, {:.1} KB from it",
        "bytes",
        costs.sent as f64 / nodes as f64 / 1e3,
        costs.received as f64 / nodes as f64 / 1e3
    );
    println!(
        "{:24}{:8.1} MB at most, {:.1} MB/s while slots run",
        "reports of a block",
        costs.most_received as f64 / 1e6,
        costs.received as f64 * 1e3 / costs.slots_ns as f64
    );
}

/// Runs a block from its load slots to their results.
fn run(
    roster: &Roster,
    conductor: &mut LoadConductor,
    mut load_slots: Vec<LoadSlot>,
    latencies: &[Histogram],
    costs: &mut Costs,
) {
    let address = |nic| Some(FabricAddress { nic, pid: 7 });
    let addresses: Vec<Option<FabricAddress>> =
        (0..roster.nics.len() as u32).map(address).collect();
    let began = Instant::now();
    let slots: Vec<Slot> =
        load_slots.iter_mut().map(|load_slot| slot(load_slot, false, |_| true)).collect();
    let times = BlockTimes {
        number: 1,
        slot_ns: load_slots[0].slot_ns,
        window_bytes: Some(load_slots[0].window_bytes),
    };
    let blocks = blocks(&slots, times, roster, &addresses);
    costs.sent +=
        blocks.values().map(|block| to_stdvec(block).expect("bytes").len()).sum::<usize>();
    costs.written += began.elapsed();

    let mut received = 0;
    let mut reports = Vec::new();
    let mut rng = Rng::with_seed(1);
    for (rank, block) in &blocks {
        let bytes = to_stdvec(&report(*rank, block, latencies, &mut rng)).expect("bytes");
        received += bytes.len();
        let began = Instant::now();
        let mut report: Report = from_bytes(&bytes).expect("a report");
        let expected = Expected { rank: *rank, nics: 1, setup: None, block };
        SurveyWork::accept(&mut report, expected).expect("an acceptable report");
        reports.push(report);
        costs.read += began.elapsed();
    }
    let began = Instant::now();
    for (load_slot, results) in load_slots.iter().zip(by_slot(reports, load_slots.len())) {
        conductor.add(load_slot, &results);
    }
    costs.judged += began.elapsed();
    costs.received += received;
    costs.most_received = costs.most_received.max(received);
    costs.slots += load_slots.len();
    costs.slots_ns += load_slots.iter().map(|load_slot| load_slot.slot_ns).sum::<u64>();
}

/// Returns what a process reports about a good fabric.
fn report(rank: u32, block: &Block, latencies: &[Histogram], rng: &mut Rng) -> Report {
    let part_s = SlotTimes::from_slot(block.slot_ns).counted() as f64 / 1e9 / PARTS as f64;
    let mut answer = |task: &Task| match task.part {
        SlotTask::Send { .. } => TaskAnswer::Sent {
            bytes: [(); PARTS].map(|()| (RATE * part_s * (0.99 + 0.02 * rng.f64())) as u64),
            unreached: Vec::new(),
        },
        SlotTask::Measure { .. } => {
            TaskAnswer::Latencies(latencies[rng.usize(..latencies.len())].clone())
        }
        SlotTask::Answer { .. } | SlotTask::Watch => TaskAnswer::Present,
    };
    let result = |task: &Task| TaskResult {
        watched: vec![
            (Watched::Octets, (RATE * block.slot_ns as f64 / 1e9) as u64),
            (Watched::Unmarked, 1_000_000),
        ],
        ..TaskResult::new(task.slot, task.nic, answer(task))
    };
    Report {
        block: block.number,
        rank,
        results: block.tasks.iter().map(result).collect(),
        addresses: vec![Ok(FabricAddress { nic: rank, pid: 7 })],
        beyond_ns: 0,
        clock_uncertainty_ns: None,
        load: None,
    }
}

/// The latencies of some victims around this median, with this relative deviation and a tail.
fn histograms(median_ns: f64, deviation: f64) -> Vec<Histogram> {
    let mut rng = Rng::with_seed(1);
    let mut one = || {
        let mut histogram = Histogram::default();
        for _ in 0..SAMPLES {
            let normal = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
            let tail = if rng.u32(..1000) == 0 { 1.0 + 9.0 * rng.f64() } else { 1.0 };
            histogram.add((median_ns * (deviation * normal).exp() * tail) as u64, 1);
        }
        histogram
    };
    (0..16).map(|_| one()).collect()
}
