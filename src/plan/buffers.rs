//! The data buffers of a run: how many a side holds, how long they are, of which pages; and whether the
//! machine has room for them.

use cxi::HugePage;

use crate::advice::{self, Situation};
use crate::error::Failure;
use crate::gpu::OnGpus;
use crate::machine::{self, Machine};
use crate::run_options::{RunOptions, Side};
use crate::tool::Tool;

/// One buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes that are used: at least 1.
    pub length: u64,
    /// Of huge pages of this size, or of those that all memory is made of.
    pub huge_page: Option<HugePage>,
}

impl Buffer {
    /// One that holds all that a run moves: the largest size, or a whole list (tools.md 3.6).
    pub fn full(run: &RunOptions) -> Self {
        let whole_list = |lists: crate::run_options::ListOptions| lists.buffer(run.max_size);
        Self {
            length: run.lists.map_or(run.max_size, whole_list),
            huge_page: run.huge_page,
        }
    }

    /// One of a few bytes, for which huge pages would be a waste.
    pub fn small(length: u64) -> Self {
        Self {
            length,
            huge_page: None,
        }
    }

    /// Bytes that are allocated: whole pages.
    pub fn allocated(&self) -> u64 {
        let page = match self.huge_page {
            Some(page) => page.bytes(),
            None => rustix::param::page_size() as u64,
        };
        self.length.next_multiple_of(page)
    }
}

/// What the buffers of one side, or of several, take of system memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Full buffers.
    count: u64,
    buffer: Buffer,
}

impl Need {
    /// What `sides` of a run need together, of which each has the same `gpus`.
    pub fn of(tool: &Tool, run: &RunOptions, sides: &[Side], gpus: OnGpus) -> Self {
        let count = |side: &Side| {
            let held = tool.buffers.held(run, *side);
            let transmit = held.initiator && gpus.tx.is_none();
            let receive = held.target && gpus.rx.is_none();
            u64::from(transmit) + u64::from(receive)
        };
        Self {
            count: sides.iter().map(count).sum(),
            buffer: Buffer::full(run),
        }
    }

    /// Size of the huge pages and their number, if any are needed.
    pub fn huge_pages(&self) -> Option<(HugePage, u64)> {
        let page = self.buffer.huge_page.filter(|_| self.count > 0)?;
        let each = self.buffer.allocated() / page.bytes();
        Some((page, each.saturating_mul(self.count)))
    }

    /// Bytes that a full buffer takes. Huge pages that no buffer is made of do not count (tools.md 3.6).
    pub fn allocated(&self) -> u64 {
        let huge_page = self.buffer.huge_page.filter(|_| self.count > 0);
        let buffer = Buffer {
            huge_page,
            ..self.buffer
        };
        buffer.allocated()
    }

    /// Fails unless `machine` has room, on `node` if the buffers are to lie there. Nothing has been
    /// allocated yet: neither does a page go missing in the middle of a run, nor does the kernel have
    /// to kill somebody (defects T13 and T33 of tools.md).
    pub fn check(&self, machine: &Machine, node: Option<u32>) -> Result<(), Failure> {
        match self.huge_pages() {
            Some((page, needed)) => check_huge_pages(machine, node, page, needed),
            None => self.check_memory(machine, node),
        }
    }

    fn check_memory(&self, machine: &Machine, node: Option<u32>) -> Result<(), Failure> {
        let buffers = self.buffer.allocated().saturating_mul(self.count);
        let needed = buffers.saturating_add(beside(buffers));
        match machine.available_memory(node) {
            Some(available) if available.bytes < needed => Err(advice::found(
                Situation::NoMemory,
                format!(
                    "the run needs {needed} bytes of memory, {buffers} of them for buffers; {} are available {}",
                    available.bytes, available.bound
                ),
            )),
            // Where the kernel tells nothing, allocating will tell.
            _ => Ok(()),
        }
    }
}

/// What the run takes beside buffers of so many bytes: the program and its queues, the rings of a software NIC, page
/// tables (an entry of 8 bytes for a page). No more than the buffers themselves: whoever moves little is let try.
fn beside(buffers: u64) -> u64 {
    buffers.min(PROGRAM) + buffers / 256
}

/// Bytes that both programs of a run on the software NIC take, and half as much again.
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
    use crate::bench::testing::plan;
    use crate::machine::testing::MadeUp;

    fn need(tool: &str, options: &[&str], sides: &[Side]) -> Need {
        let plan = plan(tool, options);
        Need::of(plan.tool, &plan.run, sides, plan.gpus)
    }

    const BOTH: &[Side] = &[Side::Client, Side::Server];

    #[test]
    fn pages_of_each_side() {
        for (tool, options, client, server) in [
            ("write-lat", &[][..], 1, 1),
            ("read-lat", &["-s", "2097153"], 2, 2),
            ("send-lat", &["-s", "1:2097152"], 2, 2),
            ("send-bw", &["-l", "33"], 2, 2),
            ("send-bw", &["-l", "33", "-b"], 4, 4),
            ("send-bw", &["-l", "33", "--buf-sz", "65536"], 1, 1),
            (
                "send-bw",
                &["-l", "2", "-s", "8", "--buf-align", "4194304"],
                4,
                4,
            ),
        ] {
            let with = [options, &["--use-hp=2M"]].concat();
            for (sides, pages) in [
                (&[Side::Client][..], client),
                (&[Side::Server], server),
                (BOTH, client + server),
            ] {
                let found = need(tool, &with, sides).huge_pages();
                assert_eq!(found, Some((HugePage::Mib2, pages)), "{tool} {options:?}");
                assert_eq!(need(tool, options, sides).huge_pages(), None);
            }
        }
        // A server that has no client yet.
        assert_eq!(need("write-lat", &["--use-hp=2M"], &[]).huge_pages(), None);
    }

    /// What lies on GPUs takes no memory of the system.
    #[test]
    fn buffers_on_gpus_do_not_count() {
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

    /// The largest transfer, and more room for it than any machine has.
    #[test]
    fn the_largest_buffers_are_counted() {
        let largest = need("write-lat", &["-s", "4294967295", "--use-hp=1G"], BOTH);
        assert_eq!(largest.huge_pages(), Some((HugePage::Gib1, 8)));
        let options = [
            "-s",
            "4294967295",
            "-l",
            "16382",
            "--buf-sz",
            "18446744073709551615",
        ];
        let made_up = MadeUp::new(&[("proc/meminfo", "MemAvailable: 1 kB\n")]);
        let refused = need("send-bw", &options, BOTH).check(&made_up.machine(), None);
        // 16382 times 4 GiB on each side.
        let message = refused.unwrap_err().message();
        assert!(
            message.contains(" 140720308486144 of them for buffers; 1024 are"),
            "{message}"
        );
    }

    /// Atomic operations move a few bytes, whatever the machine has left.
    #[test]
    fn who_has_no_buffers_is_not_refused() {
        let made_up = MadeUp::new(&[("proc/meminfo", "MemAvailable: 0 kB\n")]);
        let checked = need("atomic-lat", &[], BOTH).check(&made_up.machine(), None);
        assert!(checked.is_ok());
    }
}
