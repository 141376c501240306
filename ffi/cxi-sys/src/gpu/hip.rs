//! HIP (`hip_runtime_api.h`) for GPUs of AMD, and the function of the ROCm runtime below it that
//! exports memory as a dma-buf (`hsa_ext_amd.h`).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `hipError_t`; 0 is success.
pub type HipError = c_int;

/// `hipSuccess`.
pub const HIP_SUCCESS: HipError = 0;

/// `hipErrorOutOfMemory`.
pub const HIP_ERROR_OUT_OF_MEMORY: HipError = 2;

/// `hipErrorNoDevice`.
pub const HIP_ERROR_NO_DEVICE: HipError = 100;

/// `hipMemcpyHostToDevice`.
pub const HIP_MEMCPY_HOST_TO_DEVICE: c_int = 1;

/// `hipMemcpyDeviceToHost`.
pub const HIP_MEMCPY_DEVICE_TO_HOST: c_int = 2;

/// `hipPointerAttribute_t`. HIP 6 changed the values of `kind` and nothing else.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HipPointerAttributes {
    /// `memoryType`; `type` since HIP 6.
    pub kind: c_int,
    /// Ordinal of the device.
    pub device: c_int,
    /// Address on the device; null for memory that HIP did not allocate.
    pub device_pointer: *mut c_void,
    /// Address on the CPU; null for device memory.
    pub host_pointer: *mut c_void,
    /// Whether the memory migrates between CPU and device.
    pub is_managed: c_int,
    /// Flags of the allocation.
    pub allocation_flags: c_uint,
}

super::runtime! {
    /// The HIP runtime. The name without a version exists with ROCm's development files, and is a
    /// link to the release that the administrator chose.
    Hip of &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    required {
        hipInit: fn(c_uint) -> HipError;
        hipGetErrorString: fn(HipError) -> *const c_char;
        hipGetDeviceCount: fn(*mut c_int) -> HipError;
        hipSetDevice: fn(c_int) -> HipError;
        hipMalloc: fn(*mut *mut c_void, usize) -> HipError;
        hipFree: fn(*mut c_void) -> HipError;
        hipMemcpy: fn(*mut c_void, *const c_void, usize, c_int) -> HipError;
        hipMemset: fn(*mut c_void, c_int, usize) -> HipError;
        hipDeviceSynchronize: fn() -> HipError;
        hipPointerGetAttributes: fn(*mut HipPointerAttributes, *const c_void) -> HipError;
    }
    optional {
        hipDeviceGetPCIBusId: fn(*mut c_char, c_int, c_int) -> HipError;
    }
}

super::runtime! {
    /// The ROCm runtime below HIP, which HIP loads and initialises.
    Hsa of &["libhsa-runtime64.so.1"];
    required {
        hsa_amd_portable_export_dmabuf: fn(*const c_void, usize, *mut c_int, *mut u64) -> c_int;
    }
    optional {}
}
