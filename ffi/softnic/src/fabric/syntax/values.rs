//! The values of items. Each function returns `None` for a text that is no such value.

use std::time::Duration;

use crate::engine::{ReturnCode, return_codes};
use crate::fabric::health::{
    BRIDGE_SPEEDS, LONGEST_FILE, MOST_PCIE_LINKS, MOST_PER_SECOND, PCIE_MAX, PCIE_WIDTHS,
    PcieLanes, PcieLink,
};
use crate::fabric::link_settings::{InjectedError, Selection};
use crate::fabric::slowness::CLASSES;

/// Parses the path of a file below a directory. Counters have items of their own.
pub fn path(text: &str) -> Option<String> {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    let of_host = text.strip_prefix('/');
    let names = of_host.unwrap_or(text);
    let is_below = text.len() <= LONGEST_FILE && names.split('/').all(is_name);
    let parts: Vec<&str> = names.split('/').collect();
    let is_allowed = match (of_host, parts.as_slice()) {
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
    let of_nic = links.last()?.current;
    (of_nic.speed <= PCIE_MAX.speed).then_some(links)
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
        width: whole(width).filter(|width| PCIE_WIDTHS.contains(width))?,
        speed: number(speed).filter(|speed| BRIDGE_SPEEDS.contains(speed))?,
    })
}

pub fn error(value: &str) -> Option<InjectedError> {
    let (code, selection) = if let Some((code, number)) = value.split_once('@') {
        let number = whole(number).filter(|&number| number > 0)?;
        (code, Selection::Number(number))
    } else {
        let (code, chance) = value.split_once(':')?;
        (code, Selection::Probability(probability(chance)?))
    };
    Some(InjectedError { code: failure(code)?, selection })
}

/// Parses the return code of a failure, a name or a number.
pub fn failure(text: &str) -> Option<ReturnCode> {
    return_codes::of_failure(text).or_else(|| number_of_failure(text))
}

/// Parses the number of a return code, 2 to 63, with or without a name. 0 and 1 are not failures.
fn number_of_failure(text: &str) -> Option<ReturnCode> {
    let code = whole(text).filter(|code| (2..64).contains(code))?;
    Some(code as ReturnCode)
}

pub fn number_of_nic(text: &str) -> Option<u32> {
    whole(text).filter(|number| *number < 100).map(|number| number as u32)
}

pub fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Parses decimal digits with an optional fraction.
pub fn number(text: &str) -> Option<f64> {
    let mut parts = text.split('.');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let valid = parts.next().is_some_and(digits)
        && parts.next().is_none_or(digits)
        && parts.next().is_none();
    valid.then(|| text.parse().ok()).flatten()
}

/// Parses `off`, the only value of items that take something away.
pub fn off(text: &str) -> Option<bool> {
    (text == "off").then_some(false)
}

/// Parses a number per second.
pub fn rate(text: &str) -> Option<f64> {
    number(text).filter(|rate| *rate <= MOST_PER_SECOND)
}

pub fn probability(text: &str) -> Option<f64> {
    number(text).filter(|chance| (0.0..=1.0).contains(chance))
}

/// Parses a time of at most an hour.
pub fn time(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 4] = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let (value, unit) = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((number(text.strip_suffix(unit)?)?, seconds)))?;
    let seconds = value * unit;
    (seconds <= 3600.0).then(|| Duration::from_secs_f64(seconds))
}

/// Parses a bandwidth of at least 1 MB/s, below which a run would appear to hang.
pub fn bandwidth(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 2] = [("MB/s", 1e6), ("GB/s", 1e9)];
    let (value, unit) =
        UNITS.iter().find_map(|(unit, bytes)| Some((number(text.strip_suffix(unit)?)?, bytes)))?;
    Some(value * unit).filter(|rate| (1e6..=1e15).contains(rate))
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
