//! Buffers on GPUs: allocation, copies, and export to the driver of the NIC.
//!
//! The runtimes are shared libraries, opened on first use and never unloaded. The start and the
//! length of a buffer are multiples of [`PAGE`].

use std::fmt;

use cxi_sys::{cxi_md_hints, gpu as sys};

use crate::error::Error;
pub use crate::error::MapWay;

mod cuda;
mod hip;
mod interface;
mod level_zero;

use interface::{DmaBuf, GpuMemory};
pub use interface::{OpenError, PAGE};

/// The type of a GPU: its vendor, and thereby its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuType {
    /// AMD, through HIP.
    Amd,
    /// NVIDIA, through the CUDA driver API.
    Nvidia,
    /// Intel, through Level Zero.
    Intel,
}

impl GpuType {
    /// All types, in the order of detection.
    pub const ALL: [Self; 3] = [Self::Amd, Self::Nvidia, Self::Intel];

    /// The names of the shared library of its runtime, in the order in which they are tried.
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Amd => sys::hip::Hip::LIBRARIES,
            Self::Nvidia => sys::cuda::Cuda::LIBRARIES,
            Self::Intel => sys::level_zero::LevelZero::LIBRARIES,
        }
    }
}

impl fmt::Display for GpuType {
    /// The name that users type: `AMD`, `NVIDIA` or `INTEL`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd => "AMD",
            Self::Nvidia => "NVIDIA",
            Self::Intel => "INTEL",
        })
    }
}

/// How a buffer was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMap {
    /// The way that the driver accepted.
    pub way: MapWay,
    /// The refusal of the way that was tried before it.
    pub refused: Option<Error>,
}

/// The GPUs of one type.
pub struct Gpus {
    runtime: Runtime,
    kind: GpuType,
    count: u32,
    ways: &'static [MapWay],
}

/// A runtime that is open.
enum Runtime {
    Hip(hip::HipRuntime),
    Cuda(cuda::CudaRuntime),
    LevelZero(level_zero::LevelZeroRuntime),
}

impl Gpus {
    /// Opens the runtime of this type. The count of GPUs may be 0.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(kind: GpuType) -> Result<Self, OpenError> {
        let (runtime, count) = match kind {
            GpuType::Amd => {
                let (runtime, count) = hip::HipRuntime::open()?;
                (Runtime::Hip(runtime), count)
            }
            GpuType::Nvidia => {
                let (runtime, count) = cuda::CudaRuntime::open()?;
                (Runtime::Cuda(runtime), count)
            }
            GpuType::Intel => {
                let (runtime, count) = level_zero::LevelZeroRuntime::open()?;
                (Runtime::LevelZero(runtime), count)
            }
        };
        // As HPE's tools map it. Level Zero has no peer memory (libcxi.md 7.5).
        let ways: &[MapWay] = match kind {
            GpuType::Amd | GpuType::Nvidia => &[MapWay::Peer, MapWay::DmaBuf],
            GpuType::Intel => &[MapWay::DmaBuf, MapWay::Peer],
        };
        Ok(Self { runtime, kind, count, ways })
    }

    /// Maps memory that is allocated later in this way only. Otherwise the usual way of the type is
    /// tried first, and the other one if the driver refuses it.
    pub fn map_only(&mut self, way: MapWay) {
        self.ways = match way {
            MapWay::Peer => &[MapWay::Peer],
            MapWay::DmaBuf => &[MapWay::DmaBuf],
        };
    }

    /// The type of the GPUs.
    pub fn kind(&self) -> GpuType {
        self.kind
    }

    /// The number of GPUs. Their indices start at 0.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The PCI address of GPU `index`, such as `0000:c1:00.0`; `None` if the runtime does not say:
    /// Level Zero is not asked.
    pub fn pci_address(&self, index: u32) -> Option<String> {
        match &self.runtime {
            Runtime::Hip(runtime) => runtime.pci_address(index),
            Runtime::Cuda(runtime) => runtime.pci_address(index),
            Runtime::LevelZero(_) => None,
        }
    }

    /// Allocates `len` bytes of zeroed memory, rounded up to a multiple of [`PAGE`], on GPU
    /// `index`.
    ///
    /// # Errors
    ///
    /// EINVAL if `len` is 0 or the GPU does not exist, ENOMEM, EIO for other failures of the
    /// runtime.
    pub fn allocate(&self, index: u32, len: usize) -> Result<DeviceMemory, Error> {
        const CALL: &str = "gpu::allocate";
        if len == 0 || index >= self.count {
            return Err(Error::new(CALL, libc::EINVAL));
        }
        // The runtimes allocate one more page, to align the start.
        let len = len.checked_next_multiple_of(PAGE);
        let len = len.filter(|len| len.checked_add(PAGE).is_some());
        let len = len.ok_or(Error::new(CALL, libc::ENOMEM))?;
        let memory: Box<dyn GpuMemory> = match &self.runtime {
            Runtime::Hip(runtime) => Box::new(runtime.allocate(index, len)?),
            Runtime::Cuda(runtime) => Box::new(runtime.allocate(index, len)?),
            Runtime::LevelZero(runtime) => Box::new(runtime.allocate(index, len)?),
        };
        memory.fill(0, len)?;
        Ok(DeviceMemory { dma_buf: None, memory, len, ways: self.ways, map: None })
    }
}

/// Memory of a GPU, which the CPU accesses only by copies.
pub struct DeviceMemory {
    /// Closed before the memory is freed.
    dma_buf: Option<DmaBuf>,
    memory: Box<dyn GpuMemory>,
    len: usize,
    /// The ways to map it, in the order in which they are tried.
    ways: &'static [MapWay],
    map: Option<GpuMap>,
}

impl DeviceMemory {
    /// The size in bytes, a multiple of [`PAGE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// False: [`Gpus::allocate`] rejects empty memory.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    ///
    /// The errors of the runtime.
    ///
    /// # Panics
    ///
    /// Panics if the range exceeds the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.memory.write(offset, bytes)
    }

    /// Copies the bytes from `offset` on into `bytes`.
    ///
    /// # Errors
    ///
    /// The errors of the runtime.
    ///
    /// # Panics
    ///
    /// Panics if the range exceeds the memory.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.memory.read(offset, bytes)
    }

    /// Sets every byte to `byte`.
    ///
    /// # Errors
    ///
    /// The errors of the runtime.
    pub fn fill(&self, byte: u8) -> Result<(), Error> {
        self.memory.fill(byte, self.len)
    }

    /// Frees the memory.
    ///
    /// # Errors
    ///
    /// The errors of the runtime.
    pub fn free(mut self) -> Result<(), Error> {
        self.dma_buf = None;
        self.memory.free()
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// How the memory is mapped; `None` before.
    pub(crate) fn gpu_map(&self) -> Option<GpuMap> {
        self.map
    }

    /// Maps the memory by `attempt`, which gets the hints of each way in turn until the driver
    /// accepts one (libcxi.md 7.2, 7.5).
    ///
    /// # Errors
    ///
    /// The refusals of all ways.
    pub(crate) fn map<T>(
        &mut self,
        attempt: impl Fn(Option<cxi_md_hints>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut refused: Option<Error> = None;
        for way in self.ways {
            let mapped = match way {
                MapWay::Peer => attempt(None),
                MapWay::DmaBuf => {
                    self.dma_buf = self.memory.export(self.len);
                    let hints = self.dma_buf.as_ref().map(DmaBuf::hints);
                    hints.map_or(Err(Error::NOT_EXPORTED), |hints| attempt(Some(hints)))
                }
            };
            match mapped {
                Ok(mapped) => {
                    self.map = Some(GpuMap { way: *way, refused });
                    return Ok(mapped);
                }
                Err(error) => {
                    self.dma_buf = None;
                    let error = error.with_way(*way);
                    refused = Some(refused.map_or(error, |first| first.and_of_way(error)));
                }
            }
        }
        Err(refused.unwrap_or(Error::NOT_EXPORTED))
    }

    fn check_range(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at offset {offset} exceed the memory"
        );
    }
}
