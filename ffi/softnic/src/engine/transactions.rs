//! Operations that wait for their response.

use cxi_sys::c_event_type;

use super::ReturnCode;
use super::counter::Counting;
use super::packet::Peer;

/// Most operations of one NIC under way. A command queue waits while they are used up, so this also
/// bounds the responses that any other NIC has to keep for us.
pub const MAX: usize = 4096;

/// Memory of an LNI that data comes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub lni: usize,
    pub lac: u8,
    pub iova: u64,
}

/// What is needed to complete an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub peer: Peer,
    /// The transmit queue it came from, unless that is gone.
    pub queue: Option<usize>,
    pub eq: u16,
    pub user_ptr: u64,
    /// The event that completes it: ACK or REPLY.
    pub event: c_event_type,
    /// Bytes asked for.
    pub length: u32,
    /// Where the data of a reply goes.
    pub destination: Option<Destination>,
    /// The get of a rendezvous put: the portals table entry that the NIC makes it for.
    pub rendezvous: Option<usize>,
    /// No event when it succeeds.
    pub success_disable: bool,
    pub counting: Counting,
    /// What went wrong on our side; outranks what the target says.
    pub local_error: Option<ReturnCode>,
    /// It was under way at the last probe already.
    pub probed: bool,
}

#[derive(Default)]
struct Slot {
    /// Upper half of the tag: a late response to an earlier user of the slot does not match.
    generation: u16,
    transaction: Option<Transaction>,
}

/// The transactions of one NIC, by tag.
#[derive(Default)]
pub struct Transactions {
    slots: Vec<Slot>,
    free: Vec<u16>,
}

impl Transactions {
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == MAX
    }

    /// Files a transaction; there must be room.
    #[inline]
    pub fn start(&mut self, transaction: Transaction) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(index)];
        slot.transaction = Some(transaction);
        u32::from(slot.generation) << 16 | u32::from(index)
    }

    #[inline]
    pub fn get_mut(&mut self, tag: u32) -> Option<&mut Transaction> {
        let slot = self.slots.get_mut(usize::from(tag as u16))?;
        if slot.generation != (tag >> 16) as u16 {
            return None;
        }
        slot.transaction.as_mut()
    }

    /// Takes a transaction out; `None` if the tag is of the past.
    #[inline]
    pub fn finish(&mut self, tag: u32) -> Option<Transaction> {
        let transaction = *self.get_mut(tag)?;
        let index = tag as u16;
        let slot = &mut self.slots[usize::from(index)];
        slot.transaction = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(transaction)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Transaction)> {
        self.slots
            .iter_mut()
            .enumerate()
            .filter_map(|(index, slot)| {
                let tag = u32::from(slot.generation) << 16 | index as u32;
                Some((tag, slot.transaction.as_mut()?))
            })
    }

    /// Whether anything is under way.
    #[inline]
    pub fn any(&self) -> bool {
        self.free.len() != self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(user_ptr: u64) -> Transaction {
        Transaction {
            peer: 0,
            queue: Some(0),
            eq: 1,
            user_ptr,
            event: cxi_sys::C_EVENT_ACK,
            length: 8,
            destination: None,
            rendezvous: None,
            success_disable: false,
            counting: Counting::default(),
            local_error: None,
            probed: false,
        }
    }

    #[test]
    fn a_tag_is_good_once() {
        let mut all = Transactions::default();
        let first = all.start(transaction(1));
        assert_eq!(all.finish(first).map(|t| t.user_ptr), Some(1));
        assert!(!all.any());
        let second = all.start(transaction(2));
        assert_eq!(all.finish(first), None);
        assert_eq!(all.finish(second).map(|t| t.user_ptr), Some(2));
        assert_eq!(all.finish(0xffff), None);
    }

    #[test]
    fn full_at_the_maximum() {
        let mut all = Transactions::default();
        let tags: Vec<u32> = (0..MAX as u64).map(|n| all.start(transaction(n))).collect();
        assert!(all.is_full());
        all.finish(tags[17]);
        assert!(!all.is_full());
    }
}
