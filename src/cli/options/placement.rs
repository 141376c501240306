//! The options of where this side measures: NIC, service, port, library, CPUs.

use super::{Governs, OptionDef};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::text;
use crate::device::{DEFAULT_DEVICE, LIBCXI_VARIABLE};
use crate::number::within;
use crate::plan::DEFAULT_SVC_ID;
use crate::tool::Opt;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
        id: Opt::Device,
        short: Some('d'),
        long: "device",
        value: Some(Value::new("DEV", Completion::Devices)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| {
            format!(
                "Device: cxiN, or softN for the built-in software\nNIC (default: {DEFAULT_DEVICE})"
            )
        },
        manual: |_| "The NIC to use: cxiN for a Cassini NIC, softN for a software NIC.",
        set: |typed, value| {
            typed.device = Some(text(value)?.parse()?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::SvcId,
        short: Some('v'),
        long: "svc-id",
        value: Some(Value::new("SVC_ID", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| format!("CXI service to work under (default: {DEFAULT_SVC_ID})"),
        manual: |_| {
            "The CXI service to work under, which determines the VNI and the resources of the NIC \
             that the user may have. Users without privileges need a service that admits them. \
             Both sides need services with the same VNI."
        },
        set: |typed, value| {
            typed.svc_id = Some(within(text(value)?, 1..=i32::MAX as u64)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Libcxi,
        short: None,
        long: "libcxi",
        value: Some(Value::new("PATH", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            format!(
                "Library to load for cxiN devices (default:\n${LIBCXI_VARIABLE}, else libcxi.so.1)"
            )
        },
        manual: |_| "The library to load for cxiN devices.",
        set: |typed, value| {
            if value.is_empty() {
                return Err("expected the path of a library".into());
            }
            typed.libcxi = Some(value.into());
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Cpu,
        short: None,
        long: "cpu",
        value: Some(Value::new("LIST|auto", Completion::Cpus)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Run on these CPUs (such as 2 or 0-3,8), with the\n\
             buffers on their NUMA node; auto: a CPU near the\nNIC (default: any)"
                .into()
        },
        manual: |_| {
            "The CPUs on which the measuring thread of this side may run, which also determine \
             the NUMA node of its buffers. With *auto*, it runs on one CPU of the node that the \
             NIC is plugged into, and not on CPU 0 if there is another. Without this option the \
             kernel chooses, and the tool prints a hint if it chose another node."
        },
        set: |typed, value| {
            typed.cpus = text(value)?.parse()?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Loopback,
        short: None,
        long: "loopback",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Run both sides on this machine, in one command".into(),
        manual: |_| {
            "Run server and client in one command, on one machine and one NIC. No address may be \
             given."
        },
        set: |typed, _| {
            typed.loopback = true;
            Ok(())
        },
    },
];
