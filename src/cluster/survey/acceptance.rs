//! Which messages of another process are accepted. Each number is checked here before anything else
//! reads it, and each text is cut. A process may speak about itself only: its NICs and its slots.
//!
//! The limits of times and rates are far beyond what any NIC or host can reach, so that no honest
//! process is expelled for a bad measurement.

use std::collections::HashMap;
use std::time::Duration;

use super::answer::{Answer, Figures, PairResult};
use super::busy::HostLoad;
use super::findings::Test;
use super::ids::NicId;
use super::timetable::{Block, BlockReport, Course, Introduction, NicFacts, Part, Task};
use super::untested::Untested;
use crate::location::Location;
use facts::device::{DeviceName, FabricAddress};
use facts::text;

/// Most NICs of a process.
const MOST_NICS: usize = 128;

/// Longest time in any message.
const LONGEST_NS: u64 = Duration::from_secs(24 * 3600).as_nanos() as u64;

/// Largest rate in any message, in bytes or operations per second.
const LARGEST_RATE: f64 = 1e15;

/// Largest number of threads or CPUs in any message.
const LARGEST_LOAD: f64 = 1e9;

/// Most counters of a pair, and most processes in a load.
const MOST_COUNTERS: usize = 64;
const MOST_PROCESSES: usize = 16;

/// Largest VNI: fields of VNIs have 16 bits.
const LARGEST_VNI: u32 = 0xffff;

impl Introduction {
    /// Checks the numbers of an introduction, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    pub fn accept(&mut self) -> Result<(), String> {
        text::accept(&mut self.host);
        self.topology.iter_mut().for_each(text::accept);
        if self.nics.len() > MOST_NICS {
            let count = self.nics.len();
            return Err(format!("it has {count} NICs (at most {MOST_NICS})"));
        }
        self.nics.iter_mut().try_for_each(NicFacts::accept)
    }
}

impl NicFacts {
    fn accept(&mut self) -> Result<(), String> {
        text::accept(&mut self.device);
        text::accept(&mut self.class);
        self.failure.iter_mut().for_each(text::accept);
        let device = &self.device;
        if device.parse::<DeviceName>().is_err() {
            return Err(format!("its NIC has the name '{device}'"));
        }
        let is_valid = self.address.is_none_or(FabricAddress::is_valid);
        let located = self.address.map(|address| Location::from_nid(address.nic));
        if !is_valid || self.location.is_some_and(|at| Some(at) != located) {
            return Err(format!("{device} has an address that no NIC has"));
        }
        if self.vni > LARGEST_VNI {
            return Err(format!("{device} has VNI {}, out of range", self.vni));
        }
        Ok(())
    }
}

/// What the next report of a process is about.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Rank of the process.
    pub rank: u32,
    /// Number of its NICs.
    pub nics: usize,
    pub tests: &'a [Test],
    /// Its last block; none before the first one.
    pub block: Option<&'a Block>,
}

impl BlockReport {
    /// Checks a report, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    pub fn accept(&mut self, expected: Expected) -> Result<(), String> {
        let block = expected.block.filter(|block| block.number == self.block);
        let block = accept_sender((self.rank, expected.rank), self.block, block)?;
        accept_addresses(&mut self.addresses, expected.nics)?;
        accept_time(self.beyond_ns.max(self.clock_uncertainty_ns.unwrap_or(0)))?;
        self.load.as_mut().map_or(Ok(()), HostLoad::accept)?;
        let role = |task: &Task| (task.round, task.pair, task.part == Part::Target);
        let tasks = block.tasks.iter();
        let mut tasks: HashMap<_, &Task> = tasks.map(|task| (role(task), task)).collect();
        self.results.iter_mut().try_for_each(|result| {
            // Both NICs of a pair may be NICs of this process.
            let is_initiator =
                matches!(result.answer, Answer::Measured(_)) || !result.counters.is_empty();
            let roles = if is_initiator { &[false][..] } else { &[true, false] };
            let mut roles = roles.iter();
            let found = roles.find_map(|role| tasks.remove(&(result.round, result.pair, *role)));
            let known = |task: &Task| (task.test, task.stage, task.active);
            if found.map(known) != Some((result.test, result.stage, result.active)) {
                return Err("it has reported a pair for which it has no slot".into());
            }
            result.accept(expected.tests)
        })
    }
}

/// Checks that a report comes from the process with the rank `expected`, and is about its last
/// block. Returns this block.
pub(crate) fn accept_sender<Block>(
    (rank, expected): (u32, u32),
    number: u32,
    block: Option<Block>,
) -> Result<Block, String> {
    if rank != expected {
        return Err(format!("its report is about rank {rank}"));
    }
    block.ok_or_else(|| format!("it has reported block {number}"))
}

/// Checks a time in nanoseconds.
pub(crate) fn accept_time(ns: u64) -> Result<(), String> {
    (ns <= LONGEST_NS).then_some(()).ok_or_else(|| "it has reported a time out of range".to_owned())
}

/// Checks the addresses of the NICs of a process with this many of them, and cuts the texts.
pub(crate) fn accept_addresses(
    addresses: &mut [Result<FabricAddress, String>],
    nics: usize,
) -> Result<(), String> {
    if addresses.len() != nics {
        let count = addresses.len();
        return Err(format!("it has reported {count} addresses for {nics} NICs"));
    }
    for address in addresses {
        match address {
            Ok(address) if !address.is_valid() => {
                return Err("it has reported an address that no NIC has".into());
            }
            Ok(_) => {}
            Err(why) => text::accept(why),
        }
    }
    Ok(())
}

impl PairResult {
    /// Checks the result of a slot.
    fn accept(&mut self, tests: &[Test]) -> Result<(), String> {
        if self.waited_percent > 100 {
            return Err(format!("it has waited {}% of its time", self.waited_percent));
        }
        let initiator = self.pair.initiator;
        let is_own = |nic: NicId| nic == initiator;
        if self.counters.len() > MOST_COUNTERS
            || !self.counters.iter().all(|counter| is_own(counter.nic))
        {
            return Err("it has reported a counter of another NIC".into());
        }
        self.counters.iter_mut().for_each(|evidence| text::accept(&mut evidence.counter));
        match &mut self.answer {
            Answer::Measured(figures) => accept_figures(*figures, tests.get(self.test.index())),
            Answer::Failed(why) | Answer::Untested(Untested::Other(why)) => {
                text::accept(why);
                Ok(())
            }
            Answer::Untested(_) => Ok(()),
        }
    }
}

/// Checks the figures of a pair in this test.
fn accept_figures(figures: Figures, test: Option<&Test>) -> Result<(), String> {
    let is_bandwidth = test.is_some_and(|test| test.of_bandwidth);
    match figures {
        Figures::Latency { .. } if is_bandwidth => {
            Err("it has reported a latency in a test of bandwidth".into())
        }
        Figures::Bandwidth { .. } if !is_bandwidth => {
            Err("it has reported a bandwidth in a test of latency".into())
        }
        Figures::Latency { count, min_ns, p5_ns, median_ns, p99_ns, max_ns } => {
            let known = [Some(min_ns), p5_ns, Some(median_ns), p99_ns, Some(max_ns)];
            let is_valid = count > 0 && known.iter().flatten().is_sorted() && max_ns <= LONGEST_NS;
            let rule = || "it has reported a latency out of range".to_owned();
            is_valid.then_some(()).ok_or_else(rule)
        }
        Figures::Bandwidth { bytes_per_second, operations_per_second } => {
            let rates = [bytes_per_second, operations_per_second];
            let is_valid = rates.iter().all(|rate| is_within(*rate, LARGEST_RATE));
            let rule = || "it has reported a bandwidth out of range".to_owned();
            is_valid.then_some(()).ok_or_else(rule)
        }
    }
}

impl HostLoad {
    fn accept(&mut self) -> Result<(), String> {
        let mut loads = self.most.iter().map(|(_, cpus)| *cpus).chain([self.mean]);
        if self.most.len() > MOST_PROCESSES || !loads.all(|load| is_within(load, LARGEST_LOAD)) {
            return Err("it has reported a load out of range".into());
        }
        self.most.iter_mut().map(|(name, _)| name).for_each(text::accept);
        Ok(())
    }
}

/// Returns whether a number is between 0 and `most`. NaN and infinities are not.
fn is_within(number: f64, most: f64) -> bool {
    (0.0..=most).contains(&number)
}

impl Course {
    /// Returns whether a process can carry out this order of its coordinator.
    pub fn is_valid(&self) -> bool {
        self.tests.len() == self.arguments.len() && self.pair_ns <= LONGEST_NS
    }
}

impl Block {
    /// Returns whether a process with this many `nics`, prepared for `course`, can carry out this
    /// order of its coordinator.
    pub fn is_valid(&self, nics: usize, course: Option<&Course>) -> bool {
        let (tests, first) =
            course.map_or((0, NicId(0)), |course| (course.tests.len(), course.first_nic));
        let is_valid = |task: &Task| {
            task.own_nic(first, nics).is_some()
                && task.slot < self.slots
                && task.test.index() < tests
                && task.peer.is_valid()
        };
        let length = self.slot_ns.checked_mul(self.slots.into());
        let end = length.and_then(|length| self.begins_ns.checked_add(length));
        self.slot_ns <= LONGEST_NS && end.is_some() && self.tasks.iter().all(is_valid)
    }
}
