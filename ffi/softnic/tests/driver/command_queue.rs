//! A command queue as software writes it, and commands as bytes (nic.md 2, 3).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use cxi_sys::records::*;
use cxi_sys::*;

use super::{call, progress, wait_for};

/// The three low-latency windows: offset in the launch page.
const LL64: usize = 1024;
const LL128A: usize = 2048;
const LL128U: usize = 3072;

/// A store of a commit to the launch page: the doorbell's value, or the offset in a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    Doorbell(u64),
    Window(usize),
}

pub struct Queue {
    pub dev: *mut cxil_dev,
    pub handle: *mut cxi_cq,
    memory: *mut u8,
    launch: *mut u8,
    /// Half-slots in all.
    pub size32: usize,
    /// Half-slot of the next command.
    pub wp: usize,
    /// Half-slot up to which commands are committed.
    pub hw_wp: usize,
}

impl Queue {
    /// A transmit queue of the smallest size.
    pub fn transmit(dev: *mut cxil_dev, lni: *mut cxil_lni, lcid: u32) -> Self {
        Self::with(dev, lni, null_mut(), |options| {
            options.flags = CXI_CQ_IS_TX;
            options.lcid = lcid;
        })
    }

    /// A target queue of the smallest size.
    pub fn target(dev: *mut cxil_dev, lni: *mut cxil_lni) -> Self {
        Self::with(dev, lni, null_mut(), |_| {})
    }

    /// A trigger queue that reports its failures on `eq`.
    pub fn trigger(dev: *mut cxil_dev, lni: *mut cxil_lni, eq: *mut cxi_eq) -> Self {
        Self::with(dev, lni, eq, |options| options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS)
    }

    pub fn with(
        dev: *mut cxil_dev,
        lni: *mut cxil_lni,
        eq: *mut cxi_eq,
        choose: impl FnOnce(&mut cxi_cq_alloc_opts),
    ) -> Self {
        let mut options = options();
        choose(&mut options);
        let mut handle = null_mut();
        let code = call!(cxil_alloc_cmdq(lni, eq, &options, &mut handle));
        assert_eq!(code, 0, "cxil_alloc_cmdq");
        Self::over(dev, handle)
    }

    /// The queue of a handle that libcxi has just returned.
    pub fn over(dev: *mut cxil_dev, handle: *mut cxi_cq) -> Self {
        // SAFETY: the caller has just received the handle from libcxi.
        let public = unsafe { &*handle };
        // SAFETY: reading the only member in use.
        let memory: *mut u8 = unsafe { public.__bindgen_anon_1.cmds32 }.cast();
        let queue = Self {
            dev,
            handle,
            memory,
            launch: public.wp_addr.cast(),
            size32: 2 * public.size as usize,
            wp: 8,
            hw_wp: 8,
        };
        let offset = |window: *mut u8| window.addr() - queue.launch.addr();
        let windows = [public.ll_64, public.ll_128a, public.ll_128u].map(offset);
        assert_eq!(windows, [LL64, LL128A, LL128U]);
        // Software's part of the initialisation (nic.md 2.2).
        let mut status = CqStatus::new();
        status.set_rd_ptr(4).set_return_code(C_RC_OK as u8);
        queue.memory_word(0).store(u64::from_le_bytes(*status.bytes()), Ordering::Release);
        queue
    }

    fn memory_word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= 32 * self.size32);
        // SAFETY: inside the queue's memory, aligned, which lives as long as the queue.
        unsafe { AtomicU64::from_ptr(self.memory.wrapping_add(offset).cast()) }
    }

    fn launch_word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= 4096);
        // SAFETY: inside the launch page, aligned, which lives as long as the queue.
        unsafe { AtomicU64::from_ptr(self.launch.wrapping_add(offset).cast()) }
    }

    fn advance(&self, at: usize, by: usize) -> usize {
        if at + by >= self.size32 { 8 } else { at + by }
    }

    /// The header byte of a half-slot.
    fn header(&self, half: usize) -> u8 {
        // SAFETY: inside the queue's memory.
        unsafe { AtomicU8::from_ptr(self.memory.wrapping_add(32 * half)) }.load(Ordering::Relaxed)
    }

    /// Half-slots that may be written (nic.md 2.4).
    pub fn free(&self) -> usize {
        let rp = 2 * usize::from(self.status().rd_ptr());
        if self.wp >= rp { self.size32 - self.wp + rp - 2 - 8 } else { rp - self.wp - 2 }
    }

    /// Waits for room, then writes a command of 32, 64, 128 or 256 bytes behind its padding.
    pub fn emit(&mut self, command: &[u8]) {
        let halves = command.len() / 32;
        assert!(matches!(halves, 1 | 2 | 4 | 8) && command.len().is_multiple_of(32));
        let padding = self.wp.next_multiple_of(halves) - self.wp;
        wait_for("room in the queue", || {
            progress(self.dev);
            (self.free() >= halves + padding).then_some(())
        });
        for _ in 0..padding {
            self.pad();
        }
        self.write(command);
    }

    /// Changes the profile: a pair of commands, which starts at an even slot (nic.md 3.11).
    pub fn emit_lcid(&mut self, lcid: u32) {
        while !self.wp.is_multiple_of(4) {
            self.pad();
        }
        self.emit(&cq(C_CMD_CQ_LCID, lcid as u8));
        self.emit(&cq(C_CMD_CQ_NOOP, 0));
    }

    fn pad(&mut self) {
        self.memory_word(32 * self.wp).store(0, Ordering::Relaxed);
        self.wp = self.advance(self.wp, 1);
    }

    /// Writes any bytes at the write pointer, without padding.
    pub fn write(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            self.memory_word(32 * self.wp + 8 * index)
                .store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        self.wp = self.advance(self.wp, bytes.len() / 32);
    }

    /// Stores any value to the doorbell.
    pub fn store_doorbell(&self, value: u64) {
        self.launch_word(0).store(value, Ordering::Release);
    }

    /// Stores any value anywhere in the launch page.
    pub fn store_launch(&self, offset: usize, value: u64) {
        self.launch_word(offset).store(value, Ordering::Release);
    }

    /// Commits by doorbell (nic.md 2.7).
    pub fn ring(&mut self) -> Vec<Store> {
        if self.wp == self.hw_wp {
            return vec![];
        }
        if !self.wp.is_multiple_of(2) {
            self.pad();
        }
        self.hw_wp = self.wp;
        let value = (self.wp / 2) as u64;
        self.store_doorbell(value);
        vec![Store::Doorbell(value)]
    }

    /// Writes a command and commits it by doorbell.
    pub fn issue(&mut self, command: &[u8]) {
        self.emit(command);
        self.ring();
    }

    /// Writes bytes and commits them by doorbell, without running the NIC.
    pub fn write_and_ring(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.ring();
    }

    /// Commits by low-latency write where that is possible (nic.md 2.8), with the guard of that
    /// section against copies beyond the last command.
    pub fn ll_ring(&mut self) -> Vec<Store> {
        if self.wp == self.hw_wp {
            return vec![];
        }
        let size_code = |header: u8| header >> 2 & 3;
        if size_code(self.header(self.hw_wp)) == 3 {
            return self.ring();
        }
        if !self.wp.is_multiple_of(2) {
            self.pad();
        }
        let contiguous =
            if self.wp >= self.hw_wp { self.wp - self.hw_wp } else { self.size32 - self.hw_wp };
        let mut stores = vec![];
        if contiguous == 2 {
            stores.push(self.copy(LL64, 64));
        } else if !self.hw_wp.is_multiple_of(4) {
            if self.header(self.hw_wp) >> 4 == 0 && contiguous >= 6 {
                if size_code(self.header(self.hw_wp + 2)) == 3 {
                    return self.ring();
                }
                self.hw_wp = self.advance(self.hw_wp, 2);
                stores.push(self.copy(LL128U, 128));
            } else {
                stores.push(self.copy(LL64, 64));
            }
        } else {
            stores.push(self.copy(LL128A, 128));
        }
        if self.wp != self.hw_wp {
            stores.extend(self.ring());
        }
        stores
    }

    fn copy(&mut self, window: usize, len: usize) -> Store {
        let offset = (self.hw_wp / 2 % 16) * 64;
        for at in (0..len).step_by(8) {
            let word = self.memory_word(32 * self.hw_wp + at).load(Ordering::Relaxed);
            self.launch_word(window + offset + at).store(word, Ordering::Release);
        }
        self.hw_wp = self.advance(self.hw_wp, len / 32);
        Store::Window(window + offset)
    }

    pub fn status(&self) -> CqStatus {
        CqStatus::from_bytes(self.memory_word(0).load(Ordering::Acquire).to_le_bytes())
    }

    /// Runs the NIC until it has taken all commands.
    pub fn drain(&self) {
        wait_for("the queue to run empty", || {
            progress(self.dev);
            (usize::from(self.status().rd_ptr()) == self.wp / 2).then_some(())
        });
    }

    /// Runs the NIC until the status shows a command in error, and returns its return code.
    pub fn wait_failure(&self) -> u32 {
        self.wait_error().return_code().into()
    }

    /// Runs the NIC until the status shows a command in error.
    pub fn wait_error(&self) -> CqStatus {
        wait_for("an error in the status", || {
            progress(self.dev);
            let status = self.status();
            (u32::from(status.return_code()) != C_RC_OK).then_some(status)
        })
    }
}

/// Options of a target queue.
pub fn options() -> cxi_cq_alloc_opts {
    cxi_cq_alloc_opts {
        count: 1,
        policy: CXI_CQ_UPDATE_ALWAYS,
        stat_cnt_pool: 0,
        flags: 0,
        lcid: 0,
        lpe_cdt_thresh_id: 0,
    }
}

/// The size code of a command of `len` bytes.
fn size_code(len: usize) -> u8 {
    match len {
        0..=32 => 0,
        33..=64 => 1,
        65..=128 => 2,
        _ => 3,
    }
}

/// A C_STATE, with its other fields set by `choose`.
pub fn c_state(eq: u16, restricted: bool, choose: impl FnOnce(&mut CStateCmd)) -> Vec<u8> {
    let mut command = CStateCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_opcode(C_CMD_CSTATE as u8)
        .set_length(32)
        .set_event_send_disable(true)
        .set_restricted(restricted)
        .set_eq(eq);
    choose(&mut command);
    command.bytes().to_vec()
}

/// An IDC PUT with its payload, in the smallest command that holds it.
pub fn idc_put(dfa: u32, remote_offset: u64, payload: &[u8]) -> Vec<u8> {
    let len = 16 + payload.len();
    let code = size_code(len);
    let mut header = IdcHdr::new();
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(code)
        .set_opcode(C_CMD_PUT as u8)
        .set_length(len as u8)
        .set_dfa(dfa)
        .set_remote_offset(remote_offset);
    resized([header.bytes(), payload].concat(), 32 << code)
}

/// A small message with its payload, in the smallest command that holds it.
pub fn idc_msg(payload: &[u8], choose: impl FnOnce(&mut IdcMsgHdr)) -> Vec<u8> {
    let len = 32 + payload.len();
    let code = size_code(len).max(1);
    let mut header = IdcMsgHdr::new();
    header
        .set_cmd_type(C_CMD_TYPE_IDC as u8)
        .set_cmd_size(code)
        .set_opcode(C_CMD_SMALL_MESSAGE as u8)
        .set_length(len as u8);
    choose(&mut header);
    resized([header.bytes(), payload].concat(), 32 << code)
}

pub fn nomatch_put(choose: impl FnOnce(&mut NomatchDmaCmd)) -> Vec<u8> {
    let mut command = NomatchDmaCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_opcode(C_CMD_NOMATCH_PUT as u8)
        .set_event_send_disable(true)
        .set_restricted(true);
    choose(&mut command);
    command.bytes().to_vec()
}

pub fn dma_put(choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
    let mut command = FullDmaCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(1)
        .set_opcode(C_CMD_PUT as u8)
        .set_event_send_disable(true);
    choose(&mut command);
    command.bytes().to_vec()
}

/// A DMA AMO of 128 bytes: SUM of one UINT64.
pub fn dma_amo(fetching: bool, choose: impl FnOnce(&mut DmaAmoCmd)) -> Vec<u8> {
    let mut command = DmaAmoCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_DMA as u8)
        .set_cmd_size(2)
        .set_opcode(amo_opcode(fetching))
        .set_event_send_disable(true)
        .set_request_len(8)
        .set_atomic_op(C_AMO_OP_SUM as u8)
        .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
    choose(&mut command);
    resized(command.bytes().to_vec(), 128)
}

pub fn amo_opcode(fetching: bool) -> u8 {
    if fetching { C_CMD_FETCHING_ATOMIC as u8 } else { C_CMD_ATOMIC as u8 }
}

/// A command about the queue itself.
pub fn cq(opcode: u32, lcid: u8) -> Vec<u8> {
    let mut command = CqCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(opcode as u8)
        .set_lcid(lcid);
    command.bytes().to_vec()
}

/// A counter command of 64 bytes.
pub fn counter_command(opcode: u32, choose: impl FnOnce(&mut CtCmd)) -> Vec<u8> {
    let mut command = CtCmd::new();
    command.set_cmd_type(C_CMD_TYPE_CT as u8).set_cmd_size(1).set_opcode(opcode as u8);
    choose(&mut command);
    resized(command.bytes().to_vec(), 64)
}

/// Raises an event on queue `eq` when counter `ct` reaches a threshold.
pub fn trig_event(ct: u16, eq: u16, threshold: u64) -> Vec<u8> {
    counter_command(C_CMD_CT_TRIG_EVENT, |command| {
        _ = command.set_trig_ct(ct).set_eq(eq).set_threshold(threshold)
    })
}

pub fn set_state(pte: u16, state: u32) -> Vec<u8> {
    let mut command = SetStateCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(C_CMD_TGT_SETSTATE as u8)
        .set_ptlte_index(pte)
        .set_ptlte_state(state as u8);
    command.bytes().to_vec()
}

/// APPEND to the priority list.
pub fn append(pte: u16, choose: impl FnOnce(&mut TargetCmd)) -> Vec<u8> {
    target(C_CMD_TGT_APPEND, pte, choose)
}

/// APPEND, UNLINK or a search, on the priority list.
pub fn target(opcode: u32, pte: u16, choose: impl FnOnce(&mut TargetCmd)) -> Vec<u8> {
    let mut command = TargetCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CQ as u8)
        .set_cmd_size(1)
        .set_opcode(opcode as u8)
        .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
        .set_ptlte_index(pte);
    choose(&mut command);
    command.bytes().to_vec()
}

fn resized(mut bytes: Vec<u8>, len: usize) -> Vec<u8> {
    bytes.resize(len, 0);
    bytes
}
