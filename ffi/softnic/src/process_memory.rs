//! The memory of the calling process, as the kernel describes it in `/proc/self/maps`.

use std::fs::File;
use std::io::{BufRead, BufReader};

use cxi_sys::{CXI_MAP_READ, CXI_MAP_WRITE};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};

use crate::huge_page::{self, DeviceNumber};
use crate::pages::page_size;

/// A range of addresses with the same rights and the same kind of memory.
struct Area {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
    /// The device of the file behind it; `None` for memory without a file.
    device: Option<DeviceNumber>,
}

impl Area {
    /// Reads a line of `/proc/self/maps`: `7f00-7f10 rw-p 00000000 00:0f 1234 /path`.
    fn parse(line: &str) -> Option<Self> {
        let hexadecimal = |number| usize::from_str_radix(number, 16).ok();
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let (major, minor) = words.nth(1)?.split_once(':')?;
        let device = (hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
        let has_file = words.next()? != "0";
        Some(Self {
            start: hexadecimal(start)?,
            end: hexadecimal(end)?,
            readable: rights.contains('r'),
            writable: rights.contains('w'),
            device: has_file.then_some(device),
        })
    }

    fn page_size(&self) -> usize {
        let huge = self.device.and_then(huge_page::page_size_on);
        huge.unwrap_or_else(page_size)
    }

    /// Checks that the process may access the area as these flags of a mapping let the NIC do.
    fn check(&self, flags: u32) -> Result<(), Errno> {
        if flags & CXI_MAP_READ != 0 && !self.readable {
            return Err(Errno::FAULT);
        }
        if flags & CXI_MAP_WRITE == 0 || self.writable {
            return Ok(());
        }
        Err(if self.readable { Errno::ACCESS } else { Errno::FAULT })
    }
}

/// Returns the areas that end after an address, in ascending order; none if the kernel does not
/// describe them.
fn areas_from(address: usize) -> impl Iterator<Item = Area> {
    // The description of the process is empty after its first thread has ended. Names of files are
    // bytes.
    let lines = File::open("/proc/thread-self/maps").map(|maps| BufReader::new(maps).split(b'\n'));
    lines
        .into_iter()
        .flatten()
        .map_while(Result::ok)
        .filter_map(|line| Area::parse(&String::from_utf8_lossy(&line)))
        .filter(move |area| area.end > address)
}

/// Returns the size of the pages at an address.
///
/// # Errors
/// EFAULT where nothing is mapped.
pub fn kernel_page_size(address: usize) -> Result<usize, Errno> {
    let area = areas_from(address).next();
    let area = area.filter(|area| area.start <= address);
    area.map(|area| area.page_size()).ok_or(Errno::FAULT)
}

/// Returns the page size of a range: the size of huge pages if the range begins and ends in huge
/// pages, else the size of ordinary pages.
pub fn common_page_size(start: usize, end: usize) -> usize {
    let size = |address| kernel_page_size(address).unwrap_or(page_size());
    match size(start) {
        huge if huge > page_size() && size(end - 1) == huge => huge,
        _ => page_size(),
    }
}

/// Checks that the process itself may access a whole range as the flags `CXI_MAP_READ` and
/// `CXI_MAP_WRITE` let the NIC do.
///
/// # Errors
/// EACCES if the process may only read a part that the NIC should write; EFAULT if a part is not
/// mapped or cannot be read.
pub fn check_access(start: usize, end: usize, flags: u32) -> Result<(), Errno> {
    let mut reached = start;
    for area in areas_from(start) {
        if area.start > reached {
            break;
        }
        area.check(flags)?;
        reached = area.end;
        if reached >= end {
            return Ok(());
        }
    }
    Err(Errno::FAULT)
}

/// Checks that the process itself may read and write a whole range, for memory that the NIC uses
/// without a mapping.
///
/// # Errors
/// EFAULT otherwise.
pub fn check_writable(start: usize, end: usize) -> Result<(), Errno> {
    check_access(start, end, CXI_MAP_READ | CXI_MAP_WRITE).map_err(|_| Errno::FAULT)
}

/// Faults the pages of a range in, so that the first operations cause no page faults. Does nothing
/// before Linux 5.14.
///
/// # Errors
/// EFAULT if a page cannot be had, such as a huge page beyond the limit of a control group, where
/// an access would raise SIGBUS.
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
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect};

    use super::*;
    use crate::pages::Pages;

    #[test]
    fn rejects_range_with_inaccessible_pages() {
        let page = page_size();
        let pages = Pages::anonymous(3 * page).unwrap();
        let start = pages.at(0, 0).addr();
        let rights = CXI_MAP_READ | CXI_MAP_WRITE;
        assert_eq!(check_access(start, start + 3 * page, rights), Ok(()));
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mprotect(pages.at(page, page).cast(), page, MprotectFlags::empty()) }.unwrap();
        assert_eq!(check_access(start, start + page, rights), Ok(()));
        assert_eq!(check_access(start, start + 3 * page, rights), Err(Errno::FAULT));
        // The kernel maps nothing at the second page of the address space.
        assert_eq!(check_access(page, 2 * page, rights), Err(Errno::FAULT));
        assert_eq!(kernel_page_size(start), Ok(page));
        assert_eq!(kernel_page_size(page), Err(Errno::FAULT));
    }

    #[test]
    fn finds_memory_behind_file_with_name_that_is_not_utf8() {
        let page = page_size();
        let pages = Pages::anonymous(2 * page).unwrap();
        let mut name = OsStr::from_bytes(b"cxidiag-\xe9-").to_owned();
        name.push(std::process::id().to_string());
        let path = std::env::temp_dir().join(name);
        let file = File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        let first = pages.at(0, page).cast();
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mmap(first, page, ProtFlags::READ, flags, &file, 0) }.unwrap();
        let behind = pages.at(page, page).addr();
        assert_eq!(check_access(behind, behind + page, CXI_MAP_READ), Ok(()));
    }

    #[test]
    fn rejects_access_beyond_rights() {
        static CONSTANT: [u8; 64] = [1; 64];
        let start = CONSTANT.as_ptr().addr();
        assert_eq!(check_access(start, start + 64, CXI_MAP_READ), Ok(()));
        assert_eq!(check_access(start, start + 64, CXI_MAP_WRITE), Err(Errno::ACCESS));
        assert_eq!(check_writable(start, start + 64), Err(Errno::FAULT));
    }
}
