//! How the members of a survey start: how many there are, who starts them, and how they find the
//! coordinator.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::diagnosis_course::added_tests;
use super::processes::LocalProcesses;
use super::request::{self, RequestedTest, SurveyRequest};
use crate::membership::JoinedMembers;
use campaign::timetable::SurveyWork;
use crew::introduction::Introduction;
use crew::launcher::{LauncherTask, command_line};
use crew::meeting_point::{MeetingPoint, PublishedCoordinator};
use crew::star::{Root, allow_connections};
use crew::{host_list, launcher, meeting_point};
use facts::device::DeviceName;
use facts::error::{Failure, Step, invalid};
use facts::net::{Listener, Reach, check_loopback};
use facts::token::Token;
use facts::{interrupt, threads};
use node::machine::usable_cpus;
use plan::DEFAULT_PORT;
use plan::tools::TOOLS;
use session::requests::{self, Invitation, Invited};

/// Number of servers that are invited at the same time.
const MOST_AT_ONCE: usize = 64;

/// Name of the command that starts members by itself.
const SURVEY: &str = "survey";

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
    /// Ranks of the members that servers on other hosts start.
    invited: Vec<u32>,
    /// The NICs of these members, if they differ from the NICs of the request.
    invited_devices: Option<Vec<DeviceName>>,
    /// The command and the arguments of this process.
    command: &'static str,
    arguments: &'a [OsString],
    /// The task of this process, and the meeting point where the other tasks find it.
    task: Option<(LauncherTask, MeetingPoint)>,
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
            ..Self::hosts(&[], arguments)
        }
    }

    /// Returns the launch of a member on each of these hosts, with the arguments of this process.
    pub fn hosts(hosts: &[String], arguments: &'a [OsString]) -> Self {
        Self {
            size: hosts.len() as u32,
            hosts: hosts.to_vec(),
            launcher: "hosts".into(),
            here: Vec::new(),
            invited: (0..hosts.len() as u32).collect(),
            invited_devices: None,
            command: SURVEY,
            arguments,
            task: None,
        }
    }

    /// Returns the launch of a member on this machine, `host`, and of one with these NICs on each
    /// of the `peers`.
    pub fn beside(
        host: String,
        peers: &[String],
        devices: Vec<DeviceName>,
        arguments: &'a [OsString],
    ) -> Self {
        let size = 1 + peers.len() as u32;
        Self {
            size,
            hosts: [&[host], peers].concat(),
            here: vec![0],
            invited: (1..size).collect(),
            invited_devices: Some(devices),
            ..Self::hosts(&[], arguments)
        }
    }

    /// Returns the launch by another command than `survey`.
    pub fn for_command(self, command: &'static str) -> Self {
        Self { command, ..self }
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
            task: Some((task, meeting_point)),
            ..Self::hosts(&[], arguments)
        }
    }

    /// Returns whether a launcher has started the members: they name their hosts.
    pub fn has_launcher(&self) -> bool {
        self.task.is_some()
    }

    /// Returns whether all members are on this machine.
    fn is_here_only(&self) -> bool {
        self.task.is_none() && self.invited.is_empty()
    }

    /// Invites a process on each host of an invited member. Returns the invited processes, and the
    /// reasons why other hosts have none.
    fn invite(
        &self,
        request: &SurveyRequest,
        port: u16,
        token: &Token,
    ) -> Result<(ByRank<Invited>, ByRank<String>), Failure> {
        let own = Token::from_environment();
        let servers = request.port.unwrap_or(DEFAULT_PORT);
        let mut plan = request::plan(&TOOLS[0], &[format!("--port={servers}")])?;
        plan.admission.token = own.clone();
        let text = |token: &Token| token.text().to_string_lossy().into_owned();
        let (addresses, mut lost) =
            self.at_each(&self.invited, |_, host| requests::addresses(&plan, host))?;
        let devices = self.invited_devices.as_deref().unwrap_or(request.devices());
        let test = |own: &RequestedTest| (own.test.tool.clone(), own.arguments.clone());
        let invitation = |rank| Invitation {
            rank,
            size: self.size,
            port,
            token: own.is_none().then(|| text(token)),
            devices: devices.iter().map(DeviceName::to_string).collect(),
            tests: (request.tests.iter().map(test))
                .chain(added_tests(request))
                .chain(request.load.tests.iter().map(test))
                .collect(),
            service: request.service.arguments(),
        };
        let found: Vec<u32> = addresses.keys().copied().collect();
        let (invited, unreached) = self.at_each(&found, |rank, host| {
            invitation(rank).send(&plan, host, addresses[&rank].clone())
        })?;
        lost.extend(unreached);
        Ok((invited, lost))
    }

    /// Calls `work` with the ranks and names of these hosts, for several at the same time. Returns
    /// the results, and the reasons of failures.
    fn at_each<T: Send>(
        &self,
        ranks: &[u32],
        work: impl Fn(u32, &str) -> Result<T, Failure> + Sync,
    ) -> Result<(ByRank<T>, ByRank<String>), Failure> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new((BTreeMap::new(), BTreeMap::new()));
        threads::share(MOST_AT_ONCE.min(ranks.len()), || {
            while let Some(&rank) = ranks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = work(rank, &self.hosts[rank as usize]);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                match done {
                    Ok(done) => {
                        found.0.insert(rank, done);
                    }
                    Err(failure) => {
                        found.1.insert(rank, unreached(&failure));
                    }
                }
            }
        })?;
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
        let joined = joined.iter().map(|(rank, introduction)| (*rank, introduction.host.as_str()));
        launcher::nodes_of_tasks(self.size, &self.hosts, &joined.collect())
    }

    /// Returns the arguments as typed.
    pub fn typed(&self) -> Vec<String> {
        let text = |argument: &OsString| argument.to_string_lossy().into_owned();
        self.arguments.iter().map(text).collect()
    }

    /// Returns the command line that has started the processes; empty if it is not known. No file
    /// shows the line of `srun`.
    pub fn command_line(&self) -> Vec<String> {
        let command = [vec![self.command.to_owned()], self.typed()].concat();
        let starts_alone = !self.has_launcher() || self.launcher == "slurm";
        command_line::find(command_line::lines(), &command, starts_alone)
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
        request.max_active.or_else(|| self.is_here_only().then(|| (usable_cpus() / 2).max(1)))
    }

    /// Listens for members, where they find this process.
    fn listen(&self, request: &SurveyRequest) -> Result<Listening, Failure> {
        let agreed = self.task.as_ref().and_then(|(_, point)| point.port());
        // Where servers start members, --port names the port of the servers.
        let own = request.port.filter(|_| self.invited.is_empty());
        let port = own.or(agreed).unwrap_or(0);
        let reach = if self.is_here_only() { Reach::ThisMachine } else { Reach::Everywhere };
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
            _ => Token::from_environment().unwrap_or_else(Token::random),
        };
        Ok(Listening { root: Root::listen(listener, token.clone(), self.size)?, token, published })
    }

    /// Listens for members, starts the members on this machine, and invites the members at servers.
    ///
    /// # Errors
    ///
    /// Too few open files, a port that cannot be used, a meeting point that cannot be written,
    /// processes that cannot be started, two names of one server, and an interruption.
    pub fn start(
        &self,
        request: &SurveyRequest,
        limit: Duration,
    ) -> Result<(Root<SurveyWork>, JoinedMembers), Failure> {
        if let Err(failure) = allow_connections(self.size) {
            return Err(self.fail(request, failure, limit));
        }
        let Listening { root, token, published } = self.listen(request)?;
        let published = match published {
            Ok(published) => published,
            Err(failure) => return Err(self.abort(root, failure, limit)),
        };
        if !self.here.is_empty()
            && let Err(failure) = check_loopback()
        {
            return Err(self.abort(root, failure, limit));
        }
        let mut processes = LocalProcesses::default();
        for rank in &self.here {
            let place = (*rank, self.size);
            processes.start(self.command, self.arguments, place, root.port(), &token)?;
        }
        let file = self.task.as_ref().and_then(|(_, point)| point.file());
        let mut members = JoinedMembers::new(processes, file, published);
        if !self.invited.is_empty() {
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
            Ok(Listening { root, published: _published, .. }) => self.abort(root, failure, limit),
            Err(_) => failure,
        }
    }

    /// Prints a failure, and tells the other tasks, which know `root`.
    fn abort(&self, root: Root<SurveyWork>, failure: Failure, limit: Duration) -> Failure {
        failure.report("cxidiag survey", &mut io::stderr());
        // Processes that it starts itself have not begun.
        let others = self.task.as_ref().map_or(0, |_| self.size - 1);
        root.abort(&failure.message(), others, limit);
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
                let invited = self.invited.iter().map(|rank| &self.hosts[*rank as usize]);
                let listed = host_list::compress(invited.map(String::as_str));
                let option = if self.here.is_empty() { "hosts" } else { "peer" };
                return Err(Failure::usage(invalid(option, listed, why)));
            }
        }
        Ok(())
    }
}

/// A coordinator that listens for its members.
struct Listening {
    root: Root<SurveyWork>,
    token: Token,
    /// The published meeting point, of a launcher.
    published: Result<Option<PublishedCoordinator>, Failure>,
}

/// Returns why there is no process on a host.
fn unreached(failure: &Failure) -> String {
    let question =
        if failure.step() == Some(Step::Tcp) { " (does 'cxidiag serve' run there?)" } else { "" };
    failure.message() + question
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of hosts, where the tasks with these ranks have joined from these hosts.
    fn names(listed: &[&str], size: u32, joined: &[(u32, &str)]) -> Vec<String> {
        let task = LauncherTask {
            hosts: listed.iter().map(|&host| host.to_owned()).collect(),
            ..LauncherTask::numbered("Slurm", "SLURM_PROCID", 0, size)
        };
        let joined = joined.iter().map(|&(rank, host)| {
            let introduction =
                Introduction { rank, size, host: host.into(), topology: None, nics: Vec::new() };
            (rank, introduction)
        });
        let point = MeetingPoint::File("meeting".into());
        Launch::task(task, point, &[]).host_names(&joined.collect())
    }

    /// There is nobody whom it could wait for an hour.
    #[test]
    fn survey_that_starts_its_processes_itself_fails_at_once() {
        let launch = Launch::loopback(2, &[]);
        let listening = launch.listen(&SurveyRequest::default()).expect("a port");
        let failure = Failure::environment("lo is down");
        assert!(launch.abort(listening.root, failure, Duration::from_secs(3600)).is_printed());
    }

    #[test]
    fn missing_tasks_are_on_the_hosts_that_remain() {
        let joined = [(0, "n1"), (3, "n2")];
        assert_eq!(names(&["n1", "n2", "n3", "n4"], 4, &joined), ["n1", "n3", "n4", "n2"]);
        assert_eq!(names(&["n1", "n1", "n2", "n2"], 4, &joined), ["n1", "n1", "n2", "n2"]);
    }

    #[test]
    fn missing_tasks_have_no_name_without_a_list_of_the_tasks() {
        let unknown = ["n1", "rank 1", "rank 2"];
        for listed in [&[][..], &["n1", "n2"], &["n4", "n2", "n3"]] {
            assert_eq!(names(listed, 3, &[(0, "n1")]), unknown, "{listed:?}");
        }
    }
}
