//! Counters: doorbells, counts, and what is released when.

use std::any::Any;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use cxi::{Counter, Counts, Error, Library, MAX_SUCCESSES, TriggerQueue};

use crate::World;
use crate::api::{self, Kind, counters};

/// One of everything, and what counts.
pub struct Bench {
    pub world: World,
    /// With a write-back word.
    pub counter: Counter,
    /// Without.
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
        Ok(Self {
            world,
            counter,
            quiet,
            trigger,
        })
    }
}

pub fn bench() -> Bench {
    api::reset();
    Bench::new(&Library::from_api(api::api())).unwrap()
}

#[test]
fn each_allocation_that_fails_leaves_nothing() {
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
    fn owners_may_be_dropped_in_any_order(order in Just([0, 1, 2, 3, 4, 5, 6]).prop_shuffle()) {
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

/// Who was told to keep a counter is released before it.
#[test]
fn counters_outlive_what_counts_on_them() {
    let busy = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert_eq!(
            (error.call(), error.errno()),
            ("cxil_destroy_ct", libc::EBUSY)
        );
    };
    let Bench {
        world,
        counter,
        quiet,
        trigger,
    } = bench();
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
fn a_trigger_queue_goes_before_the_event_queue_that_it_reports_to() {
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
fn close_reports_what_the_library_refused() {
    let Bench {
        world,
        counter,
        quiet,
        trigger,
    } = bench();
    drop((world.transmit, world.portal));
    api::fail_release(Kind::CommandQueue);
    assert_eq!(trigger.close().unwrap_err().call(), "cxil_destroy_cmdq");
    api::fail_release(Kind::Counter);
    for counter in [counter, quiet] {
        let error = counter.close().unwrap_err();
        assert_eq!(
            (error.call(), error.errno()),
            ("cxil_destroy_ct", libc::EIO)
        );
    }
    // Its write-back word stays: the NIC may still write it.
    let word = counters::write_back_word(0).unwrap();
    assert!(api::is_mapped(std::ptr::from_ref(word).addr()));
    assert_eq!(api::violations(), Vec::<String>::new());
}

#[test]
fn a_library_that_leaves_out_the_doorbells_is_refused() {
    let world = bench().world;
    api::omit_pointers();
    let error = Counter::new(&world.lni).err().unwrap();
    assert_eq!(
        (error.call(), error.errno()),
        ("cxil_alloc_ct", libc::EFAULT)
    );
}

#[test]
fn doorbells_are_stores_of_masked_values() {
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
fn the_counts_are_read_when_the_flag_is_set_and_the_flag_alone_is_cleared() {
    let bench = bench();
    let word = counters::write_back_word(0).unwrap();
    assert_eq!(bench.counter.written_back(), None);
    word.store(0x0203, Ordering::Relaxed);
    assert_eq!(bench.counter.written_back(), None);
    word.store(1 << 63 | 0x7f << 48 | MAX_SUCCESSES, Ordering::Relaxed);
    let counts = Counts {
        success: MAX_SUCCESSES,
        failure: 127,
    };
    assert_eq!(bench.counter.written_back(), Some(counts));
    assert_eq!(word.load(Ordering::Relaxed), 0x7f << 48 | MAX_SUCCESSES);
    assert_eq!(bench.counter.written_back(), None);
    assert!(counters::write_back_word(1).is_none());
    assert_eq!(bench.quiet.written_back(), None);
}

/// The software NIC runs after each doorbell, so that none is stored over another.
#[test]
fn the_software_nic_runs_after_every_doorbell() {
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
