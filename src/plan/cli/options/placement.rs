//! The options of where this side measures: NIC, service, port, library, CPUs.

use super::tool_option::{Governs, ToolOption};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::text;
use crate::tool::Opt;
use facts::device::{DEFAULT_DEVICE, LIBCXI_VARIABLE};
use facts::number::within;
use node::service::DEFAULT_SVC_ID;
use node::traffic_class::TrafficClass;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
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
    ToolOption {
        id: Opt::SvcId,
        short: Some('v'),
        long: "svc-id",
        value: Some(Value::new("SVC_ID", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| {
            format!("CXI service to work under (default: that of the\njob, else {DEFAULT_SVC_ID})")
        },
        manual: |_| {
            "The CXI service to work under, which determines the VNIs, traffic classes and \
             resources of the NIC that the user may have. Users without privileges need a service \
             that admits them. Both sides need services with the same VNI. Without this option, a \
             tool uses the service that the launcher of its job has granted on the NIC \
             (SLINGSHOT_DEVICES, SLINGSHOT_SVC_IDS, SLINGSHOT_VNIS, SLINGSHOT_TCS); else service \
             1; and if that is disabled or not for this user, the service of the NIC that is most \
             closely meant for the user. A line on standard error names a service that is not the \
             default."
        },
        set: |typed, value| {
            typed.service.svc_id = Some(within(text(value)?, 1..=i32::MAX as u64)? as u32);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Vni,
        short: None,
        long: "vni",
        value: Some(Value::new("VNI|job", Completion::Words(|| vec!["job".into()]))),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "VNI of the service; job: the one that the steps of\n\
             this job share (default: that of the step, else the\nfirst of the service)"
                .into()
        },
        manual: |_| {
            "The VNI to use: one that the service grants. Packets pass only between sides with the \
             same VNI. The VNI of a step of a job is the first one in SLINGSHOT_VNIS. With *job*, \
             it is the second one there, which all steps of the job share if the launcher has \
             granted it: server and client in two steps need it."
        },
        set: |typed, value| {
            typed.service.vni = Some(text(value)?.parse()?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::TrafficClass,
        short: None,
        long: "traffic-class",
        value: Some(Value::new("CLASS", Completion::Words(classes))),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Traffic class: dedicated-access, low-latency,\n\
             bulk-data or best-effort (default: BEST_EFFORT, if\ngranted)"
                .into()
        },
        manual: |_| {
            "The traffic class of this side's operations: one that the service grants and the QoS \
             profile of the driver has. Case does not matter, and the name may begin with TC_. A \
             job or service without BEST_EFFORT gets the first of its classes by default. High \
             Rate Puts exist in BEST_EFFORT only, and the NIC limits the bandwidth of LOW_LATENCY \
             to a few percent. A server uses its own class for the operations that it issues, so \
             give both sides the same one."
        },
        set: |typed, value| {
            typed.service.class = Some(text(value)?.parse()?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::IgnoreLink,
        short: None,
        long: "ignore-link",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Measure although the device says that its link is\ndown".into(),
        manual: |_| {
            "Measure although the device says that its link is down, after a warning. Without this \
             option that is an error: operations would fail after half a minute. It is not known \
             whether the driver reports a link in a loopback mode as up."
        },
        set: |typed, _| {
            typed.ignore_link = true;
            Ok(())
        },
    },
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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

/// Returns the names of the traffic classes as the help text has them.
fn classes() -> Vec<String> {
    let name = |class: TrafficClass| class.to_string().to_lowercase().replace('_', "-");
    TrafficClass::ALL.into_iter().map(name).collect()
}
