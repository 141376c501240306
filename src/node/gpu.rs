//! Buffers on GPUs: a side's buffers that lie on GPUs, and the runtime that allocates them.

use cxi::gpu::{GpuMap, GpuType, Gpus, MapWay, OpenError};

use facts::advice::{self, Advise, Situation};
use facts::error::{Failure, Kind};

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The operations of this side read or write it.
    Transmit,
    /// The operations of the peer read or write it.
    Receive,
}

/// The GPUs on which the buffers of one side lie. Buffers without one are in system memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnGpus {
    /// Their type: the requested one, or in a peer the actual one.
    pub kind: Option<GpuType>,
    /// Number of the GPU of the transmit buffer, from 0.
    pub tx: Option<u8>,
    /// Number of the GPU of the receive buffer.
    pub rx: Option<u8>,
    /// The only way to map buffers for the NIC; `None` for the usual way of the type, then the
    /// other one. A side does not send it.
    pub map: Option<MapWay>,
}

impl OnGpus {
    /// All buffers are in system memory.
    pub const NONE: Self = Self { kind: None, tx: None, rx: None, map: None };

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

/// Description of valid types, for messages.
pub const GPU_TYPES: &str = "expected AMD, NVIDIA or INTEL";

/// The type with this name, in upper or lower case.
pub fn named(text: &str) -> Option<GpuType> {
    GpuType::ALL.into_iter().find(|kind: &GpuType| kind.to_string().eq_ignore_ascii_case(text))
}

/// Opens the runtime of the requested GPUs, if there are any, and checks their numbers.
///
/// Without a type, the first runtime with GPUs is used. All runtimes are tried, independent of the
/// build, and GPU numbers are checked in the same way for all (defect T31 of tools.md).
///
/// # Errors
///
/// A runtime that cannot be used, and a GPU that does not exist.
pub fn open(wanted: &OnGpus) -> Result<Option<Gpus>, Failure> {
    if !wanted.any() {
        return Ok(None);
    }
    let mut gpus = match wanted.kind {
        Some(kind) => open_type(kind).map_err(|failure| with_others(failure, kind))?,
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
    if let Some(way) = wanted.map {
        gpus.map_only(way);
    }
    Ok(Some(gpus))
}

/// Opens the runtime of this type, or of the first GPUs that are found.
///
/// # Errors
///
/// No GPU, and a runtime that cannot be used.
pub fn all(kind: Option<GpuType>) -> Result<Gpus, Failure> {
    kind.map_or_else(detect, open_type)
}

/// Description of valid ways to map memory of GPUs, for messages.
pub const MAP_WAYS: &str = "expected auto, peer or dmabuf";

/// The ways by name; `auto` leaves the choice open.
pub const MAP_NAMES: [(&str, Option<MapWay>); 3] =
    [("auto", None), ("peer", Some(MapWay::Peer)), ("dmabuf", Some(MapWay::DmaBuf))];

/// The note about buffers that are not mapped in the usual way of their type; nothing if they are,
/// or if the user has chosen the way.
pub fn note(map: GpuMap, kind: GpuType) -> Option<String> {
    let refused = map.refused?;
    let way = match map.way {
        MapWay::Peer => "peer memory",
        MapWay::DmaBuf => "a dma-buf",
    };
    Some(format!(
        "the memory of {kind} GPUs is mapped as {way}, because the usual way is refused: {refused}"
    ))
}

/// Opens the GPUs of a type, at least one.
fn open_type(kind: GpuType) -> Result<Gpus, Failure> {
    let (failure, situation) = match Gpus::open(kind) {
        Ok(gpus) if gpus.count() > 0 => return Ok(gpus),
        Ok(_) => {
            let message = format!("no {kind} GPU found by its runtime");
            return Err(advice::found(Situation::NoGpu, message));
        }
        Err(OpenError::Load(error)) => {
            (Failure::new(Kind::Environment, error), Situation::NoGpuRuntime)
        }
        Err(OpenError::Call(error)) => {
            (Failure::new(Kind::Environment, error), Situation::GpuRuntimeFails)
        }
    };
    Err(failure.context(format_args!("cannot use {kind} GPUs")).explained(situation))
}

/// Opens the first GPUs that are found.
fn detect() -> Result<Gpus, Failure> {
    let mut failures = Vec::new();
    for kind in GpuType::ALL {
        match open_type(kind) {
            Ok(gpus) => return Ok(gpus),
            Err(failure) => failures.push(failure),
        }
    }
    // A runtime that is installed but does not work is more likely the intended one than a missing
    // one.
    let is_installed = |failure: &Failure| failure.situation != Some(Situation::NoGpuRuntime);
    let installed = failures.into_iter().find(is_installed);
    Err(installed.unwrap_or_else(|| {
        let libraries = GpuType::ALL.map(|kind| kind.libraries()[0]).join(", ");
        advice::found(
            Situation::NoGpuRuntime,
            format!("no GPU found: none of {libraries} can be loaded"),
        )
    }))
}

/// Replaces the hint of a failure to use GPUs of `kind` by the types that this machine has.
fn with_others(failure: Failure, kind: GpuType) -> Failure {
    let others: Vec<String> = GpuType::ALL
        .into_iter()
        .filter(|other| *other != kind && open_type(*other).is_ok())
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
    fn accepts_names_in_upper_and_lower_case() {
        assert_eq!(named("nvidia"), Some(GpuType::Nvidia));
        assert_eq!(named("AMD"), Some(GpuType::Amd));
        assert_eq!(named("Intel"), Some(GpuType::Intel));
        for text in ["", "N", "cuda", "NVIDIA "] {
            assert_eq!(named(text), None, "{text:?}");
        }
    }

    #[test]
    fn opens_no_runtime_without_gpu_buffers() {
        let wanted = OnGpus { kind: Some(GpuType::Intel), ..OnGpus::default() };
        assert!(open(&wanted).unwrap().is_none());
    }
}
