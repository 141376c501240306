//! Counts of what happens on the lists of portals table entries (health.md 1.5, Matching).

/// Declares the counters with their names.
macro_rules! list_counts {
    ($($(#[$comment:meta])* $count:ident = $name:literal,)*) => {
        /// A counter.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum ListCount {
            $($(#[$comment])* $count,)*
        }

        /// All counters, in the order of their numbers.
        const COUNTERS: &[(ListCount, &str)] = &[$((ListCount::$count, $name),)*];
    };
}

// Of the counters that exist for each of four pools, the first counts.
list_counts! {
    Success = "lpe_success_cntr",
    Fail = "lpe_fail_cntr",
    Put = "lpe_put_cmds",
    RendezvousPut = "lpe_rendezvous_put_cmds",
    Get = "lpe_get_cmds",
    Atomic = "lpe_amo_cmds",
    FetchingAtomic = "lpe_famo_cmds",
    /// Messages refused by flow control, and by portals table entries without it.
    DisabledEqFull = "lpe_err_pt_disabled_eq_full",
    DisabledRequestEmpty = "lpe_err_pt_disabled_req_empty",
    DisabledNoUnexpected = "lpe_err_pt_disabled_cant_alloc_unexpected",
    DisabledNoMatch = "lpe_err_pt_disabled_no_match_in_overflow",
    OpViolation = "lpe_err_op_violation",
    UnlinkFailed = "lpe_err_entry_not_found_unlink_failed",
    NotFoundEqFull = "lpe_err_entry_not_found_eq_full",
    NotFoundRequestEmpty = "lpe_err_entry_not_found_req_empty",
    NotFoundNoMatch = "lpe_err_entry_not_found_no_match_in_overflow",
    NotFoundNoUnexpected = "lpe_err_entry_not_found_cant_alloc_unexpected",
    InvalidEndpoint = "lpe_err_invalid_endpoint",
    NoSpaceAppend = "lpe_err_no_space_append",
    NoSpaceNet = "lpe_err_no_space_net",
    SearchNoMatch = "lpe_err_search_no_match",
    SetStateNoMatch = "lpe_err_setstate_no_match",
    SoftwareManaged = "lpe_err_ptlte_sw_managed",
    RestrictedUnicast = "lpe_err_restricted_unicast",
    /// Operations at persistent entries of portals table entries without matching.
    CacheHit = "lpe_plec_hits",
    SearchSuccess = "lpe_search_success",
    SearchFail = "lpe_search_fail",
    DeleteSuccess = "lpe_search_delete_success",
    DeleteFail = "lpe_search_delete_fail",
    UnlinkSuccess = "lpe_unlink_success",
    MatchRequest = "lpe_net_match_requests_0",
    MatchSuccess = "lpe_net_match_success_0",
    MatchUseOnce = "lpe_net_match_useonce_0",
    MatchLocal = "lpe_net_match_local_0",
    MatchPriority = "lpe_net_match_priority_0",
    MatchOverflow = "lpe_net_match_overflow_0",
    MatchRequestList = "lpe_net_match_request_0",
    AppendSuccess = "lpe_append_success_0",
    SetStateSuccess = "lpe_setstate_success_0",
    Rendezvous = "lpe_rndzv_puts_0",
    RendezvousOffloaded = "lpe_rndzv_puts_offloaded_0",
    Truncated = "lpe_num_truncated_0",
}

/// What the counters distinguish of an operation that matched an entry.
#[derive(Clone, Copy)]
pub struct MatchedOperation {
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

impl MatchedOperation {
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

/// The counters of the lists.
///
/// An operation that matches adds to many counters, so matches are counted by what distinguishes
/// them, with one addition each.
#[derive(Clone, Debug)]
pub struct ListCounts {
    counts: [u64; COUNTERS.len()],
    matches: [u64; MATCHES],
    /// List entries that operations were compared with, and the most for one operation.
    pub attempts: u64,
    pub most_attempts: u64,
}

impl Default for ListCounts {
    fn default() -> Self {
        Self { counts: [0; COUNTERS.len()], matches: [0; MATCHES], attempts: 0, most_attempts: 0 }
    }
}

impl ListCounts {
    /// Adds one to a counter.
    pub fn count(&mut self, count: ListCount) {
        self.counts[count as usize] += 1;
    }

    /// Counts `operations` that succeeded at the entry that they matched.
    #[inline]
    pub fn matched(&mut self, matching: MatchedOperation, operations: u64) {
        self.matches[matching.index() % MATCHES] += operations;
    }

    /// Counts the list entries that each of these operations was compared with.
    #[inline]
    pub fn searched(&mut self, entries: usize, operations: u64) {
        let entries = entries as u64;
        self.attempts += entries * operations;
        self.most_attempts = self.most_attempts.max(entries);
    }

    /// Returns the names and the values of all counters.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTERS.iter().map(|(count, name)| (*name, self.value(*count)))
    }

    fn value(&self, count: ListCount) -> u64 {
        let matches = self.matches.iter().enumerate();
        let counted = matches.filter(|&(index, &operations)| {
            operations != 0 && MatchedOperation::is_counted(index, count)
        });
        let matched: u64 = counted.map(|(_, operations)| operations).sum();
        self.counts[count as usize] + matched
    }
}
