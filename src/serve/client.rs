//! A client of the server: the process that measures with it.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::ending::ClientEnd;
use super::queue::{ClientProgress, ClientStage, Present, QueueEntry};
use facts::child::{self, Duty};
use facts::device::DeviceName;
use facts::error::{Context, Failure};
use facts::number::time_text;
use plan::Plan;
use session::RequestedCommand;
use session::arrivals::Newcomer;
use session::control_line::{Called, ControlLine, Ready, ServerOrder};

/// Time limit for a process to open its NIC.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Time limit for a process to call its client, longer than any of its own limits.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// How often a client may stay in the queue that does not answer when it is called.
const MOST_LATE: u32 = 2;

/// Time that a process may go on after the end of its client, to release its buffers.
const ORPHAN_LIMIT: Duration = Duration::from_secs(30);

/// Time that a run may take beyond the duration that its client has asked for: set-up, warm-up.
const MARGIN: Duration = Duration::from_secs(10);

/// Time that a process has to release its NIC after SIGTERM, before SIGKILL.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Time after which a waiting client is told its place: the process of the client before it may be
/// about to end.
const PLACE_AFTER: Duration = Duration::from_millis(100);

/// Interval at which the end of a process is looked up that has closed its standard output.
const REAP_INTERVAL: Duration = Duration::from_millis(2);

/// What fails if no descriptor is left.
const NO_SOCKET: &str = "cannot make a socket for the process";

/// Maximum length of the document and of the messages of a process, in bytes.
const MOST_TEXT: usize = 1 << 20;

/// A client, and its process.
pub struct Client {
    peer: SocketAddr,
    /// What it does, for the log.
    doing: &'static str,
    /// The NICs that it measures with.
    devices: Vec<DeviceName>,
    stage: ClientStage,
    bytes: u64,
    asks_for_duration: bool,
    /// How often it has not answered when it was called.
    late: u32,
    /// The place that the client was told last.
    place: Option<u32>,
    /// When the current stage began.
    since: Instant,
    /// When the process is to be signalled, and the signal.
    due: Option<(Instant, Signal)>,
    /// Time limit of the run.
    longest_run: Duration,
    /// What the process has exceeded, if it was signalled for it.
    exceeded: Option<String>,
    /// The server ends.
    is_stopped: bool,
    process: Child,
    line: ControlLine,
    /// The process has closed its end of the line: it ends.
    has_closed: bool,
    stderr: Option<ChildStderr>,
    messages: Vec<u8>,
    /// The connection, until the client closes it.
    stream: Option<TcpStream>,
    /// Whether the log has lines about the run, once this is decided.
    pub is_printed: Option<bool>,
}

/// What the process of a client says.
#[derive(Debug)]
pub enum News {
    /// It is ready; what the run needs.
    Ready(Ready),
    /// The run begins.
    Begins,
    /// The client has not answered when it was called.
    Late,
}

/// The command of a process that does what `newcomer` asks for, by this plan.
fn command(plan: &Plan, newcomer: &Newcomer) -> Command {
    let device = plan.device;
    let own_id = std::process::id().to_string();
    let mut command =
        child::command_with(Duty::ServedClient, &own_id, plan.admission.token.as_ref());
    // The client sends what it may choose.
    match newcomer.requested {
        Some(RequestedCommand::Survey) => command.arg("survey").arg(format!("--device={device}")),
        Some(RequestedCommand::Check) => command.arg("check").arg(device.to_string()),
        Some(RequestedCommand::Why) => command.args(["why", "--job"]),
        None => command
            .args(plan.server_arguments())
            .args(["--json", "--quiet"])
            .args(plan.admission.any_job.then_some("--any-job")),
    };
    command
}

impl Client {
    /// Starts the process for `newcomer`, which measures with `device`, for `longest_run` at most.
    /// `plan` is the plan of the server.
    ///
    /// # Errors
    ///
    /// A process that cannot be started.
    pub fn start(
        plan: &Plan,
        newcomer: &Newcomer,
        device: DeviceName,
        longest_run: Duration,
    ) -> Result<Self, Failure> {
        let Newcomer { peer, tool, .. } = *newcomer;
        let stream = newcomer.stream.try_clone().environment(NO_SOCKET)?;
        let watched = newcomer.stream.try_clone().environment(NO_SOCKET)?;
        let (own, other) = UnixStream::pair().environment(NO_SOCKET)?;
        let plan = Plan { tool, device, ..plan.clone() };
        let mut process = child::start(
            command(&plan, newcomer)
                .stdin(OwnedFd::from(stream))
                .stdout(OwnedFd::from(other))
                .stderr(Stdio::piped()),
        )?;
        let mut line = ControlLine::new(own);
        let (version, messages) = (newcomer.version.clone(), newcomer.messages.clone());
        let order = ServerOrder::Serve { peer, version, messages };
        if let Err(error) = line.send(&order) {
            let _ = process.kill();
            let _ = process.wait();
            return Err(error).environment("cannot send the client to its process");
        }
        let now = Instant::now();
        Ok(Self {
            peer,
            doing: newcomer.doing(),
            devices: vec![device],
            stage: ClientStage::Arriving,
            bytes: 0,
            asks_for_duration: false,
            late: 0,
            place: None,
            since: now,
            due: Some((now + START_LIMIT, Signal::TERM)),
            longest_run,
            exceeded: None,
            is_stopped: false,
            stderr: process.stderr.take(),
            stream: Some(watched),
            process,
            line,
            has_closed: false,
            messages: Vec::new(),
            is_printed: None,
        })
    }

    /// The client's place in the queue.
    pub fn entry(&self) -> QueueEntry {
        QueueEntry { devices: self.devices.clone(), stage: self.stage, bytes: self.bytes }
    }

    /// Whether its process starts.
    pub fn is_starting(&self) -> bool {
        self.stage == ClientStage::Arriving
    }

    /// Returns its host, and how far it is.
    pub fn present(&self) -> Present {
        let progress = match self.stage {
            ClientStage::Arriving => ClientProgress::Starting(self.since.elapsed()),
            _ => ClientProgress::Ready,
        };
        let host = self.host();
        Present { host, progress }
    }

    /// Returns when its current stage began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns client, tool and NICs, for the log.
    pub fn name(&self) -> String {
        let devices: Vec<_> = self.devices.iter().map(DeviceName::to_string).collect();
        format!("{} {} on {}", self.peer, self.doing, devices.join(","))
    }

    /// Returns what the client does, for the state of the server.
    pub fn state(&self) -> String {
        let seconds = self.since.elapsed().as_secs();
        let what = match (self.stage, self.place) {
            (ClientStage::Arriving, _) => "arrives".into(),
            (ClientStage::Waiting, Some(place)) => format!("waits, place {place}, for {seconds} s"),
            (ClientStage::Waiting, None) => "waits".into(),
            (ClientStage::Called, _) => format!("is called for {seconds} s"),
            (ClientStage::Running, _) => format!("measures for {seconds} s"),
        };
        format!("{}: {what}", self.name())
    }

    /// Returns what the client does, for the log.
    pub fn doing(&self) -> &'static str {
        self.doing
    }

    /// Returns how long the current stage has taken.
    pub fn took(&self) -> Duration {
        self.since.elapsed()
    }

    pub fn host(&self) -> IpAddr {
        self.peer.ip()
    }

    /// The sockets to watch: the messages of the process, its standard error, and the connection of
    /// the client, whose end counts.
    pub fn sockets(&self) -> (Option<&ControlLine>, Option<&ChildStderr>, Option<&TcpStream>) {
        (Some(&self.line).filter(|_| !self.has_closed), self.stderr.as_ref(), self.stream.as_ref())
    }

    /// Limits the time of the process, whose client has closed the connection.
    pub fn lose_peer(&mut self) {
        self.stream = None;
        let end = Instant::now() + ORPHAN_LIMIT;
        if self.due.is_none_or(|(due, _)| end < due) {
            self.due = Some((end, Signal::TERM));
        }
    }

    /// Reads what the process has sent, and returns the news.
    pub fn read_line(&mut self) -> Option<News> {
        self.has_closed =
            !matches!(self.line.read(), Ok(true)) || self.line.rest().len() > MOST_TEXT;
        match self.stage {
            ClientStage::Arriving => {
                let ready: Ready = self.line.message()?;
                self.devices.clone_from(&ready.devices);
                self.bytes = ready.buffer_bytes;
                self.asks_for_duration = ready.asked_ms.is_some();
                self.enter(ClientStage::Waiting, None);
                Some(News::Ready(ready))
            }
            ClientStage::Called => match self.line.message()? {
                Called::Answered => {
                    self.begin();
                    Some(News::Begins)
                }
                Called::Late => {
                    self.late += 1;
                    self.enter(ClientStage::Waiting, None);
                    Some(News::Late)
                }
            },
            ClientStage::Waiting | ClientStage::Running => None,
        }
    }

    /// Reads what the process has written to its standard error.
    pub fn read_messages(&mut self) {
        let mut part = [0; 4096];
        let read = self.stderr.as_mut().map(|stderr| stderr.read(&mut part));
        match read {
            Some(Ok(length)) if length > 0 => {
                let room = MOST_TEXT - self.messages.len();
                self.messages.extend(&part[..length.min(room)]);
            }
            _ => self.stderr = None,
        }
    }

    fn enter(&mut self, stage: ClientStage, limit: Option<Duration>) {
        self.stage = stage;
        self.since = Instant::now();
        self.due = limit.map(|limit| (self.since + limit, Signal::TERM));
        if self.stream.is_none() {
            self.lose_peer();
        }
    }

    /// Calls the client, whose turn it is.
    pub fn call(&mut self) {
        self.enter(ClientStage::Called, Some(CALL_LIMIT));
        self.order(&ServerOrder::Begin);
    }

    /// Tells a client that was late its `place` at the end of the queue. Returns whether it stays
    /// in the queue.
    pub fn go_back(&mut self, place: u32) -> bool {
        let is_out = self.late > MOST_LATE;
        if is_out {
            let late = self.late;
            self.refuse(format!("it did not answer when it was called, {late} times"));
        } else {
            self.place = Some(place);
            self.order(&ServerOrder::Place(place));
        }
        !is_out
    }

    /// Begins to count the time of the run.
    fn begin(&mut self) {
        let margin = if self.asks_for_duration { MARGIN } else { Duration::ZERO };
        self.enter(ClientStage::Running, Some(self.longest_run + margin));
    }

    /// Returns when the client is told its place, if it waits and has not been told it.
    fn place_due(&self) -> Option<Instant> {
        let is_untold = self.stage == ClientStage::Waiting && self.place.is_none();
        is_untold.then(|| self.since + PLACE_AFTER)
    }

    /// Sends the client its place, if it has changed and the client has waited for a while. Returns
    /// whether it was sent.
    pub fn set_place(&mut self, place: u32) -> bool {
        let is_early = self.place_due().is_some_and(|due| Instant::now() < due);
        let has_changed = !is_early && self.place != Some(place);
        if has_changed {
            self.place = Some(place);
            self.order(&ServerOrder::Place(place));
        }
        has_changed
    }

    /// Refuses the run of the client.
    pub fn refuse(&mut self, reason: String) {
        // Its process ends.
        self.enter(ClientStage::Arriving, Some(START_LIMIT));
        self.order(&ServerOrder::Refuse(reason));
    }

    fn order(&mut self, order: &ServerOrder) {
        if self.line.send(order).is_err() {
            // It has ended, or does not read.
            self.due = Some((Instant::now(), Signal::TERM));
        }
    }

    /// Ends the process: SIGTERM, and SIGKILL if it does not release its NIC.
    pub fn stop(&mut self) {
        self.due = Some((Instant::now(), Signal::TERM));
        self.is_stopped = true;
    }

    /// The time limit of the current stage, for messages, unless the server ends the process.
    fn limit(&self) -> Option<String> {
        match self.stage {
            _ if self.is_stopped => None,
            _ if self.stream.is_none() => {
                let limit = time_text(ORPHAN_LIMIT);
                Some(format!("its process has not ended {limit} after the client"))
            }
            ClientStage::Arriving => {
                Some(format!("its process was not ready within {}", time_text(START_LIMIT)))
            }
            ClientStage::Waiting => None,
            ClientStage::Called => Some(format!("no answer in {}", time_text(CALL_LIMIT))),
            ClientStage::Running => Some(format!(
                "the run takes longer than --max-run of the server, {}",
                time_text(self.longest_run)
            )),
        }
    }

    /// Returns when to call [`Self::advance`] next, if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        let reap = self.has_closed.then(|| Instant::now() + REAP_INTERVAL);
        let due = self.due.map(|(due, _)| due);
        [due, reap, self.place_due()].into_iter().flatten().min()
    }

    /// Signals the process when its time is over. Returns its exit status when it has ended.
    pub fn advance(&mut self) -> Option<ExitStatus> {
        if let Some((due, signal)) = self.due
            && Instant::now() >= due
        {
            if signal == Signal::TERM {
                self.exceeded = self.limit();
                if let Some(limit) = self.exceeded.clone() {
                    // Its client receives the reason.
                    self.order(&ServerOrder::Refuse(limit));
                }
            }
            if let Some(process) = Pid::from_raw(self.process.id() as i32) {
                // It is not reaped yet, so the number is its own.
                let _ = kill_process(process, signal);
            }
            self.due = Some((Instant::now() + RELEASE_LIMIT, Signal::KILL));
        }
        self.process.try_wait().ok()?
    }

    /// Returns what is known of a client whose process has ended.
    pub fn ended(mut self) -> ClientEnd {
        // What it wrote before its end is in socket and pipe.
        while !self.has_closed {
            self.read_line();
        }
        while self.stderr.is_some() {
            self.read_messages();
        }
        ClientEnd {
            stage: self.stage,
            took: self.since.elapsed(),
            has_lost_client: self.stream.is_none(),
            exceeded: self.exceeded,
            document: serde_json::from_slice(self.line.rest()).unwrap_or_default(),
            messages: String::from_utf8_lossy(&self.messages).into_owned(),
        }
    }
}
