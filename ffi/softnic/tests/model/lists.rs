//! A second implementation of lists, matching and placement from nic.md 8 and 10, as plain as
//! possible: no packets, no queues, one portals table entry with matching.

use crate::driver::prelude::*;

pub const ANY: u32 = u32::MAX;

/// An entry. Offsets are into the model's target memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Append {
    pub overflow: bool,
    pub buffer_id: u16,
    pub start: usize,
    pub length: usize,
    pub match_bits: u64,
    pub ignore_bits: u64,
    /// The only initiator, or [`ANY`].
    pub match_id: u32,
    pub use_once: bool,
    pub manage_local: bool,
    pub no_truncate: bool,
    pub min_free: usize,
    pub op_put: bool,
    pub op_get: bool,
    pub headerless: bool,
    pub unlink_disable: bool,
    pub success_disable: bool,
    pub comm_disable: bool,
    pub link_disable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Put,
    Get,
    Rendezvous { eager: usize, use_offset: bool },
}

/// An operation that a test starts. The payload of a put begins at `local` in the source.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    pub kind: Kind,
    pub match_bits: u64,
    pub initiator: u32,
    pub header_data: u64,
    pub local: usize,
    pub length: usize,
    pub remote_offset: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Search {
    pub buffer_id: u16,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub match_id: u32,
    pub first_only: bool,
    pub delete: bool,
}

/// An event of the target's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    Event(TargetEvent),
    /// The get of a rendezvous put is complete: return code and bytes.
    Fetched(u32, u32),
}

#[derive(Clone, Copy)]
struct Entry {
    append: Append,
    used: usize,
}

#[derive(Clone, Copy)]
struct Header {
    send: Send,
    start: usize,
    mlength: usize,
}

/// The result at the initiator: return code, bytes, list.
pub type Outcome = (u32, u32, u32);

pub struct Model {
    pub source: Vec<u8>,
    pub sink: Vec<u8>,
    /// Destination of gets.
    pub inbox: Vec<u8>,
    /// Added to a place in `sink` in events.
    base: u64,
    /// Added to every event.
    frame: TargetEvent,
    priority: Vec<Entry>,
    overflow: Vec<Entry>,
    unexpected: Vec<Header>,
    pub reported: Vec<Reported>,
    /// The address in RENDEZVOUS events, but for the PID.
    dfa: u32,
}

impl Model {
    pub fn new(source: Vec<u8>, len: usize, base: u64, portal: u16, vni: u16, dfa: u32) -> Self {
        let frame = TargetEvent { ptlte_index: portal, vni, ..TargetEvent::default() };
        Self {
            source,
            sink: vec![0; len],
            inbox: vec![0; len],
            base,
            frame,
            priority: vec![],
            overflow: vec![],
            unexpected: vec![],
            reported: vec![],
            dfa,
        }
    }

    fn report(&mut self, event: TargetEvent) {
        self.reported.push(Reported::Event(TargetEvent {
            long: true,
            ptlte_index: self.frame.ptlte_index,
            ..event
        }));
    }

    /// An event about a command only.
    fn report_command(&mut self, kind: u32, code: u32, list: u32, buffer_id: u16) {
        self.report(TargetEvent {
            kind,
            code,
            ptl_list: list,
            buffer_id,
            ..TargetEvent::default()
        });
    }

    fn about(&self, send: &Send) -> TargetEvent {
        TargetEvent {
            vni: self.frame.vni,
            initiator: send.initiator,
            match_bits: send.match_bits,
            header_data: send.header_data,
            rlength: send.length as u32,
            remote_offset: send.remote_offset as u64,
            rendezvous: matches!(send.kind, Kind::Rendezvous { .. }),
            rendezvous_id: rendezvous_id(send),
            code: C_RC_OK,
            ..TargetEvent::default()
        }
    }

    pub fn append(&mut self, append: Append) {
        let mut entry = Entry { append, used: 0 };
        let list = u32::from(append.overflow);
        if !append.overflow && append.op_put {
            let mut at = 0;
            while at < self.unexpected.len() {
                let header = self.unexpected[at];
                if !meets(&entry, &header.send) {
                    at += 1;
                    continue;
                }
                self.unexpected.remove(at);
                // Room in the entry for the message, of which the data is elsewhere.
                let offset = offset(&entry, &header.send);
                let room = header.send.length.min(append.length.saturating_sub(offset));
                let used_up = wear(&mut entry, room);
                let is_rendezvous = matches!(header.send.kind, Kind::Rendezvous { .. });
                let wanted = !append.comm_disable && (!append.success_disable || is_rendezvous);
                if wanted {
                    let event = TargetEvent {
                        kind: C_EVENT_PUT_OVERFLOW,
                        ptl_list: C_PTL_LIST_OVERFLOW,
                        buffer_id: append.buffer_id,
                        auto_unlinked: used_up,
                        start: self.base + header.start as u64,
                        mlength: header.mlength as u32,
                        remote_offset: 0,
                        ..self.about(&header.send)
                    };
                    self.report(event);
                }
                if is_rendezvous {
                    self.fetch(&append, &header.send, append.start + offset, header.mlength, room);
                }
                if used_up {
                    return;
                }
            }
        }
        if append.overflow {
            self.overflow.push(entry);
        } else {
            self.priority.push(entry);
        }
        if !append.link_disable {
            self.report_command(C_EVENT_LINK, C_RC_OK, list, append.buffer_id);
        }
    }

    pub fn unlink(&mut self, overflow: bool, buffer_id: u16) {
        let list = if overflow { &mut self.overflow } else { &mut self.priority };
        let at = list.iter().position(|entry| entry.append.buffer_id == buffer_id);
        let code = match at {
            Some(at) => {
                list.remove(at);
                C_RC_OK
            }
            None => C_RC_ENTRY_NOT_FOUND,
        };
        self.report_command(C_EVENT_UNLINK, code, u32::from(overflow), buffer_id);
    }

    pub fn search(&mut self, search: Search) {
        let criteria = Entry {
            append: Append {
                match_bits: search.match_bits,
                ignore_bits: search.ignore_bits,
                match_id: search.match_id,
                ..Append::default()
            },
            used: 0,
        };
        let all = std::mem::take(&mut self.unexpected);
        let mut hits = 0;
        for header in all {
            let hit = meets(&criteria, &header.send) && !(search.first_only && hits > 0);
            if !hit {
                self.unexpected.push(header);
                continue;
            }
            hits += 1;
            let event = TargetEvent {
                kind: if search.delete { C_EVENT_PUT_OVERFLOW } else { C_EVENT_SEARCH },
                ptl_list: C_PTL_LIST_OVERFLOW,
                buffer_id: search.buffer_id,
                start: self.base + header.start as u64,
                mlength: header.mlength as u32,
                remote_offset: 0,
                ..self.about(&header.send)
            };
            self.report(event);
            if !search.delete {
                self.unexpected.push(header);
            }
        }
        if !(search.first_only && hits > 0) {
            let list = C_PTL_LIST_UNEXPECTED;
            self.report_command(C_EVENT_SEARCH, C_RC_NO_MATCH, list, search.buffer_id);
        }
    }

    pub fn send(&mut self, send: Send) -> Outcome {
        let is_get = send.kind == Kind::Get;
        let at = self.priority.iter().position(|entry| meets(entry, &send));
        if let Some(at) = at {
            return self.land(&send, false, at);
        }
        let at = self.overflow.iter().position(|entry| meets(entry, &send));
        match at {
            Some(at) if !is_get => self.land(&send, true, at),
            _ => (C_RC_ENTRY_NOT_FOUND, 0, 0),
        }
    }

    fn land(&mut self, send: &Send, overflow: bool, at: usize) -> Outcome {
        let list = u32::from(overflow);
        let mut entry = if overflow { self.overflow[at] } else { self.priority[at] };
        let append = entry.append;
        let is_get = send.kind == Kind::Get;
        let is_rendezvous = matches!(send.kind, Kind::Rendezvous { .. });
        let offset = offset(&entry, send);
        let needed = needed(&append, send);
        let left = append.length.saturating_sub(offset);
        let code = if (is_get && !append.op_get) || (!is_get && !append.op_put) {
            C_RC_OP_VIOLATION
        } else if !append.manage_local && offset + needed > append.length {
            C_RC_NO_SPACE
        } else {
            C_RC_OK
        };
        let taken = if code == C_RC_OK { needed.min(left) } else { 0 };
        let moved = match send.kind {
            Kind::Rendezvous { eager, .. } => taken.min(eager.min(send.length)),
            _ => taken,
        };
        let place = append.start + offset;

        let used_up = wear(&mut entry, taken);
        let entries = if overflow { &mut self.overflow } else { &mut self.priority };
        if used_up {
            entries.remove(at);
            if !append.unlink_disable {
                self.report(TargetEvent {
                    kind: C_EVENT_UNLINK,
                    code: C_RC_OK,
                    ptl_list: list,
                    buffer_id: append.buffer_id,
                    auto_unlinked: true,
                    ..TargetEvent::default()
                });
            }
        } else {
            entries[at] = entry;
        }

        if is_get {
            copy(&self.sink, place, &mut self.inbox, send.local, moved);
        } else {
            copy(&self.source, send.local, &mut self.sink, place, moved);
        }
        if overflow && code == C_RC_OK && !append.headerless {
            self.unexpected.push(Header { send: *send, start: place, mlength: moved });
        }
        let silent = append.success_disable && code == C_RC_OK && !is_rendezvous;
        if !append.comm_disable && !silent {
            let beyond = if is_rendezvous { moved } else { 0 };
            let long = code != C_RC_OK || moved != send.length || overflow || is_rendezvous;
            let event = TargetEvent {
                kind: if is_get { C_EVENT_GET } else { C_EVENT_PUT },
                code,
                ptl_list: list,
                buffer_id: append.buffer_id,
                auto_unlinked: used_up,
                mlength: moved as u32,
                ..self.about(send)
            };
            let event = if long {
                TargetEvent {
                    long,
                    start: self.base + place as u64,
                    remote_offset: (send.remote_offset + beyond) as u64,
                    ptlte_index: self.frame.ptlte_index,
                    ..event
                }
            } else {
                TargetEvent { remote_offset: 0, ptlte_index: self.frame.ptlte_index, ..event }
            };
            self.reported.push(Reported::Event(event));
        }
        if is_rendezvous && !overflow && code == C_RC_OK {
            self.fetch(&append, send, place, moved, taken);
        }
        (code, moved as u32, list)
    }

    /// Fetches the source's bytes beyond `moved` to `place`, which has `room` bytes.
    fn fetch(&mut self, append: &Append, send: &Send, place: usize, moved: usize, room: usize) {
        let from = send.remote_offset + moved;
        let to = place + moved;
        let length = room.saturating_sub(moved);
        if !append.comm_disable {
            let event = TargetEvent {
                kind: C_EVENT_RENDEZVOUS,
                ptl_list: C_PTL_LIST_PRIORITY,
                buffer_id: append.buffer_id,
                initiator: self.dfa | send.initiator >> 23,
                match_bits: send.match_bits >> 48 << 48 | 0xf00 | u64::from(rendezvous_id(send)),
                mlength: moved as u32,
                remote_offset: from as u64,
                start: self.base + to as u64,
                get_issued: true,
                ..self.about(send)
            };
            self.report(event);
        }
        let fits = from + length <= self.source.len();
        if fits {
            copy(&self.source, from, &mut self.sink, to, length);
        }
        // An entry with events disabled reports failures.
        match fits {
            true if append.comm_disable => {}
            true => self.reported.push(Reported::Fetched(C_RC_OK, length as u32)),
            false => self.reported.push(Reported::Fetched(C_RC_NO_SPACE, 0)),
        }
    }
}

/// The rendezvous id of a message.
pub fn rendezvous_id(send: &Send) -> u8 {
    match send.kind {
        Kind::Rendezvous { .. } => send.header_data as u8,
        _ => 0,
    }
}

fn offset(entry: &Entry, send: &Send) -> usize {
    match send.kind {
        _ if entry.append.manage_local => entry.used,
        Kind::Rendezvous { use_offset: true, .. } => 0,
        _ => send.remote_offset,
    }
}

/// Bytes of the entry that a message needs.
fn needed(append: &Append, send: &Send) -> usize {
    match send.kind {
        Kind::Rendezvous { eager, .. } if append.overflow => eager.min(send.length),
        _ => send.length,
    }
}

/// Records the use of an entry, and returns whether it is used up.
fn wear(entry: &mut Entry, bytes: usize) -> bool {
    if entry.append.manage_local {
        entry.used += bytes;
        if entry.append.length - entry.used < entry.append.min_free {
            return true;
        }
    }
    entry.append.use_once
}

/// Without bytes, the places are not used.
fn copy(from: &[u8], at: usize, to: &mut [u8], place: usize, length: usize) {
    if length > 0 {
        to[place..place + length].copy_from_slice(&from[at..at + length]);
    }
}

fn meets(entry: &Entry, send: &Send) -> bool {
    let append = &entry.append;
    let differing = (append.match_bits ^ send.match_bits) & !append.ignore_bits;
    let fits = offset(entry, send) + needed(append, send) <= append.length;
    differing == 0
        && (append.match_id == ANY || append.match_id == send.initiator)
        && (!append.no_truncate || fits)
}
