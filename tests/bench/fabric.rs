//! `cargo bench --profile dev --bench fabric`: whether `survey` names the part of a fabric of
//! switches that is slow. It plants one fault in a dragonfly of 16 to 32 software NICs, surveys
//! it, and prints how often which part was named.
//!
//! Arguments after `--`: names of faults (all without any), and
//!
//! * `--seeds=COUNT`: surveys of each fault, by default 1. The seed decides about the dragonfly,
//!   and where in it the fault is;
//! * `--first=SEED`: the seed of the first one, by default 1;
//! * `--pairs=WHICH`: as of `survey`, by default random:8.

mod blind;
#[path = "../harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::env;
use std::time::Instant;

use fastrand::Rng;
use serde_json::Value;
use topology::Topology;

use blind::Judgement;
use harness::{Fabric, finish, stdout};

/// Groups, switches of each, and NICs of each. A switch is a part of its own if it has three NICs.
const SWITCHES: [[u32; 3]; 4] = [[4, 2, 3], [5, 2, 3], [3, 3, 3], [4, 2, 4]];

/// Dragonflies in which less than half of the pairs of groups have the same group.
const GROUPS: [[u32; 3]; 4] = [[5, 2, 2], [6, 2, 2], [8, 2, 2], [5, 2, 3]];

/// Options with which a slot is longer than five lists on a slow link (load.md 4.6).
const LISTS: &str = " -- --list-size=8";

/// What is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SlotTask {
    Nic(u32),
    Switch(u32, u32),
    Group(u32),
    /// The links between two groups, the smaller number first.
    Links(u32, u32),
    /// The path between two NICs.
    Path(u32, u32),
    Nothing,
}

/// A fault, with its place.
struct Planted {
    part: SlotTask,
    /// The items of the topology.
    items: String,
    /// Its direction in the document; `None` for any.
    direction: Option<&'static str>,
}

/// A kind of fault.
struct Plant {
    name: &'static str,
    tool: &'static str,
    shapes: [[u32; 3]; 4],
    route: &'static str,
    /// Plants it somewhere.
    plant: fn(&Topology, &mut Rng) -> Planted,
}

const PLANTS: [Plant; 12] = [
    Plant {
        name: "nothing",
        tool: "write-bw",
        shapes: SWITCHES,
        route: "minimal",
        plant: |_, _| Planted { part: SlotTask::Nothing, items: String::new(), direction: None },
    },
    Plant {
        name: "nic-late",
        tool: "write-lat",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| nic(topology, random, "", "latency=200us", None),
    },
    Plant {
        name: "nic",
        tool: "write-bw",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| nic(topology, random, "", "rate=40%", None),
    },
    Plant {
        name: "nic-receives",
        tool: "write-bw",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| nic(topology, random, "rx", "rate=40%", Some("target")),
    },
    Plant {
        name: "nic-sends",
        tool: "write-bw",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| nic(topology, random, "tx", "rate=40%", Some("initiator")),
    },
    Plant {
        name: "switch-late",
        tool: "write-lat",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| switch(topology, random, "latency=200us"),
    },
    Plant {
        name: "switch",
        tool: "write-bw",
        shapes: SWITCHES,
        route: "minimal",
        plant: |topology, random| switch(topology, random, "rate=40%"),
    },
    Plant {
        name: "group-late",
        tool: "write-lat",
        shapes: GROUPS,
        route: "minimal",
        plant: |topology, random| group(topology, random, "latency=200us"),
    },
    Plant {
        name: "group",
        tool: "write-bw",
        shapes: GROUPS,
        route: "minimal",
        plant: |topology, random| group(topology, random, "rate=40%"),
    },
    Plant {
        name: "link",
        tool: "write-bw",
        shapes: GROUPS,
        route: "minimal",
        plant: |topology, random| link(topology, random, '-', None),
    },
    Plant {
        name: "link-one-way",
        tool: "write-bw",
        shapes: GROUPS,
        route: "minimal",
        plant: |topology, random| link(topology, random, '>', Some(["initiator", "target"])),
    },
    Plant {
        name: "link-adaptive",
        tool: "write-bw",
        shapes: GROUPS,
        route: "adaptive",
        plant: |topology, random| link(topology, random, '-', None),
    },
];

fn nic(
    topology: &Topology,
    random: &mut Rng,
    side: &str,
    what: &str,
    direction: Option<&'static str>,
) -> Planted {
    let nic = random.u32(0..topology.nics.len() as u32);
    Planted {
        part: SlotTask::Nic(nic),
        items: format!(";fault nic {nic} {side} {what}"),
        direction,
    }
}

fn switch(topology: &Topology, random: &mut Rng, what: &str) -> Planted {
    let name = random.choice(&topology.switches).expect("a switch").name;
    Planted {
        part: SlotTask::Switch(name.group.into(), name.switch.into()),
        items: format!(";fault switch {name} {what}"),
        direction: None,
    }
}

/// The cables between groups, as the names of their ends.
fn global(topology: &Topology) -> Vec<[topology::SwitchName; 2]> {
    let cables = topology.cables.iter();
    let ends = cables.map(|cable| cable.ends.map(|end| topology.switches[end].name));
    ends.filter(|[one, other]| one.group != other.group).collect()
}

/// All cables of a group to other groups.
fn group(topology: &Topology, random: &mut Rng, what: &str) -> Planted {
    let group = random.choice(&topology.switches).expect("a switch").name.group;
    let cables = global(topology);
    let own = cables.iter().filter(|ends| ends.iter().any(|end| end.group == group));
    let items = own.map(|[one, other]| format!(";fault link {one}-{other} {what}"));
    Planted { part: SlotTask::Group(group.into()), items: items.collect(), direction: None }
}

/// The cables between two groups: in both directions, or in one of them.
fn link(
    topology: &Topology,
    random: &mut Rng,
    between: char,
    directions: Option<[&'static str; 2]>,
) -> Planted {
    let cables = global(topology);
    let [mut one, mut other] = *random.choice(&cables).expect("a cable");
    let place = random.usize(0..2);
    if directions.is_some() && place == 1 {
        (one, other) = (other, one);
    }
    let groups = [one.group, other.group].map(u32::from);
    Planted {
        part: SlotTask::Links(groups[0].min(groups[1]), groups[0].max(groups[1])),
        items: format!(";fault link {one}{between}{other} rate=25%"),
        direction: directions.map(|directions| directions[usize::from(groups[0] > groups[1])]),
    }
}

fn main() {
    let (mut seeds, mut first) = (1, 1);
    let mut pairs = "random:8".to_owned();
    let mut plants: Vec<&Plant> = Vec::new();
    for argument in env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("--seeds", count)) => seeds = count.parse().expect("a number"),
            Some(("--first", seed)) => first = seed.parse().expect("a number"),
            Some(("--pairs", which)) => which.clone_into(&mut pairs),
            _ => {
                let plant = PLANTS.iter().find(|plant| plant.name == argument);
                plants.push(plant.unwrap_or_else(|| panic!("{argument}: no fault")));
            }
        }
    }
    if plants.is_empty() {
        plants = PLANTS.iter().collect();
    }
    let heads = blind::heads();
    println!("{:13}  runs{heads}  named", "fault");
    for plant in plants {
        let mut judgements = Vec::new();
        let mut named = BTreeMap::new();
        for seed in first..first + seeds {
            let (judgement, names) = plant.survey(&pairs, seed);
            judgements.push(judgement);
            if judgement != Judgement::Right {
                *named.entry(names).or_insert(0) += 1;
            }
        }
        let counts = blind::counts(&judgements);
        let named: Vec<String> =
            named.iter().map(|(names, count)| format!("{count} {names}")).collect();
        println!("{:13}  {seeds:>4}{counts}  {}", plant.name, named.join("; "));
    }
}

impl Plant {
    /// Surveys a dragonfly with this fault. Returns what its verdict is worth, and the parts that
    /// it names.
    fn survey(&self, pairs: &str, seed: u64) -> (Judgement, String) {
        let mut random = Rng::with_seed(seed);
        let [groups, switches, nics] = *random.choice(&self.shapes).expect("a shape");
        let form = format!(
            "dragonfly:groups={groups},switches={switches},nics={nics},nic=50MB/s,latency=20us;\
             route {}",
            self.route
        );
        let topology = Topology::from_variable(&form).expect("a topology");
        let planted = (self.plant)(&topology, &mut random);
        let count = topology.nics.len();
        let fabric = Fabric::new();
        let mut command = fabric.command(&format!(
            "survey --loopback={count} --pairs={pairs} --max-active=1 --pair-time=25ms \
             --seed={seed} --no-why --json {}{}",
            self.tool,
            if self.tool == "write-bw" { LISTS } else { "" },
        ));
        command.env("CXIDIAG_TOPOLOGY", format!("{form}{}", planted.items));
        let began = Instant::now();
        let output = finish(command);
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        let culprits = document["verdict"]["culprits"].as_array().expect("a list");
        let lasting = culprits.iter().filter(|culprit| culprit["word"] != "transient");
        let named: Vec<(SlotTask, &str)> = lasting
            .map(|culprit| {
                let direction = culprit["direction"].as_str().expect("a direction");
                (part(&culprit["unit"]), direction)
            })
            .collect();
        let judgement = judge(&topology, &planted, &named);
        let names: Vec<String> =
            named.iter().map(|(part, direction)| format!("{part:?} {direction}")).collect();
        let names = names.join(" and ");
        eprintln!(
            "{} {seed}: {}: {count} NICs{}: {names}; {:.1} s; {}",
            self.name,
            blind::name(judgement),
            planted.items,
            began.elapsed().as_secs_f64(),
            document["summary"].as_str().unwrap_or_default(),
        );
        (judgement, names)
    }
}

/// The part in a document.
fn part(unit: &Value) -> SlotTask {
    let number = |value: &Value| value.as_u64().expect("a number") as u32;
    let (kind, value) = unit.as_object().and_then(|unit| unit.iter().next()).expect("a unit");
    match kind.as_str() {
        // Each node has one NIC.
        "nic" | "node" => SlotTask::Nic(number(value)),
        "switch" => SlotTask::Switch(number(&value["group"]), number(&value["switch"])),
        "group" => SlotTask::Group(number(value)),
        "group_pair" => SlotTask::Links(number(&value[0]), number(&value[1])),
        _ => SlotTask::Path(number(&value["initiator"]), number(&value["target"])),
    }
}

fn judge(topology: &Topology, planted: &Planted, named: &[(SlotTask, &str)]) -> Judgement {
    let is_right = |(part, direction): &(SlotTask, &str)| {
        *part == planted.part && planted.direction.is_none_or(|own| own == *direction)
    };
    match named {
        [] if planted.part == SlotTask::Nothing => Judgement::Right,
        [] => Judgement::Nobody,
        [one] if is_right(one) => Judgement::Right,
        _ => {
            let slow = nics(topology, planted.part);
            let is_near = |(part, _): &(SlotTask, &str)| {
                let own = nics(topology, *part);
                own.iter().any(|nic| slow.contains(nic))
            };
            if named.iter().all(is_near) { Judgement::WrongPlace } else { Judgement::Innocent }
        }
    }
}

/// The NICs of a part, or at its ends.
fn nics(topology: &Topology, part: SlotTask) -> Vec<u32> {
    let all = 0..topology.nics.len() as u32;
    let is_in = |nic: &u32| {
        let name = topology.switches[topology.nics[*nic as usize].switch].name;
        let (group, switch) = (u32::from(name.group), u32::from(name.switch));
        match part {
            SlotTask::Nic(own) => own == *nic,
            SlotTask::Switch(number, own) => (group, switch) == (number, own),
            SlotTask::Group(own) => group == own,
            SlotTask::Links(one, other) => group == one || group == other,
            SlotTask::Path(one, other) => *nic == one || *nic == other,
            SlotTask::Nothing => false,
        }
    };
    all.filter(is_in).collect()
}
