//! How the members of a survey start: how many there are, who starts them, and how they find the
//! coordinator.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::processes::LocalProcesses;
use super::request::{self, SurveyRequest};
use super::written::Outputs;
use cluster::host_list;
use cluster::launcher::LauncherTask;
use cluster::meeting_point::{self, MeetingPoint, Published, SIGHT_LIMIT};
use cluster::survey::timetable::Introduction;
use cluster::tree::{Event, Root};
use diag::session::invitation::{Invitation, Invited};
use facts::device::DeviceName;
use facts::error::{Failure, Step, invalid};
use facts::{interrupt, limit};
use facts::net::listener::{Listener, Reach};
use facts::number::time_text;
use facts::token::Token;
use plan::DEFAULT_PORT;
use plan::tools::TOOLS;
use report::survey::progress;

/// Number of servers that are invited at the same time.
const MOST_AT_ONCE: usize = 64;

/// How much longer than [`SIGHT_LIMIT`] the coordinator waits for tasks that do not see its file.
const GRACE: Duration = Duration::from_secs(1);

type ByRank<T> = BTreeMap<u32, T>;

/// How the members of a survey start.
pub struct Launch<'a> {
    /// Number of members.
    pub size: u32,
    /// Names of the hosts by rank. Of a launcher: the hosts in its list, empty if it has none.
    hosts: Vec<String>,
    /// What starts the members, in the document.
    pub launcher: String,
    /// Ranks of the members that the coordinator starts on its own machine.
    here: Vec<u32>,
    arguments: &'a [OsString],
    /// The task of this process, and the meeting point where the other tasks find it.
    task: Option<(LauncherTask, MeetingPoint)>,
}

/// The members that have joined, and what ends with the survey.
pub struct JoinedMembers {
    /// What they have introduced, by rank.
    pub joined: BTreeMap<u32, Introduction>,
    lost: BTreeMap<u32, String>,
    /// Processes that do not see the meeting point, and when they said so first.
    blind: BTreeMap<u32, Instant>,
    /// The file at which the processes of a launcher meet.
    file: Option<PathBuf>,
    /// How long the survey waited for missing members; none if the survey ended before.
    waited: Option<Duration>,
    processes: Option<LocalProcesses>,
    /// Processes on other hosts by rank, which end with it.
    invited: BTreeMap<u32, Invited>,
    /// The published meeting point. Its file is removed at the end.
    _published: Option<Published>,
}

impl JoinedMembers {
    /// Returns why a process is missing.
    pub fn absent(&self, rank: u32) -> String {
        if let Some(reason) = self.lost.get(&rank) {
            return reason.clone();
        }
        let Some(waited) = self.waited else {
            return "the survey ended before it joined".into();
        };
        if let Some(file) = self.file.as_ref().filter(|_| self.blind.contains_key(&rank)) {
            return format!("it does not see {}", file.display());
        }
        let invited = self.invited.get(&rank);
        let place = invited.and_then(Invited::place);
        let queue = place.map(|place| format!(": it waits for its turn, place {place}"));
        let queue = queue.unwrap_or_default();
        format!("it did not join within {}{queue}", time_text(waited))
    }

    /// Waits until all `size` members have joined, for `limit` at most.
    ///
    /// # Errors
    ///
    /// No process that joins, and an interruption.
    pub fn join(
        &mut self,
        root: &mut Root,
        size: u32,
        limit: Duration,
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        let until = Instant::now() + limit;
        while let Some(end) = self.ends(until, size)
            && Instant::now() < end
        {
            let count = self.joined.len() as u32;
            outputs.progress.show(|_| progress::waiting(count, size));
            let next = end.min(Instant::now() + Duration::from_millis(500));
            for event in root.poll(next)? {
                match event {
                    Event::Joined(introduction) => {
                        self.blind.remove(&introduction.rank);
                        self.joined.insert(introduction.rank, introduction);
                    }
                    Event::Lost { rank, reason } => {
                        self.joined.remove(&rank);
                        self.lost.insert(rank, reason);
                    }
                    Event::Knocked { rank } => {
                        self.blind.entry(rank).or_insert_with(Instant::now);
                    }
                    Event::TurnedAway { peer, reason } => {
                        outputs.note(&format!("turned {peer} away: {reason}"));
                    }
                    Event::Begun { .. } | Event::Report(_) => {}
                }
            }
        }
        self.waited = Some(limit);
        self.note_hint(size, outputs);
        if self.joined.is_empty() {
            return Err(Failure::environment("no process has joined"));
        }
        Ok(())
    }

    /// Returns when the wait for `size` processes ends, at `until` at the latest; `None` if none is
    /// missing.
    fn ends(&self, until: Instant, size: u32) -> Option<Instant> {
        let present = self.joined.len() + self.lost.len();
        let missing = (size as usize).checked_sub(present).filter(|n| *n > 0)?;
        // Tasks that see the file later have joined by then.
        let last = self.blind.values().max();
        let last = last.filter(|_| self.blind.len() >= missing);
        let sight = last.map(|last| *last + limit::in_effect(SIGHT_LIMIT) + GRACE);
        Some(sight.map_or(until, |sight| until.min(sight)))
    }

    /// Prints what is wrong with the meeting point, if tasks of a launcher do not see it, or no
    /// other task has come.
    fn note_hint(&self, size: u32, outputs: &mut Outputs) {
        let Some(file) = &self.file else { return };
        let what = match self.blind.len() {
            0 if self.joined.len() == 1 && size > 1 => "no other task has found".to_owned(),
            0 => return,
            1 => "1 task does not see".to_owned(),
            count => format!("{count} tasks do not see"),
        };
        let hint = "the directory must be shared by all nodes; --meeting-point names another file";
        outputs.note(&format!("{what} {}: {hint}", file.display()));
    }

    /// Waits for the end of the processes that were started here.
    pub fn finish(&mut self) {
        if let Some(processes) = self.processes.take() {
            processes.finish();
        }
    }
}

impl<'a> Launch<'a> {
    /// Returns the launch of this number of members on this machine, with the arguments of this
    /// process.
    pub fn loopback(count: u32, arguments: &'a [OsString]) -> Self {
        Self {
            size: count,
            // Each process stands for a node.
            hosts: (0..count).map(|rank| format!("node{rank}")).collect(),
            launcher: "loopback".into(),
            here: (0..count).collect(),
            arguments,
            task: None,
        }
    }

    /// Returns the launch of a member on each of these hosts, with the arguments of this process.
    pub fn hosts(hosts: &[String], arguments: &'a [OsString]) -> Self {
        Self {
            size: hosts.len() as u32,
            hosts: hosts.to_vec(),
            launcher: "hosts".into(),
            here: Vec::new(),
            arguments,
            task: None,
        }
    }

    /// Returns the launch of the tasks of a launcher, when this process is `task`. The member with
    /// its rank is a process of its own, so that coordinating and measuring do not disturb each
    /// other.
    pub fn task(
        task: LauncherTask,
        meeting_point: MeetingPoint,
        arguments: &'a [OsString],
    ) -> Self {
        Self {
            size: task.size,
            hosts: task.hosts.clone(),
            launcher: task.launcher.to_lowercase().replace(' ', ""),
            here: vec![task.rank],
            arguments,
            task: Some((task, meeting_point)),
        }
    }

    /// Returns whether a launcher has started the members: they name their hosts.
    pub fn has_launcher(&self) -> bool {
        self.task.is_some()
    }

    /// Returns whether all members are on this machine.
    fn is_here_only(&self) -> bool {
        self.task.is_none() && !self.here.is_empty()
    }

    /// Returns whether servers on other hosts start the members.
    fn invites_members(&self) -> bool {
        self.task.is_none() && self.here.is_empty()
    }

    /// Invites a process on each host. Returns the invited processes, and the reasons why other
    /// hosts have none.
    fn invite(
        &self,
        request: &SurveyRequest,
        port: u16,
        token: &Token,
    ) -> Result<(ByRank<Invited>, ByRank<String>), Failure> {
        let own = Token::of_environment();
        let servers = request.port.unwrap_or(DEFAULT_PORT);
        let mut plan = request::plan(&TOOLS[0], &[format!("--port={servers}")])?;
        plan.admission.token = own.clone();
        let text = |token: &Token| token.text().to_string_lossy().into_owned();
        let invitation = |rank| Invitation {
            rank,
            size: self.size,
            port,
            token: own.is_none().then(|| text(token)),
            devices: request.devices.iter().map(DeviceName::to_string).collect(),
            service: request.service.clone(),
        };
        let next = AtomicU32::new(0);
        let found = Mutex::new((BTreeMap::new(), BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..MOST_AT_ONCE.min(self.hosts.len()) {
                scope.spawn(|| {
                    loop {
                        let rank = next.fetch_add(1, Ordering::Relaxed);
                        let Some(host) = self.hosts.get(rank as usize) else {
                            return;
                        };
                        let sent = invitation(rank).send(&plan, host);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        match sent {
                            Ok(invited) => {
                                found.0.insert(rank, invited);
                            }
                            Err(failure) => {
                                found.1.insert(rank, unreached(&failure));
                            }
                        }
                    }
                });
            }
        });
        interrupt::check()?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the names of the hosts by rank, where these processes have `joined`. The tasks of a
    /// launcher name their hosts; the missing tasks are on the hosts of its list that remain, as
    /// far as that list is one of the tasks.
    pub fn host_names(&self, joined: &BTreeMap<u32, Introduction>) -> Vec<String> {
        if !self.has_launcher() {
            return self.hosts.clone();
        }
        let mut present: HashMap<&str, usize> = HashMap::new();
        for introduction in joined.values() {
            *present.entry(&introduction.host).or_default() += 1;
        }
        let mut remaining = self.hosts.clone();
        remaining.retain(|host| match present.get_mut(host.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
        let is_of_tasks = remaining.len() + joined.len() == self.size as usize;
        let mut remaining = remaining.into_iter().filter(|_| is_of_tasks);
        let name = |rank| match joined.get(&rank) {
            Some(introduction) => introduction.host.clone(),
            None => remaining.next().unwrap_or_else(|| format!("rank {rank}")),
        };
        (0..self.size).map(name).collect()
    }

    /// Returns the arguments as typed.
    pub fn typed(&self) -> Vec<String> {
        let text = |argument: &OsString| argument.to_string_lossy().into_owned();
        self.arguments.iter().map(text).collect()
    }

    /// Returns the step of the job.
    pub fn step(&self) -> Option<String> {
        self.task.as_ref()?.0.step.clone()
    }

    /// Returns when the job ends, in seconds since 1970, if its launcher tells.
    pub fn end_of_job(&self) -> Option<u64> {
        self.task.as_ref()?.0.end_of_job
    }

    /// Returns the largest number of pairs at the same time. On one machine, each pair needs two
    /// CPUs.
    pub fn most_active(&self, request: &SurveyRequest) -> Option<u32> {
        let by_cpus = || {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            (cpus as u32 / 2).max(1)
        };
        request
            .max_active
            .or_else(|| self.is_here_only().then(by_cpus))
    }

    /// Listens for members, where they find this process.
    fn listen(&self, request: &SurveyRequest) -> Result<Listening, Failure> {
        let agreed = self.task.as_ref().and_then(|(_, point)| point.port());
        // With --hosts, --port names the port of the servers.
        let own = request.port.filter(|_| !self.invites_members());
        let port = own.or(agreed).unwrap_or(0);
        let reach = if self.is_here_only() {
            Reach::ThisMachine
        } else {
            Reach::Everywhere
        };
        let bind = |port| Listener::bind(None, port, reach);
        let listener = match &self.task {
            Some((task, MeetingPoint::File(_))) if own.is_none() => {
                bind(meeting_point::port(task)).or_else(|_| bind(port))?
            }
            _ => bind(port)?,
        };
        let published = match &self.task {
            Some((task, point)) => point.publish(task, listener.port()).map(Some),
            None => Ok(None),
        };
        let token = match &published {
            Ok(Some(published)) => published.token.clone(),
            _ => Token::of_environment().unwrap_or_else(Token::random),
        };
        Ok(Listening {
            root: Root::listen(listener, token.clone(), self.size)?,
            token,
            published,
        })
    }

    /// Listens for members, starts the members on this machine, and invites the members at servers.
    ///
    /// # Errors
    ///
    /// A port that cannot be used, a meeting point that cannot be written, processes that cannot be
    /// started, two names of one server, and an interruption.
    pub fn start(
        &self,
        request: &SurveyRequest,
        limit: Duration,
    ) -> Result<(Root, JoinedMembers), Failure> {
        let Listening {
            root,
            token,
            published,
        } = self.listen(request)?;
        let published = match published {
            Ok(published) => published,
            Err(failure) => return Err(self.abort(root, failure, limit)),
        };
        let mut processes = LocalProcesses::default();
        for rank in &self.here {
            processes.start(self.arguments, (*rank, self.size), root.port(), &token)?;
        }
        let mut members = JoinedMembers {
            joined: BTreeMap::new(),
            lost: BTreeMap::new(),
            blind: BTreeMap::new(),
            file: self.task.as_ref().and_then(|(_, point)| point.file()),
            waited: None,
            processes: Some(processes),
            invited: BTreeMap::new(),
            _published: published,
        };
        if self.invites_members() {
            (members.invited, members.lost) = self.invite(request, root.port(), &token)?;
            self.check_servers(&members.invited)?;
        }
        Ok((root, members))
    }

    /// Prints why the survey has failed before its start, and tells the other tasks of the
    /// launcher that come within `limit`, so that they do not look for a coordinator. Returns the
    /// failure.
    pub fn fail(&self, request: &SurveyRequest, failure: Failure, limit: Duration) -> Failure {
        if !self.has_launcher() {
            return failure;
        }
        match self.listen(request) {
            Ok(Listening {
                root,
                published: _published,
                ..
            }) => self.abort(root, failure, limit),
            Err(_) => failure,
        }
    }

    /// Prints a failure, and tells the other tasks, which know `root`.
    fn abort(&self, root: Root, failure: Failure, limit: Duration) -> Failure {
        failure.report("cxidiag survey", &mut io::stderr());
        root.abort(&failure.message(), self.size - 1, limit);
        failure.printed()
    }

    /// Refuses two names of the same server: the second process would wait for the first one.
    fn check_servers(&self, invited: &ByRank<Invited>) -> Result<(), Failure> {
        let mut known = HashMap::new();
        for (rank, server) in invited {
            let host = &self.hosts[*rank as usize];
            if let Some(other) = known.insert(server.peer(), host) {
                let peer = server.peer();
                let why = format!("{other} and {host} are the same host ({})", peer.ip());
                let listed = host_list::compress(self.hosts.iter().map(String::as_str));
                return Err(Failure::usage(invalid("hosts", listed, why)));
            }
        }
        Ok(())
    }
}

/// A coordinator that listens for its members.
struct Listening {
    root: Root,
    token: Token,
    /// The published meeting point, of a launcher.
    published: Result<Option<Published>, Failure>,
}

/// Returns why there is no process on a host.
fn unreached(failure: &Failure) -> String {
    let question = if failure.step() == Some(Step::Tcp) {
        " (does 'cxidiag serve' run there?)"
    } else {
        ""
    };
    failure.message() + question
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_time_in_which_a_process_did_not_join() {
        let mut members = JoinedMembers {
            joined: BTreeMap::new(),
            lost: [(1, "it closed its connection".into())].into(),
            blind: BTreeMap::new(),
            file: None,
            waited: None,
            processes: None,
            invited: BTreeMap::new(),
            _published: None,
        };
        assert_eq!(members.absent(0), "the survey ended before it joined");
        members.waited = Some(Duration::from_secs(30));
        assert_eq!(members.absent(0), "it did not join within 30s");
        assert_eq!(members.absent(1), "it closed its connection");
    }
}
