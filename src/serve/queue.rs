//! Whose turn it is: one client measures on a NIC at a time, in order of arrival, and the buffers
//! of all runs stay within a limit.

use facts::device::DeviceName;

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
    /// Returns whether it measures, or is called to.
    pub fn has_turn(&self) -> bool {
        matches!(self.stage, ClientStage::Called | ClientStage::Running)
    }

    /// Returns whether it measures with one of `devices`.
    fn uses_any(&self, devices: &[DeviceName]) -> bool {
        self.devices.iter().any(|device| devices.contains(device))
    }
}

/// Returns the indices of the waiting clients that may begin, of `entries` in order of arrival,
/// while the buffers of all runs have `limit` bytes at most.
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

/// Returns the indices of the waiting clients, and the place of each in the queue of its NICs: 1
/// for the next.
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
}
