//! Blocks of slots on software NICs of this process.

use std::time::{Duration, Instant};

use super::*;
use crate::bench::testing::plan;
use crate::device::FabricAddress;
use crate::machine::placement::Cpus;
use crate::service::ServiceOptions;
use crate::survey::answer::{Figures, Pair, Stage};
use crate::tools::TOOLS;

/// Length of a slot: long, so that other load of the machine does not make a test late.
const SLOT: Duration = Duration::from_millis(800);

/// The NICs of a process, and the clock of its blocks.
struct Rig {
    nics: Nics,
    tests: usize,
    start: Instant,
}

fn nic_plan(device: &str) -> NicPlan {
    NicPlan {
        device: device.parse().unwrap(),
        service: ServiceOptions::default(),
        libcxi: None,
        cpus: Cpus::Any,
    }
}

impl Rig {
    /// Opens `devices` and begins the tests, each a tool with its options.
    fn new(devices: &[&str], tests: &[(&str, &[&str])]) -> Self {
        let plans = devices.iter().map(|device| nic_plan(device));
        let mut nics = Nics::open(plans.collect()).unwrap();
        let of = |(tool, options): &(&str, &[&str])| {
            let plan = plan(tool, options);
            TestPlan::new(plan.tool, plan.run).unwrap()
        };
        let plans: Vec<_> = tests.iter().map(of).collect();
        let course = Course {
            tests: Vec::new(),
            arguments: Vec::new(),
            pair_ns: 20_000_000,
            first_nic: 10,
        };
        nics.begin(3, &course, &plans);
        Self {
            nics,
            tests: tests.len(),
            start: Instant::now(),
        }
    }

    fn address(&self, nic: u32) -> FabricAddress {
        self.nics.facts()[nic as usize].address.unwrap()
    }

    /// Returns both tasks of a pair.
    fn pair(&self, slot: u32, test: u16, initiator: u32, target: u32) -> Vec<Task> {
        let task = |part, peer| Task {
            slot,
            test,
            stage: Stage::Sweep,
            round: 7,
            active: 1,
            pair: Pair {
                initiator: 10 + initiator,
                target: 10 + target,
            },
            part,
            peer: self.address(peer),
        };
        if initiator == target {
            return vec![task(Part::Alone, target)];
        }
        vec![task(Part::Initiator, target), task(Part::Target, initiator)]
    }

    /// Runs a block that begins now.
    fn run(&mut self, slots: u32, tasks: Vec<Task>) -> BlockReport {
        let begins_ns = self.start.elapsed().as_nanos() as u64;
        let block = Block {
            number: 5,
            begins_ns,
            slot_ns: SLOT.as_nanos() as u64,
            slots,
            tasks,
        };
        let start = self.start;
        self.nics.run(&block, |ns| start + Duration::from_nanos(ns))
    }
}

/// Returns the figures of a pair that was measured.
fn figures(result: &PairResult) -> Figures {
    match &result.answer {
        Answer::Measured(figures) => *figures,
        other => panic!("{other:?}"),
    }
}

#[test]
fn measures_pair_with_each_tool() {
    let tests: Vec<_> = TOOLS.iter().map(|tool| (tool.name, &[][..])).collect();
    let mut rig = Rig::new(&["soft80", "soft81"], &tests);
    let tasks = (0..rig.tests as u32).flat_map(|test| rig.pair(test, test as u16, 0, 1));
    let report = rig.run(rig.tests as u32, tasks.collect());
    assert_eq!((report.block, report.rank), (5, 3));
    assert_eq!(report.results.len(), TOOLS.len());
    for (result, tool) in report.results.iter().zip(TOOLS) {
        eprintln!("{}: {:?}", tool.name, result.answer);
    }
    for (result, tool) in report.results.iter().zip(TOOLS) {
        match figures(result) {
            Figures::Latency {
                count,
                min_ns,
                median_ns,
                p99_ns,
                max_ns,
            } => {
                assert!(!tool.measures_bandwidth() && count > 0 && p99_ns.is_none());
                assert!(min_ns <= median_ns && median_ns <= max_ns && min_ns > 0);
            }
            Figures::Bandwidth {
                bytes_per_second,
                operations_per_second,
            } => {
                assert!(tool.measures_bandwidth() && operations_per_second > 0.0);
                assert!(bytes_per_second >= operations_per_second);
            }
        }
    }
    rig.nics.close();
}
