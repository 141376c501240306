//! How much the coordinator has sent and received.

use std::ops::AddAssign;

/// Messages and bytes on the connections of the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
