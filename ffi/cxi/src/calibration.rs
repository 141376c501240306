//! Queues without a NIC, for measuring what issuing a command and polling an event cost by
//! themselves.
//!
//! The queues of this package run on a libcxi whose objects are memory of the process: the code
//! that runs is the code that runs on a NIC. The caller plays the NIC, outside the timed part:
//! [`PrivateQueues::read_command`], [`PrivateQueues::write_event`].
//!
//! One thing differs from hardware: stores to the launch page go to ordinary memory, not through
//! the write-combining buffer to the bus.

mod private_nic;

use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::{CStateCmd, CqStatus, IdcHdr};
use cxi_sys::{
    C_CQ_FIRST_WR_PTR, C_EVENT_ACK, C_RC_OK, CXI_EQ_EC_DISABLE, CXI_TC_BEST_EFFORT,
    CXI_TC_TYPE_DEFAULT,
};

use crate::device::Device;
use crate::error::{EmitError, Error};
use crate::event_queue::EventQueue;
use crate::library::Library;
use crate::lni::{CommunicationProfile, Lni};
use crate::prepared::Prepared;
use crate::transmit_queue::TransmitQueue;
use private_nic::{QueueMemory, SLOT};

/// Bytes of the event of a put.
const EVENT: usize = 16;

/// Payload of each put.
const PAYLOAD: [u8; 8] = [0; 8];

/// Slots of the transmit queue.
const SLOTS: u32 = 64;

/// A transmit queue and an event queue without a NIC.
pub struct PrivateQueues {
    // Released before the interface.
    transmit: TransmitQueue,
    events: EventQueue,
    /// A put of 8 bytes.
    put: Prepared<4>,
    /// The memory that a NIC would write.
    memory: QueueMemory,
    /// Slot of the next command.
    command: u16,
    /// Offset of the next event in its queue.
    event: usize,
    _lni: Lni,
}

impl PrivateQueues {
    /// Allocates the queues.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn new() -> Result<Self, Error> {
        let library = Library::from_api(private_nic::api());
        let lni = Lni::new(&Device::open(&library, 0)?, 1)?;
        let profile = CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)?;
        let events = EventQueue::new(&lni, 1, CXI_EQ_EC_DISABLE.into())?;
        let mut transmit = TransmitQueue::new(&profile, SLOTS, &events, None)?;
        let mut context = CStateCmd::new();
        context.set_event_send_disable(true).set_restricted(true).set_eq(events.number());
        let mut batch = transmit.batch();
        let emitted = batch.emit_c_state(&context);
        emitted.expect("an empty queue has room for its first command");
        batch.commit_doorbell();
        let put = transmit.prepare_idc_put(&IdcHdr::new(), &PAYLOAD);
        Ok(Self {
            put: put.expect("8 bytes fit in the command"),
            transmit,
            events,
            memory: private_nic::memory(&lni),
            command: C_CQ_FIRST_WR_PTR as u16 + 1,
            event: SLOT,
            _lni: lni,
        })
    }

    /// Issues a put of 8 bytes by low-latency write.
    ///
    /// # Errors
    ///
    /// A queue is full: commands were not read, or events not acknowledged.
    #[inline]
    pub fn issue(&mut self) -> Result<(), EmitError> {
        self.transmit.issue_low_latency(&self.put)
    }

    /// Moves the read pointer over one issued command, as a NIC does when it has read it.
    pub fn read_command(&mut self) {
        self.command += 1;
        if u32::from(self.command) == SLOTS {
            self.command = C_CQ_FIRST_WR_PTR as u16;
        }
        let mut status = CqStatus::new();
        status.set_rd_ptr(self.command);
        status.set_return_code(C_RC_OK as u8);
        self.store(self.memory.commands, u64::from_le_bytes(*status.bytes()));
    }

    /// Writes the event of a successful put, as a NIC does when the put is acknowledged.
    pub fn write_event(&mut self) {
        // The size code 1 stands for 16 bytes (nic.md 5.3).
        let head = ((1 | u64::from(C_EVENT_ACK) << 2) << 48) | (u64::from(C_RC_OK) << 56);
        self.store(self.memory.events.wrapping_add(self.event + 8), head);
        self.event += EVENT;
        if self.event == self.memory.event_bytes {
            self.event = SLOT;
        }
    }

    /// Polls for an event. Returns whether there was one.
    #[inline]
    pub fn poll(&mut self) -> bool {
        self.events.poll().is_some()
    }

    /// Returns the slots of polled events.
    pub fn acknowledge(&mut self) {
        self.events.acknowledge();
    }

    fn store(&self, at: *mut u8, word: u64) {
        // SAFETY: `at` is an aligned word of a queue that `self` keeps allocated; the CPU accesses
        // it only through atomics.
        let to = unsafe { AtomicU64::from_ptr(at.cast()) };
        to.store(word.to_le(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More commands than either queue holds.
    #[test]
    fn completes_each_issued_command_once() {
        let mut queues = PrivateQueues::new().unwrap();
        assert!(!queues.poll());
        for _ in 0..1_000 {
            queues.issue().unwrap();
            assert!(!queues.poll());
            queues.read_command();
            queues.write_event();
            assert!(queues.poll());
            assert!(!queues.poll());
            queues.acknowledge();
        }
    }

    #[test]
    fn event_may_be_ready_before_its_command() {
        let mut queues = PrivateQueues::new().unwrap();
        for _ in 0..1_000 {
            queues.write_event();
            queues.issue().unwrap();
            assert!(queues.poll());
            queues.acknowledge();
            queues.read_command();
        }
    }

    #[test]
    fn queue_is_full_if_commands_are_not_read() {
        let mut queues = PrivateQueues::new().unwrap();
        let issued = (0..2 * SLOTS).take_while(|_| queues.issue().is_ok()).count();
        assert!(issued < SLOTS as usize, "{issued}");
    }
}
