//! The data buffers of a run: their number on each side, their lengths and pages, and the check
//! that the machine has memory for them.

use cxi::HugePage;

use crate::run_options::{RunOptions, Side};
use crate::tool::Tool;
use facts::advice::{self, Situation};
use facts::error::Failure;
use node::gpu::OnGpus;
use node::machine::{self, Machine};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Used length in bytes: at least 1.
    pub length: u64,
    /// Size of its huge pages; `None` for ordinary pages.
    pub huge_page: Option<HugePage>,
}

impl Buffer {
    /// A buffer for the largest size or a whole list (tools.md 3.6).
    pub fn full(run: &RunOptions) -> Self {
        let whole_list = |lists: crate::run_options::ListOptions| lists.buffer(run.max_size);
        Self { length: run.lists.map_or(run.max_size, whole_list), huge_page: run.huge_page }
    }

    /// A buffer of a few bytes, in ordinary pages.
    pub fn small(length: u64) -> Self {
        Self { length, huge_page: None }
    }

    /// The allocated length in bytes: whole pages.
    pub fn allocated(&self) -> u64 {
        let page = match self.huge_page {
            Some(page) => page.bytes(),
            None => rustix::param::page_size() as u64,
        };
        self.length.next_multiple_of(page)
    }
}

/// The system memory that the buffers of one or more sides need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The full buffers.
    count: u64,
    buffer: Buffer,
}

impl Need {
    /// Returns what `sides` of a run need together; each side has the same `gpus`.
    pub fn of(tool: &Tool, run: &RunOptions, sides: &[Side], gpus: OnGpus) -> Self {
        let count = |side: &Side| {
            let held = tool.buffers.held(run, *side);
            let transmit = held.initiator && gpus.tx.is_none();
            let receive = held.target && gpus.rx.is_none();
            u64::from(transmit) + u64::from(receive)
        };
        Self {
            count: sides.iter().map(count).sum::<u64>() * u64::from(run.extensions.pairs),
            buffer: Buffer::full(run),
        }
    }

    /// Returns size and number of the huge pages, if any are needed.
    pub fn huge_pages(&self) -> Option<(HugePage, u64)> {
        let page = self.buffer.huge_page.filter(|_| self.count > 0)?;
        let each = self.buffer.allocated() / page.bytes();
        Some((page, each.saturating_mul(self.count)))
    }

    /// The memory of a full buffer in bytes, without unused huge pages (tools.md 3.6).
    pub fn allocated(&self) -> u64 {
        let huge_page = self.buffer.huge_page.filter(|_| self.count > 0);
        let buffer = Buffer { huge_page, ..self.buffer };
        buffer.allocated()
    }

    /// The bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.allocated().saturating_mul(self.count)
    }

    /// Checks, before anything is allocated, that `machine` has the memory, on `node` if the
    /// buffers are to lie there. Otherwise a page would be missing in the middle of a run, or the
    /// kernel would kill a process (defects T13 and T33 of tools.md).
    ///
    /// # Errors
    ///
    /// Not enough memory or huge pages.
    pub fn check(&self, machine: &Machine, node: Option<u32>) -> Result<(), Failure> {
        match self.huge_pages() {
            Some((page, needed)) => check_huge_pages(machine, node, page, needed),
            None => self.check_memory(machine, node),
        }
    }

    fn check_memory(&self, machine: &Machine, node: Option<u32>) -> Result<(), Failure> {
        let buffers = self.bytes();
        let needed = buffers.saturating_add(beside(buffers));
        match machine.available_memory(node) {
            Some(available) if available.bytes < needed => Err(advice::found(
                Situation::NoMemory,
                format!(
                    "the run needs {needed} bytes of memory, {buffers} of them for buffers; {} are available {}",
                    available.bytes, available.bound
                ),
            )),
            // If the kernel reports no figure, the allocation itself is the check.
            _ => Ok(()),
        }
    }
}

/// The memory that a run takes in addition to its buffers: the program and its queues, the rings of
/// a software NIC, page tables (8 bytes for each page). It is at most the length of the buffers:
/// small runs are not refused for it.
fn beside(buffers: u64) -> u64 {
    buffers.min(PROGRAM) + buffers / 256
}

/// Memory of both programs of a run on the software NIC, in bytes, with a reserve of one half.
const PROGRAM: u64 = 16 << 20;

fn check_huge_pages(
    machine: &Machine,
    node: Option<u32>,
    page: HugePage,
    needed: u64,
) -> Result<(), Failure> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let Some(pool) = machine.huge_pages(page, node) else {
        let message = format!("the kernel of {host} has no huge pages of {page}");
        return Err(advice::found(Situation::NoSuchHugePages, message));
    };
    if pool.free >= needed {
        return Ok(());
    }
    let message = format!(
        "not enough huge pages: the buffers need {needed} of {page}, {} are available {} ({host}; see {})",
        pool.free,
        pool.bound,
        machine::setting(page)
    );
    Err(advice::found(Situation::NoHugePages, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use node::machine::testing::MadeUp;

    fn need(tool: &str, options: &[&str], sides: &[Side]) -> Need {
        let plan = plan(tool, options);
        Need::of(plan.tool, &plan.run, sides, plan.gpus)
    }

    const BOTH: &[Side] = &[Side::Client, Side::Server];

    #[test]
    fn counts_pages_of_each_side() {
        for (tool, options, client, server) in [
            ("write-lat", &[][..], 1, 1),
            ("read-lat", &["-s", "2097153"], 2, 2),
            ("send-lat", &["-s", "1:2097152"], 2, 2),
            ("write-bw", &["-l", "33"], 2, 2),
            ("read-bw", &["-l", "33", "-b"], 4, 4),
            ("send-bw", &["-l", "33"], 2, 2),
            ("write-bw", &["-l", "33", "-P", "5"], 10, 10),
            ("read-bw", &["-l", "33", "-b", "--threads=3"], 12, 12),
            ("send-bw", &["-l", "33", "-b"], 4, 4),
            ("send-bw", &["-l", "33", "--buf-sz", "65536"], 1, 1),
            ("send-bw", &["-l", "2", "-s", "8", "--buf-align", "4194304"], 4, 4),
        ] {
            let with = [options, &["--use-hp=2M"]].concat();
            for (sides, pages) in
                [(&[Side::Client][..], client), (&[Side::Server], server), (BOTH, client + server)]
            {
                let found = need(tool, &with, sides).huge_pages();
                assert_eq!(found, Some((HugePage::Mib2, pages)), "{tool} {options:?}");
                assert_eq!(need(tool, options, sides).huge_pages(), None);
            }
        }
        // A server without a client.
        assert_eq!(need("write-lat", &["--use-hp=2M"], &[]).huge_pages(), None);
    }

    /// Buffers on GPUs need no system memory.
    #[test]
    fn ignores_buffers_on_gpus() {
        for (tool, options, client, server) in [
            ("write-lat", &["-t", "0"][..], 0, 1),
            ("read-lat", &["-r", "0"], 1, 0),
            ("send-lat", &["-r", "3"], 1, 1),
            ("send-bw", &["-s", "8", "-b", "-t", "0"], 1, 1),
            ("send-lat", &["-t", "0", "-r", "1"], 0, 0),
        ] {
            let with = [options, &["--use-hp=2M"]].concat();
            for (side, pages) in [(Side::Client, client), (Side::Server, server)] {
                let need = need(tool, &with, &[side]);
                let expected = (pages > 0).then_some((HugePage::Mib2, pages));
                assert_eq!(need.huge_pages(), expected, "{tool} {options:?} {side:?}");
                let page = if pages > 0 { 2 << 20 } else { 4096 };
                assert_eq!(need.allocated(), page, "{tool} {options:?} {side:?}");
            }
        }
    }

    /// The largest transfer needs more memory than any machine has.
    #[test]
    fn counts_largest_buffers() {
        let largest = need("write-lat", &["-s", "4294967295", "--use-hp=1G"], BOTH);
        assert_eq!(largest.huge_pages(), Some((HugePage::Gib1, 8)));
        let options = ["-s", "4294967295", "-l", "16382", "--buf-sz", "18446744073709551615"];
        let made_up = MadeUp::new(&[("proc/meminfo", "MemAvailable: 1 kB\n")]);
        let refused = need("send-bw", &options, BOTH).check(&made_up.machine(), None);
        // 16382 times 4 GiB on each side.
        let message = refused.unwrap_err().message();
        assert!(message.contains(" 140720308486144 of them for buffers; 1024 are"), "{message}");
    }

    /// The buffers of atomic operations are small and not checked.
    #[test]
    fn accepts_runs_without_full_buffers() {
        let made_up = MadeUp::new(&[("proc/meminfo", "MemAvailable: 0 kB\n")]);
        for tool in ["atomic-lat", "atomic-bw"] {
            let checked = need(tool, &[], BOTH).check(&made_up.machine(), None);
            assert!(checked.is_ok(), "{tool}");
        }
    }
}
