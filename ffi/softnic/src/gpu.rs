//! Memory of GPUs, which the CPU must not access. A program that maps it for the NIC has the
//! runtime of the GPU in its process, and the engine copies through that runtime.
//!
//! CUDA and HIP identify their memory by its address. In Level Zero an address is valid in one
//! context only, so its memory is imported through the dma-buf of the mapping, which hardware
//! requires too.

use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use cxi_sys::gpu::cuda::*;
use cxi_sys::gpu::hip::*;
use cxi_sys::gpu::level_zero::*;
use rustix::fs::fstat;
use rustix::io::Errno;

use crate::pages::page_size;

/// Bytes of a page of NVIDIA's peer memory (libcxi.md 7.5).
const PEER_PAGE: usize = 1 << 16;

/// Device memory with the address that its runtime uses in this process.
pub struct GpuAddress {
    pub gpu: &'static dyn Gpu,
    pub address: usize,
    /// Bytes of a page of the mapping.
    pub page: usize,
    /// The import to be released when the memory is unmapped.
    pub import: Option<Import>,
}

/// Finds the runtime of `len` bytes of peer memory at `va`. Memory of CUDA is mapped in pages of 64
/// KiB, which must be device memory throughout (libcxi.md 7.5).
///
/// # Errors
/// ENODEV if no runtime of this process has peer memory; for other memory EINVAL, as from NVIDIA's
/// module, or ENOENT, as from AMD's.
pub fn find_peer(va: usize, len: usize) -> Result<GpuAddress, Errno> {
    let start = va / PEER_PAGE * PEER_PAGE;
    let end = va.checked_add(len).ok_or(Errno::OVERFLOW)?;
    let end = end.checked_next_multiple_of(PEER_PAGE).ok_or(Errno::OVERFLOW)?;
    let cuda = cuda_owner(start, end - start).map(|gpu| (gpu, PEER_PAGE));
    let (gpu, page) = cuda
        .or_else(|| hip_owner(va, len).map(|gpu| (gpu, page_size())))
        .ok_or_else(|| match (is_cuda_loaded(), is_hip_loaded()) {
            (true, _) => Errno::INVAL,
            (false, true) => Errno::NOENT,
            (false, false) => Errno::NODEV,
        })?;
    Ok(GpuAddress { gpu, address: va, page, import: None })
}

/// Finds the runtime of `len` bytes of a dma-buf. CUDA and HIP know them by the address `va`.
///
/// # Errors
/// EBADF if the dma-buf is not an open file; EFAULT if the bytes exceed it; EINVAL if no runtime of
/// this process knows the memory.
pub fn find_dma_buf(va: usize, len: usize, dma_buf: DmaBuf) -> Result<GpuAddress, Errno> {
    if dma_buf.fd < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the caller of `cxil_map` keeps the descriptor open during the call; if it is not
    // open, `fstat` fails.
    let file = unsafe { BorrowedFd::borrow_raw(dma_buf.fd) };
    let size = fstat(file)?.st_size as u64;
    let end = dma_buf.offset.checked_add(len).ok_or(Errno::INVAL)?;
    // Files that are no dma-bufs, such as terminals, have no size.
    if size > 0 && end as u64 > size {
        return Err(Errno::FAULT);
    }
    let page = page_size();
    if let Some(gpu) = cuda_owner(va, len).or_else(|| hip_owner(va, len)) {
        return Ok(GpuAddress { gpu, address: va, page, import: None });
    }
    let (gpu, address, import) = import_dma_buf(dma_buf, len).ok_or(Errno::INVAL)?;
    Ok(GpuAddress { gpu, address, page, import: Some(import) })
}

/// Copies memory of a GPU. The functions return false if the memory was freed or the runtime
/// failed.
pub trait Gpu: Send + Sync {
    /// Copies `len` bytes from device memory.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool;

    /// Copies `len` bytes to device memory, and returns when the copy is complete.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool;
}

/// A dma-buf, and the offset of the memory in it.
#[derive(Clone, Copy)]
pub struct DmaBuf {
    pub fd: RawFd,
    pub offset: usize,
}

/// Memory of NVIDIA's GPUs, through the CUDA driver API.
struct CudaOwner(Cuda);

/// The runtime if all `len` bytes at `va` are device memory of CUDA.
fn cuda_owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<CudaOwner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Cuda::loaded()?;
            OWNER.get_or_init(|| CudaOwner(table))
        }
    };
    owner.owns(va, len).then_some(owner)
}

/// Whether the process has loaded the runtime of CUDA.
fn is_cuda_loaded() -> bool {
    Cuda::loaded().is_some()
}

impl CudaOwner {
    fn owns(&self, va: usize, len: usize) -> bool {
        let mut kind: u32 = 0;
        let place = (&raw mut kind).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_MEMORY_TYPE, va as u64)
        };
        if result != CUDA_SUCCESS || kind != MEMORYTYPE_DEVICE {
            return false;
        }
        // Queried as attributes, because cuMemGetAddressRange needs a current context.
        let mut base: CuPointer = 0;
        let place = (&raw mut base).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_START_ADDR, va as u64)
        };
        if result != CUDA_SUCCESS {
            return false;
        }
        let mut size: usize = 0;
        let place = (&raw mut size).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result = unsafe {
            (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_RANGE_SIZE, va as u64)
        };
        let skipped = (va as u64).wrapping_sub(base) as usize;
        result == CUDA_SUCCESS && skipped <= size && len <= size - skipped
    }

    /// Calls `copy` in the context of the memory at `va`, because engines run in any thread.
    fn in_context(&self, va: usize, copy: impl FnOnce() -> CuResult) -> bool {
        let mut context: CuContext = ptr::null_mut();
        let place = (&raw mut context).cast();
        // SAFETY: the function accepts any address, and `place` has the type of this attribute.
        let result =
            unsafe { (self.0.cuPointerGetAttribute)(place, POINTER_ATTRIBUTE_CONTEXT, va as u64) };
        if result != CUDA_SUCCESS {
            return false;
        }
        // SAFETY: the context has memory, so it exists.
        if unsafe { (self.0.cuCtxPushCurrent_v2)(context) } != CUDA_SUCCESS {
            return false;
        }
        let copied = copy();
        let mut popped = ptr::null_mut();
        // SAFETY: the context pushed above is current, and `popped` has room for it.
        let result = unsafe { (self.0.cuCtxPopCurrent_v2)(&raw mut popped) };
        copied == CUDA_SUCCESS && result == CUDA_SUCCESS
    }
}

impl Gpu for CudaOwner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        self.in_context(from, || {
            // SAFETY: the caller guarantees `to`; CUDA rejects `from` unless it is device memory.
            unsafe { (self.0.cuMemcpyDtoH_v2)(to.cast(), from as u64, len) }
        })
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        self.in_context(to, || {
            // SAFETY: the caller guarantees `from`; CUDA rejects `to` unless it is device memory.
            let result = unsafe { (self.0.cuMemcpyHtoD_v2)(to as u64, from.cast(), len) };
            if result != CUDA_SUCCESS {
                return result;
            }
            // Copies from pageable memory may return before they are complete.
            // SAFETY: the context pushed by `in_context` is current.
            unsafe { (self.0.cuCtxSynchronize)() }
        })
    }
}

/// Memory of AMD's GPUs, through HIP.
struct HipOwner(Hip);

/// The runtime if the first and the last of `len` bytes at `va` are device memory of HIP.
fn hip_owner(va: usize, len: usize) -> Option<&'static dyn Gpu> {
    static OWNER: OnceLock<HipOwner> = OnceLock::new();
    let owner = match OWNER.get() {
        Some(owner) => owner,
        None => {
            let table = Hip::loaded()?;
            OWNER.get_or_init(|| HipOwner(table))
        }
    };
    let owns = owner.knows(va) && owner.knows(va.wrapping_add(len) - 1);
    owns.then_some(owner)
}

/// Whether the process has loaded the runtime of HIP.
fn is_hip_loaded() -> bool {
    Hip::loaded().is_some()
}

impl HipOwner {
    /// Whether an address is device memory.
    fn knows(&self, va: usize) -> bool {
        let mut attributes = HipPointerAttributes {
            kind: 0,
            device: 0,
            device_pointer: ptr::null_mut(),
            host_pointer: ptr::null_mut(),
            is_managed: 0,
            allocation_flags: 0,
        };
        let (place, at) = (&raw mut attributes, hip_pointer(va));
        // SAFETY: the function accepts any address, and `place` has room for the attributes.
        let result = unsafe { (self.0.hipPointerGetAttributes)(place, at) };
        result == HIP_SUCCESS
            && !attributes.device_pointer.is_null()
            && attributes.host_pointer.is_null()
    }
}

/// A device address as a pointer of HIP.
fn hip_pointer(va: usize) -> *mut c_void {
    ptr::without_provenance_mut(va)
}

impl Gpu for HipOwner {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller guarantees `to`; HIP rejects `from` unless it is device memory.
        let result = unsafe { copy(to.cast(), hip_pointer(from), len, HIP_MEMCPY_DEVICE_TO_HOST) };
        result == HIP_SUCCESS
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        let copy = self.0.hipMemcpy;
        // SAFETY: the caller guarantees `from`; HIP rejects `to` unless it is device memory.
        let result = unsafe { copy(hip_pointer(to), from.cast(), len, HIP_MEMCPY_HOST_TO_DEVICE) };
        if result != HIP_SUCCESS {
            return false;
        }
        // Copies from pageable memory may return before they are complete.
        // SAFETY: the function only waits.
        let result = unsafe { (self.0.hipDeviceSynchronize)() };
        result == HIP_SUCCESS
    }
}

/// One of Intel's GPUs, with a context and a command list of Level Zero, which exist as long as the
/// process. Memory is imported by its dma-buf into this context.
struct GpuContext {
    api: LevelZero,
    device: ZeHandle,
    context: ZeHandle,
    /// The command list, which one thread at a time may use.
    commands: Mutex<ZeHandle>,
}

// SAFETY: devices and contexts of Level Zero are not bound to a thread.
unsafe impl Send for GpuContext {}
// SAFETY: threads may use devices and contexts at the same time, and the command list is locked.
unsafe impl Sync for GpuContext {}

/// Memory that was imported by its dma-buf, released when dropped.
pub struct Import {
    owner: &'static GpuContext,
    base: *mut c_void,
}

impl Drop for Import {
    fn drop(&mut self) {
        // SAFETY: `import_dma_buf` made it in this context, and it is freed once. The memory itself
        // remains.
        unsafe { (self.owner.api.zeMemFree)(self.owner.context, self.base) };
    }
}

/// Imports `len` bytes of a dma-buf. Returns the GPU, the address and the import. The file does not
/// state its GPU, so the first GPU that can import it is used.
fn import_dma_buf(dma_buf: DmaBuf, len: usize) -> Option<(&'static dyn Gpu, usize, Import)> {
    static DEVICES: OnceLock<Vec<GpuContext>> = OnceLock::new();
    let devices = match DEVICES.get() {
        Some(devices) => devices,
        None => {
            let api = LevelZero::loaded()?;
            DEVICES.get_or_init(|| devices(api).unwrap_or_default())
        }
    };
    let size = dma_buf.offset.checked_add(len)?;
    devices.iter().find_map(|owner| {
        let base = owner.import(dma_buf, size)?;
        let address = base.addr() + dma_buf.offset;
        Some((owner as &dyn Gpu, address, Import { owner, base }))
    })
}

/// All GPUs for which a context and a command list can be made.
fn devices(api: LevelZero) -> Option<Vec<GpuContext>> {
    // SAFETY: the function has no preconditions, and may be called again.
    if unsafe { (api.zeInit)(ZE_INIT_FLAG_GPU_ONLY) } != ZE_RESULT_SUCCESS {
        return None;
    }
    let drivers = list(|count, handles| {
        // SAFETY: `list` passes room for `count` handles.
        unsafe { (api.zeDriverGet)(count, handles) }
    })?;
    let mut devices = Vec::new();
    for driver in drivers {
        let found = list(|count, handles| {
            // SAFETY: `list` passes room for `count` handles, and the driver exists.
            unsafe { (api.zeDeviceGet)(driver, count, handles) }
        });
        let found = found.unwrap_or_default();
        devices.extend(found.into_iter().filter_map(|device| GpuContext::new(api, driver, device)));
    }
    Some(devices)
}

/// The handles that `get` lists: called first for their number, then for the handles.
fn list(get: impl Fn(*mut u32, *mut ZeHandle) -> ZeResult) -> Option<Vec<ZeHandle>> {
    let mut count = 0;
    if get(&raw mut count, ptr::null_mut()) != ZE_RESULT_SUCCESS {
        return None;
    }
    let mut handles = vec![ptr::null_mut(); count as usize];
    if count > 0 && get(&raw mut count, handles.as_mut_ptr()) != ZE_RESULT_SUCCESS {
        return None;
    }
    handles.truncate(count as usize);
    Some(handles)
}

impl GpuContext {
    /// Makes context and command list of a GPU.
    fn new(api: LevelZero, driver: ZeHandle, device: ZeHandle) -> Option<Self> {
        let description =
            ZeContextDesc { stype: ZeStructure::ContextDesc, next: ptr::null(), flags: 0 };
        let mut context = ptr::null_mut();
        let place = &raw mut context;
        // SAFETY: the driver exists, the description is complete, and `place` has room for the
        // handle.
        let result = unsafe { (api.zeContextCreate)(driver, &raw const description, place) };
        if result != ZE_RESULT_SUCCESS {
            return None;
        }
        let queue = ZeCommandQueueDesc {
            stype: ZeStructure::CommandQueueDesc,
            next: ptr::null(),
            ordinal: 0,
            index: 0,
            flags: 0,
            mode: ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS,
            priority: 0,
        };
        let mut commands = ptr::null_mut();
        let place = &raw mut commands;
        // SAFETY: context and device have the same driver, the description is complete, and `place`
        // has room for the handle.
        let result =
            unsafe { (api.zeCommandListCreateImmediate)(context, device, &raw const queue, place) };
        (result == ZE_RESULT_SUCCESS).then_some(Self {
            api,
            device,
            context,
            commands: Mutex::new(commands),
        })
    }

    /// Imports the first `size` bytes of a dma-buf.
    fn import(&self, dma_buf: DmaBuf, size: usize) -> Option<*mut c_void> {
        let file = ZeExternalMemoryFd {
            stype: ZeStructure::ExternalMemoryImportFd,
            next: ptr::null_mut(),
            flags: ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
            fd: dma_buf.fd,
        };
        let wanted = ZeDeviceMemAllocDesc {
            stype: ZeStructure::DeviceMemAllocDesc,
            next: (&raw const file).cast(),
            flags: 0,
            ordinal: 0,
        };
        let mut base = ptr::null_mut();
        let (place, wanted) = (&raw mut base, &raw const wanted);
        let allocate = self.api.zeMemAllocDevice;
        // SAFETY: context and device have the same driver, the descriptions live until the call
        // returns, and `place` has room for the address.
        let result = unsafe { allocate(self.context, wanted, size, 1, self.device, place) };
        (result == ZE_RESULT_SUCCESS && !base.is_null()).then_some(base)
    }

    /// Copies `len` bytes.
    fn copy(&self, to: *mut c_void, from: *const c_void, len: usize) -> bool {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let (none, append) = (ptr::null_mut(), self.api.zeCommandListAppendMemoryCopy);
        // SAFETY: the caller of `read` or `write` guarantees the end in the CPU's memory, and the
        // other end is imported memory; the list is synchronous, so both are only used during the
        // call.
        let result = unsafe { append(*commands, to, from, len, none, 0, ptr::null_mut()) };
        result == ZE_RESULT_SUCCESS
    }
}

impl Gpu for GpuContext {
    unsafe fn read(&self, from: usize, to: *mut u8, len: usize) -> bool {
        self.copy(to.cast(), ptr::without_provenance(from), len)
    }

    unsafe fn write(&self, from: *const u8, to: usize, len: usize) -> bool {
        self.copy(ptr::without_provenance_mut(to), from.cast(), len)
    }
}
