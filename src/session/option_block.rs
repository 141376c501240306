//! The option block: the options of one side as 129 bytes (wire.md 4.2). Raw numbers; `terms`
//! checks them.

/// Size of an option block, in bytes.
pub const OPTIONS_SIZE: usize = 129;

/// The part of the option block about one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let mut out = Writer { bytes: [0; OPTIONS_SIZE], filled: 0 };
        out.put(self.clock.to_le_bytes());
        out.put([self.ignore_cpu_freq_mismatch.into()]);
        out.put(self.iters.to_le_bytes());
        out.put(self.warmup.to_le_bytes());
        out.put(self.iter_delay.to_le_bytes());
        out.put(self.duration.to_le_bytes());
        out.put(self.list_size.to_le_bytes());
        let flags = bits([self.bidirectional, self.report_all, self.print_gbits, self.emu_mode]);
        out.put([flags | (self.hugepages & 3) << 4, 0]);
        out.put(self.min_size.to_le_bytes());
        out.put(self.max_size.to_le_bytes());
        out.put(self.max_buf_size.to_le_bytes());
        out.put(self.buf_size.to_le_bytes());
        out.put(self.buf_align.to_le_bytes());
        out.put([bits([
            self.use_hrp,
            self.use_idc,
            self.use_ll,
            self.use_rdzv,
            self.fetching,
            self.matching,
            self.unrestricted,
        ])]);
        out.put([self.atomic_op, self.cswap_op, self.atomic_type]);
        out.put(self.host.svc_id.to_le_bytes());
        out.put(self.host.dev_id.to_le_bytes());
        out.put(self.host.port.to_le_bytes());
        out.put(self.host.gpu_type.to_le_bytes());
        out.put([0; 5]);
        let gpus = gpu(self.host.tx_gpu) | gpu(self.host.rx_gpu) << 9;
        out.put(gpus.to_le_bytes());
        out.bytes
    }

    /// The block in a payload. Any bytes are a block; reserved bits and the fields that only the
    /// receiver fills are ignored.
    pub fn decode(bytes: &[u8; OPTIONS_SIZE]) -> Self {
        let mut input = Reader(bytes);
        let clock = input.u32();
        let ignore_cpu_freq_mismatch = input.u8() != 0;
        let iters = input.u64();
        let warmup = input.u64();
        let iter_delay = input.u64();
        let duration = input.u32();
        let list_size = input.u16();
        let run = input.u8();
        let _reserved = input.u8();
        let min_size = input.u64();
        let max_size = input.u64();
        let max_buf_size = input.u64();
        let buf_size = input.u64();
        let buf_align = input.u64();
        let command = input.u8();
        let atomic_op = input.u8();
        let cswap_op = input.u8();
        let atomic_type = input.u8();
        let host = HostBlock::decode(&mut input);
        Self {
            clock,
            ignore_cpu_freq_mismatch,
            iters,
            warmup,
            iter_delay,
            duration,
            list_size,
            bidirectional: bit(run, 0),
            report_all: bit(run, 1),
            print_gbits: bit(run, 2),
            emu_mode: bit(run, 3),
            hugepages: run >> 4 & 3,
            min_size,
            max_size,
            max_buf_size,
            buf_size,
            buf_align,
            use_hrp: bit(command, 0),
            use_idc: bit(command, 1),
            use_ll: bit(command, 2),
            use_rdzv: bit(command, 3),
            fetching: bit(command, 4),
            matching: bit(command, 5),
            unrestricted: bit(command, 6),
            atomic_op,
            cswap_op,
            atomic_type,
            host,
        }
    }
}

impl HostBlock {
    fn decode(input: &mut Reader) -> Self {
        let svc_id = input.u32();
        let dev_id = input.u32();
        let port = input.u16();
        let gpu_type = input.u8() as i8;
        let _reserved: [u8; 5] = input.take();
        let gpus = input.u64();
        let gpu = |bits: u64| (bits & 0x100 != 0).then_some(bits as u8);
        Self { svc_id, dev_id, port, gpu_type, tx_gpu: gpu(gpus), rx_gpu: gpu(gpus >> 9) }
    }
}

/// The number of a GPU with the bit that marks it as used.
fn gpu(index: Option<u8>) -> u64 {
    index.map_or(0, |index| u64::from(index) | 0x100)
}

/// Flags, the first in bit 0.
fn bits<const N: usize>(flags: [bool; N]) -> u8 {
    flags.iter().rev().fold(0, |byte, flag| byte << 1 | u8::from(*flag))
}

fn bit(byte: u8, number: u32) -> bool {
    byte >> number & 1 == 1
}

/// Reads little-endian fields from a block that is long enough.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let (head, rest) = self.0.split_at(N);
        field.copy_from_slice(head);
        self.0 = rest;
        field
    }

    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Writes fields into an option block.
struct Writer {
    bytes: [u8; OPTIONS_SIZE],
    filled: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.bytes[self.filled..self.filled + N].copy_from_slice(&field);
        self.filled += N;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::hex;
    use super::*;

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
