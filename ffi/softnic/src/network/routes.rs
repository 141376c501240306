//! The paths between switches (load.md 4.5).

use std::collections::{BTreeSet, VecDeque};

use topology::{DirectedLink, LinkEnd, Routing, Topology};

/// The most paths of one kind between two switches: enough for all cables between two groups.
const MOST_PATHS: usize = 64;

/// A way from one switch to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The numbers of its links.
    pub links: Vec<usize>,
    /// Nanoseconds on its links and in its switches, the first and the last included.
    pub latency: u64,
}

/// The paths from one switch to another that are up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchPaths {
    /// For each cable between the groups, or between the switches, the shortest path through it.
    pub minimal: Vec<Path>,
    /// Paths through a further group, or in a group through a further switch.
    pub detours: Vec<Path>,
    /// When a link goes down or up next, in nanoseconds since the fabric was made.
    pub end: Option<u64>,
}

/// A link from a switch to another.
#[derive(Clone, Copy)]
struct Hop {
    to: usize,
    link: usize,
}

/// The switches of a fabric and the links between them.
pub struct SwitchMap {
    /// By switch.
    hops: Vec<Vec<Hop>>,
    groups: Vec<u16>,
    latencies: Vec<u64>,
    links: Vec<DirectedLink>,
    is_adaptive: bool,
}

impl SwitchMap {
    /// Makes the map of a fabric.
    pub fn new(topology: &Topology) -> Self {
        let links = topology.links();
        let mut hops = vec![Vec::new(); topology.switches.len()];
        for (number, link) in links.iter().enumerate() {
            if let (LinkEnd::Switch(from), LinkEnd::Switch(to)) = (link.from, link.to) {
                hops[from].push(Hop { to, link: number });
            }
        }
        let switches = topology.switches.iter();
        Self {
            hops,
            groups: switches.clone().map(|switch| switch.name.group).collect(),
            latencies: switches.map(|switch| switch.latency + switch.fault.latency).collect(),
            links,
            is_adaptive: topology.routing != Routing::Minimal,
        }
    }

    pub fn links(&self) -> &[DirectedLink] {
        &self.links
    }

    /// The paths between two switches at a time, in nanoseconds since the fabric was made.
    pub fn routes(&self, from: usize, to: usize, time: u64) -> SwitchPaths {
        let mut minimal = self.minimal(from, to);
        minimal.retain(|path| self.is_up(path, time));
        let mut detours = Vec::new();
        if self.is_adaptive {
            detours = self.detours(from, to, time);
            if minimal.is_empty() && detours.is_empty() {
                // Any path is better than none.
                minimal = self.shortest(from, to, |hop| self.links[hop.link].is_up(time));
            }
        }
        let path = |links: Vec<usize>| Path { latency: self.latency(from, &links), links };
        SwitchPaths {
            minimal: minimal.into_iter().map(path).collect(),
            detours: detours.into_iter().map(path).collect(),
            end: self.next_change(time),
        }
    }

    /// The latency of the longest of the shortest paths between switches with NICs.
    pub fn longest_latency(&self) -> u64 {
        let switch = |link: &DirectedLink| match (link.from, link.to) {
            (LinkEnd::Nic(_), LinkEnd::Switch(switch)) => Some(switch),
            _ => None,
        };
        let switches: BTreeSet<usize> = self.links.iter().filter_map(switch).collect();
        let pairs = switches.iter().flat_map(|from| switches.iter().map(move |to| (*from, *to)));
        let latencies = pairs.filter_map(|(from, to)| {
            let paths = self.shortest(from, to, |_| true);
            Some(self.latency(from, paths.first()?))
        });
        latencies.max().unwrap_or(0)
    }

    fn is_up(&self, path: &[usize], time: u64) -> bool {
        path.iter().all(|link| self.links[*link].is_up(time))
    }

    fn next_change(&self, time: u64) -> Option<u64> {
        let outages = self.links.iter().flat_map(|link| &link.outages);
        let changes = outages.flat_map(|outage| [Some(outage.from), outage.to]);
        changes.flatten().filter(|change| *change > time).min()
    }

    fn latency(&self, from: usize, links: &[usize]) -> u64 {
        let hops = links.iter().map(|link| {
            let link = &self.links[*link];
            let LinkEnd::Switch(to) = link.to else {
                return link.latency;
            };
            link.latency + self.latencies[to]
        });
        self.latencies[from] + hops.sum::<u64>()
    }

    fn minimal(&self, from: usize, to: usize) -> Vec<Vec<usize>> {
        let [here, there] = [from, to].map(|switch| self.groups[switch]);
        let paths = if here == there {
            self.within_group(from, to)
        } else {
            self.through_cables(from, here, there)
                .flat_map(|(path, at)| joined(&path, &self.within_group(at, to)))
                .take(MOST_PATHS)
                .collect()
        };
        if paths.is_empty() {
            return self.shortest(from, to, |_| true);
        }
        paths
    }

    /// The paths through a further group or switch that are up. As many lead through it as there
    /// are cables on its side that has more of them, not one for each combination.
    fn detours(&self, from: usize, to: usize, time: u64) -> Vec<Vec<usize>> {
        let is_up = |path: &Vec<usize>| self.is_up(path, time);
        let [here, there] = [from, to].map(|switch| self.groups[switch]);
        if here == there {
            let others = (0..self.hops.len())
                .filter(|other| self.groups[*other] == here && ![from, to].contains(other));
            let paths = others.flat_map(|other| {
                let [mut first, mut second] =
                    [(from, other), (other, to)].map(|(from, to)| self.within_group(from, to));
                first.retain(is_up);
                second.retain(is_up);
                let first: Vec<_> = first.iter().map(|path| (path, &second)).collect();
                in_turn(&first)
            });
            return paths.collect();
        }
        let mut groups = self.groups.clone();
        groups.sort_unstable();
        groups.dedup();
        groups.retain(|group| ![here, there].contains(group));
        let paths = groups.into_iter().flat_map(|group| {
            let first = self.through_cables(from, here, group);
            let first = first.filter(|(path, _)| is_up(path)).take(MOST_PATHS);
            let whole: Vec<_> = first
                .map(|(path, at)| {
                    let second = self.through_cables(at, group, there);
                    let second = second
                        .flat_map(|(path, at)| joined(&path, &self.within_group(at, to)))
                        .filter(is_up);
                    (path, second.take(MOST_PATHS).collect::<Vec<_>>())
                })
                .collect();
            let whole: Vec<_> = whole.iter().map(|(path, second)| (path, second)).collect();
            in_turn(&whole)
        });
        paths.collect()
    }

    /// The paths from a switch of the group `here` into the group `there`, one for each cable
    /// between them, and the switches at which they arrive.
    fn through_cables(
        &self,
        from: usize,
        here: u16,
        there: u16,
    ) -> impl Iterator<Item = (Vec<usize>, usize)> {
        let switches = (0..self.hops.len()).filter(move |switch| self.groups[*switch] == here);
        switches.flat_map(move |switch| {
            let cables = self.hops[switch].iter().filter(move |hop| self.groups[hop.to] == there);
            let before = self.within_group(from, switch);
            cables.flat_map(move |hop| {
                let paths = joined_all(&before, hop.link);
                paths.into_iter().map(|path| (path, hop.to))
            })
        })
    }

    /// The shortest paths inside a group.
    fn within_group(&self, from: usize, to: usize) -> Vec<Vec<usize>> {
        let group = self.groups[from];
        self.shortest(from, to, |hop| self.groups[hop.to] == group)
    }

    /// The paths with the fewest links among the hops that `may_use` permits.
    fn shortest(&self, from: usize, to: usize, may_use: impl Fn(&Hop) -> bool) -> Vec<Vec<usize>> {
        let mut distances = vec![usize::MAX; self.hops.len()];
        distances[from] = 0;
        let mut next = VecDeque::from([from]);
        while let Some(switch) = next.pop_front() {
            for hop in self.hops[switch].iter().filter(|hop| may_use(hop)) {
                if distances[hop.to] == usize::MAX {
                    distances[hop.to] = distances[switch] + 1;
                    next.push_back(hop.to);
                }
            }
        }
        let mut whole = Vec::new();
        let mut begun = vec![(from, Vec::new())];
        while let Some((switch, path)) = begun.pop() {
            if switch == to {
                whole.push(path);
                if whole.len() == MOST_PATHS {
                    break;
                }
                continue;
            }
            for hop in self.hops[switch].iter().filter(|hop| may_use(hop)) {
                let is_nearer = distances[hop.to] == distances[switch] + 1;
                if is_nearer && distances[hop.to] <= distances[to] {
                    let longer = path.iter().copied().chain([hop.link]).collect();
                    begun.push((hop.to, longer));
                }
            }
        }
        whole
    }
}

/// A path continued by each of others.
fn joined(path: &[usize], others: &[Vec<usize>]) -> Vec<Vec<usize>> {
    others.iter().map(|other| [path, other].concat()).collect()
}

/// Paths, each continued by one of its own continuations: all of both are used, in turn.
fn in_turn(paths: &[(&Vec<usize>, &Vec<Vec<usize>>)]) -> Vec<Vec<usize>> {
    let continued: Vec<_> = paths.iter().filter(|(_, others)| !others.is_empty()).collect();
    let others = continued.iter().map(|(_, others)| others.len()).max();
    let number = others.map_or(0, |others| others.max(continued.len()));
    (0..number)
        .map(|turn| {
            let (path, others) = continued[turn % continued.len()];
            [&path[..], &others[turn % others.len()]].concat()
        })
        .collect()
}

/// Each of some paths continued by a link.
fn joined_all(paths: &[Vec<usize>], link: usize) -> Vec<Vec<usize>> {
    paths.iter().map(|path| [&path[..], &[link]].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &str) -> SwitchMap {
        let fabric = "dragonfly groups=4 switches=2 nics=2 latency=20us\n";
        SwitchMap::new(&Topology::from_file("", &format!("{fabric}{lines}")).unwrap())
    }

    /// A path as the names of its links, `2-3` from switch 2 to switch 3.
    fn names(map: &SwitchMap, paths: &[Path]) -> Vec<String> {
        let name = |link: &usize| match (map.links[*link].from, map.links[*link].to) {
            (LinkEnd::Switch(from), LinkEnd::Switch(to)) => format!("{from}-{to}"),
            _ => panic!("a port"),
        };
        let mut names: Vec<String> = paths
            .iter()
            .map(|path| path.links.iter().map(name).collect::<Vec<_>>().join(" "))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn minimal_path_has_a_hop_before_and_after_the_cable() {
        let map = map("");
        // Switches 0 and 1 are group 0, 2 and 3 group 1, and so on.
        for (from, to, path) in [
            (0, 0, ""),
            (0, 1, "0-1"),
            (0, 2, "0-2"),
            (1, 2, "1-0 0-2"),
            (1, 3, "1-0 0-2 2-3"),
            (0, 4, "0-1 1-5 5-4"),
        ] {
            let routes = map.routes(from, to, 0);
            assert_eq!(names(&map, &routes.minimal), [path], "{from} to {to}");
            let hops = path.split_whitespace().count() as u64;
            assert_eq!(routes.minimal[0].latency, 20_000 * hops);
        }
    }

    #[test]
    fn detours_go_through_one_more_group_or_switch() {
        let map = map("");
        let detours = names(&map, &map.routes(0, 2, 0).detours);
        assert_eq!(detours, ["0-1 1-5 5-4 4-2", "0-6 6-7 7-3 3-2"]);
        assert!(map.routes(0, 1, 0).detours.is_empty(), "a group of two switches");
        let topology = Topology::from_variable("dragonfly:groups=1,switches=4,nics=1").unwrap();
        let map = SwitchMap::new(&topology);
        assert_eq!(names(&map, &map.routes(0, 3, 0).detours), ["0-1 1-3", "0-2 2-3"]);
    }

    /// All cables are on a path, not all combinations of cables.
    #[test]
    fn number_of_detours_is_the_number_of_cables() {
        let parallel = "link 0.0 3.1 count=3\nlink 3.1 1.1 count=2\nlink 0.1 2.1 count=64\n\
                    link 2.1 2.0 count=64\nlink 2.0 1.0 count=64";
        let map = map(parallel);
        let detours = map.routes(0, 2, 0).detours;
        let through = |hop: &str| {
            let has_hop = |name: &&String| format!(" {name} ").contains(&format!(" {hop} "));
            names(&map, &detours).iter().filter(has_hop).count()
        };
        assert_eq!((through("0-7"), through("0-6"), through("7-3")), (3, 1, 4));
        assert_eq!((through("0-1"), through("1-5"), through("4-2")), (64, 64, 64));
        let links = |hop| {
            let (from, to) = hop;
            let is_hop = |link: &&usize| {
                (map.links[**link].from, map.links[**link].to)
                    == (LinkEnd::Switch(from), LinkEnd::Switch(to))
            };
            let links = detours.iter().flat_map(|path| &path.links).filter(is_hop);
            links.collect::<BTreeSet<_>>().len()
        };
        assert_eq!((links((0, 7)), links((7, 3)), links((1, 5))), (3, 2, 64));
        let within = "dragonfly:groups=1,switches=4,nics=1;link 0.0 0.1 count=3;link 0.1 0.3 count=2;\
                  fault link 0.0-0.1#1 down;fault link 0.0-0.2 down";
        let map = SwitchMap::new(&Topology::from_variable(within).unwrap());
        assert_eq!(names(&map, &map.routes(0, 3, 0).detours), ["0-1 1-3", "0-1 1-3"]);
    }

    #[test]
    fn each_cable_between_groups_is_a_path() {
        let topology =
            Topology::from_variable("dragonfly:groups=2,switches=2,nics=1,global=3").unwrap();
        let map = SwitchMap::new(&topology);
        let paths = names(&map, &map.routes(0, 2, 0).minimal);
        assert_eq!(paths, ["0-1 1-3 3-2", "0-2", "0-2"]);
    }

    #[test]
    fn paths_avoid_links_that_are_down() {
        let map = map("fault link 0.0>1.0 down=1s:1s");
        let second = 1_000_000_000;
        assert_eq!(map.routes(0, 2, 0).end, Some(second));
        let during = map.routes(0, 2, second);
        assert!(during.minimal.is_empty() && during.detours.len() == 2);
        assert_eq!(during.end, Some(2 * second));
        assert_eq!(map.routes(2, 0, second).minimal.len(), 1, "the other direction");
        let after = map.routes(0, 2, 2 * second);
        assert_eq!((after.minimal.len(), after.end), (1, None));
    }

    #[test]
    fn only_adaptive_routing_avoids_a_cable_that_is_down() {
        let minimal = map("route minimal\nfault link 0.0-0.1 down");
        assert_eq!(minimal.routes(0, 1, 0), SwitchPaths::default());
        // The cables to the other groups lead around it.
        let adaptive = map("fault link 0.0-0.1 down");
        let routes = adaptive.routes(0, 1, 0);
        assert_eq!(names(&adaptive, &routes.minimal), ["0-2 2-4 4-5 5-1", "0-6 6-4 4-5 5-1"]);
        let cut = map("fault switch 0.0 down");
        assert_eq!(cut.routes(0, 4, 0), SwitchPaths::default());
    }

    #[test]
    fn graphs_by_hand_have_all_shortest_paths() {
        let tree = "switch 0.0\nswitch 1.0\nswitch 2.0\nswitch 3.0\nnic 0 0.0\nnic 1 1.0\n\
                link 0.0 2.0\nlink 0.0 3.0 count=2\nlink 1.0 2.0\nlink 1.0 3.0";
        let map = SwitchMap::new(&Topology::from_file("", tree).unwrap());
        let paths = names(&map, &map.routes(0, 1, 0).minimal);
        assert_eq!(paths, ["0-2 2-1", "0-3 3-1", "0-3 3-1"]);
        assert_eq!(map.longest_latency(), 40_000);
    }
}
