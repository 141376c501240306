//! The messages between members and coordinator, what members do for their coordinator besides
//! checks of their nodes, and the bytes of messages: a length of four bytes, then a message in the
//! format of postcard.

use std::fmt::Debug;
use std::sync::Arc;

use facts::net;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::introduction::Introduction;

/// Maximum size of the first message of a connection, in bytes.
pub const MAX_HELLO: usize = 256;

/// Maximum size of a message with a proof, in bytes: the introduction of a process with many NICs.
pub const MAX_CLAIM: usize = 1 << 16;

/// Maximum size of any other message, in bytes: a block of a process with many NICs.
pub const MAX_MESSAGE: usize = 1 << 24;

/// A random number that a proof of the token has to contain.
pub type Nonce = [u8; 16];

/// A message on the connection of a member to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Message<W: Work> {
    /// The first message of the process that connects.
    Hello {
        /// Its version of cxidiag.
        version: String,
        /// A random number, which the proof of the coordinator has to contain.
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
    /// A process joins the survey, or returns to it.
    Join {
        /// Its proof of the token.
        proof: String,
        /// The process.
        request: Box<JoinRequest>,
    },
    /// The proof of the process is valid. It is refused or admitted by the next message.
    Welcome {
        /// The proof of the coordinator.
        proof: String,
    },
    /// The process is admitted.
    Admitted {
        /// The last order to which the coordinator has its reply; 0 before the first.
        answered: u32,
    },
    /// The process is refused or expelled, with the reason.
    Refused(String),
    /// The member has the clock of the coordinator, and can receive orders.
    Ready,
    /// A reading of the clock of a member.
    Ping {
        /// When it was sent, on the clock of the member, in nanoseconds.
        sent_ns: u64,
    },
    /// The answer to a ping.
    Pong {
        /// When the ping was sent, on the clock of the member.
        sent_ns: u64,
        /// The clock of the coordinator.
        here_ns: u64,
    },
    /// The member closes this connection, and returns with another one.
    Leave,
    /// For a member: what to do.
    Order {
        /// Number of the order for this member, from 1.
        serial: u32,
        order: Order<W>,
    },
    /// From a member: what has come of an order.
    Reply {
        /// Number of the order.
        serial: u32,
        reply: Reply<W>,
    },
    /// The member cannot go on, for this reason.
    Failed(String),
    /// For all members: a block runs, so send no pings.
    Quiet {
        /// When it ends, on the clock of the coordinator, in nanoseconds.
        until_ns: u64,
    },
    /// For all members, and the answer to a knock: the survey has failed, for this reason.
    Abort(String),
}

/// A process that joins, or returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// A random number of this process, which distinguishes it from others with its rank.
    pub id: u64,
    /// The last order that it has received; 0 before the first.
    pub received: u32,
    /// The process and its NICs.
    pub introduction: Introduction,
}

/// The reply of a member to an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Reply<W: Work> {
    /// It is prepared for its test setup.
    Begun,
    /// Its results of a block.
    Report(W::Report),
    /// The document of the check of its node; empty if another process of the node sends it.
    Checked(Vec<u8>),
    /// How fast it has copied memory; none if that says nothing about the memory of its node.
    CopiedMemory(Option<MemoryCopy>),
    /// It ends.
    Ended,
}

/// An order of the coordinator to a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub enum Order<W: Work> {
    /// To prepare for this.
    TestSetup(W::TestSetup),
    /// To do this, and to report.
    Block(W::Block),
    End,
    /// To check its NICs by their files, and to send the document. The second check of a process
    /// says what has changed since the first one.
    Check,
    /// To copy memory near its first NIC, and to send how fast it was.
    CopyMemory,
}

impl<W: Work> Order<W> {
    /// Whether a member with this many `nics`, prepared for `test setup`, can carry it out.
    pub fn is_valid(&self, nics: usize, setup: Option<&W::TestSetup>) -> bool {
        match self {
            Self::TestSetup(setup) => W::is_valid_setup(setup),
            Self::Block(block) => W::is_valid_block(block, nics, setup),
            Self::Check | Self::CopyMemory | Self::End => true,
        }
    }
}

/// How fast a process has copied memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryCopy {
    /// On how many CPUs at once.
    pub cpus: u32,
    /// Bytes per second of all of them.
    pub bytes_per_second: u64,
}

/// The bytes of a value.
///
/// # Panics
///
/// Never: the types of this module have no values without bytes.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("a value of known length")
}

/// The value of these bytes, all of them; `None` if they are not valid.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// A message with its length in front.
pub fn frame<W: Work>(message: &Message<W>) -> Arc<[u8]> {
    net::message(&encode(message)).into()
}

/// What orders and reports carry.
pub trait Payload: Clone + Debug + PartialEq + Serialize + DeserializeOwned {}

impl<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned> Payload for T {}

/// A kind of work. Orders and reports are checked here before anything else reads them.
pub trait Work: Copy + Debug + Default + PartialEq {
    /// What a member prepares for.
    type TestSetup: Payload;
    /// What it does, and when.
    type Block: Payload;
    /// What it has done in a block.
    type Report: Payload;

    /// Whether a member can prepare for this order of its coordinator.
    fn is_valid_setup(setup: &Self::TestSetup) -> bool;

    /// Whether a member with this many `nics`, prepared for `test setup`, can carry out this order
    /// of its coordinator.
    fn is_valid_block(block: &Self::Block, nics: usize, setup: Option<&Self::TestSetup>) -> bool;

    /// Returns when a block ends, on the clock of the coordinator, in nanoseconds.
    fn end_ns(block: &Self::Block) -> u64;

    /// Checks a report, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    fn accept(report: &mut Self::Report, expected: Expected<Self>) -> Result<(), String>;
}

/// What the next report of a process is about.
#[derive(Debug)]
pub struct Expected<'a, W: Work> {
    /// Rank of the process.
    pub rank: u32,
    /// Number of its NICs.
    pub nics: usize,
    /// The last test setup of the coordinator.
    pub setup: Option<&'a W::TestSetup>,
    /// The block that it answers.
    pub block: &'a W::Block,
}

/// No work: the members only check their nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoWork;

/// An order or a report that nobody can send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Never {}

impl Work for NoWork {
    type TestSetup = Never;
    type Block = Never;
    type Report = Never;

    fn is_valid_setup(setup: &Never) -> bool {
        match *setup {}
    }

    fn is_valid_block(block: &Never, _: usize, _: Option<&Never>) -> bool {
        match *block {}
    }

    fn end_ns(block: &Never) -> u64 {
        match *block {}
    }

    fn accept(report: &mut Never, _: Expected<Self>) -> Result<(), String> {
        match *report {}
    }
}
