//! What a refused call or a bad event means, and what to do about it (libcxi.md 12).

use cxi::{EventType, ReturnCode};

use crate::error::Failure;

/// A libcxi call (or mmap) that the environment refused; `what` completes "cannot ...".
pub fn refused(what: &str, error: cxi::Error) -> Failure {
    let failure = Failure::environment(format!("cannot {what}: {error}"));
    match hint(error.call(), error.errno()) {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Advice for a call and its errno (libcxi.md 12.1).
fn hint(call: &str, errno: i32) -> Option<&'static str> {
    let hint = match (call, errno) {
        ("cxil_open_device", libc::EACCES | libc::EPERM) => {
            "no right to use the device: in a container, pass /dev/cxiN into it"
        }
        ("cxil_open_device", libc::EINVAL) => {
            "library and driver may be of different releases: compare their versions"
        }
        ("cxil_get_svc", libc::EINVAL) => {
            "services are per NIC: list those of this NIC with 'cxi_service list'"
        }
        ("cxil_alloc_lni", libc::EKEYREVOKED) => {
            "the service is disabled: ask the administrator to enable it, or choose another with --svc-id"
        }
        ("cxil_alloc_lni", libc::EPERM) => {
            "your user, group or network namespace is no member of the service: choose another with --svc-id"
        }
        ("cxil_alloc_lni", libc::ENOSPC) => {
            "all 255 interfaces of the NIC are in use: look for processes left over"
        }
        ("cxil_alloc_domain" | "cxil_alloc_cp", libc::ENOENT) => {
            "the VNI belongs to no enabled service: choose another service with --svc-id"
        }
        ("cxil_alloc_domain" | "cxil_alloc_cp", libc::EPERM) => {
            "the VNI belongs to others: choose another service with --svc-id"
        }
        ("cxil_alloc_domain", libc::ENOSPC) => "all PIDs of the VNI are in use",
        ("cxil_alloc_cp", libc::EINVAL) => {
            "the service or the QoS profile of the driver does not allow the traffic class"
        }
        ("cxil_map", libc::EFAULT | libc::ENOMEM) => {
            "the memory cannot be pinned: compare the size with 'ulimit -l' and the free memory"
        }
        ("cxil_map", libc::ENOSPC) => {
            "the address contexts of the NIC or of the service are used up"
        }
        ("cxil_alloc_cmdq", libc::ENOMEM) => {
            "no contiguous memory for the command queue: the node's memory is fragmented"
        }
        (_, libc::ENOSPC) => {
            "the service's limit or the NIC's total is reached: look for other users of the NIC"
        }
        (_, libc::EKEYREVOKED) => "the service was disabled meanwhile",
        ("mmap", libc::ENOMEM) => "not enough memory: use a smaller --size",
        _ => return None,
    };
    Some(hint)
}

/// An event other than the awaited one, or with a bad return code; `what` was awaited.
pub fn unexpected(
    what: &str,
    event_type: EventType,
    expected: EventType,
    code: ReturnCode,
) -> Failure {
    if code != ReturnCode::OK {
        let failure = Failure::nic(format!(
            "{what} failed: the NIC reported {code} (return code {})",
            code.0
        ));
        return match code_hint(code) {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        };
    }
    Failure::nic(format!(
        "{what}: the NIC reported {event_type} instead of {expected}"
    ))
}

/// Advice for a return code (libcxi.md 12.3).
fn code_hint(code: ReturnCode) -> Option<&'static str> {
    let hint = match code.name()? {
        "UNDELIVERABLE" | "CANCELED" => {
            "the peer's NIC does not answer: check the links of both NICs, the switch port, and whether the peer still runs"
        }
        "PKTBUF_ERROR" => "packets overflowed: check the QoS configuration of the switch",
        "NO_SPACE" => "list entries used up, or the operation passes the end of the buffer",
        "VNI_NOT_FOUND" => {
            "the peer's NIC does not know the VNI: both sides need services with the same VNI"
        }
        "PTLTE_NOT_FOUND" | "PT_DISABLED" => {
            "nobody receives at the peer's address: has the peer ended?"
        }
        "PCIE_ERROR_POISONED" | "PCIE_UNSUCCESS_CMPL" | "SRC_ERROR" => {
            "a bus error: look into the kernel log"
        }
        _ => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_code_is_named_with_advice() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(2));
        assert_eq!(
            failure.message,
            "write failed: the NIC reported UNDELIVERABLE (return code 2)"
        );
        assert!(failure.hint.unwrap().contains("link"));
    }

    #[test]
    fn an_unknown_return_code_is_a_number() {
        let failure = unexpected("write", EventType::ACK, EventType::ACK, ReturnCode(63));
        assert_eq!(
            failure.message,
            "write failed: the NIC reported 63 (return code 63)"
        );
        assert_eq!(failure.hint, None);
    }

    #[test]
    fn a_wrong_event_is_named() {
        let failure = unexpected("write", EventType::LINK, EventType::ACK, ReturnCode::OK);
        assert_eq!(
            failure.message,
            "write: the NIC reported LINK instead of ACK"
        );
    }
}
