//! The buffers of the benchmarks: allocation, mapping, clearing; and their contents: bytes numbered
//! by place and round, by which the receiving side recognizes misplaced, missing and stale data.

use std::fmt::Write;
use std::sync::LazyLock;

use cxi::sys::{CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE};
use cxi::{MemoryRegion, Pages};

use crate::endpoint::Endpoint;
use facts::advice::{Advise, Situation};
use facts::error::{Context, Failure};
use measure::Supervisor;
use node::explain::Explain;
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

/// Events that an event queue of a latency benchmark must hold: one operation is outstanding at a
/// time, and the smallest queue, one page, holds more.
pub const EVENT_PAGE: u32 = 1;

/// Access of the NIC to a buffer, which is pinned.
const RIGHTS: u32 = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;

/// Allocates zeroed memory for `buffer` in whole pages, and maps it for the NIC to read and write.
/// The memory is on the GPU that the user names for this `use_`, or system memory.
///
/// # Errors
///
/// Not enough memory, and a call that the library or the kernel refuses.
pub fn map(endpoint: &Endpoint, use_: Use, buffer: Buffer) -> Result<MemoryRegion, Failure> {
    let length = buffer.length;
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if let Some((gpus, index)) = endpoint.gpu_for(use_) {
        let what = format!("{length} bytes on {} GPU {index}", gpus.kind());
        let memory = gpus
            .allocate(index.into(), bytes)
            .explain(format_args!("cannot get a buffer of {what}"))?;
        // Each errno of this call has the same cause: the NIC cannot access the memory of the GPU.
        let region = MemoryRegion::map(endpoint.lni(), memory, RIGHTS)
            .environment(format_args!("cannot map a buffer of {what} for the NIC"))
            .map_err(|failure| failure.explained(Situation::NoPeerToPeer))?;
        endpoint.note_gpu_map(region.gpu_map());
        return Ok(region);
    }
    let pages = match buffer.huge_page {
        None => Pages::anonymous(bytes)
            .explain(format_args!("cannot get a buffer of {length} bytes"))?,
        Some(size) => Pages::huge(bytes, size).explain(format_args!(
            "cannot get a buffer of {length} bytes in huge pages of {size}"
        ))?,
    };
    // No hints: the driver determines the size of the pages (libcxi.md 7.2).
    MemoryRegion::map(endpoint.lni(), pages, RIGHTS)
        .explain(format_args!("cannot map a buffer of {length} bytes for the NIC"))
}

/// Sets all bytes of `buffer` to zero, so that the check after the next size notices missing
/// writes. Where the numbers of each size differ (`--verify`), old bytes are noticed in any case.
///
/// # Errors
///
/// A copy to a GPU that fails.
pub fn clear(buffer: &MemoryRegion, run: &RunOptions) -> Result<(), Failure> {
    if run.extensions.verify {
        return Ok(());
    }
    buffer.fill(0).explain("cannot clear a buffer")
}

/// Period of the numbers. It is prime, so that a byte misplaced by a power of two differs.
pub const PERIOD: u64 = 251;

/// Distance of the numbers of a place in two rounds. Below the period, so that each byte differs
/// from the byte of the round before.
const PER_ROUND: u64 = 89;

/// Number of bytes that are copied at once.
const BLOCK: usize = 1 << 16;

/// Number of blocks between two checks of the peer, some milliseconds.
const BLOCKS_PER_LOOK: usize = 256;

/// Number of bytes that a message about a mismatch shows.
const SHOWN: u64 = 8;

/// Number of these bytes before the mismatch.
const SHOWN_BEFORE: u64 = 2;

/// The numbers from any phase on, for a whole block.
static NUMBERS: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..PERIOD + BLOCK as u64).map(number).collect());

/// The number at `phase`. It is never zero, the contents of an empty buffer.
const fn number(phase: u64) -> u8 {
    (phase % PERIOD) as u8 + 1
}

/// The numbering of the bytes of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    /// Number of the size within the run. Without `--verify`, all sizes have the same contents.
    round: u64,
}

impl Numbering {
    /// The numbering of the bytes of operations of `size` bytes.
    pub fn of(run: &RunOptions, size: u64) -> Self {
        Self {
            round: if run.extensions.verify { u64::from((size / run.min_size).ilog2()) } else { 0 },
        }
    }

    /// The byte at `offset` of a buffer.
    pub const fn byte(self, offset: u64) -> u8 {
        number(self.phase(offset))
    }

    /// The first `size` bytes of a buffer.
    pub fn bytes(self, size: u64) -> Vec<u8> {
        (0..size).map(|offset| self.byte(offset)).collect()
    }

    const fn phase(self, offset: u64) -> u64 {
        (offset % PERIOD + self.round * PER_ROUND) % PERIOD
    }

    /// The `length` bytes from `offset` on, at most a block.
    fn block(self, offset: u64, length: usize) -> &'static [u8] {
        &NUMBERS[self.phase(offset) as usize..][..length]
    }

    /// Numbers all bytes of `buffer`, as [`Self::fill`] does.
    pub fn fill_all(
        self,
        buffer: &MemoryRegion,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        self.fill(buffer, buffer.len() as u64, supervisor)
    }

    /// Numbers the first `length` bytes of `buffer`. This may take seconds; a peer that ends stops
    /// it.
    ///
    /// # Errors
    ///
    /// A peer that has ended, and a copy that fails.
    pub fn fill(
        self,
        buffer: &MemoryRegion,
        length: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        in_blocks([0], length, supervisor, |offset, length| {
            buffer
                .copy_in(offset as usize, self.block(offset, length))
                .explain("cannot fill a buffer")
        })
    }

    /// Checks the `size` bytes from each of `starts` on in `buffer`; `whose` names the buffer in
    /// the message. Returns the number of bytes. A peer that ends stops the check.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, a peer that has ended, and a copy that fails.
    pub fn check(
        self,
        buffer: &MemoryRegion,
        whose: &str,
        starts: impl IntoIterator<Item = u64>,
        size: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<u64, Failure> {
        let (mut bytes, mut checked) = (vec![0; BLOCK.min(size as usize)], 0);
        in_blocks(starts, size, supervisor, |offset, length| {
            let found = &mut bytes[..length];
            buffer.copy_out(offset as usize, found).explain("cannot read a buffer")?;
            checked += length as u64;
            if found == self.block(offset, length) {
                return Ok(());
            }
            let mismatch = self.mismatch(whose, offset, found);
            let failure = Failure::nic(format!("size {size}: {mismatch}"));
            Err(failure.advised(Situation::WrongData))
        })?;
        Ok(checked)
    }

    /// Describes the first byte that is not numbered in a block at `start`.
    #[cold]
    fn mismatch(self, whose: &str, start: u64, block: &[u8]) -> String {
        let mut bytes = block.iter().zip(start..);
        let (at, found) = bytes
            .find(|(found, offset)| **found != self.byte(*offset))
            .map_or((start, 0), |(found, offset)| (offset, *found));
        let expected = self.byte(at);
        let first = at.saturating_sub(SHOWN_BEFORE).max(start);
        let end = (first + SHOWN).min(start + block.len() as u64);
        let found_bytes = hex((first..end).map(|offset| block[(offset - start) as usize]));
        let expected_bytes = hex((first..end).map(|offset| self.byte(offset)));
        format!(
            "byte {at} of {whose} is {found:#04x} (expected {expected:#04x}); \
             from byte {first}: found{found_bytes}, expected{expected_bytes}"
        )
    }
}

/// Calls `visit` with offset and length of each block of the `length` bytes from each of `starts`
/// on, and checks the peer now and then.
fn in_blocks(
    starts: impl IntoIterator<Item = u64>,
    length: u64,
    supervisor: &dyn Supervisor,
    mut visit: impl FnMut(u64, usize) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let blocks = |start| {
        (0..length).step_by(BLOCK).map(move |at| (start + at, BLOCK.min((length - at) as usize)))
    };
    for (number, (offset, length)) in starts.into_iter().flat_map(blocks).enumerate() {
        if number % BLOCKS_PER_LOOK == BLOCKS_PER_LOOK - 1 {
            supervisor.peer_is_there()?;
        }
        visit(offset, length)?;
    }
    Ok(())
}

/// Bytes in hexadecimal, each after a space.
fn hex(bytes: impl Iterator<Item = u8>) -> String {
    bytes.fold(String::new(), |mut text, byte| {
        let _ = write!(text, " {byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::bench::testing::{Alone, endpoint};
    use node::gpu::Use;
    use plan::buffers::Buffer;
    use plan::testing::plan;

    const LENGTH: u64 = 3 * BLOCK as u64;

    fn in_round(round: u64) -> Numbering {
        Numbering { round }
    }

    /// Calls `test` with an empty buffer of [`LENGTH`] bytes.
    fn with_buffer(test: impl FnOnce(&MemoryRegion)) {
        let plan = plan("write-lat", &[]);
        let endpoint = endpoint(&plan);
        let buffer = map(&endpoint, Use::Receive, Buffer::small(LENGTH)).unwrap();
        test(&buffer);
        buffer.close().unwrap();
        endpoint.close().unwrap();
    }

    /// Old bytes, an empty buffer and a byte at the place of another one are noticed.
    #[test]
    fn each_byte_differs_from_other_rounds_and_from_its_neighbours() {
        for offset in 0..2 * PERIOD {
            let number = |round| in_round(round).byte(offset);
            for round in 0..32 {
                assert_ne!(number(round), 0);
                assert!(
                    (0..round).all(|before| number(before) != number(round)),
                    "{offset} {round}"
                );
                for distance in [1, 2, 64, 2048, 4096, 1 << 16, 1 << 31] {
                    assert_ne!(in_round(round).byte(offset + distance), number(round));
                }
            }
        }
    }

    #[test]
    fn rounds_count_sizes_if_verified() {
        let mut run = plan("write-lat", &["-s", "8:64"]).run;
        let rounds = |run: &RunOptions| -> Vec<u64> {
            run.sizes().map(|size| Numbering::of(run, size).round).collect()
        };
        assert_eq!(rounds(&run), [0; 4]);
        run.extensions.verify = true;
        assert_eq!(rounds(&run), [0, 1, 2, 3]);
    }

    #[test]
    fn finds_numbered_bytes_at_any_place() {
        with_buffer(|buffer| {
            let numbering = in_round(3);
            numbering.fill_all(buffer, &Alone).unwrap();
            for (start, size) in [(0, LENGTH), (1, 1), (250, 5000), (65_535, 70_000)] {
                let checked = numbering.check(buffer, "the buffer", [start], size, &Alone);
                assert_eq!(checked.unwrap(), size);
                assert!(in_round(2).check(buffer, "the buffer", [start], size, &Alone).is_err());
            }
            assert_eq!(numbering.bytes(5), [17, 18, 19, 20, 21]);
        });
    }

    #[test]
    fn leaves_bytes_behind_the_length_alone() {
        with_buffer(|buffer| {
            in_round(0).fill(buffer, 70_000, &Alone).unwrap();
            let mut bytes = [1; 2];
            buffer.copy_out(69_999, &mut bytes).unwrap();
            assert_eq!(bytes, [in_round(0).byte(69_999), 0]);
        });
    }

    #[test]
    fn names_first_wrong_byte_and_shows_those_around_it() {
        with_buffer(|buffer| {
            let numbering = in_round(0);
            numbering.fill_all(buffer, &Alone).unwrap();
            buffer.copy_in(65_600, &[0, 0]).unwrap();
            let failure = numbering.check(buffer, "the buffer", [60], 100_000, &Alone);
            assert_eq!(
                failure.unwrap_err().message(),
                "size 100000: byte 65600 of the buffer is 0x00 (expected 0x5a); \
                 from byte 65598: found 58 59 00 00 5c 5d 5e 5f, expected 58 59 5a 5b 5c 5d 5e 5f"
            );
            let failure = numbering.check(buffer, "the buffer", [65_600], 1, &Alone);
            assert!(
                failure.unwrap_err().message().ends_with("from byte 65600: found 00, expected 5a")
            );
        });
    }

    struct Gone;

    impl Supervisor for Gone {
        fn peer_is_there(&self) -> Result<(), Failure> {
            Err(Failure::peer("it has ended"))
        }

        fn slow(&self, _: &str, _: u64, _: u64) {}

        fn no_answer(&self, event: &str, _: Duration) -> Failure {
            Failure::nic(event)
        }
    }

    /// Few places with many blocks, and many places with a block each.
    #[test]
    fn long_check_ends_if_peer_ends() {
        for (places, length) in [(1, BLOCK as u64 * 1_000), (1_000, 8)] {
            let (mut blocks, starts) = (0, (0..places).map(|place| place * 64));
            let ended = in_blocks(starts, length, &Gone, |_, _| {
                blocks += 1;
                Ok(())
            });
            assert!(ended.is_err());
            assert_eq!(blocks, BLOCKS_PER_LOOK - 1);
        }
    }
}
