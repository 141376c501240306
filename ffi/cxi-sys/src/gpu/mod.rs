//! The raw interfaces of the GPU runtimes, filled from their shared libraries at run time.
//!
//! [`cuda::Cuda`] (NVIDIA, driver API), [`hip::Hip`] and [`hip::Hsa`] (AMD),
//! [`level_zero::LevelZero`] (Intel): the functions, constants and structures that buffers on a GPU
//! need, under their C names.

use std::fmt;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

pub mod cuda;
pub mod hip;
pub mod level_zero;

/// `RTLD_NOLOAD` of `<dlfcn.h>` on Linux: opens only a library that the process has already loaded.
const RTLD_NOLOAD: i32 = 4;

/// The reason why a library cannot be used as a GPU runtime.
#[derive(Debug)]
pub enum RuntimeLoadError {
    /// The dynamic linker cannot open it under any of its names.
    Open {
        /// The names, in the order in which they were tried.
        names: &'static [&'static str],
        /// The error of the dynamic linker for the first name.
        error: libloading::Error,
    },
    /// It lacks a required function.
    Symbol {
        /// The name of the library.
        library: &'static str,
        /// The name of the function.
        function: &'static str,
    },
}

impl fmt::Display for RuntimeLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { names, error } => {
                write!(f, "{error}")?;
                match names {
                    [_, others @ ..] if !others.is_empty() => {
                        write!(f, " (also tried {})", others.join(", "))
                    }
                    _ => Ok(()),
                }
            }
            Self::Symbol { library, function } => {
                write!(f, "{library} has no function {function}")
            }
        }
    }
}

impl std::error::Error for RuntimeLoadError {}

/// The libraries from which a table is filled.
#[derive(Clone, Copy)]
enum LibrarySource {
    /// Any library that the dynamic linker finds.
    Anywhere,
    /// A library that the process has already loaded.
    ThisProcess,
}

/// Opens the first of these libraries that exists, and returns its name with it.
///
/// The caller must not unload it: GPU runtimes start threads, so unloading them is not safe.
fn open(
    names: &'static [&'static str],
    from: LibrarySource,
) -> Result<(&'static str, Library), RuntimeLoadError> {
    let flags = match from {
        LibrarySource::Anywhere => RTLD_LAZY | RTLD_LOCAL,
        LibrarySource::ThisProcess => RTLD_LAZY | RTLD_NOLOAD,
    };
    let mut first = None;
    for name in names {
        // SAFETY: loading runs the constructors of the vendor's library, which have no
        // preconditions.
        match unsafe { Library::open(Some(name), flags) } {
            Ok(library) => return Ok((name, library)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(RuntimeLoadError::Open { names, error: first.unwrap_or(libloading::Error::DlOpenUnknown) })
}

/// Declares the table of a runtime: its functions under their C names.
macro_rules! runtime {
    (
        $(#[$meta:meta])*
        $table:ident of $names:expr;
        required { $($name:ident: fn($($arg:ty),*) -> $ret:ty;)* }
        optional { $($opt:ident: fn($($opt_arg:ty),*) -> $opt_ret:ty;)* }
    ) => {
        $(#[$meta])*
        #[allow(non_snake_case, reason = "the C names are the documentation")]
        #[derive(Clone, Copy)]
        pub struct $table {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub $name: unsafe extern "C" fn($($arg),*) -> $ret,
            )*
            $(
                #[doc = concat!("`", stringify!($opt), "`, which older libraries lack.")]
                pub $opt: Option<unsafe extern "C" fn($($opt_arg),*) -> $opt_ret>,
            )*
        }

        impl $table {
            /// Names of the library, in the order in which they are tried.
            pub const LIBRARIES: &'static [&'static str] = $names;

            /// Opens the library, which is never unloaded, and looks up its functions.
            ///
            /// # Errors
            ///
            /// See [`RuntimeLoadError`]($crate::gpu::LoadError).
            pub fn load() -> Result<Self, $crate::gpu::RuntimeLoadError> {
                Self::of($crate::gpu::LibrarySource::Anywhere)
            }

            /// Looks up the functions of the library if the process has already loaded it.
            pub fn loaded() -> Option<Self> {
                Self::of($crate::gpu::LibrarySource::ThisProcess).ok()
            }

            fn of(from: $crate::gpu::LibrarySource) -> Result<Self, $crate::gpu::RuntimeLoadError> {
                let (name, library) = $crate::gpu::open(Self::LIBRARIES, from)?;
                let table = Self {
                    $($name: {
                        // SAFETY: the function of this name has this type in the vendor's headers.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| $crate::gpu::RuntimeLoadError::Symbol {
                            library: name,
                            function: stringify!($name),
                        })?
                    },)*
                    $($opt: {
                        // SAFETY: the function of this name, if it exists, has this type in the
                        // vendor's headers.
                        let symbol = unsafe { library.get(concat!(stringify!($opt), "\0").as_bytes()) };
                        symbol.ok().map(|function| *function)
                    },)*
                };
                std::mem::forget(library);
                Ok(table)
            }
        }
    };
}
use runtime;
