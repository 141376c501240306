//! The handshake: program name, version, options, address (wire.md 4).
//!
//! Each of the four is exchanged completely before it is judged, so that both sides see a
//! mismatch and both say so.

use std::net::SocketAddr;

use super::connection::{Connection, LinkError};
use super::option_block::{OPTIONS_SIZE, OptionBlock};
use super::wire::{self, ADDRESS_SIZE, Address, MAX_PAYLOAD};
use super::{ANSWER_LIMIT, Own};
use crate::error::Failure;
use crate::phase::{Phase, enter};
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

/// What a peer has told.
#[derive(Debug)]
pub struct Introduction {
    /// Its options.
    pub block: OptionBlock,
    /// Its fabric address.
    pub address: Address,
    /// It is a cxidiag, no legacy tool.
    pub is_cxidiag: bool,
}

/// Tells who we are, hears who the other is.
pub fn perform(
    connection: &mut Connection,
    tool: &Tool,
    block: &OptionBlock,
    own: Own,
) -> Result<Introduction, Refusal> {
    let peer = connection.peer();
    enter(Phase::Names);
    names(connection, tool, peer)?;
    enter(Phase::Versions);
    let is_cxidiag = versions(connection, tool, own.vni, peer)?;
    enter(Phase::Options);
    let theirs: [u8; OPTIONS_SIZE] = exact(connection, &block.encode(), "options")?;
    let address = Address {
        nic: own.nic,
        pid: own.pid,
    };
    enter(Phase::Addresses);
    let address: [u8; ADDRESS_SIZE] = exact(connection, &address.encode(), "address")?;
    Ok(Introduction {
        block: OptionBlock::decode(&theirs),
        address: Address::decode(&address),
        is_cxidiag,
    })
}

fn names(connection: &mut Connection, tool: &Tool, peer: SocketAddr) -> Result<(), Refusal> {
    let payload = match connection.exchange(
        &wire::string(tool.legacy_name),
        MAX_PAYLOAD,
        Some(ANSWER_LIMIT),
    ) {
        Ok(payload) => payload,
        Err(LinkError::Interrupted(failure)) => return Err(failure.into()),
        Err(error) => return Err(Refusal::Stranger(silence(&error))),
    };
    let Some(name) = wire::parse_string(&payload).filter(|name| name.starts_with(NAMES)) else {
        return Err(Refusal::Stranger("it did not name a benchmark".into()));
    };
    if name != tool.legacy_name {
        return Err(Failure::environment(format!(
            "different tools: {} here, {name} at the peer ({peer})",
            tool.legacy_name
        ))
        .with_hint("start the same tool on both sides")
        .into());
    }
    Ok(())
}

fn silence(error: &LinkError) -> String {
    match error {
        LinkError::Closed => "it closed the connection without naming itself".into(),
        LinkError::Farewell => "it was interrupted".into(),
        LinkError::Interrupted(failure) => failure.to_string(),
        LinkError::Late(limit) => format!("it said nothing for {} s", limit.as_secs()),
        LinkError::TooLong { .. } => "it speaks another protocol".into(),
        LinkError::Io(error) => error.to_string(),
    }
}

/// Whether the peer is a cxidiag, if the two can work together.
fn versions(
    connection: &mut Connection,
    tool: &Tool,
    vni: u32,
    peer: SocketAddr,
) -> Result<bool, Failure> {
    let mine = announcement(tool, vni);
    let payload = connection
        .exchange(&wire::string(&mine), MAX_PAYLOAD, Some(ANSWER_LIMIT))
        .map_err(|error| error.into_failure(peer, "during the handshake (version)"))?;
    let theirs = wire::parse_string(&payload).unwrap_or_default();
    let number = number(theirs);
    if number.is_none() || number != self::number(tool.wire_version) {
        let theirs = theirs.split_whitespace().next().unwrap_or("none");
        return Err(Failure::environment(format!(
            "different versions of {}: {} here, {theirs} at the peer ({peer})",
            tool.legacy_name, tool.wire_version
        ))
        .with_hint(release(number)));
    }
    match announced_vni(theirs) {
        Some(other) if other != vni => Err(Failure::environment(format!(
            "different VNIs: {vni} here, {other} at the peer ({peer}); no packet would pass between them"
        ))
        .with_hint("choose services with the same VNI by --svc-id on both sides")),
        _ => Ok(is_cxidiag(theirs)),
    }
}

/// Our version as we send it. A legacy peer reads `2.4` and ignores the rest; another cxidiag
/// learns our VNI from it, which the protocol does not tell (defect T15 of tools.md).
fn announcement(tool: &Tool, vni: u32) -> String {
    format!(
        "{} cxidiag/{} vni={vni}",
        tool.wire_version,
        env!("CARGO_PKG_VERSION")
    )
}

/// Major and minor number at the beginning of a version.
fn number(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a version is that of another cxidiag.
fn is_cxidiag(version: &str) -> bool {
    let second = version.split_whitespace().nth(1);
    second.is_some_and(|word| word.starts_with("cxidiag/"))
}

/// The VNI that another cxidiag announced with its version.
fn announced_vni(version: &str) -> Option<u32> {
    if !is_cxidiag(version) {
        return None;
    }
    let mut words = version.split_whitespace().skip(2);
    words
        .find_map(|word| word.strip_prefix("vni="))
        .and_then(|vni| vni.parse().ok())
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

/// An exchange of payloads of one fixed size.
fn exact<const N: usize>(
    connection: &mut Connection,
    mine: &[u8; N],
    what: &str,
) -> Result<[u8; N], Failure> {
    let peer = connection.peer();
    let payload = connection
        .exchange(mine, MAX_PAYLOAD, Some(ANSWER_LIMIT))
        .map_err(|error| error.into_failure(peer, &format!("during the handshake ({what})")))?;
    payload.as_slice().try_into().map_err(|_| {
        Failure::environment(format!(
            "the peer ({peer}) sent {} bytes as its {what}, where {N} are expected",
            payload.len()
        ))
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

    #[test]
    fn a_vni_is_known_only_from_a_cxidiag() {
        assert_eq!(announced_vni("2.4.0 cxidiag/0.1.0 vni=10"), Some(10));
        assert_eq!(
            announced_vni("2.4.0 cxidiag/9.9.9 future=1 vni=10 more"),
            Some(10)
        );
        for unknown in [
            "2.4.0",
            "2.4.0 vni=10",
            "2.4.0 other/1 vni=10",
            "2.4.0 cxidiag/1",
            "2.4.0 cxidiag/1 vni=x",
        ] {
            assert_eq!(announced_vni(unknown), None, "{unknown}");
        }
    }

    proptest! {
        #[test]
        fn any_version_is_read(version in "\\PC{0,40}") {
            let _ = (number(&version), announced_vni(&version));
        }
    }
}
