//! How much a service may have: maxima, and what is kept for it.

use std::ptr::null_mut;

use cxi_sys::records::CtCmd;
use cxi_sys::*;
use libc::ENOSPC;

use crate::desk::*;
use crate::driver::alone::alone;
use crate::driver::event_queue::attributes;
use crate::driver::memory::{Buffer, PAGE, RW};
use crate::driver::progress;
use crate::driver::queue::{Queue, options};
use crate::driver::rig::{Portal, Rig, open, pte_options, whole};

/// The kinds that are allocated by calls.
const CALLED_FOR: [cxi_rsrc_type; 6] = [
    CXI_RSRC_TYPE_PTE,
    CXI_RSRC_TYPE_TXQ,
    CXI_RSRC_TYPE_TGQ,
    CXI_RSRC_TYPE_EQ,
    CXI_RSRC_TYPE_CT,
    CXI_RSRC_TYPE_AC,
];

/// An object of any kind, by how it is destroyed.
struct Object(Box<dyn FnOnce()>);

impl Object {
    fn destroy(self) {
        self.0();
    }
}

type Made = Result<Object, i32>;

fn made<T: Copy + 'static>(code: i32, handle: T, destroy: unsafe extern "C" fn(T) -> i32) -> Made {
    answered(code)?;
    Ok(Object(Box::new(move || {
        // SAFETY: just made, and destroyed once.
        assert_eq!(unsafe { destroy(handle) }, 0);
    })))
}

/// An open device with an LNI that has what all kinds of objects need: a profile and a mapping, which is a context in use.
struct User {
    dev: Dev,
    lni: Lni,
    buffer: Buffer,
}

impl Drop for User {
    fn drop(&mut self) {
        ask!(cxil_close_device(self.dev));
    }
}

impl User {
    fn of(service: u32) -> Self {
        let dev = open(0);
        let lni = lni(dev, service).unwrap();
        profile(lni, 1, CXI_TC_BEST_EFFORT).unwrap();
        let buffer = Buffer::new(lni, PAGE, RW);
        Self { dev, lni, buffer }
    }

    fn queue(&self, flags: u32) -> Made {
        let (mut options, mut cq) = (options(), null_mut());
        options.flags = flags;
        let code = ask!(cxil_alloc_cmdq(self.lni, null_mut(), &options, &mut cq));
        made(code, cq, cxil_destroy_cmdq)
    }

    /// One more of a kind. The `nth` context is that of one of three kinds of mappings, 0 to 2.
    fn make(&self, kind: cxi_rsrc_type, nth: u32) -> Made {
        let (lni, place, none) = (self.lni, self.buffer.pages.base.cast(), null_mut());
        match kind {
            CXI_RSRC_TYPE_PTE => {
                let (mut options, mut pte) = (pte_options(), null_mut());
                let code = ask!(cxil_alloc_pte(lni, null_mut(), &mut options, &mut pte));
                made(code, pte, cxil_destroy_pte)
            }
            CXI_RSRC_TYPE_TXQ => self.queue(CXI_CQ_IS_TX),
            CXI_RSRC_TYPE_TGQ => self.queue(0),
            CXI_RSRC_TYPE_EQ => {
                let (attributes, mut eq) = (attributes(place, PAGE), null_mut());
                let md = self.buffer.md;
                let code = ask!(cxil_alloc_evtq(lni, md, &attributes, none, none, &mut eq));
                made(code, eq, cxil_destroy_evtq)
            }
            CXI_RSRC_TYPE_CT => {
                let mut ct = null_mut();
                made(
                    ask!(cxil_alloc_ct(lni, null_mut(), &mut ct)),
                    ct,
                    cxil_destroy_ct,
                )
            }
            CXI_RSRC_TYPE_AC => {
                assert!(nth < 3, "the fourth is the one in use");
                let (flags, mut md) = (CXI_MAP_PIN | nth << 2, null_mut());
                let code = ask!(cxil_map(lni, place, PAGE, flags, null_mut(), &mut md));
                made(code, md, cxil_unmap)
            }
            _ => panic!("kind {kind} has no call"),
        }
    }
}

#[test]
fn at_most_so_many_of_each_kind() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        for kind in CALLED_FOR {
            let at = kind as usize;
            let before = if kind == CXI_RSRC_TYPE_AC { 2 } else { 0 };
            let mut desc = plain(70);
            limit(&mut desc, kind, before + 2, 0);
            assert_eq!(alloc(dev, &desc), Ok(5));
            // Two who use the service share what it may have.
            let (one, two, other) = (User::of(5), User::of(5), User::of(1));
            let first = one.make(kind, 0).unwrap();
            two.make(kind, 0).unwrap();
            assert_eq!(used(dev, 5)[at], before + 2, "{kind}");
            for user in [&one, &two] {
                assert_eq!(user.make(kind, 1).err(), Some(ENOSPC), "{kind}");
            }
            first.destroy();
            assert_eq!(used(dev, 5)[at], before + 1, "{kind}");
            two.make(kind, 1).unwrap();
            assert_eq!(one.make(kind, 1).err(), Some(ENOSPC), "{kind}");
            // What it may not have, others may.
            for nth in 0..3 {
                other.make(kind, nth).unwrap();
            }
            assert_eq!(used(dev, 1)[at], before / 2 + 3, "{kind}");
            assert_eq!(uses(dev), [1, 2, 3, 4, 5].map(|id| (id, used(dev, id))));
            // Who goes uses nothing.
            drop(two);
            assert_eq!(used(dev, 5)[at], before / 2, "{kind}");
            drop((one, other));
            assert_eq!(uses(dev), [1, 2, 3, 4, 5].map(|id| (id, [0; KINDS])));
            assert_eq!(destroy(dev, 5), Ok(0));
        }
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn none_of_a_kind() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let mut desc = plain(70);
        for kind in 0..KINDS as u32 {
            limit(&mut desc, kind, u16::from(kind == CXI_RSRC_TYPE_AC), 0);
        }
        assert_eq!(alloc(dev, &desc), Ok(5));
        let user = User::of(5);
        for kind in CALLED_FOR {
            assert_eq!(user.make(kind, 0).err(), Some(ENOSPC), "{kind}");
        }
        drop(user);
        // Without the flag the limits are not there.
        desc.svc_id = 5;
        desc.set_resource_limits(0);
        assert_eq!(update(dev, &desc), Ok(0));
        let user = User::of(5);
        for kind in CALLED_FOR {
            assert!(user.make(kind, 0).is_ok(), "{kind}");
        }
        drop(user);
        assert_eq!(destroy(dev, 5), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn what_one_keeps_others_do_not_get() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let mut desc = plain(70);
        limit(&mut desc, CXI_RSRC_TYPE_TGQ, 511, 510);
        assert_eq!(alloc(dev, &desc), Ok(5));
        let (keeper, other, second) = (User::of(5), User::of(1), User::of(2));
        // Two are left for all others.
        let one = other.queue(0).unwrap();
        second.queue(0).unwrap();
        assert_eq!(other.queue(0).err(), Some(ENOSPC));
        assert_eq!(second.queue(0).err(), Some(ENOSPC));
        // What is kept comes out of what is kept; what is not, out of the rest.
        for _ in 0..510 {
            keeper.queue(0).unwrap();
        }
        assert_eq!(keeper.queue(0).err(), Some(ENOSPC));
        assert_eq!(used(dev, 5)[CXI_RSRC_TYPE_TGQ as usize], 510);
        one.destroy();
        keeper.queue(0).unwrap();
        assert_eq!(other.queue(0).err(), Some(ENOSPC));
        drop((keeper, other, second));
        assert_eq!(destroy(dev, 5), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn more_than_can_be_kept() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        // SAFETY: integers and booleans, for which zero is a value.
        let mut info: cxi_svc_fail_info = unsafe { std::mem::zeroed() };
        let mut desc = plain(70);
        limit(&mut desc, CXI_RSRC_TYPE_TLE, 2048, 1537);
        let mut ask_for =
            |desc: &cxi_svc_desc| answered(ask!(cxil_alloc_svc(dev, desc, &mut info)));
        assert_eq!(ask_for(&desc), Err(ENOSPC));
        assert_eq!(
            alloc(dev, &desc),
            Err(ENOSPC),
            "without a place for the numbers"
        );
        let totals = [2047, 1024, 512, 2047, 2047, 16384, 1536, 1022];
        assert_eq!(info.rsrc_avail, totals, "512 are the default service's");
        assert!(!info.no_le_pools && !info.no_tle_pools && !info.no_cntr_pools);
        limit(&mut desc, CXI_RSRC_TYPE_TLE, 2048, 1536);
        assert_eq!(alloc(dev, &desc), Ok(5));
        let next = |res| {
            let mut next = plain(71);
            limit(&mut next, CXI_RSRC_TYPE_TGQ, 512, res);
            next
        };
        // What others use now cannot be kept either.
        let users = [User::of(1), User::of(1)];
        for user in &users {
            user.queue(0).unwrap();
        }
        // SAFETY: as above.
        info = unsafe { std::mem::zeroed() };
        let code = ask!(cxil_alloc_svc(dev, &next(511), &mut info));
        assert_eq!(answered(code), Err(ENOSPC));
        assert_eq!(
            info.rsrc_avail,
            [2047, 1024, 510, 2047, 2047, 16384, 0, 1020]
        );
        assert_eq!(alloc(dev, &next(510)), Ok(6));
        // An update has its own share back before it asks.
        let own = |res| cxi_svc_desc {
            svc_id: 6,
            ..next(res)
        };
        assert_eq!(update(dev, &own(510)), Ok(0));
        info.rsrc_avail = [0; KINDS];
        let code = ask!(cxil_update_svc(dev, &own(511), &mut info));
        assert_eq!(answered(code), Err(ENOSPC));
        assert_eq!(info.rsrc_avail[CXI_RSRC_TYPE_TGQ as usize], 510);
        assert_eq!(
            limits(&get(dev, 6).unwrap())[CXI_RSRC_TYPE_TGQ as usize].res,
            510
        );
        drop(users);
        assert_eq!(update(dev, &own(512)), Ok(0));
        assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)));
        ask!(cxil_close_device(dev));
    });
}

/// Gives the default service at most `most` list entries and triggered operations; answers what it was.
fn narrow_default(dev: Dev, most: u16) -> cxi_svc_desc {
    let before = get(dev, 1).unwrap();
    let mut desc = before;
    limit(&mut desc, CXI_RSRC_TYPE_LE, most, 0);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, most, 0);
    assert_eq!(update(dev, &desc), Ok(0));
    before
}

/// The return code of one more entry.
fn link(rig: &mut Rig, portal: Portal, sink: &Buffer) -> u32 {
    let event = rig.append(portal, |entry| whole(entry, sink));
    assert_eq!(event.kind(), C_EVENT_LINK);
    event.code()
}

#[test]
fn list_entries_that_others_keep() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let mut desc = plain(70);
        limit(&mut desc, CXI_RSRC_TYPE_LE, 16384, 16382);
        assert_eq!(alloc(dev, &desc), Ok(5));
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        let portal = rig.portal(0, |_| {});
        let codes = [0; 3].map(|_| link(&mut rig, portal, &sink));
        assert_eq!(codes, [C_RC_OK, C_RC_OK, C_RC_NO_SPACE]);
        drop(rig);
        assert_eq!(destroy(dev, 5), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn list_entries() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let before = narrow_default(dev, 3);
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        let portals = [0, 1].map(|index| rig.portal(index, |_| {}));
        for nth in 0..3 {
            assert_eq!(link(&mut rig, portals[nth % 2], &sink), C_RC_OK);
        }
        assert_eq!(link(&mut rig, portals[0], &sink), C_RC_NO_SPACE);
        assert_eq!(link(&mut rig, portals[1], &sink), C_RC_NO_SPACE);
        assert_eq!(used(rig.dev, 1)[CXI_RSRC_TYPE_LE as usize], 3);
        // SAFETY: integers and a pointer, for which zero is a value.
        let mut status: cxi_pte_status = unsafe { std::mem::zeroed() };
        assert_eq!(ask!(cxil_pte_status(portals[0].handle, &mut status)), 0);
        assert_eq!((status.les_max, status.les_allocated), (3, 3));
        rig.set_state(portals[0], C_PTLTE_RESET);
        assert_eq!(link(&mut rig, portals[0], &sink), C_RC_OK);
        drop(rig);
        assert_eq!(update(dev, &before), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn unexpected_headers_are_list_entries() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let before = narrow_default(dev, 2);
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        let portal = rig.portal(0, |options| options.set_is_matching(1));
        rig.set_state(portal, C_PTLTE_ENABLED);
        let link = rig.append(portal, |entry| {
            whole(entry, &sink);
            entry
                .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
                .set_ignore_bits(u64::MAX)
                .set_match_id(u32::MAX)
                .set_event_comm_disable(true);
        });
        assert_eq!(link.code(), C_RC_OK);
        let put = rig.dma_put(&source, 0, 8, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        assert_ne!(rig.code(&put), C_RC_OK, "no place for its header");
        drop(rig);
        assert_eq!(update(dev, &before), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn triggered_operations() {
    alone(|| {
        let Some(dev) = administrator() else { return };
        let before = narrow_default(dev, 3);
        let mut rig = Rig::new();
        let mut queue = Queue::with(rig.dev, rig.lni, rig.eq.handle, |options| {
            options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
        });
        let mut counter = null_mut();
        assert_eq!(ask!(cxil_alloc_ct(rig.lni, null_mut(), &mut counter)), 0);
        // SAFETY: just made.
        let number = unsafe { (*counter).ctn } as u16;
        let mut command = CtCmd::new();
        command
            .set_cmd_type(C_CMD_TYPE_CT as u8)
            .set_cmd_size(1)
            .set_opcode(C_CMD_CT_TRIG_EVENT as u8)
            .set_trig_ct(number)
            .set_threshold(1);
        let mut bytes = command.bytes().to_vec();
        bytes.resize(64, 0);
        for _ in 0..4 {
            queue.emit(&bytes);
        }
        queue.ring();
        assert_eq!(rig.eq.wait().kind(), C_EVENT_COMMAND_FAILURE, "the fourth");
        progress(rig.dev);
        assert_eq!(used(rig.dev, 1)[CXI_RSRC_TYPE_TLE as usize], 3);
        drop(rig);
        assert_eq!(update(dev, &before), Ok(0));
        ask!(cxil_close_device(dev));
    });
}
