//! Counts of what happens on the lists of portals table entries (health.md 1.5, Matching).

/// A counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ListCount {
    Success,
    Fail,
    Put,
    RendezvousPut,
    Get,
    Atomic,
    FetchingAtomic,
    /// Messages refused by flow control, and by portals table entries without it.
    DisabledEqFull,
    DisabledRequestEmpty,
    DisabledNoUnexpected,
    DisabledNoMatch,
    OpViolation,
    UnlinkFailed,
    NotFoundEqFull,
    NotFoundRequestEmpty,
    NotFoundNoMatch,
    NotFoundNoUnexpected,
    InvalidEndpoint,
    NoSpaceAppend,
    NoSpaceNet,
    SearchNoMatch,
    SetStateNoMatch,
    SoftwareManaged,
    RestrictedUnicast,
    /// Operations at persistent entries of portals table entries without matching.
    CacheHit,
    SearchSuccess,
    SearchFail,
    DeleteSuccess,
    DeleteFail,
    UnlinkSuccess,
    MatchRequest,
    MatchSuccess,
    MatchUseOnce,
    MatchLocal,
    MatchPriority,
    MatchOverflow,
    MatchRequestList,
    AppendSuccess,
    SetStateSuccess,
    Rendezvous,
    RendezvousOffloaded,
    Truncated,
}

/// The number of counters.
const COUNTERS: usize = ListCount::Truncated as usize + 1;

/// What the counters distinguish of an operation that matched an entry.
#[derive(Clone, Copy)]
pub struct Match {
    /// One of `Put` to `FetchingAtomic`.
    pub kind: ListCount,
    /// The number of the list.
    pub list: u8,
    pub use_once: bool,
    pub manage_local: bool,
    pub truncated: bool,
    /// A persistent entry of a portals table entry without matching.
    pub cached: bool,
}

/// More than any index of a match at one of the three lists.
const MATCHES: usize = 3 << 7;

impl Match {
    #[inline]
    fn index(self) -> usize {
        (self.kind as usize - ListCount::Put as usize)
            | usize::from(self.use_once) << 3
            | usize::from(self.manage_local) << 4
            | usize::from(self.truncated) << 5
            | usize::from(self.cached) << 6
            | usize::from(self.list & 3) << 7
    }

    /// Whether a counter counts the matches with this index.
    fn is_counted(index: usize, count: ListCount) -> bool {
        let flag = |bit: u32| index >> bit & 1 == 1;
        match count {
            ListCount::Success | ListCount::MatchRequest | ListCount::MatchSuccess => true,
            ListCount::MatchUseOnce => flag(3),
            ListCount::MatchLocal => flag(4),
            ListCount::Truncated => flag(5),
            ListCount::CacheHit => flag(6),
            ListCount::MatchPriority => index >> 7 == 0,
            ListCount::MatchOverflow => index >> 7 == 1,
            ListCount::MatchRequestList => index >> 7 == 2,
            _ => count as usize == ListCount::Put as usize + (index & 7),
        }
    }
}

/// The counters of the lists. Those that exist for each of four pools count in the first.
///
/// An operation that matches adds to many counters, so matches are counted by what distinguishes
/// them, with one addition each.
#[derive(Clone, Debug)]
pub struct ListCounts {
    counts: [u64; COUNTERS],
    matches: [u64; MATCHES],
    /// List entries that operations were compared with, and the most for one operation.
    pub attempts: u64,
    pub most_attempts: u64,
}

impl Default for ListCounts {
    fn default() -> Self {
        Self { counts: [0; COUNTERS], matches: [0; MATCHES], attempts: 0, most_attempts: 0 }
    }
}

impl ListCounts {
    /// Adds one to a counter.
    pub fn count(&mut self, count: ListCount) {
        self.counts[count as usize] += 1;
    }

    /// Counts `operations` that succeeded at the entry that they matched.
    #[inline]
    pub fn matched(&mut self, matching: Match, operations: u64) {
        self.matches[matching.index() % MATCHES] += operations;
    }

    /// Counts the list entries that each of these operations was compared with.
    #[inline]
    pub fn searched(&mut self, entries: usize, operations: u64) {
        let entries = entries as u64;
        self.attempts += entries * operations;
        self.most_attempts = self.most_attempts.max(entries);
    }

    /// Returns the value of a counter.
    pub fn value(&self, count: ListCount) -> u64 {
        let matches = self.matches.iter().enumerate();
        let counted = matches
            .filter(|&(index, &operations)| operations != 0 && Match::is_counted(index, count));
        let matched: u64 = counted.map(|(_, operations)| operations).sum();
        self.counts[count as usize] + matched
    }
}
