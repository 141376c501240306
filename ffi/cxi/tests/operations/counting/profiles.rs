//! Profiles switched on a queue, and the fence.

use cxi::sys::*;
use cxi::{CommunicationProfile, Domain, PortalTableEntry, TriggerQueue};

use crate::rig::{LEN, PLAIN, Rig, code, next};

#[test]
fn a_queue_changes_its_profile() {
    let mut rig = Rig::new();
    let (first, second) = (1, 10);
    let make = |vni, tc_type| {
        CommunicationProfile::new(&rig.lni, vni, CXI_TC_BEST_EFFORT, tc_type).unwrap()
    };
    let here = &rig.profile;
    let there = make(second, CXI_TC_TYPE_DEFAULT);
    let hrp = make(first, CXI_TC_TYPE_HRP);
    assert_eq!([here.lcid(), there.lcid(), hrp.lcid()], [0, 1, 2]);
    // The same portal index and PID, on the other VNI: another entry, which nobody serves yet.
    let domain = Domain::new(&rig.lni, second, rig.domain.pid()).unwrap();
    let mut portal = PortalTableEntry::new(&rig.lni, &rig.target_events, false).unwrap();
    portal.map(&domain, PLAIN).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let put = rig.dma(C_CMD_PUT, PLAIN, 8);
    let c_state = rig.c_state(PLAIN, true);
    let mut header = cxi::records::IdcHdr::new();
    header.set_dfa(rig.dfa(PLAIN));
    let mut batch = rig.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.commit_doorbell();
    let profiles = [
        (&rig.profile, "OK"),
        (&there, "PT_DISABLED"),
        (&hrp, "OK"),
        (&there, "PT_DISABLED"),
        (&rig.profile, "OK"),
    ];
    // More often than the ring has slots, by doorbell and by window.
    for round in 0..20 {
        for (profile, expected) in profiles {
            let mut batch = rig.transmit.batch();
            batch.emit_lcid(profile).unwrap();
            batch.emit_dma(&put).unwrap();
            // The context of immediate commands stays.
            batch.emit_idc_put(&header, &[1; 8]).unwrap();
            match round % 2 {
                0 => batch.commit_doorbell(),
                _ => batch.commit_low_latency(),
            }
            for _ in 0..2 {
                assert_eq!(next(&mut rig.events, code), expected, "round {round}");
            }
            // It stays until the next change.
            let mut batch = rig.transmit.batch();
            batch.emit_dma(&put).unwrap();
            batch.commit_low_latency();
            assert_eq!(next(&mut rig.events, code), expected);
        }
    }
}

#[test]
fn trigger_queues_take_lcid_0_only() {
    let rig = Rig::new();
    let make = |for_triggers: bool, vni| {
        let make = match for_triggers {
            true => CommunicationProfile::for_triggers,
            false => CommunicationProfile::new,
        };
        make(&rig.lni, vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)
    };
    let second = make(false, 10).unwrap();
    let error = TriggerQueue::new(&second, 1, &rig.events).err().unwrap();
    assert_eq!(
        (error.call(), error.errno()),
        ("cxil_alloc_cmdq", libc::EINVAL)
    );
    // LCID 0 is there, and is shared; another profile cannot have it.
    let first = make(true, 1).unwrap();
    assert_eq!(first.lcid(), 0);
    TriggerQueue::new(&first, 1, &rig.events).unwrap();
    let error = make(true, 10).err().unwrap();
    assert_eq!(
        (error.call(), error.errno()),
        ("cxil_alloc_trig_cp", libc::ENOSPC)
    );
}

/// A command that our own NIC refuses completes at once, unless a fence holds it up.
#[test]
fn a_fence_keeps_the_order_of_completions() {
    let mut rig = Rig::new();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let long = rig.dma(C_CMD_PUT, PLAIN, LEN as u32);
    let mut refused = rig.dma(C_CMD_PUT, PLAIN, 8);
    refused.set_local_addr(1 << 50);
    for (fence, expected) in [
        (false, ["NO_TRANSLATION", "OK"]),
        (true, ["OK", "NO_TRANSLATION"]),
    ] {
        let mut batch = rig.transmit.batch();
        batch.emit_dma(&long).unwrap();
        if fence {
            batch.emit_fence().unwrap();
        }
        batch.emit_dma(&refused).unwrap();
        batch.commit_doorbell();
        let seen = [rig.completion(), rig.completion()].map(|seen| seen.code);
        assert_eq!(seen, expected);
    }
}
