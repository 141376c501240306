//! The link of a NIC, as the environment describes it.

use std::time::Duration;

use super::health::Health;
use super::slowness::Slowness;
use crate::engine::ReturnCode;

/// The link, as described by the environment.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// From one NIC to another.
    pub latency: Duration,
    /// The most by which the latency of a packet exceeds `latency`, evenly distributed.
    pub jitter: Duration,
    /// Bytes per second on the link of each NIC; `None` for unlimited.
    pub bandwidth: Option<f64>,
    /// What the NIC takes for each list entry that it compares with an operation in vain.
    pub match_time: Duration,
    pub faults: Faults,
    pub slowness: Slowness,
    pub health: Health,
}

/// Injected faults.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Probability that a packet is lost each time it is sent.
    pub loss: f64,
    /// Time after which a lost packet is sent again.
    pub retry: Duration,
    /// Probability that a packet is late, and its delay.
    pub delay: Option<(f64, Duration)>,
    /// Probability that one byte of the data of a packet changes.
    pub corrupt: f64,
    pub errors: Vec<InjectedError>,
    /// The code with which the NIC refuses a command of a transmit queue, and the number of the
    /// command, counted from 1 at the opening of the device.
    pub refusal: Option<(ReturnCode, u64)>,
    /// When the link goes down after the device was opened, and for how long; `None` for ever.
    pub down: Option<(Duration, Option<Duration>)>,
}

/// A return code with which operations fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InjectedError {
    pub code: ReturnCode,
    pub selection: FailingOperations,
}

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailingOperations {
    /// The operation with this number, counted from 1 at the opening of the device.
    Number(u64),
    /// Each operation with this probability.
    Probability(f64),
}

impl Faults {
    /// Whether the link is up at this time after the opening.
    pub fn is_up(&self, age: Duration) -> bool {
        match self.down {
            None => true,
            Some((from, None)) => age < from,
            Some((from, Some(length))) => age < from || age >= from.saturating_add(length),
        }
    }

    /// Returns when the link comes up again after the opening.
    pub fn restart(&self) -> Option<Duration> {
        let (from, length) = self.down?;
        Some(from.saturating_add(length?))
    }

    /// Returns how much of this time after the opening the link was up.
    pub fn time_up(&self, age: Duration) -> Duration {
        let down = match self.down {
            None => Duration::ZERO,
            Some((from, length)) => {
                let down = age.saturating_sub(from);
                length.map_or(down, |length| down.min(length))
            }
        };
        age.saturating_sub(down)
    }
}

impl Default for LinkSettings {
    fn default() -> Self {
        Self {
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            bandwidth: None,
            match_time: Duration::ZERO,
            faults: Faults {
                seed: 1,
                loss: 0.0,
                retry: Duration::from_millis(1),
                delay: None,
                corrupt: 0.0,
                errors: Vec::new(),
                refusal: None,
                down: None,
            },
            slowness: Slowness::default(),
            health: Health::default(),
        }
    }
}
