//! The objects of initiator and target in one process, with counters as libcxi returns them (nic.md
//! 9).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::*;
use cxi_sys::*;

use super::call;
use super::command_queue::{Queue, append, set_state, target};
use super::event_queue::{Event, EventQueue};
use super::memory::{Buffer, PAGE, RW};

/// Opens a device, which must exist.
pub fn open(id: u32) -> *mut cxil_dev {
    let mut dev = null_mut();
    assert_eq!(call!(cxil_open_device(id, &mut dev)), 0, "cxil_open_device");
    dev
}

pub fn close(dev: *mut cxil_dev) {
    call!(cxil_close_device(dev));
}

/// Information about an open device.
pub fn info(dev: *mut cxil_dev) -> cxil_devinfo {
    // SAFETY: tests pass devices that are open.
    unsafe { (*dev).info }
}

/// The address of a device's NIC.
pub fn nid(info: &cxil_devinfo) -> u32 {
    // SAFETY: every device fills this member of the union.
    unsafe { info.__bindgen_anon_1.nid }
}

pub fn alloc_lni(dev: *mut cxil_dev) -> *mut cxil_lni {
    let mut lni = null_mut();
    assert_eq!(call!(cxil_alloc_lni(dev, &mut lni, CXI_DEFAULT_SVC_ID)), 0);
    lni
}

/// The result of a libcxi function: its non-negative value, or a positive errno.
pub fn answered(code: i32) -> Result<u32, i32> {
    u32::try_from(code).map_err(|_| -code)
}

/// A profile of the traffic class `tc`, or an errno.
pub fn profile(lni: *mut cxil_lni, vni: u32, tc: u32) -> Result<*mut cxi_cp, i32> {
    typed_profile(lni, vni, tc, CXI_TC_TYPE_DEFAULT)
}

pub fn typed_profile(
    lni: *mut cxil_lni,
    vni: u32,
    tc: u32,
    tc_type: u32,
) -> Result<*mut cxi_cp, i32> {
    let mut cp = null_mut();
    answered(call!(cxil_alloc_cp(lni, vni, tc, tc_type, &mut cp))).map(|_| cp)
}

pub fn alloc_cp(lni: *mut cxil_lni, vni: u32) -> *mut cxi_cp {
    profile(lni, vni, CXI_TC_BEST_EFFORT).expect("cxil_alloc_cp")
}

/// The LCID of a profile that is alive.
pub fn lcid(cp: *mut cxi_cp) -> u32 {
    // SAFETY: tests pass profiles that are alive.
    unsafe { (*cp).lcid }
}

pub fn alloc_domain(lni: *mut cxil_lni, vni: u32, pid: u32) -> *mut cxil_domain {
    let mut domain = null_mut();
    assert_eq!(call!(cxil_alloc_domain(lni, vni, pid, &mut domain)), 0);
    domain
}

/// The PID of a new domain, or an errno.
pub fn domain(lni: *mut cxil_lni, vni: u32, pid: u32) -> Result<u32, i32> {
    let mut domain = null_mut();
    answered(call!(cxil_alloc_domain(lni, vni, pid, &mut domain)))?;
    // SAFETY: the function has just returned this domain.
    Ok(unsafe { (*domain).pid })
}

/// Portal options without any bit set.
pub fn pte_options() -> cxi_pt_alloc_opts {
    // SAFETY: a structure of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// A portals table entry on `eq`, or an errno.
pub fn alloc_pte(lni: *mut cxil_lni, eq: *mut cxi_eq) -> Result<*mut cxil_pte, i32> {
    let (mut options, mut pte) = (pte_options(), null_mut());
    answered(call!(cxil_alloc_pte(lni, eq, &mut options, &mut pte))).map(|_| pte)
}

/// The fabric address of a portal, and the part of its index that the command has separately
/// (nic.md 4.1).
pub fn address(nid: u32, pid: u32, index: u32) -> (u32, u8) {
    let endpoint = ((index >> 5) << 9) + pid;
    ((nid << 12) + endpoint, (index & 31) as u8)
}

/// The match id of an initiator.
pub const fn match_id(pid: u32, nid: u32) -> u32 {
    pid << 23 | nid
}

pub const VNI: u32 = 1;

/// A device with the objects of an initiator and a target. Dropping closes the device.
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
    /// Events of the initiator.
    pub eq: EventQueue,
    /// Events of the target.
    pub teq: EventQueue,
}

/// A portals table entry, mapped.
#[derive(Clone, Copy)]
pub struct Portal {
    pub handle: *mut cxil_pte,
    pub number: u16,
    pub map: *mut cxil_pte_map,
}

impl Portal {
    pub fn close(self) {
        assert_eq!(call!(cxil_unmap_pte(self.map)), 0);
        assert_eq!(call!(cxil_destroy_pte(self.handle)), 0);
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::on(0)
    }

    /// A rig on this device.
    pub fn on(id: u32) -> Self {
        Self::with_queues(id, CXI_EQ_EC_DISABLE, CXI_EQ_EC_DISABLE)
    }

    /// A rig with two buffers of a page, and a quiet entry over the second one at index 0.
    pub fn with_target() -> (Self, Buffer, Buffer) {
        let mut rig = Self::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        rig.target(0, &sink);
        (rig, source, sink)
    }

    /// A rig whose event queues have these flags.
    pub fn with_queues(id: u32, initiator: u32, target: u32) -> Self {
        Self::build(open(id), (CXI_DEFAULT_SVC_ID, VNI), initiator, target)
    }

    /// A rig with a VNI of a service.
    pub fn with_vni(service: u32, vni: u32) -> Self {
        Self::build(open(0), (service, vni), CXI_EQ_EC_DISABLE, CXI_EQ_EC_DISABLE)
    }

    fn build(dev: *mut cxil_dev, (service, vni): (u32, u32), initiator: u32, target: u32) -> Self {
        let mut lni = null_mut();
        assert_eq!(call!(cxil_alloc_lni(dev, &mut lni, service)), 0);
        let domain = alloc_domain(lni, vni, C_PID_ANY);
        let cp = alloc_cp(lni, vni);
        let lcid = lcid(cp);
        Self {
            dev,
            lni,
            cp,
            lcid,
            domain,
            nid: nid(&info(dev)),
            // SAFETY: `alloc_domain` has just returned this domain.
            pid: unsafe { (*domain).pid },
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
        let (eq, mut handle, mut map) = (self.teq.handle, null_mut(), null_mut());
        let code = call!(cxil_alloc_pte(self.lni, eq, &mut options, &mut handle));
        assert_eq!(code, 0, "cxil_alloc_pte");
        let code = call!(cxil_map_pte(handle, self.domain, index, false, &mut map));
        assert_eq!(code, 0, "cxil_map_pte");
        // SAFETY: `cxil_alloc_pte` has just returned this entry.
        let number = unsafe { (*handle).ptn } as u16;
        Portal { handle, number, map }
    }

    /// An enabled portal at `index`.
    pub fn enabled(&mut self, index: u32, choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Portal {
        let portal = self.portal(index, choose);
        assert_eq!(self.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        portal
    }

    /// Sets the state of a portal, and returns the event.
    pub fn set_state(&mut self, portal: Portal, state: u32) -> Event {
        self.tgt.issue(&set_state(portal.number, state));
        self.teq.wait()
    }

    /// Appends an entry, and returns the first event.
    pub fn append(&mut self, portal: Portal, choose: impl FnOnce(&mut TargetCmd)) -> Event {
        self.tgt.issue(&append(portal.number, choose));
        self.teq.wait()
    }

    /// Unlinks an entry of the priority list by its buffer id, and returns the event.
    pub fn unlink(&mut self, portal: Portal, buffer_id: u16) -> Event {
        self.tgt.issue(&target(C_CMD_TGT_UNLINK, portal.number, |entry| {
            _ = entry.set_buffer_id(buffer_id)
        }));
        self.teq.wait()
    }

    /// An enabled portal at `index` with one quiet entry for puts over all of `sink`.
    pub fn target(&mut self, index: u32, sink: &Buffer) -> Portal {
        self.target_with(index, sink, quiet)
    }

    /// An enabled portal at `index` with one entry for puts over all of `sink`, changed by
    /// `choose`.
    pub fn target_with(
        &mut self,
        index: u32,
        sink: &Buffer,
        choose: impl FnOnce(&mut TargetCmd),
    ) -> Portal {
        let portal = self.enabled(index, |_| {});
        self.append(portal, |entry| {
            whole(entry, sink);
            choose(entry);
        })
        .is(C_EVENT_LINK, C_RC_OK);
        portal
    }

    /// The address of index `index` of this process.
    pub fn dfa(&self, index: u32) -> u32 {
        let (dfa, ext) = address(self.nid, self.pid, index);
        assert_eq!(ext, 0, "this index needs an extension");
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
        super::command_queue::nomatch_put(|put| {
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
        super::command_queue::dma_put(|put| {
            put.set_dfa(self.dfa(0))
                .set_lac(source.lac)
                .set_local_addr(source.iova(offset))
                .set_request_len(len)
                .set_eq(self.eq.number);
            choose(put);
        })
    }

    /// A DMA put from the beginning of `source` to this address.
    pub fn put_to(&self, dfa: u32, source: &Buffer, len: usize) -> Vec<u8> {
        self.dma_put(source, 0, len as u32, |put| _ = put.set_dfa(dfa))
    }

    /// Executes a command, and returns the initiator's next event.
    pub fn run(&mut self, command: &[u8]) -> Event {
        self.tx.issue(command);
        self.eq.wait()
    }

    /// Executes a command that raises an ACK, and returns its return code.
    pub fn code(&mut self, command: &[u8]) -> u32 {
        let event = self.run(command);
        assert_eq!(event.kind(), C_EVENT_ACK);
        event.code()
    }

    /// Waits until all earlier operations are complete.
    pub fn flush(&mut self) {
        self.tx.issue(&super::command_queue::cq(C_CMD_CQ_FENCE, 0));
        self.tx.drain();
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

/// Disables the events of an entry for operations.
pub fn quiet(entry: &mut TargetCmd) {
    entry.set_event_success_disable(true).set_event_comm_disable(true);
}

/// Lets an entry match every initiator and all match bits.
pub fn match_all(entry: &mut TargetCmd) {
    entry.set_match_id(u32::MAX).set_ignore_bits(u64::MAX);
}

/// Lets an entry allow gets instead of puts.
pub fn gets(entry: &mut TargetCmd) {
    entry.set_op_put(false).set_op_get(true);
}

impl Drop for Rig {
    fn drop(&mut self) {
        close(self.dev);
    }
}

#[derive(Clone, Copy)]
pub struct Counter {
    pub handle: *mut cxi_ct,
    pub number: u16,
    doorbells: *mut u64,
}

impl Counter {
    /// A counter with this write-back word, or an errno.
    pub fn alloc(lni: *mut cxil_lni, wb: *mut u8) -> Result<Self, i32> {
        let mut handle = null_mut();
        answered(call!(cxil_alloc_ct(lni, wb.cast(), &mut handle)))?;
        // SAFETY: `cxil_alloc_ct` has just returned the handle.
        let public = unsafe { *handle };
        assert_eq!(public.wb.cast(), wb);
        Ok(Self { handle, number: public.ctn as u16, doorbells: public.doorbell })
    }

    /// A counter without a write-back word.
    pub fn new(lni: *mut cxil_lni) -> Self {
        Self::alloc(lni, null_mut()).expect("cxil_alloc_ct")
    }

    /// Stores to the doorbell at byte `offset`.
    pub fn ring(&self, offset: usize, value: u64) {
        let word = self.doorbells.wrapping_byte_add(offset);
        // SAFETY: the word lies in the doorbell page, is aligned and lives as long as the counter.
        unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Release);
    }

    pub fn destroy(self) {
        assert_eq!(call!(cxil_destroy_ct(self.handle)), 0);
    }
}
