//! The registers of triggered operations and list entries (nic.md 9.5).

use crate::desk::*;
use crate::driver::prelude::*;

const MOST_IN_USE: u32 = 0x870;
const IN_USE: u32 = 0x850;

fn read<const COUNT: usize>(dev: Dev, csr: u32) -> [u64; COUNT] {
    let mut values = [0; COUNT];
    assert_eq!(call!(cxil_read_csr(dev, csr, values.as_mut_ptr().cast(), 8 * COUNT)), 0);
    values
}

/// Five users of a service with 100 triggered operations post as many as they can, as the test of
/// libfabric does that reads these registers.
#[test]
fn most_triggered_operations_in_use_are_those_of_the_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_TLE, 100, 100);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    let zeros = [0u64; 4];
    assert_eq!(call!(cxil_write_csr(dev, MOST_IN_USE, zeros.as_ptr().cast(), 32)), 0);
    let mut users: Vec<(Rig, Queue, u16)> = (0..5)
        .map(|_| {
            let rig = Rig::with_vni(5, 70);
            let queue = Queue::trigger(rig.dev, rig.lni, rig.eq.handle);
            let counter = Counter::new(rig.lni).number;
            (rig, queue, counter)
        })
        .collect();
    for (_, queue, counter) in &mut users {
        for _ in 0..20 {
            queue.emit(&trig_event(*counter, 0, 1));
        }
        queue.ring();
        queue.drain();
    }
    assert_eq!(read(dev, MOST_IN_USE), [0, 100, 0, 0]);
    assert_eq!(read(dev, IN_USE), [0, 100, 0, 0]);
    assert_eq!(read(dev, 0x508), [100 | 100 << 16 | 100 << 32]);
    assert_eq!(read(dev, 0x520), [100 << 48]);
    // One more fails. The end of a process frees its operations, and the maximum stays.
    let (rig, queue, counter) = &mut users[0];
    queue.emit(&trig_event(*counter, 0, 1));
    queue.ring();
    assert_eq!(rig.eq.wait().kind(), C_EVENT_COMMAND_FAILURE);
    users.truncate(3);
    assert_eq!(read(dev, IN_USE), [0, 60, 0, 0]);
    drop(users);
    assert_eq!((read(dev, IN_USE), read(dev, MOST_IN_USE)), ([0; 4], [0, 100, 0, 0]));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn list_entries_count_in_the_pool_of_the_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_LE, 64, 32);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    let mut rig = Rig::with_vni(5, 70);
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    for _ in 0..3 {
        assert_eq!(rig.append(portal, |entry| whole(entry, &sink)).code(), C_RC_OK);
    }
    let mut expected = [0; 64];
    // RGID 1 begins in element 1; the first service with list entries of its own has pool 1.
    expected[16 + 1] = 3;
    assert_eq!(read(dev, 0x980_0800), expected);
    let limits: [u64; 2] = read(dev, 0x980_0480);
    assert_eq!(limits, [(16384 - 32) << 32, 32 | 64 << 32]);
    drop(rig);
    assert_eq!(read(dev, 0x980_0800), [0; 64]);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

/// libcxi.md 8.3: from RGID modulo 4 on, whatever the numbers of portals are.
#[test]
fn portals_of_an_lni_are_in_elements_in_turn() {
    alone!();
    let Some(dev) = administrator() else { return };
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    // RGIDs 1 and 2.
    let mut rigs = [Rig::new(), Rig::new()];
    for (index, expected) in [[1, 2, 3, 0, 1], [2, 3, 0, 1, 2]].into_iter().enumerate() {
        let rig = &mut rigs[index];
        let sink = rig.buffer(PAGE);
        for (place, element) in expected.into_iter().enumerate() {
            let portal = rig.portal(place as u32, |_| {});
            let before: [u64; 64] = read(dev, 0x980_0800);
            assert_eq!(rig.append(portal, |entry| whole(entry, &sink)).code(), C_RC_OK);
            let mut after: [u64; 64] = read(dev, 0x980_0800);
            after[16 * element] -= 1;
            assert_eq!(after, before, "{index} {place}");
        }
    }
    drop(rigs);
    close(dev);
}
