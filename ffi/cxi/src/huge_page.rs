//! Buffers of huge pages.

use std::fmt;

use crate::error::Error;
use crate::memory::Pages;

/// Size of a huge page. The kernel keeps a pool of each size (`/sys/kernel/mm/hugepages`), which its
/// administrator fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl HugePage {
    /// Bytes of such a page.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Mib2 => 2 << 20,
            Self::Gib1 => 1 << 30,
        }
    }

    const fn flags(self) -> i32 {
        libc::MAP_HUGETLB
            | match self {
                Self::Mib2 => libc::MAP_HUGE_2MB,
                Self::Gib1 => libc::MAP_HUGE_1GB,
            }
    }
}

/// As users name the sizes.
impl fmt::Display for HugePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mib2 => "2M",
            Self::Gib1 => "1G",
        })
    }
}

impl Pages {
    /// `len` bytes, rounded up to whole huge pages, which are reserved for this process at once. Errors
    /// of `mmap`: ENOMEM where the pool has too few, EINVAL for no bytes at all or a size that
    /// the machine does not have.
    ///
    /// A page may still be missing when it is used for the first time: a control group or the memory
    /// policy may forbid what was reserved. Whoever pins the pages first
    /// ([`MemoryRegion::map`](crate::MemoryRegion::map)) gets EFAULT or ENOMEM; whoever writes them
    /// first gets SIGBUS.
    pub fn huge(len: usize, page: HugePage) -> Result<Self, Error> {
        Self::of_size(len, page.bytes() as usize, page.flags())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pool_does_not_have_is_an_error() {
        // No machine has so many.
        let error = Pages::huge(1 << 52, HugePage::Mib2).err();
        assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        for page in [HugePage::Mib2, HugePage::Gib1] {
            let error = Pages::huge(usize::MAX, page).err();
            assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        }
    }

    #[test]
    fn sizes_are_what_they_are_called() {
        assert_eq!(HugePage::Mib2.bytes(), 2 * 1024 * 1024);
        assert_eq!(HugePage::Gib1.bytes(), 1024 * 1024 * 1024);
        assert_eq!(
            [HugePage::Mib2, HugePage::Gib1].map(|page| page.to_string()),
            ["2M", "1G"]
        );
    }
}
