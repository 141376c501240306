//! A fabric of switches between devices and processes. Times are lower limits: on a busy machine
//! packets are late, never early.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use softnic::{LinksDelay, Snapshot};

use crate::driver::prelude::*;

/// Two groups of two switches with one NIC each. From soft0 to soft2 there are three links.
const FABRIC: &str = "dragonfly:groups=2,switches=2,nics=1,nic=100MB/s,latency=20us";

const TOPOLOGY: &str = "CXIDIAG_TOPOLOGY";

/// A target of a device, and an initiator on another device of this process.
struct Pair {
    rig: Rig,
    source: Buffer,
    /// Keeps the target open.
    _target: Rig,
    dfa: u32,
}

impl Pair {
    fn new(fabric: &str, from: u32, to: u32) -> Self {
        set(TOPOLOGY, fabric);
        let mut target = Rig::on(to);
        let sink = target.buffer(1 << 20);
        target.target(0, &sink);
        let rig = Rig::on(from);
        let source = rig.buffer(1 << 20);
        let dfa = address(target.nid, target.pid, 0).0;
        Self { rig, source, _target: target, dfa }
    }

    /// Puts some bytes, and returns the return code and the time until the response.
    fn put(&mut self, length: usize) -> (u32, Duration) {
        let put = self.rig.put_to(self.dfa, &self.source, length);
        let begin = Instant::now();
        let code = self.rig.code(&put);
        (code, begin.elapsed())
    }
}

fn counter(device: u32, name: &str) -> u64 {
    let files = Snapshot::new(device).unwrap();
    let path = format!("sys/class/cxi/soft{device}/device/telemetry/{name}");
    let line = fs::read_to_string(files.root().join(path)).unwrap();
    line.split_once('@').unwrap().0.parse().unwrap()
}

#[test]
fn packets_take_the_latencies_and_bytes_of_their_path() {
    alone!();
    let mut far = Pair::new(FABRIC, 0, 2);
    let (code, time) = far.put(8);
    assert_eq!(code, C_RC_OK);
    assert!(time >= Duration::from_micros(120), "{time:?}");
    // 512 packets of 2112 bytes at 100 MB/s.
    let (code, time) = far.put(1 << 20);
    assert_eq!(code, C_RC_OK);
    assert!(time >= Duration::from_micros(10_813 + 120), "{time:?}");
}

#[test]
fn delays_of_messages_and_answers_are_summed_up() {
    alone!();
    let mut pair = Pair::new(FABRIC, 0, 2);
    let [source, target] = [pair.rig.nid, pair._target.nid];
    assert_eq!(softnic::links_delay(source), Some(LinksDelay::default()));
    // 60 us each way, and 64 bytes at 100 MB/s.
    assert_eq!(pair.put(0).0, C_RC_OK);
    assert_eq!(pair.put(1 << 16).0, C_RC_OK);
    let puts = softnic::links_delay(source).unwrap();
    assert_eq!((puts.messages, puts.answers), (2, 2));
    assert!(puts.total >= 2 * 60_640, "{puts:?}");
    assert_eq!(puts.answers_total, 2 * 60_640);
    let sink = pair._target.buffer(1 << 16);
    pair._target.target_with(1, &sink, gets);
    let (dfa, index) = address(target, pair._target.pid, 1);
    let get = pair.rig.nomatch_put(&pair.source, 0, 1 << 16, |get| {
        get.set_opcode(C_CMD_NOMATCH_GET as u8).set_dfa(dfa).set_index_ext(index);
    });
    pair.rig.run(&get).is(C_EVENT_REPLY, C_RC_OK);
    let gets = softnic::links_delay(source).unwrap();
    assert_eq!((gets.messages, gets.answers), (3, 3));
    assert_eq!(gets.total - puts.total, 60_640);
    assert!(gets.answers_total - puts.answers_total >= 60_640, "{gets:?}");
    // What it answers is not its own.
    assert_eq!(softnic::links_delay(target), Some(LinksDelay::default()));
    drop(pair);
    set(TOPOLOGY, "");
    assert_eq!(softnic::links_delay(source), None);
}

#[test]
fn addresses_follow_from_the_topology() {
    alone!();
    set(TOPOLOGY, FABRIC);
    let nids = [0, 1, 2, 3].map(|device| Rig::on(device).nid);
    assert_eq!(nids, [0x001, 0x041, 0x801, 0x841]);
}

#[test]
fn operations_without_a_path_are_undeliverable() {
    alone!();
    let mut cut = Pair::new(&format!("{FABRIC};fault link 0.0-1.0 down;route minimal"), 0, 2);
    assert_eq!(cut.put(8).0, C_RC_UNDELIVERABLE);
    assert_eq!(cut.put(1 << 20).0, C_RC_UNDELIVERABLE);
    drop(cut);
    let mut at_switch = Pair::new(&format!("{FABRIC};fault switch 1.0 down"), 0, 2);
    assert_eq!(at_switch.put(8).0, C_RC_UNDELIVERABLE);
}

#[test]
fn queues_mark_packets_and_their_responses() {
    alone!();
    let mut pair = Pair::new(&format!("{FABRIC};congestion none mark=4KiB"), 0, 2);
    assert_eq!(pair.put(1 << 20).0, C_RC_OK);
    let requests = counter(2, "ixe_tc_req_ecn_pkts_0");
    // The first packets wait for few others.
    assert!((1..512).contains(&requests), "{requests}");
    assert_eq!(counter(2, "ixe_tc_req_no_ecn_pkts_0"), 512 - requests);
    assert_eq!(counter(2, "ixe_pool_ecn_pkts_0"), requests);
    assert_eq!(counter(0, "ixe_tc_rsp_ecn_pkts_1"), 1);
    assert_eq!(pair.put(8).0, C_RC_OK);
    assert_eq!(counter(0, "ixe_tc_rsp_no_ecn_pkts_1"), 1);
}

#[test]
fn blocked_ports_and_damaged_packets_are_counted() {
    alone!();
    let faults = "congestion spread buffer=1KiB;fault link 0.0>1.0 rate=10%;\
                  fault nic 0 tx loss=0.5 retry=1us;fault nic 2 rx loss=0.5 retry=1us";
    let mut pair = Pair::new(&format!("{FABRIC};{faults}"), 0, 2);
    assert_eq!(pair.put(1 << 18).0, C_RC_OK);
    assert!(counter(0, "hni_tx_paused_0") > 0);
    assert!(counter(0, "hni_llr_tx_replay_event") > 0);
    assert!(counter(2, "hni_llr_rx_replay_event") > 0);
    assert_eq!(counter(0, "hni_llr_rx_replay_event"), 0);
    assert_eq!(counter(2, "hni_tx_paused_0"), 0);
    assert_eq!(counter(1, "hni_tx_paused_0"), 0);
}

/// A process that does nothing but have a device open.
fn holder() {
    let _rig = Rig::on(0);
    say("open");
    while listen().is_some() {}
}

fn hold(fabric: &str) -> Partner {
    set(TOPOLOGY, fabric);
    let mut partner = Partner::start("holder");
    assert_eq!(partner.receive(), "open");
    partner
}

fn open_errno() -> i32 {
    let mut dev = null_mut();
    -call!(cxil_open_device(1, &mut dev))
}

#[test]
fn another_topology_is_refused() {
    alone!();
    if role().is_some() {
        return holder();
    }
    let mut partner = hold(FABRIC);
    let other = "dragonfly:groups=1,switches=2,nics=2";
    for (name, fabric) in [("another", other), ("none", "")] {
        set(TOPOLOGY, fabric);
        assert_eq!(open_errno(), libc::EINVAL, "{name}");
        let message = softnic::check_environment().unwrap_err();
        let expected =
            format!("{TOPOLOGY}={fabric}: the open NICs of this fabric have the topology {FABRIC}");
        assert!(message.starts_with(&expected), "{message}");
    }
    // The text may differ.
    set(TOPOLOGY, &format!("{FABRIC};route adaptive bias=200us"));
    assert_eq!(softnic::check_environment(), Ok(()));
    assert_eq!(Rig::on(1).nid, 0x041);
    // What a killed process left does not count.
    partner.kill();
    set(TOPOLOGY, other);
    assert_eq!(Rig::on(1).nid, 0x002);
    let mut without = hold("");
    set(TOPOLOGY, other);
    let message = softnic::check_environment().unwrap_err();
    assert!(message.contains("have no topology"), "{message}");
    without.end();
}

/// Fills the links to soft2 until it is killed.
fn flooder() {
    let fabric = std::env::var(TOPOLOGY).unwrap();
    let mut flood = Pair::new(&fabric, 1, 3);
    let dfa = address(listen().unwrap().parse().unwrap(), 0, 0).0;
    let put = flood.rig.put_to(dfa, &flood.source, 1 << 20);
    say("putting");
    loop {
        flood.rig.tx.issue(&put);
        while flood.rig.eq.poll().is_some() {}
        flood.rig.eq.acknowledge();
    }
}

#[test]
fn killed_process_leaves_no_queue_for_ever() {
    alone!();
    if role().is_some() {
        return flooder();
    }
    let mut pair = Pair::new(FABRIC, 0, 2);
    let mut partner = Partner::start("flooder");
    partner.send(&pair._target.nid.to_string());
    assert_eq!(partner.receive(), "putting");
    assert_eq!(pair.put(1 << 20).0, C_RC_OK);
    partner.kill();
    // What it had sent passes first.
    assert_eq!(pair.put(1 << 20).0, C_RC_OK);
    assert_eq!(pair.put(8).0, C_RC_OK);
}

#[test]
fn killed_senders_block_nobody_whatever_the_congestion_mode() {
    alone!();
    if role().is_some() {
        return flooder();
    }
    for mode in ["none", "endpoint", "spread buffer=4KiB"] {
        let fabric = format!("{FABRIC};congestion {mode}");
        let mut pair = Pair::new(&fabric, 0, 2);
        for length in [1, 1 << 12, 1 << 18] {
            let mut partner = Partner::start("flooder");
            partner.send(&pair._target.nid.to_string());
            assert_eq!(partner.receive(), "putting");
            // It is killed while this put, which meets its packets, is under way or has passed.
            assert_eq!(pair.put(length).0, C_RC_OK, "{mode}");
            partner.kill();
            assert_eq!(pair.put(1 << 18).0, C_RC_OK, "{mode}");
        }
    }
}

/// A clock that is hours ahead belongs to no queue: a process was stopped for that long, or the
/// memory is damaged.
#[test]
fn clocks_far_ahead_delay_nobody() {
    alone!();
    for mode in ["none", "endpoint", "spread buffer=4KiB"] {
        let mut pair = Pair::new(&format!("{FABRIC};congestion {mode}"), 0, 2);
        assert_eq!(pair.put(1 << 12).0, C_RC_OK);
        let mut options = fs::File::options();
        let file = options.write(true).open(fabric().join("links")).unwrap();
        let length = file.metadata().unwrap().len();
        let far = (u64::MAX / 2).to_le_bytes();
        // Four ports and four cables in both directions, then the sources of each NIC: all clocks.
        for link in 0..16 {
            for clock in 0..5 {
                file.write_all_at(&far, 4096 + 8 * (16 * link + clock)).unwrap();
            }
        }
        for source in 0..16 {
            let place = 4096 + 8 * (16 * 16 + 2 * source + 1);
            assert!(place < length);
            file.write_all_at(&far, place).unwrap();
        }
        for length in [8, 1 << 16] {
            assert_eq!(pair.put(length).0, C_RC_OK, "{mode}");
        }
    }
}

/// A count of a link (0 bytes, 3 losses), as the file of the links has it. Ports come first, two
/// links each, and two links for each cable follow.
fn link_count(link: usize, count: usize) -> u64 {
    let bytes = fs::read(fabric().join("links")).unwrap();
    let at = 4096 + 8 * (16 * link + 5 + count);
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The cables 0.0-0.1 and 0.0-1.0 after four ports.
const LOCAL: usize = 8;
const GLOBAL: usize = 10;

#[test]
fn packets_take_a_detour_around_a_link_that_is_down() {
    alone!();
    let three = "dragonfly:groups=3,switches=1,nics=1,nic=100MB/s,latency=20us";
    // Ports, then the cables 0.0-1.0, 0.0-2.0 and 1.0-2.0.
    let [direct, first, second] = [6, 8, 10];
    let mut pair = Pair::new(three, 0, 1);
    assert_eq!(pair.put(1 << 16).0, C_RC_OK);
    let data = 32 * 2112;
    let bytes = |links: [usize; 3]| links.map(|link| link_count(link, 0));
    assert_eq!(bytes([direct, first, second + 1]), [data, 0, 0]);
    drop(pair);
    let mut pair = Pair::new(&format!("{three};fault link 0.0>1.0 down"), 0, 1);
    let (code, time) = pair.put(1 << 16);
    assert_eq!(code, C_RC_OK);
    // Three links and ports of 20 us there, and two ports and a link back.
    assert!(time >= Duration::from_micros(676 + 140), "{time:?}");
    assert_eq!(bytes([direct, first, second + 1]), [0, data, data]);
    assert_eq!(link_count(direct + 1, 0), 64, "the response");
}

#[test]
fn damaged_packets_of_a_cable_are_late() {
    alone!();
    let fault = "fault link 0.0>1.0 loss=0.5 retry=50ms";
    let mut pair = Pair::new(&format!("{FABRIC};{fault}"), 0, 2);
    let mut late = 0;
    for _ in 0..30 {
        let before = link_count(GLOBAL, 3);
        let (code, time) = pair.put(8);
        assert_eq!(code, C_RC_OK);
        let losses = link_count(GLOBAL, 3) - before;
        assert!(time >= Duration::from_micros(120) + losses as u32 * Duration::from_millis(50));
        late += u64::from(losses > 0);
    }
    assert!((1..30).contains(&late), "{late} of 30 packets were damaged");
    assert_eq!([LOCAL, GLOBAL + 1].map(|link| link_count(link, 3)), [0, 0]);
    // Only the NICs at the cable could count it.
    let counts = |name| [0, 2].map(|device| counter(device, name));
    assert_eq!(counts("hni_llr_tx_replay_event"), [0, 0]);
    assert_eq!(counts("hni_llr_rx_replay_event"), [0, 0]);
}
