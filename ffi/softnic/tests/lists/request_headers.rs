//! The headers of messages in request buffers, as a program reads them (nic.md 8.8;
//! docs/software-nic-reference.md, "Portals managed by software").

use crate::driver::prelude::*;

/// Bytes of the headers of an ordinary message, and of a small one (nic.md 8.8).
pub const HEADERS: usize = 20 + 43;
pub const SMALL_HEADERS: usize = 20 + 29;

/// The headers of a message in a request buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    pub vni: u16,
    pub nid: u32,
    pub pid: u16,
    pub index: u16,
    pub rlength: u32,
    pub following: u32,
    pub flags: u8,
    pub rendezvous_id: u8,
    pub match_bits: u64,
    pub initiator: u32,
    pub header_data: u64,
    /// Small messages have none.
    pub remote_offset: Option<u64>,
}

impl Headers {
    /// Reads headers as a program does, by version and type; returns their length too.
    pub fn read(pages: Pages, at: usize) -> (Self, usize) {
        let bytes = pages.read(at, HEADERS);
        let number = |at: usize, len: usize| {
            let bytes = &bytes[at..at + len];
            bytes.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
        };
        let zeros = |at: usize, len: usize| assert_eq!(number(at, len), 0, "byte {at}");
        assert_eq!(number(0, 2), 0x4000, "version 4");
        let is_small = match bytes[20] >> 4 & 7 {
            0 => false,
            1 => true,
            kind => panic!("header type {kind}"),
        };
        let mut headers = Self {
            vni: number(2, 2) as u16,
            nid: number(4, 4) as u32,
            pid: number(8, 2) as u16,
            index: number(10, 2) as u16,
            rlength: number(12, 4) as u32,
            following: number(16, 4) as u32,
            flags: bytes[21],
            match_bits: number(20 + 10, 8),
            initiator: number(20 + 18, 4) as u32,
            ..Self::default()
        };
        if is_small {
            headers.header_data = number(20 + 2, 8);
            zeros(20 + 22, 7);
            return (headers, SMALL_HEADERS);
        }
        headers.rendezvous_id = bytes[20 + 9];
        headers.header_data = number(20 + 29, 8);
        headers.remote_offset = Some(number(20 + 22, 7));
        assert_eq!(number(22, 7), number(20 + 22, 7), "the other reading");
        zeros(20 + 37, 6);
        (headers, HEADERS)
    }
}
