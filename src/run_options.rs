//! The options of a run: what both sides must agree on. The client decides, and the server hears it.
//!
//! Typed options and those of a client are held against the same rules ([`RunOptions::checked`]).

use std::fmt;
use std::iter;

use cxi::HugePage;

use crate::atomic::{Atomic, AtomicOp};
use crate::error::{Failure, Invalid, invalid};

/// Largest size of one operation in bytes (tools.md 2.2).
pub const MAX_SIZE: u64 = u32::MAX as u64;

/// Longest pause after an iteration in microseconds: as nanoseconds it still fits 64 bits.
pub const MAX_GAP_US: u64 = u64::MAX / 1000;

/// Most iterations whose latencies can be reported one by one: 8 GB of samples.
pub const MAX_REPORT_ALL: u64 = 1_000_000_000;

/// Most operations in a list: so many commands of the largest kind fit the largest queue
/// (tools.md 2.2).
pub const MAX_LIST_SIZE: u16 = 16382;

/// Widest spacing of operations in a buffer, in bytes.
pub const MAX_ALIGNMENT: u64 = 1 << 32;

/// What a size may be, for messages.
pub const SIZES: &str =
    "expected MIN or MIN:MAX in bytes, 1 to 4294967295, MIN <= MAX, both powers of 2 in a range";

/// One of the two processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is connected to.
    Server,
    /// The one that connects.
    Client,
}

/// What the client decides for both sides (tools.md 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Measured iterations per size, where no duration is set: at least 1.
    pub iters: u64,
    /// Seconds per size, at least 1; takes the place of `iters`.
    pub duration_s: Option<u32>,
    /// Unmeasured iterations before each size.
    pub warmup: u64,
    /// Pause after each iteration in microseconds: 0 to [`MAX_GAP_US`].
    pub gap_us: u64,
    /// First size in bytes: 1 to [`MAX_SIZE`]. In an atomic tool both sizes are that of the type.
    pub min_size: u64,
    /// Upper end of the sizes in bytes: `min_size` to [`MAX_SIZE`].
    pub max_size: u64,
    /// Unrestricted (ordered) operations.
    pub unrestricted: bool,
    /// Immediate data commands for the sizes that fit one.
    pub use_idc: bool,
    /// Low-latency command issue, where the command fits it.
    pub use_ll: bool,
    /// Every latency is reported; never together with a duration (defect T8 of tools.md).
    pub report_all: bool,
    /// The operation, in the atomic tools.
    pub atomic: Option<Atomic>,
    /// Rendezvous puts, in the send tools; never together with immediate data commands.
    pub rdzv: bool,
    /// Pages of the buffers; the usual ones where there is none.
    pub huge_page: Option<HugePage>,
    /// Lists and buffers, in the bandwidth tools.
    pub lists: Option<ListOptions>,
}

/// What only bandwidth tools have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// Operations per iteration: 1 to [`MAX_LIST_SIZE`].
    pub list_size: u16,
    /// Both sides initiate.
    pub bidirectional: bool,
    /// Upper limit of a buffer in bytes: at least the largest size.
    pub max_buffer: u64,
    /// Spacing of the operations of a list in a buffer, in bytes: at least 1.
    pub alignment: u64,
}

impl ListOptions {
    /// Bytes from one operation of `size` bytes to the next in a buffer.
    pub fn step(&self, size: u64) -> u64 {
        size.next_multiple_of(self.alignment)
    }

    /// Length in bytes, before it is rounded up to pages, of a buffer for lists of up to
    /// `max_size` bytes: room for a whole list, as far as the limit allows.
    pub fn buffer(&self, max_size: u64) -> u64 {
        let whole = self.step(max_size).saturating_mul(self.list_size.into());
        whole.min(self.max_buffer)
    }
}

/// Whether an operation can have `size` bytes.
pub fn is_size(size: u64) -> bool {
    (1..=MAX_SIZE).contains(&size)
}

/// Whether sizes can double from `min` to `max`.
pub fn is_range(min: u64, max: u64) -> bool {
    let is_end = |size: u64| is_size(size) && size.is_power_of_two();
    is_end(min) && is_end(max) && min <= max
}

impl RunOptions {
    /// These options if they can be carried out, else the reason why not.
    ///
    /// Typed options and those of a client are held against the same rules (defect T27 of
    /// tools.md).
    pub fn checked(mut self) -> Result<Self, Invalid> {
        if self.duration_s.is_some() {
            self.report_all = false;
        } else if self.iters == 0 {
            return Err(invalid("iters", "0", "at least 1 without --duration"));
        }
        if self.duration_s == Some(0) {
            return Err(invalid("duration", "0", "at least 1 second"));
        }
        if self.gap_us > MAX_GAP_US {
            return Err(invalid(
                "latency-gap",
                self.gap_us,
                format!("at most {MAX_GAP_US} microseconds"),
            ));
        }
        if let Some(atomic) = self.atomic {
            if !atomic.exists() {
                return Err(nonexistent(atomic));
            }
            self.min_size = atomic.ty.size();
            self.max_size = self.min_size;
        }
        let (min, max) = (self.min_size, self.max_size);
        let is_single = min == max && is_size(min);
        if !is_single && !is_range(min, max) {
            return Err(invalid("size", format!("{min}:{max}"), SIZES));
        }
        if let Some(lists) = self.lists {
            check_lists(lists, max)?;
        }
        if self.rdzv {
            self.use_idc = false;
        }
        Ok(self)
    }

    /// These options if this side can also keep the latencies that are reported one by one. Only
    /// the client keeps any.
    pub fn kept(self) -> Result<Self, Invalid> {
        if self.report_all && self.iters > MAX_REPORT_ALL {
            let allowed = format!("at most {MAX_REPORT_ALL} with --report-all");
            return Err(invalid("iters", self.iters, allowed));
        }
        Ok(self)
    }

    /// Lists and buffers. A plan of a bandwidth tool has them.
    pub fn lists(&self) -> Result<ListOptions, Failure> {
        self.lists
            .ok_or_else(|| Failure::environment("the run has no list size"))
    }

    /// Whether immediate data commands are used: matching entries are out of their reach
    /// (nic.md 11.6).
    pub fn idc(&self) -> Setting {
        self.unless_matching(self.use_idc)
    }

    /// Whether operations are restricted: those on matching entries are not (nic.md 11.6).
    pub fn restricted(&self) -> Setting {
        self.unless_matching(!self.unrestricted)
    }

    fn unless_matching(&self, enabled: bool) -> Setting {
        match self.atomic {
            Some(atomic) if atomic.matching => Setting::NotApplicable,
            _ => enabled.into(),
        }
    }

    /// The sizes to run, in bytes, in order: doubling from `min_size` while not above `max_size`.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + use<> {
        let max = self.max_size;
        iter::successors(Some(self.min_size), |size| size.checked_mul(2))
            .take_while(move |size| *size <= max)
    }
}

/// What became of something that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// On.
    Enabled,
    /// Off, as asked.
    Disabled,
    /// Off, because another option excludes it.
    NotApplicable,
}

impl Setting {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Self::Enabled
    }
}

impl From<bool> for Setting {
    fn from(enabled: bool) -> Self {
        if enabled {
            Self::Enabled
        } else {
            Self::Disabled
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enabled => "Enabled",
            Self::Disabled => "Disabled",
            Self::NotApplicable => "Disabled - Not Applicable",
        })
    }
}

fn check_lists(lists: ListOptions, max_size: u64) -> Result<(), Invalid> {
    let ListOptions {
        list_size,
        max_buffer,
        alignment,
        ..
    } = lists;
    if !(1..=MAX_LIST_SIZE).contains(&list_size) {
        return Err(invalid(
            "list-size",
            list_size,
            format!("1 to {MAX_LIST_SIZE}"),
        ));
    }
    if !(1..=MAX_ALIGNMENT).contains(&alignment) {
        return Err(invalid(
            "buf-align",
            alignment,
            format!("1 to {MAX_ALIGNMENT} bytes"),
        ));
    }
    if max_buffer < max_size {
        let allowed = format!("at least the largest size, {max_size} bytes");
        return Err(invalid("buf-sz", max_buffer, allowed));
    }
    Ok(())
}

/// Operation and type that do not go together.
fn nonexistent(atomic: Atomic) -> Invalid {
    let (long, value) = match atomic.op {
        AtomicOp::Cswap => ("cswap-op", atomic.cswap.to_string()),
        op => ("atomic-op", op.to_string()),
    };
    let ty = atomic.ty;
    invalid(
        long,
        value,
        format!("{ty} supports only {}", ty.operations()),
    )
}
