//! Counters: doorbells, counts and release order. Trigger queues: bytes of commands, errors and
//! room for events.

use std::any::Any;
use std::sync::atomic::Ordering;

use cxi::records::{DmaAmoCmd, FullDmaCmd, NomatchDmaCmd};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Counter, Counts, Device, EmitError, Error, EventType, Library, Lni,
    MAX_SUCCESSES, TriggerQueue,
};
use proptest::prelude::*;

use crate::World;
use crate::api::{self, Kind, counters};

/// A world with counters and a trigger queue.
pub struct Bench {
    pub world: World,
    /// A counter with a write-back word.
    pub counter: Counter,
    /// A counter without a write-back word.
    pub quiet: Counter,
    pub trigger: TriggerQueue,
}

impl Bench {
    fn new(library: &Library) -> Result<Self, Error> {
        let mut world = World::new(library)?;
        let counter = Counter::with_write_back(&world.lni)?;
        let quiet = Counter::new(&world.lni)?;
        let mut trigger = TriggerQueue::new(&world.profile, 128, &world.events)?;
        world.transmit.keep_counter(&counter);
        world.portal.keep_counter(&quiet);
        trigger.keep_counter(&counter);
        trigger.keep_mapped(&world.buffer);
        Ok(Self { world, counter, quiet, trigger })
    }
}

pub fn bench() -> Bench {
    api::reset();
    Bench::new(&Library::from_api(api::api())).unwrap()
}

#[test]
fn releases_everything_after_each_failed_allocation() {
    let calls = ["cxil_alloc_ct", "cxil_alloc_ct", "cxil_alloc_cmdq"];
    let bench = bench();
    let first = api::allocations() - calls.len();
    drop(bench);
    for (index, call) in calls.into_iter().enumerate() {
        api::reset();
        api::fail_allocation(first + index);
        let library = Library::from_api(api::api());
        let error = Bench::new(&library).err().expect("one allocation fails");
        assert_eq!((error.call(), error.errno()), (call, libc::ENOSPC));
        assert_eq!(api::live(), []);
        assert_eq!(api::violations(), Vec::<String>::new());
    }
}

proptest! {
    #[test]
    fn releases_everything_in_any_drop_order(order in Just([0, 1, 2, 3, 4, 5, 6]).prop_shuffle()) {
        api::reset();
        let library = Library::from_api(api::api());
        let Bench { world, counter, quiet, trigger } = Bench::new(&library).unwrap();
        let World { device, lni, domain, profile, buffer, events, transmit, target, portal } = world;
        let mut owners: [Option<Box<dyn Any>>; 7] = [
            Some(Box::new((device, lni, domain))),
            Some(Box::new((profile, buffer))),
            Some(Box::new(events)),
            Some(Box::new((transmit, target, portal))),
            Some(Box::new(counter)),
            Some(Box::new(quiet)),
            Some(Box::new(trigger)),
        ];
        for index in order {
            owners[index] = None;
        }
        prop_assert_eq!(api::live(), []);
        prop_assert_eq!(api::violations(), Vec::<String>::new());
        prop_assert_eq!(library.failed_release(), None);
    }
}

#[test]
fn releases_counters_after_objects_that_keep_them() {
    let busy = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert_eq!((error.call(), error.errno()), ("cxil_destroy_ct", libc::EBUSY));
    };
    let Bench { world, counter, quiet, trigger } = bench();
    busy(counter.close());
    busy(quiet.close());
    trigger.close().unwrap();
    assert_eq!(api::released(), [Kind::CommandQueue]);
    world.transmit.close().unwrap();
    assert_eq!(api::released().last(), Some(&Kind::Counter));
    world.portal.close().unwrap();
    assert_eq!(api::released().last(), Some(&Kind::Counter));
}

#[test]
fn releases_trigger_queue_before_its_event_queue() {
    let Bench { world, trigger, .. } = bench();
    drop(world);
    assert!(!api::released().contains(&Kind::EventQueue));
    drop(trigger);
    let released = api::released();
    let place = |kind| released.iter().rposition(|&released| released == kind);
    assert!(place(Kind::CommandQueue) < place(Kind::EventQueue));
    assert_eq!(api::live(), []);
}

#[test]
fn reports_failed_release_on_close() {
    let Bench { world, counter, quiet, trigger } = bench();
    drop((world.transmit, world.portal));
    api::fail_release(Kind::CommandQueue);
    assert_eq!(trigger.close().unwrap_err().call(), "cxil_destroy_cmdq");
    api::fail_release(Kind::Counter);
    for counter in [counter, quiet] {
        let error = counter.close().unwrap_err();
        assert_eq!((error.call(), error.errno()), ("cxil_destroy_ct", libc::EIO));
    }
    // The write-back word remains mapped, because the NIC may still write it.
    let word = counters::write_back_word(0).unwrap();
    assert!(api::is_mapped(std::ptr::from_ref(word).addr()));
    assert_eq!(api::violations(), Vec::<String>::new());
}

#[test]
fn refuses_library_with_null_doorbells() {
    let world = bench().world;
    api::omit_pointers();
    let error = Counter::new(&world.lni).err().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_alloc_ct", libc::EFAULT));
}

#[test]
fn stores_masked_values_to_doorbells() {
    let bench = bench();
    const NO: u64 = counters::UNTOUCHED;
    bench.counter.reset();
    assert_eq!(counters::take_doorbells(0), [NO, NO, 0, 0, NO]);
    bench.counter.add_success(u64::MAX);
    bench.counter.add_failure(0x85);
    assert_eq!(counters::take_doorbells(0), [MAX_SUCCESSES, 5, NO, NO, NO]);
    assert_eq!(counters::take_doorbells(1), [NO; 5], "another counter");
}

#[test]
fn reads_counts_once_per_write_back() {
    let bench = bench();
    let word = counters::write_back_word(0).unwrap();
    assert_eq!(bench.counter.written_back(), None);
    word.store(0x0203, Ordering::Relaxed);
    assert_eq!(bench.counter.written_back(), None);
    word.store(1 << 63 | 0x7f << 48 | MAX_SUCCESSES, Ordering::Relaxed);
    let counts = Counts { success: MAX_SUCCESSES, failure: 127 };
    assert_eq!(bench.counter.written_back(), Some(counts));
    assert_eq!(word.load(Ordering::Relaxed), 0x7f << 48 | MAX_SUCCESSES);
    assert_eq!(bench.counter.written_back(), None);
    assert!(counters::write_back_word(1).is_none());
    assert_eq!(bench.quiet.written_back(), None);
}

/// A software NIC must see each doorbell before the next store overwrites it.
#[test]
fn runs_software_nic_after_every_doorbell() {
    api::reset();
    let mut bench = Bench::new(&Library::from_api(api::api_with_progress())).unwrap();
    bench.counter.add_success(1);
    bench.counter.add_success(1);
    assert_eq!(api::progress_calls(), 2);
    bench.counter.reset();
    assert_eq!(api::progress_calls(), 4);
    bench.trigger.batch().commit_doorbell();
    assert_eq!(api::progress_calls(), 5);
    bench.counter.written_back();
    assert_eq!(api::progress_calls(), 6);
}

/// Index of the trigger queue among the command queues, in order of allocation.
const TRIGGER: usize = 2;

/// The bytes of the trigger queue from slot `slot` on.
fn bytes<const N: usize>(slot: usize) -> [u8; N] {
    let mut bytes = [0; N];
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = api::ring_word(TRIGGER, slot * 64 + index * 8).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

fn padded<const N: usize>(leading: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..leading.len()].copy_from_slice(leading);
    bytes
}

/// The example of nic.md Appendix B and similar commands, with counters 5 and 6 and event queue 1.
#[test]
fn encodes_counter_commands() {
    let mut bench = bench();
    let (counter, quiet) = (&bench.counter, &bench.quiet);
    assert_eq!((counter.number(), quiet.number()), (5, 6));
    let mut batch = bench.trigger.batch();
    batch.emit_trigger_event(counter, 100).unwrap();
    batch.emit_set(counter, Some(0x0102_0304_0506), None).unwrap();
    batch.emit_set(quiet, None, Some(0)).unwrap();
    batch.emit_get(counter).unwrap();
    batch.emit_increment(quiet, Counts { success: 3, failure: 4 }).unwrap();
    batch.emit_cancel(quiet).unwrap();
    batch.emit_trigger_set(counter, MAX_SUCCESSES, quiet, Some(7), Some(8)).unwrap();
    batch.emit_trigger_increment(quiet, 1, counter, Counts { success: 9, failure: 0 }).unwrap();
    batch.commit_doorbell();
    let expected: [[u8; 64]; 8] = [
        padded(&[0x86, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100]),
        padded(&[0x16, 0, 5, 0, 0, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0, 0x40]),
        padded(&[0x16, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]),
        padded(&[0x26, 0, 5]),
        padded(&[0x36, 0, 6, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 0xc0]),
        padded(&[0x46, 0, 6]),
        padded(&[
            0x66, 0, 6, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 8, 0xc0, 255, 255, 255, 255, 255, 255,
        ]),
        padded(&[0x76, 0, 5, 0, 6, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0x40, 1]),
    ];
    for (index, expected) in expected.into_iter().enumerate() {
        assert_eq!(bytes::<64>(4 + index), expected, "command {index}");
    }
    assert_eq!(api::launch_word(TRIGGER, 0), 12);
}

#[test]
fn embeds_triggered_commands_after_padding_slot() {
    let mut bench = bench();
    let events = bench.world.events.number();
    let mut dma = FullDmaCmd::new();
    dma.set_opcode(C_CMD_PUT as u8).set_event_send_disable(true).set_eq(events);
    dma.set_user_ptr(0x1122_3344_5566_7788);
    let mut nomatch = NomatchDmaCmd::new();
    nomatch.set_opcode(C_CMD_NOMATCH_GET as u8).set_event_send_disable(true).set_lac(3);
    let mut amo = DmaAmoCmd::new();
    amo.set_atomic_type(C_AMO_TYPE_UINT64_T as u8).set_op2_word2(0x99);
    let counter = &bench.counter;
    let mut batch = bench.trigger.batch();
    batch.emit_get(counter).unwrap();
    // The command needs an even slot, so slot 5 becomes padding.
    batch.emit_trigger_dma(counter, 2, &dma).unwrap();
    batch.emit_trigger_nomatch_dma(counter, 3, &nomatch).unwrap();
    batch.emit_trigger_dma_amo(counter, 4, &amo, true).unwrap();
    batch.commit_doorbell();
    assert_eq!(api::launch_word(TRIGGER, 0), 12);
    assert_eq!(bytes::<8>(5), [6, 0, 0, 0, 0, 0, 0, 0], "nic.md Appendix B");
    let outer =
        |threshold| padded::<24>(&[0x5a, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, threshold]);
    let command: [u8; 128] = bytes(6);
    assert_eq!(command[..24], outer(2));
    assert_eq!(command[24], 0x15);
    assert_eq!(command[25..88], dma.bytes()[1..]);
    let command: [u8; 128] = bytes(8);
    assert_eq!(command[..24], outer(3));
    assert_eq!(command[24..32], [0x91, 0, 0x0b, 0, 0, 0, 0, 0]);
    let command: [u8; 128] = bytes(10);
    assert_eq!(command[..24], outer(4));
    assert_eq!((command[24], command[24 + 24], command[24 + 88]), (0x59, 8, 0x99));
}

#[test]
fn encodes_lcid_as_pair_at_even_slot() {
    let mut bench = bench();
    let world = &mut bench.world;
    let other =
        CommunicationProfile::new(&world.lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP).unwrap();
    assert_eq!(other.lcid(), 1);
    let mut batch = world.transmit.batch();
    batch.emit_fence().unwrap();
    // One slot is skipped (nic.md 2.8, vector 7).
    batch.emit_lcid(&other).unwrap();
    batch.commit_doorbell();
    assert_eq!(api::launch_word(0, 0), 8);
    let words = [4, 5, 6, 7].map(|slot| api::ring_word(0, slot * 64));
    assert_eq!(words, [0x17, 0, 0x01_0000_0027, 0x07]);
    // The queue keeps the profile.
    drop(other);
    assert_eq!(api::live().iter().filter(|&&kind| kind == Kind::Profile).count(), 2);
}

#[test]
fn refuses_objects_of_another_interface() {
    let mut bench = bench();
    let device = Device::open(&Library::from_api(api::api()), 0).unwrap();
    let lni = Lni::new(&device, 1).unwrap();
    let foreign = Counter::new(&lni).unwrap();
    let profile =
        CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
    let error = TriggerQueue::new(&profile, 1, &bench.world.events).err().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_alloc_cmdq", libc::EINVAL));
    let refused = Err(EmitError::OtherInterface);
    assert_eq!(bench.world.transmit.batch().emit_lcid(&profile), refused);
    let counter = &bench.counter;
    let zero = Counts { success: 0, failure: 0 };
    let mut batch = bench.trigger.batch();
    assert_eq!(batch.emit_trigger_event(&foreign, 1), refused);
    assert_eq!(batch.emit_trigger_set(counter, 1, &foreign, None, None), refused);
    assert_eq!(batch.emit_trigger_increment(&foreign, 1, counter, zero), refused);
    assert_eq!(batch.emit_trigger_dma(&foreign, 1, &FullDmaCmd::new()), refused);
    assert_eq!(batch.emit_get(&foreign), refused);
    let too_large = batch.emit_trigger_event(counter, MAX_SUCCESSES + 1);
    assert_eq!(too_large, Err(EmitError::ThresholdTooLarge));
    let mut elsewhere = FullDmaCmd::new();
    elsewhere.set_eq(2000);
    let refused = batch.emit_trigger_dma(counter, 1, &elsewhere);
    assert_eq!(refused, Err(EmitError::OtherEventQueue));
    batch.commit_doorbell();
    assert_eq!(api::launch_word(TRIGGER, 0), 0, "the batch is empty");
}

#[test]
fn requests_lcid_0_for_triggers_if_library_can() {
    api::reset();
    let newer = Api { cxil_alloc_trig_cp: Some(counters::alloc_trig_cp), ..api::api() };
    for (api, lcid) in [(newer, 0), (api::api(), 1)] {
        api::reset();
        let device = Device::open(&Library::from_api(api), 0).unwrap();
        let lni = Lni::new(&device, 1).unwrap();
        let make = CommunicationProfile::new;
        let _first = make(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP).unwrap();
        let make = CommunicationProfile::for_triggers;
        let profile = make(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
        assert_eq!(profile.lcid(), lcid);
    }
}

fn failures_only(bench: &Bench) -> NomatchDmaCmd {
    let mut put = NomatchDmaCmd::new();
    put.set_opcode(C_CMD_NOMATCH_PUT as u8)
        .set_event_send_disable(true)
        .set_event_success_disable(true)
        .set_event_ct_ack(true)
        .set_ct(bench.counter.number())
        .set_eq(bench.world.events.number());
    put
}

/// Returns how many trigger events the event queue has room for.
fn trigger_room(bench: &mut Bench) -> usize {
    let mut batch = bench.trigger.batch();
    (0..100).take_while(|_| batch.emit_trigger_event(&bench.counter, 1).is_ok()).count()
}

/// A trigger event reserves room until it is acknowledged. Operations without success events
/// reserve none.
#[test]
fn reserves_room_for_trigger_events_but_not_for_counted_operations() {
    let mut bench = bench();
    let capacity = bench.world.events.capacity();
    let put = failures_only(&bench);
    let mut batch = bench.trigger.batch();
    for threshold in 0..u64::from(capacity - 10) {
        batch.emit_trigger_event(&bench.counter, threshold).unwrap();
    }
    batch.commit_doorbell();
    let mut batch = bench.world.transmit.batch();
    for _ in 0..50 {
        batch.emit_nomatch_dma(&put).unwrap();
    }
    batch.commit_doorbell();
    assert_eq!(trigger_room(&mut bench), 10);
    api::deliver(C_EVENT_TRIGGERED_OP);
    assert_eq!(bench.world.events.poll().unwrap().event_type(), EventType::TRIGGERED_OP);
    assert_eq!(trigger_room(&mut bench), 10, "not acknowledged");
    bench.world.events.acknowledge();
    assert_eq!(trigger_room(&mut bench), 11);
}

/// The failure of an operation without success event has no reserved room, so it must not release
/// the room of a pending trigger event. A cancelled trigger event releases its room.
#[test]
fn releases_no_room_for_failures_of_counted_operations() {
    let mut bench = bench();
    let capacity = bench.world.events.capacity() as usize;
    bench.counter.reset();
    let put = failures_only(&bench);
    let mut batch = bench.world.transmit.batch();
    batch.emit_nomatch_dma(&put).unwrap();
    batch.emit_nomatch_dma(&put).unwrap();
    batch.commit_doorbell();
    let mut batch = bench.trigger.batch();
    batch.emit_trigger_event(&bench.counter, 2).unwrap();
    batch.emit_trigger_event(&bench.counter, 3).unwrap();
    batch.commit_doorbell();
    for (kind, code, left) in [
        (C_EVENT_ACK, C_RC_UNDELIVERABLE, 2),
        (C_EVENT_REPLY, C_RC_NO_SPACE, 2),
        (C_EVENT_TRIGGERED_OP, C_RC_CANCELED, 1),
        (C_EVENT_TRIGGERED_OP, C_RC_OK, 0),
    ] {
        api::deliver_with(kind, code);
        let event = bench.world.events.poll().unwrap();
        assert_eq!(u32::from(event.return_code().0), code);
        bench.world.events.acknowledge();
        assert_eq!(trigger_room(&mut bench), capacity - left, "{kind} {code}");
    }
}

#[test]
fn reserves_room_for_events_of_triggered_commands() {
    let mut bench = bench();
    let room = |bench: &mut Bench, dma: &FullDmaCmd| {
        let mut batch = bench.trigger.batch();
        let emitted = || batch.emit_trigger_dma(&bench.counter, 1, dma);
        let (count, error) = (std::iter::repeat_with(emitted).enumerate())
            .find_map(|(count, emitted)| Some((count, emitted.err()?)))
            .unwrap();
        (count, error)
    };
    // The event queue has room for 61 events; the command queue has 123 free slots.
    let mut dma = FullDmaCmd::new();
    dma.set_opcode(C_CMD_PUT as u8);
    assert_eq!(room(&mut bench, &dma), (61, EmitError::QueueFull));
    dma.set_eq(bench.world.events.number());
    assert_eq!(room(&mut bench, &dma), (30, EmitError::EventQueueFull));
    dma.set_event_send_disable(true);
    let mut batch = bench.trigger.batch();
    batch.emit_trigger_dma(&bench.counter, 1, &dma).unwrap();
    batch.emit_trigger_dma(&bench.counter, 1, &dma).unwrap();
    batch.commit_doorbell();
    assert_eq!(room(&mut bench, &dma), (59, EmitError::EventQueueFull));
}
