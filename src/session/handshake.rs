//! The handshake: program name, version, options, address (wire.md 4).
//!
//! A state machine without a socket: it says what to send and checks what comes. Each of the four
//! messages is exchanged completely before it is checked, so that both sides see a mismatch and both
//! report it.

use std::net::SocketAddr;

use super::Agreed;
use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::terms::{self, LocalHost};
use super::wire::{self, ADDRESS_SIZE};
use crate::advice::{Situation, remedy};
use crate::device::FabricAddress;
use crate::endpoint::LocalAddress;
use crate::error::Failure;
use crate::gpu::OnGpus;
use crate::phase::Phase;
use crate::plan::{Plan, Role};
use crate::run_options::{RunOptions, Side};
use crate::tool::Tool;

/// Why a handshake ended early.
#[derive(Debug)]
pub enum Refusal {
    /// The other side never named a benchmark: it is none. With the reason.
    Unrelated(String),
    /// It is one, but the two cannot work together.
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Begins the name of every benchmark.
const NAMES: &str = "cxi_";

/// Bits of a NIC address (nic.md 4.1).
const NIC_BITS: u32 = 20;

/// PIDs of a NIC are below; this one means any (nic.md 4.1, 9 bits).
const ANY_PID: u32 = 511;

/// What is exchanged next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Name,
    Version,
    Options,
    Address,
}

/// What this side tells in every handshake.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// The tools that this side runs: in a client one, in a server those that a client may name.
    tools: Vec<&'static Tool>,
    own: LocalAddress,
    /// Identifies this machine since its start.
    machine: String,
    /// What the option block says about this host.
    host: LocalHost,
    /// In a client: the options of the run. A server hears them.
    run: Option<RunOptions>,
}

impl Introduction {
    /// For `plan`; `port` is the TCP port in use, `machine` identifies this machine.
    pub fn new(plan: &Plan, own: LocalAddress, port: u16, machine: String) -> Self {
        Self {
            tools: vec![plan.tool],
            own,
            machine,
            host: LocalHost {
                svc_id: plan.svc_id,
                device: plan.device.index,
                port,
                gpus: own.gpus,
            },
            run: match plan.role {
                Role::Server => None,
                _ => Some(plan.run),
            },
        }
    }

    /// The options of a client, as far as this side's memory allows: if what this side sends lies on a
    /// GPU, no CPU puts it into commands, wherever the client's buffers lie (defect T25 of tools.md).
    fn on_own_memory(&self, tool: &Tool, run: RunOptions) -> RunOptions {
        let sends = tool.buffers.held(&run, Side::Server).initiator;
        RunOptions {
            use_idc: run.use_idc && !(sends && self.own.gpus.tx.is_some()),
            ..run
        }
    }
}

/// One handshake.
#[derive(Debug)]
pub struct Handshake<'a> {
    us: &'a Introduction,
    peer: SocketAddr,
    /// The tool of the run: in a server the one that the client has named, if it is offered.
    tool: &'static Tool,
    step: Step,
    about: PeerFacts,
    run: Option<RunOptions>,
    peer_gpus: OnGpus,
    /// What is wrong with the peer's options. It is told behind the exchange of addresses: a legacy client
    /// sends its address in any case, and one that sends to a closed connection may die of SIGPIPE
    /// without a word (wire.md 10).
    refused: Option<Failure>,
}

impl<'a> Handshake<'a> {
    /// Nothing has been exchanged with `peer` yet.
    pub fn new(us: &'a Introduction, peer: SocketAddr) -> Self {
        Self {
            us,
            peer,
            tool: us.tools[0],
            step: Step::Name,
            about: PeerFacts::default(),
            run: us.run,
            peer_gpus: OnGpus::NONE,
            refused: None,
        }
    }

    /// The payload to send in this exchange.
    pub fn mine(&self) -> Vec<u8> {
        let us = self.us;
        match self.step {
            Step::Name => wire::string(self.tool.legacy_name),
            Step::Version => wire::string(&announcement(us, self.tool)),
            Step::Options => {
                let run = us.run.unwrap_or(self.tool.defaults);
                terms::to_block(&run, &us.host).encode().into()
            }
            Step::Address => wire::encode_address(us.own.address).into(),
        }
    }

    /// Whether the peer has named itself as a benchmark.
    pub fn is_named(&self) -> bool {
        self.step != Step::Name
    }

    /// Where a run is in this exchange.
    pub fn phase(&self) -> Phase {
        match self.step {
            Step::Name => Phase::Names,
            Step::Version => Phase::Versions,
            Step::Options => Phase::Options,
            Step::Address => Phase::Addresses,
        }
    }

    /// What this exchange is for, for messages.
    pub fn doing(&self) -> &'static str {
        match self.step {
            Step::Name => "during the handshake (name)",
            Step::Version => "during the handshake (version)",
            Step::Options => "during the handshake (options)",
            Step::Address => "during the handshake (address)",
        }
    }

    /// The failure to tell where an exchange has failed with `otherwise`: what was wrong with the options comes
    /// first.
    pub fn failure(&mut self, otherwise: Failure) -> Failure {
        self.refused.take().unwrap_or(otherwise)
    }

    /// Takes over the tool that a client names, if it is offered. A server that has not spoken yet
    /// calls it before it answers.
    pub fn learn_tool(&mut self, payload: &[u8]) {
        if self.step == Step::Name
            && let Some(name) = wire::parse_string(payload)
            && let Some(tool) = self.us.tools.iter().find(|tool| tool.legacy_name == name)
        {
            self.tool = tool;
        }
    }

    /// Checks the peer's payload of this exchange, and goes on to the next one. After the last one it
    /// returns what both sides know.
    ///
    /// # Errors
    ///
    /// A peer that is no benchmark, and a peer that does not fit this side.
    pub fn accept(&mut self, payload: &[u8]) -> Result<Option<Agreed>, Refusal> {
        self.step = match self.step {
            Step::Name => {
                self.accept_name(payload)?;
                Step::Version
            }
            Step::Version => {
                self.accept_version(payload)?;
                Step::Options
            }
            Step::Options => {
                self.accept_options(payload)?;
                Step::Address
            }
            Step::Address => return Ok(Some(self.accept_address(payload)?)),
        };
        Ok(None)
    }

    fn accept_name(&self, payload: &[u8]) -> Result<(), Refusal> {
        let Some(name) = wire::parse_string(payload).filter(|name| name.starts_with(NAMES)) else {
            return Err(Refusal::Unrelated(
                "it did not send the name of a tool".into(),
            ));
        };
        let own = self.tool.legacy_name;
        if name == own {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "different tools: {own} here, {} at the peer ({})",
            shown(name),
            self.peer
        ))
        .with_hint(remedy(Situation::OtherTool))
        .into())
    }

    fn accept_version(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let vni = self.us.own.vni;
        let (tool, peer) = (self.tool, self.peer);
        let theirs = wire::parse_string(payload).unwrap_or_default();
        let number = number(theirs);
        if number.is_none() || number != self::number(tool.wire_version) {
            let theirs = theirs.split_whitespace().next().unwrap_or("none");
            return Err(Failure::environment(format!(
                "different versions of {}: {} here, {} at the peer ({peer})",
                tool.legacy_name,
                tool.wire_version,
                shown(theirs)
            ))
            .with_hint(release(number)));
        }
        self.about = PeerFacts::read(theirs);
        match self.about.vni {
            Some(other) if other != vni => Err(Failure::environment(format!(
                "different VNIs: {vni} here, {other} at the peer ({peer}): packets cannot pass between them"
            ))
            .with_hint(remedy(Situation::OtherVni))),
            _ => Ok(()),
        }
    }

    /// A client's options are held against the rules for typed ones (defect T27 of tools.md); of
    /// a server's, only those of its host mean anything.
    fn accept_options(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let bytes: &[u8; OPTIONS_SIZE] = self.exactly(payload, "options")?;
        let block = OptionBlock::decode(bytes);
        let (peer, tool) = (self.peer, self.tool);
        let checked = match self.us.run {
            None => terms::from_block(tool, &block)
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
        if theirs.nic >> NIC_BITS != 0 || theirs.pid >= ANY_PID {
            return Err(Failure::environment(format!(
                "the peer ({host}) sent an invalid address: NIC {:#x} PID {}",
                theirs.nic, theirs.pid
            )));
        }
        self.about.reachable(self.us, theirs, host)?;
        match self.run {
            Some(run) => Ok(Agreed {
                tool: self.tool,
                run,
                peer: theirs,
                peer_gpus: self.peer_gpus,
                is_cxidiag: self.about.is_cxidiag,
            }),
            None => Err(Failure::environment("the peer sent no options")),
        }
    }

    /// A payload of one fixed size.
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

/// As much of a peer's text as fits a message.
fn shown(text: &str) -> &str {
    text.get(..40).unwrap_or(text)
}

/// Our version as we send it. A legacy peer reads `2.4` and ignores the rest; another cxidiag
/// learns from it what the protocol does not tell (defect T15 of tools.md).
fn announcement(us: &Introduction, tool: &Tool) -> String {
    let software = if us.own.simulated { " software" } else { "" };
    format!(
        "{} cxidiag/{} vni={} host={}{software}",
        tool.wire_version,
        env!("CARGO_PKG_VERSION"),
        us.own.vni,
        us.machine,
    )
}

/// Major and minor number at the beginning of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What another cxidiag announces with its version. A legacy peer announces none of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct PeerFacts {
    is_cxidiag: bool,
    vni: Option<u32>,
    /// Its machine, and whether its NIC is a software NIC, as far as it is of a release that says so.
    host: Option<String>,
    software: bool,
}

impl PeerFacts {
    fn read(version: &str) -> Self {
        let mut words = version.split_whitespace().skip(1);
        let mut announced = Self::default();
        if !words
            .next()
            .is_some_and(|word| word.starts_with("cxidiag/"))
        {
            return announced;
        }
        announced.is_cxidiag = true;
        for word in words {
            match word.split_once('=') {
                Some(("vni", vni)) => announced.vni = vni.parse().ok(),
                Some(("host", host)) => announced.host = Some(host.to_owned()),
                _ => announced.software |= word == "software",
            }
        }
        announced
    }

    /// Whether packets can pass between us and the peer at `theirs`, as far as that is known.
    fn reachable(
        &self,
        us: &Introduction,
        theirs: FabricAddress,
        peer: SocketAddr,
    ) -> Result<(), Failure> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let (own, apart) = (us.own, *host != us.machine);
        let kind = |software| {
            if software {
                "a software NIC"
            } else {
                "hardware"
            }
        };
        if own.simulated != self.software {
            let (here, there) = (kind(own.simulated), kind(self.software));
            return Err(Failure::environment(format!(
                "{here} here, {there} at the peer ({peer}): packets cannot pass between them"
            ))
            .with_hint(remedy(Situation::OtherKind)));
        }
        if own.simulated && apart {
            return Err(Failure::environment(format!(
                "the software NIC of the peer ({peer}) is on another machine: packets cannot pass between them"
            ))
            .with_hint(remedy(Situation::SoftwareApart)));
        }
        if own.address.nic == theirs.nic && apart {
            return Err(Failure::environment(format!(
                "the NICs of both sides have the address {:#x}, but the peer ({peer}) is another machine",
                own.address.nic
            ))
            .with_hint(remedy(Situation::SameAddress)));
        }
        Ok(())
    }
}

/// Where a version comes from (wire.md 9.1), and what follows.
pub fn release(number: Option<(u32, u32)>) -> &'static str {
    remedy(match number {
        Some((2, 0..=2)) => Situation::OldVersion,
        Some((2, 3)) => Situation::UnreleasedVersion,
        _ => Situation::OtherVersion,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_as_the_legacy_tools_compare_them() {
        for same in ["2.4", "2.4.0", "2.4.99-foo", "2.4.0 cxidiag/0.1.0 vni=10"] {
            assert_eq!(number(same), Some((2, 4)), "{same}");
        }
        for none in ["", "2", "2.", ".4", "x.4", "-2.4", "99999999999.4"] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    fn vni(version: &str) -> Option<u32> {
        PeerFacts::read(version).vni
    }

    #[test]
    fn a_vni_is_known_only_from_a_cxidiag() {
        assert_eq!(vni("2.4.0 cxidiag/0.1.0 vni=10"), Some(10));
        assert_eq!(vni("2.4.0 cxidiag/9.9.9 future=1 vni=10 more"), Some(10));
        for unknown in [
            "2.4.0",
            "2.4.0 vni=10",
            "2.4.0 other/1 vni=10",
            "2.4.0 cxidiag/1",
            "2.4.0 cxidiag/1 vni=x",
        ] {
            assert_eq!(vni(unknown), None, "{unknown}");
        }
    }

    proptest! {
        #[test]
        fn any_version_is_read(version in "\\PC{0,40}") {
            let _ = (number(&version), PeerFacts::read(&version));
        }
    }
}
