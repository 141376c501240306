//! `cargo bench --bench load`: whether `survey --load` names the part of a fabric of
//! switches that is slow. It plants at most one fault in a dragonfly of 16 software NICs, surveys
//! it under load, and prints how often which part was named. A survey takes one to three minutes.
//!
//! Arguments after `--`: names of faults (without any, the seed decides), and
//!
//! * `--seeds=COUNT`: surveys, of each fault if faults are named, by default 1. The seed decides
//!   where the fault is;
//! * `--first=SEED`: the seed of the first one, by default 1;
//! * `--busy=COUNT`: busy loops beside the surveys, by default 0.

mod blind;
#[path = "../harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::env;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use blind::Judgement;
use harness::{Command, Fabric, Process, finish, stdout};

const GROUPS: u32 = 4;
const SWITCHES: u32 = 2;
const NICS: u32 = 2;

/// A full window of a NIC lasts longer than the time slices of 16 processes on two CPUs, and the
/// operations are small parts of it: figures are about the fabric (load.md 4.6).
const SIZES: &str = "--load-size=16K --load-window=256K";

/// Of victims, whose latencies must be long beside the time that software takes.
const SIZES_OF_VICTIMS: &str = "--load-size=16K --load-window=128K";

/// The longest survey.
const LIMIT: Duration = Duration::from_secs(900);

/// Longer than all surveys.
const FOREVER: Duration = Duration::from_secs(1_000_000);

/// A fault.
struct Planted {
    /// The items of the topology.
    items: String,
    /// The part that a document should name; null for nothing.
    unit: Value,
}

/// A kind of fault.
struct Plant {
    name: &'static str,
    patterns: &'static str,
    sizes: &'static str,
    latency: &'static str,
    /// Plants it somewhere.
    plant: fn(&mut Rng) -> Planted,
}

const BISECTIONS: Plant = Plant {
    name: "nothing",
    patterns: "bisect:switch,bisect:group,bisect:system",
    sizes: SIZES,
    latency: "20us",
    plant: |_| Planted { items: String::new(), unit: Value::Null },
};

const VICTIMS: Plant = Plant {
    name: "nothing-victims",
    patterns: "victims",
    sizes: SIZES_OF_VICTIMS,
    latency: "350us",
    ..BISECTIONS
};

const PLANTS: [Plant; 11] = [
    BISECTIONS,
    Plant { name: "nic", plant: |random| nic(random, ""), ..BISECTIONS },
    Plant { name: "nic-receives", plant: |random| nic(random, "rx"), ..BISECTIONS },
    Plant { name: "nic-sends", plant: |random| nic(random, "tx"), ..BISECTIONS },
    Plant {
        name: "switch",
        plant: |random| {
            let (group, switch) = (random.u32(0..GROUPS), random.u32(0..SWITCHES));
            Planted {
                items: format!(";fault switch {group}.{switch} rate=40%"),
                unit: json!({"switch": {"group": group, "switch": switch}}),
            }
        },
        ..BISECTIONS
    },
    Plant {
        name: "group",
        plant: |random| {
            let group = random.u32(0..GROUPS);
            let own = cables().into_iter().filter(|ends| ends.iter().any(|end| end.0 == group));
            Planted {
                items: own.map(|ends| slow_cable(ends, '-')).collect(),
                unit: json!({"group": group}),
            }
        },
        ..BISECTIONS
    },
    Plant { name: "link", plant: |random| link(random, '-'), ..BISECTIONS },
    Plant { name: "link-one-way", plant: |random| link(random, '>'), ..BISECTIONS },
    VICTIMS,
    Plant {
        name: "no-congestion-management",
        plant: |_| Planted {
            items: ";congestion spread buffer=64KiB".into(),
            unit: json!("system"),
        },
        ..VICTIMS
    },
    Plant {
        name: "class-without-share",
        patterns: "classes",
        plant: |_| Planted {
            items: ";class LOW_LATENCY share=none".into(),
            unit: json!("traffic_class"),
        },
        ..VICTIMS
    },
];

fn nic(random: &mut Rng, side: &str) -> Planted {
    let nic = random.u32(0..GROUPS * SWITCHES * NICS);
    Planted { items: format!(";fault nic {nic} {side} rate=40%"), unit: json!({ "nic": nic }) }
}

/// A switch: its group, and its number there.
type Switch = (u32, u32);

/// The ends of all cables between switches (load.md 4.1).
fn cables() -> Vec<[Switch; 2]> {
    let local = (0..GROUPS).map(|group| [(group, 0), (group, 1)]);
    let end = |from: u32, to: u32| (from, ((to + GROUPS - from) % GROUPS - 1) % SWITCHES);
    let between = (0..GROUPS).flat_map(|from| (from + 1..GROUPS).map(move |to| (from, to)));
    let global = between.map(|(from, to)| [end(from, to), end(to, from)]);
    local.chain(global).collect()
}

fn slow_cable([from, to]: [Switch; 2], between: char) -> String {
    format!(";fault link {}.{}{between}{}.{} rate=30%", from.0, from.1, to.0, to.1)
}

fn link(random: &mut Rng, between: char) -> Planted {
    let mut ends = *random.choice(&cables()).expect("a cable");
    if random.bool() {
        ends.reverse();
    }
    let [from, to] = ends;
    let both = between == '-';
    let unit = if from.0 == to.0 {
        json!({"switch_links": {"group": from.0, "from": from.1, "to": to.1, "both": both}})
    } else {
        json!({"group_links": {"from": from.0, "to": to.0, "both": both}})
    };
    Planted { items: slow_cable(ends, between), unit }
}

fn main() {
    let (mut seeds, mut first, mut busy) = (1, 1, 0);
    let mut plants: Vec<&Plant> = Vec::new();
    for argument in env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("--seeds", count)) => seeds = count.parse().expect("a number"),
            Some(("--first", seed)) => first = seed.parse().expect("a number"),
            Some(("--busy", count)) => busy = count.parse().expect("a number"),
            _ => {
                let plant = PLANTS.iter().find(|plant| plant.name == argument);
                plants.push(plant.unwrap_or_else(|| panic!("{argument}: no fault")));
            }
        }
    }
    let _busy: Vec<Process> = (0..busy)
        .map(|_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).limit(FOREVER);
            command.spawn().expect("sh starts")
        })
        .collect();
    let mut judgements: BTreeMap<&str, Vec<Judgement>> = BTreeMap::new();
    for seed in first..first + seeds {
        let drawn = [Rng::with_seed(seed).choice(&PLANTS).expect("a fault")];
        let seed_plants = if plants.is_empty() { &drawn[..] } else { &plants };
        for plant in seed_plants {
            let plant_judgements = judgements.entry(plant.name).or_default();
            plant_judgements.push(plant.survey(seed));
        }
    }
    let heads = blind::heads();
    println!("{:24}  runs{heads}", "fault");
    for (name, judgements) in judgements {
        let counts = blind::counts(&judgements);
        println!("{name:24}  {:>4}{counts}", judgements.len());
    }
}

impl Plant {
    /// Surveys a dragonfly with this fault under load. Returns what its verdict is worth.
    fn survey(&self, seed: u64) -> Judgement {
        let shape = format!(
            "dragonfly:groups={GROUPS},switches={SWITCHES},nics={NICS},nic=10MB/s,local=10MB/s,\
             global-rate=10MB/s,latency={};route minimal",
            self.latency
        );
        let planted = (self.plant)(&mut Rng::with_seed(seed));
        let fabric = Fabric::new();
        let mut command = fabric.command(&format!(
            "survey --loopback={} --pairs=halves --pair-time=20ms --seed={seed} --no-why \
             --load={} {} --time-limit=10m --json",
            GROUPS * SWITCHES * NICS,
            self.patterns,
            self.sizes
        ));
        command.arg(format!("--topology={shape}")).limit(LIMIT);
        command.env("CXIDIAG_TOPOLOGY", format!("{shape}{}", planted.items));
        let began = Instant::now();
        let output = finish(command);
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        let load = &document["load"];
        let named: Vec<&Value> = list(&load["judgements"])
            .filter(|entry| entry["grade"] == "bad" && entry["word"] != "transient")
            .map(|entry| &entry["unit"])
            .collect();
        let judgement = judge(&planted.unit, &named);
        let unjudged: u64 = list(&load["bandwidths"])
            .chain(list(&load["impacts"]))
            .filter_map(|entry| entry["unjudged"].as_u64())
            .sum();
        eprintln!(
            "{} {seed}: {}{}: {named:?}; {:.0} s; {unjudged} measurements left out; {}",
            self.name,
            blind::name(judgement),
            planted.items,
            began.elapsed().as_secs_f64(),
            document["summary"].as_str().unwrap_or_default(),
        );
        judgement
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().expect("a list").iter()
}

fn judge(planted: &Value, named: &[&Value]) -> Judgement {
    match named {
        [] if planted.is_null() => Judgement::Right,
        [] => Judgement::Nobody,
        [one] if is_same(one, planted) => Judgement::Right,
        _ => {
            let slow = switches(planted);
            let is_near = |unit: &&Value| switches(unit).iter().any(|switch| slow.contains(switch));
            if named.iter().all(is_near) { Judgement::WrongPlace } else { Judgement::Innocent }
        }
    }
}

/// Whether two units are the same. Links that are slow in both directions have no first end.
fn is_same(one: &Value, other: &Value) -> bool {
    let ends = |unit: &Value| {
        let links = unit.as_object().and_then(|map| map.values().next());
        let both = links.is_some_and(|link| link["both"] == true);
        both.then(|| switches(unit))
    };
    one == other || ends(one).is_some_and(|ends_of_one| ends(other) == Some(ends_of_one))
}

/// The switches of a part, or at its ends, in order.
fn switches(unit: &Value) -> Vec<Switch> {
    let number = |value: &Value| value.as_u64().expect("a number") as u32;
    let part = unit.as_object().and_then(|map| map.iter().next());
    let all = (0..GROUPS).flat_map(|group| (0..SWITCHES).map(move |switch| (group, switch)));
    let is_in = |(group, switch): &Switch| match part.map(|(kind, part)| (kind.as_str(), part)) {
        Some(("nic", entry)) => number(entry) / NICS == group * SWITCHES + switch,
        Some(("switch", entry)) => {
            [number(&entry["group"]), number(&entry["switch"])] == [*group, *switch]
        }
        Some(("group", entry)) => number(entry) == *group,
        Some(("switch_links", entry)) => number(&entry["group"]) == *group,
        Some(("group_links", entry)) => {
            [number(&entry["from"]), number(&entry["to"])].contains(group)
        }
        _ => unit == "system" || unit == "traffic_class",
    };
    all.filter(is_in).collect()
}
