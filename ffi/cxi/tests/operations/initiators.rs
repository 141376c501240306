//! Two initiators with a device each at one target.

use std::thread::{self, JoinHandle};

use cxi::records::DmaAmoCmd;
use cxi::sys::*;
use cxi::{EventRecord, EventType, ReturnCode};

use crate::rig::*;

const INITIATORS: usize = 2;
const OPERATIONS: u64 = 20_000;

/// Operations of one initiator in flight.
const WINDOW: u64 = 32;

#[test]
fn loses_no_update_of_two_initiators() {
    let mut target = Rig::new();
    let entry = target.entry(target.plain.number());
    target.append(&entry);
    let dfa = target.dfa(PLAIN);
    let initiators = [(); INITIATORS].map(|()| thread::spawn(move || sum(dfa)));
    // This thread runs the engine of the target.
    while !initiators.iter().all(JoinHandle::is_finished) {
        assert!(target.target_events.poll().is_none());
        thread::yield_now();
    }
    let mut seen: Vec<u64> =
        initiators.into_iter().flat_map(|initiator| initiator.join().unwrap()).collect();

    let total = INITIATORS as u64 * OPERATIONS;
    let bytes = Rig::bytes_of(&target.remote, 0, 8);
    assert_eq!(u64::from_le_bytes(bytes.try_into().unwrap()), total);
    // Every value was fetched exactly once.
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..total));
}

/// Adds 1 to the first word of the target `OPERATIONS` times and returns the values fetched.
fn sum(dfa: u32) -> Vec<u64> {
    let mut rig = Rig::new();
    rig.local.copy_in(0, &1_u64.to_le_bytes()).unwrap();
    let mut seen = Vec::new();
    let mut sent = 0;
    // Places for fetched values; each has at most one operation in flight.
    let mut free: Vec<u64> = (0..WINDOW).collect();
    let offset = |place: u64| 64 + 8 * place as usize;
    while (seen.len() as u64) < OPERATIONS {
        let mut batch = rig.transmit.batch();
        while sent < OPERATIONS
            && let Some(&place) = free.last()
        {
            let mut command = DmaAmoCmd::new();
            command
                .set_event_send_disable(true)
                .set_eq(rig.events.number())
                .set_user_ptr(place)
                .set_dfa(dfa)
                .set_lac(rig.local.lac())
                .set_local_read_addr(rig.local.iova(0))
                .set_write_lac(rig.local.lac())
                .set_local_write_addr(rig.local.iova(offset(place)))
                .set_atomic_op(C_AMO_OP_SUM as u8)
                .set_atomic_type(C_AMO_TYPE_UINT64_T as u8);
            if batch.emit_dma_amo(&command, true).is_err() {
                break;
            }
            free.pop();
            sent += 1;
        }
        batch.commit_doorbell();
        let place = next(&mut rig.events, |event| {
            let outcome = (event.event_type(), event.return_code());
            assert_eq!(outcome, (EventType::REPLY, ReturnCode::OK));
            match event.record() {
                EventRecord::InitiatorShort(record) => record.user_ptr(),
                _ => panic!("{event:?}"),
            }
        });
        let bytes = Rig::bytes_of(&rig.local, offset(place), 8);
        seen.push(u64::from_le_bytes(bytes.try_into().unwrap()));
        free.push(place);
    }
    seen
}
