//! The standard load on a large fabric.

use super::conductor::LoadConductor;
use super::testing::{all, fabric, results, setup};

/// Most time of the slots of the standard load, in seconds.
const MOST_SECONDS: f64 = 300.0;

#[test]
fn standard_load_of_two_thousand_nics_is_short_and_takes_one_block_at_a_time() {
    assert_is_short([18, 32, 4, 1], 2304);
}

#[test]
#[ignore = "needs half a minute of CPU time: tests/long runs it"]
fn standard_load_of_ten_thousand_nics_is_short_and_takes_one_block_at_a_time() {
    assert_is_short([74, 32, 4, 1], 9472);
}

fn assert_is_short(shape: [u16; 4], nics: u32) {
    let roster = fabric(shape);
    let mut load = LoadConductor::new(&roster, all(&roster), setup("standard")).unwrap();
    assert_eq!(load.preview().nics, nics);
    let (mut slots, mut slots_ns, mut most_flows) = (0, 0, 0);
    loop {
        let block = load.next_load_slots();
        let Some(first) = block.first() else {
            break;
        };
        assert!(block.len() as u64 * first.slot_ns <= 2_000_000_000);
        let flows = block.iter().flat_map(|load_slot| &load_slot.flows);
        most_flows = most_flows.max(flows.map(|flow| flow.peers.len()).sum());
        for (slot, load_slot) in (0..).zip(&block) {
            slots += 1;
            slots_ns += load_slot.slot_ns;
            load.add(load_slot, &results(load_slot, slot, |_| 1e9));
        }
    }
    let findings = load.findings();
    assert_eq!(findings.settings.most_aggressors, nics);
    assert_eq!((findings.aborted, findings.left_out), (None, Vec::new()));
    let seconds = slots_ns as f64 / 1e9;
    println!("{slots} slots, {seconds} s of slots, {most_flows} flows in a block at most");
    assert!(seconds <= MOST_SECONDS, "{seconds}");
    // Eight load slots in which each NIC sends to eight others.
    assert!(most_flows <= 8 * 8 * nics as usize, "{most_flows}");
}
