//! `libsoftnic-faults.so` (`preload/faults.c`), where `cxi-softnic` has preloaded it: no thread
//! blocks SIGSEGV, and actions that the program sets for it later are kept aside.

use std::ffi::{CStr, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Returns a function or variable of this process.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is a string, and no lookup of a symbol has an effect.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Whether ThreadSanitizer watches the program. It reports each allocation in a signal handler.
pub fn has_thread_sanitizer() -> bool {
    symbol(c"__tsan_init").is_some()
}

/// The functions of the preloaded library.
pub struct Preload {
    take_faults: unsafe extern "C" fn(*const libc::sigaction) -> c_int,
    action_of_program: unsafe extern "C" fn(*mut libc::sigaction),
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "doorbells trap on x86-64 only"))]
impl Preload {
    /// Returns the preloaded library; `None` if this process has none.
    pub fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Preload>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let take = symbol(c"softnic_take_faults")?;
        let action = symbol(c"softnic_action_of_program")?;
        type TakeFaults = unsafe extern "C" fn(*const libc::sigaction) -> c_int;
        type ActionOfProgram = unsafe extern "C" fn(*mut libc::sigaction);
        Some(Self {
            // SAFETY: only `preload/faults.c` defines this name, with this parameter and result,
            // and a preloaded library is never unloaded.
            take_faults: unsafe { transmute::<NonNull<c_void>, TakeFaults>(take) },
            // SAFETY: as before.
            action_of_program: unsafe { transmute::<NonNull<c_void>, ActionOfProgram>(action) },
        })
    }

    /// Has SIGSEGV handled by `action`, whatever the program sets from now on.
    ///
    /// # Safety
    /// As for sigaction(2): the handler may run at any instruction.
    pub unsafe fn take_faults(&self, action: &libc::sigaction) {
        // SAFETY: the action is complete; the caller answers for the handler.
        unsafe { (self.take_faults)(action) };
    }

    /// Returns what the program would do with SIGSEGV.
    pub fn action_of_program(&self) -> libc::sigaction {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the place is writable.
        unsafe { (self.action_of_program)(action.as_mut_ptr()) };
        // SAFETY: all fields are integers or an optional function, for which zero is a value.
        unsafe { action.assume_init() }
    }
}
