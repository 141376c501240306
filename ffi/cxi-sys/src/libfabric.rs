//! What an installed libfabric says about itself: its version, the names of its settings, and the
//! sizes that it uses.
//!
//! The offsets hold for LP64. They were compiled from include/rdma/fabric.h of 1.15.0, 1.20.0,
//! 2.0.0 and main, which agree: later releases only append. Whether aarch64 has these offsets is
//! `[I]`.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::ptr;

use libloading::Library;

use crate::LoadError;

/// Version 1.15 of the interface, which each libfabric since then answers.
const ASKED_VERSION: u32 = 0x0001_000f;

/// Most entries of a list: a longer one is damaged.
const MOST_ENTRIES: usize = 65_536;

// struct fi_param
const PARAM_SIZE: usize = 32;
const PARAM_NAME: usize = 0;
const PARAM_TYPE: usize = 8;
// struct fi_info
const INFO_NEXT: usize = 0;
const INFO_TX_ATTR: usize = 72;
const INFO_RX_ATTR: usize = 80;
const INFO_FABRIC_ATTR: usize = 104;
// struct fi_tx_attr and struct fi_rx_attr
const ATTR_SIZE: usize = 48;
// struct fi_fabric_attr
const FABRIC_PROV_NAME: usize = 16;

/// What a libfabric says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricAnswer {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Each name that core and providers registered, with its type: 0 text, 1 int, 2 bool, 3 size.
    pub parameters: Vec<(String, i32)>,
    /// The entries of `fi_getinfo`; none if it found no provider.
    pub entries: Vec<FabricEntry>,
}

/// An entry of `fi_getinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricEntry {
    /// Name of the provider, such as `cxi` or `tcp;ofi_rxm`.
    pub provider: String,
    /// Size of the transmit queue.
    pub tx_size: u64,
    /// Size of the receive queue.
    pub rx_size: u64,
}

type Version = unsafe extern "C" fn() -> u32;
type GetParams = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
type FreeParams = unsafe extern "C" fn(*mut c_void);
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const c_void,
    *mut *mut c_void,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut c_void);

/// Loads the libfabric at `path` and asks it. Providers start, set variables of the environment and
/// open NICs for a moment: call this in a process of its own. The library stays loaded.
///
/// # Errors
///
/// A library that cannot be loaded, or that lacks a function.
pub fn ask(path: &OsStr) -> Result<FabricAnswer, LoadError> {
    // SAFETY: the constructors of libfabric and of its dependencies have no preconditions.
    let library = unsafe { Library::new(path) }.map_err(LoadError::Open)?;
    macro_rules! function {
        ($type:ty, $name:literal) => {{
            // SAFETY: the function of this name has this type in libfabric's headers.
            let symbol = unsafe { library.get::<$type>(concat!($name, "\0").as_bytes()) };
            *symbol.map_err(|_| LoadError::Symbol($name))?
        }};
    }
    let fi_version = function!(Version, "fi_version");
    let fi_getparams = function!(GetParams, "fi_getparams");
    let fi_freeparams = function!(FreeParams, "fi_freeparams");
    // Both without a version: the default version of each belongs to the other's.
    let fi_getinfo = function!(GetInfo, "fi_getinfo");
    let fi_freeinfo = function!(FreeInfo, "fi_freeinfo");
    std::mem::forget(library);

    // SAFETY: the function takes nothing.
    let version = unsafe { fi_version() };
    let mut answer =
        FabricAnswer { version: (version >> 16, version & 0xffff), ..FabricAnswer::default() };

    let (mut params, mut count) = (ptr::null_mut(), 0);
    // SAFETY: both pointers are to variables that live during the call.
    let status = unsafe { fi_getparams(&raw mut params, &raw mut count) };
    if status == 0 && !params.is_null() {
        let count = usize::try_from(count).unwrap_or_default().min(MOST_ENTRIES);
        for index in 0..count {
            let entry = params.wrapping_byte_add(index * PARAM_SIZE);
            // SAFETY: `fi_getparams` returned an array of at least `count` entries.
            let name = unsafe { text(entry, PARAM_NAME) };
            // SAFETY: `fi_getparams` returned an array of at least `count` entries. Their type is
            // an enum, which has the size of an int.
            let kind = unsafe { field::<c_int>(entry, PARAM_TYPE) };
            answer.parameters.extend(name.map(|name| (name, kind)));
        }
        // SAFETY: `params` was returned by `fi_getparams`, and nothing points into it any more.
        unsafe { fi_freeparams(params) };
    }

    let mut infos = ptr::null_mut();
    let (none, no_hints) = (ptr::null(), ptr::null());
    // SAFETY: node, service and hints may be null; `infos` lives during the call.
    let status = unsafe { fi_getinfo(ASKED_VERSION, none, none, 0, no_hints, &raw mut infos) };
    if status == 0 {
        let mut info = infos;
        while !info.is_null() && answer.entries.len() < MOST_ENTRIES {
            // SAFETY: `info` is an entry of the list that `fi_getinfo` returned.
            answer.entries.extend(unsafe { entry(info) });
            // SAFETY: `info` is an entry of the list that `fi_getinfo` returned.
            info = unsafe { field(info, INFO_NEXT) };
        }
        if !infos.is_null() {
            // SAFETY: `infos` was returned by `fi_getinfo`, and nothing points into it any more.
            unsafe { fi_freeinfo(infos) };
        }
    }
    Ok(answer)
}

/// An entry of the list of `fi_getinfo`; `None` if it lacks a part.
///
/// # Safety
///
/// `info` points to a `struct fi_info` of libfabric.
unsafe fn entry(info: *const c_void) -> Option<FabricEntry> {
    let part = |offset| {
        // SAFETY: the caller passes a `struct fi_info`, which has pointers at these offsets.
        let part: *const c_void = unsafe { field(info, offset) };
        (!part.is_null()).then_some(part)
    };
    let (tx, rx, fabric) = (part(INFO_TX_ATTR)?, part(INFO_RX_ATTR)?, part(INFO_FABRIC_ATTR)?);
    // SAFETY: `fabric` is the `struct fi_fabric_attr` of the entry.
    let provider = unsafe { text(fabric, FABRIC_PROV_NAME) }?;
    // SAFETY: `tx` is the `struct fi_tx_attr` of the entry.
    let tx_size = unsafe { field(tx, ATTR_SIZE) };
    // SAFETY: `rx` is the `struct fi_rx_attr` of the entry.
    let rx_size = unsafe { field(rx, ATTR_SIZE) };
    Some(FabricEntry { provider, tx_size, rx_size })
}

/// Reads a field of a structure.
///
/// # Safety
///
/// The structure at `base` has an initialized field of type `T` at `offset`.
unsafe fn field<T: Copy>(base: *const c_void, offset: usize) -> T {
    let field = base.wrapping_byte_add(offset).cast::<T>();
    // SAFETY: the caller guarantees the field.
    unsafe { field.read_unaligned() }
}

/// Reads the text that a field points to; `None` if it is null.
///
/// # Safety
///
/// The structure at `base` has a pointer at `offset` that is null or points to a C string.
unsafe fn text(base: *const c_void, offset: usize) -> Option<String> {
    // SAFETY: the caller guarantees the pointer.
    let text: *const c_char = unsafe { field(base, offset) };
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees the C string.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
