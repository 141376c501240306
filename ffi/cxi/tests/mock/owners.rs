//! Release of all objects, in the required order, on every path.

use std::any::Any;

use proptest::prelude::*;

use cxi::{Device, Error, EventQueue, Library, Lni, MemoryRegion, Pages, TransmitQueue};

use crate::api::{self, Kind};
use crate::{World, hardware};

fn assert_nothing_is_left(library: &Library) {
    assert_eq!(api::live(), []);
    assert_eq!(api::violations(), Vec::<String>::new());
    assert_eq!(library.failed_release(), None);
}

#[test]
fn releases_everything_after_each_failed_allocation() {
    let calls = [
        "cxil_open_device",
        "cxil_alloc_lni",
        "cxil_alloc_domain",
        "cxil_alloc_cp",
        "cxil_map",
        "cxil_map",
        "cxil_alloc_evtq",
        "cxil_alloc_cmdq",
        "cxil_alloc_cmdq",
        "cxil_alloc_pte",
        "cxil_map_pte",
    ];
    for (index, call) in calls.into_iter().enumerate() {
        api::reset();
        api::fail_allocation(index);
        let library = Library::from_api(api::api());
        let error = World::new(&library).err().expect("one allocation fails");
        assert_eq!((error.call(), error.errno()), (call, libc::ENOSPC));
        assert_nothing_is_left(&library);
    }
    let world = hardware();
    assert_eq!(api::allocations(), calls.len());
    assert_eq!(api::live().len(), calls.len());
    drop(world);
    assert_eq!(api::live(), []);
}

#[test]
fn refuses_library_with_null_pointers() {
    api::reset();
    let library = Library::from_api(api::api());
    let device = Device::open(&library, 0).unwrap();
    let lni = Lni::new(&device, 1).unwrap();
    api::omit_pointers();
    let error = EventQueue::new(&lni, 1, 0).err().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_alloc_evtq", libc::EFAULT));
    let error = cxi::TargetQueue::new(&lni, 1, None).err().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_alloc_cmdq", libc::EFAULT));
    drop((device, lni));
    assert_nothing_is_left(&library);
}

proptest! {
    #[test]
    fn releases_everything_in_any_drop_order(order in Just([0, 1, 2, 3, 4, 5, 6, 7, 8]).prop_shuffle()) {
        api::reset();
        let library = Library::from_api(api::api());
        let world = World::new(&library).unwrap();
        let mut owners: [Option<Box<dyn Any>>; 9] = [
            Some(Box::new(world.device)),
            Some(Box::new(world.lni)),
            Some(Box::new(world.domain)),
            Some(Box::new(world.profile)),
            Some(Box::new(world.buffer)),
            Some(Box::new(world.events)),
            Some(Box::new(world.transmit)),
            Some(Box::new(world.target)),
            Some(Box::new(world.portal)),
        ];
        for index in order {
            owners[index] = None;
        }
        assert_nothing_is_left(&library);
    }
}

#[test]
fn releases_in_order_of_close() {
    let world = hardware();
    world.portal.close().unwrap();
    world.transmit.close().unwrap();
    world.target.close().unwrap();
    world.events.close().unwrap();
    world.buffer.close().unwrap();
    world.profile.close().unwrap();
    world.domain.close().unwrap();
    world.lni.close().unwrap();
    world.device.close().unwrap();
    let order = [
        Kind::Mapping,
        Kind::Portal,
        Kind::CommandQueue,
        Kind::CommandQueue,
        Kind::EventQueue,
        Kind::Region,
        Kind::Region,
        Kind::Profile,
        Kind::Domain,
        Kind::Lni,
        Kind::Device,
    ];
    assert_eq!(api::released(), order);
    assert_eq!(api::violations(), Vec::<String>::new());
}

#[test]
fn reports_busy_and_releases_after_last_user() {
    let world = hardware();
    let busy = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert_eq!(error.errno(), libc::EBUSY);
        error.call()
    };
    assert_eq!(busy(world.device.close()), "cxil_close_device");
    assert_eq!(busy(world.lni.close()), "cxil_destroy_lni");
    assert_eq!(busy(world.domain.close()), "cxil_destroy_domain");
    assert_eq!(busy(world.profile.close()), "cxil_destroy_cp");
    assert_eq!(busy(world.buffer.close()), "cxil_unmap");
    assert_eq!(busy(world.events.close()), "cxil_destroy_evtq");
    assert_eq!(api::released(), []);
    world.portal.close().unwrap();
    world.transmit.close().unwrap();
    world.target.close().unwrap();
    assert_eq!(api::live(), []);
    assert_eq!(api::violations(), Vec::<String>::new());
}

/// libcxi does not check to which event queue commands report (libcxi.md 8.2).
#[test]
fn releases_transmit_queue_before_its_event_queue() {
    let world = hardware();
    let transmit = TransmitQueue::new(&world.profile, 1, &world.events, None).unwrap();
    drop(world);
    assert!(!api::released().contains(&Kind::EventQueue));
    drop(transmit);
    let released = api::released();
    let place = |kind| released.iter().rposition(|&released| released == kind);
    assert!(place(Kind::CommandQueue) < place(Kind::EventQueue));
    assert_eq!(api::live(), []);
}

#[test]
fn keeps_memory_mapped_for_queues_and_portals() {
    let world = hardware();
    drop(world.portal);
    assert_eq!(world.buffer.close().unwrap_err().errno(), libc::EBUSY);
    drop(world.transmit);
    assert_eq!(api::released().last(), Some(&Kind::Region));

    let world = hardware();
    drop(world.transmit);
    assert_eq!(world.buffer.close().unwrap_err().errno(), libc::EBUSY);
    drop(world.portal);
    assert_eq!(api::released().last(), Some(&Kind::Region));
}

#[test]
fn reports_failed_release_on_close() {
    type Close = fn(World) -> Result<(), Error>;
    let cases: [(Kind, &str, Close); 5] = [
        (Kind::Mapping, "cxil_unmap_pte", |world| world.portal.close()),
        (Kind::Portal, "cxil_destroy_pte", |world| world.portal.close()),
        (Kind::CommandQueue, "cxil_destroy_cmdq", |world| world.transmit.close()),
        (Kind::EventQueue, "cxil_destroy_evtq", |world| {
            drop((world.portal, world.transmit, world.target));
            world.events.close()
        }),
        (Kind::Lni, "cxil_destroy_lni", |world| {
            drop((world.portal, world.transmit, world.target, world.events));
            drop((world.buffer, world.profile, world.domain));
            world.lni.close()
        }),
    ];
    for (kind, call, close) in cases {
        let world = hardware();
        api::fail_release(kind);
        let error = close(world).unwrap_err();
        assert_eq!(error.call(), call);
        assert_eq!(error.errno(), libc::EIO, "{call}");
    }
}

#[test]
fn records_failed_release_on_drop_and_continues() {
    api::reset();
    let library = Library::from_api(api::api());
    let world = World::new(&library).unwrap();
    api::fail_release(Kind::Domain);
    drop(world);
    let error = library.failed_release().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_destroy_domain", libc::EIO));
    // The domain prevents the release of its interface; closing the device releases both.
    assert_eq!(api::live(), [Kind::Lni, Kind::Domain]);
    assert_eq!(api::released().last(), Some(&Kind::Device));
}

#[test]
fn leaks_pages_that_cannot_be_unmapped() {
    for close in [true, false] {
        api::reset();
        let library = Library::from_api(api::api());
        let device = Device::open(&library, 0).unwrap();
        let lni = Lni::new(&device, 1).unwrap();
        let region = MemoryRegion::map(&lni, Pages::anonymous(4096).unwrap(), 0).unwrap();
        let address = api::region_address();
        api::fail_release(Kind::Region);
        if close {
            assert_eq!(region.close().unwrap_err().call(), "cxil_unmap");
        } else {
            drop(region);
            assert_eq!(library.failed_release().unwrap().call(), "cxil_unmap");
        }
        assert!(api::is_mapped(address));
    }
}
