//! Errors: the environment refused a call, a command cannot be emitted, or the NIC reported a
//! return code.

use std::ffi::CStr;
use std::{fmt, io};

use cxi_sys::*;

/// How the driver of the NIC reaches memory of a GPU (libcxi.md 7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapWay {
    /// By its address, through the vendor's peer-to-peer module.
    Peer,
    /// By a dma-buf that the runtime exports.
    DmaBuf,
}

impl fmt::Display for MapWay {
    /// The name that users type: `peer` or `dmabuf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peer => "peer",
            Self::DmaBuf => "dmabuf",
        })
    }
}

/// A failed call of the environment: the name of the function and the errno value, whose meaning is
/// given in libcxi.md 12.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    call: &'static str,
    errno: i32,
    origin: ErrorOrigin,
}

/// Where an error comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ErrorOrigin {
    /// The function returned the errno value.
    Call,
    /// A GPU runtime reported this status.
    Gpu(GpuStatus),
    /// The driver refused to map memory of a GPU in this way, and, with its errno value, in the
    /// other one.
    Map(MapWay, Option<(MapWay, i32)>),
    /// The library has no such function; libcxi has it since this symbol node.
    Missing(&'static str),
}

/// The status of a failed call of a GPU runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GpuStatus {
    /// Name of the runtime, such as `CUDA`.
    pub(crate) runtime: &'static str,
    pub(crate) code: i64,
    /// Description of the code.
    pub(crate) text: &'static str,
}

impl GpuStatus {
    /// The status with the text of the runtime, or with "error" if it has none.
    pub(crate) fn new(runtime: &'static str, code: i64, text: Option<&'static CStr>) -> Self {
        let text = text.and_then(|text| text.to_str().ok()).unwrap_or("error");
        Self { runtime, code, text }
    }
}

impl Error {
    pub(crate) const fn new(call: &'static str, errno: i32) -> Self {
        let origin = ErrorOrigin::Call;
        Self { call, errno, origin }
    }

    /// The error of a call of an optional function that the library lacks, with ENOSYS.
    pub(crate) fn missing(call: &'static str) -> Self {
        let node = Api::OPTIONAL.iter().find(|(name, _)| *name == call);
        Self {
            call,
            errno: libc::ENOSYS,
            origin: node.map_or(ErrorOrigin::Call, |(_, node)| ErrorOrigin::Missing(node)),
        }
    }

    /// The error of a failed call of a GPU runtime; `errno` is the closest errno value.
    pub(crate) const fn from_gpu(call: &'static str, errno: i32, status: GpuStatus) -> Self {
        let origin = ErrorOrigin::Gpu(status);
        Self { call, errno, origin }
    }

    /// The error of memory that the runtime of its GPU does not export as a dma-buf.
    pub(crate) const NOT_EXPORTED: Self = Self::new("cxil_map", 0);

    /// The error of a mapping that was tried in one way.
    pub(crate) const fn with_way(self, way: MapWay) -> Self {
        let origin = ErrorOrigin::Map(way, None);
        Self { origin, ..self }
    }

    /// The error of a mapping that was tried in two ways: this one, then `second`.
    pub(crate) const fn and_of_way(self, second: Self) -> Self {
        match (self.origin, second.origin) {
            (ErrorOrigin::Map(first, _), ErrorOrigin::Map(way, _)) => {
                Self { origin: ErrorOrigin::Map(first, Some((way, second.errno))), ..self }
            }
            _ => self,
        }
    }

    /// The error of `call`, which failed just before, with the errno of the thread.
    pub(crate) fn last(call: &'static str, otherwise: i32) -> Self {
        let errno = std::io::Error::last_os_error().raw_os_error();
        Self::new(call, errno.unwrap_or(otherwise))
    }

    /// The name of the function that failed, such as `cxil_alloc_lni`.
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// Whether the function belongs to a GPU runtime.
    pub const fn is_of_gpu(&self) -> bool {
        matches!(self.origin, ErrorOrigin::Gpu(_))
    }

    /// The errno value, which is positive.
    pub const fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for Error {
    /// `cxil_alloc_lni: Key has been revoked (errno 128)`, `cuMemAlloc_v2: out of memory (CUDA
    /// error 2)`, `cxil_get_svc: this libcxi lacks the function, which libcxi has since symbol node
    /// LIBCXI_1.2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, errno, .. } = self;
        match self.origin {
            ErrorOrigin::Call => write!(f, "{call}: {} (errno {errno})", error_text(*errno)),
            ErrorOrigin::Gpu(GpuStatus { runtime, code, text }) => {
                write!(f, "{call}: {text} ({runtime} error ")?;
                // The codes of Level Zero are documented as hexadecimal numbers.
                match code {
                    0..0x1_0000 => write!(f, "{code})"),
                    _ => write!(f, "{code:#x})"),
                }
            }
            ErrorOrigin::Map(way, other) => {
                write!(f, "{call}: ")?;
                refusal(f, way, *errno)?;
                let Some((way, errno)) = other else {
                    return Ok(());
                };
                f.write_str("; ")?;
                refusal(f, way, errno)
            }
            ErrorOrigin::Missing(node) => write!(
                f,
                "{call}: this libcxi lacks the function, which libcxi has since symbol node {node}"
            ),
        }
    }
}

/// Writes why memory of a GPU cannot be mapped in this way.
fn refusal(f: &mut fmt::Formatter<'_>, way: MapWay, errno: i32) -> fmt::Result {
    match (way, errno) {
        (MapWay::Peer, _) => f.write_str("as peer memory: ")?,
        (MapWay::DmaBuf, 0) => {
            return f.write_str("as dma-buf: the runtime of the GPU exports none");
        }
        (MapWay::DmaBuf, _) => f.write_str("as dma-buf: ")?,
    }
    write!(f, "{} (errno {errno})", error_text(errno))
}

/// The text of the C library for an errno value, such as "Key has been revoked", or the limit of
/// this process that is the cause.
pub fn error_text(errno: i32) -> String {
    match errno {
        libc::EFBIG => return "file size limit (ulimit -f)".into(),
        libc::EMFILE => return "limit of open files (ulimit -n)".into(),
        _ => {}
    }
    let text = io::Error::from_raw_os_error(errno).to_string();
    // The standard library appends " (os error N)".
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl std::error::Error for Error {}

/// Converts the result of a C function: 0 or a negative errno (libcxi.md 1).
///
/// A positive result is a failure too: some functions of the library return a stale errno with the
/// wrong sign (libcxi.md 13).
pub(crate) fn check(call: &'static str, result: i32) -> Result<(), Error> {
    match result {
        0 => Ok(()),
        errno => Err(Error::new(call, errno.saturating_abs())),
    }
}

/// The reason why a command was not added to a batch. The batch is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmitError {
    /// The command queue has no room for the command and its padding.
    QueueFull,
    /// The events of the operations in flight could exceed the event queue.
    EventQueueFull,
    /// The command names an event queue to which its transmit queue does not report.
    OtherEventQueue,
    /// The payload of an immediate data command exceeds the limit of the C_STATE in force.
    PayloadTooLong {
        /// Bytes of the payload.
        length: usize,
        /// Bytes allowed: 224 if the C_STATE is restricted, else 192.
        limit: usize,
    },
    /// The command names an object of another interface.
    OtherInterface,
    /// The profile of the trigger queue does not have LCID 0, under which the NIC would execute the
    /// command.
    OtherProfile,
    /// The threshold exceeds 48 bits, the width of a success count.
    ThresholdTooLarge,
    /// The queue has no C_STATE yet, which an immediate data command needs.
    NoCState,
    /// The C_STATE in force is restricted, and a small message needs an unrestricted one.
    RestrictedMessage,
    /// The command takes another number of words than it is to be prepared with.
    OtherSize {
        /// Words of the command.
        words: usize,
    },
    /// The command was prepared for another queue, or before the last C_STATE.
    Outdated,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull => f.write_str("the command queue is full"),
            Self::EventQueueFull => {
                f.write_str("the event queue has no room for the events of another operation")
            }
            Self::OtherEventQueue => {
                f.write_str("the command names an event queue to which its queue does not report")
            }
            Self::PayloadTooLong { length, limit } => {
                write!(f, "immediate data of {length} bytes exceeds the limit of {limit} bytes")
            }
            Self::OtherInterface => f.write_str("the command names an object of another interface"),
            Self::OtherProfile => {
                f.write_str("the command would run under a profile other than that of its queue")
            }
            Self::ThresholdTooLarge => f.write_str("the threshold exceeds 48 bits"),
            Self::NoCState => f.write_str("an immediate data command needs a C_STATE before it"),
            Self::RestrictedMessage => f.write_str("a small message needs an unrestricted C_STATE"),
            Self::OtherSize { words } => write!(f, "the command takes {words} words"),
            Self::Outdated => {
                f.write_str("the command was prepared for another queue or another C_STATE")
            }
        }
    }
}

impl std::error::Error for EmitError {}

macro_rules! code {
    ($(#[$doc:meta])* $type:ident, $prefix:literal: $($name:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $type(pub u8);

        impl $type {
            /// The name without its C prefix; `None` for an unknown number.
            pub fn name(self) -> Option<&'static str> {
                match u32::from(self.0) {
                    $($name => stringify!($name).strip_prefix($prefix),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            /// The name, or the number if it is unknown.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => fmt::Display::fmt(&self.0, f),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($type))
            }
        }
    };
}

code! {
    /// A return code (`C_RC_*`) of the NIC, 6 bits. The NIC may report unknown values (nic.md 7).
    ReturnCode, "C_RC_":
    C_RC_NO_EVENT C_RC_OK C_RC_UNDELIVERABLE C_RC_PT_DISABLED C_RC_DROPPED C_RC_PERM_VIOLATION
    C_RC_OP_VIOLATION C_RC_NO_MATCH C_RC_UNCOR C_RC_UNCOR_TRNSNT C_RC_NO_SPACE
    C_RC_ENTRY_NOT_FOUND C_RC_NO_TARGET_CONN C_RC_NO_TARGET_MST C_RC_NO_TARGET_TRS
    C_RC_SEQUENCE_ERROR C_RC_NO_MATCHING_CONN C_RC_INVALID_DFA_FORMAT C_RC_VNI_NOT_FOUND
    C_RC_PTLTE_NOT_FOUND C_RC_PTLTE_SW_MANAGED C_RC_SRC_ERROR C_RC_MST_CANCELLED
    C_RC_HRP_CONFIG_ERROR C_RC_HRP_RSP_ERROR C_RC_HRP_RSP_DISCARD C_RC_INVALID_AC
    C_RC_PAGE_PERM_ERROR C_RC_ATS_ERROR C_RC_NO_TRANSLATION C_RC_PAGE_REQ_ERROR
    C_RC_PCIE_ERROR_POISONED C_RC_PCIE_UNSUCCESS_CMPL C_RC_AMO_INVAL_OP_ERROR
    C_RC_AMO_ALIGN_ERROR C_RC_AMO_FP_INVALID C_RC_AMO_FP_UNDERFLOW C_RC_AMO_FP_OVERFLOW
    C_RC_AMO_FP_INEXACT C_RC_ILLEGAL_OP C_RC_INVALID_ENDPOINT C_RC_RESTRICTED_UNICAST
    C_RC_CMD_ALIGN_ERROR C_RC_CMD_INVALID_ARG C_RC_INVALID_EVENT C_RC_ADDR_OUT_OF_RANGE
    C_RC_CONN_CLOSED C_RC_CANCELED C_RC_NO_MATCHING_TRS C_RC_NO_MATCHING_MST C_RC_DELAYED
    C_RC_AMO_LENGTH_ERROR C_RC_PKTBUF_ERROR C_RC_RESOURCE_BUSY C_RC_FLUSH_TRANSLATION
    C_RC_TRS_PEND_RSP
}

impl ReturnCode {
    /// Success, also of truncated puts.
    pub const OK: Self = Self(C_RC_OK as u8);
}

code! {
    /// An event type (`C_EVENT_*`) of the NIC, 5 bits. The NIC may report unknown values (nic.md
    /// 6.1).
    EventType, "C_EVENT_":
    C_EVENT_PUT C_EVENT_GET C_EVENT_ATOMIC C_EVENT_FETCH_ATOMIC C_EVENT_PUT_OVERFLOW
    C_EVENT_GET_OVERFLOW C_EVENT_ATOMIC_OVERFLOW C_EVENT_FETCH_ATOMIC_OVERFLOW C_EVENT_SEND
    C_EVENT_ACK C_EVENT_REPLY C_EVENT_LINK C_EVENT_SEARCH C_EVENT_STATE_CHANGE C_EVENT_UNLINK
    C_EVENT_RENDEZVOUS C_EVENT_ETHERNET C_EVENT_COMMAND_FAILURE C_EVENT_TRIGGERED_OP
    C_EVENT_ETHERNET_FGFC C_EVENT_PCT C_EVENT_MATCH C_EVENT_ERROR C_EVENT_TIMESTAMP
    C_EVENT_EQ_SWITCH C_EVENT_NULL_EVENT
}

impl EventType {
    /// A put reached a list entry.
    pub const PUT: Self = Self(C_EVENT_PUT as u8);
    /// A get reached a list entry.
    pub const GET: Self = Self(C_EVENT_GET as u8);
    /// An atomic operation without fetching reached a list entry.
    pub const ATOMIC: Self = Self(C_EVENT_ATOMIC as u8);
    /// A fetching atomic operation reached a list entry.
    pub const FETCH_ATOMIC: Self = Self(C_EVENT_FETCH_ATOMIC as u8);
    /// An append or a search found a put that an entry of the overflow list had received.
    pub const PUT_OVERFLOW: Self = Self(C_EVENT_PUT_OVERFLOW as u8);
    /// A search found a header, or ended.
    pub const SEARCH: Self = Self(C_EVENT_SEARCH as u8);
    /// The rest of a rendezvous put is being fetched, or software must fetch it.
    pub const RENDEZVOUS: Self = Self(C_EVENT_RENDEZVOUS as u8);
    /// An operation matched a list entry.
    pub const MATCH: Self = Self(C_EVENT_MATCH as u8);
    /// A put or atomic operation was acknowledged.
    pub const ACK: Self = Self(C_EVENT_ACK as u8);
    /// The data of a get or fetching atomic operation has arrived.
    pub const REPLY: Self = Self(C_EVENT_REPLY as u8);
    /// A list entry was linked.
    pub const LINK: Self = Self(C_EVENT_LINK as u8);
    /// A list entry was unlinked.
    pub const UNLINK: Self = Self(C_EVENT_UNLINK as u8);
    /// A counter reached the threshold of a triggered operation.
    pub const TRIGGERED_OP: Self = Self(C_EVENT_TRIGGERED_OP as u8);
    /// The NIC refused a command.
    pub const COMMAND_FAILURE: Self = Self(C_EVENT_COMMAND_FAILURE as u8);
    /// A portals table entry changed its state.
    pub const STATE_CHANGE: Self = Self(C_EVENT_STATE_CHANGE as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_call_cause_and_errno() {
        let error = Error::new("cxil_alloc_lni", libc::EKEYREVOKED);
        assert_eq!(error.to_string(), "cxil_alloc_lni: Key has been revoked (errno 128)");
        assert_eq!(Error::new("mmap", 4095).errno(), 4095);
    }

    #[test]
    fn treats_nonzero_results_as_failures() {
        assert_eq!(check("f", 0), Ok(()));
        assert_eq!(check("f", -libc::EBUSY), Err(Error::new("f", libc::EBUSY)));
        assert_eq!(check("f", libc::EBUSY), Err(Error::new("f", libc::EBUSY)));
        assert_eq!(check("f", i32::MIN), Err(Error::new("f", i32::MAX)));
    }

    #[test]
    fn prints_known_codes_as_names_and_others_as_numbers() {
        assert_eq!(ReturnCode(26).name(), Some("PTLTE_NOT_FOUND"));
        assert_eq!(ReturnCode::OK.to_string(), "OK");
        assert_eq!(ReturnCode(63).name(), None);
        assert_eq!(ReturnCode(63).to_string(), "63");
        assert_eq!(EventType(13).to_string(), "STATE_CHANGE");
        assert_eq!(format!("{:?}", EventType(22)), "EventType(22)");
    }
}
