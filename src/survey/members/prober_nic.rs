//! A NIC that probes others all day and is their target. Its queues stay open from probe to probe,
//! and are aimed at one target after another. The target has an address of its own, so that a
//! failed probe of this side closes nothing that others measure against.

use std::time::{Duration, Instant};

use super::targets::test::rates;
use crate::targets::by_tool::{lists, portal};
use crate::targets::nic::{NicPlan, TargetNic};
use crate::targets::test::TestPlan;
use crate::targets::window::{Attempt, Window};
use crew::location::Location;
use diag::bench::api::{Benchmark, OneSidedLatency, Peer, RepeatTransaction, Transaction};
use diag::bench::common::Initiator;
use diag::bench::write_bw::WriteBandwidth;
use diag::bench::write_lat::WriteLatency;
use diag::endpoint::Endpoint;
use diag::run::size_loop::{Record, Schedule, repeat_with};
use diag::run::verify::Unwatched;
use facts::device::{DeviceName, FabricAddress};
use facts::error::{Failure, Kind};
use facts::figures::Figures;
use facts::limit;
use measure::{ChosenClock, ClockChoice, CpuShare, RunClock, WaitPolicy};
use node::local_address::LocalAddress;
use node::machine::Machine;
use plan::run_options::{RunOptions, Side};

/// Time limit of a probe: a lost packet is sent again after 1.07 s (libcxi.md 12.3).
const LIMIT: Duration = Duration::from_secs(3);

/// Longest sleep of a thread that polls on a CPU that others need (`measure::crowding`, and 250 us
/// in the software NIC).
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// Number of writes of a burst.
pub const WRITES: u64 = 20;

/// What is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Small writes, one after the other.
    Burst,
    /// One large transfer.
    Bulk,
}

facts::named_enum! {
    /// Why a probe failed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProbeFailure {
        /// The NIC reported an error.
        Error = "error",
        /// There was no answer.
        NoAnswer = "no_answer",
        /// A packet was lost and sent again.
        Resent = "resent",
    }
    /// Its name in metrics.
    pub fn name(self);
}

/// What a burst of writes has measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLatencies {
    pub min: Duration,
    pub median: Duration,
    pub max: Duration,
}

/// What one probe has measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProbeFigure {
    Burst(BurstLatencies),
    /// Bytes a second.
    Bulk(f64),
}

/// A probe that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndedProbe {
    pub result: Result<ProbeFigure, ProbeFailure>,
    /// How often the thread got its CPU back meanwhile, also after a sleep of its own.
    pub turns: u64,
    /// How long it waited for its CPU.
    pub waited: Duration,
    /// How long it neither ran nor waited for a CPU, without short sleeps of its own: the process
    /// was stopped.
    pub stopped: Duration,
    /// How long the probe took.
    pub took: Duration,
}

/// A NIC that probes others, and is their target.
pub struct ProberNic {
    target: TargetNic,
    /// Small writes, then bulk writes; the place is the number of the target's test.
    runs: [RunOptions; 2],
    clock: RunClock,
    /// None after a failed probe, until the next one.
    queues: Option<Queues>,
}

/// What this side issues its probes with. The resources precede the endpoint, which they need.
struct Queues {
    burst: <WriteLatency as Benchmark>::Resources,
    bulk: <WriteBandwidth as Benchmark>::Resources,
    endpoint: Endpoint,
}

impl Queues {
    fn open(nic: &TargetNic, [burst, bulk]: &[RunOptions; 2]) -> Result<Self, Failure> {
        let endpoint = nic.further_endpoint()?;
        let address = endpoint.address().address;
        let (own, supervisor) = (&endpoint, &Unwatched);
        let peer = |test| Peer { own, address, portal: portal(test), supervisor };
        let side = Side::Client;
        Ok(Self {
            burst: WriteLatency::set_up(peer(0), burst, side)?,
            bulk: WriteBandwidth::set_up(peer(1), bulk, side)?,
            endpoint,
        })
    }

    fn aim(&mut self, peer: FabricAddress) {
        let pid_bits = self.endpoint.device().info().pid_bits;
        let aim = |initiator: &mut Initiator, test| {
            initiator.aim_at(peer, portal(test), pid_bits);
        };
        if let Some(initiator) = &mut self.burst.initiator {
            aim(initiator, 0);
        }
        if let Some(lists) = &mut self.bulk.initiator {
            aim(&mut lists.initiator, 1);
        }
    }

    /// Releases everything; what a failed probe has left over ends with the interface.
    fn close(self) {
        let _ = WriteLatency::close(self.burst);
        let _ = WriteBandwidth::close(self.bulk);
        let _ = self.endpoint.close();
    }
}

impl ProberNic {
    /// Opens the NIC and the targets of both `tests`: small writes and bulk writes.
    ///
    /// # Errors
    ///
    /// A NIC that cannot be opened, and a target that cannot be.
    pub fn open(plan: NicPlan, place: usize, tests: [TestPlan; 2]) -> Result<Self, Failure> {
        let mut target = TargetNic::open(plan, place)?;
        target.begin(tests.to_vec(), LIMIT);
        if let Some(reason) = target.failed_target() {
            return Err(Failure::environment(reason.to_owned()));
        }
        let clock = RunClock::choose(ClockChoice::Auto, &Machine::this())?;
        Ok(Self { target, runs: tests.map(|test| test.run), clock, queues: None })
    }

    pub fn device(&self) -> DeviceName {
        self.target.device()
    }

    /// The address of the targets.
    ///
    /// # Errors
    ///
    /// The reason why the NIC is not open.
    pub fn address(&self) -> Result<LocalAddress, String> {
        Ok(self.target.endpoint()?.address())
    }

    /// Returns where the NIC is, if its address shows it.
    pub fn location(&self) -> Option<Location> {
        self.target.location()
    }

    /// Probes the targets at this address.
    ///
    /// # Errors
    ///
    /// A failure of this host, which says nothing about the target, and an interruption.
    pub fn probe(&mut self, peer: FabricAddress, probe: ProbeKind) -> Result<EndedProbe, Failure> {
        let mut queues = match self.queues.take() {
            Some(queues) => queues,
            None => Queues::open(&self.target, &self.runs)?,
        };
        queues.aim(peer);
        let began = Instant::now();
        let window = Window { ready: began, ends: began + limit::in_effect(LIMIT) };
        let attempt = Attempt::new(window, Side::Client);
        let before = CpuShare::from_this_thread();
        let measured = match probe {
            ProbeKind::Burst => burst(&mut queues, &self.runs[0], &attempt, &mut self.clock),
            ProbeKind::Bulk => bulk(&mut queues, &self.runs[1], &attempt),
        };
        let shares = before.zip(CpuShare::from_this_thread());
        let took = began.elapsed();
        let nothing = (0, Duration::ZERO, Duration::ZERO);
        let (turns, waited, stopped) = shares.map_or(nothing, |(before, after)| {
            let (turns, waited) = (after.turns_since(before), after.waited_since(before));
            let ran = after.ran().saturating_sub(before.ran());
            // A probe polls until it ends.
            let naps = LONGEST_NAP.saturating_mul(turns.try_into().unwrap_or(u32::MAX));
            (turns, waited, took.saturating_sub(ran + waited + naps))
        });
        let result = match measured {
            Ok(measured) => {
                self.queues = Some(queues);
                Ok(measured)
            }
            Err(failure) => {
                queues.close();
                match failure.kind {
                    Kind::Nic if attempt.lacks_answer() => Err(ProbeFailure::NoAnswer),
                    Kind::Nic => Err(ProbeFailure::Error),
                    _ => return Err(failure),
                }
            }
        };
        Ok(EndedProbe { result, turns, waited, stopped, took })
    }

    /// Releases the NIC.
    pub fn close(self) {
        if let Some(queues) = self.queues {
            queues.close();
        }
        self.target.close();
    }
}

/// The latencies of a burst. They need less memory than a histogram, on each NIC all day.
#[derive(Default)]
struct Burst(Vec<u64>);

impl Record for Burst {
    fn begin(&mut self) {}

    fn record(&mut self, latency: u64) -> bool {
        self.0.push(latency);
        false
    }
}

/// The loop of a burst.
struct BurstLoop<'a> {
    schedule: Schedule,
    attempt: &'a Attempt,
    clock: ChosenClock,
}

impl RepeatTransaction for BurstLoop<'_> {
    type Output = Burst;

    fn run(self, transaction: &mut impl Transaction) -> Result<Burst, Failure> {
        let policy = &mut WaitPolicy::new(self.attempt);
        let mut burst = Burst(Vec::with_capacity(WRITES as usize));
        repeat_with(self.clock, transaction, self.schedule, policy, &mut burst)?;
        Ok(burst)
    }
}

fn burst(
    queues: &mut Queues,
    run: &RunOptions,
    attempt: &Attempt,
    clock: &mut RunClock,
) -> Result<ProbeFigure, Failure> {
    let size = run.min_size;
    let schedule = Schedule::of(run, size);
    let measuring = BurstLoop { schedule, attempt, clock: clock.clock() };
    let Burst(mut latencies) = WriteLatency::measure(&mut queues.burst, run, size, measuring)?;
    latencies.sort_unstable();
    let [Some(min), Some(median), Some(max)] =
        [latencies.first(), latencies.get(latencies.len() / 2), latencies.last()]
    else {
        return Err(Failure::environment("a burst has no writes"));
    };
    let [min, median, max] = [min, median, max].map(|latency| Duration::from_nanos(*latency));
    Ok(ProbeFigure::Burst(BurstLatencies { min, median, max }))
}

fn bulk(queues: &mut Queues, run: &RunOptions, attempt: &Attempt) -> Result<ProbeFigure, Failure> {
    let results = lists::<WriteBandwidth>(&attempt.context(run), &mut queues.bulk)?;
    match rates(run, &results.own) {
        Figures::Bandwidth { bytes_per_second, .. } => Ok(ProbeFigure::Bulk(bytes_per_second)),
        Figures::Latency { .. } => Err(Failure::environment("a bulk write has no bandwidth")),
    }
}
