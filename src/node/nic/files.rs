//! The files of one NIC, below a root directory: `/` for hardware.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::counter::{CounterReading, parse};
use crate::reading;
use cxi::address::virtual_function;
use facts::number::decimal;
use facts::time_of_day::Clocks;

/// Size of the registers of a NIC, BAR 0, in bytes. The registers of a virtual function are smaller
/// (libcxi.md 2.2).
const REGISTERS_LENGTH: u64 = 2 << 30;

/// Words in files of the link in place of a value, and what they say (health.md 2.1.2). None of
/// them is a state or a number; the last two are among the states (health.md 2.1), but not known
/// as faults.
const NO_VALUES: [(&str, &str); 9] = [
    ("error", NOT_READABLE),
    ("io-error", NOT_READABLE),
    ("unsupported-format", NOT_READABLE),
    ("no-cable", "no cable"),
    ("no-link", NOT_UP),
    ("--", NOT_UP),
    ("not-active", "no active cable"),
    ("unknown", UNKNOWN),
    ("invalid", UNKNOWN),
];

const NOT_READABLE: &str = "the driver could not read it";
const NOT_UP: &str = "the link is not up";
const UNKNOWN: &str = "the driver does not know it";

/// The reason why a file has no value, where the file says it.
pub type NoValue = Option<&'static str>;

/// The files of one NIC. A file that is missing, unreadable or empty has no value: an older driver,
/// the other generation of hardware or a virtual function does not have it.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    /// Name of the NIC in `/sys/class/cxi`.
    device: String,
    /// What keeps files that are written on request.
    _owner: Option<Arc<dyn Any + Send + Sync>>,
    /// When their values were taken, by a clock without steps; `None` if a read takes them.
    taken_at: Option<Duration>,
}

impl Files {
    /// The files of `device`, such as `cxi0`, below `root`.
    pub fn new(root: impl Into<PathBuf>, device: impl Into<String>) -> Self {
        Self { root: root.into(), device: device.into(), _owner: None, taken_at: None }
    }

    /// Keeps `owner`, which removes the files when it is dropped, as long as these files are used.
    pub fn holding(mut self, owner: impl Any + Send + Sync) -> Self {
        self._owner = Some(Arc::new(owner));
        self
    }

    /// The files as a picture of the moment `at`, by a clock without steps.
    pub fn taken_at(self, at: Duration) -> Self {
        Self { taken_at: Some(at), ..self }
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of a file of the PCI device, such as `port/link`.
    pub fn path(&self, name: &str) -> PathBuf {
        let device = Path::new("sys/class/cxi").join(&self.device);
        self.root.join(device).join("device").join(name)
    }

    /// Whether the NIC has any files.
    pub fn exist(&self) -> bool {
        reading::exists(&self.path(""))
    }

    /// The text of a file of the PCI device, without white space at its ends.
    pub fn text(&self, name: &str) -> Option<String> {
        text(&self.path(name))
    }

    /// The value of a file of the link of Cassini 2, below `port/0`, such as `llr/state`.
    ///
    /// # Errors
    ///
    /// The file has no value, or a word in its place.
    pub fn link_value(&self, name: &str) -> Result<String, NoValue> {
        known(self.text(&format!("port/0/{name}")).ok_or(None)?)
    }

    /// The decimal number in a file of the PCI device.
    pub fn number(&self, name: &str) -> Option<u64> {
        decimal(&self.text(name)?)
    }

    /// The names of the entries of a directory of the PCI device, in order.
    pub fn entries(&self, name: &str) -> Vec<String> {
        let names = reading::names(&self.path(name)).unwrap_or_default();
        let names = names.into_iter();
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Reads a telemetry counter (health.md 1.1).
    pub fn counter(&self, name: &str) -> Option<CounterReading> {
        self.timed(|| parse(&self.text(&format!("telemetry/{name}"))?))
    }

    /// Returns what `read` reads, a value and perhaps its stamp, with the time of this read.
    pub fn timed(
        &self,
        read: impl FnOnce() -> Option<(u64, Option<Duration>)>,
    ) -> Option<CounterReading> {
        let before = Clocks::now();
        let (value, stamp) = read()?;
        let read_at = self.taken_at.unwrap_or_else(|| before.time_of(stamp));
        Some(CounterReading { value, at: read_at, stamp })
    }

    /// The text of a file of the NIC's retry handler: it ends at the first newline or NUL, with
    /// which the file may be padded (health.md 1.6).
    pub fn retry_handler_text(&self, name: &str) -> Option<String> {
        let path = self.root.join("run/cxi").join(&self.device).join(name);
        let text = text(&path)?;
        let line = text.split(['\n', '\0']).next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// The address of the NIC on the fabric.
    pub fn nid(&self) -> Option<u32> {
        let text = self.text("properties/nid")?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    /// Whether the NIC is a virtual function of another one: its registers are small (health.md
    /// 2.1.5), the kernel links it to the other one, only virtual functions have its PCI device id
    /// (health.md 2.3), or its address says so.
    pub fn is_virtual_function(&self) -> bool {
        let registers = self.path("resource0").metadata().ok();
        registers.is_some_and(|file| file.len() < REGISTERS_LENGTH)
            || reading::exists(&self.path("physfn"))
            || self.text("device").is_some_and(|id| id == "0x0372")
            || self.nid().and_then(virtual_function).is_some()
    }

    /// The number of the atomic operation that the NIC executes as a PCIe FetchAdd where it is the
    /// target; -1 for none (nic.md 11.3).
    pub fn fetch_add_opcode(&self) -> Option<i32> {
        self.text("properties/amo_remap_to_pcie_fadd")?.parse().ok()
    }

    /// The directory of the NIC's network interface: of several, the last one by name, as cxi_stat
    /// does (node-tools.md 2.4).
    pub fn interface(&self) -> Option<PathBuf> {
        if let Some(name) = self.entries("net").pop() {
            return Some(self.path(&format!("net/{name}")));
        }
        let all = self.root.join("sys/class/net");
        let names = reading::names(&all).unwrap_or_default().into_iter();
        let nic_path = Path::new("device/cxi").join(&self.device);
        let has_nic = |path: &PathBuf| reading::exists(&path.join(&nic_path));
        names.map(|name| all.join(name)).filter(has_nic).max()
    }

    /// The name of the NIC's network interface.
    pub fn interface_name(&self) -> Option<String> {
        Some(self.interface()?.file_name()?.to_string_lossy().into_owned())
    }

    /// The text of a file of the NIC's network interface, such as `address`.
    pub fn interface_text(&self, name: &str) -> Option<String> {
        text(&self.interface()?.join(name))
    }
}

/// The text of a file of the link, unless it is a word in place of a value.
pub fn known(text: String) -> Result<String, NoValue> {
    let word = NO_VALUES.iter().find(|(word, _)| *word == text);
    word.map_or(Ok(text), |(_, meaning)| Err(Some(meaning)))
}

fn text(path: &Path) -> Option<String> {
    let text = reading::text(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::nic::testing::MadeUp;

    #[test]
    fn distinguishes_missing_and_empty_files_from_values() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path(), "cxi0");
        for (name, content) in [
            ("port/link", "up"),
            ("properties/pct_eq", "1\n"),
            ("fru/description", "\n"),
            ("telemetry/hni_pcs_good_cw", "12@1700000000.000000001\n"),
            ("telemetry/hni_pcs_corrected_cw", "x@1.0\n"),
        ] {
            let path = files.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        assert_eq!(files.text("port/link").as_deref(), Some("up"));
        assert_eq!(files.number("properties/pct_eq"), Some(1));
        assert_eq!(files.text("fru/description"), None);
        assert_eq!(files.text("port/speed"), None);
        assert_eq!(files.counter("hni_pcs_good_cw").unwrap().value, 12);
        assert_eq!(files.counter("hni_pcs_corrected_cw"), None);
        assert_eq!(files.entries("telemetry"), ["hni_pcs_corrected_cw", "hni_pcs_good_cw"]);
        assert!(files.entries("link_restarts").is_empty());
    }

    #[test]
    fn words_of_the_link_are_no_values() {
        let made_up = MadeUp::new(&[]);
        assert_eq!(made_up.files.link_value("media/type"), Err(None));
        for (word, _) in NO_VALUES {
            made_up.write("port/0/media/type", &format!("{word}\n"));
            assert!(matches!(made_up.files.link_value("media/type"), Err(Some(_))), "{word}");
        }
        made_up.write("port/0/media/type", "electrical\n");
        assert_eq!(made_up.files.link_value("media/type").as_deref(), Ok("electrical"));
    }

    #[test]
    fn recognizes_virtual_functions() {
        let is_virtual = |pairs: &[(&str, &str)]| MadeUp::new(pairs).files.is_virtual_function();
        assert!(!is_virtual(&[("device", "0x0371\n"), ("properties/nid", "0x7ea\n")]));
        for pair in [
            ("device", "0x0372\n"),
            ("physfn/device", "0x0501\n"),
            ("properties/nid", "0x2007ea\n"),
            ("resource0", "small"),
        ] {
            assert!(is_virtual(&[("properties/link", "0\n"), pair]), "{pair:?}");
        }
        let nic = MadeUp::new(&[("resource0", "")]);
        let registers = fs::File::create(nic.files.path("resource0")).unwrap();
        registers.set_len(REGISTERS_LENGTH).unwrap();
        assert!(!nic.files.is_virtual_function());
    }

    #[test]
    fn text_of_retry_handler_ends_at_newline_or_nul() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::new(root.path(), "cxi0");
        let directory = root.path().join("run/cxi/cxi0");
        fs::create_dir_all(&directory).unwrap();
        for (content, text) in [
            ("7", Some("7")),
            ("7\n", Some("7")),
            ("7\0\0\0", Some("7")),
            ("7\n\0\0", Some("7")),
            ("7\n8\n", Some("7")),
            ("\0\0", None),
        ] {
            fs::write(directory.join("nacks"), content).unwrap();
            let read = files.retry_handler_text("nacks");
            assert_eq!(read.as_deref(), text, "{content:?}");
        }
    }

    #[test]
    fn finds_last_network_interface_from_either_side() {
        for path in ["sys/class/cxi/cxi0/device/net/hsn0", "sys/class/net/hsn0"] {
            let root = tempfile::tempdir().unwrap();
            let files = Files::new(root.path(), "cxi0");
            assert_eq!(files.interface_text("address"), None);
            for (path, address) in
                [(path.to_owned() + "1", "02:00:00:00:00:13"), (path.into(), "02:00:00:00:00:12")]
            {
                let path = root.path().join(path);
                fs::create_dir_all(path.join("device/cxi/cxi0")).unwrap();
                fs::write(path.join("address"), format!("{address}\n")).unwrap();
            }
            let address = files.interface_text("address");
            assert_eq!(address.as_deref(), Some("02:00:00:00:00:13"), "the last by name");
        }
    }
}
