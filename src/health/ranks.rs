//! How many MPI ranks a service has resources for (docs/batch.md).

use cxi::{LIST_ENTRIES, RESOURCES, ResourceLimit};

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

/// Processing elements of a NIC. The limits of list entries hold in each of them (libcxi.md 3.3).
const ELEMENTS: u64 = 4;

/// What a rank needs without regard to its peers, in the order of [`RESOURCES`]: what Slurm
/// reserves for a CPU (jobs.md 1.2).
const RANK: [u64; 8] = [6, 2, 1, 2, 1, 16, 1, 2];

/// List entries of a rank for each peer: a receive that is posted, and the header of a message that
/// has arrived before its receive, of one pool (nic.md 8.3).
const ENTRIES_OF_A_PEER: u64 = 2;

/// Returns for how many ranks with this number of peers there are these numbers of each resource,
/// and the resource that ends first. The portals of a rank are in the elements in turn, and ranks
/// with consecutive RGIDs begin in different ones (libcxi.md 8.3); the entries for peers are of one
/// portal of each rank **[I]**.
fn room(counts: [u64; 8], peers: u64) -> (u64, &'static str) {
    let peer_entries = ENTRIES_OF_A_PEER * peers;
    let rooms = counts.iter().zip(RANK).zip(RESOURCES).enumerate();
    let rooms = rooms.map(|(place, ((count, need), name))| match place {
        LIST_ENTRIES => {
            let in_all = ELEMENTS * count / (need + peer_entries);
            let in_each = count.checked_div(peer_entries).map_or(in_all, |ranks| ELEMENTS * ranks);
            (in_all.min(in_each), name)
        }
        _ => (count / need, name),
    });
    rooms.min_by_key(|(ranks, _)| *ranks).unwrap_or((0, ""))
}

/// Evaluates service `id` for ranks of a job with this number of ranks, at least 1. `in_use` has
/// what the users of the service hold, where it is known.
pub fn room_for(
    id: u32,
    limits: [ResourceLimit; 8],
    in_use: [Option<u16>; 8],
    ranks: u32,
) -> Finding {
    let peers = u64::from(ranks.saturating_sub(1));
    let free = |counts: [u16; 8]| {
        std::array::from_fn(|resource| {
            u64::from(counts[resource].saturating_sub(in_use[resource].unwrap_or(0)))
        })
    };
    let free_in_all = free(limits.map(|limit| limit.max));
    let (possible, first) = room(free_in_all, peers);
    let (reserved, _) = room(free(limits.map(|limit| limit.reserved)), peers);
    let (without_peers, _) = room(free_in_all, 0);
    // How many peers a rank talks to at a time is a guess: nothing is called good by it.
    let verdict = if without_peers == 0 { Severity::Suspect } else { Severity::Shown };
    let mut needs = RANK;
    needs[LIST_ENTRIES] += ENTRIES_OF_A_PEER * peers;
    let each = RESOURCES.iter().zip(needs).zip(limits);
    let each: Vec<String> = each
        .map(|((name, need), ResourceLimit { max, reserved })| {
            format!("{name} {need}/{reserved}/{max}")
        })
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
    use cxi::TRIGGERED;

    /// A service without limits has what the NIC has, and 8 TLEs (libcxi.md 3.3).
    fn nic_limits() -> [ResourceLimit; 8] {
        let mut limits = [2047, 1024, 512, 2047, 2047, 16384, 8, 1022]
            .map(|max| ResourceLimit { max, reserved: 0 });
        limits[TRIGGERED].reserved = 8;
        limits
    }

    #[test]
    fn first_resource_to_end_limits_the_ranks() {
        let found = room_for(1, nic_limits(), [Some(0); 8], 64);
        assert_eq!(found.value.as_deref(), Some("room for 8 (TLE ends first), 0 reserved"));
        assert_eq!((found.verdict, found.number), (Severity::Shown, Some(8.0)));
        let note = found.note.unwrap();
        assert!(note.contains(": PTE 6/0/2047, TXQ 2/0/1024, TGQ 1/0/512, "), "{note}");
        assert!(note.contains(", LE 142/0/16384, TLE 1/8/8, "), "{note}");
    }

    /// The limits of list entries hold in each of four elements. What is in use is the most of any
    /// of them.
    #[test]
    fn ranks_share_four_elements() {
        let limits = [1024; 8].map(|max| ResourceLimit { max, reserved: 0 });
        let room = |ranks, in_use: u16| {
            let mut counts = [None; 8];
            counts[LIST_ENTRIES] = Some(in_use);
            room_for(1, limits, counts, ranks).value.unwrap()
        };
        assert_eq!(room(64, 0), "room for 28 (LE ends first), 0 reserved");
        assert_eq!(room(64, 512), "room for 14 (LE ends first), 0 reserved");
        assert_eq!(room(1, 0), "room for 170 (PTE ends first), 0 reserved");
        // A rank with 512 peers fills one element, and 16 more entries are in others.
        assert_eq!(room(513, 0), "room for 3 (LE ends first), 0 reserved");
        assert_eq!(room(514, 0), "room for 0 (LE ends first), 0 reserved");
    }

    #[test]
    fn a_service_without_room_for_a_rank_without_peers_is_suspect() {
        let limits = |max: u16, reserved| [ResourceLimit { max, reserved }; 8];
        let found = |limits, in_use, ranks| room_for(7, limits, in_use, ranks);
        assert_eq!(found(nic_limits(), [None; 8], 9000).verdict, Severity::Shown);
        assert_eq!(found(limits(5, 0), [None; 8], 1).verdict, Severity::Suspect);
        // The entries of one rank are in four elements.
        assert_eq!(found(limits(6, 0), [None; 8], 1).verdict, Severity::Shown);
        assert_eq!(found(limits(64, 32), [None; 8], 2).verdict, Severity::Shown);
        let half = found(limits(64, 40), [None; 8], 2).value.unwrap();
        assert_eq!(half, "room for 10 (PTE ends first), 6 reserved");
        let held = found(limits(64, 40), [Some(60); 8], 2);
        assert_eq!(held.verdict, Severity::Suspect);
        assert_eq!(unknown("no service").verdict, Severity::NotAvailable);
    }
}
