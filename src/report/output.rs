//! Standard output, where no wait for its reader is endless.

use std::io::{self, ErrorKind, LineWriter, Write};

use crate::interrupt;

/// What a pipe takes at once, or not at all (POSIX's PIPE_BUF on Linux).
const PIECE: usize = 4096;

/// Standard output of a run. A reader that is slow is waited for, but not by a run that is to end.
#[derive(Debug)]
pub struct Output(LineWriter<Raw>);

impl Output {
    /// Standard output. Nothing else may write there meanwhile.
    pub fn new() -> Self {
        Self(LineWriter::with_capacity(PIECE, Raw))
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The descriptor.
#[derive(Debug)]
struct Raw;

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stdout = io::stdout();
        if !interrupt::wait_for_reader(&stdout) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(rustix::io::write(
            &stdout,
            &bytes[..bytes.len().min(PIECE)],
        )?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
