//! The main thread of the server: a process for each client, whose turn it decides.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use rustix::event::{PollFd, PollFlags};
use sd_notify::NotifyState;

use super::client::{Client, News};
use super::ending::ClientOutcome;
use super::limits::{ClientLimits, lacks};
use super::log::{Log, Priority, RunLog};
use super::probing::Probing;
use super::queue::{Arrived, ClientProgress, Present, QueueEntry, Room, TURN, places, turns};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::host::host_name;
use facts::interrupt;
use plan::Plan;
use session::arrivals::{Arrival, Newcomer};
use session::{LineLimit, RequestedCommand, ServerTotals, requests};

/// Interval at which the end of processes is looked up when the server ends.
const INTERVAL: Duration = Duration::from_millis(2);

/// The clients of the server.
pub struct ClientSupervisor<'a> {
    /// The server's own plan: its port, and what clients get that ask for nothing.
    pub plan: &'a Plan,
    /// The port in use.
    pub port: u16,
    /// What clients may ask for.
    pub limits: ClientLimits,
    /// Where events are written.
    pub log: Log,
    /// Limits the lines about runs.
    runs: RunLog,
    /// The clients that have a process.
    clients: Vec<Client>,
    /// Those that wait for one, with their NICs.
    arrived: Arrived,
    since: Instant,
    counts: EndCounts,
    /// Those that the other thread has refused.
    totals: Arc<ServerTotals>,
    /// Limits the lines about clients that were refused or did not begin.
    refusals: LineLimit,
    /// When the last question for a document was admitted.
    answered: Option<Instant>,
    /// The probes of other nodes, if they are asked for.
    probing: Option<Probing>,
}

/// How clients have ended.
#[derive(Clone, Copy, Debug, Default)]
struct EndCounts {
    /// Their run succeeded.
    done: u64,
    /// Their run failed.
    failed: u64,
    /// They left the queue, or interrupted their run.
    left: u64,
    /// They did not come as far as the queue.
    refused: u64,
}

impl<'a> ClientSupervisor<'a> {
    /// Creates the supervisor of a server that listens on `port`; another thread counts its
    /// refusals in `totals`.
    pub fn new(
        plan: &'a Plan,
        port: u16,
        limits: ClientLimits,
        log: Log,
        totals: Arc<ServerTotals>,
        probing: Option<Probing>,
    ) -> Self {
        Self {
            plan,
            port,
            limits,
            log,
            runs: RunLog::default(),
            clients: Vec::new(),
            arrived: Arrived::new(),
            since: Instant::now(),
            counts: EndCounts::default(),
            totals,
            refusals: LineLimit::new("clients"),
            answered: None,
            probing,
        }
    }

    /// Serves the `arrivals`, for each of which `wake` has a byte, until there are no more. Logs
    /// the state whenever there is something to read from `asked`.
    pub fn run(
        &mut self,
        arrivals: &Receiver<Arrival>,
        wake: &UnixStream,
        asked: &UnixStream,
    ) -> Result<(), Failure> {
        let mut bytes = [0; 64];
        let ended = loop {
            match self.wait(wake, asked) {
                Err(failure) => break Err(failure),
                Ok((has_arrival, is_asked)) => {
                    if is_asked {
                        let _ = (&*asked).read(&mut bytes);
                        for line in self.status().lines() {
                            self.log.line(Priority::Info, line);
                        }
                    }
                    if has_arrival {
                        let _ = (&*wake).read(&mut bytes);
                    }
                    match self.receive(arrivals) {
                        Ok(()) => {}
                        Err(TryRecvError::Empty | TryRecvError::Disconnected) => break Ok(()),
                    }
                }
            }
            self.advance();
        };
        self.stop_all();
        ended
    }

    /// Waits for an arrival, for a question, or for output of a process, and reads that output.
    /// Returns whether there is an arrival, and whether there is a question.
    fn wait(&mut self, wake: &UnixStream, asked: &UnixStream) -> Result<(bool, bool), Failure> {
        let due = self.clients.iter().filter_map(Client::due);
        let due = due.chain(self.probing.as_ref().and_then(Probing::due));
        let due = due.chain(self.runs.due()).chain(self.place_due()).min();
        let within = due.map(|due| due.saturating_duration_since(Instant::now()));
        let mut polled = vec![PollFd::new(wake, PollFlags::IN), PollFd::new(asked, PollFlags::IN)];
        let probes = self.probing.as_ref().and_then(Probing::line);
        polled.extend(probes.map(|line| PollFd::new(line, PollFlags::IN)));
        let has_probes = probes.is_some();
        for client in &self.clients {
            let (line, stderr, stream) = client.sockets();
            polled.extend(line.map(|line| PollFd::new(line, PollFlags::IN)));
            polled.extend(stderr.map(|stderr| PollFd::new(stderr, PollFlags::IN)));
            polled.extend(stream.map(|stream| PollFd::new(stream, PollFlags::RDHUP)));
        }
        interrupt::wait_for_any(&mut polled, within)?;
        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(polled);
        let mut ready = ready.into_iter();
        let has_arrival = ready.next() == Some(true);
        let is_asked = ready.next() == Some(true);
        if has_probes
            && ready.next() == Some(true)
            && let Some(probing) = &mut self.probing
        {
            probing.read();
        }
        let mut news = Vec::new();
        for (index, client) in self.clients.iter_mut().enumerate() {
            let (line, stderr, stream) = client.sockets();
            let (has_line, has_stderr) = (line.is_some(), stderr.is_some());
            let has_stream = stream.is_some();
            if has_line && ready.next() == Some(true) {
                news.extend(client.read_line().map(|news| (index, news)));
            }
            if has_stderr && ready.next() == Some(true) {
                client.read_messages();
            }
            if has_stream && ready.next() == Some(true) {
                client.lose_peer();
            }
        }
        // From the last one on: a late client moves to the end.
        for (index, news) in news.into_iter().rev() {
            match news {
                News::Ready(ready) => {
                    if let Some(reason) = self.limits.excess(&ready) {
                        self.clients[index].refuse(reason);
                    }
                }
                News::Begins => self.client_line(index, "begins"),
                News::Late => self.send_back(index),
            }
        }
        Ok((has_arrival, is_asked))
    }

    /// Moves a client that has not answered to the end of the queue, or refuses it.
    fn send_back(&mut self, index: usize) {
        let client = self.clients.remove(index);
        self.clients.push(client);
        let entries: Vec<_> = self.clients.iter().map(Client::entry).collect();
        let last = self.clients.len() - 1;
        let place = places(&entries).last().map_or(1, |(_, place)| *place);
        if self.clients[last].go_back(place) {
            self.client_line(last, &format!("does not answer when it is called, place {place}"));
        }
    }

    /// Starts a process for each client that has arrived.
    fn receive(&mut self, arrivals: &Receiver<Arrival>) -> Result<(), TryRecvError> {
        loop {
            match arrivals.try_recv() {
                Ok(Arrival::Client(newcomer)) => self.admit(newcomer),
                Ok(Arrival::Status(stream)) => requests::answer_status(stream, &self.status()),
                Ok(Arrival::Watcher(peer, stream)) => {
                    let probing = self.probing.as_mut();
                    let refused = probing.and_then(|probing| probing.add_watcher(peer, stream));
                    if let Some((peer, reason)) = refused {
                        self.refused(&format!("{peer} probe: refused: {reason}"));
                    }
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(ended) => return Err(ended),
            }
        }
    }

    fn admit(&mut self, newcomer: Newcomer) {
        let device = newcomer.device.unwrap_or(self.plan.device);
        let peer = newcomer.peer;
        match self.room(&self.present()).place(peer.ip()) {
            Ok(None) => {}
            Ok(Some(index)) => self.give_way(index),
            Err(reason) => {
                self.turn_away(newcomer, device, &reason);
                return;
            }
        }
        let wants_document = newcomer.requested.is_some_and(RequestedCommand::wants_document);
        let refusal = if wants_document && self.has_just_answered() {
            Some(requests::too_early())
        } else {
            lacks(device, self.plan.device)
        };
        match refusal {
            Some(reason) => self.refuse(newcomer, device, &reason),
            None => self.arrived.push_back((newcomer, device)),
        }
    }

    /// The clients: those with a process, then those that have arrived.
    fn present(&self) -> Vec<Present> {
        let arrived = self.arrived.iter().map(|(newcomer, _)| Present {
            host: newcomer.peer.ip(),
            progress: ClientProgress::Arrived,
        });
        self.clients.iter().map(Client::present).chain(arrived).collect()
    }

    fn room<'p>(&'p self, present: &'p [Present]) -> Room<'p> {
        Room { present, most: self.limits.clients }
    }

    /// Returns when the first process that starts stops keeping others waiting, if any wait.
    fn place_due(&self) -> Option<Instant> {
        if self.arrived.is_empty() {
            return None;
        }
        let starting = self.clients.iter().filter(|client| client.is_starting());
        let ends = starting.map(|client| client.since() + TURN);
        ends.filter(|end| *end > Instant::now()).min()
    }

    /// Makes room for a new client: turns away the client without a process with this index.
    fn give_way(&mut self, index: usize) {
        if let Some((other, device)) = self.arrived.remove(index - self.clients.len()) {
            let (host, most) = (other.peer.ip(), self.limits.clients);
            let reason =
                format!("the server has {most} clients already (--max-clients), most of {host}");
            self.turn_away(other, device, &reason);
        }
    }

    /// Refuses a client, which comes again if it waits.
    fn turn_away(&mut self, newcomer: Newcomer, device: DeviceName, reason: &str) {
        let (peer, doing) = (newcomer.peer, newcomer.doing());
        let reason = newcomer.turn_away(reason);
        self.refused(&refusal_line(peer, doing, device, &reason));
    }

    /// Whether a question was admitted within the last interval. Otherwise the next interval begins
    /// now: readings disturb those who measure.
    fn has_just_answered(&mut self) -> bool {
        let has = (self.answered).is_some_and(|last| last.elapsed() < requests::INTERVAL);
        if !has {
            self.answered = Some(Instant::now());
        }
        has
    }

    fn refuse(&mut self, newcomer: Newcomer, device: DeviceName, reason: &str) {
        let line = refusal_line(newcomer.peer, newcomer.doing(), device, reason);
        newcomer.refuse(reason);
        self.refused(&line);
    }

    /// Starts the processes of clients that have arrived.
    fn start(&mut self) {
        while let Some(index) = self.room(&self.present()).next()
            && let Some((newcomer, device)) = self.arrived.remove(index - self.clients.len())
        {
            match Client::start(self.plan, &newcomer, device, self.limits.run) {
                Ok(client) => self.clients.push(client),
                Err(failure) => {
                    let is_at_limit = failure.is_at_limit();
                    let reason = failure.context("the server cannot start a process").message();
                    if is_at_limit {
                        let (peer, doing) = (newcomer.peer, newcomer.doing());
                        let reason = newcomer.turn_away(&reason);
                        self.refused(&refusal_line(peer, doing, device, &reason));
                    } else {
                        self.refuse(newcomer, device, &reason);
                    }
                }
            }
        }
    }

    /// Removes the clients that have ended.
    fn reap(&mut self) {
        let mut index = 0;
        while index < self.clients.len() {
            let Some(status) = self.clients[index].advance() else {
                index += 1;
                continue;
            };
            let client = self.clients.remove(index);
            let name = client.name();
            let (host, doing, took) = (client.host(), client.doing(), client.took());
            let is_printed = client.is_printed;
            let ending = client.ended().ending(status);
            let line = format!("{name}: {}", ending.text);
            let priority = match ending.outcome {
                ClientOutcome::Refused => {
                    self.refused(&line);
                    continue;
                }
                ClientOutcome::Left => {
                    self.counts.left += 1;
                    Priority::Info
                }
                ClientOutcome::Done => {
                    self.counts.done += 1;
                    self.totals.runs.fetch_add(1, Ordering::Relaxed);
                    let log = &self.log;
                    self.refusals.served(|line| log.line(Priority::Warning, line));
                    Priority::Info
                }
                ClientOutcome::Failed => {
                    self.counts.failed += 1;
                    Priority::Warning
                }
            };
            let now = Instant::now();
            if is_printed.unwrap_or_else(|| self.runs.begins(host, now))
                || self.runs.ends(host, doing, &ending, took)
            {
                self.log.line(priority, line);
            }
        }
    }

    /// Logs what happens to a client, unless there are too many lines about its host.
    fn client_line(&mut self, index: usize, what: &str) {
        let client = &mut self.clients[index];
        let host = client.host();
        let begins = || self.runs.begins(host, Instant::now());
        if *client.is_printed.get_or_insert_with(begins) {
            let line = format!("{}: {what}", client.name());
            self.log.line(Priority::Info, line);
        }
    }

    /// Counts a client that was refused or did not begin.
    fn refused(&mut self, line: &str) {
        self.counts.refused += 1;
        let log = &self.log;
        self.refusals.add(line, |line| log.line(Priority::Warning, line));
    }

    /// Removes the clients that have ended, and begins the runs of those whose turn it is.
    fn advance(&mut self) {
        self.reap();
        self.start();
        let entries = || self.clients.iter().map(Client::entry).collect::<Vec<_>>();
        let begin = turns(&entries(), self.limits.buffers);
        for index in begin {
            self.clients[index].call();
        }
        if let Some(probing) = &mut self.probing {
            let entries = self.clients.iter().map(Client::entry);
            let used = entries.filter(QueueEntry::has_turn).flat_map(|entry| entry.devices);
            probing.advance(used.collect());
        }
        let entries: Vec<_> = self.clients.iter().map(Client::entry).collect();
        for (index, place) in places(&entries) {
            if self.clients[index].set_place(place) {
                self.client_line(index, &format!("waits, place {place}"));
            }
        }
        let log = &self.log;
        self.runs.advance(Instant::now(), |priority, line| log.line(priority, line));
    }

    /// The state of the server in lines.
    fn status(&self) -> String {
        let (host, port, pid) = (host_name(), self.port, std::process::id());
        let up = self.since.elapsed().as_secs();
        let EndCounts { done, failed, left, refused } = self.counts;
        let refused = refused + self.totals.clients.load(Ordering::Relaxed);
        let unrelated = self.totals.unrelated.load(Ordering::Relaxed);
        let mut text = format!(
            "cxidiag {} on {host}, port {port}, process {pid}, for {up} s\n\
             runs: {done} done, {failed} failed, {left} ended by the client; \
             refused: {refused} clients, {unrelated} other connections\n",
            env!("CARGO_PKG_VERSION")
        );
        if let Some(probing) = &self.probing {
            text += &(probing.status() + "\n");
        }
        if self.clients.is_empty() && self.arrived.is_empty() {
            text += "no clients\n";
        }
        for client in &self.clients {
            text += &(client.state() + "\n");
        }
        for (newcomer, device) in &self.arrived {
            let (peer, tool) = (newcomer.peer, newcomer.doing());
            text += &format!("{peer} {tool} on {device}: arrives\n");
        }
        text
    }

    /// Ends all processes, which release their NICs first.
    fn stop_all(&mut self) {
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
        for (newcomer, _) in self.arrived.drain(..) {
            newcomer.refuse("the server ends");
        }
        self.clients.iter_mut().for_each(Client::stop);
        if let Some(probing) = &mut self.probing {
            probing.stop();
        }
        while !self.clients.is_empty() {
            self.reap();
            thread::sleep(INTERVAL);
        }
        let log = &self.log;
        self.runs.finish(|priority, line| log.line(priority, line));
    }
}

/// The line about a client that is refused.
fn refusal_line(peer: SocketAddr, doing: &str, device: DeviceName, reason: &str) -> String {
    format!("{peer} {doing} on {device}: refused: {reason}")
}
