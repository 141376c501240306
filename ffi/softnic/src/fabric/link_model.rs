//! The link model: latency, bandwidth, and injected faults.
//!
//! The sender determines when a packet is due at the receiver, and whether it carries a return
//! code, with which its operation then fails there. The receiver delivers no packet before it is
//! due. Packets on the link form a pipeline, and packets from one NIC to another stay in order.

use std::time::Duration;

use cxi_sys::{C_RC_OK, C_RC_UNDELIVERABLE};

use super::link_settings::{FailingOperations, Health, LinkSettings};
use super::link_time::{HEADER, ReceivingSide, Translation, Ways, nanoseconds, now, time_on_link};
use super::links::Links;
use crate::engine::ReturnCode;
use crate::engine::received::pages;
use crate::engine::telemetry::LinkCounts;
use crate::engine::wire::{Origin, Packet, PacketKind};
use crate::environment::Nics;
use crate::random::Random;

/// Number of times that a lost packet is sent before its operation fails (libcxi.md 12.3).
const TRIES: u32 = 5;

/// The link of one open device.
pub struct LinkModel {
    settings: LinkSettings,
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
    /// When the NIC has woken up, and when it sent last, in nanoseconds.
    awake_at: u64,
    active_at: u64,
    /// The translation of the pages with the data of packets.
    translation: Translation,
    /// Where packets wait beyond the link.
    ways: Ways,
    /// The links between switches, if the fabric has any.
    links: Option<Links>,
    /// The receiving side, if receiving takes time.
    pub reception: Option<ReceivingSide>,
    /// Number of operations sent.
    operations: u64,
    /// Number of commands of transmit queues that were executed.
    commands: u64,
    /// Requests that were lost, one for each time, and those that were sent again.
    lost: u64,
    resent: u64,
    /// Operations whose data was read from the memory of the host.
    reads: u64,
}

impl LinkModel {
    /// Makes the model for an open NIC; `None` for a link without latency, limit and faults on a
    /// fabric without switches. Each open device draws different numbers.
    pub fn new(
        mut settings: LinkSettings,
        nics: &Nics,
        nid: u32,
        slot: u32,
        links: Option<Links>,
    ) -> Option<Box<Self>> {
        settings.health = Health::default();
        if settings == LinkSettings::default() && links.is_none() {
            return None;
        }
        let name = u64::from(nid) << 32 | u64::from(slot);
        let opened = now();
        let mut seeds = Random(settings.faults.seed ^ Random(name).next());
        Some(Box::new(Self {
            links,
            requests: Random(seeds.next()),
            responses: Random(seeds.next()),
            changes: Random(seeds.next()),
            translation: Translation::new(settings.slowness.page_cost),
            ways: Ways::new(&settings.slowness, settings.bandwidth, nid, nics),
            reception: ReceivingSide::new(&settings.slowness),
            settings,
            opened,
            busy_until: 0,
            awake_at: 0,
            active_at: opened,
            operations: 0,
            commands: 0,
            lost: 0,
            resent: 0,
            reads: 0,
        }))
    }

    /// The code with which the NIC refuses the next command, if it does.
    pub fn refusal(&self) -> Option<ReturnCode> {
        let (code, number) = self.settings.faults.refusal?;
        (self.commands + 1 == number).then_some(code)
    }

    /// Takes the time in which the NIC compares an operation with this many list entries in vain.
    /// The matching unit of a NIC walks a list for one operation at a time: this NIC does nothing
    /// else meanwhile.
    pub fn walk(&self, entries: usize) {
        let takes = nanoseconds(self.settings.match_time).saturating_mul(entries as u64);
        if takes > 0 {
            let end = now().saturating_add(takes);
            while now() < end {
                std::hint::spin_loop();
            }
        }
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

    /// Applies the model to a packet with its payload at the address `payload` that is sent to the
    /// NIC with the address `to`: may set its return code, and returns when it is due.
    pub fn send(&mut self, packet: &mut Packet, payload: usize, to: u32) -> u64 {
        let handed_over = now();
        let now = self.translate(packet, payload, handed_over);
        let due = self.send_at(packet, to, now);
        let Some(links) = &mut self.links else {
            return due;
        };
        // What the own link takes comes in addition.
        let due = links.send(packet, to, now) + (due - now);
        links.note_delay(packet, to, due - handed_over);
        due
    }

    /// Whether packets that answer overtake others.
    pub fn has_switches(&self) -> bool {
        self.links.is_some()
    }

    /// Whether translating the addresses of pages takes time.
    pub fn has_page_costs(&self) -> bool {
        self.translation.takes_time()
    }

    /// The place of the byte that changes in the data of a packet that is sent, if one does.
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

    /// The counts of the link. Lost responses are counted by the NIC whose requests time out on
    /// hardware; here that NIC does not notice them.
    pub fn counts(&self) -> LinkCounts {
        let reception = self.reception.as_ref();
        let value_for = |translation: &Translation| (translation.requests, translation.misses);
        LinkCounts {
            lost: self.lost,
            resent: self.resent,
            reads: self.reads,
            reads_blocked: self.reads * nanoseconds(self.settings.slowness.host_read),
            held: self.ways.held,
            held_by_fabric: self.ways.held_by_fabric,
            stops: self.ways.stops,
            writes_blocked: reception.map_or(0, |reception| reception.blocked),
            read_pages: value_for(&self.translation),
            written_pages: reception.map_or((0, 0), |reception| value_for(&reception.translation)),
        }
    }

    fn send_at(&mut self, packet: &mut Packet, to: u32, now: u64) -> u64 {
        let (code, late) = self.draw(packet, now);
        if code != C_RC_OK {
            packet.return_code = code as u8;
        }
        let late = late + self.read_host(packet);
        let begin = self.wake_up(now);
        let bytes = HEADER + u64::from(packet.length);
        let takes = time_on_link(bytes, self.settings.bandwidth);
        self.busy_until = self.busy_until.max(begin) + takes;
        self.active_at = self.busy_until;
        let arrives = (self.ways).pass(packet.class, to, bytes, begin, self.busy_until);
        arrives + nanoseconds(self.settings.latency) + late
    }

    /// When a packet can be sent at the earliest: its data is translated, and data that it
    /// acknowledges is written.
    fn translate(&mut self, packet: &Packet, payload: usize, now: u64) -> u64 {
        if packet.kind == PacketKind::Response
            && let Some(side) = &self.reception
        {
            return now.max(side.translation.ends_at());
        }
        if packet.origin == Origin::Nic {
            return now;
        }
        // The operands of an atomic operation have been copied from one page.
        let pages = match packet.kind {
            PacketKind::Atomic => 1,
            _ => pages(payload, packet.length.into(), packet.offset == 0),
        };
        let is_huge = packet.origin == Origin::HugePages;
        self.translation.translate(pages, is_huge, now)
    }

    /// The time for which a packet waits for the data of its operation. Reads for later packets and
    /// operations overlap with this one, as far as the order of packets permits.
    fn read_host(&mut self, packet: &Packet) -> u64 {
        let takes = nanoseconds(self.settings.slowness.host_read);
        let begins_read = packet.origin != Origin::Nic && packet.offset == 0;
        if takes == 0 || !begins_read || packet.length == 0 {
            return 0;
        }
        self.reads += 1;
        takes
    }

    /// When the NIC can send a packet at the time `now`. After an idle time it wakes up first, and
    /// packets that follow meanwhile wait as well.
    fn wake_up(&mut self, now: u64) -> u64 {
        if let Some((takes, gap)) = self.settings.slowness.wake
            && now.saturating_sub(self.active_at) > nanoseconds(gap)
        {
            self.awake_at = now + nanoseconds(takes);
        }
        now.max(self.awake_at)
    }

    /// Draws the return code that this packet gives its operation, or OK, and its delay beyond the
    /// latency in nanoseconds. It also draws and counts while the link is down, so that the time
    /// does not change the outcome for later packets.
    fn draw(&mut self, packet: &Packet, now: u64) -> (ReturnCode, u64) {
        let is_up = self.is_up_at(now);
        let faults = &self.settings.faults;
        let is_response = matches!(packet.kind, PacketKind::Response | PacketKind::Reply);
        let random = if is_response { &mut self.responses } else { &mut self.requests };
        let losses = (0..TRIES).take_while(|_: &u32| random.happens(faults.loss)).count() as u32;
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
                PacketKind::Put | PacketKind::Get | PacketKind::Atomic | PacketKind::Rendezvous
            );
        let mut code = C_RC_OK;
        if begins_operation {
            self.operations += 1;
            for error in &faults.errors {
                let hit = match error.selection {
                    FailingOperations::Number(number) => number == self.operations,
                    FailingOperations::Probability(probability) => random.happens(probability),
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

#[cfg(test)]
mod tests {
    use cxi_sys::{C_RC_NO_SPACE, C_RC_PT_DISABLED};

    use super::*;
    use crate::engine::wire::MTU;
    use crate::fabric::link_settings::InjectedError;

    fn new(settings: LinkSettings, nid: u32, slot: u32) -> Option<Box<LinkModel>> {
        let nics = Nics::from_environment().unwrap();
        LinkModel::new(settings, &nics, nid, slot, None)
    }

    impl LinkModel {
        /// Sends a packet to another NIC.
        fn send_to_next(&mut self, packet: &mut Packet, now: u64) -> u64 {
            self.send_at(packet, 0x13, now)
        }
    }

    fn link_model(change: impl FnOnce(&mut LinkSettings)) -> LinkModel {
        let mut settings = LinkSettings::default();
        change(&mut settings);
        let mut model = *new(settings, 0x12, 0).unwrap();
        (model.opened, model.active_at) = (0, 0);
        model
    }

    fn put(length: u16) -> Packet {
        Packet { kind: PacketKind::Put, length, total: length.into(), ..Packet::default() }
    }

    #[test]
    fn default_settings_have_no_model() {
        assert!(new(LinkSettings::default(), 1, 0).is_none());
        // Nor does what only files show.
        let mut shown = LinkSettings::default();
        shown.health.tx_paused = 0.5;
        assert!(new(shown, 1, 0).is_none());
    }

    #[test]
    fn packets_occupy_the_link_one_after_another() {
        let mut link = link_model(|settings| {
            settings.latency = Duration::from_nanos(2000);
            settings.bandwidth = Some(1e9);
        });
        // A byte takes 1 ns, and a packet has 64 more bytes.
        assert_eq!(link.send_to_next(&mut put(8), 10_000), 10_000 + 72 + 2000);
        assert_eq!(link.send_to_next(&mut put(2048), 10_000), 10_072 + 2112 + 2000);
        // The link was idle before.
        assert_eq!(link.send_to_next(&mut put(0), 50_000), 50_000 + 64 + 2000);
    }

    /// Data of gets comes from the target, data of puts from the initiator.
    #[test]
    fn gets_occupy_links_as_long_as_puts() {
        const SIZE: u32 = 65_536;
        let times = |request: PacketKind, answer: PacketKind| {
            let new = || link_model(|settings| settings.bandwidth = Some(1e9));
            let send = |link: &mut LinkModel, kind: PacketKind, bytes: u32| {
                let has_data = matches!(kind, PacketKind::Put | PacketKind::Reply);
                let rest = if has_data { bytes } else { 0 };
                for offset in (0..rest.max(1)).step_by(MTU) {
                    let length = (rest - offset).min(MTU as u32) as u16;
                    link.send_to_next(&mut Packet { kind, offset, total: bytes, ..put(length) }, 0);
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
        let (data, headers) = times(PacketKind::Put, PacketKind::Response);
        assert_eq!(data, 100 * (u64::from(SIZE) + 32 * HEADER));
        assert_eq!(times(PacketKind::Get, PacketKind::Reply), (headers, data));
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
                .map(|now| link.send_to_next(&mut put(8), now) - now - 2000)
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
                InjectedError { code: C_RC_PT_DISABLED, selection: FailingOperations::Number(3) },
                InjectedError { code: C_RC_NO_SPACE, selection: FailingOperations::Number(5) },
            ];
        });
        let mut code = |kind, offset| {
            let mut packet = Packet { kind, offset, total: 9000, ..Packet::default() };
            link.send_to_next(&mut packet, 1);
            u32::from(packet.return_code)
        };
        let codes = [
            code(PacketKind::Put, 0),
            code(PacketKind::Put, 2048), // the same operation
            code(PacketKind::Response, 0),
            code(PacketKind::Get, 0),
            code(PacketKind::Atomic, 0),
            code(PacketKind::Rendezvous, 0),
            code(PacketKind::Put, 0),
            code(PacketKind::Put, 0),
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
            link.send_to_next(&mut packet, now);
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
                let due = link.send_to_next(&mut packet, 0);
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
        assert!(outcome.iter().all(|(_, due)| *due <= 4_000_000));
        let given_up_late = outcome.iter().filter(|(_, due): &&(u8, u64)| *due == 4_000_000);
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
                    selection: FailingOperations::Probability(0.3),
                }];
                settings.faults.down = down;
            });
            let mut outcome = Vec::new();
            for number in 0..200 {
                for _ in 0..answers[number % answers.len()] {
                    let mut answer = Packet { kind: PacketKind::Response, ..Packet::default() };
                    link.send_to_next(&mut answer, number as u64);
                }
                let mut packet = put(8);
                let due = link.send_to_next(&mut packet, 1000 + number as u64);
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
            let mut settings = LinkSettings::default();
            settings.faults.loss = 0.5;
            let mut link = *new(settings, nid, slot).unwrap();
            link.opened = 0;
            [(); 64].map(|()| link.send_to_next(&mut put(8), 0))
        };
        let first = draws(0x12, 0);
        assert_eq!(draws(0x12, 0), first);
        assert_ne!(draws(0x13, 0), first);
        assert_ne!(draws(0x12, 1), first);
    }

    /// Reads overlap: a second operation is late by as much as the first.
    #[test]
    fn reads_of_host_memory_delay_first_packets() {
        let mut link = link_model(|settings| {
            settings.slowness.host_read = Duration::from_nanos(900);
        });
        let mut due = |kind, offset, length, origin| {
            let mut packet = Packet { kind, offset, total: 9000, origin, ..put(length) };
            link.send_to_next(&mut packet, 10_000)
        };
        let dues = [
            due(PacketKind::Put, 0, 2048, Origin::Memory),
            due(PacketKind::Put, 2048, 2048, Origin::Memory),
            due(PacketKind::Reply, 0, 8, Origin::Memory),
            due(PacketKind::Put, 0, 8, Origin::Nic),
            due(PacketKind::Put, 0, 0, Origin::Memory),
            due(PacketKind::Response, 0, 0, Origin::Nic),
        ];
        assert_eq!(dues, [10_900, 10_000, 10_900, 10_000, 10_000, 10_000]);
        let counts = link.counts();
        assert_eq!((counts.reads, counts.reads_blocked), (2, 1800));
    }

    #[test]
    fn wakes_up_after_idle_time() {
        let mut link = link_model(|settings| {
            settings.bandwidth = Some(1e9);
            settings.slowness.wake = Some((Duration::from_nanos(500), Duration::from_nanos(1000)));
        });
        let mut due = |now| link.send_to_next(&mut put(0), now);
        assert_eq!(due(1000), 1064, "not longer than the gap");
        // The NIC sent until 1064.
        assert_eq!(due(2064), 2128);
        assert_eq!(due(3129), 3129 + 500 + 64);
        assert_eq!(due(3200), 3129 + 500 + 128, "meanwhile");
        assert_eq!(due(4000), 4064, "awake");
    }

    #[test]
    fn packets_wait_beyond_the_link() {
        let mut link = link_model(|settings| {
            settings.latency = Duration::from_nanos(2000);
            settings.bandwidth = Some(1e9);
            settings.slowness.ceilings[0] = Some(10);
            settings.slowness.class_delays[0] = Duration::from_nanos(30);
        });
        assert_eq!(link.send_to_next(&mut put(0), 1000), 1000 + 640 + 30 + 2000);
        assert_eq!(link.send_at(&mut put(0), 0x12, 5000), 5000 + 640 + 2000);
        // The packets occupy the link itself for 64 ns each.
        let mut other = Packet { class: 1, ..put(0) };
        assert_eq!(link.send_to_next(&mut other, 5000), 5000 + 128 + 2000);
        assert_eq!(link.counts().held, [2 * (640 - 64), 0, 0, 0]);
    }
}
