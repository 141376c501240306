//! Level Zero (`ze_api.h`) for GPUs of Intel.

use std::ffi::{c_int, c_void};

/// A handle: of a driver, a device, a context, a command list or an event.
pub type ZeHandle = *mut c_void;

/// `ze_result_t`; 0 is success.
pub type ZeResult = u32;

/// `ZE_RESULT_SUCCESS`.
pub const ZE_RESULT_SUCCESS: ZeResult = 0;

/// `ZE_RESULT_ERROR_UNINITIALIZED`: also the result of the loader if it finds no driver.
pub const ZE_RESULT_ERROR_UNINITIALIZED: ZeResult = 0x7800_0001;

/// Texts of the likely results; Level Zero has no function for them.
pub const ZE_RESULTS: &[(ZeResult, &str)] = &[
    (0x7000_0001, "device lost"),
    (0x7000_0002, "out of host memory"),
    (0x7000_0003, "out of device memory"),
    (0x7001_0000, "insufficient permissions"),
    (0x7001_0001, "not available"),
    (0x7002_0000, "dependency unavailable"),
    (ZE_RESULT_ERROR_UNINITIALIZED, "uninitialized"),
    (0x7800_0002, "unsupported version"),
    (0x7800_0003, "unsupported feature"),
    (0x7800_0004, "invalid argument"),
    (0x7800_0008, "invalid size"),
    (0x7800_0009, "unsupported size"),
    (0x7fff_fffe, "unknown error"),
];

/// `ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY`, `ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY`, and
/// `ZE_RESULT_ERROR_UNSUPPORTED_SIZE`, the result for a buffer that is too large for one
/// allocation.
pub const ZE_OUT_OF_MEMORY: [ZeResult; 3] = [0x7000_0002, 0x7000_0003, 0x7800_0009];

/// `ZE_INIT_FLAG_GPU_ONLY`.
pub const ZE_INIT_FLAG_GPU_ONLY: u32 = 1;

/// `ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF`.
pub const ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF: u32 = 2;

/// `ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS`: a command is complete when the call that adds it returns.
pub const ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS: c_int = 1;

/// `ze_structure_type_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "ZE_STRUCTURE_TYPE_* of the structures below")]
pub enum ZeStructure {
    ContextDesc = 0xd,
    CommandQueueDesc = 0xe,
    DeviceMemAllocDesc = 0x15,
    MemoryAllocationProperties = 0x17,
    ExternalMemoryExportDesc = 0x18,
    ExternalMemoryImportFd = 0x19,
    ExternalMemoryExportFd = 0x1a,
}

/// `ze_context_desc_t`.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeContextDesc {
    pub stype: ZeStructure,
    pub next: *const c_void,
    pub flags: u32,
}

/// `ze_command_queue_desc_t`.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeCommandQueueDesc {
    pub stype: ZeStructure,
    pub next: *const c_void,
    pub ordinal: u32,
    pub index: u32,
    pub flags: u32,
    pub mode: c_int,
    pub priority: c_int,
}

/// `ze_device_mem_alloc_desc_t`.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeDeviceMemAllocDesc {
    pub stype: ZeStructure,
    pub next: *const c_void,
    pub flags: u32,
    pub ordinal: u32,
}

/// `ze_external_memory_export_desc_t`.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeExternalMemoryExportDesc {
    pub stype: ZeStructure,
    pub next: *const c_void,
    pub flags: u32,
}

/// `ze_external_memory_export_fd_t` and `ze_external_memory_import_fd_t`, which have the same
/// fields.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeExternalMemoryFd {
    pub stype: ZeStructure,
    pub next: *mut c_void,
    pub flags: u32,
    pub fd: c_int,
}

/// `ze_memory_allocation_properties_t`.
#[repr(C)]
#[allow(missing_docs, reason = "fields as in C")]
pub struct ZeMemoryAllocationProperties {
    pub stype: ZeStructure,
    pub next: *mut c_void,
    pub kind: c_int,
    pub id: u64,
    pub page_size: u64,
}

super::runtime! {
    /// The loader of Level Zero, which loads the drivers.
    LevelZero of &["libze_loader.so.1"];
    required {
        zeInit: fn(u32) -> ZeResult;
        zeDriverGet: fn(*mut u32, *mut ZeHandle) -> ZeResult;
        zeDeviceGet: fn(ZeHandle, *mut u32, *mut ZeHandle) -> ZeResult;
        zeContextCreate: fn(ZeHandle, *const ZeContextDesc, *mut ZeHandle) -> ZeResult;
        zeContextDestroy: fn(ZeHandle) -> ZeResult;
        zeMemAllocDevice: fn(ZeHandle, *const ZeDeviceMemAllocDesc, usize, usize, ZeHandle, *mut *mut c_void) -> ZeResult;
        zeMemFree: fn(ZeHandle, *mut c_void) -> ZeResult;
        zeMemGetAllocProperties: fn(ZeHandle, *const c_void, *mut ZeMemoryAllocationProperties, *mut ZeHandle) -> ZeResult;
        zeCommandListCreateImmediate: fn(ZeHandle, ZeHandle, *const ZeCommandQueueDesc, *mut ZeHandle) -> ZeResult;
        zeCommandListDestroy: fn(ZeHandle) -> ZeResult;
        zeCommandListAppendMemoryCopy: fn(ZeHandle, *mut c_void, *const c_void, usize, ZeHandle, u32, *mut ZeHandle) -> ZeResult;
        zeCommandListAppendMemoryFill: fn(ZeHandle, *mut c_void, *const c_void, usize, usize, ZeHandle, u32, *mut ZeHandle) -> ZeResult;
    }
    optional {}
}
