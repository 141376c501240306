//! LCID and FENCE commands.

use cxi::sys::*;
use cxi::{CommunicationProfile, Domain, PortalTableEntry};

use crate::rig::{LEN, PLAIN, Rig, code, next, nomatch};

#[test]
fn switches_profile_of_queue() {
    let mut rig = Rig::new();
    let (first, second) = (1, 10);
    let make = |vni, tc_type| {
        CommunicationProfile::new(&rig.lni, vni, CXI_TC_BEST_EFFORT, tc_type).unwrap()
    };
    let here = &rig.profile;
    let there = make(second, CXI_TC_TYPE_DEFAULT);
    let hrp = make(first, CXI_TC_TYPE_HRP);
    assert_eq!([here.lcid(), there.lcid(), hrp.lcid()], [0, 1, 2]);
    // Another portals table entry at the same PID and portal index on the other VNI, not enabled.
    let domain = Domain::new(&rig.lni, second, rig.domain.pid()).unwrap();
    let mut portal = PortalTableEntry::new(&rig.lni, &rig.target_events, false).unwrap();
    portal.map(&domain, PLAIN).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    // High-rate puts are restricted.
    let mut put = nomatch(&rig.dma(C_CMD_NOMATCH_PUT, PLAIN, 8));
    put.set_restricted(true);
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
    // More switches than the ring has slots, by doorbell and low-latency window.
    for round in 0..20 {
        for (profile, expected) in profiles {
            let mut batch = rig.transmit.batch();
            batch.emit_lcid(profile).unwrap();
            batch.emit_nomatch_dma(&put).unwrap();
            // The switch keeps the C_STATE.
            batch.emit_idc_put(&header, &[1; 8]).unwrap();
            match round % 2 {
                0 => batch.commit_doorbell(),
                _ => batch.commit_low_latency(),
            }
            for _ in 0..2 {
                assert_eq!(next(&mut rig.events, code), expected, "round {round}");
            }
            // Later batches use the same profile.
            let mut batch = rig.transmit.batch();
            batch.emit_nomatch_dma(&put).unwrap();
            batch.commit_low_latency();
            assert_eq!(next(&mut rig.events, code), expected);
        }
    }
}

#[test]
fn refuses_operations_that_cannot_be_high_rate_puts() {
    let mut rig = Rig::new();
    let profile =
        CommunicationProfile::new(&rig.lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_HRP).unwrap();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let mut batch = rig.transmit.batch();
    batch.emit_lcid(&profile).unwrap();
    batch.commit_doorbell();
    for (opcode, restricted, length, expected) in [
        (C_CMD_NOMATCH_PUT, true, 2048, "OK"),
        (C_CMD_NOMATCH_PUT, true, 2049, "HRP_CONFIG_ERROR"),
        (C_CMD_NOMATCH_PUT, false, 8, "HRP_CONFIG_ERROR"),
        (C_CMD_NOMATCH_GET, true, 8, "HRP_CONFIG_ERROR"),
    ] {
        let mut command = nomatch(&rig.dma(opcode, PLAIN, length));
        command.set_restricted(restricted);
        let mut batch = rig.transmit.batch();
        batch.emit_nomatch_dma(&command).unwrap();
        batch.commit_doorbell();
        assert_eq!(next(&mut rig.events, code), expected, "{opcode} {length}");
    }
}

/// A command that the local NIC refuses completes at once, unless a fence delays it.
#[test]
fn keeps_order_of_completions_across_fence() {
    let mut rig = Rig::new();
    let entry = rig.entry(rig.plain.number());
    rig.append(&entry);
    let long = rig.dma(C_CMD_PUT, PLAIN, LEN as u32);
    let mut refused = rig.dma(C_CMD_PUT, PLAIN, 8);
    refused.set_local_addr(1 << 50);
    for (fence, expected) in [(false, ["NO_TRANSLATION", "OK"]), (true, ["OK", "NO_TRANSLATION"])] {
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
