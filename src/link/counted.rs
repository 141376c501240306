//! The files of a NIC at one moment, and what its counters did until another one.

use std::time::Duration;

use crate::document::Link;
use crate::options::LinkRequest;
use check::document::DeviceResult;
use facts::device::DeviceName;
use facts::error::Failure;
use facts::time_of_day::since_1970;
use health::code_words::CodeWords;
use health::link_rates::LinkRates;
use health::{code_words, identity, link, link_rates, pcie, power, presence, temperature};
use node::backend;
use node::machine::Machine;
use node::nic::counters::{CounterReadings, NicFacts};
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::nic::pcie_path::PciePath;
use page::problem::Problem;

/// A NIC at one moment.
pub struct CountedNic {
    device: DeviceName,
    is_software: bool,
    /// Its files and counters, or why they cannot be read; `None` if the NIC does not exist.
    read: Result<Option<CounterMoment>, String>,
}

struct CounterMoment {
    files: Files,
    code_words: CodeWords,
    readings: CounterReadings,
    at: Duration,
}

/// Returns the counters of rates and of verdicts, each once: both are about one reading.
fn names() -> Vec<String> {
    let mut names: Vec<String> = link_rates::names().collect();
    for name in code_words::names() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl CountedNic {
    /// Reads the files of a NIC.
    pub fn read(device: DeviceName, machine: &Machine) -> Self {
        let files = check::files_with(device, machine, link_rates::is_link_counter);
        let read = files.map_err(|failure| failure.message()).map(|files| {
            files.map(|files| {
                let at = since_1970();
                let readings = CounterReadings::of(&files, names());
                CounterMoment { at, code_words: CodeWords::of(&readings), readings, files }
            })
        });
        Self { device, is_software: backend::is_software(device, machine), read }
    }

    /// Returns the health of the NIC `after` this moment, and what its counters did until then.
    pub fn until(
        &self,
        after: &Self,
        request: &LinkRequest,
        machine: &Machine,
    ) -> (DeviceResult, Link) {
        let (device, is_software) = (self.device, self.is_software);
        let name = device.to_string();
        let result = |items, failure: Option<&Failure>| DeviceResult {
            name: device.to_string(),
            is_software,
            error: failure.map(Problem::from),
            items,
        };
        let (before, after) = match (&self.read, &after.read) {
            (Ok(Some(before)), Ok(Some(after))) => (before, after),
            (Err(why), _) | (_, Err(why)) => {
                let failure = Failure::environment(why);
                return (result(Vec::new(), Some(&failure)), Link::new(name, None, None));
            }
            _ => {
                let absent = presence::absent(check::others(device, machine));
                return (result(vec![absent], None), Link::new(name, None, None));
            }
        };
        let files = &after.files;
        // A software NIC has no generation; the one in its files is for other programs.
        let generation = Generation::of(files).filter(|_| !is_software);
        let mut findings = vec![presence::present()];
        findings.extend(link::all(files, generation, request.link_gigabits));
        findings.extend(if request.is_quick {
            code_words::left_out("--quick")
        } else {
            code_words::evaluate(files, &before.code_words, &after.code_words)
        });
        let path = PciePath::read(files);
        findings.push(pcie::width(files, &path));
        findings.push(pcie::speed(files, &path, generation));
        findings.extend(pcie::aer(files));
        findings.extend(temperature::temperatures(files));
        findings.extend(identity::versions(files, generation, is_software));
        findings.extend(power::supplies(files));
        let nic = NicFacts::read(files, name.clone(), is_software);
        let rates = LinkRates::between(nic, &before.readings, &after.readings);
        let seconds = after.at.saturating_sub(before.at).as_secs_f64();
        let rates = (!request.is_quick).then_some((&rates, seconds));
        (result(findings, None), Link::new(name, Some(files), rates))
    }
}
