//! The handshake: program name, version, options, address (wire.md 4).
//!
//! A machine without a socket: it says what to send and judges what comes. Each of the four
//! messages is exchanged completely before it is judged, so that both sides see a mismatch and both
//! say so.

use std::net::SocketAddr;

use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::terms;
use super::wire::{self, ADDRESS_SIZE, Address};
use super::{Agreed, Own};
use crate::error::Failure;
use crate::phase::Phase;
use crate::plan::{Plan, Role, RunOptions};
use crate::tool::Tool;

/// Why a handshake ended early.
#[derive(Debug)]
pub enum Refusal {
    /// The other side never named a benchmark: it is none. With the reason.
    Stranger(String),
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
    tool: &'static Tool,
    own: Own,
    /// Identifies this machine since its start.
    host: String,
    block: OptionBlock,
    /// In a client: the options of the run. A server hears them.
    run: Option<RunOptions>,
}

impl Introduction {
    /// For `plan`; `port` is the TCP port in use, `host` identifies this machine.
    pub fn new(plan: &Plan, own: Own, port: u16, host: String) -> Self {
        Self {
            tool: plan.tool,
            own,
            host,
            block: terms::to_block(plan, port),
            run: match plan.role {
                Role::Server => None,
                _ => Some(plan.run),
            },
        }
    }
}

/// One handshake.
#[derive(Debug)]
pub struct Handshake<'a> {
    us: &'a Introduction,
    peer: SocketAddr,
    step: Step,
    about: Announced,
    run: Option<RunOptions>,
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
            step: Step::Name,
            about: Announced::default(),
            run: us.run,
            refused: None,
        }
    }

    /// The payload to send in this exchange.
    pub fn mine(&self) -> Vec<u8> {
        let us = self.us;
        match self.step {
            Step::Name => wire::string(us.tool.legacy_name),
            Step::Version => wire::string(&announcement(us)),
            Step::Options => us.block.encode().into(),
            Step::Address => Address {
                nic: us.own.nic,
                pid: us.own.pid,
            }
            .encode()
            .into(),
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

    /// Judges the peer's payload of this exchange, and goes on to the next; behind the last one
    /// stands what both sides know.
    pub fn judge(&mut self, payload: &[u8]) -> Result<Option<Agreed>, Refusal> {
        self.step = match self.step {
            Step::Name => {
                self.judge_name(payload)?;
                Step::Version
            }
            Step::Version => {
                self.judge_version(payload)?;
                Step::Options
            }
            Step::Options => {
                self.judge_options(payload)?;
                Step::Address
            }
            Step::Address => return Ok(Some(self.judge_address(payload)?)),
        };
        Ok(None)
    }

    fn judge_name(&self, payload: &[u8]) -> Result<(), Refusal> {
        let Some(name) = wire::parse_string(payload).filter(|name| name.starts_with(NAMES)) else {
            return Err(Refusal::Stranger("it did not name a benchmark".into()));
        };
        let own = self.us.tool.legacy_name;
        if name == own {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "different tools: {own} here, {} at the peer ({})",
            shown(name),
            self.peer
        ))
        .with_hint("start the same tool on both sides")
        .into())
    }

    fn judge_version(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let vni = self.us.own.vni;
        let (tool, peer) = (self.us.tool, self.peer);
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
        self.about = Announced::read(theirs);
        match self.about.vni {
            Some(other) if other != vni => Err(Failure::environment(format!(
                "different VNIs: {vni} here, {other} at the peer ({peer}); no packet would pass between them"
            ))
            .with_hint("choose services with the same VNI by --svc-id on both sides")),
            _ => Ok(()),
        }
    }

    /// A client's options are held against the rules for typed ones (defect T27 of tools.md); of
    /// a server's, only those of its host mean anything.
    fn judge_options(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let bytes: &[u8; OPTIONS_SIZE] = self.exactly(payload, "options")?;
        let block = OptionBlock::decode(bytes);
        let (peer, tool) = (self.peer, self.us.tool);
        let judged = match self.us.run {
            None => terms::from_block(tool, &block)
                .map(|run| self.run = Some(run))
                .map_err(|reason| format!("the client ({peer}) asks for what cannot be: {reason}")),
            Some(_) => terms::check_host(&block.host)
                .map_err(|reason| format!("the server ({peer}) sent what cannot be: {reason}")),
        };
        self.refused = judged.err().map(Failure::environment);
        Ok(())
    }

    fn judge_address(&mut self, payload: &[u8]) -> Result<Agreed, Failure> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let bytes: &[u8; ADDRESS_SIZE] = self.exactly(payload, "address")?;
        let (host, theirs) = (self.peer, Address::decode(bytes));
        if theirs.nic >> NIC_BITS != 0 || theirs.pid >= ANY_PID {
            return Err(Failure::environment(format!(
                "the peer ({host}) sent what cannot be: NIC {:#x} PID {} as its address",
                theirs.nic, theirs.pid
            )));
        }
        self.about.reachable(self.us, theirs, host)?;
        match self.run {
            Some(run) => Ok(Agreed {
                run,
                peer: theirs,
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
                "the peer ({}) sent {} bytes as its {what}, where {N} are expected",
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
fn announcement(us: &Introduction) -> String {
    let software = if us.own.simulated { " software" } else { "" };
    format!(
        "{} cxidiag/{} vni={} host={}{software}",
        us.tool.wire_version,
        env!("CARGO_PKG_VERSION"),
        us.own.vni,
        us.host,
    )
}

/// Major and minor number at the beginning of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What another cxidiag announced with its version; nothing of a legacy peer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Announced {
    is_cxidiag: bool,
    vni: Option<u32>,
    /// Its machine, and whether its NIC is a software NIC, as far as it is of a release that says so.
    host: Option<String>,
    software: bool,
}

impl Announced {
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
        theirs: Address,
        peer: SocketAddr,
    ) -> Result<(), Failure> {
        let Some(host) = &self.host else {
            return Ok(());
        };
        let (own, apart) = (us.own, *host != us.host);
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
                "{here} here, {there} at the peer ({peer}); no packet would pass between them"
            ))
            .with_hint("choose devices of one kind by --device on both sides"));
        }
        if own.simulated && apart {
            return Err(Failure::environment(format!(
                "the software NIC of the peer ({peer}) is on another machine; no packet would pass between them"
            ))
            .with_hint("software NICs reach only their own machine"));
        }
        if own.nic == theirs.nic && apart {
            return Err(Failure::environment(format!(
                "the NICs of both sides have the address {:#x}, but the peer ({peer}) is another machine",
                own.nic
            ))
            .with_hint("the nodes are of two fabrics, or the algorithmic MAC address of a NIC is not applied"));
        }
        Ok(())
    }
}

/// Where a version comes from (wire.md 9.1), and what follows.
pub fn release(number: Option<(u32, u32)>) -> &'static str {
    match number {
        Some((2, 0..=2)) => {
            "the peer's tool is of SHS 12.0 or older; SHS 13.0 or newer is needed there, or cxidiag"
        }
        Some((2, 3)) => {
            "the peer's tool is of an unreleased state between SHS 12.0 and 13.0; update it, or use cxidiag"
        }
        _ => "use the same release of the tool on both sides",
    }
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
        Announced::read(version).vni
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
            let _ = (number(&version), Announced::read(&version));
        }
    }
}
