//! Messages of the control connection: framing, strings, addresses, results (wire.md 2 and 4.5),
//! and the option block: the options of one side as 129 bytes (wire.md 4.2). Bytes <-> records, no
//! sockets. The option block has raw numbers, which `terms` checks.

use facts::device::FabricAddress;
use facts::net::{HEADER_SIZE, message};
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
const VIEW_SIZE: usize = 32;

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

/// Size of an option block, in bytes.
pub const OPTIONS_SIZE: usize = 129;

/// The part of the option block about one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBlock {
    /// CXI service.
    pub svc_id: u32,
    /// Number of the device.
    pub dev_id: u32,
    /// TCP port given: listening port on the server, destination port on the client.
    pub port: u16,
    /// GPU support: -1 none, 0 AMD, 1 NVIDIA, 2 Intel.
    pub gpu_type: i8,
    /// GPU that holds the transmit buffer.
    pub tx_gpu: Option<u8>,
    /// GPU that holds the receive buffer.
    pub rx_gpu: Option<u8>,
}

/// The option block, in the order of its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionBlock {
    /// 0: clock_gettime, 1: cycles.
    pub clock: u32,
    /// Accept different CPU frequencies of the two sides.
    pub ignore_cpu_freq_mismatch: bool,
    /// Iterations per size.
    pub iters: u64,
    /// Unmeasured iterations per size.
    pub warmup: u64,
    /// Gap in microseconds.
    pub iter_delay: u64,
    /// Duration in seconds; 0: run by iterations.
    pub duration: u32,
    /// Operations per iteration (bandwidth tools).
    pub list_size: u16,
    /// Both sides issue operations.
    pub bidirectional: bool,
    /// Print each sample.
    pub report_all: bool,
    /// The tools never set it.
    pub print_gbits: bool,
    /// Emulated device.
    pub emu_mode: bool,
    /// 0: none, 1: 2M, 2: 1G.
    pub hugepages: u8,
    /// First size in bytes.
    pub min_size: u64,
    /// Last size in bytes.
    pub max_size: u64,
    /// `--buf-sz`.
    pub max_buf_size: u64,
    /// 0 on the wire.
    pub buf_size: u64,
    pub buf_align: u64,
    /// High Rate Puts.
    pub use_hrp: bool,
    /// Immediate data commands.
    pub use_idc: bool,
    /// Low-latency command issue.
    pub use_ll: bool,
    /// Rendezvous puts.
    pub use_rdzv: bool,
    /// Fetching atomics.
    pub fetching: bool,
    /// Matching list entries.
    pub matching: bool,
    /// Unrestricted operations.
    pub unrestricted: bool,
    /// Atomic operation (wire.md 4.4).
    pub atomic_op: u8,
    /// Comparison of a CSWAP.
    pub cswap_op: u8,
    /// Type of the operands.
    pub atomic_type: u8,
    /// The sender's own host.
    pub host: HostBlock,
}

impl OptionBlock {
    /// The block as payload.
    pub fn encode(&self) -> [u8; OPTIONS_SIZE] {
        let mut payload = Payload { bytes: [0; OPTIONS_SIZE], at: 0, is_written: true };
        let mut block = *self;
        block.exchange(&mut payload);
        payload.bytes
    }

    /// The block in a payload. Any bytes are a block; reserved bits and the fields that only the
    /// receiver fills are ignored.
    pub fn decode(bytes: &[u8; OPTIONS_SIZE]) -> Self {
        let mut block = Self::default();
        block.exchange(&mut Payload { bytes: *bytes, at: 0, is_written: false });
        block
    }

    /// Writes or reads all fields, in the order of their bytes.
    fn exchange(&mut self, payload: &mut Payload) {
        payload.number(&mut self.clock);
        let mut ignores = self.ignore_cpu_freq_mismatch.into();
        payload.number::<u8>(&mut ignores);
        self.ignore_cpu_freq_mismatch = ignores != 0;
        payload.number(&mut self.iters);
        payload.number(&mut self.warmup);
        payload.number(&mut self.iter_delay);
        payload.number(&mut self.duration);
        payload.number(&mut self.list_size);
        self.hugepages &= 3;
        payload.flags(
            [
                &mut self.bidirectional,
                &mut self.report_all,
                &mut self.print_gbits,
                &mut self.emu_mode,
            ],
            &mut self.hugepages,
        );
        self.hugepages &= 3;
        payload.at += 1;
        payload.number(&mut self.min_size);
        payload.number(&mut self.max_size);
        payload.number(&mut self.max_buf_size);
        payload.number(&mut self.buf_size);
        payload.number(&mut self.buf_align);
        payload.flags(
            [
                &mut self.use_hrp,
                &mut self.use_idc,
                &mut self.use_ll,
                &mut self.use_rdzv,
                &mut self.fetching,
                &mut self.matching,
                &mut self.unrestricted,
            ],
            &mut 0,
        );
        payload.number(&mut self.atomic_op);
        payload.number(&mut self.cswap_op);
        payload.number(&mut self.atomic_type);
        self.host.exchange(payload);
    }
}

impl HostBlock {
    fn exchange(&mut self, payload: &mut Payload) {
        payload.number(&mut self.svc_id);
        payload.number(&mut self.dev_id);
        payload.number(&mut self.port);
        let mut gpu_type = self.gpu_type as u8;
        payload.number(&mut gpu_type);
        self.gpu_type = gpu_type as i8;
        payload.at += 5;
        // The number of a GPU, and a bit that marks it as used.
        let bits = |gpu: Option<u8>| gpu.map_or(0, |gpu| u64::from(gpu) | 0x100);
        let gpu = |bits: u64| (bits & 0x100 != 0).then_some(bits as u8);
        let mut gpus = bits(self.tx_gpu) | bits(self.rx_gpu) << 9;
        payload.number(&mut gpus);
        (self.tx_gpu, self.rx_gpu) = (gpu(gpus), gpu(gpus >> 9));
    }
}

/// The bytes of a block, up to the next field to be written or read.
struct Payload {
    bytes: [u8; OPTIONS_SIZE],
    at: usize,
    is_written: bool,
}

impl Payload {
    /// Writes or reads a number, in little-endian bytes.
    fn number<T: Copy + Into<u64> + TryFrom<u64>>(&mut self, number: &mut T) {
        let place = &mut self.bytes[self.at..][..size_of::<T>()];
        let mut bytes = (*number).into().to_le_bytes();
        let field = &mut bytes[..place.len()];
        if self.is_written {
            place.copy_from_slice(field);
        } else {
            field.copy_from_slice(place);
        }
        self.at += size_of::<T>();
        // The bytes are as many as the number has.
        if let Ok(read) = T::try_from(u64::from_le_bytes(bytes)) {
            *number = read;
        }
    }

    /// Writes or reads a byte of flags, the first in bit 0, and the bits above them.
    fn flags<const N: usize>(&mut self, mut flags: [&mut bool; N], above: &mut u8) {
        let mut byte = flags.iter().rev().fold(*above, |byte, flag| byte << 1 | u8::from(**flag));
        self.number(&mut byte);
        for flag in &mut flags {
            **flag = byte & 1 == 1;
            byte >>= 1;
        }
        *above = byte;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

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

    /// The block that `cxi_write_lat` sends without options, built without GPU support.
    fn write_lat() -> OptionBlock {
        OptionBlock {
            iters: 100,
            warmup: 10,
            iter_delay: 1000,
            min_size: 8,
            max_size: 8,
            use_idc: true,
            use_ll: true,
            host: HostBlock {
                svc_id: 1,
                dev_id: 0,
                port: 49194,
                gpu_type: -1,
                tx_gpu: None,
                rx_gpu: None,
            },
            ..OptionBlock::decode(&[0; OPTIONS_SIZE])
        }
    }

    fn is_encoded_as(block: OptionBlock, vector: &str) {
        let bytes = hex(vector);
        assert_eq!(block.encode()[..], bytes);
        assert_eq!(OptionBlock::decode(bytes[..].try_into().unwrap()), block);
    }

    #[test]
    fn encodes_write_lat_without_options() {
        is_encoded_as(
            write_lat(),
            "00000000 00 6400000000000000 0a00000000000000 e803000000000000 00000000 0000 0000
             0800000000000000 0800000000000000 0000000000000000 0000000000000000 0000000000000000
             06 00 00 00
             01000000 00000000 2ac0 ff 00 00000000 0000000000000000
             00000000 00000000 0000 00 00 00000000 0000000000000000",
        );
    }

    #[test]
    fn encodes_send_bw_with_many_options() {
        let host = HostBlock { svc_id: 7, dev_id: 3, gpu_type: 1, ..write_lat().host };
        let block = OptionBlock {
            iters: 20,
            warmup: 0,
            iter_delay: 0,
            duration: 5,
            list_size: 16,
            bidirectional: true,
            hugepages: 1,
            min_size: 1024,
            max_size: 65536,
            max_buf_size: 1_048_576,
            buf_align: 128,
            use_idc: false,
            use_ll: false,
            use_rdzv: true,
            host,
            ..write_lat()
        };
        is_encoded_as(
            block,
            "00 00 00 00 00 14 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00 00
             00 10 00 11 00 00 04 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00
             00 00 00 00 00 80 00 00 00 00 00 00 00 08 00 00 00 07 00 00 00 03 00 00 00 2a c0 01 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00",
        );
    }

    #[test]
    fn encodes_write_lat_with_gpus() {
        let host =
            HostBlock { gpu_type: 2, tx_gpu: Some(3), rx_gpu: Some(200), ..write_lat().host };
        let block = OptionBlock {
            warmup: 2,
            iter_delay: 77,
            report_all: true,
            emu_mode: true,
            hugepages: 2,
            min_size: 64,
            max_size: 64,
            use_idc: false,
            use_ll: false,
            unrestricted: true,
            host,
            ..write_lat()
        };
        is_encoded_as(
            block,
            "00 00 00 00 00 64 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 4d 00 00 00 00 00 00 00 00 00 00
             00 00 00 2a 00 40 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 40 00 00 00 01 00 00 00 00 00 00 00 2a c0 02 00 00 00 00
             00 03 91 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00",
        );
    }

    #[test]
    fn encodes_atomic_lat_with_options() {
        let block = OptionBlock {
            fetching: true,
            matching: true,
            use_idc: false,
            atomic_op: 11,
            cswap_op: 4,
            atomic_type: 10,
            ..write_lat()
        };
        assert_eq!(block.encode()[77..81], hex("34 0b 04 0a"));
    }

    #[test]
    fn encodes_send_lat_with_another_clock() {
        let block = OptionBlock { clock: 1, ignore_cpu_freq_mismatch: true, ..write_lat() };
        assert_eq!(block.encode()[..5], hex("01 00 00 00 01"));
    }

    /// The bits that have a meaning, byte by byte.
    fn meaningful() -> [u8; OPTIONS_SIZE] {
        let mut mask = [0xff; OPTIONS_SIZE];
        mask[35] = 0x3f;
        mask[36] = 0;
        mask[77] = 0x7f;
        mask[92..97].fill(0);
        mask[99] = 0x03;
        mask[100..].fill(0);
        mask
    }

    proptest! {
        #[test]
        fn any_bytes_make_a_block_that_comes_back(bytes: [u8; OPTIONS_SIZE]) {
            let block = OptionBlock::decode(&bytes);
            let encoded = block.encode();
            prop_assert_eq!(OptionBlock::decode(&encoded), block);
            for (at, mask) in meaningful().into_iter().enumerate() {
                // A flag is 1 to us; the number of a GPU counts only if it is used.
                if at != 4 && !(97..=99).contains(&at) {
                    prop_assert_eq!(encoded[at], bytes[at] & mask, "byte {}", at);
                }
            }
        }
    }
}
