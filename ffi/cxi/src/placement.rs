//! The CPUs of a thread and the NUMA node of its memory.

use std::marker::PhantomData;
use std::ptr;

use crate::error::Error;

/// Number of CPUs in a mask, more than any kernel supports.
const MAX_CPUS: usize = 8192;

type Mask = [u64; MAX_CPUS / 64];

/// Number of nodes in a mask.
const MAX_NODES: usize = 1024;

/// The CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
///
/// The errors of `sched_getaffinity`.
pub fn cpus() -> Result<Vec<u32>, Error> {
    let mask = affinity()?;
    let is_set = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..MAX_CPUS as u32).filter(is_set).collect())
}

/// The CPU that the calling thread runs on at this moment.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok()
}

/// Confines a thread to some CPUs. Dropping it restores the previous CPUs.
#[derive(Debug)]
pub struct Confined {
    before: Mask,
    /// Not `Send`: the drop must happen in the confined thread.
    _thread: PhantomData<*const ()>,
}

impl Confined {
    /// Confines the calling thread, and the threads that it starts, to `cpus`, without the CPUs
    /// that the thread may not run on.
    ///
    /// # Errors
    ///
    /// EINVAL if the thread may run on none of `cpus`: they do not exist, are offline, or are
    /// excluded by its control group.
    pub fn to(cpus: &[u32]) -> Result<Self, Error> {
        let before = affinity()?;
        let mut mask: Mask = [0; MAX_CPUS / 64];
        for cpu in cpus {
            let word = mask.get_mut(*cpu as usize / 64);
            *word.ok_or(Error::new(SET, libc::EINVAL))? |= 1 << (cpu % 64);
        }
        set_affinity(&mask)?;
        Ok(Self { before, _thread: PhantomData })
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // The call fails if the previous CPUs are forbidden by then; the thread keeps its CPUs.
        let _ = set_affinity(&self.before);
    }
}

/// Makes the kernel take new pages of the calling thread, and its own allocations for the thread,
/// from one NUMA node while the node has free memory. Dropping it sets the default policy, not the
/// previous one.
#[derive(Debug)]
pub struct Preferred {
    _thread: PhantomData<*const ()>,
}

impl Preferred {
    /// Prefers the memory of `node`.
    ///
    /// # Errors
    ///
    /// The errors of `set_mempolicy`: EINVAL if the node does not exist or the control group
    /// excludes it, EPERM if a container forbids the call, ENOSYS in a kernel without NUMA.
    pub fn node(node: u32) -> Result<Self, Error> {
        let mut mask = [0_u64; MAX_NODES / 64];
        let word = mask.get_mut(node as usize / 64);
        *word.ok_or(Error::new(POLICY, libc::EINVAL))? |= 1 << (node % 64);
        // The kernel reads one bit less than the size that it is given.
        set_policy(libc::MPOL_PREFERRED, mask.as_ptr(), MAX_NODES + 1)?;
        Ok(Self { _thread: PhantomData })
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        // The call cannot fail: the default policy names no nodes.
        let _ = set_policy(libc::MPOL_DEFAULT, ptr::null(), 0);
    }
}

const GET: &str = "sched_getaffinity";
const SET: &str = "sched_setaffinity";
const POLICY: &str = "set_mempolicy";

const THIS_THREAD: libc::pid_t = 0;

fn affinity() -> Result<Mask, Error> {
    let mut mask: Mask = [0; MAX_CPUS / 64];
    let place = mask.as_mut_ptr().cast();
    // SAFETY: `place` points to a mask of the given size, which the kernel does not exceed.
    let result = unsafe { libc::sched_getaffinity(THIS_THREAD, size_of::<Mask>(), place) };
    match result {
        0 => Ok(mask),
        _ => Err(Error::last(GET, libc::EINVAL)),
    }
}

fn set_affinity(mask: &Mask) -> Result<(), Error> {
    let place = mask.as_ptr().cast();
    // SAFETY: `place` points to a mask of the given size, which the kernel does not exceed.
    let result = unsafe { libc::sched_setaffinity(THIS_THREAD, size_of::<Mask>(), place) };
    match result {
        0 => Ok(()),
        _ => Err(Error::last(SET, libc::EINVAL)),
    }
}

/// Sets the memory policy of the calling thread. `mask` has `bits` - 1 bits, or is null.
fn set_policy(policy: i32, mask: *const u64, bits: usize) -> Result<(), Error> {
    // SAFETY: the callers pass null, or a mask of `bits` - 1 bits, which is what the kernel reads.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, mask, bits) };
    match result {
        0 => Ok(()),
        _ => Err(Error::last(POLICY, libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Runs a test in a new thread, so that other tests keep their CPUs.
    fn in_new_thread(test: impl FnOnce() + Send + 'static) {
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn confines_thread_and_restores_its_cpus() {
        in_new_thread(|| {
            let all = cpus().unwrap();
            for cpu in &all {
                let confined = Confined::to(&[*cpu]).unwrap();
                assert_eq!(cpus().unwrap(), [*cpu]);
                assert_eq!(current_cpu(), Some(*cpu));
                drop(confined);
                assert_eq!(cpus().unwrap(), all);
            }
        });
    }

    #[test]
    fn rejects_missing_cpu() {
        in_new_thread(|| {
            let all = cpus().unwrap();
            for cpu in [8191, 8192, u32::MAX] {
                let error = Confined::to(&[cpu]).err();
                assert_eq!(error, Some(Error::new(SET, libc::EINVAL)), "{cpu}");
            }
            assert_eq!(cpus().unwrap(), all);
        });
    }

    #[test]
    fn takes_pages_from_preferred_node() {
        in_new_thread(|| {
            let preferred = match Preferred::node(0) {
                Ok(preferred) => preferred,
                Err(error) => {
                    // A container forbids the call, or the kernel has no NUMA support.
                    println!("skipped: {error}");
                    return;
                }
            };
            let policy = || {
                let pages = crate::pages::Pages::anonymous(1).unwrap();
                let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
                // The kernel merges adjacent mappings of one policy into one line.
                let start = |line: &str| usize::from_str_radix(line, 16).ok();
                let mappings = maps.lines().filter_map(|line| line.split_once(' '));
                let below = |(at, _): &(&str, &str)| start(at) <= Some(pages.as_ptr().addr());
                let (_, mapping) = mappings.take_while(below).last().unwrap();
                mapping.split(' ').next().unwrap().to_owned()
            };
            assert!(policy().starts_with("prefer"), "{}", policy());
            drop(preferred);
            assert_eq!(policy(), "default");
        });
    }

    #[test]
    fn rejects_missing_node() {
        in_new_thread(|| {
            for node in [1023, 1024, u32::MAX] {
                let error = Preferred::node(node).err().map(|error| error.call());
                assert_eq!(error, Some(POLICY), "{node}");
            }
        });
    }
}
