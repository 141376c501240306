//! Portals: table entries, and the queues of target commands (nic.md 3.13, 8).

use cxi_sys::records::{CmdHeader, SetStateCmd, TargetCmd};
use cxi_sys::*;

use super::ReturnCode;
use super::arithmetic::Exceptions;
use super::event_queue::EventQueue;
use super::events::{self, PoolUse};
use super::lists::Lists;
use super::packet::Wire;
use super::rendezvous::Fetcher;
use super::ring::{Command, CommandRing};
use super::table::Table;

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
    /// An event when a message meets an entry.
    pub en_event_match: bool,
    /// Restricted operations may meet entries that are managed locally.
    pub en_restricted_unicast_lm: bool,
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
    /// List entries that its LNI may have on all its portals: what the service allows.
    pub most_entries: usize,
    pub lists: Lists,
}

impl Pte {
    pub fn new(lni: usize, eq: u16, options: PteOptions) -> Self {
        Self {
            lni,
            eq,
            options,
            state: C_PTLTE_DISABLED,
            drop_count: 0,
            most_entries: MAX_ENTRIES,
            lists: Lists::default(),
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
pub struct Portals<'a, W> {
    pub ptes: &'a mut Table<Pte>,
    pub eqs: &'a mut Table<EventQueue>,
    /// List entries in use on the whole NIC.
    pub entries: &'a mut usize,
    /// For messages that an append finds waiting.
    pub fetcher: Fetcher<'a, W>,
}

impl TargetQueue {
    /// Executes what can be executed. True if anything happened.
    pub fn run<W: Wire>(&mut self, number: usize, nic: &mut Portals<'_, W>) -> bool {
        let mut worked = self.ring.notice();
        for _ in 0..BURST {
            let Some(fetched) = self.ring.peek() else {
                break;
            };
            worked = true;
            let result = fetched.and_then(|command| {
                self.execute(&command, nic)
                    .map_err(|code| (command.header, code))?;
                Ok(command.header)
            });
            match result {
                Ok(header) => self.ring.advance(header),
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

    fn execute<W: Wire>(
        &self,
        command: &Command,
        nic: &mut Portals<'_, W>,
    ) -> Result<(), ReturnCode> {
        let header = command.header;
        let opcode = u32::from(header.opcode());
        if opcode == C_CMD_NOOP
            && matches!(u32::from(header.cmd_type()), C_CMD_TYPE_IDC | C_CMD_TYPE_CQ)
        {
            return Ok(());
        }
        if u32::from(header.cmd_type()) != C_CMD_TYPE_CQ
            || !(C_CMD_TGT_APPEND..=C_CMD_TGT_SETSTATE).contains(&opcode)
        {
            return Err(C_RC_ILLEGAL_OP);
        }
        if command.size() != TargetCmd::SIZE {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let target = TargetCmd::from_bytes(command.bytes());
        match opcode {
            C_CMD_TGT_APPEND => self.append(&target, nic),
            C_CMD_TGT_UNLINK => self.unlink(&target, nic),
            C_CMD_TGT_SETSTATE => self.set_state(&SetStateCmd::from_bytes(command.bytes()), nic),
            _ => self.search(&target, nic),
        }
    }

    /// The entry that a command is about; it must belong to the queue's LNI.
    pub fn pte<'a>(
        &self,
        number: u16,
        ptes: &'a mut Table<Pte>,
    ) -> Result<&'a mut Pte, ReturnCode> {
        ptes.get_mut(usize::from(number))
            .filter(|pte| pte.lni == self.lni)
            .ok_or(C_RC_PERM_VIOLATION)
    }

    /// SETSTATE. The state SOFTWARE_MANAGED is not offered: messages would go to the REQUEST list with
    /// their headers as they are on the wire, which are not those of Slingshot here.
    fn set_state<W: Wire>(
        &self,
        command: &SetStateCmd,
        nic: &mut Portals<'_, W>,
    ) -> Result<(), ReturnCode> {
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
            *nic.entries -= pte.lists.len();
            pte.lists = Lists::default();
        }
        if let Some(queue) = nic.eqs.get_mut(usize::from(pte.eq)) {
            events::state_change(queue, command.ptlte_index(), pte.state, None, code);
        }
        Ok(())
    }
}

/// Whether there is a place for one more list entry of a portal: in the pool of the NIC, of whose places `entries` are
/// in use, and in what its LNI may have of it.
#[inline]
pub fn has_place(ptes: &Table<Pte>, number: usize, entries: usize) -> bool {
    let Some(pte) = ptes.get(number) else {
        return false;
    };
    let own = || {
        let portals = ptes.iter().filter(|(_, other)| other.lni == pte.lni);
        portals.map(|(_, other)| other.lists.len()).sum::<usize>()
    };
    // Few services limit entries; the others need not count.
    entries < MAX_ENTRIES && (pte.most_entries >= MAX_ENTRIES || own() < pte.most_entries)
}

/// List entries in use and allocated, as events report them.
pub fn pool_use(entries: usize) -> PoolUse {
    (entries as u16, MAX_ENTRIES as u16)
}
