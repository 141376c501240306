//! The table: what can go wrong, why, and what to do. docs/troubleshooting.md shows it to readers.

use std::fmt;

use super::{Explanation, What};
use crate::error::SEE_PEER;

use Situation::*;
use What::{Call, Code, Found};

/// What the program itself finds out, without a failing call of libcxi or a return code of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The machine has no NIC of this kind, or no driver for it.
    NoHardware,
    /// libcxi cannot be loaded.
    NoLibrary,
    /// The software NICs cannot meet in their directory.
    NoFabric,
    /// The machine has too few huge pages left.
    NoHugePages,
    /// The kernel has no huge pages of a size.
    NoSuchHugePages,
    /// The machine has too little memory left.
    NoMemory,
    /// A CPU may not be used.
    CpuForbidden,
    /// The runtime of the GPUs cannot be loaded.
    NoGpuRuntime,
    /// The runtime of the GPUs does not work.
    GpuRuntimeFails,
    /// The runtime finds no GPU.
    NoGpu,
    /// There is no GPU of this number.
    NoSuchGpu,
    /// The NIC cannot reach the memory of the GPU.
    NoPeerToPeer,
    /// The link of the NIC is down.
    LinkDown,
    /// The service is disabled.
    ServiceDisabled,
    /// The service has no VNI.
    ServiceWithoutVni,
    /// The retry handler of the NIC does not run.
    NoRetryHandler,
    /// An operation is not answered at all.
    NoAnswer,
    /// The control connection is refused.
    ConnectionRefused,
    /// The control connection is not answered.
    NoConnection,
    /// The host name has no address.
    UnknownHost,
    /// The port to listen on is in use.
    PortInUse,
    /// The port to listen on is reserved.
    PortReserved,
    /// The address to listen on is another machine's.
    NotOurAddress,
    /// The other side is another tool.
    OtherTool,
    /// The other side is of another version.
    OtherVersion,
    /// The other side is of a version with another control connection.
    OldVersion,
    /// The other side is of a version that was never released.
    UnreleasedVersion,
    /// The other side uses another VNI.
    OtherVni,
    /// The other side is no CXI diagnostic.
    NoDiagnostic,
    /// Only one of the NICs is a software NIC.
    OtherKind,
    /// Software NICs on two machines.
    SoftwareApart,
    /// Two machines have the same NIC address.
    SameAddress,
    /// The other side ended early.
    PeerEnded,
    /// The other side's host is gone.
    PeerGone,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoHardware => "no NIC",
            NoLibrary => "no libcxi",
            NoFabric => "a software NIC cannot be opened",
            NoHugePages => "not enough huge pages",
            NoSuchHugePages => "no huge pages of a size",
            NoMemory => "not enough memory for the buffers",
            CpuForbidden => "a CPU cannot be used",
            NoGpuRuntime => "no GPU runtime",
            GpuRuntimeFails => "a GPU runtime does not work",
            NoGpu => "no GPU",
            NoSuchGpu => "no GPU of this number",
            NoPeerToPeer => "the NIC cannot map the memory of a GPU",
            LinkDown => "the link is down",
            ServiceDisabled => "the service is disabled",
            ServiceWithoutVni => "the service has no VNI",
            NoRetryHandler => "the retry handler is not running",
            NoAnswer => "no answer to an operation",
            ConnectionRefused => "nobody listens",
            NoConnection => "no answer to a connection",
            UnknownHost => "the host name cannot be resolved",
            PortInUse => "the port is in use",
            PortReserved => "no right to listen on the port",
            NotOurAddress => "the address to listen on is not here",
            OtherTool => "different tools",
            OtherVersion => "different versions",
            OldVersion => "the other side is of SHS 12.0 or older",
            UnreleasedVersion => "the other side is of an unreleased version",
            OtherVni => "different VNIs",
            NoDiagnostic => "not the answers of a CXI diagnostic",
            OtherKind => "a software NIC on one side only",
            SoftwareApart => "software NICs on two machines",
            SameAddress => "the same NIC address on two machines",
            PeerEnded => "the peer closed the connection",
            PeerGone => "the peer's host does not answer",
        })
    }
}

/// All explanations. The first that fits is the one that is given.
pub static EXPLANATIONS: &[Explanation] = &[
    row(
        Call(&["cxil_open_device"], &[libc::ENOENT]),
        "there is no device of this number, its driver is not loaded, or the container has no /dev/cxiN",
        "look for the devices that do exist in /sys/class/cxi, and at 'lsmod' and the kernel log",
    ),
    row(
        Call(&["cxil_open_device"], &[libc::EACCES, libc::EPERM]),
        "no right to use the device",
        "in a container, pass /dev/cxiN into it; else look at the mode of the node",
    ),
    row(
        Call(&["cxil_open_device"], &[libc::EINVAL]),
        "library and driver may be of different releases",
        "compare the versions of libcxi and of the driver",
    ),
    row(
        Call(
            &["cxil_open_device"],
            &[libc::ENXIO, libc::ENODEV, libc::EIO],
        ),
        "the device node is there, the device is gone",
        "look into the kernel log for errors of the NIC; the node may need a reboot",
    ),
    row(
        Call(&["cxil_get_svc"], &[libc::EINVAL]),
        "this NIC has no such service; services are per NIC",
        "list those of this NIC with 'cxi_service list'",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::EKEYREVOKED]),
        "the service is disabled",
        "ask the administrator for 'cxi_service enable -s N', or choose another with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::EPERM]),
        "your user, group or network namespace is no member of the service, and root is no exception",
        "choose another with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::ENOSPC]),
        "all 255 interfaces of the NIC, or those of the service, are in use",
        "look for processes left over",
    ),
    row(
        Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::ENOENT]),
        "the VNI belongs to no enabled service",
        "choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::EPERM]),
        "the VNI belongs to others",
        "choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_domain"], &[libc::ENOSPC]),
        "all PIDs of the VNI are in use",
        "look for processes left over",
    ),
    row(
        Call(&["cxil_alloc_cp"], &[libc::EINVAL]),
        "the service or the QoS profile of the driver does not allow the traffic class",
        "choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_cp"], &[libc::ENOSPC]),
        "the communication profiles of the NIC are used up",
        "look for other users of the NIC",
    ),
    row(
        Call(&["cxil_map"], &[libc::EFAULT, libc::ENOMEM]),
        "the memory cannot be pinned, or huge pages that were reserved are not there (limit of the control group, memory policy)",
        "compare the size with 'ulimit -l' and the free memory",
    ),
    row(
        Call(&["cxil_map"], &[libc::ENOSPC]),
        "the address contexts of the NIC or of the service are used up",
        "look for other users of the NIC",
    ),
    row(
        Call(&["cxil_map"], &[libc::EOPNOTSUPP, libc::ENODEV]),
        "this kind of memory cannot be mapped here",
        "for GPU memory, load the peer-to-peer module of the vendor (nvidia-peermem, amdgpu)",
    ),
    row(
        Call(&["cxil_alloc_cmdq"], &[libc::ENOMEM]),
        "no contiguous memory for the command queue: the node's memory is fragmented",
        "use a smaller --list-size, or compact the memory ('echo 1 > /proc/sys/vm/compact_memory')",
    ),
    row(
        Call(&["cxil_alloc_cmdq"], &[libc::E2BIG]),
        "the command queue would be longer than 65536 entries",
        "use a smaller --list-size",
    ),
    row(
        Call(&["cxil_alloc_cmdq"], &[libc::EIO]),
        "the NIC did not set the queue up in time",
        "look into the kernel log for errors of the NIC",
    ),
    row(
        Call(&["cxil_map_pte"], &[libc::ENOSPC]),
        "the portal table of the NIC is full",
        "look for other users of the NIC",
    ),
    row(
        Call(&["sched_setaffinity"], &[libc::EINVAL]),
        "none of the CPUs runs, or the control group (cpuset) of this process excludes them all",
        "choose among those in the line Cpus_allowed_list of /proc/self/status with --cpu",
    ),
    row(
        Call(&[], &[libc::ENOSPC]),
        "the service's limit or the NIC's total is reached",
        "look for other users of the NIC, and at the limits of the service",
    ),
    row(
        Call(&[], &[libc::EKEYREVOKED]),
        "the service was disabled meanwhile",
        "ask who administers the NIC, and run again",
    ),
    row(
        Call(
            &["cuMemAlloc_v2", "hipMalloc", "zeMemAllocDevice"],
            &[libc::ENOMEM],
        ),
        "the GPU has not enough free memory",
        "use a smaller --size (of send-bw also --list-size or --buf-sz), or another GPU",
    ),
    row(
        Call(&["mmap"], &[libc::ENOMEM]),
        "not enough memory, or not enough huge pages",
        "use a smaller --size (of send-bw also --list-size or --buf-sz), and look at 'ulimit -v'",
    ),
    row(
        Call(&[], &[libc::ENOMEM]),
        "not enough memory, in this process or in the kernel",
        "look at 'free' and at the limits of the user and of the control group",
    ),
    row(
        Call(&[], &[libc::EIO]),
        "the device was unplugged, or its driver unbound",
        "look into the kernel log for errors of the NIC",
    ),
    row(
        Code(&["UNDELIVERABLE"]),
        "the peer's NIC does not answer: a link is down, the algorithmic MAC address is not applied, routing or QoS of the switch is wrong, or the node is gone",
        "check the links of both NICs, the switch port, the MAC address (02:...), and whether the peer still runs",
    ),
    row(
        Code(&["CANCELED"]),
        "the peer's NIC does not answer an operation that cannot be repeated, or refused it too often for want of resources",
        "as for UNDELIVERABLE; the journal of cxi_rh@cxiN on both nodes says which it was",
    ),
    row(
        Code(&["HRP_RSP_DISCARD"]),
        "the packet reached the switch and was dropped there or beyond it",
        "the local link works: check the peer's node and the routing",
    ),
    row(
        Code(&["HRP_CONFIG_ERROR", "HRP_RSP_ERROR"]),
        "the fabric refuses HRP",
        "have HRP enabled in the fabric",
    ),
    row(
        Code(&["PKTBUF_ERROR"]),
        "packets overflowed: flow control or QoS is not applied at the switch",
        "check the QoS configuration; look for pfc_fifo_oflw and pbuf_rd_err in the kernel log",
    ),
    row(
        Code(&["NO_SPACE"]),
        "the list entries of the NIC or of the service are used up, or the operation passes the end of the buffer",
        "look for other users of the NIC; use a smaller --list-size",
    ),
    row(
        Code(&["VNI_NOT_FOUND"]),
        "the peer's NIC does not know the VNI: the services differ, or the peer has ended",
        "both sides need services with the same VNI",
    ),
    row(
        Code(&["PTLTE_NOT_FOUND", "PT_DISABLED"]),
        "nobody receives at the peer's address: the peer has ended or is not ready",
        "see what the other side printed, and run again",
    ),
    row(
        Code(&[
            "NO_MATCH",
            "ENTRY_NOT_FOUND",
            "OP_VIOLATION",
            "PERM_VIOLATION",
            "INVALID_ENDPOINT",
            "RESTRICTED_UNICAST",
            "PTLTE_SW_MANAGED",
        ]),
        "the peer's list entries do not take this operation: the sides run with different options, or one has an error",
        "report this with both command lines and both outputs",
    ),
    row(
        Code(&[
            "INVALID_AC",
            "PAGE_PERM_ERROR",
            "ATS_ERROR",
            "NO_TRANSLATION",
            "PAGE_REQ_ERROR",
            "ADDR_OUT_OF_RANGE",
            "FLUSH_TRANSLATION",
        ]),
        "an address does not translate, on this side or the other: memory was unmapped too early, or a program has an error",
        "report this with both command lines and both outputs",
    ),
    row(
        Code(&[
            "PCIE_ERROR_POISONED",
            "PCIE_UNSUCCESS_CMPL",
            "SRC_ERROR",
            "UNCOR",
            "UNCOR_TRNSNT",
        ]),
        "a bus or memory error",
        "look into the kernel log of both nodes",
    ),
    row(
        Code(&[
            "AMO_INVAL_OP_ERROR",
            "AMO_ALIGN_ERROR",
            "AMO_LENGTH_ERROR",
            "AMO_FP_INVALID",
            "AMO_FP_UNDERFLOW",
            "AMO_FP_OVERFLOW",
            "AMO_FP_INEXACT",
        ]),
        "atomic operation, type and memory do not go together",
        "choose another --atomic-op or --atomic-type; report this if they should go together",
    ),
    row(
        Code(&[
            "NO_TARGET_CONN",
            "NO_TARGET_MST",
            "NO_TARGET_TRS",
            "SEQUENCE_ERROR",
            "NO_MATCHING_CONN",
            "CONN_CLOSED",
            "NO_MATCHING_TRS",
            "NO_MATCHING_MST",
            "DELAYED",
            "RESOURCE_BUSY",
            "TRS_PEND_RSP",
            "DROPPED",
        ]),
        "the transport between the NICs is overloaded or disturbed",
        "see the journal of cxi_rh@cxiN on both nodes, and run again when the fabric is quiet",
    ),
    row(
        Code(&[
            "ILLEGAL_OP",
            "CMD_ALIGN_ERROR",
            "CMD_INVALID_ARG",
            "INVALID_EVENT",
            "INVALID_DFA_FORMAT",
            "MST_CANCELLED",
        ]),
        "the NIC refuses a command of this program",
        "report this with the command line and the output",
    ),
    row(
        Found(NoHardware),
        "this machine has no Slingshot NIC, or its driver is not loaded (no /sys/class/cxi)",
        "try the built-in software NIC with --device=soft0",
    ),
    row(
        Found(NoLibrary),
        "libcxi is not installed where programs find it",
        "install libcxi, or name the library with --libcxi=PATH",
    ),
    row(
        Found(NoFabric),
        "software NICs meet in the directory $CXIDIAG_FABRIC_DIR, or else /dev/shm/cxidiag-UID",
        "it must be yours, and nobody else's to write to",
    ),
    row(
        Found(NoHugePages),
        "huge pages are set aside beforehand; these are too few, in use, or beyond the limit of the control group",
        "as root, write a larger number to the file named, and read it back (scattered memory may not allow it); or use a smaller --size (of send-bw also --list-size or --buf-sz)",
    ),
    row(
        Found(NoSuchHugePages),
        "the kernel or the CPU does not offer this size (/sys/kernel/mm/hugepages shows those that it does)",
        "choose the other size with --use-hp",
    ),
    row(
        Found(NoMemory),
        "buffers are pinned: they must fit the memory that is free, on the NUMA node of --cpu and within the limit of the control group",
        "use a smaller --size (of send-bw also --list-size or --buf-sz)",
    ),
    row(
        Found(CpuForbidden),
        "the control group (cpuset) of this process excludes some of the CPUs",
        "choose among those in the line Cpus_allowed_list of /proc/self/status with --cpu",
    ),
    row(
        Found(NoGpuRuntime),
        "the runtime of the GPUs is not installed, or not where the dynamic linker looks",
        "install it (libcuda.so.1 comes with NVIDIA's driver, libamdhip64.so with ROCm, libze_loader.so.1 with Level Zero) or name its directory in LD_LIBRARY_PATH; look at --gpu-type",
    ),
    row(
        Found(GpuRuntimeFails),
        "the driver of the GPUs is not loaded, of another release than the runtime, or out of your reach",
        "look at what nvidia-smi, rocm-smi or xpu-smi says, and whether your user is in the groups video and render",
    ),
    row(
        Found(NoGpu),
        "the machine has no GPU of this type, its driver is not loaded, or your user may not use it",
        "look at what nvidia-smi, rocm-smi or xpu-smi says, at the groups video and render, and at CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK",
    ),
    row(
        Found(NoSuchGpu),
        "GPUs are numbered from 0, in the order of their runtime",
        "choose another with --tx-gpu and --rx-gpu; CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK hide some",
    ),
    row(
        Found(NoPeerToPeer),
        "the peer-to-peer module of the GPU is not loaded, its driver exports no dma-buf, or IOMMU or ACS keep GPU and NIC apart",
        "load the module of the vendor (nvidia-peermem, amdgpu), or use a driver and runtime that export dma-bufs",
    ),
    row(
        Found(LinkDown),
        "the NIC sees no link",
        "check the cable and the switch port",
    ),
    row(
        Found(ServiceDisabled),
        "the administrator has not enabled the service, as the driver ships the default service today",
        "ask the administrator for 'cxi_service enable -s N', or choose another service with --svc-id",
    ),
    row(
        Found(ServiceWithoutVni),
        "the service has neither a list nor a range of VNIs",
        "choose another service with --svc-id",
    ),
    row(
        Found(NoRetryHandler),
        "the retry handler is not running: lost packets are not repeated, and a lost one is waited for without end",
        "start the service cxi_rh@cxiN",
    ),
    row(
        Found(NoAnswer),
        "packets or their answers get lost",
        "check the links of both NICs, the switch, and whether the peer's node still runs",
    ),
    row(
        Found(ConnectionRefused),
        "the server is not started yet, has ended, or listens on another port",
        "start the server first, and give both sides the same --port; --wait=SEC waits for a server that starts, or serves another client",
    ),
    row(
        Found(NoConnection),
        "the host is down, another one, or behind a firewall",
        "is this the right host, is it up, and does every firewall let this port through?",
    ),
    row(
        Found(UnknownHost),
        "the name is wrong, or no name service knows it",
        "check the name, or give the IP address; this has nothing to do with the NIC",
    ),
    row(
        Found(PortInUse),
        "another program listens there, perhaps a server left from before",
        "end the server that was left there, or give both sides another --port (0 on a server: any free one)",
    ),
    row(
        Found(PortReserved),
        "only root may listen there",
        "ports below 1024 are reserved; choose another with --port",
    ),
    row(
        Found(NotOurAddress),
        "--bind names an address that this machine does not have",
        "--bind takes an address of this machine; 'ip address' lists them",
    ),
    row(
        Found(OtherTool),
        "the sides run different tools",
        "start the same tool on both sides",
    ),
    row(
        Found(OtherVersion),
        "the sides are of different releases",
        "use the same release of the tool on both sides",
    ),
    row(
        Found(OldVersion),
        "the peer's tool is of SHS 12.0 or older, whose control connection is another one",
        "the peer's tool is of SHS 12.0 or older; SHS 13.0 or newer is needed there, or cxidiag",
    ),
    row(
        Found(UnreleasedVersion),
        "the peer's tool was built between SHS 12.0 and 13.0",
        "the peer's tool is of an unreleased state between SHS 12.0 and 13.0; update it, or use cxidiag",
    ),
    row(
        Found(OtherVni),
        "the services of the two sides have different VNIs, and their NICs would never find each other",
        "choose services with the same VNI by --svc-id on both sides",
    ),
    row(
        Found(NoDiagnostic),
        "what answers there is no CXI diagnostic, or one of another release",
        "check address and --port; see what the other side printed",
    ),
    row(
        Found(OtherKind),
        "one of the NICs is a software NIC, the other one hardware",
        "choose devices of one kind by --device on both sides",
    ),
    row(
        Found(SoftwareApart),
        "software NICs are on two machines",
        "software NICs reach only their own machine",
    ),
    row(
        Found(SameAddress),
        "NICs of two machines have the same address",
        "the nodes are of two fabrics, or the algorithmic MAC address (02:...) of a NIC is not applied",
    ),
    row(
        Found(PeerEnded),
        "the other side failed, was interrupted or killed",
        SEE_PEER,
    ),
    row(
        Found(PeerGone),
        "the peer's node or the network between the nodes is gone",
        "is its node up, and the network between the nodes? This is the TCP control connection, not the NIC",
    ),
];

const fn row(what: What, cause: &'static str, remedy: &'static str) -> Explanation {
    Explanation {
        what,
        cause,
        remedy,
    }
}
