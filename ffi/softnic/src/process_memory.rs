//! The memory of the calling process, as the kernel describes it in `/proc/self/maps`, and the
//! memory that is mapped for the NIC on demand: the kernel looks it up in each access, as hardware
//! does after a page fault. The program may unmap it at any time, so the NIC copies it by a system
//! call, which fails where a load or a store would kill the process.

use std::fs::{File, read_dir, read_to_string};
use std::io::{BufRead, BufReader};
use std::sync::OnceLock;

use cxi_sys::{CXI_MAP_READ, CXI_MAP_WRITE};
use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use rustix::thread::gettid;

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
        let huge = self.device.and_then(page_size_on);
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

/// The areas that end after an address, in ascending order; none if the kernel does not describe
/// them.
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

/// The size of the pages at an address.
///
/// # Errors
/// EFAULT where nothing is mapped.
pub fn kernel_page_size(address: usize) -> Result<usize, Errno> {
    let area = areas_from(address).next();
    let area = area.filter(|area| area.start <= address);
    area.map(|area| area.page_size()).ok_or(Errno::FAULT)
}

/// The page size of a range: the size of huge pages if the range begins and ends in huge pages,
/// else the size of ordinary pages.
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

/// A device number: major and minor.
pub type DeviceNumber = (u32, u32);

/// The size of the pages of files on a device; `None` for ordinary pages.
///
/// Memory with huge pages belongs to a file of a hugetlb file system: an internal one of the kernel
/// for each size, or a mounted one. So the device number in `/proc/self/maps` shows the page size.
/// The kernel also prints it in `smaps`, but there it first visits all resident pages of the
/// process.
fn page_size_on(device: DeviceNumber) -> Option<usize> {
    static INTERNAL: OnceLock<Vec<(DeviceNumber, usize)>> = OnceLock::new();
    let internal = INTERNAL.get_or_init(internal_file_systems);
    let known = internal.iter().find(|(number, _)| *number == device);
    known.map(|(_, size)| *size).or_else(|| {
        let mounts = read_to_string("/proc/self/mountinfo").ok()?;
        mounts
            .lines()
            .filter_map(parse_mount)
            .find_map(|(number, size)| (number == device).then_some(size))
    })
}

/// The file systems that hold anonymous memory with huge pages.
fn internal_file_systems() -> Vec<(DeviceNumber, usize)> {
    let Ok(sizes) = read_dir("/sys/kernel/mm/hugepages") else {
        return Vec::new();
    };
    let names = sizes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let kilobytes = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let size = kilobytes.parse::<usize>().ok()? * 1024;
            Some((device_of_anonymous(size)?, size))
        })
        .collect()
}

/// The device of anonymous memory with huge pages of this size.
fn device_of_anonymous(size: usize) -> Option<DeviceNumber> {
    let size = MemfdFlags::from_bits_retain(size.trailing_zeros() << 26);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | size;
    // A kernel may insist on NOEXEC_SEAL; kernels before Linux 6.3 reject it.
    let file = memfd_create(c"cxi", flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| memfd_create(c"cxi", flags))
        .ok()?;
    let device = fstat(&file).ok()?.st_dev;
    Some((major(device), minor(device)))
}

/// Device and page size from a line of `/proc/self/mountinfo` about a hugetlb file system: `29 24
/// 0:27 / /dev/hugepages rw - hugetlbfs hugetlbfs rw,pagesize=2M`.
fn parse_mount(line: &str) -> Option<(DeviceNumber, usize)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    let mut words = file_system.split(' ');
    if words.next()? != "hugetlbfs" {
        return None;
    }
    let mut options = words.next_back()?.split(',');
    let size = options.find_map(|option| option.strip_prefix("pagesize="))?;
    let size = match size.strip_suffix('M') {
        Some(megabytes) => megabytes.parse::<usize>().ok()? << 20,
        None => size.strip_suffix('K')?.parse::<usize>().ok()? << 10,
    };
    Some(((major.parse().ok()?, minor.parse().ok()?), size))
}

/// Whether the kernel offers the system call to this process: a sandbox may withhold it.
pub fn can_copy_on_demand() -> bool {
    let (from, mut to) = ([1_u8], [0_u8]);
    // SAFETY: both arrays have one byte.
    unsafe { copy_on_demand(from.as_ptr(), to.as_mut_ptr(), 1) }
}

/// Copies `len` bytes, of which one side is memory mapped on demand. Returns false if a part of
/// either side has no memory, or the process lacks the right to access it; other parts may be
/// copied then.
///
/// The source is the remote side of the system call, because memcheck reports uninitialised bytes
/// of the local side.
///
/// # Safety
/// The program gave both sides to the NIC, or they belong to the caller.
pub unsafe fn copy_on_demand(from: *const u8, to: *mut u8, len: usize) -> bool {
    let local = libc::iovec { iov_base: to.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
    // A thread, because the first one of the process may have ended.
    let process = gettid().as_raw_pid();
    // SAFETY: both vectors have one element; the kernel checks the memory, which the caller may
    // change.
    let copied =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied) == Ok(len)
}

/// Faults the pages of `len` bytes in for writing. Returns false if there is no memory that the
/// process may read and write.
pub fn fault_in(start: *mut u8, len: usize) -> bool {
    let (start, end) = (start.addr(), start.addr() + len);
    let first = start / page_size() * page_size();
    let place = std::ptr::with_exposed_provenance_mut(first);
    // SAFETY: populating changes no contents, and the kernel checks the range.
    match unsafe { madvise(place, end - first, Advice::LinuxPopulateWrite) } {
        // The process may not write it, or the kernel is older than Linux 5.14.
        Err(Errno::INVAL) => check_writable(start, end).is_ok(),
        populated => populated.is_ok(),
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

    #[test]
    fn reads_page_size_of_mounted_file_systems() {
        let line = |kind: &str, options: &str| {
            parse_mount(&format!(
                "29 24 0:27 / /dev/hugepages rw,relatime shared:8 - {kind} hugetlbfs {options}"
            ))
        };
        let device = (0, 27);
        assert_eq!(line("hugetlbfs", "rw,pagesize=2M"), Some((device, 2 << 20)));
        assert_eq!(line("hugetlbfs", "rw,gid=7,pagesize=1024M,size=4G"), Some((device, 1 << 30)));
        assert_eq!(line("hugetlbfs", "rw,pagesize=64K"), Some((device, 64 << 10)));
        assert_eq!(line("tmpfs", "rw,size=2M"), None);
        assert_eq!(parse_mount("nonsense"), None);
    }

    #[test]
    fn fails_where_access_would_kill() {
        let page = page_size();
        let pages = Pages::anonymous(3 * page).unwrap();
        let at = |number: usize| pages.at(number * page, page);
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mprotect(at(1).cast(), page, MprotectFlags::empty()) }.unwrap();
        // SAFETY: the page is inside `pages`, and nothing uses it.
        unsafe { mprotect(at(2).cast(), page, MprotectFlags::READ) }.unwrap();
        // The kernel maps nothing there, not even for other threads.
        let hole = std::ptr::without_provenance_mut(page);
        let mut bytes = [7; 16];
        let buffer = bytes.as_mut_ptr();
        let to = |place| {
            // SAFETY: the array has 16 bytes, and the pages belong to the test.
            unsafe { copy_on_demand(buffer, place, 16) }
        };
        let from = |place| {
            // SAFETY: the array has 16 bytes, and the pages belong to the test.
            unsafe { copy_on_demand(place, buffer, 16) }
        };
        assert!(can_copy_on_demand());
        assert!(to(at(0)) && from(at(0)) && fault_in(at(0), 16));
        assert!(!to(hole) && !from(hole) && !fault_in(hole, 16));
        assert!(!to(at(1)) && !from(at(1)) && !fault_in(at(1), 16));
        assert!(!to(at(2)) && from(at(2)) && !fault_in(at(2), 16));
        let end = at(1).wrapping_sub(8);
        assert!(!to(end) && !from(end) && !fault_in(end, 16));
    }
}
