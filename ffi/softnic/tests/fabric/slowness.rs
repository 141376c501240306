//! Faults that make packets slower. A packet is not delivered before its time, so the least time of
//! some operations follows from the fault; how much longer they take depends on the machine.

use crate::driver::prelude::*;
use std::time::{Duration, Instant};

const READS: &str = "parbs_tarb_pi_non_posted_pkts";
const WRITES_BLOCKED: &str = "parbs_tarb_pi_posted_blocked_cnt";
const READS_BLOCKED: &str = "parbs_tarb_pi_non_posted_blocked_cnt";

/// Puts from NIC 0, which has no fault, to NIC 1, and returns the time that they take.
fn puts_to_other_nic() -> Duration {
    const PUTS: usize = 16;
    const LEN: usize = 64 << 10;
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (rig.buffer(PUTS * LEN), target.buffer(PUTS * LEN));
    target.target(0, &sink);
    let dfa = target.dfa(0);
    for at in 0..PUTS * LEN {
        source.pages.write(at, &[(at / 2048 % 251) as u8]);
    }
    let begin = Instant::now();
    for number in 0..PUTS {
        let at = number * LEN;
        let put = rig.dma_put(&source, at, LEN as u32, |put| {
            _ = put.set_dfa(dfa).set_remote_offset(at as u64)
        });
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    for _ in 0..PUTS {
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
    }
    let took = begin.elapsed();
    assert!(source.pages.read(0, PUTS * LEN) == sink.pages.read(0, PUTS * LEN));
    took
}

/// The sender is not slower: with and without a model of its own it sends more than there is room
/// for before the receiver takes it.
#[test]
fn receives_at_given_bandwidth() {
    alone!();
    set("CXIDIAG_FAULTS", "nic=1,rx-bandwidth=20MB/s");
    for link in ["", "nic=0,latency=1ms"] {
        set("CXIDIAG_LINK", link);
        // 512 packets of 2112 bytes.
        assert!(puts_to_other_nic() >= Duration::from_micros(54_067), "{link}");
    }
}

#[test]
fn reads_of_host_memory_take_time() {
    alone!();
    const TIME: Duration = Duration::from_millis(5);
    set("CXIDIAG_FAULTS", "host-read=5ms");
    let (mut rig, source, _) = Rig::with_target();
    let dma = rig.dma_put(&source, 0, 4096, |_| {});
    let begin = Instant::now();
    for _ in 0..4 {
        assert_eq!(rig.code(&dma), C_RC_OK);
    }
    assert!(begin.elapsed() >= 4 * TIME);
    let reads = |rig: &Rig| [READS, READS_BLOCKED].map(|name| counter(rig.dev, name));
    // Cycles of the clock of Cassini 2, 1.1 GHz (health.md 1.2).
    let time = TIME.as_nanos() as u64 * 11 / 10;
    assert_eq!(reads(&rig), [4, 4 * time]);
    // The NIC has the data of an immediate put.
    let eq = rig.eq.number;
    rig.tx.issue(&c_state(eq, false, |_| {}));
    let immediate = idc_put(rig.dfa(0), 0, &[1; 8]);
    assert_eq!(rig.code(&immediate), C_RC_OK);
    assert_eq!(reads(&rig), [4, 4 * time]);
}

#[test]
fn target_of_get_reads_host_memory() {
    alone!();
    set("CXIDIAG_FAULTS", "nic=1,host-read=20ms");
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (target.buffer(PAGE), rig.buffer(PAGE));
    target.target_with(0, &source, |entry| {
        gets(entry);
        quiet(entry);
    });
    let dfa = target.dfa(0);
    let get = rig.nomatch_put(&sink, 0, 4096, |get| {
        _ = get.set_opcode(C_CMD_NOMATCH_GET as u8).set_dfa(dfa)
    });
    let begin = Instant::now();
    rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_millis(20));
    assert_eq!([&rig, &target].map(|rig| counter(rig.dev, READS)), [0, 1]);
}

#[test]
fn writes_to_host_memory_take_time() {
    alone!();
    set("CXIDIAG_FAULTS", "nic=1,host-write=5ms");
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (rig.buffer(PAGE), target.buffer(PAGE));
    target.target(0, &sink);
    let put = rig.put_to(target.dfa(0), &source, 8);
    let begin = Instant::now();
    for _ in 0..4 {
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    assert!(begin.elapsed() >= 4 * Duration::from_millis(5));
    let blocked = [&rig, &target].map(|rig| counter(rig.dev, WRITES_BLOCKED));
    assert_eq!(blocked, [0, 4 * 5_500_000]);
}

#[test]
fn wakes_up_to_send() {
    alone!();
    set("CXIDIAG_FAULTS", "wake=20ms:0ns");
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    let begin = Instant::now();
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_millis(20));
}

/// The counters of translations: misses of ordinary pages, misses of reads and of writes, requests
/// of reads and of writes.
fn translations(rig: &Rig) -> [u64; 5] {
    [
        "atu_cache_miss_0",
        "atu_cache_miss_oxe",
        "atu_cache_miss_ixe",
        "atu_client_req_oxe",
        "atu_client_req_ixe",
    ]
    .map(|name| counter(rig.dev, name))
}

#[test]
fn ordinary_pages_take_time() {
    alone!();
    const TIME: Duration = Duration::from_millis(2);
    set("CXIDIAG_FAULTS", "page-cost=2ms");
    let rig = &mut Rig::new();
    let (source, sink) = (rig.buffer(4 * PAGE), rig.buffer(4 * PAGE));
    rig.target(0, &sink);
    let put = rig.dma_put(&source, PAGE - 8, 2 * PAGE as u32, |_| {});
    let begin = Instant::now();
    assert_eq!(rig.code(&put), C_RC_OK);
    // Three pages that are read; of two pages that are written, the second waits for the first.
    assert!(begin.elapsed() >= 4 * TIME);
    assert_eq!(translations(rig), [5, 3, 2, 3, 2]);
    // Each small put to the same entry translates its pages, too.
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..4 {
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    assert_eq!(translations(rig), [13, 7, 6, 7, 6]);
}

#[test]
fn pages_of_gets_and_atomic_operations_take_time() {
    alone!();
    set("CXIDIAG_FAULTS", "page-cost=2ms");
    let rig = &mut Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    rig.target_with(0, &source, |entry| {
        gets(entry);
        quiet(entry);
    });
    rig.target(1, &source);
    let get = rig.nomatch_put(&sink, 0, 4096, |get| _ = get.set_opcode(C_CMD_NOMATCH_GET as u8));
    rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    assert_eq!(translations(rig), [2, 1, 1, 1, 1]);
    let (dfa, index) = address(rig.nid, rig.pid, 1);
    let add = dma_amo(false, |add| {
        add.set_dfa(dfa)
            .set_index_ext(index)
            .set_lac(sink.lac)
            .set_local_read_addr(sink.iova(0))
            .set_eq(rig.eq.number);
    });
    assert_eq!(rig.code(&add), C_RC_OK);
    assert_eq!(translations(rig), [4, 2, 2, 2, 2]);
}

/// A second initiator of a rig, in another traffic class.
fn queue_of_class(rig: &Rig, class: u32) -> Queue {
    let profile = profile(rig.lni, VNI, class).expect("a profile");
    Queue::transmit(rig.dev, rig.lni, lcid(profile))
}

#[test]
fn class_has_its_share_of_bandwidth() {
    alone!();
    set("CXIDIAG_LINK", "bandwidth=100MB/s");
    set("CXIDIAG_FAULTS", "class-ceiling=LOW_LATENCY:20");
    let rig = &mut Rig::new();
    let (source, sink) = (rig.buffer(512 << 10), rig.buffer(512 << 10));
    rig.target(0, &sink);
    let put = rig.dma_put(&source, 0, 512 << 10, |_| {});
    const HELD: [&str; 2] = ["oxe_stall_ts_no_out_crd_tsc_0", "oxe_stall_ts_no_out_crd_tsc_2"];
    assert_eq!(rig.code(&put), C_RC_OK);
    assert_eq!(HELD.map(|name| counter(rig.dev, name)), [0, 0]);
    let mut queue = queue_of_class(rig, CXI_TC_LOW_LATENCY);
    let begin = Instant::now();
    queue.issue(&put);
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    // 256 packets of 2112 bytes.
    assert!(begin.elapsed() >= Duration::from_micros(27_033));
    let [other, held] = HELD.map(|name| counter(rig.dev, name));
    assert_eq!(other, 0);
    assert!(held >= 20_000_000, "{held} ns");
}

#[test]
fn flow_control_of_the_fabric_stops_packets_to_another_nic() {
    alone!();
    set("CXIDIAG_LINK", "bandwidth=100MB/s");
    set("CXIDIAG_FAULTS", "fgfc=0.75");
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (rig.buffer(64 << 10), target.buffer(64 << 10));
    target.target(0, &sink);
    let own_sink = rig.buffer(64 << 10);
    rig.target(0, &own_sink);
    const STALLED: &str = "oxe_stall_fgfc_blk_0";
    const STOPS: &str = "hni_fgfc_port";
    let loopback = rig.dma_put(&source, 0, 64 << 10, |_| {});
    assert_eq!(rig.code(&loopback), C_RC_OK);
    assert_eq!([STALLED, STOPS].map(|name| counter(rig.dev, name)), [0, 0]);
    let put = rig.put_to(target.dfa(0), &source, 64 << 10);
    let begin = Instant::now();
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_micros(2621));
    // 32 packets, three quarters of the time.
    let [stalled, stops] = [STALLED, STOPS].map(|name| counter(rig.dev, name));
    assert!(stops >= 31 && stalled >= 1_900_000, "{stops} stops, {stalled} ns");
}

#[test]
fn class_waits_on_the_way_to_another_nic() {
    alone!();
    set("CXIDIAG_FAULTS", "class-delay=BEST_EFFORT:20ms");
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (rig.buffer(PAGE), target.buffer(PAGE));
    target.target(0, &sink);
    let put = rig.put_to(target.dfa(0), &source, 8);
    let begin = Instant::now();
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_millis(40), "there and back");
    // All that arrived has a mark of congestion.
    const MARKED_REQUESTS: &str = "ixe_tc_req_ecn_pkts_0";
    const UNMARKED_REQUESTS: &str = "ixe_tc_req_no_ecn_pkts_0";
    const MARKED_IN_POOL: &str = "ixe_pool_ecn_pkts_0";
    let marks = [MARKED_REQUESTS, UNMARKED_REQUESTS, MARKED_IN_POOL];
    assert_eq!(marks.map(|name| counter(target.dev, name)), [1, 0, 1]);
}

#[test]
fn way_between_two_nics_is_slower() {
    alone!();
    set("CXIDIAG_FAULTS", "between=1-0:10ms,between=1-0:20MB/s,between=0-2:3600s");
    // 512 packets of 2112 bytes, and there and back.
    assert!(puts_to_other_nic() >= Duration::from_micros(54_067 + 20_000));
}
