//! What the NIC counts for its administrators (the `C_CNTR_*` of the telemetry).
//!
//! Queues count for themselves, with plain additions; sums are made when somebody asks.

use cxi_sys::*;

use super::ReturnCode;

/// Commands of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// Executed, or passed over as a NOOP.
    pub success: u64,
    pub align_errors: u64,
    pub op_errors: u64,
    pub arg_errors: u64,
    pub perm_errors: u64,
    /// Doorbells that name no slot of the ring.
    pub pointer_errors: u64,
}

impl CommandCounts {
    /// Counts a command that failed.
    pub fn failed(&mut self, code: ReturnCode) {
        match code {
            C_RC_CMD_ALIGN_ERROR => self.align_errors += 1,
            C_RC_ILLEGAL_OP => self.op_errors += 1,
            C_RC_PERM_VIOLATION => self.perm_errors += 1,
            _ => self.arg_errors += 1,
        }
    }

    fn failures(&self) -> u64 {
        self.align_errors + self.op_errors + self.arg_errors + self.perm_errors
    }

    fn add(&mut self, other: &Self) {
        self.success += other.success;
        self.align_errors += other.align_errors;
        self.op_errors += other.op_errors;
        self.arg_errors += other.arg_errors;
        self.perm_errors += other.perm_errors;
        self.pointer_errors += other.pointer_errors;
    }
}

/// Sums over queues.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    transmit: CommandCounts,
    target: CommandCounts,
    events: [u64; 32],
}

/// Number of the first counter of events, of which there is one for each type.
const EVENTS: u32 = 904;

impl Telemetry {
    pub fn add_transmit(&mut self, counts: &CommandCounts) {
        self.transmit.add(counts);
    }

    pub fn add_target(&mut self, counts: &CommandCounts) {
        self.target.add(counts);
    }

    pub fn add_events(&mut self, written: &[u64; 32]) {
        for (sum, count) in self.events.iter_mut().zip(written) {
            *sum += count;
        }
    }

    /// The value of a counter, by its number in `c_cntr_type`. Those of parts that this NIC does not have, or does
    /// not watch, stand at 0.
    pub fn value(&self, number: u32) -> u64 {
        let (transmit, target) = (&self.transmit, &self.target);
        match number {
            480 => transmit.success,
            481 => target.success,
            482 => transmit.failures(),
            483 => target.failures(),
            488 => transmit.pointer_errors + target.pointer_errors,
            512 => transmit.align_errors,
            513 => transmit.op_errors,
            514 => transmit.arg_errors,
            515 => transmit.perm_errors,
            516 => target.align_errors + target.op_errors + target.arg_errors,
            517 => target.perm_errors,
            EVENTS..936 => self.events[(number - EVENTS) as usize],
            _ => 0,
        }
    }
}
