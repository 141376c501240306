//! The table of errors, causes and remedies. docs/troubleshooting.md is generated from it.

use super::explanation::{Explanation, What};
use crate::error::{SEE_PEER, Situation};

use Situation::*;
use What::{Call, Code, Found};

/// All explanations. The first row that matches applies.
pub static EXPLANATIONS: &[Explanation] = &[
    row(
        Call(&["cxil_open_device"], &[libc::ENOENT]),
        "there is no device of this number, its modules (cxi_ss1, cxi_user) are not loaded, or the container has no /dev/cxiN",
        "check which devices exist in /sys/class/cxi, 'lsmod' and the kernel log",
    ),
    row(
        Call(&["cxil_open_device"], &[libc::EACCES, libc::EPERM]),
        "no permission to use the device",
        "in a container, pass /dev/cxiN into it; otherwise check the permissions of /dev/cxiN",
    ),
    row(
        Call(&["cxil_open_device"], &[libc::EINVAL]),
        "library and driver may be of different releases",
        "compare the versions of libcxi and of the driver",
    ),
    row(
        Call(&["cxil_open_device"], &[libc::ENXIO, libc::ENODEV, libc::EIO]),
        "the device node exists, but the device is gone",
        "check the kernel log for errors of the NIC; the node may need a reboot",
    ),
    row(
        Call(&["cxil_get_svc"], &[libc::EINVAL]),
        "this NIC has no such service; services are per NIC",
        "list the services of this NIC with 'cxidiag devices' or 'cxi_service list'",
    ),
    row(
        Call(&["cxil_get_svc", "cxil_svc_get_vni_range"], &[libc::ENOSYS]),
        "libcxi is older than the function",
        "use the libcxi of the driver's release; --vni makes the range unnecessary",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::EKEYREVOKED]),
        "the service is disabled",
        "ask the administrator for 'cxi_service enable -s N', or choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::EPERM]),
        "your user, group or network namespace is not a member of the service; this applies to root as well",
        "choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_lni"], &[libc::ENOSPC]),
        "all 255 interfaces of the NIC, or those of the service, are in use",
        "check for processes of earlier runs that still exist",
    ),
    row(
        Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::ENOENT]),
        "no enabled service has the VNI",
        "choose another VNI with --vni, or another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::EPERM]),
        "the VNI belongs to another service",
        "choose another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_domain"], &[libc::ENOSPC]),
        "all PIDs of the VNI are in use",
        "check for processes of earlier runs that still exist",
    ),
    row(
        Call(&["cxil_alloc_cp"], &[libc::EINVAL]),
        "the service or the QoS profile of the driver does not allow the traffic class",
        "choose another class with --traffic-class, or another service with --svc-id",
    ),
    row(
        Call(&["cxil_alloc_cp"], &[libc::ENOSPC]),
        "the communication profiles of the NIC are used up",
        "check for other users of the NIC",
    ),
    row(
        Call(&["cxil_map"], &[libc::EFAULT, libc::ENOMEM]),
        "the memory cannot be pinned, or reserved huge pages cannot be used (limit of the control group, memory policy)",
        "compare the size with 'ulimit -l' and the free memory",
    ),
    row(
        Call(&["cxil_map"], &[libc::ENOSPC]),
        "the address contexts of the NIC or of the service are used up",
        "check for other users of the NIC",
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
        "check the kernel log for errors of the NIC",
    ),
    row(
        Call(&["cxil_map_pte"], &[libc::ENOSPC]),
        "the portal table of the NIC is full",
        "check for other users of the NIC",
    ),
    row(
        Call(&["sched_setaffinity"], &[libc::EINVAL]),
        "all of the CPUs are offline or excluded by the control group (cpuset) of this process",
        "choose CPUs from the line Cpus_allowed_list of /proc/self/status",
    ),
    row(
        Call(&[], &[libc::ENOSPC]),
        "the service's limit or the NIC's total is reached",
        "check for other users of the NIC, and the limits of the service",
    ),
    row(
        Call(&[], &[libc::EKEYREVOKED]),
        "the service was disabled during the run",
        "ask the administrator of the NIC, and run again",
    ),
    row(
        Call(&["cuMemAlloc_v2", "hipMalloc", "zeMemAllocDevice"], &[libc::ENOMEM]),
        "the GPU does not have enough free memory",
        "use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs), or another GPU",
    ),
    row(
        Call(&["mmap"], &[libc::ENOMEM]),
        "not enough memory, or not enough huge pages",
        "use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs), and check 'ulimit -v'",
    ),
    row(
        Call(&[], &[libc::ENOMEM]),
        "not enough memory, in this process or in the kernel",
        "check 'free' and the limits of the user and of the control group",
    ),
    row(
        Call(&[], &[libc::ENOLCK]),
        "the file system of the directory of software NICs has no locks, which tell who is alive",
        "name a directory in memory, such as CXIDIAG_FABRIC_DIR=/dev/shm/NAME",
    ),
    row(
        Call(&[], &[libc::EFBIG]),
        "software NICs keep their memory in files, and the process has a file size limit",
        "raise the limit ('ulimit -f')",
    ),
    row(
        Call(&[], &[libc::EMFILE]),
        "the process has a limit of open files",
        "raise the limit ('ulimit -n')",
    ),
    row(
        Call(&[], &[libc::EIO]),
        "the device was unplugged, or its driver unbound",
        "check the kernel log for errors of the NIC",
    ),
    row(
        Code(&["UNDELIVERABLE"]),
        "the peer's NIC does not answer: a link is down, the algorithmic MAC address is not applied, routing or QoS of the switch is wrong, or the node is down",
        "check the links of both NICs, the switch port, the MAC address (02:...), and whether the peer still runs",
    ),
    row(
        Code(&["CANCELED"]),
        "the peer's NIC does not answer an operation that cannot be repeated, or refused it too often for lack of resources",
        "as for UNDELIVERABLE; the journal of cxi_rh@cxiN on both nodes shows which of the two happened",
    ),
    row(
        Code(&["HRP_RSP_DISCARD"]),
        "the packet reached the switch and was dropped there or beyond it",
        "the local link works: check the peer's node and the routing",
    ),
    row(
        Code(&["HRP_CONFIG_ERROR", "HRP_RSP_ERROR"]),
        "the fabric refuses HRP",
        "use --no-hrp, or ask the fabric administrator to enable HRP",
    ),
    row(
        Code(&["PKTBUF_ERROR"]),
        "packets overflowed: flow control or QoS is not applied at the switch",
        "check the QoS configuration and the kernel log for pfc_fifo_oflw and pbuf_rd_err",
    ),
    row(
        Code(&["NO_SPACE"]),
        "the list entries of the NIC or of the service are used up, or the operation goes beyond the end of the buffer",
        "check for other users of the NIC; use a smaller --list-size",
    ),
    row(
        Code(&["VNI_NOT_FOUND"]),
        "the peer's NIC does not accept the VNI: the services differ, or the peer has ended",
        "both sides need services with the same VNI",
    ),
    row(
        Code(&["PTLTE_NOT_FOUND", "PT_DISABLED"]),
        "the peer's portal is not open: the peer has ended or is not ready",
        "see what the peer printed, and run again",
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
        "the peer's list entries do not accept this operation: the two sides use different options, or one has a bug",
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
        "an address cannot be translated, here or at the peer: memory was unmapped too early, or a program has a bug",
        "report this with both command lines and both outputs",
    ),
    row(
        Code(&["PCIE_UNSUCCESS_CMPL"]),
        "a bus error; of an atomic operation also a target's NIC that passes the operation on as a PCIe FetchAdd, while no device above it completes atomic operations",
        "compare properties/amo_remap_to_pcie_fadd of the target's NIC (10 is SWAP, the default of the driver): '-A CSWAP -C NE' swaps on every NIC; for others check the kernel logs of both nodes",
    ),
    row(
        Code(&["PCIE_ERROR_POISONED", "SRC_ERROR", "UNCOR", "UNCOR_TRNSNT"]),
        "a bus or memory error",
        "check the kernel logs of both nodes",
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
        "this combination of atomic operation, type and memory is not supported",
        "choose another --atomic-op or --atomic-type; report this if the combination should work",
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
        Found(NoDeviceNode),
        "the driver shows the NIC, but the module cxi_user, which makes /dev/cxiN, is not loaded, or the container has no /dev/cxiN",
        "load the module with 'modprobe cxi_user'; in a container, pass /dev/cxiN into it",
    ),
    row(
        Found(NoProc),
        "/proc is not mounted, so the memory of this process cannot be looked up",
        "mount it: 'mount -t proc proc /proc'",
    ),
    row(
        Found(NoLibrary),
        "libcxi is not installed where programs find it",
        "install libcxi, or name the library with --libcxi=PATH",
    ),
    row(
        Found(NoFabric),
        "software NICs share the directory $CXIDIAG_FABRIC_DIR (default: /dev/shm/cxidiag-UID)",
        "the directory must belong to you and be writable by you alone, or be shared by your group (mode 2770)",
    ),
    row(
        Found(FabricHeld),
        "a process was stopped (Ctrl-Z, a debugger) at the moment at which it changed the directory of the fabric",
        "continue or end the process",
    ),
    row(
        Found(NoHugePages),
        "huge pages must be reserved beforehand: there are too few, they are in use, or the control group limits them",
        "as root, write a larger number to the file named and read it back (fragmented memory may prevent it), or use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs)",
    ),
    row(
        Found(NoSuchHugePages),
        "the kernel or the CPU does not offer this size (/sys/kernel/mm/hugepages shows those that it does)",
        "choose the other size with --use-hp",
    ),
    row(
        Found(NoMemory),
        "buffers are pinned: they must fit into the free memory, that of the NUMA node of --cpu and the limit of the control group",
        "use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs)",
    ),
    row(
        Found(CpuForbidden),
        "the control group (cpuset) of this process excludes some of the CPUs",
        "choose CPUs from the line Cpus_allowed_list of /proc/self/status",
    ),
    row(
        Found(CallFiltered),
        "a filter of system calls (seccomp), as containers and services have, may refuse the call",
        "'strace -f' names it; allow it in the profile of the container (docker run --security-opt \
         seccomp=FILE), or in SystemCallFilter= of the service",
    ),
    row(
        Found(NoGpuRuntime),
        "the runtime of the GPUs is not installed, or not where the dynamic linker looks",
        "install it (libcuda.so.1 comes with NVIDIA's driver, libamdhip64.so with ROCm, libze_loader.so.1 with Level Zero) or name its directory in LD_LIBRARY_PATH; check --gpu-type (-t names a GPU: a time is set with -D)",
    ),
    row(
        Found(GpuRuntimeFails),
        "the driver of the GPUs is not loaded, does not match the runtime, or may not be used by you",
        "check the output of nvidia-smi, rocm-smi or xpu-smi, and that your user is in the groups video and render",
    ),
    row(
        Found(NoGpu),
        "the machine has no GPU of this type, its driver is not loaded, or your user may not use it",
        "check the output of nvidia-smi, rocm-smi or xpu-smi, the groups video and render, and CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK",
    ),
    row(
        Found(NoSuchGpu),
        "GPUs are numbered from 0, in the order of their runtime",
        "choose another GPU with --tx-gpu and --rx-gpu; CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK hide some",
    ),
    row(
        Found(NoPeerToPeer),
        "the peer-to-peer module of the GPU is not loaded, its driver exports no dma-buf, or IOMMU or ACS blocks traffic between GPU and NIC",
        "load the module of the vendor (nvidia-peermem, amdgpu), or use a driver and runtime that export dma-bufs",
    ),
    row(
        Found(NoHighRatePuts),
        "the service or the QoS profile of the driver does not allow High Rate Puts",
        "use --no-hrp, or choose another service with --svc-id",
    ),
    row(
        Found(UnrestrictedReads),
        "no known program issues the commands of unrestricted reads (full GETs to a list entry without matching): the NIC may not execute them",
        "if restricted reads succeed (leave --unrestricted out), use those",
    ),
    row(Found(LinkDown), "the NIC sees no link", "check the cable and the switch port"),
    row(
        Found(ServiceDisabled),
        "the service is not enabled; current drivers ship the default service disabled",
        "ask the administrator for 'cxi_service enable -s N', or choose another service with --svc-id",
    ),
    row(
        Found(ServiceWithoutVni),
        "the service has neither a list nor a range of VNIs",
        "choose another service with --svc-id",
    ),
    row(
        Found(VniNotGranted),
        "each service has VNIs of its own",
        "choose one of its VNIs with --vni, or another service with --svc-id; 'cxidiag devices cxiN' lists the services",
    ),
    row(
        Found(ClassNotGranted),
        "a service can be limited to some traffic classes",
        "choose one of its classes with --traffic-class, or another service with --svc-id (Slurm: --network=tcs=CLASS at the allocation of the job)",
    ),
    row(
        Found(GrantUnusable),
        "the variables are those of a step that has ended, or of another node or user",
        "start the tool with the launcher (srun, mpiexec, flux run), or choose a service with --svc-id",
    ),
    row(
        Found(OneNodeStep),
        "Slurm gives a step on one node no VNI of its own, and the default service is not for its users",
        "start it with 'srun --network=single_node_vni'; for two nodes, start both sides in one step (srun -N2), or each with 'srun --network=job_vni,single_node_vni' and --vni=job; or ask the administrator to enable service 1",
    ),
    row(
        Found(NoRetryHandler),
        "the retry handler is not running: lost packets are never sent again",
        "start the service cxi_rh@cxiN",
    ),
    row(
        Found(CommandRefused),
        "the service or profile lacks a right, or this release of driver or firmware has other rules than cxidiag knows",
        "run 'cxidiag selftest --report=FILE', and report the whole line with this file",
    ),
    row(
        Found(NoAnswer),
        "packets or their replies are lost",
        "check the links of both NICs, the switch, and whether the peer's node still runs",
    ),
    row(
        Found(ConnectionRefused),
        "the server is not started yet, has ended, or listens on another port",
        "start the server first, with the same --port; --wait=TIME waits for a server that is starting or busy",
    ),
    row(
        Found(ServerBusy),
        "a server with --persist measures with one client at a time",
        "wait for it with --wait=TIME",
    ),
    row(
        Found(OtherJob),
        "the process at this address and port belongs to another batch job, perhaps one that should have ended; two flux run, or two components of a Slurm job, are two jobs",
        "find the server of this job (--port-file), or give --any-job on one side to measure with another job, such as another flux run",
    ),
    row(
        Found(OtherToken),
        "the sides have different tokens, or only one of them has one: legacy tools have none",
        "give both sides the same token, in CXIDIAG_TOKEN or with --token, or none",
    ),
    row(
        Found(NoConnection),
        "the host is down, it is the wrong host, or a firewall blocks the port",
        "check that this is the right host, that it is up, and that no firewall blocks the port",
    ),
    row(
        Found(UnknownHost),
        "the name is wrong, or no name service resolves it",
        "check the name, or give the IP address; this has nothing to do with the NIC",
    ),
    row(
        Found(PortInUse),
        "another program listens on the port, perhaps a server of an earlier run, or has it for a connection of its own",
        "end that program, or give both sides another --port (0 on a server: any free port)",
    ),
    row(
        Found(PortReserved),
        "only root may listen on ports below 1024",
        "ports below 1024 are reserved; choose another with --port",
    ),
    row(
        Found(NotOurAddress),
        "--bind names an address that this machine does not have",
        "--bind takes an address of this machine; 'ip address' lists them",
    ),
    row(Found(OtherTool), "the two sides run different tools", "start the same tool on both sides"),
    row(
        Found(OptionUnknownToPeer),
        "the server is a legacy tool or an older cxidiag, which does not know an option of the client",
        "leave the option out, or start this release of cxidiag on the server",
    ),
    row(
        Found(OtherDevice),
        "a server of one tool measures with the NIC that it was started with",
        "start `cxidiag serve` on the server, whose clients choose the NIC; or start the server with --device, and leave --peer-device out",
    ),
    row(
        Found(WrongData),
        "data has changed or is missing: on the way, in a NIC, or in the memory of a machine",
        "run again with another node in place of each side in turn; check the memory errors of both machines (EDAC) and the link errors of both NICs",
    ),
    row(
        Found(OtherVersion),
        "the two sides have different releases",
        "use the same release of the tool on both sides",
    ),
    row(
        Found(OldVersion),
        "the peer's tool is from SHS 12.0 or older, which has another control protocol",
        "the peer's tool is from SHS 12.0 or older: install SHS 13.0 or later there, or use cxidiag",
    ),
    row(
        Found(UnreleasedVersion),
        "the peer's tool was built between SHS 12.0 and 13.0",
        "the peer's tool is an unreleased version between SHS 12.0 and 13.0: update it, or use cxidiag",
    ),
    row(
        Found(OtherVni),
        "the services of the two sides have different VNIs: no packet can pass between them",
        "choose the same VNI on both sides (--svc-id, --vni); in a batch job start both sides in one step, or give both --vni=job",
    ),
    row(
        Found(OtherClass),
        "the server issues operations of its own in another traffic class",
        "give both sides the same --traffic-class",
    ),
    row(
        Found(NoDiagnostic),
        "the program at this port is not a CXI diagnostic, or has another release",
        "check address and --port; see what the peer printed",
    ),
    row(
        Found(OtherKind),
        "one of the NICs is a software NIC, the other one hardware",
        "choose devices of the same kind on both sides (--device)",
    ),
    row(
        Found(SoftwareApart),
        "software NICs are on two machines",
        "run both sides on one machine: software NICs do not reach another machine",
    ),
    row(
        Found(SameAddress),
        "NICs of two machines have the same address",
        "the nodes belong to two fabrics, or the algorithmic MAC address (02:... or 06:...) of a NIC is not applied",
    ),
    row(Found(PeerEnded), "the peer failed, was interrupted or was killed", SEE_PEER),
    row(
        Found(PeerGone),
        "the peer's node or the network between the nodes is gone",
        "check that its node and the network between the nodes are up; this is the TCP control connection, not the NIC",
    ),
];

const fn row(what: What, cause: &'static str, remedy: &'static str) -> Explanation {
    Explanation { what, cause, remedy }
}
