//! Memory regions: host pages or memory of a GPU, mapped for the NIC.

use std::ffi::c_void;
use std::sync::Arc;
use std::{mem, ptr};

use cxi_sys::{CXI_MAP_DEVICE, cxi_md, cxi_md_hints};

use crate::error::Error;
use crate::gpu::{DeviceMemory, GpuMap};
use crate::library::{Destroy, Owned, ReleaseHandle, close};
use crate::lni::{Lni, LniHandle};
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

    /// The address to map. The CPU cannot dereference the address of GPU memory.
    pub(crate) fn address(&self) -> *mut c_void {
        match self {
            Self::Host(pages) => pages.as_ptr().cast(),
            Self::Device(memory) => ptr::without_provenance_mut(memory.address() as usize),
        }
    }

    /// The flags that this kind of memory adds to the flags of the mapping.
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

/// Memory mapped for the NIC, with the mapping.
pub struct MemoryRegion {
    handle: Arc<RegionHandle>,
}

impl MemoryRegion {
    /// Maps memory for the NIC with flags `CXI_MAP_*`, usually `CXI_MAP_PIN | CXI_MAP_READ |
    /// CXI_MAP_WRITE`. `CXI_MAP_DEVICE` is added for memory of a GPU.
    ///
    /// # Errors
    ///
    /// See libcxi.md 7.4.
    pub fn map(lni: &Lni, memory: impl Into<Backing>, flags: u32) -> Result<Self, Error> {
        Ok(Self { handle: Arc::new(RegionHandle::map(lni.handle(), memory.into(), flags)?) })
    }

    /// The size in bytes, a multiple of the page size.
    pub fn len(&self) -> usize {
        self.handle.len
    }

    /// False: empty memory cannot be allocated.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the memory is mapped if it is on a GPU.
    pub fn gpu_map(&self) -> Option<GpuMap> {
        match self.handle.memory() {
            Backing::Host(_) => None,
            Backing::Device(memory) => memory.gpu_map(),
        }
    }

    /// The NIC's address (IOVA) of the byte at `offset`.
    ///
    /// # Panics
    ///
    /// Panics if `offset` is beyond the end.
    pub fn iova(&self, offset: usize) -> u64 {
        assert!(offset <= self.len(), "offset {offset} beyond the region");
        self.handle.iova + offset as u64
    }

    /// The logical address context of the addresses, 0 to 7.
    pub fn lac(&self) -> u8 {
        self.handle.lac
    }

    /// Sets every byte to `byte`.
    ///
    /// # Errors
    ///
    /// The errors of the GPU runtime; host memory cannot fail.
    pub fn fill(&self, byte: u8) -> Result<(), Error> {
        self.handle.memory().fill(byte)
    }

    /// Copies the bytes from `offset` on into `bytes`.
    ///
    /// # Errors
    ///
    /// The errors of the GPU runtime; host memory cannot fail.
    ///
    /// # Panics
    ///
    /// Panics if the range exceeds the region.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.handle.memory().read(offset, bytes)
    }

    /// Copies `bytes` into the region at `offset`.
    ///
    /// # Errors
    ///
    /// The errors of the GPU runtime; host memory cannot fail.
    ///
    /// # Panics
    ///
    /// Panics if the range exceeds the region.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.check_range(offset, bytes.len());
        self.handle.memory().write(offset, bytes)
    }

    /// Unmaps the memory and frees it. If the library refuses to unmap it, the memory is leaked,
    /// because the NIC may still write it.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue or portals table entry keeps the region mapped; errors of `cxil_unmap`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    fn check_range(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{len} bytes at offset {offset} exceed the region"
        );
    }

    pub(crate) fn handle(&self) -> &Arc<RegionHandle> {
        &self.handle
    }
}

pub(crate) struct RegionHandle {
    object: Owned<cxi_md>,
    /// `None` once unmapped.
    memory: Option<Backing>,
    len: usize,
    /// The NIC's address of the first byte.
    iova: u64,
    lac: u8,
    _lni: Arc<LniHandle>,
}

impl RegionHandle {
    pub(crate) fn map(
        lni: &Arc<LniHandle>,
        mut memory: Backing,
        flags: u32,
    ) -> Result<Self, Error> {
        let api = lni.library().api();
        let (va, len) = (memory.address(), memory.len());
        let flags = flags | memory.map_flags();
        let map = |mut hints: Option<cxi_md_hints>| {
            let hints = hints.as_mut().map_or(ptr::null_mut(), |hints| &raw mut *hints);
            Owned::allocate(
                lni.library(),
                "cxil_map",
                Destroy { call: Self::CALL, function: api.cxil_unmap },
                // SAFETY: the handle keeps the interface allocated; `hints` is null or points to a
                // local that outlives the call; `md` is a valid out pointer; `release` frees the
                // memory only after unmapping it.
                |md| unsafe { (api.cxil_map)(lni.as_ptr(), va, len, flags, hints, md) },
            )
        };
        let object = match &mut memory {
            Backing::Host(_) => map(None)?,
            Backing::Device(device) => device.map(map)?,
        };
        let md = object.read();
        Ok(Self {
            object,
            len,
            // The kernel may start the mapping before the memory (libcxi.md 7.3).
            iova: md.iova.wrapping_add((va as u64).wrapping_sub(md.va)),
            lac: md.lac,
            memory: Some(memory),
            _lni: Arc::clone(lni),
        })
    }

    pub(crate) fn as_ptr(&self) -> *const cxi_md {
        self.object.as_ptr()
    }

    pub(crate) fn memory(&self) -> &Backing {
        self.memory.as_ref().expect("a region that is in use has not been released")
    }
}

impl ReleaseHandle for RegionHandle {
    const CALL: &'static str = "cxil_unmap";

    fn release(&mut self) -> Result<(), Error> {
        let memory = self.memory.take();
        match self.object.release() {
            Ok(()) => memory.map_or(Ok(()), Backing::free),
            Err(error) => {
                mem::forget(memory);
                Err(error)
            }
        }
    }
}

impl Drop for RegionHandle {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            self.object.library().record_failed_release(error);
        }
    }
}
