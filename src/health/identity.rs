//! What a NIC is: shown without a limit, to be compared with other nodes. Errors of its memory have
//! one.

use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::pcie_path::gigatransfers;
use node::traffic_class::TrafficClass;

/// Uncorrectable errors of memories of the chip.
pub static MEMORY_ERRORS: Item = Item {
    code: "memory-errors",
    name: "chip memory errors",
    source: "HPE",
    remedy: "uncorrectable memory errors of the chip: replace the card if they come back after a reset",
};

/// The QoS profile.
pub static QOS_PROFILE: Item = Item {
    code: "qos-profile",
    name: "QoS profile",
    source: "driver",
    remedy: "all nodes and switches need the same profile",
};

/// The ceilings of the classes for large transfers.
pub static CLASS_CEILING: Item = Item::compared_by_hand("class-ceiling", "ceiling of classes");

/// The extended speed of the connection to the host.
pub static ESM: Item = Item::compared_by_hand("esm", "extended PCIe speed");

/// The generation of the chip.
pub static GENERATION: Item = Item::shown("generation", "generation");

/// The number of the card.
pub static SERIAL: Item = Item::shown("serial", "serial number");

/// The version of the firmware.
pub static FIRMWARE: Item = Item::compared_by_hand("firmware", "firmware");

/// The version of the driver.
pub static DRIVER: Item = Item::compared_by_hand("driver", "driver");

/// The profiles that the driver knows (jobs.md 1.7).
const PROFILES: [&str; 3] = ["HPC", "LL_BE_BD_ET", "LL_BE_BD_ET1_ET2"];

/// The blocks of the chip that count uncorrectable errors (health.md 1.5).
const MEMORIES: [&str; 10] = [
    "atu_mem_ucor_err_cntr",
    "cq_mem_ucor_err_cntr",
    "ee_mem_ucor_err_cntr",
    "ixe_mem_ucor_err_cntr",
    "lpe_mem_ucor_err_cntr",
    "mst_mem_ucor_err_cntr",
    "oxe_mem_ucor_err_cntr",
    "pct_mem_ucor_err_cntr",
    "rmu_mem_ucor_err_cntr",
    "hni_ucor_ecc_err_cntr",
];

/// Uncorrectable errors of memories of the chip since the driver was loaded.
pub fn memory_errors(files: &Files) -> Finding {
    let counts: Vec<(&str, u64)> =
        MEMORIES.iter().filter_map(|name| Some((*name, files.counter(name)?.value))).collect();
    if counts.is_empty() {
        return Finding::absent(&MEMORY_ERRORS);
    }
    let block_text = |(name, count): &(&str, u64)| {
        let block = name.split('_').next().unwrap_or_default();
        format!("{} {count}", block.to_uppercase())
    };
    let with_errors: Vec<String> =
        counts.iter().filter(|(_, count)| *count > 0).map(block_text).collect();
    let value = if with_errors.is_empty() { "0".to_owned() } else { with_errors.join(", ") };
    let verdict = unless_good(!with_errors.is_empty(), Severity::Bad);
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    Finding::compared(&MEMORY_ERRORS, value, "0", verdict).with_number(total as f64)
}

/// The active QoS profile.
pub fn qos_profile(files: &Files) -> Finding {
    let Some(profile) = files.text("traffic_classes/active_qos_profile") else {
        return Finding::absent(&QOS_PROFILE);
    };
    let verdict = unless_good(!PROFILES.contains(&profile.as_str()), Severity::Suspect);
    Finding::compared(&QOS_PROFILE, profile, "one of the driver's", verdict)
}

/// The classes for large transfers. LOW_LATENCY is left out: each profile limits it.
const BULK_CLASSES: [TrafficClass; 2] = [TrafficClass::BestEffort, TrafficClass::BulkData];

/// The value of classes without a ceiling.
const NO_CEILING: &str = "100 %";

/// The ceilings of the classes for large transfers, in percent of the link, the lowest first.
pub fn class_ceiling(files: &Files) -> Finding {
    let percent_of = |class: TrafficClass| {
        let directory = class.to_string().to_lowercase();
        let percent = files.number(&format!("traffic_classes/{directory}/ceiling_bw"))?;
        Some((percent, class))
    };
    let mut known: Vec<_> = BULK_CLASSES.into_iter().filter_map(percent_of).collect();
    known.sort_by_key(|(percent, _)| *percent);
    let parts = known.iter().map(|(percent, class)| (*class, *percent as f64 / 100.0));
    let limited = parts.clone().filter(|(_, part)| *part < 1.0);
    let limited: Vec<String> = limited.map(|(class, part)| ceiling(class, part)).collect();
    let value = if limited.is_empty() { NO_CEILING.to_owned() } else { limited.join(", ") };
    let number = parts.clone().next().map(|(_, part)| part);
    let numbers = parts.map(|(class, part)| (class.to_string(), part)).collect();
    Finding { number, numbers, ..Finding::shown_if(&CLASS_CEILING, number.map(|_| value)) }
}

/// The ceiling of a class, this part of the link, in words.
pub fn ceiling(class: TrafficClass, part: f64) -> String {
    if part < 1.0 { format!("{:.0} % of {class}", 100.0 * part) } else { NO_CEILING.to_owned() }
}

/// The extended speed of the connection to the host, which some blades have.
pub fn extended_speed(files: &Files) -> Finding {
    let text = files.text("properties/current_esm_link_speed");
    let number = text.as_deref().and_then(gigatransfers).map(|speed| speed * 1e9);
    Finding { number, ..Finding::shown_if(&ESM, text) }
}

/// Generation, serial number, firmware and driver.
pub fn versions(files: &Files, generation: Option<Generation>, is_software: bool) -> Vec<Finding> {
    let version = files.text("properties/cassini_version");
    let number = generation.filter(|_| !is_software).map(|generation| match generation {
        Generation::Cassini1 => 1.0,
        Generation::Cassini2 => 2.0,
    });
    let generation = if is_software {
        Some("software NIC".into())
    } else {
        let version = version.filter(|version| version != "unknown");
        let version = version.or(number.map(|number: f64| number.to_string()));
        version.map(|version| format!("Cassini {version}"))
    };
    let kind = if files.is_virtual_function() { ", virtual function" } else { "" };
    let generation = generation.map(|generation| format!("{generation}{kind}"));
    vec![
        Finding { number, ..Finding::shown_if(&GENERATION, generation) },
        Finding::shown_if(&SERIAL, files.text("fru/serial_number")),
        Finding::shown_if(&FIRMWARE, files.text("uc/qspi_blob_version")),
        Finding::shown_if(&DRIVER, files.text("properties/driver_rev")),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_verdicts;
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn any_uncorrectable_memory_error_is_bad() {
        let cases = [("0@1.000000000\n", Good), ("1@1.000000000\n", Bad), ("", NotAvailable)];
        for name in ["atu_mem_ucor_err_cntr", "hni_ucor_ecc_err_cntr"] {
            assert_verdicts(&format!("telemetry/{name}"), memory_errors, &cases);
        }
    }

    #[test]
    fn unknown_profile_is_suspect() {
        let cases = [("HPC\n", Good), ("LL_BE_BD_ET\n", Good), ("OTHER\n", Suspect)];
        assert_verdicts("traffic_classes/active_qos_profile", qos_profile, &cases);
    }

    #[test]
    fn shows_ceilings_of_classes_for_large_transfers() {
        let file = |class: &str| format!("traffic_classes/{class}/ceiling_bw");
        let value = |files: &[(&str, &str)]| class_ceiling(&MadeUp::new(files).files).value;
        let names = ["best_effort", "bulk_data", "low_latency"].map(file);
        let [best_effort, bulk_data, low_latency] = names.each_ref().map(String::as_str);
        let full = [(best_effort, "100\n"), (low_latency, "5\n")];
        assert_eq!(value(&full).as_deref(), Some("100 %"));
        let limited = [(best_effort, "100\n"), (bulk_data, "50\n")];
        assert_eq!(value(&limited).as_deref(), Some("50 % of BULK_DATA"));
        let both = [(best_effort, "60\n"), (bulk_data, "50\n")];
        let expected = "50 % of BULK_DATA, 60 % of BEST_EFFORT";
        assert_eq!(value(&both).as_deref(), Some(expected));
        assert_eq!(value(&[]), None);
        let numbers = class_ceiling(&MadeUp::new(&both).files).numbers;
        let each = [("BEST_EFFORT".to_owned(), 0.6), ("BULK_DATA".to_owned(), 0.5)];
        assert_eq!(numbers, each.into());
        assert_eq!(ceiling(TrafficClass::BestEffort, 0.57), "57 % of BEST_EFFORT");
        assert_eq!(ceiling(TrafficClass::BulkData, 1.0), "100 %");
    }

    #[test]
    fn shows_versions_without_a_verdict() {
        let made_up = MadeUp::new(&[
            ("properties/cassini_version", "1.1\n"),
            ("uc/qspi_blob_version", "1.5.53\n"),
        ]);
        let found = versions(&made_up.files, Some(Generation::Cassini1), false);
        let values = found.iter().map(|found| (found.value.as_deref(), found.verdict));
        let values: Vec<_> = values.collect();
        let expected = [
            (Some("Cassini 1.1"), Shown),
            (None, NotAvailable),
            (Some("1.5.53"), Shown),
            (None, NotAvailable),
        ];
        assert_eq!(values, expected);
        let software = versions(&made_up.files, Some(Generation::Cassini1), true);
        assert_eq!(software[0].value.as_deref(), Some("software NIC"));
    }
}
