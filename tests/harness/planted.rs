//! Surveys of software NICs with planted faults, and whether their verdicts are right.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Fabric, Process, stderr, stdout};

/// Time limit of a survey.
const LIMIT: Duration = Duration::from_secs(900);

/// How long a process does not run, and then runs, in turn, on a busy node.
const PULSE: [Duration; 2] = [Duration::from_millis(45), Duration::from_millis(15)];

/// A cluster with a fault.
pub struct Fault {
    pub name: &'static str,
    /// Arguments of the survey.
    pub survey: &'static str,
    /// CXIDIAG_LINK.
    pub link: &'static str,
    /// CXIDIAG_FAULTS.
    pub faults: &'static str,
    /// CXIDIAG_TOPOLOGY.
    pub topology: &'static str,
    /// Whether three nodes are at each switch. Otherwise no location is known.
    pub has_switches: bool,
    /// The parts that are at fault: the NICs of each.
    pub planted: &'static [&'static [u64]],
    /// What happens to them.
    pub effect: Effect,
}

/// What a fault does.
#[derive(Clone, Copy, PartialEq)]
pub enum Effect {
    /// Figures of pairs are worse by this ratio.
    Slow(f64),
    /// Operations fail.
    Fails,
    /// Packets are damaged or lost now and then: figures may be good.
    Damages,
    /// The links between these two groups are slow.
    Links(u64, u64),
    /// The NIC cannot be measured with.
    Absent,
    /// The process of this rank is stopped after the first pairs.
    Stops(u32),
    /// The process of this rank runs a quarter of the time.
    IsBusy(u32),
}

const NONE: Fault = Fault {
    name: "none",
    survey: "--loopback=5",
    link: "",
    faults: "",
    topology: "",
    has_switches: false,
    planted: &[],
    effect: Effect::Slow(1.0),
};

const SLOW: Fault = Fault { planted: &[&[2]], ..NONE };

const TWELVE: &str = "--loopback=12 --pairs=all --max-active=1";

/// A dragonfly of 16 NICs with default options, and one of two groups, whose links have nothing to
/// be compared with.
const DRAGONFLY: Fault = Fault {
    survey: "--loopback=16",
    topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us",
    ..NONE
};

/// The faults of the blind trial: default options, and 8 to 24 NICs (issue 54).
const BLIND: [Fault; 19] = [
    Fault {
        name: "b-none-8",
        survey: "--loopback=8",
        link: "latency=200us,bandwidth=50MB/s",
        ..NONE
    },
    Fault {
        name: "b-none-24",
        survey: "--loopback=24",
        link: "latency=200us,bandwidth=50MB/s",
        ..NONE
    },
    Fault {
        name: "b-nic-1.5",
        survey: "--loopback=12",
        link: "latency=200us,bandwidth=50MB/s;nic=2,latency=400us",
        effect: Effect::Slow(1.45),
        ..SLOW
    },
    Fault {
        name: "b-nic-2",
        survey: "--loopback=16",
        link: "latency=200us,bandwidth=50MB/s;nic=2,latency=600us",
        effect: Effect::Slow(1.9),
        ..SLOW
    },
    Fault {
        name: "b-nic-10",
        survey: "--loopback=8",
        link: "latency=200us,bandwidth=50MB/s;nic=2,latency=2ms",
        effect: Effect::Slow(5.0),
        ..SLOW
    },
    Fault {
        name: "b-two-nics",
        survey: "--loopback=12",
        link: "latency=200us,bandwidth=50MB/s;nic=2,latency=1ms;nic=5,latency=1ms",
        planted: &[&[2], &[5]],
        effect: Effect::Slow(3.0),
        ..NONE
    },
    Fault {
        name: "b-bw-both",
        survey: "--loopback=12",
        link: "latency=200us,bandwidth=50MB/s;nic=2,bandwidth=25MB/s",
        effect: Effect::Slow(2.0),
        ..SLOW
    },
    Fault {
        name: "b-bw-sends",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   fault nic 2 tx rate=50%",
        planted: &[&[2]],
        effect: Effect::Slow(2.0),
        ..DRAGONFLY
    },
    Fault {
        name: "b-bw-receives",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   fault nic 2 rx rate=50%",
        planted: &[&[2]],
        effect: Effect::Slow(2.0),
        ..DRAGONFLY
    },
    Fault {
        name: "b-damage",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   fault nic 9 loss=0.1 retry=2ms",
        planted: &[&[9]],
        effect: Effect::Damages,
        ..DRAGONFLY
    },
    Fault {
        name: "b-loss-1%",
        survey: "--loopback=15",
        faults: "nic=2,loss=0.01,retry=2ms",
        effect: Effect::Damages,
        ..SLOW
    },
    Fault {
        name: "b-loss-30%",
        survey: "--loopback=15",
        faults: "nic=2,loss=0.3,retry=2ms",
        effect: Effect::Damages,
        ..SLOW
    },
    Fault {
        name: "b-switch",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   fault switch 1.1 latency=300us",
        planted: &[&[6, 7]],
        effect: Effect::Slow(3.0),
        ..DRAGONFLY
    },
    Fault {
        name: "b-switch-loss",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   fault nic 6 loss=0.1 retry=2ms;fault nic 7 loss=0.1 retry=2ms",
        planted: &[&[6, 7]],
        effect: Effect::Damages,
        ..DRAGONFLY
    },
    Fault {
        name: "b-link-late",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   route minimal;fault link 0.0-1.0 latency=300us",
        effect: Effect::Links(0, 1),
        ..DRAGONFLY
    },
    Fault {
        name: "b-link-rate",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   route minimal;fault link 0.0-1.0 rate=25%",
        effect: Effect::Links(0, 1),
        ..DRAGONFLY
    },
    Fault {
        name: "b-link-way",
        topology: "dragonfly:groups=4,switches=2,nics=2,nic=50MB/s,latency=20us;\
                   route minimal;fault link 0.0>1.0 latency=300us",
        effect: Effect::Links(0, 1),
        ..DRAGONFLY
    },
    Fault {
        name: "b-link-alone",
        survey: "--loopback=16",
        topology: "dragonfly:groups=2,switches=2,nics=4,nic=50MB/s,latency=20us;\
                   fault link 0.0-1.0 latency=300us",
        effect: Effect::Links(0, 1),
        ..NONE
    },
    Fault { name: "b-none-sw", ..DRAGONFLY },
];

/// The faults. A pair is late by the latencies of both of its NICs.
pub fn faults() -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().chain(&BLIND)
}

/// Whether a fault belongs to the blind trial.
pub fn is_blind(fault: &Fault) -> bool {
    fault.name.starts_with("b-")
}

const FAULTS: [Fault; 17] = [
    NONE,
    Fault { name: "none-12", survey: TWELVE, ..NONE },
    Fault { name: "none-bw", survey: "--loopback=12 write-bw", link: "bandwidth=400MB/s", ..NONE },
    Fault { name: "nic-1ms", link: "nic=2,latency=1ms", effect: Effect::Slow(30.0), ..SLOW },
    Fault {
        name: "nic-20us",
        survey: "--loopback=8",
        link: "latency=5us;nic=2,latency=25us",
        effect: Effect::Slow(1.6),
        ..SLOW
    },
    Fault {
        name: "nic-30%",
        survey: TWELVE,
        link: "latency=400us;nic=2,latency=640us",
        effect: Effect::Slow(1.3),
        ..SLOW
    },
    Fault {
        name: "nic-5%",
        survey: TWELVE,
        link: "latency=400us;nic=2,latency=440us",
        effect: Effect::Slow(1.05),
        ..SLOW
    },
    Fault {
        name: "switch",
        survey: TWELVE,
        link: "nic=3,latency=400us;nic=4,latency=400us;nic=5,latency=400us",
        has_switches: true,
        planted: &[&[3, 4, 5]],
        effect: Effect::Slow(20.0),
        ..NONE
    },
    Fault {
        name: "switch+nic",
        survey: TWELVE,
        link: "nic=3,latency=400us;nic=4,latency=400us;nic=5,latency=400us;nic=10,latency=1ms",
        has_switches: true,
        planted: &[&[3, 4, 5], &[10]],
        effect: Effect::Slow(20.0),
        ..NONE
    },
    Fault {
        name: "half-bw",
        survey: "--loopback=12 write-bw",
        link: "bandwidth=400MB/s;nic=2,bandwidth=200MB/s",
        effect: Effect::Slow(2.0),
        ..SLOW
    },
    Fault {
        name: "two-nics",
        survey: "--loopback=8",
        link: "nic=2,latency=1ms;nic=5,latency=1ms",
        planted: &[&[2], &[5]],
        effect: Effect::Slow(30.0),
        ..NONE
    },
    Fault { name: "fails", faults: "nic=2,error=PT_DISABLED:0.9", effect: Effect::Fails, ..SLOW },
    Fault { name: "dead", faults: "nic=2,down=0s", effect: Effect::Absent, ..SLOW },
    Fault {
        name: "dies",
        survey: "--loopback=8",
        faults: "nic=2,down=1500ms",
        effect: Effect::Fails,
        ..SLOW
    },
    Fault { name: "stopped", survey: "--loopback=8", effect: Effect::Stops(2), ..SLOW },
    Fault { name: "busy", survey: "--loopback=8", effect: Effect::IsBusy(2), ..SLOW },
    Fault {
        name: "big",
        survey: "--loopback=64",
        link: "nic=2,latency=1ms",
        effect: Effect::Slow(30.0),
        ..SLOW
    },
];

/// How a verdict compares with the truth, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// Each part at fault is named, and no other; or nothing is at fault, and all is good.
    Right,
    /// A part at fault is suspect by name, and no other part is named.
    Suspect,
    /// Nothing wrong is said, and a part at fault is named, but not all, or only a pair of it.
    Partly,
    /// No part is bad, and no NIC at fault is good.
    Undecided,
    /// A NIC is good whose fault is below the sensitivity that the survey states.
    Missed,
    /// A NIC at fault is good.
    CalledGood,
    /// A part that is not at fault is bad.
    WrongName,
}

/// What came of a survey.
pub struct Outcome {
    pub judgement: Judgement,
    pub took: Duration,
    pub text: String,
    pub document: Value,
}

impl Fault {
    /// Surveys the cluster with `program`. Leaves the documents of the survey in `directory`.
    pub fn survey(&self, program: &Path, seed: u64, directory: &Path) -> Outcome {
        let fabric = Fabric::new();
        let path = |extension: &str| directory.join(format!("survey.{extension}"));
        let mut arguments = format!(
            "survey {} --no-why --seed={seed} --json={} --jsonl={} --openmetrics={}",
            self.survey,
            path("json").display(),
            path("jsonl").display(),
            path("prom").display(),
        );
        if self.has_switches {
            let line = |node: u32| format!("node{node} {} 0\n", node / 3);
            let lines: String = (0..12).map(line).collect();
            fs::write(path("locations"), lines).expect("a file");
            arguments += &format!(" --locations={}", path("locations").display());
        }
        let mut command = fabric.command_of(program, &arguments);
        command.env("CXIDIAG_LINK", self.link).env("CXIDIAG_FAULTS", self.faults).limit(LIMIT);
        if !self.topology.is_empty() {
            command.env("CXIDIAG_TOPOLOGY", self.topology);
        }
        let begun = Instant::now();
        let mut process = command.spawn().expect("the program starts");
        self.disturb(&mut process, &fabric, &path("jsonl"));
        let output = process.finish();
        let took = begun.elapsed();
        let text = stdout(&output) + &stderr(&output);
        fs::write(path("txt"), &text).expect("a file");
        let read = |extension| {
            fs::read_to_string(path(extension)).unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let document: Value = serde_json::from_str(&read("json")).expect("a document");
        Outcome {
            judgement: self.judge(&document, &good_nics(&read("prom"))),
            took,
            text,
            document,
        }
    }

    /// Stops a process of the survey, if this is the fault.
    fn disturb(&self, survey: &mut Process, fabric: &Fabric, lines: &Path) {
        let (Effect::Stops(rank) | Effect::IsBusy(rank)) = self.effect else {
            return;
        };
        while fs::read_to_string(lines).map_or(0, |text| text.lines().count()) < 2 {
            if survey.try_wait().is_some() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        let Some(member) = member(fabric, rank) else {
            return;
        };
        // It may have ended.
        let send = |signal| {
            let _ = kill_process(member, signal);
        };
        send(Signal::STOP);
        while self.effect == Effect::IsBusy(rank) && survey.try_wait().is_none() {
            thread::sleep(PULSE[0]);
            send(Signal::CONT);
            thread::sleep(PULSE[1]);
            send(Signal::STOP);
        }
    }

    /// Compares the verdict with the truth. `good` are the NICs that are good by the metrics.
    fn judge(&self, document: &Value, good: &BTreeSet<u64>) -> Judgement {
        let verdict = &document["verdict"];
        let parts = |list: &str, word: Option<&str>| -> Vec<Part> {
            let parts = verdict[list].as_array().into_iter().flatten();
            let parts = parts.filter(|part| word.is_none() || part["word"].as_str() == word);
            let part_for = |part: &Value| match &part["unit"] {
                // An outlier is a NIC.
                Value::Null => Part::of(document, &json!({ "nic": part["nic"] })),
                unit => Part::of(document, unit),
            };
            parts.map(part_for).collect()
        };
        let planted: BTreeSet<u64> = self.planted.concat().into_iter().collect();
        if let Effect::Links(one, other) = self.effect {
            return self.judge_links(document, [one, other]);
        }
        let suspect = parts("culprits", Some("suspect"));
        let bad = parts("culprits", Some("bad"));
        let is_busy = matches!(self.effect, Effect::IsBusy(_));
        if bad.iter().any(|part| is_busy || !part.is_of(&planted)) {
            return Judgement::WrongName;
        }
        let names_all = |named: &[Part]| {
            let is_named = |nics| named.iter().any(|part| !part.is_path && part.nics == nics);
            self.planted.iter().copied().all(is_named)
        };
        let nics = document["roster"]["nics"].as_array().map_or(0, Vec::len) as u64;
        let others_are_good = (0..nics).all(|nic| good.contains(&nic) || planted.contains(&nic));
        let calls_good = !good.is_disjoint(&planted);
        let is_right = match self.effect {
            _ if planted.is_empty() => document["conclusion"] == "good",
            Effect::Slow(_) | Effect::Fails | Effect::Damages | Effect::Links(..) => {
                names_all(&bad)
            }
            Effect::IsBusy(_) => {
                others_are_good && (calls_good || names_all(&parts("untested", None)))
            }
            Effect::Absent | Effect::Stops(_) => {
                others_are_good && (names_all(&bad) || names_all(&parts("untested", None)))
            }
        };
        let is_below = |factor| factor < stated_sensitivity(verdict);
        match self.effect {
            _ if is_right => Judgement::Right,
            Effect::Slow(factor) if calls_good && is_below(factor) => {
                if names_all(&parts("outliers", None)) {
                    Judgement::Right
                } else {
                    Judgement::Missed
                }
            }
            _ if is_blind(self) && suspect.iter().any(|part| !part.is_of(&planted)) => {
                Judgement::WrongName
            }
            _ if is_blind(self)
                && !planted.is_empty()
                && names_all(&[bad.clone(), suspect].concat()) =>
            {
                Judgement::Suspect
            }
            _ if is_blind(self) && document["conclusion"] == "good" => Judgement::CalledGood,
            _ if calls_good && !is_busy && !is_blind(self) => Judgement::CalledGood,
            _ if !bad.is_empty() => Judgement::Partly,
            _ => Judgement::Undecided,
        }
    }
}

impl Fault {
    /// Compares the verdict on links between two groups with the truth.
    fn judge_links(&self, document: &Value, groups: [u64; 2]) -> Judgement {
        let culprits = document["verdict"]["culprits"].as_array();
        let named = |word: &str| -> Vec<&Value> {
            let parts = culprits.into_iter().flatten();
            parts.filter(|part| part["word"] == word).map(|part| &part["unit"]).collect()
        };
        let links = json!({ "group_pair": groups });
        let group = |nic: &Value| {
            let nic = nic.as_u64().map(|nic| nic as usize);
            nic.and_then(|nic| document["roster"]["nics"][nic]["location"]["group"].as_u64())
        };
        // A path through the links is slow.
        let is_on_the_way = |unit: &Value| {
            let mut ends = ["initiator", "target"].map(|end| group(&unit["path"][end]));
            ends.sort_unstable();
            ends == groups.map(Some)
        };
        let (bad, suspect) = (named("bad"), named("suspect"));
        let mut all = bad.iter().chain(&suspect);
        if all.any(|unit| **unit != links && !is_on_the_way(unit)) {
            return Judgement::WrongName;
        }
        if bad.contains(&&links) {
            Judgement::Right
        } else if suspect.contains(&&links) {
            Judgement::Suspect
        } else if document["conclusion"] == "good" {
            Judgement::CalledGood
        } else if bad.is_empty() {
            Judgement::Undecided
        } else {
            Judgement::Partly
        }
    }

    /// Runs the command that an undecided survey proposes, and returns whether it decides; `None`
    /// without such a command.
    pub fn follow(&self, program: &Path, outcome: &Outcome) -> Option<bool> {
        let next = outcome.document["next"].as_str()?;
        // What a user of these fabrics expects of a pair.
        let next = next.replace("TIME", "250us").replace("RATE", "20MB/s");
        let next = next.replace('\'', "");
        let arguments = next.strip_prefix("cxidiag ")?;
        let fabric = Fabric::new();
        let mut command = fabric.command_of(program, arguments);
        command.env("CXIDIAG_LINK", self.link).env("CXIDIAG_FAULTS", self.faults).limit(LIMIT);
        if !self.topology.is_empty() {
            command.env("CXIDIAG_TOPOLOGY", self.topology);
        }
        let directory = tempfile::tempdir().ok()?;
        command.current_dir(directory.path());
        let ended = command.spawn().expect("the program starts").finish();
        Some([Some(0), Some(3)].contains(&ended.status.code()))
    }
}

/// A part that a survey names.
#[derive(Clone)]
struct Part {
    nics: Vec<u64>,
    /// Whether it is a path, of which only one end may be at fault, or has no NICs.
    is_path: bool,
}

impl Part {
    /// Reads a part in the document of a survey.
    fn of(document: &Value, unit: &Value) -> Self {
        let all = document["roster"]["nics"].as_array().expect("NICs");
        let with = |holds: &dyn Fn(&Value) -> bool| {
            let numbered = (0..).zip(all).filter(|(_, nic)| holds(nic));
            numbered.map(|(number, _)| number).collect()
        };
        let number = |value: &Value| value.as_u64().expect("a number");
        let unit = unit.as_object().expect("a part");
        let (kind, entry) = unit.iter().next().expect("a kind");
        let nics = match kind.as_str() {
            "nic" => vec![number(entry)],
            "node" => with(&|nic| nic["node"] == *entry),
            "group" => with(&|nic| nic["location"]["group"] == *entry),
            "switch" => with(&|nic| {
                ["group", "switch"]
                    .iter()
                    .all(|location| nic["location"][location] == entry[location])
            }),
            "path" => vec![number(&entry["initiator"]), number(&entry["target"])],
            _ => Vec::new(),
        };
        Self { is_path: kind == "path" || nics.is_empty(), nics }
    }

    /// Whether a fault of the `planted` NICs explains that this part is bad.
    fn is_of(&self, planted: &BTreeSet<u64>) -> bool {
        let mut is_planted = self.nics.iter().map(|nic| planted.contains(nic));
        if self.is_path { is_planted.any(|is| is) } else { is_planted.all(|is| is) }
    }
}

/// The process of a member of a survey that runs in `fabric`.
pub fn member(fabric: &Fabric, rank: u32) -> Option<Pid> {
    let fabric = fabric.path();
    let fabric_text = format!("CXIDIAG_FABRIC_DIR={}", fabric.display());
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        let is_member = |variable: &&&[u8]| {
            let text = String::from_utf8_lossy(variable);
            let mark = text.strip_prefix("CXIDIAG_SURVEY_MEMBER=");
            mark.is_some_and(|mark| mark.split(' ').nth(1) == Some(&rank.to_string()))
        };
        if variables.contains(&fabric_text.as_bytes())
            && variables.iter().any(|variable| is_member(&variable))
        {
            return Pid::from_raw(id);
        }
    }
    None
}

/// The NICs that are good by the metrics of a survey.
fn good_nics(metrics: &str) -> BTreeSet<u64> {
    let nics = |start: &str| -> BTreeSet<u64> {
        let lines = metrics.lines().filter(|line| line.starts_with(start) && line.ends_with(" 1"));
        let devices = lines.filter_map(|line| line.split_once("device=\"soft")?.1.split_once('"'));
        devices.map(|(number, _)| number.parse().expect("a number")).collect()
    };
    &nics("cxidiag_survey_nic_ok{") - &nics("cxidiag_survey_nic_suspect{")
}

/// The ratio to the median from which on a survey says that it finds what is slow. A ratio of two
/// is always to be found.
fn stated_sensitivity(verdict: &Value) -> f64 {
    let classes = verdict["populations"].as_array().into_iter().flatten();
    let ratio = |class: &Value| {
        if let Some(stated) = class["sensitivity"].as_f64() {
            return Some(stated);
        }
        let ratio = class["limit"].as_f64()? / class["percentiles"][3].as_f64()?;
        Some(ratio.max(1.0 / ratio))
    };
    classes.filter_map(ratio).fold(1.0, f64::max).min(1.99)
}
