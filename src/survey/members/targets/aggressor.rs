//! A NIC that loads the fabric: it puts to other NICs in turn, and counts the bytes that they
//! acknowledge (load.md 3.3).

use std::thread;
use std::time::{Duration, Instant};

use super::window::LoadTimes;
use campaign::timetable::PARTS;
use cxi::records::FullDmaCmd;
use cxi::{EventRecord, EventType, ReturnCode, address};
use diag::bench::api::Peer;
use diag::bench::common::lists::FURTHER_SLOTS;
use diag::bench::common::{Direction, Initiator, NotIssued};
use diag::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::{Context, Failure};
use facts::interrupt;
use measure::Supervisor;
use node::explain;
use plan::buffers::Buffer;

/// Most slots of a transmit queue that one put takes.
const SLOTS_PER_PUT: u32 = 4;

/// Most operations that are under way: the largest transmit queue holds them.
const MOST_OPERATIONS: u64 = 8192;

/// How long after its slot an aggressor waits for its last answers. Without them its NIC has to be
/// opened again, and meanwhile the operations of others to it fail: it rather misses its next slot.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// How often a sleeping aggressor looks for answers while its window is answered once.
const LOOKS_PER_WINDOW: u32 = 16;

/// Shortest and longest sleep between two looks. Other processes need the CPUs.
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// What an aggressor sends.
pub struct AggressorLoad<'a> {
    /// The NICs to which it puts in turn; at least one.
    pub peers: &'a [FabricAddress],
    /// Portal index of their targets.
    pub portal: u32,
    /// Bytes of an operation, and the buffer from which it takes them.
    pub size: u64,
    pub buffer: Buffer,
    /// Bytes that it has under way at most; it always has one operation under way.
    pub window_bytes: u64,
    /// Whether the CPUs of the machine do the work of NICs: then it sleeps while it waits.
    pub shares_cpus: bool,
}

impl AggressorLoad<'_> {
    /// The number of operations that are under way at most.
    fn operations(&self) -> u64 {
        let operations = self.window_bytes / self.size.max(1);
        operations.clamp(1, MOST_OPERATIONS)
    }

    /// The bytes that are under way at most.
    pub fn window(&self) -> u64 {
        self.operations() * self.size
    }
}

/// A NIC that is ready to send.
pub struct Aggressor {
    initiator: Initiator,
    /// A command for each peer. The pointer that its event returns is the number of the peer.
    commands: Vec<FullDmaCmd>,
    size: u64,
    operations: u64,
    shares_cpus: bool,
    course: Course,
}

/// What has become of the operations so far.
#[derive(Debug)]
struct Course {
    tally: Tally,
    /// By peer, whether an operation to it failed.
    has_failed: Vec<bool>,
    /// The peer whose turn is next.
    turn: usize,
    /// Operations without an answer.
    under_way: u64,
    /// Operations that were acknowledged, in the whole slot.
    acknowledged: u64,
    first_failure: Option<(EventType, ReturnCode)>,
}

/// The bytes that were acknowledged in equal parts of the counted time.
#[derive(Debug)]
struct Tally {
    count: Instant,
    part: Duration,
    bytes: [u64; PARTS],
}

/// What an aggressor has done in its slot.
#[derive(Debug)]
pub struct Sent {
    /// Bytes that were acknowledged in each part of the counted time.
    pub bytes: [u64; PARTS],
    /// Places, in the list of its peers, of those to which an operation failed.
    pub unreached: Vec<u32>,
    /// Whether any operation was acknowledged, counted or not.
    pub has_sent: bool,
    /// Why the first operation failed, if one did.
    pub failure: Option<Failure>,
    /// Operations without an answer at last.
    pub unanswered: u64,
    /// The longest time in which the process did not look for answers.
    pub longest_gap: Duration,
}

impl Sent {
    /// The bytes per second in the counted time.
    pub fn bytes_per_second(&self, counted: Duration) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / counted.as_secs_f64()
    }
}

impl Aggressor {
    /// Allocates queues and a buffer on `endpoint`, and makes the commands.
    pub fn set_up(
        endpoint: &Endpoint,
        load: &AggressorLoad<'_>,
        times: LoadTimes,
        supervisor: &dyn Supervisor,
    ) -> Result<Self, Failure> {
        let (address, portal) = (load.peers[0], load.portal);
        let peer = Peer { own: endpoint, address, portal, supervisor };
        let operations = load.operations();
        let slots = SLOTS_PER_PUT * operations as u32 + FURTHER_SLOTS;
        let in_flight = operations as u32 + 1;
        let initiator = Initiator::with_queues(peer, load.buffer, slots, in_flight)?;
        let pid_bits = endpoint.device().info().pid_bits;
        let command = |(number, peer): (usize, &FabricAddress)| {
            // The shorter form of a restricted put has no pointer (nic.md 3.9).
            let mut command = initiator.full(Direction::Put, load.size);
            command
                .set_restricted(true)
                .set_dfa(address::dfa(peer.nic, peer.pid, load.portal, pid_bits))
                .set_user_ptr(number as u64);
            command
        };
        Ok(Self {
            commands: load.peers.iter().enumerate().map(command).collect(),
            course: Course::new(load.peers.len(), Tally::new(times)),
            initiator,
            size: load.size,
            operations,
            shares_cpus: load.shares_cpus,
        })
    }

    /// Sends until `times.stop`, and then waits for answers, for [`LAST_ANSWERS`] after `times.end`
    /// at most.
    ///
    /// # Errors
    ///
    /// A command for which the queue has no room, and an interruption.
    pub fn run(&mut self, times: LoadTimes) -> Result<Sent, Failure> {
        let begun = Instant::now();
        let (mut now, mut longest_gap) = (begun, Duration::ZERO);
        loop {
            let before = std::mem::replace(&mut now, Instant::now());
            longest_gap = longest_gap.max(now - before);
            interrupt::check()?;
            let has_events = self.take_answers(now);
            let sends = now < times.stop && self.course.has_peers();
            if sends {
                self.fill_window()?;
            } else if self.course.under_way == 0 {
                break;
            }
            if now >= times.end + LAST_ANSWERS {
                break;
            }
            if self.shares_cpus && !has_events {
                let answered = self.course.acknowledged;
                thread::sleep(nap(now - begun, answered, self.operations));
            }
        }
        Ok(self.course.sent(longest_gap))
    }

    /// Takes all answers that have arrived. Returns whether there was one.
    fn take_answers(&mut self, now: Instant) -> bool {
        let mut has_events = false;
        let events = &mut self.initiator.events;
        while let Some(event) = events.poll() {
            let (kind, code) = (event.event_type(), event.return_code());
            let peer = match event.record() {
                EventRecord::InitiatorShort(record) => record.user_ptr(),
                EventRecord::InitiatorLong(record) => record.user_ptr(),
                _ => u64::MAX,
            };
            events.acknowledge();
            self.course.answered(peer as usize, (kind, code), self.size, now);
            has_events = true;
        }
        has_events
    }

    /// Issues operations until the window is full.
    fn fill_window(&mut self) -> Result<(), Failure> {
        if self.course.under_way >= self.operations {
            return Ok(());
        }
        let mut batch = self.initiator.transmit.batch();
        while self.course.under_way < self.operations
            && let Some(peer) = self.course.next_peer()
        {
            batch.emit_dma(&self.commands[peer]).nic(NotIssued("put"))?;
            self.course.under_way += 1;
        }
        batch.commit_doorbell();
        Ok(())
    }

    /// Releases queues and buffer. Returns whether nothing is left of them, nor under way.
    pub fn close(self) -> bool {
        let is_over = self.course.under_way == 0;
        self.initiator.close().is_ok() && is_over
    }
}

/// Returns how long to sleep while no answer arrives: a part of the time in which a window is
/// answered. `answered` operations were answered in the time `elapsed`.
fn nap(elapsed: Duration, answered: u64, window: u64) -> Duration {
    let window_seconds = elapsed.as_secs_f64() * window as f64 / answered.max(1) as f64;
    let nap = Duration::from_secs_f64(window_seconds / f64::from(LOOKS_PER_WINDOW));
    nap.clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
}

impl Course {
    fn new(peers: usize, tally: Tally) -> Self {
        Self {
            tally,
            has_failed: vec![false; peers],
            turn: 0,
            under_way: 0,
            acknowledged: 0,
            first_failure: None,
        }
    }

    /// Whether there are peers to which no operation failed.
    fn has_peers(&self) -> bool {
        self.has_failed.contains(&false)
    }

    /// The peer of the next operation: peers to which an operation failed are left out.
    fn next_peer(&mut self) -> Option<usize> {
        let peers = self.has_failed.len();
        let places = (self.turn..self.turn + peers).map(|place| place % peers);
        let next = places.into_iter().find(|place| !self.has_failed[*place])?;
        self.turn = next + 1;
        Some(next)
    }

    /// Counts the answer to an operation of `size` bytes, which was seen at the time `now`.
    fn answered(&mut self, peer: usize, event: (EventType, ReturnCode), size: u64, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        if event == (EventType::ACK, ReturnCode::OK) {
            self.acknowledged += 1;
            self.tally.add(size, now);
            return;
        }
        self.first_failure.get_or_insert(event);
        if let Some(has_failed) = self.has_failed.get_mut(peer) {
            *has_failed = true;
        }
    }

    /// Returns what was done.
    fn sent(&self, longest_gap: Duration) -> Sent {
        let failure =
            |(kind, code)| explain::unexpected("putting under load", kind, EventType::ACK, code);
        let peers = (0..).zip(&self.has_failed);
        Sent {
            bytes: self.tally.bytes,
            unreached: peers.filter(|(_, failed)| **failed).map(|(place, _)| place).collect(),
            has_sent: self.acknowledged > 0,
            failure: self.first_failure.map(failure),
            unanswered: self.under_way,
            longest_gap,
        }
    }
}

impl Tally {
    fn new(times: LoadTimes) -> Self {
        Self { count: times.count, part: times.counted_time() / PARTS as u32, bytes: [0; PARTS] }
    }

    /// Adds bytes that were acknowledged at the time `now`, if they count.
    fn add(&mut self, bytes: u64, now: Instant) {
        let Some(age) = now.checked_duration_since(self.count) else {
            return;
        };
        let part = age.as_nanos() / self.part.as_nanos().max(1);
        if let Some(part_bytes) = self.bytes.get_mut(part as usize) {
            *part_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_tool::{portal, test};
    use super::super::test::TestPlan;
    use super::*;
    use campaign::timetable::SlotTimes;
    use diag::bench::testing::{Alone, endpoint};
    use plan::testing::plan;

    const ACKNOWLEDGED: (EventType, ReturnCode) = (EventType::ACK, ReturnCode::OK);
    const REFUSED: (EventType, ReturnCode) = (EventType::ACK, ReturnCode(9));

    /// A slot whose parts are this many milliseconds long, from now on.
    fn times(length_ms: u64) -> LoadTimes {
        LoadTimes::new(Instant::now(), SlotTimes::from_slot(length_ms * 1_000_000))
    }

    fn course(peers: usize) -> Course {
        Course::new(peers, Tally::new(times(250)))
    }

    #[test]
    fn deals_operations_in_turn_to_peers_without_failures() {
        let mut course = course(3);
        let dealt = |course: &mut Course, count: usize| -> Vec<Option<usize>> {
            (0..count).map(|_| course.next_peer()).collect()
        };
        assert_eq!(dealt(&mut course, 4), [0, 1, 2, 0].map(Some));
        course.answered(2, REFUSED, 1, Instant::now());
        assert_eq!(dealt(&mut course, 3), [1, 0, 1].map(Some));
        course.answered(0, ACKNOWLEDGED, 1, Instant::now());
        assert!(course.has_peers());
        course.answered(0, REFUSED, 1, Instant::now());
        course.answered(1, REFUSED, 1, Instant::now());
        assert!(!course.has_peers() && course.next_peer().is_none());
        let sent = course.sent(Duration::ZERO);
        assert!(sent.unreached == [0, 1, 2] && sent.has_sent);
        let why = sent.failure.unwrap().message();
        assert!(why.starts_with("putting under load failed"), "{why}");
    }

    #[test]
    fn counts_bytes_by_part_of_the_counted_time() {
        let times = times(250);
        let mut tally = Tally::new(times);
        let part = times.counted_time() / PARTS as u32;
        tally.add(1, times.count - Duration::from_nanos(1));
        tally.add(10, times.count);
        tally.add(20, times.count + part - Duration::from_nanos(1));
        tally.add(40, times.count + part);
        tally.add(80, times.counted - Duration::from_nanos(1));
        tally.add(160, times.counted);
        let mut expected = [0; PARTS];
        [expected[0], expected[1], expected[PARTS - 1]] = [30, 40, 80];
        assert_eq!(tally.bytes, expected);
    }

    #[test]
    fn naps_for_a_part_of_the_time_of_a_window() {
        let second = Duration::from_secs(1);
        // A window of 16 in 3.2 ms.
        assert_eq!(nap(second, 5000, 16), Duration::from_micros(200));
        assert_eq!(nap(second, 500_000, 16), SHORTEST_SLEEP);
        assert_eq!(nap(second, 0, 16), LONGEST_SLEEP);
    }

    #[test]
    fn window_holds_at_least_one_operation() {
        let load = |size, window_bytes| AggressorLoad {
            peers: &[],
            portal: 0,
            size,
            buffer: Buffer::small(1),
            window_bytes,
            shares_cpus: true,
        };
        for (size, window, operations) in
            [(4096, 16_384, 4), (4096, 16_383, 3), (65_536, 100, 1), (1, u64::MAX, MOST_OPERATIONS)]
        {
            assert_eq!(load(size, window).operations(), operations);
            assert_eq!(load(size, window).window(), operations * size);
        }
    }

    #[test]
    fn loop_allocates_nothing_and_leaves_nothing_under_way() {
        let options = plan("write-bw", &["-s", "4096", "-l", "1"]);
        let endpoint = endpoint(&options);
        let sink = TestPlan::new(options.tool, options.run).unwrap();
        let mut sink = test(0, sink, Duration::from_millis(1));
        sink.open_target(&endpoint).unwrap();
        let load = AggressorLoad {
            peers: &[endpoint.address().address],
            portal: portal(0),
            size: 4096,
            buffer: Buffer::full(&options.run),
            window_bytes: 16_384,
            shares_cpus: true,
        };
        let mut aggressor = Aggressor::set_up(&endpoint, &load, times(20), &Alone).unwrap();
        // The software NIC allocates its path to the peer with the first packet.
        aggressor.run(times(20)).unwrap();
        let mut sent = None;
        let info = allocation_counter::measure(|| sent = Some(aggressor.run(times(20))));
        assert_eq!(info.count_total, 0);
        assert!(sent.unwrap().unwrap().has_sent);
        assert!(aggressor.close());
        let mut unanswered = Aggressor::set_up(&endpoint, &load, times(20), &Alone).unwrap();
        unanswered.course.under_way = 1;
        assert!(!unanswered.close());
        sink.close_target().unwrap();
        endpoint.close().unwrap();
    }
}
