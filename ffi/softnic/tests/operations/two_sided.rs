//! One process sends, another receives at its own pace: some messages arrive before their
//! receives, some after; immediate, from memory and by rendezvous. Checks every byte.

use crate::driver::prelude::*;

/// Messages of a run, their longest, and how many are under way.
const MESSAGES: usize = 600;
const LONGEST: usize = 9000;
const WINDOW: usize = 8;

/// Receives that are posted together.
const BLOCK: usize = 40;

const SOURCES: u32 = 255;
const EAGER: u32 = 1000;

/// Pseudo-random numbers, equal in both processes.
fn mixed(number: usize) -> usize {
    let mut value = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..3 {
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    (value >> 20) as usize
}

fn length(number: usize) -> usize {
    let limit = if number.is_multiple_of(3) { 193 } else { LONGEST + 1 };
    mixed(number) % limit
}

fn is_rendezvous(number: usize) -> bool {
    number % 5 == 1
}

/// Where a message begins in the source.
fn place(number: usize) -> usize {
    mixed(number + MESSAGES) % LONGEST
}

fn pattern() -> Vec<u8> {
    (0..2 * LONGEST).map(|at| mixed(at) as u8).collect()
}

fn bits(number: usize) -> u64 {
    number as u64 | 1 << 40
}

fn send_all() {
    let mut rig = Rig::new();
    let source = rig.buffer(2 * LONGEST);
    source.pages.write(0, &pattern());
    let portal = rig.enabled(SOURCES, |options| options.set_is_matching(1));
    rig.append(portal, |entry| {
        whole(entry, &source);
        gets(entry);
        match_all(entry);
        quiet(entry);
    });
    say("ready");
    let dfa = listen().unwrap().parse().unwrap();
    rig.tx.emit(&c_state(rig.eq.number, false, |_| {}));
    let mut acks = 0;
    for number in 0..MESSAGES {
        let (at, len, bits, header) = (place(number), length(number), bits(number), number as u64);
        let command = if len <= 192 && number % 2 == 0 && !is_rendezvous(number) {
            let payload = source.pages.read(at, len);
            idc_msg(&payload, |message| {
                _ = message.set_dfa(dfa).set_match_bits(bits).set_header_data(header)
            })
        } else {
            rig.dma_put(&source, at, len as u32, |put| {
                put.set_dfa(dfa).set_match_bits(bits).set_header_data(header);
                if is_rendezvous(number) {
                    put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                        .set_eager_length(EAGER)
                        .set_use_offset_for_get(true)
                        .set_remote_offset(at as u64)
                        .set_initiator(match_id(rig.pid, rig.nid));
                }
            })
        };
        rig.tx.issue(&command);
        while number + 1 - acks >= WINDOW {
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
            acks += 1;
        }
    }
    for _ in acks..MESSAGES {
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
    }
    say("sent");
    // The NIC still has to respond to gets.
    listen();
}

/// State of a message at its target.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The receive was posted first.
    direct: bool,
    /// The message came first: its data is in the overflow buffer.
    stored: bool,
    /// Address and length that the receive was given.
    found: Option<(u64, usize)>,
    /// The rest of a rendezvous message was fetched.
    fetched: bool,
}

impl Known {
    fn is_complete(&self, number: usize) -> bool {
        let arrived = self.direct || (self.stored && self.found.is_some());
        arrived && self.fetched == is_rendezvous(number)
    }
}

struct Receiver {
    rig: Rig,
    portal: Portal,
    sink: Buffer,
    overflow: Buffer,
    known: Vec<Known>,
    done: usize,
}

impl Receiver {
    fn new() -> Self {
        let mut rig = Rig::new();
        rig.teq = EventQueue::with(rig.dev, rig.lni, 1 << 20, |_| {});
        let [sink, overflow] = [(); 2].map(|()| rig.buffer(MESSAGES * LONGEST));
        let portal = rig.enabled(0, |options| options.set_is_matching(1));
        rig.append(portal, |entry| {
            whole(entry, &overflow);
            match_all(entry);
            entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8).set_manage_local(true);
        });
        Self { rig, portal, sink, overflow, known: vec![Known::default(); MESSAGES], done: 0 }
    }

    /// Posts the receives of a block, from its end to its beginning.
    fn post(&mut self, block: usize) {
        for number in (block * BLOCK..(block + 1) * BLOCK).rev() {
            self.rig.tgt.issue(&append(self.portal.number, |entry| {
                whole(entry, &self.sink);
                entry
                    .set_start(self.sink.iova(number * LONGEST))
                    .set_length(LONGEST as u64)
                    .set_buffer_id(number as u16)
                    .set_use_once(true)
                    .set_manage_local(true)
                    .set_event_link_disable(true)
                    .set_match_id(u32::MAX)
                    .set_match_bits(bits(number));
            }));
        }
        self.rig.tgt.drain();
    }

    /// Waits until `messages` messages are complete.
    fn wait(&mut self, messages: usize) {
        while self.done < messages {
            let event = self.rig.teq.wait();
            assert_eq!(event.code(), C_RC_OK, "{event:?}");
            self.note(&event);
        }
    }

    fn note(&mut self, event: &Event) {
        let number = if is_completion(event) {
            // The buffer id, in the user pointer of the NIC's own get (nic.md 10.3).
            let number = (Completion::of(event).user_ptr >> 48) as usize;
            self.known[number].fetched = true;
            number
        } else {
            let event = TargetEvent::of(event);
            let number = event.header_data as usize;
            let known = &mut self.known[number];
            match (event.kind, event.ptl_list) {
                (C_EVENT_PUT, C_PTL_LIST_PRIORITY) => known.direct = true,
                (C_EVENT_PUT, _) => known.stored = true,
                (C_EVENT_PUT_OVERFLOW, _) => {
                    known.found = Some((event.start, event.mlength as usize));
                }
                (C_EVENT_RENDEZVOUS, _) => return,
                other => panic!("unexpected event {other:?}"),
            }
            number
        };
        let known = self.known[number];
        if !known.is_complete(number) {
            return;
        }
        self.done += 1;
        if let Some((start, len)) = known.found {
            // Software copies messages that came before their receive.
            let from = (start - self.overflow.iova(0)) as usize;
            let data = self.overflow.pages.read(from, len);
            self.sink.pages.write(number * LONGEST, &data);
        }
    }
}

#[test]
fn every_message_reaches_its_receive() {
    alone!();
    if role().is_some() {
        return send_all();
    }
    let mut partner = Partner::start("sender");
    let mut receiver = Receiver::new();
    assert_eq!(partner.receive(), "ready");
    // The first block is posted before all messages, the last one after them.
    receiver.post(0);
    partner.send(&receiver.rig.dfa(0).to_string());
    let last = MESSAGES / BLOCK - 1;
    for block in 1..last {
        receiver.post(block);
        if block % 3 == 0 {
            receiver.wait((block + 1) * BLOCK);
        }
    }
    receiver.wait(last * BLOCK);
    assert_eq!(partner.receive(), "sent");
    receiver.post(last);
    receiver.wait(MESSAGES);
    partner.end();

    let (pattern, sink) = (pattern(), &receiver.sink.pages);
    for number in 0..MESSAGES {
        let (at, len) = (place(number), length(number));
        let got = sink.read(number * LONGEST, len);
        assert!(got == pattern[at..at + len], "message {number}");
        let rest = number * LONGEST + len;
        assert!(sink.is(rest, LONGEST - len, 0), "message {number}");
    }
    let direct = |block: usize| {
        let known = &receiver.known[block * BLOCK..(block + 1) * BLOCK];
        known.iter().filter(|known| known.direct).count()
    };
    assert_eq!((direct(0), direct(last)), (BLOCK, 0));
}
