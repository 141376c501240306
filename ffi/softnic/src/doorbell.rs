//! The doorbells of a NIC, and which of them trap.

use std::env;
use std::ffi::OsStr;

/// The environment variable that chooses which doorbells trap.
const VARIABLE: &str = "CXIDIAG_TRAP_DOORBELLS";

/// What the doorbells of a page ring.
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
    /// Returns the doorbell as one word.
    pub fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Counter(number) => (0, number),
            Self::Transmit(number) => (1, number),
            Self::Target(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    /// Returns the doorbell that [`Doorbell::to_word`] made this word of.
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
        let value = env::var_os(VARIABLE);
        let chosen = Self::parse(value.as_deref()).ok_or_else(|| {
            let value = value.unwrap_or_default();
            format!(
                "{VARIABLE}={}: expected none, counters or all",
                value.display()
            )
        })?;
        if cfg!(feature = "library") && !is_under_valgrind() {
            Ok(chosen)
        } else {
            Ok(Self::None)
        }
    }

    /// Returns the choice that a value of the variable stands for. Command queues trap on request
    /// only, because the kernel kills a program that rings them in a thread that blocks SIGSEGV.
    fn parse(value: Option<&OsStr>) -> Option<Self> {
        let Some(value) = value else {
            return Some(Self::Counters);
        };
        match value.to_str()? {
            "none" => Some(Self::None),
            "counters" | "" => Some(Self::Counters),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// Whether the program runs under valgrind, which shows handlers of faults old values of registers.
fn is_under_valgrind() -> bool {
    let preloaded = env::var_os("LD_PRELOAD").unwrap_or_default();
    preloaded.to_string_lossy().contains("vgpreload")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_choices() {
        let parse = |value: &str| Trapped::parse(Some(OsStr::new(value)));
        assert_eq!(Trapped::parse(None), Some(Trapped::Counters));
        assert_eq!(parse(""), Some(Trapped::Counters));
        assert_eq!(parse("counters"), Some(Trapped::Counters));
        assert_eq!(parse("none"), Some(Trapped::None));
        assert_eq!(parse("all"), Some(Trapped::All));
        assert_eq!(parse("1"), None);
    }
}
