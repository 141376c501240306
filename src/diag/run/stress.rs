//! Load on NICs of this machine: threads in which each NIC writes to itself (node-tools.md 5.4).
//!
//! All threads end with this process, however it ends: no other process has to be stopped.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::driver;
use super::pairs::{End, Pair, PairProgress, PairsLoop};
use super::watchdog::{Notices, Watchdog};
use crate::bench::api::{Lists, Peer, RepeatLists};
use crate::bench::common::PORTAL_INDEX;
use crate::bench::stress_write::StressWriter;
use crate::endpoint::Endpoint;
use facts::device::{DeviceName, LibraryFile};
use facts::error::{Failure, Kind};
use facts::{interrupt, threads};
use measure::{Clock, Gauge, MonotonicRaw, Supervisor, WaitPolicy};
use node::gpu::{self, OnGpus};
use node::local_address::LocalAddress;
use node::machine::placement::Placement;
use node::service::ServiceOptions;
use node::{backend, explain};
use plan::Plan;
use plan::run_options::{ListOptions, RunOptions, Setting};
use plan::tools::{LOOPBACK_BW, WRITE_BW};
use plan::typed::Typed;

/// Interval at which the caller looks whether all threads are ready.
const LOOK: Duration = Duration::from_millis(1);

/// Largest buffer of a thread (node-tools.md 5.4).
const MAX_BUFFER: u64 = 4 << 20;

/// The load on one NIC.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    pub device: DeviceName,
    pub service: ServiceOptions,
    /// Library to load for a hardware device; `None` for the system's `libcxi.so.1`.
    pub libcxi: Option<LibraryFile>,
    /// The CPUs of the threads, one each; at least one.
    pub cpus: Vec<u32>,
    /// Bytes of a write.
    pub size: u64,
    /// Writes that one doorbell issues.
    pub list_size: u16,
    pub use_hrp: bool,
    pub use_idc: bool,
    /// One list entry serves all writes.
    pub persistent_entries: bool,
    pub gpus: OnGpus,
}

impl LoadOptions {
    /// The load of cxi_heatsink_check: writes of 512 bytes in lists of 256.
    pub fn new(device: DeviceName) -> Self {
        Self {
            device,
            service: ServiceOptions::default(),
            libcxi: None,
            cpus: Vec::new(),
            size: 512,
            list_size: 256,
            use_hrp: true,
            use_idc: true,
            persistent_entries: true,
            gpus: OnGpus::NONE,
        }
    }

    /// The options of the run of each thread.
    ///
    /// # Errors
    ///
    /// A size or list that a tool refuses, too.
    pub fn run(&self) -> Result<RunOptions, Failure> {
        let lists = ListOptions {
            list_size: self.list_size,
            bidirectional: false,
            max_buffer: MAX_BUFFER,
            alignment: 64,
        };
        let run = RunOptions {
            min_size: self.size,
            max_size: self.size,
            use_hrp: self.use_hrp,
            use_idc: self.use_idc && self.gpus.tx.is_none(),
            lists: Some(lists),
            ..WRITE_BW.defaults
        };
        run.checked().map_err(Failure::usage)
    }

    /// The plan of the threads, whose buffers fit into the memory of this machine.
    fn plan(&self, program: &str) -> Result<Plan, Failure> {
        let typed = Typed { device: Some(self.device), ..Typed::nothing(LOOPBACK_BW.defaults) };
        let plan = Plan::new(&LOOPBACK_BW, program.to_owned(), typed, None)?;
        let run = self.run()?;
        let mut all_threads = run;
        all_threads.extensions.pairs = self.cpus.len().try_into().unwrap_or(u16::MAX);
        let plan = Plan {
            service_options: self.service,
            libcxi: self.libcxi.clone(),
            gpus: self.gpus,
            run: all_threads,
            ..plan
        };
        Ok(Plan { run, ..super::place(&plan)? })
    }
}

/// The endpoints of a NIC.
#[derive(Clone, Debug)]
pub struct LoadedNic {
    /// The address of one of the threads.
    pub own: LocalAddress,
    pub hrp: Setting,
    pub gpu_count: u32,
}

/// The load on NICs while it runs.
pub struct RunningLoad<'a> {
    nics: Vec<NicLoad<'a>>,
    ready: AtomicUsize,
    is_begun: AtomicBool,
    is_stopped: AtomicBool,
}

/// The load on one NIC while it runs.
struct NicLoad<'a> {
    options: &'a LoadOptions,
    plan: Plan,
    nic: OnceLock<LoadedNic>,
    /// Counts the writes that the NIC has completed.
    gauge: Gauge,
    /// The first failure of a thread.
    failure: Mutex<Option<Failure>>,
}

/// Loads the NICs while `watch` runs. Returns what it returns, when no thread is left.
///
/// # Errors
///
/// A NIC that cannot be opened, the failure of `watch`, and an interruption.
pub fn under_load<T>(
    program: &str,
    loads: &[LoadOptions],
    watch: impl FnOnce(&RunningLoad<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let nics = loads.iter().map(|options| {
        let (plan, failure) = (options.plan(program)?, Mutex::default());
        Ok(NicLoad { options, plan, nic: OnceLock::new(), gauge: Gauge::default(), failure })
    });
    let load = RunningLoad {
        nics: nics.collect::<Result<_, Failure>>()?,
        ready: AtomicUsize::new(0),
        is_begun: AtomicBool::new(false),
        is_stopped: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let _stop = StopOnDrop(&load);
        let mut writers = Vec::new();
        for nic in &load.nics {
            for (place, cpu) in nic.options.cpus.iter().enumerate() {
                let (load, is_first) = (&load, place == 0);
                writers.push(threads::start_in(scope, move || nic.work(*cpu, is_first, load))?);
            }
        }
        while load.ready.load(Acquire) < writers.len() {
            interrupt::wait_for_any(&mut Vec::new(), Some(LOOK))?;
            let has_ended = writers.iter().any(|writer| writer.is_finished());
            if let Some(failure) = load.nics.iter().find_map(NicLoad::take_failure) {
                return Err(failure);
            }
            if has_ended {
                return Err(Failure::environment("a thread of the load has ended"));
            }
        }
        watch(&load)
    })
}

impl RunningLoad<'_> {
    /// The endpoints of a NIC, by its place in the list of loads.
    ///
    /// # Errors
    ///
    /// A load without threads.
    pub fn nic(&self, place: usize) -> Result<&LoadedNic, Failure> {
        let none = || Failure::environment("no thread has opened the NIC");
        self.nics[place].nic.get().ok_or_else(none)
    }

    /// Lets all threads begin to write.
    pub fn begin(&self) {
        self.is_begun.store(true, Release);
    }

    /// The bytes that a NIC has written to itself so far.
    pub fn bytes(&self, place: usize) -> u64 {
        let nic = &self.nics[place];
        nic.gauge.get().0 * nic.options.size
    }

    /// Takes the failure of a thread of a NIC, if one has failed.
    pub fn take_failure(&self, place: usize) -> Option<Failure> {
        self.nics[place].take_failure()
    }

    /// Lets all threads end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Relaxed)
    }
}

impl NicLoad<'_> {
    fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The work of the thread on `cpu`.
    fn work(&self, cpu: u32, is_first: bool, load: &RunningLoad<'_>) {
        let Err(failure) = self.write(cpu, is_first, load) else { return };
        // An interruption ends the caller, too.
        if !load.is_stopped() && failure.kind != Kind::Interrupted {
            let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(failure);
        }
    }

    /// Writes until the load is stopped.
    fn write(&self, cpu: u32, is_first: bool, load: &RunningLoad<'_>) -> Result<(), Failure> {
        let placement = Placement { cpus: vec![cpu], ..self.plan.placement.clone() };
        let plan = Plan { placement, ..self.plan.clone() };
        let endpoint = if is_first { driver::open(&plan)? } else { open_quietly(&plan)? };
        let own = endpoint.address();
        let check = || {
            if load.is_stopped() {
                return Err(Failure::environment("the load is stopped"));
            }
            interrupt::check()
        };
        let waits = Watchdog { check, notices: Notices::new(&endpoint, &plan) };
        let peer =
            Peer { own: &endpoint, address: own.address, portal: PORTAL_INDEX, supervisor: &waits };
        let persistent = self.options.persistent_entries;
        let mut writer = StressWriter::new(peer, &plan.run, persistent)?;
        let gpu_count = endpoint.gpus().map_or(0, |gpus| gpus.count());
        let _ = self.nic.set(LoadedNic { own, hrp: endpoint.hrp(&plan.run), gpu_count });
        load.ready.fetch_add(1, Release);
        while !load.is_begun.load(Acquire) {
            waits.peer_is_there()?;
            thread::sleep(LOOK);
        }
        let writing = Writing { nic: self, load, waits: &waits, run: &plan.run };
        let written = writer
            .measure(&plan.run, writing)
            .map_err(|failure| explain::explain(failure, endpoint.lni().observer()));
        if load.is_stopped() {
            // A list may be under way: then objects that it uses are released with the endpoint.
            let _ = writer.close().and_then(|()| endpoint.close());
            return Ok(());
        }
        written
    }
}

/// Opens the device without the warnings that another thread has printed.
fn open_quietly(plan: &Plan) -> Result<Endpoint, Failure> {
    let gpus = gpu::open(&plan.gpus)?;
    Endpoint::new(plan.site(), gpus, backend::open(plan.device, plan.libcxi.as_ref())?)
}

/// Writes lists until the load is stopped.
struct Writing<'a> {
    nic: &'a NicLoad<'a>,
    load: &'a RunningLoad<'a>,
    waits: &'a dyn Supervisor,
    run: &'a RunOptions,
}

impl RepeatLists for Writing<'_> {
    type Output = ();

    fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
        let policy = WaitPolicy::new(self.waits);
        let mut pairs: Vec<_> = pairs
            .iter_mut()
            .map(|lists| Pair::new(lists, PairProgress::default(), policy))
            .collect();
        let clock = &MonotonicRaw;
        let run = PairsLoop {
            clock,
            start: clock.now(),
            end: End::Asked,
            is_asked_to_end: &|| self.load.is_stopped(),
            check: &|| self.waits.peer_is_there(),
            gauge: &self.nic.gauge,
            list_size: self.run.lists()?.list_size.into(),
        };
        run.drive(&mut pairs)
    }
}

/// Ends the load, also if its caller fails or panics.
struct StopOnDrop<'a>(&'a RunningLoad<'a>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
