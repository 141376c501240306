//! Events of the NIC, decoded (nic.md 6.2).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::*;
use cxi_sys::*;

use crate::error::{EventType, ReturnCode};

/// Size in bytes of a slot and of the longest event.
pub(crate) const SLOT: usize = C_EE_CFG_ECB_SIZE as usize;

/// Where a complete event lies in its queue, and its words that were read to find that out: they
/// hold its size, type and return code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventHeader {
    /// Offset in the queue, in bytes.
    pub(crate) at: usize,
    /// 16, 32 or 64; also 48 from a broken device.
    pub(crate) length: usize,
    /// The second word, which holds size and type.
    pub(crate) second: u64,
    /// The last word, which holds the return code.
    pub(crate) last: u64,
}

impl EventHeader {
    #[inline]
    pub(crate) fn event_type(&self) -> u8 {
        (self.second >> 50) as u8 & 0x1f
    }

    /// The low 6 bits of the last byte, which hold the return code of every event.
    #[inline]
    pub(crate) fn return_code(&self) -> u8 {
        (self.last >> 56) as u8 & 0x3f
    }

    /// Whether an initiator event reports the get of a rendezvous put.
    #[inline]
    pub(crate) fn is_rendezvous(&self) -> bool {
        EventInitiatorShort::from_words([0, self.second.to_le()]).rendezvous()
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
    header: EventHeader,
    /// The words of the event, in the queue. The NIC leaves them unchanged until the
    /// acknowledgement.
    words: &'queue [AtomicU64],
}

/// The fields of an event, in the record of its type and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventRecord {
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
pub struct TargetFields {
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
    /// Match bits of the command; in RENDEZVOUS, the match bits of the get.
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
    pub(crate) fn new(header: EventHeader, words: &'queue [AtomicU64]) -> Self {
        Self { header, words }
    }

    /// The type, in the header of every event.
    #[inline]
    pub fn event_type(&self) -> EventType {
        EventType(self.header.event_type())
    }

    /// The return code, at the end of every event.
    #[inline]
    pub fn return_code(&self) -> ReturnCode {
        ReturnCode(self.header.return_code())
    }

    /// The fields, by the type and the length of the event.
    #[inline]
    pub fn record(&self) -> EventRecord {
        match (u32::from(self.header.event_type()), self.header.length) {
            (C_EVENT_SEND..=C_EVENT_REPLY, 16) => {
                EventRecord::InitiatorShort(EventInitiatorShort::from_words(self.first()))
            }
            (C_EVENT_SEND..=C_EVENT_REPLY, 32) => {
                EventRecord::InitiatorLong(EventInitiatorLong::from_words(self.first()))
            }
            (C_EVENT_TRIGGERED_OP, 16) => {
                EventRecord::TriggeredShort(EventTrigOpShort::from_words(self.first()))
            }
            (C_EVENT_TRIGGERED_OP, 32) => {
                EventRecord::TriggeredLong(EventTrigOpLong::from_words(self.first()))
            }
            (C_EVENT_COMMAND_FAILURE, 16) => {
                EventRecord::CommandFailure(EventCmdFail::from_words(self.first()))
            }
            (
                C_EVENT_PUT..=C_EVENT_FETCH_ATOMIC_OVERFLOW
                | C_EVENT_LINK..=C_EVENT_RENDEZVOUS
                | C_EVENT_MATCH,
                length @ (32 | 64),
            ) => match length {
                32 => EventRecord::TargetShort(EventTargetShort::from_words(self.first())),
                _ => EventRecord::TargetLong(EventTargetLong::from_words(self.first())),
            },
            _ => EventRecord::Other,
        }
    }

    /// The common fields of a target event; `None` for other events.
    #[inline]
    pub fn target(&self) -> Option<TargetFields> {
        let (common, lengths) = match self.record() {
            EventRecord::TargetShort(short) => (short, (short.length(), short.length())),
            EventRecord::TargetLong(long) => {
                // Both records have the same layout up to `vni`.
                let common = std::array::from_fn(|index| long.words()[index]);
                let lengths = (long.rlength(), long.mlength());
                (EventTargetShort::from_words(common), lengths)
            }
            _ => return None,
        };
        Some(TargetFields {
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

    /// The bytes of the event, zero after its end.
    pub fn bytes(&self) -> [u8; SLOT] {
        let words: [u64; SLOT / 8] = self.first();
        let mut bytes = [0; SLOT];
        let (chunks, _) = bytes.as_chunks_mut::<8>();
        for (chunk, word) in chunks.iter_mut().zip(words) {
            *chunk = word.to_ne_bytes();
        }
        bytes
    }

    /// Reads the first `N` words, each once; words after the end of the event are zero.
    #[inline]
    fn first<const N: usize>(&self) -> [u64; N] {
        // Acquire loads of the words that complete the event came before (see `EventQueue::poll`).
        let word = |index| {
            self.words.get(index).map_or(0, |word: &AtomicU64| word.load(Ordering::Relaxed))
        };
        std::array::from_fn(word)
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

    /// Places an event in memory, which is never freed.
    fn event<const N: usize>(bytes: [u8; N]) -> Event<'static> {
        let (chunks, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks.iter().map(|&chunk| u64::from_ne_bytes(chunk)).collect();
        let header = EventHeader {
            at: 0,
            length: N,
            second: u64::from_le(words[1]),
            last: u64::from_le(words[N / 8 - 1]),
        };
        let words: Vec<_> = words.into_iter().map(AtomicU64::new).collect();
        Event::new(header, words.leak())
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
            assert!(matches!(event.record(), EventRecord::InitiatorShort(_)));
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
        let EventRecord::TargetLong(record) = event.record() else {
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
        assert!(matches!(event.record(), EventRecord::InitiatorLong(_)));
    }
}
