//! Memory kept from child processes, as the driver's library does on request (libcxi.md 1).
//!
//! With `CXI_FORK_SAFE` in the environment when a device is opened, mapped memory is marked so that children do not
//! inherit it; with `CXI_FORK_SAFE_HP`, huge pages too. A page is marked as long as any mapping holds it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::fork;

/// What a device marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    pub pages: bool,
    pub huge_pages: bool,
}

impl Marking {
    /// As the environment has it now.
    pub fn from_environment() -> Self {
        let is_set = |name| std::env::var_os(name).is_some();
        Self {
            pages: is_set("CXI_FORK_SAFE"),
            huge_pages: is_set("CXI_FORK_SAFE") && is_set("CXI_FORK_SAFE_HP"),
        }
    }
}

/// How many mappings hold each marked range, by its first address: its end, and their number. Ranges do not overlap.
type Ranges = BTreeMap<usize, (usize, usize)>;

struct Held {
    /// The process that this is about: a child has nothing of what its parent marked.
    generation: u32,
    ranges: Ranges,
}

static HELD: Mutex<Held> = Mutex::new(Held {
    generation: 0,
    ranges: Ranges::new(),
});

/// Works on what this process has marked. Advice is given in here too: of two threads with the same pages, one must not
/// take the mark away that the other has just made.
fn with_held<T>(work: impl FnOnce(&mut Ranges) -> T) -> T {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = fork::generation();
    if held.generation != generation {
        held.generation = generation;
        held.ranges.clear();
    }
    work(&mut held.ranges)
}

/// Marks a range of whole pages. EFAULT if the kernel refuses.
pub fn mark(start: usize, end: usize) -> Result<(), Errno> {
    with_held(|held| {
        advise(start, end, Advice::LinuxDontFork).map_err(|_| Errno::FAULT)?;
        let mut at = start;
        for (from, to) in cut_out(held, start, end) {
            if at < from {
                held.insert(at, (from, 1));
            }
            if let Some((_, count)) = held.get_mut(&from) {
                *count += 1;
            }
            at = to;
        }
        if at < end {
            held.insert(at, (end, 1));
        }
        Ok(())
    })
}

/// Takes the mark of a mapping back; what no other mapping holds is inherited again.
pub fn unmark(start: usize, end: usize) {
    with_held(|held| {
        for (from, to) in cut_out(held, start, end) {
            let Some((_, count)) = held.get_mut(&from) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                held.remove(&from);
                // Memory that is unmapped already needs no advice.
                let _ = advise(from, to, Advice::LinuxDoFork);
            }
        }
    });
}

/// The ranges between two addresses, cut so that none goes beyond.
fn cut_out(held: &mut Ranges, start: usize, end: usize) -> Vec<(usize, usize)> {
    split(held, start);
    split(held, end);
    let inside = held.range(start..end);
    inside.map(|(&from, &(to, _))| (from, to)).collect()
}

/// Cuts the range that holds `at` in two there.
fn split(held: &mut Ranges, at: usize) {
    let before = held
        .range(..at)
        .next_back()
        .map(|(&start, &rest)| (start, rest));
    if let Some((start, (end, count))) = before
        && at < end
    {
        held.insert(start, (at, count));
        held.insert(at, (end, count));
    }
}

fn advise(start: usize, end: usize, advice: Advice) -> Result<(), Errno> {
    let place = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the advice changes what children inherit, and nothing in this process.
    unsafe { madvise(place, end - start, advice) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{Pages, page_size};

    /// Whether the kernel keeps a page from children: flag `dc` in smaps.
    fn is_marked(address: usize) -> bool {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in smaps.lines() {
            if let Some((from, to)) = line.split(' ').next().unwrap().split_once('-')
                && let Ok(from) = usize::from_str_radix(from, 16)
                && let Ok(to) = usize::from_str_radix(to, 16)
            {
                inside = (from..to).contains(&address);
            } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split_whitespace().any(|flag| flag == "dc");
            }
        }
        panic!("{address:#x} is not mapped");
    }

    #[test]
    fn a_page_is_marked_while_anything_holds_it() {
        let page = page_size();
        let pages = Pages::anonymous(4 * page).unwrap();
        let at = |index: usize| pages.at(0, 0).expose_provenance() + index * page;
        let marked = || [0, 1, 2, 3].map(|index| is_marked(at(index)));
        mark(at(0), at(2)).unwrap();
        mark(at(1), at(4)).unwrap();
        assert_eq!(marked(), [true; 4]);
        unmark(at(0), at(2));
        assert_eq!(marked(), [false, true, true, true]);
        mark(at(0), at(4)).unwrap();
        unmark(at(1), at(4));
        assert_eq!(marked(), [true; 4]);
        unmark(at(0), at(4));
        assert_eq!(marked(), [false; 4]);
        assert!(mark(page, 2 * page).is_err(), "nothing is mapped there");
    }
}
