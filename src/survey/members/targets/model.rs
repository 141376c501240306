//! Whether the model of a fabric explains a figure, if the fabric has one, so that the CPUs for
//! which processes waited did not change it (load.md 4.6).

use std::time::Duration;

use facts::device::FabricAddress;
use node::backend::LinksDelay;
use node::local_address::LocalAddress;

/// A latency is explained by delays that are shorter by at most this part of them, and by the time
/// that the software of two NICs takes.
const UNEXPLAINED_PART: f64 = 0.1;
const SOFTWARE_NS: f64 = 20_000.0;

/// The fabric limited a flow if at least this part of its window was under way.
const LEAST_UNDER_WAY: f64 = 0.5;

/// The delays of two NICs since a moment.
pub struct ModelWatch {
    own: LocalAddress,
    /// Each NIC, with its delays before.
    nics: [(u32, LinksDelay); 2],
}

/// Mean delays in the model, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanDelays {
    /// Of the messages of both NICs.
    both_ns: f64,
    /// Of the messages of the first NIC.
    first_ns: f64,
    /// Of the answers to the first NIC; 0 without answers.
    answer_ns: f64,
}

impl ModelWatch {
    /// Begins to watch the messages of a NIC and of its peer, which may be itself. `None` if no
    /// model delays them.
    pub fn begin(own: LocalAddress, peer: FabricAddress) -> Option<Self> {
        let nics = [own.address.nic, peer.nic];
        let [first, other] = nics.map(|nic| own.modelled_delay(nic));
        Some(Self { own, nics: [(nics[0], first?), (nics[1], other?)] })
    }

    /// Returns the mean delays since the begin; `None` if the first NIC sent nothing.
    pub fn end(&self) -> Option<MeanDelays> {
        let since = |(nic, before): (u32, LinksDelay)| {
            let after = self.own.modelled_delay(nic)?;
            Some(difference(after, before))
        };
        let [first, other] = self.nics.map(since);
        MeanDelays::of(first?, other?)
    }
}

/// Returns what was counted between two readings.
fn difference(after: LinksDelay, before: LinksDelay) -> LinksDelay {
    LinksDelay {
        messages: after.messages.saturating_sub(before.messages),
        total: after.total.saturating_sub(before.total),
        answers: after.answers.saturating_sub(before.answers),
        answers_total: after.answers_total.saturating_sub(before.answers_total),
    }
}

impl MeanDelays {
    fn of(first: LinksDelay, other: LinksDelay) -> Option<Self> {
        let mean = |total: Duration, count: u64| total.as_nanos() as f64 / count.max(1) as f64;
        (first.messages > 0).then(|| Self {
            both_ns: mean(first.total + other.total, first.messages + other.messages),
            first_ns: mean(first.total, first.messages),
            answer_ns: mean(first.answers_total, first.answers),
        })
    }

    /// Returns the delay of an operation until its answer.
    fn operation_ns(self) -> f64 {
        self.first_ns + self.answer_ns
    }

    /// Returns whether the delays explain a mean latency in nanoseconds: of operations of the first
    /// NIC until their answers, or of messages in both directions in turn (`is_two_sided`).
    pub fn explain_latency(self, mean_ns: f64, is_two_sided: bool) -> bool {
        let modelled = if is_two_sided { self.both_ns } else { self.operation_ns() };
        mean_ns - modelled <= UNEXPLAINED_PART * modelled + SOFTWARE_NS
    }

    /// Returns whether the fabric limited the first NIC, which had at most `window` bytes under
    /// way: the number of bytes under way is their rate multiplied by their delay.
    pub fn explain_bandwidth(self, bytes_per_second: f64, window: u64) -> bool {
        let under_way = bytes_per_second * self.operation_ns() * 1e-9;
        under_way >= LEAST_UNDER_WAY * window as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(messages: u64, mean_us: u64, answers: u64, answers_us: u64) -> LinksDelay {
        LinksDelay {
            messages,
            total: Duration::from_micros(messages * mean_us),
            answers,
            answers_total: Duration::from_micros(answers * answers_us),
        }
    }

    #[test]
    fn latency_is_explained_by_message_and_answer() {
        let delays = MeanDelays::of(delay(10, 700, 10, 300), delay(0, 0, 0, 0)).unwrap();
        // 1 ms, a tenth of it, and 20 us.
        assert!(delays.explain_latency(1_120_000.0, false));
        assert!(!delays.explain_latency(1_121_000.0, false));
        assert!(delays.explain_latency(1000.0, false), "faster than its mean");
    }

    #[test]
    fn round_trip_is_explained_by_messages_of_both_nics() {
        let delays = MeanDelays::of(delay(30, 100, 30, 900), delay(10, 500, 0, 0)).unwrap();
        // (30 * 100 + 10 * 500) / 40 = 200 us.
        assert!(delays.explain_latency(239_000.0, true));
        assert!(!delays.explain_latency(241_000.0, true));
    }

    #[test]
    fn bandwidth_is_explained_by_bytes_under_way() {
        let delays = MeanDelays::of(delay(100, 9_900, 100, 100), delay(0, 0, 0, 0)).unwrap();
        // 10 ms: at 10 MB/s, 100,000 bytes.
        assert!(delays.explain_bandwidth(10e6, 200_000));
        assert!(!delays.explain_bandwidth(9.9e6, 200_000));
    }

    #[test]
    fn nic_without_messages_has_no_delays() {
        assert_eq!(MeanDelays::of(delay(0, 0, 5, 1), delay(3, 1, 0, 0)), None);
        let unanswered = MeanDelays::of(delay(2, 50, 0, 0), delay(0, 0, 0, 0)).unwrap();
        assert_eq!(unanswered.operation_ns(), 50_000.0);
        let [before, after] = [delay(3, 10, 2, 5), delay(5, 10, 3, 5)];
        assert_eq!(difference(after, before), delay(2, 10, 1, 5));
    }
}
