//! Causes and remedies of failed calls, error events and other problems (libcxi.md 12).
//!
//! [`EXPLANATIONS`] holds all of them: hints of messages come from it, and docs/troubleshooting.md
//! is generated from it.

use std::{fmt, fs, io};

use Situation::*;
use What::{Call, Code, Found};

use crate::error::{Failure, Kind, SEE_PEER, Step, cause};

pub use crate::error::Situation;

/// The explanation of a libcxi call (or mmap) that failed with an errno (libcxi.md 12.1).
pub fn call_explanation(call: &str, errno: i32) -> Option<&'static Advice> {
    EXPLANATIONS.iter().find(|row| match &row.what {
        What::Call(calls, errnos) => {
            (calls.is_empty() || calls.contains(&call)) && errnos.contains(&errno)
        }
        _ => false,
    })
}

/// The explanation of a return code of the NIC, named without `C_RC_` (libcxi.md 12.3).
pub fn code_explanation(name: &str) -> Option<&'static Advice> {
    EXPLANATIONS.iter().find(|row| matches!(&row.what, What::Code(names) if names.contains(&name)))
}

fn advice(situation: Situation) -> &'static Advice {
    let explained = |row: &&Advice| matches!(row.what, What::Found(found) if found == situation);
    let row = EXPLANATIONS.iter().find(explained);
    row.expect("every situation has its row; a test counts them")
}

/// The remedy in a situation, for messages that name the cause already.
pub fn remedy(situation: Situation) -> &'static str {
    advice(situation).remedy
}

pub fn hint(situation: Situation) -> String {
    advice(situation).hint()
}

/// The situation with this hint or remedy. The server of a loopback run is another process, which
/// reports a failure as text only.
pub fn situation_with(hint: &str) -> Option<Situation> {
    EXPLANATIONS.iter().find_map(|row| match row.what {
        What::Found(situation) if row.remedy == hint || row.hint() == hint => Some(situation),
        _ => None,
    })
}

/// Advice on failures in a situation that the program has detected.
pub trait Advise {
    /// Adds the remedy: the message names the cause already.
    fn advised(self, situation: Situation) -> Self;

    /// Adds the cause and the remedy.
    fn explained(self, situation: Situation) -> Self;
}

impl Advise for Failure {
    fn advised(self, situation: Situation) -> Self {
        self.with_hint(remedy(situation)).in_situation(situation)
    }

    fn explained(self, situation: Situation) -> Self {
        self.with_hint(hint(situation)).in_situation(situation)
    }
}

/// The failure for a situation that the program has detected; `message` describes it.
pub fn found(situation: Situation, message: impl Into<String>) -> Failure {
    let failure = Failure::environment(message).explained(situation);
    match situation {
        Situation::LinkDown => failure.in_step(Step::Link),
        Situation::ServiceDisabled => failure.in_step(Step::Service),
        Situation::ServiceWithoutVni => failure.in_step(Step::Vni),
        _ => failure,
    }
}

/// Adds to a failure the filter of system calls that may explain it, if one is in force.
pub fn name_filter(failure: Failure) -> Failure {
    if may_be_filter(&failure) && has_filter() {
        failure.with_further_hint(hint(Situation::CallFiltered))
    } else {
        failure
    }
}

/// Whether a filter of system calls may explain a failure: filters refuse with EPERM or ENOSYS.
fn may_be_filter(failure: &Failure) -> bool {
    let message = failure.message();
    let text = |errno| cause(&io::Error::from_raw_os_error(errno));
    let is_refused = [libc::EPERM, libc::ENOSYS].map(text);
    failure.kind == Kind::Environment && is_refused.iter().any(|text| message.contains(text))
}

/// Whether a filter of system calls is in force for this process.
pub fn has_filter() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// The cause and the remedy of a problem.
pub struct Advice {
    /// The problem.
    pub what: What,
    /// Its causes, the most likely first.
    pub cause: &'static str,
    /// What to check and do.
    pub remedy: &'static str,
}

/// A problem, as the program detects it.
#[derive(Debug)]
pub enum What {
    /// One of these C functions (any function if the list is empty) returns one of these errno
    /// values.
    Call(&'static [&'static str], &'static [i32]),
    /// The NIC reports one of these return codes in an event; names without `C_RC_`.
    Code(&'static [&'static str]),
    /// The program detects this situation.
    Found(Situation),
}

impl What {
    /// The explanation without a remedy.
    pub(super) const fn because(self, cause: &'static str) -> Advice {
        Advice { what: self, cause, remedy: "" }
    }
}

impl Advice {
    pub(super) const fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }

    /// The hint for the user, without `hint: `.
    pub fn hint(&self) -> String {
        format!("{}; {}", self.cause, self.remedy)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(calls, errnos) => {
                let calls = match calls {
                    [] => "any other call".to_owned(),
                    calls => calls.join(", "),
                };
                let errors: Vec<String> = errnos.iter().map(|&errno| error_text(errno)).collect();
                write!(f, "{calls}: {}", errors.join(", "))
            }
            Self::Code(names) => f.write_str(&names.join(", ")),
            Self::Found(situation) => situation.fmt(f),
        }
    }
}

fn error_text(errno: i32) -> String {
    cause(&io::Error::from_raw_os_error(errno))
}

/// All explanations. The first row that matches applies.
pub static EXPLANATIONS: &[Advice] = &[
    Call(&["cxil_open_device"], &[libc::ENOENT])
        .because("there is no device of this number, its modules (cxi_ss1, cxi_user) are not loaded, or the container has no /dev/cxiN")
        .remedy("check which devices exist in /sys/class/cxi, 'lsmod' and the kernel log"),
    Call(&["cxil_open_device"], &[libc::EACCES, libc::EPERM])
        .because("no permission to use the device")
        .remedy("in a container, pass /dev/cxiN into it; otherwise check the permissions of /dev/cxiN"),
    Call(&["cxil_open_device"], &[libc::EINVAL])
        .because("library and driver may be of different releases")
        .remedy("compare the versions of libcxi and of the driver"),
    Call(&["cxil_open_device"], &[libc::ENXIO, libc::ENODEV, libc::EIO])
        .because("the device node exists, but the device is gone")
        .remedy("check the kernel log for errors of the NIC; the node may need a reboot"),
    Call(&["cxil_get_svc"], &[libc::EINVAL])
        .because("this NIC has no such service; services are per NIC")
        .remedy("list the services of this NIC with 'cxidiag devices' or 'cxi_service list'"),
    Call(&["cxil_get_svc", "cxil_svc_get_vni_range"], &[libc::ENOSYS])
        .because("libcxi is older than the function")
        .remedy("use the libcxi of the driver's release; --vni makes the range unnecessary"),
    Call(&["cxil_alloc_lni"], &[libc::EKEYREVOKED])
        .because("the service is disabled")
        .remedy("ask the administrator for 'cxi_service enable -s N', or choose another service with --svc-id"),
    Call(&["cxil_alloc_lni"], &[libc::EPERM])
        .because("your user, group or network namespace is not a member of the service; this applies to root as well")
        .remedy("choose another service with --svc-id"),
    Call(&["cxil_alloc_lni"], &[libc::ENOSPC])
        .because("all 255 interfaces of the NIC, or those of the service, are in use")
        .remedy("check for processes of earlier runs that still exist"),
    Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::ENOENT])
        .because("no enabled service has the VNI")
        .remedy("choose another VNI with --vni, or another service with --svc-id"),
    Call(&["cxil_alloc_domain", "cxil_alloc_cp"], &[libc::EPERM])
        .because("the VNI belongs to another service")
        .remedy("choose another service with --svc-id"),
    Call(&["cxil_alloc_domain"], &[libc::ENOSPC])
        .because("all PIDs of the VNI are in use")
        .remedy("check for processes of earlier runs that still exist"),
    Call(&["cxil_alloc_cp"], &[libc::EINVAL])
        .because("the service or the QoS profile of the driver does not allow the traffic class")
        .remedy("choose another class with --traffic-class, or another service with --svc-id"),
    Call(&["cxil_alloc_cp"], &[libc::ENOSPC])
        .because("the communication profiles of the NIC are used up")
        .remedy("check for other users of the NIC"),
    Call(&["cxil_map"], &[libc::EFAULT, libc::ENOMEM])
        .because("the memory cannot be pinned, or reserved huge pages cannot be used (limit of the control group, memory policy)")
        .remedy("compare the size with 'ulimit -l' and the free memory"),
    Call(&["cxil_map"], &[libc::ENOSPC])
        .because("the address contexts of the NIC or of the service are used up")
        .remedy("check for other users of the NIC"),
    Call(&["cxil_map"], &[libc::EOPNOTSUPP, libc::ENODEV])
        .because("this kind of memory cannot be mapped here")
        .remedy("for GPU memory, load the peer-to-peer module of the vendor (nvidia-peermem, amdgpu)"),
    Call(&["cxil_alloc_cmdq"], &[libc::ENOMEM])
        .because("no contiguous memory for the command queue: the node's memory is fragmented")
        .remedy("use a smaller --list-size, or compact the memory ('echo 1 > /proc/sys/vm/compact_memory')"),
    Call(&["cxil_alloc_cmdq"], &[libc::E2BIG])
        .because("the command queue would be longer than 65536 entries")
        .remedy("use a smaller --list-size"),
    Call(&["cxil_alloc_cmdq"], &[libc::EIO])
        .because("the NIC did not set the queue up in time")
        .remedy("check the kernel log for errors of the NIC"),
    Call(&["cxil_map_pte"], &[libc::ENOSPC])
        .because("the portal table of the NIC is full")
        .remedy("check for other users of the NIC"),
    Call(&["sched_setaffinity"], &[libc::EINVAL])
        .because("all of the CPUs are offline or excluded by the control group (cpuset) of this process")
        .remedy("choose CPUs from the line Cpus_allowed_list of /proc/self/status"),
    Call(&[], &[libc::ENOSPC])
        .because("the service's limit or the NIC's total is reached")
        .remedy("check for other users of the NIC, and the limits of the service"),
    Call(&[], &[libc::EKEYREVOKED])
        .because("the service was disabled during the run")
        .remedy("ask the administrator of the NIC, and run again"),
    Call(&["cuMemAlloc_v2", "hipMalloc", "zeMemAllocDevice"], &[libc::ENOMEM])
        .because("the GPU does not have enough free memory")
        .remedy("use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs), or another GPU"),
    Call(&["mmap"], &[libc::ENOMEM])
        .because("not enough memory, or not enough huge pages")
        .remedy("use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs), and check 'ulimit -v'"),
    Call(&[], &[libc::ENOMEM])
        .because("not enough memory, in this process or in the kernel")
        .remedy("check 'free' and the limits of the user and of the control group"),
    Call(&[], &[libc::ENOLCK])
        .because("the file system of the directory of software NICs has no locks, which tell who is alive")
        .remedy("name a directory in memory, such as CXIDIAG_FABRIC_DIR=/dev/shm/NAME"),
    Call(&[], &[libc::EFBIG])
        .because("software NICs keep their memory in files, and the process has a file size limit")
        .remedy("raise the limit ('ulimit -f')"),
    Call(&[], &[libc::EMFILE])
        .because("the process has a limit of open files")
        .remedy("raise the limit ('ulimit -n')"),
    Call(&[], &[libc::EIO])
        .because("the device was unplugged, or its driver unbound")
        .remedy("check the kernel log for errors of the NIC"),
    Code(&["UNDELIVERABLE"])
        .because("the peer's NIC does not answer: a link is down, the algorithmic MAC address is not applied, routing or QoS of the switch is wrong, or the node is down")
        .remedy("check the links of both NICs, the switch port, the MAC address (02:...), and whether the peer still runs"),
    Code(&["CANCELED"])
        .because("the peer's NIC does not answer an operation that cannot be repeated, or refused it too often for lack of resources")
        .remedy("as for UNDELIVERABLE; the journal of cxi_rh@cxiN on both nodes shows which of the two happened"),
    Code(&["HRP_RSP_DISCARD"])
        .because("the packet reached the switch and was dropped there or beyond it")
        .remedy("the local link works: check the peer's node and the routing"),
    Code(&["HRP_CONFIG_ERROR", "HRP_RSP_ERROR"])
        .because("the fabric refuses HRP")
        .remedy("use --no-hrp, or ask the fabric administrator to enable HRP"),
    Code(&["PKTBUF_ERROR"])
        .because("packets overflowed: flow control or QoS is not applied at the switch")
        .remedy("check the QoS configuration and the kernel log for pfc_fifo_oflw and pbuf_rd_err"),
    Code(&["NO_SPACE"])
        .because("the list entries of the NIC or of the service are used up, or the operation goes beyond the end of the buffer")
        .remedy("check for other users of the NIC; use a smaller --list-size"),
    Code(&["VNI_NOT_FOUND"])
        .because("the peer's NIC does not accept the VNI: the services differ, or the peer has ended")
        .remedy("both sides need services with the same VNI"),
    Code(&["PTLTE_NOT_FOUND", "PT_DISABLED"])
        .because("the peer's portal is not open: the peer has ended or is not ready")
        .remedy("see what the peer printed, and run again"),
    Code(&[
        "NO_MATCH",
        "ENTRY_NOT_FOUND",
        "OP_VIOLATION",
        "PERM_VIOLATION",
        "INVALID_ENDPOINT",
        "RESTRICTED_UNICAST",
        "PTLTE_SW_MANAGED",
    ])
    .because("the peer's list entries do not accept this operation: the two sides use different options, or one has a bug")
    .remedy("report this with both command lines and both outputs"),
    Code(&[
        "INVALID_AC",
        "PAGE_PERM_ERROR",
        "ATS_ERROR",
        "NO_TRANSLATION",
        "PAGE_REQ_ERROR",
        "ADDR_OUT_OF_RANGE",
        "FLUSH_TRANSLATION",
    ])
    .because("an address cannot be translated, here or at the peer: memory was unmapped too early, or a program has a bug")
    .remedy("report this with both command lines and both outputs"),
    Code(&["PCIE_UNSUCCESS_CMPL"])
        .because("a bus error; of an atomic operation also a target's NIC that passes the operation on as a PCIe FetchAdd, while no device above it completes atomic operations")
        .remedy("compare properties/amo_remap_to_pcie_fadd of the target's NIC (10 is SWAP, the default of the driver): '-A CSWAP -C NE' swaps on every NIC; for others check the kernel logs of both nodes"),
    Code(&["PCIE_ERROR_POISONED", "SRC_ERROR", "UNCOR", "UNCOR_TRNSNT"])
        .because("a bus or memory error")
        .remedy("check the kernel logs of both nodes"),
    Code(&[
        "AMO_INVAL_OP_ERROR",
        "AMO_ALIGN_ERROR",
        "AMO_LENGTH_ERROR",
        "AMO_FP_INVALID",
        "AMO_FP_UNDERFLOW",
        "AMO_FP_OVERFLOW",
        "AMO_FP_INEXACT",
    ])
    .because("this combination of atomic operation, type and memory is not supported")
    .remedy("choose another --atomic-op or --atomic-type; report this if the combination should work"),
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
    ])
    .because("the transport between the NICs is overloaded or disturbed")
    .remedy("see the journal of cxi_rh@cxiN on both nodes, and run again when the fabric is quiet"),
    Code(&[
        "ILLEGAL_OP",
        "CMD_ALIGN_ERROR",
        "CMD_INVALID_ARG",
        "INVALID_EVENT",
        "INVALID_DFA_FORMAT",
        "MST_CANCELLED",
    ])
    .because("the NIC refuses a command of this program")
    .remedy("report this with the command line and the output"),
    Found(NoHardware)
        .because("this machine has no Slingshot NIC, or its driver is not loaded (no /sys/class/cxi)")
        .remedy("try the built-in software NIC with --device=soft0"),
    Found(NoDeviceNode)
        .because("the driver shows the NIC, but the module cxi_user, which makes /dev/cxiN, is not loaded, or the container has no /dev/cxiN")
        .remedy("load the module with 'modprobe cxi_user'; in a container, pass /dev/cxiN into it"),
    Found(NoProc)
        .because("/proc is not mounted, so the memory of this process cannot be looked up")
        .remedy("mount it: 'mount -t proc proc /proc'"),
    Found(NoLibrary)
        .because("libcxi is not installed where programs find it")
        .remedy("install libcxi, or name the library with --libcxi=PATH"),
    Found(NoFabric)
        .because("software NICs share the directory $CXIDIAG_FABRIC_DIR (default: /dev/shm/cxidiag-UID)")
        .remedy("the directory must belong to you and be writable by you alone, or be shared by your group (mode 2770)"),
    Found(FabricHeld)
        .because("a process was stopped (Ctrl-Z, a debugger) at the moment at which it changed the directory of the fabric")
        .remedy("continue or end the process"),
    Found(NoHugePages)
        .because("huge pages must be reserved beforehand: there are too few, they are in use, or the control group limits them")
        .remedy("as root, write a larger number to the file named and read it back (fragmented memory may prevent it), or use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs)"),
    Found(NoSuchHugePages)
        .because("the kernel or the CPU does not offer this size (/sys/kernel/mm/hugepages shows those that it does)")
        .remedy("choose the other size with --use-hp"),
    Found(NoMemory)
        .because("buffers are pinned: they must fit into the free memory, that of the NUMA node of --cpu and the limit of the control group")
        .remedy("use a smaller --size (for bandwidth tools also --list-size, --buf-sz or --pairs)"),
    Found(CpuForbidden)
        .because("the control group (cpuset) of this process excludes some of the CPUs")
        .remedy("choose CPUs from the line Cpus_allowed_list of /proc/self/status"),
    Found(CallFiltered)
        .because("a filter of system calls (seccomp), as containers and services have, may refuse the call")
        .remedy("'strace -f' names it; allow it in the profile of the container (docker run --security-opt \
         seccomp=FILE), or in SystemCallFilter= of the service"),
    Found(NoGpuRuntime)
        .because("the runtime of the GPUs is not installed, or not where the dynamic linker looks")
        .remedy("install it (libcuda.so.1 comes with NVIDIA's driver, libamdhip64.so with ROCm, libze_loader.so.1 with Level Zero) or name its directory in LD_LIBRARY_PATH; check --gpu-type (-t names a GPU: a time is set with -D)"),
    Found(GpuRuntimeFails)
        .because("the driver of the GPUs is not loaded, does not match the runtime, or may not be used by you")
        .remedy("check the output of nvidia-smi, rocm-smi or xpu-smi, and that your user is in the groups video and render"),
    Found(NoGpu)
        .because("the machine has no GPU of this type, its driver is not loaded, or your user may not use it")
        .remedy("check the output of nvidia-smi, rocm-smi or xpu-smi, the groups video and render, and CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK"),
    Found(NoSuchGpu)
        .because("GPUs are numbered from 0, in the order of their runtime")
        .remedy("choose another GPU with --tx-gpu and --rx-gpu; CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK hide some"),
    Found(NoPeerToPeer)
        .because("the peer-to-peer module of the GPU is not loaded, its driver exports no dma-buf, or IOMMU or ACS blocks traffic between GPU and NIC")
        .remedy("load the module of the vendor (nvidia-peermem, amdgpu), or use a driver and runtime that export dma-bufs"),
    Found(NoHighRatePuts)
        .because("the service or the QoS profile of the driver does not allow High Rate Puts")
        .remedy("use --no-hrp, or choose another service with --svc-id"),
    Found(UnrestrictedReads)
        .because("no known program issues the commands of unrestricted reads (full GETs to a list entry without matching): the NIC may not execute them")
        .remedy("if restricted reads succeed (leave --unrestricted out), use those"),
    Found(LinkDown)
        .because("the NIC sees no link")
        .remedy("check the cable and the switch port"),
    Found(ServiceDisabled)
        .because("the service is not enabled; current drivers ship the default service disabled")
        .remedy("ask the administrator for 'cxi_service enable -s N', or choose another service with --svc-id"),
    Found(ServiceWithoutVni)
        .because("the service has neither a list nor a range of VNIs")
        .remedy("choose another service with --svc-id"),
    Found(VniNotGranted)
        .because("each service has VNIs of its own")
        .remedy("choose one of its VNIs with --vni, or another service with --svc-id; 'cxidiag devices cxiN' lists the services"),
    Found(ClassNotGranted)
        .because("a service can be limited to some traffic classes")
        .remedy("choose one of its classes with --traffic-class, or another service with --svc-id (Slurm: --network=tcs=CLASS at the allocation of the job)"),
    Found(GrantUnusable)
        .because("the variables are those of a step that has ended, or of another node or user")
        .remedy("start the tool with the launcher (srun, mpiexec, flux run), or choose a service with --svc-id"),
    Found(OneNodeStep)
        .because("Slurm gives a step on one node no VNI of its own, and the default service is not for its users")
        .remedy("start it with 'srun --network=single_node_vni'; for two nodes, start both sides in one step (srun -N2), or each with 'srun --network=job_vni,single_node_vni' and --vni=job; or ask the administrator to enable service 1"),
    Found(NoRetryHandler)
        .because("the retry handler is not running: lost packets are never sent again")
        .remedy("start the service cxi_rh@cxiN"),
    Found(CommandRefused)
        .because("the service or profile lacks a right, or this release of driver or firmware has other rules than cxidiag knows")
        .remedy("run 'cxidiag selftest --report=FILE', and report the whole line with this file"),
    Found(NoAnswer)
        .because("packets or their replies are lost")
        .remedy("check the links of both NICs, the switch, and whether the peer's node still runs"),
    Found(ConnectionRefused)
        .because("the server is not started yet, has ended, or listens on another port")
        .remedy("start the server first, with the same --port; --wait=TIME waits for a server that is starting or busy"),
    Found(ServerBusy)
        .because("a server with --persist measures with one client at a time")
        .remedy("wait for it with --wait=TIME"),
    Found(OtherJob)
        .because("the process at this address and port belongs to another batch job, perhaps one that should have ended; two flux run, or two components of a Slurm job, are two jobs")
        .remedy("find the server of this job (--port-file), or give --any-job on one side to measure with another job, such as another flux run"),
    Found(OtherToken)
        .because("the sides have different tokens, or only one of them has one: legacy tools have none")
        .remedy("give both sides the same token, in CXIDIAG_TOKEN or with --token, or none"),
    Found(NoConnection)
        .because("the host is down, it is the wrong host, or a firewall blocks the port")
        .remedy("check that this is the right host, that it is up, and that no firewall blocks the port"),
    Found(UnknownHost)
        .because("the name is wrong, or no name service resolves it")
        .remedy("check the name, or give the IP address; this has nothing to do with the NIC"),
    Found(PortInUse)
        .because("another program listens on the port, perhaps a server of an earlier run, or has it for a connection of its own")
        .remedy("end that program, or give both sides another --port (0 on a server: any free port)"),
    Found(PortReserved)
        .because("only root may listen on ports below 1024")
        .remedy("ports below 1024 are reserved; choose another with --port"),
    Found(NotOurAddress)
        .because("--bind names an address that this machine does not have")
        .remedy("--bind takes an address of this machine; 'ip address' lists them"),
    Found(OtherTool)
        .because("the two sides run different tools")
        .remedy("start the same tool on both sides"),
    Found(OptionUnknownToPeer)
        .because("the server is a legacy tool or an older cxidiag, which does not know an option of the client")
        .remedy("leave the option out, or start this release of cxidiag on the server"),
    Found(OtherDevice)
        .because("a server of one tool measures with the NIC that it was started with")
        .remedy("start `cxidiag serve` on the server, whose clients choose the NIC; or start the server with --device, and leave --peer-device out"),
    Found(WrongData)
        .because("data has changed or is missing: on the way, in a NIC, or in the memory of a machine")
        .remedy("run again with another node in place of each side in turn; check the memory errors of both machines (EDAC) and the link errors of both NICs"),
    Found(OtherVersion)
        .because("the two sides have different releases")
        .remedy("use the same release of the tool on both sides"),
    Found(OldVersion)
        .because("the peer's tool is from SHS 12.0 or older, which has another control protocol")
        .remedy("the peer's tool is from SHS 12.0 or older: install SHS 13.0 or later there, or use cxidiag"),
    Found(UnreleasedVersion)
        .because("the peer's tool was built between SHS 12.0 and 13.0")
        .remedy("the peer's tool is an unreleased version between SHS 12.0 and 13.0: update it, or use cxidiag"),
    Found(OtherVni)
        .because("the services of the two sides have different VNIs: no packet can pass between them")
        .remedy("choose the same VNI on both sides (--svc-id, --vni); in a batch job start both sides in one step, or give both --vni=job"),
    Found(OtherClass)
        .because("the server issues operations of its own in another traffic class")
        .remedy("give both sides the same --traffic-class"),
    Found(NoDiagnostic)
        .because("the program at this port is not a CXI diagnostic, or has another release")
        .remedy("check address and --port; see what the peer printed"),
    Found(OtherKind)
        .because("one of the NICs is a software NIC, the other one hardware")
        .remedy("choose devices of the same kind on both sides (--device)"),
    Found(SoftwareApart)
        .because("software NICs are on two machines")
        .remedy("run both sides on one machine: software NICs do not reach another machine"),
    Found(SameAddress)
        .because("NICs of two machines have the same address")
        .remedy("the nodes belong to two fabrics, or the algorithmic MAC address (02:... or 06:...) of a NIC is not applied"),
    Found(PeerEnded)
        .because("the peer failed, was interrupted or was killed")
        .remedy(SEE_PEER),
    Found(PeerGone)
        .because("the peer's node or the network between the nodes is gone")
        .remedy("check that its node and the network between the nodes are up; this is the TCP control connection, not the NIC"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_reachable() {
        for (at, row) in EXPLANATIONS.iter().enumerate() {
            let found = match &row.what {
                What::Call(calls, errnos) => {
                    call_explanation(calls.first().unwrap_or(&"any"), errnos[0])
                }
                What::Code(names) => code_explanation(names[0]),
                What::Found(situation) => Some(advice(*situation)),
            };
            let first = found.is_some_and(|found| std::ptr::eq(found, &EXPLANATIONS[at]));
            assert!(first, "{}", row.what);
        }
    }

    #[test]
    fn filter_may_explain_refused_calls_only() {
        let failure = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            Failure::new(Kind::Environment, error).context("cannot wait")
        };
        for (errno, may_be) in [
            (libc::EPERM, true),
            (libc::ENOSYS, true),
            (libc::ENOENT, false),
            (libc::EACCES, false),
        ] {
            assert_eq!(may_be_filter(&failure(errno)), may_be, "{errno}");
        }
        assert!(!may_be_filter(&Failure::peer("Operation not permitted")));
    }

    #[test]
    fn hints_and_remedies_tell_situations_apart() {
        for row in EXPLANATIONS {
            if let What::Found(situation) = row.what {
                assert_eq!(situation_with(row.remedy), Some(situation));
                assert_eq!(situation_with(&row.hint()), Some(situation));
            }
        }
    }

    #[test]
    fn hints_are_one_line() {
        for row in EXPLANATIONS {
            assert!(!row.hint().contains('\n') && !row.remedy.is_empty(), "{}", row.what);
        }
    }

    #[test]
    fn prefers_row_of_call_to_row_of_any_call() {
        let domain = call_explanation("cxil_alloc_domain", libc::ENOSPC).unwrap();
        assert!(domain.cause.contains("PIDs"));
        let queue = call_explanation("cxil_alloc_evtq", libc::ENOSPC).unwrap();
        assert!(queue.cause.contains("limit"));
        assert!(call_explanation("cxil_alloc_evtq", libc::EINVAL).is_none());
    }
}
