//! Paths of dragonflies and of other graphs.

use super::*;

fn map(lines: &str) -> SwitchMap {
    let fabric = "dragonfly groups=4 switches=2 nics=2 latency=20us\n";
    SwitchMap::new(&Topology::from_file("", &format!("{fabric}{lines}")).unwrap())
}

/// Returns a path as the names of its links, `2-3` from switch 2 to switch 3.
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
