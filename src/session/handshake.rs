//! The handshake: program name, version, options, address (wire.md 4); between two cxidiag with a
//! token, the client's answer to the proof of the server follows the version.
//!
//! A state machine without a socket: it makes the messages to send and checks the received ones.
//! Each message is exchanged completely before it is checked, so that both sides notice and report
//! a mismatch.

use std::net::SocketAddr;

use facts::advice::{Advise, Situation};
use facts::device::{DeviceName, FabricAddress};
use facts::error::{self, Failure};
use facts::phase::Phase;
use node::gpu::OnGpus;
use plan::run_options::RunOptions;
use plan::tool::Tool;

use super::peer_facts::{
    CALL, HandshakeIntroduction, PeerFacts, QUEUE, SERVER_TICK, TICK, TURN, announcement,
};
use super::terms;
use super::wire::{self, ADDRESS_SIZE, OPTIONS_SIZE, OptionBlock};

/// Why a handshake ended early.
#[derive(Debug)]
pub enum Refusal {
    /// An unrelated connection, which has not sent the name of a tool; with the reason.
    Unrelated(String),
    /// A CXI diagnostic with which this side cannot run.
    Failed(Failure),
    /// A server that measures with another client, or has just become free, and has nothing else
    /// against this one.
    Busy(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Why a port that echoes is refused.
pub const REFLECTS: &str = "it sends back what it receives";

/// Beginning of the name of each legacy tool.
const NAMES: &str = "cxi_";

/// The next message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStep {
    Name,
    Version,
    /// Of a client with a token, to a server of a release that waits for it.
    Answer,
    Options,
    Address,
}

#[derive(Debug)]
pub struct Handshake<'a> {
    us: &'a HandshakeIntroduction,
    peer: SocketAddr,
    /// The tool of the run: in a server the tool that the client has named, if it is offered.
    tool: &'static Tool,
    step: HandshakeStep,
    about: PeerFacts,
    /// The proof of the token that this side sends with its version, if it has one.
    proof: Option<String>,
    run: Option<RunOptions>,
    peer_gpus: OnGpus,
    /// The error in the peer's options. It is reported after the exchange of addresses: a legacy
    /// client sends its address in any case, and SIGPIPE would end it without a message if the
    /// connection were closed (wire.md 10).
    refused: Option<Failure>,
}

impl<'a> Handshake<'a> {
    /// Creates the handshake with `peer`, before the first message.
    pub fn new(us: &'a HandshakeIntroduction, peer: SocketAddr) -> Self {
        Self {
            us,
            peer,
            tool: us.tools[0],
            step: HandshakeStep::Name,
            about: PeerFacts::LEGACY,
            proof: us.credentials.proof(None),
            run: us.run,
            peer_gpus: OnGpus::NONE,
            refused: None,
        }
    }

    /// Creates the handshake with a `peer` to which another process has named the first tool of
    /// `us` and proved the token.
    pub fn named(us: &'a HandshakeIntroduction, peer: SocketAddr) -> Self {
        Self { step: HandshakeStep::Version, proof: None, ..Self::new(us, peer) }
    }

    /// The payload to send in this exchange.
    pub fn mine(&self) -> Vec<u8> {
        let us = self.us;
        match self.step {
            HandshakeStep::Name => wire::string(self.tool.legacy_name),
            HandshakeStep::Version => {
                wire::string(&announcement(us, self.tool, self.proof.as_deref()))
            }
            HandshakeStep::Answer => {
                let server = us.run.map(|_| &self.about.announced);
                let answer = server.and_then(|server| us.credentials.answer(server));
                answer.map(|answer| wire::string(&answer)).unwrap_or_default()
            }
            HandshakeStep::Options => {
                let run = us.run.unwrap_or(self.tool.defaults);
                terms::to_block(&run, &us.host).encode().into()
            }
            HandshakeStep::Address => wire::encode_address(us.own.address).into(),
        }
    }

    /// Whether the peer has sent the name of a tool.
    pub fn is_named(&self) -> bool {
        self.step != HandshakeStep::Name
    }

    /// The phase of the run in this exchange.
    pub fn phase(&self) -> Phase {
        match self.step {
            HandshakeStep::Name => Phase::Names,
            HandshakeStep::Version | HandshakeStep::Answer => Phase::Versions,
            HandshakeStep::Options => Phase::Options,
            HandshakeStep::Address => Phase::Addresses,
        }
    }

    /// Whether this side is a server that measures with another client.
    pub fn is_busy(&self) -> bool {
        self.us.serving.is_some()
    }

    /// Whether this server is busy and has announced it: it sends no further message.
    pub fn turns_away(&self) -> bool {
        matches!(self.step, HandshakeStep::Answer | HandshakeStep::Options) && self.is_busy()
    }

    /// The purpose of this exchange, for messages.
    pub fn doing(&self) -> &'static str {
        match self.step {
            HandshakeStep::Name => "during the handshake (name)",
            HandshakeStep::Version => "during the handshake (version)",
            HandshakeStep::Answer => "during the handshake (token)",
            HandshakeStep::Options => "during the handshake (options)",
            HandshakeStep::Address => "during the handshake (address)",
        }
    }

    /// The failure to report: an error in the peer's options, or else `otherwise`, which ended the
    /// exchange.
    pub fn failure(&mut self, otherwise: Failure) -> Failure {
        self.refused.take().unwrap_or(otherwise)
    }

    /// Notes what the answer of a server depends on: the tool that a client names, if it is
    /// offered, and what it announces with its version.
    pub fn learn(&mut self, payload: &[u8]) {
        let text = wire::parse_string(payload).unwrap_or_default();
        match self.step {
            HandshakeStep::Name => {
                let mut offered = self.us.tools.iter();
                if let Some(tool) = offered.find(|tool| tool.legacy_name == text) {
                    self.tool = tool;
                }
            }
            HandshakeStep::Version => {
                let theirs = PeerFacts::read(text).announced;
                self.proof = self.us.credentials.proof(Some(&theirs));
            }
            _ => {}
        }
    }

    /// Checks the peer's payload of this exchange and advances to the next one. Returns what was
    /// agreed after the last one.
    ///
    /// # Errors
    ///
    /// An unrelated connection, and a peer with which this side cannot run.
    pub fn accept(&mut self, payload: &[u8]) -> Result<Option<Agreed>, Refusal> {
        self.step = match self.step {
            HandshakeStep::Name => {
                self.accept_name(payload)?;
                HandshakeStep::Version
            }
            HandshakeStep::Version => {
                self.accept_version(payload)?;
                let is_answered = self.proof.is_some() && self.about.announced.answers();
                if is_answered { HandshakeStep::Answer } else { HandshakeStep::Options }
            }
            HandshakeStep::Answer => {
                if let (None, Some(proof)) = (&self.us.run, &self.proof) {
                    self.us.credentials.check(payload, proof, self.peer)?;
                }
                HandshakeStep::Options
            }
            HandshakeStep::Options => {
                self.accept_options(payload)?;
                HandshakeStep::Address
            }
            HandshakeStep::Address => return Ok(Some(self.accept_address(payload)?)),
        };
        Ok(None)
    }

    fn accept_name(&self, payload: &[u8]) -> Result<(), Refusal> {
        let name = tool_name(payload)?;
        let own = self.tool.legacy_name;
        if name == own {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "different tools: {own} here, {} at the peer ({})",
            shown(name),
            self.peer
        ))
        .advised(Situation::OtherTool)
        .into())
    }

    fn accept_version(&mut self, payload: &[u8]) -> Result<(), Refusal> {
        let vni = self.us.own.vni;
        let peer = self.peer;
        let theirs = wire::parse_string(payload).unwrap_or_default();
        check_version(self.tool, theirs, peer)?;
        self.about = PeerFacts::read(theirs);
        // Only clients send this word.
        if self.us.run.is_some() && self.about.has(QUEUE) {
            return Err(Refusal::Unrelated(REFLECTS.into()));
        }
        self.us.credentials.admit(&self.about.announced, peer)?;
        if let Some(run) = &self.us.run {
            self.about.takes_part_in(&run.needed_of_server(), peer)?;
            self.about.measures_with(self.us.device, peer)?;
        }
        if let Some(other) = self.about.vni.filter(|other| *other != vni) {
            return Err(Failure::environment(format!(
                "different VNIs: {vni} here, {other} at the peer ({peer}): packets cannot pass between them"
            ))
            .advised(Situation::OtherVni)
            .in_step(error::Step::Vni)
            .into());
        }
        match self.about.announced.busy {
            Some(busy) if self.us.run.is_some() => Err(Refusal::Busy(
                Failure::environment(format!("the server ({peer}) is {busy}"))
                    .advised(Situation::ServerBusy)
                    .in_step(error::Step::Turn),
            )),
            _ => Ok(()),
        }
    }

    /// Checks a client's options against the rules for typed options (defect T27 of tools.md). Of a
    /// server's options, only those about its host are used.
    fn accept_options(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let bytes: &[u8; OPTIONS_SIZE] = self.exactly(payload, "options")?;
        let block = OptionBlock::decode(bytes);
        let (peer, tool) = (self.peer, self.tool);
        let checked = match self.us.run {
            None => self
                .about
                .extensions
                .clone()
                .and_then(|extensions| terms::from_block(tool, &block, extensions))
                .map(|run| self.run = Some(self.us.on_own_memory(tool, run)))
                .map_err(|reason| format!("the client ({peer}) sent invalid options: {reason}")),
            Some(_) => terms::check_host(&block.host)
                .map_err(|reason| format!("the server ({peer}) sent invalid options: {reason}")),
        };
        self.refused = checked.err().map(Failure::environment);
        self.peer_gpus = terms::gpus(&block.host);
        Ok(())
    }

    fn accept_address(&mut self, payload: &[u8]) -> Result<Agreed, Failure> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let bytes: &[u8; ADDRESS_SIZE] = self.exactly(payload, "address")?;
        let (host, theirs) = (self.peer, wire::decode_address(bytes));
        if !theirs.is_valid() {
            return Err(Failure::environment(format!(
                "the peer ({host}) sent an invalid address: NIC {:#x} PID {}",
                theirs.nic, theirs.pid
            )));
        }
        self.about.reachable(self.us, theirs, host)?;
        self.about.shares_vni(self.us, host)?;
        let Some(run) = self.run else {
            return Err(Failure::environment("the peer sent no options"));
        };
        let class = self.us.own.class;
        self.about.same_class(class, self.tool, &run, host)?;
        let queues = match self.us.run {
            Some(_) => self.about.has(TURN),
            None => self.us.gives_turns && self.about.has(QUEUE),
        };
        let ticks = [TICK, SERVER_TICK].map(|word| self.about.has(word));
        let [own_ticks, peer_ticks] = match self.us.run {
            Some(_) => ticks,
            None => [ticks[1], ticks[0]],
        };
        Ok(Agreed {
            tool: self.tool,
            run: (self.about).sending_counters(self.about.in_step(self.tool, run)),
            peer: theirs,
            peer_gpus: self.peer_gpus,
            is_cxidiag: self.about.is_cxidiag,
            peer_device: self.about.device.filter(|_| self.us.run.is_some()),
            queues,
            answers_calls: queues && self.about.has(CALL),
            peer_ticks,
            own_ticks,
            peer_name: self.about.host_name.take(),
        })
    }

    /// Checks that a payload has the fixed size `N`.
    fn exactly<'p, const N: usize>(
        &self,
        payload: &'p [u8],
        what: &str,
    ) -> Result<&'p [u8; N], Failure> {
        payload.try_into().map_err(|_| {
            Failure::environment(format!(
                "the peer ({}) sent {} bytes as its {what} (expected {N})",
                self.peer,
                payload.len()
            ))
        })
    }
}

/// The name of a tool in a payload.
///
/// # Errors
///
/// An unrelated connection.
pub fn tool_name(payload: &[u8]) -> Result<&str, Refusal> {
    let name = wire::parse_string(payload).filter(|name| name.starts_with(NAMES));
    name.ok_or_else(|| Refusal::Unrelated("it did not send the name of a tool".into()))
}

/// Checks that `theirs`, the version of the `peer`, equals the version of `tool` here.
///
/// # Errors
///
/// Another version.
pub fn check_version(tool: &Tool, theirs: &str, peer: SocketAddr) -> Result<(), Failure> {
    let number = number(theirs);
    if number.is_some() && number == self::number(tool.wire_version) {
        return Ok(());
    }
    let theirs = theirs.split_whitespace().next().unwrap_or("none");
    Err(Failure::environment(format!(
        "different versions of {}: {} here, {} at the peer ({peer})",
        tool.legacy_name,
        tool.wire_version,
        shown(theirs)
    ))
    .advised(release(number)))
}

/// The part of a peer's text that fits into a message.
pub fn shown(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}

/// Major and minor number at the beginning of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The situation of a peer with another version (wire.md 9.1).
pub fn release(number: Option<(u32, u32)>) -> Situation {
    match number {
        Some((2, 0..=2)) => Situation::OldVersion,
        Some((2, 3)) => Situation::UnreleasedVersion,
        _ => Situation::OtherVersion,
    }
}

/// The agreement of both sides in the handshake.
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

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
