//! Messages with their length before them, from bytes in pieces of any size (wire.md 2).

/// Size of the length before each payload, in bytes.
pub const HEADER_SIZE: usize = 4;

/// Returns the bytes of a message: length, then payload.
pub fn message(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// An incoming message, assembled from pieces of any size. It requests no byte beyond its end: the
/// next message stays in the socket.
#[derive(Debug)]
pub struct Incoming {
    /// The header, followed by the payload when its length is known.
    bytes: Vec<u8>,
    filled: usize,
    most: usize,
}

/// The peer announced a payload of this many bytes, which is over the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub u32);

impl Incoming {
    /// Creates an empty message with at most `most` payload bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: vec![0; HEADER_SIZE], filled: 0, most }
    }

    /// Returns the space for the next bytes; never empty.
    pub fn room(&mut self) -> &mut [u8] {
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
        if self.filled < self.bytes.len() {
            return Ok(None);
        }
        if let Ok(header) = <[u8; HEADER_SIZE]>::try_from(&self.bytes[..]) {
            let length = u32::from_le_bytes(header);
            if length as usize > self.most {
                return Err(TooLong(length));
            }
            self.bytes.resize(HEADER_SIZE + length as usize, 0);
            if length > 0 {
                return Ok(None);
            }
        }
        // A long message leaves no memory behind: a process may have thousands of connections.
        let mut payload = std::mem::replace(&mut self.bytes, vec![0; HEADER_SIZE]);
        payload.drain(..HEADER_SIZE);
        self.filled = 0;
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
