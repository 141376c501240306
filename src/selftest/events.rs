//! Events as checks see them, and waits for them.

use std::time::{Duration, Instant};

use cxi::{Event, EventQueue, EventRecord, EventType, ReturnCode, TargetFields};
use facts::interrupt;

use crate::ended::{Checked, differs};

/// Time limit of a wait for an event. A NIC answers itself within microseconds.
pub const LIMIT: Duration = Duration::from_secs(3);

/// How long a queue is watched for events that must not come.
const QUIET: Duration = Duration::from_millis(1);

/// The bytes that were exchanged with the NIC last.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The commands handed over with one doorbell.
    pub command: Vec<u8>,
    pub event: Vec<u8>,
}

/// An event, copied out of its queue.
#[derive(Clone, Debug)]
pub struct Seen {
    pub kind: EventType,
    pub code: ReturnCode,
    /// Its fields.
    pub record: EventRecord,
    /// The common fields of a target event.
    target: Option<TargetFields>,
    /// Its bytes: 16, 32 or 64.
    pub bytes: Vec<u8>,
}

impl Seen {
    fn of(event: &Event<'_>) -> Self {
        let bytes = event.bytes();
        let len = 8 << (bytes[14] & 3);
        Self {
            kind: event.event_type(),
            code: event.return_code(),
            record: event.record(),
            target: event.target(),
            bytes: bytes[..len].to_vec(),
        }
    }

    /// The user pointer of an initiator event, else 0.
    pub fn user_ptr(&self) -> u64 {
        match &self.record {
            EventRecord::InitiatorShort(event) => event.user_ptr(),
            EventRecord::InitiatorLong(event) => event.user_ptr(),
            _ => 0,
        }
    }

    /// The bytes moved.
    pub fn mlength(&self) -> u32 {
        match &self.record {
            EventRecord::InitiatorShort(event) => event.mlength(),
            EventRecord::InitiatorLong(event) => event.mlength(),
            _ => self.target.map_or(0, |target| target.mlength),
        }
    }

    /// The list, `C_PTL_LIST_*`.
    pub fn list(&self) -> u32 {
        match &self.record {
            EventRecord::InitiatorShort(event) => event.ptl_list().into(),
            EventRecord::InitiatorLong(event) => event.ptl_list().into(),
            _ => self.target.map_or(0, |target| target.ptl_list.into()),
        }
    }

    /// The common fields of a target event.
    ///
    /// # Errors
    ///
    /// Another event.
    pub fn target(&self) -> Checked<TargetFields> {
        let target = self.target;
        target.ok_or_else(|| differs("a target event", self.kind))
    }

    /// The fields of a long target event.
    ///
    /// # Errors
    ///
    /// Another event.
    pub fn long(&self) -> Checked<cxi::records::EventTargetLong> {
        match self.record {
            EventRecord::TargetLong(event) => Ok(event),
            _ => Err(differs(
                "a target event of 64 bytes",
                format_args!("{} of {} bytes", self.kind, self.bytes.len()),
            )),
        }
    }
}

/// Waits for the next event of a queue and acknowledges it.
///
/// # Errors
///
/// No event in time.
pub fn next(queue: &mut EventQueue, trace: &mut Trace) -> Checked<Seen> {
    let seen = within(queue, trace, LIMIT);
    seen.ok_or_else(|| {
        trace.event.clear();
        differs("an event", format_args!("none within {} s", LIMIT.as_secs()))
    })
}

fn within(queue: &mut EventQueue, trace: &mut Trace, limit: Duration) -> Option<Seen> {
    let until = Instant::now() + limit;
    loop {
        if let Some(event) = queue.poll() {
            let seen = Seen::of(&event);
            queue.acknowledge();
            trace.event.clone_from(&seen.bytes);
            return Some(seen);
        }
        if Instant::now() >= until || interrupt::requested() {
            return None;
        }
        std::hint::spin_loop();
    }
}

/// Waits for an event of this type and return code.
///
/// # Errors
///
/// Another event, or none.
pub fn expect(
    queue: &mut EventQueue,
    trace: &mut Trace,
    kind: EventType,
    code: u32,
) -> Checked<Seen> {
    let expected = format!("{kind} {}", ReturnCode(code as u8));
    match within(queue, trace, LIMIT) {
        Some(seen) if (seen.kind, u32::from(seen.code.0)) == (kind, code) => Ok(seen),
        Some(seen) => Err(differs(expected, format_args!("{} {}", seen.kind, seen.code))),
        None => {
            trace.event.clear();
            let seen = format!("no event within {} s", LIMIT.as_secs());
            Err(differs(expected, seen))
        }
    }
}

/// Checks that no event comes for a moment.
///
/// # Errors
///
/// An event.
pub fn quiet(queue: &mut EventQueue, trace: &mut Trace) -> Checked {
    match within(queue, trace, QUIET) {
        None => Ok(()),
        Some(seen) => Err(differs("no further event", format_args!("{} {}", seen.kind, seen.code))),
    }
}
