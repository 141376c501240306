//! The settings of the driver by which a link does or does not come up (health.md 2.1.1).

use super::item::{Finding, Item};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::programs;

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

/// Returns the flags of Cassini 2 that have a value.
fn flags_of_files(files: &Files) -> Vec<(&'static str, bool)> {
    let state = |(flag, file)| Some((flag, files.link_value(file).ok()? == "enabled"));
    FLAGS.into_iter().filter_map(state).collect()
}

/// Returns the flags of Cassini 1 that ethtool shows, as it does to any user.
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
    use super::*;
    use facts::severity::Severity::{NotAvailable, Shown};
    use node::nic::testing::MadeUp;

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
