//! Any bytes in place of each message between members and coordinator: nothing panics, and what is
//! accepted obeys the rules. The user of the star adds its own orders and reports, and checks those
//! that are accepted.

mod targets;

use std::ffi::OsStr;
use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::clock::Exchanges;
use super::connection::MemberConnection;
use super::link::{PollSet, StarLink};
use super::listener::{ClaimedConnection, PendingConnection};
use super::message::{MAX_CLAIM, Message, Order, decode, encode};
use super::work::Work;
use super::{Event, Meeting, Root};
use facts::net::framing;
use facts::net::listener::{Listener, Reach};
use facts::text::MOST_TEXT;
use facts::token::Token;
pub use targets::{FuzzTarget, RECEIVERS, Receiver, introduction, targets};

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

/// Returns a connection on which these messages have arrived, and then its end; and its other end.
fn link<W: Work>(messages: &[&[u8]], set: &PollSet) -> (StarLink<W>, UnixStream) {
    let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
    for bytes in messages {
        near.write_all(&framing::message(bytes)).expect("a short message");
    }
    near.shutdown(Shutdown::Write).expect("a socket");
    (StarLink::from_pair(far, set).expect("a connection"), near)
}

/// Panics if a text is long, or has control characters.
pub fn assert_text(text: &str) {
    let is_short = text.len() < 2 * MOST_TEXT;
    assert!(is_short && !text.contains(char::is_control), "{text:?}");
}
