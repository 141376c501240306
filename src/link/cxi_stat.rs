//! HPE's cxi_stat: its options, its course and its text (node-tools.md 2), without its defects.
//! Scripts search the text (node-tools.md 2.3): each character counts.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Command};
use cli::arguments::TypedArguments;
use cli::derived;
use cli::usage::{Completion, Usage};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::text::shown;
use facts::time_of_day::{Clocks, step_text};
use health::link_rates::{self, LinkRates, PRIORITIES, STANDARD_PAUSE, code_words, pause};
use node::machine::Machine;
use node::nic::counter::CounterChange;
use node::nic::counters::{CounterReadings, NicFacts};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::{backend, reading};
use page::documents::Documents;

/// Its name.
pub const NAME: &str = "cxi_stat";

/// The version that is replaced.
const VERSION: &str = "1.5.5";

/// The time that it waits in addition to the seconds of `--pause`.
const ADDED_PAUSE: Duration = Duration::from_millis(100);

/// Most characters of a value.
const MAX_CHARACTERS: usize = 255;

/// What is said of a file without the value that it should have.
const READING_FAILED: &str = "Error reading from";

/// The file with the largest frame.
const MTU: &str = "properties/hpc_mtu";

/// The lines of a link with their files, of Cassini 1 and of Cassini 2.
const LINK: [(&str, &str, &str); 6] = [
    ("Link layer retry", "port/link_layer_retry", "port/0/llr/state"),
    ("Link loopback", "port/loopback", "port/0/link/config/loopback"),
    ("Link media", "port/media", "port/0/media/type"),
    ("Link MTU", MTU, MTU),
    ("Link speed", "port/speed", "port/0/link/speed"),
    ("Link state", "port/link", "port/0/link/state"),
];

/// Returns what the program takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Show NICs and the state of their links",
        synopsis: vec![("cxi_stat [OPTIONS]".into(), "")],
        options: derived::entries(&COMMAND),
        replaced_version: Some(VERSION),
        remarks: vec![
            "Exit status: 0 success, 1 a NIC does not exist or a value cannot be read,\n\
             2 invalid arguments.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<CxiStatRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
struct CxiStatRequest {
    /// Show this NIC (default: all of this machine)
    #[arg(short, long, value_name = "DEV", add = Completion::Devices)]
    device: Option<DeviceName>,

    /// Print the names of NICs only
    #[arg(short = 'l', long = "list")]
    is_list: bool,

    /// Print the MAC addresses of NICs only
    #[arg(short = 'm', long = "mac-list")]
    is_mac_list: bool,

    /// Show the PCIe errors that the kernel has counted
    #[arg(short = 'a', long = "aer")]
    has_aer: bool,

    /// Show rates of code words and pauses, counted on all NICs at the same time
    #[arg(short = 'r', long = "rates")]
    has_rates: bool,

    /// Seconds in which rates are counted
    #[arg(short, long, value_name = "S", default_value = "4")]
    #[arg(value_parser = derived::number(1..=86400_u64))]
    pause: u64,
}

/// Runs the program with its arguments.
///
/// # Errors
///
/// Invalid arguments, a NIC that does not exist, a value that cannot be read.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let typed = TypedArguments::<CxiStatRequest>::read(&usage(), &COMMAND, &arguments)?;
    let Some(TypedArguments { request, .. }) = typed else { return Ok(()) };
    let machine = Machine::this();
    let devices = devices(&request, &machine)?;
    devices.iter().try_for_each(|device| backend::check(*device))?;
    interrupt::watch()?;
    reading::limit_waits();
    let output = Documents::default();
    let (mut errors, mut has_failed) = (Vec::new(), false);
    if request.is_list && !request.is_mac_list {
        return output.print(|text| devices.iter().try_for_each(|name| writeln!(text, "{name}")));
    }
    let open = |device: &DeviceName| {
        let files = check::files_with(*device, &machine, link_rates::is_link_counter)?;
        files.ok_or_else(|| {
            let others = check::others(*device, &machine);
            Failure::environment(format!("there is no {device}: {others}"))
        })
    };
    let nics: Vec<Files> = devices.iter().map(open).collect::<Result<_, _>>()?;
    let mut rates = Vec::new();
    let began = Clocks::now();
    if request.has_rates && !request.is_mac_list {
        let before: Vec<CounterReadings> = nics.iter().map(link_rates::read).collect();
        let window = Duration::from_secs(request.pause) + ADDED_PAUSE;
        interrupt::wait_for_any(&mut Vec::new(), Some(window))?;
        for (device, before) in devices.iter().zip(&before) {
            let files = open(device)?;
            let is_software = backend::is_software(*device, &machine);
            let nic = NicFacts::read(&files, device.to_string(), is_software);
            rates.push(LinkRates::between(nic, before, &link_rates::read(&files)));
        }
    }
    let step = Clocks::now().step_since(began);
    let mut text = Vec::new();
    let mut rates = rates.iter();
    for (device, files) in devices.iter().zip(&nics) {
        let mut values = Values { files, errors: &mut errors, has_failed: &mut has_failed };
        let written = if request.is_mac_list {
            writeln!(text, "{}", values.interface().1)
        } else {
            nic(&mut text, *device, &mut values, rates.next(), &request)
        };
        written.map_err(interrupt::output_failed)?;
    }
    interrupt::check()?;
    let step = step.map(|step| format!("Warning: {}", step_text("this host", step)));
    for line in step.iter().chain(&errors) {
        let _ = writeln!(io::stderr(), "{}", shown(line));
    }
    output.print(|out| out.write_all(&text))?;
    match errors.first() {
        Some(error) if has_failed => Err(Failure::environment(error).printed()),
        _ => Ok(()),
    }
}

/// The NICs to show, in the order of cxi_stat: by the letters of their names.
///
/// # Errors
///
/// A NIC that does not exist; a machine without hardware on which nobody has chosen software NICs.
fn devices(request: &CxiStatRequest, machine: &Machine) -> Result<Vec<DeviceName>, Failure> {
    if let Some(device) = request.device {
        check::require(device, machine)?;
        return Ok(vec![device]);
    }
    let found = super::options::chosen(&[], machine)?;
    if found.is_without_hardware {
        return Err(backend::no_hardware());
    }
    let mut devices = found.devices;
    devices.sort_by_cached_key(DeviceName::to_string);
    Ok(devices)
}

/// The values of a NIC, and what could not be read of them.
struct Values<'a> {
    files: &'a Files,
    errors: &'a mut Vec<String>,
    /// Whether an error is none of a virtual function, which lacks files (node-tools.md 2.6).
    has_failed: &'a mut bool,
}

impl Values<'_> {
    /// The text of a file. Without it, the value is empty, and the error is noted.
    fn text(&mut self, name: &str) -> Option<String> {
        self.read(self.files.path(name), READING_FAILED)
    }

    fn read(&mut self, path: PathBuf, reading_failed: &str) -> Option<String> {
        match reading::text(&path) {
            Ok(text) if !text.is_empty() => return Some(text),
            Err(error) if has_not_opened(&error) => self.note("Error opening", &path),
            Ok(_) | Err(_) => self.note(reading_failed, &path),
        }
        None
    }

    fn note(&mut self, what: &str, path: &Path) {
        let shown = path.strip_prefix(self.files.root()).unwrap_or(path).display();
        self.add([format!("{what} /{shown}")]);
    }

    fn add(&mut self, errors: impl IntoIterator<Item = String>) {
        let before = self.errors.len();
        self.errors.extend(errors);
        *self.has_failed |= self.errors.len() > before && !self.files.is_virtual_function();
    }

    /// The first line of a file.
    fn line(&mut self, name: &str) -> String {
        self.text(name).map_or_else(String::new, |text| first_line(&text))
    }

    /// The decimal or hexadecimal number in a file; 0 without it.
    fn number(&mut self, name: &str) -> u64 {
        let Some(text) = self.text(name) else { return 0 };
        let line = first_line(&text);
        let number = match line.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => line.parse(),
        };
        number.unwrap_or_else(|_| {
            self.note(READING_FAILED, &self.files.path(name));
            0
        })
    }

    /// The speed of the connection to the host: the extended one where it is in effect.
    fn pcie_speed(&mut self) -> String {
        let extended = "properties/current_esm_link_speed";
        if self.exists(extended) {
            let speed = self.line(extended);
            if !matches!(speed.as_str(), "Absent" | "Disabled") {
                return speed;
            }
        }
        self.line("current_link_speed")
    }

    /// The network interface and its MAC address; both are empty without one.
    fn interface(&mut self) -> (String, String) {
        let Some(path) = self.files.interface() else {
            return (String::new(), String::new());
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Errors name the file that cxi_stat reads (node-tools.md 2.3).
        let by_name = self.files.root().join("sys/class/net").join(&name);
        let path = if reading::exists(&by_name) { by_name } else { path };
        let address = self.read(path.join("address"), READING_FAILED);
        (name, first_line(&address.unwrap_or_default()))
    }

    /// The address of the NIC on the PCI bus.
    fn slot(&mut self) -> String {
        let Some(event) = self.text("uevent") else { return String::new() };
        let slot = event.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
        if slot.is_none() {
            self.note(READING_FAILED, &self.files.path("uevent"));
        }
        slot.unwrap_or_default().to_owned()
    }

    fn exists(&self, name: &str) -> bool {
        reading::exists(&self.files.path(name))
    }

    fn is_cassini_2(&self) -> bool {
        Generation::of(self.files) == Some(Generation::Cassini2)
    }

    /// Returns what pauses the link. Only newer drivers show it on Cassini 2; what others show is
    /// what autonegotiation offers (health.md 2.1).
    fn pause_mode(&mut self) -> String {
        let name = match self.is_cassini_2() {
            false => "port/pause",
            true if self.exists("port/0/pause") => "port/0/pause",
            true => "port/0/link/config/pause_map",
        };
        self.line(name)
    }

    fn aer(&mut self, name: &str) -> Option<String> {
        let errors = self.read(self.files.path(&format!("aer_dev_{name}")), "Error reading");
        *self.has_failed |= errors.is_none();
        errors
    }

    /// The description of the card; an empty one is none, as in libcxi.
    fn description(&mut self) -> String {
        let path = self.files.path("fru/description");
        if reading::exists(&path)
            && reading::text(&path).map_or(true, |text| !text.trim().is_empty())
        {
            return self.line("fru/description");
        }
        NOT_AVAILABLE.to_owned()
    }
}

/// Whether a file could not even be opened.
fn has_not_opened(error: &io::Error) -> bool {
    use ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotADirectory | NotFound | PermissionDenied)
}

/// The first line of a text, as much of it as cxi_stat prints.
fn first_line(text: &str) -> String {
    text.split('\n').next().unwrap_or_default().chars().take(MAX_CHARACTERS).collect()
}

/// Writes what the request asks for of a NIC.
fn nic(
    out: &mut Vec<u8>,
    device: DeviceName,
    values: &mut Values,
    rates: Option<&LinkRates>,
    request: &CxiStatRequest,
) -> io::Result<()> {
    block(out, device, values)?;
    if let Some(rates) = rates {
        let mode = values.pause_mode();
        let notes = write_rates(out, rates, &mode, request.pause as f64)?;
        for warning in notes.warnings {
            let _ = writeln!(io::stderr(), "{}", shown(&warning));
        }
        values.add(notes.errors);
    }
    if request.has_aer {
        aer(out, &AER.map(|name| values.aer(name)))?;
    }
    Ok(())
}

/// Writes the lines of a NIC.
fn block(out: &mut Vec<u8>, device: DeviceName, values: &mut Values) -> io::Result<()> {
    writeln!(out, "Device: {device}")?;
    writeln!(out, "    Description: {}", values.description())?;
    for (label, file) in [
        ("Part Number", "fru/part_number"),
        ("Serial Number", "fru/serial_number"),
        ("FW Version", "uc/qspi_blob_version"),
    ] {
        writeln!(out, "    {label}: {}", values.line(file))?;
    }
    let (name, address) = values.interface();
    writeln!(out, "    Network device: {name}\n    MAC: {address}")?;
    let nid = values.number("properties/nid");
    writeln!(out, "    NID: {nid} (0x{nid:05x})")?;
    writeln!(out, "    PID granule: {}", values.number("properties/pid_granule"))?;
    let (speed, width) = (values.pcie_speed(), values.line("current_link_width"));
    writeln!(out, "    PCIE speed/width: {speed} x{width}")?;
    writeln!(out, "    PCIE slot: {}", values.slot())?;
    let is_cassini_2 = values.is_cassini_2();
    for (label, first, second) in LINK {
        let value = match if is_cassini_2 { second } else { first } {
            MTU => values.number(MTU).to_string(),
            file => values.line(file),
        };
        writeln!(out, "        {label}: {value}")?;
    }
    Ok(())
}

/// The text of a value that cannot be read. HPE's program prints memory contents there.
const NOT_AVAILABLE: &str = "Not Available";

/// The files of PCIe errors in the order of the text, by the end of their names.
const AER: [&str; 3] = ["correctable", "fatal", "nonfatal"];

/// Writes the errors of PCIe, each file of the kernel as it is; `None` for a file that cannot be
/// read.
fn aer(out: &mut impl Write, files: &[Option<String>; AER.len()]) -> io::Result<()> {
    for (name, text) in AER.iter().zip(files) {
        writeln!(out, "    AER {}:", name.to_uppercase())?;
        for line in text.as_deref().unwrap_or("No data").lines() {
            writeln!(out, "        {line}")?;
        }
    }
    Ok(())
}

/// The lines for standard error.
#[derive(Debug)]
struct ErrorLines {
    /// Values that cannot be read.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// Writes the rates of a link whose pause mode is `mode`, counted for `seconds`.
///
/// cxi_stat computes with numbers of 32 bits, and its rates have that precision here, too.
fn write_rates(
    out: &mut impl Write,
    rates: &LinkRates,
    mode: &str,
    seconds: f64,
) -> io::Result<ErrorLines> {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let mut per_second = |counter: &str| {
        let rate = rates.per_second(counter);
        if rate.is_none() {
            let what = match rates.change(counter) {
                Some(CounterChange::Reset) => "it was reset",
                Some(CounterChange::Counted { .. }) => "its time stamp stands still",
                None => "cannot be read",
            };
            errors.push(format!("Failed to read counter {counter}: {what}"));
        }
        rate
    };
    writeln!(out, "    Rates:")?;
    let mut kinds = Vec::new();
    for (label, kind) in
        [("Good", "good"), ("Corrected", "corrected"), ("Uncorrected", "uncorrected")]
    {
        let rate = per_second(&code_words(kind));
        writeln!(out, "        {label} CW: {}", text(rate, |rate| format!("{rate:.2}/s")))?;
        kinds.push((label, rate));
    }
    let smallest = exponential(rates.bit_error_rate(1.0 / seconds));
    for (label, rate) in &kinds[1..] {
        let ber = rate.map(|rate| rates.bit_error_rate(rate));
        let shown = ber.map_or(NOT_AVAILABLE.to_owned(), |ber| match ber {
            0.0 => format!("<{smallest}"),
            ber => exponential(ber),
        });
        writeln!(out, "        {label} BER: {shown}")?;
        if let (Some(mode), Some(rate)) = (rates.unknown_mode(), rate.filter(|rate| *rate > 0.0)) {
            warnings.push(format!(
                "Warning: encountered unexpected Link Mode {mode} for non-zero error rate {}",
                exponential(rate)
            ));
        }
    }
    pauses(out, mode, |counter| per_second(counter).and_then(|_| rates.share(counter)))?;
    Ok(ErrorLines { errors, warnings })
}

/// Writes the shares of time of the pauses in this mode; `share` returns the one that a counter
/// shows.
fn pauses(
    out: &mut impl Write,
    mode: &str,
    mut share: impl FnMut(&str) -> Option<f64>,
) -> io::Result<()> {
    for direction in ["TX", "RX"] {
        writeln!(out, "        {direction} Pause state: {mode}")?;
    }
    let mut percent =
        |counter: &str| text(share(counter), |share| format!("{:3.1}%", 100.0 * share));
    if mode.starts_with("pfc") {
        for priority in 0..PRIORITIES {
            for (label, direction) in [("RX", "rx"), ("TX", "tx")] {
                let share = percent(&pause(direction, priority));
                writeln!(out, "            {label} Pause PCP {priority}: {share}")?;
            }
        }
    } else if mode.starts_with("global") {
        writeln!(out, "            RX Pause: {}", percent(STANDARD_PAUSE))?;
        // No counter has the time in which the other side has paused this one.
        writeln!(out, "            TX Pause: {NOT_AVAILABLE}")?;
    }
    Ok(())
}

fn text(value: Option<f64>, form: impl Fn(f32) -> String) -> String {
    value.map_or(NOT_AVAILABLE.to_owned(), |value| form(value as f32))
}

/// A number as `%.3e` of C prints it: its exponent has a sign and two digits at least.
fn exponential(number: f64) -> String {
    let text = format!("{:.3e}", number as f32);
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node::nic::counter::CounterReading;
    use node::nic::counters::{CounterReadings, NicFacts};
    use node::nic::generation::Generation;

    use super::*;

    /// The numbers of HPE's sample output (health.md 1.8), and pauses by the clock of each
    /// generation: cxi_stat shows 10 % too much on Cassini 2. Meanwhile the clock is set back by
    /// 2 s.
    #[test]
    fn rates_are_those_of_the_sample_output() {
        let readings = |at: u64, stamp: u64, has_counted: bool| -> CounterReadings {
            let reading = |(name, by): (&str, u64)| {
                let value = 100 + if has_counted { by } else { 0 };
                let [at, stamp] = [at, stamp].map(Duration::from_secs);
                (name.to_owned(), CounterReading { value, at, stamp: Some(stamp) })
            };
            let counts = [
                ("hni_pcs_good_cw", 156_250_001),
                ("hni_pcs_corrected_cw", 8),
                ("hni_pcs_uncorrected_cw", 0),
                ("hni_rx_paused_3", 40_000_000),
                ("hni_tx_paused_0", 4_000_000_000),
            ];
            counts.map(reading).into_iter().collect()
        };
        let (before, after) =
            (readings(50, 1_700_000_000, false), readings(54, 1_700_000_002, true));
        for (generation, mode, lines) in [
            (
                Generation::Cassini1,
                "BS_200G",
                ["Corrected BER: 9.412e-12", "RX Pause PCP 3: 1.0%", "TX Pause PCP 0: 100.0%"],
            ),
            (
                Generation::Cassini2,
                "ck400G",
                ["Corrected BER: 4.706e-12", "RX Pause PCP 3: 0.9%", "TX Pause PCP 0: 90.9%"],
            ),
        ] {
            let nic = NicFacts {
                generation: Some(generation),
                link_speed: Some(mode.into()),
                ..NicFacts::default()
            };
            let mut out = Vec::new();
            let link = LinkRates::between(nic, &before, &after);
            write_rates(&mut out, &link, "pfc/802.1qbb", 4.0).unwrap();
            let text = String::from_utf8(out).unwrap();
            // The number of code words has the precision of 32 bits.
            for line in ["Good CW: 39062500.00/s", "Corrected CW: 2.00/s"].iter().chain(&lines) {
                assert!(text.contains(&format!(" {line}\n")), "{line}: {text}");
            }
        }
    }

    #[test]
    fn prints_exponents_as_c_does() {
        for (number, expected) in [
            (2.5e-6, "2.500e-06"),
            (1.176_470_6e-12, "1.176e-12"),
            (0.25, "2.500e-01"),
            (1.0, "1.000e+00"),
            (2e11, "2.000e+11"),
        ] {
            assert_eq!(exponential(number), expected);
        }
    }

    #[test]
    fn aer_has_every_line_of_the_file_and_no_more() {
        let files =
            [Some("RxErr 0\nTOTAL_ERR_COR 0\n".to_owned()), Some("Undefined 0".into()), None];
        let mut text = Vec::new();
        aer(&mut text, &files).unwrap();
        let expected = "    AER CORRECTABLE:\n        RxErr 0\n        TOTAL_ERR_COR 0\n    \
                        AER FATAL:\n        Undefined 0\n    AER NONFATAL:\n        No data\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
