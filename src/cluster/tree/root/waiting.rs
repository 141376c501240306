//! A process that waits for a parent.

use crate::tree::link::Link;
use crate::tree::message::Message;

/// A process that waits for a parent.
#[derive(Debug)]
pub struct Waiting {
    pub(super) link: Link,
    pub rank: u32,
    pub(super) avoid: Option<u32>,
}

impl Waiting {
    /// Sends the refusal of the process.
    pub fn refuse(&mut self, refused: &Message) {
        self.link.send(refused);
    }
}
