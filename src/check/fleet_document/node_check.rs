//! The check of one node, as `cxidiag check --json` writes it there, what is found in it, and what
//! that amounts to.

use serde::Serialize;

use crate::document::{Check, MISSING, UNTESTED};
use facts::error::Failure;
use facts::severity::Severity;
use facts::text;
use health::item::Readings;
use health::{Finding, presence};
use page::problem::Problem;

/// Most NICs of a node, and most items of a NIC or of the host: a node has one vote, whatever it
/// sends.
const MOST_DEVICES: usize = 128;
const MOST_ITEMS: usize = 256;

impl Check {
    /// Reads the document of another node, and cuts its texts. Fields that later releases add do
    /// not matter.
    ///
    /// # Errors
    ///
    /// Bytes that are no such document.
    pub fn read(document: &[u8]) -> Result<Self, Failure> {
        let read: Result<Self, _> = serde_json::from_slice(document);
        let mut check = read.map_err(|error| {
            let mut why = format!("it sent no check: {error}");
            text::accept(&mut why);
            Failure::environment(why)
        })?;
        let items = check.blocks().map(|(_, items)| items.len()).max();
        if check.devices.len() > MOST_DEVICES || items > Some(MOST_ITEMS) {
            return Err(Failure::environment("it sent a check that is too long"));
        }
        check.texts().for_each(text::accept);
        // In documents of earlier releases, the number of NICs is only a text.
        for count in check.host.iter_mut().filter(|item| item.code == presence::COUNT.code) {
            let text = count.value.as_ref();
            count.number = count.number.or_else(|| Some(text?.parse::<u32>().ok()?.into()));
        }
        Ok(check)
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let own = [&mut self.cxidiag_version, &mut self.host_name, &mut self.summary];
        let device_texts = self.devices.iter_mut().flat_map(|device| {
            let error = device.error.iter_mut().flat_map(problem_texts);
            let items = device.items.iter_mut().flat_map(item_texts);
            [&mut device.name].into_iter().chain(error).chain(items)
        });
        let host_texts = self.host.iter_mut().flat_map(item_texts);
        own.into_iter().chain(device_texts).chain(host_texts)
    }

    /// Returns what the check says about the NIC `device` and its host.
    pub fn readings(&self, device: &str) -> Readings {
        let blocks = self.blocks();
        let own = blocks.filter(|(name, _)| *name == device || *name == "host");
        own.flat_map(|(_, items)| items).cloned().collect()
    }
}

fn item_texts(item: &mut Finding) -> impl Iterator<Item = &mut String> {
    let Finding { code, name, value, unit, limit, place, source, note, .. } = item;
    let others = [value, unit, limit, place, source, note];
    [code, name].into_iter().chain(others.into_iter().flatten())
}

fn problem_texts(problem: &mut Problem) -> impl Iterator<Item = &mut String> {
    let Problem { kind, message, hint, step, situation, nic_states } = problem;
    let others = [hint, step, situation].into_iter().flatten();
    [kind, message].into_iter().chain(others).chain(nic_states)
}

/// Returns what a check has found.
pub(super) fn findings(check: &Check) -> Vec<NodeFinding> {
    let verdicts = [(Severity::Bad, NodeVerdict::Bad), (Severity::Suspect, NodeVerdict::Suspect)];
    let wrong = verdicts.into_iter().flat_map(|(severity, verdict)| {
        check.with_verdict(severity).map(move |(device, item)| NodeFinding {
            verdict,
            code: item.code.clone(),
            device: device.to_owned(),
            what: item.described(),
        })
    });
    let untested = |device: &str, what: &str| NodeFinding {
        verdict: NodeVerdict::Untested,
        code: UNTESTED.into(),
        device: device.to_owned(),
        what: what.to_owned(),
    };
    let errors = check.devices.iter().filter_map(|device| {
        let error = device.error.as_ref()?;
        Some(untested(&device.name, &error.message))
    });
    let missing = check.devices.is_empty().then(|| untested("host", MISSING));
    wrong.chain(errors).chain(missing).collect()
}

facts::named_enum! {
    /// What a node, or a finding about it, amounts to: the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum NodeVerdict {
        /// Nothing is wrong.
        Good = "good",
        /// The node works, but not as it should, or not as most others.
        Suspect = "suspect",
        /// Something could not be checked.
        Untested = "untested",
        /// The node has not sent a check.
        NoAnswer = "no_answer",
        /// Something does not work as it should.
        Bad = "bad",
    }
    /// Returns its name in documents.
    pub fn name(self);
}

impl NodeVerdict {
    /// Returns its name in sentences.
    pub fn text(self) -> &'static str {
        if self == Self::NoAnswer { "without answer" } else { self.name() }
    }
}

/// One thing that was found about a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeFinding {
    /// What it amounts to.
    pub verdict: NodeVerdict,
    /// The code of the item, or untested.
    pub code: String,
    /// The device, or host.
    pub device: String,
    /// What it is.
    pub what: String,
}
