//! GPUs of Intel, through Level Zero.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Mutex;

use cxi_sys::gpu::level_zero::*;

use super::interface::{self, DmaBuf, OpenError, PAGE};
use crate::error::{Error, GpuStatus};

/// Level Zero, initialised, with its GPUs in the order of their indices.
pub(super) struct LevelZeroRuntime {
    api: LevelZero,
    devices: Vec<LevelZeroDevice>,
}

/// A GPU and its driver.
#[derive(Clone, Copy)]
struct LevelZeroDevice {
    driver: ZeHandle,
    device: ZeHandle,
}

impl LevelZeroRuntime {
    /// Opens Level Zero and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = LevelZero::load()?;
        let mut devices = Vec::new();
        // SAFETY: the function has no preconditions.
        match unsafe { (api.zeInit)(ZE_INIT_FLAG_GPU_ONLY) } {
            ZE_RESULT_ERROR_UNINITIALIZED => return Ok((Self { api, devices }, 0)),
            result => check("zeInit", result)?,
        }
        let drivers = list("zeDriverGet", |count, handles| {
            // SAFETY: zeInit succeeded; `list` passes room for `count` handles.
            unsafe { (api.zeDriverGet)(count, handles) }
        })?;
        for driver in drivers {
            let found = list("zeDeviceGet", |count, handles| {
                // SAFETY: zeDriverGet returned `driver`; `list` passes room for `count` handles.
                unsafe { (api.zeDeviceGet)(driver, count, handles) }
            })?;
            devices.extend(found.into_iter().map(|device| LevelZeroDevice { driver, device }));
        }
        let count = devices.len() as u32;
        Ok((Self { api, devices }, count))
    }

    /// Allocates `len` bytes on GPU `index`, in a new context.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<LevelZeroMemory, Error> {
        let api = self.api;
        let LevelZeroDevice { driver, device } = self.devices[index as usize];
        let mut memory = LevelZeroMemory {
            api,
            context: ptr::null_mut(),
            commands: ptr::null_mut(),
            using_commands: Mutex::new(()),
            base: ptr::null_mut(),
        };
        let context =
            ZeContextDesc { stype: ZeStructure::ContextDesc, next: ptr::null(), flags: 0 };
        let place = &raw mut memory.context;
        // SAFETY: zeDriverGet returned `driver`; the description outlives the call; `place` is a
        // valid out pointer.
        let result = unsafe { (api.zeContextCreate)(driver, &raw const context, place) };
        check("zeContextCreate", result)?;
        let queue = ZeCommandQueueDesc {
            stype: ZeStructure::CommandQueueDesc,
            next: ptr::null(),
            ordinal: 0,
            index: 0,
            flags: 0,
            mode: ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS,
            priority: 0,
        };
        let (context, place) = (memory.context, &raw mut memory.commands);
        // SAFETY: context and device belong to one driver; the description outlives the call;
        // `place` is a valid out pointer.
        let result =
            unsafe { (api.zeCommandListCreateImmediate)(context, device, &raw const queue, place) };
        check("zeCommandListCreateImmediate", result)?;
        let exportable = ZeExternalMemoryExportDesc {
            stype: ZeStructure::ExternalMemoryExportDesc,
            next: ptr::null(),
            flags: ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
        };
        let wanted = ZeDeviceMemAllocDesc {
            stype: ZeStructure::DeviceMemAllocDesc,
            next: (&raw const exportable).cast(),
            flags: 0,
            ordinal: 0,
        };
        let place = &raw mut memory.base;
        // SAFETY: context and device belong to one driver; both descriptions outlive the call;
        // `place` is a valid out pointer.
        let result =
            unsafe { (api.zeMemAllocDevice)(context, &raw const wanted, len, PAGE, device, place) };
        check("zeMemAllocDevice", result)?;
        Ok(memory)
    }
}

/// One allocation, with its own context and command list.
pub(super) struct LevelZeroMemory {
    api: LevelZero,
    /// Null before its creation and after `free`.
    context: ZeHandle,
    /// Null before its creation and after `free`.
    commands: ZeHandle,
    /// Held during a call with `commands`: a command list takes one thread at a time.
    using_commands: Mutex<()>,
    /// Null before the allocation and after `free`.
    base: *mut c_void,
}

// SAFETY: the runtime lets any thread use context and memory; `using_commands` keeps two threads
// from using the command list at the same time.
unsafe impl Send for LevelZeroMemory {}
// SAFETY: a shared reference uses the command list under `using_commands` only.
unsafe impl Sync for LevelZeroMemory {}

impl LevelZeroMemory {
    fn at(&self, offset: usize) -> *mut c_void {
        self.base.wrapping_byte_add(offset)
    }

    fn copy(&self, to: *mut c_void, from: *const c_void, len: usize) -> Result<(), Error> {
        let (none, append) = (ptr::null_mut(), self.api.zeCommandListAppendMemoryCopy);
        let _using = self.using_commands.lock();
        // SAFETY: `read` and `write` pass a slice and a range that `DeviceMemory` checked; the
        // command list is synchronous, so they need not outlive the call.
        let result = unsafe { append(self.commands, to, from, len, none, 0, ptr::null_mut()) };
        check("zeCommandListAppendMemoryCopy", result)
    }
}

impl interface::GpuMemory for LevelZeroMemory {
    fn address(&self) -> u64 {
        self.base as u64
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.copy(self.at(offset), bytes.as_ptr().cast(), bytes.len())
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.copy(bytes.as_mut_ptr().cast(), self.at(offset), bytes.len())
    }

    fn fill(&self, byte: u8, len: usize) -> Result<(), Error> {
        let fill = self.api.zeCommandListAppendMemoryFill;
        let (none, no_events) = (ptr::null_mut(), ptr::null_mut());
        let pattern = (&raw const byte).cast();
        let _using = self.using_commands.lock();
        // SAFETY: `DeviceMemory` passes its length; the command list is synchronous, so the pattern
        // need not outlive the call.
        let result = unsafe { fill(self.commands, self.base, pattern, 1, len, none, 0, no_events) };
        check("zeCommandListAppendMemoryFill", result)
    }

    fn export(&self, _len: usize) -> Option<DmaBuf> {
        let mut exported = ZeExternalMemoryFd {
            stype: ZeStructure::ExternalMemoryExportFd,
            next: ptr::null_mut(),
            flags: ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
            fd: -1,
        };
        let mut properties = ZeMemoryAllocationProperties {
            stype: ZeStructure::MemoryAllocationProperties,
            next: (&raw mut exported).cast(),
            kind: 0,
            id: 0,
            page_size: 0,
        };
        let (place, get) = (&raw mut properties, self.api.zeMemGetAllocProperties);
        // SAFETY: `base` belongs to this context; both structures are valid out pointers.
        let result = unsafe { get(self.context, self.base, place, ptr::null_mut()) };
        if result != ZE_RESULT_SUCCESS || exported.fd < 0 {
            return None;
        }
        // SAFETY: the runtime returned a new file descriptor, which nothing else closes.
        let file = unsafe { OwnedFd::from_raw_fd(exported.fd) };
        Some(DmaBuf { file, offset: 0 })
    }

    fn free(&mut self) -> Result<(), Error> {
        let take = |place: &mut ZeHandle| std::mem::replace(place, ptr::null_mut());
        let (base, commands) = (take(&mut self.base), take(&mut self.commands));
        let context = take(&mut self.context);
        let mut freed = Ok(());
        if !base.is_null() {
            // SAFETY: `base` belongs to this context, and `take` lets it be freed only once.
            let result = unsafe { (self.api.zeMemFree)(context, base) };
            freed = freed.and(check("zeMemFree", result));
        }
        if !commands.is_null() {
            // SAFETY: a synchronous list has no pending commands, and `take` lets it be destroyed
            // only once.
            let result = unsafe { (self.api.zeCommandListDestroy)(commands) };
            freed = freed.and(check("zeCommandListDestroy", result));
        }
        if !context.is_null() {
            // SAFETY: memory and command list of the context are released above, and `take` lets it
            // be destroyed only once.
            let result = unsafe { (self.api.zeContextDestroy)(context) };
            freed = freed.and(check("zeContextDestroy", result));
        }
        freed
    }
}

impl Drop for LevelZeroMemory {
    fn drop(&mut self) {
        // `DeviceMemory::free` reports failures; a drop cannot.
        let _ = interface::GpuMemory::free(self);
    }
}

/// The handles that `get` lists: the first call asks for their number, the second for them.
fn list(
    call: &'static str,
    get: impl Fn(*mut u32, *mut ZeHandle) -> ZeResult,
) -> Result<Vec<ZeHandle>, Error> {
    let mut count = 0;
    check(call, get(&raw mut count, ptr::null_mut()))?;
    let mut handles = vec![ptr::null_mut(); count as usize];
    if count > 0 {
        check(call, get(&raw mut count, handles.as_mut_ptr()))?;
        handles.truncate(count as usize);
    }
    Ok(handles)
}

fn check(call: &'static str, result: ZeResult) -> Result<(), Error> {
    if result == ZE_RESULT_SUCCESS {
        return Ok(());
    }
    let known = ZE_RESULTS.iter().find(|(code, _)| *code == result);
    let text = known.map_or("error", |(_, text)| text);
    let errno = if ZE_OUT_OF_MEMORY.contains(&result) { libc::ENOMEM } else { libc::EIO };
    let status = GpuStatus { runtime: "Level Zero", code: result.into(), text };
    Err(Error::from_gpu(call, errno, status))
}
