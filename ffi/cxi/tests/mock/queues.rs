//! Queues, memory and devices through the public interface.

use cxi::records::{
    CStateCmd, DmaAmoCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, NomatchDmaCmd, SetStateCmd, TargetCmd,
};
use cxi::sys::*;
use cxi::{
    Device, EmitError, EventType, IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, Library, ReturnCode,
    ServiceMember, TransmitBatch, TransmitQueue, devices,
};

use crate::{World, api, hardware};

fn c_state(world: &World, restricted: bool) -> CStateCmd {
    let mut command = CStateCmd::new();
    command.set_event_send_disable(true);
    command.set_restricted(restricted);
    command.set_eq(world.events.number());
    command
}

fn put(world: &World) -> NomatchDmaCmd {
    let mut command = NomatchDmaCmd::new();
    command.set_opcode(C_CMD_NOMATCH_PUT as u8);
    command.set_event_send_disable(true);
    command.set_eq(world.events.number());
    command
}

#[test]
fn takes_size_from_library_and_initialises_status() {
    let world = hardware();
    assert_eq!(world.transmit.slots(), 64);
    assert_eq!(world.transmit.status().rd_ptr(), 4);
    assert_eq!(ReturnCode(world.transmit.status().return_code()), ReturnCode::OK);
    assert_eq!(api::status_word(0), 4 | 1 << 48);
}

#[test]
fn stores_to_doorbell_or_low_latency_window() {
    let mut world = hardware();
    let command = put(&world);
    let mut batch = world.transmit.batch();
    batch.emit_nomatch_dma(&command).unwrap();
    batch.commit_doorbell();
    assert_eq!(api::launch_word(0, 0), 5);
    assert_eq!(api::launch_word(0, 1024 + 256), 0);

    let mut batch = world.transmit.batch();
    batch.emit_nomatch_dma(&command).unwrap();
    batch.commit_low_latency();
    assert_eq!(api::launch_word(0, 0), 5);
    assert_eq!(api::launch_word(0, 1024 + 320), api::ring_word(0, 320));
    assert_eq!(api::ring_word(0, 320) as u8, 0x81);
}

#[test]
fn stores_two_slots_to_windows_of_two_slots() {
    let mut world = hardware();
    let c_state = c_state(&world, true);
    let mut batch = world.transmit.batch();
    batch.emit_idc_put(&IdcHdr::new(), &[1; 112]).unwrap_err();
    batch.emit_c_state(&c_state).unwrap();
    batch.commit_doorbell();
    // Slots 6 and 7 after padding in slot 5; then slots 8 and 9.
    for (window, slot) in [(3072, 6), (2048, 8)] {
        let mut batch = world.transmit.batch();
        batch.emit_idc_put(&IdcHdr::new(), &[1; 112]).unwrap();
        batch.commit_low_latency();
        for offset in (0..128).step_by(8) {
            assert_eq!(
                api::launch_word(0, window + slot * 64 + offset),
                api::ring_word(0, slot * 64 + offset)
            );
        }
        assert_eq!(api::ring_word(0, slot * 64) as u16, 0x8018);
    }
    assert_eq!(api::launch_word(0, 0), 5);
}

#[test]
fn discards_dropped_batch() {
    let mut world = hardware();
    let command = put(&world);
    let c_state = c_state(&world, true);
    let mut batch = world.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.emit_nomatch_dma(&command).unwrap();
    drop(batch);
    world.transmit.batch().commit_doorbell();
    assert_eq!(api::launch_word(0, 0), 0);
    // Its C_STATE is not in force, and its events reserve no room.
    let capacity = world.events.capacity();
    let mut batch = world.transmit.batch();
    let refused = batch.emit_idc_put(&IdcHdr::new(), &[]);
    assert_eq!(refused, Err(EmitError::NoCState));
    for _ in 0..capacity {
        batch.emit_nomatch_dma(&command).unwrap();
    }
}

#[test]
fn limits_immediate_data_by_c_state() {
    let mut world = hardware();
    for (restricted, limit) in [(true, IDC_MAX_RESTRICTED), (false, IDC_MAX_UNRESTRICTED)] {
        let c_state = c_state(&world, restricted);
        let mut batch = world.transmit.batch();
        batch.emit_c_state(&c_state).unwrap();
        batch.commit_doorbell();
        let mut batch = world.transmit.batch();
        batch.emit_idc_put(&IdcHdr::new(), &vec![1; limit]).unwrap();
        let length = limit + 1;
        assert_eq!(
            batch.emit_idc_put(&IdcHdr::new(), &vec![1; length]),
            Err(EmitError::PayloadTooLong { length, limit })
        );
    }
}

#[test]
fn writes_payload_after_header() {
    let mut world = hardware();
    let c_state = c_state(&world, true);
    let mut batch = world.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.emit_idc_put(&IdcHdr::new(), &[0x11; 8]).unwrap();
    batch.commit_doorbell();
    assert_eq!(api::ring_word(0, 9 * 32) as u16, 0x1810);
    assert_eq!(api::ring_word(0, 9 * 32 + 16), 0x1111_1111_1111_1111);
}

#[test]
fn limits_operations_in_flight_by_event_queue() {
    let mut world = hardware();
    // The slots of 4 KiB without the status slot, the gap and a partly consumed slot.
    assert_eq!(world.events.capacity(), 61);
    let command = put(&world);
    let mut batch = world.transmit.batch();
    for _ in 0..61 {
        batch.emit_nomatch_dma(&command).unwrap();
    }
    assert_eq!(batch.emit_nomatch_dma(&command), Err(EmitError::EventQueueFull));
    batch.commit_doorbell();
    let emit = |world: &mut World| world.transmit.batch().emit_nomatch_dma(&command);
    assert_eq!(emit(&mut world), Err(EmitError::EventQueueFull));

    // LINK releases no room; ACK releases room when it is acknowledged.
    api::deliver(C_EVENT_LINK);
    api::deliver(C_EVENT_ACK);
    assert_eq!(world.events.poll().unwrap().event_type(), EventType::LINK);
    world.events.acknowledge();
    assert_eq!(emit(&mut world), Err(EmitError::EventQueueFull));
    assert_eq!(world.events.poll().unwrap().event_type(), EventType::ACK);
    assert_eq!(emit(&mut world), Err(EmitError::EventQueueFull));
    world.events.acknowledge();
    assert_eq!(emit(&mut world), Ok(()));

    // A second acknowledgement releases no more room.
    world.events.acknowledge();
    let mut batch = world.transmit.batch();
    assert_eq!(batch.emit_nomatch_dma(&command), Ok(()));
    assert_eq!(batch.emit_nomatch_dma(&command), Err(EmitError::EventQueueFull));
}

#[test]
fn reserves_room_for_send_event() {
    let mut world = hardware();
    let mut command = put(&world);
    command.set_event_send_disable(false);
    let mut batch = world.transmit.batch();
    for _ in 0..30 {
        batch.emit_nomatch_dma(&command).unwrap();
    }
    assert_eq!(batch.emit_nomatch_dma(&command), Err(EmitError::EventQueueFull));
}

#[test]
fn applies_c_state_and_event_limits_to_atomics() {
    let mut world = hardware();
    let c_state = c_state(&world, true);
    let immediate = IdcAmoCmd::new();
    let mut dma = DmaAmoCmd::new();
    dma.set_event_send_disable(true);
    dma.set_eq(world.events.number());
    let mut elsewhere = dma;
    elsewhere.set_eq(world.events.number() + 1);
    let mut batch = world.transmit.batch();
    let refused = batch.emit_idc_amo(&immediate, false);
    assert_eq!(refused, Err(EmitError::NoCState));
    let refused = batch.emit_dma_amo(&elsewhere, false);
    assert_eq!(refused, Err(EmitError::OtherEventQueue));
    batch.emit_c_state(&c_state).unwrap();
    // Operations of both kinds and forms until the event queue is full.
    for fetching in [false, true].into_iter().cycle().take(10) {
        batch.emit_dma_amo(&dma, fetching).unwrap();
    }
    for at in 0..51 {
        batch.emit_idc_amo(&immediate, at >= 41).unwrap();
    }
    let refused = batch.emit_idc_amo(&immediate, false);
    assert_eq!(refused, Err(EmitError::EventQueueFull));
    let refused = batch.emit_dma_amo(&dma, true);
    assert_eq!(refused, Err(EmitError::EventQueueFull));
}

#[test]
fn reserves_no_room_without_success_event() {
    let mut world = hardware();
    let mut failures_only = put(&world);
    failures_only.set_event_success_disable(true);
    let mut elsewhere = put(&world);
    elsewhere.set_eq(world.events.number() + 1);
    let mut nowhere = put(&world);
    nowhere.set_eq(C_EQ_NONE as u16);
    let mut batch = world.transmit.batch();
    assert_eq!(batch.emit_nomatch_dma(&elsewhere), Err(EmitError::OtherEventQueue));
    for _ in 0..50 {
        batch.emit_nomatch_dma(&failures_only).unwrap();
        batch.emit_nomatch_dma(&nowhere).unwrap();
    }
}

#[test]
fn refuses_commands_when_queue_is_full() {
    let mut world = hardware();
    let mut batch = world.target.batch();
    for _ in 0..59 {
        batch.emit_target(&TargetCmd::new()).unwrap();
    }
    assert_eq!(batch.emit_set_state(&SetStateCmd::new()), Err(EmitError::QueueFull));
    batch.commit_doorbell();
    assert_eq!(api::launch_word(1, 0), 63);
}

#[test]
fn runs_software_nic_after_commit_and_on_empty_poll() {
    api::reset();
    let mut world = World::new(&Library::from_api(api::api_with_progress())).unwrap();
    world.transmit.batch().commit_doorbell();
    world.transmit.batch().commit_low_latency();
    world.target.batch().commit_doorbell();
    assert_eq!(api::progress_calls(), 3);
    assert!(world.events.poll().is_none());
    assert_eq!(api::progress_calls(), 4);
    // The same poll returns an event that the hook delivers.
    api::on_progress(|| api::deliver(C_EVENT_ACK));
    assert!(world.events.poll().is_some());
    assert_eq!(api::progress_calls(), 5);
    // A poll that finds an event does not call the hook.
    api::deliver(C_EVENT_ACK);
    assert!(world.events.poll().is_some());
    assert_eq!(api::progress_calls(), 5);
}

#[test]
fn computes_iova_from_start_of_mapping() {
    let world = hardware();
    assert_eq!(world.buffer.iova(0), api::IOVA);
    assert_eq!(world.buffer.iova(8), api::IOVA + 8);
    assert_eq!(world.buffer.lac(), 5);
}

#[test]
fn fills_and_copies_memory() {
    let world = hardware();
    world.buffer.fill(0xa5).unwrap();
    world.buffer.copy_in(3, b"words and bytes").unwrap();
    let mut bytes = [0; 17];
    world.buffer.copy_out(2, &mut bytes).unwrap();
    assert_eq!(&bytes, b"\xa5words and bytes\xa5");
    let mut last = [0];
    world.buffer.copy_out(world.buffer.len() - 1, &mut last).unwrap();
    assert_eq!(last, [0xa5]);
}

#[test]
#[should_panic(expected = "exceed the region")]
fn panics_on_copy_beyond_region() {
    let world = hardware();
    world.buffer.copy_out(world.buffer.len() - 1, &mut [0; 2]).unwrap();
}

#[test]
fn reads_device_information() {
    api::reset();
    let library = Library::from_api(api::api());
    let device = Device::open(&library, 1).unwrap();
    let info = device.info();
    assert_eq!((info.name.as_str(), info.nid), ("mock1", 0x12346));
    assert_eq!((info.pid_bits, info.pid_granule), (9, 256));
    assert!(info.link_up);
    let list = devices(&library).unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[1], *info);
}

#[test]
fn reads_members_and_vnis_of_service() {
    let world = hardware();
    let service = world.device.service(1).unwrap();
    assert!(service.enabled && service.restricted_vnis && service.restricted_members);
    assert_eq!(service.vnis, [1, 10]);
    assert_eq!(service.members, [ServiceMember::User(1000)]);
    assert_eq!(service.vni_range(), Ok(None));
    let ranged = world.device.service(2).unwrap();
    assert!(!ranged.restricted_vnis);
    assert_eq!(ranged.vni_range(), Ok(Some(64..=127)));
    let error = world.device.service(3).err().unwrap();
    assert_eq!((error.call(), error.errno()), ("cxil_get_svc", libc::EINVAL));
}

#[test]
fn names_symbol_node_of_missing_function() {
    let lacking = Api { cxil_get_svc: None, ..api::api() };
    let device = Device::open(&Library::from_api(lacking), 0).unwrap();
    let error = device.service(1).unwrap_err();
    assert_eq!(error.errno(), libc::ENOSYS);
    assert_eq!(
        error.to_string(),
        "cxil_get_svc: this libcxi lacks the function, which libcxi has since symbol node \
         LIBCXI_1.2"
    );
    device.close().unwrap();
    let lacking = Api { cxil_svc_get_vni_range: None, ..api::api() };
    let device = Device::open(&Library::from_api(lacking), 0).unwrap();
    let error = device.service(2).unwrap().vni_range().unwrap_err();
    assert_eq!(error.call(), "cxil_svc_get_vni_range");
    device.close().unwrap();
}

/// Each prepared command has the bytes, the events and the refusals of the emitted one.
#[test]
fn issues_prepared_commands_as_emitted_ones() {
    let mut world = hardware();
    let (put, mut full) = (put(&world), FullDmaCmd::new());
    full.set_opcode(C_CMD_PUT as u8).set_eq(world.events.number());
    let mut amo = DmaAmoCmd::new();
    amo.set_atomic_type(C_AMO_TYPE_DOUBLE_COMPLEX_T as u8);
    let context = c_state(&world, true);
    let queue = &mut world.transmit;
    assert_eq!(queue.prepare_idc_put::<4>(&IdcHdr::new(), &[]).unwrap_err(), EmitError::NoCState);
    let mut batch = queue.batch();
    batch.emit_c_state(&context).unwrap();
    batch.commit_doorbell();

    // Slot 5 is followed by one slot each, then by two slots each from an even one.
    let small = queue.prepare_nomatch_dma(&put).unwrap();
    let whole = queue.prepare_dma(&full).unwrap();
    let atomic = queue.prepare_dma_amo(&amo, true).unwrap();
    let immediate = queue.prepare_idc_put(&IdcHdr::new(), &[7; 112]).unwrap();
    queue.issue_doorbell(&small).unwrap();
    assert_eq!(api::launch_word(0, 0), 6);
    queue.issue_low_latency(&whole).unwrap();
    queue.issue_low_latency::<16>(&atomic).unwrap();
    queue.issue_low_latency::<16>(&immediate).unwrap();
    assert_eq!(api::launch_word(0, 0), 6);
    let issued: Vec<_> = (320..12 * 64).step_by(8).map(|at| api::ring_word(0, at)).collect();

    let mut world = hardware();
    let queue = &mut world.transmit;
    for emit in [
        &(|batch: &mut TransmitBatch<'_>| batch.emit_c_state(&context))
            as &dyn Fn(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
        &|batch| batch.emit_nomatch_dma(&put),
        &|batch| batch.emit_dma(&full),
        &|batch| batch.emit_dma_amo(&amo, true),
        &|batch| batch.emit_idc_put(&IdcHdr::new(), &[7; 112]),
    ] {
        let mut batch = queue.batch();
        emit(&mut batch).unwrap();
        batch.commit_doorbell();
    }
    let emitted: Vec<_> = (320..12 * 64).step_by(8).map(|at| api::ring_word(0, at)).collect();
    assert_eq!(issued, emitted);
}

#[test]
fn refuses_commands_prepared_for_another_queue_or_context() {
    let mut world = hardware();
    let mut command = put(&world);
    let prepared = world.transmit.prepare_nomatch_dma(&command).unwrap();
    let mut other = TransmitQueue::new(&world.profile, 1, &world.events, None).unwrap();
    assert_eq!(other.issue_doorbell(&prepared), Err(EmitError::Outdated));
    assert_eq!(other.issue_low_latency(&prepared), Err(EmitError::Outdated));
    world.transmit.issue_doorbell(&prepared).unwrap();

    let context = c_state(&world, false);
    // A batch that is dropped changes nothing.
    world.transmit.batch().emit_c_state(&context).unwrap();
    world.transmit.issue_doorbell(&prepared).unwrap();
    let mut batch = world.transmit.batch();
    batch.emit_c_state(&context).unwrap();
    batch.commit_doorbell();
    assert_eq!(world.transmit.issue_doorbell(&prepared), Err(EmitError::Outdated));

    let queue = &world.transmit;
    assert_eq!(
        queue.prepare_idc_put::<4>(&IdcHdr::new(), &[0; 17]).unwrap_err(),
        EmitError::OtherSize { words: 8 }
    );
    assert_eq!(
        queue.prepare_idc_put::<32>(&IdcHdr::new(), &[0; IDC_MAX_UNRESTRICTED + 1]).unwrap_err(),
        EmitError::PayloadTooLong { length: IDC_MAX_UNRESTRICTED + 1, limit: IDC_MAX_UNRESTRICTED }
    );
    assert_eq!(
        queue.prepare_idc_amo::<4>(&IdcAmoCmd::new(), true).unwrap_err(),
        EmitError::OtherSize { words: 8 }
    );
    command.set_eq(world.events.number() + 1);
    assert_eq!(queue.prepare_nomatch_dma(&command).unwrap_err(), EmitError::OtherEventQueue);
}

#[test]
fn prepared_commands_reserve_room_for_their_events() {
    let mut world = hardware();
    let prepared = world.transmit.prepare_nomatch_dma(&put(&world)).unwrap();
    for issued in 0..world.events.capacity() {
        // The NIC has read all commands.
        api::set_read_pointer(0, 4 + issued % 60);
        world.transmit.issue_low_latency(&prepared).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(world.transmit.issue_doorbell(&prepared), Err(EmitError::EventQueueFull));
        api::deliver(C_EVENT_ACK);
        world.events.poll().unwrap();
        world.events.acknowledge();
        world.transmit.issue_doorbell(&prepared).unwrap();
    }
}

#[test]
fn refuses_prepared_command_without_room_in_queue() {
    let mut world = hardware();
    let mut command = put(&world);
    command.set_eq(C_EQ_NONE as u16);
    let prepared = world.transmit.prepare_nomatch_dma(&command).unwrap();
    for _ in 0..59 {
        world.transmit.issue_doorbell(&prepared).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(world.transmit.issue_low_latency(&prepared), Err(EmitError::QueueFull));
    }
    api::set_read_pointer(0, 5);
    world.transmit.issue_low_latency(&prepared).unwrap();
}
