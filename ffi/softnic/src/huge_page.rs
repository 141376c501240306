//! Which memory of the process has huge pages.
//!
//! Memory with huge pages belongs to a file of a hugetlb file system: an internal one of the kernel
//! for each size, or a mounted one. So the device number in `/proc/self/maps` shows the page size.
//! The kernel also prints it in `smaps`, but there it first visits all resident pages of the
//! process.

use std::fs::{read_dir, read_to_string};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

/// A device number: major and minor.
pub type DeviceNumber = (u32, u32);

/// Returns the size of the pages of files on a device; `None` for ordinary pages.
pub fn page_size_on(device: DeviceNumber) -> Option<usize> {
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

/// Returns the file systems that hold anonymous memory with huge pages.
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

/// Returns the device of anonymous memory with huge pages of this size.
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

/// Returns device and page size from a line of `/proc/self/mountinfo` about a hugetlb file system:
/// `29 24 0:27 / /dev/hugepages rw - hugetlbfs hugetlbfs rw,pagesize=2M`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
