//! Buffers on GPUs: found, allocated, filled, copied, and offered to the NIC.
//!
//! The runtimes are shared libraries that are opened when somebody asks for a GPU, and stay loaded.
//! A buffer is a whole number of [`PAGE`]s that starts at a multiple of it, whatever the runtime gives.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};

use cxi_sys::gpu as sys;

use crate::error::Error;

mod cuda;
mod hip;
mod level_zero;

/// Alignment and granularity of the buffers in bytes: what NVIDIA's peer-to-peer interface asks for,
/// and a multiple of every page size of CPUs and of the other GPUs' interfaces.
pub const PAGE: usize = 1 << 16;

/// Who makes the GPU, and thereby its runtime: HIP, CUDA or Level Zero.
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
    /// All of them, in the order in which they are looked for.
    pub const ALL: [Self; 3] = [Self::Amd, Self::Nvidia, Self::Intel];

    /// Names of the shared library of its runtime, in the order in which they are tried.
    pub fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Amd => sys::hip::Hip::LIBRARIES,
            Self::Nvidia => sys::cuda::Cuda::LIBRARIES,
            Self::Intel => sys::level_zero::LevelZero::LIBRARIES,
        }
    }
}

/// As users name the types.
impl fmt::Display for GpuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Amd => "AMD",
            Self::Nvidia => "NVIDIA",
            Self::Intel => "INTEL",
        })
    }
}

/// Why the GPUs of a type cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The library cannot be loaded.
    Load(sys::LoadError),
    /// It can, but does not work.
    Call(Error),
}

impl From<sys::LoadError> for OpenError {
    fn from(error: sys::LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// The GPUs of one type.
pub struct Gpus {
    runtime: Runtime,
    kind: GpuType,
    count: u32,
}

/// A runtime that is open.
enum Runtime {
    Hip(hip::Runtime),
    Cuda(cuda::Runtime),
    LevelZero(level_zero::Runtime),
}

impl Gpus {
    /// Opens the runtime of this type. That it finds no GPU is no error.
    pub fn open(kind: GpuType) -> Result<Self, OpenError> {
        let (runtime, count) = match kind {
            GpuType::Amd => {
                let (runtime, count) = hip::Runtime::open()?;
                (Runtime::Hip(runtime), count)
            }
            GpuType::Nvidia => {
                let (runtime, count) = cuda::Runtime::open()?;
                (Runtime::Cuda(runtime), count)
            }
            GpuType::Intel => {
                let (runtime, count) = level_zero::Runtime::open()?;
                (Runtime::LevelZero(runtime), count)
            }
        };
        Ok(Self {
            runtime,
            kind,
            count,
        })
    }

    /// Their type.
    pub fn kind(&self) -> GpuType {
        self.kind
    }

    /// How many there are: they are numbered from 0.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// `len` bytes of zeroed memory, rounded up to [`PAGE`]s, on the GPU of this number. Errors: EINVAL
    /// for no bytes at all or a GPU that is not there, ENOMEM, EIO.
    pub fn allocate(&self, index: u32, len: usize) -> Result<DeviceMemory, Error> {
        const CALL: &str = "gpu::allocate";
        if len == 0 || index >= self.count {
            return Err(Error::new(CALL, libc::EINVAL));
        }
        // Room for the start to be moved up as well.
        let len = len.checked_next_multiple_of(PAGE);
        let len = len.filter(|len| len.checked_add(PAGE).is_some());
        let len = len.ok_or(Error::new(CALL, libc::ENOMEM))?;
        let memory: Box<dyn Memory> = match &self.runtime {
            Runtime::Hip(runtime) => Box::new(runtime.allocate(index, len)?),
            Runtime::Cuda(runtime) => Box::new(runtime.allocate(index, len)?),
            Runtime::LevelZero(runtime) => Box::new(runtime.allocate(index, len)?),
        };
        memory.fill(0, len)?;
        Ok(DeviceMemory {
            dma_buf: memory.export(len),
            memory,
            len,
        })
    }
}

/// Memory of one runtime. Ranges given to it lie inside.
trait Memory {
    /// Its address, a multiple of [`PAGE`].
    fn address(&self) -> u64;

    /// Copies to `offset` on, and returns when it is there.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Copies from `offset` on.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error>;

    /// Sets the first `len` bytes, and returns when that is done.
    fn fill(&self, byte: u8, len: usize) -> Result<(), Error>;

    /// The first `len` bytes as a dma-buf, where the runtime can.
    fn export(&self, len: usize) -> Option<DmaBuf>;

    /// Frees it, once; a second call does nothing.
    fn free(&mut self) -> Result<(), Error>;
}

/// Memory as a file that drivers share.
pub(crate) struct DmaBuf {
    file: OwnedFd,
    /// Where in the file the memory begins.
    offset: u64,
}

impl DmaBuf {
    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }
}

/// Memory of a GPU, owned. The CPU cannot reach it but by copies.
pub struct DeviceMemory {
    /// Closed before the memory goes.
    dma_buf: Option<DmaBuf>,
    memory: Box<dyn Memory>,
    len: usize,
}

impl DeviceMemory {
    /// Bytes, a multiple of [`PAGE`].
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: memory of no bytes cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is offered to drivers as a dma-buf; else they must know the runtime.
    pub fn is_exported(&self) -> bool {
        self.dma_buf.is_some()
    }

    /// Copies `bytes` to `offset` on.
    ///
    /// # Panics
    ///
    /// If the range is not inside.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.memory.write(offset, bytes)
    }

    /// Copies from `offset` on.
    ///
    /// # Panics
    ///
    /// If the range is not inside.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.memory.read(offset, bytes)
    }

    /// Sets every byte.
    pub fn fill(&self, byte: u8) -> Result<(), Error> {
        self.memory.fill(byte, self.len)
    }

    /// Frees it and reports what fails.
    pub fn free(mut self) -> Result<(), Error> {
        self.release()
    }

    pub(crate) fn release(&mut self) -> Result<(), Error> {
        self.dma_buf = None;
        self.memory.free()
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(crate) fn dma_buf(&self) -> Option<&DmaBuf> {
        self.dma_buf.as_ref()
    }

    fn check_range(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at {offset} are not inside the memory"
        );
    }
}
