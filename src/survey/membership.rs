//! The members that have joined a survey, and why others have not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::outputs::Notes;
use super::processes::LocalProcesses;
use crate::result::progress;
use campaign::timetable::SurveyWork;
use crew::introduction::Introduction;
use crew::meeting_point::{PublishedCoordinator, SIGHT_LIMIT};
use crew::star::{Event, Root};
use facts::error::Failure;
use facts::limit;
use facts::number::time_text;
use session::requests::Invited;

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
    pub invited: BTreeMap<u32, Invited>,
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
