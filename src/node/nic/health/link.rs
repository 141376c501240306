//! State, speed and mode of the link. Cassini 1 has its files in `port`, Cassini 2 in `port/0`.

use facts::number::decimal;

use super::item::{Finding, Item, unless_good};
use crate::nic::files::Files;
use crate::nic::generation::Generation;
use crate::nic::link_speed::LinkSpeed;
use facts::severity::Severity;
use facts::time_of_day::since_1970;

/// Whether the link is up.
pub static STATE: Item = Item {
    code: "link-down",
    name: "link state",
    source: "cxi_healthcheck",
    remedy: "check the cable and the switch port, and the kernel log for 'pcs_link_down'",
};

/// The speed of the link.
pub static SPEED: Item = Item {
    code: "link-speed",
    name: "link speed",
    source: "cxi_healthcheck",
    remedy: "check the cable and the speed of the switch port; --link-speed if it is meant to be lower",
};

/// Whether the link runs on all its lanes.
pub static LANES: Item = Item {
    code: "link-degraded",
    name: "link lanes",
    source: "driver",
    remedy: "the link runs on fewer lanes: reseat or replace the cable",
};

/// Whether the link repeats what was lost.
pub static LAYER_RETRY: Item = Item {
    code: "llr-off",
    name: "link-level retry",
    source: "cxi_healthcheck",
    remedy: "switch link-level retry on, on both ends of the link",
};

/// Whether the link returns what is sent.
pub static LOOPBACK: Item = Item {
    code: "loopback-on",
    name: "link loopback",
    source: "cxi_healthcheck",
    remedy: "switch the loopback mode of the link off (ethtool)",
};

/// What pauses the link.
pub static PAUSE: Item = Item {
    code: "pause-mode",
    name: "link pause",
    source: "cxi_healthcheck",
    remedy: "set the pause mode to PFC, as on the switch port",
};

/// What the link is made of.
pub static MEDIA: Item = Item {
    code: "media-unknown",
    name: "link media",
    source: "cxidiag",
    remedy: "the cable is not recognized: reseat it",
};

/// Settings of the driver by which a link does or does not come up.
pub static SETTINGS: Item = Item {
    code: "link-settings",
    name: "link settings",
    source: "-",
    remedy: "shown only: compare them with other nodes (ethtool --show-priv-flags)",
};

/// The private flags of Cassini 2 that decide whether and how its link comes up, with their files
/// in `port/0` (health.md 2.1.1). Cassini 1 shows none as files.
const FLAGS: [(&str, &str); 5] = [
    ("use-unsupported-cable", "link/policies/use_unsupported_cable"),
    ("use-supported-ss200-cable", "link/policies/use_supported_ss200_cable"),
    ("ignore-media-error", "link/policies/ignore_media_error"),
    ("auto-lane-degrade", "link/config/auto_lane_degrade"),
    ("r1-link-partner", "config/r1_partner"),
];

/// How often the link went down.
pub static FLAPS: Item = Item {
    code: "link-flaps",
    name: "link flaps",
    source: "cxi_healthcheck",
    remedy: "the link goes down and up: reseat or replace the cable",
};

/// Whether the driver warns of the link.
pub static WARNINGS: Item = Item {
    code: "link-warning",
    name: "driver's warnings",
    source: "driver",
    remedy: "too many errors on the link: reseat or replace the cable",
};

/// The largest frame.
pub static MTU: Item = Item {
    code: "mtu",
    name: "HPC MTU",
    source: "libcxi",
    remedy: "the driver sets 2112: compare driver and firmware with those of other nodes",
};

/// The largest frame of the fabric, in bytes.
const HPC_MTU: u64 = 2112;

/// Flaps in the last hour, and in the last ten hours, from which on the link is bad.
const FLAPS_LIMIT: (usize, usize) = (5, 10);

/// Returns all items of the link of a NIC. `expected` is the speed that the user expects, in Gb/s.
pub fn all(files: &Files, generation: Option<Generation>, expected: Option<f64>) -> Vec<Finding> {
    vec![
        state(files),
        speed(files, generation, expected),
        lanes(files),
        layer_retry(files),
        loopback(files),
        pause(files),
        flaps(files, since_1970().as_secs()),
        warnings(files),
        media(files, generation),
        settings(files),
    ]
}

/// Returns the text of the first of two files that exists: of Cassini 1, and of Cassini 2.
fn either(files: &Files, first: &str, second: &str) -> Option<String> {
    files.text(first).or_else(|| files.text(second))
}

/// Returns the name of the link's mode, such as `BS_200G`.
pub fn speed_text(files: &Files) -> Option<String> {
    either(files, "port/speed", "port/0/link/speed")
}

/// Returns whether the link is up; `None` if that cannot be read.
pub fn is_up(files: &Files) -> Option<bool> {
    state(files).value.map(|state| state == "up")
}

/// The state of the link.
pub fn state(files: &Files) -> Finding {
    let number_text = |up: String| match up.as_str() {
        "1" => "up".to_owned(),
        "0" => "down".to_owned(),
        other => other.to_owned(),
    };
    let state = either(files, "port/link", "port/0/link/state")
        .or_else(|| files.text("properties/link").map(number_text));
    let Some(state) = state else {
        return Finding::absent(&STATE);
    };
    if state == "up" {
        return Finding::compared(&STATE, state, "up", Severity::Good);
    }
    let value = match down_cause(files) {
        Some(cause) => format!("{state}, {cause}"),
        None => state,
    };
    Finding::compared(&STATE, value, "up", Severity::Bad)
}

/// Returns why the link of a Cassini 2 is down, as the driver last saw it: `did not come up:
/// unsupported-cable` (health.md 2.1). `None` if the driver names no cause, which it may also hide.
pub fn down_cause(files: &Files) -> Option<String> {
    let newest = |directory: &str, prefix: &str| {
        let entries = (0..10).map(|index| {
            let file =
                |name: &str| files.text(&format!("port/0/link/{directory}/{prefix}{name}_{index}"));
            (file("time").and_then(|time| decimal(&time)), file("cause_map"))
        });
        let known =
            entries.filter(|(time, cause)| time.is_some_and(|time| time > 0) && cause.is_some());
        known.max_by_key(|(time, _)| *time)
    };
    let failed = newest("last_up_fail", "up_fail_").map(|newest| (newest, "did not come up"));
    let event = newest("last_down", "").map(|newest| (newest, "went down"));
    let ((_, cause), what) =
        event.into_iter().chain(failed).max_by_key(|went_down| went_down.0.0)?;
    Some(format!("{what}: {}", cause?))
}

/// Compares the speed of the link with `expected`, or else with the speed of the hardware, in Gb/s.
pub fn speed(files: &Files, generation: Option<Generation>, expected: Option<f64>) -> Finding {
    let modes = speed_text(files).map(|text| match LinkSpeed::of(&text) {
        Some(LinkSpeed { gigabits_per_s, .. }) => {
            let value = format!("{gigabits_per_s} Gb/s ({text})");
            (value, Some(gigabits_per_s))
        }
        None if LinkSpeed::is_none(&text) => (text, Some(0.0)),
        None => (text, None),
    });
    // `properties/speed` has Mb/s, and is not reliable on Cassini 2.
    let properties = || {
        let megabits = files
            .number("properties/speed")
            .filter(|_| generation != Some(Generation::Cassini2))?;
        let gigabits = megabits as f64 / 1000.0;
        Some((format!("{gigabits} Gb/s"), Some(gigabits)))
    };
    let Some((text, gigabits)) = modes.or_else(properties) else {
        return Finding::absent(&SPEED);
    };
    match (gigabits, expected.or(generation.map(Generation::link_gigabits))) {
        (Some(gigabits), Some(limit)) => {
            let verdict = unless_good(gigabits < limit, Severity::Bad);
            Finding::compared(&SPEED, text, format!("{limit} Gb/s"), verdict)
                .with_number(gigabits * 1e9 / 8.0)
        }
        // A mode that is not known may be fast enough.
        (None, Some(limit)) => {
            Finding::compared(&SPEED, text, format!("{limit} Gb/s"), Severity::Suspect)
        }
        (_, None) => Finding::shown(&SPEED, text),
    }
}

/// Whether the link of Cassini 2 runs on fewer lanes than it has.
pub fn lanes(files: &Files) -> Finding {
    const DIRECTORY: &str = "port/0/link/auto_lane_degrade";
    let Some(degraded) = files.text(&format!("{DIRECTORY}/is_rx_degraded")) else {
        return Finding::absent(&LANES);
    };
    let is_degraded = matches!(degraded.as_str(), "yes" | "1" | "true");
    let speed = files.text(&format!("{DIRECTORY}/rx_link_speed_gbps"));
    let value = match (is_degraded, speed) {
        (false, _) => "all".to_owned(),
        (true, None) => "degraded".to_owned(),
        (true, Some(speed)) => format!("degraded, receives {speed} Gb/s"),
    };
    Finding::compared(&LANES, value, "all", unless_good(is_degraded, Severity::Bad))
}

/// Whether link-level retry runs.
pub fn layer_retry(files: &Files) -> Finding {
    let Some(state) = either(files, "port/link_layer_retry", "port/0/llr/state") else {
        return Finding::absent(&LAYER_RETRY);
    };
    let is_on = matches!(state.as_str(), "on" | "running");
    let limit = if files.text("port/link_layer_retry").is_some() { "on" } else { "running" };
    Finding::compared(&LAYER_RETRY, state, limit, unless_good(!is_on, Severity::Bad))
}

/// Whether the link is in a loopback mode.
pub fn loopback(files: &Files) -> Finding {
    let Some(mode) = either(files, "port/loopback", "port/0/link/config/loopback") else {
        return Finding::absent(&LOOPBACK);
    };
    let off = if files.text("port/loopback").is_some() { "off" } else { "disabled" };
    let verdict = unless_good(mode != off, Severity::Bad);
    Finding::compared(&LOOPBACK, mode, off, verdict)
}

/// What pauses the link: PFC. Drivers up to SHS 14.0.1 do not show it on Cassini 2, whose
/// `pause_map` is what autonegotiation offers (health.md 2.1).
pub fn pause(files: &Files) -> Finding {
    let Some(mode) = either(files, "port/pause", "port/0/pause") else {
        return if files.text("port/0/link/state").is_some() {
            Finding::untested(&PAUSE, "this driver does not show it")
        } else {
            Finding::absent(&PAUSE)
        };
    };
    let verdict = unless_good(!mode.starts_with("pfc"), Severity::Bad);
    Finding::compared(&PAUSE, mode, "pfc/802.1qbb", verdict)
}

/// What the link of hardware of this generation is made of.
pub fn media(files: &Files, generation: Option<Generation>) -> Finding {
    let Some(media) = either(files, "port/media", "port/0/media/type") else {
        return Finding::absent(&MEDIA);
    };
    if generation.is_none() {
        return Finding::shown(&MEDIA, media);
    }
    let is_unknown = matches!(media.as_str(), "unknown" | "NA" | "invalid");
    let verdict = unless_good(is_unknown, Severity::Suspect);
    Finding::compared(&MEDIA, media, "known", verdict)
}

/// The flags of Cassini 2 that are set.
pub fn settings(files: &Files) -> Finding {
    let states =
        FLAGS.map(|(flag, file)| files.text(&format!("port/0/{file}")).map(|state| (flag, state)));
    let states: Vec<(&str, String)> = states.into_iter().flatten().collect();
    if states.is_empty() {
        return Finding::absent(&SETTINGS);
    }
    let set = states.iter().filter(|(_, state)| state == "enabled").map(|(flag, _)| *flag);
    let set: Vec<&str> = set.collect();
    Finding::shown(&SETTINGS, if set.is_empty() { "none".into() } else { set.join(", ") })
}

/// How often the link was restarted before `now`, in seconds since 1970.
pub fn flaps(files: &Files, now: u64) -> Finding {
    let times: Vec<u64> =
        (0..10).filter_map(|at| files.number(&format!("link_restarts/time_{at}"))).collect();
    if times.is_empty() {
        return Finding::absent(&FLAPS);
    }
    let within = |hours: u64| {
        let age = |time: &u64| now.checked_sub(*time).filter(|_| *time > 0);
        let ages = times.iter().filter_map(age);
        ages.filter(|age| *age < hours * 3600).count()
    };
    let (hour, ten_hours) = (within(1), within(10));
    let is_beyond = |hour, ten_hours| hour >= FLAPS_LIMIT.0 || ten_hours >= FLAPS_LIMIT.1;
    let is_bad = is_beyond(hour, ten_hours);
    // The clock of the node was set back since: when these were is unknown.
    let ahead = times.iter().filter(|time| **time > now).count();
    if !is_bad && is_beyond(hour + ahead, ten_hours + ahead) {
        let why = format!("{ahead} link flaps have times ahead of the clock of this node");
        return Finding::untested(&FLAPS, why);
    }
    Finding::compared(
        &FLAPS,
        format!("{hour} in 1 h, {ten_hours} in 10 h"),
        format!("<{}, <{}", FLAPS_LIMIT.0, FLAPS_LIMIT.1),
        unless_good(is_bad, Severity::Bad),
    )
    .with_number(ten_hours as f64)
}

/// Whether the driver of Cassini 2 warns of code words with errors.
pub fn warnings(files: &Files) -> Finding {
    let crossed = |which: &str| files.text(&format!("port/0/link/{which}_warn_limit_crossed"));
    let found = [("corrected", crossed("ccw")), ("uncorrected", crossed("ucw"))];
    if found.iter().all(|(_, crossed)| crossed.is_none()) {
        return Finding::absent(&WARNINGS);
    }
    let is_crossed = |(_, crossed): &&(_, Option<String>)| crossed.as_deref() == Some("yes");
    let names: Vec<&str> = found.iter().filter(is_crossed).map(|(name, _)| *name).collect();
    let verdict = unless_good(!names.is_empty(), Severity::Suspect);
    let value = if names.is_empty() {
        "none".to_owned()
    } else {
        format!("{} code words", names.join(" and "))
    };
    Finding::compared(&WARNINGS, value, "none", verdict)
}

/// The largest frame of the fabric.
pub fn mtu(files: &Files) -> Finding {
    files.number("properties/hpc_mtu").map_or_else(
        || Finding::absent(&MTU),
        |mtu| {
            let verdict = unless_good(mtu != HPC_MTU, Severity::Suspect);
            Finding::compared(&MTU, mtu.to_string(), HPC_MTU.to_string(), verdict)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MadeUp, assert_verdicts};
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};

    #[test]
    fn only_up_is_a_good_state() {
        for name in ["port/link", "port/0/link/state"] {
            let cases = [
                ("up", Good),
                ("up\n", Good),
                ("starting", Bad),
                ("down", Bad),
                ("", NotAvailable),
            ];
            assert_verdicts(name, state, &cases);
        }
        assert_verdicts("properties/link", state, &[("1\n", Good), ("0\n", Bad)]);
    }

    #[test]
    fn compares_speed_with_hardware_or_expectation() {
        let finding =
            |generation, expected| move |files: &Files| speed(files, generation, expected);
        let cassini1 = Some(Generation::Cassini1);
        let cassini2 = Some(Generation::Cassini2);
        let cases = [
            ("BS_200G", Good),
            ("BJ_100G", Bad),
            ("NA", Bad),
            ("XY_300G", Suspect),
            ("", NotAvailable),
        ];
        assert_verdicts("port/speed", finding(cassini1, None), &cases);
        assert_verdicts(
            "port/speed",
            finding(cassini1, Some(100.0)),
            &[("BJ_100G", Good), ("CD_50G", Bad)],
        );
        let cases = [("ck400G", Good), ("ck200G", Bad), ("no-link", Bad)];
        assert_verdicts("port/0/link/speed", finding(cassini2, None), &cases);
        assert_verdicts(
            "port/0/link/speed",
            finding(cassini2, Some(100.0)),
            &[("ck100G", Good), ("cd50G", Bad)],
        );
        assert_verdicts("port/0/link/speed", finding(None, None), &[("ck200G", Shown)]);
        assert_verdicts(
            "properties/speed",
            finding(cassini1, None),
            &[("200000\n", Good), ("100000", Bad)],
        );
        assert_verdicts("properties/speed", finding(cassini2, None), &[("200000\n", NotAvailable)]);
    }

    #[test]
    fn compares_modes_of_both_generations() {
        assert_verdicts("port/link_layer_retry", layer_retry, &[("on", Good), ("off", Bad)]);
        assert_verdicts("port/0/llr/state", layer_retry, &[("running", Good), ("off", Bad)]);
        assert_verdicts("port/loopback", loopback, &[("off", Good), ("internal", Bad)]);
        let mode = "port/0/link/config/loopback";
        assert_verdicts(mode, loopback, &[("disabled", Good), ("enabled-remote", Bad)]);
        let cases = [("pfc/802.1qbb", Good), ("none", Bad), ("global/802.3x", Bad)];
        assert_verdicts("port/pause", pause, &cases);
        assert_verdicts("port/0/pause", pause, &cases);
        let pause_map = "port/0/link/config/pause_map";
        assert_verdicts(pause_map, pause, &[("none", NotAvailable)]);
        let cases =
            [("electrical", Good), ("optical", Good), ("unknown", Suspect), ("NA", Suspect)];
        let hardware_finding = |files: &Files| media(files, Some(Generation::Cassini1));
        assert_verdicts("port/media", hardware_finding, &cases);
        assert_verdicts("port/media", |files| media(files, None), &[("unknown", Shown)]);
        assert_verdicts("properties/hpc_mtu", mtu, &[("2112\n", Good), ("1500\n", Suspect)]);
    }

    #[test]
    fn names_the_newest_cause_of_a_link_that_is_down() {
        let made_up = MadeUp::new(&[("port/0/link/state", "down\n")]);
        let value = || state(&made_up.files).value.unwrap();
        assert_eq!(value(), "down");
        let write = |name: &str, index, content: &str| {
            made_up.write(&format!("port/0/link/{name}_{index}"), content);
        };
        for (index, time, cause) in [(0, "90\n", "no-media\n"), (1, "70\n", "timeout\n")] {
            write("last_up_fail/up_fail_time", index, time);
            write("last_up_fail/up_fail_cause_map", index, cause);
        }
        assert_eq!(value(), "down, did not come up: no-media");
        write("last_up_fail/up_fail_time", 3, "100\n");
        write("last_up_fail/up_fail_cause_map", 3, "media-error unsupported-cable\n");
        assert_eq!(value(), "down, did not come up: media-error unsupported-cable");
        write("last_down/time", 0, "101\n");
        assert_eq!(value(), "down, did not come up: media-error unsupported-cable");
        write("last_down/cause_map", 0, "rlink-down\n");
        assert_eq!(value(), "down, went down: rlink-down");
        made_up.write("port/0/link/state", "up\n");
        assert_eq!((state(&made_up.files).verdict, value()), (Good, "up".into()));
    }

    #[test]
    fn shows_flags_that_are_set() {
        let value = |made_up: &MadeUp| settings(&made_up.files).value;
        let made_up = MadeUp::new(&[]);
        assert_eq!(settings(&made_up.files).verdict, NotAvailable);
        made_up.write("port/0/link/policies/use_unsupported_cable", "disabled\n");
        assert_eq!(value(&made_up).as_deref(), Some("none"));
        made_up.write("port/0/config/r1_partner", "enabled\n");
        made_up.write("port/0/link/policies/ignore_media_error", "enabled\n");
        let both = "ignore-media-error, r1-link-partner";
        assert_eq!(value(&made_up).as_deref(), Some(both));
        assert_eq!(settings(&made_up.files).verdict, Shown);
    }

    #[test]
    fn notices_degraded_link_and_warnings_of_driver() {
        let name = "port/0/link/auto_lane_degrade/is_rx_degraded";
        assert_verdicts(name, lanes, &[("no\n", Good), ("yes\n", Bad)]);
        let made_up = MadeUp::new(&[
            (name, "yes\n"),
            ("port/0/link/auto_lane_degrade/rx_link_speed_gbps", "200\n"),
        ]);
        let value = lanes(&made_up.files).value;
        assert_eq!(value.as_deref(), Some("degraded, receives 200 Gb/s"));
        let name = "port/0/link/ccw_warn_limit_crossed";
        assert_verdicts(name, warnings, &[("no\n", Good), ("yes\n", Suspect)]);
    }

    #[test]
    fn counts_flaps_up_to_the_limits() {
        const NOW: u64 = 1_700_000_000;
        let finding = |ages: &[u64]| {
            let made_up = MadeUp::new(&[]);
            for at in 0..10 {
                let time = ages.get(at).map_or(0, |age| NOW - age);
                made_up.write(&format!("link_restarts/time_{at}"), &format!("{time}\n"));
            }
            flaps(&made_up.files, NOW)
        };
        assert_eq!(finding(&[]).verdict, Good);
        let four = finding(&[0, 60, 120, 3599, 3600]);
        assert_eq!((four.verdict, four.value.as_deref()), (Good, Some("4 in 1 h, 5 in 10 h")));
        assert_eq!(finding(&[0, 60, 120, 180, 3599]).verdict, Bad);
        assert_eq!(finding(&[35_999; 9]).verdict, Good);
        assert_eq!(finding(&[35_999; 10]).verdict, Bad);
        assert_eq!(finding(&[36_000; 10]).verdict, Good);
        assert_eq!(flaps(&MadeUp::new(&[]).files, NOW).verdict, NotAvailable);
        // The clock was set back after these.
        let ahead = |count: usize| {
            let made_up = MadeUp::new(&[]);
            for at in 0..10 {
                let time = if at < count { NOW + 7200 } else { NOW - 60 };
                made_up.write(&format!("link_restarts/time_{at}"), &format!("{time}\n"));
            }
            flaps(&made_up.files, NOW)
        };
        assert_eq!(ahead(5).verdict, Bad);
        let unknown = ahead(10);
        let note = "10 link flaps have times ahead of the clock of this node";
        assert_eq!((unknown.verdict, unknown.note.as_deref()), (NotAvailable, Some(note)));
    }
}
