//! What observers see of the objects of an interface.

use cxi::ObjectState::{self, CommandQueue, EventQueue, Portal};
use cxi::QueueKind;
use cxi::records::NomatchDmaCmd;
use cxi::sys::{C_CMD_NOMATCH_PUT, C_PTLTE_DISABLED, C_RC_PERM_VIOLATION};

use crate::{api, hardware};

/// Returns the kinds, next slots and written slots of the command queues.
fn command_queues(states: &[ObjectState]) -> Vec<(QueueKind, u16, u32)> {
    let queues = states.iter().filter_map(|state| match state {
        CommandQueue { kind, status, written } => Some((*kind, status.rd_ptr(), *written)),
        EventQueue { .. } | Portal { .. } => None,
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
        states
            .any(|state| matches!(state, EventQueue { has_dropped, .. } if *has_dropped == dropped))
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
