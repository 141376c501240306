//! Temperatures of the chip, of the end of the cable and of its voltage regulator; power and
//! voltages of the supplies of a card. The kernel shows them to any user as sensors of the NIC
//! (hwmon, health.md 2.1); each reading asks the controller of the card.

use facts::severity::Severity;
use node::nic::files::{Files, NoValue};

use crate::item::{Finding, Item, unless_good};
use crate::sensors::{self, TemperatureLimits};

/// The hottest chip of the card.
pub static ASIC: Item = Item {
    code: sensors::ASIC.code,
    name: "ASIC temperature",
    source: "cxi_heatsink_check",
    remedy: "the chip is too hot: check fans, air flow and heat sink",
};

/// The end of the cable.
pub static MEDIA: Item = Item {
    code: sensors::MEDIA.code,
    name: "media temperature",
    source: "cxi_heatsink_check",
    remedy: "the cable is too hot: check the air flow in front of the card, or replace the cable",
};

/// The voltage regulator of the cable, the only one whose limits are known.
pub static REGULATOR: Item = Item {
    code: sensors::REGULATOR.code,
    name: "regulator temperature",
    source: "cxi_heatsink_check",
    remedy: "a voltage regulator is too hot: check fans, air flow and heat sink",
};

/// Sensors of one kind, by the text in their labels (node-tools.md 5.3).
struct TemperatureSensors {
    item: &'static Item,
    label: &'static str,
    limits: TemperatureLimits,
}

/// The temperature of the cable of a Cassini 2 in whole C (health.md 2.1).
const CABLE: &str = "media/temperature_celsius";

const KINDS: [TemperatureSensors; 3] = [
    TemperatureSensors { item: &ASIC, label: "Cassini ", limits: sensors::ASIC },
    TemperatureSensors { item: &MEDIA, label: "SFP Internal Temperature", limits: sensors::MEDIA },
    TemperatureSensors {
        item: &REGULATOR,
        label: "3.3V QSFP VR Temperature",
        limits: sensors::REGULATOR,
    },
];

/// The temperatures of a NIC, of each kind the highest.
pub fn temperatures(files: &Files) -> Vec<Finding> {
    let inputs = sensors::inputs(files, "temp");
    KINDS.iter().map(|kind| hottest(files, &inputs, kind)).collect()
}

fn hottest(files: &Files, inputs: &[(String, String)], kind: &TemperatureSensors) -> Finding {
    let inputs = inputs.iter().filter(|(label, _)| label.contains(kind.label));
    // Below zero, the number has a sign. A sensor without a value fails to be read.
    let readings = inputs.filter_map(|(_, input)| files.text(input)?.parse::<f64>().ok());
    let hottest = readings.map(|thousandths| thousandths / 1000.0).reduce(f64::max);
    let is_cable = *kind.item == MEDIA;
    // Some cards have no sensor for it.
    let at_link = || -> Result<f64, NoValue> {
        if !is_cable {
            return Err(None);
        }
        files.link_value(CABLE)?.parse().map_err(|_| None)
    };
    let celsius = match hottest.map_or_else(at_link, Ok) {
        Ok(celsius) => celsius,
        Err(why) => return Finding::without(kind.item, why),
    };
    let own_limits = if is_cable { sensors::cable_limits(files) } else { [None; 2] };
    let (high, critical, owner) = match own_limits {
        [None, None] => (kind.limits.high, Some(kind.limits.critical), ""),
        [warning, down] => {
            (warning.or(down).unwrap_or(f64::INFINITY), down, " of the cable itself")
        }
    };
    let is_critical = critical.is_some_and(|critical| celsius >= critical);
    let verdict =
        if is_critical { Severity::Bad } else { unless_good(celsius >= high, Severity::Suspect) };
    let bad = critical.map_or(String::new(), |critical| format!(" (bad: {critical} C)"));
    let limit = format!("<{high} C{bad}{owner}");
    // Rounded, but not up to a limit that it does not reach.
    let rounds_up_to = |limit: f64| celsius < limit && celsius.round() >= limit;
    let rounds_to_limit = rounds_up_to(high) || critical.is_some_and(rounds_up_to);
    let shown = if rounds_to_limit { celsius.floor() } else { celsius };
    let text = format!("{shown:.0} C");
    Finding::compared(kind.item, text, limit, verdict).with_number(celsius)
}

/// The powers that cxi_heatsink_check shows, each with the column that it has there.
pub static POWERS: [(&str, Item); 4] = [
    ("VDD", Item::shown("vdd-power", "VDD power")),
    ("AVDD", Item::shown("avdd-power", "AVDD power")),
    ("TRVDD", Item::shown("trvdd-power", "TRVDD power")),
    ("QSFP", Item::shown("qsfp-power", "QSFP power")),
];

pub static VOLTAGES: Item = Item::shown("voltages", "voltages");

/// Power and voltages of a NIC.
pub fn supplies(files: &Files) -> Vec<Finding> {
    let [powers, voltages] = ["power", "in"].map(|kind| sensors::inputs(files, kind));
    // A sensor without a value fails to be read.
    let number = |input: &str| files.text(input)?.parse::<f64>().ok();
    let mut findings: Vec<Finding> = POWERS
        .iter()
        .map(|(column, item)| {
            let is_own = |label: &str| sensors::power_column(label) == Some(column);
            let input = powers.iter().find(|(label, _)| is_own(label));
            let watts =
                input.and_then(|(_, input)| number(input)).map(|microwatts| microwatts / 1e6);
            let text = watts.map(|watts| format!("{watts:.1} W"));
            Finding { number: watts, ..Finding::shown_if(item, text) }
        })
        .collect();
    let volts = voltages.iter().filter_map(|(label, input)| {
        Some((label, number(input).map(|millivolts| millivolts / 1e3)?))
    });
    let volts: Vec<(&String, f64)> = volts.collect();
    let [least, most] =
        [f64::min, f64::max].map(|choose| volts.iter().map(|(_, volts)| *volts).reduce(choose));
    let text = least.zip(most).map(|(least, most)| format!("{least:.3} V to {most:.3} V"));
    let each = volts.iter().map(|(label, volts)| format!("{label} {volts:.3} V"));
    let note = text.is_some().then(|| each.collect::<Vec<_>>().join(", "));
    // With a number, two checks may differ a little.
    findings.push(Finding { number: most, note, ..Finding::shown_if(&VOLTAGES, text) });
    findings
}

#[cfg(test)]
mod tests {
    use facts::severity::Severity::{Bad, Good, NotAvailable, Suspect};
    use node::nic::testing::MadeUp;

    use super::*;

    fn findings(sensors: &[(&str, &str)]) -> Vec<Finding> {
        let made_up = MadeUp::new(&[]);
        for (number, (label, input)) in sensors.iter().enumerate() {
            let start = format!("hwmon/hwmon3/temp{}", number + 1);
            made_up.write(&format!("{start}_label"), &format!("{label}\n"));
            if !input.is_empty() {
                made_up.write(&format!("{start}_input"), &format!("{input}\n"));
            }
        }
        temperatures(&made_up.files)
    }

    fn verdicts(sensors: &[(&str, &str)]) -> [Severity; 3] {
        let findings = findings(sensors);
        let codes = [&ASIC, &MEDIA, &REGULATOR].map(|item| item.code);
        assert!(findings.iter().map(|found| &*found.code).eq(codes));
        [0, 1, 2].map(|place: usize| findings[place].verdict)
    }

    #[test]
    fn hottest_of_each_kind_is_compared_with_its_limits() {
        let cable = ("QSFP Internal Temperature", "69999");
        for (chip, verdict) in [("84999", Good), ("85000", Suspect), ("90000", Bad)] {
            let chips = [("Cassini 0 Temperature", "40000"), ("Cassini 1 Temperature", chip)];
            assert_eq!(verdicts(&[chips[0], chips[1], cable]), [verdict, Good, NotAvailable]);
        }
        for (cable, verdict) in [("-5000", Good), ("70000", Suspect), ("75000", Bad)] {
            let cable = ("OSFP Internal Temperature", cable);
            assert_eq!(verdicts(&[cable]), [NotAvailable, verdict, NotAvailable]);
        }
        for (regulator, verdict) in [("124999", Good), ("125000", Suspect), ("130000", Bad)] {
            let regulator = ("3.3V QSFP VR Temperature", regulator);
            assert_eq!(verdicts(&[regulator]), [NotAvailable, NotAvailable, verdict]);
        }
    }

    #[test]
    fn link_shows_temperature_of_a_cable_without_sensor() {
        let made_up = MadeUp::new(&[("port/0/media/temperature_celsius", "71\n")]);
        let values = || temperatures(&made_up.files).into_iter().map(|found| found.value);
        assert!(values().eq([None, Some("71 C".into()), None]));
        made_up.write("hwmon/hwmon3/temp1_label", "OSFP Internal Temperature\n");
        made_up.write("hwmon/hwmon3/temp1_input", "44000\n");
        assert!(values().eq([None, Some("44 C".into()), None]));
    }

    #[test]
    fn limits_of_the_cable_come_before_fixed_ones() {
        const WARNING: &str = "temperature_warn_limit_celsius";
        const DOWN: &str = "temperature_down_limit_celsius";
        let made_up = MadeUp::new(&[("hwmon/hwmon3/temp1_label", "QSFP Internal Temperature\n")]);
        let write = |name: &str, text: &str| made_up.write(&format!("port/0/media/{name}"), text);
        let verdicts = |sensors: [&str; 3]| {
            sensors.map(|celsius| {
                made_up.write("hwmon/hwmon3/temp1_input", &format!("{celsius}000\n"));
                temperatures(&made_up.files)[1].verdict
            })
        };
        assert_eq!(verdicts(["69", "74", "77"]), [Good, Suspect, Bad]);
        for word in ["no-cable\n", "error\n", "not-active\n"] {
            [WARNING, DOWN].iter().for_each(|name| write(name, word));
            assert_eq!(verdicts(["69", "74", "77"]), [Good, Suspect, Bad], "{word}");
        }
        write("high_temperature_threshold_celsius", "78\n");
        assert_eq!(verdicts(["77", "79", "95"]), [Good, Suspect, Suspect]);
        write(WARNING, "80\n");
        assert_eq!(verdicts(["77", "80", "95"]), [Good, Suspect, Suspect]);
        write(DOWN, "90\n");
        assert_eq!(verdicts(["77", "80", "90"]), [Good, Suspect, Bad]);
        let limit = temperatures(&made_up.files)[1].limit.clone();
        assert_eq!(limit.as_deref(), Some("<80 C (bad: 90 C) of the cable itself"));
        write("high_temperature_threshold_celsius", "error\n");
        for no_limit in ["nan", "inf", "0", "-5", "error"] {
            write(WARNING, no_limit);
            assert_eq!(verdicts(["77", "89", "90"]), [Good, Good, Bad], "{no_limit}");
        }
        write(WARNING, "91");
        assert_eq!(verdicts(["69", "74", "77"]), [Good, Suspect, Bad], "above the other");
        // The chip has its own.
        made_up.write("hwmon/hwmon3/temp1_label", "Cassini 0 Temperature\n");
        made_up.write("hwmon/hwmon3/temp1_input", "86000\n");
        assert_eq!(temperatures(&made_up.files)[0].verdict, Suspect);
    }

    #[test]
    fn does_not_round_up_to_a_limit() {
        for (sensor, text) in [
            ("61700", "62 C"),
            ("84999", "84 C"),
            ("85000", "85 C"),
            ("85700", "86 C"),
            ("89999", "89 C"),
            ("90000", "90 C"),
        ] {
            let findings = findings(&[("Cassini 0 Temperature", sensor)]);
            assert_eq!(findings[0].value.as_deref(), Some(text));
        }
    }

    #[test]
    fn sensors_without_value_and_of_other_parts_have_no_verdict() {
        let other = ("Core VR Temperature", "120000");
        let cable = ("QSFP Internal Temperature", "");
        assert_eq!(verdicts(&[other, cable]), [NotAvailable; 3]);
    }

    #[test]
    fn shows_power_of_each_supply_and_all_voltages() {
        let made_up = MadeUp::new(&[
            ("hwmon/hwmon3/power1_label", "0.765V Power\n"),
            ("hwmon/hwmon3/power1_input", "16250000\n"),
            ("hwmon/hwmon3/power2_label", "VDDA 0.75V Power\n"),
            ("hwmon/hwmon3/power3_label", "Another Power\n"),
            ("hwmon/hwmon3/power3_input", "1000000\n"),
            ("hwmon/hwmon3/in0_label", "0.765V Voltage\n"),
            ("hwmon/hwmon3/in0_input", "771\n"),
            ("hwmon/hwmon3/in1_label", "12V Voltage\n"),
            ("hwmon/hwmon3/in1_input", "12065\n"),
            ("hwmon/hwmon3/in2_label", "without a value\n"),
        ]);
        let findings = supplies(&made_up.files);
        let values: Vec<_> = findings.iter().map(|found| found.value.as_deref()).collect();
        assert_eq!(values, [Some("16.2 W"), None, None, None, Some("0.771 V to 12.065 V")]);
        let volts = "0.765V Voltage 0.771 V, 12V Voltage 12.065 V";
        assert_eq!(findings[4].number, Some(12.065));
        assert_eq!(findings[4].note.as_deref(), Some(volts));
        assert_eq!(findings[0].number, Some(16.25));
        assert!(supplies(&MadeUp::new(&[]).files).iter().all(|found| found.value.is_none()));
    }
}
