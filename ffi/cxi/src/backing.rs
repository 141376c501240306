//! The memory behind a region: host pages or memory of a GPU.

use std::ffi::c_void;
use std::ptr;

use cxi_sys::CXI_MAP_DEVICE;

use crate::error::Error;
use crate::gpu::DeviceMemory;
use crate::pages::Pages;

/// Memory that can be mapped for the NIC.
pub enum Backing {
    /// Host memory.
    Host(Pages),
    /// Memory of a GPU.
    Device(DeviceMemory),
}

impl From<Pages> for Backing {
    fn from(pages: Pages) -> Self {
        Self::Host(pages)
    }
}

impl From<DeviceMemory> for Backing {
    fn from(memory: DeviceMemory) -> Self {
        Self::Device(memory)
    }
}

impl Backing {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Host(pages) => pages.len(),
            Self::Device(memory) => memory.len(),
        }
    }

    /// Returns the address to map. The CPU cannot dereference the address of GPU memory.
    pub(crate) fn address(&self) -> *mut c_void {
        match self {
            Self::Host(pages) => pages.as_ptr().cast(),
            Self::Device(memory) => ptr::without_provenance_mut(memory.address() as usize),
        }
    }

    /// Returns the flags that this kind of memory adds to the flags of the mapping.
    pub(crate) fn map_flags(&self) -> u32 {
        match self {
            Self::Host(_) => 0,
            Self::Device(_) => CXI_MAP_DEVICE,
        }
    }

    /// Copies the bytes from `offset` on into `bytes`. Panics if the range exceeds the memory.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Host(pages) => pages.read(offset, bytes),
            Self::Device(memory) => memory.read(offset, bytes)?,
        }
        Ok(())
    }

    /// Copies `bytes` to `offset`. Panics if the range exceeds the memory.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Self::Host(pages) => pages.write(offset, bytes),
            Self::Device(memory) => memory.write(offset, bytes)?,
        }
        Ok(())
    }

    /// Sets every byte to `byte`.
    pub(crate) fn fill(&self, byte: u8) -> Result<(), Error> {
        match self {
            Self::Host(pages) => pages.fill(byte),
            Self::Device(memory) => memory.fill(byte)?,
        }
        Ok(())
    }

    /// Frees the memory and reports a failure of the GPU runtime.
    pub(crate) fn free(self) -> Result<(), Error> {
        match self {
            Self::Host(_) => Ok(()),
            Self::Device(memory) => memory.free(),
        }
    }
}
