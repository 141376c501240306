//! The direction of dependencies inside a package: its rooms stand on floors, and a room uses rooms
//! on lower floors, or on its own floor without a circle.
//!
//! A room is a file or a directory, except the parts of the directory that are rooms themselves.
//! Test code may use every room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::scanner::{Names, Path, scan};
use super::{files, root};

struct House {
    directory: &'static str,
    /// The module that the directory holds.
    module: &'static str,
    /// Modules elsewhere in the crate that rooms may use.
    outside: &'static [&'static str],
    /// The rooms of each floor, lowest first.
    floors: &'static [&'static [&'static str]],
}

const PROGRAM: House = House {
    directory: "src",
    module: "",
    outside: &[],
    floors: &[
        &[
            "atomic",
            "bandwidth_unit",
            "device",
            "error",
            "extensions",
            "host_list",
            "interrupt",
            "job",
            "launcher",
            "limit",
            "location",
            "nic",
            "number",
            "phase",
            "rate",
            "slingshot",
            "token",
            "traffic_class",
        ],
        &[
            "advice",
            "backend",
            "gpu",
            "machine",
            "measure",
            "meeting_point",
            "nic/health",
            "service",
        ],
        &["bench/api", "endpoint", "run_options", "tool"],
        &["plan", "survey"],
        &["bench", "bench/common", "report", "session", "tools"],
        &["run"],
        &["cli", "command"],
        &["lib", "main", "multicall"],
    ],
};

const WRAPPER: House = House {
    directory: "ffi/cxi/src",
    module: "",
    outside: &[],
    floors: &[
        &[
            "address",
            "clock",
            "encode",
            "error",
            "fence",
            "inherited",
            "ring",
            "standard_output",
        ],
        &["pages"],
        &["bus", "event", "gpu", "library", "placement"],
        &["backing", "huge_page", "launch"],
        &["owned"],
        &["device"],
        &["lni", "service"],
        &["counter", "memory"],
        &["event_queue"],
        &["portal", "queue"],
        &["target_queue", "transmit_queue", "trigger_queue"],
        &["prepared"],
        &["calibration"],
        &["lib"],
    ],
};

const ENGINE: House = House {
    directory: "ffi/softnic/src/engine",
    module: "engine",
    outside: &["gpu", "on_demand", "pages"],
    floors: &[
        &[
            "address",
            "arithmetic",
            "bytes",
            "list_counts",
            "match_id",
            "return_codes",
            "table",
        ],
        &["counter", "packet", "packet_counts", "telemetry"],
        &[
            "event_queue",
            "lists",
            "location",
            "request_list",
            "ring",
            "wire",
        ],
        &["memory", "placement", "transactions"],
        &["commands", "events", "incoming", "lni"],
        &["portal", "triggers"],
        &["counter_commands", "matching", "rendezvous"],
        &["remembered", "target_commands", "target_queue", "transmit"],
        &["state"],
        &[
            "admission",
            "atomics",
            "completion",
            "deliver",
            "doorbells",
            "get",
            "put",
        ],
        &["mod"],
    ],
};

#[test]
fn rooms_of_the_program_use_lower_floors() {
    check(&PROGRAM);
}

#[test]
fn rooms_of_the_wrapper_use_lower_floors() {
    check(&WRAPPER);
}

#[test]
fn rooms_of_the_engine_use_lower_floors() {
    check(&ENGINE);
}

fn check(house: &House) {
    let texts: Vec<(String, String)> = files(house.directory, "rs")
        .into_iter()
        .map(|path| {
            let below = path
                .strip_prefix(root().join(house.directory))
                .expect("below");
            let text = fs::read_to_string(&path).expect("text");
            (below.to_str().expect("text").to_owned(), text)
        })
        .collect();
    let offences = offences(house, &texts);
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// Returns one line for each breach of the rules. `texts` are files below the directory of the
/// house: path and text.
fn offences(house: &House, texts: &[(String, String)]) -> Vec<String> {
    let (arrows, mut offences) = arrows(house, &sources(house, texts));
    let beside = |arrow: &Arrow| arrow.from != arrow.to && arrow.from.floor == arrow.to.floor;
    let neighbours = arrows.iter().filter(|arrow| beside(arrow));
    let neighbours = neighbours.map(|arrow| (arrow.from, arrow.to)).collect();
    for arrow in &arrows {
        let (from, to) = (arrow.from, arrow.to);
        let is_circle = beside(arrow) && reaches(&neighbours, to, from);
        if to.floor > from.floor || is_circle {
            let circle = if is_circle { ", in a circle" } else { "" };
            offences.push(format!(
                "{}: {} uses {}, floor {} -> floor {}{circle}",
                arrow.place, from.name, to.name, from.floor, to.floor
            ));
        }
    }
    offences.sort();
    offences.dedup();
    offences
}

struct Source<'a> {
    file: &'a str,
    module: Path,
    names: Names,
}

/// Returns the sources that are not for tests.
fn sources<'a>(house: &House, texts: &'a [(String, String)]) -> Vec<Source<'a>> {
    let mut sources: Vec<Source> = texts
        .iter()
        .filter(|(file, _)| !is_for_tests(file))
        .map(|(file, text)| {
            let module = module(house, file);
            let names = scan(text, &module);
            Source {
                file,
                module,
                names,
            }
        })
        .collect();
    let tests: Vec<Path> = sources
        .iter()
        .flat_map(|source| source.names.test_modules.clone())
        .collect();
    sources.retain(|source| !tests.iter().any(|test| source.module.starts_with(test)));
    sources
}

struct Arrow {
    /// File and line.
    place: String,
    from: Room,
    to: Room,
}

/// Returns the arrows between listed rooms, and a line for each file, room or path that is not.
fn arrows(house: &House, sources: &[Source]) -> (Vec<Arrow>, Vec<String>) {
    let directory = house.directory;
    let mut arrows = Vec::new();
    let mut offences = Vec::new();
    let mut found = BTreeSet::new();
    let modules = Modules::new(sources);
    for Source { file, names, .. } in sources {
        let Some(from) = house.room(file) else {
            offences.push(format!("{directory}/{file}: on no floor"));
            continue;
        };
        found.insert(from.name);
        for (line, path) in &names.paths {
            let place = format!("{directory}/{file}:{line}");
            if let Some(target) = modules.file(path) {
                arrows.extend(house.room(target).map(|to| Arrow { place, from, to }));
            } else if !house.allows_outside(path) {
                offences.push(format!("{place}: {} uses {}", from.name, path.join("::")));
            }
        }
    }
    let missing = house
        .floors
        .concat()
        .into_iter()
        .filter(|room| !found.contains(room));
    offences.extend(missing.map(|room| format!("{directory}/{room}: on a floor, but missing")));
    (arrows, offences)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Room {
    name: &'static str,
    floor: usize,
}

impl House {
    fn allows_outside(&self, path: &[String]) -> bool {
        let module = path.first().map(String::as_str);
        module.is_some_and(|module| self.outside.contains(&module))
    }

    /// Returns the room of a file: the longest listed path that the path of the file begins with.
    fn room(&self, file: &str) -> Option<Room> {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        let floors = self.floors.iter().enumerate();
        floors
            .flat_map(|(floor, names)| names.iter().map(move |&name| Room { name, floor }))
            .filter(|room| {
                let rest = path.strip_prefix(room.name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|room| room.name.len())
    }
}

fn module(house: &House, file: &str) -> Path {
    let path = format!("{}/{file}", house.module);
    let path = ["/mod.rs", "/lib.rs", ".rs"]
        .iter()
        .find_map(|end| path.strip_suffix(end))
        .unwrap_or(&path);
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(str::to_owned)
        .collect()
}

fn is_for_tests(file: &str) -> bool {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    path.split('/').any(|name| {
        name.ends_with("_test") || name.ends_with("_tests") || ["testing", "tests"].contains(&name)
    })
}

struct Modules<'a> {
    files: BTreeMap<&'a [String], &'a str>,
    imports: BTreeMap<&'a [String], &'a Path>,
}

impl<'a> Modules<'a> {
    fn new(sources: &'a [Source<'a>]) -> Self {
        let imports = sources.iter().flat_map(|source| &source.names.imports);
        Self {
            files: sources
                .iter()
                .map(|source| (&source.module[..], source.file))
                .collect(),
            imports: imports.map(|(name, path)| (&name[..], path)).collect(),
        }
    }

    /// Returns the file that defines the item at `path`, through `use` declarations, or `None` for
    /// a file outside the house.
    fn file(&self, path: &[String]) -> Option<&'a str> {
        for end in (0..=path.len()).rev() {
            let (start, rest) = path.split_at(end);
            if let Some(file) = self.files.get(start) {
                return Some(file);
            }
            // A function is often named after its module: `use clock::clock`.
            if let Some(target) = self.imports.get(start).filter(|to| !to.starts_with(start)) {
                return self.file(&[target, rest].concat());
            }
        }
        None
    }
}

/// Whether `arrows` lead from one room to the other.
fn reaches(arrows: &BTreeSet<(Room, Room)>, from: Room, to: Room) -> bool {
    let mut reached = BTreeSet::from([from]);
    let mut todo = vec![from];
    while let Some(room) = todo.pop() {
        for &(_, next) in arrows.iter().filter(|(start, _)| *start == room) {
            if reached.insert(next) {
                todo.push(next);
            }
        }
    }
    reached.contains(&to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House = House {
        directory: "src",
        module: "",
        outside: &[],
        floors: &[
            &["error"],
            &["bench/api", "plan"],
            &["bench", "bench/common", "run"],
            &["lib"],
        ],
    };

    /// Returns the offences of a house in which these files have this text and all others none.
    fn offences_with(texts: &[(&str, &str)]) -> Vec<String> {
        let mut sources: BTreeMap<&str, &str> = [
            "bench/api.rs",
            "bench/common/mod.rs",
            "bench/mod.rs",
            "error.rs",
            "lib.rs",
            "plan.rs",
            "run/mod.rs",
        ]
        .map(|file| (file, ""))
        .into();
        sources.extend(texts.iter().copied());
        let sources: Vec<_> = sources
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
            .collect();
        offences(&HOUSE, &sources)
    }

    #[test]
    fn accepts_arrows_downward_beside_and_within() {
        for texts in [
            &[][..],
            &[("plan.rs", "use crate::error::Failure;")],
            &[
                ("run/mod.rs", "use crate::bench::TOOLS;"),
                ("bench/mod.rs", "use super::plan;"),
            ],
            &[
                ("run/mod.rs", "mod clock;"),
                ("run/clock.rs", "use super::latency;"),
            ],
            &[("bench/mod.rs", "pub mod api; use api::Tool;")],
            &[("lib.rs", "mod run; pub use run::measure;")],
            &[("plan.rs", "#[cfg(test)] mod tests { use crate::run; }")],
            &[
                ("plan.rs", "#[cfg(test)] mod double;"),
                ("plan/double.rs", "use crate::run;"),
            ],
            &[("plan/plan_tests.rs", "use crate::run;")],
            // A re-export is an arrow to the room that defines the item.
            &[
                ("lib.rs", "pub use error::Failure; mod error;"),
                ("plan.rs", "use crate::Failure;"),
            ],
        ] {
            assert_eq!(offences_with(texts), [""; 0], "{texts:?}");
        }
    }

    #[test]
    fn refuses_arrows_upward() {
        for (file, text, expected) in [
            (
                "error.rs",
                "\nuse crate::plan;",
                "src/error.rs:2: error uses plan, floor 0 -> floor 1",
            ),
            (
                "plan.rs",
                "fn f() { super::run::f() }",
                "src/plan.rs:1: plan uses run, floor 1 -> floor 2",
            ),
            (
                "bench/api.rs",
                "use super::TOOLS;",
                "src/bench/api.rs:1: bench/api uses bench, floor 1 -> floor 2",
            ),
            (
                "bench/api.rs",
                "use super::common::Target;",
                "src/bench/api.rs:1: bench/api uses bench/common, floor 1 -> floor 2",
            ),
            (
                "run/clock.rs",
                "use crate::start;",
                "src/run/clock.rs:1: run uses lib, floor 2 -> floor 3",
            ),
        ] {
            assert_eq!(offences_with(&[(file, text)]), [expected]);
        }
    }

    #[test]
    fn refuses_circles_on_a_floor() {
        let offences = offences_with(&[
            ("run/mod.rs", "use crate::bench;"),
            ("bench/write_lat.rs", "use super::common::Target;"),
            ("bench/common/mod.rs", "use crate::run;"),
        ]);
        assert_eq!(
            offences,
            [
                "src/bench/common/mod.rs:1: bench/common uses run, floor 2 -> floor 2, in a circle",
                "src/bench/write_lat.rs:1: bench uses bench/common, floor 2 -> floor 2, in a circle",
                "src/run/mod.rs:1: run uses bench, floor 2 -> floor 2, in a circle",
            ]
        );
    }

    #[test]
    fn refuses_rooms_that_the_list_lacks() {
        assert_eq!(
            offences_with(&[("cli/mod.rs", "")]),
            ["src/cli/mod.rs: on no floor"]
        );
        let house = House {
            floors: &[&["error", "number"]],
            ..HOUSE
        };
        let sources = [("error.rs".to_owned(), String::new())];
        assert_eq!(
            offences(&house, &sources),
            ["src/number: on a floor, but missing"]
        );
    }

    #[test]
    fn refuses_modules_outside_that_the_list_lacks() {
        let house = House {
            module: "engine",
            outside: &["pages"],
            floors: &[&["packet"], &["mod"]],
            ..HOUSE
        };
        let sources = [
            (
                "packet.rs",
                "use super::Engine; use crate::engine; use crate::{fabric, pages::Pages};",
            ),
            ("mod.rs", "mod packet; use packet::Wire; struct Engine;"),
        ]
        .map(|(file, text)| (file.to_owned(), text.to_owned()));
        assert_eq!(
            offences(&house, &sources),
            [
                "src/packet.rs:1: packet uses fabric",
                "src/packet.rs:1: packet uses mod, floor 0 -> floor 1",
            ]
        );
    }
}
