//! The text of HPE's cxi_heatsink_check (node-tools.md 5.6). Scripts search it: each character
//! counts.

use std::io::{self, Write};

use crate::stress_document::{LEAST_RATE, SensorResult, StressedNic};
use facts::severity::Severity;
use health::sensors::Sensor;
use node::local_address::LocalAddress;
use plan::run_options::Setting;

/// Columns of the names of criteria on boards with a short and with a long one.
const SHORT: usize = 43;
const LONG: usize = 49;

/// Columns of values of criteria.
const VALUE: usize = 12;

/// What the summary shows.
#[derive(Debug)]
pub struct HeatsinkSummary {
    /// Buffers of the writes, and on the side of the target.
    pub memory: [String; 2],
    /// Type of the GPUs, if buffers are on some.
    pub gpu_type: Option<String>,
    pub duration: u64,
    pub interval: u64,
    pub processes: usize,
    pub processors: String,
    pub size: u64,
    pub list_size: u16,
    pub hrp: Setting,
    pub idc: Setting,
    pub has_persistent_entries: bool,
    pub own: LocalAddress,
    pub is_dual: bool,
    /// Number of GPUs of this type, if buffers are on some.
    pub gpu_count: Option<u32>,
}

fn setting(setting: Setting) -> &'static str {
    match setting {
        Setting::Enabled => "Enabled",
        Setting::Disabled => "Disabled",
        Setting::NotApplicable => "Disabled - Not Applicable",
    }
}

fn title(sensor: &Sensor) -> String {
    format!("{}[{}]", sensor.column, sensor.unit())
}

/// Returns the titles of the columns.
fn titles(nic: &StressedNic) -> String {
    let sensors = nic.sensors.iter().map(|result| title(result.sensor));
    let titles = ["Time[s]".to_owned(), "Rate[GB/s]".to_owned()].into_iter().chain(sensors);
    titles.collect::<Vec<_>>().join("  ")
}

/// Returns the line between parts: as long as the titles.
fn rule(nic: &StressedNic) -> String {
    "-".repeat(titles(nic).chars().count())
}

/// Writes the summary and the titles.
pub fn summary(
    out: &mut impl Write,
    nic: &StressedNic,
    summary: &HeatsinkSummary,
) -> io::Result<()> {
    let rule = rule(nic);
    let [tx, rx] = &summary.memory;
    let address = format!("NIC {:#x} VNI {}", summary.own.address.nic, summary.own.vni);
    let entries = if summary.has_persistent_entries { "Enabled" } else { "Disabled" };
    let board = if summary.is_dual { "Dual-NIC" } else { "Single-NIC" };
    let lines = [
        ("Device", Some(nic.name.clone())),
        ("Service ID", Some(summary.own.svc_id.to_string())),
        ("TX Mem", Some(tx.clone())),
        ("RX Mem", Some(rx.clone())),
        ("GPU Type", summary.gpu_type.clone()),
        ("Duration", Some(format!("{} seconds", summary.duration))),
        ("Sensor Interval", Some(format!("{} seconds", summary.interval))),
        ("TX/RX Processes", Some(summary.processes.to_string())),
        ("Processor List", Some(summary.processors.clone())),
        ("RDMA Write Size", Some(summary.size.to_string())),
        ("List Size", Some(summary.list_size.to_string())),
        ("HRP", Some(setting(summary.hrp).into())),
        ("IDC", Some(setting(summary.idc).into())),
        ("Persistent LEs", Some(entries.into())),
        ("Local Address", Some(address)),
        ("Board Type", Some(board.into())),
    ];
    writeln!(out, "{rule}\n    CXI Heatsink Test")?;
    for (label, value) in lines {
        if let Some(value) = value {
            writeln!(out, "{label:<16}: {value}")?;
        }
    }
    if let Some(count) = summary.gpu_count {
        writeln!(out, "Found {count} GPU(s)")?;
    }
    writeln!(out, "{rule}\n{}", titles(nic))
}

/// Returns a value as the program prints it: whole degrees or watts.
fn whole(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{:.0}", value.trunc() + 0.0))
}

/// Writes the row of the last sample, which was due `seconds` after the count began.
pub fn row(out: &mut impl Write, nic: &StressedNic, seconds: u64) -> io::Result<()> {
    let Some(sample) = nic.samples.last() else { return Ok(()) };
    write!(out, "{seconds:>7}  {:>10.2}", sample.bytes_per_s / 1e9)?;
    for (result, value) in nic.sensors.iter().zip(&sample.values) {
        let width = title(result.sensor).chars().count();
        write!(out, "  {:>width$}", whole(*value))?;
    }
    writeln!(out)
}

/// Writes why the load ends early.
pub fn too_hot(out: &mut impl Write, sensor: &Sensor) -> io::Result<()> {
    writeln!(out, "\nError! {} has exceeded safe range. Exiting early.", sensor.label)
}

/// Writes the criteria and whether they are met.
pub fn criteria(out: &mut impl Write, nic: &StressedNic) -> io::Result<()> {
    writeln!(out, "{}", rule(nic))?;
    let has_cable = nic.sensors.iter().any(|result| result.sensor.may_lack_value);
    let width = if has_cable { LONG } else { SHORT };
    let mut line = |name: &str, value: String, verdict: &str| {
        writeln!(out, "{name:<width$}  {value:<VALUE$}{verdict}")
    };
    let temperatures = nic.sensors.iter().filter_map(|result| Some((result, result.limit()?)));
    for (result, limit) in temperatures {
        let SensorResult { sensor, .. } = result;
        let name = format!("{} ({}) under {limit} °C:", sensor.label, sensor.column);
        match result.max {
            Some(_) => line(&name, format!("{} °C", whole(result.max)), verdict(result.verdict))?,
            None => line(&name, "-".into(), verdict(Severity::NotAvailable))?,
        }
    }
    let shown = nic.sensors.iter().filter(|result| matches!(result.sensor.column, "VDD" | "AVDD"));
    for SensorResult { sensor, max, .. } in shown {
        let name = format!("{} ({}):", sensor.label, sensor.column);
        match max {
            Some(_) => line(&name, format!("{} W", whole(*max)), "----")?,
            None => line(&name, "-".into(), verdict(Severity::NotAvailable))?,
        }
    }
    let rate = nic.mean_rate();
    let is_met = if rate >= LEAST_RATE { "PASS" } else { "FAIL" };
    let name = format!("Average BW over {} GB/s:", LEAST_RATE / 1e9);
    line(&name, format!("{:.2} GB/s", rate / 1e9), is_met)
}

fn verdict(verdict: Severity) -> &'static str {
    match verdict {
        Severity::Good => "PASS",
        Severity::Bad => "FAIL",
        _ => "  NA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stress_document::testing::{add, nic};
    use facts::device::FabricAddress;
    use node::gpu::OnGpus;
    use node::traffic_class::TrafficClass;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut text = Vec::new();
        write(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The example of node-tools.md 5.6.
    #[test]
    fn prints_text_of_dual_board() {
        let mut nic = nic("P43012-001");
        let own = LocalAddress {
            address: FabricAddress { nic: 0x13, pid: 1 },
            svc_id: 1,
            vni: 1,
            has_vni_of_range: false,
            class: TrafficClass::BestEffort,
            simulated: false,
            gpus: OnGpus::NONE,
        };
        let shown = HeatsinkSummary {
            memory: ["System".into(), "System".into()],
            gpu_type: None,
            duration: 600,
            interval: 10,
            processes: 16,
            processors: "0-15".into(),
            size: 512,
            list_size: 256,
            hrp: Setting::Enabled,
            idc: Setting::NotApplicable,
            has_persistent_entries: true,
            own,
            is_dual: true,
            gpu_count: None,
        };
        let mut printed = text(|out| summary(out, &nic, &shown));
        add(&mut nic, 21.68, &[Some(16.9), Some(6.2), Some(59.9), Some(58.0)]);
        printed += &text(|out| row(out, &nic, 10));
        assert_eq!(
            printed,
            "\
------------------------------------------------------------
    CXI Heatsink Test
Device          : cxi0
Service ID      : 1
TX Mem          : System
RX Mem          : System
Duration        : 600 seconds
Sensor Interval : 10 seconds
TX/RX Processes : 16
Processor List  : 0-15
RDMA Write Size : 512
List Size       : 256
HRP             : Enabled
IDC             : Disabled - Not Applicable
Persistent LEs  : Enabled
Local Address   : NIC 0x13 VNI 1
Board Type      : Dual-NIC
------------------------------------------------------------
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  ASIC_0[°C]  ASIC_1[°C]
     10       21.68      16        6          59          58
"
        );
        add(&mut nic, 22.24, &[Some(18.0), Some(6.0), Some(69.0), Some(69.0)]);
        assert_eq!(
            text(|out| criteria(out, &nic)),
            "\
------------------------------------------------------------
Cassini 0 Temperature (ASIC_0) under 85 °C:  69 °C       PASS
Cassini 1 Temperature (ASIC_1) under 85 °C:  69 °C       PASS
0.85V S0 Power (VDD):                        18 W        ----
0.9V S0 Power (AVDD):                        6 W         ----
Average BW over 19 GB/s:                     21.96 GB/s  PASS
"
        );
    }

    /// N32: each temperature stands below its title.
    #[test]
    fn n32_columns_of_board_b_are_in_order() {
        let mut nic = nic("P41345-001");
        let values = [Some(10.0), Some(3.0), Some(5.0), Some(64.0), Some(54.0), None];
        add(&mut nic, 20.43, &values);
        assert_eq!(
            text(|out| { writeln!(out, "{}", titles(&nic)).and_then(|()| row(out, &nic, 10)) }),
            "\
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  QSFP[W]  ASIC_0[°C]  QSFP_VR[°C]  QSFP_INT[°C]
     10       20.43      10        3        5          64           54             -
"
        );
        assert_eq!(
            text(|out| criteria(out, &nic)),
            "\
------------------------------------------------------------------------------------
Cassini 0 Temperature (ASIC_0) under 85 °C:        64 °C       PASS
3.3V QSFP VR Temperature (QSFP_VR) under 125 °C:   54 °C       PASS
QSFP Internal Temperature (QSFP_INT) under 70 °C:  -             NA
0.85V S0 Power (VDD):                              10 W        ----
0.9V S0 Power (AVDD):                              3 W         ----
Average BW over 19 GB/s:                           20.43 GB/s  PASS
"
        );
    }

    /// N32: the header of board O has no code in it, and its row is one line.
    #[test]
    fn n32_board_o_has_a_column_for_its_cable() {
        let mut nic = nic("P68492-001");
        let values = [Some(10.0), Some(3.0), Some(2.0), Some(64.0), Some(85.4), Some(70.0)];
        add(&mut nic, 18.5, &values);
        assert_eq!(
            text(|out| { writeln!(out, "{}", titles(&nic)).and_then(|()| row(out, &nic, 10)) }),
            "\
Time[s]  Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[°C]  ASIC_1[°C]  OSFP_INT[°C]
     10       18.50      10        3         2          64          85            70
"
        );
        let printed = text(|out| criteria(out, &nic));
        let lines = printed.lines().skip(1);
        let verdicts: Vec<String> = lines.map(|line| line.chars().skip(63).collect()).collect();
        assert_eq!(verdicts, ["PASS", "FAIL", "FAIL", "----", "----", "FAIL"]);
    }

    /// node-tools.md 5.5
    #[test]
    fn rates_agree_with_vectors() {
        for (seconds, bytes, shown) in
            [(10.0, 429_687_500 * 512, "     22.00"), (1.0, 10_000_000 / 2 * 4096, "     20.48")]
        {
            let mut nic = nic("P43012-001");
            nic.add(seconds, bytes, vec![None; 4]);
            assert!(text(|out| row(out, &nic, 10)).contains(&format!("  {shown}  ")));
        }
        let mut nic = nic("P43012-001");
        nic.add(10.0, 0, vec![Some(-3.9), Some(-0.4), None, Some(85.0)]);
        let printed = text(|out| row(out, &nic, 10));
        assert!(printed.ends_with("      -3        0           -          85\n"), "{printed}");
        let hot = text(|out| too_hot(out, nic.sensors[3].sensor));
        let line = "\nError! Cassini 1 Temperature has exceeded safe range. Exiting early.\n";
        assert_eq!(hot, line);
    }
}
