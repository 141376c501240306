//! What this side sends in each handshake.

use std::fs;

use super::admission::{Credentials, Serving};
use super::terms::LocalHost;
use facts::device::DeviceName;
use facts::host::host_name;
use node::backend;
use node::local_address::LocalAddress;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::{Plan, Role};

/// What this side sends in each handshake.
#[derive(Clone, Debug)]
pub struct HandshakeIntroduction {
    /// The tools that this side offers: one in a client; in a server those that a client may name.
    pub(super) tools: Vec<&'static Tool>,
    /// This side's address on the fabric and its memory.
    pub own: LocalAddress,
    /// Identifier of this machine and its current boot.
    pub machine: String,
    pub host_name: String,
    /// The fabric of a software NIC, as one word.
    pub fabric: Option<String>,
    /// The part of the option block about this host.
    pub(super) host: LocalHost,
    /// The options of the run; `None` in a server, which receives them.
    pub run: Option<RunOptions>,
    /// Job and token of this side.
    pub credentials: Credentials,
    /// In a busy server, the client that others have to wait for.
    pub serving: Option<Serving>,
    /// The NIC of the server: a server's own NIC, or the NIC that a client asks for.
    pub device: Option<DeviceName>,
    /// Whether this side tells clients when it is their turn (`turn`).
    pub gives_turns: bool,
}

impl HandshakeIntroduction {
    /// Creates the introduction for `plan`; `port` is the TCP port in use, `machine` identifies
    /// this machine.
    pub fn new(plan: &Plan, own: LocalAddress, port: u16, machine: String) -> Self {
        let is_server = matches!(plan.role, Role::Server);
        let side = if is_server { Side::Server } else { Side::Client };
        Self {
            tools: vec![plan.tool],
            own,
            machine,
            host_name: host_name(),
            fabric: own.simulated.then(backend::fabric).flatten(),
            host: LocalHost { svc_id: own.svc_id, device: plan.device.index, port, gpus: own.gpus },
            run: (!is_server).then_some(plan.run),
            credentials: Credentials::new(side, &plan.admission),
            serving: None,
            device: if is_server { Some(plan.device) } else { plan.peer_device },
            gives_turns: false,
        }
    }

    /// Returns the introduction of a server whose clients wait for their turn.
    pub fn with_turns(self) -> Self {
        Self { gives_turns: true, ..self }
    }

    /// Returns the client's options, adapted to this side's memory: a side whose transmit buffer
    /// lies on a GPU uses no immediate data commands (defect T25 of tools.md).
    pub(super) fn on_own_memory(&self, tool: &Tool, run: RunOptions) -> RunOptions {
        let sends = tool.buffers.held(&run, Side::Server).initiator;
        RunOptions { use_idc: run.use_idc && !(sends && self.own.gpus.tx.is_some()), ..run }
    }
}

/// Returns an identifier of this machine and its current boot, the same in all containers; empty if
/// the system has no such identifier.
pub fn machine() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
