//! Standard output, standard error and devices, written without waiting forever for a slow reader.

use std::io::{self, ErrorKind, LineWriter, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use facts::interrupt;

/// Bytes that a pipe takes completely or not at all (PIPE_BUF of POSIX on Linux).
const PIECE: usize = 4096;

/// A file descriptor that text is written to. A write waits for a slow reader, unless the run has
/// to end.
#[derive(Debug)]
pub struct Stream<F: AsFd>(LineWriter<Raw<F>>);

impl<F: AsFd> Stream<F> {
    /// A writer to `fd`, for instance standard output. Nothing else may write there meanwhile.
    pub fn to(fd: F) -> Self {
        Self(LineWriter::with_capacity(PIECE, Raw(fd)))
    }
}

impl<F: AsFd> Write for Stream<F> {
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
        Ok(rustix::io::write(&self.0, &bytes[..bytes.len().min(PIECE)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Text on standard error while a document goes to standard output. Errors are ignored, so that a
/// missing reader does not end the run.
#[derive(Debug)]
pub struct BestEffort<W>(pub W);

impl<W: Write> Write for BestEffort<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

/// An output that two threads have, of which one waits while the other writes.
#[derive(Clone)]
pub struct SharedOutput(Arc<Mutex<Box<dyn Write + Send>>>);

impl SharedOutput {
    /// A writer to `out`.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(out)))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        // A panic of another thread leaves at most an incomplete line.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}
