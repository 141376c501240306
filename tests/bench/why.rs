//! `cargo bench --profile dev --bench why`: whether the causes that `why` and `survey` name are
//! right. It plants faults in clusters of software NICs, diagnoses the NIC, and prints whether the
//! first cause was right, wrong or none, and how surely it was named: without load, and beside two
//! busy loops.
//!
//! Arguments after `--`: names of faults (all without any), and
//!
//! * `--by=survey`: survey the cluster in place of `why` on the NIC;
//! * `--loops=LIST`: numbers of busy loops, by default `0,2`;
//! * `--seeds=COUNT`: diagnoses of each fault and load, by default 1;
//! * `--first=SEED`: the seed of the first one, by default 1.

#[path = "../harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::env;
use std::hint;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use harness::{Fabric, finish, stdout};

/// How surely a cause is named that was not looked for.
const NO_CULPRIT: &str = "no culprit";

/// Software NICs of a cluster: enough good ones to differ from.
const NICS: RangeInclusive<u32> = 8..=16;

/// A deep idle state in the files of the host. Surveys measure without pauses, so alone it makes no
/// NIC slow.
macro_rules! idle_state {
    () => {
        "set=/sys/devices/system/cpu/cpu0/cpuidle/state9/name:C9,\
         set=/sys/devices/system/cpu/cpu0/cpuidle/state9/latency:400,\
         set=/sys/devices/system/cpu/cpu0/cpuidle/state9/disable:0"
    };
}

/// A fault in one NIC. `{n}` is the number of the NIC, `{bw}` a low bandwidth in MB/s: the others
/// have 200.
struct Plant {
    name: &'static str,
    tool: &'static str,
    /// Items of `CXIDIAG_LINK` and `CXIDIAG_FAULTS` of the NIC.
    link: &'static str,
    faults: &'static str,
    /// The causes of which one is to be named first; `None` if there is none to find.
    causes: &'static [Option<&'static str>],
}

const PLANTS: [Plant; 25] = [
    Plant {
        name: "bit-errors",
        tool: "write-lat",
        link: "",
        faults: "corrected=200000,uncorrected=300,delay=0.03:400us",
        causes: &[Some("link-errors")],
    },
    Plant {
        name: "narrow",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "pcie-path=8@16,rx-bandwidth={bw}MB/s",
        causes: &[Some("pcie-narrow")],
    },
    Plant {
        name: "hop",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "pcie-path=8@16/16@16,rx-bandwidth={bw}MB/s",
        causes: &[Some("pcie-narrow")],
    },
    Plant {
        name: "slow-pcie",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "pcie-path=16@8,rx-bandwidth={bw}MB/s",
        causes: &[Some("pcie-slow")],
    },
    Plant {
        name: "slot",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "pcie-path=8@16:8@16,rx-bandwidth={bw}MB/s",
        causes: &[Some("pcie-slot")],
    },
    Plant {
        name: "link-speed",
        tool: "write-bw",
        link: "bandwidth=100MB/s",
        faults: "set=port/speed:BJ_100G,rx-bandwidth=100MB/s",
        causes: &[Some("link-speed")],
    },
    Plant {
        name: "iommu",
        tool: "write-bw",
        link: "",
        faults: "set=iommu_group/type:DMA,host-read=200us,rx-bandwidth=150MB/s",
        causes: &[Some("iommu")],
    },
    Plant {
        name: "flaps",
        tool: "write-lat",
        link: "latency=60us",
        faults: "flaps=6",
        causes: &[None],
    },
    Plant {
        name: "firmware",
        tool: "write-lat",
        link: "latency=60us",
        faults: "set=uc/qspi_blob_version:1.0.0",
        // It differs, and what it makes slow is not known.
        causes: &[None],
    },
    Plant {
        name: "no-files",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "rx-bandwidth={bw}MB/s",
        causes: &[None],
    },
    Plant { name: "latency", tool: "write-lat", link: "latency=60us", faults: "", causes: &[None] },
    Plant {
        name: "narrow+slow",
        tool: "write-lat",
        link: "latency=60us",
        faults: "pcie-path=8@16",
        causes: &[None],
    },
    Plant {
        name: "narrow+flaps",
        tool: "write-bw",
        link: "bandwidth={bw}MB/s",
        faults: "pcie-path=8@16,rx-bandwidth={bw}MB/s,flaps=6",
        causes: &[Some("pcie-narrow")],
    },
    Plant {
        name: "ceiling",
        tool: "write-bw",
        link: "",
        faults: "class-ceiling=BEST_EFFORT:50",
        causes: &[Some("class-cap")],
    },
    Plant {
        name: "queue",
        tool: "write-lat",
        link: "",
        faults: "class-delay=BEST_EFFORT:30us",
        causes: &[Some("congestion")],
    },
    Plant { name: "fgfc", tool: "write-bw", link: "", faults: "fgfc=0.5", causes: &[Some("fgfc")] },
    Plant {
        name: "loss",
        tool: "write-lat",
        link: "",
        faults: "loss=0.05",
        causes: &[Some("loss")],
    },
    Plant {
        name: "memory",
        tool: "write-bw",
        link: "bandwidth=140MB/s",
        faults: "rx-bandwidth=140MB/s,set=/sys/devices/system/node/node0/meminfo:MemTotal: 2048000 kB",
        causes: &[Some("memory-bw")],
    },
    Plant {
        name: "lanes",
        tool: "write-bw",
        link: "",
        faults: "rx-bandwidth={bw}MB/s,set=port/0/link/auto_lane_degrade/is_rx_degraded:yes",
        causes: &[Some("link-lanes")],
    },
    Plant {
        name: "pages",
        tool: "write-bw",
        link: "",
        faults: "page-cost=30us",
        causes: &[Some("hugepages"), Some("memory-bw")],
    },
    Plant {
        name: "retry-off",
        tool: "write-lat",
        link: "",
        faults: "retry-handler=off,loss=0.7",
        causes: &[Some("retry-off")],
    },
    Plant {
        name: "ama",
        tool: "write-lat",
        link: "",
        faults: "ama=off,loss=0.7",
        causes: &[Some("ama")],
    },
    Plant {
        name: "narrow+sleep",
        tool: "write-lat write-bw",
        link: "bandwidth={bw}MB/s",
        faults: concat!("pcie-path=8@16,rx-bandwidth={bw}MB/s,wake=50us:500us,", idle_state!()),
        causes: &[Some("pcie-narrow"), Some("cpu-sleep")],
    },
    Plant {
        name: "latency+narrow",
        tool: "write-lat write-bw",
        link: "bandwidth={bw}MB/s,latency=60us",
        faults: "pcie-path=8@16,rx-bandwidth={bw}MB/s",
        causes: &[Some("pcie-narrow")],
    },
    Plant { name: "none", tool: "write-lat write-bw", link: "", faults: "", causes: &[] },
];

/// What a diagnosis has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    Right,
    /// No cause is named.
    Open,
    /// Another cause is named first.
    Wrong,
}

fn main() {
    let (mut seeds, mut first, mut by_survey) = (1, 1, false);
    let mut loops: Vec<usize> = vec![0, 2];
    let mut plants: Vec<&Plant> = Vec::new();
    for argument in env::args().skip(1).filter(|argument| argument != "--bench") {
        match argument.split_once('=') {
            Some(("--seeds", count)) => seeds = count.parse().expect("a number"),
            Some(("--first", seed)) => first = seed.parse().expect("a number"),
            Some(("--by", by)) => by_survey = by == "survey",
            Some(("--loops", list)) => {
                let numbers = list.split(',').map(|number| number.parse());
                loops = numbers.collect::<Result<_, _>>().expect("numbers");
            }
            _ => {
                let plant = PLANTS.iter().find(|plant| plant.name == argument);
                plants.push(plant.unwrap_or_else(|| panic!("{argument}: no fault")));
            }
        }
    }
    if plants.is_empty() {
        plants = PLANTS.iter().collect();
    }
    let mut sums = BTreeMap::new();
    let mut wrong_because = 0;
    println!("fault          loops right  open wrong  named first");
    for plant in plants {
        for &loops in &loops {
            let (mut counts, mut named) = (BTreeMap::new(), BTreeMap::new());
            for seed in first..first + seeds {
                let (cause, how) = beside_load(loops, || plant.diagnose(seed, by_survey));
                let judged = plant.judge(cause.as_deref(), &how);
                *counts.entry(judged).or_insert(0) += 1;
                *sums.entry((loops, judged)).or_insert(0) += 1;
                let is_wrong = judged == Judged::Wrong;
                wrong_because += u64::from(is_wrong && how == "because");
                let cause = cause.unwrap_or_else(|| "-".into());
                *named.entry(format!("{how} {cause}")).or_insert(0) += 1;
            }
            let named = named.iter().map(|(text, count)| format!("{count} {text}"));
            let named: Vec<String> = named.collect();
            let [right, open, wrong] = [Judged::Right, Judged::Open, Judged::Wrong]
                .map(|judged| counts.get(&judged).copied().unwrap_or_default());
            println!(
                "{:14} {loops:>5} {right:>5} {open:>5} {wrong:>5}  {}",
                plant.name,
                named.join(", ")
            );
        }
    }
    for ((loops, judged), count) in sums {
        println!("{loops} loops: {judged:?} {count}");
    }
    println!("wrong with certainty: {wrong_because}");
}

/// Diagnoses beside this number of busy loops.
fn beside_load<T>(loops: usize, diagnose: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..loops {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let found = diagnose();
        is_over.store(true, Ordering::Relaxed);
        found
    })
}

impl Plant {
    /// Judges the cause that is named first, and how surely.
    fn judge(&self, cause: Option<&str>, how: &str) -> Judged {
        let is_right =
            if self.causes.is_empty() { how == NO_CULPRIT } else { self.causes.contains(&cause) };
        match (is_right, cause) {
            (true, _) => Judged::Right,
            (false, None) => Judged::Open,
            (false, Some(_)) => Judged::Wrong,
        }
    }

    /// Diagnoses a NIC with this fault. Returns the cause that is named first, and how surely.
    fn diagnose(&self, seed: u64, by_survey: bool) -> (Option<String>, String) {
        let mut random = fastrand::Rng::with_seed(seed);
        let nics = random.u32(NICS);
        let nic = random.u32(0..nics);
        // Half of the lanes, a little more or less.
        let bandwidth = random.u32(90..125);
        let filled = |text: &str| text.replace("{bw}", &bandwidth.to_string());
        let good = "latency=20us,bandwidth=200MB/s";
        let items = |first: &str, own: &str| {
            let own = filled(own);
            if own.is_empty() { first.to_owned() } else { format!("{first};nic={nic},{own}") }
        };
        let fabric = Fabric::new();
        let device = format!("soft{nic}");
        let arguments = if by_survey {
            let tool = self.tool;
            format!(
                "survey --loopback={nics} --max-active=1 --pair-time=40ms --seed={seed} --json {tool}"
            )
        } else {
            format!("why {device} --loopback={nics} --pair-time=40ms --json")
        };
        let mut command = fabric.command(&arguments);
        command.env("CXIDIAG_LINK", items(good, self.link));
        command.env("CXIDIAG_FAULTS", items("pcie-path=16@16", self.faults));
        let began = Instant::now();
        let output = finish(command);
        let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
        let culprits = document["verdict"]["culprits"].as_array();
        let is_culprit = |why: &&Value| {
            culprits.is_none_or(|all| all.iter().any(|cause| cause["unit"] == why["culprit"]))
        };
        let is_own = |why: &&Value| {
            let index = why["culprit"]["nic"].as_u64().or(why["culprit"]["node"].as_u64());
            index.is_some_and(|index| {
                document["roster"]["nics"][index as usize]["device"] == *device
            })
        };
        let mut all = document["why"].as_array().expect("a list").iter();
        let why = all.find(|why| is_culprit(why) && is_own(why));
        // Possible causes are one sentence: none of them is the first one.
        let causes = why.and_then(|why| why["causes"].as_array());
        let causes = causes.map_or(&[][..], Vec::as_slice);
        let possible = causes.iter().take_while(|cause| cause["confidence"] == "possibly");
        let mut possible = possible.filter(|entry| self.causes.contains(&entry["cause"].as_str()));
        let first = possible.next().or(causes.first());
        let text = |name: &str| Some(first?[name].as_str()?.to_owned());
        let found = (text("cause"), text("confidence").unwrap_or_else(|| NO_CULPRIT.into()));
        eprintln!(
            "{} {seed}: {} {} after {:.1} s; {}",
            self.name,
            found.1,
            found.0.as_deref().unwrap_or("-"),
            began.elapsed().as_secs_f64(),
            document["summary"].as_str().unwrap_or_default(),
        );
        found
    }
}
