//! Transactions: operations of this NIC that wait for their response.

use cxi_sys::c_event_type;

use super::counter::Counting;
use super::return_codes::ReturnCode;
use super::wire::PeerId;

/// The most transactions of one NIC. Command queues wait when there are as many, so this also
/// bounds the responses that another NIC has to store for this one.
pub const MAX: usize = 4096;

/// Memory of an LNI that receives the data of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyDestination {
    pub lni: usize,
    pub lac: u8,
    pub iova: u64,
}

/// The state needed to complete an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    pub peer: PeerId,
    /// The transmit queue that issued it, unless that was destroyed.
    pub queue: Option<usize>,
    /// The event queue of its events; 0 for none.
    pub eq: u16,
    pub user_ptr: u64,
    /// The type of the event that completes it: ACK or REPLY.
    pub event: c_event_type,
    /// Bytes requested.
    pub length: u32,
    /// The destination of the data of a reply.
    pub destination: Option<ReplyDestination>,
    /// For the get of a rendezvous put: the portals table entry that the put matched.
    pub rendezvous: Option<usize>,
    /// No event on success.
    pub success_disable: bool,
    pub counting: Counting,
    /// A failure at the initiator. Takes precedence over the result of the target.
    pub local_error: Option<ReturnCode>,
    /// It was already in progress at the last probe.
    pub probed: bool,
}

#[derive(Default)]
struct TransactionSlot {
    /// Upper half of the tag. A late response to an earlier transaction of the slot does not match.
    generation: u16,
    transaction: Option<OpenTransaction>,
}

/// The transactions of one NIC, by tag.
#[derive(Default)]
pub struct Transactions {
    slots: Vec<TransactionSlot>,
    free: Vec<u16>,
}

impl Transactions {
    /// Whether no other transaction can start.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == MAX
    }

    /// Starts a transaction and returns its tag. The table must not be full.
    #[inline(always)]
    pub fn start(&mut self, transaction: OpenTransaction) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(TransactionSlot::default());
            (self.slots.len() - 1) as u16
        });
        let slot = &mut self.slots[usize::from(index)];
        slot.transaction = Some(transaction);
        u32::from(slot.generation) << 16 | u32::from(index)
    }

    /// A transaction; `None` if it has ended.
    #[inline]
    pub fn get_mut(&mut self, tag: u32) -> Option<&mut OpenTransaction> {
        let slot = self.slots.get_mut(usize::from(tag as u16))?;
        if slot.generation != (tag >> 16) as u16 {
            return None;
        }
        slot.transaction.as_mut()
    }

    /// Ends a transaction and returns it; `None` if it has ended before.
    #[inline]
    pub fn finish(&mut self, tag: u32) -> Option<OpenTransaction> {
        let transaction = *self.get_mut(tag)?;
        let index = tag as u16;
        let slot = &mut self.slots[usize::from(index)];
        slot.transaction = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(transaction)
    }

    /// Iterates over the transactions with their tags.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut OpenTransaction)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let tag = u32::from(slot.generation) << 16 | index as u32;
            Some((tag, slot.transaction.as_mut()?))
        })
    }

    /// Whether there is any transaction.
    #[inline]
    pub fn any(&self) -> bool {
        self.free.len() != self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(user_ptr: u64) -> OpenTransaction {
        OpenTransaction {
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
    fn tag_ends_one_transaction_only() {
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
    fn is_full_at_the_maximum() {
        let mut all = Transactions::default();
        let tags: Vec<u32> = (0..MAX as u64).map(|n| all.start(transaction(n))).collect();
        assert!(all.is_full());
        all.finish(tags[17]);
        assert!(!all.is_full());
    }
}
