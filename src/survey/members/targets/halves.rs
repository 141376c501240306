//! The CPUs of the two sides of a pair on one machine, if threads do the work of the NICs. The
//! kernel tends to run the thread of the target's NIC on the CPU of the initiator, which spins, and
//! leaves it there for longer than a pair is measured. So initiators keep to one half of the CPUs,
//! targets to the other.

use cxi::placement::{self, Confined};

use plan::run_options::Side;

/// Both halves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves {
    initiators: Vec<u32>,
    targets: Vec<u32>,
}

impl Halves {
    /// Returns the halves of the CPUs of this process. `None` for a single CPU, or if the
    /// kernel does not list the CPUs.
    pub fn from_this_process() -> Option<Self> {
        Self::of(placement::cpus().ok()?)
    }

    fn of(mut cpus: Vec<u32>) -> Option<Self> {
        let targets = cpus.split_off(cpus.len() / 2);
        let halves = Self { initiators: cpus, targets };
        (!halves.initiators.is_empty()).then_some(halves)
    }

    /// Confines the calling thread, and the threads that it starts, to the half of a side. The
    /// thread runs anywhere if the kernel refuses: the pair may then be untested, but its figures
    /// are right.
    pub fn confine(&self, side: Side) -> Option<Confined> {
        let cpus = match side {
            Side::Client => &self.initiators,
            Side::Server => &self.targets,
        };
        Confined::to(cpus).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divides_cpus() {
        let halves = Halves::of(vec![0, 2, 4, 6, 8]).unwrap();
        assert_eq!(halves.initiators, [0, 2]);
        assert_eq!(halves.targets, [4, 6, 8]);
        assert_eq!(Halves::of(vec![3]), None);
    }

    #[test]
    fn confines_thread_to_half_of_side() {
        let Some(halves) = Halves::from_this_process() else {
            return;
        };
        let before = placement::cpus().unwrap();
        for (side, cpus) in [(Side::Client, &halves.initiators), (Side::Server, &halves.targets)] {
            let confined = halves.confine(side);
            assert_eq!(placement::cpus().as_ref(), Ok(cpus));
            drop(confined);
        }
        assert_eq!(placement::cpus(), Ok(before));
    }
}
