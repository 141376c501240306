//! The doorbells of a NIC, and which of them trap. All trap in programs for which `cxi-softnic` has
//! preloaded `libsoftnic-faults.so` (`preload/faults.c`): there no thread blocks SIGSEGV, and
//! actions that the program sets for it later are kept aside.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::{env, fs};

/// The environment variable that chooses which doorbells trap.
const VARIABLE: &str = "CXIDIAG_TRAP_DOORBELLS";

/// The queue or counter that the doorbells of a page ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// The counter with this number.
    Counter(usize),
    /// The transmit queue with this number.
    Transmit(usize),
    /// The target queue with this number.
    Target(usize),
}

impl Doorbell {
    pub fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Counter(number) => (0, number),
            Self::Transmit(number) => (1, number),
            Self::Target(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    /// The doorbell that [`Doorbell::to_word`] made this word of.
    pub fn from_word(word: u64) -> Self {
        let number = word as u32 as usize;
        match word >> 32 {
            0 => Self::Counter(number),
            1 => Self::Transmit(number),
            _ => Self::Target(number),
        }
    }
}

/// The doorbells of a NIC that trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trapped {
    None,
    /// The doorbells of counters trap.
    Counters,
    /// The doorbells of counters and of command queues trap.
    All,
}

impl Trapped {
    /// Reads the environment. Programs that call `progress` need no traps: they have none.
    ///
    /// # Errors
    /// One line that names the variable.
    pub fn from_environment() -> Result<Self, String> {
        let value = env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let chosen = match &value {
            None => Self::usual(Preload::get().is_some(), is_traced() || has_thread_sanitizer()),
            Some(value) => Self::parse(value).ok_or_else(|| {
                format!("{VARIABLE}={}: expected none, counters or all", value.display())
            })?,
        };
        if cfg!(feature = "library") && !is_under_valgrind() { Ok(chosen) } else { Ok(Self::None) }
    }

    /// The choice without the variable. The kernel kills a program that rings a command queue that
    /// traps in a thread that blocks SIGSEGV, unless `Preload` prevents that; and tools that
    /// observe the program stop at each trap or report it.
    fn usual(has_preload: bool, is_observed: bool) -> Self {
        if has_preload && !is_observed { Self::All } else { Self::Counters }
    }

    /// The choice that a value of the variable stands for.
    fn parse(value: &OsStr) -> Option<Self> {
        match value.to_str()? {
            "none" => Some(Self::None),
            "counters" => Some(Self::Counters),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// Whether a debugger traces the program.
fn is_traced() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Whether the program runs under valgrind, which shows handlers of faults old values of registers.
fn is_under_valgrind() -> bool {
    let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
    preloaded.to_string_lossy().contains("vgpreload")
}

/// A function or variable of this process.
fn symbol(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the name is a string, and no lookup of a symbol has an effect.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Whether ThreadSanitizer watches the program. It reports each allocation in a signal handler.
fn has_thread_sanitizer() -> bool {
    symbol(c"__tsan_init").is_some()
}

/// The functions of the preloaded library.
pub struct Preload {
    take_faults: unsafe extern "C" fn(*const libc::sigaction) -> c_int,
    action_of_program: unsafe extern "C" fn(*mut libc::sigaction),
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "doorbells trap on x86-64 only"))]
impl Preload {
    /// The preloaded library; `None` if this process has none.
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

    /// The action that the program has set for SIGSEGV.
    pub fn action_of_program(&self) -> libc::sigaction {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the place is writable.
        unsafe { (self.action_of_program)(action.as_mut_ptr()) };
        // SAFETY: all fields are integers or an optional function, for which zero is a value.
        unsafe { action.assume_init() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_choices() {
        let parse = |value: &str| Trapped::parse(OsStr::new(value));
        assert_eq!(parse("counters"), Some(Trapped::Counters));
        assert_eq!(parse("none"), Some(Trapped::None));
        assert_eq!(parse("all"), Some(Trapped::All));
        assert_eq!(parse("1"), None);
    }

    #[test]
    fn traps_all_where_no_trap_can_kill_or_stop() {
        assert_eq!(Trapped::usual(true, false), Trapped::All);
        assert_eq!(Trapped::usual(true, true), Trapped::Counters);
        assert_eq!(Trapped::usual(false, false), Trapped::Counters);
    }
}
