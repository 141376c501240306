//! The values of items. Each function returns `None` for a text that is no such value.

use std::time::Duration;

use topology::grammar::{self, number, number_in, whole, whole_in};

use crate::engine::{ReturnCode, return_codes};
use crate::fabric::health::{
    BRIDGE_SPEEDS, LONGEST_FILE, MOST_PCIE_LINKS, MOST_PER_SECOND, PCIE_MAX, PCIE_WIDTHS,
    PcieLanes, PcieLink,
};
use crate::fabric::link_settings::{FailingOperations, InjectedError};
use crate::fabric::slowness::CLASSES;

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

/// Returns a value if it is one of these.
pub fn one_of<T: PartialEq>(values: &[T], value: Option<T>) -> Option<T> {
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

pub fn number_of_nic(text: &str) -> Option<u32> {
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
