//! The link model, and injected faults.
//!
//! Some faults make packets slower. A packet is not delivered before its time, so the least time of
//! some operations follows from the fault; how much longer they take depends on the machine.

use std::time::{Duration, Instant};

use crate::driver::prelude::*;

const LEN: usize = 1 << 20;

/// The return code of each put from a device to itself, and whether its bytes arrived.
fn outcome(faults: &str) -> Vec<(u32, bool)> {
    set("CXIDIAG_FAULTS", faults);
    let (mut rig, source, sink) = Rig::with_target();
    let put = |rig: &mut Rig, number: usize| {
        source.pages.fill(number as u8 + 1);
        let put = rig.dma_put(&source, 0, 2048, |_| {});
        let code = rig.code(&put);
        (code, sink.pages.is(0, 2048, number as u8 + 1))
    };
    (0..200).map(|number| put(&mut rig, number)).collect()
}

#[test]
fn same_seed_repeats_outcome() {
    alone!();
    let faults = |seed| {
        format!(
            "seed={seed},loss=0.5,retry=1ns,error=NO_SPACE:0.1,error=PT_DISABLED@100,delay=0.1:1us"
        )
    };
    let first = outcome(&faults(7));
    assert_eq!(outcome(&faults(7)), first);
    assert_ne!(outcome(&faults(8)), first);
    let count = |wanted| first.iter().filter(|(code, _)| *code == wanted).count();
    for code in [C_RC_OK, C_RC_NO_SPACE, C_RC_UNDELIVERABLE] {
        assert_ne!(count(code), 0, "{code}: {first:?}");
    }
    // A lost response does not undo the put.
    let wrong = |(code, arrived): &&(u32, bool)| match *code {
        C_RC_OK => !arrived,
        C_RC_UNDELIVERABLE => false,
        _ => *arrived,
    };
    assert_eq!(first.iter().find(wrong), None);
}

/// Every value of the field, known or not.
#[test]
fn injects_return_code_into_numbered_operation() {
    alone!();
    let faults: Vec<String> = (2..64).map(|code| format!("error={code}@{}", 2 * code)).collect();
    let outcome = outcome(&faults.join(","));
    for (index, (code, arrived)) in outcome.into_iter().enumerate() {
        let number = index as u32 + 1;
        let expected = match number {
            4..128 if number.is_multiple_of(2) => number / 2,
            _ => C_RC_OK,
        };
        assert_eq!(code, expected, "operation {number}");
        assert_eq!(arrived, code == C_RC_OK, "operation {number}");
    }
}

/// The payload of the short put is in the header of its packet.
#[test]
fn inverts_one_byte_of_each_packet_with_data() {
    alone!();
    set("CXIDIAG_FAULTS", "corrupt=1");
    let (mut rig, source, sink) = Rig::with_target();
    source.pages.fill(0x5a);
    for length in [8, 2048, 4096] {
        sink.pages.fill(0);
        let put = rig.dma_put(&source, 0, length as u32, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        let byte = |at| sink.pages.byte(at).load(std::sync::atomic::Ordering::Relaxed);
        let inverted = (0..length).filter(|at| byte(*at) == !0x5a).count();
        let others = (0..length).filter(|at| byte(*at) == 0x5a).count();
        assert_eq!(inverted, length.div_ceil(2048), "{length} bytes");
        assert_eq!(inverted + others, length);
    }
}

/// Packets under way take no cells: the queue is empty long before the first packet arrives.
#[test]
fn long_latency_does_not_block_sender() {
    alone!();
    set("CXIDIAG_LINK", "latency=3600s");
    let mut rig = Rig::new();
    let source = rig.buffer(LEN);
    let dfa = rig.dfa(0);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    // 2048 packets.
    for _ in 0..4 {
        let put = rig.dma_put(&source, 0, LEN as u32, |put| _ = put.set_dfa(dfa));
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    rig.tx.drain();
    assert_eq!(rig.eq.poll(), None);
    // The limit is some 4224 packets.
    let begun = rig.tx.wp / 2;
    for _ in 0..12 {
        let put = rig.dma_put(&source, 0, LEN as u32, |put| _ = put.set_dfa(dfa));
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    let taken = |rig: &Rig| usize::from(rig.tx.status().rd_ptr()) - begun;
    wait_for("packets to fill all there is", || {
        progress(rig.dev);
        (taken(&rig) == 5).then_some(())
    });
    for _ in 0..10_000 {
        progress(rig.dev);
        assert_eq!(taken(&rig), 5, "four, and one begun");
    }
    assert_eq!(rig.eq.poll(), None);
}

#[test]
fn delayed_packets_arrive_in_order() {
    alone!();
    set("CXIDIAG_LINK", "latency=20ms,bandwidth=20MB/s");
    set("CXIDIAG_FAULTS", "delay=0.1:1ms");
    let begin = Instant::now();
    let mut rig = Rig::new();
    let sink = rig.buffer(LEN);
    rig.target_with(0, &sink, |_| {});
    let source = rig.buffer(LEN);
    for at in 0..LEN {
        source.pages.byte(at).store((at / 2048 % 251) as u8, std::sync::atomic::Ordering::Relaxed);
    }
    const PUTS: usize = 16;
    let len = LEN / PUTS;
    for number in 0..PUTS {
        let put = rig.dma_put(&source, number * len, len as u32, |put| {
            _ = put.set_remote_offset((number * len) as u64).set_user_ptr(number as u64)
        });
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    for number in 0..PUTS as u64 {
        let ack = rig.eq.wait();
        assert_eq!((ack.0[0].into(), ack.code()), (number, C_RC_OK));
        rig.teq.expect(C_EVENT_PUT, C_RC_OK);
    }
    assert!(source.pages.read(0, LEN) == sink.pages.read(0, LEN));
    // 512 packets of 2112 bytes, and the latency of both directions.
    assert!(begin.elapsed() >= Duration::from_millis(54 + 40));
}

/// Offers a target, and ends with its input, even with responses under way.
fn target() {
    let mut rig = Rig::on(1);
    let sink = rig.buffer(PAGE);
    rig.target_with(0, &sink, |_| {});
    say(&format!("{} {}", rig.nid, rig.pid));
    let event = rig.teq.wait();
    say(&event.code().to_string());
    listen();
}

/// The response is still on the link when its sender has ended.
#[test]
fn delivers_last_packets_of_closed_nic() {
    alone!();
    set("CXIDIAG_LINK", "latency=400ms");
    if role().is_some() {
        return target();
    }
    let mut partner = Partner::start("target");
    let dfa = partner.receive_address();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    let put = rig.put_to(dfa, &source, 8);
    rig.tx.issue(&put);
    rig.tx.drain();
    assert_eq!(partner.receive(), C_RC_OK.to_string());
    partner.end();
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    // The NIC is gone.
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
}

/// The engine thread sleeps until a packet is due.
#[test]
fn engine_thread_delivers_delayed_packets() {
    alone!();
    set("CXIDIAG_LINK", "latency=30ms");
    let begin = Instant::now();
    let (mut rig, _) = crate::processes::rig(0, |rig| rig.buffer(PAGE));
    let source = rig.buffer(PAGE);
    let put = rig.dma_put(&source, 0, 4000, |_| {});
    rig.tx.write_and_ring(&put);
    assert_eq!(rig.teq.wait_inline().code(), C_RC_OK);
    assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
    assert!(begin.elapsed() >= Duration::from_millis(60));
}

#[test]
fn reports_link_that_is_down_until_it_is_up() {
    alone!();
    let rig = |down| {
        set("CXIDIAG_FAULTS", down);
        let mut rig = Rig::new();
        // SAFETY: `rig` keeps the device open.
        let state = unsafe { (*rig.dev).info.link_state };
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let source = rig.buffer(PAGE);
        let put = rig.dma_put(&source, 0, 8, |_| {});
        ((rig, put, sink, source), state)
    };
    let ((mut dead, put, ..), state) = rig("down=0s");
    assert_eq!((state, dead.code(&put)), (0, C_RC_UNDELIVERABLE));
    let ((mut up, put, ..), state) = rig("down=3600s");
    assert_eq!((state, up.code(&put)), (1, C_RC_OK));
    let ((mut rig, put, ..), _) = rig("down=0s:50ms");
    let code = wait_for("the link to come up", || {
        let code = rig.code(&put);
        (code != C_RC_UNDELIVERABLE).then_some(code)
    });
    assert_eq!(code, C_RC_OK);
}

/// A link that is down receives nothing, even from links that are up.
#[test]
fn link_that_is_down_protects_target_memory() {
    alone!();
    let mut rig = Rig::new();
    set("CXIDIAG_FAULTS", "down=0s");
    let mut target = Rig::on(1);
    let sink = target.buffer(PAGE);
    target.target(0, &sink);
    let source = rig.buffer(PAGE);
    source.pages.fill(1);
    let dfa = target.dfa(0);
    let put = rig.put_to(dfa, &source, 8);
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    assert!(sink.pages.is(0, 8, 0));
}

#[test]
fn rejects_invalid_conditions_at_open() {
    alone!();
    let refused = |variable, value| {
        set(variable, value);
        let mut dev = std::ptr::null_mut();
        let code = call!(cxil_open_device(0, &mut dev));
        set(variable, "");
        code
    };
    for item in ["latency=1", "latency=1ns,latency=1ns", "bandwidth=1"] {
        assert_eq!(refused("CXIDIAG_LINK", item), -libc::EINVAL);
    }
    for item in ["loss=2", "error=NONSENSE@1", "down"] {
        assert_eq!(refused("CXIDIAG_FAULTS", item), -libc::EINVAL);
    }
    drop(Rig::new());
}

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
