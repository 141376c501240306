//! `check --stress`: NICs under load, with their temperatures (docs/check.md), as text and as
//! metrics (docs/metrics.md lists them). The watch of the NICs reads their sensors and counts their
//! bytes at each interval.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use cli::output;
use diag::run::stress::{LoadOptions, RunningLoad, under_load};
use facts::device::DeviceName;
use facts::error::{Failure, Kind};
use facts::interrupt;
use facts::time_of_day::Clocks;
use health::link;
use health::sensors::{Sensor, Sensors, board, cable_limits, part_number};
use node::machine::Machine;
use node::machine::placement::{Cpus, Placement};
use node::nic::files::Files;
use node::{backend, reading};
use page::documents::{Documents, Places};
use page::openmetrics::{self, Family, Sample};

use crate::examine::{Uses, files_with, require};
use crate::note::note_step;
use crate::of_node::grant;
use crate::options::CheckRequest;
use crate::stress_document::{StressReport, StressedNic, shown};

/// Name of the program in messages.
const PROGRAM: &str = "cxidiag check";

/// Most threads for a NIC: more do not make it warmer.
const MAX_THREADS: usize = 64;

/// Loads the NICs of `request` for its time, and prints the report.
///
/// # Errors
///
/// A NIC that cannot be loaded, a criterion that is not met or cannot be judged, an interruption.
pub fn run(request: &CheckRequest, time: Duration) -> Result<(), Failure> {
    let documents = Documents::open(&Places {
        json: request.json.clone(),
        metrics: request.metrics.file_with(SERIES)?,
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), documents)?;
    let report = output::or_failure(&documents, load(request, time, &documents))?;
    // A signal that came too late to cut the load short still decides the exit status.
    interrupt::check()?;
    documents.write_metrics(|| families(&report))?;
    output::write(&documents, &report, false, StressReport::headline)?;
    documents.conclude(report.result())
}

fn load(
    request: &CheckRequest,
    time: Duration,
    documents: &Documents,
) -> Result<StressReport, Failure> {
    let machine = Machine::this();
    let devices = request.devices(grant(request)?.as_ref(), &machine)?;
    if devices.is_empty() {
        let hint = "'cxidiag check --stress soft0' loads a software NIC, which has no temperature";
        return Err(Failure::undecided("no Cassini NIC on this machine").with_hint(hint));
    }
    let began = Clocks::now();
    let mut files = Vec::new();
    for device in &devices {
        files.push(ready(*device, request, &machine)?);
    }
    let places = devices.iter().enumerate();
    let loads = places.map(|(place, device)| {
        Ok(LoadOptions {
            libcxi: request.libcxi.clone(),
            cpus: cpus(request, *device, (place, devices.len()), &machine)?,
            ..LoadOptions::new(*device)
        })
    });
    let loads: Vec<LoadOptions> = loads.collect::<Result<_, Failure>>()?;
    let part_numbers: Vec<Option<String>> = files.iter().map(part_number).collect();
    let boards = part_numbers.iter().map(|number| board(number.as_deref()?));
    let sensors = files.iter().zip(boards).map(|(files, board)| Sensors::find(files, board));
    let sensors: Vec<Sensors> = sensors.collect();
    let nics = under_load(PROGRAM, &loads, |load| {
        let mut nics = Vec::new();
        for (place, device) in devices.iter().enumerate() {
            let is_software =
                load.nic(place)?.own.simulated || backend::is_software(*device, &machine);
            let (threads, list) = (loads[place].cpus.len(), sensors[place].list());
            let number = part_numbers[place].clone();
            let nic = StressedNic::new(device.to_string(), is_software, number, threads, list);
            nics.push(nic.with_cable_limits(cable_limits(&files[place])));
        }
        let table = StressTable::new(&nics);
        let print = |text: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
            if request.is_quiet { Ok(()) } else { documents.print(text) }
        };
        print(&|out| table.titles(out))?;
        let times = Times { time, interval: request.interval.min(time) };
        watch(load, &mut nics, &sensors, times, |nics, _| {
            print(&|out| nics.iter().try_for_each(|nic| table.row(out, nic)))
        })?;
        Ok(nics)
    })?;
    note_step(PROGRAM, began);
    Ok(StressReport::new([began, Clocks::now()], nics))
}

/// The files of a NIC that may be loaded.
///
/// # Errors
///
/// A NIC that does not exist, whose link is down, or that other processes use.
fn ready(device: DeviceName, request: &CheckRequest, machine: &Machine) -> Result<Files, Failure> {
    require(device, machine)?;
    let files = files_with(device, machine, |_| false)?;
    let files = files.ok_or_else(|| Failure::environment(format!("there is no {device}")))?;
    if link::is_up(&files) == Some(false) {
        return Err(Failure::undecided(format!("{device}: the link is down")));
    }
    let opened = backend::open(device, request.libcxi.as_ref())?;
    if !request.busy_ok && Uses::of(&opened)?.is_in_use == Some(true) {
        let message = format!("{device}: other processes use the NIC");
        return Err(Failure::undecided(message).with_hint("--busy-ok loads it all the same"));
    }
    Ok(files)
}

/// The CPUs that load a NIC, which is at this place among all NICs under load: its share of those
/// that the user names, else of those near it.
fn cpus(
    request: &CheckRequest,
    device: DeviceName,
    (place, count): (usize, usize),
    machine: &Machine,
) -> Result<Vec<u32>, Failure> {
    let choice =
        Placement::choose(request.cpus.as_ref().unwrap_or(&Cpus::Any), device, machine, false)?
            .for_threads;
    let own = choice.iter().skip(place).step_by(count).take(MAX_THREADS);
    let own: Vec<u32> = own.copied().collect();
    if !own.is_empty() {
        return Ok(own);
    }
    // More NICs than CPUs.
    Ok(choice.into_iter().cycle().skip(place).take(1).collect())
}

/// A series without labels that all files of a load have.
const SERIES: &str = "cxidiag_stress_exit_status";

/// A value of a NIC with one more label.
fn sample(nic: &StressedNic, label: &'static str, text: &str, value: impl Into<f64>) -> Sample {
    Sample::new([("device", nic.name.clone()), (label, text.to_owned())], value)
}

/// The metrics of NICs under load.
pub fn families(report: &StressReport) -> Vec<Family> {
    let judged = report.devices.iter().flat_map(|nic| {
        let judged = nic.judged().into_iter();
        judged.map(move |(code, is_good)| sample(nic, "check", code, is_good))
    });
    let highest = |is_temperature| {
        let nics = report.devices.iter();
        let results = nics.flat_map(|nic| nic.sensors.iter().map(move |result| (nic, result)));
        let own =
            results.filter(move |(_, result)| result.sensor.limits().is_some() == is_temperature);
        own.filter_map(|(nic, result)| {
            Some(sample(nic, "sensor", result.sensor.column, result.max?))
        })
    };
    let measured = report.devices.iter().filter(|nic| !nic.samples.is_empty());
    let rates = measured.map(|nic| Sample::new([("device", nic.name.clone())], nic.mean_rate()));
    let status =
        "Exit status of the load: 0 all criteria are met, 3 one is not, 4 one could not be judged.";
    let times = [report.started_unix_ms, report.elapsed_ms];
    let mut families = vec![openmetrics::build("stress")];
    let status = (SERIES, status);
    families.extend(Family::times(status, report.exit_status, "load with set-up", times));
    families.extend([
        Family::new(
            "cxidiag_stress_ok",
            "Whether the criterion is met under load (1) or not (0); no sample if it could not be judged.",
            judged,
        ),
        Family::new(
            "cxidiag_stress_temperature_celsius",
            "Highest temperature under load.",
            highest(true),
        ),
        Family::new("cxidiag_stress_power_watts", "Highest power under load.", highest(false)),
        Family::new(
            "cxidiag_stress_bandwidth_bytes_per_second",
            "Bandwidth at which the NIC wrote to itself under load.",
            rates,
        ),
    ]);
    families
}

/// Least width of a column of values.
const WIDTH: usize = 6;

/// The table of NICs under load. Its rows are printed as they come.
#[derive(Debug)]
struct StressTable {
    /// Width of the column of NICs.
    names: usize,
    /// Columns of sensors: title, and width.
    columns: Vec<(String, usize)>,
}

/// The title of the column of a sensor.
fn title(sensor: &Sensor) -> String {
    format!("{}[{}]", sensor.column, if sensor.limits().is_some() { "C" } else { "W" })
}

impl StressTable {
    /// The table with a column for each sensor that a NIC has.
    pub fn new(nics: &[StressedNic]) -> Self {
        let mut columns: Vec<(String, usize)> = Vec::new();
        for result in nics.iter().flat_map(|nic| &nic.sensors) {
            let title = title(result.sensor);
            if !columns.iter().any(|(other, _)| *other == title) {
                let width = title.len().max(WIDTH);
                columns.push((title, width));
            }
        }
        let names = nics.iter().map(|nic| nic.name.len()).max().unwrap_or(0);
        Self { names: names.max("NIC".len()), columns }
    }

    /// Writes the titles.
    pub fn titles(&self, out: &mut impl Write) -> io::Result<()> {
        write!(out, "{:>7}  {:<2$}  Rate[GB/s]", "Time[s]", "NIC", self.names)?;
        for (title, width) in &self.columns {
            write!(out, "  {title:>width$}")?;
        }
        writeln!(out)
    }

    /// Writes the row of the last sample of a NIC.
    pub fn row(&self, out: &mut impl Write, nic: &StressedNic) -> io::Result<()> {
        let Some(sample) = nic.samples.last() else { return Ok(()) };
        let (seconds, gigabytes) = (sample.seconds, sample.bytes_per_s / 1e9);
        write!(out, "{seconds:>7.1}  {:<1$}  {gigabytes:>10.2}", nic.name, self.names)?;
        for (column, width) in &self.columns {
            let mut values = nic.sensors.iter().zip(&sample.values);
            let found = values.find(|(result, _)| title(result.sensor) == *column);
            let cell = match found {
                Some((result, Some(value))) => match result.limits() {
                    Some(limits) => format!("{:.0}", shown(*value, limits)),
                    None => format!("{value:.1}"),
                },
                _ => "-".into(),
            };
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)
    }
}

/// Time of load before the count begins (node-tools.md 5.5).
const WARM_UP: Duration = Duration::from_secs(1);

/// Longest time between two readings of the sensors: a critical temperature ends the load before
/// its sample is due.
const LOOK: Duration = Duration::from_secs(1);

/// Interval at which a wait looks for failures of the load.
const SLICE: Duration = Duration::from_millis(50);

/// When there are samples.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For how long the load is counted.
    pub time: Duration,
    pub interval: Duration,
}

/// Lets the load run for its time, and adds a sample to `nics` at each interval; `on_sample` gets
/// them, and the time at which the sample was due. The load ends with the first temperature that is
/// critical, which makes a sample at once, and with the first error of a NIC, which its NIC notes.
/// It is stopped afterwards.
///
/// # Errors
///
/// A failure of the load that is not the NIC's, the failure of `on_sample`, and an interruption.
pub fn watch(
    load: &RunningLoad,
    nics: &mut [StressedNic],
    sensors: &[Sensors],
    times: Times,
    mut on_sample: impl FnMut(&[StressedNic], Duration) -> Result<(), Failure>,
) -> Result<(), Failure> {
    load.begin();
    let mut has_failed = wait_until(load, nics, Instant::now() + WARM_UP)?;
    let begin = Instant::now();
    let before: Vec<u64> = (0..nics.len()).map(|place| load.bytes(place)).collect();
    let mut due = times.interval.min(times.time);
    while !has_failed {
        let next = (begin.elapsed() + LOOK).min(due);
        has_failed = wait_until(load, nics, begin + next)?;
        if has_failed {
            continue;
        }
        let is_due = next == due;
        if is_due {
            // What has not answered may answer now.
            reading::begin();
        }
        let values: Vec<_> = sensors.iter().map(Sensors::read).collect();
        // A sensor without an answer is not the reason then.
        interrupt::check()?;
        let mut read = nics.iter().zip(&values);
        let is_critical = read.any(|(nic, values)| nic.critical_of(values).is_some());
        if !is_due && !is_critical {
            nics.iter_mut().zip(&values).for_each(|(nic, values)| nic.look(values));
            continue;
        }
        for (place, (nic, values)) in nics.iter_mut().zip(values).enumerate() {
            let (elapsed, bytes) = (begin.elapsed(), load.bytes(place) - before[place]);
            nic.add(elapsed.as_secs_f64(), bytes, values);
        }
        let is_last = is_critical || due == times.time;
        if is_last {
            // The load ends before anything is printed: a reader may let that wait.
            load.stop();
        }
        on_sample(nics, next)?;
        if is_last {
            break;
        }
        due = (due + times.interval).min(times.time);
    }
    load.stop();
    Ok(())
}

/// Waits until `end`. Returns whether an error of a NIC has ended the load before.
fn wait_until(load: &RunningLoad, nics: &mut [StressedNic], end: Instant) -> Result<bool, Failure> {
    loop {
        for (place, nic) in nics.iter_mut().enumerate() {
            match load.take_failure(place) {
                Some(failure) if failure.kind == Kind::Nic => {
                    load.stop();
                    nic.fail(&failure);
                    return Ok(true);
                }
                Some(failure) => return Err(failure),
                None => {}
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        interrupt::wait_for_any(&mut Vec::new(), Some(left.min(SLICE)))?;
    }
}

#[cfg(test)]
mod tests {
    use page::openmetrics::{Dialect, text};

    use super::*;
    use crate::stress_document::testing::{add, nic, report};

    #[test]
    fn has_verdicts_and_highest_values_of_each_nic() {
        let mut nics = vec![nic("P52930-001"), nic("P52930-001")];
        nics[1].name = "cxi1".into();
        add(&mut nics[0], 21.0, &[Some(16.5), None, Some(2.5), Some(84.0), Some(70.0)]);
        add(&mut nics[0], 20.0, &[Some(16.0), None, Some(2.5), Some(86.5), Some(60.0)]);
        let text = text(&families(&report(nics)), Dialect::NodeExporter);
        let expected = "\
cxidiag_stress_exit_status 3
cxidiag_stress_timestamp_seconds 0
cxidiag_stress_duration_seconds 0
cxidiag_stress_ok{device=\"cxi0\",check=\"asic-temperature\"} 0
cxidiag_stress_ok{device=\"cxi0\",check=\"media-temperature\"} 0
cxidiag_stress_ok{device=\"cxi0\",check=\"stress-rate\"} 1
cxidiag_stress_ok{device=\"cxi0\",check=\"stress-load\"} 1
cxidiag_stress_temperature_celsius{device=\"cxi0\",sensor=\"ASIC_0\"} 86.5
cxidiag_stress_temperature_celsius{device=\"cxi0\",sensor=\"QSFP_INT\"} 70
cxidiag_stress_power_watts{device=\"cxi0\",sensor=\"VDD\"} 16.5
cxidiag_stress_power_watts{device=\"cxi0\",sensor=\"TRVDD\"} 2.5
cxidiag_stress_bandwidth_bytes_per_second{device=\"cxi0\"} 20500000000
";
        let found = text.lines().filter(|line| line.starts_with("cxidiag_stress_"));
        assert_eq!(found.map(|line| format!("{line}\n")).collect::<String>(), expected);
    }

    /// Two chips of a card have one criterion: it is met if both are cool.
    #[test]
    fn sensors_with_the_same_limits_have_one_verdict() {
        for (chips, good) in [([60.0, 86.0], 0), ([60.0, 61.0], 1), ([f64::NAN, 61.0], 2)] {
            let mut dual = nic("P48765-001");
            let [one, two] = chips.map(|celsius| Some(celsius).filter(|celsius| !celsius.is_nan()));
            add(&mut dual, 21.0, &[None, None, None, one, two]);
            let judged = dual.judged();
            let found = judged.iter().find(|(code, _)| *code == "asic-temperature");
            assert_eq!(found.map_or(2, |(_, is_good)| u8::from(*is_good)), good);
        }
    }

    #[test]
    fn shows_sensors_of_different_boards_in_one_table() {
        let mut nics = [nic("P52930-001"), nic("P43012-001")];
        nics[1].name = "cxi1".into();
        let [one, two] = &mut nics;
        add(one, 21.68, &[Some(16.24), Some(6.0), Some(2.5), Some(84.7), None]);
        add(two, 20.5, &[Some(10.0), Some(3.0), Some(59.4), Some(-3.2)]);
        let table = StressTable::new(&nics);
        let mut text = Vec::new();
        table.titles(&mut text).unwrap();
        nics.iter().for_each(|nic| table.row(&mut text, nic).unwrap());
        let expected = "\
Time[s]  NIC   Rate[GB/s]  VDD[W]  AVDD[W]  TRVDD[W]  ASIC_0[C]  QSFP_INT[C]  ASIC_1[C]
   10.0  cxi0       21.68    16.2      6.0       2.5         84            -          -
   10.0  cxi1       20.50    10.0      3.0         -         59            -         -3
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
