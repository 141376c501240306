//! The counts that the owner of a port publishes for the readers of a NIC's counters.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::thread::futex::{self, Timespec};

use super::{COUNTS_AT, Port, read_header};
use crate::counter_names::COUNT;

/// The number of the last request for the counts, the number of the last request that was answered,
/// and the counts.
const REQUESTED_AT: usize = COUNTS_AT;
const ANSWERED_AT: usize = COUNTS_AT + 4;
const VALUES_AT: usize = COUNTS_AT + 8;

/// Returns the counts that the owner of a port published last; `None` if the file is not a port of
/// this version.
pub fn read(file: &File) -> Option<Vec<u64>> {
    read_header(file)?;
    let mut bytes = vec![0; 8 * COUNT];
    file.read_exact_at(&mut bytes, VALUES_AT as u64).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

impl Port {
    /// Asks the owner to publish its counts, and returns the number of the request.
    pub fn request_counts(&self) -> u32 {
        let requested = self.pages.word32(REQUESTED_AT);
        requested.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// Whether there is an unanswered request for the counts.
    pub fn are_counts_requested(&self) -> bool {
        self.requested() != self.pages.word32(ANSWERED_AT).load(Ordering::Relaxed)
    }

    /// Publishes the counts of the owner with their places in
    /// [`counter_names::all`](crate::counter_names::all), which answers all requests so far. The
    /// counts at other places stay 0.
    pub fn publish_counts(&self, counts: impl Iterator<Item = (usize, u64)>) {
        let requested = self.requested();
        for (place, count) in counts {
            self.pages.word(VALUES_AT + 8 * place).store(count, Ordering::Relaxed);
        }
        self.answer(requested);
    }

    /// Answers all requests so far with the counts that were published last.
    pub fn answer_requests(&self) {
        self.answer(self.requested());
    }

    fn requested(&self) -> u32 {
        self.pages.word32(REQUESTED_AT).load(Ordering::Acquire)
    }

    fn answer(&self, requested: u32) {
        let answered = self.pages.word32(ANSWERED_AT);
        answered.store(requested, Ordering::Release);
        let _ = futex::wake(answered, futex::Flags::empty(), u32::MAX);
    }

    /// Waits until the owner answered a request for its counts, or the time is over.
    pub fn await_counts(&self, request: u32, end: Instant) {
        let answered = self.pages.word32(ANSWERED_AT);
        loop {
            let seen = answered.load(Ordering::Acquire);
            let left = end.saturating_duration_since(Instant::now());
            if seen.wrapping_sub(request) as i32 >= 0 || left.is_zero() {
                return;
            }
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = futex::wait(answered, futex::Flags::empty(), seen, Some(&left));
        }
    }
}
