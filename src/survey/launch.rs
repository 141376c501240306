//! How the members of a survey start: how many there are, who starts them, how they find the
//! coordinator, which of them have joined, and why others have not.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::diagnosis_course::added_tests;
use super::outputs::Notes;
use super::processes::LocalProcesses;
use super::request::{self, RequestedTest, SurveyRequest};
use super::result::progress;
use campaign::timetable::SurveyWork;
use crew::host_list;
use crew::introduction::Introduction;
use crew::launcher::{self, LauncherTask, command_line};
use crew::meeting_point::{self, MeetingPoint, PublishedCoordinator, SIGHT_LIMIT};
use crew::star::{Event, Root, allow_connections};
use facts::device::DeviceName;
use facts::error::{Failure, Step, invalid};
use facts::net::{Listener, Reach, check_loopback};
use facts::number::time_text;
use facts::token::Token;
use facts::{interrupt, limit, threads};
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
    /// The launch of this number of members on this machine, with the arguments of this process.
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

    /// The launch of a member on each of these hosts, with the arguments of this process.
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

    /// The launch of a member on this machine, `host`, and of one with these NICs on each of the
    /// `peers`.
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

    /// The launch by another command than `survey`.
    pub fn for_command(self, command: &'static str) -> Self {
        Self { command, ..self }
    }

    /// The launch of the tasks of a launcher, when this process is `task`. The member with its rank
    /// is a process of its own, so that coordinating and measuring do not disturb each other.
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

    /// Whether a launcher has started the members: they name their hosts.
    pub fn has_launcher(&self) -> bool {
        self.task.is_some()
    }

    /// Whether all members are on this machine.
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

    /// The names of the hosts by rank, where these processes have `joined`. The tasks of a launcher
    /// name their hosts; the missing tasks are on the hosts of its list that remain, as far as that
    /// list is one of the tasks.
    pub fn host_names(&self, joined: &BTreeMap<u32, Introduction>) -> Vec<String> {
        if !self.has_launcher() {
            return self.hosts.clone();
        }
        let joined = joined.iter().map(|(rank, introduction)| (*rank, introduction.host.as_str()));
        launcher::nodes_of_tasks(self.size, &self.hosts, &joined.collect())
    }

    /// The arguments as typed.
    pub fn typed(&self) -> Vec<String> {
        let text = |argument: &OsString| argument.to_string_lossy().into_owned();
        self.arguments.iter().map(text).collect()
    }

    /// The command line that has started the processes; empty if it is not known. No file shows the
    /// line of `srun`.
    pub fn command_line(&self) -> Vec<String> {
        let command = [vec![self.command.to_owned()], self.typed()].concat();
        let starts_alone = !self.has_launcher() || self.launcher == "slurm";
        command_line::find(command_line::lines(), &command, starts_alone)
    }

    /// The step of the job.
    pub fn step(&self) -> Option<String> {
        self.task.as_ref()?.0.step.clone()
    }

    /// Returns when the job ends, in seconds since 1970, if its launcher tells.
    pub fn end_of_job(&self) -> Option<u64> {
        self.task.as_ref()?.0.end_of_job
    }

    /// The largest number of pairs at the same time. On one machine, each pair needs two CPUs.
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

/// How much longer than [`SIGHT_LIMIT`] the coordinator waits for tasks that do not see its file.
const GRACE: Duration = Duration::from_secs(1);

/// The members that have joined, and what ends with the survey.
#[derive(Default)]
pub struct JoinedMembers {
    /// What they have introduced, by rank.
    pub joined: BTreeMap<u32, Introduction>,
    /// Why others cannot join.
    pub lost: BTreeMap<u32, String>,
    /// Processes that do not see the meeting point, and when they said so first.
    blind: BTreeMap<u32, Instant>,
    /// The file at which the processes of a launcher meet.
    file: Option<PathBuf>,
    /// How long the survey waited for missing members; none if the survey ended before.
    waited: Option<Duration>,
    /// Processes on this machine.
    processes: Option<LocalProcesses>,
    /// Processes on other hosts by rank, which end with it.
    invited: BTreeMap<u32, Invited>,
    /// The published meeting point. Its file is removed at the end.
    published: Option<PublishedCoordinator>,
}

impl JoinedMembers {
    /// Keeps these `processes` of this machine, and the meeting point of a launcher: its `file`, if
    /// it has one, and that it is `published`.
    pub fn new(
        processes: LocalProcesses,
        file: Option<PathBuf>,
        published: Option<PublishedCoordinator>,
    ) -> Self {
        Self { file, processes: Some(processes), published, ..Self::default() }
    }

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
        let place = self.invited.get(&rank).and_then(Invited::place);
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
        root: &mut Root<SurveyWork>,
        size: u32,
        limit: Duration,
        notes: &mut Notes,
    ) -> Result<(), Failure> {
        let until = Instant::now() + limit;
        while let Some(end) = self.ends(until, size)
            && Instant::now() < end
        {
            self.note_refusals();
            let count = self.joined.len() as u32;
            notes.progress.show(|_| progress::waiting(count, size));
            let next = end.min(Instant::now() + Duration::from_millis(500));
            for event in root.poll(next)? {
                match event {
                    Event::Joined(introduction) => {
                        self.blind.remove(&introduction.rank);
                        self.joined.insert(introduction.rank, introduction);
                    }
                    Event::Lost { rank, reason } => {
                        if let Some(left) = self.joined.remove(&rank) {
                            notes.add(&format!("{}: {reason}", left.host));
                        }
                        self.lost.insert(rank, reason);
                    }
                    Event::Knocked { rank } => {
                        self.blind.entry(rank).or_insert_with(Instant::now);
                    }
                    Event::TurnedAway { peer, reason } => {
                        notes.add(&format!("turned {peer} away: {reason}"));
                    }
                    Event::Begun { .. }
                    | Event::Report { .. }
                    | Event::Checked { .. }
                    | Event::CopiedMemory { .. } => {}
                }
            }
        }
        self.note_refusals();
        self.waited = Some(limit);
        self.note_hint(size, notes);
        if self.joined.is_empty() {
            return Err(Failure::environment("no process has joined"));
        }
        Ok(())
    }

    /// Notes which servers have refused their processes, and which processes of this machine have
    /// ended.
    fn note_refusals(&mut self) {
        let ended = self.processes.as_mut().map(LocalProcesses::ended);
        for (rank, reason) in ended.unwrap_or_default() {
            if !self.joined.contains_key(&rank) {
                self.lost.entry(rank).or_insert(reason);
            }
        }
        for (&rank, invited) in &self.invited {
            let is_known = self.joined.contains_key(&rank) || self.lost.contains_key(&rank);
            if !is_known && let Err(failure) = invited.news() {
                self.lost.insert(rank, failure.message());
            }
        }
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
    fn note_hint(&self, size: u32, notes: &mut Notes) {
        let Some(file) = &self.file else { return };
        let shared =
            "the directory must be shared by all nodes; --meeting-point names another file";
        let file = file.display();
        notes.add(&match self.blind.len() {
            0 if self.joined.len() == 1 && size > 1 => {
                let published = self.published.iter();
                let addresses = published.flat_map(|published| &published.addresses);
                let addresses: Vec<_> = addresses.map(IpAddr::to_string).collect();
                format!(
                    "no other task has connected: other nodes need {file} ({shared}), and one of \
                     the addresses in it: {}",
                    addresses.join(", ")
                )
            }
            0 => return,
            1 => format!("1 task does not see {file}: {shared}"),
            count => format!("{count} tasks do not see {file}: {shared}"),
        });
    }

    /// Waits for the end of the processes that were started here.
    pub fn finish(&mut self) {
        if let Some(processes) = self.processes.take() {
            processes.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of hosts, where the tasks with these ranks have joined from these hosts.
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

    #[test]
    fn names_the_time_in_which_a_process_did_not_join() {
        let mut members = JoinedMembers {
            lost: [(1, "it closed its connection".into())].into(),
            ..JoinedMembers::default()
        };
        assert_eq!(members.absent(0), "the survey ended before it joined");
        members.waited = Some(Duration::from_secs(30));
        assert_eq!(members.absent(0), "it did not join within 30s");
        assert_eq!(members.absent(1), "it closed its connection");
    }
}
