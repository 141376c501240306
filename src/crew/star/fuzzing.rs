//! Any bytes in place of each message between members and coordinator, but for orders and reports
//! of work: nothing panics, and what is accepted obeys the rules. The user of the star adds its own
//! orders and reports, and checks those that are accepted.

use std::ffi::OsStr;
use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use facts::device::FabricAddress;
use facts::net::{self, Listener, Reach};
use facts::text::MOST_TEXT;
use facts::token::Token;

use crate::introduction::{IntroducedNic, Introduction};
use crate::location::Location;
use crate::star::clock::Exchanges;
use crate::star::connection::MemberConnection;
use crate::star::link::{PollSet, StarLink};
use crate::star::listener::{CALLER, ClaimedConnection, PendingConnection, VERSION, role};
use crate::star::message::{
    JoinRequest, MAX_CLAIM, MemoryCopy, Message, Order, Reply, Work, decode, encode,
};
use crate::star::{Event, Meeting, Root};

/// What receives bytes.
pub struct StarFuzzer<W: Work> {
    root: Root<W>,
    member: MemberConnection<W>,
    set: PollSet,
    token: Token,
    setup: W::TestSetup,
    blocks: [W::Block; 2],
    accepted: u64,
}

/// What was accepted, and has a content that the star does not know.
pub enum AcceptedMessage<W: Work> {
    Report(W::Report),
    Order(Order<W>),
}

fn token() -> Token {
    Token::new(OsStr::new("secret")).expect("a token")
}

impl<W: Work> StarFuzzer<W> {
    /// Creates a coordinator, which has sent these orders among others, and a member.
    pub fn new(setup: W::TestSetup, blocks: [W::Block; 2]) -> Self {
        let listener = Listener::bind(None, 0, Reach::ThisMachine).expect("a port");
        let meeting =
            Meeting { addresses: vec![SocketAddr::from(([127, 0, 0, 1], 1))], token: token() };
        let mut fuzzer = Self {
            root: Root::listen(listener, token(), 0).expect("a coordinator"),
            member: MemberConnection::new(meeting, introduction(1)),
            set: PollSet::new().expect("a set"),
            token: token(),
            setup,
            blocks,
            accepted: 0,
        };
        fuzzer.restart();
        fuzzer
    }

    fn restart(&mut self) {
        self.root.restart(&[0, 1].map(introduction), &self.setup, &self.blocks);
    }

    /// Returns how many messages were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Receives `bytes` in place of a message. The first byte chooses the state of a connection.
    ///
    /// # Panics
    ///
    /// If anything is accepted that breaks a rule.
    pub fn receive(
        &mut self,
        receiver: Receiver,
        state: u8,
        bytes: &[u8],
    ) -> Option<AcceptedMessage<W>> {
        match receiver {
            Receiver::Listener => self.listen(state, bytes),
            Receiver::Coordinator => {
                return self.coordinate(state, bytes).map(AcceptedMessage::Report);
            }
            Receiver::Member => {
                let messages: &[&[u8]] = match state % 6 {
                    0..=2 => &[bytes],
                    3 => &[&encode(&Message::<W>::Challenge { nonce: [1; 16] }), bytes],
                    4 => &[&encode(&Message::<W>::Admitted { answered: 0 }), bytes],
                    _ => &[bytes, bytes],
                };
                let (link, _other) = link(messages, self.member.set());
                self.accepted += u64::from(self.member.receive_by(state, link));
            }
            Receiver::MemberOfCoordinator => return self.order(bytes).map(AcceptedMessage::Order),
        }
        None
    }

    fn listen(&mut self, state: u8, bytes: &[u8]) {
        let (link, _other) = link(&[], &self.set);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut connection = PendingConnection {
            link,
            peer,
            since: Instant::now(),
            own_nonce: [0; 16],
            peer_nonce: state.is_multiple_of(2).then_some([1; 16]),
        };
        let Some(message) = decode(bytes).filter(|_| bytes.len() <= MAX_CLAIM) else {
            return;
        };
        match connection.answer(message, &self.token) {
            Ok(Some(claim)) => {
                self.accepted += 1;
                let link = connection.link;
                for event in self.root.receive_claim(ClaimedConnection { link, peer, claim }) {
                    match event {
                        Event::TurnedAway { reason, .. } => assert_text(&reason),
                        event => assert!(matches!(event, Event::Knocked { .. }), "{event:?}"),
                    }
                }
                self.restart();
            }
            Ok(None) => self.accepted += 1,
            Err(reason) => assert!(reason.len() < 2 * MOST_TEXT, "{reason}"),
        }
    }

    fn coordinate(&mut self, state: u8, bytes: &[u8]) -> Option<W::Report> {
        let (link, _other) = link(&[bytes], &self.set);
        let events = self.root.receive_by(link, !state.is_multiple_of(4));
        let mut accepted = None;
        for event in events {
            self.accepted += u64::from(!matches!(event, Event::Lost { .. }));
            assert_eq!(event.answerer(), Some(0), "{event:?}");
            match event {
                Event::Report { report, .. } => accepted = Some(report),
                Event::Lost { reason, .. } => assert_text(&reason),
                _ => {}
            }
        }
        self.restart();
        accepted
    }

    fn order(&mut self, bytes: &[u8]) -> Option<Order<W>> {
        let order = decode::<Order<W>>(bytes)?;
        if !order.is_valid(2, Some(&self.setup)) {
            return None;
        }
        if let Order::Block(block) = &order {
            Exchanges::default().local(W::end_ns(block));
        }
        self.accepted += 1;
        Some(order)
    }
}

/// A connection on which these messages have arrived, and then its end; and its other end.
fn link<W: Work>(messages: &[&[u8]], set: &PollSet) -> (StarLink<W>, UnixStream) {
    let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
    for bytes in messages {
        near.write_all(&net::message(bytes)).expect("a short message");
    }
    near.shutdown(Shutdown::Write).expect("a socket");
    (StarLink::from_pair(far, set).expect("a connection"), near)
}

/// Panics if a text is long, or has control characters.
pub fn assert_text(text: &str) {
    let is_short = text.len() < 2 * MOST_TEXT;
    assert!(is_short && !text.contains(char::is_control), "{text:?}");
}

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

    /// The target of a reply to the order with this number. The coordinator of the fuzzer has sent
    /// a test setup, two blocks, and one order of each other kind.
    pub fn reply<W: Work>(name: &'static str, serial: u32, reply: Reply<W>) -> Self {
        Self::new(name, Receiver::Coordinator, Message::Reply { serial, reply })
    }

    /// The target of an order.
    pub fn order<W: Work>(name: &'static str, order: Order<W>) -> Self {
        Self { name, receiver: Receiver::MemberOfCoordinator, seed: encode(&order) }
    }
}

/// The introduction of a process with two NICs.
fn introduction(rank: u32) -> Introduction {
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

/// The targets, one for each message, with an order of this `block`.
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
