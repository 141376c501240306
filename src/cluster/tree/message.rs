//! The messages between the processes of a survey, and their bytes: a length of four bytes, then a
//! message in the format of postcard.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::traffic::Traffic;
use crate::timetable::{Block, Course, Introduction, MemoryCopy, Report};
use facts::net::framing;

/// Maximum size of the first message of a connection, in bytes.
pub const MAX_HELLO: usize = 256;

/// Maximum size of a message with a proof, in bytes: the introduction of a process with many NICs.
pub const MAX_CLAIM: usize = 1 << 16;

/// Maximum size of any other message, in bytes: a block of a process with many NICs.
pub const MAX_MESSAGE: usize = 1 << 24;

/// A random number that a proof of the token has to contain.
pub type Nonce = [u8; 16];

/// A message on a connection between two processes, or between the threads of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The first message of the process that connects.
    Hello {
        /// Its version of cxidiag.
        version: String,
        /// A random number, which the proof of the other process has to contain.
        nonce: Nonce,
    },
    /// The first message of a task that does not see the meeting point, and has no token.
    Knock { rank: u32 },
    /// The answer to a knock: the coordinator waits for tasks at the meeting point.
    Waits,
    /// The answer to a hello.
    Challenge {
        /// A random number, which the proof of the process that connects has to contain.
        nonce: Nonce,
    },
    /// A process asks the coordinator for its parent.
    Seek {
        /// Its proof of the token.
        proof: String,
        /// The process.
        request: Box<ParentRequest>,
    },
    /// A process connects to its parent.
    Attach {
        /// Its proof of the token.
        proof: String,
        rank: u32,
    },
    /// The claim of the process that connects is accepted.
    Welcome {
        /// The proof of the process that answers.
        proof: String,
    },
    /// The process is refused or expelled, with the reason.
    Refused(String),
    /// The parent of a process that has asked for it; `None` for the coordinator.
    Parent(Option<ParentAddress>),
    /// The child has the clock of its parent, and can receive orders.
    Ready,
    /// A reading of the clock of a child.
    Ping {
        /// When it was sent, on the clock of the child, in nanoseconds.
        sent_ns: u64,
    },
    /// The answer to a ping.
    Pong {
        /// When the ping was sent, on the clock of the child.
        sent_ns: u64,
        /// The clock of the coordinator, as the parent knows it.
        here_ns: u64,
        /// The uncertainty of this clock, in nanoseconds.
        uncertainty_ns: u64,
    },
    /// The child has another parent.
    Leave,
    /// For the coordinator; parents pass it on as it is.
    Up {
        /// Ranks of the members that it comes from, the sender first: each parent adds the rank of
        /// its child, so that no member can speak for another one.
        path: Vec<u32>,
        /// A [`FromMember`].
        body: Vec<u8>,
    },
    /// For one member; parents pass it on as it is.
    Down {
        /// Ranks of the members on the way, its own last.
        path: Vec<u32>,
        /// Number of the order for this member, from 1.
        serial: u32,
        /// An [`Order`].
        body: Vec<u8>,
    },
    /// For one member: close the connection to a child that the coordinator has given up.
    Release {
        /// Ranks of the members on the way, its own last.
        path: Vec<u32>,
        /// Rank of the child.
        child: u32,
    },
    /// For all members: a block runs, so send no pings.
    Quiet {
        /// When it ends, on the clock of the coordinator, in nanoseconds.
        until_ns: u64,
    },
    /// For all members below a member that has found another parent: their messages may be lost, so
    /// send them again.
    Repeat,
    /// For all members: the survey is over.
    End,
    /// For all members, and the answer to a knock: the survey has failed, for this reason.
    Abort(String),
    /// Between the threads of a member: it has joined the survey.
    Joined,
}

/// Where a process listens for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentAddress {
    pub rank: u32,
    pub address: SocketAddr,
}

/// A process that asks for its parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParentRequest {
    /// A random number of this process, which distinguishes it from others with its rank.
    pub id: u64,
    /// The port at which it listens for children.
    pub port: u16,
    /// The parent that it could not reach, or has lost.
    pub avoid: Option<u32>,
    /// The last order that it has received; 0 before the first.
    pub received: u32,
    /// The process and its NICs.
    pub introduction: Introduction,
}

/// A message of a member to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromMember {
    /// It is the parent of this member now.
    Attached(u32),
    /// It has these children, after it has found another parent.
    Children(Vec<u32>),
    /// It has lost a child.
    Gone {
        /// Rank of the child.
        rank: u32,
        /// Why; none if the child has another parent.
        reason: Option<String>,
    },
    /// It is prepared for its course.
    Begun,
    /// Its results of a block.
    Report(Report),
    /// The document of the check of its node; empty if another process of the node sends it.
    Checked(Vec<u8>),
    /// How fast it has copied memory; none if that says nothing about the memory of its node.
    CopiedMemory(Option<MemoryCopy>),
    /// It cannot go on, for this reason.
    Failed(String),
    /// It has ended, and has sent and received this much.
    Ended(Traffic),
}

/// An order of the coordinator to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// To prepare for these tests.
    Course(Course),
    /// To measure in these slots, or to load the fabric, and to report.
    Block(Block),
    End,
    /// To check its NICs by their files, and to send the document. The second check of a process
    /// says what has changed since the first one.
    Check,
    /// To copy memory near its first NIC, and to send how fast it was.
    CopyMemory,
}

/// Returns the bytes of a value.
///
/// # Panics
///
/// Never: the types of this module have no values without bytes.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a value of known length")
}

/// Returns the value of these bytes, all of them; `None` if they are not valid.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// Returns a message with its length in front.
pub fn frame(message: &Message) -> Vec<u8> {
    framing::message(&encode(message))
}
