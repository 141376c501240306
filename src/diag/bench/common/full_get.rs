//! Unrestricted reads: full GET commands to a list entry without matching (nic.md 3.9).

use facts::advice::{self, Situation};
use facts::error::{Failure, Kind};

/// Adds to a failure that the NIC reports that it may not execute unrestricted reads at all.
pub fn failed_full_get(failure: Failure) -> Failure {
    if failure.kind == Kind::Nic {
        failure.with_further_hint(advice::hint(Situation::UnrestrictedReads))
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_restricted_reads_unless_the_peer_failed() {
        let own = advice::hint(Situation::UnrestrictedReads);
        let hint = |failure| failed_full_get(failure).hint.unwrap();
        assert!(own.contains("restricted reads") && own.contains("--unrestricted"));
        assert_eq!(hint(Failure::nic("no answer")), own);
        let known = Failure::nic("refused").with_hint("look there");
        assert_eq!(hint(known), format!("look there; {own}"));
        assert_eq!(hint(Failure::peer("gone")), "see what the peer printed");
    }
}
