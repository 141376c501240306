//! A whole set-up in one process: a device with an initiator and a target on it.

use std::ptr::null_mut;

use cxi_sys::records::*;
use cxi_sys::*;

use super::call;
use super::commands::{append, set_state};
use super::event_queue::{Event, EventQueue};
use super::memory::{Buffer, RW};
use super::queue::Queue;

/// Opens a device; it must be there.
pub fn open(id: u32) -> *mut cxil_dev {
    let mut dev = null_mut();
    assert_eq!(call!(cxil_open_device(id, &mut dev)), 0, "cxil_open_device");
    dev
}

pub fn alloc_lni(dev: *mut cxil_dev) -> *mut cxil_lni {
    let mut lni = null_mut();
    assert_eq!(call!(cxil_alloc_lni(dev, &mut lni, CXI_DEFAULT_SVC_ID)), 0);
    lni
}

pub fn alloc_domain(lni: *mut cxil_lni, vni: u32, pid: u32) -> *mut cxil_domain {
    let mut domain = null_mut();
    assert_eq!(call!(cxil_alloc_domain(lni, vni, pid, &mut domain)), 0);
    domain
}

pub fn alloc_cp(lni: *mut cxil_lni, vni: u32) -> *mut cxi_cp {
    let mut cp = null_mut();
    let code = call!(cxil_alloc_cp(
        lni,
        vni,
        CXI_TC_BEST_EFFORT,
        CXI_TC_TYPE_DEFAULT,
        &mut cp
    ));
    assert_eq!(code, 0, "cxil_alloc_cp");
    cp
}

/// The options that no bit is set in.
pub fn pte_options() -> cxi_pt_alloc_opts {
    // SAFETY: a structure of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// The fabric address of a portal, and the part of its index that goes elsewhere (nic.md 4.1).
pub fn address(nid: u32, pid: u32, index: u32) -> (u32, u8) {
    let endpoint = ((index >> 5) << 9) + pid;
    ((nid << 12) + endpoint, (index & 31) as u8)
}

pub const VNI: u32 = 1;

/// A device with the objects that one process of a tool has, initiator's and target's alike.
/// Closes the device when dropped.
pub struct Rig {
    pub dev: *mut cxil_dev,
    pub lni: *mut cxil_lni,
    pub cp: *mut cxi_cp,
    pub lcid: u32,
    pub domain: *mut cxil_domain,
    pub nid: u32,
    pub pid: u32,
    pub tx: Queue,
    pub tgt: Queue,
    /// Events of the initiator, and of the target.
    pub eq: EventQueue,
    pub teq: EventQueue,
}

/// A portals table entry, mapped.
#[derive(Clone, Copy)]
pub struct Portal {
    pub handle: *mut cxil_pte,
    pub number: u16,
    pub map: *mut cxil_pte_map,
}

impl Rig {
    pub fn new() -> Self {
        Self::on(0)
    }

    /// A rig on this device.
    pub fn on(id: u32) -> Self {
        Self::with_queues(id, CXI_EQ_EC_DISABLE, CXI_EQ_EC_DISABLE)
    }

    /// A rig whose event queues have these flags.
    pub fn with_queues(id: u32, initiator: u32, target: u32) -> Self {
        let dev = open(id);
        let lni = alloc_lni(dev);
        let domain = alloc_domain(lni, VNI, C_PID_ANY);
        let cp = alloc_cp(lni, VNI);
        // SAFETY: just made.
        let lcid = unsafe { (*cp).lcid };
        // SAFETY: just made.
        let pid = unsafe { (*domain).pid };
        // SAFETY: open.
        let info = unsafe { &(*dev).info };
        // SAFETY: the member that every device fills.
        let nid = unsafe { info.__bindgen_anon_1.nid };
        Self {
            dev,
            lni,
            cp,
            lcid,
            domain,
            nid,
            pid,
            tx: Queue::transmit(dev, lni, lcid),
            tgt: Queue::target(dev, lni),
            eq: EventQueue::new(dev, lni, initiator),
            teq: EventQueue::new(dev, lni, target),
        }
    }

    pub fn buffer(&self, len: usize) -> Buffer {
        Buffer::new(self.lni, len, RW)
    }

    /// A portal at `index`, not yet enabled.
    pub fn portal(&self, index: u32, choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Portal {
        let mut options = pte_options();
        choose(&mut options);
        let mut handle = null_mut();
        let code = call!(cxil_alloc_pte(
            self.lni,
            self.teq.handle,
            &mut options,
            &mut handle
        ));
        assert_eq!(code, 0, "cxil_alloc_pte");
        let mut map = null_mut();
        let code = call!(cxil_map_pte(handle, self.domain, index, false, &mut map));
        assert_eq!(code, 0, "cxil_map_pte");
        // SAFETY: just made.
        let number = unsafe { (*handle).ptn } as u16;
        Portal {
            handle,
            number,
            map,
        }
    }

    /// Brings a portal into a state, and answers the event that says so.
    pub fn set_state(&mut self, portal: Portal, state: u32) -> Event {
        self.tgt.emit(&set_state(portal.number, state));
        self.tgt.ring();
        self.teq.wait()
    }

    /// Appends an entry, and answers the LINK.
    pub fn append(&mut self, portal: Portal, choose: impl FnOnce(&mut TargetCmd)) -> Event {
        self.tgt.emit(&append(portal.number, choose));
        self.tgt.ring();
        self.teq.wait()
    }

    /// An enabled portal at `index` with one quiet entry for puts over all of `sink`.
    pub fn target(&mut self, index: u32, sink: &Buffer) -> Portal {
        self.target_with(index, sink, |entry| {
            entry
                .set_event_success_disable(true)
                .set_event_comm_disable(true);
        })
    }

    /// As `target`, with other settings of the entry.
    pub fn target_with(
        &mut self,
        index: u32,
        sink: &Buffer,
        choose: impl FnOnce(&mut TargetCmd),
    ) -> Portal {
        let portal = self.portal(index, |_| {});
        assert_eq!(self.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        let link = self.append(portal, |entry| {
            whole(entry, sink);
            choose(entry);
        });
        assert_eq!((link.kind(), link.code()), (C_EVENT_LINK, C_RC_OK));
        portal
    }

    /// The address of index `index` of this process.
    pub fn dfa(&self, index: u32) -> u32 {
        let (dfa, ext) = address(self.nid, self.pid, index);
        assert_eq!(ext, 0, "this one needs an extension");
        dfa
    }

    /// A restricted DMA put to index 0, with an ACK.
    pub fn nomatch_put(
        &self,
        source: &Buffer,
        offset: usize,
        len: u32,
        choose: impl FnOnce(&mut NomatchDmaCmd),
    ) -> Vec<u8> {
        super::commands::nomatch_put(|put| {
            put.set_dfa(self.dfa(0))
                .set_lac(source.lac)
                .set_local_addr(source.iova(offset))
                .set_request_len(len)
                .set_eq(self.eq.number);
            choose(put);
        })
    }

    /// An unrestricted DMA put to index 0, with an ACK.
    pub fn dma_put(
        &self,
        source: &Buffer,
        offset: usize,
        len: u32,
        choose: impl FnOnce(&mut FullDmaCmd),
    ) -> Vec<u8> {
        super::commands::dma_put(|put| {
            put.set_dfa(self.dfa(0))
                .set_lac(source.lac)
                .set_local_addr(source.iova(offset))
                .set_request_len(len)
                .set_eq(self.eq.number);
            choose(put);
        })
    }

    /// Executes a command and answers the initiator's next event.
    pub fn run(&mut self, command: &[u8]) -> Event {
        self.tx.emit(command);
        self.tx.ring();
        self.eq.wait()
    }

    /// Executes a command that makes an ACK, and answers its return code.
    pub fn code(&mut self, command: &[u8]) -> u32 {
        let event = self.run(command);
        assert_eq!(event.kind(), C_EVENT_ACK);
        event.code()
    }
}

/// Lets an entry cover all of a buffer, for puts.
pub fn whole(entry: &mut TargetCmd, sink: &Buffer) {
    entry
        .set_op_put(true)
        .set_event_unlink_disable(true)
        .set_lac(sink.lac)
        .set_start(sink.iova(0))
        .set_length(sink.pages.len as u64);
}

impl Drop for Rig {
    fn drop(&mut self) {
        call!(cxil_close_device(self.dev));
    }
}
