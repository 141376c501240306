//! Problems that the program detects itself.

use std::fmt;

crate::named_enum! {
    /// A problem that the program detects itself, without a failed call or a return code of the
    /// NIC. Documents contain the names of the variants ([`Situation::name`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Situation {
        /// The machine has no NIC of this kind, or no driver for it.
        NoHardware = "no NIC",
        /// The driver shows the NIC, but programs cannot open it.
        NoDeviceNode = "the NIC has no /dev/cxiN",
        /// The file system with the processes is not mounted.
        NoProc = "/proc is missing",
        /// libcxi cannot be loaded.
        NoLibrary = "no libcxi",
        /// A software NIC cannot use the shared directory.
        NoFabric = "a software NIC cannot be opened",
        /// A process does not release the lock of this directory.
        FabricHeld = "a process holds the fabric of the software NICs",
        /// The machine has too few huge pages left.
        NoHugePages = "not enough huge pages",
        /// The kernel has no huge pages of a size.
        NoSuchHugePages = "no huge pages of a size",
        /// The machine has too little memory left.
        NoMemory = "not enough memory for the buffers",
        /// The process may not use a CPU.
        CpuForbidden = "a CPU cannot be used",
        /// A filter of system calls is in force, and a call was refused.
        CallFiltered = "a system call was refused, and a filter of system calls is in force",
        /// The runtime of the GPUs cannot be loaded.
        NoGpuRuntime = "no GPU runtime",
        /// The runtime of the GPUs does not work.
        GpuRuntimeFails = "a GPU runtime does not work",
        /// The runtime finds no GPU.
        NoGpu = "no GPU",
        /// The number of a GPU is too large.
        NoSuchGpu = "no GPU of this number",
        /// The NIC cannot reach the memory of the GPU.
        NoPeerToPeer = "the NIC cannot map the memory of a GPU",
        /// The service allows no High Rate Puts.
        NoHighRatePuts = "no High Rate Puts",
        /// Unrestricted reads fail.
        UnrestrictedReads = "unrestricted reads fail",
        /// The link of the NIC is down.
        LinkDown = "the link is down",
        ServiceDisabled = "the service is disabled",
        /// The service has no VNI.
        ServiceWithoutVni = "the service has no VNI",
        /// The service does not grant the VNI.
        VniNotGranted = "the service does not grant the VNI",
        /// The service does not grant the traffic class.
        ClassNotGranted = "the service does not grant the traffic class",
        /// The service that the variables of the job name cannot be used.
        GrantUnusable = "the service of SLINGSHOT_* cannot be used",
        /// A step of a job on one node has no VNI, and there is no other service.
        OneNodeStep = "a step on one node has no service",
        /// The retry handler of the NIC does not run.
        NoRetryHandler = "the retry handler is not running",
        /// The NIC has refused a command before it became an operation.
        CommandRefused = "a refused command",
        /// No event reports the completion of an operation.
        NoAnswer = "no answer to an operation",
        /// The control connection is refused.
        ConnectionRefused = "connection refused",
        /// The server measures with another client.
        ServerBusy = "the server is busy",
        /// The peer belongs to another batch job.
        OtherJob = "different batch jobs",
        /// The peer has another token, or only one side has one.
        OtherToken = "different tokens",
        /// The control connection is not answered.
        NoConnection = "no answer to a connection",
        /// The host name has no address.
        UnknownHost = "the host name cannot be resolved",
        /// The port to listen on is in use.
        PortInUse = "the port is in use",
        /// The port to listen on is reserved.
        PortReserved = "no permission to listen on the port",
        /// The address to listen on belongs to another machine.
        NotOurAddress = "the address to listen on is not of this machine",
        /// The peer runs another tool.
        OtherTool = "different tools",
        /// The server does not know an option of the run.
        OptionUnknownToPeer = "the server cannot take part in an option",
        /// A server does not measure with the NIC that the client asks for.
        OtherDevice = "the server measures with another NIC",
        /// Received data is not what was sent.
        WrongData = "received data is not what was sent (--verify)",
        /// The peer has another version.
        OtherVersion = "different versions",
        /// The peer has an old version with another control protocol.
        OldVersion = "the peer is from SHS 12.0 or older",
        /// The peer has a version that was never released.
        UnreleasedVersion = "the peer has an unreleased version",
        /// The peer uses another VNI.
        OtherVni = "different VNIs",
        /// The peer uses another traffic class.
        OtherClass = "different traffic classes",
        /// The peer is not a CXI diagnostic.
        NoDiagnostic = "the peer is not a CXI diagnostic",
        /// One NIC is a software NIC, the other is hardware.
        OtherKind = "a software NIC on one side only",
        /// Software NICs on two machines.
        SoftwareApart = "software NICs on two machines",
        /// Two machines have the same NIC address.
        SameAddress = "the same NIC address on two machines",
        /// The peer ended early.
        PeerEnded = "the peer closed the connection",
        /// The peer's host is unreachable.
        PeerGone = "the peer's host does not answer",
    }
    fn text(self);
}

impl Situation {
    /// The name used in JSON, such as `other_token`.
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
        f.write_str(self.text())
    }
}
