//! Counters: doorbells, counts and release order.

use std::any::Any;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use cxi::{Counter, Counts, Error, Library, MAX_SUCCESSES, TriggerQueue};

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
