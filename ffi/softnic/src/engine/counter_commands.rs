//! The commands of trigger queues about counters (nic.md 3.12).

use cxi_sys::records::{CStateCmd, CtCmd};
use cxi_sys::*;

use super::commands::Operation;
use super::counter::CountChange;
use super::event_queue::{self, EventQueue};
use super::return_codes::ReturnCode;
use super::ring::RingCommand;
use super::table::Table;
use super::triggers::{Action, CountingEvents, LaunchedCommand, Trigger};

/// The trigger queue of a command.
pub struct IssuingQueue<'a> {
    pub lni: usize,
    pub queue: usize,
    /// The slot of the command.
    pub slot: u16,
    pub c_state: &'a CStateCmd,
}

/// Executes a counter command.
///
/// # Errors
/// The return code with which the command stops its queue.
pub fn execute(
    command: &RingCommand,
    issuer: &IssuingQueue<'_>,
    counters: &mut CountingEvents,
    eqs: &mut Table<EventQueue>,
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
    let own = |ct: u16| {
        if counters.is_of(ct, issuer.lni) { Ok(usize::from(ct)) } else { Err(C_RC_PERM_VIOLATION) }
    };
    let action = match opcode {
        C_CMD_CT_SET => {
            let ct = own(fields.ct())?;
            counters.change(ct, set(&fields), eqs);
            return Ok(());
        }
        C_CMD_CT_INC => {
            let ct = own(fields.ct())?;
            counters.change(ct, add(&fields), eqs);
            return Ok(());
        }
        C_CMD_CT_GET => {
            let ct = own(fields.ct())?;
            if let Some(counter) = counters.get_mut(ct) {
                counter.write_back();
            }
            return Ok(());
        }
        C_CMD_CT_CANCEL => {
            let ct = own(fields.ct())?;
            counters.cancel(ct, eqs);
            return Ok(());
        }
        C_CMD_CT_TRIG_SET => Action::Change { ct: own(fields.ct())?, change: set(&fields) },
        C_CMD_CT_TRIG_INC => Action::Change { ct: own(fields.ct())?, change: add(&fields) },
        C_CMD_CT_TRIG_DMA => Action::Launch(LaunchedCommand {
            queue: issuer.queue,
            slot: issuer.slot,
            command: Box::new(embedded(command, issuer.c_state)?),
        }),
        _ => Action::Event { eq: event_queue::check_owner(eqs, fields.eq(), issuer.lni)? },
    };
    let trigger = Trigger { queue: Some(issuer.queue), threshold: fields.threshold(), action };
    let watched = own(fields.trig_ct())?;
    counters.arm(watched, trigger, eqs)
}

/// Returns the DMA command inside a TRIG_DMA. Its format is checked here, so that a malformed
/// command is reported at its place in the queue; it is executed later.
fn embedded(command: &RingCommand, c_state: &CStateCmd) -> Result<RingCommand, ReturnCode> {
    let embedded = command.embedded();
    if u32::from(embedded.header.cmd_type()) != C_CMD_TYPE_DMA {
        return Err(C_RC_ILLEGAL_OP);
    }
    Operation::new().decode(&embedded, c_state)?;
    Ok(embedded)
}

/// Returns the change that overwrites the flagged counts.
fn set(fields: &CtCmd) -> CountChange {
    CountChange::Set {
        success: fields.set_ct_success().then(|| fields.ct_success()),
        failure: fields.set_ct_failure().then(|| fields.ct_failure()),
    }
}

/// Returns the change that adds to the flagged counts, as libfabric fills these commands. The
/// effect of an increment without flags on hardware is not known.
fn add(fields: &CtCmd) -> CountChange {
    let flagged = |flag: bool, value: u64| if flag { value } else { 0 };
    CountChange::Add {
        success: flagged(fields.set_ct_success(), fields.ct_success()),
        failure: flagged(fields.set_ct_failure(), fields.ct_failure().into()) as u8,
    }
}
