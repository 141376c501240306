//! Messages of the control connection: framing, strings, addresses (wire.md 2 and 4.5).
//! Bytes <-> records, no sockets.

use facts::device::FabricAddress;
use facts::net::framing::{HEADER_SIZE, message};
use measure::{SideResult, SideView};

/// Size of an address, in bytes.
pub const ADDRESS_SIZE: usize = 8;

/// Maximum payload of a name, a version or an option block, in bytes.
pub const MAX_PAYLOAD: usize = 1020;

/// The interrupt notice: a length that no message has. One cxidiag sends it to another when it is
/// interrupted, at any time, as its last bytes. It is not sent to a legacy peer.
pub const INTERRUPT_NOTICE: u32 = u32::MAX;

/// A refusal: another length that no message has. One cxidiag sends it to another at any time when
/// it cannot run. A message with the reason, a string, follows.
pub const REFUSAL: u32 = u32::MAX - 1;

/// A tick: another length that no message has. A client sends it to a server that knows it, to show
/// that its process is not stopped.
pub const TICK: u32 = u32::MAX - 2;

/// Beginning of the reason of a server that has no room for the client at present.
pub const BUSY: &str = "busy: ";

/// The bytes of a refusal; a reason that does not fit is truncated.
pub fn refusal(reason: &str) -> Vec<u8> {
    let plain = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
    let reason: String = reason.chars().map(plain).take(MAX_PAYLOAD - 1).collect();
    let mut bytes = REFUSAL.to_le_bytes().to_vec();
    bytes.extend(message(&string(&reason)));
    bytes
}

/// The end of a session by a cxidiag peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    Interrupt,
    Refusal,
}

/// The notice that follows the complete messages at the start of `bytes`, if there is one.
pub fn notice(bytes: &[u8]) -> Option<Notice> {
    let mut rest = bytes;
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER_SIZE>() {
        let length = u32::from_le_bytes(*header);
        match length {
            INTERRUPT_NOTICE => return Some(Notice::Interrupt),
            REFUSAL => return Some(Notice::Refusal),
            TICK => rest = behind,
            _ => rest = behind.get(length as usize..).unwrap_or_default(),
        }
    }
    None
}

/// A string as payload, with its NUL.
pub fn string(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// The string in a payload: printable ASCII with one NUL, at the end.
pub fn parse_string(payload: &[u8]) -> Option<&str> {
    let (&nul, text) = payload.split_last()?;
    let printable = text.iter().all(|byte| (0x20..0x7f).contains(byte));
    if nul == 0 && printable { str::from_utf8(text).ok() } else { None }
}

/// `address` as payload.
pub fn encode_address(address: FabricAddress) -> [u8; ADDRESS_SIZE] {
    let mut bytes = [0; ADDRESS_SIZE];
    bytes[..4].copy_from_slice(&address.nic.to_le_bytes());
    bytes[4..].copy_from_slice(&address.pid.to_le_bytes());
    bytes
}

/// The address in a payload.
pub fn decode_address(bytes: &[u8; ADDRESS_SIZE]) -> FabricAddress {
    let [a, b, c, d, e, f, g, h] = *bytes;
    FabricAddress { nic: u32::from_le_bytes([a, b, c, d]), pid: u32::from_le_bytes([e, f, g, h]) }
}

/// Size of a bandwidth result, in bytes.
pub const RESULT_SIZE: usize = 16;

/// `result` as payload (wire.md 5).
pub fn encode_result(result: SideResult) -> [u8; RESULT_SIZE] {
    let mut bytes = [0; RESULT_SIZE];
    bytes[..8].copy_from_slice(&result.elapsed_us.to_le_bytes());
    bytes[8..].copy_from_slice(&result.count.to_le_bytes());
    bytes
}

/// The result in a payload.
pub fn decode_result(bytes: &[u8; RESULT_SIZE]) -> SideResult {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *bytes;
    SideResult {
        elapsed_us: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        count: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
    }
}

/// Size of a view as payload.
pub const VIEW_SIZE: usize = 32;

/// Stands for operations that are not counted.
const NOT_COUNTED: u64 = u64::MAX;

/// `view` as payload: two cxidiag exchange it with `--both-ends`.
pub fn encode_view(view: SideView) -> [u8; VIEW_SIZE] {
    let mut bytes = [0; VIEW_SIZE];
    let arrived = view.arrived.unwrap_or(NOT_COUNTED);
    let fields = [view.issued, arrived, view.elapsed_us, view.cpu_us];
    for (place, field) in bytes.as_chunks_mut().0.iter_mut().zip(fields) {
        *place = field.to_le_bytes();
    }
    bytes
}

/// The view in a payload.
pub fn decode_view(bytes: &[u8; VIEW_SIZE]) -> SideView {
    let field = |at: usize| u64::from_le_bytes(bytes.as_chunks().0[at]);
    SideView {
        issued: field(0),
        arrived: Some(field(1)).filter(|arrived| *arrived != NOT_COUNTED),
        elapsed_us: field(2),
        cpu_us: field(3),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::hex;
    use super::*;

    #[test]
    fn encodes_messages_of_wire_md_4_6() {
        assert_eq!(message(&string("cxi_write_lat")), hex("0e000000 6378695f77726974655f6c617400"));
        assert_eq!(message(&string("2.4.0")), hex("06000000 322e342e3000"));
        let address = FabricAddress { nic: 0x13, pid: 0 };
        assert_eq!(message(&encode_address(address)), hex("08000000 1300000000000000"));
        assert_eq!(message(&[]), hex("00000000"));
        assert_eq!(message(&[0; 129])[..HEADER_SIZE], hex("81000000"));
    }

    /// The recorded example of wire.md 8.3.
    #[test]
    fn encodes_results() {
        let result = SideResult { elapsed_us: 0x2d73, count: 12 };
        let bytes = hex("732d000000000000 0c00000000000000");
        assert_eq!(encode_result(result)[..], bytes);
        assert_eq!(decode_result(bytes[..].try_into().unwrap()), result);
    }

    #[test]
    fn accepts_only_terminated_printable_strings() {
        assert_eq!(parse_string(b"2.4.0\0"), Some("2.4.0"));
        assert_eq!(parse_string(b"\0"), Some(""));
        for payload in [&b""[..], b"2.4.0", b"2.4\0.0\0", b"\0\0", b"2.4\n\0", b"\xff\0"] {
            assert_eq!(parse_string(payload), None, "{payload:?}");
        }
    }

    #[test]
    fn refusal_is_its_length_and_a_message() {
        let bytes = refusal("full");
        assert_eq!(bytes, [&REFUSAL.to_le_bytes()[..], &message(b"full\0")].concat());
        let longest = refusal(&"x".repeat(5000));
        assert_eq!(longest.len(), 2 * HEADER_SIZE + MAX_PAYLOAD);
        for bytes in [bytes, longest] {
            assert!(parse_string(&bytes[2 * HEADER_SIZE..]).is_some());
            assert_eq!(notice(&bytes), Some(Notice::Refusal));
        }
    }

    #[test]
    fn finds_notice_after_messages_only() {
        let interrupted = INTERRUPT_NOTICE.to_le_bytes();
        for before in [
            vec![],
            message(&[]),
            [message(&[1; 16]), message(&[])].concat(),
            [&message(&[])[..], &TICK.to_le_bytes()].concat(),
        ] {
            let followed_by = |bytes: &[u8]| notice(&[&before[..], bytes].concat());
            assert_eq!(followed_by(&[]), None);
            assert_eq!(followed_by(&interrupted[..3]), None);
            assert_eq!(followed_by(&interrupted), Some(Notice::Interrupt));
            assert_eq!(followed_by(&refusal("full")), Some(Notice::Refusal));
        }
        assert_eq!(notice(&message(&[0xff; 16])), None);
        assert_eq!(notice(&message(&[0xff; 16])[..9]), None);
    }

    proptest! {
        #[test]
        fn addresses_come_back(nic: u32, pid: u32) {
            let address = FabricAddress { nic, pid };
            prop_assert_eq!(decode_address(&encode_address(address)), address);
        }

        #[test]
        fn any_bytes_are_a_string_or_not(payload: Vec<u8>) {
            if let Some(text) = parse_string(&payload) {
                prop_assert_eq!(string(text), payload);
            }
        }
    }
}
