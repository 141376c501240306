//! The CPUs that a thread runs on, and the NUMA node that its memory comes from.

use std::marker::PhantomData;
use std::ptr;

use crate::error::Error;

/// CPUs that a mask has room for; more than any kernel is built for.
const MOST_CPUS: usize = 8192;

type Mask = [u64; MOST_CPUS / 64];

/// Nodes that a mask has room for.
const MOST_NODES: usize = 1024;

/// The CPUs that the calling thread may run on, in order. Errors: those of `sched_getaffinity`.
pub fn cpus() -> Result<Vec<u32>, Error> {
    let mask = affinity()?;
    let is_set = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..MOST_CPUS as u32).filter(is_set).collect())
}

/// The CPU that the calling thread runs on at this moment.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok()
}

/// The calling thread is confined to some CPUs. It gets its former ones back when this goes.
#[derive(Debug)]
pub struct Confined {
    before: Mask,
    /// It belongs to the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Confined {
    /// Confines the calling thread to `cpus`. Threads that it starts meanwhile are confined as well.
    /// Errors: EINVAL if it may run on none of them, because they do not exist, are not online, or its
    /// control group excludes them. Where it may run on some, these are what it gets.
    pub fn to(cpus: &[u32]) -> Result<Self, Error> {
        let before = affinity()?;
        let mut mask: Mask = [0; MOST_CPUS / 64];
        for cpu in cpus {
            let word = mask.get_mut(*cpu as usize / 64);
            *word.ok_or(Error::new(SET, libc::EINVAL))? |= 1 << (cpu % 64);
        }
        set_affinity(&mask)?;
        Ok(Self {
            before,
            _thread: PhantomData,
        })
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // What was allowed before may be forbidden meanwhile; the thread then stays where it is.
        let _ = set_affinity(&self.before);
    }
}

/// Memory that the calling thread uses for the first time comes from one NUMA node as long as that
/// has some: its own pages, and what the kernel allocates on its behalf. The former policy is not
/// restored, but given up, when this goes.
#[derive(Debug)]
pub struct Preferred {
    _thread: PhantomData<*const ()>,
}

impl Preferred {
    /// Prefers the memory of `node`. Errors of `set_mempolicy`: EINVAL if there is no such node or
    /// the control group excludes it, EPERM where a container forbids the call, ENOSYS in a kernel
    /// without NUMA.
    pub fn node(node: u32) -> Result<Self, Error> {
        let mut mask = [0_u64; MOST_NODES / 64];
        let word = mask.get_mut(node as usize / 64);
        *word.ok_or(Error::new(POLICY, libc::EINVAL))? |= 1 << (node % 64);
        // The kernel takes one bit less than it is told.
        set_policy(libc::MPOL_PREFERRED, mask.as_ptr(), MOST_NODES + 1)?;
        Ok(Self {
            _thread: PhantomData,
        })
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        // It cannot fail: this policy has no nodes that could be missing.
        let _ = set_policy(libc::MPOL_DEFAULT, ptr::null(), 0);
    }
}

const GET: &str = "sched_getaffinity";
const SET: &str = "sched_setaffinity";
const POLICY: &str = "set_mempolicy";

const THIS_THREAD: libc::pid_t = 0;

fn affinity() -> Result<Mask, Error> {
    let mut mask: Mask = [0; MOST_CPUS / 64];
    let place = mask.as_mut_ptr().cast();
    // SAFETY: the kernel writes no more bytes than it is told that there are.
    let result = unsafe { libc::sched_getaffinity(THIS_THREAD, size_of::<Mask>(), place) };
    match result {
        0 => Ok(mask),
        _ => Err(Error::last(GET, libc::EINVAL)),
    }
}

fn set_affinity(mask: &Mask) -> Result<(), Error> {
    let place = mask.as_ptr().cast();
    // SAFETY: the kernel reads as many bytes as it is told that there are.
    let result = unsafe { libc::sched_setaffinity(THIS_THREAD, size_of::<Mask>(), place) };
    match result {
        0 => Ok(()),
        _ => Err(Error::last(SET, libc::EINVAL)),
    }
}

/// `mask` has room for `bits` - 1 bits, or is null.
fn set_policy(policy: i32, mask: *const u64, bits: usize) -> Result<(), Error> {
    // SAFETY: the kernel reads as many bits as it is told that there are, less one.
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

    /// In a thread of its own: the others keep their CPUs.
    fn aside(test: impl FnOnce() + Send + 'static) {
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_is_confined_and_let_go() {
        aside(|| {
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
    fn a_cpu_that_does_not_exist_is_refused() {
        aside(|| {
            let all = cpus().unwrap();
            for cpu in [8191, 8192, u32::MAX] {
                let error = Confined::to(&[cpu]).err();
                assert_eq!(error, Some(Error::new(SET, libc::EINVAL)), "{cpu}");
            }
            assert_eq!(cpus().unwrap(), all);
        });
    }

    #[test]
    fn memory_comes_from_the_preferred_node() {
        aside(|| {
            let preferred = match Preferred::node(0) {
                Ok(preferred) => preferred,
                Err(error) => {
                    // A container without the right, or a kernel without NUMA.
                    println!("not tested here: {error}");
                    return;
                }
            };
            let policy = || {
                let pages = crate::Pages::anonymous(1).unwrap();
                let maps = std::fs::read_to_string("/proc/thread-self/numa_maps").unwrap();
                let start = format!("{:08x} ", pages.as_ptr().addr());
                let line = maps.lines().find_map(|line| line.strip_prefix(&start));
                // Neighbours of one policy are shown as one.
                let line = line.map(str::to_owned).unwrap_or(maps);
                line.split(' ').next().unwrap().to_owned()
            };
            assert!(policy().starts_with("prefer"), "{}", policy());
            drop(preferred);
            assert_eq!(policy(), "default");
        });
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        aside(|| {
            for node in [1023, 1024, u32::MAX] {
                let error = Preferred::node(node).err().map(|error| error.call());
                assert_eq!(error, Some(POLICY), "{node}");
            }
        });
    }
}
