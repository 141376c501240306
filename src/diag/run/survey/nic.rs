//! One NIC of a process: its thread, and what it does in each slot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use super::counter_watch::{LoadWatch, Watch};
use super::load_task::perform;
use super::slot::{is_too_short, most_beyond, reason};
use crate::targets::{Attempt, LoadTimes, NicPlan, TargetNic, TestPlan, Window};
use cluster::load::timetable::{LoadResult, LoadTask};
use cluster::location::Location;
use cluster::survey::answer::{Answer, CounterEvidence};
use cluster::survey::timetable::{NicFacts, Part, Task};
use cluster::survey::untested::Untested;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use facts::severity::Severity;
use node::backend;
use node::machine::Machine;
use node::nic::files::Files;
use node::nic::health::address::algorithmic;
use plan::run_options::Side;

/// An order to the thread of a NIC.
pub enum NicOrder {
    /// Opens the targets of tests.
    Begin {
        tests: Vec<TestPlan>,
        /// Time for a pair.
        pair: Duration,
        /// Dropped when the targets are open.
        done: Sender<()>,
    },
    /// Does tasks of a block in their order.
    Run {
        /// The tasks, each with its slot.
        tasks: Vec<(Task, Window)>,
        /// Receives a report of each.
        reports: Sender<Report>,
    },
    /// Does tasks of a block under load in their order.
    RunLoad {
        /// The tasks, each with the parts of its slot.
        tasks: Vec<(LoadTask, LoadTimes)>,
        /// Bytes that an aggressor has under way at most.
        window_bytes: u64,
        /// Receives a report of each.
        reports: Sender<LoadTaskReport>,
    },
}

/// What has come of one task.
pub struct Report {
    pub task: Task,
    /// The result, if this side has one: an initiator, or a target that failed.
    pub answer: Option<Answer>,
    /// How long this side waited for its CPU, in percent of the time in which the pair was
    /// measured.
    pub waited_percent: u8,
    /// How long this side has worked beyond the time in which a pair is measured; zero if it
    /// failed, and the most if the slot was too short.
    pub beyond: Duration,
    /// Changes of the counters of an initiator; in the sweep, only of lost and damaged packets.
    pub counters: Vec<CounterEvidence>,
    /// Address of the NIC after the task, or why it cannot be opened again.
    pub address: Result<FabricAddress, String>,
}

/// What has come of one task under load.
pub struct LoadTaskReport {
    pub result: LoadResult,
    /// Address of the NIC after the task, or why it cannot be opened again.
    pub address: Result<FabricAddress, String>,
}

/// What the thread of a NIC does, for the process that waits for it.
#[derive(Clone, Debug)]
pub struct CurrentStep(Arc<Mutex<&'static str>>);

impl Default for CurrentStep {
    fn default() -> Self {
        Self(Arc::new(Mutex::new("opening it")))
    }
}

impl CurrentStep {
    fn begin(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Returns what the thread does.
    pub fn name(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most tasks after which a NIC is opened again between two blocks. An interface gives the counters
/// that it has destroyed back only when it is released itself, and the NIC has 2047 (libcxi.md 10).
pub const MOST_TASKS: u32 = 100;

/// A NIC in its thread.
pub struct Nic {
    step: CurrentStep,
    nic: TargetNic,
    /// Tasks since the NIC was opened.
    tasks: u32,
    /// Time for a pair.
    pair: Duration,
    /// Initiators of this block have another address of this NIC.
    has_moved: bool,
}

impl Nic {
    /// Opens the NIC, as [`TargetNic::open`] does. `step` tells what it does.
    pub fn open(plan: NicPlan, place: usize, step: CurrentStep) -> Result<Self, Failure> {
        Ok(Self {
            step,
            nic: TargetNic::open(plan, place)?,
            tasks: 0,
            pair: Duration::ZERO,
            has_moved: false,
        })
    }

    /// Returns what the process introduces the NIC with.
    pub fn facts(&self) -> NicFacts {
        let device = self.nic.device();
        let endpoint = self.nic.endpoint();
        let own = endpoint.as_ref().ok().map(|endpoint| endpoint.address());
        let machine = Machine::this();
        let files = backend::files(device, &machine);
        // Without that address its bits mean nothing (jobs.md 3.5).
        let is_algorithmic = |files: &Files| algorithmic(files).verdict == Severity::Good;
        NicFacts {
            device: device.to_string(),
            address: own.map(|own| own.address),
            vni: own.map_or(0, |own| own.vni),
            class: own.map_or(String::new(), |own| own.class.to_string()),
            location: own
                .filter(|_| backend::has_location(device, &machine))
                .filter(|_| files.as_ref().is_ok_and(is_algorithmic))
                .map(|own| Location::from_nid(own.address.nic)),
            simulated: own.is_some_and(|own| own.simulated),
            failure: endpoint.err(),
        }
    }

    /// Follows `orders` until their end. Then it releases the NIC.
    pub fn follow(mut self, orders: &Receiver<NicOrder>) {
        for order in orders {
            match order {
                NicOrder::Begin { tests, pair, done } => {
                    self.pair = pair;
                    self.nic.begin(tests, pair);
                    drop(done);
                }
                NicOrder::Run { tasks, reports } => {
                    self.has_moved = false;
                    let mut tasks = tasks.into_iter().peekable();
                    while let Some((task, window)) = tasks.next() {
                        let is_last = tasks.peek().is_none();
                        // The receiver is gone if this NIC was given up.
                        let _ = reports.send(self.run(task, window, is_last));
                    }
                }
                NicOrder::RunLoad { tasks, window_bytes, reports } => {
                    self.has_moved = false;
                    let mut tasks = tasks.into_iter().peekable();
                    while let Some((task, times)) = tasks.next() {
                        let is_last = tasks.peek().is_none();
                        let report = self.run_load(task, times, window_bytes, is_last);
                        // The receiver is gone if this NIC was given up.
                        let _ = reports.send(report);
                    }
                }
            }
        }
        self.nic.close();
    }

    /// Does a task in its slot. The set-up begins at once: this NIC has ended its task before, and
    /// its peer does not notice.
    fn run(&mut self, task: Task, window: Window, is_last: bool) -> Report {
        let side = match task.part {
            Part::Initiator | Part::Alone => Side::Client,
            Part::Target => Side::Server,
        };
        let confined = self.nic.confine(side);
        let attempt = Attempt::new(window, side);
        self.step.begin("reading its counters");
        let watch = (side == Side::Client)
            .then(|| attempt.beyond(Duration::ZERO, || Watch::begin(self.nic.device(), task.stage)))
            .flatten();
        let (answer, is_released) = match attempt.check() {
            Ok(()) => self.perform(&task, &attempt),
            Err(failure) => (Some(Answer::Untested(reason(&failure))), true),
        };
        drop(confined);
        self.step.begin("reading its counters");
        let changes =
            watch.map_or(Vec::new(), |watch| attempt.beyond(Duration::ZERO, || watch.end()));
        let counter_evidence = |(counter, change): (&str, u64)| CounterEvidence {
            nic: task.pair.initiator,
            counter: counter.to_owned(),
            change,
        };
        self.end_task(is_released, is_last);
        let has_failed = matches!(answer, Some(Answer::Failed(_)));
        Report {
            beyond: if has_failed {
                Duration::ZERO
            } else if is_too_short(&attempt, self.pair) {
                most_beyond(self.pair)
            } else {
                attempt.needed_beyond()
            },
            task,
            answer,
            waited_percent: attempt.waited_percent(),
            counters: changes.into_iter().map(counter_evidence).collect(),
            address: self.nic.address(),
        }
    }

    /// Opens the NIC again after a task that left something, and after the last task of a block if
    /// it has had many: no initiator needs it then.
    fn end_task(&mut self, is_released: bool, is_last: bool) {
        self.tasks += 1;
        if !is_released || is_last && self.tasks >= MOST_TASKS {
            self.reopen();
        }
    }

    /// Opens the NIC again, and notes whether its address has changed.
    fn reopen(&mut self) {
        self.tasks = 0;
        self.step.begin("opening it again");
        let before = self.nic.address();
        self.nic.reopen();
        self.has_moved |= self.nic.address() != before;
    }

    /// Does a task under load in its slot. The set-up begins at once, as without load.
    fn run_load(
        &mut self,
        task: LoadTask,
        times: LoadTimes,
        window_bytes: u64,
        is_last: bool,
    ) -> LoadTaskReport {
        self.step.begin("measuring under load");
        let watch = LoadWatch::begin(self.nic.device());
        let has_moved = self.has_moved;
        let outcome = perform(&mut self.nic, &task.part, (times, window_bytes), has_moved);
        let counters = watch.end();
        self.end_task(outcome.is_released, is_last);
        LoadTaskReport {
            result: LoadResult {
                slot: task.slot,
                nic: task.nic,
                answer: outcome.answer,
                waited_percent: outcome.waited_percent,
                counters,
            },
            address: self.nic.address(),
        }
    }

    /// Returns the answer of this side, if it has one, and whether everything was released.
    fn perform(&mut self, task: &Task, attempt: &Attempt) -> (Option<Answer>, bool) {
        let own = match self.nic.address() {
            Ok(own) => own,
            Err(why) => return (Some(Answer::Untested(Untested::Other(why))), true),
        };
        let target_failure = self.nic.target_failure(task.test.index());
        if let (Part::Target | Part::Alone, Some(failure)) = (task.part, target_failure) {
            return (Some(Answer::Failed(failure.to_owned())), true);
        }
        let peer = match task.part {
            Part::Initiator | Part::Target => task.peer,
            Part::Alone => own,
        };
        if task.part == Part::Target {
            if self.has_moved {
                let why = format!("the address of {} has changed", self.nic.device());
                return (Some(Answer::Untested(Untested::Other(why))), true);
            }
            self.step.begin("measuring as target");
            let done = self.nic.serve(task.test.index(), peer, attempt);
            let failure = done.result.err();
            return (
                failure.map(|failure| answer_of(&failure, attempt, self.pair)),
                done.is_released,
            );
        }
        self.step.begin("measuring as initiator");
        let done = self.nic.measure(task.test.index(), peer, attempt);
        let answer = match &done.result {
            Ok(figures) => Answer::Measured(*figures),
            Err(failure) => answer_of(failure, attempt, self.pair),
        };
        (Some(answer), done.is_released)
    }
}

/// Returns what a failure says about a pair. The pair is measured again after a failure of
/// this process, a failure while this process did not run, and a failure in a slot that is too
/// short.
fn answer_of(failure: &Failure, attempt: &Attempt, pair: Duration) -> Answer {
    match attempt.stalled() {
        _ if failure.kind != Kind::Nic => Answer::Untested(reason(failure)),
        Some(_) => Answer::Untested(Untested::Paused),
        None if is_too_short(attempt, pair) => Answer::Untested(Untested::ShortSlot),
        None => Answer::Failed(failure.message()),
    }
}
