//! Mappings of GPU memory at any place of an allocation, with stand-ins for the runtimes (libcxi.md
//! 7).

use crate::driver::prelude::*;
use crate::memory::round_trip;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut, without_provenance_mut};

use cxi_sys::gpu::cuda::Cuda;
use cxi_sys::gpu::hip::Hip;
use cxi_sys::gpu::level_zero::*;

const DEVICE: u32 = RW | CXI_MAP_DEVICE;

/// Bytes of an allocation.
const LEN: usize = 64 * PAGE;

/// Bytes of a page of NVIDIA's peer memory.
const PEER_PAGE: usize = 1 << 16;

/// Builds a stand-in and loads it, so that it is found under its name.
fn load(name: &str, source: &str) -> *mut c_void {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = directory.join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    cxi_sys::testing::write_gpu_runtimes(&directory).unwrap();
    let library = directory.join(name);
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread"])
        .arg(format!("-Wl,-soname,{name}"))
        .arg("-o")
        .arg(&library)
        .args([source, "device.c"].map(|file| directory.join(file)))
        .status();
    assert!(status.expect("cc starts").success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: the library has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    std::fs::remove_dir_all(directory).unwrap();
    handle
}

/// Calls a function of a runtime, which must succeed.
macro_rules! done {
    ($call:expr) => {{
        // SAFETY: arguments are as in the runtime's header; the stand-in checks them.
        let result = unsafe { $call };
        assert_eq!(result, 0, stringify!($call));
    }};
}

/// Hints with a dma-buf.
fn hints(fd: c_int, offset: usize) -> cxi_md_hints {
    cxi_md_hints {
        page_shift: 0,
        huge_shift: 0,
        ptg_mode: 0,
        ptg_mode_valid: false,
        dmabuf_fd: fd,
        dmabuf_offset: offset as u64,
        dmabuf_valid: true,
    }
}

/// Maps memory; returns a positive errno, or 0.
fn map(
    rig: &Rig,
    va: usize,
    len: usize,
    flags: u32,
    mut hints: Option<cxi_md_hints>,
    md: &mut *mut cxi_md,
) -> i32 {
    let hints = hints.as_mut().map_or(null_mut(), |hints| &raw mut *hints);
    let va: *mut c_void = without_provenance_mut(va);
    -call!(cxil_map(rig.lni, va, len, flags, hints, md))
}

/// The errno of a mapping.
fn refused(rig: &Rig, va: usize, len: usize, flags: u32, hints: Option<cxi_md_hints>) -> i32 {
    map(rig, va, len, flags, hints, &mut null_mut())
}

/// Maps `len` bytes of device memory, and lets the NIC write them and read them back. `read` reads
/// them by the runtime.
fn goes_through(
    rig: &mut Rig,
    index: u32,
    va: usize,
    len: usize,
    hints: Option<cxi_md_hints>,
    read: &dyn Fn(usize, &mut [u8]),
) {
    let mut md = null_mut();
    assert_eq!(map(rig, va, len, DEVICE, hints, &mut md), 0);
    let base = without_provenance_mut(va);
    let mapped = Buffer::mapped(Pages { base, len }, md);
    assert_ne!(rig.buffer(PAGE).lac, mapped.lac, "not its own context");
    let mut around = vec![0; len + 2];
    read(va - 1, &mut around);
    let (before, after) = (around[0], around[len + 1]);
    let pattern = round_trip(rig, index, &mapped);
    read(va - 1, &mut around);
    assert_eq!((around[0], around[len + 1]), (before, after));
    assert!(around[1..=len] == pattern);
    assert_eq!(call!(cxil_unmap(md)), 0);
}

/// Ranges inside an allocation at `base`.
fn ranges(base: usize) -> [(u32, usize, usize); 3] {
    let page = base.next_multiple_of(PEER_PAGE);
    [(0, page + PAGE, 2 * PAGE), (2, page + PAGE + 100, 3000), (4, page + 2 * PAGE - 9, 18)]
}

/// Checks that no mapping reaches beyond the end of an allocation.
fn rejects_range_beyond(rig: &Rig, end: usize, errno: i32) {
    assert_eq!(refused(rig, end - 10, 11, DEVICE, None), errno);
    assert_eq!(refused(rig, end, 1, DEVICE, None), errno);
}

/// Checks flags, descriptors and memory that no mapping of device memory accepts.
fn what_is_refused(rig: &Rig, base: usize, errno: i32) {
    let host_pages = Pages::new(PAGE);
    let host = host_pages.base.addr();
    assert_eq!(refused(rig, host, PAGE, DEVICE, None), errno);
    assert_eq!(refused(rig, base, 100, RW, None), EFAULT);
    let reserved = DEVICE | CXI_MAP_ALLOC_MD;
    assert_eq!(refused(rig, base, 100, reserved, None), EOPNOTSUPP);
    let on_demand = DEVICE & !CXI_MAP_PIN;
    assert_eq!(refused(rig, base, 100, on_demand, None), EOPNOTSUPP);
    for fd in [-1, 1000] {
        let hints = Some(hints(fd, 0));
        assert_eq!(refused(rig, base, 100, DEVICE, hints), EBADF);
    }
    // A file of no GPU.
    let hints = Some(hints(0, 0));
    assert_eq!(refused(rig, host, PAGE, DEVICE, hints), EINVAL);
}

#[test]
fn maps_cuda_memory() {
    alone!();
    load("libcuda.so.1", "cuda.c");
    let mut rig = Rig::new();
    let api = Cuda::load().unwrap();
    let (mut context, mut base) = (null_mut(), 0);
    done!((api.cuInit)(0));
    done!((api.cuDevicePrimaryCtxRetain)(&raw mut context, 1));
    done!((api.cuCtxPushCurrent_v2)(context));
    done!((api.cuMemAlloc_v2)(&raw mut base, LEN));
    // The engine must push the context itself.
    done!((api.cuCtxPopCurrent_v2)(&raw mut context));
    let read = |from: usize, bytes: &mut [u8]| {
        let (to, mut popped) = (bytes.as_mut_ptr().cast(), null_mut());
        done!((api.cuCtxPushCurrent_v2)(context));
        done!((api.cuMemcpyDtoH_v2)(to, from as u64, bytes.len()));
        done!((api.cuCtxPopCurrent_v2)(&raw mut popped));
    };
    for (index, va, len) in ranges(base as usize) {
        goes_through(&mut rig, index, va, len, None, &read);
    }
    what_is_refused(&rig, base as usize, EINVAL);
    rejects_range_beyond(&rig, base as usize + LEN, EINVAL);
    // Programs poll event queues, so they cannot lie in device memory; device memory cannot be
    // replaced.
    let page = (base as usize).next_multiple_of(PEER_PAGE);
    let mut md = null_mut();
    assert_eq!(map(&rig, page + 3, 8, DEVICE, None, &mut md), 0);
    // SAFETY: `cxil_map` returned `md`.
    let mapped = unsafe { *md };
    assert_eq!((mapped.va, mapped.len), (page as u64, PEER_PAGE));
    assert_eq!(call!(cxil_unmap(md)), 0);
    // Its first page lies outside the allocation.
    if !(base as usize).is_multiple_of(PEER_PAGE) {
        assert_eq!(refused(&rig, base as usize, 8, DEVICE, None), EINVAL);
    }
    assert_eq!(map(&rig, page, PAGE, DEVICE, None, &mut md), 0);
    let queue: *mut c_void = without_provenance_mut(page);
    let attr = attributes(queue, PAGE);
    let (none, mut eq) = (null_mut(), null_mut());
    let code = call!(cxil_alloc_evtq(rig.lni, md, &attr, none, none, &mut eq));
    assert_eq!(code, -EINVAL);
    assert_eq!(call!(cxil_update_md(md, queue, PAGE, RW)), -EINVAL);
    assert_eq!(call!(cxil_unmap(md)), 0);
}

#[test]
fn maps_hip_memory() {
    alone!();
    let library = load("libamdhip64.so", "hip.c");
    let mut rig = Rig::new();
    let api = Hip::load().unwrap();
    let mut base = null_mut();
    done!((api.hipInit)(0));
    done!((api.hipMalloc)(&raw mut base, LEN));
    let read = |from: usize, bytes: &mut [u8]| {
        let (to, from) = (bytes.as_mut_ptr().cast(), without_provenance_mut(from));
        done!((api.hipMemcpy)(to, from, bytes.len(), 2));
    };
    for (index, va, len) in ranges(base.addr()) {
        goes_through(&mut rig, index, va, len, None, &read);
    }
    what_is_refused(&rig, base.addr(), ENOENT);
    rejects_range_beyond(&rig, base.addr() + LEN, ENOENT);
    // Host memory that HIP allocated is not device memory.
    type HostMalloc = unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
    // SAFETY: `library` was returned by dlopen(3) and is never closed.
    let symbol = unsafe { libc::dlsym(library, c"hipHostMalloc".as_ptr()) };
    // SAFETY: the function has this type in HIP's header.
    let allocate = unsafe { std::mem::transmute::<*mut c_void, HostMalloc>(symbol) };
    let mut pinned = null_mut();
    done!(allocate(&raw mut pinned, PAGE, 0));
    assert_eq!(refused(&rig, pinned.addr(), PAGE, DEVICE, None), ENOENT);
}

/// The dma-buf identifies the memory; the mapping may begin anywhere in it.
#[test]
fn maps_level_zero_memory() {
    alone!();
    load("libze_loader.so.1", "level_zero.c");
    let mut rig = Rig::new();
    let api = LevelZero::load().unwrap();
    let (mut count, mut drivers) = (2, [null_mut(); 2]);
    done!((api.zeInit)(ZE_INIT_FLAG_GPU_ONLY));
    done!((api.zeDriverGet)(&raw mut count, drivers.as_mut_ptr()));
    // The memory is on the second GPU.
    let (mut count, mut device) = (1, null_mut());
    done!((api.zeDeviceGet)(drivers[1], &raw mut count, &raw mut device));
    let desc = ZeContextDesc { stype: ZeStructure::ContextDesc, next: null(), flags: 0 };
    let mut context = null_mut();
    done!((api.zeContextCreate)(drivers[1], &raw const desc, &raw mut context));
    let exportable = ZeExternalMemoryExportDesc {
        stype: ZeStructure::ExternalMemoryExportDesc,
        next: null(),
        flags: ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
    };
    let desc = ZeDeviceMemAllocDesc {
        stype: ZeStructure::DeviceMemAllocDesc,
        next: (&raw const exportable).cast(),
        flags: 0,
        ordinal: 0,
    };
    let mut base = null_mut();
    let place = &raw mut base;
    done!((api.zeMemAllocDevice)(context, &raw const desc, LEN, PAGE, device, place));
    let mut file = ZeExternalMemoryFd {
        stype: ZeStructure::ExternalMemoryExportFd,
        next: null_mut(),
        flags: ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF,
        fd: -1,
    };
    let mut properties = ZeMemoryAllocationProperties {
        stype: ZeStructure::MemoryAllocationProperties,
        next: (&raw mut file).cast(),
        kind: 0,
        id: 0,
        page_size: 0,
    };
    let place = &raw mut properties;
    done!((api.zeMemGetAllocProperties)(context, base, place, null_mut()));
    let fd = file.fd;
    let queue = ZeCommandQueueDesc {
        stype: ZeStructure::CommandQueueDesc,
        next: null(),
        ordinal: 0,
        index: 0,
        flags: 0,
        mode: ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS,
        priority: 0,
    };
    let mut list = null_mut();
    let place = &raw mut list;
    done!((api.zeCommandListCreateImmediate)(context, device, &raw const queue, place));
    let copy = api.zeCommandListAppendMemoryCopy;
    let read = |from: usize, bytes: &mut [u8]| {
        let (to, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        let from: *const c_void = without_provenance_mut(from);
        done!(copy(list, to, from, len, null_mut(), 0, null_mut()));
    };
    let offset = |va: usize| va - base.addr();
    for (index, va, len) in ranges(base.addr()) {
        let hints = Some(hints(fd, offset(va)));
        goes_through(&mut rig, index, va, len, hints, &read);
    }
    what_is_refused(&rig, base.addr(), ENODEV);
    assert_eq!(refused(&rig, base.addr(), 100, DEVICE, None), ENODEV);
    for (offset, errno) in [(LEN - 99, EFAULT), (usize::MAX, EINVAL)] {
        let beyond = Some(hints(fd, offset));
        assert_eq!(refused(&rig, base.addr(), 100, DEVICE, beyond), errno);
    }
}
