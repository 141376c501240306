//! The counters of the NICs during a run, with `--counters` of either side.

use crate::bench::api::Issued;
use crate::endpoint::Endpoint;
use facts::device::{DeviceName, FabricAddress};
use facts::error::Failure;
use facts::time_of_day::Clocks;
use node::backend;
use node::machine::Machine;
use node::nic::counter_table::Preset;
use node::nic::counters::{CounterChanges, CounterReadings, NicFacts};
use node::nic::files::Files;
use plan::Plan;
use plan::run_options::{RunOptions, Side};
use report::PeerCounters;
use report::outcome::Counters;
use session::Session;

/// Bytes of data in a packet.
const PACKET: u64 = 2048;

/// The counters of this side's NIC, read before the first size.
pub struct CounterBaseline {
    /// The NIC counters of this side.
    shown: Option<Preset>,
    /// The counters that the server sends to its client.
    sent: Option<Preset>,
    side: Side,
    device: DeviceName,
    is_software: bool,
    /// Both sides use the same NIC.
    is_one_nic: bool,
    began: Clocks,
    before: Option<CounterReadings>,
    /// Packets with data that both sides have issued, as far as this side knows.
    packets: u64,
}

impl CounterBaseline {
    /// Reads the counters that either side has asked for. Called before the first barrier, so that
    /// neither side has issued an operation.
    pub fn begin(
        plan: &Plan,
        side: Side,
        endpoint: &Endpoint,
        peer: FabricAddress,
        run: &RunOptions,
    ) -> Self {
        let is_one_nic = peer.nic == endpoint.address().address.nic;
        let mut counters = Self {
            shown: plan.outputs.counters,
            sent: (run.extensions.counters).filter(|_| !is_one_nic),
            side,
            device: plan.device,
            is_software: endpoint.device().info().is_simulated(),
            is_one_nic,
            began: Clocks::now(),
            before: None,
            packets: 0,
        };
        counters.before = counters.read().map(|(_, readings)| readings);
        counters
    }

    /// Adds the operations of a size, with the warm-up.
    pub fn add(&mut self, run: &RunOptions, size: u64, issued: &[Issued]) {
        self.packets = self.packets.saturating_add(packets(run, size, issued));
    }

    /// Reads the counters after the last size, and exchanges them with the peer. Returns those to
    /// show, if this side was asked to.
    ///
    /// # Errors
    ///
    /// A peer that has ended, does not answer or sends something else, and an interruption.
    pub fn end(self, session: &Session) -> Result<Option<Counters>, Failure> {
        let own = self.changes();
        let peer = match (self.side, self.sent) {
            (Side::Client, Some(preset)) => {
                PeerCounters::Received(session.receive_counters(preset)?)
            }
            (Side::Server, Some(preset)) => {
                session.send_counters(&own, preset)?;
                PeerCounters::NotAvailable
            }
            (_, None) => self.not_received(),
        };
        Ok(self.shown(&own, &peer))
    }

    /// Reads the counters of this side only: after a run that has failed or that has no peer.
    pub fn end_alone(self) -> Option<Counters> {
        self.shown(&self.changes(), &self.not_received())
    }

    fn not_received(&self) -> PeerCounters {
        if self.is_one_nic { PeerCounters::OneNic } else { PeerCounters::NotAvailable }
    }

    fn shown(&self, own: &CounterChanges, peer: &PeerCounters) -> Option<Counters> {
        // A server that only answers counts nothing.
        let packets = Some(self.packets).filter(|packets| *packets > 0);
        let counters = Counters::new(self.shown?, self.side, own, peer, packets);
        let clock_step_s = Clocks::now().step_since(self.began);
        Some(Counters { clock_step_s, ..counters })
    }

    fn changes(&self) -> CounterChanges {
        let facts = |files: Option<&Files>| {
            let device = self.device.to_string();
            match files {
                Some(files) => NicFacts::read(files, device, self.is_software),
                None => NicFacts { device, is_software: self.is_software, ..NicFacts::default() },
            }
        };
        match (self.read(), &self.before) {
            (Some((files, after)), Some(before)) => {
                CounterChanges::between(facts(Some(&files)), before, &after)
            }
            _ => CounterChanges::new(facts(None), [].into()),
        }
    }

    /// Reads the counters that this side shows or sends; `None` if there are none of them or the
    /// NIC has no files.
    fn read(&self) -> Option<(Files, CounterReadings)> {
        let preset = match (self.shown, self.sent) {
            (Some(shown), Some(sent)) => shown.with(sent),
            (shown, sent) => shown.or(sent)?,
        };
        let files = backend::files(self.device, &Machine::this()).ok()?;
        let readings = CounterReadings::read(&files, preset);
        Some((files, readings))
    }
}

/// The packets with data of the operations of a size.
fn packets(run: &RunOptions, size: u64, issued: &[Issued]) -> u64 {
    let list_size = run.lists.map_or(1, |lists| lists.list_size.into());
    let pair_iterations = |issued: &Issued| issued.own.saturating_add(issued.peer.unwrap_or(0));
    let iterations = issued.iter().map(pair_iterations).fold(0, u64::saturating_add);
    iterations.saturating_mul(list_size).saturating_mul(size.div_ceil(PACKET))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;

    #[test]
    fn counts_packets_of_both_sides_and_all_pairs() {
        let latency = plan("write-lat", &[]).run;
        let lists = plan("send-bw", &["-l", "4"]).run;
        let issued = |own, peer| Issued { own, peer };
        assert_eq!(packets(&latency, 8, &[issued(110, None)]), 110);
        assert_eq!(packets(&latency, 2049, &[issued(10, Some(5))]), 30);
        let pairs = [issued(3, Some(0)), issued(2, Some(1))];
        assert_eq!(packets(&lists, 65536, &pairs), 6 * 4 * 32);
        assert_eq!(packets(&lists, 65536, &[issued(u64::MAX, None)]), u64::MAX);
    }
}
