//! The two NICs of a run, for messages about errors of a NIC.

use std::fmt;

use facts::device::FabricAddress;
use facts::error::{Failure, Kind};

/// The NICs of both sides.
#[derive(Clone, Debug)]
pub struct RunRoute {
    /// This side's.
    pub own: FabricAddress,
    /// Name of this host.
    pub host: String,
    pub peer: FabricAddress,
    /// Name of the peer's host; `None` if the peer has not sent it.
    pub peer_host: Option<String>,
}

impl RunRoute {
    /// Adds to an error of the NIC the place of the measurement, such as `at 8 bytes, iteration
    /// 17`, and both NICs. Other failures stay as they are.
    pub fn locate(&self, failure: Failure, place: impl fmt::Display) -> Failure {
        match failure.kind {
            Kind::Nic => failure.at(format!("{place}, between {self}")),
            _ => failure,
        }
    }
}

impl fmt::Display for RunRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, host, peer, peer_host } = self;
        write!(f, "NIC {:#x} PID {} on {host}", own.nic, own.pid)?;
        write!(f, " and NIC {:#x} PID {}", peer.nic, peer.pid)?;
        match peer_host {
            Some(host) => write!(f, " on {host}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_both_nics_in_errors_of_the_nic_only() {
        let mut route = RunRoute {
            own: FabricAddress { nic: 0x13, pid: 0 },
            host: "node1".into(),
            peer: FabricAddress { nic: 0x12, pid: 7 },
            peer_host: Some("node2".into()),
        };
        let failure = Failure::nic("lost").context("write failed");
        assert_eq!(
            route.locate(failure, "at 8 bytes, iteration 3").message(),
            "write failed: lost; at 8 bytes, iteration 3, between NIC 0x13 PID 0 on node1 and NIC 0x12 PID 7 on node2"
        );
        route.peer_host = None;
        let message = route.locate(Failure::nic("lost"), "during set-up").message();
        assert!(message.ends_with("on node1 and NIC 0x12 PID 7"), "{message}");
        assert_eq!(route.locate(Failure::peer("gone"), "x").message(), "gone");
    }
}
