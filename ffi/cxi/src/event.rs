//! Events of the NIC, decoded (nic.md 6.2).

use std::fmt;
use std::marker::PhantomData;

use cxi_sys::records::*;
use cxi_sys::*;

use crate::error::{EventType, ReturnCode};

/// Size in bytes of a slot and of the longest event.
pub(crate) const SLOT: usize = C_EE_CFG_ECB_SIZE as usize;

/// The bytes of an event, copied from the queue; zero after its end.
#[derive(Clone, Copy)]
pub(crate) struct EventBytes {
    pub(crate) words: [u64; SLOT / 8],
    /// 16, 32 or 64; also 48 from a broken device.
    pub(crate) length: usize,
}

impl EventBytes {
    #[inline]
    pub(crate) fn event_type(&self) -> u8 {
        (self.words[1] >> 50) as u8 & 0x1f
    }

    /// Returns the low 6 bits of the last byte, which hold the return code of every event.
    #[inline]
    pub(crate) fn return_code(&self) -> u8 {
        (self.words[self.length / 8 - 1] >> 56) as u8 & 0x3f
    }

    /// Returns the first `N` bytes, a multiple of 8.
    #[inline]
    pub(crate) fn first<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (bytes, word) in words.iter_mut().zip(self.words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }
}

/// An event. It borrows its queue, so it cannot outlive the next poll or acknowledgement.
///
/// ```
/// fn poll_and_acknowledge(queue: &mut cxi::EventQueue) {
///     if let Some(event) = queue.poll() {
///         let _ = event.return_code();
///     }
///     queue.acknowledge();
/// }
/// ```
///
/// Using it after the acknowledgement does not compile:
///
/// ```compile_fail,E0499
/// fn poll_and_acknowledge(queue: &mut cxi::EventQueue) {
///     if let Some(event) = queue.poll() {
///         queue.acknowledge();
///         let _ = event.return_code();
///     }
/// }
/// ```
///
/// Using it after the next poll does not compile:
///
/// ```compile_fail,E0499
/// fn poll_twice(queue: &mut cxi::EventQueue) {
///     let first = queue.poll();
///     let second = queue.poll();
///     let _ = (first.is_some(), second.is_some());
/// }
/// ```
pub struct Event<'queue> {
    bytes: EventBytes,
    queue: PhantomData<&'queue mut ()>,
}

/// The fields of an event, in the record of its type and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// ACK, REPLY or SEND.
    InitiatorShort(EventInitiatorShort),
    /// ACK, REPLY or SEND with a timestamp.
    InitiatorLong(EventInitiatorLong),
    /// An operation at a portals table entry.
    TargetShort(EventTargetShort),
    /// An operation at a portals table entry, with all fields; also LINK, UNLINK and STATE_CHANGE.
    TargetLong(EventTargetLong),
    /// TRIGGERED_OP.
    TriggeredShort(EventTrigOpShort),
    /// TRIGGERED_OP with a timestamp.
    TriggeredLong(EventTrigOpLong),
    /// COMMAND_FAILURE.
    CommandFailure(EventCmdFail),
    /// Another event; see [`Event::bytes`].
    Other,
}

/// The fields that short and long target events have in common (nic.md 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Buffer id of the list entry or command.
    pub buffer_id: u16,
    /// Number of the portals table entry.
    pub ptlte_index: u16,
    /// `C_PTL_LIST_*`.
    pub ptl_list: u8,
    /// Whether the operation unlinked the list entry.
    pub auto_unlinked: bool,
    /// Match id of the initiator; in RENDEZVOUS, the address to get from.
    pub initiator: u32,
    /// Match bits of the command; in RENDEZVOUS, those of the get.
    pub match_bits: u64,
    /// Header data of the command.
    pub header_data: u64,
    /// VNI of the operation.
    pub vni: u16,
    /// Bytes that the command requested.
    pub rlength: u32,
    /// Bytes that the operation moved.
    pub mlength: u32,
}

impl<'queue> Event<'queue> {
    #[inline]
    pub(crate) fn new(bytes: EventBytes) -> Self {
        Self {
            bytes,
            queue: PhantomData,
        }
    }

    /// Returns the type of the event.
    #[inline]
    pub fn event_type(&self) -> EventType {
        EventType(self.bytes.event_type())
    }

    /// Returns the return code, at the end of every event.
    #[inline]
    pub fn return_code(&self) -> ReturnCode {
        ReturnCode(self.bytes.return_code())
    }

    /// Returns the fields of the event.
    #[inline]
    pub fn record(&self) -> Record {
        let bytes = &self.bytes;
        match (u32::from(bytes.event_type()), bytes.length) {
            (C_EVENT_SEND..=C_EVENT_REPLY, 16) => {
                Record::InitiatorShort(EventInitiatorShort::from_bytes(bytes.first()))
            }
            (C_EVENT_SEND..=C_EVENT_REPLY, 32) => {
                Record::InitiatorLong(EventInitiatorLong::from_bytes(bytes.first()))
            }
            (C_EVENT_TRIGGERED_OP, 16) => {
                Record::TriggeredShort(EventTrigOpShort::from_bytes(bytes.first()))
            }
            (C_EVENT_TRIGGERED_OP, 32) => {
                Record::TriggeredLong(EventTrigOpLong::from_bytes(bytes.first()))
            }
            (C_EVENT_COMMAND_FAILURE, 16) => {
                Record::CommandFailure(EventCmdFail::from_bytes(bytes.first()))
            }
            (
                C_EVENT_PUT..=C_EVENT_FETCH_ATOMIC_OVERFLOW
                | C_EVENT_LINK..=C_EVENT_RENDEZVOUS
                | C_EVENT_MATCH,
                length @ (32 | 64),
            ) => match length {
                32 => Record::TargetShort(EventTargetShort::from_bytes(bytes.first())),
                _ => Record::TargetLong(EventTargetLong::from_bytes(bytes.first())),
            },
            _ => Record::Other,
        }
    }

    /// Returns the common fields of a target event; `None` for other events.
    #[inline]
    pub fn target(&self) -> Option<Target> {
        let (lengths, bytes) = match self.record() {
            Record::TargetShort(short) => ((short.length(), short.length()), self.bytes.first()),
            Record::TargetLong(long) => ((long.rlength(), long.mlength()), self.bytes.first()),
            _ => return None,
        };
        // Both records have the same layout up to `vni`.
        let common = EventTargetShort::from_bytes(bytes);
        Some(Target {
            buffer_id: common.buffer_id(),
            ptlte_index: common.ptlte_index(),
            ptl_list: common.ptl_list(),
            auto_unlinked: common.auto_unlinked(),
            initiator: common.initiator(),
            match_bits: common.match_bits(),
            header_data: common.header_data(),
            vni: common.vni(),
            rlength: lengths.0,
            mlength: lengths.1,
        })
    }

    /// Returns the bytes of the event, zero after its end.
    pub fn bytes(&self) -> [u8; SLOT] {
        self.bytes.first()
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("type", &self.event_type())
            .field("return_code", &self.return_code())
            .field("record", &self.record())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event<const N: usize>(bytes: [u8; N]) -> Event<'static> {
        let mut words = [0; SLOT / 8];
        let (chunks, _) = bytes.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*bytes);
        }
        Event::new(EventBytes { words, length: N })
    }

    /// The event examples of nic.md Appendix B.
    #[test]
    fn decodes_examples_of_the_specification() {
        for (header, name) in [(0x25, "ACK"), (0x29, "REPLY")] {
            let mut bytes = [0; 16];
            bytes[14] = header;
            bytes[15] = 1;
            let event = event(bytes);
            assert_eq!(event.event_type().name(), Some(name));
            assert_eq!(event.return_code(), ReturnCode::OK);
            assert!(matches!(event.record(), Record::InitiatorShort(_)));
            assert_eq!(event.bytes()[..16], bytes);
        }

        let mut bytes = [0; 64];
        bytes[14] = 0x2f;
        bytes[63] = 1;
        assert_eq!(event(bytes).event_type(), EventType::LINK);

        bytes[8] = 2;
        bytes[14] = 0x37;
        let event = event(bytes);
        assert_eq!(event.event_type(), EventType::STATE_CHANGE);
        let Record::TargetLong(record) = event.record() else {
            panic!("{event:?}");
        };
        assert_eq!(u32::from(record.ptlte_state()), C_PTLTE_ENABLED);
        assert!(!record.sc_nic_auto());
    }

    #[test]
    fn reads_return_code_from_last_byte() {
        let mut bytes = [0; 32];
        bytes[14] = 0x26;
        bytes[15] = 0x3f;
        bytes[31] = 0xc0 | 26;
        let event = event(bytes);
        assert_eq!(event.return_code(), ReturnCode(26));
        assert!(matches!(event.record(), Record::InitiatorLong(_)));
    }
}
