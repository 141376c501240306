//! Who gets a process: how many clients are in the handshake, and how many a server and a host
//! have.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::client::Client;
use diag::session::arrivals::Newcomer;
use facts::device::DeviceName;

/// Most clients in the handshake that keep others waiting. Each process opens a NIC, maybe while
/// another one measures with it.
const MOST_ARRIVING: usize = 4;

/// How long a client in the handshake may keep others waiting. Opening a NIC takes a few
/// milliseconds, and an answer of a legacy client about 0.1 s (wire.md 2).
const TURN: Duration = Duration::from_millis(250);

/// Time after which a client in the handshake gives way to another one if the server is full.
const SILENCE: Duration = Duration::from_secs(2);

/// Number of clients that a host may have in any case; with a larger `--max-clients`, half of it.
const OF_A_HOST: usize = 8;

/// Clients without a process, with their NICs, in order of arrival.
pub type Arrived = VecDeque<(Newcomer, DeviceName)>;

/// Returns why there is no room for a client of `host` at a server with `most` clients, if there is
/// none. A client that has been in its handshake for [`SILENCE`] gives way.
pub fn excess(
    clients: &mut [Client],
    arrived: &Arrived,
    most: usize,
    host: IpAddr,
) -> Option<String> {
    let of_a_host = OF_A_HOST.max(most / 2);
    let staying = clients.iter().filter(|client| !client.gives_way());
    let present = staying.map(Client::host);
    let present = present.chain(arrived.iter().map(|(newcomer, _)| newcomer.peer.ip()));
    let is_full = present.clone().count() >= most;
    let is_own = |other: &IpAddr| *other == host;
    let has_too_many = present.filter(is_own).count() >= of_a_host;
    if !is_full && !has_too_many {
        return None;
    }
    let silent = clients.iter_mut().find(|client| {
        client.is_arriving_since(SILENCE) && (!has_too_many || is_own(&client.host()))
    });
    if let Some(silent) = silent {
        silent.give_way();
        return None;
    }
    Some(if has_too_many {
        format!("the server has {of_a_host} clients of {host} already (half of --max-clients)")
    } else {
        format!("the server has {most} clients already (--max-clients)")
    })
}

/// Returns the index of the next one of `arrived` that gets a process, if there is a place: the
/// first one of the host that has the fewest clients in the handshake.
pub fn next(clients: &[Client], arrived: &Arrived) -> Option<usize> {
    let keeping = clients.iter().filter(|client| {
        client.gives_way() || client.is_arriving() && !client.is_arriving_since(TURN)
    });
    if keeping.count() >= MOST_ARRIVING {
        return None;
    }
    let arriving = |host: IpAddr| {
        let of_host = clients.iter().filter(|client| client.host() == host);
        of_host.filter(|client| client.is_arriving()).count()
    };
    let hosts = arrived.iter().map(|(newcomer, _)| newcomer.peer.ip());
    let counts = hosts.map(arriving).enumerate();
    counts
        .min_by_key(|(_, count)| *count)
        .map(|(index, _)| index)
}

/// Returns when the first one of `clients` stops keeping others waiting.
pub fn due(clients: &[Client]) -> Option<Instant> {
    let arriving = clients.iter().filter(|client| client.is_arriving());
    let ends = arriving.map(|client| client.since() + TURN);
    ends.filter(|end| *end > Instant::now()).min()
}
