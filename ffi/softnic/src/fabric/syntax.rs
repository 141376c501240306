//! The syntax of `CXIDIAG_LINK` and `CXIDIAG_FAULTS`: items separated by commas. Only `error` may
//! occur more than once, and for different files, classes or NICs `set`, `class-ceiling`,
//! `class-delay` and `between`. Semicolons separate lists of items for different NICs.
//!
//! | item | meaning |
//! |---|---|
//! | `nic=3` | the list is about this NIC only |
//! | `latency=2000ns` | from one NIC to another |
//! | `jitter=500ns` | the most by which a packet takes longer than `latency`, evenly distributed |
//! | `bandwidth=25000MB/s` | of the link of each NIC; MB are 10^6 bytes |
//! | `seed=7` | of the random numbers of the other items |
//! | `loss=0.01` | probability that a packet is lost |
//! | `retry=1ms` | time after which a lost packet is sent again |
//! | `delay=0.01:50us` | probability that a packet is late, and its delay |
//! | `corrupt=0.01` | probability that one byte of the data of a packet changes |
//! | `error=PT_DISABLED@100` | the 100th operation fails with this return code, a name or a number |
//! | `error=NO_SPACE:0.001` | each operation fails with this probability |
//! | `refuse=PERM_VIOLATION@100` | the NIC refuses the 100th command of its transmit queues |
//! | `down=1.5s`, `down=1.5s:0.2s` | the link goes down 1.5 s after the device was opened, for ever or for 0.2 s |
//! | the others | see `Slowness` and [`Health`](super::health::Health) |

mod values;

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use super::health::{ESM_SPEEDS, MOST_FLAPS, PCIE_SPEEDS, PCIE_WIDTHS};
use super::link_settings::Settings;
use values::*;

/// The items of a variable, by name, with their forms.
type Items = &'static [(&'static str, &'static str)];

/// The item that both variables have.
const NIC: (&str, &str) = ("nic", "nic=NUMBER, that of a NIC, from 0 to 99");

const LINK: Items = &[
    NIC,
    ("latency", "latency=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("jitter", "jitter=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("bandwidth", "bandwidth=NUMBER followed by MB/s or GB/s, at least 1MB/s"),
];

const FAULTS: Items = &[
    NIC,
    ("seed", "seed=NUMBER"),
    ("loss", "loss=PROBABILITY, a number from 0 to 1"),
    ("retry", "retry=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("delay", "delay=PROBABILITY:TIME, a number from 0 to 1 and one followed by ns, us, ms or s"),
    ("corrupt", "corrupt=PROBABILITY, a number from 0 to 1"),
    (
        "error",
        "error=CODE@NUMBER or error=CODE:PROBABILITY, CODE a return code like NO_SPACE or its number from 2 to 63",
    ),
    (
        "refuse",
        "refuse=CODE@NUMBER, CODE a return code like PERM_VIOLATION or its number from 2 to 63",
    ),
    ("down", "down=TIME or down=TIME:TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("rx-bandwidth", "rx-bandwidth=NUMBER followed by MB/s or GB/s, at least 1MB/s"),
    ("host-read", "host-read=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("host-write", "host-write=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("page-cost", "page-cost=TIME, a number followed by ns, us, ms or s, at most an hour"),
    ("wake", "wake=TIME:GAP, two numbers followed by ns, us, ms or s, at most an hour"),
    (
        "class-ceiling",
        "class-ceiling=CLASS:PERCENT, CLASS one of BEST_EFFORT, BULK_DATA, LOW_LATENCY and \
         DEDICATED_ACCESS, PERCENT a number from 1 to 100",
    ),
    (
        "class-delay",
        "class-delay=CLASS:TIME, CLASS one of BEST_EFFORT, BULK_DATA, LOW_LATENCY and \
         DEDICATED_ACCESS, TIME a number followed by ns, us, ms or s, at most an hour",
    ),
    ("fgfc", "fgfc=SHARE, a number from 0 to 0.99"),
    (
        "between",
        "between=A-B:TIME or between=A-B:BANDWIDTH, A and B numbers of NICs from 0 to 99, TIME a \
         number followed by ns, us, ms or s, at most an hour, BANDWIDTH one followed by MB/s or \
         GB/s, at least 1MB/s",
    ),
    ("corrected", "corrected=RATE, a number from 0 to 1000000000 per second"),
    ("uncorrected", "uncorrected=RATE, a number from 0 to 1000000000 per second"),
    ("tx-paused", "tx-paused=SHARE, a number from 0 to 1"),
    ("rx-paused", "rx-paused=SHARE, a number from 0 to 1"),
    ("congestion", "congestion=SHARE, a number from 0 to 1"),
    ("full", "full=SHARE, a number from 0 to 1"),
    ("slow-host", "slow-host=CYCLES, a number from 0 to 1000000"),
    ("lost-events", "lost-events=SHARE, a number from 0 to 1"),
    ("pcie-errors", "pcie-errors=RATE, a number from 0 to 1000000000 per second"),
    ("pcie-width", "pcie-width=LANES: 1, 2, 4, 8 or 16"),
    ("pcie-speed", "pcie-speed=SPEED: 2.5, 5, 8 or 16 GT/s"),
    (
        "pcie-path",
        "pcie-path=LINK/LINK..., from the root port to the NIC, at most 4, each WIDTH@SPEED or \
         WIDTH@SPEED:WIDTH@SPEED, what it does and the most that its bridges can do: 1, 2, 4, 8 or \
         16 lanes at 2.5, 5, 8, 16 or 32 GT/s; the NIC does at most 16 GT/s",
    ),
    ("esm", "esm=off or esm=SPEED: 16, 20, 25 or 32 GT/s"),
    ("up-fail", "up-fail=CAUSE, a word of letters, digits and '-', such as unsupported-cable"),
    ("flaps", "flaps=NUMBER, from 0 to 10"),
    ("retry-handler", "retry-handler=off"),
    ("ama", "ama=off or ama=06"),
    ("atomic-completer", "atomic-completer=off"),
    ("peer-memory", "peer-memory=off"),
    ("dma-buf", "dma-buf=off"),
    ("memory", "memory=SHARE, a number above 0, at most 1"),
    (
        "set",
        "set=FILE:VALUE, FILE a path of at most 255 bytes without '.' and '..', below the device \
         directory of the NIC but not below telemetry, or of the host below /proc or /sys, or \
         /run/cxi/DEVICE/FILE",
    ),
];

/// Largest share of the time for which the flow control of the fabric stops packets: with more,
/// operations would take for ever.
const MOST_FGFC: f64 = 0.99;

/// Reads the settings of the NIC with this number from the environment.
///
/// # Errors
/// One line that names the variable.
pub fn from_environment(nic: u32) -> Result<Settings, String> {
    read(nic, std::env::var_os("CXIDIAG_LINK"), std::env::var_os("CXIDIAG_FAULTS"))
}

fn read(nic: u32, link: Option<OsString>, faults: Option<OsString>) -> Result<Settings, String> {
    let mut settings = Settings::default();
    for (variable, value, items, apply) in [
        ("CXIDIAG_LINK", link, LINK, link_item as fn(&mut Settings, &str, &str) -> Option<()>),
        ("CXIDIAG_FAULTS", faults, FAULTS, fault_item),
    ] {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        for list in value.to_string_lossy().split(';') {
            let mut names = HashSet::new();
            let mut changed = settings.clone();
            let mut is_about_this = true;
            for item in list.split(',') {
                let (name, value) = item.split_once('=').unwrap_or((item, ""));
                let applied = if name == NIC.0 {
                    number_of_nic(value).map(|number| is_about_this = number == nic)
                } else {
                    apply(&mut changed, name, value)
                };
                applied.ok_or_else(|| {
                    format!("{variable}: '{item}': expected {}", allowed(items, name))
                })?;
                // A delay and a bandwidth between two NICs are two items.
                let is_bandwidth = name == "between" && value.ends_with("B/s");
                let unique = match name {
                    "set" | "class-ceiling" | "class-delay" | "between" => {
                        item.split_once(':').map_or(item, |(about, _)| about)
                    }
                    name => name,
                };
                if !names.insert((unique, is_bandwidth)) && name != "error" {
                    return Err(format!("{variable}: '{item}': {unique} is given twice"));
                }
            }
            if is_about_this {
                settings = changed;
            }
        }
    }
    let between = &mut settings.slowness.between;
    between.retain(|(one, other), _| [*one, *other].contains(&nic));
    Ok(settings)
}

/// Returns the forms of the item with this name; the names of all items if there is none.
fn allowed(items: Items, name: &str) -> String {
    let forms = items.iter().find(|(of, _)| *of == name);
    forms.map_or_else(
        || {
            let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
            format!("an item NAME=VALUE with one of the names {}", names.join(", "))
        },
        |(_, forms)| (*forms).to_owned(),
    )
}

fn link_item(settings: &mut Settings, name: &str, value: &str) -> Option<()> {
    match name {
        "latency" => settings.latency = time(value)?,
        "jitter" => settings.jitter = time(value)?,
        "bandwidth" => settings.bandwidth = Some(bandwidth(value)?),
        _ => return None,
    }
    Some(())
}

fn fault_item(settings: &mut Settings, name: &str, value: &str) -> Option<()> {
    let faults = &mut settings.faults;
    let slowness = &mut settings.slowness;
    let health = &mut settings.health;
    match name {
        "rx-bandwidth" => slowness.rx_bandwidth = Some(bandwidth(value)?),
        "host-read" => slowness.host_read = time(value)?,
        "host-write" => slowness.host_write = time(value)?,
        "page-cost" => slowness.page_cost = time(value)?,
        "wake" => {
            let (takes, gap) = value.split_once(':')?;
            slowness.wake = Some((time(takes)?, time(gap)?));
        }
        "class-ceiling" => {
            let (name, percent) = value.split_once(':')?;
            let percent = whole(percent).filter(|percent| (1..=100).contains(percent))?;
            slowness.ceilings[class(name)?] = Some(percent);
        }
        "class-delay" => {
            let (name, late) = value.split_once(':')?;
            slowness.class_delays[class(name)?] = time(late)?;
        }
        "fgfc" => {
            slowness.fgfc = Some(probability(value).filter(|share| *share <= MOST_FGFC)?);
        }
        "between" => {
            let (nics, change) = value.split_once(':')?;
            let between = slowness.between.entry(pair(nics)?).or_default();
            match bandwidth(change) {
                Some(rate) => between.bandwidth = Some(rate),
                None => between.delay = time(change)?,
            }
        }
        "corrected" => health.corrected = rate(value)?,
        "uncorrected" => health.uncorrected = rate(value)?,
        "tx-paused" => health.tx_paused = probability(value)?,
        "rx-paused" => health.rx_paused = probability(value)?,
        "congestion" => health.congestion = probability(value)?,
        "full" => health.full = probability(value)?,
        "slow-host" => health.slow_host = whole(value).filter(|&cycles| cycles <= 1_000_000)?,
        "lost-events" => health.lost_events = probability(value)?,
        "pcie-errors" => health.pcie_errors = rate(value)?,
        "pcie-width" => {
            health.pcie.width = whole(value).filter(|width| PCIE_WIDTHS.contains(width))?;
        }
        "pcie-speed" => {
            health.pcie.speed = number(value).filter(|speed| PCIE_SPEEDS.contains(speed))?;
        }
        "pcie-path" => {
            health.pcie_path = pcie_path(value)?;
            health.pcie = health.pcie_path.last()?.current;
        }
        "esm" => {
            let speed = || number(value).filter(|speed| ESM_SPEEDS.contains(speed));
            health.esm = match value {
                "off" => None,
                _ => Some(speed()?),
            };
        }
        "up-fail" => {
            let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let is_word = !value.is_empty() && value.bytes().all(is_of_word);
            health.up_fail = Some(is_word.then(|| value.to_owned())?);
            faults.down = Some((Duration::ZERO, None));
        }
        "flaps" => health.flaps = whole(value).filter(|&flaps| flaps <= MOST_FLAPS)?,
        "retry-handler" => health.has_retry_handler = off(value)?,
        "ama" => {
            health.ama = match value {
                "off" => None,
                "06" => Some(0x06),
                _ => return None,
            };
        }
        "peer-memory" => health.has_peer_memory = off(value)?,
        "dma-buf" => health.has_dma_bufs = off(value)?,
        "atomic-completer" => health.has_atomic_completer = off(value)?,
        "memory" => health.memory = probability(value).filter(|share| *share > 0.0)?,
        "set" => {
            let (file, content) = value.split_once(':')?;
            health.files.insert(path(file)?, content.to_owned());
        }
        "seed" => faults.seed = whole(value)?,
        "loss" => faults.loss = probability(value)?,
        "retry" => faults.retry = time(value)?,
        "delay" => {
            let (chance, late) = value.split_once(':')?;
            faults.delay = Some((probability(chance)?, time(late)?));
        }
        "corrupt" => faults.corrupt = probability(value)?,
        "error" => faults.errors.push(error(value)?),
        "refuse" => {
            let (code, number) = value.split_once('@')?;
            let number = whole(number).filter(|&number| number > 0)?;
            faults.refusal = Some((failure(code)?, number));
        }
        "down" => {
            faults.down = Some(match value.split_once(':') {
                Some((from, length)) => (time(from)?, Some(time(length)?)),
                None => (time(value)?, None),
            });
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests;
