//! What checks of the NIC need beside ordinary programs: calls with any arguments, commands as
//! bytes, portals with options.

use cxi::attempt::{self, EventQueuePages, MemoryRights};
use cxi::records::{CqCmd, FullDmaCmd};
use cxi::sys::*;
use cxi::{Error, EventQueue, EventType, PortalTableEntry};

use crate::rig::{LEN, PLAIN, Rig, next, pattern};

fn errno<T>(result: Result<T, Error>) -> i32 {
    result.err().expect("a refused call").errno()
}

const OPTIONS: cxi_cq_alloc_opts = cxi_cq_alloc_opts {
    count: 65,
    policy: CXI_CQ_UPDATE_ALWAYS,
    stat_cnt_pool: 0,
    flags: CXI_CQ_IS_TX,
    lcid: 0,
    lpe_cdt_thresh_id: 0,
};

/// The attributes of an event queue of one page.
fn attributes() -> cxi_eq_attr {
    cxi_eq_attr {
        queue: std::ptr::null_mut(),
        queue_len: cxi::page_size(),
        flags: 0,
        status_thresh_base: 0,
        status_thresh_delta: 0,
        status_thresh_count: 0,
        ec_delay: 0,
        cpu_affinity: 0,
        reserved_slots: 0,
    }
}

const PAGES: EventQueuePages =
    EventQueuePages { memory: 1, mapped: 1, is_writable: true, offset: 0 };

#[test]
fn attempts_return_errors_and_leave_nothing() {
    // A NIC of its own: other tests use resources of the first one meanwhile.
    let rig = Rig::on(1, CXI_EQ_EC_DISABLE);
    let in_use = || rig.device.in_use(CXI_DEFAULT_SVC_ID).unwrap();
    let before = in_use();
    let lni = &rig.lni;
    let queue =
        |options: cxi_cq_alloc_opts| attempt::command_queue(lni, Some(&rig.events), &options);
    assert_eq!(queue(OPTIONS).unwrap() * 64, 2 * cxi::page_size() as u32);
    assert_eq!(errno(queue(cxi_cq_alloc_opts { policy: 4, ..OPTIONS })), libc::EINVAL);
    assert!(attempt::event_queue(lni, PAGES, &attributes()).unwrap());
    let unmapped = EventQueuePages { mapped: 0, ..PAGES };
    assert_eq!(errno(attempt::event_queue(lni, unmapped, &attributes())), libc::EINVAL);
    attempt::counter(lni, 16).unwrap();
    assert_eq!(errno(attempt::counter(lni, 12)), libc::EINVAL);
    let rights = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
    let mapped = attempt::map(lni, MemoryRights::ReadWrite, 100, 8, rights).unwrap();
    assert_eq!((mapped.before, mapped.len), (100, cxi::page_size()));
    assert_eq!(errno(attempt::map(lni, MemoryRights::Read, 0, 8, rights)), libc::EINVAL);
    assert_eq!(errno(attempt::map(lni, MemoryRights::Nothing, 0, 8, rights)), libc::EFAULT);
    // What was destroyed counts until its interface ends (libcxi.md 10); nothing else counts.
    let mut expected = before;
    for kind in [1, 3, 4] {
        let count = &mut expected.as_mut().unwrap()[kind];
        *count = count.map(|count| count + 1);
    }
    assert_eq!(in_use(), expected);
    assert_eq!(rig.library.failed_release(), None);
}

#[test]
#[should_panic(expected = "the queue exceeds its memory")]
fn attempt_refuses_queue_beyond_its_memory() {
    let rig = Rig::new();
    let attributes = cxi_eq_attr { queue_len: 2 * cxi::page_size(), ..attributes() };
    let _ = attempt::event_queue(&rig.lni, PAGES, &attributes);
}

#[test]
fn executes_commands_given_as_bytes() {
    let mut rig = Rig::new();
    rig.append(&rig.entry(rig.plain.number()));
    let sent = pattern(LEN);
    rig.local.copy_in(0, &sent).unwrap();
    let mut put = rig.dma(C_CMD_PUT, PLAIN, 100);
    put.set_cmd_type(C_CMD_TYPE_DMA as u8).set_cmd_size(C_CMD_SIZE_64B as u8);
    let mut batch = rig.transmit.batch();
    batch.emit_bytes(put.bytes()).unwrap();
    assert_eq!(batch.bytes(), put.bytes());
    batch.commit_doorbell();
    assert_eq!(rig.completion().code, "OK");
    assert_eq!(Rig::bytes_of(&rig.remote, 0, 100), sent[..100]);
}

/// The bytes are those between the write pointer and the end of the batch, around the ring.
#[test]
fn shows_bytes_of_batch_with_padding() {
    let mut rig = Rig::new();
    rig.append(&rig.entry(rig.plain.number()));
    let put = rig.dma(C_CMD_PUT, PLAIN, 8);
    let mut nomatch = crate::rig::nomatch(&put);
    nomatch.set_opcode(C_CMD_NOMATCH_PUT as u8).set_restricted(true);
    for _ in 0..100 {
        let mut batch = rig.transmit.batch();
        batch.emit_nomatch_dma(&nomatch).unwrap();
        batch.emit_dma(&put).unwrap();
        let bytes = batch.bytes();
        // 32 bytes, 32 bytes of padding whose first word is 0, 64 bytes.
        assert_eq!(bytes.len(), 128);
        assert_eq!((bytes[0], &bytes[32..40]), (0x81, &[0; 8][..]));
        assert_eq!(bytes[65..], put.bytes()[1..]);
        batch.commit_doorbell();
        for _ in 0..2 {
            assert_eq!(rig.completion().code, "OK");
        }
    }
    let entry = rig.entry(1);
    let mut batch = rig.commands.batch();
    batch.emit_target(&entry).unwrap();
    assert_eq!(batch.bytes().len(), 64);
}

#[test]
fn reports_refused_bytes_in_status() {
    let rig = Rig::new();
    let mut failures = EventQueue::new(&rig.lni, 8, CXI_EQ_EC_DISABLE.into()).unwrap();
    let mut queue = cxi::TargetQueue::new(&rig.lni, 64, Some(&failures)).unwrap();
    let mut command = CqCmd::new();
    command.set_cmd_type(C_CMD_TYPE_CQ as u8).set_cmd_size(C_CMD_SIZE_64B as u8).set_opcode(15);
    let mut batch = queue.batch();
    batch.emit_bytes(command.bytes()).unwrap();
    batch.commit_doorbell();
    let kind = next(&mut failures, |event| event.event_type());
    assert_eq!(kind, EventType::COMMAND_FAILURE);
    assert_eq!(queue.status().fail_command(), command.bytes()[0]);
}

#[test]
#[should_panic(expected = "a command of 63 bytes")]
fn refuses_bytes_of_no_command() {
    let mut rig = Rig::new();
    let _ = rig.transmit.batch().emit_bytes(&[0; FullDmaCmd::SIZE - 1]);
}

/// With flow control the NIC disables a portal that has no entry for a message.
#[test]
fn portals_have_the_options_that_are_set() {
    let mut rig = Rig::new();
    let entry = PortalTableEntry::with_options(&rig.lni, &rig.target_events, |options| {
        options.set_en_flowctrl(1);
    });
    let mut entry = entry.unwrap();
    entry.map(&rig.domain, 64).unwrap();
    rig.set_state(entry.number(), C_PTLTE_ENABLED);
    let put = rig.dma(C_CMD_PUT, 64, 8);
    assert_eq!(rig.run(&put).code, "PT_DISABLED");
    let kind = next(&mut rig.target_events, |event| event.event_type());
    assert_eq!(kind, EventType::STATE_CHANGE);
}

#[test]
fn event_queue_reserves_slots() {
    let rig = Rig::new();
    let queue = |reserved| EventQueue::with_reserved_slots(&rig.lni, 1, 0, reserved);
    let slots = (cxi::page_size() / 64) as u32;
    assert_eq!(errno(queue(slots)), libc::EINVAL);
    assert!(queue(slots - 1).is_ok());
}
