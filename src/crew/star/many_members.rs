//! Members of a survey in one thread, for tests with thousands of them: they join, and reply to
//! each order at once.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::introduction::Introduction;
use crate::star::clock::{EXCHANGES, Exchanges, now_ns};
use crate::star::link::{PollSet, StarLink};
use crate::star::listener::{CALLER, VERSION, role};
use crate::star::message::{JoinRequest, MAX_MESSAGE, Message, Order, Reply, Work};
use facts::token::Token;

/// Longest wait for any message.
const LONGEST: Duration = Duration::from_secs(60);

/// Members that connect before others have a turn.
const AT_ONCE: usize = 64;

/// One of the members.
struct CrowdMember<W> {
    link: StarLink<W>,
    exchanges: Exchanges,
    pings: usize,
}

/// Joins as the members with these introductions, and replies to their orders: `reply` returns the
/// reply of a rank, none for the death of the member. `joined` receives how far the clock of a
/// member may be off when it has joined, in nanoseconds. Returns when all members have ended.
///
/// # Panics
///
/// If the coordinator refuses a member.
pub fn take_part<W: Work>(
    address: SocketAddr,
    token: &Token,
    introductions: impl Iterator<Item = Introduction>,
    mut joined: impl FnMut(u64),
    mut reply: impl FnMut(u32, Order<W>) -> Option<Reply<W>>,
) {
    let set = PollSet::new().expect("a set");
    let mut introductions = introductions.fuse();
    let mut waiting: HashMap<u64, Introduction> = HashMap::new();
    let mut members: HashMap<u64, CrowdMember<W>> = HashMap::new();
    let mut keys = Vec::new();
    loop {
        // The coordinator leaves no connection without an answer for long.
        let mut within = LONGEST;
        for introduction in introductions.by_ref().take(AT_ONCE) {
            within = Duration::ZERO;
            let key = u64::from(introduction.rank);
            members.insert(key, CrowdMember::connect(address, &set, key));
            waiting.insert(key, introduction);
        }
        if members.is_empty() {
            return;
        }
        keys.clear();
        set.ready(within, &mut keys);
        for key in &keys {
            let Some(member) = members.get_mut(key) else {
                continue;
            };
            member.link.flush();
            let is_over = loop {
                match member.link.receive() {
                    Ok(None) => break false,
                    Err(_) => break true,
                    Ok(Some(Message::Challenge { nonce })) => {
                        let introduction = waiting.remove(key).expect("one challenge");
                        let request = JoinRequest { id: *key, received: 0, introduction };
                        let (proof, request) =
                            (token.proof(&role(CALLER, &nonce)), Box::new(request));
                        member.link.send(&Message::Join { proof, request });
                    }
                    Ok(Some(Message::Admitted { .. })) => member.ping(),
                    Ok(Some(Message::Pong { sent_ns, here_ns })) => {
                        member.compare_clocks(sent_ns, here_ns, &mut joined);
                    }
                    Ok(Some(Message::Order { serial, order })) => match reply(*key as u32, order) {
                        Some(reply) => member.link.send(&Message::Reply { serial, reply }),
                        None => break true,
                    },
                    Ok(Some(Message::Welcome { .. } | Message::Quiet { .. })) => {}
                    Ok(Some(other)) => panic!("rank {key}: {other:?}"),
                }
            };
            if is_over {
                members.remove(key);
            }
        }
    }
}

impl<W: Work> CrowdMember<W> {
    fn connect(address: SocketAddr, set: &PollSet, key: u64) -> Self {
        let stream = TcpStream::connect(address).expect("a coordinator");
        let mut link = StarLink::from_stream(stream, set, key).expect("a connection");
        link.allow(MAX_MESSAGE);
        link.send(&Message::Hello { version: VERSION.into(), nonce: [0; 16] });
        Self { link, exchanges: Exchanges::default(), pings: 0 }
    }

    fn ping(&mut self) {
        self.pings += 1;
        self.link.send(&Message::Ping { sent_ns: now_ns() });
    }

    /// Takes the answer to a ping. After the last one, the member is ready, and `joined` receives
    /// how far its clock may be off, in nanoseconds.
    fn compare_clocks(&mut self, sent_ns: u64, here_ns: u64, joined: &mut impl FnMut(u64)) {
        let now_ns = now_ns();
        self.exchanges.add(sent_ns, now_ns, here_ns);
        if self.pings < EXCHANGES {
            self.ping();
        } else {
            let best = self.exchanges.best(now_ns).unwrap_or_default();
            joined(best.uncertainty_ns(now_ns));
            self.link.send(&Message::Ready);
        }
    }
}
