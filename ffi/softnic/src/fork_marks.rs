//! Mapped memory that child processes do not inherit, on request (libcxi.md 1).
//!
//! With `CXI_FORK_SAFE` in the environment when a device is opened, mapped memory is marked so that
//! children do not inherit it; with `CXI_FORK_SAFE_HP` huge pages too. A page is marked while any
//! mapping contains it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::fork;

/// Which mapped memory a device marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    pub pages: bool,
    pub huge_pages: bool,
}

impl Marking {
    /// Reads the environment.
    pub fn from_environment() -> Self {
        let is_set = |name| std::env::var_os(name).is_some();
        Self {
            pages: is_set("CXI_FORK_SAFE"),
            huge_pages: is_set("CXI_FORK_SAFE") && is_set("CXI_FORK_SAFE_HP"),
        }
    }
}

/// The marked ranges by first address: the end, and the number of mappings. Ranges do not overlap.
type Ranges = BTreeMap<usize, (usize, usize)>;

struct Marked {
    /// Generation of the process. A child does not have the ranges that its parent marked.
    generation: u32,
    ranges: Ranges,
}

static MARKED: Mutex<Marked> = Mutex::new(Marked {
    generation: 0,
    ranges: Ranges::new(),
});

/// Calls `work` with the marked ranges of this process. `work` also advises the kernel, so that one
/// thread does not remove the mark that another thread has just made on the same pages.
fn with_marked<T>(work: impl FnOnce(&mut Ranges) -> T) -> T {
    let mut marked = MARKED.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = fork::generation();
    if marked.generation != generation {
        marked.generation = generation;
        marked.ranges.clear();
    }
    work(&mut marked.ranges)
}

/// Marks a range of whole pages.
///
/// # Errors
/// EFAULT if the kernel refuses.
pub fn mark(start: usize, end: usize) -> Result<(), Errno> {
    with_marked(|marked| {
        advise(start, end, Advice::LinuxDontFork).map_err(|_| Errno::FAULT)?;
        let mut at = start;
        for (from, to) in cut_out(marked, start, end) {
            if at < from {
                marked.insert(at, (from, 1));
            }
            if let Some((_, count)) = marked.get_mut(&from) {
                *count += 1;
            }
            at = to;
        }
        if at < end {
            marked.insert(at, (end, 1));
        }
        Ok(())
    })
}

/// Removes the mark of one mapping. Pages that no other mapping contains are inherited again.
pub fn unmark(start: usize, end: usize) {
    with_marked(|marked| {
        for (from, to) in cut_out(marked, start, end) {
            let Some((_, count)) = marked.get_mut(&from) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                marked.remove(&from);
                // The advice fails for memory that is already unmapped, which needs none.
                let _ = advise(from, to, Advice::LinuxDoFork);
            }
        }
    });
}

/// Returns the ranges between two addresses, split at these.
fn cut_out(marked: &mut Ranges, start: usize, end: usize) -> Vec<(usize, usize)> {
    split(marked, start);
    split(marked, end);
    let inside = marked.range(start..end);
    inside.map(|(&from, &(to, _))| (from, to)).collect()
}

/// Splits the range that contains `at` there.
fn split(marked: &mut Ranges, at: usize) {
    let before = marked
        .range(..at)
        .next_back()
        .map(|(&start, &rest)| (start, rest));
    if let Some((start, (end, count))) = before
        && at < end
    {
        marked.insert(start, (at, count));
        marked.insert(at, (end, count));
    }
}

fn advise(start: usize, end: usize, advice: Advice) -> Result<(), Errno> {
    let place = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the advice changes only what children inherit, nothing in this process.
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
    fn page_is_marked_while_any_mapping_contains_it() {
        let page = page_size();
        let pages = Pages::anonymous(4 * page).unwrap();
        let at = |index: usize| pages.at(0, 0).expose_provenance() + index * page;
        let marked_pages = || [0, 1, 2, 3].map(|index| is_marked(at(index)));
        mark(at(0), at(2)).unwrap();
        mark(at(1), at(4)).unwrap();
        assert_eq!(marked_pages(), [true; 4]);
        unmark(at(0), at(2));
        assert_eq!(marked_pages(), [false, true, true, true]);
        mark(at(0), at(4)).unwrap();
        unmark(at(1), at(4));
        assert_eq!(marked_pages(), [true; 4]);
        unmark(at(0), at(4));
        assert_eq!(marked_pages(), [false; 4]);
        assert!(mark(page, 2 * page).is_err(), "nothing is mapped there");
    }
}
