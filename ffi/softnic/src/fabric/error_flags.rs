//! The error flags of a NIC in all processes, and the rule of the driver that masks a flag after
//! too many interrupts (health.md 2.5.1).
//!
//! As the counters of a NIC, they begin with its first device and end with its last one: nothing
//! else unmasks a flag, as on hardware before the driver is loaded again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::directory::Directory;
use super::link_time::now;
use crate::engine::return_codes::{ErrorFlag, NicBlock, Raise};

/// Interrupts of a flag that the driver handles within [`WINDOW`]. The next one masks the flag.
const MOST: u64 = 10;

/// The time of the rule in nanoseconds, counted from the first interrupt.
const WINDOW: u64 = 5_000_000_000;

const BITS: usize = 64;
const WORDS: usize = 4;
const ROW: usize = 8 * WORDS;
const LENGTH: usize = NicBlock::ALL.len() * BITS * ROW;

/// The state of a flag in the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FlagState {
    /// Number of times that the flag was set.
    raised: u64,
    /// Interrupts since `first`.
    interrupts: u64,
    /// Time of the first interrupt that counts, in nanoseconds of the monotonic clock.
    first: u64,
    is_masked: bool,
}

impl FlagState {
    fn raise(&mut self, now: u64) {
        self.raised += 1;
        if self.is_masked {
            return;
        }
        if self.interrupts == 0 || now.saturating_sub(self.first) > WINDOW {
            (self.first, self.interrupts) = (now, 0);
        }
        self.interrupts += 1;
        self.is_masked = self.interrupts > MOST;
    }

    fn from_bytes(bytes: &[u8; ROW]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        Self { raised: word(0), interrupts: word(1), first: word(2), is_masked: word(3) != 0 }
    }

    fn to_bytes(self) -> [u8; ROW] {
        let words = [self.raised, self.interrupts, self.first, self.is_masked.into()];
        let mut bytes = [0; ROW];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// The file with the flags of a NIC.
pub struct ErrorFlags {
    file: File,
}

impl ErrorFlags {
    /// Opens the file of a NIC, and makes it if the NIC has none.
    ///
    /// # Errors
    /// Errors of the directory.
    pub fn open(directory: &Directory, nid: u32) -> Result<Self, Errno> {
        let (file, is_new) = directory.error_flags(nid)?;
        let flags = Self { file };
        if is_new {
            let started = || -> std::io::Result<()> {
                flags.file.set_len(LENGTH as u64)?;
                for (number, block) in NicBlock::ALL.into_iter().enumerate() {
                    for bit in (0..BITS).filter(|bit| block.initial_mask() >> bit & 1 != 0) {
                        let row = FlagState { is_masked: true, ..FlagState::default() };
                        flags.file.write_all_at(&row.to_bytes(), place(number, bit))?;
                    }
                }
                Ok(())
            };
            started().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        Ok(flags)
    }

    fn row(&self, block: usize, bit: usize) -> std::io::Result<FlagState> {
        let mut bytes = [0; ROW];
        self.file.read_exact_at(&mut bytes, place(block, bit))?;
        Ok(FlagState::from_bytes(&bytes))
    }

    /// All flags with their rows, in the order of [`NicBlock::ALL`].
    fn rows(&self) -> Vec<(ErrorFlag, FlagState)> {
        let mut bytes = vec![0; LENGTH];
        if self.file.read_exact_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        let (rows, _) = bytes.as_chunks::<ROW>();
        let flags = NicBlock::ALL
            .into_iter()
            .flat_map(|block| (0..BITS as u32).map(move |bit| ErrorFlag { block, bit }));
        flags.zip(rows.iter().map(FlagState::from_bytes)).collect()
    }

    pub fn masks(&self) -> Vec<(NicBlock, u64)> {
        let rows = self.rows();
        let mask = |block| {
            let masked = rows.iter().filter(|(flag, row)| flag.block == block && row.is_masked);
            masked.fold(0, |mask, (flag, _)| mask | 1 << flag.bit)
        };
        NicBlock::ALL.map(|block| (block, mask(block))).into()
    }

    /// The flags that were set, with the number of times.
    pub fn raised(&self) -> impl Iterator<Item = (ErrorFlag, u64)> + use<> {
        let rows = self.rows().into_iter();
        rows.map(|(flag, row)| (flag, row.raised)).filter(|(_, raised)| *raised > 0)
    }
}

impl Raise for ErrorFlags {
    /// Without the file the NIC works all the same.
    #[cold]
    fn raise(&self, flag: ErrorFlag) {
        let (block, bit) = (flag.block as usize, flag.bit as usize);
        if flock(&self.file, FlockOperation::LockExclusive).is_err() {
            return;
        }
        if let Ok(mut row) = self.row(block, bit) {
            row.raise(now());
            let _ = self.file.write_all_at(&row.to_bytes(), place(block, bit));
        }
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn place(block: usize, bit: usize) -> u64 {
    ((block * BITS + bit) * ROW) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times are nanoseconds, as of the clock.
    #[test]
    fn masks_flag_with_eleventh_interrupt_in_five_seconds() {
        let second = 1_000_000_000;
        let mut row = FlagState::default();
        for number in 1..=MOST {
            row.raise(number);
        }
        assert!(!row.is_masked);
        let mut slow = row;
        slow.raise(6 * second);
        assert!(!slow.is_masked);
        assert_eq!((slow.raised, slow.interrupts), (11, 1));
        row.raise(4 * second);
        assert!(row.is_masked);
        row.raise(100 * second);
        assert!(row.is_masked);
        assert_eq!(FlagState::from_bytes(&row.to_bytes()), row);
    }
}
