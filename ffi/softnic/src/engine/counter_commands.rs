//! Commands about counters, on trigger queues (nic.md 3.12).

use cxi_sys::records::CtCmd;
use cxi_sys::*;

use super::ReturnCode;
use super::commands;
use super::counter::Change;
use super::event_queue::EventQueue;
use super::packet::Wire;
use super::ring::Command;
use super::table::Table;
use super::transmit::{Surroundings, TransmitQueue};
use super::triggers::{Action, Launch, Trigger};

impl TransmitQueue {
    /// Executes a counter command of trigger queue `number`.
    pub fn execute_counter_command<W: Wire>(
        &self,
        number: usize,
        command: &Command,
        nic: &mut Surroundings<'_, W>,
    ) -> Result<(), ReturnCode> {
        let opcode = u32::from(command.header.opcode());
        let size = match opcode {
            C_CMD_CT_NOOP => return Ok(()),
            C_CMD_CT_SET..=C_CMD_CT_CANCEL | C_CMD_CT_TRIG_SET..=C_CMD_CT_TRIG_EVENT => 64,
            C_CMD_CT_TRIG_DMA => 128,
            _ => return Err(C_RC_ILLEGAL_OP),
        };
        if command.size() != size {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let fields = CtCmd::from_bytes(command.bytes());
        let ours = |ct: u16| match nic.counters.is_of(ct, self.lni) {
            true => Ok(usize::from(ct)),
            false => Err(C_RC_PERM_VIOLATION),
        };
        let action = match opcode {
            C_CMD_CT_SET => {
                let ct = ours(fields.ct())?;
                nic.counters.change(ct, set(&fields), nic.eqs);
                return Ok(());
            }
            C_CMD_CT_INC => {
                let ct = ours(fields.ct())?;
                nic.counters.change(ct, add(&fields), nic.eqs);
                return Ok(());
            }
            C_CMD_CT_GET => {
                let ct = ours(fields.ct())?;
                if let Some(counter) = nic.counters.get_mut(ct) {
                    counter.write_back();
                }
                return Ok(());
            }
            C_CMD_CT_CANCEL => {
                let ct = ours(fields.ct())?;
                nic.counters.cancel(ct, nic.eqs);
                return Ok(());
            }
            C_CMD_CT_TRIG_SET => Action::Change {
                ct: ours(fields.ct())?,
                change: set(&fields),
            },
            C_CMD_CT_TRIG_INC => Action::Change {
                ct: ours(fields.ct())?,
                change: add(&fields),
            },
            C_CMD_CT_TRIG_DMA => Action::Launch(Launch {
                queue: number,
                slot: self.ring.slot(),
                command: Box::new(self.embedded(command)?),
            }),
            _ => Action::Event {
                eq: self.our_event_queue(fields.eq(), nic.eqs)?,
            },
        };
        let trigger = Trigger {
            queue: Some(number),
            threshold: fields.threshold(),
            action,
        };
        let watched = ours(fields.trig_ct())?;
        nic.counters.arm(watched, trigger, nic.eqs)
    }

    /// The command inside a TRIG_DMA: one that moves data from or to memory. It is looked at now, so
    /// that its faults show where it is, and executed later.
    fn embedded(&self, command: &Command) -> Result<Command, ReturnCode> {
        let embedded = command.embedded();
        if u32::from(embedded.header.cmd_type()) != C_CMD_TYPE_DMA {
            return Err(C_RC_ILLEGAL_OP);
        }
        commands::decode(&embedded, &self.c_state)?;
        Ok(embedded)
    }

    /// An event queue that a command names: none, or one of the queue's LNI.
    #[inline]
    pub fn our_event_queue(&self, eq: u16, eqs: &Table<EventQueue>) -> Result<u16, ReturnCode> {
        let is_ours = |queue: &EventQueue| queue.lni == self.lni;
        match eq == 0 || eqs.get(usize::from(eq)).is_some_and(is_ours) {
            true => Ok(eq),
            false => Err(C_RC_PERM_VIOLATION),
        }
    }
}

/// Overwrites what is flagged.
fn set(fields: &CtCmd) -> Change {
    Change::Set {
        success: fields.set_ct_success().then(|| fields.ct_success()),
        failure: fields.set_ct_failure().then(|| fields.ct_failure()),
    }
}

/// Adds to what is flagged, which is how libfabric fills these commands; what hardware makes of an
/// increment without flags is not known.
fn add(fields: &CtCmd) -> Change {
    let flagged = |flag: bool, value: u64| if flag { value } else { 0 };
    Change::Add {
        success: flagged(fields.set_ct_success(), fields.ct_success()),
        failure: flagged(fields.set_ct_failure(), fields.ct_failure().into()) as u8,
    }
}
