//! How the members of a survey start: how many there are, who starts them, and how they find the
//! coordinator.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::processes::LocalProcesses;
use super::request::{self, SurveyRequest};
use super::written::Outputs;
use cluster::launcher::LauncherTask;
use cluster::meeting_point::{MeetingPoint, Published};
use cluster::survey::timetable::Introduction;
use cluster::tree::{Event, Root};
use diag::session::invitation::{Invitation, Invited};
use facts::device::DeviceName;
use facts::error::{Failure, Step};
use facts::interrupt;
use facts::net::listener::{Listener, Reach};
use facts::number::time_text;
use facts::token::Token;
use plan::DEFAULT_PORT;
use plan::tools::TOOLS;
use report::survey::progress;

/// Number of servers that are invited at the same time.
const MOST_AT_ONCE: usize = 64;

type ByRank<T> = BTreeMap<u32, T>;

/// How the members of a survey start.
pub struct Launch<'a> {
    /// Number of members.
    pub size: u32,
    /// Names of the hosts by rank; empty if unknown.
    pub hosts: Vec<String>,
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
        let has_all = |of: &Self| of.joined.len() + of.lost.len() >= size as usize;
        while !has_all(self) && Instant::now() < until {
            let count = self.joined.len() as u32;
            outputs.progress.show(|_| progress::waiting(count, size));
            let next = until.min(Instant::now() + Duration::from_millis(500));
            for event in root.poll(next)? {
                match event {
                    Event::Joined(introduction) => {
                        self.joined.insert(introduction.rank, introduction);
                    }
                    Event::Lost { rank, reason } => {
                        self.joined.remove(&rank);
                        self.lost.insert(rank, reason);
                    }
                    Event::TurnedAway { peer, reason } => {
                        outputs.note(&format!("turned {peer} away: {reason}"));
                    }
                    Event::Begun { .. } | Event::Report(_) | Event::Checked { .. } => {}
                }
            }
        }
        self.waited = Some(limit);
        if self.joined.is_empty() {
            return Err(Failure::environment("no process has joined"));
        }
        Ok(())
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
            hosts: Vec::new(),
            launcher: task.launcher.to_lowercase().replace(' ', ""),
            here: vec![task.rank],
            arguments,
            task: Some((task, meeting_point)),
        }
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

    /// Listens for members, starts the members on this machine, and invites the members at servers.
    ///
    /// # Errors
    ///
    /// A port that cannot be used, a meeting point that cannot be written, processes that cannot be
    /// started, and an interruption.
    pub fn start(&self, request: &SurveyRequest) -> Result<(Root, JoinedMembers), Failure> {
        let agreed = self.task.as_ref().and_then(|(_, point)| point.port());
        // With --hosts, --port names the port of the servers.
        let own = request.port.filter(|_| !self.invites_members());
        let port = own.or(agreed).unwrap_or(0);
        let reach = if self.is_here_only() {
            Reach::ThisMachine
        } else {
            Reach::Everywhere
        };
        let listener = Listener::bind(None, port, reach)?;
        let published = match &self.task {
            Some((task, point)) => Some(point.publish(task, listener.port())?),
            None => None,
        };
        let own = || Token::of_environment().unwrap_or_else(Token::random);
        let token = published
            .as_ref()
            .map_or_else(own, |published| published.token.clone());
        let root = Root::listen(listener, token.clone(), self.size)?;
        let mut processes = LocalProcesses::default();
        for rank in &self.here {
            processes.start(self.arguments, (*rank, self.size), root.port(), &token)?;
        }
        let mut members = JoinedMembers {
            joined: BTreeMap::new(),
            lost: BTreeMap::new(),
            waited: None,
            processes: Some(processes),
            invited: BTreeMap::new(),
            _published: published,
        };
        if self.invites_members() {
            (members.invited, members.lost) = self.invite(request, root.port(), &token)?;
        }
        Ok((root, members))
    }
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
