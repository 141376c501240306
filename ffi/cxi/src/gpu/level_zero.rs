//! Intel's GPUs, through Level Zero.

use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use cxi_sys::gpu::level_zero::*;

use super::{DmaBuf, OpenError, PAGE};
use crate::error::{Error, GpuStatus};

/// Level Zero, initialised, with its GPUs in the order of their numbers.
pub(super) struct Runtime {
    api: LevelZero,
    devices: Vec<Device>,
}

/// A GPU and the driver that it belongs to.
#[derive(Clone, Copy)]
struct Device {
    driver: ZeHandle,
    device: ZeHandle,
}

impl Runtime {
    /// Opens it and counts the GPUs.
    pub(super) fn open() -> Result<(Self, u32), OpenError> {
        let api = LevelZero::load()?;
        let mut devices = Vec::new();
        // SAFETY: no preconditions.
        match unsafe { (api.zeInit)(ZE_INIT_FLAG_GPU_ONLY) } {
            ZE_RESULT_ERROR_UNINITIALIZED => return Ok((Self { api, devices }, 0)),
            result => check("zeInit", result)?,
        }
        let drivers = list("zeDriverGet", |count, handles| {
            // SAFETY: initialised; there is room for as many handles as `count` says.
            unsafe { (api.zeDriverGet)(count, handles) }
        })?;
        for driver in drivers {
            let found = list("zeDeviceGet", |count, handles| {
                // SAFETY: the driver exists; there is room for as many handles as `count` says.
                unsafe { (api.zeDeviceGet)(driver, count, handles) }
            })?;
            devices.extend(found.into_iter().map(|device| Device { driver, device }));
        }
        let count = devices.len() as u32;
        Ok((Self { api, devices }, count))
    }

    /// `len` bytes on a GPU, in a context of their own.
    pub(super) fn allocate(&self, index: u32, len: usize) -> Result<Memory, Error> {
        let api = self.api;
        let Device { driver, device } = self.devices[index as usize];
        let mut memory = Memory {
            api,
            context: ptr::null_mut(),
            commands: ptr::null_mut(),
            base: ptr::null_mut(),
        };
        let context = ZeContextDesc {
            stype: ZeStructure::ContextDesc,
            next: ptr::null(),
            flags: 0,
        };
        let place = &raw mut memory.context;
        // SAFETY: the driver exists, the description is complete, and there is a place for the answer.
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
        // SAFETY: context and device are of one driver, the rest as above.
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
        // SAFETY: as above; the chained description lives until the call returns.
        let result =
            unsafe { (api.zeMemAllocDevice)(context, &raw const wanted, len, PAGE, device, place) };
        check("zeMemAllocDevice", result)?;
        Ok(memory)
    }
}

/// One allocation, with the context and the command list that belong to it alone.
pub(super) struct Memory {
    api: LevelZero,
    /// Null once destroyed; so the others.
    context: ZeHandle,
    commands: ZeHandle,
    base: *mut c_void,
}

impl Memory {
    fn at(&self, offset: usize) -> *mut c_void {
        self.base.wrapping_byte_add(offset)
    }

    fn copy(&self, to: *mut c_void, from: *const c_void, len: usize) -> Result<(), Error> {
        let (none, append) = (ptr::null_mut(), self.api.zeCommandListAppendMemoryCopy);
        // SAFETY: `read` and `write` give ranges that are theirs; the list is synchronous, so that
        // they need not outlive the call.
        let result = unsafe { append(self.commands, to, from, len, none, 0, ptr::null_mut()) };
        check("zeCommandListAppendMemoryCopy", result)
    }
}

impl super::Memory for Memory {
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
        // SAFETY: the caller keeps to the allocation; the list is synchronous, so that the pattern
        // need not outlive the call.
        let result = unsafe {
            fill(
                self.commands,
                self.base,
                pattern,
                1,
                len,
                none,
                0,
                no_events,
            )
        };
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
        // SAFETY: the allocation is of this context; the chained structure is there to be filled.
        let result = unsafe { get(self.context, self.base, place, ptr::null_mut()) };
        if result != ZE_RESULT_SUCCESS || exported.fd < 0 {
            return None;
        }
        // SAFETY: the runtime has just made this file for us.
        let file = unsafe { OwnedFd::from_raw_fd(exported.fd) };
        Some(DmaBuf { file, offset: 0 })
    }

    fn free(&mut self) -> Result<(), Error> {
        let take = |place: &mut ZeHandle| std::mem::replace(place, ptr::null_mut());
        let (base, commands) = (take(&mut self.base), take(&mut self.commands));
        let context = take(&mut self.context);
        let mut freed = Ok(());
        if !base.is_null() {
            // SAFETY: allocated in this context, and freed once.
            let result = unsafe { (self.api.zeMemFree)(context, base) };
            freed = freed.and(check("zeMemFree", result));
        }
        if !commands.is_null() {
            // SAFETY: nothing is left in a synchronous list, which is destroyed once.
            let result = unsafe { (self.api.zeCommandListDestroy)(commands) };
            freed = freed.and(check("zeCommandListDestroy", result));
        }
        if !context.is_null() {
            // SAFETY: all that was made in the context is gone; it is destroyed once.
            let result = unsafe { (self.api.zeContextDestroy)(context) };
            freed = freed.and(check("zeContextDestroy", result));
        }
        freed
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // Whoever wants to know has called it.
        let _ = super::Memory::free(self);
    }
}

/// What `get` lists when it is asked first for the number and then for the handles.
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
    let errno = match ZE_OUT_OF_MEMORY.contains(&result) {
        true => libc::ENOMEM,
        false => libc::EIO,
    };
    let status = GpuStatus {
        runtime: "Level Zero",
        code: result.into(),
        text,
    };
    Err(Error::of_gpu(call, errno, status))
}
