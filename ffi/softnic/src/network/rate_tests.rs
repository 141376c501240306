//! The rates of flows, on a clock that only events move: the vectors of load.md 5 that concern the
//! model, and progressive filling (load.md 4.7), which gets the rates that the model must reach by
//! another way.

use std::collections::BTreeSet;

use proptest::prelude::*;
use topology::Topology;

use super::Count;
use super::routes::SwitchMap;
use super::simulation::{Flow, Measured, Simulation};

const MS: u64 = 1_000_000;

/// The dragonfly of load.md 5, at a thousand times its rates and a thousandth of its latencies.
const D4: &str = "dragonfly groups=4 switches=2 nics=2 nic=50GB/s local=50GB/s \
                  global-rate=50GB/s latency=20ns\nroute minimal\n";

/// A switch with this many NICs of 1 GB/s, 1 us each way.
fn star(nics: usize) -> String {
    format!("dragonfly groups=1 switches=1 nics={nics} nic=1GB/s latency=1us\n")
}

/// Two switches with this many NICs of 1 GB/s each, and a link of a rate between them.
fn pair(nics: usize, rate: &str) -> String {
    format!("dragonfly groups=1 switches=2 nics={nics} nic=1GB/s local={rate} latency=1us\n")
}

fn run(lines: &str, flows: &[Flow]) -> Vec<Measured> {
    Simulation::new(lines).run(flows, 5 * MS, 15 * MS)
}

/// Runs flows on the dragonfly, and returns their rates in MB/s of the fabric of load.md.
fn rates(lines: &str, pairs: &[(usize, usize)]) -> Vec<f64> {
    let flows: Vec<Flow> = pairs.iter().map(|(from, to)| Flow::new(*from, *to, 32)).collect();
    let measured = Simulation::new(&format!("{D4}{lines}")).run(&flows, MS / 2, 3 * MS / 2);
    measured.iter().map(|flow| flow.rate / 1e9).collect()
}

/// Asserts that each figure is within this share of the expected one.
fn assert_near(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (found_one, expected_one) in found.iter().zip(expected) {
        let error = (found_one / expected_one - 1.0).abs();
        assert!(error <= within, "{found:.2?}, expected {expected:.2?}");
    }
}

fn megabytes(measured: &[Measured]) -> Vec<f64> {
    measured.iter().map(|flow| flow.rate / 1e6).collect()
}

fn shift(by: usize) -> Vec<(usize, usize)> {
    (0..16).map(|nic| (nic, (nic + by) % 16)).collect()
}

/// The pairs of `bisect:system`: half of the groups to the other half.
const HALVES: [(usize, usize); 8] =
    [(0, 8), (1, 13), (2, 10), (3, 15), (4, 12), (5, 9), (6, 14), (7, 11)];

/// Vector 1, on the port of the target and on a link between switches.
#[test]
fn flows_share_a_link_evenly() {
    let flows = [Flow::new(0, 2, 64), Flow::new(1, 2, 64)];
    assert_near(&megabytes(&run(&star(3), &flows)), &[484.8; 2], 0.05);
    let flows = [Flow::new(0, 2, 64), Flow::new(1, 3, 64)];
    assert_near(&megabytes(&run(&pair(2, "1GB/s"), &flows)), &[484.8; 2], 0.05);
}

/// Vector 2.
#[test]
fn windows_decide_shares_without_congestion_management() {
    let flows = [Flow::new(0, 2, 64), Flow::new(1, 2, 16)];
    let fabric = format!("{}congestion none", star(3));
    assert_near(&megabytes(&run(&fabric, &flows)), &[775.8, 193.9], 0.05);
}

/// Vectors 3, 4 and 27.
#[test]
fn incast_shares_a_port_and_delays_a_victim_there() {
    let fabric = format!("{}congestion none", star(10));
    let mut flows: Vec<Flow> = (0..8).map(|nic| Flow::new(nic, 9, 32)).collect();
    let measured = run(&fabric, &flows);
    assert_near(&megabytes(&measured), &[121.2; 8], 0.05);
    assert_near(&[measured[0].quantile(0.5)], &[540.7], 0.02);
    let share = measured[0].marked as f64 / measured[0].packets as f64;
    assert!(share > 0.99, "marked: {share}");
    flows.push(Flow::small(8, 9));
    let victim = &run(&fabric, &flows)[8];
    assert_near(&[victim.quantile(0.5)], &[540.7], 0.03);
    let alone = &run(&fabric, &[Flow::small(8, 9)])[0];
    assert_near(&[alone.quantile(0.5)], &[4.14], 0.01);
}

/// Vector 27: few bytes that wait are not marked.
#[test]
fn short_queues_have_no_marks() {
    let measured = run(&star(3), &[Flow::new(0, 2, 8), Flow::new(1, 2, 8)]);
    assert_eq!(measured.iter().map(|flow| flow.marked).sum::<u64>(), 0);
}

/// Flows from the NICs of one switch to one NIC at the other, and a victim to another one there.
fn victim_beside_incast(rules: &str, windows: &[u64]) -> Vec<Measured> {
    let sources = windows.iter().enumerate();
    let mut flows: Vec<Flow> = sources.map(|(nic, window)| Flow::new(nic, 10, *window)).collect();
    flows.push(Flow::small(8, 11));
    flows.push(Flow::small(9, 10));
    run(&format!("{}{rules}", pair(10, "4GB/s")), &flows)
}

/// Vector 5.
#[test]
fn queue_at_a_port_spares_a_victim_on_the_way_there() {
    let measured = victim_beside_incast("congestion none", &[64; 8]);
    let victim = measured[8].quantile(0.5);
    assert!((6.1..=7.1).contains(&victim), "{victim} us");
}

/// Vector 6.
#[test]
fn congestion_that_spreads_hits_a_victim_on_the_way() {
    let rules = "congestion spread buffer=64KiB";
    let measured = victim_beside_incast(rules, &[64; 8]);
    assert_near(&[measured[8].quantile(0.5)], &[1016.0], 0.03);
    let mut simulation = Simulation::new(&format!("{}{rules}", pair(10, "4GB/s")));
    let flows: Vec<Flow> = (0..8).map(|nic| Flow::new(nic, 10, 64)).collect();
    simulation.run(&flows, 0, 5 * MS);
    // The queue blocks the ports of the sources, which would be idle for most of the time.
    assert!(simulation.count(0, Count::Blocked) > MS);
    assert_eq!(simulation.count(2 * 9, Count::Blocked), 0);
}

/// Vector 7.
#[test]
fn sources_of_a_target_are_held_back_to_equal_shares() {
    let measured = victim_beside_incast("congestion endpoint", &[64, 64, 64, 64, 16, 16, 16, 16]);
    assert_near(&megabytes(&measured[..8]), &[121.2; 8], 0.05);
    let [elsewhere, same] = [8, 9].map(|flow| measured[flow].quantile(0.5));
    assert!(elsewhere <= 7.1 && same <= 10.0, "{elsewhere}, {same} us");
}

/// Sources that wait for all answers of a list leave the port to others meanwhile, and take back
/// what they missed.
#[test]
fn sources_that_pause_fill_a_port_together() {
    let list = |from, pause| Flow::lists(from, 9, 64, pause);
    for pause in [0, 20_000, 60_000] {
        let flows = [list(0, pause), list(1, pause)];
        let measured = megabytes(&run(&star(10), &flows));
        assert_near(&measured, &[484.8; 2], 0.05);
    }
    let flows: Vec<Flow> = (0..8).map(|from| list(from, 60_000)).collect();
    assert_near(&megabytes(&run(&star(10), &flows)), &[121.2; 8], 0.05);
}

/// A source that another link slows leaves its share of the port to the others.
#[test]
fn sources_take_what_others_leave_of_a_port() {
    let fabric = format!("{}fault nic 0 tx rate=25%", star(3));
    let flows = [Flow::new(0, 2, 64), Flow::new(1, 2, 64)];
    assert_near(&megabytes(&run(&fabric, &flows)), &[242.4, 727.2], 0.05);
}

/// The rates of vector 4 with a victim in the class LOW_LATENCY: eight sources, and then the
/// victim.
fn incast_beside_other_class(line: &str) -> Vec<Measured> {
    let fabric = format!("{}congestion none\n{line}", star(10));
    let mut flows: Vec<Flow> = (0..8).map(|nic| Flow::new(nic, 9, 32)).collect();
    flows.push(Flow { class: 2, ..Flow::small(8, 9) });
    run(&fabric, &flows)
}

/// Vector 8.
#[test]
fn class_with_priority_passes_the_queue() {
    let measured = incast_beside_other_class("class LOW_LATENCY priority");
    let victim = measured[8].quantile(0.5);
    assert!(victim <= 4.14 + 2.12, "{victim} us");
    assert_near(&megabytes(&measured[..8]), &[120.0; 8], 0.05);
}

#[test]
fn class_without_share_waits_in_the_queue_of_best_effort() {
    let victim = |line: &str| incast_beside_other_class(line)[8].quantile(0.5);
    assert!(victim("") < 10.0);
    assert_near(&[victim("class LOW_LATENCY share=none")], &[540.7], 0.05);
}

#[test]
fn classes_share_a_link_by_weight() {
    let fabric = format!(
        "{}congestion none\nclass BULK_DATA share=25%\nclass DEDICATED_ACCESS share=75%\n\
         class BEST_EFFORT ceiling=10%",
        star(4)
    );
    let flow = |from, class| Flow { class, ..Flow::new(from, 3, 64) };
    let measured = run(&fabric, &[flow(0, 1), flow(1, 3)]);
    assert_near(&megabytes(&measured), &[242.4, 727.2], 0.05);
    let measured = run(&fabric, &[flow(0, 1)]);
    assert_near(&megabytes(&measured), &[969.7], 0.05);
    let measured = run(&fabric, &[flow(0, 0)]);
    assert_near(&megabytes(&measured), &[97.0], 0.05);
}

/// Vectors 9 and 10.
#[test]
fn halves_of_a_tapered_fabric_share_its_cables() {
    assert_near(&rates("", &HALVES), &[24.24; 8], 0.05);
    let back = HALVES.map(|(from, to)| (to, from));
    assert_near(&rates("", &[HALVES, back].concat()), &[23.5; 16], 0.05);
}

/// Vector 11.
#[test]
fn worst_shift_is_faster_by_detours() {
    assert_near(&rates("", &shift(4)), &[12.12; 16], 0.05);
    let adaptive = rates("route adaptive bias=200ns", &shift(4));
    let mean = adaptive.iter().sum::<f64>() / 16.0;
    assert!((18.0..=24.3).contains(&mean), "{adaptive:.2?}");
}

/// Vector 12.
#[test]
fn shifts_reach_what_minimal_paths_allow() {
    let mut sum = 0.0;
    for by in 1..16 {
        let found = rates("", &shift(by));
        let mean = found.iter().sum::<f64>() / 16.0;
        sum += mean;
        match by {
            1 | 15 => assert_near(&found, &[48.48; 16], 0.05),
            2 | 6 | 10 | 14 => assert_near(&found, &[24.24; 16], 0.05),
            4 | 8 | 12 => assert_near(&found, &[12.12; 16], 0.05),
            _ => {
                let least = found.iter().copied().fold(f64::MAX, f64::min);
                let most = found.iter().copied().fold(0.0, f64::max);
                assert_near(&[least, mean, most], &[16.16, 20.20, 32.32], 0.05);
            }
        }
    }
    assert_near(&[sum / 15.0], &[23.43], 0.05);
}

/// Vector 13.
#[test]
fn slow_cable_slows_one_direction() {
    let fault = "fault link 0.1>2.1 rate=25%";
    let expected = HALVES.map(|pair| if [(0, 8), (2, 10)].contains(&pair) { 6.06 } else { 24.24 });
    assert_near(&rates(fault, &HALVES), &expected, 0.05);
    let back = HALVES.map(|(from, to)| (to, from));
    assert_near(&rates(fault, &back), &[24.24; 8], 0.05);
}

/// Vector 14.
#[test]
fn detours_replace_a_cable_that_is_down() {
    let found = rates("route adaptive bias=200ns\nfault link 0.1-2.1 down", &HALVES);
    let sum = found.iter().sum::<f64>();
    assert!((138.0..=145.5).contains(&sum), "{sum}: {found:.2?}");
    assert!(found.iter().all(|rate| (15.0..=20.0).contains(rate)), "{found:.2?}");
    let minimal = rates("fault link 0.1-2.1 down", &HALVES);
    let without = HALVES.iter().zip(&minimal).filter(|(_, rate)| **rate == 0.0);
    let without: Vec<(usize, usize)> = without.map(|(pair, _)| *pair).collect();
    assert_eq!(without, [(0, 8), (2, 10)]);
}

/// Vector 15.
#[test]
fn tapered_fabric_hides_a_slow_switch() {
    let ports = "fault nic 8 rate=50%\nfault nic 9 rate=50%";
    assert_near(&rates(ports, &HALVES), &[24.24; 8], 0.05);
    assert_near(&rates(ports, &[(8, 9)]), &[24.24], 0.05);
    assert_near(&rates("", &[(8, 9)]), &[48.48], 0.05);
}

/// A switch at half of its rate slows its cables too: flows to other groups do not notice it only
/// as far as their cables end at other switches.
#[test]
fn slow_switch_slows_its_ports_and_cables() {
    let fault = "fault switch 2.0 rate=50%";
    assert_near(&rates(fault, &[(8, 9)]), &[24.24], 0.05);
    assert_near(&rates(fault, &[(10, 11)]), &[48.48], 0.05);
    // The cables of group 2 to groups 1 and 3 end at switch 2.0, and that to group 0 at 2.1.
    let found = rates(fault, &[(10, 14), (11, 3)]);
    assert_near(&found, &[24.24, 48.48], 0.05);
}

/// Vector 16.
#[test]
fn slow_group_is_slow_between_its_switches() {
    let pairs = [0, 1, 4, 5, 8, 9, 12, 13].map(|nic| (nic, nic + 2));
    let expected = [0, 1, 2, 3].map(|group| if group == 3 { 12.12 } else { 24.24 });
    let expected: Vec<f64> = expected.into_iter().flat_map(|rate| [rate; 2]).collect();
    assert_near(&rates("fault link 3.0-3.1 rate=50%", &pairs), &expected, 0.05);
}

/// Vector 17.
#[test]
fn slow_receiving_port_slows_packets_to_its_nic() {
    let fault = "fault nic 5 rx rate=50%";
    assert_near(&rates(fault, &[(4, 5)]), &[24.24], 0.05);
    assert_near(&rates(fault, &[(5, 4)]), &[48.48], 0.05);
}

/// Vector 18: the tail alone shows a lossy cable.
#[test]
fn lossy_cable_shows_in_the_tail() {
    let lines = format!("{D4}fault link 0.0>0.1 loss=0.02 retry=1ms");
    let mut simulation = Simulation::new(&lines);
    let measured = simulation.run(&[Flow::small(0, 2), Flow::small(4, 6)], 0, 40 * MS);
    let [lossy, other] =
        [0, 1].map(|flow| (measured[flow].quantile(0.5), measured[flow].quantile(0.99)));
    assert_near(&[lossy.0], &[other.0], 0.01);
    assert!(lossy.1 >= 1000.0 && other.1 < 1.0, "{lossy:?} {other:?}");
    // The ports come first, two links each; the cable 0.0-0.1 is the first one.
    let losses = [32, 33].map(|link| simulation.count(link, Count::Losses));
    assert!(losses[0] > 0 && losses[1] == 0, "{losses:?}");
}

#[test]
fn gets_share_links_as_puts_do() {
    let get = |from, to, window| Flow { is_get: true, ..Flow::new(from, to, window) };
    assert_near(&megabytes(&run(&star(3), &[get(2, 0, 64), get(2, 1, 64)])), &[484.8; 2], 0.05);
    assert_near(
        &megabytes(&run(&star(3), &[get(0, 2, 64), Flow::new(2, 1, 64)])),
        &[484.8; 2],
        0.05,
    );
}

/// An acknowledgement of 64 bytes for each packet takes 3 % of the other direction.
#[test]
fn acknowledgements_take_their_bytes_from_data() {
    let alone = run(&star(2), &[Flow::new(0, 1, 32)]);
    assert_near(&megabytes(&alone), &[969.7], 0.005);
    let both = run(&star(2), &[Flow::new(0, 1, 32), Flow::new(1, 0, 32)]);
    assert_near(&megabytes(&both), &[941.2; 2], 0.01);
}

/// A packet that is on the way holds the flow on its path, however long ago it was sent.
#[test]
fn ordered_packets_keep_their_order_over_parallel_cables() {
    let lines = "dragonfly groups=2 switches=1 nics=4 nic=1GB/s global=2 latency=1us\n\
                 route minimal\nfault link 0.0-1.0#1 rate=1%\n";
    let mut fabric = Simulation::new(lines);
    let mut slowest = 0;
    for from in 0..4 {
        let times = (0..20).map(|packet| packet * 1000).chain([MS, 2 * MS]);
        let arrivals: Vec<u64> = times.map(|now| fabric.send_ordered(from, 4, now)).collect();
        assert!(arrivals.is_sorted(), "{arrivals:?}");
        slowest = slowest.max(arrivals[19]);
    }
    assert!(slowest > 3 * MS, "no flow took the slow cable");
}

/// Validity (load.md 4.6): how long the data of a NIC took on the slowest link of its way.
#[test]
fn data_fills_the_slowest_link_of_its_way() {
    const LIST: u64 = 64 * 2112;
    let filled = |fabric: &str, flows: &[Flow], nic: usize| {
        let mut simulation = Simulation::new(fabric);
        simulation.run(flows, 0, 20 * MS);
        simulation.count(2 * nic, Count::Filled)
    };
    let always = 20 * MS * 99 / 100..20 * MS + 4 * LIST;
    let flow = Flow::new(0, 1, 64);
    assert!(always.contains(&filled(&star(3), &[flow], 0)));
    assert_eq!(filled(&star(3), &[flow], 1), 0, "acknowledgements");
    let across = Flow::new(0, 1, 16);
    assert!(always.contains(&filled(&pair(1, "250MB/s"), &[across], 0)));
    for source in [0, 1] {
        let shared = filled(&star(3), &[0, 1].map(|from| Flow::new(from, 2, 64)), source);
        assert!(always.contains(&(2 * shared)), "{source}: {shared}");
    }
    let get = Flow { is_get: true, ..flow };
    assert_eq!(filled(&star(3), &[get], 0), 0, "the data comes from the other NIC");
    assert!(always.contains(&filled(&star(3), &[get], 1)));
    // A list takes 64 packets of 2112 ns and a round trip of 4.064 us; the pause is as long.
    let lists = filled(&star(3), &[Flow::lists(0, 1, 64, LIST)], 0);
    assert!((70 * LIST..75 * LIST).contains(&lists), "{lists}");
    assert_eq!(lists % LIST, 0);
}

/// The bytes per second of each flow, given the links of its path and their rates: all rates rise
/// together until a link is full, whose flows then stay as they are.
fn fill(paths: &[Vec<usize>], capacities: &[f64]) -> Vec<f64> {
    let mut rates = vec![None; paths.len()];
    let mut left = capacities.to_vec();
    while rates.contains(&None) {
        let open = |link: usize| {
            let flows = paths.iter().zip(&rates);
            flows.filter(|(path, rate)| rate.is_none() && path.contains(&link)).count() as f64
        };
        let links: BTreeSet<usize> = paths.iter().flatten().copied().collect();
        let shares = links.into_iter().filter(|link| open(*link) > 0.0);
        let shares = shares.map(|link| (left[link] / open(link), link));
        let (share, full) = shares.min_by(|one, other| one.0.total_cmp(&other.0)).expect("a link");
        for (path, rate) in paths.iter().zip(&mut rates) {
            if rate.is_none() && path.contains(&full) {
                *rate = Some(share);
                path.iter().for_each(|link| left[*link] -= share);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// Whether flows meet only at one full link each. A flow that waits at two, with other flows at
/// each, has a part of its window at both: then the windows decide about shares, which progressive
/// filling does not know.
fn waits_once(paths: &[Vec<usize>], capacities: &[f64], rates: &[f64]) -> bool {
    let flows_of = |link: usize| -> Vec<usize> {
        let flows = paths.iter().enumerate().filter(|(_, path)| path.contains(&link));
        flows.map(|(flow, _)| flow).collect()
    };
    let is_full = |link: usize| {
        let load: f64 = flows_of(link).into_iter().map(|flow| rates[flow]).sum();
        load > 0.999 * capacities[link]
    };
    paths.iter().all(|path| {
        let full = path.iter().filter(|link| is_full(**link));
        let rivals: BTreeSet<Vec<usize>> = full.map(|link| flows_of(*link)).collect();
        rivals.len() == 1
    })
}

#[derive(Debug)]
struct OracleCase {
    fabric: String,
    flows: Vec<(usize, usize)>,
}

/// Small dragonflies with links of different rates, and flows in one direction between each two
/// NICs. Sources only send and targets only receive, so that answers take nothing from data.
fn cases() -> impl Strategy<Value = OracleCase> {
    let shape = (1usize..=4, 1usize..=3, 2usize..=3);
    let rates = prop::collection::vec(prop::sample::select(vec!["1GB/s", "2GB/s", "4GB/s"]), 3);
    let congestion = prop::sample::select(vec!["none", "endpoint"]);
    (shape, rates, congestion)
        .prop_flat_map(|((groups, switches, nics), rates, congestion)| {
            let count = groups * switches * nics;
            let fabric = format!(
                "dragonfly groups={groups} switches={switches} nics={nics} nic={} local={} \
                 global-rate={} latency=200ns\nroute minimal\ncongestion {congestion}",
                rates[0], rates[1], rates[2]
            );
            let flows = prop::collection::vec((0..count, 0..count), 1..=12);
            (Just(fabric), flows)
        })
        .prop_map(|(fabric, flows)| {
            let is_source = |nic: usize| nic.is_multiple_of(2);
            let flows = flows.into_iter().filter(|(from, to)| is_source(*from) && !is_source(*to));
            let flows: BTreeSet<(usize, usize)> = flows.collect();
            OracleCase { fabric, flows: flows.into_iter().collect() }
        })
        .prop_filter("flows", |case| !case.flows.is_empty())
}

/// Graphs made by hand: a tree of switches with some more cables, and links of different rates.
/// Only flows with one shortest path, which progressive filling needs.
fn graphs() -> impl Strategy<Value = OracleCase> {
    let rate = || prop::sample::select(vec!["1GB/s", "2GB/s", "4GB/s"]);
    let cables = prop::collection::vec((any::<prop::sample::Index>(), rate()), 1..=5);
    let more = prop::collection::vec((0usize..6, 0usize..6, rate()), 0..=3);
    let nics = prop::collection::vec((0usize..6, rate()), 2..=12);
    let flows = prop::collection::vec((0usize..12, 0usize..12), 1..=12);
    let congestion = prop::sample::select(vec!["none", "endpoint"]);
    (cables, more, nics, flows, congestion)
        .prop_map(|(cables, more, nics, flows, congestion)| {
            let switches = cables.len() + 1;
            // Two switches of each group, so that cables lead within groups and between them.
            let name = |switch: usize| format!("{}.{}", switch / 2, switch % 2);
            let mut lines: Vec<String> =
                (0..switches).map(|switch| format!("switch {}", name(switch))).collect();
            let mut known = BTreeSet::new();
            let tree = (1..).zip(&cables);
            let tree = tree.map(|(switch, (parent, rate))| (parent.index(switch), switch, *rate));
            let more = more.iter().map(|(one, other, rate)| {
                let (one, other) = (one % switches, other % switches);
                (one.min(other), one.max(other), *rate)
            });
            for (one, other, rate) in tree.chain(more) {
                if one != other && known.insert((one, other)) {
                    lines.push(format!(
                        "link {} {} rate={rate} latency=200ns",
                        name(one),
                        name(other)
                    ));
                }
            }
            for (number, (switch, rate)) in nics.iter().enumerate() {
                let switch = name(switch % switches);
                lines.push(format!("nic {number} {switch} rate={rate} latency=200ns"));
            }
            lines.push(format!("route minimal\ncongestion {congestion}"));
            let fabric = lines.join("\n");
            let topology = Topology::from_file("random", &fabric).expect("a fabric");
            let map = SwitchMap::new(&topology);
            let has_one_path = |(from, to): &(usize, usize)| {
                let [from, to] = [*from, *to].map(|nic| topology.nics[nic].switch);
                from == to || map.routes(from, to, 0).minimal.len() == 1
            };
            let flows = flows.into_iter().map(|(from, to)| (from % nics.len(), to % nics.len()));
            let flows = flows.filter(|(from, to)| from % 2 == 0 && to % 2 == 1);
            let flows: BTreeSet<(usize, usize)> = flows.filter(has_one_path).collect();
            OracleCase { flows: flows.into_iter().collect(), fabric }
        })
        .prop_filter("flows", |case| !case.flows.is_empty())
}

/// Checks that the flows of a case get the rates of progressive filling.
fn check(case: &OracleCase) -> Result<(), TestCaseError> {
    let topology = Topology::from_file("random", &case.fabric).expect("a fabric");
    let map = SwitchMap::new(&topology);
    let path = |(from, to): &(usize, usize)| {
        let switches = [*from, *to].map(|nic| topology.nics[nic].switch);
        let routes = map.routes(switches[0], switches[1], 0);
        let ends = ([2 * from], [2 * to + 1]);
        [&ends.0[..], &routes.minimal[0].links, &ends.1].concat()
    };
    let paths: Vec<Vec<usize>> = case.flows.iter().map(path).collect();
    let capacities: Vec<f64> = map.links().iter().map(|link| link.rate).collect();
    let expected = fill(&paths, &capacities);
    prop_assume!(waits_once(&paths, &capacities, &expected), "two full links");
    let flows: Vec<Flow> = case.flows.iter().map(|(from, to)| Flow::new(*from, *to, 64)).collect();
    let measured = Simulation::of(&topology).run(&flows, 4_000_000, 10_000_000);
    for ((flow, measured), expected) in case.flows.iter().zip(&measured).zip(expected) {
        let payload = expected * 2048.0 / 2112.0;
        let error = (measured.rate / payload - 1.0).abs();
        prop_assert!(error < 0.05, "{flow:?}: {} instead of {payload}", measured.rate);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flows_get_what_progressive_filling_gives_them(case in cases()) {
        check(&case)?;
    }

    #[test]
    fn flows_on_graphs_made_by_hand_get_what_progressive_filling_gives_them(case in graphs()) {
        check(&case)?;
    }
}

#[test]
fn fills_links_in_turn() {
    // The first link is shared by two flows, one of which a slower link limits.
    assert_eq!(fill(&[vec![0], vec![0, 1]], &[10.0, 2.0]), [8.0, 2.0]);
    assert_eq!(fill(&[vec![0], vec![0, 1], vec![1]], &[10.0, 10.0]), [5.0, 5.0, 5.0]);
}

#[test]
fn flow_waits_at_two_full_links() {
    let paths = [vec![0], vec![0, 1], vec![1]];
    assert!(!waits_once(&paths, &[2.0, 2.0], &[1.0; 3]));
    assert!(waits_once(&[vec![0, 1], vec![0, 1]], &[2.0, 2.0], &[1.0; 2]));
}
