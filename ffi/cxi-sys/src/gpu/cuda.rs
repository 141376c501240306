//! The CUDA driver API (`cuda.h`), which NVIDIA's driver installs.

use std::ffi::{c_char, c_int, c_void};

/// `CUdevice`.
pub type CuDevice = c_int;

/// `CUcontext`.
pub type CuContext = *mut c_void;

/// `CUdeviceptr`.
pub type CuPointer = u64;

/// `CUresult`; 0 is success.
pub type CuResult = c_int;

/// `CUDA_SUCCESS`.
pub const CUDA_SUCCESS: CuResult = 0;

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const CUDA_ERROR_OUT_OF_MEMORY: CuResult = 2;

/// `CUDA_ERROR_NO_DEVICE`.
pub const CUDA_ERROR_NO_DEVICE: CuResult = 100;

/// `CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED`.
pub const DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: c_int = 124;

/// `CU_POINTER_ATTRIBUTE_CONTEXT`: the context of the allocation.
pub const POINTER_ATTRIBUTE_CONTEXT: c_int = 1;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
pub const POINTER_ATTRIBUTE_MEMORY_TYPE: c_int = 2;

/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`: copies to the memory are complete when the call returns.
pub const POINTER_ATTRIBUTE_SYNC_MEMOPS: c_int = 6;

/// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR`: the start of the allocation.
pub const POINTER_ATTRIBUTE_RANGE_START_ADDR: c_int = 11;

/// `CU_POINTER_ATTRIBUTE_RANGE_SIZE`: the size of the allocation.
pub const POINTER_ATTRIBUTE_RANGE_SIZE: c_int = 12;

/// `CU_MEMORYTYPE_DEVICE`.
pub const MEMORYTYPE_DEVICE: u32 = 2;

/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
pub const MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD: c_int = 1;

super::runtime! {
    /// The CUDA driver API.
    Cuda of &["libcuda.so.1"];
    required {
        cuInit: fn(u32) -> CuResult;
        cuGetErrorString: fn(CuResult, *mut *const c_char) -> CuResult;
        cuDeviceGetCount: fn(*mut c_int) -> CuResult;
        cuDeviceGet: fn(*mut CuDevice, c_int) -> CuResult;
        cuDeviceGetAttribute: fn(*mut c_int, c_int, CuDevice) -> CuResult;
        cuDevicePrimaryCtxRetain: fn(*mut CuContext, CuDevice) -> CuResult;
        cuDevicePrimaryCtxRelease_v2: fn(CuDevice) -> CuResult;
        cuCtxPushCurrent_v2: fn(CuContext) -> CuResult;
        cuCtxPopCurrent_v2: fn(*mut CuContext) -> CuResult;
        cuCtxSynchronize: fn() -> CuResult;
        cuMemAlloc_v2: fn(*mut CuPointer, usize) -> CuResult;
        cuMemFree_v2: fn(CuPointer) -> CuResult;
        cuMemcpyHtoD_v2: fn(CuPointer, *const c_void, usize) -> CuResult;
        cuMemcpyDtoH_v2: fn(*mut c_void, CuPointer, usize) -> CuResult;
        cuMemsetD8_v2: fn(CuPointer, u8, usize) -> CuResult;
        cuPointerGetAttribute: fn(*mut c_void, c_int, CuPointer) -> CuResult;
        cuPointerSetAttribute: fn(*const c_void, c_int, CuPointer) -> CuResult;
    }
    optional {
        cuDeviceGetPCIBusId: fn(*mut c_char, c_int, CuDevice) -> CuResult;
        cuMemGetHandleForAddressRange: fn(*mut c_void, CuPointer, usize, c_int, u64) -> CuResult;
    }
}
