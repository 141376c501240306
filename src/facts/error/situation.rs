//! Problems that the program detects itself.

use std::fmt;

use Situation::*;

/// A problem that the program detects itself, without a failed call or a return code of the NIC.
/// Documents contain the names of the variants ([`Situation::name`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The machine has no NIC of this kind, or no driver for it.
    NoHardware,
    /// The driver shows the NIC, but programs cannot open it.
    NoDeviceNode,
    /// The file system with the processes is not mounted.
    NoProc,
    /// libcxi cannot be loaded.
    NoLibrary,
    /// A software NIC cannot use the shared directory.
    NoFabric,
    /// A process does not release the lock of this directory.
    FabricHeld,
    /// The machine has too few huge pages left.
    NoHugePages,
    /// The kernel has no huge pages of a size.
    NoSuchHugePages,
    /// The machine has too little memory left.
    NoMemory,
    /// The process may not use a CPU.
    CpuForbidden,
    /// A filter of system calls is in force, and a call was refused.
    CallFiltered,
    /// The runtime of the GPUs cannot be loaded.
    NoGpuRuntime,
    /// The runtime of the GPUs does not work.
    GpuRuntimeFails,
    /// The runtime finds no GPU.
    NoGpu,
    /// The number of a GPU is too large.
    NoSuchGpu,
    /// The NIC cannot reach the memory of the GPU.
    NoPeerToPeer,
    /// The service allows no High Rate Puts.
    NoHighRatePuts,
    /// Unrestricted reads fail.
    UnrestrictedReads,
    /// The link of the NIC is down.
    LinkDown,
    ServiceDisabled,
    /// The service has no VNI.
    ServiceWithoutVni,
    /// The service does not grant the VNI.
    VniNotGranted,
    /// The service does not grant the traffic class.
    ClassNotGranted,
    /// The service that the variables of the job name cannot be used.
    GrantUnusable,
    /// A step of a job on one node has no VNI, and there is no other service.
    OneNodeStep,
    /// The retry handler of the NIC does not run.
    NoRetryHandler,
    /// The NIC has refused a command before it became an operation.
    CommandRefused,
    /// No event reports the completion of an operation.
    NoAnswer,
    /// The control connection is refused.
    ConnectionRefused,
    /// The server measures with another client.
    ServerBusy,
    /// The peer belongs to another batch job.
    OtherJob,
    /// The peer has another token, or only one side has one.
    OtherToken,
    /// The control connection is not answered.
    NoConnection,
    /// The host name has no address.
    UnknownHost,
    /// The port to listen on is in use.
    PortInUse,
    /// The port to listen on is reserved.
    PortReserved,
    /// The address to listen on belongs to another machine.
    NotOurAddress,
    /// The peer runs another tool.
    OtherTool,
    /// The server does not know an option of the run.
    OptionUnknownToPeer,
    /// A server does not measure with the NIC that the client asks for.
    OtherDevice,
    /// Received data is not what was sent.
    WrongData,
    /// The peer has another version.
    OtherVersion,
    /// The peer has an old version with another control protocol.
    OldVersion,
    /// The peer has a version that was never released.
    UnreleasedVersion,
    /// The peer uses another VNI.
    OtherVni,
    /// The peer uses another traffic class.
    OtherClass,
    /// The peer is not a CXI diagnostic.
    NoDiagnostic,
    /// One NIC is a software NIC, the other is hardware.
    OtherKind,
    /// Software NICs on two machines.
    SoftwareApart,
    /// Two machines have the same NIC address.
    SameAddress,
    /// The peer ended early.
    PeerEnded,
    /// The peer's host is unreachable.
    PeerGone,
}

impl Situation {
    /// Returns the name used in JSON, such as `other_token`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoHardware => "no NIC",
            NoDeviceNode => "the NIC has no /dev/cxiN",
            NoProc => "/proc is missing",
            NoLibrary => "no libcxi",
            NoFabric => "a software NIC cannot be opened",
            FabricHeld => "a process holds the fabric of the software NICs",
            NoHugePages => "not enough huge pages",
            NoSuchHugePages => "no huge pages of a size",
            NoMemory => "not enough memory for the buffers",
            CpuForbidden => "a CPU cannot be used",
            CallFiltered => "a system call was refused, and a filter of system calls is in force",
            NoGpuRuntime => "no GPU runtime",
            GpuRuntimeFails => "a GPU runtime does not work",
            NoGpu => "no GPU",
            NoSuchGpu => "no GPU of this number",
            NoPeerToPeer => "the NIC cannot map the memory of a GPU",
            NoHighRatePuts => "no High Rate Puts",
            UnrestrictedReads => "unrestricted reads fail",
            LinkDown => "the link is down",
            ServiceDisabled => "the service is disabled",
            ServiceWithoutVni => "the service has no VNI",
            VniNotGranted => "the service does not grant the VNI",
            ClassNotGranted => "the service does not grant the traffic class",
            GrantUnusable => "the service of SLINGSHOT_* cannot be used",
            OneNodeStep => "a step on one node has no service",
            NoRetryHandler => "the retry handler is not running",
            CommandRefused => "a refused command",
            NoAnswer => "no answer to an operation",
            ConnectionRefused => "connection refused",
            ServerBusy => "the server is busy",
            OtherJob => "different batch jobs",
            OtherToken => "different tokens",
            NoConnection => "no answer to a connection",
            UnknownHost => "the host name cannot be resolved",
            PortInUse => "the port is in use",
            PortReserved => "no permission to listen on the port",
            NotOurAddress => "the address to listen on is not of this machine",
            OtherTool => "different tools",
            OptionUnknownToPeer => "the server cannot take part in an option",
            OtherDevice => "the server measures with another NIC",
            WrongData => "received data is not what was sent (--verify)",
            OtherVersion => "different versions",
            OldVersion => "the peer is from SHS 12.0 or older",
            UnreleasedVersion => "the peer has an unreleased version",
            OtherVni => "different VNIs",
            OtherClass => "different traffic classes",
            NoDiagnostic => "the peer is not a CXI diagnostic",
            OtherKind => "a software NIC on one side only",
            SoftwareApart => "software NICs on two machines",
            SameAddress => "the same NIC address on two machines",
            PeerEnded => "the peer closed the connection",
            PeerGone => "the peer's host does not answer",
        })
    }
}
