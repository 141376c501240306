//! The process of the server that probes other nodes: a thread for each NIC, and one for the
//! connection to the server of each target. The main thread follows the server, the list of hosts
//! and the load of the NICs, and writes the metrics.

use std::ffi::OsString;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::PollFlags;
use rustix::time::{ClockId, clock_gettime};

use super::board::{ProbeBoard, ScheduledTask};
use super::probe::schedule::{self, TURN};
use super::probing::{ProbeRequest, own_name};
use crate::probe::schedule::{NextProbe, Periods, ProbeSchedule, UNCOUNTED};
use crate::probe_metrics::{self, Probes};
use crew::host_list;
use diag::run::serve::line_to_server;
use facts::child::PROGRAM;
use facts::device::DeviceName;
use facts::error::{Context, Failure, Kind};
use facts::limit::in_effect;
use facts::{interrupt, threads};
use members::prober_nic::{ProberNic, WRITES};
use members::targets::{NicPlan, TestPlan};
use node::backend;
use node::machine::Machine;
use page::documents::Documents;
use plan::command_line::Request;
use plan::tools::{TOOLS, WRITE_BW, WRITE_LAT};
use plan::typed::Typed;
use plan::{Plan, command_line};
use session::control_line::{ControlLine, NicState, ProbeNews, Used};
use session::probe_feed::{self, SIGN_OF_LIFE};

/// Longest wait of the main thread: a pause file is noticed within it.
const TICK: Duration = Duration::from_secs(1);

/// How often metrics are written, and the list of hosts and the counters of NICs are read.
const ROUND: Duration = Duration::from_secs(10);

/// Time until a NIC that cannot be opened, or a server that cannot be reached, is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Time limit of a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// A NIC through which others send or receive more bytes a second is left out: 10,000 packets of
/// 2 KiB, a thousandth of its bandwidth. Probes take less than a hundredth of this.
const BUSY: f64 = 20e6;

/// The counters of bytes, of both generations and directions.
const OCTETS: [&str; 4] = [
    "hni_sts_tx_ok_octets",
    "hni_sts_rx_ok_octets",
    "hni_sts_tx_octets_opt",
    "hni_sts_rx_octets_opt",
];

/// Niceness of the process: jobs come first. With the lowest priority, a host that is half busy
/// would disturb most probes.
const NICENESS: i32 = 10;

/// A bulk write of 1 MiB, in pieces that need little memory.
const BULK: [&str; 6] =
    ["--size=65536", "--list-size=16", "--buf-sz=65536", "--iters=1", "--no-hrp", "--"];

/// Probes until the server ends.
///
/// # Errors
///
/// Invalid options, and files that cannot be written.
pub fn run(plan: &Plan, request: &ProbeRequest) -> Result<(), Failure> {
    let line = line_to_server()?;
    let _ = rustix::process::nice(NICENESS);
    backend::let_engine_sleep();
    let devices = devices(plan);
    let board = Arc::new(ProbeBoard::new(&devices, request.slots()));
    let feeds = Arc::new(feed_plan(plan)?);
    let periods =
        Periods { burst: in_effect(Periods::USUAL.burst), bulk: in_effect(Periods::USUAL.bulk) };
    let periods = periods.within(request.budget.unwrap_or(u64::MAX), request.slots());
    let tests = tests()?;
    let mut nics = Vec::new();
    for (index, device) in devices.iter().enumerate() {
        let nic = NicThread {
            board: board.clone(),
            index,
            plan: NicPlan::new(plan, *device),
            tests,
            periods,
            slots: request.slots(),
        };
        nics.push(threads::start("prober", move || nic.run())?);
    }
    for slot in 0..request.slots() {
        let (board, feeds) = (board.clone(), feeds.clone());
        // It ends with the process.
        threads::start("feed", move || follow_target(&board, &feeds, slot))?;
    }
    let mut main = Main {
        plan,
        request,
        board: &board,
        devices,
        documents: request.documents()?,
        line,
        hosts: Vec::new(),
        own: None,
        octets: Vec::new(),
        sent: None,
        complaint: None,
    };
    let ended = main.run();
    board.end();
    for nic in nics {
        let _ = nic.join();
    }
    match ended {
        Err(failure) if failure.kind == Kind::Interrupted => Ok(()),
        ended => ended,
    }
}

/// The NICs that probe: the software NIC of the server, or all hardware.
fn devices(plan: &Plan) -> Vec<DeviceName> {
    if plan.device.platform().is_simulated {
        return vec![plan.device];
    }
    backend::all_hardware()
}

/// The plan of a client of other servers.
fn feed_plan(plan: &Plan) -> Result<Plan, Failure> {
    let mut typed = Typed::nothing(TOOLS[0].defaults);
    // Each connection names its host.
    typed.address = Some("peer".into());
    typed.port = Some(plan.port);
    typed.connect_timeout = Some(CONNECT_LIMIT);
    typed.token.clone_from(&plan.admission.token);
    typed.any_job = plan.admission.any_job;
    Plan::new(&TOOLS[0], PROGRAM.into(), typed, None)
}

fn tests() -> Result<[TestPlan; 2], Failure> {
    let burst = [
        "--size=8".to_owned(),
        format!("--iters={WRITES}"),
        format!("--warmup={UNCOUNTED}"),
        "--latency-gap=0".into(),
        "--".into(),
    ];
    let bulk = BULK.map(str::to_owned);
    let test = |tool, arguments: &[String]| {
        let arguments = arguments.iter().map(OsString::from).chain(["peer".into()]).collect();
        match command_line::parse(tool, arguments).map_err(|refusal| refusal.failure)? {
            Request::Run(typed) => {
                TestPlan::new(tool, Plan::new(tool, PROGRAM.into(), *typed, None)?.run)
            }
            _ => Err(Failure::environment("a probe needs a run")),
        }
    };
    Ok([test(&WRITE_LAT, &burst)?, test(&WRITE_BW, &bulk)?])
}

/// Follows the state of the target in a slot.
fn follow_target(board: &ProbeBoard, plan: &Plan, slot: usize) {
    let mut complained = None;
    while board.sleep(Duration::ZERO) {
        if let Some(host) = board.host(slot) {
            let watched = probe_feed::watch(plan, &host, |state| {
                if complained.take_if(|known| *known == host).is_some() {
                    board.note(format!("{host} is probed again"));
                }
                board.set_node(slot, &host, Some(state))
            });
            board.set_node(slot, &host, None);
            match watched {
                Err(failure) if failure.kind == Kind::Interrupted => return,
                Err(failure) if complained.as_ref() != Some(&host) => {
                    board.note(format!("{host} is not probed: {}", failure.message()));
                    complained = Some(host);
                }
                Err(_) => {}
                // The slot has another target.
                Ok(()) => continue,
            }
        }
        if !board.sleep(in_effect(AGAIN)) {
            return;
        }
    }
}

/// The thread of a NIC.
struct NicThread {
    board: Arc<ProbeBoard>,
    index: usize,
    plan: NicPlan,
    tests: [TestPlan; 2],
    periods: Periods,
    slots: usize,
}

impl NicThread {
    fn run(self) {
        let phase = schedule::phase(&facts::host::host_name(), &self.plan.device.to_string());
        let mut schedule = ProbeSchedule::new(self.periods, self.slots, phase, self.board.now());
        let mut complained = false;
        while self.board.sleep(Duration::ZERO) {
            let ended = self.open().and_then(|nic| self.probe(nic, &mut schedule));
            let failure = match ended {
                Ok(()) => return,
                Err(failure) if failure.kind == Kind::Interrupted => return,
                Err(failure) => failure,
            };
            self.board.leave_out_unusable(self.index);
            if !complained {
                complained = true;
                let (device, why) = (self.plan.device, failure.message());
                self.board.note(format!("{device} does not probe: {why}"));
            }
            if !self.board.sleep(in_effect(AGAIN)) {
                return;
            }
        }
    }

    fn open(&self) -> Result<ProberNic, Failure> {
        let nic = ProberNic::open(self.plan.clone(), self.index, self.tests)?;
        let address = nic.address().map_err(Failure::environment)?;
        self.board.set_nic(
            self.index,
            Some(NicState {
                device: nic.device(),
                address: address.address,
                vni: address.vni,
                location: nic.location(),
                is_busy: false,
            }),
        );
        Ok(nic)
    }

    /// Probes until the end of the process, or until the NIC fails.
    fn probe(&self, mut nic: ProberNic, schedule: &mut ProbeSchedule) -> Result<(), Failure> {
        let board = &self.board;
        let ended = loop {
            let Some((due, slot, probe)) = schedule.next() else {
                break Ok(());
            };
            if !board.sleep_until(due) {
                break Ok(());
            }
            let next = match board.job(self.index, slot) {
                ScheduledTask::Nothing => NextProbe::Usual,
                ScheduledTask::Probe(target) => match nic.probe(target.address, probe) {
                    Ok(ended) => board.add(self.index, slot, &target, ended),
                    Err(failure) => break Err(failure),
                },
            };
            schedule.done(slot, probe, next, board.now());
        };
        nic.close();
        ended
    }
}

fn send(line: &mut ControlLine, news: &ProbeNews) -> Result<(), Failure> {
    line.send(news).environment("cannot reach cxidiag serve")
}

/// The main thread.
struct Main<'a> {
    plan: &'a Plan,
    request: &'a ProbeRequest,
    board: &'a ProbeBoard,
    devices: Vec<DeviceName>,
    documents: Documents,
    line: ControlLine,
    hosts: Vec<String>,
    /// The name of this node in the list.
    own: Option<String>,
    /// The bytes of each NIC, and when they were read.
    octets: Vec<(Vec<Option<u64>>, Instant)>,
    /// When the state was sent last, and the state.
    sent: Option<(Instant, Vec<NicState>)>,
    /// What was complained about last.
    complaint: Option<String>,
}

impl Main<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        let mut round = Instant::now();
        loop {
            if Instant::now() >= round {
                round = Instant::now() + in_effect(ROUND);
                self.round();
                let progress = ProbeNews::Progress(self.board.progress());
                send(&mut self.line, &progress)?;
            }
            let is_paused = self.request.pause_file.as_ref().is_some_and(|file| file.exists());
            self.board.set_paused(is_paused);
            self.send_news()?;
            if interrupt::wait(&self.line, PollFlags::IN, Some(TICK))? {
                if !self.line.read().environment("cannot read from cxidiag serve")? {
                    return Ok(());
                }
                while let Some(Used(devices)) = self.line.message() {
                    self.board.set_used(&devices);
                }
            }
        }
    }

    fn send_news(&mut self) -> Result<(), Failure> {
        for note in self.board.take_notes() {
            send(&mut self.line, &ProbeNews::Note(note))?;
        }
        let state = self.board.state();
        let is_known = self.sent.as_ref().is_some_and(|(at, sent)| {
            at.elapsed() < in_effect(SIGN_OF_LIFE) && *sent == state.nics
        });
        if !is_known {
            self.sent = Some((Instant::now(), state.nics.clone()));
            send(&mut self.line, &ProbeNews::State(state))?;
        }
        Ok(())
    }

    /// Reads the list of hosts and the counters, and writes the metrics.
    fn round(&mut self) {
        let mut complaint = self.read_hosts().err();
        self.choose_targets();
        self.read_counters();
        let written = self.documents.write_metrics(|| probe_metrics::families(&self.probes()));
        complaint = complaint.or(written.err().map(|failure| failure.message()));
        if let Some(text) = complaint.clone().filter(|_| complaint != self.complaint) {
            self.board.note(text);
        }
        self.complaint = complaint;
    }

    /// Reads the list again. The list before stays in use if it cannot be read.
    fn read_hosts(&mut self) -> Result<(), String> {
        let text = self.request.hosts.as_deref().unwrap_or_default();
        if self.own.is_some() && !text.starts_with('@') {
            return Ok(());
        }
        let mut hosts = host_list::option_hosts(text)
            .map_err(|why| format!("--probe={text}: {why}; the hosts before are probed"))?;
        hosts.dedup();
        self.own = own_name(&hosts, self.plan);
        self.hosts = hosts;
        match &self.own {
            None => Err(format!("--probe={text}: the list lacks this node, which probes nothing")),
            Some(_) if self.hosts.len() < 2 => {
                Err(format!("--probe={text}: the list has no host beside this one"))
            }
            Some(_) => Ok(()),
        }
    }

    fn choose_targets(&self) {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let turn = since_1970.unwrap_or_default().as_secs() / TURN.as_secs();
        let own = self.own.as_deref().unwrap_or_default();
        let chosen = schedule::targets(own, &self.hosts, self.request.slots(), turn);
        self.board.set_targets(&chosen);
    }

    /// Notes which NICs others use heavily.
    fn read_counters(&mut self) {
        let machine = Machine::this();
        let read =
            |device: &DeviceName| (backend::counters(*device, &OCTETS, &machine), Instant::now());
        let octets: Vec<_> = self.devices.iter().map(read).collect();
        let before = mem::replace(&mut self.octets, octets);
        for (index, ((after, at), (before, since))) in self.octets.iter().zip(before).enumerate() {
            let seconds = (*at - since).as_secs_f64();
            let grown = after.iter().zip(before).filter_map(|(after, before)| {
                Some((*after)?.saturating_sub(before?) as f64 / seconds)
            });
            self.board.set_busy(index, grown.fold(0.0, f64::max) > BUSY);
        }
    }

    fn probes(&self) -> Probes {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        Probes {
            node: self.own.clone().unwrap_or_default(),
            nics: self.board.figures(),
            now: self.board.now(),
            at: SystemTime::now(),
            targets: self.board.targets(),
            open_nics: self.board.state().nics.len(),
            cpu: Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32),
        }
    }
}
