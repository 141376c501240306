//! Prepared commands: checked and encoded once, issued many times.
//!
//! A measuring loop issues the same command again and again. A prepared command leaves to each
//! issue only what can differ: the room in the rings, and where in the ring the command goes.

use cxi_sys::records::{DmaAmoCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, NomatchDmaCmd};

use crate::encode;
use crate::error::EmitError;
use crate::transmit_queue::{Stamp, TransmitQueue};

/// Bytes of a word of a command.
const WORD: usize = 8;

/// A command of `WORDS` words (4, 8, 16 or 32), prepared for one [`TransmitQueue`].
///
/// ```
/// # use cxi::records::FullDmaCmd;
/// fn put(queue: &mut cxi::TransmitQueue, command: &FullDmaCmd) -> Result<(), cxi::EmitError> {
///     let prepared = queue.prepare_dma(command)?;
///     for _ in 0..1000 {
///         queue.issue_low_latency(&prepared)?;
///     }
///     Ok(())
/// }
/// ```
///
/// The size of the command is part of its type, so the copies that issue it have fixed lengths:
///
/// ```compile_fail,E0308
/// # use cxi::records::FullDmaCmd;
/// fn put(queue: &mut cxi::TransmitQueue, command: &FullDmaCmd) -> Result<(), cxi::EmitError> {
///     let prepared: cxi::Prepared<4> = queue.prepare_dma(command)?;
///     queue.issue_low_latency(&prepared)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Prepared<const WORDS: usize> {
    /// The bytes of the command, in the order of memory.
    words: [u64; WORDS],
    /// Events that each issue causes.
    events: u32,
    /// The queue, with the C_STATE in force, for which the command was checked.
    stamp: Stamp,
}

/// The words of an immediate data put of `payload` bytes: the size to prepare it with.
pub fn idc_put_words(payload: usize) -> usize {
    words_of(encode::idc_put(&IdcHdr::new(), payload).1)
}

/// The words of an immediate atomic operation: the size to prepare it with.
pub fn idc_amo_words(command: &IdcAmoCmd, fetching: bool) -> usize {
    words_of(encode::idc_amo(command, fetching).1)
}

/// The words of `halves` half-slots.
const fn words_of(halves: u32) -> usize {
    4 * halves as usize
}

/// Commands are checked when they are prepared, as
/// [`TransmitBatch`](crate::TransmitBatch) checks them when they are added. A C_STATE that is
/// committed later makes the prepared commands of the queue unusable.
impl TransmitQueue {
    /// Prepares a NOMATCH_PUT or NOMATCH_GET.
    ///
    /// # Errors
    ///
    /// The errors of [`emit_nomatch_dma`](crate::TransmitBatch::emit_nomatch_dma), except missing
    /// room.
    pub fn prepare_nomatch_dma(&self, command: &NomatchDmaCmd) -> Result<Prepared<4>, EmitError> {
        Ok(Prepared {
            words: *encode::nomatch_dma(command).words(),
            events: self.events_of(command)?,
            stamp: self.stamp(),
        })
    }

    /// Prepares a PUT, GET or RENDEZVOUS_PUT.
    ///
    /// # Errors
    ///
    /// The errors of [`emit_dma`](crate::TransmitBatch::emit_dma), except missing room.
    pub fn prepare_dma(&self, command: &FullDmaCmd) -> Result<Prepared<8>, EmitError> {
        Ok(Prepared {
            words: *encode::dma(command).words(),
            events: self.events_of(command)?,
            stamp: self.stamp(),
        })
    }

    /// Prepares an atomic operation whose first operand lies in memory.
    ///
    /// # Errors
    ///
    /// The errors of [`emit_dma_amo`](crate::TransmitBatch::emit_dma_amo), except missing room.
    pub fn prepare_dma_amo(
        &self,
        command: &DmaAmoCmd,
        fetching: bool,
    ) -> Result<Prepared<16>, EmitError> {
        let mut words = [0; 16];
        let command = encode::dma_amo(command, fetching);
        words[..command.words().len()].copy_from_slice(command.words());
        Ok(Prepared { words, events: self.events_of(&command)?, stamp: self.stamp() })
    }

    /// Prepares a put of `payload` for the C_STATE in force. It takes
    /// [`idc_put_words`]`(payload.len())` words.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherSize`] if the command does not take `WORDS` words; the errors of
    /// [`emit_idc_put`](crate::TransmitBatch::emit_idc_put), except missing room.
    pub fn prepare_idc_put<const WORDS: usize>(
        &self,
        header: &IdcHdr,
        payload: &[u8],
    ) -> Result<Prepared<WORDS>, EmitError> {
        let events = self.idc_events(payload.len())?;
        let (header, halves) = encode::idc_put(header, payload.len());
        let mut words = [0; WORDS];
        check_size::<WORDS>(halves)?;
        let (head, rest) = words.split_at_mut(header.words().len());
        head.copy_from_slice(header.words());
        for (word, bytes) in rest.iter_mut().zip(payload.chunks(WORD)) {
            let mut whole = [0; WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        Ok(Prepared { words, events, stamp: self.stamp() })
    }

    /// Prepares an atomic operation whose operands travel in the command, for the C_STATE in force.
    /// It takes [`idc_amo_words`] words.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherSize`] if the command does not take `WORDS` words; the errors of
    /// [`emit_idc_amo`](crate::TransmitBatch::emit_idc_amo), except missing room.
    pub fn prepare_idc_amo<const WORDS: usize>(
        &self,
        command: &IdcAmoCmd,
        fetching: bool,
    ) -> Result<Prepared<WORDS>, EmitError> {
        let events = self.idc_events(0)?;
        let (command, halves) = encode::idc_amo(command, fetching);
        check_size::<WORDS>(halves)?;
        Ok(Prepared {
            words: std::array::from_fn(|index| command.words()[index]),
            events,
            stamp: self.stamp(),
        })
    }

    /// Hands a prepared command to the NIC through the low-latency windows, or by doorbell if it is
    /// longer than two slots.
    ///
    /// # Errors
    ///
    /// [`EmitError::Outdated`] if the command was prepared for another queue or before the last
    /// C_STATE; [`EmitError::QueueFull`]; [`EmitError::EventQueueFull`].
    #[inline]
    pub fn issue_low_latency<const WORDS: usize>(
        &mut self,
        command: &Prepared<WORDS>,
    ) -> Result<(), EmitError> {
        self.issue(&command.words, command.events, command.stamp, true)
    }

    /// Hands a prepared command to the NIC by doorbell.
    ///
    /// # Errors
    ///
    /// The errors of [`issue_low_latency`](Self::issue_low_latency).
    #[inline]
    pub fn issue_doorbell<const WORDS: usize>(
        &mut self,
        command: &Prepared<WORDS>,
    ) -> Result<(), EmitError> {
        self.issue(&command.words, command.events, command.stamp, false)
    }
}

/// Checks that a command of `halves` half-slots takes `WORDS` words.
fn check_size<const WORDS: usize>(halves: u32) -> Result<(), EmitError> {
    if words_of(halves) == WORDS {
        Ok(())
    } else {
        Err(EmitError::OtherSize { words: words_of(halves) })
    }
}
