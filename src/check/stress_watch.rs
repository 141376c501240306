//! Watches NICs under load: reads their sensors and counts their bytes at each interval.

use std::time::{Duration, Instant};

use crate::stress_document::StressedNic;
use diag::run::stress::RunningLoad;
use facts::error::{Failure, Kind};
use facts::interrupt;
use health::sensors::Sensors;
use node::reading;

/// Time of load before the count begins (node-tools.md 5.5).
const WARM_UP: Duration = Duration::from_secs(1);

/// Longest time between two readings of the sensors: a critical temperature ends the load before
/// its sample is due.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which a wait looks for failures of the load.
const SLICE: Duration = Duration::from_millis(50);

/// When there are samples.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For how long the load is counted.
    pub time: Duration,
    pub interval: Duration,
}

/// Lets the load run for its time, and adds a sample to `nics` at each interval; `on_sample` gets
/// them, and the time at which the sample was due. The load ends with the first temperature that is
/// critical, which makes a sample at once, and with the first error of a NIC, which its NIC notes.
/// It is stopped afterwards.
///
/// # Errors
///
/// A failure of the load that is not the NIC's, the failure of `on_sample`, and an interruption.
pub fn watch(
    load: &RunningLoad,
    nics: &mut [StressedNic],
    sensors: &[Sensors],
    times: Times,
    mut on_sample: impl FnMut(&[StressedNic], Duration) -> Result<(), Failure>,
) -> Result<(), Failure> {
    load.begin();
    let mut has_failed = wait_until(load, nics, Instant::now() + WARM_UP)?;
    let begin = Instant::now();
    let before: Vec<u64> = (0..nics.len()).map(|place| load.bytes(place)).collect();
    let mut due = times.interval.min(times.time);
    while !has_failed {
        let next = (begin.elapsed() + LOOK).min(due);
        has_failed = wait_until(load, nics, begin + next)?;
        if has_failed {
            continue;
        }
        let is_due = next == due;
        if is_due {
            // What has not answered may answer now.
            reading::begin();
        }
        let values: Vec<_> = sensors.iter().map(Sensors::read).collect();
        // A sensor without an answer is not the reason then.
        interrupt::check()?;
        let mut read = nics.iter().zip(&values);
        let is_critical = read.any(|(nic, values)| nic.critical_of(values).is_some());
        if !is_due && !is_critical {
            nics.iter_mut().zip(&values).for_each(|(nic, values)| nic.look(values));
            continue;
        }
        for (place, (nic, values)) in nics.iter_mut().zip(values).enumerate() {
            let (elapsed, bytes) = (begin.elapsed(), load.bytes(place) - before[place]);
            nic.add(elapsed.as_secs_f64(), bytes, values);
        }
        let is_last = is_critical || due == times.time;
        if is_last {
            // The load ends before anything is printed: a reader may let that wait.
            load.stop();
        }
        on_sample(nics, next)?;
        if is_last {
            break;
        }
        due = (due + times.interval).min(times.time);
    }
    load.stop();
    Ok(())
}

/// Waits until `end`. Returns whether an error of a NIC has ended the load before.
fn wait_until(load: &RunningLoad, nics: &mut [StressedNic], end: Instant) -> Result<bool, Failure> {
    loop {
        for (place, nic) in nics.iter_mut().enumerate() {
            match load.take_failure(place) {
                Some(failure) if failure.kind == Kind::Nic => {
                    load.stop();
                    nic.fail(&failure);
                    return Ok(true);
                }
                Some(failure) => return Err(failure),
                None => {}
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        interrupt::wait_for_any(&mut Vec::new(), Some(left.min(SLICE)))?;
    }
}
