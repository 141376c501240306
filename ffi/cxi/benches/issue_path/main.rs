//! `cargo bench -p cxi`: what issuing a command and taking an event costs the CPU, compared with
//! plain C (`plain.c`) and with the bare loads and stores.
//!
//! Both sides work on ordinary memory in place of a NIC, so the figures show the cost of the code
//! without the cost of the bus. Both sides alternate in blocks, and the fastest block of each
//! counts: machines are shared and noisy, so compare the ratios of one run.

#[path = "../../tests/mock/api/mod.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod api;
#[path = "../../tests/steps/library.rs"]
mod library;
mod plain;

use std::hint::black_box;
use std::time::{Duration, Instant};

use cxi::records::{CStateCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, NomatchDmaCmd};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Device, EventQueue, EventType, Library, Lni, Prepared, ReturnCode,
    TransmitQueue,
};
use plain::{Bytes, Plain};

/// Operations of a block.
const BLOCK: u32 = 48;

/// Blocks of each side.
const ROUNDS: u32 = 3000;

/// Operations of a list.
const LIST: u32 = 16;

/// Slots of the command queues: room for a block of the longest commands.
const SLOTS: u32 = 256;

/// A transmit queue, its event queue, and the position of a NIC that has read all commands.
struct Ours {
    transmit: TransmitQueue,
    events: EventQueue,
    read: u32,
}

impl Ours {
    fn new() -> Self {
        api::reset();
        let library = Library::from_api(api::api());
        let device = Device::open(&library, 0).expect("the mock opens");
        let lni = Lni::new(&device, 1).expect("the mock has an interface");
        let profile = CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)
            .expect("the mock has profiles");
        let events = EventQueue::new(&lni, 2 * BLOCK, CXI_EQ_EC_DISABLE.into())
            .expect("the mock has event queues");
        let transmit = TransmitQueue::new(&profile, SLOTS, &events, None)
            .expect("the mock has command queues");
        let mut ours = Self { transmit, events, read: C_CQ_FIRST_WR_PTR };
        // Four slots, so that commands of all sizes are aligned.
        for _ in 0..4 {
            let mut context = CStateCmd::new();
            context.set_event_send_disable(true).set_restricted(true).set_eq(ours.events.number());
            let mut batch = ours.transmit.batch();
            batch.emit_c_state(&context).expect("the queue is empty");
            batch.commit_doorbell();
        }
        ours.catch_up(4, 0);
        ours
    }

    /// Lets the NIC read `slots` slots and complete `events` operations, which are acknowledged.
    fn catch_up(&mut self, slots: u32, events: u32) {
        self.read = after(self.read, slots);
        api::set_read_pointer(0, self.read);
        deliver(events);
        while self.events.poll().is_some() {}
        self.events.acknowledge();
    }
}

/// The slot `slots` after `slot`.
fn after(slot: u32, slots: u32) -> u32 {
    let ring = SLOTS - C_CQ_FIRST_WR_PTR;
    C_CQ_FIRST_WR_PTR + (slot - C_CQ_FIRST_WR_PTR + slots) % ring
}

fn deliver(events: u32) {
    for _ in 0..events {
        api::deliver(C_EVENT_ACK);
    }
}

/// The fastest block of each side.
struct Row {
    label: &'static str,
    ours: Duration,
    plain: Duration,
    floor: Option<Duration>,
}

impl Row {
    fn new(label: &'static str) -> Self {
        Self { label, ours: Duration::MAX, plain: Duration::MAX, floor: None }
    }

    fn print(&self) {
        let ns = |time: Duration| time.as_nanos() as f64 / f64::from(BLOCK);
        let floor = |text: &dyn Fn(Duration) -> String| self.floor.map_or("-".into(), text);
        println!(
            "{:<38}{:>9.2}{:>9.2}{:>9}{:>10.2}{:>13}",
            self.label,
            ns(self.ours),
            ns(self.plain),
            floor(&|time| format!("{:.2}", ns(time))),
            self.ours.as_secs_f64() / self.plain.as_secs_f64(),
            floor(&|time| format!("{:.2}", self.ours.as_secs_f64() / time.as_secs_f64())),
        );
    }
}

fn time(block: impl FnOnce()) -> Duration {
    let start = Instant::now();
    block();
    start.elapsed()
}

/// Measures blocks of commands, which take `slots` slots.
fn commands(
    label: &'static str,
    slots: u32,
    mut ours: impl FnMut(&mut TransmitQueue),
    mut plain: impl FnMut(&mut Plain),
    floor: Option<(u32, bool)>,
) -> Row {
    let (mut world, mut queue) = (Ours::new(), Plain::new(SLOTS));
    let mut row = Row::new(label);
    for _ in 0..ROUNDS {
        row.ours = row.ours.min(time(|| ours(&mut world.transmit)));
        world.catch_up(slots, BLOCK);
        row.plain = row.plain.min(time(|| plain(&mut queue)));
        queue.catch_up();
        if let Some((words, low_latency)) = floor {
            let spent = time(|| queue.floor_launch(words, BLOCK, low_latency));
            row.floor = Some(row.floor.map_or(spent, |best| best.min(spent)));
        }
    }
    row
}

fn nomatch(low_latency: bool) -> Row {
    let mut command = NomatchDmaCmd::new();
    command
        .set_opcode(C_CMD_NOMATCH_PUT as u8)
        .set_event_send_disable(true)
        .set_restricted(true)
        .set_request_len(8)
        .set_eq(1);
    let bytes = Bytes::new(command.bytes());
    commands(
        if low_latency { "NOMATCH, low-latency" } else { "NOMATCH, doorbell" },
        BLOCK,
        |transmit| {
            let command = transmit.prepare_nomatch_dma(&command);
            issue(transmit, &command.expect("a valid command"), low_latency);
        },
        |queue| queue.nomatch(&bytes, BLOCK, low_latency),
        Some((4, low_latency)),
    )
}

/// Issues a block of one command.
fn issue<const WORDS: usize>(
    transmit: &mut TransmitQueue,
    command: &Prepared<WORDS>,
    low_latency: bool,
) {
    for _ in 0..BLOCK {
        if low_latency {
            transmit.issue_low_latency(command).expect("there is room");
        } else {
            transmit.issue_doorbell(command).expect("there is room");
        }
    }
}

fn full_command() -> FullDmaCmd {
    let mut command = FullDmaCmd::new();
    command.set_opcode(C_CMD_PUT as u8).set_event_send_disable(true).set_request_len(64).set_eq(1);
    command
}

fn dma(low_latency: bool) -> Row {
    let command = full_command();
    let bytes = Bytes::new(command.bytes());
    commands(
        if low_latency { "full DMA, low-latency" } else { "full DMA, doorbell" },
        BLOCK,
        |transmit| {
            let command = transmit.prepare_dma(&command);
            issue(transmit, &command.expect("a valid command"), low_latency);
        },
        |queue| queue.dma(&bytes, BLOCK, low_latency),
        Some((8, low_latency)),
    )
}

fn list() -> Row {
    let mut command = full_command();
    let mut bytes = Bytes::new(command.bytes());
    commands(
        "list of 16 full DMA, one doorbell",
        BLOCK,
        |transmit| {
            for _ in 0..BLOCK / LIST {
                let mut batch = transmit.batch();
                for place in 0..u64::from(LIST) {
                    command.set_remote_offset(64 * place).set_local_addr(64 * place);
                    batch.emit_dma(&command).expect("there is room");
                }
                batch.commit_doorbell();
            }
        },
        |queue| queue.list(&mut bytes, BLOCK, LIST),
        None,
    )
}

fn idc_put<const WORDS: usize>(label: &'static str, length: usize, slots: u32) -> Row {
    let header = IdcHdr::new();
    let payload = [7; 224];
    let bytes = Bytes::new(header.bytes());
    commands(
        label,
        slots,
        |transmit| {
            let command = transmit.prepare_idc_put::<WORDS>(&header, &payload[..length]);
            issue(transmit, &command.expect("a valid command"), true);
        },
        |queue| queue.idc_put(&bytes, &payload[..length], BLOCK, true),
        (WORDS <= 8).then_some((WORDS as u32, true)),
    )
}

fn idc_list() -> Row {
    let mut header = IdcHdr::new();
    let payload = [7; 224];
    let mut bytes = Bytes::new(header.bytes());
    // Two commands share a slot.
    commands(
        "list of 16 IDC puts, one doorbell",
        BLOCK / 2,
        |transmit| {
            for _ in 0..BLOCK / LIST {
                let mut batch = transmit.batch();
                for place in 0..LIST as usize {
                    let bytes = &payload[8 * place..][..black_box(8)];
                    header.set_remote_offset(8 * place as u64);
                    batch.emit_idc_put(&header, bytes).expect("there is room");
                }
                batch.commit_doorbell();
            }
        },
        |queue| queue.idc_list(&mut bytes, &payload, BLOCK, LIST),
        None,
    )
}

fn idc_amo() -> Row {
    let mut command = IdcAmoCmd::new();
    command.set_atomic_op(C_AMO_OP_SUM as u8).set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
    let mut bytes = Bytes::new(command.bytes());
    commands(
        "IDC AMO, low-latency",
        BLOCK,
        |transmit| {
            for operand in 0..u64::from(BLOCK) {
                command.set_op1_word1(operand);
                let command = transmit.prepare_idc_amo::<4>(&command, false);
                let issued = transmit.issue_low_latency(&command.expect("a valid command"));
                issued.expect("there is room");
            }
        },
        |queue| queue.idc_amo(&mut bytes, BLOCK, true),
        Some((4, true)),
    )
}

/// Measures events that are ready, or polls of an empty queue.
fn events(label: &'static str, ready: bool) -> Row {
    let (mut world, mut queue) = (Ours::new(), Plain::new(SLOTS));
    let expected = if ready { BLOCK } else { 0 };
    let mut row = Row::new(label);
    for _ in 0..ROUNDS {
        deliver(expected);
        let mut seen = 0;
        let spent = time(|| {
            for _ in 0..BLOCK {
                let Some(event) = world.events.poll() else {
                    continue;
                };
                let ok = (EventType::ACK, ReturnCode::OK);
                seen += u32::from((event.event_type(), event.return_code()) == ok);
                world.events.acknowledge();
            }
        });
        assert_eq!(black_box(seen), expected);
        row.ours = row.ours.min(spent);

        queue.deliver(expected);
        let spent = time(|| seen = queue.poll(BLOCK));
        assert_eq!(seen, expected);
        row.plain = row.plain.min(spent);

        queue.deliver_from_start(expected);
        let spent = time(|| seen = queue.floor_poll(BLOCK));
        assert_eq!(seen, expected);
        row.floor = Some(row.floor.map_or(spent, |best| best.min(spent)));
    }
    row
}

fn main() {
    println!(
        "{:<38}{:>9}{:>9}{:>9}{:>10}{:>13}",
        "ns per operation", "cxi", "plain C", "floor", "cxi / C", "cxi / floor"
    );
    for row in [
        nomatch(true),
        nomatch(false),
        dma(true),
        dma(false),
        list(),
        idc_list(),
        idc_put::<4>("IDC put of 8 B, low-latency", 8, BLOCK),
        idc_put::<32>("IDC put of 192 B, low-latency", 192, 4 * BLOCK),
        idc_amo(),
        events("event seen and acknowledged", true),
        events("empty poll", false),
    ] {
        row.print();
    }
}
