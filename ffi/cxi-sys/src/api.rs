//! The table of libcxi functions.

use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::fmt;

use libloading::Library;

use crate::bindings::*;

/// The reason why a library cannot be used as libcxi.
#[derive(Debug)]
pub enum LoadError {
    /// The dynamic linker cannot open it.
    Open(libloading::Error),
    /// It lacks this function, which every libcxi has: its symbol node is the oldest one.
    Symbol(&'static str),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Symbol(name) => write!(f, "the library has no function {name}"),
        }
    }
}

impl std::error::Error for LoadError {}

macro_rules! api {
    (
        required { $($name:ident: fn($($arg:ident: $type:ty),*) $(-> $ret:ty)?,)* }
        optional { $($node:literal $opt_name:ident: fn($($opt_arg:ident: $opt_type:ty),*) $(-> $opt_ret:ty)?,)* }
    ) => {
        /// The libcxi functions that cxidiag calls, under their C names.
        ///
        /// Each function has the arguments, results and preconditions of the libcxi function of
        /// that name (libcxi.md 1 to 8).
        #[derive(Clone, Copy)]
        pub struct Api {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub $name: unsafe extern "C" fn($($arg: $type),*) $(-> $ret)?,
            )*
            $(
                #[doc = concat!("`", stringify!($opt_name), "`, of symbol node `", $node, "`.")]
                pub $opt_name: Option<unsafe extern "C" fn($($opt_arg: $opt_type),*) $(-> $opt_ret)?>,
            )*
            /// Runs the engine of a software NIC in the calling thread. The caller runs it after
            /// each doorbell, and when it polls an empty event queue. libcxi has no such function:
            /// `None` on hardware.
            pub progress: Option<unsafe extern "C" fn(*mut cxil_dev)>,
        }

        // Compiles only if the prototypes in cxi.h have the types above.
        const _: () = {
            $(let _: unsafe extern "C" fn($($type),*) $(-> $ret)? = $name;)*
            $(let _: unsafe extern "C" fn($($opt_type),*) $(-> $opt_ret)? = $opt_name;)*
        };

        impl Api {
            /// The functions without which a library is refused.
            pub const REQUIRED: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The functions that a library may lack, with the symbol nodes of libcxi that have
            /// them (libcxi.md 1).
            pub const OPTIONAL: &'static [(&'static str, &'static str)] =
                &[$((stringify!($opt_name), $node)),*];

            fn of(library: &Library) -> Result<Self, LoadError> {
                Ok(Self {
                    $($name: {
                        // SAFETY: the function of this name has this type in every libcxi
                        // (abi.json).
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| LoadError::Symbol(stringify!($name)))?
                    },)*
                    $($opt_name: {
                        // SAFETY: the function of this name, if it exists, has this type in every
                        // libcxi (abi.json).
                        let symbol = unsafe { library.get(concat!(stringify!($opt_name), "\0").as_bytes()) };
                        symbol.ok().map(|function| *function)
                    },)*
                    progress: None,
                })
            }
        }
    };
}

api! {
    required {
        cxil_get_device_list: fn(dev_list: *mut *mut cxil_device_list) -> c_int,
        cxil_free_device_list: fn(dev_list: *mut cxil_device_list),
        cxil_open_device: fn(dev_id: u32, dev: *mut *mut cxil_dev) -> c_int,
        cxil_close_device: fn(dev: *mut cxil_dev),
        cxil_alloc_lni: fn(dev: *mut cxil_dev, lni: *mut *mut cxil_lni, svc_id: c_uint) -> c_int,
        cxil_destroy_lni: fn(lni: *mut cxil_lni) -> c_int,
        cxil_alloc_cp: fn(lni: *mut cxil_lni, vni: c_uint, tc: cxi_traffic_class, tc_type: cxi_traffic_class_type, cp: *mut *mut cxi_cp) -> c_int,
        cxil_destroy_cp: fn(cp: *mut cxi_cp) -> c_int,
        cxil_alloc_domain: fn(lni: *mut cxil_lni, vni: c_uint, pid: c_uint, domain: *mut *mut cxil_domain) -> c_int,
        cxil_destroy_domain: fn(domain: *mut cxil_domain) -> c_int,
        cxil_map: fn(lni: *mut cxil_lni, va: *mut c_void, len: usize, flags: u32, hints: *mut cxi_md_hints, md: *mut *mut cxi_md) -> c_int,
        cxil_unmap: fn(md: *mut cxi_md) -> c_int,
        cxil_alloc_evtq: fn(lni: *mut cxil_lni, md: *const cxi_md, attr: *const cxi_eq_attr, event_wait: *mut cxil_wait_obj, status_wait: *mut cxil_wait_obj, evtq: *mut *mut cxi_eq) -> c_int,
        cxil_destroy_evtq: fn(evtq: *mut cxi_eq) -> c_int,
        cxil_alloc_cmdq: fn(lni: *mut cxil_lni, evtq: *mut cxi_eq, opts: *const cxi_cq_alloc_opts, cmdq: *mut *mut cxi_cq) -> c_int,
        cxil_destroy_cmdq: fn(cmdq: *mut cxi_cq) -> c_int,
        cxil_alloc_ct: fn(lni: *mut cxil_lni, wb: *mut c_ct_writeback, ct: *mut *mut cxi_ct) -> c_int,
        cxil_ct_wb_update: fn(ct: *mut cxi_ct, wb: *mut c_ct_writeback) -> c_int,
        cxil_destroy_ct: fn(ct: *mut cxi_ct) -> c_int,
        cxil_alloc_pte: fn(lni: *mut cxil_lni, evtq: *mut cxi_eq, opts: *mut cxi_pt_alloc_opts, pte: *mut *mut cxil_pte) -> c_int,
        cxil_destroy_pte: fn(pte: *mut cxil_pte) -> c_int,
        cxil_map_pte: fn(pte: *mut cxil_pte, domain: *mut cxil_domain, pid_offset: c_uint, is_multicast: bool, pte_map: *mut *mut cxil_pte_map) -> c_int,
        cxil_unmap_pte: fn(pte_map: *mut cxil_pte_map) -> c_int,
    }
    optional {
        "LIBCXI_1.2" cxil_get_svc: fn(dev: *mut cxil_dev, svc_id: c_uint, svc_desc: *mut cxi_svc_desc) -> c_int,
        "LIBCXI_1.0" cxil_get_svc_list: fn(dev: *mut cxil_dev, svc_list: *mut *mut cxil_svc_list) -> c_int,
        "LIBCXI_1.0" cxil_free_svc_list: fn(svc_list: *mut cxil_svc_list),
        "LIBCXI_1.5" cxil_get_svc_rsrc_use: fn(dev: *mut cxil_dev, svc_id: c_uint, rsrcs: *mut cxi_rsrc_use) -> c_int,
        "LIBCXI_1.8" cxil_get_svc_lpr: fn(dev: *mut cxil_dev, svc_id: c_uint) -> c_int,
        "LIBCXI_1.9" cxil_alloc_trig_cp: fn(lni: *mut cxil_lni, vni: c_uint, tc: cxi_traffic_class, tc_type: cxi_traffic_class_type, cp_type: cxi_trig_cp, cp: *mut *mut cxi_cp) -> c_int,
        "LIBCXI_1.0" cxil_pte_status: fn(pte: *mut cxil_pte, status: *mut cxi_pte_status) -> c_int,
        "LIBCXI_1.9" cxil_svc_get_vni_range: fn(dev: *mut cxil_dev, svc_id: c_uint, vni_min: *mut u16, vni_max: *mut u16) -> c_int,
    }
}

impl Api {
    /// Opens a libcxi, for instance `libcxi.so.1`, and looks up its functions.
    ///
    /// The library is never unloaded, because nothing records when its last object is released.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(path: &OsStr) -> Result<Self, LoadError> {
        // SAFETY: loading runs the constructors of the library; the user guarantees that it is a
        // libcxi.
        let library = unsafe { Library::new(path) }.map_err(LoadError::Open)?;
        let api = Self::of(&library)?;
        std::mem::forget(library);
        Ok(api)
    }
}
