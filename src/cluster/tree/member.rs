//! A process of a survey that measures: the interface of its measuring thread.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::Meeting;
use super::clock::{SharedClock, now_ns};
use super::message::{FromMember, MAX_MESSAGE, Message, Order, decode, encode, frame};
use super::relay::Relay;
use crate::timetable::{Course, Introduction, MemoryCopy, Report};
use facts::error::{Context, Failure};
use facts::net::framing::Incoming;
use facts::threads;
use facts::{interrupt, limit, text};

/// How long a process looks for the coordinator at its start, unless its user wants otherwise:
/// tasks of a launcher start seconds apart (jobs.md 3.6).
pub const JOIN_LIMIT: Duration = Duration::from_secs(60);

/// A process that takes part in a survey. A thread forwards messages for other processes; it sleeps
/// while a block runs. It inherits the CPUs of the thread that calls [`Member::join`].
#[derive(Debug)]
pub struct Member {
    nics: usize,
    line: UnixStream,
    clock: Arc<SharedClock>,
    thread: JoinHandle<()>,
    /// What each block is about.
    course: RefCell<Option<Course>>,
    /// The last order was a course, and the coordinator does not know yet that the process is
    /// prepared.
    prepares: Cell<bool>,
}

impl Member {
    /// Finds the coordinator at one of the addresses of `meeting`, within `limit`, and a place in
    /// the tree.
    ///
    /// # Errors
    ///
    /// A coordinator that does not exist or refuses this process, and an interruption.
    pub fn join(
        meeting: &Meeting,
        introduction: Introduction,
        limit: Duration,
    ) -> Result<Self, Failure> {
        const WHAT: &str = "cannot join the survey";
        if meeting.addresses.is_empty() {
            return Err(Failure::environment(format!("{WHAT}: its coordinator has no address")));
        }
        let nics = introduction.nics.len();
        let clock = Arc::new(SharedClock::default());
        let (line, other_end) = UnixStream::pair().environment(WHAT)?;
        let limit = limit::in_effect(limit);
        let node = Relay::new(meeting.clone(), introduction, limit, other_end, clock.clone());
        let node = node.environment(WHAT)?;
        let thread = threads::start("survey tree", move || node.run())?;
        let member = Self {
            nics,
            line,
            clock,
            thread,
            course: RefCell::new(None),
            prepares: Cell::new(false),
        };
        match member.receive()? {
            Message::Joined => Ok(member),
            other => Err(unexpected(other)),
        }
    }

    /// Waits for the next order. If the last one was a course, this call reports that the process
    /// is prepared for it.
    ///
    /// # Errors
    ///
    /// A coordinator that is lost or has given this process up, and an interruption.
    pub fn next(&self) -> Result<Order, Failure> {
        if self.prepares.take() {
            self.send(&FromMember::Begun)?;
        }
        loop {
            match self.receive()? {
                // Another parent has replaced the one that was lost.
                Message::Joined => {}
                Message::End => return Ok(Order::End),
                Message::Down { body, .. } => {
                    let order = decode(&body).filter(|order| self.accepts(order));
                    let order = order.ok_or_else(|| {
                        Failure::peer("the coordinator sent an order that is not valid")
                    })?;
                    if let Order::Course(course) = &order {
                        self.course.replace(Some(course.clone()));
                        self.prepares.set(true);
                    }
                    return Ok(order);
                }
                other => return Err(unexpected(other)),
            }
        }
    }

    fn accepts(&self, order: &Order) -> bool {
        match order {
            Order::Course(course) => course.is_valid(),
            Order::Block(block) => block.is_valid(self.nics, self.course.borrow().as_ref()),
            Order::Check | Order::CopyMemory | Order::End => true,
        }
    }

    /// Sends what this process has done in a block, and how far its clock may be off.
    ///
    /// # Errors
    ///
    /// The end of the connecting thread.
    pub fn report(&self, report: Report) -> Result<(), Failure> {
        self.send(&FromMember::Report(Report {
            clock_uncertainty_ns: Some(self.uncertainty_ns()),
            ..report
        }))
    }

    /// Sends the document of the check of this node; an empty one if another process of the node
    /// sends it.
    ///
    /// # Errors
    ///
    /// The end of the connecting thread.
    pub fn send_check(&self, document: Vec<u8>) -> Result<(), Failure> {
        self.send(&FromMember::Checked(document))
    }

    /// Sends how fast this process has copied memory; nothing if that says nothing about the memory
    /// of its node.
    ///
    /// # Errors
    ///
    /// The end of the connecting thread.
    pub fn send_memory_copy(&self, copy: Option<MemoryCopy>) -> Result<(), Failure> {
        self.send(&FromMember::CopiedMemory(copy))
    }

    /// Leaves the survey, because this process cannot go on.
    pub fn fail(self, reason: &str) {
        // The coordinator notices the end of a process without a reason as well.
        if self.send(&FromMember::Failed(reason.to_owned())).is_ok() {
            self.end();
        }
    }

    /// Ends after [`Order::End`]: waits, for a few seconds at most, until the processes below this
    /// one have ended.
    pub fn end(self) {
        drop(self.line);
        // A thread that panicked has ended as well.
        let _ = self.thread.join();
    }

    /// Returns the instant at which the clock of the coordinator is `coordinator_ns`.
    pub fn local(&self, coordinator_ns: u64) -> Instant {
        self.clock.local(coordinator_ns)
    }

    fn uncertainty_ns(&self) -> u64 {
        self.clock.offset().uncertainty_ns(now_ns())
    }

    fn send(&self, body: &FromMember) -> Result<(), Failure> {
        let (path, body) = (Vec::new(), encode(body));
        (&self.line)
            .write_all(&frame(&Message::Up { path, body }))
            .environment("cannot send to the coordinator of the survey")
    }

    fn receive(&self) -> Result<Message, Failure> {
        const WHAT: &str = "cannot receive from the coordinator of the survey";
        let mut incoming = Incoming::new(MAX_MESSAGE);
        loop {
            interrupt::wait(&self.line, PollFlags::IN, None)?;
            let count = match (&self.line).read(incoming.room()) {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof)).environment(WHAT),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).environment(WHAT),
            };
            if let Ok(Some(bytes)) = incoming.advance(count) {
                return decode(&bytes).ok_or_else(|| Failure::environment(WHAT));
            }
        }
    }
}

/// Returns the failure of a member that received this message instead of an order.
fn unexpected(message: Message) -> Failure {
    match message {
        Message::Refused(mut reason) => {
            text::accept(&mut reason);
            Failure::peer(reason)
        }
        // The coordinator prints it.
        Message::Abort(mut reason) => {
            text::accept(&mut reason);
            Failure::peer(reason).printed()
        }
        _ => Failure::environment("the survey sent a message out of turn"),
    }
}
