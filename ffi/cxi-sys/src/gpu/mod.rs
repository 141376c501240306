//! The raw interfaces of the GPU runtimes, filled from their shared libraries at run time.
//!
//! [`cuda::Cuda`] (NVIDIA, driver API), [`hip::Hip`] and [`hip::Hsa`] (AMD),
//! [`level_zero::LevelZero`] (Intel): functions under their C names, with the constants and
//! structures that they take. Only what it takes to hold a buffer on a GPU.

use std::fmt;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

pub mod cuda;
pub mod hip;
pub mod level_zero;

/// `RTLD_NOLOAD` of `<dlfcn.h>` on Linux: only a library that the process has loaded already.
const RTLD_NOLOAD: i32 = 4;

/// Why a library could not be used as a GPU runtime.
#[derive(Debug)]
pub enum LoadError {
    /// The dynamic linker did not open it under any of its names.
    Open {
        /// The names, in the order in which they were tried.
        names: &'static [&'static str],
        /// What the dynamic linker says about the first of them.
        error: libloading::Error,
    },
    /// It lacks a function.
    Symbol {
        /// The name of the library.
        library: &'static str,
        /// The name of the function.
        function: &'static str,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { names, error } => {
                write!(f, "{error}")?;
                match names {
                    [_, others @ ..] if !others.is_empty() => {
                        write!(f, " (nor {})", others.join(", "))
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

impl std::error::Error for LoadError {}

/// Where a table is filled from.
#[derive(Clone, Copy)]
enum Source {
    /// Any library that the dynamic linker finds.
    Anywhere,
    /// A library that the process has loaded already.
    ThisProcess,
}

/// Opens the first of these libraries that there is, under the name that it answers with.
///
/// It stays loaded for the life of the process: GPU runtimes have threads of their own, and
/// cannot be unloaded safely.
fn open(
    names: &'static [&'static str],
    from: Source,
) -> Result<(&'static str, Library), LoadError> {
    let flags = match from {
        Source::Anywhere => RTLD_LAZY | RTLD_LOCAL,
        Source::ThisProcess => RTLD_LAZY | RTLD_NOLOAD,
    };
    let mut first = None;
    for name in names {
        // SAFETY: loading runs the constructors of the vendor's library, which are made for that.
        match unsafe { Library::open(Some(name), flags) } {
            Ok(library) => return Ok((name, library)),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(LoadError::Open {
        names,
        error: first.unwrap_or(libloading::Error::DlOpenUnknown),
    })
}

/// Makes the table of a runtime: its functions under their C names.
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

            /// Opens the library, which then stays loaded, and looks up its functions.
            pub fn load() -> Result<Self, $crate::gpu::LoadError> {
                Self::of($crate::gpu::Source::Anywhere)
            }

            /// The same for a library that the process has loaded already.
            pub fn loaded() -> Option<Self> {
                Self::of($crate::gpu::Source::ThisProcess).ok()
            }

            fn of(from: $crate::gpu::Source) -> Result<Self, $crate::gpu::LoadError> {
                let (name, library) = $crate::gpu::open(Self::LIBRARIES, from)?;
                let table = Self {
                    $($name: {
                        // SAFETY: the symbol of this name has this type in the vendor's headers.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| $crate::gpu::LoadError::Symbol {
                            library: name,
                            function: stringify!($name),
                        })?
                    },)*
                    $($opt: {
                        // SAFETY: as above, where the symbol exists.
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
