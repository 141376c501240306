//! The tree after any sequence of events.

use proptest::prelude::*;

use super::*;
use crate::tree::WIDTH;

/// Places and attaches the members of these ranks in turn; returns their parents.
fn attach(links: &mut TreeLinks, ranks: std::ops::Range<u32>) -> Vec<Parent> {
    let now = Instant::now();
    let attach = |rank| {
        let parent = links.place(rank, None, now).unwrap();
        assert!(links.attach(rank, parent));
        parent
    };
    ranks.map(attach).collect()
}

#[test]
fn fills_levels_evenly() {
    let mut links = TreeLinks::new(10_000, WIDTH);
    let parents = attach(&mut links, 0..10_000);
    assert_eq!(parents[..32], [None; 32]);
    assert_eq!(parents[32..64], (0..32).map(Some).collect::<Vec<_>>());
    let levels = (0..10_000).map(|rank| links.path(rank).unwrap().len());
    let mut sizes = [0; 4];
    levels.for_each(|level| sizes[level] += 1);
    assert_eq!(sizes, [0, 32, 1024, 8944]);
    let widest = (0..10_000).map(|rank| links.children(rank).len()).max();
    assert_eq!(widest, Some(WIDTH));
}

#[test]
fn names_no_parent_before_one_is_attached() {
    let mut links = TreeLinks::new(40, WIDTH);
    let now = Instant::now();
    for rank in 0..32 {
        assert_eq!(links.place(rank, None, now), Some(None));
    }
    assert_eq!(links.place(32, None, now), None);
    assert!(links.attach(5, None));
    assert_eq!(links.place(32, None, now), Some(Some(5)));
    assert_eq!(links.path(32), None);
    assert!(!links.attach(32, Some(6)));
    assert!(links.attach(32, Some(5)));
    assert_eq!(links.path(32), Some(vec![5, 32]));
}

#[test]
fn moves_members_below_a_moved_member() {
    let mut links = TreeLinks::new(70, WIDTH);
    attach(&mut links, 0..65);
    // 64 is below 32 or below 0, as 32 is.
    let parent = links.parent(64).unwrap();
    assert_eq!(parent, Some(0));
    let now = Instant::now();
    links.lose(1, now);
    assert_eq!(links.path(33), None);
    assert_eq!(links.place(33, Some(1), now), Some(None));
    assert!(links.attach(33, None));
    attach(&mut links, 65..66);
    links.away(0, now);
    assert_eq!((links.path(32), links.path(64)), (None, None));
    let parent = links.place(0, None, now).unwrap();
    assert!(parent.is_none_or(|parent| ![0, 32, 64].contains(&parent)));
    assert!(links.attach(0, parent));
    let mut path = links.path(0).unwrap();
    path.push(64);
    assert_eq!(links.path(64), Some(path));
    assert_eq!(links.below(0), [0, 32, 64]);
}

#[test]
fn accepts_member_that_reaches_no_other_member() {
    let mut links = TreeLinks::new(40, WIDTH);
    let now = Instant::now();
    for rank in 0..32 {
        links.place(rank, None, now);
    }
    assert!(links.attach(5, None));
    assert_eq!(links.place(32, Some(5), now), Some(None));
}

#[test]
fn waits_for_members_below_silent_members() {
    let mut links = TreeLinks::new(70, WIDTH);
    attach(&mut links, 0..65);
    assert_eq!(links.path(64), Some(vec![0, 64]));
    let (now, limit) = (Instant::now(), Duration::from_secs(8));
    let silent: BTreeSet<u32> = [0, 1, 32, 33, 34, 64].into();
    let cut_off = |links: &TreeLinks, now| {
        let is_cut_off = |rank: &u32| links.is_cut_off(*rank, &silent, limit, now);
        silent.iter().copied().filter(is_cut_off).collect::<Vec<_>>()
    };
    assert_eq!(cut_off(&links, now), [32, 33, 64]);
    links.lose(0, now);
    links.lose(1, now);
    assert_eq!(cut_off(&links, now + limit / 2), [32, 33, 64]);
    assert_eq!(cut_off(&links, now + limit), [0u32; 0]);
    // The parent of 34 has reported, but what it passed on may be lost with its own parent.
    links.away(2, now);
    assert_eq!(cut_off(&links, now), [32, 33, 34, 64]);
}

#[test]
fn limits_the_time_to_join_and_to_return() {
    let mut links = TreeLinks::new(3, WIDTH);
    let begin = Instant::now();
    links.place(0, None, begin);
    attach(&mut links, 1..3);
    links.lose(2, begin);
    links.away(1, begin);
    assert!(links.is_waiting());
    assert_eq!(links.overdue(begin + PLACE_LIMIT / 2), []);
    let overdue = |rank, is_known| Overdue { rank, is_known };
    let found = links.overdue(begin + PLACE_LIMIT.max(AWAY_LIMIT));
    assert_eq!(found, [overdue(0, false), overdue(1, true)]);
    links.forget(0);
    links.lose(1, begin);
    assert!(!links.is_waiting());
    assert!(links.is_lost(1) && links.is_lost(2) && !links.is_lost(0));
}

/// An event of a member, as the coordinator may report it at any time.
#[derive(Clone, Copy, Debug)]
enum TreeStep {
    ParentAddress { rank: u32, avoid: Option<u32> },
    Attach { rank: u32, parent: Parent },
    Arrive(u32),
    Away(u32),
    Lose(u32),
    Forget(u32),
}

fn any_step(size: u32) -> impl Strategy<Value = TreeStep> {
    let rank = 0..size;
    let other = || prop::option::of(0..size);
    prop_oneof![
        4 => (rank.clone(), other()).prop_map(|(rank, avoid)| TreeStep::ParentAddress { rank, avoid }),
        1 => (rank.clone(), other()).prop_map(|(rank, parent)| TreeStep::Attach { rank, parent }),
        6 => rank.clone().prop_map(TreeStep::Arrive),
        1 => rank.clone().prop_map(TreeStep::Away),
        1 => rank.clone().prop_map(TreeStep::Lose),
        1 => rank.prop_map(TreeStep::Forget),
    ]
}

/// Takes a step that is possible in this state.
fn take(links: &mut TreeLinks, step: TreeStep, now: Instant) {
    match step {
        TreeStep::ParentAddress { rank, avoid } if !links.is_lost(rank) => {
            let below = links.below(rank);
            if let Some(Some(parent)) = links.place(rank, avoid, now) {
                assert!(!below.contains(&parent), "{rank} is placed below itself");
            }
        }
        TreeStep::Attach { rank, parent } => {
            let is_expected = matches!(links.members[rank as usize].state,
                LinkState::Placed(place, _) if place == parent);
            assert_eq!(links.attach(rank, parent), is_expected);
        }
        TreeStep::Arrive(rank) => {
            if let Some(parent) = links.parent(rank) {
                links.attach(rank, parent);
            }
        }
        TreeStep::Away(rank) if links.parent(rank).is_some() => links.away(rank, now),
        TreeStep::Lose(rank) if !links.is_lost(rank) => links.lose(rank, now),
        TreeStep::Forget(rank)
            if links
                .overdue(now + AWAY_LIMIT)
                .iter()
                .any(|overdue| overdue.rank == rank && !overdue.is_known) =>
        {
            links.forget(rank);
        }
        _ => {}
    }
}

/// Returns the level of a member with a path from the coordinator.
fn level(links: &TreeLinks, rank: u32) -> Option<u32> {
    let mut level = 1;
    let mut member = rank;
    loop {
        assert!(level <= links.members.len() as u32, "{rank} is below itself");
        match links.members[member as usize].state {
            LinkState::Attached(None) => return Some(level),
            LinkState::Attached(Some(parent)) => member = parent,
            _ => return None,
        }
        level += 1;
    }
}

/// Checks what is true of each tree.
fn check(links: &TreeLinks) {
    let ranks = 0..links.members.len() as u32;
    let at_root = ranks.clone().filter(|&rank| links.parent(rank) == Some(None));
    assert_eq!(links.at_root, at_root.count());
    let mut children = vec![Vec::new(); ranks.len()];
    for rank in ranks.clone() {
        if let Some(Some(parent)) = links.parent(rank) {
            children[parent as usize].push(rank);
        }
    }
    let mut open = BTreeSet::new();
    for rank in ranks {
        let own = &links.members[rank as usize];
        let mut found = own.children.clone();
        found.sort();
        assert_eq!(found, children[rank as usize], "children of {rank}");
        assert!(found.len() <= links.width, "{rank} has {}", found.len());
        let level = level(links, rank).filter(|_| found.len() < links.width);
        open.extend(level.map(|level| (level, found.len(), rank)));
    }
    assert_eq!(links.open, open);
}

proptest! {
    #[test]
    fn is_a_tree_after_any_steps(steps in prop::collection::vec(any_step(12), 0..60)) {
        let mut links = TreeLinks::new(12, 2);
        let now = Instant::now();
        for step in steps {
            take(&mut links, step, now);
            check(&links);
        }
    }
}
