//! What both sides have agreed on.

use facts::device::{DeviceName, FabricAddress};
use node::gpu::OnGpus;
use plan::run_options::RunOptions;
use plan::tool::Tool;

/// What both sides have agreed on in the handshake.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The client's options, on both sides. A side that sends from a GPU uses no immediate data
    /// commands.
    pub run: RunOptions,
    /// The tool that both sides run.
    pub tool: &'static Tool,
    pub peer: FabricAddress,
    /// The peer's buffers that lie on GPUs.
    pub peer_gpus: OnGpus,
    /// The peer is a cxidiag: it numbers the bytes that it sends, understands interrupt notices,
    /// and completes begun iterations at the end of a duration. A legacy tool does none of these.
    pub is_cxidiag: bool,
    /// Name of the peer's host; `None` if the peer has not sent it.
    pub peer_name: Option<String>,
    /// The server's NIC, in a client, if the server has announced it.
    pub peer_device: Option<DeviceName>,
    /// The client waits for its turn after the handshake.
    pub queues: bool,
    /// The client answers when it is called, and begins when the server has received the answer.
    pub answers_calls: bool,
    /// The peer sends ticks.
    pub peer_ticks: bool,
    /// The peer knows the ticks of this side, which sends them.
    pub own_ticks: bool,
}
