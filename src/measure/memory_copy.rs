//! How fast the memory of a node is copied (diagnosis.md 1, test M).

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use cxi::placement::Confined;

use crate::CpuShare;

/// Memory of each thread, in bytes: more than caches hold. One half is copied to the other.
const MEMORY: usize = 64 << 20;

/// Bytes that a thread copies before it looks at the clock.
const PIECE: usize = 1 << 20;

/// A thread that waited longer for its CPU, in percent, says nothing about memory.
const MOST_WAITED: f64 = 5.0;

/// Copies memory with a thread on each of these CPUs for `time`, and returns the bytes per second
/// that all of them have copied. `None` if a thread waited for its CPU, or may not run on it.
pub fn memory_copy_rate(cpus: &[u32], time: Duration) -> Option<f64> {
    // Writing the pages takes them from the NUMA node of the CPU. All threads begin to copy when
    // all have their memory.
    let memories = on_each(cpus.iter().map(|cpu| (*cpu, ())), |()| Some(vec![1_u8; MEMORY]))?;
    let places = cpus.iter().copied().zip(memories);
    let rates = on_each(places, |memory| copy_rate(memory, time))?;
    Some(rates.iter().sum())
}

/// Calls `work` on each CPU at once, with its value. `None` if a thread cannot run on its CPU, or
/// `work` returns `None`.
fn on_each<T: Send, R: Send>(
    values: impl Iterator<Item = (u32, T)>,
    work: impl Fn(T) -> Option<R> + Sync,
) -> Option<Vec<R>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |(cpu, value)| {
            thread::Builder::new().spawn_scoped(scope, move || {
                let _confined = Confined::to(&[cpu]).ok()?;
                work(value)
            })
        };
        let threads: Vec<_> = values.map(start).collect();
        let results = threads.into_iter().map(|thread| thread.ok()?.join().ok()?);
        results.collect()
    })
}

/// The bytes per second that the calling thread copies.
fn copy_rate(mut memory: Vec<u8>, time: Duration) -> Option<f64> {
    let (from, to) = memory.split_at_mut(MEMORY / 2);
    let (before, began) = (CpuShare::from_this_thread(), Instant::now());
    let mut copied = 0;
    while began.elapsed() < time {
        let place = copied % from.len();
        to[place..place + PIECE].copy_from_slice(&from[place..place + PIECE]);
        black_box(&mut *to);
        copied += PIECE;
    }
    let elapsed = began.elapsed();
    let shares = before.zip(CpuShare::from_this_thread());
    let waited = shares.and_then(|(before, after)| after.waited_percent_since(before));
    let had_its_cpu = waited.is_none_or(|waited| waited <= MOST_WAITED);
    had_its_cpu.then(|| copied as f64 / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_all_threads_copy() {
        let allowed = cxi::placement::cpus().unwrap();
        // A busy machine may let a thread wait each time.
        let tries = 0..20;
        let rate = |cpus: &[u32]| {
            let mut rates = tries.clone().map(|_| memory_copy_rate(cpus, Duration::from_millis(2)));
            rates.find_map(|rate| rate)
        };
        if let Some(rate) = rate(&allowed[..1]) {
            // At least one piece was copied, and no memory copies a terabyte per second.
            assert!(rate > 0.0 && rate < 1e12, "{rate}");
        }
        assert_eq!(rate(&[]), Some(0.0));
    }

    #[test]
    fn threads_without_their_cpu_say_nothing() {
        let allowed = cxi::placement::cpus().unwrap();
        let missing = (0..8192).rev().find(|cpu| !allowed.contains(cpu)).unwrap();
        let time = Duration::from_millis(1);
        assert_eq!(memory_copy_rate(&[missing], time), None);
        assert_eq!(memory_copy_rate(&[allowed[0], missing], time), None);
    }
}
