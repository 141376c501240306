//! One NIC of a process: its thread, what it does in each slot, with load and without, when
//! operations run there, and what an attempt in a slot says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use super::counter_watch::{CounterWatch, LoadWatch};
use crate::targets::{Attempt, LoadTimes, NicPlan, TargetNic, TestPlan, Window};
use campaign::quiet::answer::Untested;
use campaign::quiet::roster::{NicId, TestId};
use campaign::slots::pace::{MARGIN, longest_window, most_beyond};
use campaign::timetable::{Block, SlotTask, SlotTimes, Task, TaskAnswer, TaskResult};
use crew::introduction::IntroducedNic;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use node::machine::Machine;
use node::nic::counters::NicFacts;
use node::nic::files::Files;
use node::nic::link_speed::LinkSpeed;
use plan::run_options::Side;

/// An order to the thread of a NIC.
pub enum ThreadOrder {
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
        block: Arc<Block>,
        /// The tasks, each with the begin of its slot.
        tasks: Vec<(Task, Instant)>,
        /// Receives a report of each.
        reports: Sender<TaskReport>,
    },
}

/// What has come of one task.
pub struct TaskReport {
    /// The slot and the NIC.
    pub place: (u32, NicId),
    /// The result; none of a target that has done its part without load.
    pub result: Option<TaskResult>,
    /// How long this side has worked beyond the time in which a pair is measured; zero if it
    /// failed, and the most if the slot was too short. Zero under load.
    pub beyond: Duration,
    /// Address of the NIC after the task, or why it cannot be opened again.
    pub address: Result<FabricAddress, String>,
}

/// A task without load: one side of a pair.
struct PairTask {
    side: Side,
    test: TestId,
    /// The other NIC; the NIC itself in loopback.
    peer: NicId,
    is_alone: bool,
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

/// The speed of the link of a NIC as the driver shows it, in Gb/s.
fn link_gbps(device: String) -> Option<u32> {
    let files = Files::new(Machine::this().root(), device.clone());
    let mode = NicFacts::read(&files, device, false).link_speed?;
    Some(LinkSpeed::of(&mode)?.gigabits_per_s as u32)
}

/// A NIC in its thread.
pub struct MemberNic {
    step: CurrentStep,
    nic: TargetNic,
    /// Tasks since the NIC was opened.
    tasks: u32,
    /// Time for a pair.
    pair: Duration,
    /// Initiators of this block have another address of this NIC.
    has_moved: bool,
}

impl MemberNic {
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
    pub fn facts(&self) -> IntroducedNic {
        let device = self.nic.device();
        let endpoint = self.nic.endpoint();
        let own = endpoint.as_ref().ok().map(|endpoint| endpoint.address());
        IntroducedNic {
            device: device.to_string(),
            address: own.map(|own| own.address),
            vni: own.map_or(0, |own| own.vni),
            class: own.map_or(String::new(), |own| own.class.to_string()),
            location: self.nic.location(),
            simulated: own.is_some_and(|own| own.simulated),
            link_gbps: link_gbps(device.to_string()),
            failure: endpoint.err(),
        }
    }

    /// Follows `orders` until their end. Then it releases the NIC.
    pub fn follow(mut self, orders: &Receiver<ThreadOrder>) {
        for order in orders {
            match order {
                ThreadOrder::Begin { tests, pair, done } => {
                    self.pair = pair;
                    self.nic.begin(tests, pair);
                    drop(done);
                }
                ThreadOrder::Run { block, tasks, reports } => {
                    self.has_moved = false;
                    let mut tasks = tasks.into_iter().peekable();
                    while let Some((task, begins)) = tasks.next() {
                        let is_last = tasks.peek().is_none();
                        // The receiver is gone if this NIC was given up.
                        let _ = reports.send(self.run(&block, task, begins, is_last));
                    }
                }
            }
        }
        self.nic.close();
    }

    /// Does a task in its slot, which begins at this instant. The set-up begins at once: this NIC
    /// has ended its task before, and its peer does not notice.
    fn run(&mut self, block: &Block, task: Task, begins: Instant, is_last: bool) -> TaskReport {
        let length = Duration::from_nanos(block.slot_ns);
        let (result, beyond, is_released) = match block.window_bytes {
            Some(window_bytes) => {
                let times = LoadTimes::new(begins, SlotTimes::from_slot(block.slot_ns));
                let (result, is_released) = self.run_loaded(block, &task, (times, window_bytes));
                (Some(result), Duration::ZERO, is_released)
            }
            None => self.run_quiet(block, &task, window(begins, length)),
        };
        self.end_task(is_released, is_last, begins + length);
        let address = self.nic.address();
        TaskReport { place: (task.slot, task.nic), result, beyond, address }
    }

    /// Does a task without load. Returns its result, how long it has worked beyond the time of a
    /// pair, and whether everything was released.
    fn run_quiet(
        &mut self,
        block: &Block,
        task: &Task,
        window: Window,
    ) -> (Option<TaskResult>, Duration, bool) {
        let (side, test, peer, reads_all_counters) = match task.part {
            SlotTask::Measure { test, target, reads_all_counters } => {
                (Side::Client, test, target, reads_all_counters)
            }
            SlotTask::Answer { test, initiator } => (Side::Server, test, initiator, false),
            // `Block::is_valid` refuses them without load.
            SlotTask::Send { .. } | SlotTask::Watch => return (None, Duration::ZERO, true),
        };
        let confined = self.nic.confine(side);
        let attempt = Attempt::new(window, side);
        self.step.begin("reading its counters");
        let begin = || CounterWatch::begin(self.nic.device(), reads_all_counters);
        let is_initiator = side == Side::Client;
        let watch = is_initiator.then(|| attempt.beyond(Duration::ZERO, begin));
        let pair = PairTask { side, test, peer, is_alone: peer == task.nic };
        let (answer, is_released) = match attempt.check() {
            Ok(()) => self.perform(block, &pair, &attempt),
            Err(failure) => (Some(TaskAnswer::Untested((&failure).into())), true),
        };
        drop(confined);
        self.step.begin("reading its counters");
        let changes =
            watch.map_or(Vec::new(), |watch| attempt.beyond(Duration::ZERO, || watch.end()));
        let counters = changes.into_iter().map(|(name, change)| (name.to_owned(), change));
        let beyond = if matches!(answer, Some(TaskAnswer::Failed(_) | TaskAnswer::NoAnswer(_))) {
            Duration::ZERO
        } else if is_too_short(&attempt, self.pair) {
            most_beyond(self.pair)
        } else {
            attempt.needed_beyond()
        };
        let result = answer.map(|answer| TaskResult {
            waited_percent: attempt.waited_percent(),
            counters: counters.collect(),
            ..TaskResult::new(task.slot, task.nic, answer)
        });
        (result, beyond, is_released)
    }

    /// Opens the NIC again after a task that left something, and after the last task of a block if
    /// it has had many: when the slot has ended, no initiator needs it. A target may have nothing
    /// to do in its slot.
    fn end_task(&mut self, is_released: bool, is_last: bool, slot_ends: Instant) {
        self.tasks += 1;
        let has_had_many = is_last && self.tasks >= MOST_TASKS;
        if has_had_many {
            thread::sleep(slot_ends.saturating_duration_since(Instant::now()));
        }
        if has_had_many || !is_released {
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

    /// Does a task under load. Returns its result, and whether everything was released.
    fn run_loaded(
        &mut self,
        block: &Block,
        task: &Task,
        time_and_window: (LoadTimes, u64),
    ) -> (TaskResult, bool) {
        self.step.begin("measuring under load");
        let watch = LoadWatch::begin(self.nic.device());
        let has_moved = self.has_moved;
        let part = (&task.part, &block.addresses);
        let outcome = perform(&mut self.nic, part, time_and_window, has_moved);
        let result = TaskResult {
            waited_percent: outcome.waited_percent,
            watched: watch.end(),
            ..TaskResult::new(task.slot, task.nic, outcome.answer)
        };
        (result, outcome.is_released)
    }

    /// The answer of this side of a pair, if it has one, and whether everything was released.
    fn perform(
        &mut self,
        block: &Block,
        pair: &PairTask,
        attempt: &Attempt,
    ) -> (Option<TaskAnswer>, bool) {
        let own = match self.nic.address() {
            Ok(own) => own,
            Err(why) => return (Some(TaskAnswer::Untested(Untested::Other(why))), true),
        };
        let is_target = pair.side == Side::Server;
        let target_failure = self.nic.target_failure(pair.test.index());
        if let Some(failure) = target_failure.filter(|_| is_target || pair.is_alone) {
            return (Some(TaskAnswer::Failed(failure.to_owned())), true);
        }
        let peer = if pair.is_alone { own } else { block.addresses[&pair.peer] };
        if is_target {
            if self.has_moved {
                let why = format!("the address of {} has changed", self.nic.device());
                return (Some(TaskAnswer::Untested(Untested::Other(why))), true);
            }
            self.step.begin("measuring as target");
            let done = self.nic.serve(pair.test.index(), peer, attempt);
            let failure = done.result.err();
            return (
                failure.map(|failure| answer_of(&failure, attempt, self.pair)),
                done.is_released,
            );
        }
        self.step.begin("measuring as initiator");
        let done = self.nic.measure(pair.test.index(), peer, attempt);
        let answer = match &done.result {
            Ok(figures) => TaskAnswer::Figures(*figures),
            Err(failure) => answer_of(failure, attempt, self.pair),
        };
        (Some(answer), done.is_released)
    }
}

/// Returns what a failure says about a pair. The pair is measured again after a failure of
/// this process, a failure while this process did not run, and a failure in a slot that is too
/// short.
fn answer_of(failure: &Failure, attempt: &Attempt, pair: Duration) -> TaskAnswer {
    match attempt.stalled() {
        _ if failure.kind != Kind::Nic => TaskAnswer::Untested(failure.into()),
        Some(_) => TaskAnswer::Untested(Untested::Paused),
        None if is_too_short(attempt, pair) => TaskAnswer::Untested(Untested::ShortSlot),
        None if attempt.lacks_answer() => TaskAnswer::NoAnswer(failure.message()),
        None => TaskAnswer::Failed(failure.message()),
    }
}

/// The window of a slot of this `length`. The set-up may begin before the slot.
fn window(begins: Instant, length: Duration) -> Window {
    let margin = length / MARGIN;
    Window { ready: begins + margin, ends: begins + (length - margin) }
}

/// Whether an operation of `attempt` had no answer that it may have in a longer slot: the longest
/// one, or one of pairs that are measured for longer than the time `pair`.
fn is_too_short(attempt: &Attempt, pair: Duration) -> bool {
    let is_longest = attempt.time_for_operations() >= longest_window(pair);
    attempt.lacks_answer() && !(is_longest && attempt.has_waited_long())
}

/// What has come of a task.
pub struct TaskOutcome {
    pub answer: TaskAnswer,
    /// For which part of the counted time the process waited for a CPU, in percent; 0 if the model
    /// of the fabric explains the figures all the same.
    pub waited_percent: u8,
    /// Whether all resources were released, without an operation under way.
    pub is_released: bool,
}

/// The result of a task, and whether everything was released.
type Performed = (Result<TaskAnswer, Failure>, bool);

/// Does a part of `nic`, for which it knows the addresses of its peers. `has_moved` is whether
/// peers know another address of the NIC.
fn perform(
    nic: &mut TargetNic,
    (part, addresses): (&SlotTask, &BTreeMap<NicId, FabricAddress>),
    (times, window_bytes): (LoadTimes, u64),
    has_moved: bool,
) -> TaskOutcome {
    let attempt = attempt(part, times);
    let checked = attempt.check().and_then(|()| check(nic, part, has_moved));
    let (result, is_released) = match checked {
        Err(failure) => (Err(failure), true),
        Ok(()) => match part {
            SlotTask::Send { test, targets } => {
                let peers: Vec<FabricAddress> = targets.iter().map(|nic| addresses[nic]).collect();
                let load = (&peers[..], window_bytes);
                let done = nic.load(test.index(), load, times, &attempt);
                let sent = done
                    .result
                    .map(|sent| TaskAnswer::Sent { bytes: sent.bytes, unreached: sent.unreached });
                (sent, done.is_released)
            }
            SlotTask::Measure { test, target, .. } => {
                measure(nic, *test, addresses[target], times, &attempt)
            }
            SlotTask::Answer { test, initiator } => {
                let confined = nic.confine(Side::Server);
                let done = nic.serve(test.index(), addresses[initiator], &attempt);
                drop(confined);
                (done.result.map(|()| TaskAnswer::Present), done.is_released)
            }
            SlotTask::Watch => {
                let watched = nic.watch(times, &attempt);
                (watched.map(|()| TaskAnswer::Present), true)
            }
        },
    };
    TaskOutcome {
        answer: result.unwrap_or_else(|failure| load_answer(&failure, &attempt)),
        waited_percent: attempt.waited_percent(),
        is_released,
    }
}

fn measure(
    nic: &mut TargetNic,
    test: TestId,
    peer: FabricAddress,
    times: LoadTimes,
    attempt: &Attempt,
) -> Performed {
    let confined = nic.confine(Side::Client);
    let done = nic.measure_loaded(test.index(), peer, times, attempt);
    drop(confined);
    (done.result.map(TaskAnswer::Latencies), done.is_released)
}

/// The attempt of a NIC in its slot.
fn attempt(part: &SlotTask, times: LoadTimes) -> Attempt {
    match part {
        // Bytes show a late start, and say nothing if half of the time is over.
        SlotTask::Send { .. } => {
            let latest = times.count + times.counted_time() / 2;
            Attempt::until(latest, times.aggressor_window(), Side::Client)
        }
        SlotTask::Measure { .. } => {
            Attempt::until(times.counted, times.other_window(), Side::Client)
        }
        SlotTask::Answer { .. } | SlotTask::Watch => {
            Attempt::until(times.counted, times.other_window(), Side::Server)
        }
    }
}

/// Checks that the NIC can take its part.
///
/// # Errors
///
/// The reason why it cannot: of [`Kind::Nic`] if it is about the NIC.
fn check(nic: &TargetNic, part: &SlotTask, has_moved: bool) -> Result<(), Failure> {
    nic.address().map_err(Failure::environment)?;
    if !matches!(part, SlotTask::Answer { .. } | SlotTask::Watch) {
        return Ok(());
    }
    if has_moved {
        let why = format!("the address of {} has changed", nic.device());
        return Err(Failure::environment(why));
    }
    let failed = nic.failed_target();
    failed.map_or(Ok(()), |why| Err(Failure::nic(why.to_owned())))
}

/// Returns what a failure says: a failure of this process, or while this process did not run, says
/// nothing about the fabric.
fn load_answer(failure: &Failure, attempt: &Attempt) -> TaskAnswer {
    if failure.kind != Kind::Nic {
        return TaskAnswer::Untested(failure.into());
    }
    match attempt.stalled() {
        Some(_) => TaskAnswer::Untested(Untested::Paused),
        None => TaskAnswer::Failed(failure.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::nic_plan;
    use super::*;
    use campaign::slots::pace::{longest, sufficient};
    use measure::Supervisor;

    #[test]
    fn nic_that_had_many_tasks_stays_open_to_the_end_of_the_slot() {
        let mut nic = MemberNic::open(nic_plan("soft49"), 0, CurrentStep::default()).unwrap();
        let ends = Instant::now() + Duration::from_millis(200);
        nic.tasks = MOST_TASKS - 1;
        nic.end_task(true, false, ends);
        assert_eq!(nic.tasks, MOST_TASKS);
        nic.end_task(true, true, ends);
        assert!(nic.tasks == 0 && Instant::now() >= ends);
        nic.end_task(false, false, ends);
        assert_eq!(nic.tasks, 0);
        nic.nic.close();
    }

    #[test]
    fn length_of_slot_follows_from_needs() {
        let milliseconds = Duration::from_millis;
        let pair = milliseconds(30);
        let now = Instant::now();
        let times = window(now, longest(pair));
        assert_eq!(times.ready - now, milliseconds(25));
        assert_eq!(times.length(), 5 * pair);
        for (beyond, length) in [(0, 60), (7, 60), (15, 80), (60, 200), (900, 200)] {
            assert_eq!(sufficient(pair, milliseconds(beyond)), milliseconds(length));
        }
    }

    #[test]
    fn two_margins_suffice_for_a_target() {
        let (pair, beyond) = (Duration::from_millis(10), Duration::from_millis(15));
        let length = sufficient(pair, beyond);
        let now = Instant::now();
        let [one, next] = [now, now + length].map(|begins| window(begins, length));
        assert_eq!(next.ready - one.ends, beyond);
    }

    #[test]
    fn short_slot_does_not_decide_that_an_answer_is_missing() {
        let pair = Duration::from_millis(30);
        let is_too_short = |length, waited| {
            let attempt = Attempt::new(window(Instant::now(), length), Side::Client);
            assert!(!super::is_too_short(&attempt, pair));
            attempt.no_answer("write", Duration::from_millis(waited));
            super::is_too_short(&attempt, pair)
        };
        assert!(is_too_short(sufficient(pair, Duration::ZERO), 45));
        // Earlier operations have taken half of a window of 150 ms.
        assert!(is_too_short(longest(pair), 74));
        assert!(!is_too_short(longest(pair), 75));
    }
}
