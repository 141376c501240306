//! What an initiator is told when a put goes wrong (nic.md 4.3, 7), and that no data moved then.

mod driver;

use cxi_sys::*;
use driver::alone::alone;
use driver::call;
use driver::memory::{Buffer, PAGE};
use driver::rig::{Portal, Rig, address, alloc_cp, alloc_domain, whole};

/// A rig with a target at index 0, and a source of non-zero bytes.
struct Bench {
    rig: Rig,
    source: Buffer,
    sink: Buffer,
    portal: Portal,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        source.pages.fill(0xaa);
        let sink = rig.buffer(PAGE);
        let portal = rig.target(0, &sink);
        Self {
            rig,
            source,
            sink,
            portal,
        }
    }

    /// Return code of an 8-byte put to this address.
    fn put_to(&mut self, dfa: u32, index_ext: u8) -> u32 {
        let put = self.rig.nomatch_put(&self.source, 0, 8, |put| {
            put.set_dfa(dfa).set_index_ext(index_ext);
        });
        self.rig.code(&put)
    }

    /// Return code of a put of 3000 bytes to index 0; if it fails, the sink must be untouched.
    fn put(&mut self) -> u32 {
        let put = self.rig.dma_put(&self.source, 0, 3000, |_| {});
        let code = self.rig.code(&put);
        if code != C_RC_OK {
            assert!(self.sink.pages.is(0, PAGE, 0), "no data moves");
        }
        code
    }
}

#[test]
fn states_of_the_portal() {
    alone(|| {
        let mut bench = Bench::new();
        for (state, code) in [
            (C_PTLTE_DISABLED, C_RC_PT_DISABLED),
            (C_PTLTE_ENABLED, C_RC_OK),
            // Entered anew, without its entries.
            (C_PTLTE_RESET, C_RC_PT_DISABLED),
            (C_PTLTE_ENABLED, C_RC_ENTRY_NOT_FOUND),
        ] {
            bench.rig.set_state(bench.portal, state);
            bench.sink.pages.fill(0);
            assert_eq!(bench.put(), code, "state {state}");
        }
        // A new one is disabled until it is enabled.
        bench.rig.portal(32, |_| {});
        assert_eq!(bench.put_to(bench.rig.dfa(32), 0), C_RC_PT_DISABLED);
    });
}

#[test]
fn addresses_of_nobody() {
    alone(|| {
        let mut bench = Bench::new();
        let (nid, pid) = (bench.rig.nid, bench.rig.pid);
        assert_eq!(bench.put_to(bench.rig.dfa(0), 0), C_RC_OK);
        let (other_index, _) = address(nid, pid, 32);
        assert_eq!(bench.put_to(other_index, 0), C_RC_PTLTE_NOT_FOUND);
        assert_eq!(
            bench.put_to(bench.rig.dfa(0), 1),
            C_RC_PTLTE_NOT_FOUND,
            "the extension belongs to the index"
        );
        let (other_pid, _) = address(nid, pid + 1, 0);
        assert_eq!(bench.put_to(other_pid, 0), C_RC_PTLTE_NOT_FOUND);
        let (other_nid, _) = address(nid + 1, pid, 0);
        assert_eq!(bench.put_to(other_nid, 0), C_RC_UNDELIVERABLE);
        // Unmapped again, it cannot be found any more.
        assert_eq!(call!(cxil_unmap_pte(bench.portal.map)), 0);
        assert_eq!(bench.put_to(bench.rig.dfa(0), 0), C_RC_PTLTE_NOT_FOUND);
    });
}

#[test]
fn every_part_of_an_index_counts() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        for index in [0, 1, 31, 32, 37, 255] {
            let sink = rig.buffer(PAGE);
            let portal = rig.target(index, &sink);
            let (dfa, ext) = address(rig.nid, rig.pid, index);
            let mark = index as u8 ^ 0x5a;
            source.pages.write(0, &[mark]);
            let put = rig.nomatch_put(&source, 0, 1, |put| {
                put.set_dfa(dfa).set_index_ext(ext);
            });
            assert_eq!(rig.code(&put), C_RC_OK, "index {index}");
            assert!(sink.pages.is(0, 1, mark));
            assert_eq!(call!(cxil_unmap_pte(portal.map)), 0);
        }
    });
}

#[test]
fn vnis_of_nobody() {
    alone(|| {
        let mut bench = Bench::new();
        // On the own NIC a wrong VNI looks like a wrong portal.
        let cp = alloc_cp(bench.rig.lni, 10);
        // SAFETY: just made.
        let lcid = unsafe { (*cp).lcid };
        let mut tx = driver::queue::Queue::transmit(bench.rig.dev, bench.rig.lni, lcid);
        std::mem::swap(&mut tx, &mut bench.rig.tx);
        assert_eq!(bench.put_to(bench.rig.dfa(0), 0), C_RC_PTLTE_NOT_FOUND);
        // On another NIC it is the VNI that is not known, until somebody there has a domain on it.
        let other = Rig::on(1);
        let (dfa, _) = address(other.nid, other.pid, 0);
        assert_eq!(bench.put_to(dfa, 0), C_RC_VNI_NOT_FOUND);
        let domain = alloc_domain(other.lni, 10, 100);
        assert_eq!(bench.put_to(dfa, 0), C_RC_PTLTE_NOT_FOUND);
        assert_eq!(call!(cxil_destroy_domain(domain)), 0);
        assert_eq!(bench.put_to(dfa, 0), C_RC_VNI_NOT_FOUND);
    });
}

#[test]
fn local_addresses() {
    alone(|| {
        let mut bench = Bench::new();
        let end = bench.source.iova(PAGE);
        let mut put = |lac: u8, address: u64, len: u32| {
            let put = bench.rig.dma_put(&bench.source, 0, len, |put| {
                put.set_lac(lac).set_local_addr(address);
            });
            bench.rig.code(&put)
        };
        let lac = bench.source.lac;
        assert_eq!(put(lac, end - 8, 8), C_RC_OK);
        assert_eq!(put(lac, end - 7, 8), C_RC_NO_TRANSLATION);
        assert_eq!(put(lac, end, 1), C_RC_NO_TRANSLATION);
        assert_eq!(put(lac, 0, 1), C_RC_NO_TRANSLATION);
        assert_eq!(put(lac, (1 << 57) - 1, 1), C_RC_NO_TRANSLATION);
        assert_eq!(put(7, end - 8, 8), C_RC_INVALID_AC);
        assert_eq!(put(lac, end - 8, u32::MAX), C_RC_NO_TRANSLATION);
        assert_eq!(put(lac, end, 0), C_RC_OK, "no bytes, no address");
        assert!(bench.sink.pages.is(8, PAGE - 8, 0));
        // Unmapped memory is out of reach at once.
        bench.sink.pages.fill(0);
        assert_eq!(call!(cxil_unmap(bench.source.md)), 0);
        assert_eq!(bench.put(), C_RC_NO_TRANSLATION);
    });
}

#[test]
fn rights_of_mappings() {
    alone(|| {
        let mut bench = Bench::new();
        let unreadable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_WRITE);
        let put = bench.rig.dma_put(&unreadable, 0, 8, |_| {});
        assert_eq!(bench.rig.code(&put), C_RC_PAGE_PERM_ERROR);
        let unwritable = Buffer::new(bench.rig.lni, PAGE, CXI_MAP_PIN | CXI_MAP_READ);
        bench.rig.target(32, &unwritable);
        assert_eq!(bench.put_to(bench.rig.dfa(32), 0), C_RC_PAGE_PERM_ERROR);
        assert!(unwritable.pages.is(0, PAGE, 0));
        // The other way round both are good.
        let put = bench.rig.dma_put(&unwritable, 0, 8, |_| {});
        assert_eq!(bench.rig.code(&put), C_RC_OK);
        bench.rig.target(64, &unreadable);
        assert_eq!(bench.put_to(bench.rig.dfa(64), 0), C_RC_OK);
        assert!(unreadable.pages.is(0, 8, 0xaa));
    });
}

#[test]
fn bounds_of_the_entry() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |_| {});
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        bench.rig.append(portal, |entry| {
            whole(entry, &bench.sink);
            entry.set_start(bench.sink.iova(100)).set_length(3000);
        });
        let dfa = bench.rig.dfa(32);
        let mut put = |offset: u64, len: u32| {
            let put = bench.rig.dma_put(&bench.source, 0, len, |put| {
                put.set_dfa(dfa).set_remote_offset(offset);
            });
            bench.rig.code(&put)
        };
        // Packets that would still fit move no data either.
        assert_eq!(put(0, 3001), C_RC_NO_SPACE);
        assert_eq!(put(3000, 1), C_RC_NO_SPACE);
        assert_eq!(put((1 << 56) - 1, 8), C_RC_NO_SPACE);
        assert!(bench.sink.pages.is(0, PAGE, 0));
        assert_eq!(put(3000, 0), C_RC_OK);
        assert_eq!(put(0, 3000), C_RC_OK);
        assert!(bench.sink.pages.is(0, 100, 0));
        assert!(bench.sink.pages.is(100, 3000, 0xaa));
        assert!(bench.sink.pages.is(3100, 996, 0));
    });
}

#[test]
fn memory_behind_the_entry() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |_| {});
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        // The entry promises more than is mapped.
        bench.rig.append(portal, |entry| {
            whole(entry, &bench.sink);
            entry.set_length(1 << 40);
        });
        let dfa = bench.rig.dfa(32);
        let put = bench.rig.dma_put(&bench.source, 0, 4000, |put| {
            put.set_dfa(dfa).set_remote_offset(97);
        });
        assert_eq!(bench.rig.code(&put), C_RC_NO_TRANSLATION);
        assert!(bench.sink.pages.is(0, PAGE, 0));
        let portal = bench.rig.portal(64, |_| {});
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        bench.rig.append(portal, |entry| {
            whole(entry, &bench.sink);
            entry.set_lac(6);
        });
        assert_eq!(bench.put_to(bench.rig.dfa(64), 0), C_RC_INVALID_AC);
        assert_eq!(call!(cxil_unmap(bench.sink.md)), 0);
        assert_eq!(bench.put(), C_RC_NO_TRANSLATION);
    });
}

#[test]
fn entries_that_allow_no_puts() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |_| {});
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        bench.rig.append(portal, |entry| {
            whole(entry, &bench.sink);
            entry.set_op_put(false).set_op_get(true);
        });
        assert_eq!(bench.put_to(bench.rig.dfa(32), 0), C_RC_OP_VIOLATION);
        assert!(bench.sink.pages.is(0, PAGE, 0));
    });
}

#[test]
fn restricted_puts_reach_no_matching_portal() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |options| options.set_is_matching(1));
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        assert_eq!(bench.put_to(bench.rig.dfa(32), 0), C_RC_INVALID_ENDPOINT);
    });
}

#[test]
fn the_first_entry_serves_until_it_is_unlinked() {
    alone(|| {
        let mut bench = Bench::new();
        let second = bench.rig.buffer(PAGE);
        bench.rig.append(bench.portal, |entry| {
            whole(entry, &second);
            entry.set_buffer_id(2);
        });
        assert_eq!(bench.put_to(bench.rig.dfa(0), 0), C_RC_OK);
        assert!(bench.sink.pages.is(0, 8, 0xaa));
        assert!(second.pages.is(0, 8, 0));
        let unlink = driver::commands::target(C_CMD_TGT_UNLINK, bench.portal.number, |_| {});
        bench.rig.tgt.emit(&unlink);
        bench.rig.tgt.ring();
        assert_eq!(bench.rig.teq.wait().kind(), C_EVENT_UNLINK);
        assert_eq!(bench.put_to(bench.rig.dfa(0), 0), C_RC_OK);
        assert!(second.pages.is(0, 8, 0xaa));
    });
}

#[test]
fn flow_control_disables_the_portal_instead() {
    alone(|| {
        let mut bench = Bench::new();
        let portal = bench.rig.portal(32, |options| options.set_en_flowctrl(1));
        bench.rig.set_state(portal, C_PTLTE_ENABLED);
        let dfa = bench.rig.dfa(32);
        assert_eq!(bench.put_to(dfa, 0), C_RC_PT_DISABLED);
        let change = bench.rig.teq.wait();
        assert_eq!(
            (change.kind(), change.code()),
            (C_EVENT_STATE_CHANGE, C_RC_OK)
        );
        let nic_auto = 1;
        let expected = [C_PTLTE_DISABLED as u8, C_SC_FC_NO_MATCH as u8, nic_auto];
        assert_eq!(change.0[8..11], expected);
        assert_eq!(bench.put_to(dfa, 0), C_RC_PT_DISABLED);
        // Two were dropped; only who knows that may enable it again.
        for (dropped, code) in [(0, C_RC_NO_MATCH), (1, C_RC_NO_MATCH), (2, C_RC_OK)] {
            let mut enable = driver::commands::set_state(portal.number, C_PTLTE_ENABLED);
            enable[16] = dropped;
            bench.rig.tgt.emit(&enable);
            bench.rig.tgt.ring();
            assert_eq!(bench.rig.teq.wait().code(), code, "{dropped} dropped");
        }
    });
}
