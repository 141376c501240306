//! Memory of GPUs, with stand-ins of their runtimes and a software NIC: arguments of the mapping,
//! copies and release order.

use std::cell::Cell;
use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::process::Command;

use cxi::gpu::{GpuType, Gpus, MapWay, PAGE};
use cxi::sys::*;
use cxi::{Device, Library, Lni, MemoryRegion};

/// The arguments of `cxil_map`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mapped {
    va: usize,
    len: usize,
    flags: u32,
    /// Descriptor and offset of the dma-buf, if there are hints.
    dma_buf: Option<(c_int, u64)>,
}

/// `device_find` of a stand-in: returns the buffer that contains an address. Its first member is
/// its start.
type Find = unsafe extern "C" fn(*const c_void) -> *const usize;

thread_local! {
    static MAPPED: Cell<Option<Mapped>> = const { Cell::new(None) };
    static FIND: Cell<Option<Find>> = const { Cell::new(None) };
    /// Whether the memory was still allocated when it was unmapped.
    static ALLOCATED_AT_UNMAP: Cell<Option<bool>> = const { Cell::new(None) };
}

unsafe extern "C" fn map(
    lni: *mut cxil_lni,
    va: *mut c_void,
    len: usize,
    flags: u32,
    hints: *mut cxi_md_hints,
    md: *mut *mut cxi_md,
) -> c_int {
    // SAFETY: the wrapper passes null or valid hints.
    let dma_buf = unsafe { hints.as_ref() }.map(|hints| {
        let no_others = (hints.page_shift, hints.huge_shift, hints.ptg_mode_valid);
        assert_eq!(no_others, (0, 0, false));
        assert!(hints.dmabuf_valid);
        // SAFETY: F_GETFD accepts any descriptor number and changes nothing.
        assert!(unsafe { libc::fcntl(hints.dmabuf_fd, libc::F_GETFD) } >= 0);
        (hints.dmabuf_fd, hints.dmabuf_offset)
    });
    MAPPED.set(Some(Mapped { va: va.addr(), len, flags, dma_buf }));
    // SAFETY: the wrapper calls this function under the preconditions of libcxi, and the software
    // NIC is the library of all its objects.
    unsafe { (softnic::api().cxil_map)(lni, va, len, flags, hints, md) }
}

unsafe extern "C" fn unmap(md: *mut cxi_md) -> c_int {
    if let Some(Mapped { va, .. }) = MAPPED.get() {
        ALLOCATED_AT_UNMAP.set(Some(base(va).is_some()));
    }
    // SAFETY: the wrapper calls this function under the preconditions of libcxi, and the software
    // NIC is the library of all its objects.
    unsafe { (softnic::api().cxil_unmap)(md) }
}

/// The start of the buffer that contains an address.
fn base(va: usize) -> Option<usize> {
    let find = FIND.get().expect("a stand-in");
    // SAFETY: `device_find` accepts any address.
    let buffer = unsafe { find(std::ptr::without_provenance(va)) };
    // SAFETY: the result is null or points to a buffer, whose first member is its start.
    unsafe { buffer.as_ref() }.copied()
}

/// Builds a stand-in in the directory of its sources and loads it, so that the wrapper finds it by
/// name.
fn load(directory: &Path, name: &str, sources: &[&str], others: &[&str]) -> *mut c_void {
    let library = directory.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread"])
        .arg(format!("-Wl,-soname,{name}"))
        .arg("-o")
        .arg(&library)
        .args(sources.iter().map(|file| directory.join(file)))
        .args(others);
    assert!(cc.status().expect("cc starts").success());
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: the stand-in has no constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "{name}");
    handle
}

fn load_standin(kind: GpuType) {
    let directory = format!("gpu-{}-{kind}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    std::fs::create_dir_all(&directory).unwrap();
    cxi::sys::testing::write_gpu_runtimes(&directory).unwrap();
    let name = kind.libraries()[0];
    let source = match kind {
        GpuType::Amd => "hip.c",
        GpuType::Nvidia => "cuda.c",
        GpuType::Intel => "level_zero.c",
    };
    let handle = load(&directory, name, &[source, "device.c"], &[]);
    if kind == GpuType::Amd {
        let at = format!("-L{}", directory.display());
        let with = format!("-l:{name}");
        load(&directory, "libhsa-runtime64.so.1", &["hsa.c"], &[&at, &with]);
    }
    std::fs::remove_dir_all(&directory).unwrap();
    // SAFETY: `load` returned the handle of an open library.
    let symbol = unsafe { libc::dlsym(handle, c"device_find".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: `device_find` of device.h has this type.
    FIND.set(Some(unsafe { std::mem::transmute::<*mut c_void, Find>(symbol) }));
}

/// One test for all types: it checks descriptor numbers, which concurrent tests of a process would
/// reuse.
#[test]
fn maps_device_memory_and_frees_it_after_unmapping() {
    let mut api = softnic::api();
    api.cxil_map = map;
    api.cxil_unmap = unmap;
    let library = Library::from_api(api);
    let device = Device::open(&library, 0).unwrap();
    let lni = Lni::new(&device, CXI_DEFAULT_SVC_ID).unwrap();
    for (kind, only) in [
        (GpuType::Amd, None),
        (GpuType::Amd, Some(MapWay::DmaBuf)),
        (GpuType::Nvidia, None),
        (GpuType::Nvidia, Some(MapWay::DmaBuf)),
        (GpuType::Intel, None),
    ] {
        if only.is_none() {
            load_standin(kind);
        }
        let mut gpus = Gpus::open(kind).unwrap_or_else(|error| panic!("{kind}: {error:?}"));
        let is_exported = only.is_some() || kind == GpuType::Intel;
        if let Some(way) = only {
            gpus.map_only(way);
        }
        assert_eq!((gpus.kind(), gpus.count()), (kind, 2));
        for (len, allocated) in [(1, PAGE), (PAGE, PAGE), (PAGE + 1, 2 * PAGE)] {
            let memory = gpus.allocate(1, len).unwrap();
            assert_eq!(memory.len(), allocated);
            let rights = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
            let region = MemoryRegion::map(&lni, memory, rights).unwrap();
            assert_eq!(region.len(), allocated);
            let mapped = MAPPED.take().expect("a mapping");
            MAPPED.set(Some(mapped));
            assert_eq!(mapped.flags, 0x20d);
            assert_eq!(mapped.len, allocated);
            assert!(mapped.va.is_multiple_of(PAGE), "{kind}");
            let base = base(mapped.va).expect("a buffer");
            let way = [MapWay::Peer, MapWay::DmaBuf][usize::from(is_exported)];
            let map = region.gpu_map().expect("device memory");
            assert_eq!((map.way, map.refused), (way, None), "{kind}");
            assert_eq!(mapped.dma_buf.is_some(), is_exported, "{kind}");
            // CUDA exports the requested range; the others export the whole allocation.
            let expected = if kind == GpuType::Nvidia { 0 } else { mapped.va - base };
            if let Some((_, offset)) = mapped.dma_buf {
                assert_eq!(offset, expected as u64, "{kind}");
            }

            let mut bytes = vec![1; allocated];
            region.copy_out(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "{kind}");
            region.fill(0x5a).unwrap();
            region.copy_in(allocated - 3, b"end").unwrap();
            region.copy_in(5, b"begin").unwrap();
            region.copy_out(0, &mut bytes).unwrap();
            assert_eq!(&bytes[..11], b"ZZZZZbeginZ");
            assert_eq!(&bytes[allocated - 4..], b"Zend");

            region.close().unwrap();
            assert_eq!(ALLOCATED_AT_UNMAP.take(), Some(true), "{kind}");
            assert_eq!(self::base(mapped.va), None, "{kind}");
            if let Some((fd, _)) = mapped.dma_buf {
                // SAFETY: F_GETFD accepts any descriptor number and changes nothing.
                assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, -1, "{kind}");
            }
        }
        for (index, len) in [(2, 1), (u32::MAX, 1), (0, 0)] {
            let error = gpus.allocate(index, len).err().expect("a refusal");
            assert_eq!(error.errno(), libc::EINVAL);
        }
        for len in [usize::MAX, usize::MAX - PAGE, 1 << 40] {
            let error = gpus.allocate(0, len).err().expect("a refusal");
            assert_eq!(error.errno(), libc::ENOMEM);
        }
    }
}
