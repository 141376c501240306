//! The landing of the last put, for puts like it.
//!
//! Programs send many puts in a row to one list entry. If no put changes the entry and the entry
//! delivers no event, a put lands where the last put did: the NIC compares it with the last put
//! instead of resolving, matching and checking it again. The effect equals the general way through
//! `put`, which is the model in the tests.
//!
//! The landing is forgotten when anything that it depends on may change: with any other operation,
//! any command of a target queue, and any call of libcxi.

use cxi_sys::*;

use super::address::Address;
use super::counter::Counting;
use super::lists::Landing;
use super::lni::Lni;
use super::location::MemoryKind;
use super::memory::MemoryAccess;
use super::portal::{self, Pte};
use super::telemetry::{ListCount, ListCounts, MatchedOperation};
use super::wire::{Packet, PacketKind};

/// Where puts like the last one land.
pub struct Remembered {
    address: Address,
    initiator: u32,
    match_bits: u64,
    restricted: bool,
    /// Virtual address and length of the entry's memory.
    memory: usize,
    length: u64,
    /// The counting of the entry.
    pub counting: Counting,
    pub ptl_list: u8,
    /// The entry is in the cache of persistent entries.
    is_cached: bool,
    /// Puts that landed here like the last one.
    pub puts: u64,
}

impl Remembered {
    /// The landing of puts like `packet`, a put of one packet that ended well at `landing`; `None`
    /// if further puts may change the entry, match another one, or cause events.
    pub fn of(packet: &Packet, landing: &Landing, pte: &Pte, lni: &Lni) -> Option<Self> {
        let entry = &landing.entry;
        let is_quiet = entry.event_comm_disable()
            || (entry.event_success_disable() && !pte.options.en_event_match);
        let is_constant = !entry.use_once() && !entry.manage_local();
        if !is_quiet || !is_constant || packet.kind != PacketKind::Put {
            return None;
        }
        // Behind another entry, a put of another length might match that one.
        if portal::find_entry(pte, packet) != Some((C_PTL_LIST_PRIORITY, 0)) {
            return None;
        }
        // Translated as a whole, so that each part of it is mapped too.
        let (lac, start, length) = (entry.lac(), entry.start(), entry.length());
        let memory = lni.space.translate(lac, start, length, MemoryAccess::Write);
        let memory =
            memory.ok().filter(|location| matches!(location.memory, MemoryKind::Pinned))?;
        Some(Self {
            address: packet.address,
            initiator: packet.initiator,
            match_bits: packet.match_bits(),
            restricted: packet.restricted,
            memory: memory.va,
            length,
            counting: Counting::from_entry(entry, entry.event_ct_comm()),
            ptl_list: entry.ptl_list(),
            is_cached: !pte.options.is_matching,
            puts: 0,
        })
    }

    /// Adds the puts that landed here to the counts of the lists.
    pub fn count_puts(&self, counts: &mut ListCounts) {
        let matching = MatchedOperation {
            kind: ListCount::Put,
            list: self.ptl_list,
            use_once: false,
            manage_local: false,
            truncated: false,
            cached: self.is_cached,
        };
        counts.matched(matching, self.puts);
        // They match the first entry.
        counts.searched(1, self.puts);
    }

    /// The virtual address at which a put lands; `None` unless it is like the last one.
    #[inline]
    pub fn place(&self, packet: &Packet) -> Option<usize> {
        let is_alike = packet.address == self.address
            && packet.initiator == self.initiator
            && packet.match_bits() == self.match_bits
            && packet.restricted == self.restricted
            && packet.return_code == 0;
        let is_whole = u32::from(packet.length) == packet.total;
        let left = self.length.checked_sub(packet.remote_offset)?;
        let fits = u64::from(packet.length) <= left;
        (is_alike && is_whole && fits).then(|| self.memory + packet.remote_offset as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use cxi_sys::records::{FullDmaCmd, TargetCmd};
    use proptest::prelude::*;

    use super::*;
    use crate::engine::counter::CountingEvent;
    use crate::engine::lists::ListEntry;
    use crate::engine::test_node::{PAGE, PID, TestNode, pages, pair, settle};

    const LEN: usize = PAGE;

    /// The words of the target's memory before the first put.
    const UNTOUCHED: u64 = u64::MAX;

    #[derive(Clone, Debug)]
    enum Step {
        /// Length, place at the target, match bits, and whether it is restricted.
        Put(u32, u64, u64, bool),
        Get,
        Sum,
        /// Number of the entry, and the change.
        Change(Change),
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Append(Flags),
        Unlink,
        State(bool),
        Unmap,
        EventForEachMatch(bool),
    }

    /// The fields of an entry that decide where puts land and what they report.
    #[derive(Clone, Copy, Debug)]
    struct Flags {
        start: u64,
        length: u64,
        match_bits: u64,
        use_once: bool,
        manage_local: bool,
        no_truncate: bool,
        op_put: bool,
        success_disable: bool,
        comm_disable: bool,
        counts: bool,
        counts_bytes: bool,
    }

    /// An initiator, and a target that counts.
    struct World {
        initiator: TestNode,
        target: TestNode,
        counter: u16,
        /// The target forgets the landing before each packet.
        forgets: bool,
        /// Puts for which the target had remembered a landing.
        alike: usize,
    }

    impl World {
        fn new(is_matching: bool, has_flow_control: bool, forgets: bool) -> Self {
            let (initiator, mut target, _) = pair(LEN, 64);
            initiator.number_words(LEN);
            for at in (0..LEN).step_by(8) {
                target.memory.word(at).store(UNTOUCHED, Ordering::Relaxed);
            }
            let counter = CountingEvent::new(target.lni, Arc::new(pages(PAGE)));
            let counter = target.engine.counters.insert(counter, 0, 512).unwrap() as u16;
            let pte = target.engine.ptes.get_mut(target.pte).unwrap();
            pte.options.is_matching = is_matching;
            pte.options.en_flowctrl = has_flow_control;
            pte.lists.get_mut(C_PTL_LIST_PRIORITY).unwrap().clear();
            target.engine.entries = crate::engine::portal::EntriesInUse::default();
            Self { initiator, target, counter, forgets, alike: 0 }
        }

        fn step(&mut self, step: &Step) {
            match *step {
                Step::Put(length, place, match_bits, restricted) => {
                    let mut put = FullDmaCmd::new();
                    put.set_cmd_type(C_CMD_TYPE_DMA as u8)
                        .set_cmd_size(1)
                        .set_opcode(C_CMD_PUT as u8)
                        .set_restricted(restricted)
                        .set_flush(place % 2 == 1)
                        .set_event_send_disable(true)
                        .set_dfa(1 << 12 | u32::from(PID))
                        .set_lac(self.initiator.lac)
                        .set_local_addr(self.initiator.iova + place % 64)
                        .set_request_len(length)
                        .set_remote_offset(place)
                        .set_match_bits(match_bits)
                        .set_eq(1);
                    self.initiator.issue(put.bytes());
                }
                Step::Get => self.initiator.get(512, 40),
                Step::Sum => self.initiator.sum(),
                Step::Change(change) => {
                    // As libcxi and the target queues do.
                    self.target.engine.forget_landing();
                    self.change(change);
                }
            }
            self.initiator.engine.poll();
            if self.forgets {
                self.target.engine.forget_landing();
            }
            let knew = self.target.engine.remembered.is_some();
            self.target.engine.poll();
            // The general way forgets, and remembers only what ended well.
            self.alike += usize::from(knew && matches!(step, Step::Put(..)));
            settle(&mut self.initiator, &mut self.target);
        }

        fn change(&mut self, change: Change) {
            let engine = &mut self.target.engine;
            let pte = engine.ptes.get_mut(self.target.pte).unwrap();
            let entries = pte.lists.get_mut(C_PTL_LIST_PRIORITY).unwrap();
            match change {
                Change::Append(flags) => {
                    let mut entry = TargetCmd::new();
                    entry
                        .set_op_put(flags.op_put)
                        .set_op_get(true)
                        .set_lac(self.target.lac)
                        .set_start(self.target.iova + flags.start)
                        .set_length(flags.length)
                        .set_match_bits(flags.match_bits)
                        .set_match_id(u32::MAX)
                        .set_use_once(flags.use_once)
                        .set_manage_local(flags.manage_local)
                        .set_no_truncate(flags.no_truncate)
                        .set_event_success_disable(flags.success_disable)
                        .set_event_comm_disable(flags.comm_disable)
                        .set_event_ct_comm(flags.counts)
                        .set_event_ct_bytes(flags.counts_bytes)
                        .set_ct(self.counter);
                    entries.push(ListEntry::new(entry));
                    engine.entries[0] += 1;
                }
                Change::Unlink if !entries.is_empty() => {
                    entries.remove(0);
                    engine.entries[0] -= 1;
                }
                Change::Unlink => {}
                Change::State(enabled) => {
                    pte.state = if enabled { C_PTLTE_ENABLED } else { C_PTLTE_DISABLED };
                }
                Change::EventForEachMatch(wanted) => pte.options.en_event_match = wanted,
                Change::Unmap => {
                    let TestNode { lni, lac, iova, .. } = self.target;
                    let space = &mut engine.lnis.get_mut(lni).unwrap().space;
                    if space.translate(lac, iova, 1, MemoryAccess::Read).is_ok() {
                        space.unmap(lac, iova, LEN);
                    }
                }
            }
        }

        /// Everything that programs can observe.
        fn outcome(&mut self) -> impl PartialEq + std::fmt::Debug + use<> {
            let memory = |node: &TestNode| (0..LEN).step_by(8).map(|at| node.word(at)).collect();
            let records = |node: &TestNode| {
                let words = (0..PAGE).step_by(8).map(|at| node.events.word(at));
                words.map(|word| word.load(Ordering::Relaxed)).collect()
            };
            let bytes: [Vec<u64>; 2] = [memory(&self.initiator), memory(&self.target)];
            let events: [Vec<u64>; 2] = [records(&self.initiator), records(&self.target)];
            let counter = self.target.engine.counters.get_mut(self.counter.into());
            let counts = counter.map(|counter| (counter.success, counter.failure));
            let telemetry = [&mut self.initiator, &mut self.target]
                .map(|node| format!("{:?}", node.engine.telemetry()));
            (bytes, events, counts, telemetry, self.target.engine.entries)
        }
    }

    fn flags() -> impl Strategy<Value = Flags> {
        let range = (0..64u64, prop_oneof![1 => Just(0), 4 => 1..200u64, 2 => Just(2048)]);
        let often = prop::bool::weighted;
        let kind = (0..2u64, often(0.1), often(0.1), often(0.4), often(0.9));
        let reports = (often(0.7), often(0.5), often(0.7), often(0.3));
        (range, kind, reports).prop_map(|(range, kind, reports)| Flags {
            start: range.0,
            length: range.1,
            match_bits: kind.0,
            use_once: kind.1,
            manage_local: kind.2,
            no_truncate: kind.3,
            op_put: kind.4,
            success_disable: reports.0,
            comm_disable: reports.1,
            counts: reports.2,
            counts_bytes: reports.3,
        })
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = prop_oneof![0..64u64, 100..220u64, Just((1 << 56) - 1)];
        let put = (0..80u32, place, 0..2u64, prop::bool::weighted(0.1));
        let change = prop_oneof![
            4 => flags().prop_map(Change::Append),
            2 => Just(Change::Unlink),
            2 => any::<bool>().prop_map(Change::State),
            1 => any::<bool>().prop_map(Change::EventForEachMatch),
        ];
        prop_oneof![
            16 => put.prop_map(|(length, place, bits, restricted)| {
                Step::Put(length, place, bits, restricted)
            }),
            1 => Just(Step::Get),
            1 => Just(Step::Sum),
            2 => change.prop_map(Step::Change),
        ]
    }

    proptest! {
        #[test]
        fn puts_like_the_last_one_have_the_same_effect(
            is_matching: bool,
            has_flow_control: bool,
            first in flags(),
            steps in proptest::collection::vec(step(), 1..24),
            unmaps: bool,
        ) {
            let mut worlds = [false, true].map(|forgets| World::new(is_matching, has_flow_control, forgets));
            for world in &mut worlds {
                world.step(&Step::Change(Change::Append(first)));
                for step in &steps {
                    world.step(step);
                }
                if unmaps {
                    world.step(&Step::Change(Change::Unmap));
                    for step in &steps {
                        world.step(step);
                    }
                }
            }
            let [outcome, model] = worlds.each_mut().map(World::outcome);
            prop_assert!(outcome == model, "{outcome:?}\n{model:?}");
            prop_assert_eq!(worlds[1].alike, 0);
        }
    }

    const QUIET: Flags = Flags {
        start: 0,
        length: 512,
        match_bits: 0,
        use_once: false,
        manage_local: false,
        no_truncate: false,
        op_put: true,
        success_disable: true,
        comm_disable: false,
        counts: true,
        counts_bytes: false,
    };

    #[test]
    fn put_that_fits_an_earlier_entry_lands_there() {
        let outcome = |forgets| {
            let mut world = World::new(false, false, forgets);
            let short = Flags { length: 8, no_truncate: true, ..QUIET };
            world.step(&Step::Change(Change::Append(short)));
            world.step(&Step::Change(Change::Append(Flags { start: 1024, ..QUIET })));
            for length in [64, 8] {
                world.step(&Step::Put(length, 0, 0, false));
            }
            assert_ne!(world.target.word(0), UNTOUCHED);
            world.outcome()
        };
        assert!(outcome(false) == outcome(true));
    }

    #[test]
    fn remembers_landing_of_quiet_persistent_entry_only() {
        let remembers = |flags: Flags| {
            let mut world = World::new(false, false, false);
            world.step(&Step::Change(Change::Append(flags)));
            for _ in 0..3 {
                world.step(&Step::Put(8, 0, 0, false));
            }
            world.alike
        };
        assert_eq!(remembers(QUIET), 2);
        let comm_disable = true;
        let reporting = Flags { success_disable: false, ..QUIET };
        assert_eq!(remembers(Flags { comm_disable, ..reporting }), 2);
        assert_eq!(remembers(reporting), 0);
        assert_eq!(remembers(Flags { manage_local: true, ..QUIET }), 0);
        assert_eq!(remembers(Flags { use_once: true, ..QUIET }), 0);
    }
}
