//! Who gets a process: how many clients a server and a host have, and how many of their processes
//! start at the same time. Whose turn it is: one client measures on a NIC at a time, in order of
//! arrival, and the buffers of all runs stay within the memory of the machine.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use facts::device::DeviceName;
use facts::net::first_of_largest_host;
use session::arrivals::Newcomer;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStage {
    /// Its process opens its NIC.
    Arriving,
    /// It waits for its turn.
    Waiting,
    /// It is its turn, and it has not answered yet.
    Called,
    /// It measures.
    Running,
}

/// A client in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// The NICs that it measures with.
    pub devices: Vec<DeviceName>,
    /// What it does.
    pub stage: ClientStage,
    /// Bytes of its buffers.
    pub bytes: u64,
}

impl QueueEntry {
    /// Whether it measures, or is called to.
    pub fn has_turn(&self) -> bool {
        matches!(self.stage, ClientStage::Called | ClientStage::Running)
    }

    /// Whether it measures with one of `devices`.
    fn uses_any(&self, devices: &[DeviceName]) -> bool {
        self.devices.iter().any(|device| devices.contains(device))
    }
}

/// The indices of the waiting clients that may begin, of `entries` in order of arrival, while the
/// buffers of all runs have `limit` bytes at most.
pub fn turns(entries: &[QueueEntry], limit: u64) -> Vec<usize> {
    let running = entries.iter().filter(|entry| entry.has_turn());
    let devices = running.clone().flat_map(|entry| &entry.devices);
    let mut busy: Vec<DeviceName> = devices.copied().collect();
    let mut bytes: u64 = running.map(|entry| entry.bytes).sum();
    let mut turns = Vec::new();
    for (index, entry) in waiting(entries) {
        let waits = entry.uses_any(&busy);
        // The next client of these NICs does not overtake one that waits for another NIC or for
        // memory.
        busy.extend(&entry.devices);
        if waits {
            continue;
        }
        if let Some(sum) = bytes.checked_add(entry.bytes).filter(|sum| *sum <= limit) {
            bytes = sum;
            turns.push(index);
        }
    }
    turns
}

/// The indices of the waiting clients, and the place of each in the queue of its NICs: 1 for the
/// next.
pub fn places(entries: &[QueueEntry]) -> Vec<(usize, u32)> {
    let place = |(index, entry): (usize, &QueueEntry)| {
        let before = waiting(&entries[..index]).filter(|(_, other)| other.uses_any(&entry.devices));
        (index, before.count() as u32 + 1)
    };
    waiting(entries).map(place).collect()
}

fn waiting(entries: &[QueueEntry]) -> impl Iterator<Item = (usize, &QueueEntry)> {
    let entries = entries.iter().enumerate();
    entries.filter(|(_, entry)| entry.stage == ClientStage::Waiting)
}

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
    /// The client that gives way to a new client of `host`; `None` if there is room for both. The
    /// last client without a process gives way of the host that has most of them, if it has more
    /// than `host` will have: many connections do not keep out the client of another host.
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

    /// The clients without a process, with their indices.
    fn arrived(&self) -> impl Iterator<Item = (usize, &Present)> + Clone {
        let clients = self.present.iter().enumerate();
        clients.filter(|(_, client)| client.progress == ClientProgress::Arrived)
    }

    /// The next client that gets a process, if there is a place: the first one of the host that has
    /// the fewest processes that start.
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
    use super::ClientStage::{Arriving, Called, Running, Waiting};
    use super::*;

    fn entry(devices: &str, stage: ClientStage, bytes: u64) -> QueueEntry {
        let devices = devices.split(',').map(|device| device.parse().unwrap());
        QueueEntry { devices: devices.collect(), stage, bytes }
    }

    #[test]
    fn first_waiting_client_of_each_free_nic_begins() {
        let entries = [
            entry("cxi0", Running, 1),
            entry("cxi0", Waiting, 1),
            entry("cxi1", Arriving, 0),
            entry("cxi1", Waiting, 1),
            entry("cxi1", Waiting, 1),
            entry("cxi2", Waiting, 1),
            entry("cxi3", Called, 1),
            entry("cxi3", Waiting, 1),
        ];
        assert_eq!(turns(&entries, 100), [3, 5]);
        assert_eq!(places(&entries), [(1, 1), (3, 1), (4, 2), (5, 1), (7, 1)]);
    }

    #[test]
    fn client_waits_for_all_its_nics() {
        let entries = [
            entry("cxi1", Running, 1),
            entry("cxi0,cxi1", Waiting, 1),
            entry("cxi0", Waiting, 1),
            entry("cxi2,cxi3", Waiting, 1),
            entry("cxi3", Waiting, 1),
        ];
        assert_eq!(turns(&entries, 100), [3]);
        assert_eq!(places(&entries), [(1, 1), (2, 2), (3, 1), (4, 2)]);
        assert_eq!(turns(&entries[1..], 100), [0, 2]);
        let running = [entry("cxi0,cxi1", Running, 1), entry("cxi1", Waiting, 1)];
        assert!(turns(&running, 100).is_empty());
    }

    #[test]
    fn client_waits_until_its_buffers_fit_the_limit() {
        let entries = [
            entry("cxi0", Running, 6),
            entry("cxi1", Waiting, 5),
            entry("cxi1", Waiting, 1),
            entry("cxi2", Waiting, 4),
        ];
        assert_eq!(turns(&entries, 10), [3]);
        assert_eq!(turns(&entries[1..], 10), [0, 2]);
        assert_eq!(turns(&entries, u64::MAX), [1, 3]);
    }

    const NOW: Duration = Duration::ZERO;

    fn host(number: u8) -> IpAddr {
        IpAddr::from([10, 1, 1, number])
    }

    fn client(number: u8, progress: ClientProgress) -> Present {
        Present { host: host(number), progress }
    }

    /// The decision of a server with `most` clients about a new one of host 1.
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
