//! How much the processes of a survey have sent and received.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Messages and bytes of a process on its connections to other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        let [sent, bytes_sent] = [more.messages_sent, more.bytes_sent];
        self.messages_sent = self.messages_sent.saturating_add(sent);
        self.bytes_sent = self.bytes_sent.saturating_add(bytes_sent);
        let [received, bytes_received] = [more.messages_received, more.bytes_received];
        self.messages_received = self.messages_received.saturating_add(received);
        self.bytes_received = self.bytes_received.saturating_add(bytes_received);
    }
}

/// The traffic of the processes at one level of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTraffic {
    /// Level: 0 is the coordinator, 1 its children.
    pub level: u32,
    /// Number of processes.
    pub processes: u64,
    pub sum: Traffic,
    /// The process with the most bytes, sent and received.
    pub most: Traffic,
}

impl LevelTraffic {
    pub fn add(&mut self, process_traffic: Traffic) {
        self.processes += 1;
        self.sum += process_traffic;
        let bytes = |traffic: Traffic| traffic.bytes_sent.saturating_add(traffic.bytes_received);
        if bytes(process_traffic) > bytes(self.most) {
            self.most = process_traffic;
        }
    }
}
