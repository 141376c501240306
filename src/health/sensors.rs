//! The sensors of a card: temperatures and power, with their limits (node-tools.md 5.2, 5.3).
//!
//! The kernel shows them to any user as sensors of the NIC (hwmon, health.md 2.1); each reading
//! asks the controller of the card, which takes milliseconds.

use node::nic::files::Files;
use node::reading;

/// Temperatures that are too high, in C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TemperatureLimits {
    /// What scripts recognize a temperature with these limits by.
    pub code: &'static str,
    /// From this one on, the criterion of cxi_heatsink_check is not met.
    pub high: f64,
    /// From this one on, cxi_heatsink_check ends its load.
    pub critical: f64,
}

/// Limits of chips.
pub const ASIC: TemperatureLimits =
    TemperatureLimits { code: "asic-temperature", high: 85.0, critical: 90.0 };

/// Limits of the end of a cable that has none of its own.
pub const MEDIA: TemperatureLimits =
    TemperatureLimits { code: "media-temperature", high: 70.0, critical: 75.0 };

/// Limits of voltage regulators.
pub const REGULATOR: TemperatureLimits =
    TemperatureLimits { code: "regulator-temperature", high: 125.0, critical: 130.0 };

/// What a sensor measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SensorKind {
    Temperature(TemperatureLimits),
    Power,
}

/// A sensor that boards have.
#[derive(Debug)]
pub struct Sensor {
    /// Beginning of its label.
    pub label: &'static str,
    /// Name of its column.
    pub column: &'static str,
    pub kind: SensorKind,
    /// Whether a sensor without a value is no error: not every cable has one.
    pub may_lack_value: bool,
}

impl Sensor {
    const fn temperature(
        label: &'static str,
        column: &'static str,
        limits: TemperatureLimits,
    ) -> Self {
        let kind = SensorKind::Temperature(limits);
        Self { label, column, kind, may_lack_value: false }
    }

    const fn cable(label: &'static str, column: &'static str) -> Self {
        Self { may_lack_value: true, ..Self::temperature(label, column, MEDIA) }
    }

    const fn power(label: &'static str, column: &'static str) -> Self {
        Self { label, column, kind: SensorKind::Power, may_lack_value: false }
    }

    /// The limits of a temperature; `None` of a power.
    pub fn limits(&self) -> Option<TemperatureLimits> {
        match self.kind {
            SensorKind::Temperature(limits) => Some(limits),
            SensorKind::Power => None,
        }
    }

    /// The symbol of its unit.
    pub fn unit(&self) -> &'static str {
        if self.limits().is_some() { "°C" } else { "W" }
    }
}

static VDD_1: Sensor = Sensor::power("0.85V S0 Power", "VDD");
static AVDD_1: Sensor = Sensor::power("0.9V S0 Power", "AVDD");
static VDD_2: Sensor = Sensor::power("0.765V Power", "VDD");
static AVDD_2: Sensor = Sensor::power("VDDA 0.75V Power", "AVDD");
static TRVDD: Sensor = Sensor::power("TRVDD 0.9V Power", "TRVDD");
static QSFP: Sensor = Sensor::power("3.3V QSFP Power", "QSFP");
static ASIC_0: Sensor = Sensor::temperature("Cassini 0 Temperature", "ASIC_0", ASIC);
static ASIC_1: Sensor = Sensor::temperature("Cassini 1 Temperature", "ASIC_1", ASIC);
static QSFP_VR: Sensor = Sensor::temperature("3.3V QSFP VR Temperature", "QSFP_VR", REGULATOR);
static QSFP_INT: Sensor = Sensor::cable("QSFP Internal Temperature", "QSFP_INT");
static OSFP_INT: Sensor = Sensor::cable("OSFP Internal Temperature", "OSFP_INT");

/// All sensors.
static SENSORS: [&Sensor; 11] = [
    &VDD_1, &AVDD_1, &VDD_2, &AVDD_2, &TRVDD, &QSFP, &ASIC_0, &ASIC_1, &QSFP_VR, &QSFP_INT,
    &OSFP_INT,
];

/// A kind of card.
#[derive(Debug)]
pub struct Board {
    /// Its letter.
    pub letter: char,
    /// Beginnings of its part numbers.
    part_numbers: &'static [&'static str],
    /// Whether it has two NICs.
    pub is_dual: bool,
    /// Its sensors, in the order of columns.
    sensors: &'static [&'static Sensor],
}

static BOARDS: [Board; 5] = [
    Board {
        letter: 'B',
        part_numbers: &["10232510", "P41345-"],
        is_dual: false,
        sensors: &[&VDD_1, &AVDD_1, &QSFP, &ASIC_0, &QSFP_VR, &QSFP_INT],
    },
    Board {
        letter: 'S',
        part_numbers: &["10225100", "P43012-"],
        is_dual: true,
        sensors: &[&VDD_1, &AVDD_1, &ASIC_0, &ASIC_1],
    },
    Board {
        letter: 'K',
        part_numbers: &["P52930-"],
        is_dual: false,
        sensors: &[&VDD_2, &AVDD_2, &TRVDD, &ASIC_0, &QSFP_INT],
    },
    Board {
        letter: 'W',
        part_numbers: &["P48765-"],
        is_dual: true,
        sensors: &[&VDD_2, &AVDD_2, &TRVDD, &ASIC_0, &ASIC_1],
    },
    Board {
        letter: 'O',
        part_numbers: &["P68492-"],
        is_dual: true,
        sensors: &[&VDD_2, &AVDD_2, &TRVDD, &ASIC_0, &ASIC_1, &OSFP_INT],
    },
];

/// The part number of a card, if its driver shows it.
pub fn part_number(files: &Files) -> Option<String> {
    files.text("fru/part_number")
}

/// The kind of card with this part number.
pub fn board(part_number: &str) -> Option<&'static Board> {
    let has =
        |board: &&Board| board.part_numbers.iter().any(|start| part_number.starts_with(start));
    BOARDS.iter().find(has)
}

/// The column of the power whose sensor has this label.
pub fn power_column(label: &str) -> Option<&'static str> {
    let mut powers = SENSORS.iter().filter(|sensor| sensor.limits().is_none());
    powers.find(|sensor| label.starts_with(sensor.label)).map(|sensor| sensor.column)
}

/// Returns label and input of each sensor whose file name begins with `kind`, such as `temp`.
pub fn inputs(files: &Files, kind: &str) -> Vec<(String, String)> {
    let mut inputs = Vec::new();
    for chip in files.entries("hwmon") {
        let directory = format!("hwmon/{chip}");
        for entry in files.entries(&directory) {
            let sensor = entry.strip_suffix("_label").filter(|name| name.starts_with(kind));
            let label = sensor.and_then(|_| files.text(&format!("{directory}/{entry}")));
            if let (Some(sensor), Some(label)) = (sensor, label) {
                inputs.push((label, format!("{directory}/{sensor}_input")));
            }
        }
    }
    inputs
}

/// The limits of a cable itself, in C (health.md 2.1): for a warning and for taking the link down.
/// Releases up to 14.0.0 have one, whose name does not say which: it counts as the limit for a
/// warning [I: health.md 2.1]. Limits that contradict each other are none.
pub fn cable_limits(files: &Files) -> [Option<f64>; 2] {
    let limit = |name: &str| {
        let celsius: f64 = files.link_value(&format!("media/{name}_celsius")).ok()?.parse().ok()?;
        (celsius.is_finite() && celsius > 0.0).then_some(celsius)
    };
    let warning = limit("temperature_warn_limit").or_else(|| limit("high_temperature_threshold"));
    match [warning, limit("temperature_down_limit")] {
        [Some(warning), Some(down)] if warning > down => [None; 2],
        limits => limits,
    }
}

/// The sensors of one NIC.
#[derive(Debug)]
pub struct Sensors {
    files: Files,
    /// Each sensor with its input; `None` if the driver does not show it.
    sensors: Vec<(&'static Sensor, Option<String>)>,
}

impl Sensors {
    /// Finds the sensors of a `board`; of an unknown one, all that the driver shows.
    pub fn find(files: &Files, board: Option<&Board>) -> Self {
        let [temperatures, powers] = ["temp", "power"].map(|kind| inputs(files, kind));
        let input = |sensor: &&Sensor| {
            let inputs = if sensor.limits().is_some() { &temperatures } else { &powers };
            let (_, input) = inputs.iter().find(|(label, _)| label.starts_with(sensor.label))?;
            Some(input.clone())
        };
        let sensors = board.map_or(&SENSORS[..], |board| board.sensors).iter();
        let found = sensors.map(|sensor| (*sensor, input(sensor)));
        let found = found.filter(|(_, input)| board.is_some() || input.is_some());
        Self { files: files.clone(), sensors: found.collect() }
    }

    /// The sensors, in the order of [`Self::read`].
    pub fn list(&self) -> Vec<&'static Sensor> {
        self.sensors.iter().map(|(sensor, _)| *sensor).collect()
    }

    /// The first temperature of the board that the driver does not show, if it lacks one that each
    /// card has.
    pub fn absent(&self) -> Option<&'static Sensor> {
        let is_needed = |sensor: &Sensor| sensor.limits().is_some() && !sensor.may_lack_value;
        let mut absent = self.sensors.iter().filter(|(_, input)| input.is_none());
        absent.find(|(sensor, _)| is_needed(sensor)).map(|(sensor, _)| *sensor)
    }

    /// Reads the sensors, in C and W; `None` for a sensor without a value.
    pub fn read(&self) -> Vec<Option<f64>> {
        let read = |(sensor, input): &(&Sensor, Option<String>)| {
            // Below zero, the number has a sign. A sensor without a value fails to be read.
            let text = reading::text(&self.files.path(input.as_ref()?)).ok()?;
            let number: f64 = text.trim().parse().ok()?;
            Some(number / if sensor.limits().is_some() { 1e3 } else { 1e6 })
        };
        self.sensors.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::nic::testing::MadeUp;

    /// Sensors of all boards, with the same label of temperature and power in one of them.
    fn all_sensors() -> MadeUp {
        let made_up = MadeUp::new(&[]);
        for (number, sensor) in SENSORS.iter().enumerate() {
            let (kind, scale) =
                if sensor.limits().is_some() { ("temp", 1000) } else { ("power", 1_000_000) };
            let start = format!("hwmon/hwmon3/{kind}{number}");
            made_up.write(&format!("{start}_label"), &format!("{}\n", sensor.label));
            made_up.write(&format!("{start}_input"), &format!("{}\n", (number + 10) * scale));
        }
        made_up
    }

    fn columns(sensors: &Sensors) -> String {
        sensors.list().iter().map(|sensor| sensor.column).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn finds_sensors_of_each_board() {
        let made_up = all_sensors();
        for (part_number, letter, is_dual, expected) in [
            ("P41345-001", 'B', false, "VDD AVDD QSFP ASIC_0 QSFP_VR QSFP_INT"),
            ("10232510-2", 'B', false, "VDD AVDD QSFP ASIC_0 QSFP_VR QSFP_INT"),
            ("P43012-001", 'S', true, "VDD AVDD ASIC_0 ASIC_1"),
            ("P52930-001", 'K', false, "VDD AVDD TRVDD ASIC_0 QSFP_INT"),
            ("P48765-B21", 'W', true, "VDD AVDD TRVDD ASIC_0 ASIC_1"),
            ("P68492-001", 'O', true, "VDD AVDD TRVDD ASIC_0 ASIC_1 OSFP_INT"),
        ] {
            let board = board(part_number).unwrap();
            assert_eq!((board.letter, board.is_dual), (letter, is_dual), "{part_number}");
            let sensors = Sensors::find(&made_up.files, Some(board));
            assert_eq!(columns(&sensors), expected, "{part_number}");
            assert!(sensors.absent().is_none());
            assert!(sensors.read().iter().all(Option::is_some));
        }
        assert!(board("P99999-001").is_none() && board("").is_none());
    }

    #[test]
    fn reads_degrees_and_watts_of_shown_sensors() {
        let made_up = MadeUp::new(&[
            ("hwmon/hwmon3/temp1_label", "Cassini 0 Temperature\n"),
            ("hwmon/hwmon3/temp1_input", "-5500\n"),
            ("hwmon/hwmon3/temp2_label", "QSFP Internal Temperature\n"),
            ("hwmon/hwmon3/power1_label", "0.765V Power\n"),
            ("hwmon/hwmon3/power1_input", "16250000\n"),
        ]);
        let shown = Sensors::find(&made_up.files, board("P52930-001"));
        let expected = [Some(16.25), None, None, Some(-5.5), None];
        assert_eq!(shown.read(), expected);
        assert!(shown.absent().is_none(), "only powers");
        let dual = Sensors::find(&made_up.files, board("P48765-001"));
        assert_eq!(dual.absent().map(|sensor| sensor.column), Some("ASIC_1"));
        let all_shown = Sensors::find(&made_up.files, None);
        assert_eq!(columns(&all_shown), "VDD ASIC_0 QSFP_INT");
        assert_eq!(all_shown.read(), [Some(16.25), Some(-5.5), None]);
    }
}
