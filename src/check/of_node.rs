//! The check of this node, also in a member of a survey, for the diagnosis of culprits.

use std::env;
use std::time::Duration;

use super::document::{Check, DeviceResult};
use super::examine::Examination;
use super::lock;
use super::note::note;
use super::options::{self, CheckRequest, WINDOW};
use super::traffic::Runs;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::time_of_day::Clocks;
use health::host::{self, HostCounts};
use health::{Finding, address, presence};
use node::machine::{self, Machine};
use node::nic::files::Files;
use node::reading;
use node::slingshot::{self, Grant, Launcher};
use page::json;

/// Checks this node.
///
/// # Errors
///
/// Settings of the site or of the job that are invalid, and an interruption.
pub fn check(request: CheckRequest) -> Result<Check, Failure> {
    let check = check_machine(request);
    // A file without an answer is not the reason then.
    interrupt::check()?;
    check
}

fn check_machine(request: CheckRequest) -> Result<Check, Failure> {
    let mut ongoing = OngoingCheck::begin(request)?;
    ongoing.traffic()?;
    ongoing.wait()?;
    Ok(ongoing.end())
}

/// A check of this node that has read the files for the first time.
pub struct OngoingCheck {
    request: CheckRequest,
    machine: Machine,
    began: Clocks,
    examinations: Vec<Examination>,
    /// The machine with the files that the faults of a software NIC plant.
    host: Machine,
    _planted: Option<Files>,
    /// What the kernel has counted before the check.
    counts: HostCounts,
}

impl OngoingCheck {
    /// Begins the check: reads the files of the devices.
    ///
    /// # Errors
    ///
    /// Settings of the site or of the job that are invalid.
    pub fn begin(mut request: CheckRequest) -> Result<Self, Failure> {
        let machine = Machine::this();
        request.site.fill_from(&options::read(&machine)?);
        let grant = grant(&request)?;
        let grant = grant.as_ref();
        let devices = request.devices(grant, &machine)?;
        let began = Clocks::now();
        let begin = |device: &DeviceName| Examination::begin(*device, &request, grant, &machine);
        let examinations: Vec<Examination> = devices.iter().map(begin).collect();
        let planted = examinations.iter().find_map(Examination::planted).cloned();
        let host = match &planted {
            Some(files) => machine.clone().with_files_of(files.root().to_owned()),
            None => machine.clone(),
        };
        Ok(Self {
            counts: HostCounts::read(&host),
            host,
            _planted: planted,
            request,
            machine,
            began,
            examinations,
        })
    }

    /// Writes and reads through one NIC after the other, if the request has it.
    fn traffic(&mut self) -> Result<(), Failure> {
        if !self.request.has_traffic() || !self.has_files() {
            return Ok(());
        }
        let mut devices = self.examinations.iter().map(Examination::device);
        let has_hardware = devices.any(|device| device.platform().is_listed);
        let lock = if has_hardware { lock::take(&self.machine) } else { Ok(None) };
        interrupt::check()?;
        let mut runs = Runs::new(self.request.libcxi.as_ref());
        for examination in &mut self.examinations {
            examination.traffic(&lock, &mut runs, &self.request)?;
        }
        Ok(())
    }

    /// Waits until the window is over, if the request has one.
    fn wait(&self) -> Result<(), Failure> {
        if self.request.has_window() && self.has_files() {
            let window = self.request.window.unwrap_or(WINDOW);
            let left = window.saturating_sub(Clocks::now().since(self.began));
            interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
        }
        Ok(())
    }

    fn has_files(&self) -> bool {
        self.examinations.iter().any(Examination::has_files)
    }

    /// Reads the files again, and returns what was found.
    pub fn end(self) -> Check {
        let (request, machine) = (self.request, self.machine);
        let ended = self.examinations.into_iter();
        let mut examined: Vec<DeviceResult> =
            ended.map(|examination| examination.end(&request, &machine)).collect();
        address::compare(examined.iter_mut().flat_map(|nic| &mut nic.items));
        let count = presence::count(nics(&examined, &machine), request.site.expected_nics);
        let mut host = vec![count, presence::driver(&machine)];
        host.extend(host::findings(&self.host, machine::loaded_library()));
        host.extend([host::idle_states(&self.host), host::memory_size(&self.host)]);
        let before = request.has_window().then_some(self.counts);
        host.extend(HostCounts::read(&self.host).since(before));
        name_unreadable(&mut host, &mut examined, &machine);
        Check::new([self.began, Clocks::now()], host, examined)
    }
}

/// Returns what the launcher has granted, if it has.
///
/// # Errors
///
/// Invalid variables, if they choose the NICs. For NICs that are arguments a note is enough:
/// the variables only show which of their services are the job's.
pub fn grant(request: &CheckRequest) -> Result<Option<Grant>, Failure> {
    let value = |name: &str| env::var(name).ok();
    match Launcher::find(value) {
        Ok(Launcher::Granted(grant)) => Ok(Some(grant)),
        Ok(Launcher::Absent | Launcher::Incomplete(_)) => Ok(None),
        Err(why) if request.devices.is_empty() => Err(Failure::usage(why)),
        Err(why) => {
            let mut devices = request.devices.iter();
            if devices.any(|device| slingshot::is_listed(value, &device.to_string())) {
                note(&format!("{why}: the services of the job are not known"));
            }
            Ok(None)
        }
    }
}

/// Names the files that did not answer or that failed: a NIC with such a file is not tested.
pub fn name_unreadable(host: &mut [Finding], examined: &mut [DeviceResult], machine: &Machine) {
    for (file, reason) in reading::unreadable() {
        let file = file.strip_prefix(machine.root()).unwrap_or(&file);
        let is_of = |device: &DeviceResult| file.iter().any(|part| part == device.name.as_str());
        match examined.iter_mut().find(|device| is_of(device)) {
            Some(device) => {
                let what = format!("/{}: unreadable: {reason}", file.display());
                device.error.get_or_insert((&Failure::environment(what)).into());
            }
            None => {
                let absent = host.iter_mut().filter(|found| found.value.is_none());
                absent.for_each(|found| {
                    found.note.get_or_insert_with(|| format!("unreadable: {reason}"));
                });
            }
        }
    }
}

/// The number of NICs of the machine: hardware, and the software NICs that were examined.
fn nics(examined: &[DeviceResult], machine: &Machine) -> usize {
    let is_other = |nic: &&DeviceResult| {
        let is_listed = nic.name.parse().is_ok_and(|name: DeviceName| name.platform().is_listed);
        !is_listed && nic.items.contains(&presence::present())
    };
    machine.cxi_devices().len() + examined.iter().filter(is_other).count()
}

/// How long a member looks for traffic of others, before it measures.
const IDLE: Duration = Duration::from_millis(50);

/// The checks of the NICs of a member. They read files only.
pub struct SurveyChecks {
    devices: Vec<DeviceName>,
    /// The check that the first one has begun.
    ongoing: Option<OngoingCheck>,
}

impl SurveyChecks {
    /// The checks of these NICs.
    pub fn new(devices: Vec<DeviceName>) -> Self {
        let ongoing = None;
        Self { devices, ongoing }
    }

    /// The document of a check. The first one has the traffic of others, the second one what has
    /// changed since the first one, such as errors of the link.
    ///
    /// # Errors
    ///
    /// Settings of the site or of the job that are invalid, and an interruption.
    pub fn document(&mut self) -> Result<Vec<u8>, Failure> {
        let check = match self.ongoing.take() {
            Some(ongoing) => ongoing.end(),
            None => {
                reading::limit_waits();
                let request = CheckRequest {
                    devices: self.devices.clone(),
                    no_traffic: true,
                    window: Some(Duration::ZERO),
                    ..CheckRequest::default()
                };
                let while_idle = check(CheckRequest { window: Some(IDLE), ..request.clone() })?;
                self.ongoing =
                    Some(OngoingCheck::begin(CheckRequest { uses_nic: true, ..request })?);
                while_idle
            }
        };
        json::line(&check)
    }
}
