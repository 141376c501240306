//! Which member is whose child: the state of the tree, in the coordinator.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a member may take to reach the parent that it was sent to.
pub const PLACE_LIMIT: Duration = Duration::from_secs(15);

/// How long a member that has lost its parent may take to return.
pub const AWAY_LIMIT: Duration = Duration::from_secs(20);

/// The parent of a member: another member, or the coordinator if it is none.
pub type Parent = Option<u32>;

/// The state of a member in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkState {
    /// The member has not joined yet.
    #[default]
    Absent,
    /// The coordinator sent the member to a parent, at this moment.
    Placed(Parent, Instant),
    /// The member has a parent.
    Attached(Parent),
    /// The member has lost its parent, at this moment.
    Away(Instant),
    /// The member is lost, and may not return.
    Lost,
}

#[derive(Clone, Debug, Default)]
struct MemberLinks {
    state: LinkState,
    /// Members that are attached to this member, or on their way to it.
    children: Vec<u32>,
    /// It has been attached before.
    is_known: bool,
    /// The entry of this member in [`TreeLinks::open`].
    open: Option<(u32, usize, u32)>,
}

/// A member that has not reached its parent within its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub rank: u32,
    /// It has been attached before.
    pub is_known: bool,
}

#[derive(Debug)]
pub struct TreeLinks {
    /// Maximum number of children of a member, and of the coordinator where another parent is
    /// found.
    width: usize,
    members: Vec<MemberLinks>,
    /// Number of children of the coordinator.
    at_root: usize,
    /// Members that take children: level, number of children, rank.
    open: BTreeSet<(u32, usize, u32)>,
    /// Members that are placed, or away and not connected to the coordinator.
    pending: BTreeSet<u32>,
}

impl TreeLinks {
    /// Creates the tree of this width with `size` members. No member has joined yet.
    pub fn new(size: u32, width: usize) -> Self {
        Self {
            width,
            members: vec![MemberLinks::default(); size as usize],
            at_root: 0,
            open: BTreeSet::new(),
            pending: BTreeSet::new(),
        }
    }

    fn member(&mut self, rank: u32) -> &mut MemberLinks {
        &mut self.members[rank as usize]
    }

    /// Returns the parent of a member that is attached or placed.
    pub fn parent(&self, rank: u32) -> Option<Parent> {
        match self.members[rank as usize].state {
            LinkState::Placed(parent, _) | LinkState::Attached(parent) => Some(parent),
            _ => None,
        }
    }

    /// Returns whether a member is lost.
    pub fn is_lost(&self, rank: u32) -> bool {
        self.members[rank as usize].state == LinkState::Lost
    }

    /// Returns whether a member has been attached before.
    pub fn is_known(&self, rank: u32) -> bool {
        self.members[rank as usize].is_known
    }

    /// Returns the members on the way to an attached member, itself last; `None` if there is no
    /// way.
    pub fn path(&self, rank: u32) -> Option<Vec<u32>> {
        let mut path = vec![rank];
        let mut last = rank;
        loop {
            match self.members[last as usize].state {
                LinkState::Attached(None) => break,
                LinkState::Attached(Some(parent)) if path.len() <= self.members.len() => {
                    path.push(parent);
                    last = parent;
                }
                _ => return None,
            }
        }
        path.reverse();
        Some(path)
    }

    /// Returns whether a path leads from `rank` up to the coordinator, and `rank` takes part.
    pub fn leads(&self, path: &[u32], rank: u32) -> bool {
        let is_known = (rank as usize) < self.members.len();
        let known = is_known.then(|| self.path(rank)).flatten();
        known.is_some_and(|known| known.iter().rev().eq(path))
    }

    /// Returns a member and all members below it.
    pub fn below(&self, rank: u32) -> Vec<u32> {
        let mut found = vec![rank];
        let mut next = 0;
        while let Some(&member) = found.get(next) {
            let children = self.members[member as usize].children.iter();
            found.extend(children.filter(|&&child| self.is_attached_to(child, Some(member))));
            next += 1;
        }
        found
    }

    pub fn is_attached_to(&self, rank: u32, parent: Parent) -> bool {
        self.members[rank as usize].state == LinkState::Attached(parent)
    }

    /// Returns the attached children of a member.
    pub fn children(&self, rank: u32) -> Vec<u32> {
        let children = self.members[rank as usize].children.iter().copied();
        children.filter(|&child| self.is_attached_to(child, Some(rank))).collect()
    }

    /// Chooses a parent for a member, other than `avoid`: the coordinator while it has room, then a
    /// member with few others above and below it. Returns `None` if no member takes children yet.
    pub fn place(&mut self, rank: u32, avoid: Option<u32>, now: Instant) -> Option<Parent> {
        self.separate(rank, LinkState::Away(now));
        let parent = if self.at_root < self.width {
            None
        } else {
            let mut open = self.open.iter().map(|&(_, _, rank)| rank);
            match open.find(|&open| Some(open) != avoid) {
                Some(parent) => Some(parent),
                // Whom this member cannot reach is the only one with room.
                None if avoid.is_some() && !self.open.is_empty() => None,
                None => return None,
            }
        };
        self.place_at(rank, parent, now);
        Some(parent)
    }

    /// Sends a member to the coordinator, whether that has room or not.
    pub fn place_at_root(&mut self, rank: u32, now: Instant) {
        self.separate(rank, LinkState::Away(now));
        self.place_at(rank, None, now);
    }

    fn place_at(&mut self, rank: u32, parent: Parent, now: Instant) {
        match parent {
            None => self.at_root += 1,
            Some(parent) => {
                self.member(parent).children.push(rank);
                self.update(parent);
            }
        }
        self.member(rank).state = LinkState::Placed(parent, now);
        self.pending.insert(rank);
    }

    /// Notes that a member has reached this parent. Returns whether it was sent there.
    pub fn attach(&mut self, rank: u32, parent: Parent) -> bool {
        let member = self.member(rank);
        if !matches!(member.state, LinkState::Placed(place, _) if place == parent) {
            return false;
        }
        member.state = LinkState::Attached(parent);
        member.is_known = true;
        self.pending.remove(&rank);
        self.update_below(rank);
        true
    }

    /// Notes that a member has lost its parent.
    pub fn away(&mut self, rank: u32, now: Instant) {
        self.separate(rank, LinkState::Away(now));
        self.pending.insert(rank);
    }

    /// Removes a member. The members below it have to find other parents.
    pub fn lose(&mut self, rank: u32, now: Instant) {
        self.separate(rank, LinkState::Lost);
        for child in std::mem::take(&mut self.member(rank).children) {
            self.away(child, now);
        }
    }

    /// Returns the members that have not come within their time.
    pub fn overdue(&self, now: Instant) -> Vec<Overdue> {
        let is_over = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        let pending = self.pending.iter().copied();
        let overdue = pending.filter(|&rank| match self.members[rank as usize].state {
            LinkState::Placed(_, since) => is_over(since, PLACE_LIMIT),
            LinkState::Away(since) => is_over(since, AWAY_LIMIT),
            _ => false,
        });
        let overdue =
            overdue.map(|rank| Overdue { rank, is_known: self.members[rank as usize].is_known });
        overdue.collect()
    }

    /// Returns whether the silence of a member has a cause above it: a member on its way to the
    /// coordinator is `silent` as well, or has been looking for a parent for less than `limit`. The
    /// same is true while it looks for a parent itself.
    pub fn is_cut_off(
        &self,
        rank: u32,
        silent: &BTreeSet<u32>,
        limit: Duration,
        now: Instant,
    ) -> bool {
        let mut member = rank;
        loop {
            match self.members[member as usize].state {
                LinkState::Placed(_, since) | LinkState::Away(since) => {
                    return now.saturating_duration_since(since) < limit;
                }
                LinkState::Attached(Some(parent)) if silent.contains(&parent) => return true,
                LinkState::Attached(Some(parent)) => member = parent,
                LinkState::Attached(None) | LinkState::Absent | LinkState::Lost => return false,
            }
        }
    }

    /// Forgets the parent of a member that has never joined.
    pub fn forget(&mut self, rank: u32) {
        self.separate(rank, LinkState::Absent);
    }

    /// Gives the members that are placed or away this much more time, because the coordinator did
    /// not run.
    pub fn postpone(&mut self, time: Duration) {
        for &rank in &self.pending {
            if let LinkState::Placed(_, since) | LinkState::Away(since) =
                &mut self.members[rank as usize].state
            {
                *since += time;
            }
        }
    }

    /// Returns whether any member may become overdue.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Removes a member from its parent. There is no path to the members below it then.
    fn separate(&mut self, rank: u32, state: LinkState) {
        let parent = self.parent(rank);
        self.member(rank).state = state;
        self.pending.remove(&rank);
        match parent {
            None => {}
            Some(None) => self.at_root -= 1,
            Some(Some(parent)) => {
                self.member(parent).children.retain(|&child| child != rank);
                self.update(parent);
            }
        }
        self.update_below(rank);
    }

    /// Updates whether a member takes children.
    fn update(&mut self, rank: u32) {
        let level = self.path(rank).map(|path| path.len() as u32);
        let width = self.width;
        let member = self.member(rank);
        let children = member.children.len();
        let open = level.filter(|_| children < width).map(|level| (level, children, rank));
        let before = std::mem::replace(&mut member.open, open);
        if let Some(before) = before {
            self.open.remove(&before);
        }
        self.open.extend(open);
    }

    /// Updates whether a member and all members below it take children.
    fn update_below(&mut self, rank: u32) {
        for member in self.below(rank) {
            self.update(member);
        }
    }
}

#[cfg(test)]
mod tests;
