//! Counts of what happens on the lists of portals table entries (health.md 1.5, Matching).

use std::ops::Range;

/// The numbers of the counters in `c_cntr_type`.
pub const NUMBERS: Range<u32> = 992..1136;

/// A counter, by its number in `c_cntr_type`.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum ListCount {
    Success = 992,
    Fail = 993,
    Put = 997,
    RendezvousPut = 998,
    Get = 999,
    Atomic = 1000,
    FetchingAtomic = 1001,
    /// Messages refused by flow control, and by portals table entries without it.
    DisabledEqFull = 1008,
    DisabledRequestEmpty = 1009,
    DisabledNoUnexpected = 1010,
    DisabledNoMatch = 1011,
    OpViolation = 1013,
    UnlinkFailed = 1014,
    NotFoundEqFull = 1015,
    NotFoundRequestEmpty = 1016,
    NotFoundNoMatch = 1017,
    NotFoundNoUnexpected = 1018,
    InvalidEndpoint = 1019,
    NoSpaceAppend = 1020,
    NoSpaceNet = 1021,
    SearchNoMatch = 1022,
    SetStateNoMatch = 1023,
    SoftwareManaged = 1025,
    RestrictedUnicast = 1027,
    /// Operations at persistent entries of portals table entries without matching.
    CacheHit = 1047,
    SearchSuccess = 1057,
    SearchFail = 1058,
    DeleteSuccess = 1060,
    DeleteFail = 1061,
    UnlinkSuccess = 1063,
    MatchRequest = 1064,
    MatchSuccess = 1068,
    MatchUseOnce = 1072,
    MatchLocal = 1076,
    MatchPriority = 1080,
    MatchOverflow = 1084,
    MatchRequestList = 1088,
    AppendSuccess = 1096,
    SetStateSuccess = 1104,
    Rendezvous = 1120,
    RendezvousOffloaded = 1124,
    Truncated = 1128,
}

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
    fn is_counted(index: usize, number: u32) -> bool {
        let flag = |bit: u32| index >> bit & 1 == 1;
        let kind = ListCount::Put as u32 + (index as u32 & 7);
        let lists =
            [ListCount::MatchPriority, ListCount::MatchOverflow, ListCount::MatchRequestList];
        let of_list = lists.get(index >> 7).map(|&count| count as u32);
        let always = [ListCount::Success, ListCount::MatchRequest, ListCount::MatchSuccess];
        let flags = [
            (3, ListCount::MatchUseOnce),
            (4, ListCount::MatchLocal),
            (5, ListCount::Truncated),
            (6, ListCount::CacheHit),
        ];
        number == kind
            || Some(number) == of_list
            || always.iter().any(|&count| number == count as u32)
            || flags.iter().any(|&(bit, count)| flag(bit) && number == count as u32)
    }
}

/// The counters of the lists. Those that exist for each of four pools count in the first.
///
/// An operation that matches adds to many counters, so matches are counted by what distinguishes
/// them, with one addition each.
#[derive(Clone, Debug)]
pub struct ListCounts {
    counts: [u64; (NUMBERS.end - NUMBERS.start) as usize],
    matches: [u64; MATCHES],
    /// List entries that operations were compared with, and the most for one operation.
    pub attempts: u64,
    pub most_attempts: u64,
}

impl Default for ListCounts {
    fn default() -> Self {
        Self {
            counts: [0; (NUMBERS.end - NUMBERS.start) as usize],
            matches: [0; MATCHES],
            attempts: 0,
            most_attempts: 0,
        }
    }
}

impl ListCounts {
    /// Adds one to a counter.
    pub fn count(&mut self, count: ListCount) {
        self.counts[(count as u32 - NUMBERS.start) as usize] += 1;
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

    /// Returns the value of a counter, by its number in `NUMBERS`.
    pub fn value(&self, number: u32) -> u64 {
        let matches = self.matches.iter().enumerate();
        let counted = matches
            .filter(|&(index, &operations)| operations != 0 && Match::is_counted(index, number));
        let matched: u64 = counted.map(|(_, operations)| operations).sum();
        self.counts[(number - NUMBERS.start) as usize] + matched
    }
}
