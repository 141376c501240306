//! Triggered operations: what waits until a counter has come far enough (nic.md 9.3), and all counters
//! of a NIC.

use std::collections::VecDeque;

use cxi_sys::{C_NUM_CTS, C_NUM_TLES, C_RC_CANCELED, C_RC_OK, C_RC_RESOURCE_BUSY};

use super::ReturnCode;
use super::counter::{Change, Counter};
use super::event_queue::EventQueue;
use super::events;
use super::ring::Command;
use super::table::Table;

/// Triggered operations that one LNI may have pending, unless its service says otherwise: those of the default service
/// (libcxi.md 3.2).
pub const MAX_PENDING: usize = 512;

/// What is done when the time has come.
pub enum Action {
    /// TRIGGERED_OP goes to this event queue; 0 is none.
    Event { eq: u16 },
    /// Another counter, or the same, changes.
    Change { ct: usize, change: Change },
    /// A command is executed.
    Launch(Launch),
}

/// A command to be executed by the trigger queue that it came from.
pub struct Launch {
    pub queue: usize,
    /// Where in that queue it was.
    pub slot: u16,
    pub command: Box<Command>,
}

/// A triggered operation.
pub struct Trigger {
    /// The trigger queue that it came from, while that exists.
    pub queue: Option<usize>,
    pub threshold: u64,
    pub action: Action,
}

/// The counters of a NIC.
pub struct Counters {
    table: Table<Counter>,
    /// Commands whose time has come, in that order.
    launched: VecDeque<Launch>,
    /// Stores to doorbells.
    pub doorbells: u64,
}

impl Counters {
    pub fn new() -> Self {
        Self {
            table: Table::new(1, C_NUM_CTS as usize),
            launched: VecDeque::new(),
            doorbells: 0,
        }
    }

    /// Files a counter; `None` when all numbers are taken.
    pub fn insert(&mut self, counter: Counter) -> Option<usize> {
        self.table.insert(counter)
    }

    pub fn get_mut(&mut self, number: usize) -> Option<&mut Counter> {
        self.table.get_mut(number)
    }

    /// Whether an LNI has a counter of this number.
    #[inline]
    pub fn is_of(&self, number: u16, lni: usize) -> bool {
        let counter = self.table.get(usize::from(number));
        counter.is_some_and(|counter| counter.lni == lni)
    }

    /// Counters of an LNI.
    pub fn count_of(&self, lni: usize) -> usize {
        let counters = self.table.iter();
        counters.filter(|(_, counter)| counter.lni == lni).count()
    }

    /// Takes a counter out; what waits for it is cancelled.
    pub fn remove(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        self.cancel(number, eqs);
        self.table.remove(number);
    }

    /// Handles what was stored to the doorbells. True if anything was.
    #[inline]
    pub fn notice(&mut self, eqs: &mut Table<EventQueue>) -> bool {
        let mut worked = false;
        for number in 0..self.table.len() {
            let changes = self.table.get(number).map(Counter::notice);
            for change in changes.into_iter().flatten().flatten() {
                self.change(number, change, eqs);
                self.doorbells += 1;
                worked = true;
            }
        }
        worked
    }

    /// Changes a counter, if it exists, and sets off what has waited for that.
    #[inline]
    pub fn change(&mut self, number: usize, change: Change, eqs: &mut Table<EventQueue>) {
        if let Some(counter) = self.table.get_mut(number) {
            counter.apply(change);
            if is_due(counter) {
                self.fire(number, eqs);
            }
        }
    }

    /// Sets off what is due on a counter, and what that makes due on others.
    fn fire(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        let mut next = Some(number);
        // Allocates only where counters change counters: a trigger event costs no allocation.
        let mut changed = VecDeque::new();
        while let Some(number) = next {
            while let Some(counter) = self.table.get_mut(number).filter(|counter| is_due(counter))
                && let Some(trigger) = counter.pending.pop_front()
            {
                let lni = counter.lni;
                match trigger.action {
                    Action::Event { eq } => {
                        // First the word, so that who has seen the event finds it there.
                        counter.write_back();
                        events::triggered(eqs, eq, number, trigger.threshold, C_RC_OK);
                    }
                    Action::Change { ct, change } => {
                        let other = self.table.get_mut(ct).filter(|other| other.lni == lni);
                        if let Some(other) = other {
                            other.apply(change);
                            changed.push_back(ct);
                        }
                    }
                    Action::Launch(launch) => self.launched.push_back(launch),
                }
            }
            next = changed.pop_front();
        }
    }

    /// Lets a triggered operation wait, or sets it off if its time has come.
    ///
    /// Beyond the limits it fails with RESOURCE_BUSY (nic.md 15, question 18; that a trigger queue
    /// would stall, as libcxi.md 8.4 guesses, no program could ever notice).
    pub fn arm(
        &mut self,
        number: usize,
        trigger: Trigger,
        eqs: &mut Table<EventQueue>,
    ) -> Result<(), ReturnCode> {
        let counter = self.table.get(number).ok_or(C_RC_RESOURCE_BUSY)?;
        if trigger.threshold > counter.success && self.is_full(counter) {
            return Err(C_RC_RESOURCE_BUSY);
        }
        if let Some(counter) = self.table.get_mut(number) {
            let pending = &mut counter.pending;
            let at = pending.partition_point(|older| older.threshold <= trigger.threshold);
            pending.insert(at, trigger);
            if is_due(counter) {
                self.fire(number, eqs);
            }
        }
        Ok(())
    }

    /// Triggered operations of an LNI that wait.
    pub fn pending_of(&self, lni: usize) -> usize {
        let counters = self.table.iter();
        let own = counters.filter(|(_, counter)| counter.lni == lni);
        own.map(|(_, counter)| counter.pending.len()).sum()
    }

    /// Triggered operations of a trigger queue that are not done: those that wait, and those that are to be executed.
    pub fn pending_from(&self, queue: usize) -> usize {
        let all = self.table.iter().flat_map(|(_, counter)| &counter.pending);
        let waiting = all.filter(|trigger| trigger.queue == Some(queue));
        let launched = self.launched.iter().filter(|launch| launch.queue == queue);
        waiting.count() + launched.count()
    }

    fn is_full(&self, of: &Counter) -> bool {
        let (mut ours, mut all) = (0, 0);
        for (_, counter) in self.table.iter() {
            all += counter.pending.len();
            if counter.lni == of.lni {
                ours += counter.pending.len();
            }
        }
        ours >= of.most_pending || all >= C_NUM_TLES as usize
    }

    /// Cancels all that waits for a counter. Who would have got an event gets one that says so; the
    /// other operations have no event (nic.md 3.12), and just do not happen.
    pub fn cancel(&mut self, number: usize, eqs: &mut Table<EventQueue>) {
        let Some(counter) = self.table.get_mut(number) else {
            return;
        };
        for trigger in std::mem::take(&mut counter.pending) {
            if let Action::Event { eq } = trigger.action {
                events::triggered(eqs, eq, number, trigger.threshold, C_RC_CANCELED);
            }
        }
    }

    /// The next command that a trigger queue is to execute.
    pub fn take_launched(&mut self, queue: usize) -> Option<Launch> {
        let at = self
            .launched
            .iter()
            .position(|launch| launch.queue == queue)?;
        self.launched.remove(at)
    }

    /// Gives a command back that cannot be executed now.
    pub fn put_back(&mut self, launch: Launch) {
        self.launched.push_front(launch);
    }

    /// A trigger queue is gone, and with it the commands that it was to execute.
    pub fn forget_queue(&mut self, queue: usize) {
        self.launched.retain(|launch| launch.queue != queue);
        for counter in self.table.values_mut() {
            counter.pending.retain_mut(|trigger| {
                let is_of_queue = trigger.queue == Some(queue);
                trigger.queue.take_if(|_| is_of_queue);
                !(is_of_queue && matches!(trigger.action, Action::Launch(_)))
            });
        }
    }

    /// An event queue is gone: the next of its number is not meant.
    pub fn forget_event_queue(&mut self, number: usize) {
        for counter in self.table.values_mut() {
            for trigger in &mut counter.pending {
                if let Action::Event { eq } = &mut trigger.action
                    && usize::from(*eq) == number
                {
                    *eq = 0;
                }
            }
        }
    }
}

/// Whether the first that waits for a counter need not wait any more. Failures do not count
/// (nic.md 9.3).
#[inline]
fn is_due(counter: &Counter) -> bool {
    let first = counter.pending.front();
    first.is_some_and(|first| first.threshold <= counter.success)
}
