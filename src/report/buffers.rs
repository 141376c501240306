//! The lines of the summary block about where the data buffers lie (tools.md 9.1).

use std::fmt;
use std::io::{self, Write};

use super::text::{Summary, line};
use crate::gpu::{OnGpus, Use};
use crate::run_options::Side;

/// Which memory a buffer is made of.
struct Memory(Option<u8>);

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("System"),
            Some(index) => write!(f, "GPU {index}"),
        }
    }
}

/// Writes where the buffers of both sides lie that the run uses, in the words of the legacy tools.
pub(super) fn lines(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let lists = summary.run.lists;
    let both = lists.is_some_and(|lists| lists.bidirectional);
    let (client, server) = match summary.side {
        Side::Client => (summary.own.gpus, summary.peer_gpus),
        Side::Server => (summary.peer_gpus, summary.own.gpus),
    };
    let client_uses: &[Use] = match both {
        true => &[Use::Transmit, Use::Receive],
        false => &[Use::Transmit],
    };
    let server_uses: &[Use] = match both {
        true => &[Use::Transmit, Use::Receive],
        false => &[Use::Receive],
    };
    host(out, "Client", client, client_uses)?;
    host(out, "Server", server, server_uses)
}

fn host(out: &mut impl Write, name: &str, gpus: OnGpus, uses: &[Use]) -> io::Result<()> {
    for use_ in uses {
        let direction = match use_ {
            Use::Transmit => "TX",
            Use::Receive => "RX",
        };
        line(
            out,
            &format!("{name} {direction} Mem"),
            Memory(gpus.of(*use_)),
        )?;
    }
    let on_gpu = uses.iter().any(|use_| gpus.of(*use_).is_some());
    match gpus.kind {
        Some(kind) if on_gpu => line(out, &format!("{name} GPU Type"), kind),
        _ => Ok(()),
    }
}

/// Writes how many GPUs this side has, if it uses some.
pub(super) fn found(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    match summary.gpu_count {
        0 => Ok(()),
        count => writeln!(out, "Found {count} GPU(s)"),
    }
}
