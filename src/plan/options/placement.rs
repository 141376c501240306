//! The options of where this side measures: NIC, service, port, library, CPUs.

use super::tool_option::{ALL, ALONE, Def, PEER, ToolOption, process};
use crate::typed::Every;
use cli::usage::{Completion, Value};
use facts::device::{DEFAULT_DEVICE, DeviceName, LIBCXI_VARIABLE};
use node::service::{DEFAULT_SVC_ID, VniOption};
use node::traffic_class::TrafficClass;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    process(ALL, |_| {
        Def::value("device", "DEV", str::parse::<DeviceName>, |typed| &mut typed.device)
        .completed_by(Completion::Devices)
        .letter('d')
        .explained(format!(
            "Device: cxiN, or softN for the built-in software NIC (default: {DEFAULT_DEVICE})"
        ))
    })
    .legacy().frequent(),
    process(ALONE, |_| {
        Def::switch("all-nics", |typed| typed.every = typed.every.or(Some(Every::Nic))).explained(
            "Measure each NIC of this machine by itself, one after the other, and print a table\n\n\
             The hardware NICs, or the software NICs of a machine without any. --expect applies to \
             each of them. A NIC that fails does not end the run: the table has the reason, and \
             the exit status is 1. --json has one document a NIC, each on a line of its own. Not \
             with --device, --interval or --until-stopped.",
        )
    }).frequent(),
    process(ALONE, |_| {
        Def::switch("all-gpus", |typed| typed.every = Some(Every::NicAndGpu)).explained(
            "Measure each NIC with each GPU of this machine: first with the GPU nearest to it, \
             then all others, and print the matrix\n\n\
             Both buffers lie on the GPU. The nearest one shares most of the PCI path with the \
             NIC, or its NUMA node. --expect applies to each NIC with its nearest GPU, and with \
             all GPUs if no distance is known. With --device, only this NIC; --gpu-type chooses \
             among several types. Otherwise as --all-nics. Not with --tx-gpu, --rx-gpu, \
             --interval or --until-stopped.",
        )
    }).frequent(),
    process(ALL, |tool| {
        let both = if tool.has_peer() {
            " Both sides need services with the same VNI."
        } else {
            ""
        };
        Def::number("svc-id", "SVC_ID", 1..=i32::MAX as u32, |typed| &mut typed.service.svc_id)
        .letter('v')
        .explained(format!(
            "CXI service to work under (default: that of the job, else {DEFAULT_SVC_ID})\n\n\
                 The service determines the VNIs, traffic classes and resources of the NIC that \
                 the user may have. Users without privileges need a service that admits them.{both} \
                 The launcher of a job grants \
                 services in SLINGSHOT_DEVICES, SLINGSHOT_SVC_IDS, SLINGSHOT_VNIS and \
                 SLINGSHOT_TCS. If service 1 is disabled or not for this user, the service of the \
                 NIC that is most closely meant for the user takes its place. A line on standard \
                 error names a service that is not the default."
        ))
    })
    .legacy(),
    process(ALL, |_| {
        Def::value("vni", "VNI|job", str::parse::<VniOption>, |typed| &mut typed.service.vni)
        .completed_by(Completion::Words(|| vec!["job".into()]))
        .explained(
            "VNI of the service; job: the one that the steps of this job share (default: that of \
             the step, else the first of the service)\n\n\
             Packets pass only between sides with the same VNI. The VNI of a step is the first \
             one in SLINGSHOT_VNIS, 'job' is the second one, if the launcher has granted it: \
             server and client in two steps need it.",
        )
    }),
    process(ALL, |_| {
        Def::value("traffic-class", "CLASS", str::parse::<TrafficClass>, |typed| &mut typed.service.class)
        .completed_by(Completion::Words(classes))
        .explained(
            "Traffic class: dedicated-access, low-latency, bulk-data or best-effort (default: \
             BEST_EFFORT, if granted)\n\n\
             This side's operations have this class. The service must grant it, and the QoS \
             profile of the driver must have it. Case does not matter, and the name may begin \
             with TC_. A job or service without BEST_EFFORT gets the first of its classes by \
             default. High Rate Puts exist in BEST_EFFORT only, and the NIC limits the bandwidth \
             of LOW_LATENCY to a few percent. A server uses its own class for the operations that \
             it issues, so give both sides the same one.",
        )
    }),
    process(ALL, |_| {
        Def::switch("ignore-link", |typed| typed.ignore_link = true).explained(
            "Measure although the device says that its link is down\n\n\
             The tool prints a warning. Without this option it fails, because operations would \
             fail after half a minute. It is not known whether the driver reports a link in a \
             loopback mode as up.",
        )
    }),
    process(ALL, |_| {
        Def::new("libcxi", Some(Value::new("PATH", Completion::Files)), |typed, value| {
            if value.is_empty() {
                return Err("expected the path of a library".into());
            }
            typed.libcxi = Some(value.into());
            Ok(())
        })
        .explained(format!(
            "Library to load for cxiN devices (default: ${LIBCXI_VARIABLE}, else libcxi.so.1)"
        ))
    }),
    process(ALL, |_| {
        Def::value("cpu", "LIST|auto", str::parse, |typed| &mut typed.cpus)
        .completed_by(Completion::Cpus)
        .explained(
            "Run on these CPUs (such as 2 or 0-3,8), with the buffers on their NUMA node; auto: \
             a CPU near the NIC (default: any)\n\n\
             The measuring thread of this side runs there. 'auto' is one CPU of the node that the \
             NIC is plugged into, and not CPU 0 if there is another. Without this option the \
             kernel chooses, and the tool prints a hint if it chose another node.",
        )
    }),
    process(PEER, |_| {
        Def::switch("loopback", |typed| typed.loopback = true).explained(
            "Run both sides on this machine, in one command\n\n\
             Server and client share one NIC. No address may be given.",
        )
    }).frequent(),
];

/// The names of the traffic classes as the help text has them.
fn classes() -> Vec<String> {
    let name = |class: TrafficClass| class.to_string().to_lowercase().replace('_', "-");
    TrafficClass::ALL.into_iter().map(name).collect()
}
