//! Buffers on GPUs: which of a side's buffers lie on one, and the runtime that holds them.

use cxi::gpu::{GpuType, Gpus, OpenError};

use crate::advice::{self, Situation};
use crate::error::{Failure, Kind};

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The operations of this side read from it, or write to it.
    Transmit,
    /// Those of the peer do.
    Receive,
}

/// The GPUs on which the buffers of one side lie; those without one are system memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnGpus {
    /// Their type, as asked for; in a peer, as it is.
    pub kind: Option<GpuType>,
    /// Number of the GPU of the transmit buffer, from 0.
    pub tx: Option<u8>,
    /// That of the receive buffer.
    pub rx: Option<u8>,
}

impl OnGpus {
    /// All buffers are system memory.
    pub const NONE: Self = Self {
        kind: None,
        tx: None,
        rx: None,
    };

    /// The GPU of a buffer, if it lies on one.
    pub fn of(&self, buffer: Use) -> Option<u8> {
        match buffer {
            Use::Transmit => self.tx,
            Use::Receive => self.rx,
        }
    }

    /// Whether any buffer lies on a GPU.
    pub fn any(&self) -> bool {
        self.tx.is_some() || self.rx.is_some()
    }
}

/// What a type may be called, for messages.
pub const GPU_TYPES: &str = "expected AMD, NVIDIA or INTEL";

/// The type of this name, in any case.
pub fn named(text: &str) -> Option<GpuType> {
    let is_named = |kind: &GpuType| kind.to_string().eq_ignore_ascii_case(text);
    GpuType::ALL.into_iter().find(is_named)
}

/// Opens the runtime of the GPUs that are wanted, if any are, and looks whether they are there.
///
/// Without a type it is that of the first GPUs that are found. All runtimes are tried, whatever this
/// program was built with, and the numbers of all of them end before their count (defect T31 of
/// tools.md).
pub fn open(wanted: &OnGpus) -> Result<Option<Gpus>, Failure> {
    if !wanted.any() {
        return Ok(None);
    }
    let gpus = match wanted.kind {
        Some(kind) => of_type(kind).map_err(|failure| with_others(failure, kind))?,
        None => detect()?,
    };
    for index in [wanted.tx, wanted.rx].into_iter().flatten() {
        if u32::from(index) >= gpus.count() {
            let (kind, count) = (gpus.kind(), gpus.count());
            let message = match count {
                1 => format!("no GPU {index}: there is one {kind} GPU, number 0"),
                _ => format!(
                    "no GPU {index}: there are {count} {kind} GPUs, numbers 0 to {}",
                    count - 1
                ),
            };
            return Err(advice::found(Situation::NoSuchGpu, message));
        }
    }
    Ok(Some(gpus))
}

/// The GPUs of a type, at least one.
fn of_type(kind: GpuType) -> Result<Gpus, Failure> {
    let (failure, situation) = match Gpus::open(kind) {
        Ok(gpus) if gpus.count() > 0 => return Ok(gpus),
        Ok(_) => {
            let message = format!("no {kind} GPU found by its runtime");
            return Err(advice::found(Situation::NoGpu, message));
        }
        Err(OpenError::Load(error)) => (
            Failure::new(Kind::Environment, error),
            Situation::NoGpuRuntime,
        ),
        Err(OpenError::Call(error)) => (
            Failure::new(Kind::Environment, error),
            Situation::GpuRuntimeFails,
        ),
    };
    Err(failure
        .context(format_args!("cannot use {kind} GPUs"))
        .with_hint(advice::hint(situation)))
}

/// The first GPUs that are found.
fn detect() -> Result<Gpus, Failure> {
    let mut failures = Vec::new();
    for kind in GpuType::ALL {
        match of_type(kind) {
            Ok(gpus) => return Ok(gpus),
            Err(failure) => failures.push(failure),
        }
    }
    // A runtime that is installed and does not work is more likely the one that is meant than one
    // that is missing.
    let missing = advice::hint(Situation::NoGpuRuntime);
    let installed = failures
        .into_iter()
        .find(|failure| failure.hint.as_ref() != Some(&missing));
    Err(installed.unwrap_or_else(|| {
        let libraries = GpuType::ALL.map(|kind| kind.libraries()[0]).join(", ");
        advice::found(
            Situation::NoGpuRuntime,
            format!("no GPU found: none of {libraries} can be loaded"),
        )
    }))
}

/// The failure to use GPUs of `kind`, with those that are there instead.
fn with_others(failure: Failure, kind: GpuType) -> Failure {
    let others: Vec<String> = GpuType::ALL
        .into_iter()
        .filter(|other| *other != kind && of_type(*other).is_ok())
        .map(|other| other.to_string())
        .collect();
    if others.is_empty() {
        return failure;
    }
    failure.with_hint(format!(
        "this machine has GPUs of another type: use --gpu-type={}",
        others.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_any_case() {
        assert_eq!(named("nvidia"), Some(GpuType::Nvidia));
        assert_eq!(named("AMD"), Some(GpuType::Amd));
        assert_eq!(named("Intel"), Some(GpuType::Intel));
        for text in ["", "N", "cuda", "NVIDIA "] {
            assert_eq!(named(text), None, "{text:?}");
        }
    }

    #[test]
    fn who_wants_no_gpu_needs_no_runtime() {
        let wanted = OnGpus {
            kind: Some(GpuType::Intel),
            ..OnGpus::default()
        };
        assert!(open(&wanted).unwrap().is_none());
    }
}
