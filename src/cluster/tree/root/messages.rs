//! The messages of members to the coordinator.

use super::{Event, Root};
use crate::timetable::Report;
use crate::tree::message::{FromMember, decode};
use facts::text;

/// Longest document of the check of a node, in bytes: 8 NICs have 64 KiB.
const MOST_DOCUMENT: usize = 4 << 20;

/// Why a member that sends other bytes is expelled.
const NO_MESSAGE: &str = "it sent bytes that are not a message of a survey";

impl Root {
    /// Handles a message that has come by this path, the sender first. A member that breaks a rule
    /// is expelled.
    pub(super) fn handle(&mut self, path: &[u32], body: &[u8]) {
        // A member whose parent has changed sends its message again.
        let sender = path.first().copied();
        let Some(rank) = sender.filter(|&rank| self.links.leads(path, rank)) else {
            return;
        };
        let message = decode(body).ok_or_else(|| NO_MESSAGE.to_owned());
        if let Err(reason) = message.and_then(|message| self.obey(rank, message)) {
            self.lose(rank, format!("expelled: {reason}"));
        }
    }

    /// Handles a message of a member. The error is the rule that it breaks.
    fn obey(&mut self, rank: u32, message: FromMember) -> Result<(), String> {
        match message {
            FromMember::Children(children) => {
                for &child in &children {
                    self.check_rank(child)?;
                    if !self.links.is_attached_to(child, Some(rank)) {
                        self.attached(child, Some(rank));
                    }
                }
                for child in self.links.children(rank) {
                    if !children.contains(&child) {
                        let reason = "it closed its connection: it failed or was killed".into();
                        self.gone(child, Some(rank), Some(reason));
                    }
                }
            }
            FromMember::Attached(child) => {
                self.check_rank(child)?;
                self.attached(child, Some(rank));
            }
            FromMember::Gone { rank: child, mut reason } => {
                self.check_rank(child)?;
                reason.iter_mut().for_each(text::accept);
                self.gone(child, Some(rank), reason);
            }
            FromMember::Begun => self.events.push(Event::Begun { rank }),
            FromMember::Report(report) => self.report(rank, report)?,
            FromMember::Checked(document) if document.len() > MOST_DOCUMENT => {
                return Err(format!("its check has {} bytes", document.len()));
            }
            FromMember::Checked(document) => {
                self.events.push(Event::Checked { rank, document });
            }
            FromMember::CopiedMemory(copy) => {
                self.events.push(Event::CopiedMemory { rank, copy });
            }
            FromMember::Failed(mut reason) => {
                text::accept(&mut reason);
                self.lose(rank, reason);
            }
            FromMember::Ended(traffic) => self.members[rank as usize].ended = Some(traffic),
        }
        Ok(())
    }

    fn check_rank(&self, rank: u32) -> Result<(), String> {
        let size = self.members.len();
        let is_valid = (rank as usize) < size;
        is_valid
            .then_some(())
            .ok_or_else(|| format!("it has named rank {rank}, and the survey has {size} processes"))
    }

    /// Takes over the report of a block, unless it has come before. The error is the rule that it
    /// breaks.
    fn report(&mut self, rank: u32, mut report: Report) -> Result<(), String> {
        let member = &mut self.members[rank as usize];
        if member.is_new(report.block) {
            report.accept(member.expected(rank, &self.tests))?;
            member.reported(report.block);
            self.events.push(Event::Report(report));
        }
        Ok(())
    }
}
