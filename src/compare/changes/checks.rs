//! Checks compared: items whose verdict or value changed.

use std::collections::BTreeMap;

use super::change::{Change, ChangeVerdict, percent};
use check::document::Check;
use facts::host::{HostIndex, is_same_host};
use facts::severity::Severity;
use health::Finding;

/// Items that count since the machine or the driver was started: they only grow.
const COUNTERS: [&str; 5] =
    ["aer-fatal", "aer-nonfatal", "aer-correctable", "pcie-uncorrected", "memory-errors"];

/// The changes of the checks of all hosts, and remarks.
pub(super) fn changes(
    base: &[(String, Check)],
    new: &[(String, Check)],
    limit_percent: f64,
) -> (Vec<Change>, Vec<String>) {
    let (base, new) = (latest(base), latest(new));
    let mut found = Vec::new();
    // One host on each side: these are compared, whatever their names.
    if let ([(_, one)], [(_, other)]) = (base.as_slice(), new.as_slice()) {
        found = host_changes(one, other, limit_percent);
        let remarks = (!is_same_host(&one.host_name, &other.host_name))
            .then(|| format!("The hosts differ: {} and {}.", one.host_name, other.host_name));
        return (found, remarks.into_iter().collect());
    }
    let mut remarks = Vec::new();
    let [base_hosts, new_hosts] =
        [&base, &new].map(|side| HostIndex::new(side.iter().map(|(host, _)| *host)));
    for (host, old) in &base {
        match new_hosts.find(host) {
            Some(at) => found.extend(host_changes(old, new[at].1, limit_percent)),
            None => {
                let words = [Some("checked"), Some("not checked")];
                found.push(Change::from_words(host, "host", words, ChangeVerdict::Worse));
            }
        }
    }
    let added: Vec<&str> =
        new.iter().map(|(host, _)| *host).filter(|host| base_hosts.find(host).is_none()).collect();
    if !added.is_empty() {
        remarks.push(format!("Hosts without a base: {}.", added.join(", ")));
    }
    (found, remarks)
}

/// The latest check of each host.
fn latest(checks: &[(String, Check)]) -> Vec<(&str, &Check)> {
    let mut latest: BTreeMap<&str, &Check> = BTreeMap::new();
    for (_, check) in checks {
        let known = latest.entry(&check.host_name).or_insert(check);
        if check.started_unix_ms >= known.started_unix_ms {
            *known = check;
        }
    }
    latest.into_iter().collect()
}

fn host_changes(base: &Check, new: &Check, limit_percent: f64) -> Vec<Change> {
    let host = &new.host_name;
    let mut changes = Vec::new();
    for old in &base.devices {
        let part = format!("{host} {}", old.name);
        let Some(device) = new.device(&old.name) else {
            let words = [Some("checked"), Some("not checked")];
            changes.push(Change::from_words(&part, "NIC", words, ChangeVerdict::Worse));
            continue;
        };
        let errors = [&old.error, &device.error]
            .map(|problem| problem.as_ref().map(|problem| problem.message.as_str()));
        let words = errors.map(|error| Some(error.unwrap_or("tested")));
        match errors {
            [None, Some(_)] => {
                changes.push(Change::from_words(&part, "test", words, ChangeVerdict::Worse));
            }
            [Some(_), None] => {
                changes.push(Change::from_words(&part, "test", words, ChangeVerdict::Better));
            }
            _ => {}
        }
        changes.extend(item_changes(&part, [&old.items, &device.items], limit_percent));
    }
    for device in new.devices.iter().filter(|device| base.device(&device.name).is_none()) {
        let part = format!("{host} {}", device.name);
        let words = [None, Some("checked")];
        changes.push(Change::from_words(&part, "NIC", words, ChangeVerdict::Changed));
    }
    changes.extend(item_changes(host, [&base.host, &new.host], limit_percent));
    changes
}

/// The changes of the items that both checks have.
fn item_changes(part: &str, [base, new]: [&[Finding]; 2], limit_percent: f64) -> Vec<Change> {
    let change = |new: &Finding| {
        let old = base.iter().find(|item| item.code == new.code && item.name == new.name)?;
        item_change(part, old, new, limit_percent)
    };
    new.iter().filter_map(change).collect()
}

/// The change of an item. `None` if verdict and value are as they were; values that are numbers may
/// change by the limit.
fn item_change(part: &str, base: &Finding, new: &Finding, limit_percent: f64) -> Option<Change> {
    let [old, now] = [base, new].map(|item| item.verdict.max(Severity::Good));
    let verdict = match new.verdict {
        _ if now > old => ChangeVerdict::Worse,
        new if now < old && new >= Severity::Good => ChangeVerdict::Better,
        _ => ChangeVerdict::Changed,
    };
    let numbers = base.number.zip(new.number);
    let is_counter = COUNTERS.contains(&new.code.as_str());
    let change_percent = numbers.and_then(|(old, now)| percent(old, now));
    let value_changed = match (numbers, change_percent) {
        (Some((old, now)), _) if is_counter => old != now,
        (Some(_), Some(change)) => change.abs() > limit_percent,
        (Some((old, now)), None) => old != now,
        (None, _) => base.value != new.value,
    };
    if !value_changed && old == now {
        return None;
    }
    let shown = |item: &Finding| {
        let value = item.value.as_deref().unwrap_or("not available");
        if item.verdict.is_wrong() {
            format!("{value} ({})", item.verdict.name())
        } else {
            value.to_owned()
        }
    };
    Some(Change {
        base: Some(shown(base)),
        new: Some(shown(new)),
        change_percent: change_percent.filter(|_| !is_counter),
        increase: numbers.filter(|_| is_counter).map(|(old, now)| now - old),
        ..Change::from_words(part, &new.name, [None, None], verdict)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ChangeVerdict::{Better, Changed, Worse};
    use check::document::{DeviceResult, testing};

    fn item(code: &str, value: &str, number: Option<f64>, verdict: &str) -> Finding {
        Finding {
            value: Some(value.into()),
            number,
            verdict: Severity::from(verdict.to_owned()),
            ..Finding::named(code, code)
        }
    }

    fn check(host: &str, started_unix_ms: u64, devices: &[(&str, Finding)]) -> (String, Check) {
        let device = |(name, item): &(&str, Finding)| DeviceResult {
            name: (*name).into(),
            is_software: false,
            error: None,
            items: vec![item.clone()],
        };
        let mut check = testing::check(Vec::new(), Vec::new(), None);
        check.host_name = host.into();
        check.started_unix_ms = started_unix_ms;
        check.devices = devices.iter().map(device).collect();
        ("file".into(), check)
    }

    #[test]
    fn judges_items_by_their_verdicts_and_shows_changed_values() {
        let good = |number| item("latency", "x", Some(number), "good");
        let text = |value: &str, verdict| item("firmware", value, None, verdict);
        let counter = |number, verdict| item("aer-correctable", "n", Some(number), verdict);
        for (base, new, expected) in [
            (good(100.0), good(105.0), None),
            (good(100.0), good(106.0), Some(Changed)),
            (good(0.0), good(1.0), Some(Changed)),
            (text("1", "shown"), text("1", "shown"), None),
            (text("1", "shown"), text("2", "shown"), Some(Changed)),
            (text("1", "good"), text("1", "suspect"), Some(Worse)),
            (text("1", "suspect"), text("1", "bad"), Some(Worse)),
            (text("1", "bad"), text("1", "suspect"), Some(Better)),
            (text("1", "bad"), text("1", "good"), Some(Better)),
            (text("1", "bad"), text("", "not_available"), Some(Changed)),
            (counter(100.0, "good"), counter(101.0, "good"), Some(Changed)),
            (counter(7.0, "good"), counter(7.0, "good"), None),
        ] {
            let change = item_change("cxi0", &base, &new, 5.0);
            let verdict = change.as_ref().map(|change| change.verdict);
            assert_eq!(verdict, expected, "{base:?} {new:?}");
            let increase = change.and_then(|change| change.increase);
            assert_eq!(increase.is_some(), base.code == "aer-correctable" && expected.is_some());
        }
    }

    #[test]
    fn compares_the_latest_check_of_each_host() {
        let up = || item("link-down", "up", None, "good");
        let down = || item("link-down", "down", None, "bad");
        let base = [
            check("a", 2, &[("cxi0", up()), ("cxi1", up())]),
            check("a", 1, &[("cxi0", down())]),
            check("b", 1, &[("cxi0", up())]),
        ];
        let new = [check("a", 9, &[("cxi0", down())]), check("c", 9, &[("cxi0", down())])];
        let (changes, remarks) = changes(&base, &new, 5.0);
        let found: Vec<(&str, &str, ChangeVerdict)> = changes
            .iter()
            .map(|change| (change.part.as_str(), change.what.as_str(), change.verdict))
            .collect();
        let expected =
            [("a cxi0", "link-down", Worse), ("a cxi1", "NIC", Worse), ("b", "host", Worse)];
        assert_eq!(found, expected);
        assert_eq!(changes[0].new.as_deref(), Some("down (bad)"));
        assert_eq!(remarks, ["Hosts without a base: c."]);
    }

    #[test]
    fn compares_hosts_by_other_forms_of_their_names() {
        let up = || item("link-down", "up", None, "good");
        let base = [check("a", 1, &[("cxi0", up())]), check("b", 1, &[("cxi0", up())])];
        let new = [
            check("A.cluster.example", 9, &[("cxi0", up())]),
            check("b.cluster.example", 9, &[("cxi0", up())]),
        ];
        for new in [&new[..], &new[..1]] {
            let (changes, remarks) = changes(&base[..new.len()], new, 5.0);
            assert!(changes.is_empty() && remarks.is_empty(), "{remarks:?}");
        }
    }
}
