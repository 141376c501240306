//! Power and voltages of the supplies of a card, as its driver shows them to any user (hwmon,
//! health.md 2.1).

use super::item::{Finding, Item};
use crate::sensors;
use node::nic::files::Files;

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
    use super::*;
    use node::nic::testing::MadeUp;

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
