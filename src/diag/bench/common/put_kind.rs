//! The command of a write, and unrestricted reads: full GET commands to a list entry without
//! matching (nic.md 3.9).

use cxi::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED};

use facts::advice::{self, Situation};
use facts::error::{Failure, Kind};
use plan::run_options::RunOptions;

/// The command of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutKind {
    /// Immediate data.
    Immediate,
    /// DMA, restricted.
    Restricted,
    /// DMA, unrestricted: a full DMA command. A NOMATCH command is always restricted (nic.md 3.8):
    /// clearing its bit may have no effect (defect T4 of tools.md).
    Unrestricted,
}

impl PutKind {
    /// The command of writes of `size` bytes (defect T5 of tools.md: the legacy tools decide once
    /// for a range).
    pub fn of(run: &RunOptions, size: u64) -> Self {
        let limit = if run.unrestricted { IDC_MAX_UNRESTRICTED } else { IDC_MAX_RESTRICTED };
        if run.use_idc && size <= limit as u64 {
            Self::Immediate
        } else if run.unrestricted {
            Self::Unrestricted
        } else {
            Self::Restricted
        }
    }
}

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
    use plan::tools::WRITE_LAT;

    #[test]
    fn t4_t5_selects_command_for_each_size() {
        let run = RunOptions { min_size: 1, max_size: 4096, ..WRITE_LAT.defaults };
        assert_eq!(PutKind::of(&run, 224), PutKind::Immediate);
        assert_eq!(PutKind::of(&run, 225), PutKind::Restricted);
        let unrestricted = RunOptions { unrestricted: true, ..run };
        assert_eq!(PutKind::of(&unrestricted, 192), PutKind::Immediate);
        assert_eq!(PutKind::of(&unrestricted, 193), PutKind::Unrestricted);
        let without = RunOptions { use_idc: false, ..run };
        assert_eq!(PutKind::of(&without, 1), PutKind::Restricted);
    }

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
