//! Return codes of puts and gets, their events, and that a failed operation moves no byte
//! (nic.md 3.8, 3.9, 4.3, 6, 7).

use crate::driver::prelude::*;

const WRITE_ONLY: u32 = CXI_MAP_PIN | CXI_MAP_WRITE;
const READ_ONLY: u32 = CXI_MAP_PIN | CXI_MAP_READ;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Put,
    Get,
}
use Kind::{Get, Put};

/// A rig with an entry for puts and gets at index 0.
struct Bench {
    rig: Rig,
    local: Buffer,
    remote: Buffer,
    portal: Portal,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let (local, remote) = (rig.buffer(PAGE), rig.buffer(PAGE));
        let portal = rig.target_with(0, &remote, |entry| {
            quiet(entry);
            entry.set_op_get(true);
        });
        Self { rig, local, remote, portal }
    }

    /// Adds a quiet entry at `index`, for puts and gets over `remote`, changed by `choose`.
    fn entry(&mut self, index: u32, choose: impl FnOnce(&mut TargetCmd)) {
        let remote = self.remote;
        self.rig.target_with(index, &remote, |entry| {
            quiet(entry);
            entry.set_op_get(true);
            choose(entry);
        });
    }

    fn command(&self, kind: Kind, len: u32, choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
        self.rig.dma_put(&self.local, 0, len, |command| {
            command.set_user_ptr(0x77);
            if kind == Get {
                command.set_opcode(C_CMD_GET as u8);
            }
            choose(command);
        })
    }

    /// Executes an operation at index 0, and returns its code. Checks that a failed one moved
    /// no byte.
    fn run(&mut self, kind: Kind, len: u32, choose: impl FnOnce(&mut FullDmaCmd)) -> u32 {
        let (from, to, event) = match kind {
            Put => (self.local, self.remote, C_EVENT_ACK),
            Get => (self.remote, self.local, C_EVENT_REPLY),
        };
        from.pages.fill(0xaa);
        to.pages.fill(0);
        let command = self.command(kind, len, choose);
        let done = Completion::of(&self.rig.run(&command));
        assert_eq!((done.kind, done.user_ptr), (event, 0x77));
        if done.code == C_RC_OK {
            assert_eq!(done.mlength, len);
        } else {
            assert_eq!(done.mlength, 0);
            assert!(to.pages.is(0, PAGE, 0), "{kind:?} moved bytes");
        }
        done.code
    }

    /// The code of an operation of 8 bytes to this address.
    fn run_at(&mut self, kind: Kind, (dfa, ext): (u32, u8)) -> u32 {
        self.run(kind, 8, |command| _ = command.set_dfa(dfa).set_index_ext(ext))
    }
}

#[test]
fn answers_by_state_of_portal() {
    alone!();
    let mut bench = Bench::new();
    for (state, code) in [
        (C_PTLTE_DISABLED, C_RC_PT_DISABLED),
        (C_PTLTE_ENABLED, C_RC_OK),
        (C_PTLTE_RESET, C_RC_PT_DISABLED),
        // The reset removed the entry.
        (C_PTLTE_ENABLED, C_RC_ENTRY_NOT_FOUND),
    ] {
        bench.rig.set_state(bench.portal, state);
        for kind in [Put, Get] {
            assert_eq!(bench.run(kind, 3000, |_| {}), code, "{kind:?} state {state}");
        }
    }
    // A new portal is disabled.
    bench.rig.portal(32, |_| {});
    let dfa = bench.rig.dfa(32);
    assert_eq!(bench.run_at(Put, (dfa, 0)), C_RC_PT_DISABLED);
}

#[test]
fn rejects_unknown_addresses() {
    alone!();
    let mut bench = Bench::new();
    let (nid, pid) = (bench.rig.nid, bench.rig.pid);
    let own = address(nid, pid, 0);
    for kind in [Put, Get] {
        assert_eq!(bench.run_at(kind, own), C_RC_OK);
        // Another index, its extension, another PID, another NIC.
        for (address, code) in [
            (address(nid, pid, 32), C_RC_PTLTE_NOT_FOUND),
            ((own.0, 1), C_RC_PTLTE_NOT_FOUND),
            (address(nid, pid + 1, 0), C_RC_PTLTE_NOT_FOUND),
            (address(nid + 1, pid, 0), C_RC_UNDELIVERABLE),
        ] {
            assert_eq!(bench.run_at(kind, address), code, "{kind:?} {address:x?}");
        }
    }
    assert_eq!(call!(cxil_unmap_pte(bench.portal.map)), 0);
    assert_eq!(bench.run_at(Put, own), C_RC_PTLTE_NOT_FOUND);
}

#[test]
fn finds_portals_by_all_bits_of_their_index() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    for index in [0, 1, 31, 32, 37, 255] {
        let sink = rig.buffer(PAGE);
        let portal = rig.target(index, &sink);
        let (dfa, ext) = address(rig.nid, rig.pid, index);
        let mark = index as u8 ^ 0x5a;
        source.pages.write(0, &[mark]);
        let put = rig.nomatch_put(&source, 0, 1, |put| _ = put.set_dfa(dfa).set_index_ext(ext));
        assert_eq!(rig.code(&put), C_RC_OK, "index {index}");
        assert!(sink.pages.is(0, 1, mark));
        assert_eq!(call!(cxil_unmap_pte(portal.map)), 0);
    }
}

#[test]
fn rejects_unknown_vni() {
    alone!();
    let mut bench = Bench::new();
    // On its own NIC a wrong VNI looks like a wrong portal.
    let lcid = lcid(alloc_cp(bench.rig.lni, 10));
    bench.rig.tx = Queue::transmit(bench.rig.dev, bench.rig.lni, lcid);
    let own = address(bench.rig.nid, bench.rig.pid, 0);
    assert_eq!(bench.run_at(Put, own), C_RC_PTLTE_NOT_FOUND);
    // On another NIC the VNI is unknown while no domain there has it.
    let other = Rig::on(1);
    let theirs = address(other.nid, other.pid, 0);
    assert_eq!(bench.run_at(Put, theirs), C_RC_VNI_NOT_FOUND);
    let domain = alloc_domain(other.lni, 10, 100);
    assert_eq!(bench.run_at(Put, theirs), C_RC_PTLTE_NOT_FOUND);
    assert_eq!(call!(cxil_destroy_domain(domain)), 0);
    assert_eq!(bench.run_at(Put, theirs), C_RC_VNI_NOT_FOUND);
}

#[test]
fn checks_local_memory() {
    alone!();
    let mut bench = Bench::new();
    let (lac, end) = (bench.local.lac, bench.local.iova(PAGE));
    for kind in [Put, Get] {
        for (lac, address, len, code) in [
            (lac, end - 8, 8, C_RC_OK),
            (lac, end - 7, 8, C_RC_NO_TRANSLATION),
            (lac, end, 1, C_RC_NO_TRANSLATION),
            (lac, 0, 1, C_RC_NO_TRANSLATION),
            (lac, (1 << 57) - 1, 1, C_RC_NO_TRANSLATION),
            (lac, end - 8, u32::MAX, C_RC_NO_TRANSLATION),
            (7, end - 8, 8, C_RC_INVALID_AC),
            // Without bytes, no address is needed.
            (lac, end, 0, C_RC_OK),
            (lac, 0, 0, C_RC_OK),
        ] {
            let found =
                bench.run(kind, len, |command| _ = command.set_lac(lac).set_local_addr(address));
            assert_eq!(found, code, "{kind:?} of {len} bytes at {address:#x}");
        }
    }
    // A put reads local memory, a get writes it; the other right is not needed.
    let (needed, useless) = (READ_ONLY, WRITE_ONLY);
    for (kind, good, bad) in [(Put, needed, useless), (Get, useless, needed)] {
        for (flags, code) in [(good, C_RC_OK), (bad, C_RC_PAGE_PERM_ERROR)] {
            let buffer = Buffer::new(bench.rig.lni, PAGE, flags);
            let found = bench.run(kind, 3000, |command| {
                _ = command.set_lac(buffer.lac).set_local_addr(buffer.iova(0))
            });
            assert_eq!(found, code, "{kind:?}");
            let written = kind == Get && code == C_RC_OK;
            let expected = if written { 0xaa } else { 0 };
            assert!(buffer.pages.is(0, 3000, expected));
            buffer.unmap();
        }
    }
    bench.local.unmap();
    assert_eq!(bench.run(Put, 8, |_| {}), C_RC_NO_TRANSLATION);
}

#[test]
fn checks_bounds_of_entry() {
    alone!();
    let mut bench = Bench::new();
    let start = bench.remote.iova(100);
    bench.entry(32, |entry| _ = entry.set_start(start).set_length(3000));
    let dfa = bench.rig.dfa(32);
    for kind in [Put, Get] {
        for (offset, len, code) in [
            // Packets that would still fit move no byte either.
            (0, 3001, C_RC_NO_SPACE),
            (3000, 1, C_RC_NO_SPACE),
            ((1 << 56) - 1, 8, C_RC_NO_SPACE),
            (3001, 0, C_RC_NO_SPACE),
            (3000, 0, C_RC_OK),
            (0, 3000, C_RC_OK),
        ] {
            let found =
                bench.run(kind, len, |command| _ = command.set_dfa(dfa).set_remote_offset(offset));
            assert_eq!(found, code, "{kind:?} of {len} bytes at {offset}");
        }
        let (to, first) = match kind {
            Put => (bench.remote.pages, 100),
            Get => (bench.local.pages, 0),
        };
        assert!(to.is(0, first, 0) && to.is(first, 3000, 0xaa));
        assert!(to.is(first + 3000, PAGE - first - 3000, 0));
    }
}

#[test]
fn checks_memory_behind_entry() {
    alone!();
    let mut bench = Bench::new();
    let [readable, writable] =
        [READ_ONLY, WRITE_ONLY].map(|flags| Buffer::new(bench.rig.lni, PAGE, flags));
    // The first entry is longer than the mapped memory.
    bench.entry(32, |entry| _ = entry.set_length(1 << 40));
    bench.entry(64, |entry| _ = entry.set_lac(6));
    for (index, memory) in [(96, readable), (128, writable)] {
        bench.entry(index, |entry| _ = entry.set_lac(memory.lac).set_start(memory.iova(0)));
    }
    for (kind, index, code) in [
        (Put, 32, C_RC_NO_TRANSLATION),
        (Get, 32, C_RC_NO_TRANSLATION),
        (Put, 64, C_RC_INVALID_AC),
        (Get, 64, C_RC_INVALID_AC),
        (Put, 96, C_RC_PAGE_PERM_ERROR),
        (Get, 96, C_RC_OK),
        (Get, 128, C_RC_PAGE_PERM_ERROR),
        (Put, 128, C_RC_OK),
    ] {
        let offset = if index == 32 { 97 } else { 0 };
        let dfa = bench.rig.dfa(index);
        let found =
            bench.run(kind, 4000, |command| _ = command.set_dfa(dfa).set_remote_offset(offset));
        assert_eq!(found, code, "{kind:?} at index {index}");
    }
    assert!(readable.pages.is(0, PAGE, 0) && writable.pages.is(0, 4000, 0xaa));
    bench.remote.unmap();
    for kind in [Put, Get] {
        assert_eq!(bench.run(kind, 8, |_| {}), C_RC_NO_TRANSLATION);
    }
}

#[test]
fn rejects_operation_that_entry_does_not_allow() {
    alone!();
    let mut bench = Bench::new();
    for (index, allowed, other) in [(32, Put, Get), (64, Get, Put)] {
        bench.entry(index, |entry| _ = entry.set_op_put(allowed == Put).set_op_get(allowed == Get));
        let to = (bench.rig.dfa(index), 0);
        assert_eq!(bench.run_at(allowed, to), C_RC_OK);
        assert_eq!(bench.run_at(other, to), C_RC_OP_VIOLATION);
    }
}

#[test]
fn rejects_restricted_operation_on_matching_portal() {
    alone!();
    let mut bench = Bench::new();
    let portal = bench.rig.enabled(32, |options| options.set_is_matching(1));
    let remote = bench.remote;
    bench.rig.append(portal, |entry| {
        whole(entry, &remote);
        quiet(entry);
        entry.set_op_get(true).set_ignore_bits(u64::MAX);
    });
    let dfa = bench.rig.dfa(32);
    for kind in [Put, Get] {
        for (restricted, code) in [(true, C_RC_INVALID_ENDPOINT), (false, C_RC_OK)] {
            let found =
                bench.run(kind, 8, |command| _ = command.set_dfa(dfa).set_restricted(restricted));
            assert_eq!(found, code, "{kind:?}");
        }
    }
}

#[test]
fn moves_bytes_by_nomatch_get() {
    alone!();
    let mut bench = Bench::new();
    bench.remote.pages.fill(0x3c);
    let get = bench.rig.nomatch_put(&bench.local, 8, 2100, |get| {
        _ = get.set_opcode(C_CMD_NOMATCH_GET as u8).set_remote_offset(9)
    });
    bench.rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    assert!(bench.local.pages.is(8, 2100, 0x3c));
    assert!(bench.local.pages.is(2108, PAGE - 2108, 0));
}

#[test]
fn uses_first_entry_until_it_is_unlinked() {
    alone!();
    let mut bench = Bench::new();
    let second = bench.rig.buffer(PAGE);
    bench.rig.append(bench.portal, |entry| {
        whole(entry, &second);
        entry.set_buffer_id(2);
    });
    assert_eq!(bench.run(Put, 8, |_| {}), C_RC_OK);
    assert!(bench.remote.pages.is(0, 8, 0xaa) && second.pages.is(0, 8, 0));
    bench.rig.unlink(bench.portal, 0).is(C_EVENT_UNLINK, C_RC_OK);
    assert_eq!(bench.run(Put, 8, |_| {}), C_RC_OK);
    assert!(second.pages.is(0, 8, 0xaa));
}

#[test]
fn flow_control_disables_portal_without_entry() {
    alone!();
    let mut bench = Bench::new();
    let portal = bench.rig.enabled(32, |options| options.set_en_flowctrl(1));
    let to = (bench.rig.dfa(32), 0);
    assert_eq!(bench.run_at(Put, to), C_RC_PT_DISABLED);
    let change = bench.rig.teq.expect(C_EVENT_STATE_CHANGE, C_RC_OK);
    let by_nic = 1;
    let expected = [C_PTLTE_DISABLED as u8, C_SC_FC_NO_MATCH as u8, by_nic];
    assert_eq!(change.0[8..11], expected);
    assert_eq!(bench.run_at(Put, to), C_RC_PT_DISABLED);
    // Enabling needs the number of dropped messages: two.
    for (dropped, code) in [(0, C_RC_NO_MATCH), (1, C_RC_NO_MATCH), (2, C_RC_OK)] {
        let mut enable = set_state(portal.number, C_PTLTE_ENABLED);
        enable[16] = dropped;
        bench.rig.tgt.issue(&enable);
        assert_eq!(bench.rig.teq.wait().code(), code, "{dropped} dropped");
    }
}

#[test]
fn reports_gets_to_target() {
    alone!();
    let mut bench = Bench::new();
    bench.entry(32, |entry| {
        entry
            .set_event_success_disable(false)
            .set_event_comm_disable(false)
            .set_buffer_id(0xbeef)
            .set_length(3000);
    });
    let dfa = bench.rig.dfa(32);
    for (offset, code) in [(0, C_RC_OK), (8, C_RC_NO_SPACE)] {
        let found = bench.run(Get, 3000, |get| {
            get.set_dfa(dfa)
                .set_remote_offset(offset)
                .set_initiator(0x1122_3344)
                .set_match_bits(0x5555)
                .set_header_data(0x6666);
        });
        assert_eq!(found, code);
        let event = TargetEvent::of(&bench.rig.teq.expect(C_EVENT_GET, code));
        // Success is reported by a short event, failure by a long one.
        let failed = code != C_RC_OK;
        assert_eq!((event.long, event.remote_offset), (failed, offset));
        assert_eq!(event.rlength, 3000);
        assert_eq!(event.mlength, if failed { 0 } else { 3000 });
        assert_eq!((event.buffer_id, event.initiator), (0xbeef, 0x1122_3344));
        assert_eq!((event.match_bits, event.header_data), (0x5555, 0x6666));
    }
    // The entry of index 0 reports nothing.
    assert_eq!(bench.run(Get, 8, |_| {}), C_RC_OK);
    let too_long = u32::from(u16::MAX) * 8;
    assert_eq!(bench.run(Get, too_long, |_| {}), C_RC_NO_TRANSLATION);
    assert!(bench.rig.teq.poll().is_none());
}

#[test]
fn gates_events_at_initiator() {
    alone!();
    let mut bench = Bench::new();
    for kind in [Put, Get] {
        // Without success events, the next event belongs to the second operation.
        let silent = bench.command(kind, 8, |command| {
            _ = command.set_event_success_disable(true).set_user_ptr(1)
        });
        bench.rig.tx.emit(&silent);
        assert_eq!(bench.run(kind, 3000, |_| {}), C_RC_OK);
        let refused = bench.run(kind, 8, |command| {
            _ = command.set_event_success_disable(true).set_remote_offset(PAGE as u64)
        });
        assert_eq!(refused, C_RC_NO_SPACE);
        // A SEND event where it is not disabled.
        let sent = bench.command(kind, 3000, |command| _ = command.set_event_send_disable(false));
        let events = [bench.rig.run(&sent), bench.rig.eq.wait()];
        let mut kinds = events.each_ref().map(Event::kind);
        kinds.sort_unstable();
        let done = if kind == Put { C_EVENT_ACK } else { C_EVENT_REPLY };
        let mut expected = [C_EVENT_SEND, done];
        expected.sort_unstable();
        assert_eq!(kinds, expected);
        for event in events {
            assert_eq!((event.code(), event.0[0]), (C_RC_OK, 0x77));
        }
    }
    // Without a queue, no event is delivered.
    let unreported = bench.command(Put, 1, |put| _ = put.set_eq(0));
    bench.rig.tx.emit(&unreported);
    assert_eq!(bench.run(Put, 2, |_| {}), C_RC_OK);
}

#[test]
fn fence_waits_for_data_of_gets() {
    alone!();
    const LEN: usize = 300_000;
    let mut rig = Rig::new();
    let [from, through, to] = [(); 3].map(|()| rig.buffer(LEN));
    from.pages.fill(0x3c);
    for (index, memory) in [(0, &from), (32, &to)] {
        rig.target_with(index, memory, |entry| {
            quiet(entry);
            entry.set_op_get(true);
        });
    }
    let get = rig.dma_put(&through, 0, LEN as u32, |get| {
        _ = get.set_opcode(C_CMD_GET as u8).set_event_success_disable(true)
    });
    let put = rig.put_to(rig.dfa(32), &through, LEN);
    rig.tx.emit(&get);
    rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(to.pages.is(0, LEN, 0x3c));
}

/// A get and a fetching atomic that are under way when their target is killed.
#[test]
fn reports_target_that_is_killed_before_its_response() {
    alone!();
    if role().is_some() {
        let mut rig = Rig::on(1);
        let remote = rig.buffer(PAGE);
        rig.target_with(0, &remote, |entry| _ = entry.set_op_get(true));
        say(&format!("{} {}", rig.nid, rig.pid));
        listen();
        return;
    }
    let mut bench = Bench::new();
    let mut partner = Partner::start("target");
    let dfa = partner.receive_address();
    assert_eq!(bench.run_at(Get, (dfa, 0)), C_RC_OK);
    partner.pause();
    bench.local.pages.fill(0);
    let get = bench.command(Get, 3000, |get| _ = get.set_dfa(dfa));
    let amo = dma_amo(true, |amo| {
        amo.set_dfa(dfa)
            .set_lac(bench.local.lac)
            .set_local_read_addr(bench.local.iova(0))
            .set_write_lac(bench.local.lac)
            .set_local_write_addr(bench.local.iova(64))
            .set_eq(bench.rig.eq.number);
    });
    bench.rig.tx.emit(&get);
    bench.rig.tx.issue(&amo);
    bench.rig.tx.drain();
    assert!(bench.rig.eq.poll().is_none());
    partner.kill();
    for _ in 0..2 {
        bench.rig.eq.expect(C_EVENT_REPLY, C_RC_UNDELIVERABLE);
    }
    assert!(bench.local.pages.is(0, PAGE, 0));
    // The next process on the NIC removes the files of the killed one.
    drop(Rig::on(1));
}
