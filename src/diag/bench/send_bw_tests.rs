//! Both sides of a bidirectional run in one process, on the software NIC.

use std::slice;

use super::*;
use crate::bench::common::PORTAL_INDEX;
use crate::bench::testing::{Alone, endpoint};
use crate::endpoint::Endpoint;
use plan::testing::plan;

const SIZE: u64 = 64;

/// When the time of a size is up, the peer may be in its next iteration. This side then begins it
/// as well, and must see that its own list is complete.
#[test]
fn completes_rendezvous_iteration_that_peer_began() {
    let plan = plan("send-bw", &["-R", "-b", "-l", "4", "-s", "64"]);
    let [here, there] = [endpoint(&plan), endpoint(&plan)];
    let set_up = |own: &Endpoint, other: &Endpoint, side| {
        let peer = Peer {
            own,
            address: other.address().address,
            portal: PORTAL_INDEX,
            supervisor: &Alone,
        };
        SendBandwidth::set_up(peer, &plan.run, side).unwrap()
    };
    let mut client = set_up(&here, &there, Side::Client);
    let mut server = set_up(&there, &here, Side::Server);
    let with_server = WithServer { server: &mut server, run: &plan.run };
    SendBandwidth::measure(slice::from_mut(&mut client), &plan.run, SIZE, with_server).unwrap();
    SendBandwidth::close(client).unwrap();
    SendBandwidth::close(server).unwrap();
    here.close().unwrap();
    there.close().unwrap();
}

/// Gives the client's lists to the server's loop.
struct WithServer<'a> {
    server: &'a mut ListResources,
    run: &'a RunOptions,
}

impl RepeatLists for WithServer<'_> {
    type Output = ();

    fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
        let [client] = pairs else {
            panic!("one pair");
        };
        let server = slice::from_mut(self.server);
        SendBandwidth::measure(server, self.run, SIZE, CompleteBoth { client })
    }
}

/// Lets the server issue a list, and both sides complete the iteration.
struct CompleteBoth<'a, L> {
    client: &'a mut L,
}

impl<L: Lists> RepeatLists for CompleteBoth<'_, L> {
    type Output = ();

    fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
        let [server] = pairs else {
            panic!("one pair");
        };
        server.step()?;
        while !self.client.are_under_way()? {}
        for _ in 0..10_000 {
            // Asked again and again, so that events arrive between two steps.
            let is_client_busy = (0..100).try_fold(true, |_, _| self.client.are_under_way())?;
            let is_server_busy = server.are_under_way()?;
            if !is_client_busy && !is_server_busy {
                return Ok(());
            }
            if is_client_busy {
                self.client.step()?;
            }
            if is_server_busy {
                server.step()?;
            }
        }
        panic!("the iteration is not complete");
    }
}
