//! `cargo bench --bench survey`: the rounds, statistics and blame of a survey of a large cluster,
//! whose answers a model makes. The time of the model itself is printed too, and left out of the
//! other times.

mod status;

use std::time::{Duration, Instant};

use campaign::quiet::conductor::{Conductor, Settings};
use campaign::quiet::findings::{Certainty, Direction};
use campaign::quiet::pairs::parse;
use campaign::quiet::roster::{NicId, NodeId, Unit};
use campaign::quiet::rounds::NicOrder;
use campaign::quiet::testing::{Cluster, Effect, Fault};

use status::status_kib;

/// Groups, switches of a group, nodes at a switch, NICs of a node: 10,000 nodes.
const SHAPE: [u16; 4] = [20, 25, 20, 1];

fn run(pairs: &str) {
    let mut cluster = Cluster::new(SHAPE, &["write-lat"], 1);
    let nic = |nic, direction| Fault::slow(Unit::Nic(nic), direction, 2.0);
    cluster.faults = vec![
        Fault { unit: Unit::Node(NodeId(1234)), direction: Direction::Both, effect: Effect::Fails },
        Fault {
            unit: Unit::Nic(NicId(6000)),
            direction: Direction::Both,
            effect: Effect::Loses(0.3),
        },
        Fault {
            unit: Unit::Nic(NicId(3000)),
            direction: Direction::Initiator,
            effect: Effect::Resends(30.0),
        },
        nic(NicId(4711), Direction::Both),
        nic(NicId(8000), Direction::Initiator),
        Fault::slow(Unit::Switch { group: 7, switch: 3 }, Direction::Both, 2.0),
        Fault::slow(Unit::GroupPair(2, 11), Direction::Both, 2.0),
    ];
    cluster.spikes = 0.0001;
    let settings = Settings {
        selections: parse(pairs, |path| Err(path.to_owned())).expect("a known selection"),
        nics: NicOrder::InTurn,
        most_active: None,
        seed: 1,
        expectations: Vec::new(),
        sensitivity: None,
        keep_figures: None,
    };
    let begin = Instant::now();
    let mut conductor =
        Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).expect("locations");
    let (mut rounds, mut answers) = (0, 0);
    let mut model_time = Duration::ZERO;
    while !conductor.is_over() {
        for round in conductor.next_rounds(100) {
            rounds += 1;
            let before = Instant::now();
            let results = cluster.measure(&round);
            model_time += before.elapsed();
            answers += results.len();
            for result in results {
                conductor.add(&result);
            }
        }
    }
    let findings = conductor.findings();
    let wall = begin.elapsed() - model_time;
    let named: Vec<String> = findings
        .causes
        .iter()
        .filter(|cause| cause.certainty != Certainty::Transient)
        .map(|cause| format!("{:?} {:?}", cause.unit, cause.direction))
        .collect();
    println!(
        "{pairs:34} {rounds:6} rounds, {answers:9} results, {:6.2} s + {:5.1} s of the model, {} MiB now, {} MiB at most",
        wall.as_secs_f64(),
        model_time.as_secs_f64(),
        status_kib("VmRSS") / 1024,
        status_kib("VmHWM") / 1024,
    );
    println!("{:34} named: {}", "", named.join("; "));
}

fn main() {
    println!(
        "survey of 10,000 nodes in 20 groups of 25 switches; two NICs, a switch and a pair of groups are slow, a NIC fails, and one fails now and then\n"
    );
    for pairs in ["halves", "random:3", "random:4", "within-switch,switches,groups"] {
        run(pairs);
    }
    // Two minutes: `cargo bench --bench survey -- all`.
    if std::env::args().any(|argument| argument == "all") {
        run("all");
    }
}
