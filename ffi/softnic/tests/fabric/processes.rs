//! Processes on one fabric: bytes arrive, and the end of one process does not disturb the others;
//! child processes made by fork(2); programs without the hook `progress`; counters that count for
//! all processes (health.md 1.1).

use std::fs;

use softnic::Snapshot;

use crate::driver::prelude::*;
use crate::driver::processes::fork;

const LEN: usize = 1 << 22;

/// Offers a target at index 0 of a device, and waits for lines instead of events. For each line,
/// counts the bytes of the target's memory that have the line's value.
fn target(device: u32) {
    let mut rig = Rig::on(device);
    let sink = rig.buffer(LEN);
    rig.target(0, &sink);
    say(&format!("{} {}", rig.nid, rig.pid));
    while let Some(line) = listen() {
        let value: u8 = line.parse().unwrap();
        let bytes = sink.pages.read(0, LEN);
        let count = bytes.iter().filter(|byte| **byte == value).count();
        say(&count.to_string());
    }
}

/// Issues puts to the address of its first line until it is killed.
fn initiator() {
    let mut rig = Rig::on(0);
    let source = rig.buffer(PAGE);
    let dfa = listen().unwrap().parse().unwrap();
    let put = rig.put_to(dfa, &source, 3000);
    assert_eq!(rig.code(&put), C_RC_OK);
    say("putting");
    loop {
        rig.tx.issue(&put);
        while rig.eq.poll().is_some() {}
        rig.eq.acknowledge();
    }
}

/// Plays the role of this process; false in the main process.
fn played() -> bool {
    match role().as_deref() {
        None => return false,
        Some("target 0") => target(0),
        Some("target 1") => target(1),
        Some("initiator") => initiator(),
        Some(other) => panic!("unknown role {other}"),
    }
    true
}

/// A target in another process, and its address.
struct Remote {
    partner: Partner,
    dfa: u32,
}

impl Remote {
    fn start(role: &str) -> Self {
        let mut partner = Partner::start(role);
        let dfa = partner.receive_address();
        Self { partner, dfa }
    }

    /// Number of bytes of the target's memory that have this value.
    fn count(&mut self, value: u8) -> usize {
        self.partner.send(&value.to_string());
        self.partner.receive().parse().unwrap()
    }
}

/// A rig on a device, and a source of `len` bytes of this value.
fn rig_on(device: u32, len: usize, value: u8) -> (Rig, Buffer) {
    let rig = Rig::on(device);
    let source = rig.buffer(len);
    source.pages.fill(value);
    (rig, source)
}

/// The return code of a put of `len` bytes to an address.
fn put(rig: &mut Rig, source: &Buffer, len: usize, dfa: u32) -> u32 {
    let put = rig.put_to(dfa, source, len);
    rig.code(&put)
}

#[test]
fn delivers_to_same_and_other_nic() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source) = rig_on(0, LEN, 0);
    for role in ["target 0", "target 1"] {
        let mut remote = Remote::start(role);
        for (value, len) in [(1, 1), (2, 16), (3, 2048), (4, 2049), (5, LEN)] {
            source.pages.fill(value);
            assert_eq!(put(&mut rig, &source, len, remote.dfa), C_RC_OK);
            assert_eq!(remote.count(value), len, "{role}");
        }
        remote.partner.end();
    }
}

#[test]
fn killed_target_is_undeliverable_and_replaceable() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source) = rig_on(0, PAGE, 9);
    for _ in 0..3 {
        let mut remote = Remote::start("target 1");
        assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-13.0"]);
        assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_OK);
        assert_eq!(remote.count(9), 100);
        remote.partner.kill();
        // By the known connection, and by a new look-up.
        for _ in 0..2 {
            assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_UNDELIVERABLE);
        }
    }
    // On a NIC with other users, only the address is missing.
    let mut remote = Remote::start("target 0");
    assert_eq!(put(&mut rig, &source, 100, remote.dfa), C_RC_OK);
    remote.partner.kill();
    for code in [C_RC_UNDELIVERABLE, C_RC_PTLTE_NOT_FOUND] {
        assert_eq!(put(&mut rig, &source, 100, remote.dfa), code);
    }
    drop(rig);
    assert!(!fabric().exists(), "files of killed processes are left");
}

#[test]
fn kill_of_target_ends_every_put_under_way() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source) = rig_on(0, LEN, 0);
    for round in 0..4 {
        let mut remote = Remote::start("target 1");
        let long = rig.put_to(remote.dfa, &source, LEN >> round);
        let (mut issued, mut good, mut bad) = (0, 0, 0);
        while good < 20 || issued < good + 10 {
            if issued < good + 10 {
                rig.tx.issue(&long);
                issued += 1;
            } else if let Some(event) = rig.eq.poll() {
                assert_eq!(event.code(), C_RC_OK);
                good += 1;
                rig.eq.acknowledge();
            }
        }
        remote.partner.kill();
        while good + bad < issued {
            match rig.eq.wait().code() {
                C_RC_OK => good += 1,
                C_RC_UNDELIVERABLE => bad += 1,
                other => panic!("return code {other}"),
            }
        }
        assert_eq!(rig.eq.poll(), None);
        rig.tx.drain();
    }
    // The queue still works.
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let dfa = rig.dfa(0);
    assert_eq!(put(&mut rig, &source, 8, dfa), C_RC_OK);
}

#[test]
fn target_outlives_initiators_killed_under_traffic() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source) = rig_on(1, PAGE, 3);
    let sink = rig.buffer(PAGE);
    rig.target_with(0, &sink, |_| {});
    let dfa = rig.dfa(0);
    for _ in 0..4 {
        let mut partner = Partner::start("initiator");
        partner.send(&dfa.to_string());
        for _ in 0..200 {
            rig.teq.expect(C_EVENT_PUT, C_RC_OK);
        }
        partner.kill();
        while rig.teq.poll().is_some() {
            rig.teq.acknowledge();
        }
    }
    assert_eq!(put(&mut rig, &source, 3000, dfa), C_RC_OK);
    assert!(sink.pages.is(0, 3000, 3));
}

#[test]
fn address_leads_to_its_present_owner() {
    alone!();
    let (mut rig, source) = rig_on(0, PAGE, 0);
    for round in 0..3 {
        let mut owner = Rig::on(1);
        let sink = owner.buffer(PAGE);
        owner.target(0, &sink);
        assert_eq!(owner.pid, 0);
        source.pages.fill(round + 1);
        assert_eq!(put(&mut rig, &source, 8, owner.dfa(0)), C_RC_OK, "{round}");
        assert!(sink.pages.is(0, 8, round + 1));
    }
}

/// More senders than a port has lanes, one after the other; some end, some are killed.
#[test]
fn reuses_lanes_of_earlier_senders() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, _) = rig_on(1, PAGE, 0);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let dfa = rig.dfa(0);
    for round in 0..70_u8 {
        let (mut sender, source) = rig_on(0, PAGE, round + 1);
        assert_eq!(put(&mut sender, &source, 8, dfa), C_RC_OK, "round {round}");
        assert!(sink.pages.is(0, 8, round + 1));
    }
    for _ in 0..70 {
        let mut partner = Partner::start("initiator");
        partner.send(&dfa.to_string());
        assert_eq!(partner.receive(), "putting");
        partner.kill();
    }
}

/// Senders on `device`, each with the code of a put of 8 bytes.
fn senders(device: u32, count: usize, dfa: u32) -> Vec<(Rig, Buffer, u32)> {
    let sender = || {
        let (mut sender, source) = rig_on(device, PAGE, 0);
        let code = put(&mut sender, &source, 8, dfa);
        (sender, source, code)
    };
    (0..count).map(|_| sender()).collect()
}

#[test]
fn limits_senders_of_port_to_64() {
    alone!();
    let (mut rig, own) = rig_on(1, PAGE, 0);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    let dfa = rig.dfa(0);
    let mut all = senders(0, 65, dfa);
    let (mut late, source, code) = all.pop().unwrap();
    assert!(all.iter().all(|(_, _, code)| *code == C_RC_OK));
    assert_eq!(code, C_RC_RESOURCE_BUSY);
    // The port cannot send to that sender either, which could not respond.
    assert_eq!(put(&mut rig, &own, 8, late.dfa(0)), C_RC_RESOURCE_BUSY);
    all.swap_remove(30);
    assert_eq!(put(&mut late, &source, 8, dfa), C_RC_OK);
}

/// The lane of the response is taken before the put is sent.
#[test]
fn put_under_way_reserves_lane_of_its_response() {
    alone!();
    if played() {
        return;
    }
    let mut remote = Remote::start("target 1");
    let (mut rig, source, _) = Rig::with_target();
    remote.partner.pause();
    let to_remote = rig.put_to(remote.dfa, &source, 8);
    rig.tx.issue(&to_remote);
    rig.tx.drain();
    let all = senders(2, 64, rig.dfa(0));
    let codes = |code| all.iter().filter(|sender| sender.2 == code).count();
    assert_eq!((codes(C_RC_OK), codes(C_RC_RESOURCE_BUSY)), (63, 1));
    assert_eq!(all[63].2, C_RC_RESOURCE_BUSY);
    remote.partner.resume();
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    remote.partner.end();
}

#[test]
fn paused_target_blocks_its_sender_and_loses_nothing() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source) = rig_on(0, LEN, 7);
    let mut remote = Remote::start("target 1");
    assert_eq!(put(&mut rig, &source, 1, remote.dfa), C_RC_OK);
    remote.partner.pause();
    // Twice as many packets as fit into the fabric.
    let commands = rig.tx.free() / 2;
    let len = (LEN / commands) as u32;
    let begun = rig.tx.wp / 2;
    for number in 0..commands {
        let put = rig.dma_put(&source, 0, len, |put| {
            let offset = u64::from(len) * number as u64;
            put.set_dfa(remote.dfa).set_remote_offset(offset);
        });
        rig.tx.write(&put);
    }
    rig.tx.ring();
    // The fabric has room for 128 packets, 1 MiB, and the begin of a put.
    let taken = |rig: &Rig| usize::from(rig.tx.status().rd_ptr());
    wait_for("the fabric to be full", || {
        progress(rig.dev);
        (taken(&rig) != begun).then_some(())
    });
    for _ in 0..10_000 {
        progress(rig.dev);
        let commands = (taken(&rig) + 60 - begun) % 60;
        assert!(commands < 20, "the fabric cannot hold that much");
    }
    assert!(rig.tx.free() < rig.tx.size32 - 10);
    assert_eq!(rig.eq.poll(), None);
    remote.partner.resume();
    for _ in 0..commands {
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
    }
    assert_eq!(remote.count(7), commands * len as usize);
    remote.partner.end();
}

#[test]
fn fence_waits_for_slow_target() {
    alone!();
    if played() {
        return;
    }
    let (mut rig, source, _) = Rig::with_target();
    let mut remote = Remote::start("target 1");
    let marked = |user_ptr, dfa| {
        rig.dma_put(&source, 0, 8, |put| _ = put.set_user_ptr(user_ptr).set_dfa(dfa))
    };
    let (slow, fast) = (marked(1, remote.dfa), marked(2, rig.dfa(0)));
    remote.partner.pause();
    // Without a fence, the put to the fast target completes first.
    rig.tx.emit(&slow);
    assert_eq!(rig.run(&fast).0[0], 2);
    rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.issue(&fast);
    for _ in 0..10_000 {
        assert_eq!(rig.eq.poll(), None);
    }
    remote.partner.resume();
    assert_eq!([rig.eq.wait().0[0], rig.eq.wait().0[0]], [1, 2]);
    remote.partner.end();
}

/// A lane changes hands with unread packets in it.
#[test]
fn new_sender_continues_behind_unread_packets() {
    alone!();
    if played() {
        return;
    }
    let mut remote = Remote::start("target 1");
    let send = |(sender, source): &mut (Rig, Buffer)| {
        let put = sender.put_to(remote.dfa, source, 8);
        sender.tx.issue(&put);
        sender.tx.drain();
    };
    remote.partner.pause();
    let mut first = rig_on(0, PAGE, 0);
    for _ in 0..10 {
        send(&mut first);
    }
    drop(first);
    let mut second = rig_on(0, PAGE, 5);
    send(&mut second);
    remote.partner.resume();
    assert_eq!(second.0.eq.wait().code(), C_RC_OK);
    for _ in 0..100 {
        send(&mut second);
        assert_eq!(second.0.eq.wait().code(), C_RC_OK);
    }
    assert_eq!(remote.count(5), 8);
    remote.partner.end();
}

#[test]
fn refuses_child_the_devices_of_its_parent() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 3000, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    // The parent's NIC sees this put after the end of the child.
    rig.tx.issue(&put);
    in_child(|| {
        let (mut cq, mut md) = (null_mut(), null_mut());
        let (lni, none) = (rig.lni, null_mut());
        for code in [
            call!(cxil_alloc_lni(rig.dev, &mut null_mut(), 1)),
            call!(cxil_alloc_cmdq(lni, null_mut(), &options(), &mut cq)),
            call!(cxil_alloc_domain(lni, 1, C_PID_ANY, &mut null_mut())),
            call!(cxil_map(lni, source.pages.base.cast(), PAGE, RW, none, &mut md)),
            call!(cxil_destroy_cmdq(rig.tx.handle)),
            call!(cxil_destroy_evtq(rig.eq.handle)),
            call!(cxil_unmap(source.md)),
            call!(cxil_destroy_domain(rig.domain)),
            call!(cxil_destroy_cp(rig.cp)),
            call!(cxil_destroy_lni(lni)),
        ] {
            assert_eq!(code, -EIO);
        }
        progress(rig.dev);
        close(rig.dev);
        true
    });
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    assert_eq!(rig.eq.poll(), None);
    assert_eq!(rig.code(&put), C_RC_OK);
    rig.enabled(32, |_| {});
}

#[test]
fn child_opens_devices_of_its_own() {
    alone!();
    let (rig, _, sink) = Rig::with_target();
    let dfa = rig.dfa(0);
    // The forks hit the parent's engine threads at different moments.
    for round in 0..30_u8 {
        let _extra = Rig::on(2);
        in_child(|| {
            let mut own = Rig::on(1);
            let source = own.buffer(PAGE);
            source.pages.fill(round + 1);
            own.code(&own.put_to(dfa, &source, 100)) == C_RC_OK
        });
        assert!(sink.pages.is(0, 100, round + 1), "round {round}");
    }
}

#[test]
fn running_child_does_not_keep_killed_parent_on_fabric() {
    alone!();
    if role().is_some() {
        let mut rig = Rig::on(1);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        // The child ends with its input, when the test drops its partner.
        fork(|| {
            while listen().is_some() {}
            true
        });
        say(&format!("{} {}", rig.nid, rig.pid));
        loop {
            std::thread::park();
        }
    }
    let mut partner = Partner::start("parent");
    let dfa = partner.receive_address();
    let mut rig = Rig::on(0);
    let source = rig.buffer(PAGE);
    let put = rig.put_to(dfa, &source, 8);
    assert_eq!(rig.code(&put), C_RC_OK);
    partner.kill();
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
}

/// A rig with a target at index 0, set up without `progress`.
pub fn rig(device: u32, sink: impl FnOnce(&Rig) -> Buffer) -> (Rig, Buffer) {
    let mut rig = Rig::on(device);
    let sink = sink(&rig);
    let portal = rig.portal(0, |_| {});
    rig.tgt.write_and_ring(&set_state(portal.number, C_PTLTE_ENABLED));
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_STATE_CHANGE);
    rig.tgt.write_and_ring(&append(portal.number, |entry| whole(entry, &sink)));
    assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_LINK);
    (rig, sink)
}

#[test]
fn serves_doorbells_and_low_latency_writes() {
    alone!();
    let (mut rig, sink) = rig(0, |rig| rig.buffer(PAGE));
    rig.tx.write_and_ring(&c_state(rig.eq.number, true, |_| {}));
    for round in 0..300_u32 {
        rig.tx.write(&idc_put(rig.dfa(0), 0, &[round as u8; 48]));
        if round % 2 == 0 {
            rig.tx.ring();
        } else {
            rig.tx.ll_ring();
        }
        assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
        assert!(sink.pages.is(0, 48, round as u8));
        assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_PUT);
    }
}

#[test]
fn serves_two_devices_of_one_process() {
    alone!();
    let (first, first_sink) = rig(0, |rig| rig.buffer(PAGE));
    let (second, second_sink) = rig(1, |rig| rig.buffer(PAGE));
    let targets = [(second.dfa(0), second_sink), (first.dfa(0), first_sink)];
    let mut rigs = [first, second];
    for round in 0..50 {
        for (rig, (dfa, sink)) in rigs.iter_mut().zip(targets) {
            let source = [round + 1; 16];
            rig.tx.write_and_ring(&c_state(rig.eq.number, false, |_| {}));
            rig.tx.write_and_ring(&idc_put(dfa, 0, &source));
            assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
            assert!(sink.pages.is(0, 16, round + 1));
        }
        for rig in &mut rigs {
            assert_eq!(rig.teq.wait_inline().kind(), C_EVENT_PUT);
        }
    }
}

/// A thread polls for a while and then only reads its memory.
#[test]
fn engine_thread_takes_over_from_polling_thread() {
    alone!();
    let (mut rig, _) = rig(0, |rig| rig.buffer(PAGE));
    let source = rig.buffer(PAGE);
    for round in 0..20 {
        let put = rig.nomatch_put(&source, 0, 8, |_| {});
        if round % 4 < 2 {
            assert_eq!(rig.code(&put), C_RC_OK);
        } else {
            rig.tx.write_and_ring(&put);
            assert_eq!(rig.eq.wait_inline().code(), C_RC_OK);
        }
    }
}

/// Number of packets that a device sends for a put to its own process, and its response.
const PACKETS: u64 = 2;

/// Sends to itself through the first NIC: for each line, this many puts.
fn sender() {
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    say("ready");
    while let Some(line) = listen() {
        for _ in 0..line.parse().unwrap() {
            assert_eq!(rig.code(&put), C_RC_OK);
        }
        say("done");
    }
}

fn send(partner: &mut Partner, puts: u64) {
    partner.send(&puts.to_string());
    assert_eq!(partner.receive(), "done");
}

/// A counter of the first NIC, from its file.
fn counter(name: &str) -> u64 {
    let files = Snapshot::new(0).unwrap();
    let telemetry = files.root().join("sys/class/cxi/soft0/device/telemetry");
    let line = fs::read_to_string(telemetry.join(name)).unwrap();
    line.split_once('@').unwrap().0.parse().unwrap()
}

fn packets() -> u64 {
    counter("hni_tx_ok_opt")
}

fn start() -> Partner {
    let mut partner = Partner::start("sender");
    assert_eq!(partner.receive(), "ready");
    partner
}

#[test]
fn counters_are_of_all_processes() {
    alone!();
    if role().is_some() {
        return sender();
    }
    let (mut first, mut second) = (start(), start());
    send(&mut first, 3);
    send(&mut second, 4);
    assert_eq!(packets(), 7 * PACKETS);
    // Through the library, with a device of this process, which also counts.
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    let dev = rig.dev;
    let by_library = || {
        let mut value = 0;
        assert_eq!(call!(cxil_read_cntr(dev, 1537, &mut value, null_mut())), 0);
        value
    };
    assert_eq!(by_library(), 8 * PACKETS);
    // Devices that were closed, or whose processes were killed, keep counting.
    first.end();
    send(&mut second, 5);
    assert_eq!(packets(), 13 * PACKETS);
    second.kill();
    assert_eq!(by_library(), 13 * PACKETS);
    assert_eq!(packets(), 13 * PACKETS);
    drop(rig);
    let mut again = start();
    send(&mut again, 1);
    assert_eq!(packets(), PACKETS, "no device was open");
    again.end();
}

/// A process that is stopped does not answer.
#[test]
fn stopped_process_counts_as_it_was_last_seen() {
    alone!();
    if role().is_some() {
        return sender();
    }
    let mut partner = start();
    send(&mut partner, 3);
    assert_eq!(packets(), 3 * PACKETS);
    partner.pause();
    assert_eq!(packets(), 3 * PACKETS);
    partner.resume();
    send(&mut partner, 1);
    assert_eq!(packets(), 4 * PACKETS);
    partner.end();
}

#[test]
fn several_processes_read_at_once() {
    alone!();
    if let Some("reader") = role().as_deref() {
        let mut last = 0;
        for _ in 0..5 {
            let next = packets();
            assert!(next >= last, "{next} after {last}");
            last = next;
        }
        return;
    }
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    let mut readers = [(); 2].map(|()| Partner::start("reader"));
    for puts in 1..=10 {
        assert_eq!(rig.code(&put), C_RC_OK);
        assert_eq!(packets(), puts * PACKETS);
    }
    readers.iter_mut().for_each(Partner::end);
}
