//! Allocation of huge pages.

use std::fmt;

use crate::error::Error;
use crate::pages::Pages;

/// Size of a huge page. The kernel has one pool for each size, which the administrator fills
/// (`/sys/kernel/mm/hugepages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl HugePage {
    /// Returns the size in bytes.
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

impl fmt::Display for HugePage {
    /// The name that users type: `2M` or `1G`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mib2 => "2M",
            Self::Gib1 => "1G",
        })
    }
}

impl Pages {
    /// Allocates `len` bytes, rounded up to whole huge pages. The call reserves the pages in the
    /// pool.
    ///
    /// A control group or the memory policy may still refuse a reserved page at its first use. Then
    /// pinning the pages ([`MemoryRegion::map`](crate::MemoryRegion::map)) fails with EFAULT or
    /// ENOMEM, and writing to them raises SIGBUS.
    ///
    /// # Errors
    ///
    /// The errors of `mmap`: ENOMEM if the pool has too few pages, EINVAL if `len` is 0 or the
    /// machine has no huge pages of this size.
    pub fn huge(len: usize, page: HugePage) -> Result<Self, Error> {
        Self::from_size(len, page.bytes() as usize, page.flags())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_more_pages_than_the_pool_has() {
        // More memory than any machine has.
        let error = Pages::huge(1 << 52, HugePage::Mib2).err();
        assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        for page in [HugePage::Mib2, HugePage::Gib1] {
            let error = Pages::huge(usize::MAX, page).err();
            assert_eq!(error, Some(Error::new("mmap", libc::ENOMEM)));
        }
    }

    #[test]
    fn names_sizes_as_users_type_them() {
        assert_eq!(HugePage::Mib2.bytes(), 2 * 1024 * 1024);
        assert_eq!(HugePage::Gib1.bytes(), 1024 * 1024 * 1024);
        assert_eq!([HugePage::Mib2, HugePage::Gib1].map(|page| page.to_string()), ["2M", "1G"]);
    }
}
