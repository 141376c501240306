//! The direction of dependencies inside a package: its rooms stand on floors, and a room uses rooms
//! on lower floors, or on its own floor without a circle. A file uses no file that uses it in turn,
//! directly or through others.
//!
//! A room is a file or a directory, except the parts of the directory that are rooms themselves.
//! Test code may use everything.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::houses::{House, PACKAGES};
use super::sources::{self, Arrow, Source, Text};

#[test]
fn rooms_use_lower_floors() {
    let houses = PACKAGES.iter().flat_map(|package| package.houses());
    let offences: Vec<String> =
        houses.flat_map(|house| offences(house, &sources::read(house))).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn files_use_each_other_in_one_direction() {
    let houses = PACKAGES.iter().flat_map(|package| package.crates());
    let offences: Vec<String> =
        houses.flat_map(|house| circles(house, &sources::read(house))).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// One line for each breach of the rules about rooms.
fn offences(house: &House, texts: &[Text]) -> Vec<String> {
    let sources = sources::sources(house, texts);
    let mut offences = unlisted(house, &sources);
    let arrows: Vec<(Room, Room, Arrow)> = sources::arrows(&sources)
        .into_iter()
        .filter_map(|arrow| Some((house.room(arrow.from)?, house.room(arrow.to)?, arrow)))
        .collect();
    let beside = |from: Room, to: Room| from != to && from.floor == to.floor;
    let mut neighbours = Graph::default();
    for (from, to, _) in &arrows {
        if beside(*from, *to) {
            neighbours.add(*from, *to);
        }
    }
    for (from, to, arrow) in &arrows {
        let is_circle = beside(*from, *to) && neighbours.way(*to, *from).is_some();
        if to.floor > from.floor || is_circle {
            let circle = if is_circle { ", in a circle" } else { "" };
            offences.push(format!(
                "{}/{}:{}: {} uses {}, floor {} -> floor {}{circle}",
                house.directory, arrow.from, arrow.line, from.name, to.name, from.floor, to.floor
            ));
        }
    }
    offences.sort();
    offences.dedup();
    offences
}

/// One line for each file without a room, and for each room without a file.
fn unlisted(house: &House, sources: &[Source]) -> Vec<String> {
    let directory = house.directory;
    let mut offences = Vec::new();
    let mut found = BTreeSet::new();
    for Source { file, .. } in sources {
        match house.room(file) {
            Some(room) => drop(found.insert(room)),
            None => offences.push(format!("{directory}/{file}: on no floor")),
        }
    }
    let missing = house.rooms().filter(|room| !found.contains(room));
    offences
        .extend(missing.map(|room| format!("{directory}/{}: on a floor, but missing", room.name)));
    offences
}

/// One line for each group of files that use each other, with one of its shortest circles.
fn circles(house: &House, texts: &[Text]) -> Vec<String> {
    let directory = house.directory;
    let sources = sources::sources(house, texts);
    let mut lines = BTreeMap::new();
    let mut graph = Graph::default();
    for arrow in sources::arrows(&sources) {
        if arrow.from != arrow.to && !arrow.is_reexport {
            lines.entry((arrow.from, arrow.to)).or_insert(arrow.line);
            graph.add(arrow.from, arrow.to);
        }
    }
    let mut offences = Vec::new();
    while let Some(circle) = graph.shortest_circle() {
        let ends = circle.iter().zip(circle.iter().cycle().skip(1));
        let arrows = ends.map(|(&from, &to)| {
            let line = lines[&(from, to)];
            format!("{directory}/{from}:{line} uses {to}")
        });
        offences.push(arrows.collect::<Vec<String>>().join(", "));
        graph.remove_group(circle[0]);
    }
    offences
}

/// The arrows from each node.
#[derive(Clone)]
struct Graph<T>(BTreeMap<T, BTreeSet<T>>);

impl<T> Default for Graph<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + Ord> Graph<T> {
    fn add(&mut self, from: T, to: T) {
        self.0.entry(from).or_default().insert(to);
    }

    /// Removes the nodes that are in a circle with `node`.
    fn remove_group(&mut self, node: T) {
        let mut group = self.0.clone();
        group
            .retain(|&other, _| self.way(node, other).is_some() && self.way(other, node).is_some());
        self.0.retain(|other, _| !group.contains_key(other));
    }

    /// A shortest circle: each of its nodes once.
    fn shortest_circle(&self) -> Option<Vec<T>> {
        let graph = self.without_ends();
        let arrows = graph.0.iter().flat_map(|(&from, all)| all.iter().map(move |&to| (from, to)));
        let circles = arrows.filter_map(|(from, to)| graph.way(to, from));
        circles.min_by_key(Vec::len)
    }

    /// The graph without the nodes from which no way leads to a circle.
    fn without_ends(&self) -> Self {
        let mut graph = self.clone();
        loop {
            let inner: BTreeSet<T> = graph.0.keys().copied().collect();
            graph.0.retain(|_, all| {
                all.retain(|to| inner.contains(to));
                !all.is_empty()
            });
            if graph.0.len() == inner.len() {
                return graph;
            }
        }
    }

    /// A shortest way along arrows, with both its ends.
    fn way(&self, from: T, to: T) -> Option<Vec<T>> {
        let mut previous = BTreeMap::from([(from, from)]);
        let mut todo = VecDeque::from([from]);
        while let Some(node) = todo.pop_front() {
            if node == to {
                let mut way = vec![to];
                while way.last() != Some(&from) {
                    way.extend(way.last().map(|node| previous[node]));
                }
                way.reverse();
                return Some(way);
            }
            for &next in self.0.get(&node).into_iter().flatten() {
                if let Entry::Vacant(entry) = previous.entry(next) {
                    entry.insert(node);
                    todo.push_back(next);
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Room {
    name: &'static str,
    floor: usize,
}

impl House {
    fn rooms(&self) -> impl Iterator<Item = Room> {
        let floors = self.floors.iter().enumerate();
        floors.flat_map(|(floor, rooms)| rooms.iter().map(move |&(name, _)| Room { name, floor }))
    }

    /// The room of a file: the longest listed path that the path of the file begins with.
    fn room(&self, file: &str) -> Option<Room> {
        let path = file.strip_suffix(".rs").unwrap_or(file);
        self.rooms()
            .filter(|room| {
                let rest = path.strip_prefix(room.name);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .max_by_key(|room| room.name.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House = House {
        directory: "src",
        module: "",
        shown_in: &[],
        floors: &[
            &[("error", "")],
            &[("bench/api", ""), ("plan", "")],
            &[("bench", ""), ("bench/common", ""), ("run", "")],
            &[("lib", "")],
        ],
    };

    /// The offences of a house in which these files have this text and all others none.
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
        let sources: Vec<_> =
            sources.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
        offences(&HOUSE, &sources)
    }

    #[test]
    fn accepts_arrows_downward_beside_and_within() {
        for texts in [
            &[][..],
            &[("plan.rs", "use crate::error::Failure;")],
            &[("run/mod.rs", "use crate::bench::TOOLS;"), ("bench/mod.rs", "use super::plan;")],
            &[("run/mod.rs", "mod clock;"), ("run/clock.rs", "use super::latency;")],
            &[("bench/mod.rs", "pub mod api; use api::Tool;")],
            &[("lib.rs", "mod run; pub use run::measure;")],
            &[("plan.rs", "#[cfg(test)] mod tests { use crate::run; }")],
            &[("plan.rs", "#[cfg(test)] mod double;"), ("plan/double.rs", "use crate::run;")],
            &[("plan/plan_tests.rs", "use crate::run;")],
            // A re-export is an arrow to the room that defines the item.
            &[("lib.rs", "pub use error::Failure; mod error;"), ("plan.rs", "use crate::Failure;")],
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
        assert_eq!(offences_with(&[("cli/mod.rs", "")]), ["src/cli/mod.rs: on no floor"]);
        let house = House { floors: &[&[("error", ""), ("number", "")]], ..HOUSE };
        let sources = [("error.rs".to_owned(), String::new())];
        assert_eq!(offences(&house, &sources), ["src/number: on a floor, but missing"]);
    }

    #[test]
    fn finds_items_of_a_part_through_its_head() {
        let house =
            House { module: "engine", floors: &[&[("packet", "")], &[("mod", "")]], ..HOUSE };
        let texts = [
            ("packet.rs", "use super::Engine; use crate::engine; use crate::fabric;"),
            ("mod.rs", "mod packet; use packet::Wire; struct Engine;"),
        ]
        .map(|(file, text)| (file.to_owned(), text.to_owned()));
        assert_eq!(
            offences(&house, &texts),
            ["src/packet.rs:1: packet uses mod, floor 0 -> floor 1"]
        );
    }

    #[test]
    fn ignores_items_of_other_packages() {
        for texts in [
            &[("error.rs", "use plan::Plan; use facts::run;")][..],
            &[
                ("lib.rs", "pub use facts::number; pub use facts as base;"),
                ("error.rs", "use crate::number::Size; use crate::base::run;"),
            ],
        ] {
            assert_eq!(offences_with(texts), [""; 0], "{texts:?}");
        }
    }

    /// The circles of a house with these files.
    fn circles_with(house: &House, texts: &[(&str, &str)]) -> Vec<String> {
        circles(house, &texts_of(texts))
    }

    fn texts_of(texts: &[(&str, &str)]) -> Vec<Text> {
        texts.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn reports_a_shortest_circle_of_each_group_of_files() {
        assert_eq!(
            circles_with(
                &HOUSE,
                &[
                    ("run/a.rs", "use super::b::B;\nuse super::c::C;"),
                    ("run/b.rs", "use super::c::C;"),
                    ("run/c.rs", "fn f() {}\nfn g() { super::a::A::new() }"),
                    ("plan.rs", "use crate::error::Failure;"),
                    ("error.rs", "use crate::plan::Plan;"),
                ],
            ),
            [
                "src/plan.rs:1 uses error.rs, src/error.rs:1 uses plan.rs",
                "src/run/c.rs:2 uses run/a.rs, src/run/a.rs:2 uses run/c.rs",
            ]
        );
    }

    #[test]
    fn reports_circles_of_a_directory_and_its_head() {
        let child = ("run/clock.rs", "use super::Context;");
        for (head, is_circle) in [
            ("mod clock; struct Context; fn f() { clock::tick() }", true),
            ("mod clock; struct Context; use clock::Clock; fn f(c: Clock) {}", true),
            ("mod clock; struct Context; pub use clock::Clock; fn f(c: Clock) {}", true),
            ("mod clock; struct Context; pub use clock::Clock;", false),
            ("mod clock; struct Context; pub use clock::{Clock as Time, tick};", false),
            ("mod clock; struct Context;", false),
            // The item is defined elsewhere.
            ("mod clock; use crate::plan::Context; fn f() { clock::tick() }", false),
        ] {
            let texts = [child, ("run/mod.rs", head), ("plan.rs", "")];
            let found = circles_with(&HOUSE, &texts);
            assert_eq!(found.len(), usize::from(is_circle), "{head}: {found:?}");
        }
    }
}
