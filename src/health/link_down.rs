//! Why and when the link of a Cassini 2 went or stayed down (health.md 2.1.2), and the settings of
//! the driver by which a link does or does not come up (health.md 2.1.1).

use super::item::{Finding, Item};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::programs;

/// The files about the last start that failed and the last time the link went down: cause, time,
/// and what happened (health.md 2.1.2). A driver has the files of one release: of 14.0.1 and later,
/// of 13.0 to 14.0.0, or of 12.0.
const LAST_CAUSES: [(&str, &str, &str); 5] = [
    ("last_up_fail/up_fail_cause_map_0", "last_up_fail/up_fail_time_0", NOT_UP),
    ("last_up_fail_cause_map", "last_up_fail_time", NOT_UP),
    ("last_down/cause_map_0", "last_down/time_0", WENT_DOWN),
    ("last_down_cause_map", "last_down_time", WENT_DOWN),
    ("last_down_cause", "last_down_time", WENT_DOWN),
];

const NOT_UP: &str = "did not come up";
const WENT_DOWN: &str = "went down";

/// Words in place of cause and time where nothing has happened, in the releases that have them.
/// Other words that are no values elsewhere, such as `ss200-cable`, are causes.
const NO_EVENTS: [&str; 4] = ["none", "no-fail", "no-record", "no record"];

/// Returns why and when the link of a Cassini 2 went or stayed down, as the driver last saw it:
/// `did not come up: no-media, at 2026-02-28 10:11:12 UTC` (health.md 2.1.2). `None` if the driver
/// names no cause of the newest event, which it may also hide, and if it is not known which event
/// is the newest.
pub fn cause(files: &Files) -> Option<String> {
    let value = |name: &str| files.text(&format!("port/0/link/{name}"));
    let events = LAST_CAUSES.iter().filter_map(|(cause, time, what)| {
        let (cause, time) = (value(cause)?, value(time));
        let is_none = |word: &String| NO_EVENTS.contains(&word.as_str());
        if is_none(&cause) || time.as_ref().is_some_and(is_none) {
            return None;
        }
        // `HH:MM:SS YYYY-MM-DD`.
        let moment = time.as_deref().and_then(|time| time.split_once(' '));
        let moment =
            moment.filter(|(_, date)| date.starts_with(|year: char| year.is_ascii_digit()));
        Some((moment.map(|(time, date)| format!("{date} {time}")), cause, *what))
    });
    let events: Vec<_> = events.collect();
    let is_order_known = events.len() < 2 || events.iter().all(|(moment, ..)| moment.is_some());
    let newest = events.into_iter().max_by(|one, other| one.0.cmp(&other.0));
    let (moment, cause, what) =
        newest.filter(|(_, cause, _)| is_order_known && cause != "error")?;
    let moment = moment.map_or(String::new(), |moment| format!(", at {moment} UTC"));
    Some(format!("{what}: {cause}{moment}"))
}

/// Settings of the driver by which a link does or does not come up.
pub static SETTINGS: Item = Item {
    code: "link-settings",
    name: "link settings",
    source: "-",
    remedy: "shown only: compare them with other nodes (ethtool --show-priv-flags)",
};

/// The private flags that say what the link of Cassini 1 does (health.md 2.1.1). No file has them.
const FLAGS_OF_CASSINI_1: [&str; 8] = [
    "internal-loopback",
    "external-loopback",
    "llr",
    "precoding",
    "ifg-hpc",
    "ignore-align",
    "disable-pml-recovery",
    "remote-fault-recovery",
];

/// The private flags of Cassini 2 that decide whether and how its link comes up, with their files
/// in `port/0` (health.md 2.1.1).
const FLAGS: [(&str, &str); 5] = [
    ("use-unsupported-cable", "link/policies/use_unsupported_cable"),
    ("use-supported-ss200-cable", "link/policies/use_supported_ss200_cable"),
    ("ignore-media-error", "link/policies/ignore_media_error"),
    ("auto-lane-degrade", "link/config/auto_lane_degrade"),
    ("r1-link-partner", "config/r1_partner"),
];

/// The flags that are set: of Cassini 1 as ethtool shows them, of Cassini 2 by their files.
pub fn settings(files: &Files, generation: Option<Generation>) -> Finding {
    let states = if generation == Some(Generation::Cassini1) {
        flags_of_ethtool(files)
    } else {
        flags_of_files(files)
    };
    let set = states.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| *flag);
    let set: Vec<&str> = set.collect();
    let value = if set.is_empty() { "none".to_owned() } else { set.join(", ") };
    Finding::shown_if(&SETTINGS, (!states.is_empty()).then_some(value))
}

/// The flags of Cassini 2 that have a value.
fn flags_of_files(files: &Files) -> Vec<(&'static str, bool)> {
    let state = |(flag, file)| Some((flag, files.link_value(file).ok()? == "enabled"));
    FLAGS.into_iter().filter_map(state).collect()
}

/// The flags of Cassini 1 that ethtool shows, as it does to any user.
fn flags_of_ethtool(files: &Files) -> Vec<(&'static str, bool)> {
    let name = files.interface_name();
    let shown = name.and_then(|name| programs::output("ethtool", &["--show-priv-flags", &name]));
    let shown = shown.unwrap_or_default();
    let lines: Vec<(&str, &str)> = shown.lines().filter_map(|line| line.split_once(':')).collect();
    let state = |flag| {
        let line = lines.iter().find(|(name, _)| name.trim() == flag)?;
        Some((flag, line.1.trim() == "on"))
    };
    FLAGS_OF_CASSINI_1.into_iter().filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::super::link::state;
    use super::*;
    use facts::severity::Severity::{Bad, NotAvailable, Shown};
    use node::nic::testing::MadeUp;

    #[test]
    fn names_the_newest_cause_of_a_link_that_is_down() {
        let down = |pairs: &[(&str, &str)]| {
            let made_up = MadeUp::new(&[("port/0/link/state", "down\n")]);
            for (name, content) in pairs {
                made_up.write(&format!("port/0/link/{name}"), &format!("{content}\n"));
            }
            let found = state(&made_up.files);
            assert_eq!(found.verdict, Bad);
            found.value.unwrap()
        };
        const EARLY: &str = "23:59:59 2026-01-31";
        const LATE: &str = "00:00:01 2026-02-01";
        assert_eq!(down(&[]), "down");
        let directories = |up_fail, up_fail_time, down_cause, down_time| {
            down(&[
                ("last_up_fail/up_fail_cause_map_0", up_fail),
                ("last_up_fail/up_fail_time_0", up_fail_time),
                ("last_up_fail/up_fail_cause_map_1", "timeout"),
                ("last_up_fail/up_fail_time_1", "00:00:00 2026-01-01"),
                ("last_down/cause_map_0", down_cause),
                ("last_down/time_0", down_time),
            ])
        };
        let failed = |cause, time| format!("down, did not come up: {cause}, at {time} UTC");
        const BOTH: &str = "media-error unsupported-cable";
        let late = "2026-02-01 00:00:01";
        assert_eq!(directories(BOTH, LATE, "rlink-down", EARLY), failed(BOTH, late));
        let early = "2026-01-31 23:59:59";
        assert_eq!(directories(BOTH, EARLY, "none", "none"), failed(BOTH, early));
        let went = |time: &str| format!("down, went down: rlink-down, at {time} UTC");
        assert_eq!(directories("no-media", EARLY, "rlink-down", LATE), went(late));
        assert_eq!(
            directories("no-media", "error", "none", "none"),
            "down, did not come up: no-media"
        );
        assert_eq!(directories("error", EARLY, "rlink-down", LATE), went(late));
        // The newest event has no cause, or which one is the newest is not known.
        assert_eq!(directories("no-media", "error", "rlink-down", EARLY), "down");
        assert_eq!(directories("error", LATE, "rlink-down", EARLY), "down");
        assert_eq!(directories("none", "none", "none", "none"), "down");
        let single = |up_fail, up_fail_time, down_cause, down_time| {
            down(&[
                ("last_up_fail_cause_map", up_fail),
                ("last_up_fail_time", up_fail_time),
                ("last_down_cause_map", down_cause),
                ("last_down_time", down_time),
            ])
        };
        assert_eq!(single("no-media", LATE, "rlink-down", EARLY), failed("no-media", late));
        assert_eq!(single("no-record", "no-record", "rlink-down", EARLY), went(early));
        assert_eq!(single("no-fail", "no-fail", "none", "none"), "down");
        assert_eq!(single("ss200-cable", LATE, "none", "none"), failed("ss200-cable", late));
        assert_eq!(single("ss200-cable", LATE, "error", "error"), "down");
        let oldest = |cause, time| down(&[("last_down_cause", cause), ("last_down_time", time)]);
        assert_eq!(oldest("rlink-down", EARLY), went(early));
        assert_eq!(oldest("no record", "no record"), "down");
    }

    #[test]
    fn shows_flags_that_are_set() {
        let settings = |made_up: &MadeUp| settings(&made_up.files, Some(Generation::Cassini2));
        let value = |made_up: &MadeUp| settings(made_up).value;
        let made_up = MadeUp::new(&[]);
        assert_eq!(settings(&made_up).verdict, NotAvailable);
        made_up.write("port/0/link/policies/use_unsupported_cable", "disabled\n");
        assert_eq!(value(&made_up).as_deref(), Some("none"));
        made_up.write("port/0/config/r1_partner", "enabled\n");
        made_up.write("port/0/link/policies/ignore_media_error", "enabled\n");
        let both = "ignore-media-error, r1-link-partner";
        assert_eq!(value(&made_up).as_deref(), Some(both));
        assert_eq!(settings(&made_up).verdict, Shown);
    }
}
