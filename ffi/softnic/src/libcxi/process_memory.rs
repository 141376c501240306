//! The memory of the calling process, as the kernel describes it in `/proc/self`.

use std::fs::File;
use std::io::{BufRead, BufReader};

use cxi_sys::{CXI_MAP_READ, CXI_MAP_WRITE};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::pages::page_size;

/// Returns the page size of a range: that of huge pages if the range begins and ends in them, else
/// that of ordinary pages.
pub fn common_page_size(start: usize, end: usize) -> usize {
    let size = |address| kernel_page_size(address).unwrap_or(page_size());
    match size(start) {
        huge if huge > page_size() && size(end - 1) == huge => huge,
        _ => page_size(),
    }
}

/// Returns the size of the pages at an address; EFAULT where nothing is mapped.
pub fn kernel_page_size(address: usize) -> Result<usize, Errno> {
    let Ok(file) = File::open("/proc/self/smaps") else {
        return Ok(page_size());
    };
    let mut inside = false;
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        if let Some((from, to, _)) = parse(&line) {
            inside = (from..to).contains(&address);
        } else if inside && let Some(size) = line.strip_prefix("KernelPageSize:") {
            let kilobytes = size.trim().trim_end_matches(" kB").parse::<usize>();
            return kilobytes
                .map(|kilobytes| kilobytes * 1024)
                .map_err(|_| Errno::OVERFLOW);
        }
    }
    Err(Errno::FAULT)
}

/// Checks that the process itself may access a whole range as `CXI_MAP_READ` and `CXI_MAP_WRITE`
/// say: EFAULT otherwise.
pub fn check_access(start: usize, end: usize, flags: u32) -> Result<(), Errno> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Errno::NOMEM)?;
    let mut reached = start;
    for line in maps.lines() {
        let Some((from, to, rights)) = parse(line) else {
            continue;
        };
        if to <= reached {
            continue;
        }
        let missing = (flags & CXI_MAP_READ != 0 && !rights.contains('r'))
            || (flags & CXI_MAP_WRITE != 0 && !rights.contains('w'));
        if from > reached || missing {
            return Err(Errno::FAULT);
        }
        reached = to;
        if reached >= end {
            return Ok(());
        }
    }
    Err(Errno::FAULT)
}

/// Returns start, end and rights from the first line of a mapping in `/proc/self/maps` or `smaps`.
fn parse(line: &str) -> Option<(usize, usize, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
        rights,
    ))
}

/// Faults the pages of a range in, as pinning does, so that the first operations cause no page
/// faults. EFAULT if a page cannot be had, such as a huge page beyond the limit of a control group,
/// where an access would raise SIGBUS. Does nothing before Linux 5.14.
pub fn populate(start: usize, len: usize, flags: u32) -> Result<(), Errno> {
    let advice = if flags & CXI_MAP_WRITE != 0 {
        Advice::LinuxPopulateWrite
    } else {
        Advice::LinuxPopulateRead
    };
    // SAFETY: populating changes no contents, and the kernel checks the range.
    match unsafe { madvise(std::ptr::with_exposed_provenance_mut(start), len, advice) } {
        Err(Errno::FAULT | Errno::NOMEM | Errno::HWPOISON) => Err(Errno::FAULT),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Pages;

    #[test]
    fn rejects_range_with_unmapped_pages() {
        let page = page_size();
        let pages = Pages::anonymous(3 * page).unwrap();
        let start = pages.at(0, 0).addr();
        let rights = CXI_MAP_READ | CXI_MAP_WRITE;
        assert_eq!(check_access(start, start + 3 * page, rights), Ok(()));
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { rustix::mm::munmap(pages.at(page, page).cast(), page) }.unwrap();
        assert_eq!(check_access(start, start + page, rights), Ok(()));
        assert_eq!(
            check_access(start, start + 3 * page, rights),
            Err(Errno::FAULT)
        );
        assert_eq!(check_access(page, 2 * page, rights), Err(Errno::FAULT));
    }

    #[test]
    fn rejects_access_beyond_rights() {
        static CONSTANT: [u8; 64] = [1; 64];
        let start = CONSTANT.as_ptr().addr();
        assert_eq!(check_access(start, start + 64, CXI_MAP_READ), Ok(()));
        assert_eq!(
            check_access(start, start + 64, CXI_MAP_WRITE),
            Err(Errno::FAULT)
        );
    }
}
