//! One NIC with targets that stay open, and the CPUs of the two sides of a pair on one machine, if
//! threads do the work of the NICs. The kernel tends to run the thread of the target's NIC on the
//! CPU of the initiator, which spins, and leaves it there for longer than a pair is measured. So
//! initiators keep to one half of the CPUs, targets to the other.

use std::mem;
use std::time::Duration;

use cxi::placement::{self, Confined};
use cxi::sys::C_PID_ANY;

use super::by_tool::test;
use super::test::{Done, Instruments, NicTest, PairTime, TestPlan};
use super::window::Attempt;
use crew::location::Location;
use diag::endpoint::Endpoint;
use facts::device::{DeviceName, FabricAddress, LibraryFile};
use facts::error::Failure;
use facts::figures::Figures;
use facts::severity::Severity;
use health::address::algorithmic;
use node::backend;
use node::gpu::OnGpus;
use node::machine::Machine;
use node::machine::placement::{Cpus, Placement};
use node::service::{ServiceOptions, ServiceRequest};
use node::traffic_class::TrafficClass;
use plan::run_options::{RunOptions, Side};
use plan::{Plan, Site};

/// How a NIC is opened.
#[derive(Clone, Debug)]
pub struct NicPlan {
    pub device: DeviceName,
    /// The options about service, VNI and traffic class.
    pub service: ServiceOptions,
    /// Library to load for a hardware device; `None` for the system's `libcxi.so.1`.
    pub libcxi: Option<LibraryFile>,
    /// The CPUs that the user has requested.
    pub cpus: Cpus,
}

impl NicPlan {
    /// Returns how a NIC is opened by the options of `plan`.
    pub fn new(plan: &Plan, device: DeviceName) -> Self {
        Self {
            device,
            service: plan.service_options,
            libcxi: plan.libcxi.clone().filter(|_| device.platform().loads_library),
            cpus: plan.cpus.clone(),
        }
    }
}

/// A NIC, its tests, and their targets.
pub struct TargetNic {
    plan: NicPlan,
    service: ServiceRequest,
    placement: Placement,
    /// CPUs of the sides of a pair, if CPUs do the work of the NIC and the user has chosen none.
    halves: Option<Halves>,
    /// The reason why it is not open, if it is not.
    endpoint: Result<Endpoint, String>,
    pub(super) tests: Vec<OpenTest>,
    pub(super) instruments: Instruments,
}

/// A test, its options, the time for a pair, its traffic class if it has one of its own, and why
/// its target is not open.
pub(super) struct OpenTest {
    pub(super) test: Box<dyn NicTest>,
    pub(super) run: RunOptions,
    pair: Duration,
    pub(super) class: Option<TrafficClass>,
    failure: Option<String>,
}

impl TargetNic {
    /// Opens the NIC, and moves the calling thread to its CPUs. NICs with another `place` get other
    /// CPUs, if they are to be chosen.
    ///
    /// # Errors
    ///
    /// Invalid variables of the job, CPUs that cannot be used, and a device or service that cannot
    /// be opened or used.
    pub fn open(plan: NicPlan, place: usize) -> Result<Self, Failure> {
        let service = ServiceRequest::from_environment(plan.service, plan.device)?;
        let mut placement = Placement::choose(&plan.cpus, plan.device, &Machine::this(), false)?;
        if plan.cpus == Cpus::Auto {
            placement.cpus = placement.thread_cpus(place + 1, false).split_off(place);
        }
        let has_choice = plan.device.platform().runs_on_cpus && plan.cpus == Cpus::Any;
        let halves = has_choice.then(Halves::from_this_process).flatten();
        // The thread that does the work of the NIC starts here.
        let confined = halves.as_ref().and_then(|halves| halves.confine(Side::Server));
        let endpoint = allocate(&plan, &service, &placement, C_PID_ANY)?;
        drop(confined);
        Ok(Self {
            plan,
            service,
            placement,
            halves,
            endpoint: Ok(endpoint),
            tests: Vec::new(),
            instruments: Instruments::new()?,
        })
    }

    pub fn device(&self) -> DeviceName {
        self.plan.device
    }

    /// The endpoint.
    ///
    /// # Errors
    ///
    /// The reason why the NIC could not be opened again.
    pub fn endpoint(&self) -> Result<&Endpoint, String> {
        opened(&self.endpoint, self.plan.device)
    }

    /// The address at which peers reach the targets.
    ///
    /// # Errors
    ///
    /// The reason why the NIC could not be opened again.
    pub fn address(&self) -> Result<FabricAddress, String> {
        self.endpoint().map(|endpoint| endpoint.address().address)
    }

    /// Returns where the NIC is, if its address shows it.
    pub fn location(&self) -> Option<Location> {
        let (device, machine) = (self.device(), Machine::this());
        let address = self.address().ok().filter(|_| backend::has_location(device, &machine))?;
        let files = backend::files(device, &machine).ok()?;
        // Without that address its bits mean nothing (jobs.md 3.5).
        let is_algorithmic = algorithmic(&files).verdict == Severity::Good;
        is_algorithmic.then(|| Location::from_nid(address.nic))
    }

    /// Allocates another endpoint on the NIC, with an address of its own.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`].
    pub fn further_endpoint(&self) -> Result<Endpoint, Failure> {
        allocate(&self.plan, &self.service, &self.placement, C_PID_ANY)
    }

    /// Replaces the tests by `tests`, each of which measures a pair for the time `pair`, and opens
    /// their targets. The place in the list is the number of a test, also for peers.
    pub fn begin(&mut self, tests: Vec<TestPlan>, pair: Duration) {
        self.close_targets();
        let tests = tests.into_iter().enumerate();
        let tests = tests.map(|(number, plan)| OpenTest {
            class: plan.class,
            run: plan.run,
            pair,
            test: test(number, plan, pair),
            failure: None,
        });
        self.tests = tests.collect();
        self.open_targets();
    }

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

    /// The reason why the target of a test is not open, if it is not.
    pub fn target_failure(&self, number: usize) -> Option<&str> {
        self.tests[number].failure.as_deref()
    }

    /// The reason why the target of any test is not open, if one is not.
    pub fn failed_target(&self) -> Option<&str> {
        let failures = self.tests.iter().map(|open| open.failure.as_deref());
        failures.flatten().next()
    }

    /// Confines the calling thread to the CPUs of a side, if CPUs do the work of the NIC.
    pub fn confine(&self, side: Side) -> Option<Confined> {
        self.halves.as_ref()?.confine(side)
    }

    /// Measures operations of a test that this NIC issues to `peer`. A failure of
    /// [`Kind::Nic`](facts::error::Kind::Nic) is about the pair, other failures are about this
    /// process.
    pub fn measure(
        &mut self,
        number: usize,
        peer: FabricAddress,
        attempt: &Attempt,
    ) -> Done<Figures> {
        let time = PairTime { pair: self.tests[number].pair, warms_up: true, attempt };
        self.measure_in(number, peer, time)
    }

    /// Measures in a time, as [`Self::measure`] does.
    pub(super) fn measure_in(
        &mut self,
        number: usize,
        peer: FabricAddress,
        time: PairTime<'_>,
    ) -> Done<Figures> {
        let OpenTest { test, class, .. } = &self.tests[number];
        match opened(&self.endpoint, self.plan.device) {
            Ok(endpoint) => {
                endpoint.set_class(*class);
                let done = test.measure(endpoint, peer, time, &mut self.instruments);
                endpoint.set_class(None);
                done
            }
            Err(why) => Done::nothing(Failure::environment(why)),
        }
    }

    /// Takes the part of the target in a test. The software of this side answers `peer` only with a
    /// two-sided tool.
    pub fn serve(&self, number: usize, peer: FabricAddress, attempt: &Attempt) -> Done<()> {
        let test = &self.tests[number].test;
        match self.endpoint() {
            Ok(endpoint) => test.serve(endpoint, peer, attempt),
            Err(why) => Done::nothing(Failure::environment(why)),
        }
    }

    /// Opens the NIC and its targets again, so that nothing of a failed operation is left. The
    /// address stays the same if its PID is free.
    pub fn reopen(&mut self) {
        let before = self.address();
        self.close_targets();
        let closed = Err("the NIC is closed".to_owned());
        if let Ok(endpoint) = mem::replace(&mut self.endpoint, closed) {
            let _ = endpoint.close();
        }
        let _confined = self.confine(Side::Server);
        let allocate = |pid| allocate(&self.plan, &self.service, &self.placement, pid);
        let same = before.map_or(C_PID_ANY, |before| before.pid);
        let endpoint = allocate(same).or_else(|_| allocate(C_PID_ANY));
        self.endpoint = endpoint.map_err(|failure| failure.message());
        self.open_targets();
    }

    /// Releases the targets and the NIC.
    pub fn close(mut self) {
        self.close_targets();
        if let Ok(endpoint) = self.endpoint {
            let _ = endpoint.close();
        }
    }
}

fn opened(endpoint: &Result<Endpoint, String>, device: DeviceName) -> Result<&Endpoint, String> {
    endpoint.as_ref().map_err(|why| format!("{device} cannot be opened again: {why}"))
}

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
        ignore_link: false,
        gpus: OnGpus::default(),
    };
    let device = backend::open(plan.device, plan.libcxi.as_ref())?;
    Endpoint::with_pid(site, None, device, pid)
}

/// Both halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    initiators: Vec<u32>,
    targets: Vec<u32>,
}

impl Halves {
    /// The halves of the CPUs of this process. `None` for a single CPU, or if the kernel does not
    /// list the CPUs.
    pub fn from_this_process() -> Option<Self> {
        Self::of(placement::cpus().ok()?)
    }

    fn of(mut cpus: Vec<u32>) -> Option<Self> {
        let targets = cpus.split_off(cpus.len() / 2);
        let halves = Self { initiators: cpus, targets };
        (!halves.initiators.is_empty()).then_some(halves)
    }

    /// Confines the calling thread, and the threads that it starts, to the half of a side. The
    /// thread runs anywhere if the kernel refuses: the pair may then be untested, but its figures
    /// are right.
    pub fn confine(&self, side: Side) -> Option<Confined> {
        let cpus = match side {
            Side::Client => &self.initiators,
            Side::Server => &self.targets,
        };
        Confined::to(cpus).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_cpus() {
        let halves = Halves::of(vec![0, 2, 4, 6, 8]).unwrap();
        assert_eq!(halves.initiators, [0, 2]);
        assert_eq!(halves.targets, [4, 6, 8]);
        assert_eq!(Halves::of(vec![3]), None);
    }

    #[test]
    fn confines_thread_to_half_of_side() {
        let Some(halves) = Halves::from_this_process() else {
            return;
        };
        let before = placement::cpus().unwrap();
        for (side, cpus) in [(Side::Client, &halves.initiators), (Side::Server, &halves.targets)] {
            let confined = halves.confine(side);
            assert_eq!(placement::cpus().as_ref(), Ok(cpus));
            drop(confined);
        }
        assert_eq!(placement::cpus(), Ok(before));
    }
}
