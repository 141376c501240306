//! What used the CPUs of a host while its process waited for one.

use std::time::{Duration, Instant};

use campaign::quiet::busy::HostLoad;
use node::machine::{CpuTimes, Machine};

/// Shortest time between two looks at all processes, which takes some milliseconds.
const INTERVAL: Duration = Duration::from_secs(10);

/// The CPU times of all processes at the start of the survey, and what was seen since.
#[derive(Debug)]
pub struct CpuWatch {
    begun: Instant,
    times: CpuTimes,
    seen: Option<(Instant, HostLoad)>,
}

impl CpuWatch {
    /// Looks at all processes for the first time.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), times: Machine::this().cpu_times(), seen: None }
    }

    /// Returns what used the CPUs since the start.
    pub fn now(&mut self) -> Option<HostLoad> {
        let is_recent = |(at, _): &&(Instant, HostLoad)| at.elapsed() < INTERVAL;
        if let Some((_, load)) = self.seen.as_ref().filter(is_recent) {
            return Some(load.clone());
        }
        let machine = Machine::this();
        let load = machine.load()?;
        let elapsed = self.begun.elapsed().as_secs_f64();
        let load = HostLoad {
            mean: load.mean,
            cpus: load.cpus,
            most: machine.cpu_times().most_since(&self.times, elapsed),
        };
        self.seen = Some((Instant::now(), load.clone()));
        Some(load)
    }
}
