//! The documents of the tasks of a launcher in one place: each task makes one about its node, and
//! the coordinator reports what they amount to.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::introduction::Introduction;
use crate::launcher::{LauncherTask, nodes_of_tasks};
use crate::meeting_point::{MeetingPoint, join};
use crate::star::{Event, JOIN_LIMIT, Member, NoWork, Order, Root, allow_connections};
use facts::error::{Failure, Kind};
use facts::host::{HostIndex, host_name};
use facts::net::{Listener, Reach};
use facts::number::time_text;
use facts::token::Token;
use facts::{limit, threads};

/// How long the coordinator waits for tasks that have not joined.
const JOIN_WAIT: Duration = Duration::from_secs(30);

/// How long a task may take beyond its readings: the wait for another process, and traffic.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// How long the tasks may take to end.
const END_WAIT: Duration = Duration::from_secs(2);

/// Makes the document of a task; an empty one if another task of the node makes it.
pub type MakeDocument<'a> = &'a (dyn Fn() -> Result<Vec<u8>, Failure> + Sync);

/// Reads the document of a task, or returns why it is none.
pub type ReadDocument<'a, T> = &'a dyn Fn(&[u8]) -> Result<T, String>;

/// The name of the node of each task, and its document or why there is none.
pub type TaskAnswers<T> = Vec<(String, Result<T, String>)>;

/// How the tasks of a launcher come together.
#[derive(Clone, Copy, Debug)]
pub struct Gathering<'a> {
    /// Name of the command.
    pub command: &'static str,
    /// The file by which they find each other, if the user names one.
    pub meeting_point: Option<&'a Path>,
    /// How long the readings of a task take.
    pub window: Duration,
    /// Until when all tasks are waited for at the latest, and why a task has no document then.
    pub last: Option<(Instant, &'static str)>,
}

impl Gathering<'_> {
    /// Runs a task. The coordinator alone reports what it gathers.
    ///
    /// # Errors
    ///
    /// In the coordinator the failures of `report`. The others end without a failure, unless they
    /// are interrupted.
    pub fn run<T>(
        &self,
        task: &LauncherTask,
        document: MakeDocument,
        read: ReadDocument<T>,
        report: impl FnOnce(&dyn Fn() -> Result<TaskAnswers<T>, Failure>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let token = Token::from_environment();
        let point = MeetingPoint::of(task, self.meeting_point, token.as_ref())?;
        if point.is_coordinator(task) {
            return report(&|| self.gather(task, &point, document, read));
        }
        match take_part(task, &point, document) {
            // Hydra and Open MPI end all tasks if one fails. The coordinator determines the exit
            // status.
            Err(failure) if failure.kind != Kind::Interrupted => {
                let _ = writeln!(io::stderr(), "cxidiag {}: {failure}", self.command);
                Ok(())
            }
            ended => ended,
        }
    }

    /// Makes the document of this task, and receives the others.
    fn gather<T>(
        &self,
        task: &LauncherTask,
        point: &MeetingPoint,
        document: MakeDocument,
        read: ReadDocument<T>,
    ) -> Result<TaskAnswers<T>, Failure> {
        allow_connections(task.size)?;
        let listener = Listener::bind(None, point.port().unwrap_or(0), Reach::Everywhere)?;
        let published = point.publish(task, listener.port())?;
        let mut root = Root::listen(listener, published.token.clone(), task.size)?;
        let mut others = Others::new(task, self);
        let own = thread::scope(|scope| {
            let own = threads::start_in(scope, document)?;
            others.receive(&mut root)?;
            own.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let name = task.node.clone().unwrap_or_else(host_name);
        let mut answers = others.answers(&name, &task.hosts, read);
        match own {
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => answers.push((name, Err(failure.message()))),
            Ok(document) if document.is_empty() => {}
            Ok(document) => answers.push((name, read(&document))),
        }
        root.end(END_WAIT);
        Ok(answers)
    }
}

/// Makes the document of this task for the coordinator.
fn take_part(
    task: &LauncherTask,
    point: &MeetingPoint,
    document: MakeDocument,
) -> Result<(), Failure> {
    let introduction = Introduction {
        rank: task.rank,
        size: task.size,
        host: task.node.clone().unwrap_or_else(host_name),
        topology: None,
        nics: Vec::new(),
    };
    let end = Instant::now() + JOIN_LIMIT;
    let mut member: Member<NoWork> = join(&introduction, end, |_| point.find(task, end))?;
    loop {
        match member.next_order()? {
            Order::Check => match document() {
                Ok(document) => member.send_check(document),
                Err(failure) => {
                    member.fail(&failure.message());
                    return Err(failure);
                }
            },
            Order::End => break,
            Order::CopyMemory => {}
        }
    }
    member.end();
    Ok(())
}

/// The other tasks, by rank.
struct Others {
    own: u32,
    size: u32,
    /// Until when a task may join, and how long it may take after that.
    join_until: Instant,
    limit: Duration,
    /// Until when all tasks are waited for at the latest, and why there is no document then.
    last: Option<(Instant, &'static str)>,
    /// The tasks that have joined: their nodes, and when.
    joined: BTreeMap<u32, (String, Instant)>,
    /// Documents, empty if another task of the node sends it; and why there is none.
    documents: BTreeMap<u32, Result<Vec<u8>, String>>,
}

impl Others {
    fn new(task: &LauncherTask, gathering: &Gathering) -> Self {
        Self {
            own: task.rank,
            size: task.size,
            join_until: Instant::now() + limit::in_effect(JOIN_WAIT),
            limit: ANSWER_WAIT + gathering.window,
            last: gathering.last,
            joined: BTreeMap::new(),
            documents: BTreeMap::new(),
        }
    }

    /// Returns until when there is something to wait for: the latest of all tasks; `None` if all
    /// have answered.
    fn until(&self) -> Option<Instant> {
        let silent = (0..self.size).filter(|rank| *rank != self.own);
        let silent = silent.filter(|rank| !self.documents.contains_key(rank));
        let until = silent.map(|rank| match self.joined.get(&rank) {
            Some((_, joined)) => *joined + self.limit,
            None => self.join_until,
        });
        let until = until.max()?;
        Some(self.last.map_or(until, |(last, _)| until.min(last)))
    }

    /// Receives documents until all tasks have answered or their time is over.
    fn receive(&mut self, root: &mut Root<NoWork>) -> Result<(), Failure> {
        while let Some(until) = self.until().filter(|until| Instant::now() < *until) {
            for event in root.poll(until)? {
                match event {
                    Event::Joined(Introduction { rank, host, .. }) => {
                        self.joined.insert(rank, (host, Instant::now()));
                        root.send_checks([rank]);
                    }
                    Event::Checked { rank, document } => {
                        self.documents.insert(rank, Ok(document));
                    }
                    Event::Lost { rank, reason } => {
                        self.documents.entry(rank).or_insert(Err(reason));
                    }
                    Event::TurnedAway { .. }
                    | Event::Knocked { .. }
                    | Event::Begun { .. }
                    | Event::CopiedMemory { .. } => {}
                }
            }
        }
        Ok(())
    }

    /// The nodes and their documents. `own` is the node of this task, `hosts` the list of the
    /// launcher.
    fn answers<T>(mut self, own: &str, hosts: &[String], read: ReadDocument<T>) -> TaskAnswers<T> {
        let (mut answers, mut without) = (Vec::new(), Vec::new());
        let cut = self.last.filter(|(last, _)| Instant::now() >= *last);
        let joined = self.joined.iter().map(|(rank, (host, _))| (*rank, host.as_str()));
        let joined = joined.chain([(self.own, own)]).collect();
        let names = nodes_of_tasks(self.size, hosts, &joined);
        for rank in (0..self.size).filter(|rank| *rank != self.own) {
            let joined = self.joined.remove(&rank);
            let late = || match (cut, &joined) {
                (Some((_, why)), _) => why.to_owned(),
                (None, Some(_)) => format!("it did not answer within {}", time_text(self.limit)),
                (None, None) => {
                    format!("it did not join within {}", time_text(limit::in_effect(JOIN_WAIT)))
                }
            };
            let document = self.documents.remove(&rank).unwrap_or_else(|| Err(late()));
            let name = names[rank as usize].clone();
            match document {
                Ok(document) if document.is_empty() => without.push(name),
                document => answers.push((name, document.and_then(|document| read(&document)))),
            }
        }
        let names = answers.iter().map(|(name, _)| name.as_str());
        let known = HostIndex::new(names.chain([own]));
        without.retain(|name| known.find(name).is_none());
        let why = || Err("no task answers for it".to_owned());
        answers.extend(without.into_iter().map(|name| (name, why())));
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_tasks_until_the_time_is_over() {
        let task = LauncherTask::numbered("Slurm", "SLURM_PROCID", 0, 2);
        let others = |last: Option<Instant>| {
            let last = last.map(|last| (last, "too late"));
            let (meeting_point, window) = (None, Duration::ZERO);
            Others::new(&task, &Gathering { command: "check", meeting_point, window, last })
        };
        let last = Instant::now();
        assert_eq!(others(Some(last)).until(), Some(last));
        assert!(others(None).until() > Some(last));
        let hosts = ["nid0007".into(), "nid0008".into()];
        let (_, document) = others(Some(last)).answers("nid0007", &hosts, &|_| Ok(())).remove(0);
        assert_eq!(document.unwrap_err(), "too late");
    }
}
