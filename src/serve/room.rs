//! Who gets a process: how many clients a server and a host have, and how many of their processes
//! start at the same time.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use facts::device::DeviceName;
use facts::net::shares::first_of_largest_host;
use session::arrivals::Newcomer;

/// Most processes that start and keep others waiting. Each opens a NIC, maybe while another one
/// measures with it.
const MOST_STARTING: usize = 4;

/// How long a process that starts may keep others waiting. Opening a NIC takes a few milliseconds.
pub const TURN: Duration = Duration::from_millis(250);

/// Number of clients that a host may have in any case; with a larger `--max-clients`, half of it.
const OF_A_HOST: usize = 8;

/// Clients without a process, with their NICs, in order of arrival.
pub type Arrived = VecDeque<(Newcomer, DeviceName)>;

/// A client, with or without a process.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    pub host: IpAddr,
    /// How far it is.
    pub progress: ClientProgress,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProgress {
    /// It has no process yet.
    Arrived,
    /// Its process has been starting for this time.
    Starting(Duration),
    /// Its process is ready.
    Ready,
}

/// The clients of a server with a limit.
pub struct Room<'a> {
    /// The clients, those without a process last, in order of arrival.
    pub present: &'a [Present],
    /// `--max-clients`.
    pub most: usize,
}

impl Room<'_> {
    /// Returns the client that gives way to a new client of `host`; `None` if there is room for
    /// both. The last client without a process gives way of the host that has most of them, if it
    /// has more than `host` will have: many connections do not keep out the client of another host.
    ///
    /// # Errors
    ///
    /// The reason why there is no room.
    pub fn place(&self, host: IpAddr) -> Result<Option<usize>, String> {
        let most = self.most;
        let most_of_host = OF_A_HOST.max(most / 2);
        if self.present.iter().filter(|client| client.host == host).count() >= most_of_host {
            return Err(format!(
                "the server has {most_of_host} clients of {host} already (half of --max-clients)"
            ));
        }
        if self.present.len() < most {
            return Ok(None);
        }
        let own = self.arrived().filter(|(_, client)| client.host == host).count();
        let hosts = self.arrived().map(|(index, client)| (client.host, Reverse(index)));
        let with_process = self.present.len() - self.arrived().count();
        match first_of_largest_host(hosts, 0) {
            Some((last, count)) if count > own + 1 => Ok(Some(with_process + last)),
            _ => Err(format!("the server has {most} clients already (--max-clients)")),
        }
    }

    /// Returns the clients without a process, with their indices.
    fn arrived(&self) -> impl Iterator<Item = (usize, &Present)> + Clone {
        let clients = self.present.iter().enumerate();
        clients.filter(|(_, client)| client.progress == ClientProgress::Arrived)
    }

    /// Returns the next client that gets a process, if there is a place: the first one of the host
    /// that has the fewest processes that start.
    pub fn next(&self) -> Option<usize> {
        let starting = self.present.iter().filter_map(|client| match client.progress {
            ClientProgress::Starting(age) => Some((client.host, age)),
            _ => None,
        });
        let count = |host| starting.clone().filter(|(other, _)| *other == host).count();
        let (next, _) = self.arrived().min_by_key(|(_, client)| count(client.host))?;
        (starting.clone().filter(|(_, age)| *age < TURN).count() < MOST_STARTING).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn host(number: u8) -> IpAddr {
        IpAddr::from([10, 1, 1, number])
    }

    fn client(number: u8, progress: ClientProgress) -> Present {
        Present { host: host(number), progress }
    }

    /// Returns the decision of a server with `most` clients about a new one of host 1.
    fn place(present: &[Present], most: usize) -> Result<Option<usize>, String> {
        Room { present, most }.place(host(1))
    }

    #[test]
    fn last_arrival_of_the_largest_host_gives_way_to_another_host() {
        let mut present = vec![client(2, ClientProgress::Ready); 4];
        present
            .extend([client(2, ClientProgress::Starting(NOW)), client(3, ClientProgress::Arrived)]);
        assert_eq!(place(&present, 8), Ok(None));
        let full = |most| Err(format!("the server has {most} clients already (--max-clients)"));
        assert_eq!(place(&present, 6), full(6));
        present.extend([client(3, ClientProgress::Arrived), client(2, ClientProgress::Arrived)]);
        assert_eq!(place(&present, 8), Ok(Some(6)));
        present.push(client(1, ClientProgress::Arrived));
        assert_eq!(place(&present, 9), full(9));
    }

    #[test]
    fn host_has_half_of_the_clients_at_most() {
        let mut present = vec![client(1, ClientProgress::Ready); 7];
        present.push(client(2, ClientProgress::Arrived));
        assert_eq!(place(&present, 16), Ok(None));
        present.push(client(1, ClientProgress::Arrived));
        let reason = "the server has 8 clients of 10.1.1.1 already (half of --max-clients)";
        assert_eq!(place(&present, 16), Err(reason.into()));
    }

    #[test]
    fn hosts_take_turns_and_few_processes_start_at_a_time() {
        let next = |present: &[Present]| Room { present, most: 64 }.next();
        let mut present = vec![client(2, ClientProgress::Starting(TURN)); 4];
        present.extend([client(2, ClientProgress::Arrived), client(1, ClientProgress::Arrived)]);
        assert_eq!(next(&present), Some(5));
        assert_eq!(next(&present[..5]), Some(4));
        present[..4].fill(client(2, ClientProgress::Starting(NOW)));
        assert_eq!(next(&present), None);
        present[0] = client(2, ClientProgress::Ready);
        assert_eq!(next(&present), Some(5));
    }
}
