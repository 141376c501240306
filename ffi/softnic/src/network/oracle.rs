//! Progressive filling (load.md 4.7): the rates that the model must reach, by another way.

use std::collections::BTreeSet;

use proptest::prelude::*;
use topology::Topology;

use super::routes::SwitchMap;
use super::simulation::{Flow, Simulation};

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
/// each, has a part of its window at both: then the windows decide about shares, which the oracle
/// does not know.
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
/// Only flows with one shortest path, which the oracle needs.
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
