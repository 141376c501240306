//! Release of all objects, in the required order, on every path, and what observers see of the
//! objects of an interface.

use std::any::Any;

use cxi::ObjectState::{CommandQueue, Portal};
use cxi::records::NomatchDmaCmd;
use cxi::sys::{C_CMD_NOMATCH_PUT, C_PTLTE_DISABLED, C_RC_PERM_VIOLATION};
use cxi::{
    Device, Error, EventQueue, Library, Lni, MemoryRegion, ObjectState, Pages, QueueKind,
    TransmitQueue,
};
use proptest::prelude::*;

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

/// The kinds, next slots and written slots of the command queues.
fn command_queues(states: &[ObjectState]) -> Vec<(QueueKind, u16, u32)> {
    let queues = states.iter().filter_map(|state| match state {
        CommandQueue { kind, status, written } => Some((*kind, status.rd_ptr(), *written)),
        ObjectState::EventQueue { .. } | Portal { .. } => None,
    });
    queues.collect()
}

#[test]
fn sees_what_was_written_and_what_was_fetched() {
    let mut world = hardware();
    let observer = world.lni.observer().clone();
    let mut command = NomatchDmaCmd::new();
    command.set_opcode(C_CMD_NOMATCH_PUT as u8);
    command.set_event_send_disable(true);
    for (launch, written) in [(false, 5), (true, 6)] {
        let mut batch = world.transmit.batch();
        batch.emit_nomatch_dma(&command).unwrap();
        if launch {
            batch.commit_low_latency();
        } else {
            batch.commit_doorbell();
        }
        let found = command_queues(&observer.states());
        let target = (QueueKind::Target, 4, 4);
        assert_eq!(found, [(QueueKind::Transmit, 4, written), target]);
    }
    let prepared = world.transmit.prepare_nomatch_dma(&command).unwrap();
    world.transmit.issue_doorbell(&prepared).unwrap();
    api::set_read_pointer(0, 6);
    let found = command_queues(&observer.states());
    assert_eq!(found[0], (QueueKind::Transmit, 6, 7));
}

#[test]
fn finds_refusal_until_its_queue_is_released() {
    let world = hardware();
    let observer = world.lni.observer().clone();
    assert!(observer.refusal().is_none());
    api::set_status(0, 9, C_RC_PERM_VIOLATION);
    let refusal = observer.refusal();
    assert!(matches!(refusal, Some(CommandQueue { status, .. }) if status.rd_ptr() == 9));
    world.transmit.close().unwrap();
    assert!(observer.refusal().is_none());
    assert_eq!(command_queues(&observer.states()).len(), 1);
}

#[test]
fn sees_event_queues_and_portals() {
    let world = hardware();
    let observer = world.lni.observer().clone();
    let seen = |dropped: bool| {
        let states = observer.states();
        let mut states = states.iter();
        states.any(|state| {
            matches!(state, ObjectState::EventQueue { has_dropped, .. } if *has_dropped == dropped)
        })
    };
    assert!(seen(false));
    api::drop_event();
    assert!(seen(true) && !seen(false));
    let has_portal = || {
        let states = observer.states();
        let mut states = states.iter();
        states.any(|state| {
            matches!(state, Portal { number: 9, state, dropped: 3 }
                if u32::from(*state) == C_PTLTE_DISABLED)
        })
    };
    assert!(has_portal());
    world.portal.close().unwrap();
    assert!(!has_portal());
    drop((world.transmit, world.target, world.events));
    assert!(observer.states().is_empty());
}

/// An observer in another thread never reads the memory of a queue that was released.
#[test]
fn reads_beside_releases_in_another_thread() {
    let world = hardware();
    let observer = world.lni.observer().clone();
    let (begun, begins) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            begun.send(()).expect("the test waits");
            while observer.states().iter().any(|state| matches!(state, CommandQueue { .. })) {}
        });
        begins.recv().expect("the reader begins");
        world.portal.close().unwrap();
        drop((world.transmit, world.target, world.events));
        reader.join().expect("the reader ends");
    });
}
