//! Standard output and the like, where no wait for a reader is endless.

use std::io::{self, ErrorKind, LineWriter, Write};
use std::os::fd::AsFd;

use crate::interrupt;

/// What a pipe takes at once, or not at all (POSIX's PIPE_BUF on Linux).
const PIECE: usize = 4096;

/// A descriptor that text is written to. A reader that is slow is waited for, but not by a run that
/// is to end.
#[derive(Debug)]
pub struct Output<F: AsFd>(LineWriter<Raw<F>>);

impl<F: AsFd> Output<F> {
    /// Writes to `fd`, for instance standard output. Nothing else may write there meanwhile.
    pub fn to(fd: F) -> Self {
        Self(LineWriter::with_capacity(PIECE, Raw(fd)))
    }
}

impl<F: AsFd> Write for Output<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The descriptor.
#[derive(Debug)]
struct Raw<F>(F);

impl<F: AsFd> Write for Raw<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !interrupt::wait_for_reader(&self.0) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(rustix::io::write(
            &self.0,
            &bytes[..bytes.len().min(PIECE)],
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Text beside a document that has standard output: as much of it as somebody reads. It ends no run.
#[derive(Debug)]
pub struct Aside<W>(pub W);

impl<W: Write> Write for Aside<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}
