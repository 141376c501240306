//! One NIC of a process: its thread, its endpoint, and what it does in each slot.

use std::mem;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use cxi::placement::Confined;
use cxi::sys::C_PID_ANY;

use super::by_tool::test;
use super::counter_watch::Watch;
use super::halves::Halves;
use super::instruments::Instruments;
use super::rules::TestPlan;
use super::slot::{Slot, Times, most_beyond};
use super::test::Test;
use crate::endpoint::Endpoint;
use cluster::location::Location;
use cluster::survey::answer::{Answer, CounterEvidence};
use cluster::survey::timetable::{NicFacts, Part, Task};
use cluster::survey::untested::Untested;
use facts::device::{DeviceName, FabricAddress, LibraryFile};
use facts::error::{Failure, Kind};
use node::backend;
use node::gpu::OnGpus;
use node::machine::Machine;
use node::machine::placement::{Cpus, Placement};
use node::nic::files::Files;
use node::nic::health::Verdict;
use node::nic::health::address::algorithmic;
use node::service::{ServiceOptions, ServiceRequest};
use plan::Site;
use plan::run_options::Side;

/// How a NIC is opened.
#[derive(Clone, Debug)]
pub struct NicPlan {
    /// The NIC.
    pub device: DeviceName,
    /// The options about service, VNI and traffic class.
    pub service: ServiceOptions,
    /// Library to load for a hardware device; `None` for the system's `libcxi.so.1`.
    pub libcxi: Option<LibraryFile>,
    /// The CPUs that the user has requested.
    pub cpus: Cpus,
}

/// An order to the thread of a NIC.
pub enum Order {
    /// Opens the targets of tests.
    Begin {
        /// The tests.
        tests: Vec<TestPlan>,
        /// Time for a pair.
        pair: Duration,
        /// Dropped when the targets are open.
        done: Sender<()>,
    },
    /// Does tasks of a block in their order.
    Run {
        /// The tasks, each with its slot.
        tasks: Vec<(Task, Times)>,
        /// Receives a report of each.
        reports: Sender<Report>,
    },
}

/// What has come of one task.
pub struct Report {
    /// The task.
    pub task: Task,
    /// The result, if this side has one: that of an initiator, or of a target that failed.
    pub answer: Option<Answer>,
    /// How long this side has worked beyond the time in which a pair is measured; zero if it failed,
    /// and the most if the slot was too short.
    pub beyond: Duration,
    /// Changes of the counters of an initiator; in the sweep, only of packets sent again.
    pub counters: Vec<CounterEvidence>,
    /// Address of the NIC after the task, or why it cannot be opened again.
    pub address: Result<FabricAddress, String>,
}

/// A NIC in its thread.
pub struct Nic {
    plan: NicPlan,
    service: ServiceRequest,
    placement: Placement,
    /// CPUs of a software NIC, unless the user has chosen some.
    halves: Option<Halves>,
    endpoint: Result<Endpoint, String>,
    tests: Vec<OpenTest>,
    /// Time for a pair.
    pair: Duration,
    instruments: Instruments,
    /// Initiators of this block have another address of this NIC.
    has_moved: bool,
}

/// A test, and why its target is not open.
struct OpenTest {
    test: Box<dyn Test>,
    failure: Option<String>,
}

impl Nic {
    /// Opens the NIC, and moves the calling thread to its CPUs. NICs with another `place` get other
    /// CPUs, if they are to be chosen.
    ///
    /// # Errors
    ///
    /// Invalid variables of the job, CPUs that cannot be used, and a device or service that cannot be
    /// opened or used.
    pub fn open(plan: NicPlan, place: usize) -> Result<Self, Failure> {
        let service = ServiceRequest::of_environment(plan.service, plan.device)?;
        let mut placement = Placement::choose(&plan.cpus, plan.device, &Machine::this(), false)?;
        if plan.cpus == Cpus::Auto {
            placement.cpus = placement.of_threads(place + 1, false).split_off(place);
        }
        let has_choice = plan.device.platform().runs_on_cpus && plan.cpus == Cpus::Any;
        let halves = has_choice.then(Halves::of_this_process).flatten();
        // The thread of a software NIC starts with it.
        let confined = confine(halves.as_ref(), Side::Server);
        let endpoint = allocate(&plan, &service, &placement, C_PID_ANY)?;
        drop(confined);
        Ok(Self {
            plan,
            service,
            placement,
            halves,
            endpoint: Ok(endpoint),
            tests: Vec::new(),
            pair: Duration::ZERO,
            instruments: Instruments::new()?,
            has_moved: false,
        })
    }

    /// Returns its endpoint, as long as it is open.
    fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref().ok()
    }

    /// Returns what the process introduces the NIC with.
    pub fn facts(&self) -> NicFacts {
        let device = self.plan.device;
        let own = self.endpoint().map(Endpoint::address);
        let files = backend::files(device, &Machine::this());
        // Without that address its bits mean nothing (jobs.md 3.5).
        let is_algorithmic = |files: &Files| algorithmic(files).verdict == Verdict::Good;
        NicFacts {
            device: device.to_string(),
            address: own.map(|own| own.address),
            vni: own.map_or(0, |own| own.vni),
            class: own.map_or(String::new(), |own| own.class.to_string()),
            location: own
                .filter(|_| files.as_ref().is_ok_and(is_algorithmic))
                .map(|own| Location::of_nid(own.address.nic)),
            simulated: own.is_some_and(|own| own.simulated),
            failure: self.endpoint.as_ref().err().cloned(),
        }
    }

    fn address(&self) -> Option<FabricAddress> {
        Some(self.endpoint()?.address().address)
    }

    /// Follows `orders` until their end. Then it releases the NIC.
    pub fn follow(mut self, orders: &Receiver<Order>) {
        for order in orders {
            match order {
                Order::Begin { tests, pair, done } => {
                    self.begin(tests, pair);
                    drop(done);
                }
                Order::Run { tasks, reports } => {
                    self.has_moved = false;
                    for (task, times) in tasks {
                        // The receiver is gone if this NIC was given up.
                        let _ = reports.send(self.run(task, times));
                    }
                }
            }
        }
        self.close_targets();
        if let Ok(endpoint) = self.endpoint {
            let _ = endpoint.close();
        }
    }

    fn begin(&mut self, tests: Vec<TestPlan>, pair: Duration) {
        self.close_targets();
        self.pair = pair;
        let tests = tests.into_iter().enumerate();
        let tests = tests.map(|(index, plan)| OpenTest {
            test: test(index, plan, pair),
            failure: None,
        });
        self.tests = tests.collect();
        self.open_targets();
    }

    /// Opens the targets that stay open.
    fn open_targets(&mut self) {
        let Ok(endpoint) = &self.endpoint else {
            return;
        };
        for open in &mut self.tests {
            let opened = open.test.open_target(endpoint);
            open.failure = opened.err().map(|failure| failure.message());
        }
    }

    fn close_targets(&mut self) {
        for open in &mut self.tests {
            // What is left over ends with the interface.
            let _ = open.test.close_target();
        }
    }

    /// Opens the NIC again, so that nothing of a failed operation is left. Its address stays the same
    /// if its PID is free.
    fn reopen(&mut self) {
        let before = self.address();
        self.close_targets();
        let closed = Err("the NIC is closed".to_owned());
        if let Ok(endpoint) = mem::replace(&mut self.endpoint, closed) {
            let _ = endpoint.close();
        }
        let _confined = confine(self.halves.as_ref(), Side::Server);
        let allocate = |pid| allocate(&self.plan, &self.service, &self.placement, pid);
        let same = before.map_or(C_PID_ANY, |before| before.pid);
        let endpoint = allocate(same).or_else(|_| allocate(C_PID_ANY));
        self.endpoint = endpoint.map_err(|failure| failure.message());
        self.has_moved |= self.address() != before;
        self.open_targets();
    }

    /// Does a task in its slot. The set-up begins at once: this NIC has ended its task before, and its
    /// peer does not notice.
    fn run(&mut self, task: Task, times: Times) -> Report {
        let side = match task.part {
            Part::Initiator | Part::Alone => Side::Client,
            Part::Target => Side::Server,
        };
        let confined = confine(self.halves.as_ref(), side);
        let slot = Slot::new(times, side);
        let watch = (side == Side::Client)
            .then(|| {
                slot.beyond(Duration::ZERO, || {
                    Watch::begin(self.plan.device, task.stage)
                })
            })
            .flatten();
        let (answer, is_released) = match slot.check() {
            Ok(()) => self.perform(&task, &slot),
            Err(failure) => (Some(Answer::Untested((&failure).into())), true),
        };
        drop(confined);
        let changes = watch.map_or(Vec::new(), |watch| {
            slot.beyond(Duration::ZERO, || watch.end())
        });
        let counter_evidence = |(counter, change): (&str, u64)| CounterEvidence {
            nic: task.pair.initiator,
            counter: counter.to_owned(),
            change,
        };
        if !is_released {
            self.reopen();
        }
        let has_failed = matches!(answer, Some(Answer::Failed(_)));
        Report {
            beyond: if has_failed {
                Duration::ZERO
            } else if slot.is_too_short(self.pair) {
                most_beyond(self.pair)
            } else {
                slot.needed_beyond()
            },
            task,
            answer,
            counters: changes.into_iter().map(counter_evidence).collect(),
            address: match &self.endpoint {
                Ok(endpoint) => Ok(endpoint.address().address),
                Err(why) => Err(unopened(self.plan.device, why)),
            },
        }
    }

    /// Returns the answer of this side, if it has one, and whether everything was released.
    fn perform(&mut self, task: &Task, slot: &Slot) -> (Option<Answer>, bool) {
        let endpoint = match &self.endpoint {
            Ok(endpoint) => endpoint,
            Err(why) => {
                let why = unopened(self.plan.device, why);
                return (Some(Answer::Untested(Untested::Other(why))), true);
            }
        };
        let OpenTest { test, failure } = &self.tests[task.test.index()];
        if let (Part::Target | Part::Alone, Some(failure)) = (task.part, failure) {
            return (Some(Answer::Failed(failure.clone())), true);
        }
        let peer = match task.part {
            Part::Initiator | Part::Target => task.peer,
            Part::Alone => endpoint.address().address,
        };
        if task.part == Part::Target {
            if self.has_moved {
                let why = format!("the address of {} has changed", self.plan.device);
                return (Some(Answer::Untested(Untested::Other(why))), true);
            }
            let done = test.serve(endpoint, peer, slot);
            return (
                done.result
                    .err()
                    .map(|failure| answer_of(&failure, slot, self.pair)),
                done.is_released,
            );
        }
        let done = test.measure(endpoint, peer, slot, &mut self.instruments);
        let answer = match &done.result {
            Ok(figures) => Answer::Measured(*figures),
            Err(failure) => answer_of(failure, slot, self.pair),
        };
        (Some(answer), done.is_released)
    }
}

/// Returns what a failure says about a pair. A failure of this process, or during a time in which it
/// did not run, says nothing, and a slot that is too short does not decide: the pair is measured again.
fn answer_of(failure: &Failure, slot: &Slot, pair: Duration) -> Answer {
    match slot.stalled() {
        _ if failure.kind != Kind::Nic => Answer::Untested(failure.into()),
        Some(_) => Answer::Untested(Untested::Paused),
        None if slot.is_too_short(pair) => Answer::Untested(Untested::ShortSlot),
        None => Answer::Failed(failure.message()),
    }
}

/// Returns why a NIC that could not be opened again is not open.
fn unopened(device: DeviceName, why: &str) -> String {
    format!("{device} cannot be opened again: {why}")
}

fn confine(halves: Option<&Halves>, side: Side) -> Option<Confined> {
    halves?.confine(side)
}

/// Allocates an endpoint with this PID.
fn allocate(
    plan: &NicPlan,
    service: &ServiceRequest,
    placement: &Placement,
    pid: u32,
) -> Result<Endpoint, Failure> {
    let site = Site {
        device: plan.device,
        service,
        cpus: &plan.cpus,
        placement,
        gpus: OnGpus::default(),
    };
    let device = backend::open(plan.device, plan.libcxi.as_ref())?;
    Endpoint::with_pid(site, None, device, pid)
}
