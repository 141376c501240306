//! How many MPI ranks a service has resources for (docs/batch.md).

use cxi::{Limit, RESOURCES};

use super::item::{Finding, Item};
use facts::severity::Severity;

/// Whether the service of this user has the resources of MPI ranks.
pub static RANKS: Item = Item {
    code: "mpi-ranks",
    name: "MPI ranks",
    source: "cxidiag",
    remedy: "ask for more of what limits the ranks: 'srun --network=max_les=N', depth=N, or \
             another service; the needs are estimates, see docs/batch.md",
};

/// Totals of a NIC in the order of [`RESOURCES`], where the service has no limits (libcxi.md 2.2).
const NIC: [u16; 8] = [2047, 1024, 512, 2047, 2047, 16384, 2048, 1022];

/// What a rank needs without regard to its peers, in the order of [`RESOURCES`]: what Slurm
/// reserves for a CPU (jobs.md 1.2).
const RANK: [u64; 8] = [6, 2, 1, 2, 1, 16, 1, 2];

/// Place of list entries in [`RESOURCES`].
const LIST_ENTRIES: usize = 5;

/// List entries of a rank for each peer: a receive that is posted, and the header of a message that
/// has arrived before its receive, of one pool (nic.md 8.3).
const ENTRIES_OF_A_PEER: u64 = 2;

/// Returns what a rank of a job with this number of ranks, at least 1, needs of each resource.
fn needs(ranks: u32) -> [u64; 8] {
    let mut needs = RANK;
    needs[LIST_ENTRIES] += ENTRIES_OF_A_PEER * u64::from(ranks.saturating_sub(1));
    needs
}

/// Returns for how many ranks of such a job there are these numbers, and the resource that ends
/// first.
fn room(counts: [u64; 8], needs: [u64; 8]) -> (u64, &'static str) {
    let rooms = counts.iter().zip(needs).map(|(count, need)| count / need);
    rooms.zip(RESOURCES).min_by_key(|(ranks, _)| *ranks).unwrap_or((0, ""))
}

/// Evaluates service `id` for ranks of a job with this number of ranks. `limits` are `None` if only
/// the NIC limits the service; `in_use` is what its users hold, where it is known.
pub fn room_for(
    id: u32,
    limits: Option<[Limit; 8]>,
    in_use: [Option<u16>; 8],
    ranks: u32,
) -> Finding {
    let needs = needs(ranks);
    let limits = limits.unwrap_or(NIC.map(|max| Limit { max, reserved: 0 }));
    let free = |counts: [u16; 8]| {
        std::array::from_fn(|resource| {
            u64::from(counts[resource].saturating_sub(in_use[resource].unwrap_or(0)))
        })
    };
    let free_in_all = free(limits.map(|limit| limit.max));
    let (possible, first) = room(free_in_all, needs);
    let (reserved, _) = room(free(limits.map(|limit| limit.reserved)), needs);
    let (without_peers, _) = room(free_in_all, RANK);
    // How many peers a rank talks to at a time is a guess: nothing is called good by it.
    let verdict = if without_peers == 0 { Severity::Suspect } else { Severity::Shown };
    let each = RESOURCES.iter().zip(needs).zip(limits);
    let each: Vec<String> = each
        .map(|((name, need), Limit { max, reserved })| format!("{name} {need}/{reserved}/{max}"))
        .collect();
    Finding {
        note: Some(format!(
            "service {id}, need of a rank (estimate)/reserved/maximum: {}",
            each.join(", ")
        )),
        ..Finding::compared(
            &RANKS,
            format!("room for {possible} ({first} ends first), {reserved} reserved"),
            "1 without peers",
            verdict,
        )
        .with_number(possible as f64)
    }
}

/// Returns the finding where the service of this user is not known.
pub fn unknown(why: impl Into<String>) -> Finding {
    Finding::untested(&RANKS, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_resource_to_end_limits_the_ranks() {
        let found = room_for(1, None, [Some(0); 8], 64);
        // A rank with 63 peers needs 142 list entries, and 2 of 512 target queues are 1 each.
        assert_eq!(found.value.as_deref(), Some("room for 115 (LE ends first), 0 reserved"));
        assert_eq!((found.verdict, found.number), (Severity::Shown, Some(115.0)));
        let note = found.note.unwrap();
        assert!(note.contains(": PTE 6/0/2047, TXQ 2/0/1024, TGQ 1/0/512, "), "{note}");
        assert!(note.contains(", LE 142/0/16384, "), "{note}");
        let alone = room_for(1, None, [None; 8], 1).value.unwrap();
        assert_eq!(alone, "room for 341 (PTE ends first), 0 reserved");
    }

    #[test]
    fn a_service_without_room_for_a_rank_without_peers_is_suspect() {
        let limits = |max: u16, reserved| Some([Limit { max, reserved }; 8]);
        let found = |limits, in_use, ranks| room_for(7, limits, in_use, ranks);
        let large = found(None, [None; 8], 8186);
        assert_eq!(large.value.as_deref(), Some("room for 0 (LE ends first), 0 reserved"));
        assert_eq!(large.verdict, Severity::Shown);
        assert_eq!(found(limits(15, 0), [None; 8], 1).verdict, Severity::Suspect);
        assert_eq!(found(limits(64, 32), [None; 8], 2).verdict, Severity::Shown);
        let half = found(limits(64, 40), [None; 8], 2).value.unwrap();
        assert_eq!(half, "room for 3 (LE ends first), 2 reserved");
        let held = found(limits(64, 40), [Some(50); 8], 2);
        assert_eq!(held.verdict, Severity::Suspect);
        assert_eq!(unknown("no service").verdict, Severity::NotAvailable);
    }
}
