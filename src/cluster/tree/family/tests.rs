//! The tree after any sequence of events.

use proptest::prelude::*;

use super::*;
use crate::tree::WIDTH;

/// Places and attaches the members of these ranks in turn; returns their parents.
fn attach(family: &mut Family, ranks: std::ops::Range<u32>) -> Vec<Parent> {
    let now = Instant::now();
    let attach = |rank| {
        let parent = family.place(rank, None, now).unwrap();
        assert!(family.attach(rank, parent));
        parent
    };
    ranks.map(attach).collect()
}

#[test]
fn fills_levels_evenly() {
    let mut family = Family::new(10_000, WIDTH);
    let parents = attach(&mut family, 0..10_000);
    assert_eq!(parents[..32], [None; 32]);
    assert_eq!(parents[32..64], (0..32).map(Some).collect::<Vec<_>>());
    let levels = (0..10_000).map(|rank| family.path(rank).unwrap().len());
    let mut sizes = [0; 4];
    levels.for_each(|level| sizes[level] += 1);
    assert_eq!(sizes, [0, 32, 1024, 8944]);
    let widest = (0..10_000).map(|rank| family.children(rank).len()).max();
    assert_eq!(widest, Some(WIDTH));
}

#[test]
fn names_no_parent_before_one_is_attached() {
    let mut family = Family::new(40, WIDTH);
    let now = Instant::now();
    for rank in 0..32 {
        assert_eq!(family.place(rank, None, now), Some(None));
    }
    assert_eq!(family.place(32, None, now), None);
    assert!(family.attach(5, None));
    assert_eq!(family.place(32, None, now), Some(Some(5)));
    assert_eq!(family.path(32), None);
    assert!(!family.attach(32, Some(6)));
    assert!(family.attach(32, Some(5)));
    assert_eq!(family.path(32), Some(vec![5, 32]));
}

#[test]
fn member_takes_those_below_it_along() {
    let mut family = Family::new(70, WIDTH);
    attach(&mut family, 0..65);
    // 64 is below 32 or below 0, as 32 is.
    let parent = family.parent(64).unwrap();
    assert_eq!(parent, Some(0));
    let now = Instant::now();
    family.lose(1, now);
    assert_eq!(family.path(33), None);
    assert_eq!(family.place(33, Some(1), now), Some(None));
    assert!(family.attach(33, None));
    attach(&mut family, 65..66);
    family.away(0, now);
    assert_eq!((family.path(32), family.path(64)), (None, None));
    let parent = family.place(0, None, now).unwrap();
    assert!(parent.is_none_or(|parent| ![0, 32, 64].contains(&parent)));
    assert!(family.attach(0, parent));
    let mut path = family.path(0).unwrap();
    path.push(64);
    assert_eq!(family.path(64), Some(path));
    assert_eq!(family.below(0), [0, 32, 64]);
}

#[test]
fn coordinator_takes_member_that_reaches_nobody_else() {
    let mut family = Family::new(40, WIDTH);
    let now = Instant::now();
    for rank in 0..32 {
        family.place(rank, None, now);
    }
    assert!(family.attach(5, None));
    assert_eq!(family.place(32, Some(5), now), Some(None));
}

#[test]
fn silent_members_cut_off_those_below_them() {
    let mut family = Family::new(70, WIDTH);
    attach(&mut family, 0..65);
    assert_eq!(family.path(64), Some(vec![0, 64]));
    let (now, limit) = (Instant::now(), Duration::from_secs(8));
    let silent: BTreeSet<u32> = [0, 1, 32, 33, 34, 64].into();
    let cut_off = |family: &Family, now| {
        let is_cut_off = |rank: &u32| family.is_cut_off(*rank, &silent, limit, now);
        silent
            .iter()
            .copied()
            .filter(is_cut_off)
            .collect::<Vec<_>>()
    };
    assert_eq!(cut_off(&family, now), [32, 33, 64]);
    family.lose(0, now);
    family.lose(1, now);
    assert_eq!(cut_off(&family, now + limit / 2), [32, 33, 64]);
    assert_eq!(cut_off(&family, now + limit), [0u32; 0]);
    // The parent of 34 has reported, but what it passed on may be lost with its own parent.
    family.away(2, now);
    assert_eq!(cut_off(&family, now), [32, 33, 34, 64]);
}

#[test]
fn members_have_a_time_to_come_and_to_return() {
    let mut family = Family::new(3, WIDTH);
    let begin = Instant::now();
    family.place(0, None, begin);
    attach(&mut family, 1..3);
    family.lose(2, begin);
    family.away(1, begin);
    assert!(family.is_waiting());
    assert_eq!(family.overdue(begin + PLACE_LIMIT / 2), []);
    let overdue = |rank, is_known| Overdue { rank, is_known };
    let found = family.overdue(begin + PLACE_LIMIT.max(AWAY_LIMIT));
    assert_eq!(found, [overdue(0, false), overdue(1, true)]);
    family.forget(0);
    family.lose(1, begin);
    assert!(!family.is_waiting());
    assert!(family.is_lost(1) && family.is_lost(2) && !family.is_lost(0));
}

/// An event of a member, as the coordinator may report it at any time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Place { rank: u32, avoid: Option<u32> },
    Attach { rank: u32, parent: Parent },
    Arrive(u32),
    Away(u32),
    Lose(u32),
    Forget(u32),
}

fn any_step(size: u32) -> impl Strategy<Value = Step> {
    let rank = 0..size;
    let other = || prop::option::of(0..size);
    prop_oneof![
        4 => (rank.clone(), other()).prop_map(|(rank, avoid)| Step::Place { rank, avoid }),
        1 => (rank.clone(), other()).prop_map(|(rank, parent)| Step::Attach { rank, parent }),
        6 => rank.clone().prop_map(Step::Arrive),
        1 => rank.clone().prop_map(Step::Away),
        1 => rank.clone().prop_map(Step::Lose),
        1 => rank.prop_map(Step::Forget),
    ]
}

/// Takes a step that is possible in this state.
fn take(family: &mut Family, step: Step, now: Instant) {
    match step {
        Step::Place { rank, avoid } if !family.is_lost(rank) => {
            let below = family.below(rank);
            if let Some(Some(parent)) = family.place(rank, avoid, now) {
                assert!(!below.contains(&parent), "{rank} is placed below itself");
            }
        }
        Step::Attach { rank, parent } => {
            let is_expected = matches!(family.members[rank as usize].state,
                State::Placed(place, _) if place == parent);
            assert_eq!(family.attach(rank, parent), is_expected);
        }
        Step::Arrive(rank) => {
            if let Some(parent) = family.parent(rank) {
                family.attach(rank, parent);
            }
        }
        Step::Away(rank) if family.parent(rank).is_some() => family.away(rank, now),
        Step::Lose(rank) if !family.is_lost(rank) => family.lose(rank, now),
        Step::Forget(rank)
            if family
                .overdue(now + AWAY_LIMIT)
                .iter()
                .any(|overdue| overdue.rank == rank && !overdue.is_known) =>
        {
            family.forget(rank);
        }
        _ => {}
    }
}

/// Returns the level of a member with a path from the coordinator.
fn level(family: &Family, rank: u32) -> Option<u32> {
    let mut level = 1;
    let mut member = rank;
    loop {
        assert!(
            level <= family.members.len() as u32,
            "{rank} is below itself"
        );
        match family.members[member as usize].state {
            State::Attached(None) => return Some(level),
            State::Attached(Some(parent)) => member = parent,
            _ => return None,
        }
        level += 1;
    }
}

/// Checks what is true of each tree.
fn check(family: &Family) {
    let ranks = 0..family.members.len() as u32;
    let at_root = ranks
        .clone()
        .filter(|&rank| family.parent(rank) == Some(None));
    assert_eq!(family.at_root, at_root.count());
    let mut children = vec![Vec::new(); ranks.len()];
    for rank in ranks.clone() {
        if let Some(Some(parent)) = family.parent(rank) {
            children[parent as usize].push(rank);
        }
    }
    let mut open = BTreeSet::new();
    for rank in ranks {
        let relative = &family.members[rank as usize];
        let mut found = relative.children.clone();
        found.sort();
        assert_eq!(found, children[rank as usize], "children of {rank}");
        assert!(found.len() <= family.width, "{rank} has {}", found.len());
        let level = level(family, rank).filter(|_| found.len() < family.width);
        open.extend(level.map(|level| (level, found.len(), rank)));
    }
    assert_eq!(family.open, open);
}

proptest! {
    #[test]
    fn is_a_tree_after_any_steps(steps in prop::collection::vec(any_step(12), 0..60)) {
        let mut family = Family::new(12, 2);
        let now = Instant::now();
        for step in steps {
            take(&mut family, step, now);
            check(&family);
        }
    }
}
