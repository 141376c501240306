//! Gets: what initiator and target are told, when all goes well and when it does not (nic.md 3.8,
//! 3.9, 6, 7), and that no byte moves then.

mod driver;

use cxi_sys::records::*;
use cxi_sys::*;
use driver::alone::{Partner, alone, listen, role, say};
use driver::call;
use driver::memory::{Buffer, PAGE};
use driver::rig::{Portal, Rig, address, whole};
use driver::wait_for;

/// A rig with a target of non-zero bytes at index 0, and a buffer for what comes.
struct Bench {
    rig: Rig,
    local: Buffer,
    remote: Buffer,
    portal: Portal,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let local = rig.buffer(PAGE);
        let remote = rig.buffer(PAGE);
        remote.pages.fill(0xaa);
        let portal = rig.target_with(0, &remote, |entry| {
            entry
                .set_op_put(false)
                .set_op_get(true)
                .set_event_success_disable(true)
                .set_event_comm_disable(true);
        });
        Self {
            rig,
            local,
            remote,
            portal,
        }
    }

    /// A portal at `index` whose entry is as `choose` makes it out of one for gets over `remote`.
    fn portal(&mut self, index: u32, choose: impl FnOnce(&mut TargetCmd)) {
        let remote = self.remote;
        self.rig.target_with(index, &remote, |entry| {
            entry
                .set_op_put(false)
                .set_op_get(true)
                .set_event_comm_disable(true);
            choose(entry);
        });
    }

    fn command(&self, len: u32, choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
        self.rig.dma_put(&self.local, 0, len, |get| {
            get.set_opcode(C_CMD_GET as u8).set_user_ptr(0x77);
            choose(get);
        })
    }

    /// Return code of a get; one that fails must have brought nothing.
    fn get(&mut self, len: u32, choose: impl FnOnce(&mut FullDmaCmd)) -> u32 {
        self.local.pages.fill(0);
        let command = self.command(len, choose);
        let event = self.rig.run(&command);
        assert_eq!(event.kind(), C_EVENT_REPLY);
        let record = EventInitiatorShort::from_bytes(event.bytes());
        assert_eq!(record.user_ptr(), 0x77);
        if event.code() == C_RC_OK {
            assert_eq!(record.mlength(), len);
        } else {
            assert_eq!(record.mlength(), 0);
            assert!(self.local.pages.is(0, PAGE, 0), "nothing comes");
        }
        event.code()
    }
}

#[test]
fn states_of_the_portal() {
    alone(|| {
        let mut bench = Bench::new();
        for (state, code) in [
            (C_PTLTE_DISABLED, C_RC_PT_DISABLED),
            (C_PTLTE_RESET, C_RC_PT_DISABLED),
            (C_PTLTE_ENABLED, C_RC_ENTRY_NOT_FOUND),
        ] {
            bench.rig.set_state(bench.portal, state);
            assert_eq!(bench.get(3000, |_| {}), code, "state {state}");
        }
        assert!(bench.remote.pages.is(0, PAGE, 0xaa));
    });
}

#[test]
fn addresses_of_nobody() {
    alone(|| {
        let mut bench = Bench::new();
        let (nid, pid) = (bench.rig.nid, bench.rig.pid);
        for (dfa, code) in [
            (address(nid, pid, 32).0, C_RC_PTLTE_NOT_FOUND),
            (address(nid, pid + 1, 0).0, C_RC_PTLTE_NOT_FOUND),
            (address(nid + 1, pid, 0).0, C_RC_UNDELIVERABLE),
        ] {
            let get = |get: &mut FullDmaCmd| {
                get.set_dfa(dfa);
            };
            assert_eq!(bench.get(8, get), code);
        }
    });
}

#[test]
fn rights_and_bounds_of_the_entry() {
    alone(|| {
        let mut bench = Bench::new();
        bench.portal(32, |entry| {
            entry.set_op_get(false).set_op_put(true);
        });
        let dfa = bench.rig.dfa(32);
        let code = bench.get(8, |get| {
            get.set_dfa(dfa);
        });
        assert_eq!(code, C_RC_OP_VIOLATION);

        let start = bench.remote.iova(100);
        bench.portal(64, |entry| {
            entry.set_start(start).set_length(3000);
        });
        let dfa = bench.rig.dfa(64);
        let mut get = |offset: u64, len: u32| {
            bench.get(len, |get| {
                get.set_dfa(dfa).set_remote_offset(offset);
            })
        };
        assert_eq!(get(0, 3001), C_RC_NO_SPACE);
        assert_eq!(get(3000, 1), C_RC_NO_SPACE);
        assert_eq!(get((1 << 56) - 1, 8), C_RC_NO_SPACE);
        assert_eq!(get(3001, 0), C_RC_NO_SPACE);
        assert_eq!(get(3000, 0), C_RC_OK);
        assert_eq!(get(0, 3000), C_RC_OK);
        assert!(bench.local.pages.is(0, 3000, 0xaa));
        assert!(bench.local.pages.is(3000, 1096, 0));
    });
}

#[test]
fn memory_behind_the_entry() {
    alone(|| {
        let mut bench = Bench::new();
        // The entry promises more than is mapped.
        bench.portal(32, |entry| {
            entry.set_length(1 << 40);
        });
        bench.portal(64, |entry| {
            entry.set_lac(6);
        });
        let unreadable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
        bench.portal(96, |entry| {
            entry.set_lac(unreadable.lac).set_start(unreadable.iova(0));
        });
        for (index, code) in [
            (32, C_RC_NO_TRANSLATION),
            (64, C_RC_INVALID_AC),
            (96, C_RC_PAGE_PERM_ERROR),
        ] {
            let dfa = bench.rig.dfa(index);
            let code_seen = bench.get(4000, |get| {
                get.set_dfa(dfa)
                    .set_remote_offset(97 * u64::from(index == 32));
            });
            assert_eq!(code_seen, code, "index {index}");
        }
        assert_eq!(call!(cxil_unmap(bench.remote.md)), 0);
        assert_eq!(bench.get(8, |_| {}), C_RC_NO_TRANSLATION);
    });
}

#[test]
fn local_addresses() {
    alone(|| {
        let mut bench = Bench::new();
        let end = bench.local.iova(PAGE);
        let lac = bench.local.lac;
        let mut get = |lac: u8, address: u64, len: u32| {
            bench.get(len, |get| {
                get.set_lac(lac).set_local_addr(address);
            })
        };
        assert_eq!(get(lac, end - 7, 8), C_RC_NO_TRANSLATION);
        assert_eq!(get(lac, end, 1), C_RC_NO_TRANSLATION);
        assert_eq!(get(lac, 0, 1), C_RC_NO_TRANSLATION);
        assert_eq!(get(7, end - 8, 8), C_RC_INVALID_AC);
        assert_eq!(get(lac, end - 8, u32::MAX), C_RC_NO_TRANSLATION);
        assert_eq!(get(lac, 0, 0), C_RC_OK, "no bytes, no address");
        assert_eq!(get(lac, end - 8, 8), C_RC_OK);
        assert!(bench.local.pages.is(PAGE - 8, 8, 0xaa));
        let unwritable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
        let code = bench.get(8, |get| {
            get.set_lac(unwritable.lac)
                .set_local_addr(unwritable.iova(0));
        });
        assert_eq!(code, C_RC_PAGE_PERM_ERROR);
        assert!(unwritable.pages.is(0, PAGE, 0));
        // Memory that may be written only is good enough, in its own context.
        let unreadable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
        let code = bench.get(3000, |get| {
            get.set_lac(unreadable.lac)
                .set_local_addr(unreadable.iova(0));
        });
        assert_eq!(code, C_RC_OK);
        assert!(unreadable.pages.is(0, 3000, 0xaa));
    });
}

#[test]
fn restricted_gets_reach_no_matching_portal() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |options| options.set_is_matching(1));
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        let remote = bench.remote;
        bench.rig.append(portal, |entry| {
            whole(entry, &remote);
            entry.set_op_get(true).set_ignore_bits(u64::MAX);
        });
        let dfa = bench.rig.dfa(32);
        for (restricted, code) in [(true, C_RC_INVALID_ENDPOINT), (false, C_RC_OK)] {
            let seen = bench.get(8, |get| {
                get.set_dfa(dfa).set_restricted(restricted);
            });
            assert_eq!(seen, code);
        }
    });
}

/// The target's events: short when all is well, long when not, none when not wanted.
#[test]
fn events_at_the_target() {
    alone(|| {
        let mut bench = Bench::new();
        bench.portal(32, |entry| {
            entry
                .set_event_comm_disable(false)
                .set_buffer_id(0xbeef)
                .set_length(3000);
        });
        let dfa = bench.rig.dfa(32);
        let mut get = |offset| {
            bench.get(3000, |get| {
                get.set_dfa(dfa)
                    .set_remote_offset(offset)
                    .set_initiator(0x1122_3344)
                    .set_match_bits(0x5555)
                    .set_header_data(0x6666);
            })
        };
        assert_eq!(get(0), C_RC_OK);
        assert_eq!(get(8), C_RC_NO_SPACE);
        let event = bench.rig.teq.wait();
        assert_eq!((event.kind(), event.code()), (C_EVENT_GET, C_RC_OK));
        let short = EventTargetShort::from_bytes(event.bytes());
        let seen = (short.buffer_id(), short.initiator(), short.length());
        assert_eq!(seen, (0xbeef, 0x1122_3344, 3000));
        assert_eq!((short.match_bits(), short.header_data()), (0x5555, 0x6666));
        let event = bench.rig.teq.wait();
        assert_eq!((event.kind(), event.code()), (C_EVENT_GET, C_RC_NO_SPACE));
        let long = EventTargetLong::from_bytes(event.bytes());
        assert_eq!((long.rlength(), long.mlength()), (3000, 0));
        assert_eq!(long.remote_offset(), 8);
        // The entry of index 0 wants to hear of nothing.
        assert_eq!(bench.get(8, |_| {}), C_RC_OK);
        assert_eq!(
            bench.get(u32::from(u16::MAX) * 8, |_| {}),
            C_RC_NO_TRANSLATION
        );
        assert!(bench.rig.teq.poll().is_none());
    });
}

/// Success and failure, with and without leave to be silent; and SEND beside REPLY.
#[test]
fn events_at_the_initiator() {
    alone(|| {
        let mut bench = Bench::new();
        let silent = bench.command(8, |get| {
            get.set_event_success_disable(true);
        });
        bench.rig.tx.emit(&silent);
        assert_eq!(bench.get(3000, |_| {}), C_RC_OK);
        let refused = bench.get(8, |get| {
            get.set_event_success_disable(true)
                .set_remote_offset(PAGE as u64);
        });
        assert_eq!(refused, C_RC_NO_SPACE);
        let talkative = bench.command(16, |get| {
            get.set_event_send_disable(false);
        });
        assert_eq!(bench.rig.run(&talkative).kind(), C_EVENT_SEND);
        assert_eq!(bench.rig.eq.wait().kind(), C_EVENT_REPLY);
    });
}

/// A fence waits for data to come, not only for requests to go.
#[test]
fn a_put_behind_a_fence_carries_what_a_get_before_it_brought() {
    alone(|| {
        const LEN: usize = 300_000;
        let mut rig = Rig::new();
        let (from, through, to) = (rig.buffer(LEN), rig.buffer(LEN), rig.buffer(LEN));
        from.pages.fill(0x3c);
        let entry = |entry: &mut TargetCmd| {
            entry.set_op_get(true).set_event_comm_disable(true);
        };
        rig.target_with(0, &from, entry);
        rig.target_with(32, &to, entry);
        let get = rig.dma_put(&through, 0, LEN as u32, |get| {
            get.set_opcode(C_CMD_GET as u8)
                .set_event_success_disable(true);
        });
        let dfa = rig.dfa(32);
        let put = rig.dma_put(&through, 0, LEN as u32, |put| {
            put.set_dfa(dfa);
        });
        rig.tx.emit(&get);
        rig.tx.emit(&driver::commands::cq(C_CMD_CQ_FENCE, 0));
        assert_eq!(rig.code(&put), C_RC_OK);
        assert!(to.pages.is(0, LEN, 0x3c));
    });
}

/// Stops a child, and waits until none of its threads runs any more.
fn stop(pid: i32) {
    // SAFETY: a signal to a child of ours.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
    let mut status = 0;
    // SAFETY: the status is there to be filled.
    let stopped = unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) };
    assert!(stopped == pid && libc::WIFSTOPPED(status));
}

/// Targets that die with the request unanswered, gets and atomic operations alike.
#[test]
fn a_target_that_dies_is_reported() {
    alone(|| {
        if role().is_some() {
            let mut rig = Rig::on(1);
            let remote = rig.buffer(PAGE);
            rig.target_with(0, &remote, |entry| {
                entry.set_op_get(true);
            });
            say(&format!("{} {}", rig.nid, rig.pid));
            listen();
            return;
        }
        let mut bench = Bench::new();
        let mut partner = Partner::start("a_target_that_dies_is_reported", "target");
        let said = partner.hear();
        let (nid, pid) = said.split_once(' ').unwrap();
        let (dfa, _) = address(nid.parse().unwrap(), pid.parse().unwrap(), 0);
        // Alive, it answers.
        let code = bench.get(8, |get| {
            get.set_dfa(dfa);
        });
        assert_eq!(code, C_RC_OK);
        stop(partner.child.id() as i32);
        let get = bench.command(3000, |get| {
            get.set_dfa(dfa);
        });
        let mut amo = DmaAmoCmd::new();
        amo.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(2)
            .set_opcode(C_CMD_FETCHING_ATOMIC as u8)
            .set_event_send_disable(true)
            .set_dfa(dfa)
            .set_lac(bench.local.lac)
            .set_local_read_addr(bench.local.iova(0))
            .set_write_lac(bench.local.lac)
            .set_local_write_addr(bench.local.iova(64))
            .set_request_len(8)
            .set_eq(bench.rig.eq.number)
            .set_atomic_op(C_AMO_OP_SUM as u8)
            .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
        let mut amo = amo.bytes().to_vec();
        amo.resize(128, 0);
        bench.rig.tx.emit(&get);
        bench.rig.tx.emit(&amo);
        bench.rig.tx.ring();
        bench.rig.tx.drain();
        assert!(bench.rig.eq.poll().is_none());
        partner.kill();
        for _ in 0..2 {
            let event = wait_for("the end of an operation", || bench.rig.eq.poll());
            assert_eq!(
                (event.kind(), event.code()),
                (C_EVENT_REPLY, C_RC_UNDELIVERABLE)
            );
        }
        assert!(bench.local.pages.is(8, PAGE - 8, 0));
        // The next to come clears away what the dead left behind.
        drop(Rig::on(1));
    });
}
