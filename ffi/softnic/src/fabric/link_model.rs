//! The link model: latency, bandwidth, and injected faults.
//!
//! The sender determines when a packet is due at the receiver, and whether it carries a return
//! code, with which its operation then fails there. The receiver delivers no packet before it is
//! due. Packets on the link form a pipeline, and packets from one NIC to another stay in order.

use std::time::Duration;

use cxi_sys::{C_RC_OK, C_RC_UNDELIVERABLE};

use super::health::Health;
use super::link_settings::{FailingOperations, LinkSettings};
use super::link_time::{HEADER, nanoseconds, now, time_on_link};
use super::links::Links;
use super::reception::ReceivingSide;
use super::translation::Translation;
use super::ways::Ways;
use crate::engine::ReturnCode;
use crate::engine::packet::{Origin, Packet, PacketKind};
use crate::engine::received::pages;
use crate::engine::telemetry::LinkCounts;
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

    /// Returns the code with which the NIC refuses the next command, if it does.
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

    /// Returns when a packet can be sent at the earliest: its data is translated, and data that it
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

    /// Returns the time for which a packet waits for the data of its operation. Reads for later
    /// packets and operations overlap with this one, as far as the order of packets permits.
    fn read_host(&mut self, packet: &Packet) -> u64 {
        let takes = nanoseconds(self.settings.slowness.host_read);
        let begins_read = packet.origin != Origin::Nic && packet.offset == 0;
        if takes == 0 || !begins_read || packet.length == 0 {
            return 0;
        }
        self.reads += 1;
        takes
    }

    /// Returns when the NIC can send a packet at the time `now`. After an idle time it wakes up
    /// first, and packets that follow meanwhile wait as well.
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
mod tests;
