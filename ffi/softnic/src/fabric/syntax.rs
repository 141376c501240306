//! The items of `CXIDIAG_LINK` and `CXIDIAG_FAULTS` (docs/software-nic-reference.md).
//!
//! Commas separate items, and semicolons separate lists of items for different NICs. Only `error`
//! may occur more than once in a list, and for different files, classes or NICs `set`,
//! `class-ceiling`, `class-delay` and `between`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::Duration;

use topology::grammar::{
    self, TIME, Value, Word, number, number_in, outage, put, whole, whole_in, word,
};

use super::link_settings::{
    BRIDGE_SPEEDS, CLASSES, ESM_SPEEDS, FailingOperations, InjectedError, LONGEST_FILE,
    LinkSettings, MOST_FLAPS, MOST_PCIE_LINKS, MOST_PER_SECOND, PCIE_MAX, PCIE_SPEEDS, PCIE_WIDTHS,
    PcieLanes, PcieLink,
};
use crate::engine::{ReturnCode, return_codes};

type Item = Word<LinkSettings>;

// The values in the forms of several items.
const NUMBER: Value = Value("NUMBER", "a whole number from 1 on");
const BANDWIDTH: Value = Value("NUMBER", "a number followed by MB/s or GB/s, at least 1MB/s");
const PROBABILITY: Value = Value("PROBABILITY", "a number from 0 to 1");
const SHARE: Value = Value("SHARE", "a number from 0 to 1");
const RATE: Value = Value("RATE", "a number from 0 to 1000000000 per second");
const CLASS: Value =
    Value("CLASS", "one of BEST_EFFORT, BULK_DATA, LOW_LATENCY and DEDICATED_ACCESS");
const CODE: Value = Value("CODE", "a return code like NO_SPACE or its number from 2 to 63");

/// The item that both variables have. [`read`] decides whether a list is about its NIC.
const NIC: Item =
    word("nic=NUMBER", &[Value("NUMBER", "that of a NIC, from 0 to 99")], |_, text| {
        number_of_nic(text).map(drop)
    });

const LINK: &[Item] = &[
    NIC,
    word("latency=TIME", &[TIME], |to, text| put(&mut to.latency, time(text))),
    word("jitter=TIME", &[TIME], |to, text| put(&mut to.jitter, time(text))),
    word("bandwidth=NUMBER", &[BANDWIDTH], |to, text| {
        put(&mut to.bandwidth, bandwidth(text).map(Some))
    }),
    word("match=TIME", &[TIME], |to, text| put(&mut to.match_time, time(text))),
];

/// The items of [`Faults`](super::link_settings::Faults), of
/// [`Slowness`](super::link_settings::Slowness), and of [`Health`](super::link_settings::Health).
const FAULTS: &[Item] = &[
    NIC,
    word("seed=NUMBER", &[Value("NUMBER", "a whole number")], |to, text| {
        put(&mut to.faults.seed, whole(text))
    }),
    word("loss=PROBABILITY", &[PROBABILITY], |to, text| {
        put(&mut to.faults.loss, probability(text))
    }),
    word("retry=TIME", &[TIME], |to, text| put(&mut to.faults.retry, time(text))),
    word("delay=PROBABILITY:TIME", &[PROBABILITY, TIME], |to, text| {
        let (chance, late) = text.split_once(':')?;
        to.faults.delay = Some((probability(chance)?, time(late)?));
        Some(())
    }),
    word("corrupt=PROBABILITY", &[PROBABILITY], |to, text| {
        put(&mut to.faults.corrupt, probability(text))
    }),
    word(
        "error=CODE@NUMBER or error=CODE:PROBABILITY",
        &[CODE, NUMBER, PROBABILITY],
        |to, text| error(text).map(|error| to.faults.errors.push(error)),
    ),
    word("refuse=CODE@NUMBER", &[CODE, NUMBER], |to, text| {
        put(&mut to.faults.refusal, refusal(text).map(Some))
    }),
    word("down=TIME or down=TIME:TIME", &[TIME], |to, text| {
        let (from, length) = outage(text)?;
        let length = length.map(Duration::from_nanos);
        to.faults.down = Some((Duration::from_nanos(from), length));
        Some(())
    }),
    word("rx-bandwidth=NUMBER", &[BANDWIDTH], |to, text| {
        put(&mut to.slowness.rx_bandwidth, bandwidth(text).map(Some))
    }),
    word("host-read=TIME", &[TIME], |to, text| put(&mut to.slowness.host_read, time(text))),
    word("host-write=TIME", &[TIME], |to, text| put(&mut to.slowness.host_write, time(text))),
    word("page-cost=TIME", &[TIME], |to, text| put(&mut to.slowness.page_cost, time(text))),
    word(
        "wake=TIME:GAP",
        &[Value("TIME", "numbers followed by ns, us, ms or s, at most an hour")],
        |to, text| {
            let (takes, gap) = text.split_once(':')?;
            to.slowness.wake = Some((time(takes)?, time(gap)?));
            Some(())
        },
    ),
    word(
        "class-ceiling=CLASS:PERCENT",
        &[CLASS, Value("PERCENT", "a number from 1 to 100")],
        |to, text| {
            let (name, percent) = text.split_once(':')?;
            to.slowness.ceilings[class(name)?] = Some(whole_in(1..=100, percent)?);
            Some(())
        },
    ),
    word("class-delay=CLASS:TIME", &[CLASS, TIME], |to, text| {
        let (name, late) = text.split_once(':')?;
        to.slowness.class_delays[class(name)?] = time(late)?;
        Some(())
    }),
    word("fgfc=SHARE", &[Value("SHARE", "a number from 0 to 0.99")], |to, text| {
        put(&mut to.slowness.fgfc, number_in(0.0..=MOST_FGFC, text).map(Some))
    }),
    word(
        "between=A-B:TIME or between=A-B:NUMBER",
        &[Value("A and B", "numbers of NICs from 0 to 99"), TIME, BANDWIDTH],
        |to, text| {
            let (nics, change) = text.split_once(':')?;
            let between = to.slowness.between.entry(pair(nics)?).or_default();
            match bandwidth(change) {
                Some(rate) => between.bandwidth = Some(rate),
                None => between.delay = time(change)?,
            }
            Some(())
        },
    ),
    word("corrected=RATE", &[RATE], |to, text| put(&mut to.health.corrected, rate(text))),
    word("uncorrected=RATE", &[RATE], |to, text| put(&mut to.health.uncorrected, rate(text))),
    word("tx-paused=SHARE", &[SHARE], |to, text| put(&mut to.health.tx_paused, probability(text))),
    word("rx-paused=SHARE", &[SHARE], |to, text| put(&mut to.health.rx_paused, probability(text))),
    word("congestion=SHARE", &[SHARE], |to, text| {
        put(&mut to.health.congestion, probability(text))
    }),
    word("full=SHARE", &[SHARE], |to, text| put(&mut to.health.full, probability(text))),
    word("slow-host=CYCLES", &[Value("CYCLES", "a number from 0 to 1000000")], |to, text| {
        put(&mut to.health.slow_host, whole_in(0..=1_000_000, text))
    }),
    word("lost-events=SHARE", &[SHARE], |to, text| {
        put(&mut to.health.lost_events, probability(text))
    }),
    word("pcie-errors=RATE", &[RATE], |to, text| put(&mut to.health.pcie_errors, rate(text))),
    word("pcie-width=LANES", &[Value("LANES", "one of 1, 2, 4, 8 and 16")], |to, text| {
        put(&mut to.health.pcie.width, one_of(&PCIE_WIDTHS, whole(text)))
    }),
    word("pcie-speed=SPEED", &[Value("SPEED", "one of 2.5, 5, 8 and 16 GT/s")], |to, text| {
        put(&mut to.health.pcie.speed, one_of(&PCIE_SPEEDS, number(text)))
    }),
    word(
        "pcie-path=LINK/LINK...",
        &[Value(
            "LINK",
            "from the root port to the NIC, at most 4, each WIDTH@SPEED or \
             WIDTH@SPEED:WIDTH@SPEED, what it does and the most that its bridges can do: 1, 2, 4, \
             8 or 16 lanes at 2.5, 5, 8, 16 or 32 GT/s; the NIC does at most 16 GT/s",
        )],
        |to, text| {
            let health = &mut to.health;
            health.pcie_path = pcie_path(text)?;
            health.pcie = health.pcie_path.last()?.current;
            Some(())
        },
    ),
    word("esm=off or esm=SPEED", &[Value("SPEED", "one of 16, 20, 25 and 32 GT/s")], |to, text| {
        let speed = one_of(&ESM_SPEEDS, number(text));
        to.health.esm = if text == "off" { None } else { Some(speed?) };
        Some(())
    }),
    word(
        "up-fail=CAUSE",
        &[Value("CAUSE", "a word of letters, digits and '-', such as unsupported-cable")],
        |to, text| {
            to.health.up_fail = Some(cause(text)?);
            to.faults.down = Some((Duration::ZERO, None));
            Some(())
        },
    ),
    word("flaps=NUMBER", &[Value("NUMBER", "from 0 to 10")], |to, text| {
        put(&mut to.health.flaps, whole_in(0..=MOST_FLAPS, text))
    }),
    word("retry-handler=off", &[], |to, text| put(&mut to.health.has_retry_handler, off(text))),
    word("ama=off or ama=06", &[], |to, text| {
        to.health.ama = match text {
            "off" => None,
            "06" => Some(0x06),
            _ => return None,
        };
        Some(())
    }),
    word("atomic-completer=off", &[], |to, text| {
        put(&mut to.health.has_atomic_completer, off(text))
    }),
    word("peer-memory=off", &[], |to, text| put(&mut to.health.has_peer_memory, off(text))),
    word("dma-buf=off", &[], |to, text| put(&mut to.health.has_dma_bufs, off(text))),
    word("memory=SHARE", &[Value("SHARE", "a number above 0, at most 1")], |to, text| {
        put(&mut to.health.memory, probability(text).filter(|share| *share > 0.0))
    }),
    word(
        "set=FILE:VALUE",
        &[
            Value(
                "FILE",
                "a path of at most 255 bytes without '.' and '..', below the device directory of \
                 the NIC but not below telemetry, or of the host below /proc or /sys, or \
                 /run/cxi/DEVICE/FILE",
            ),
            Value("VALUE", "a text without ',' and ';'"),
        ],
        |to, text| {
            let (file, content) = text.split_once(':')?;
            to.health.files.insert(path(file)?, content.to_owned());
            Some(())
        },
    ),
];

/// Largest share of the time for which the flow control of the fabric stops packets: with more,
/// operations would take for ever.
const MOST_FGFC: f64 = 0.99;

/// Reads the settings of the NIC with this number from the environment.
///
/// # Errors
/// One line that names the variable.
pub fn from_environment(nic: u32) -> Result<LinkSettings, String> {
    read(nic, std::env::var_os("CXIDIAG_LINK"), std::env::var_os("CXIDIAG_FAULTS"))
}

fn read(
    nic: u32,
    link: Option<OsString>,
    faults: Option<OsString>,
) -> Result<LinkSettings, String> {
    let mut settings = LinkSettings::default();
    for (variable, value, table) in
        [("CXIDIAG_LINK", link, LINK), ("CXIDIAG_FAULTS", faults, FAULTS)]
    {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        for items in value.to_string_lossy().split(';') {
            let mut changed = settings.clone();
            read_list(items, table, &mut changed)
                .map_err(|error| format!("{variable}: {error}"))?;
            let is_about_others = |item: &str| {
                item.strip_prefix("nic=").is_some_and(|text| number_of_nic(text) != Some(nic))
            };
            if !items.split(',').any(is_about_others) {
                settings = changed;
            }
        }
    }
    let between = &mut settings.slowness.between;
    between.retain(|(one, other), _| [*one, *other].contains(&nic));
    Ok(settings)
}

fn read_list(items: &str, table: &[Item], settings: &mut LinkSettings) -> Result<(), String> {
    let mut subjects = HashSet::new();
    for item in items.split(',') {
        grammar::read(item, table, settings)?;
        let name = grammar::name(item);
        // A delay and a bandwidth between two NICs are two items.
        let is_bandwidth = name == "between" && item.ends_with("B/s");
        let subject = match name {
            "set" | "class-ceiling" | "class-delay" | "between" => {
                item.split_once(':').map_or(item, |(subject, _)| subject)
            }
            name => name,
        };
        if !subjects.insert((subject, is_bandwidth)) && name != "error" {
            return Err(format!("'{item}': {subject} is given twice"));
        }
    }
    Ok(())
}

/// Parses the path of a file below a directory. Counters have items of their own.
pub fn path(text: &str) -> Option<String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    let host = text.strip_prefix('/');
    let names = host.unwrap_or(text);
    let is_below = text.len() <= LONGEST_FILE && names.split('/').all(is_name);
    let parts: Vec<&str> = names.split('/').collect();
    let is_allowed = match (host, parts.as_slice()) {
        (Some(_), ["proc" | "sys", _, ..] | ["run", "cxi", _, _, ..]) => true,
        (Some(_), _) | (None, ["telemetry", ..]) => false,
        (None, _) => true,
    };
    (is_below && is_allowed).then(|| text.to_owned())
}

/// Parses the links from the root port to the NIC.
pub fn pcie_path(text: &str) -> Option<Vec<PcieLink>> {
    let links: Option<Vec<PcieLink>> = text.split('/').map(pcie_link).collect();
    let links = links.filter(|links| links.len() <= MOST_PCIE_LINKS)?;
    let nic_lanes = links.last()?.current;
    (nic_lanes.speed <= PCIE_MAX.speed).then_some(links)
}

/// Parses a link. Unless told otherwise, its bridges can do what the NIC can, or what the link does
/// if that is more.
fn pcie_link(text: &str) -> Option<PcieLink> {
    let (current, max) = match text.split_once(':') {
        Some((current, max)) => (pcie_lanes(current)?, pcie_lanes(max)?),
        None => {
            let current = pcie_lanes(text)?;
            let max = PcieLanes { width: PCIE_MAX.width, speed: current.speed.max(PCIE_MAX.speed) };
            (current, max)
        }
    };
    let is_possible = current.width <= max.width && current.speed <= max.speed;
    is_possible.then_some(PcieLink { current, max })
}

/// Parses `16@8`: lanes, and their speed in GT/s.
fn pcie_lanes(text: &str) -> Option<PcieLanes> {
    let (width, speed) = text.split_once('@')?;
    Some(PcieLanes {
        width: one_of(&PCIE_WIDTHS, whole(width))?,
        speed: one_of(&BRIDGE_SPEEDS, number(speed))?,
    })
}

fn one_of<T: PartialEq>(values: &[T], value: Option<T>) -> Option<T> {
    value.filter(|value| values.contains(value))
}

/// Parses the word that names why a link does not come up.
pub fn cause(text: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_word = !text.is_empty() && text.bytes().all(is_part);
    is_word.then(|| text.to_owned())
}

pub fn error(text: &str) -> Option<InjectedError> {
    if let Some((code, number)) = refusal(text) {
        return Some(InjectedError { code, selection: FailingOperations::Number(number) });
    }
    let (code, chance) = text.split_once(':')?;
    let selection = FailingOperations::Probability(probability(chance)?);
    Some(InjectedError { code: failure(code)?, selection })
}

/// Parses a return code and the number of the operation or command that it is for.
pub fn refusal(text: &str) -> Option<(ReturnCode, u64)> {
    let (code, number) = text.split_once('@')?;
    Some((failure(code)?, whole_in(1..=u64::MAX, number)?))
}

/// Parses the return code of a failure, a name or a number.
///
/// Numbers from 2 to 63 may have no name. 0 and 1 are not failures.
fn failure(text: &str) -> Option<ReturnCode> {
    return_codes::failure_code(text)
        .or_else(|| whole_in(2..=63, text).map(|code| code as ReturnCode))
}

fn number_of_nic(text: &str) -> Option<u32> {
    whole_in(0..=99, text).map(|number| number as u32)
}

/// Parses `off`, the only value of items that take something away.
pub fn off(text: &str) -> Option<bool> {
    (text == "off").then_some(false)
}

/// Parses a number per second.
pub fn rate(text: &str) -> Option<f64> {
    number_in(0.0..=MOST_PER_SECOND, text)
}

pub fn probability(text: &str) -> Option<f64> {
    number_in(0.0..=1.0, text)
}

/// Parses a time of at most an hour.
pub fn time(text: &str) -> Option<Duration> {
    grammar::nanoseconds(text).map(Duration::from_nanos)
}

/// Parses a bandwidth of at least 1 MB/s, below which a run would appear to hang.
pub fn bandwidth(text: &str) -> Option<f64> {
    grammar::bandwidth(text).filter(|rate| (1e6..=1e15).contains(rate))
}

/// Parses the name of a traffic class, and returns its number in packets.
pub fn class(text: &str) -> Option<usize> {
    CLASSES.iter().position(|name| *name == text)
}

/// Parses the numbers of two NICs, and returns the lower one first.
pub fn pair(text: &str) -> Option<(u32, u32)> {
    let (one, other) = text.split_once('-')?;
    let (one, other) = (number_of_nic(one)?, number_of_nic(other)?);
    Some((one.min(other), one.max(other)))
}

#[cfg(test)]
mod tests;
