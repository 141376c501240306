//! Memory of Intel's GPUs, through Level Zero: imported by its dma-buf into a separate context.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use cxi_sys::gpu::level_zero::*;

use super::interface::{DmaBuf, Gpu};

/// A GPU with a context and a command list, which exist as long as the process.
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
        // SAFETY: `import` made it in this context, and it is freed once. The memory itself
        // remains.
        unsafe { (self.owner.api.zeMemFree)(self.owner.context, self.base) };
    }
}

/// Imports `len` bytes of a dma-buf. Returns the GPU, the address and the import. The file does not
/// state its GPU, so the first GPU that can import it is used.
pub fn import(dma_buf: DmaBuf, len: usize) -> Option<(&'static dyn Gpu, usize, Import)> {
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
