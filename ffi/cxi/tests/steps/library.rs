//! C sources of this package, compiled and loaded when a test or a benchmark starts.

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// A loaded C source. It remains loaded until the process ends.
pub struct Library(*mut c_void);

impl Library {
    /// Compiles `source`, a path below this package, with the system's C compiler.
    pub fn compile(source: &str) -> Self {
        // Beside this program, because the directory for temporary files may forbid to run them.
        let program = std::env::current_exe().expect("the path of this program");
        let directory = program.parent().expect("a directory");
        let directory = tempfile::tempdir_in(directory).expect("a temporary directory");
        let library = directory.path().join("library.so");
        let status = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(source))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "cc cannot compile {source}");
        let path = CString::new(library.as_os_str().as_bytes()).expect("no zero bytes");
        // SAFETY: the path is a C string; loading this library runs no code of its own.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "cannot load {path:?}");
        Self(library)
    }

    /// The address of the function `name`.
    pub fn symbol(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("no zero bytes");
        // SAFETY: the library is loaded, and the name is a C string.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "no function {name:?}");
        symbol
    }
}

/// Declares `Functions`, a table of the functions of a C source, looked up by name.
macro_rules! functions {
    ($source:literal; $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// The table. The first call compiles the source.
            fn get() -> &'static Self {
                static FUNCTIONS: std::sync::OnceLock<Functions> = std::sync::OnceLock::new();
                FUNCTIONS.get_or_init(|| {
                    let library = Library::compile($source);
                    Self {$(
                        // SAFETY: the source defines the function with these types.
                        $name: unsafe {
                            std::mem::transmute::<
                                *mut std::ffi::c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(library.symbol(stringify!($name)))
                        },
                    )*}
                })
            }
        }
    };
}
pub(crate) use functions;
