//! The load of `check --stress`: one thread's writes of a NIC to itself (node-tools.md 5.4).
//!
//! With High Rate Puts, the writes match no list entries. Otherwise the target has list entries
//! that never match before the one that does. An entry serves all writes, or one write each.

use std::slice;

use cxi::records::{FullDmaCmd, IdcMsgHdr, TargetCmd};
use cxi::sys::CXI_MATCH_ID_ANY;
use cxi::{
    EmitError, EventType, IDC_MAX_UNRESTRICTED, MemoryRegion, PortalTableEntry, ReturnCode,
    TargetQueue, TransmitBatch,
};

use super::api::{Lists, Peer, RepeatLists, Step};
use super::common::lists::{ListInitiator, Words};
use super::common::memory::map;
use super::common::{
    Direction, Entry, IdcContext, ImmediatePut, ListCommand, ListOffsets, Match, Numbering,
    Portals, PutKind, RestrictedDma, portals,
};
use facts::error::{Context, Failure};
use node::explain::{self, Explain};
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "write", doing: "writing" };

/// List entries before the one that matches.
const DECOYS: u32 = 32;

/// Match bits of these entries.
const DECOY_BITS: u64 = 1;

/// Match bits of the first write.
const FIRST_BITS: u64 = 2;

/// Slots of the queue that appends entries, for each entry.
const SLOTS_PER_ENTRY: u32 = 4;

/// The resources of one thread, which writes to itself.
pub struct StressWriter {
    initiator: ListInitiator,
    portal: PortalTableEntry,
    portals: Portals,
    target: MemoryRegion,
    /// Appends an entry for each write of a list; `None` if one entry serves all.
    entries: Option<OnceEntries>,
    is_matching: bool,
}

/// Appends entries that serve one write each.
struct OnceEntries {
    commands: TargetQueue,
    entry: TargetCmd,
}

impl StressWriter {
    /// Allocates the resources for writes of `run`. With `persistent_entries`, one list entry
    /// serves all writes.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses.
    pub fn new(
        peer: Peer<'_>,
        run: &RunOptions,
        persistent_entries: bool,
    ) -> Result<Self, Failure> {
        let list_size: u32 = run.lists()?.list_size.into();
        let is_matching = !peer.own.hrp(run).is_on();
        let mut initiator = ListInitiator::new(peer, Buffer::full(run), list_size, WORDS)?;
        if !is_matching {
            initiator.allow_high_rate(peer.own, run.max_size)?;
        }
        if run.use_idc {
            let counter = Some(initiator.counter());
            initiator.initiator.set_idc_context(IdcContext {
                restricted: !is_matching,
                fetching: false,
                silent: true,
                counter,
            })?;
        }
        let numbering = Numbering::of(run, run.max_size);
        numbering.fill_all(&initiator.initiator.buffer, peer.supervisor)?;

        let mut portals = Portals::new(peer.own, list_size + 1)?;
        let target = map(peer.own, Use::Receive, Buffer::full(run))?;
        let mut portal = portals.open(peer.own, peer.portal, is_matching)?;
        let entry = |bits| Entry {
            matching: is_matching.then_some(Match {
                initiator: CXI_MATCH_ID_ANY,
                bits,
                ignored: 0,
            }),
            ..Entry::for_puts(run)
        };
        if is_matching {
            for _ in 0..DECOYS {
                portals.append(&mut portal, &target, entry(DECOY_BITS))?;
            }
        }
        let entries = if persistent_entries {
            portals.append(&mut portal, &target, entry(FIRST_BITS))?;
            None
        } else {
            portal.keep_mapped(&target);
            let mut command = entry(FIRST_BITS).append_command(&portal, &target);
            command.set_use_once(true);
            let commands = TargetQueue::new(peer.own.lni(), SLOTS_PER_ENTRY * list_size, None)
                .explain("cannot allocate the target command queue")?;
            Some(OnceEntries { commands, entry: command })
        };
        Ok(Self { initiator, portal, portals, target, entries, is_matching })
    }

    /// Passes the lists of the writes of `run` to `repeat`.
    ///
    /// # Errors
    ///
    /// The failure of `repeat`.
    pub fn measure<R: RepeatLists>(
        &mut self,
        run: &RunOptions,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let (size, offsets) = (run.max_size, ListOffsets::new(run, run.max_size)?);
        let lists = &self.initiator;
        if !self.is_matching {
            return match PutKind::of(run, size) {
                PutKind::Immediate => {
                    let numbering = Numbering::of(run, size);
                    let put = ImmediatePut::new(&lists.initiator, size, numbering);
                    repeat.run(slice::from_mut(&mut StressLists::new(self, offsets, put)))
                }
                _ => {
                    let put = RestrictedDma::new(lists, Direction::Put, size);
                    repeat.run(slice::from_mut(&mut StressLists::new(self, offsets, put)))
                }
            };
        }
        let step = u64::from(self.entries.is_some());
        if run.use_idc && size <= IDC_MAX_UNRESTRICTED as u64 {
            let mut header = IdcMsgHdr::new();
            header.set_dfa(lists.initiator.dfa());
            let payload = Numbering::of(run, size).bytes(size);
            let put = MatchedMessage { header, payload, bits: MatchBits::new(step) };
            return repeat.run(slice::from_mut(&mut StressLists::new(self, offsets, put)));
        }
        let mut command = lists.initiator.full(Direction::Put, size);
        command.set_event_success_disable(true).set_event_ct_ack(true).set_ct(lists.counter());
        let local = lists.initiator.buffer.iova(0);
        let put = MatchedDma { local, command, bits: MatchBits::new(step) };
        repeat.run(slice::from_mut(&mut StressLists::new(self, offsets, put)))
    }

    /// Releases the resources.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        portals::close(self.portal)?;
        if let Some(entries) = self.entries {
            entries.commands.close().explain("cannot release the target command queue")?;
        }
        self.portals.close()?;
        self.target.close().explain("cannot release the buffer")?;
        self.initiator.close()
    }
}

/// Match bits of the writes of a list.
struct MatchBits {
    bits: u64,
    /// Difference between two writes.
    step: u64,
}

impl MatchBits {
    fn new(step: u64) -> Self {
        Self { bits: FIRST_BITS, step }
    }

    /// Returns to the first write.
    fn restart(&mut self) {
        self.bits = FIRST_BITS;
    }

    fn next(&mut self) -> u64 {
        let bits = self.bits;
        self.bits += self.step;
        bits
    }
}

/// A put that matches a list entry, by DMA.
struct MatchedDma {
    local: u64,
    command: FullDmaCmd,
    bits: MatchBits,
}

impl ListCommand for MatchedDma {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command
            .set_local_addr(self.local + offset)
            .set_remote_offset(offset)
            .set_match_bits(self.bits.next());
        batch.emit_dma(&self.command)
    }

    fn advance(&mut self, _: &MemoryRegion) -> Result<(), Failure> {
        self.bits.restart();
        Ok(())
    }
}

/// A put that matches a list entry, with its data in the command. It has no offset.
struct MatchedMessage {
    header: IdcMsgHdr,
    payload: Vec<u8>,
    bits: MatchBits,
}

impl ListCommand for MatchedMessage {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, _: u64) -> Result<(), EmitError> {
        self.header.set_match_bits(self.bits.next());
        batch.emit_idc_msg(&self.header, &self.payload)
    }

    fn advance(&mut self, _: &MemoryRegion) -> Result<(), Failure> {
        self.bits.restart();
        Ok(())
    }
}

/// The next step of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Append,
    AwaitLink,
    Issue,
    AwaitCompletion,
}

/// Lists of one command, each issued when the NIC has completed the one before.
struct StressLists<'a, C> {
    writer: &'a mut StressWriter,
    offsets: ListOffsets,
    command: C,
    next: Next,
    completed: u64,
}

impl<'a, C: ListCommand> StressLists<'a, C> {
    fn new(writer: &'a mut StressWriter, offsets: ListOffsets, command: C) -> Self {
        Self { next: Self::first(writer), writer, offsets, command, completed: 0 }
    }

    fn first(writer: &StressWriter) -> Next {
        if writer.entries.is_some() { Next::Append } else { Next::Issue }
    }

    /// Appends an entry for each write of a list. Only the last one reports it.
    fn append(&mut self) -> Result<(), Failure> {
        let Some(OnceEntries { commands, entry }) = &mut self.writer.entries else {
            return Ok(());
        };
        let count = self.offsets.list_size();
        let mut batch = commands.batch();
        for place in 0..count {
            entry.set_event_link_disable(place + 1 < count);
            if self.writer.is_matching {
                entry.set_match_bits(FIRST_BITS + place);
            }
            batch.emit_target(entry).nic("cannot append the buffer")?;
        }
        batch.commit_doorbell();
        Ok(())
    }

    /// Whether all entries are in the list.
    fn is_linked(&mut self) -> Result<bool, Failure> {
        let events = &mut self.writer.portals.events;
        let Some(event) = events.poll() else {
            return Ok(false);
        };
        let (kind, code) = (event.event_type(), event.return_code());
        events.acknowledge();
        if (kind, code) != (EventType::LINK, ReturnCode::OK) {
            let what = "appending the buffer";
            return Err(explain::unexpected(what, kind, EventType::LINK, code));
        }
        Ok(true)
    }
}

impl<C: ListCommand> Lists for StressLists<'_, C> {
    #[inline]
    fn step(&mut self) -> Result<Step, Failure> {
        match self.next {
            Next::Append => {
                self.append()?;
                self.next = Next::AwaitLink;
            }
            Next::AwaitLink => {
                if self.is_linked()? {
                    self.next = Next::Issue;
                }
            }
            Next::Issue => {
                let (offsets, command) = (&mut self.offsets, &mut self.command);
                offsets.restart();
                let count = offsets.list_size();
                self.writer
                    .initiator
                    .issue(count, |batch| command.emit(batch, offsets.next_offset()))?;
                self.next = Next::AwaitCompletion;
            }
            Next::AwaitCompletion => {
                if self.writer.initiator.poll(|| ())? {
                    self.completed += 1;
                    self.command.advance(&self.writer.initiator.initiator.buffer)?;
                    self.next = Self::first(self.writer);
                    return Ok(Step::Complete);
                }
            }
        }
        Ok(Step::InFlight)
    }

    fn issued(&self) -> u64 {
        self.completed
    }

    fn are_under_way(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::common::PORTAL_INDEX;
    use super::super::testing::{Alone, TimesLists, endpoint};
    use super::*;
    use plan::testing::plan;

    /// Each kind of write arrives, several lists after each other.
    #[test]
    fn writes_with_each_command_and_kind_of_entry() {
        for options in [
            &["-s", "512"][..],
            &["-s", "224"],
            &["-s", "192", "--no-hrp"],
            &["-s", "512", "--no-hrp"],
            &["-s", "64", "--no-hrp", "--no-idc"],
            &["-s", "4096"],
        ] {
            for persistent_entries in [true, false] {
                let plan = plan("write-bw", &[&["-l", "5"], options].concat());
                let endpoint = endpoint(&plan);
                let address = endpoint.address().address;
                let peer =
                    Peer { own: &endpoint, address, portal: PORTAL_INDEX, supervisor: &Alone };
                let writer = StressWriter::new(peer, &plan.run, persistent_entries);
                let mut writer = writer.unwrap();
                writer.measure(&plan.run, TimesLists(3)).unwrap();
                // The first write of a list goes to the beginning.
                let size = plan.run.max_size;
                let mut arrived = vec![0; size as usize];
                writer.target.copy_out(0, &mut arrived).unwrap();
                let numbers = Numbering::of(&plan.run, size).bytes(size);
                assert_eq!(arrived, numbers, "{options:?} {persistent_entries}");
                writer.close().unwrap();
                endpoint.close().unwrap();
            }
        }
    }
}
