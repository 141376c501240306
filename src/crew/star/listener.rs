//! Accepts connections of members. Member and coordinator prove that they have the token. Each
//! member needs one of the open files of the coordinator, whose limit is here too.
//!
//! The process that connects sends a hello, receives a challenge, answers with its proof and its
//! claim, and receives the proof of this process. Each proof contains a random number of the other
//! process, so that a proof that was overheard is of no use. No connection gets a byte before it
//! has sent a hello, and none delays another.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use facts::error::Failure;
use facts::limit::ANSWER_LIMIT;
use facts::net::{Listener, out_of};
use facts::text;
use facts::token::{Token, random};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::star::link::{PollSet, StarLink};
use crate::star::message::{JoinRequest, MAX_CLAIM, MAX_MESSAGE, Message, Nonce, Work};

/// Maximum number of connections without a proof. More stay with the kernel, which has 4096 places.
pub const MOST_PENDING: usize = 4096;

/// Connections that are accepted before others have a turn.
const MOST_AT_ONCE: usize = 256;

/// The key of the first connection without a proof; the others follow.
const FIRST_KEY: u64 = 1 << 32;

/// How long a connection without a proof keeps its place while others wait.
const PLACE_TIME: Duration = Duration::from_secs(1);

/// How long no connection is accepted where there is no room for one.
const CLOSED: Duration = Duration::from_millis(10);

/// The role in the proof of the process that connects.
pub const CALLER: &str = "survey caller";

/// The role in the proof of the process that answers.
pub const ANSWERER: &str = "survey answerer";

/// The version that all processes of a survey have in common: messages have no versions of their
/// own.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The role in a proof that answers a challenge.
pub fn role(role: &str, nonce: &Nonce) -> String {
    format!("{role} {:032x}", u128::from_le_bytes(*nonce))
}

/// What a process wants: with the token, except for a knock.
#[derive(Debug)]
pub enum Claim {
    /// It wants to join.
    Join(Box<JoinRequest>),
    /// It has no token, and asks whether the coordinator is there. This is its rank.
    Knock(u32),
}

/// A connection of a process with a claim.
#[derive(Debug)]
pub struct ClaimedConnection<W> {
    /// The connection.
    pub link: StarLink<W>,
    /// The address of the process.
    pub peer: SocketAddr,
    /// The claim of the process.
    pub claim: Claim,
}

/// A connection that was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its address.
    pub peer: SocketAddr,
    /// Why.
    pub reason: String,
}

/// A connection without a proof.
#[derive(Debug)]
pub(super) struct PendingConnection<W> {
    pub(super) link: StarLink<W>,
    pub(super) peer: SocketAddr,
    pub(super) since: Instant,
    pub(super) own_nonce: Nonce,
    pub(super) peer_nonce: Option<Nonce>,
}

/// The listening socket of the coordinator, and the connections without a proof.
#[derive(Debug)]
pub struct SurveyListener<W> {
    listener: Listener,
    token: Token,
    set: PollSet,
    key: u64,
    next_key: u64,
    /// Maximum number of connections without a proof.
    most: usize,
    /// By key: the oldest first.
    pending: BTreeMap<u64, PendingConnection<W>>,
    /// Accepts no connection before this moment: there was no room for one.
    closed: Option<Instant>,
}

impl<W: Work> SurveyListener<W> {
    /// Listens with `listener`, whose key in `set` is `key`, for `most` connections without a proof
    /// at a time.
    pub fn new(
        listener: Listener,
        token: Token,
        set: &PollSet,
        key: u64,
        most: usize,
    ) -> std::io::Result<Self> {
        set.add(listener.socket(), key, false)?;
        Ok(Self {
            listener,
            token,
            set: set.clone(),
            key,
            next_key: FIRST_KEY,
            most,
            pending: BTreeMap::new(),
            closed: None,
        })
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Accepts new connections while there is room.
    pub fn admit(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            if self.pending.len() >= self.most && !self.drop_oldest() {
                return self.close();
            }
            match self.listener.accept() {
                Ok(Some((stream, peer))) => {
                    let key = self.next_key;
                    self.next_key += 1;
                    // An error means that the connection has ended.
                    if let Ok(link) = StarLink::from_stream(stream, &self.set, key) {
                        let since = Instant::now();
                        let connection = PendingConnection {
                            link,
                            peer,
                            since,
                            own_nonce: random(),
                            peer_nonce: None,
                        };
                        self.pending.insert(key, connection);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // Other errors are errors of the new connection.
                    if out_of(&error).is_some() && !self.drop_oldest() {
                        return self.close();
                    }
                }
            }
        }
    }

    /// Drops the oldest connection without a proof if it has kept its place for [`PLACE_TIME`].
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.pending.first_entry();
        let oldest = oldest.filter(|oldest| oldest.get().since.elapsed() >= PLACE_TIME);
        oldest.map(|oldest| oldest.remove()).is_some()
    }

    /// Accepts no connections for a while.
    fn close(&mut self) {
        if self.set.remove(self.listener.socket()).is_ok() {
            self.closed = Some(Instant::now() + CLOSED);
        }
    }

    /// Continues with the connection with this key. Returns it when it has proved that it has the
    /// token, or why it was turned away.
    pub fn advance(&mut self, key: u64) -> Option<Result<ClaimedConnection<W>, Rejection>> {
        let connection = self.pending.get_mut(&key)?;
        connection.link.flush();
        loop {
            let answered = match connection.link.receive() {
                Ok(None) => return None,
                Ok(Some(message)) => connection.answer(message, &self.token),
                Err(loss) => Err(loss.to_string()),
            };
            if let Ok(None) = answered {
                continue;
            }
            let connection = self.pending.remove(&key)?;
            let PendingConnection { mut link, peer, .. } = connection;
            return Some(match answered {
                Ok(Some(claim)) => Ok(ClaimedConnection { link, peer, claim }),
                Ok(None) => return None,
                Err(reason) => {
                    link.flush();
                    Err(Rejection { peer, reason })
                }
            });
        }
    }

    /// Closes the connections that have sent no proof within [`ANSWER_LIMIT`], and returns them.
    pub fn tick(&mut self, now: Instant) -> Vec<Rejection> {
        if self.closed.is_some_and(|until| now >= until)
            && self.set.add(self.listener.socket(), self.key, false).is_ok()
        {
            self.closed = None;
        }
        let late = |connection: &PendingConnection<W>| {
            now.saturating_duration_since(connection.since) >= ANSWER_LIMIT
        };
        let mut rejected = Vec::new();
        while let Some(oldest) = self.pending.first_entry()
            && late(oldest.get())
        {
            let peer = oldest.remove().peer;
            let reason = format!("it sent no proof within {} s", ANSWER_LIMIT.as_secs());
            rejected.push(Rejection { peer, reason });
        }
        rejected
    }

    /// Returns when [`Self::tick`] has something to do, if ever.
    pub fn due(&self) -> Option<Instant> {
        let oldest = self.pending.values().next();
        let end = oldest.map(|connection| connection.since + ANSWER_LIMIT);
        end.into_iter().chain(self.closed).min()
    }
}

impl<W: Work> PendingConnection<W> {
    /// Answers a message. Returns the claim after a valid proof. The error says
    /// why the connection is refused.
    pub(super) fn answer(
        &mut self,
        message: Message<W>,
        token: &Token,
    ) -> Result<Option<Claim>, String> {
        let (proof, claim) = match (message, self.peer_nonce) {
            (Message::Hello { mut version, nonce }, None) => {
                text::accept(&mut version);
                if version != VERSION {
                    return self.refuse(format!(
                        "it is cxidiag {version}, and this is {VERSION}: install the same on all nodes"
                    ));
                }
                self.peer_nonce = Some(nonce);
                self.link.allow(MAX_CLAIM);
                self.link.send(&Message::Challenge { nonce: self.own_nonce });
                return Ok(None);
            }
            (Message::Knock { rank }, None) => return Ok(Some(Claim::Knock(rank))),
            (Message::Join { proof, request }, Some(_)) => (proof, Claim::Join(request)),
            _ => return Err("it sent a message out of turn".into()),
        };
        let peer_nonce = self.peer_nonce.unwrap_or_default();
        if !token.confirms(&proof, &role(CALLER, &self.own_nonce)) {
            return self.refuse("its token is not that of this survey".into());
        }
        let proof = token.proof(&role(ANSWERER, &peer_nonce));
        self.link.allow(MAX_MESSAGE);
        self.link.send(&Message::Welcome { proof });
        Ok(Some(claim))
    }

    fn refuse(&mut self, reason: String) -> Result<Option<Claim>, String> {
        self.link.send(&Message::Refused(reason.clone()));
        Err(reason)
    }
}

/// Returns `time` with a random part of up to the same length added, so that many processes do not
/// try again at the same moment.
pub fn jittered(time: Duration) -> Duration {
    let [part] = random::<1>();
    time + time * u32::from(part) / 256
}

/// Open files of the coordinator besides the connections of members: its own files, and connections
/// without a proof.
const RESERVE: u64 = 28;

/// Part of [`RESERVE`] for files that are no connections.
const FILES: u64 = 24;

/// The limit of open files that counts.
#[derive(Clone, Copy)]
struct FileLimit {
    most: u64,
    /// No process may raise it without privileges.
    is_hard: bool,
}

/// Raises the limit of open files to the hard limit, if `size` members need that.
///
/// # Errors
///
/// A limit that is too low.
pub fn allow_connections(size: u32) -> Result<(), Failure> {
    check(size, raised_limit(size))
}

fn check(size: u32, FileLimit { most, is_hard }: FileLimit) -> Result<(), Failure> {
    let needed = u64::from(size) + RESERVE;
    if most >= needed {
        return Ok(());
    }
    let limit = if is_hard {
        format!("hard limit is {most} (ulimit -Hn)")
    } else {
        format!("soft limit, which it may not raise, is {most} (ulimit -Sn)")
    };
    Err(Failure::environment(format!(
        "{size} processes need {needed} open files in the coordinator, and its {limit}"
    )))
}

/// Returns how many connections without a proof there may be beside `size` members, `most` at most.
pub fn pending_connections(size: u32, most: usize) -> usize {
    let left = raised_limit(size).most.saturating_sub(u64::from(size) + FILES);
    (left.max(1) as usize).min(most)
}

/// The limit of open files, after raising it for `size` members. getrlimit(2) may be refused:
/// services are often filtered so.
fn raised_limit(size: u32) -> FileLimit {
    let limits = fs::read_to_string("/proc/self/limits");
    let Some((soft, hard)) = limits.ok().as_deref().and_then(limits_in) else {
        return FileLimit { most: u64::MAX, is_hard: true };
    };
    // Some programs take longer with a high limit: surveys of few processes keep theirs.
    let is_enough = soft >= 2 * (u64::from(size) + RESERVE);
    let raised = Rlimit { current: Some(hard), maximum: Some(hard) };
    let is_hard = !is_enough && setrlimit(Resource::Nofile, raised).is_ok();
    FileLimit { most: if is_hard { hard } else { soft }, is_hard }
}

/// The soft and the hard limit of open files in the text of `/proc/self/limits`.
fn limits_in(limits: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut values = line.split_whitespace().map(|value| value.parse().unwrap_or(u64::MAX));
    Some((values.next()?, values.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_soft_and_hard_limit() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(limits_in(limits), Some((1024, 524_288)));
        assert_eq!(limits_in("Max cpu time  unlimited  unlimited  seconds"), None);
    }

    #[test]
    fn names_limit_that_is_too_low() {
        let checked = |most, is_hard| {
            let checked = check(10_000, FileLimit { most, is_hard });
            checked.map_err(|failure| failure.message())
        };
        assert_eq!([true, false].map(|is_hard| checked(10_028, is_hard)), [Ok(()), Ok(())]);
        assert_eq!(
            checked(4096, true).unwrap_err(),
            "10000 processes need 10028 open files in the coordinator, and its hard limit is 4096 \
             (ulimit -Hn)"
        );
        assert_eq!(
            checked(1024, false).unwrap_err(),
            "10000 processes need 10028 open files in the coordinator, and its soft limit, which \
             it may not raise, is 1024 (ulimit -Sn)"
        );
    }
}
