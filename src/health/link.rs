//! State, speed and mode of the link. Cassini 1 has its files in `port`, Cassini 2 in `port/0`.

use super::item::{Finding, Item, NONE_OF_ITS_OWN, unless_good};
use super::{cable, link_down};
use facts::severity::Severity;
use facts::time_of_day::since_1970;
use node::nic::files::{Files, NoValue, known};
use node::nic::generation::Generation;
use node::nic::link_speed::{DriverLimits, LinkSpeed};

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
    remedy: "the link has lost lanes, and auto lane degrade keeps it up on the others: reseat or \
             replace the cable",
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

/// All items of the link of a NIC. `expected` is the speed that the user expects, in Gb/s.
pub fn all(files: &Files, generation: Option<Generation>, expected: Option<f64>) -> Vec<Finding> {
    let is_virtual = files.is_virtual_function();
    let generation = generation.filter(|_| !is_virtual);
    let mut found = vec![
        state(files),
        speed(files, generation, expected),
        lanes(files),
        layer_retry(files),
        loopback(files),
        pause(files),
        flaps(files, since_1970().as_secs()),
        warnings(files),
        media(files, generation),
        cable::firmware(files),
        link_down::settings(files, generation),
        cable::switch_port(files, generation),
    ];
    let is_down = found[0].verdict == Severity::Bad;
    for finding in &mut found {
        if is_virtual {
            *finding = Finding { note: Some(NONE_OF_ITS_OWN.to_owned()), ..finding.emptied() };
        } else if is_down && [LAYER_RETRY.code, PAUSE.code].contains(&&*finding.code) {
            // Neither runs on a link that is down.
            let shown = Finding { value: finding.value.take(), ..finding.emptied() };
            let verdict = if shown.value.is_some() { Severity::Shown } else { shown.verdict };
            *finding = Finding { verdict, ..shown };
        }
    }
    found
}

/// The value of the first of two files that exists: of Cassini 1, and of Cassini 2.
fn either(files: &Files, first: &str, second: &str) -> Result<String, NoValue> {
    files.text(first).map_or_else(|| files.link_value(second), known)
}

/// The name of the link's mode, such as `BS_200G`.
pub fn speed_text(files: &Files) -> Option<String> {
    either(files, "port/speed", "link/speed").ok()
}

/// The loopback mode of the link, if it is in one.
pub fn loopback_mode(files: &Files) -> Option<String> {
    let found = loopback(files);
    found.value.filter(|_| found.verdict == Severity::Bad)
}

/// Whether the link is up; `None` if its state cannot be read. A virtual function has no link of
/// its own.
pub fn is_up(files: &Files) -> Option<bool> {
    let found = state(files);
    found.value.map(|_| found.verdict == Severity::Good)
}

/// The state of the link.
pub fn state(files: &Files) -> Finding {
    let number_text = |up: String| match up.as_str() {
        "1" => "up".to_owned(),
        "0" => "down".to_owned(),
        other => other.to_owned(),
    };
    if files.is_virtual_function() {
        return Finding::untested(&STATE, NONE_OF_ITS_OWN);
    }
    let state = either(files, "port/link", "link/state").or_else(|why| match why {
        None => files.text("properties/link").map(number_text).ok_or(None),
        why => Err(why),
    });
    let state = match state {
        Ok(state) => state,
        Err(why) => return Finding::without(&STATE, why),
    };
    if state == "up" {
        return Finding::compared(&STATE, state, "up", Severity::Good);
    }
    let value = match link_down::cause(files) {
        Some(cause) => format!("{state}, {cause}"),
        None => state,
    };
    Finding::compared(&STATE, value, "up", Severity::Bad)
}

/// Compares the speed of the link with `expected`, or else with the speed of the hardware, in Gb/s.
pub fn speed(files: &Files, generation: Option<Generation>, expected: Option<f64>) -> Finding {
    let text = match either(files, "port/speed", "link/speed") {
        Ok(text) if LinkSpeed::is_none(&text) => {
            return Finding::untested(&SPEED, "the link has none");
        }
        Err(why @ Some(_)) => return Finding::without(&SPEED, why),
        text => text.ok(),
    };
    let modes = text.map(|text| match LinkSpeed::of(&text) {
        Some(LinkSpeed { gigabits_per_s, .. }) => {
            let value = format!("{gigabits_per_s} Gb/s ({text})");
            (value, Some(gigabits_per_s))
        }
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

/// Whether the link of Cassini 2 runs on fewer lanes than it has, in either direction: auto lane
/// degrade keeps it up (health.md 2.1.3).
pub fn lanes(files: &Files) -> Finding {
    let value = |name: String| files.link_value(&format!("link/auto_lane_degrade/{name}"));
    let mut lost = Vec::new();
    let mut unknown = Ok(());
    for (direction, verb) in [("rx", "receives"), ("tx", "sends")] {
        match value(format!("is_{direction}_degraded")).as_deref() {
            Ok("yes") => lost.push(match value(format!("{direction}_link_speed_gbps")) {
                Ok(speed) => format!("{verb} {speed} Gb/s"),
                Err(_) => format!("{verb} on fewer"),
            }),
            Ok("no") => {}
            Ok(_) => unknown = Err(None),
            Err(why) => unknown = Err(*why),
        }
    }
    match unknown {
        _ if !lost.is_empty() => {
            let value = format!("degraded, {}", lost.join(", "));
            Finding::compared(&LANES, value, "all", Severity::Bad)
        }
        Ok(()) => Finding::compared(&LANES, "all", "all", Severity::Good),
        Err(why) => Finding::without(&LANES, why),
    }
}

/// Whether link-level retry runs.
pub fn layer_retry(files: &Files) -> Finding {
    let state = match either(files, "port/link_layer_retry", "llr/state") {
        Ok(state) => state,
        Err(why) => return Finding::without(&LAYER_RETRY, why),
    };
    let is_on = matches!(state.as_str(), "on" | "running");
    let limit = if files.text("port/link_layer_retry").is_some() { "on" } else { "running" };
    Finding::compared(&LAYER_RETRY, state, limit, unless_good(!is_on, Severity::Bad))
}

/// Whether the link is in a loopback mode.
pub fn loopback(files: &Files) -> Finding {
    let mode = match either(files, "port/loopback", "link/config/loopback") {
        Ok(mode) => mode,
        Err(why) => return Finding::without(&LOOPBACK, why),
    };
    let off = if files.text("port/loopback").is_some() { "off" } else { "disabled" };
    let verdict = unless_good(mode != off, Severity::Bad);
    Finding::compared(&LOOPBACK, mode, off, verdict)
}

/// What pauses the link: PFC. Drivers up to SHS 14.0.1 do not show it on Cassini 2, whose
/// `pause_map` is what autonegotiation offers (health.md 2.1).
pub fn pause(files: &Files) -> Finding {
    let mode = match either(files, "port/pause", "pause") {
        Ok(mode) => mode,
        Err(None) if files.text("port/0/link/state").is_some() => {
            return Finding::untested(&PAUSE, "this driver does not show it");
        }
        Err(why) => return Finding::without(&PAUSE, why),
    };
    let verdict = unless_good(!mode.starts_with("pfc"), Severity::Bad);
    Finding::compared(&PAUSE, mode, "pfc/802.1qbb", verdict)
}

/// What the link of hardware of this generation is made of.
pub fn media(files: &Files, generation: Option<Generation>) -> Finding {
    let media = files.text("port/media").map_or_else(|| files.link_value("media/type"), Ok);
    let media = match media {
        Ok(media) if media == "none" => return Finding::untested(&MEDIA, "the driver names none"),
        Ok(media) => media,
        Err(why) => return Finding::without(&MEDIA, why),
    };
    if generation.is_none() {
        return Finding::shown(&MEDIA, media);
    }
    let is_unknown = matches!(media.as_str(), "unknown" | "NA" | "invalid");
    let verdict = unless_good(is_unknown, Severity::Suspect);
    Finding::compared(&MEDIA, media, "known", verdict)
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

/// Whether the driver of Cassini 2 warns of code words with errors: only with limits that an
/// administrator has set (health.md 2.1.3).
pub fn warnings(files: &Files) -> Finding {
    let limits = DriverLimits::read(files);
    let has_limit =
        |which: &str| limits.iter().any(|(name, _)| name == format!("{which}_warn_limit"));
    let crossed = [("corrected", "ccw"), ("uncorrected", "ucw")].map(|(name, which)| {
        let crossed = files.link_value(&format!("link/{which}_warn_limit_crossed")).ok()?;
        has_limit(which).then_some((name, crossed == "yes"))
    });
    let known: Vec<(&str, bool)> = crossed.into_iter().flatten().collect();
    if known.is_empty() {
        return Finding::absent(&WARNINGS);
    }
    let names: Vec<&str> =
        known.iter().filter(|(_, crossed)| *crossed).map(|(name, _)| *name).collect();
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
    use super::super::testing::assert_verdicts;
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn only_up_is_a_good_state() {
        for name in ["port/link", "port/0/link/state"] {
            let cases = [
                ("up", Good),
                ("up\n", Good),
                ("starting", Bad),
                ("down", Bad),
                ("unknown", NotAvailable),
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
            ("NA", NotAvailable),
            ("XY_300G", Suspect),
            ("", NotAvailable),
        ];
        assert_verdicts("port/speed", finding(cassini1, None), &cases);
        assert_verdicts(
            "port/speed",
            finding(cassini1, Some(100.0)),
            &[("BJ_100G", Good), ("CD_50G", Bad)],
        );
        let cases =
            [("ck400G", Good), ("ck200G", Bad), ("no-link", NotAvailable), ("error", NotAvailable)];
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

    /// health.md 2.1.2: the files of each release.
    /// health.md 2.1.2.
    #[test]
    fn words_in_place_of_values_have_no_verdict() {
        const WORDS: [&str; 9] = [
            "error",
            "no-link",
            "no-cable",
            "unsupported-format",
            "not-active",
            "io-error",
            "--",
            "unknown",
            "invalid",
        ];
        for (file, item) in [
            ("link/state", &STATE),
            ("link/speed", &SPEED),
            ("link/auto_lane_degrade/is_tx_degraded", &LANES),
            ("llr/state", &LAYER_RETRY),
            ("link/config/loopback", &LOOPBACK),
            ("pause", &PAUSE),
            ("link/ccw_warn_limit_crossed", &WARNINGS),
            ("media/type", &MEDIA),
            ("media/firmware_version_hex", &cable::FIRMWARE),
        ] {
            for word in WORDS {
                let made_up = MadeUp::new(&[
                    ("port/0/link/auto_lane_degrade/is_rx_degraded", "no"),
                    ("port/0/link/fec/monitor_check/ccw_warn_limit", "100"),
                    ("port/0/media/target_firmware_version_hex", "02.0a"),
                    ("properties/link", "0"),
                    (&format!("port/0/{file}"), word),
                ]);
                let found = all(&made_up.files, Some(Generation::Cassini2), Some(400.0));
                let found = found.iter().find(|found| found.code == item.code).unwrap();
                assert_eq!(found.verdict, NotAvailable, "{file} {word}: {found:?}");
            }
        }
        for (file, finding) in [("pause", pause as fn(&Files) -> Finding), ("link", state)] {
            let cases = [("unknown", NotAvailable), ("invalid", NotAvailable)];
            assert_verdicts(&format!("port/{file}"), finding, &cases);
        }
        let none = MadeUp::new(&[("port/0/media/type", "none\n")]);
        assert_eq!(media(&none.files, Some(Generation::Cassini2)).verdict, NotAvailable);
        let no_cable = media(&MadeUp::new(&[("port/0/media/type", "no-cable")]).files, None);
        assert_eq!(no_cable.note.as_deref(), Some("no cable"));
    }

    #[test]
    fn retry_and_pause_of_a_link_that_is_down_are_shown() {
        let verdicts = |state: &str| {
            let pairs = [("port/0/pause", "none"), ("port/0/llr/state", "off")];
            let made_up = MadeUp::new(&[pairs[0], pairs[1], ("port/0/link/state", state)]);
            let found = all(&made_up.files, Some(Generation::Cassini2), None);
            [&LAYER_RETRY, &PAUSE]
                .map(|item| found.iter().find(|found| found.code == item.code).unwrap().verdict)
        };
        assert_eq!(verdicts("down"), [Shown; 2]);
        assert_eq!(verdicts("up"), [Bad; 2]);
    }

    #[test]
    fn virtual_function_has_no_link() {
        let made_up = MadeUp::new(&[
            ("device", "0x0372\n"),
            ("properties/link", "0\n"),
            ("properties/speed", "0\n"),
            ("link_restarts/time_0", "0\n"),
        ]);
        let found = all(&made_up.files, Some(Generation::Cassini2), Some(400.0));
        assert!(found.iter().all(|found| found.verdict == NotAvailable), "{found:?}");
        let nic = all(&MadeUp::new(&[]).files, None, None);
        assert!(found.iter().map(|found| &found.code).eq(nic.iter().map(|found| &found.code)));
        assert_eq!(is_up(&made_up.files), None);
    }

    #[test]
    fn finds_loopback_mode_of_either_generation() {
        for (name, content, mode) in [
            ("port/loopback", "off", None),
            ("port/loopback", "internal", Some("internal")),
            ("port/0/link/config/loopback", "disabled\n", None),
            ("port/0/link/config/loopback", "error\n", None),
            ("port/0/link/config/loopback", "enabled-headshell\n", Some("enabled-headshell")),
            ("properties/link", "1", None),
        ] {
            let found = loopback_mode(&MadeUp::new(&[(name, content)]).files);
            assert_eq!(found.as_deref(), mode, "{name} {content}");
        }
    }

    /// health.md 2.1: either direction of the link may have lost lanes.
    #[test]
    fn finds_lost_lanes_of_either_direction() {
        let finding = |states: &[(&str, &str)]| {
            let made_up = MadeUp::new(&[]);
            for (name, state) in states {
                made_up.write(&format!("port/0/link/auto_lane_degrade/{name}"), state);
            }
            let found = lanes(&made_up.files);
            (found.verdict, found.value)
        };
        let [received, sent] = ["is_rx_degraded", "is_tx_degraded"];
        let speeds = [("rx_link_speed_gbps", "200\n"), ("tx_link_speed_gbps", "--\n")];
        let both_ways = |rx, tx| finding(&[&[(received, rx), (sent, tx)], &speeds[..]].concat());
        assert_eq!(both_ways("no\n", "no\n"), (Good, Some("all".into())));
        assert_eq!(both_ways("yes\n", "no\n"), (Bad, Some("degraded, receives 200 Gb/s".into())));
        assert_eq!(both_ways("no\n", "yes\n"), (Bad, Some("degraded, sends on fewer".into())));
        let both = "degraded, receives 200 Gb/s, sends on fewer";
        assert_eq!(both_ways("yes\n", "yes\n"), (Bad, Some(both.into())));
        assert_eq!(both_ways("yes\n", "error\n").0, Bad);
        assert_eq!(both_ways("--\n", "--\n").0, NotAvailable);
        assert_eq!(finding(&[(received, "no\n")]).0, NotAvailable);
    }

    /// health.md 2.1.3: the limits of a NIC's warnings are off, so `no` says nothing.
    #[test]
    fn warnings_need_a_limit() {
        let verdict = |limit: &str, crossed: &str| {
            let made_up = MadeUp::new(&[
                ("port/0/link/fec/monitor_check/ccw_warn_limit", limit),
                ("port/0/link/ccw_warn_limit_crossed", crossed),
                ("port/0/link/ucw_warn_limit_crossed", "yes"),
            ]);
            warnings(&made_up.files).verdict
        };
        for off in ["0\n", "not-monitoring\n", "calculated\n", ""] {
            assert_eq!(verdict(off, "no\n"), NotAvailable, "{off}");
        }
        let cases = ["no\n", "yes\n", "error\n"].map(|crossed| verdict("100\n", crossed));
        assert_eq!(cases, [Good, Suspect, NotAvailable]);
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
