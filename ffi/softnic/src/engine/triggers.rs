//! Triggered operations: what happens when a counter reaches a threshold (nic.md 9.3), the counters
//! of a NIC, and the commands of trigger queues about counters (nic.md 3.12).

use std::collections::VecDeque;
use std::sync::Arc;

use cxi_sys::records::{CStateCmd, CtCmd};
use cxi_sys::*;

use super::commands::Operation;
use super::counter::{self, CountChange, Counting, CountingEvent};
use super::event_queue::{self, EventQueue};
use super::events;
use super::return_codes::ReturnCode;
use super::ring::RingCommand;
use super::table::Table;

/// Pools of triggered operations of the NIC.
pub const POOLS: usize = 4;

/// The pools of triggered operations of the NIC, for all its processes.
pub trait Pools: Send + Sync {
    /// Takes one of a pool of which `most` may be in use. `is_due`: it is executed at once, and
    /// needs no room. False if there is no room.
    fn take(&self, pool: u8, most: usize, is_due: bool) -> bool;

    /// Gives some back.
    fn give(&self, pool: u8, count: usize);
}

/// The effect of a triggered operation.
pub enum Action {
    /// Delivers TRIGGERED_OP to this event queue; 0 is none.
    Event { eq: u16 },
    /// Changes a counter.
    Change { ct: usize, change: CountChange },
    /// Executes a command.
    Launch(LaunchedCommand),
}

/// A command to be executed by the trigger queue that it was read from.
pub struct LaunchedCommand {
    pub queue: usize,
    /// Its slot in that queue.
    pub slot: u16,
    pub command: Box<RingCommand>,
}

/// A triggered operation.
pub struct Trigger {
    /// The trigger queue that it was read from, while that exists.
    pub queue: Option<usize>,
    pub threshold: u64,
    pub action: Action,
}

/// A counter with its pending triggered operations.
struct TriggeredCounter {
    counter: CountingEvent,
    /// The pool of its triggered operations, and its size.
    pool: u8,
    most_pending: usize,
    /// By ascending threshold; with equal thresholds in the order of their commands.
    pending: VecDeque<Trigger>,
}

impl TriggeredCounter {
    /// Removes and returns the next triggered operation whose threshold is reached. Failures do not
    /// count (nic.md 9.3).
    fn take_due(&mut self) -> Option<Trigger> {
        if self.is_due() { self.pending.pop_front() } else { None }
    }

    #[inline]
    fn is_due(&self) -> bool {
        let first = self.pending.front();
        first.is_some_and(|first| first.threshold <= self.counter.success)
    }
}

/// The counters of a NIC.
pub struct CountingEvents {
    table: Table<TriggeredCounter>,
    /// Commands to be executed, in order.
    launched: VecDeque<LaunchedCommand>,
    /// The pools; without them, only the LNI of a counter counts.
    pub pools: Option<Arc<dyn Pools>>,
    /// Number of stores to doorbells.
    pub doorbells: u64,
}

impl CountingEvents {
    /// Makes the table, without any counter.
    pub fn new() -> Self {
        Self {
            table: Table::new(1, C_NUM_CTS as usize),
            launched: VecDeque::new(),
            pools: None,
            doorbells: 0,
        }
    }

    /// Adds a counter with the pool of its triggered operations and the size of the pool; `None`
    /// when all numbers are in use.
    pub fn insert(
        &mut self,
        counter: CountingEvent,
        pool: u8,
        most_pending: usize,
    ) -> Option<usize> {
        let pending = VecDeque::new();
        self.table.insert(TriggeredCounter { counter, pool, most_pending, pending })
    }

    pub fn get_mut(&mut self, number: usize) -> Option<&mut CountingEvent> {
        Some(&mut self.table.get_mut(number)?.counter)
    }

    /// Whether the LNI has a counter with this number.
    #[inline]
    pub fn is_of(&self, number: u16, lni: usize) -> bool {
        let entry = self.table.get(usize::from(number));
        entry.is_some_and(|entry| entry.counter.lni == lni)
    }

    pub fn count_of(&self, lni: usize) -> usize {
        self.of(lni).count()
    }

    fn of(&self, lni: usize) -> impl Iterator<Item = &TriggeredCounter> {
        let entries = self.table.iter().map(|(_, entry)| entry);
        entries.filter(move |entry| entry.counter.lni == lni)
    }

    /// Removes a counter and cancels its triggered operations.
    pub fn remove(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        self.cancel(number, eqs);
        if let Some(entry) = self.table.get(number) {
            let lni = entry.counter.lni;
            self.table.retire(number, lni);
        }
    }

    /// The number of counters that were removed and whose numbers an LNI still has (libcxi.md 10).
    pub fn retired_by(&self, lni: usize) -> usize {
        self.table.retired_by(lni)
    }

    /// Frees the numbers of the removed counters of an LNI.
    pub fn free_retired(&mut self, lni: usize) {
        self.table.free_retired(lni);
    }

    /// Applies what software stored to the doorbells. True if it stored anything.
    #[inline]
    pub fn poll_doorbells(&mut self, eqs: &mut Table<EventQueue>) -> bool {
        let mut worked = false;
        for number in 0..self.table.len() {
            let entry = self.table.get(number);
            let changes = entry.map(|entry| entry.counter.take_doorbells());
            for change in changes.into_iter().flatten().flatten() {
                self.change(number, change, eqs);
                self.doorbells += 1;
                worked = true;
            }
        }
        worked
    }

    /// Changes a counter, if it exists, and executes the triggered operations that become due.
    #[inline]
    pub fn change(&mut self, number: usize, change: CountChange, eqs: &mut Table<EventQueue>) {
        if let Some(entry) = self.table.get_mut(number) {
            entry.counter.apply(change);
            if entry.is_due() {
                self.fire(number, eqs);
            }
        }
    }

    /// Counts the completion of an operation of `length` bytes, if completions are counted.
    #[inline]
    pub fn count_completion(
        &mut self,
        counting: Counting,
        length: u32,
        code: ReturnCode,
        eqs: &mut Table<EventQueue>,
    ) {
        if counting.completion() {
            let change = counter::amount(counting.bytes(), length, code);
            self.change(usize::from(counting.ct()), change, eqs);
        }
    }

    /// Executes the triggered operations that are due on a counter, and those that they make due on
    /// others.
    fn fire(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        let mut next = Some(number);
        // Allocates only where counters change counters: a trigger event costs no allocation.
        let mut changed = VecDeque::new();
        while let Some(number) = next {
            while let Some(entry) = self.table.get_mut(number)
                && let Some(trigger) = entry.take_due()
            {
                let lni = entry.counter.lni;
                if let Some(pools) = &self.pools {
                    pools.give(entry.pool, 1);
                }
                match trigger.action {
                    Action::Event { eq } => {
                        // Before the event, so that a program that reads the event finds the
                        // counts.
                        entry.counter.write_back();
                        events::triggered(eqs, eq, number, trigger.threshold, C_RC_OK);
                    }
                    Action::Change { ct, change } => {
                        let other = self.table.get_mut(ct);
                        if let Some(other) = other.filter(|other| other.counter.lni == lni) {
                            other.counter.apply(change);
                            changed.push_back(ct);
                        }
                    }
                    Action::Launch(launch) => self.launched.push_back(launch),
                }
            }
            next = changed.pop_front();
        }
    }

    /// Adds a triggered operation to a counter, or executes it if it is due.
    ///
    /// # Errors
    /// RESOURCE_BUSY without room in the pool (nic.md 15, question 18). No program can distinguish
    /// this from the stall of the trigger queue that libcxi.md 8.4 supposes.
    pub fn arm(
        &mut self,
        number: usize,
        trigger: Trigger,
        eqs: &mut Table<EventQueue>,
    ) -> Result<(), ReturnCode> {
        let entry = self.table.get(number).ok_or(C_RC_RESOURCE_BUSY)?;
        let is_due = trigger.threshold <= entry.counter.success;
        let has_room = match &self.pools {
            Some(pools) => pools.take(entry.pool, entry.most_pending, is_due),
            None => is_due || self.pending_of(entry.counter.lni) < entry.most_pending,
        };
        if !has_room {
            return Err(C_RC_RESOURCE_BUSY);
        }
        if let Some(entry) = self.table.get_mut(number) {
            let pending = &mut entry.pending;
            let at = pending.partition_point(|older| older.threshold <= trigger.threshold);
            pending.insert(at, trigger);
            if entry.is_due() {
                self.fire(number, eqs);
            }
        }
        Ok(())
    }

    pub fn pending_of(&self, lni: usize) -> usize {
        self.of(lni).map(|entry| entry.pending.len()).sum()
    }

    /// The number of unfinished triggered operations of a trigger queue: those that are pending,
    /// and those that are to be executed.
    pub fn pending_from(&self, queue: usize) -> usize {
        let all = self.table.iter().flat_map(|(_, entry)| &entry.pending);
        let waiting = all.filter(|trigger| trigger.queue == Some(queue));
        let launched = self.launched.iter().filter(|launch| launch.queue == queue);
        waiting.count() + launched.count()
    }

    /// Cancels the triggered operations of a counter. Trigger events report that; the other
    /// operations have no event (nic.md 3.12).
    fn cancel(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        let Some(entry) = self.table.get_mut(number) else {
            return;
        };
        if let Some(pools) = &self.pools {
            pools.give(entry.pool, entry.pending.len());
        }
        for trigger in std::mem::take(&mut entry.pending) {
            if let Action::Event { eq } = trigger.action {
                events::triggered(eqs, eq, number, trigger.threshold, C_RC_CANCELED);
            }
        }
    }

    /// Removes and returns the next command that a trigger queue has to execute.
    pub fn take_launched(&mut self, queue: usize) -> Option<LaunchedCommand> {
        let at = self.launched.iter().position(|launch| launch.queue == queue)?;
        self.launched.remove(at)
    }

    /// Puts a command that cannot be executed at present back to the front.
    pub fn put_back(&mut self, launch: LaunchedCommand) {
        self.launched.push_front(launch);
    }

    /// Removes all references to a destroyed trigger queue, and the commands that it had to
    /// execute.
    pub fn forget_queue(&mut self, queue: usize) {
        self.launched.retain(|launch| launch.queue != queue);
        for entry in self.table.values_mut() {
            let before = entry.pending.len();
            entry.pending.retain_mut(|trigger| {
                let is_of_queue = trigger.queue == Some(queue);
                trigger.queue.take_if(|_| is_of_queue);
                !(is_of_queue && matches!(trigger.action, Action::Launch(_)))
            });
            if let Some(pools) = &self.pools {
                pools.give(entry.pool, before - entry.pending.len());
            }
        }
    }

    /// Removes all references to a destroyed event queue, whose number may be reused.
    pub fn forget_event_queue(&mut self, number: usize) {
        for entry in self.table.values_mut() {
            for trigger in &mut entry.pending {
                if let Action::Event { eq } = &mut trigger.action
                    && usize::from(*eq) == number
                {
                    *eq = 0;
                }
            }
        }
    }
}

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
pub fn execute_command(
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
            counters.change(ct, overwriting(&fields), eqs);
            return Ok(());
        }
        C_CMD_CT_INC => {
            let ct = own(fields.ct())?;
            counters.change(ct, adding(&fields), eqs);
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
        C_CMD_CT_TRIG_SET => Action::Change { ct: own(fields.ct())?, change: overwriting(&fields) },
        C_CMD_CT_TRIG_INC => Action::Change { ct: own(fields.ct())?, change: adding(&fields) },
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

/// The DMA command inside a TRIG_DMA. Its format is checked here, so that a malformed command is
/// reported at its place in the queue; it is executed later.
fn embedded(command: &RingCommand, c_state: &CStateCmd) -> Result<RingCommand, ReturnCode> {
    let embedded = command.embedded();
    if u32::from(embedded.header.cmd_type()) != C_CMD_TYPE_DMA {
        return Err(C_RC_ILLEGAL_OP);
    }
    Operation::new().decode(&embedded, c_state)?;
    Ok(embedded)
}

/// The change that overwrites the flagged counts.
fn overwriting(fields: &CtCmd) -> CountChange {
    CountChange::Set {
        success: fields.set_ct_success().then(|| fields.ct_success()),
        failure: fields.set_ct_failure().then(|| fields.ct_failure()),
    }
}

/// The change that adds to the flagged counts, as libfabric fills these commands. The effect of an
/// increment without flags on hardware is not known.
fn adding(fields: &CtCmd) -> CountChange {
    let flagged = |flag: bool, value: u64| if flag { value } else { 0 };
    CountChange::Add {
        success: flagged(fields.set_ct_success(), fields.ct_success()),
        failure: flagged(fields.set_ct_failure(), fields.ct_failure().into()) as u8,
    }
}
