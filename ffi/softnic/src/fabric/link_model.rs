//! The link model: latency, bandwidth, and injected faults.
//!
//! The sender determines when a packet is due at the receiver, and whether it carries a return
//! code, with which its operation then fails there. The receiver delivers no packet before it is
//! due. Packets on the link form a pipeline, and packets from one NIC to another stay in order.

use std::time::Duration;

use cxi_sys::{C_RC_OK, C_RC_UNDELIVERABLE};
use rustix::time::{ClockId, clock_gettime};

use super::health::Health;
use super::link_settings::{Selection, Settings};
use super::random::Random;
use crate::engine::ReturnCode;
use crate::engine::packet::{Kind, Packet};
use crate::engine::telemetry::LinkCounts;

/// Bytes of a packet on the link in addition to its payload (libcxi.md 2.2: MTU 2112 for 2048).
const HEADER: u64 = 64;

/// Number of times that a lost packet is sent before its operation fails (libcxi.md 12.3).
const TRIES: u32 = 5;

/// The link of one open device.
pub struct LinkModel {
    settings: Settings,
    /// Random numbers for packets of operations, and for responses and replies. Their order depends
    /// on the time, so separate streams keep the outcome for a seed the same.
    requests: Random,
    responses: Random,
    /// Random numbers for changed data.
    changes: Random,
    /// When the device was opened.
    opened: u64,
    /// When the last packet will have left, in nanoseconds.
    busy_until: u64,
    /// Number of operations sent.
    operations: u64,
    /// Number of commands of transmit queues that were executed.
    commands: u64,
    /// Requests that were lost, one for each time, and those that were sent again.
    lost: u64,
    resent: u64,
}

impl LinkModel {
    /// Makes the model for an open NIC; `None` for a link without latency, limit and faults. Each
    /// open device draws different numbers.
    pub fn new(mut settings: Settings, nid: u32, slot: u32) -> Option<Box<Self>> {
        settings.health = Health::default();
        if settings == Settings::default() {
            return None;
        }
        let name = u64::from(nid) << 32 | u64::from(slot);
        let mut seeds = Random(settings.faults.seed ^ Random(name).next());
        Some(Box::new(Self {
            requests: Random(seeds.next()),
            responses: Random(seeds.next()),
            changes: Random(seeds.next()),
            settings,
            opened: now(),
            busy_until: 0,
            operations: 0,
            commands: 0,
            lost: 0,
            resent: 0,
        }))
    }

    /// Returns the code with which the NIC refuses the next command, if it does.
    pub fn refusal(&self) -> Option<ReturnCode> {
        let (code, number) = self.settings.faults.refusal?;
        (self.commands + 1 == number).then_some(code)
    }

    /// Counts a command that the NIC has executed.
    pub fn count_command(&mut self) {
        self.commands += 1;
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.is_up_at(now())
    }

    fn is_up_at(&self, now: u64) -> bool {
        let age = Duration::from_nanos(now - self.opened);
        self.settings.faults.is_up(age)
    }

    /// Applies the model to a packet that is sent: may set its return code, and returns when it is
    /// due.
    pub fn send(&mut self, packet: &mut Packet) -> u64 {
        self.send_at(packet, now())
    }

    /// Returns the place of the byte that changes in the data of a packet that is sent, if one
    /// does.
    pub fn changed_byte(&mut self, packet: &Packet) -> Option<usize> {
        let last = packet.length.checked_sub(1)?;
        let changes = self.changes.happens(self.settings.faults.corrupt);
        changes.then(|| self.changes.at_most(last.into()) as usize)
    }

    /// Applies the model to a packet that is received: fails it while the link is down.
    pub fn receive(&self, packet: &mut Packet) {
        if self.settings.faults.down.is_some() && !self.is_up() {
            packet.return_code = C_RC_UNDELIVERABLE as u8;
        }
    }

    /// Returns the counts of the link. Lost responses are counted by the NIC whose requests time
    /// out on hardware; here that NIC does not notice them.
    pub fn counts(&self) -> LinkCounts {
        LinkCounts {
            lost: self.lost,
            resent: self.resent,
        }
    }

    fn send_at(&mut self, packet: &mut Packet, now: u64) -> u64 {
        let (code, late) = self.draw(packet, now);
        if code != C_RC_OK {
            packet.return_code = code as u8;
        }
        let bytes = HEADER + u64::from(packet.length);
        let takes = self
            .settings
            .bandwidth
            .map_or(0.0, |rate| bytes as f64 / rate * 1e9);
        self.busy_until = self.busy_until.max(now) + takes.round() as u64;
        self.busy_until + nanoseconds(self.settings.latency) + late
    }

    /// Draws the return code that this packet gives its operation, or OK, and its delay beyond the
    /// latency in nanoseconds. It also draws and counts while the link is down, so that the time
    /// does not change the outcome for later packets.
    fn draw(&mut self, packet: &Packet, now: u64) -> (ReturnCode, u64) {
        let is_up = self.is_up_at(now);
        let faults = &self.settings.faults;
        let is_response = matches!(packet.kind, Kind::Response | Kind::Reply);
        let random = if is_response {
            &mut self.responses
        } else {
            &mut self.requests
        };
        let is_lost = |_: &u32| random.happens(faults.loss);
        let losses = (0..TRIES).take_while(is_lost).count() as u32;
        if !is_response {
            self.lost += u64::from(losses);
            self.resent += u64::from(losses.min(TRIES - 1));
        }
        let mut late = nanoseconds(faults.retry) * u64::from(losses.min(TRIES - 1));
        if let Some((probability, by)) = faults.delay
            && random.happens(probability)
        {
            late += nanoseconds(by);
        }
        late += random.at_most(nanoseconds(self.settings.jitter));
        let begins_operation = packet.offset == 0
            && matches!(
                packet.kind,
                Kind::Put | Kind::Get | Kind::Atomic | Kind::Rendezvous
            );
        let mut code = C_RC_OK;
        if begins_operation {
            self.operations += 1;
            for error in &faults.errors {
                let hit = match error.selection {
                    Selection::Number(number) => number == self.operations,
                    Selection::Probability(probability) => random.happens(probability),
                };
                if hit && code == C_RC_OK {
                    code = error.code;
                }
            }
        }
        if !is_up || losses == TRIES {
            code = C_RC_UNDELIVERABLE;
        }
        (code, late)
    }
}

/// Returns the time in nanoseconds, on a clock that all processes share.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use cxi_sys::{C_RC_NO_SPACE, C_RC_PT_DISABLED};

    use super::super::link_settings::InjectedError;
    use super::*;
    use crate::engine::packet::MTU;

    fn link_model(change: impl FnOnce(&mut Settings)) -> LinkModel {
        let mut settings = Settings::default();
        change(&mut settings);
        let mut model = *LinkModel::new(settings, 0x12, 0).unwrap();
        model.opened = 0;
        model
    }

    fn put(length: u16) -> Packet {
        Packet {
            kind: Kind::Put,
            length,
            total: length.into(),
            ..Packet::default()
        }
    }

    #[test]
    fn default_settings_have_no_model() {
        assert!(LinkModel::new(Settings::default(), 1, 0).is_none());
        // Nor does what only files show.
        let mut shown = Settings::default();
        shown.health.tx_paused = 0.5;
        assert!(LinkModel::new(shown, 1, 0).is_none());
    }

    #[test]
    fn packets_occupy_the_link_one_after_another() {
        let mut link = link_model(|settings| {
            settings.latency = Duration::from_nanos(2000);
            settings.bandwidth = Some(1e9);
        });
        // A byte takes 1 ns, and a packet has 64 more bytes.
        assert_eq!(link.send_at(&mut put(8), 10_000), 10_000 + 72 + 2000);
        assert_eq!(link.send_at(&mut put(2048), 10_000), 10_072 + 2112 + 2000);
        // The link was idle before.
        assert_eq!(link.send_at(&mut put(0), 50_000), 50_000 + 64 + 2000);
    }

    /// Data of gets comes from the target, data of puts from the initiator.
    #[test]
    fn gets_occupy_links_as_long_as_puts() {
        const SIZE: u32 = 65_536;
        let times = |request: Kind, answer: Kind| {
            let new = || link_model(|settings| settings.bandwidth = Some(1e9));
            let send = |link: &mut LinkModel, kind: Kind, bytes: u32| {
                let has_data = matches!(kind, Kind::Put | Kind::Reply);
                let rest = if has_data { bytes } else { 0 };
                for offset in (0..rest.max(1)).step_by(MTU) {
                    let length = (rest - offset).min(MTU as u32) as u16;
                    link.send_at(
                        &mut Packet {
                            kind,
                            offset,
                            total: bytes,
                            ..put(length)
                        },
                        0,
                    );
                }
                link.busy_until
            };
            let (mut initiator, mut target) = (new(), new());
            for _ in 0..100 {
                send(&mut initiator, request, SIZE);
                send(&mut target, answer, SIZE);
            }
            (initiator.busy_until, target.busy_until)
        };
        let (data, headers) = times(Kind::Put, Kind::Response);
        assert_eq!(data, 100 * (u64::from(SIZE) + 32 * HEADER));
        assert_eq!(times(Kind::Get, Kind::Reply), (headers, data));
    }

    #[test]
    fn jitter_is_evenly_distributed_and_repeatable() {
        const PACKETS: u64 = 4000;
        let delays = |seed| {
            let mut link = link_model(|settings| {
                settings.latency = Duration::from_nanos(2000);
                settings.jitter = Duration::from_nanos(9);
                settings.faults.seed = seed;
            });
            (0..PACKETS)
                .map(|now| link.send_at(&mut put(8), now) - now - 2000)
                .collect::<Vec<u64>>()
        };
        let drawn = delays(7);
        assert_eq!(delays(7), drawn, "the same seed");
        assert_ne!(delays(8), drawn, "another seed");
        assert_eq!(drawn.iter().max(), Some(&9));
        for delay in 0..=9 {
            let count = drawn.iter().filter(|&&drawn| drawn == delay).count();
            // 400 on average.
            assert!((300..500).contains(&count), "{count} of {delay} ns");
        }
    }

    #[test]
    fn fails_operations_with_given_numbers_only() {
        let mut link = link_model(|settings| {
            settings.faults.errors = vec![
                InjectedError {
                    code: C_RC_PT_DISABLED,
                    selection: Selection::Number(3),
                },
                InjectedError {
                    code: C_RC_NO_SPACE,
                    selection: Selection::Number(5),
                },
            ];
        });
        let mut code = |kind, offset| {
            let mut packet = Packet {
                kind,
                offset,
                total: 9000,
                ..Packet::default()
            };
            link.send_at(&mut packet, 1);
            u32::from(packet.return_code)
        };
        let codes = [
            code(Kind::Put, 0),
            code(Kind::Put, 2048), // the same operation
            code(Kind::Response, 0),
            code(Kind::Get, 0),
            code(Kind::Atomic, 0),
            code(Kind::Rendezvous, 0),
            code(Kind::Put, 0),
            code(Kind::Put, 0),
        ];
        assert_eq!(codes, [0, 0, 0, 0, C_RC_PT_DISABLED, 0, C_RC_NO_SPACE, 0]);
    }

    #[test]
    fn link_is_down_for_given_time() {
        let mut link = link_model(|settings| {
            let (from, length) = (Duration::from_nanos(100), Duration::from_nanos(50));
            settings.faults.down = Some((from, Some(length)));
        });
        let mut code = |now| {
            let mut packet = put(8);
            link.send_at(&mut packet, now);
            u32::from(packet.return_code)
        };
        let codes = [99, 100, 149, 150].map(&mut code);
        assert_eq!(codes, [0, C_RC_UNDELIVERABLE, C_RC_UNDELIVERABLE, 0]);
    }

    #[test]
    fn retries_losses_and_fails_after_last_try() {
        let run = |seed| {
            let mut link = link_model(|settings| {
                settings.faults.seed = seed;
                settings.faults.loss = 0.5;
            });
            let mut outcome = Vec::new();
            for _ in 0..4000 {
                let mut packet = put(8);
                let due = link.send_at(&mut packet, 0);
                outcome.push((packet.return_code, due));
            }
            outcome
        };
        let outcome = run(7);
        assert_eq!(run(7), outcome, "the same seed");
        assert_ne!(run(8), outcome, "another seed");
        let given_up = outcome.iter().filter(|(code, _)| *code != 0).count();
        // One in 32 on average.
        assert!((80..180).contains(&given_up), "{given_up} of 4000");
        let late = outcome.iter().filter(|(_, due)| *due == 1_000_000).count();
        assert!((800..1200).contains(&late), "{late} of 4000 lost once");
        let lost_four_times = |(_, due): &&(u8, u64)| *due == 4_000_000;
        assert!(outcome.iter().all(|(_, due)| *due <= 4_000_000));
        let given_up_late = outcome.iter().filter(lost_four_times);
        assert!(given_up_late.filter(|(code, _)| *code != 0).count() == given_up);
    }

    #[test]
    fn order_of_responses_does_not_change_faults_of_operations() {
        let run = |answers: &[usize], down| {
            let mut link = link_model(|settings| {
                settings.faults.loss = 0.2;
                settings.faults.delay = Some((0.3, Duration::from_nanos(7)));
                settings.faults.errors = vec![InjectedError {
                    code: C_RC_NO_SPACE,
                    selection: Selection::Probability(0.3),
                }];
                settings.faults.down = down;
            });
            let mut outcome = Vec::new();
            for number in 0..200 {
                for _ in 0..answers[number % answers.len()] {
                    let mut answer = Packet {
                        kind: Kind::Response,
                        ..Packet::default()
                    };
                    link.send_at(&mut answer, number as u64);
                }
                let mut packet = put(8);
                let due = link.send_at(&mut packet, 1000 + number as u64);
                outcome.push((packet.return_code, due));
            }
            outcome
        };
        let alone = run(&[0], None);
        assert_eq!(run(&[1], None), alone);
        assert_eq!(run(&[3, 0, 2], None), alone);
        let (from, length) = (Duration::from_nanos(1050), Duration::from_nanos(50));
        let interrupted = run(&[0], Some((from, Some(length))));
        assert_eq!(interrupted[..50], alone[..50]);
        assert_eq!(interrupted[100..], alone[100..]);
        let undeliverable = |(code, _): &(u8, u64)| u32::from(*code) == C_RC_UNDELIVERABLE;
        assert!(interrupted[50..100].iter().all(undeliverable));
    }

    #[test]
    fn changes_bytes_of_packets_with_data_only() {
        let changed = |corrupt, length| {
            let mut link = link_model(|settings| {
                settings.faults.corrupt = corrupt;
                settings.faults.loss = 0.1;
            });
            [(); 400].map(|()| link.changed_byte(&put(length)))
        };
        assert_eq!(changed(0.0, 2048), [None; 400]);
        assert_eq!(changed(1.0, 0), [None; 400]);
        assert_eq!(changed(1.0, 1), [Some(0); 400]);
        let places = changed(0.5, 8);
        assert_eq!(changed(0.5, 8), places);
        assert!((150..250).contains(&places.iter().flatten().count()));
        for place in 0..8 {
            assert!(places.contains(&Some(place)), "{place}");
        }
        assert!(places.iter().flatten().all(|place| *place < 8));
    }

    #[test]
    fn devices_draw_different_faults() {
        let draws = |nid, slot| {
            let mut settings = Settings::default();
            settings.faults.loss = 0.5;
            let mut link = *LinkModel::new(settings, nid, slot).unwrap();
            link.opened = 0;
            [(); 64].map(|()| link.send_at(&mut put(8), 0))
        };
        let first = draws(0x12, 0);
        assert_eq!(draws(0x12, 0), first);
        assert_ne!(draws(0x13, 0), first);
        assert_ne!(draws(0x12, 1), first);
    }
}
