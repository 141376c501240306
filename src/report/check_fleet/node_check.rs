//! The check of one node, as `cxidiag check --json` writes it there.

use serde::Deserialize;

use super::compared::is_compared;
use super::finding::{NodeFinding, NodeVerdict, UNTESTED};
use crate::check::MISSING;
use diagnosis::readings::{Reading, Readings, number};
use facts::error::Failure;
use facts::severity::Severity;
use facts::text;

/// Most NICs of a node, and most items of a NIC or of the host: a node has one vote, whatever it
/// sends.
const MOST_DEVICES: usize = 128;
const MOST_ITEMS: usize = 256;

/// The check of a node. Fields that later releases add do not matter.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeCheck {
    pub(super) cxidiag_version: String,
    pub host_name: String,
    pub(super) host: Vec<NodeItem>,
    pub(super) devices: Vec<NodeDevice>,
}

/// A NIC of a node.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeDevice {
    pub(super) name: String,
    pub(super) error: Option<NodeProblem>,
    pub(super) items: Vec<NodeItem>,
}

/// Why a NIC could not be checked.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeProblem {
    pub(super) message: String,
}

/// An item of a NIC or of the host.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeItem {
    pub(super) code: String,
    #[serde(rename = "item")]
    pub(super) name: String,
    pub(super) value: Option<String>,
    limit: Option<String>,
    /// Earlier releases do not send it.
    place: Option<String>,
    verdict: Severity,
    note: Option<String>,
}

impl NodeCheck {
    /// Reads the document of a check, and cuts its texts.
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
        Ok(check)
    }

    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let names = [&mut self.cxidiag_version, &mut self.host_name];
        let device_texts = self.devices.iter_mut().flat_map(|device| {
            let error = device.error.as_mut().map(|error| &mut error.message);
            let items = device.items.iter_mut().flat_map(NodeItem::texts);
            [&mut device.name].into_iter().chain(error).chain(items)
        });
        let host_texts = self.host.iter_mut().flat_map(NodeItem::texts);
        names.into_iter().chain(device_texts).chain(host_texts)
    }

    /// Returns what the check says about the NIC `device` and its host.
    pub fn readings(&self, device: &str) -> Readings {
        let blocks = self.blocks();
        let own = blocks.filter(|(name, _)| *name == device || *name == "host");
        own.flat_map(|(_, items)| items).map(reading).collect()
    }

    /// Returns the items of each device and of the host, with its name.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&str, &[NodeItem])> {
        let devices = self.devices.iter();
        let devices = devices.map(|device| (device.name.as_str(), device.items.as_slice()));
        devices.chain([("host", self.host.as_slice())])
    }
}

impl NodeItem {
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let known = [&mut self.code, &mut self.name];
        let [value, limit] = [&mut self.value, &mut self.limit];
        let others = [value, limit, &mut self.place, &mut self.note];
        known.into_iter().chain(others.into_iter().flatten())
    }
}

impl NodeDevice {
    /// Returns the value of the item with this code, if there is one.
    pub(super) fn value(&self, code: &str) -> Option<&str> {
        let mut items = self.items.iter();
        items.find(|item| item.code == code)?.value.as_deref()
    }
}

fn reading(item: &NodeItem) -> Reading {
    let share_of_limit = |limit: &str| {
        let share = number(item.value.as_deref()?)? / number(limit)?;
        Some(share).filter(|share| share.is_finite())
    };
    Reading {
        share: item.limit.as_deref().and_then(share_of_limit),
        code: item.code.clone(),
        name: item.name.clone(),
        value: item.value.clone(),
        state: item.verdict,
        text: described(item),
        is_attribute: is_compared(&item.code),
    }
}

/// Returns what a check has found.
pub(super) fn findings(check: &NodeCheck) -> Vec<NodeFinding> {
    let mut found = Vec::new();
    for (device, items) in check.blocks() {
        for item in items {
            let verdict = match item.verdict {
                Severity::Bad => NodeVerdict::Bad,
                Severity::Suspect => NodeVerdict::Suspect,
                _ => continue,
            };
            found.push(NodeFinding {
                verdict,
                code: item.code.clone(),
                device: device.to_owned(),
                what: described(item),
            });
        }
    }
    let untested = |device: &str, what: &str| NodeFinding {
        verdict: NodeVerdict::Untested,
        code: UNTESTED.into(),
        device: device.to_owned(),
        what: what.to_owned(),
    };
    for device in &check.devices {
        if let Some(error) = &device.error {
            found.push(untested(&device.name, &error.message));
        }
    }
    if check.devices.is_empty() {
        found.push(untested("host", MISSING));
    }
    found
}

/// Returns what is wrong with an item, as in the first line of a check.
fn described(item: &NodeItem) -> String {
    crate::check::described(
        &item.name,
        item.value.as_deref(),
        item.limit.as_deref(),
        item.place.as_deref(),
        item.note.as_deref(),
    )
}
