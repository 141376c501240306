//! What the program does for the coordinator of a survey: it prints notes, knows where NICs are,
//! and reads checks.

use std::collections::BTreeMap;

use super::diagnosis_course::class;
use super::locations::Locations;
use super::outputs::Notes;
use super::request::RequestedTest;
use campaign::coordinator::Program;
use campaign::slots::Members;
use check::document::Check;
use crew::introduction::Introduction;
use health::identity::{CLASS_CEILING, ceiling};
use health::item::Readings;
use node::traffic_class::TrafficClass;

/// What the program does for the coordinator of a survey.
pub struct SurveyProgram {
    pub notes: Notes,
    pub locations: Locations,
    /// The traffic class of the survey.
    class: TrafficClass,
}

impl SurveyProgram {
    /// The program of a survey with these `tests`.
    pub fn new(notes: Notes, locations: Locations, tests: &[RequestedTest]) -> Self {
        Self { notes, locations, class: class(tests) }
    }
}

impl Program for SurveyProgram {
    fn note(&mut self, line: &str) {
        self.notes.add(line);
    }

    fn show(&mut self, line: &dyn Fn(usize) -> String) {
        self.notes.progress.show(line);
    }

    fn locate(&mut self, joined: &BTreeMap<u32, Introduction>, members: &mut Members) {
        self.locations.add_topology(joined);
        members.locate(joined, |host, nic| self.locations.of(host, nic));
    }

    fn readings(&self, document: &[u8], devices: &[&str]) -> Option<BTreeMap<String, Readings>> {
        let check = Check::read(document).ok()?;
        let readings = |device: &&str| {
            let mut readings = check.readings(device);
            narrow_ceilings(&mut readings, self.class);
            ((*device).to_owned(), readings)
        };
        Some(devices.iter().map(readings).collect())
    }
}

/// Leaves the ceiling of a traffic class in the item about ceilings of classes.
fn narrow_ceilings(readings: &mut Readings, class: TrafficClass) {
    let ceilings = readings.iter_mut();
    for reading in ceilings.filter(|reading| reading.code == CLASS_CEILING.code) {
        let own = reading.numbers.get(&class.to_string()).copied();
        reading.value = own.map(|own| ceiling(class, own));
        (reading.number, reading.unit) = (own, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity;
    use health::address::PARKED;
    use health::item::testing::reading;
    use health::{Finding, host, identity};
    use why::investigation::{GENERATION, HUGE_PAGES, PARKED_PEERS};

    #[test]
    fn codes_of_diagnoses_are_codes_of_items() {
        assert_eq!(GENERATION, identity::GENERATION.code);
        assert_eq!(PARKED_PEERS, PARKED.code);
        assert_eq!(HUGE_PAGES, host::HUGE_PAGES.code);
    }

    #[test]
    fn ceilings_are_those_of_the_class_of_the_survey() {
        let narrowed = |class| {
            let both = "50 % of BULK_DATA, 60 % of BEST_EFFORT";
            let mut all = vec![
                reading("class-ceiling", both, Severity::Shown),
                reading("mtu", "2112", Severity::Good),
            ];
            all[0].numbers = [("BULK_DATA".into(), 0.5), ("BEST_EFFORT".into(), 0.6)].into();
            narrow_ceilings(&mut all, class);
            assert_eq!(all[1].value.as_deref(), Some("2112"));
            let Finding { value, number, .. } = all.remove(0);
            (value, number)
        };
        let best_effort = (Some("60 % of BEST_EFFORT".into()), Some(0.6));
        assert_eq!(narrowed(TrafficClass::BestEffort), best_effort);
        let bulk_data = (Some("50 % of BULK_DATA".into()), Some(0.5));
        assert_eq!(narrowed(TrafficClass::BulkData), bulk_data);
        assert_eq!(narrowed(TrafficClass::LowLatency), (None, None));
    }
}
