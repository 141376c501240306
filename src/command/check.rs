//! `check`: evaluates the health of NICs, and tries a write and a read (docs/check.md).

mod examine;
mod lock;
mod traffic;
mod uses;

use std::env;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use clap::{Arg, ArgAction};

use self::examine::Examination;
use self::traffic::Runs;
use super::output::{
    Destinations, json_entry, json_place, metrics_entries, metrics_options, metrics_place,
};
use facts::device::{DeviceKind, DeviceName, LibraryFile};
use facts::error::{Failure, invalid};
use facts::interrupt;
use facts::number::{time, time_text};
use node::backend;
use node::machine::{self, Machine};
use node::nic::health::host;
use node::slingshot::{Grant, Launcher};
use plan::cli::parser::with_optional_value;
use plan::cli::usage::{Completion, Entry, Usage, Value};
use plan::outputs::Place;
use report::check::{Check, Examined};
use report::openmetrics::{self, Dialect};
use report::{Destination, check_metrics, check_text};

/// Default of `--window`.
const WINDOW: Duration = Duration::from_secs(2);

/// Bounds of `--window`.
const WINDOWS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

/// Returns what the command takes.
pub fn usage() -> Usage {
    let switch = |long, help: &str, manual| Entry {
        short: None,
        long,
        value: None,
        help: help.into(),
        manual,
    };
    Usage {
        program: "cxidiag check".into(),
        about: "Check the health of NICs, with a write and a read",
        synopsis: vec![("cxidiag check [DEVICE...] [OPTIONS]".into(), "")],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, the\n\
                          NICs of the job (SLINGSHOT_DEVICES) are checked, else all of this machine.",
        options: vec![
            switch(
                "no-traffic",
                "Do not write and read through the NICs",
                "Do not write and read through the NICs.",
            ),
            switch(
                "quick",
                "Read files once: no error rates, no traffic",
                "Read the files of the driver once: no error rates of the link, and no traffic.",
            ),
            switch(
                "busy-ok",
                "Write and read also if others use a NIC",
                "Write and read also through NICs that other processes use. Without this option, \
                 these NICs are checked without traffic.",
            ),
            Entry {
                short: None,
                long: "window",
                value: Some(Value::new("TIME", Completion::Nothing)),
                help: format!(
                    "Time in which errors of the link are counted\n(default: {}); in a longer one, lower rates show",
                    time_text(WINDOW)
                ),
                manual: "The time in which errors of the link are counted: a longer one shows lower rates.",
            },
            Entry {
                short: None,
                long: "link-speed",
                value: Some(Value::new("GBPS", Completion::Nothing)),
                help: "Speed that links must have, in Gb/s (default: that\nof the hardware, 200 or 400)".into(),
                manual: "The speed that links must have, in Gb/s, where it is not that of the hardware.",
            },
            switch(
                "quiet",
                "Print the first line only",
                "Print the first line only, OK or FAIL.",
            ),
            json_entry(),
        ]
        .into_iter()
        .chain(metrics_entries())
        .chain([super::libcxi_entry(), Entry::help(), Entry::version()])
        .collect(),
        remarks: vec![
            "The first line is 'OK DEVICE...' or 'FAIL CODE DEVICE: what'. Exit status:\n\
             0 passed, 3 an item is bad, 1 a NIC could not be tested, 2 invalid arguments,\n\
             130 interrupted.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, a NIC that is bad or cannot be tested.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    if let Some(software) = asked
        .devices
        .iter()
        .find(|of| of.kind == DeviceKind::Software)
    {
        backend::check(*software)?;
    }
    let destinations = Destinations::open(asked.json.as_ref())?;
    let metrics = asked
        .metrics
        .as_ref()
        .map(|(place, dialect)| Ok::<_, Failure>((Destination::open(place)?, *dialect)))
        .transpose()?;
    interrupt::watch()?;
    let machine = Machine::this();
    let launcher = Launcher::find(|name| env::var(name).ok()).map_err(Failure::usage)?;
    let grant = match &launcher {
        Launcher::Granted(grant) => Some(grant),
        Launcher::Absent | Launcher::Incomplete(_) => None,
    };
    let devices = asked.devices(grant, &machine)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let examined = examine(&devices, &asked, grant, &machine)?;
    let host = host::findings(&machine, machine::loaded_library());
    let check = Check::new(started, clock.elapsed(), host, examined);
    if let Some((destination, dialect)) = metrics {
        let text = openmetrics::text(&check_metrics::families(&check), dialect);
        openmetrics::write(&destination, &text)?;
    }
    let has_text = asked.json != Some(Place::Stdout);
    destinations.write(&check, |text: &mut Vec<u8>, check| -> io::Result<()> {
        if asked.is_quiet {
            check_text::first_line(text, check)
        } else {
            check_text::write(text, check)
        }
    })?;
    check
        .result()
        .map_err(|failure| if has_text { failure.printed() } else { failure })
}

/// Examines the devices: their files, then traffic on one NIC after the other, then the files again
/// when the window is over.
fn examine(
    devices: &[DeviceName],
    asked: &Asked,
    grant: Option<&Grant>,
    machine: &Machine,
) -> Result<Vec<Examined>, Failure> {
    let began = Instant::now();
    let mut examinations: Vec<Examination> = devices
        .iter()
        .map(|device| Examination::begin(*device, asked, grant, machine))
        .collect();
    if asked.has_traffic() && examinations.iter().any(Examination::has_files) {
        let has_hardware = (devices.iter()).any(|device| device.kind == DeviceKind::Hardware);
        let lock = if has_hardware {
            lock::take(machine)
        } else {
            Ok(None)
        };
        interrupt::check()?;
        let mut runs = Runs::new(asked.libcxi.as_ref());
        for examination in &mut examinations {
            examination.traffic(&lock, &mut runs, asked)?;
        }
    }
    if asked.has_window() && examinations.iter().any(Examination::has_files) {
        let left = asked.window.saturating_sub(began.elapsed());
        interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
    }
    let end = |examination: Examination| examination.end(asked, machine);
    Ok(examinations.into_iter().map(end).collect())
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    devices: Vec<DeviceName>,
    is_quick: bool,
    no_traffic: bool,
    busy_ok: bool,
    is_quiet: bool,
    window: Duration,
    link_gigabits: Option<f64>,
    json: Option<Place>,
    metrics: Option<(Place, Dialect)>,
    libcxi: Option<LibraryFile>,
}

impl Asked {
    fn has_traffic(&self) -> bool {
        !self.is_quick && !self.no_traffic
    }

    fn has_window(&self) -> bool {
        !self.is_quick
    }

    /// Returns the devices to check: those of the arguments, of the job, or all hardware.
    ///
    /// # Errors
    ///
    /// A NIC of the job whose name is none of a device.
    fn devices(
        &self,
        grant: Option<&Grant>,
        machine: &Machine,
    ) -> Result<Vec<DeviceName>, Failure> {
        if !self.devices.is_empty() {
            return Ok(self.devices.clone());
        }
        if let Some(grant) = grant {
            let device = |name: &str| {
                let refused =
                    |why: &str| Failure::usage(format!("SLINGSHOT_DEVICES: '{name}': {why}"));
                name.parse().map_err(refused)
            };
            return grant.devices().map(device).collect();
        }
        let names = machine.cxi_devices();
        let mut devices: Vec<DeviceName> =
            names.iter().filter_map(|name| name.parse().ok()).collect();
        devices.sort_by_key(|device| device.index);
        Ok(devices)
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let switch = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let option = |name| Arg::new(name).long(name).allow_hyphen_values(true);
    let declared = [
        switch("no-traffic"),
        switch("quick"),
        switch("busy-ok"),
        switch("quiet"),
        option("window"),
        option("link-speed"),
        with_optional_value("json"),
        super::libcxi(),
        Arg::new("DEVICE").num_args(0..),
    ];
    let declared = declared.into_iter().chain(metrics_options());
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let devices = super::devices_named(&matches, arguments)?;
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let window = match text("window") {
        None => WINDOW,
        Some(typed) => time(typed, WINDOWS)
            .map_err(|allowed| Failure::usage(invalid("window", typed, allowed)))?,
    };
    let is_quick = matches.get_flag("quick");
    if is_quick && text("window").is_some() {
        return Err(Failure::usage(
            "--window has no effect with --quick, which counts no errors",
        ));
    }
    Ok(Some(Asked {
        devices: once_each(devices),
        is_quick,
        no_traffic: matches.get_flag("no-traffic"),
        busy_ok: matches.get_flag("busy-ok"),
        is_quiet: matches.get_flag("quiet"),
        window,
        link_gigabits: text("link-speed").map(link_speed).transpose()?,
        json: json_place(matches.get_one("json"))?,
        metrics: metrics_place(&matches)?,
        libcxi: super::library(&matches)?,
    }))
}

/// Returns the devices without repetitions.
fn once_each(devices: Vec<DeviceName>) -> Vec<DeviceName> {
    let mut once = Vec::new();
    for device in devices {
        if !once.contains(&device) {
            once.push(device);
        }
    }
    once
}

/// Returns a speed of links in Gb/s.
fn link_speed(typed: &str) -> Result<f64, Failure> {
    match typed {
        "50" | "100" | "200" | "400" => Ok(typed.parse().unwrap_or_default()),
        _ => {
            let allowed = "expected 50, 100, 200 or 400 (Gb/s)";
            Err(Failure::usage(invalid("link-speed", typed, allowed)))
        }
    }
}
