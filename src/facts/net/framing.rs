//! Messages with their length before them, from bytes in pieces of any size (wire.md 2).

/// Size of the length before each payload, in bytes.
pub const HEADER_SIZE: usize = 4;

/// Returns the bytes of a message: length, then payload.
pub fn message(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Bytes that are read at first, header included. More are read as many at a time as have arrived.
const FIRST: usize = 1 << 10;

/// An incoming message, assembled from pieces of any size. It requests no byte beyond its end: the
/// next message stays in the socket. Its memory follows what has arrived, not what is announced.
#[derive(Debug)]
pub struct Incoming {
    /// The header, followed by the part of the payload that is read next or has arrived.
    bytes: Vec<u8>,
    filled: usize,
    /// Where the header ends, or the message once its length is known.
    end: usize,
    most: usize,
}

/// The peer announced a payload of this many bytes, which is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub u32);

impl Incoming {
    /// Creates an empty message with at most `most` payload bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), filled: 0, end: HEADER_SIZE, most }
    }

    /// Returns the space for the next bytes; never empty.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            self.bytes.resize(self.end.min(FIRST.max(2 * self.filled)), 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Takes the first `more` bytes of the space as received. Returns the payload when it is
    /// complete; the next message begins then.
    ///
    /// # Errors
    ///
    /// A payload over the limit.
    pub fn advance(&mut self, more: usize) -> Result<Option<Vec<u8>>, TooLong> {
        self.filled += more;
        if self.filled < self.end {
            return Ok(None);
        }
        if let Ok(header) = <[u8; HEADER_SIZE]>::try_from(&self.bytes[..]) {
            let length = u32::from_le_bytes(header);
            if length as usize > self.most {
                return Err(TooLong(length));
            }
            self.end += length as usize;
            if length > 0 {
                return Ok(None);
            }
        }
        // A long message leaves no memory behind: a process may have thousands of connections.
        let Self { bytes: mut payload, .. } = std::mem::replace(self, Self::new(self.most));
        payload.drain(..HEADER_SIZE);
        Ok(Some(payload))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all messages in `bytes`, received in pieces of at most `piece` bytes.
    fn messages(bytes: &[u8], piece: usize, most: usize) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut incoming = Incoming::new(most);
        let mut messages = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = incoming.room();
            let taken = room.len().min(piece).min(rest.len());
            room[..taken].copy_from_slice(&rest[..taken]);
            rest = &rest[taken..];
            messages.extend(incoming.advance(taken)?);
        }
        Ok(messages)
    }

    #[test]
    fn refuses_payload_over_limit() {
        assert_eq!(messages(&message(&[7; 9]), 99, 8), Err(TooLong(9)));
        assert_eq!(messages(&message(&[7; 8]), 99, 8), Ok(vec![vec![7; 8]]));
        assert_eq!(messages(b"GET / HTTP/1.1", 99, 1020), Err(TooLong(542_393_671)));
        assert_eq!(messages(&[], 99, 0), Ok(vec![]));
    }

    #[test]
    fn memory_follows_what_has_arrived() {
        let mut incoming = Incoming::new(1 << 24);
        incoming.room().copy_from_slice(&(1_u32 << 24).to_le_bytes());
        assert_eq!(incoming.advance(HEADER_SIZE), Ok(None));
        let mut arrived = HEADER_SIZE;
        let payload = loop {
            let room = incoming.room().len();
            assert!(room <= FIRST.max(arrived), "{room} bytes after {arrived}");
            assert!(incoming.bytes.capacity() <= 2 * FIRST.max(arrived), "after {arrived}");
            arrived += room;
            if let Some(payload) = incoming.advance(room).unwrap() {
                break payload;
            }
        };
        assert_eq!(payload.len(), 1 << 24);
        assert_eq!(incoming.bytes.capacity(), 0);
    }

    proptest! {
        #[test]
        fn messages_come_back_from_pieces(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..5),
            piece in 1..50_usize,
        ) {
            let bytes: Vec<u8> = payloads.iter().flat_map(|payload| message(payload)).collect();
            prop_assert_eq!(messages(&bytes, piece, 40), Ok(payloads));
        }
    }
}
