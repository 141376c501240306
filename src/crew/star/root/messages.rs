//! The messages of members to the coordinator.

use std::time::Instant;

use super::{Event, Root};
use crate::star::clock::now_ns;
use crate::star::message::{Message, Order, Reply};
use crate::star::work::{Expected, Work};
use facts::text;

/// Longest document of the check of a node, in bytes: 8 NICs have 64 KiB.
const MOST_DOCUMENT: usize = 4 << 20;

/// Messages of a member that are handled before others have a turn.
const MOST_AT_ONCE: usize = 16;

impl<W: Work> Root<W> {
    /// Handles the messages of a member.
    pub(super) fn receive_from(&mut self, rank: u32) {
        for _ in 0..MOST_AT_ONCE {
            let Some(link) = &mut self.member(rank).link else {
                return;
            };
            link.flush();
            match link.receive() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    if let Err(reason) = self.take(rank, message) {
                        self.lose(rank, format!("expelled: {reason}"));
                    }
                }
                Err(loss) => self.gone(rank, &loss),
            }
        }
    }

    /// Handles a message of a member. The error is the rule that it breaks.
    fn take(&mut self, rank: u32, message: Message<W>) -> Result<(), String> {
        let member = self.member(rank);
        member.count_message(Instant::now())?;
        match message {
            Message::Ping { sent_ns } => {
                member.send(&Message::Pong { sent_ns, here_ns: now_ns() });
            }
            Message::Ready if !member.is_ready => self.ready(rank),
            Message::Reply { serial, reply } if member.is_ready => {
                self.reply(rank, serial, reply)?;
            }
            Message::Failed(mut reason) if member.is_ready => {
                text::accept(&mut reason);
                self.lose(rank, reason);
            }
            Message::Leave => {
                self.close(rank);
                if self.member(rank).has_joined() {
                    self.note_absence(rank, "it has left, and has not returned".into());
                }
            }
            _ => return Err("it sent a message out of turn".into()),
        }
        Ok(())
    }

    /// Takes over the reply to an order, which must be one of the kind of the order, about this
    /// member. The error is the rule that it breaks.
    fn reply(&mut self, rank: u32, serial: u32, reply: Reply<W>) -> Result<(), String> {
        let setup = self.setup.as_ref();
        let member = &mut self.members[rank as usize];
        let order = member.order(serial).ok_or("it sent a reply to no order")?;
        let event = match (order, reply) {
            (Order::TestSetup(_), Reply::Begun) => Event::Begun { rank },
            (Order::Block(block), Reply::Report(mut report)) => {
                let expected = Expected { rank, nics: member.nics(), setup, block: &block };
                W::accept(&mut report, expected)?;
                Event::Report { rank, report }
            }
            (Order::Check, Reply::Checked(document)) if document.len() > MOST_DOCUMENT => {
                return Err(format!("its check has {} bytes", document.len()));
            }
            (Order::Check, Reply::Checked(document)) => Event::Checked { rank, document },
            (Order::CopyMemory, Reply::CopiedMemory(copy)) => Event::CopiedMemory { rank, copy },
            (Order::End, Reply::Ended) => {
                member.has_ended = true;
                self.close(rank);
                return Ok(());
            }
            _ => return Err("its reply is not one to its order".into()),
        };
        member.answer(serial);
        self.events.push(event);
        Ok(())
    }
}
