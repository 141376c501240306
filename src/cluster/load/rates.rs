//! What NICs sent under load, slot by slot: the results that bandwidths are made of.

use super::scene::Scene;
use super::timetable::{LoadAnswer, LoadResult, PARTS, Times};
use crate::survey::busy::most_waited_percent;
use crate::survey::ids::NicId;

/// The first part of the counted time has at least this part of the bytes of each late part, if
/// the NIC began in time.
const LEAST_FIRST: f64 = 0.5;

/// What one NIC sent in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRate {
    /// The NIC.
    pub source: NicId,
    /// The NICs to which it sent in turn.
    pub peers: Vec<NicId>,
    /// Bytes per second, to all of them together.
    pub rate: f64,
}

/// What all NICs sent in a slot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotRates {
    /// The NICs whose results count.
    pub sent: Vec<SentRate>,
    /// Number of NICs whose results do not count, because of busy CPUs or a late start.
    pub unjudged: u32,
}

impl SlotRates {
    /// Returns the rates of a scene. A NIC without a result, or without a part in the slot, is
    /// neither counted nor unjudged; a NIC that could not send at all has rate 0.
    pub fn of(scene: &Scene, results: &[LoadResult]) -> Self {
        let mut rates = Self::default();
        let counted_s = Times::of_slot(scene.slot_ns).counted() as f64 / 1e9;
        let flows = scene.flows.iter().filter(|flow| !flow.peers.is_empty());
        for flow in flows {
            let of_source = results.iter().filter(|of| of.nic == flow.source);
            for result in of_source {
                let bytes = match &result.answer {
                    LoadAnswer::Sent { bytes, .. } => *bytes,
                    LoadAnswer::Failed(_) => [0; PARTS],
                    LoadAnswer::Untested(_) => {
                        rates.unjudged += 1;
                        continue;
                    }
                    LoadAnswer::Measured(_) | LoadAnswer::Present => continue,
                };
                if result.waited_percent > most_waited_percent(true) || is_late(&bytes) {
                    rates.unjudged += 1;
                    continue;
                }
                rates.sent.push(SentRate {
                    source: flow.source,
                    peers: flow.peers.clone(),
                    rate: bytes.iter().map(|bytes| *bytes as f64).sum::<f64>() / counted_s,
                });
            }
        }
        rates
    }

    /// Returns each flow with its rate: a NIC sends to its peers in turn, so each of them gets an
    /// equal part.
    pub fn flows(&self) -> impl Iterator<Item = (NicId, NicId, f64)> {
        self.sent.iter().flat_map(|of| {
            let part = of.rate / of.peers.len() as f64;
            of.peers.iter().map(move |peer| (of.source, *peer, part))
        })
    }
}

/// Returns whether the NIC began to send after the counted time had begun. A slow NIC may have no
/// answer in one part or another, so the first part is compared with the smallest late one.
fn is_late(bytes: &[u64; PARTS]) -> bool {
    let late_parts = &bytes[PARTS / 2..];
    let least = late_parts.iter().copied().min().unwrap_or(0);
    (bytes[0] as f64) < LEAST_FIRST * least as f64
}
