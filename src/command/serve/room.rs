//! Who gets a process: how many clients are in the handshake, and how many a server and a host
//! have.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use diag::session::arrivals::Newcomer;
use facts::device::DeviceName;
use facts::number::time_text;

/// Most clients in the handshake that keep others waiting. Each process opens a NIC, maybe while
/// another one measures with it.
const MOST_ARRIVING: usize = 4;

/// How long a client in the handshake may keep others waiting. Opening a NIC takes a few
/// milliseconds, and an answer of a legacy client about 0.1 s (wire.md 2).
pub const TURN: Duration = Duration::from_millis(250);

/// Time after which a client in the handshake gives way to another one if the server is full.
pub const SILENCE: Duration = Duration::from_secs(2);

/// Number of clients that a host may have in any case; with a larger `--max-clients`, half of it.
const OF_A_HOST: usize = 8;

/// Number of handshakes that a host may leave unfinished within [`MEMORY`].
const UNFINISHED: usize = 8;

/// How long an unfinished handshake counts.
const MEMORY: Duration = Duration::from_secs(60);

/// Most hosts whose unfinished handshakes are counted.
const MOST_HOSTS: usize = 1024;

/// Clients without a process, with their NICs, in order of arrival.
pub type Arrived = VecDeque<(Newcomer, DeviceName)>;

/// A client, with or without a process.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    pub host: IpAddr,
    /// How far it is.
    pub progress: Progress,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has no process yet.
    Arrived,
    /// Its process has been in the handshake for this time.
    InHandshake(Duration),
    /// Its process ends, because the client was silent in the handshake.
    GivesWay,
    /// Its handshake is complete.
    Complete,
}

/// The handshakes that hosts have begun and not finished.
#[derive(Debug, Default)]
pub struct Unfinished {
    by_host: HashMap<IpAddr, VecDeque<Instant>>,
}

impl Unfinished {
    /// Counts a handshake of `host`.
    pub fn add(&mut self, host: IpAddr, now: Instant) {
        self.by_host.retain(|_, times| times.back().is_some_and(|last| is_recent(*last, now)));
        if self.by_host.len() < MOST_HOSTS || self.by_host.contains_key(&host) {
            let times = self.by_host.entry(host).or_default();
            times.push_back(now);
            if times.len() > UNFINISHED {
                times.pop_front();
            }
        }
    }

    /// Returns the number of unfinished handshakes of `host`.
    fn count(&self, host: IpAddr, now: Instant) -> usize {
        let times = self.by_host.get(&host);
        times.map_or(0, |times| times.iter().filter(|time| is_recent(**time, now)).count())
    }
}

fn is_recent(time: Instant, now: Instant) -> bool {
    now.saturating_duration_since(time) < MEMORY
}

/// The clients of a server with a limit.
pub struct Room<'a> {
    /// The clients, those without a process last, in order of arrival.
    pub present: &'a [Present],
    /// What their hosts have left unfinished.
    pub unfinished: &'a Unfinished,
    /// `--max-clients`.
    pub most: usize,
    /// The current time.
    pub now: Instant,
}

impl Room<'_> {
    /// Returns the client that gives way to a new client of `host`; `None` if there is room for
    /// both. A client that has been in its handshake for [`SILENCE`] gives way, and so does one of
    /// a host with more handshakes: many connections do not keep out the client of another host.
    ///
    /// # Errors
    ///
    /// The reason why there is no room.
    pub fn place(&self, host: IpAddr) -> Result<Option<usize>, String> {
        let unfinished = self.unfinished.count(host, self.now);
        if unfinished >= UNFINISHED {
            let memory = time_text(MEMORY);
            return Err(format!(
                "{unfinished} clients of {host} left their handshake unfinished in the last {memory}"
            ));
        }
        let most = self.most;
        let most_of_host = OF_A_HOST.max(most / 2);
        let staying = self.present.iter().enumerate();
        let staying = staying.filter(|(_, client)| client.progress != Progress::GivesWay);
        let has_too_many = staying.clone().filter(|(_, c)| c.host == host).count() >= most_of_host;
        if !has_too_many && staying.clone().count() < most {
            return Ok(None);
        }
        let own = self.handshakes(host);
        let giving_way = staying.filter_map(|(index, client)| {
            let is_of_crowd = !has_too_many && self.handshakes(client.host) > own + 1;
            let age = match client.progress {
                Progress::Arrived if is_of_crowd => Duration::ZERO,
                Progress::InHandshake(age) if is_of_crowd && age >= TURN => age,
                Progress::InHandshake(age)
                    if age >= SILENCE && (!has_too_many || client.host == host) =>
                {
                    age
                }
                _ => return None,
            };
            let has_process = client.progress != Progress::Arrived;
            Some((age >= SILENCE, self.handshakes(client.host), !has_process, age, index))
        });
        match giving_way.max() {
            Some((.., index)) => Ok(Some(index)),
            None if has_too_many => Err(format!(
                "the server has {most_of_host} clients of {host} already (half of --max-clients)"
            )),
            None => Err(format!("the server has {most} clients already (--max-clients)")),
        }
    }

    /// Returns the number of handshakes that `host` has begun and not finished.
    fn handshakes(&self, host: IpAddr) -> usize {
        let begun = self.present.iter().filter(|client| {
            let is_begun = matches!(client.progress, Progress::Arrived | Progress::InHandshake(_));
            client.host == host && is_begun
        });
        begun.count() + self.unfinished.count(host, self.now)
    }

    /// Returns the next client that gets a process, if there is a place: the first one of the host
    /// that has the fewest handshakes in a process or unfinished. A host that has finished all its
    /// handshakes does not wait for other ones.
    pub fn next(&self) -> Option<usize> {
        let burden = |host: IpAddr| {
            let in_handshake = self.present.iter().filter(|client| {
                client.host == host && matches!(client.progress, Progress::InHandshake(_))
            });
            in_handshake.count() + self.unfinished.count(host, self.now)
        };
        let arrived = self.present.iter().enumerate();
        let arrived = arrived.filter(|(_, client)| client.progress == Progress::Arrived);
        let (index, first) = arrived.min_by_key(|(_, client)| burden(client.host))?;
        let has_finished = |host| self.unfinished.count(host, self.now) == 0;
        let waits_for = |client: &&Present| has_finished(client.host) || !has_finished(first.host);
        let keeping = self.present.iter().filter(|client| match client.progress {
            Progress::GivesWay => true,
            Progress::InHandshake(age) => age < TURN,
            Progress::Arrived | Progress::Complete => false,
        });
        (keeping.filter(waits_for).count() < MOST_ARRIVING).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3);

    fn host(number: u8) -> IpAddr {
        IpAddr::from([10, 1, 1, number])
    }

    fn client(number: u8, progress: Progress) -> Present {
        Present { host: host(number), progress }
    }

    /// Returns the decision of a server with `most` clients about a new one of host 1.
    fn place(
        present: &[Present],
        unfinished: &Unfinished,
        most: usize,
    ) -> Result<Option<usize>, String> {
        let room = Room { present, unfinished, most, now: Instant::now() };
        room.place(host(1))
    }

    fn unfinished(number: u8, count: usize) -> Unfinished {
        let mut unfinished = Unfinished::default();
        for _ in 0..count {
            unfinished.add(host(number), Instant::now());
        }
        unfinished
    }

    #[test]
    fn handshakes_of_a_crowd_give_way_to_another_host() {
        let none = Unfinished::default();
        let mut present = vec![client(2, Progress::Complete); 4];
        present.extend([client(2, Progress::InHandshake(NOW)), client(3, Progress::Arrived)]);
        assert_eq!(place(&present, &none, 8), Ok(None));
        let full = "the server has 6 clients already (--max-clients)";
        assert_eq!(place(&present, &none, 6), Err(full.into()));
        present.push(client(3, Progress::Arrived));
        assert_eq!(place(&present, &none, 7), Ok(Some(6)));
        // A process that has just begun is not replaced; one that was silent is, before others.
        present[5] = client(3, Progress::InHandshake(NOW));
        present[6] = client(3, Progress::InHandshake(TURN));
        assert_eq!(place(&present, &none, 7), Ok(Some(6)));
        present[4] = client(2, Progress::InHandshake(LONG));
        assert_eq!(place(&present, &none, 7), Ok(Some(4)));
        present[4] = client(2, Progress::GivesWay);
        assert_eq!(place(&present, &none, 7), Ok(None));
    }

    #[test]
    fn clients_of_a_host_give_way_to_its_own_only() {
        let none = Unfinished::default();
        let mut present = vec![client(1, Progress::Complete); 7];
        present.extend([client(1, Progress::Arrived), client(2, Progress::InHandshake(LONG))]);
        let reason = "the server has 8 clients of 10.1.1.1 already (half of --max-clients)";
        assert_eq!(place(&present, &none, 16), Err(reason.into()));
        present[3] = client(1, Progress::InHandshake(LONG));
        assert_eq!(place(&present, &none, 16), Ok(Some(3)));
    }

    #[test]
    fn unfinished_handshakes_count_against_their_host() {
        let one = [client(3, Progress::Arrived)];
        assert_eq!(place(&one, &unfinished(1, UNFINISHED - 1), 8), Ok(None));
        let reason = "8 clients of 10.1.1.1 left their handshake unfinished in the last 1m";
        assert_eq!(place(&one, &unfinished(1, 20), 8), Err(reason.into()));
        assert_eq!(place(&one, &unfinished(2, 20), 8), Ok(None));
        // With its unfinished handshakes, a host is a crowd.
        assert!(place(&one, &unfinished(2, 20), 1).is_err());
        assert_eq!(place(&one, &unfinished(3, 1), 1), Ok(Some(0)));
        let mut old = Unfinished::default();
        let Some(before) = Instant::now().checked_sub(MEMORY) else {
            return;
        };
        for _ in 0..UNFINISHED {
            old.add(host(1), before);
        }
        assert_eq!(place(&one, &old, 8), Ok(None));
    }

    #[test]
    fn counts_a_limited_number_of_hosts() {
        let mut unfinished = Unfinished::default();
        let now = Instant::now();
        for number in 0..2 * MOST_HOSTS as u32 {
            unfinished.add(IpAddr::from(number.to_be_bytes()), now);
        }
        assert_eq!(unfinished.by_host.len(), MOST_HOSTS);
        unfinished.add(host(1), now + MEMORY);
        assert_eq!(unfinished.by_host.len(), 1);
    }

    /// Returns which client gets the next process.
    fn next(present: &[Present], unfinished: &Unfinished) -> Option<usize> {
        let room = Room { present, unfinished, most: 64, now: Instant::now() };
        room.next()
    }

    #[test]
    fn hosts_take_turns_and_those_with_unfinished_handshakes_come_last() {
        let none = Unfinished::default();
        let mut present = vec![client(2, Progress::InHandshake(TURN)); 4];
        present.extend([client(2, Progress::Arrived), client(1, Progress::Arrived)]);
        assert_eq!(next(&present, &none), Some(5));
        assert_eq!(next(&present, &unfinished(1, 5)), Some(4));
        // Four that have just begun keep others waiting, unless these are of another kind.
        present[..4].fill(client(2, Progress::InHandshake(NOW)));
        assert_eq!(next(&present, &none), None);
        assert_eq!(next(&present, &unfinished(2, 1)), Some(5));
        assert_eq!(next(&present[..5], &unfinished(2, 1)), None);
        present[..4].fill(client(2, Progress::GivesWay));
        assert_eq!(next(&present, &none), None);
        assert_eq!(next(&present, &unfinished(2, 1)), Some(5));
    }
}
