//! Portals: table entries, their lists, and the commands of target queues (nic.md 3.13, 8).
//!
//! Only the PRIORITY list of persistent entries is there so far. What asks for more is refused as a
//! malformed command is.

use cxi_sys::records::{CmdHeader, SetStateCmd, TargetCmd};
use cxi_sys::*;

use super::ReturnCode;
use super::arithmetic::Exceptions;
use super::event_queue::EventQueue;
use super::events::{self, PoolUse, Target};
use super::ring::{Command, CommandRing};
use super::table::Table;
use super::triggers::Counters;

/// List entries of the NIC (libcxi.md 2.2: per processing element; this NIC has one).
pub const MAX_ENTRIES: usize = 16384;

/// A drop count that SETSTATE does not compare (nic.md 8.2).
const ANY_DROP_COUNT: u32 = (1 << 24) - 1;

/// Target commands executed before others get their turn.
const BURST: usize = 32;

/// Options of a portals table entry that change what this NIC does.
#[derive(Clone, Copy, Default)]
pub struct PteOptions {
    pub is_matching: bool,
    pub en_flowctrl: bool,
    pub use_long_event: bool,
    /// Match ids hold ranks, not NIC addresses.
    pub use_logical: bool,
    pub signals: Signals,
}

/// Exceptions of floating point that initiators get to see as return codes.
#[derive(Clone, Copy, Default)]
pub struct Signals {
    pub invalid: bool,
    pub overflow: bool,
    pub inexact: bool,
}

impl Signals {
    /// The return code for what was raised: the first in the order of their numbers, since which
    /// of several hardware tells is not stated.
    pub fn code(self, raised: Exceptions) -> Option<ReturnCode> {
        if self.invalid && raised.invalid {
            Some(C_RC_AMO_FP_INVALID)
        } else if self.overflow && raised.overflow {
            Some(C_RC_AMO_FP_OVERFLOW)
        } else if self.inexact && raised.inexact {
            Some(C_RC_AMO_FP_INEXACT)
        } else {
            None
        }
    }
}

/// A portals table entry.
pub struct Pte {
    pub lni: usize,
    /// 0 is none.
    pub eq: u16,
    pub options: PteOptions,
    pub state: c_ptlte_state,
    /// Messages refused while flow control keeps the entry disabled.
    pub drop_count: u32,
    /// The list that is searched first, in the order of appending: the commands that filled it.
    pub priority: Vec<TargetCmd>,
    /// An append failed, and none with `restart_seq` came since.
    broken_sequence: bool,
}

impl Pte {
    pub fn new(lni: usize, eq: u16, options: PteOptions) -> Self {
        Self {
            lni,
            eq,
            options,
            state: C_PTLTE_DISABLED,
            drop_count: 0,
            priority: Vec::new(),
            broken_sequence: false,
        }
    }

    /// The NIC itself disables the entry because it lacks resources (nic.md 8.3).
    pub fn flow_control(
        &mut self,
        number: usize,
        reason: c_sc_reason,
        eqs: &mut Table<EventQueue>,
    ) {
        self.state = C_PTLTE_DISABLED;
        self.drop_count = 1;
        if let Some(queue) = eqs.get_mut(usize::from(self.eq)) {
            events::state_change(queue, number as u16, self.state, Some(reason), C_RC_OK);
        }
    }
}

/// Where a portals table entry can be reached (nic.md 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortalMap {
    pub domain: usize,
    pub vni: u16,
    pub pid: u16,
    pub index: u16,
    pub pte: usize,
}

/// A target queue.
pub struct TargetQueue {
    pub ring: CommandRing,
    pub lni: usize,
    /// Event queue for COMMAND_FAILURE; 0 is none.
    pub error_eq: u16,
}

/// The rest of the NIC, as a target queue sees it.
pub struct Portals<'a> {
    pub ptes: &'a mut Table<Pte>,
    pub eqs: &'a mut Table<EventQueue>,
    /// List entries in use on the whole NIC.
    pub entries: &'a mut usize,
    pub counters: &'a Counters,
}

impl TargetQueue {
    /// Executes what can be executed. True if anything happened.
    pub fn run(&mut self, number: usize, nic: &mut Portals<'_>) -> bool {
        let mut worked = self.ring.notice();
        for _ in 0..BURST {
            let Some(fetched) = self.ring.peek() else {
                break;
            };
            worked = true;
            let result = fetched.and_then(|command| {
                self.execute(&command, nic)
                    .map_err(|code| (command.header, code))?;
                Ok(command.size())
            });
            match result {
                Ok(size) => self.ring.advance(size),
                Err((header, code)) => self.fail(number, header, code, nic.eqs),
            }
        }
        worked
    }

    fn fail(
        &mut self,
        number: usize,
        header: CmdHeader,
        code: ReturnCode,
        eqs: &mut Table<EventQueue>,
    ) {
        let slot = self.ring.fail(header, code);
        if let Some(eq) = eqs.get_mut(usize::from(self.error_eq)) {
            events::command_failure(eq, number, true, slot, header, code);
        }
    }

    fn execute(&self, command: &Command, nic: &mut Portals<'_>) -> Result<(), ReturnCode> {
        let header = command.header;
        let opcode = u32::from(header.opcode());
        if opcode == C_CMD_NOOP
            && matches!(u32::from(header.cmd_type()), C_CMD_TYPE_IDC | C_CMD_TYPE_CQ)
        {
            return Ok(());
        }
        if u32::from(header.cmd_type()) != C_CMD_TYPE_CQ {
            return Err(C_RC_ILLEGAL_OP);
        }
        if !matches!(
            opcode,
            C_CMD_TGT_APPEND | C_CMD_TGT_UNLINK | C_CMD_TGT_SETSTATE
        ) {
            return Err(C_RC_ILLEGAL_OP);
        }
        if command.size() != TargetCmd::SIZE {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        match opcode {
            C_CMD_TGT_APPEND => self.append(&TargetCmd::from_bytes(command.bytes()), nic),
            C_CMD_TGT_UNLINK => self.unlink(&TargetCmd::from_bytes(command.bytes()), nic),
            _ => self.set_state(&SetStateCmd::from_bytes(command.bytes()), nic),
        }
    }

    /// The entry that a command is about; it must belong to the queue's LNI.
    fn pte<'a>(&self, number: u16, ptes: &'a mut Table<Pte>) -> Result<&'a mut Pte, ReturnCode> {
        ptes.get_mut(usize::from(number))
            .filter(|pte| pte.lni == self.lni)
            .ok_or(C_RC_PERM_VIOLATION)
    }

    fn append(&self, command: &TargetCmd, nic: &mut Portals<'_>) -> Result<(), ReturnCode> {
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        // Lists and entries that this NIC does not have yet.
        if u32::from(command.ptl_list()) != C_PTL_LIST_PRIORITY
            || command.use_once()
            || command.manage_local()
            || command.no_truncate()
        {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let counts = command.event_ct_comm() || command.event_ct_overflow();
        if command.ct() != 0 && counts && !nic.counters.is_of(command.ct(), self.lni) {
            return Err(C_RC_PERM_VIOLATION);
        }
        if command.restart_seq() {
            pte.broken_sequence = false;
        }
        let room = *nic.entries < MAX_ENTRIES && !pte.broken_sequence;
        let code = if room { C_RC_OK } else { C_RC_NO_SPACE };
        if room {
            pte.priority.push(*command);
            *nic.entries += 1;
        } else {
            pte.broken_sequence = true;
        }
        if !room || !command.event_link_disable() {
            report(C_EVENT_LINK, command, code, pte, nic.eqs, *nic.entries);
        }
        Ok(())
    }

    fn unlink(&self, command: &TargetCmd, nic: &mut Portals<'_>) -> Result<(), ReturnCode> {
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        let is_it = |entry: &TargetCmd| {
            entry.buffer_id() == command.buffer_id() && entry.ptl_list() == command.ptl_list()
        };
        let code = match pte.priority.iter().position(is_it) {
            Some(at) => {
                pte.priority.remove(at);
                *nic.entries -= 1;
                C_RC_OK
            }
            None => C_RC_ENTRY_NOT_FOUND,
        };
        report(C_EVENT_UNLINK, command, code, pte, nic.eqs, *nic.entries);
        Ok(())
    }

    fn set_state(&self, command: &SetStateCmd, nic: &mut Portals<'_>) -> Result<(), ReturnCode> {
        let pte = self.pte(command.ptlte_index(), nic.ptes)?;
        let wanted = u32::from(command.ptlte_state());
        if !matches!(wanted, C_PTLTE_RESET | C_PTLTE_DISABLED | C_PTLTE_ENABLED) {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let counted =
            command.drop_count() == ANY_DROP_COUNT || command.drop_count() == pte.drop_count;
        let code = if wanted == C_PTLTE_ENABLED && !counted {
            pte.state = C_PTLTE_DISABLED;
            C_RC_NO_MATCH
        } else {
            pte.state = wanted;
            C_RC_OK
        };
        if pte.state == C_PTLTE_ENABLED {
            pte.drop_count = 0;
        }
        if pte.state == C_PTLTE_RESET {
            *nic.entries -= pte.priority.len();
            pte.priority.clear();
        }
        if let Some(queue) = nic.eqs.get_mut(usize::from(pte.eq)) {
            events::state_change(queue, command.ptlte_index(), pte.state, None, code);
        }
        Ok(())
    }
}

/// LINK or UNLINK, about a command.
fn report(
    kind: c_event_type,
    command: &TargetCmd,
    code: ReturnCode,
    pte: &Pte,
    eqs: &mut Table<EventQueue>,
    entries: usize,
) {
    if let Some(queue) = eqs.get_mut(usize::from(pte.eq)) {
        let event = Target {
            kind,
            ptlte_index: command.ptlte_index(),
            ptl_list: command.ptl_list(),
            buffer_id: command.buffer_id(),
            return_code: code,
            ..Target::default()
        };
        events::target(queue, &event, pte.options.use_long_event, pool_use(entries));
    }
}

/// List entries in use and allocated, as events report them.
pub fn pool_use(entries: usize) -> PoolUse {
    (entries as u16, MAX_ENTRIES as u16)
}
