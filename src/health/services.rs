//! The services of a NIC: which ones this user and job may use, for how many MPI ranks one has
//! resources (docs/batch.md), and resources that an earlier job has left in use (diagnosis.md 2,
//! `leak`).

use std::time::{Duration, Instant};

use cxi::{LIST_ENTRIES, RESOURCES, ResourceLimit};

use super::item::{Finding, Item, unless_good};
use facts::limit;
use facts::number::decimal;
use facts::severity::Severity;
use node::nic::files::Files;

/// Whether this process may use the NIC.
pub static USABLE: Item = Item {
    code: "service",
    name: "services",
    source: "libcxi",
    remedy: "no service for this user: start the check in a job, or enable one (cxi_service); \
             'cxidiag devices --verbose' lists them",
};

/// The finding for a device that cannot be opened. The NIC may be healthy, so it is suspect, not
/// bad.
pub fn unknown(why: impl Into<String>) -> Finding {
    Finding { verdict: Severity::Suspect, ..Finding::untested(&USABLE, why) }
}

/// Evaluates the numbers of the services that this process may use. In a job that has a service on
/// this NIC, that one must be among them.
pub fn usable(services: &[u32], job_service: Option<u32>) -> Finding {
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(", ")
    };
    let value = if services.is_empty() { "none for this user".to_owned() } else { list(services) };
    match job_service {
        Some(service) => {
            let verdict = unless_good(!services.contains(&service), Severity::Bad);
            Finding::compared(&USABLE, value, format!("{service} (of the job)"), verdict)
        }
        None => {
            let verdict = unless_good(services.is_empty(), Severity::Suspect);
            Finding::compared(&USABLE, value, "any", verdict)
        }
    }
}

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

/// The finding where the service of this user is not known.
pub fn unknown_ranks(why: impl Into<String>) -> Finding {
    Finding::untested(&RANKS, why)
}

/// Whether an earlier job has left entries of the tables of the NIC in use.
pub static LEAKED_RESOURCES: Item = Item {
    code: "leaked-resources",
    name: "leaked resources",
    source: "cxi_healthcheck",
    remedy: "an earlier job has left entries of the NIC's tables in use: drain and reboot the node",
};

/// Tables of the NIC, each with a file of the retry handler.
const TABLES: [&str; 5] = ["sct", "tct", "spt", "trs", "mst"];

/// Counters of the packets of RDMA, in both directions.
const PACKETS: [&str; 5] = [
    "pct_req_ordered",
    "pct_req_unordered",
    "pct_req_no_response",
    "pct_ptls_response",
    "pct_responses_received",
];

/// How long the tables may be in use after the last packet: a get whose last packet is lost ends
/// after 98 s (libcxi.md 12.3).
const QUIET: Duration = Duration::from_secs(100);

/// The use of the tables at a time.
#[derive(Clone, Debug)]
pub struct ResourceUse {
    at: Instant,
    /// Entries in use by table; `None` if a number cannot be read.
    in_use: Option<[u64; 5]>,
    /// Packets until then by counter; `None` if a counter cannot be read.
    packets: Option<[u64; 5]>,
}

impl ResourceUse {
    /// Reads the files of a NIC.
    pub fn read(files: &Files) -> Self {
        let in_use = |table: &str| decimal(&files.retry_handler_text(&format!("{table}_in_use"))?);
        let packets = |name: &str| Some(files.counter(name)?.value);
        Self {
            at: Instant::now(),
            in_use: all(TABLES.map(in_use)),
            packets: all(PACKETS.map(packets)),
        }
    }

    /// The entries that have been in use since `before`. They have a verdict only if the NIC was
    /// idle for 100 s: no process has resources of a service (`is_unused`), and no packet was sent
    /// or received.
    pub fn since(&self, before: &Self, is_unused: bool) -> Finding {
        let Some(in_use) = self.in_use else {
            return Finding::absent(&LEAKED_RESOURCES);
        };
        if in_use == [0; 5] {
            return Finding::compared(&LEAKED_RESOURCES, "0", "0", Severity::Good);
        }
        let is_quiet = self.packets.is_some() && self.packets == before.packets;
        let is_long = self.at.duration_since(before.at) >= limit::in_effect(QUIET);
        let before = before.in_use.filter(|_| is_unused && is_quiet && is_long);
        let left = before.map(|before| std::array::from_fn(|at| in_use[at].min(before[at])));
        match left.filter(|left| *left != [0; 5]) {
            Some(left) => Finding::compared(&LEAKED_RESOURCES, text(left), "0", Severity::Suspect),
            None => Finding {
                note: Some(format!(
                    "no verdict: the NIC must be idle for {0} s (--no-traffic --window={0}s)",
                    QUIET.as_secs()
                )),
                ..Finding::shown(&LEAKED_RESOURCES, text(in_use))
            },
        }
    }
}

/// The numbers; `None` if one is missing.
fn all(numbers: [Option<u64>; 5]) -> Option<[u64; 5]> {
    let found: Option<Vec<u64>> = numbers.into_iter().collect();
    found?.try_into().ok()
}

/// The tables with entries: `3 sct, 1 tct`.
fn text(in_use: [u64; 5]) -> String {
    let tables = in_use.into_iter().zip(TABLES).filter(|(count, _)| *count > 0);
    let tables = tables.map(|(count, table)| format!("{count} {table}"));
    tables.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use cxi::TRIGGERED;

    use super::*;
    use node::nic::testing::MadeUp;

    #[test]
    fn job_needs_its_service_and_others_need_any() {
        for (services, job_service, verdict) in [
            (&[1, 5][..], Some(5), Severity::Good),
            (&[1], Some(5), Severity::Bad),
            (&[1], None, Severity::Good),
            (&[], None, Severity::Suspect),
        ] {
            assert_eq!(usable(services, job_service).verdict, verdict, "{services:?}");
        }
    }

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
        assert_eq!(unknown_ranks("no service").verdict, Severity::NotAvailable);
    }

    /// The use of tables this long after `start`, with this number of packets.
    fn in_use(start: Instant, seconds: u64, in_use: [u64; 5], packets: u64) -> ResourceUse {
        ResourceUse {
            at: start + Duration::from_secs(seconds),
            in_use: Some(in_use),
            packets: Some([7, 7, 0, 7, packets]),
        }
    }

    #[test]
    fn resources_of_an_idle_nic_are_suspect() {
        let start = Instant::now();
        let before = in_use(start, 0, [3, 1, 0, 0, 2], 5);
        let found = in_use(start, 100, [2, 1, 4, 0, 0], 5).since(&before, true);
        assert_eq!(found.verdict, Severity::Suspect);
        assert_eq!(found.value.as_deref(), Some("2 sct, 1 tct"));
        let empty = in_use(start, 0, [0; 5], 5);
        assert_eq!(empty.since(&before, false).verdict, Severity::Good);
    }

    #[test]
    fn resources_have_no_verdict_unless_the_nic_is_known_to_be_idle() {
        let start = Instant::now();
        let before = in_use(start, 0, [3, 1, 0, 0, 0], 5);
        let short = in_use(start, 99, [3, 1, 0, 0, 0], 5);
        let long = in_use(start, 100, [3, 1, 0, 0, 0], 5);
        let with_packets = in_use(start, 100, [3, 1, 0, 0, 0], 6);
        let others = in_use(start, 100, [0, 0, 1, 0, 0], 5);
        let unknown = |usage: &ResourceUse| ResourceUse { packets: None, ..usage.clone() };
        for (case, found) in [
            ("in use", long.since(&before, false)),
            ("too short", short.since(&before, true)),
            ("packets", with_packets.since(&before, true)),
            ("without counters", unknown(&long).since(&unknown(&before), true)),
            ("other resources", others.since(&before, true)),
        ] {
            assert_eq!(found.verdict, Severity::Shown, "{case}");
            assert!(found.note.is_some(), "{case}");
        }
    }

    #[test]
    fn reads_files_of_retry_handler() {
        let made_up = MadeUp::new(&[]);
        let found = |made_up: &MadeUp| {
            let now = ResourceUse::read(&made_up.files);
            now.since(&now, true)
        };
        for table in TABLES {
            assert_eq!(found(&made_up).verdict, Severity::NotAvailable, "{table}");
            made_up.write_of_host(&format!("run/cxi/cxi0/{table}_in_use"), "1\n");
        }
        let value = found(&made_up).value;
        assert_eq!(value.as_deref(), Some("1 sct, 1 tct, 1 spt, 1 trs, 1 mst"));
    }
}
