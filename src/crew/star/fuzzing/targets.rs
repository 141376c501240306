//! The messages between members and coordinator, but for orders and reports of work.

use super::token;
use crate::introduction::{IntroducedNic, Introduction};
use crate::location::Location;
use crate::star::listener::{CALLER, VERSION, role};
use crate::star::message::{JoinRequest, MemoryCopy, Message, Order, Reply, encode};
use crate::star::work::Work;
use facts::device::FabricAddress;

/// Who receives the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The coordinator, from an unknown process.
    Listener,
    /// The coordinator, from a member.
    Coordinator,
    /// A member, from the coordinator.
    Member,
    /// The measuring thread of a member: an order.
    MemberOfCoordinator,
}

pub const RECEIVERS: [Receiver; 4] =
    [Receiver::Listener, Receiver::Coordinator, Receiver::Member, Receiver::MemberOfCoordinator];

/// A message, and who receives it.
#[derive(Clone, Debug)]
pub struct FuzzTarget {
    pub name: &'static str,
    /// Who receives it.
    pub receiver: Receiver,
    /// A valid message.
    pub seed: Vec<u8>,
}

impl FuzzTarget {
    fn new<W: Work>(name: &'static str, receiver: Receiver, message: Message<W>) -> Self {
        Self { name, receiver, seed: encode(&message) }
    }

    /// Returns the target of a reply to the order with this number. The coordinator of the fuzzer
    /// has sent a test setup, two blocks, and one order of each other kind.
    pub fn reply<W: Work>(name: &'static str, serial: u32, reply: Reply<W>) -> Self {
        Self::new(name, Receiver::Coordinator, Message::Reply { serial, reply })
    }

    /// Returns the target of an order.
    pub fn order<W: Work>(name: &'static str, order: Order<W>) -> Self {
        Self { name, receiver: Receiver::MemberOfCoordinator, seed: encode(&order) }
    }
}

/// Returns the introduction of a process with two NICs.
pub fn introduction(rank: u32) -> Introduction {
    let nic = |index| IntroducedNic {
        device: format!("cxi{index}"),
        address: Some(FabricAddress { nic: 2 * rank + index, pid: 7 }),
        vni: 10,
        class: "BEST_EFFORT".into(),
        location: Some(Location::from_nid(2 * rank + index)),
        simulated: false,
        link_gbps: None,
        failure: (index == 1).then(|| "no link".into()),
    };
    Introduction {
        rank,
        size: 2,
        host: format!("nid{rank}"),
        topology: Some("s0.s1".into()),
        nics: vec![nic(0), nic(1)],
    }
}

/// Returns the targets, one for each message, with an order of this `block`.
pub fn targets<W: Work>(block: W::Block) -> Vec<FuzzTarget> {
    use Receiver::*;
    let request = JoinRequest { id: 1, received: 4, introduction: introduction(2) };
    let proof = token().proof(&role(CALLER, &[0; 16]));
    let reason = || "no file".to_owned();
    let copy = MemoryCopy { cpus: 8, bytes_per_second: 100_000_000_000 };
    let messages: [(_, _, Message<W>); 16] = [
        ("hello", Listener, Message::Hello { version: VERSION.into(), nonce: [1; 16] }),
        ("knock", Listener, Message::Knock { rank: 1 }),
        ("join", Listener, Message::Join { proof, request: Box::new(request) }),
        ("ready", Coordinator, Message::Ready),
        ("ping", Coordinator, Message::Ping { sent_ns: 1 << 40 }),
        ("leave", Coordinator, Message::Leave),
        ("failed", Coordinator, Message::Failed(reason())),
        ("waits", Member, Message::Waits),
        ("challenge", Member, Message::Challenge { nonce: [1; 16] }),
        ("welcome", Member, Message::Welcome { proof: "0".repeat(96) }),
        ("admitted", Member, Message::Admitted { answered: 3 }),
        ("refused", Member, Message::Refused(reason())),
        ("pong", Member, Message::Pong { sent_ns: 1 << 40, here_ns: 1 << 41 }),
        ("order", Member, Message::Order { serial: 1, order: Order::Block(block) }),
        ("quiet", Member, Message::Quiet { until_ns: 1 << 40 }),
        ("abort", Member, Message::Abort(reason())),
    ];
    let messages =
        messages.map(|(name, receiver, message)| FuzzTarget::new(name, receiver, message));
    let more = [
        FuzzTarget::reply::<W>("begun", 1, Reply::Begun),
        FuzzTarget::reply::<W>("checked", 4, Reply::Checked(vec![b'{', b'}'])),
        FuzzTarget::reply::<W>("copied memory", 5, Reply::CopiedMemory(Some(copy))),
        FuzzTarget::reply::<W>("ended", 6, Reply::Ended),
        FuzzTarget::order::<W>("order of end", Order::End),
        FuzzTarget::order::<W>("order of check", Order::Check),
        FuzzTarget::order::<W>("order to copy memory", Order::CopyMemory),
    ];
    messages.into_iter().chain(more).collect()
}
