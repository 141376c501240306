//! Compares random sequences of appends, operations, unlinks and searches with a plain model:
//! events with all fields in order, return codes and bytes.

use crate::driver::prelude::*;
use std::cell::RefCell;

use crate::model::{ANY, Append, Kind, Model, Outcome, Reported, Search, Send, rendezvous_id};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const LEN: usize = 16 * 1024;
const MATCHING: u32 = 0;
const SOURCES: u32 = 255;

#[derive(Clone, Debug)]
enum Step {
    Append(Append),
    Unlink {
        overflow: bool,
        of: usize,
    },
    Search(Search),
    Send(Send),
    /// A message inside the command.
    Message(Send),
}

/// Few different values, so that most operations match.
fn match_bits() -> impl Strategy<Value = u64> {
    (0..3_u64, 0..2_u64).prop_map(|(low, high)| low | high << 50)
}

fn ignore_bits() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(3 | 1 << 50), 1 => Just(u64::MAX)]
}

fn often(weight: f64) -> impl Strategy<Value = bool> {
    prop::bool::weighted(weight)
}

fn append_step(pid: u32) -> impl Strategy<Value = Append> {
    let range = (0..LEN / 2, prop_oneof![1 => 0..64_usize, 3 => 64..LEN / 2]);
    let criteria =
        (match_bits(), ignore_bits(), prop_oneof![3 => Just(ANY), 1 => Just(pid << 23 | 1)]);
    let kind = (often(0.5), often(0.4), often(0.2), 0..3000_usize);
    let rights = (often(0.9), often(0.5), often(0.1));
    let silence = (often(0.3), often(0.2), often(0.1), often(0.2));
    (often(0.4), range, criteria, kind, rights, silence).prop_map(
        |(overflow, range, criteria, kind, rights, silence)| Append {
            overflow,
            buffer_id: 0,
            start: range.0,
            length: range.1,
            match_bits: criteria.0,
            ignore_bits: criteria.1,
            match_id: criteria.2,
            use_once: kind.0,
            manage_local: kind.1,
            no_truncate: kind.2,
            min_free: kind.3,
            op_put: rights.0,
            op_get: rights.1,
            headerless: rights.2,
            unlink_disable: silence.0,
            success_disable: silence.1,
            comm_disable: silence.2,
            link_disable: silence.3,
        },
    )
}

/// Operations of two initiator nodes. The PID of the initiators is this process, so rendezvous gets
/// go to it.
fn send_step(pid: u32, longest: usize) -> impl Strategy<Value = Send> {
    let kind = prop_oneof![
        3 => Just(Kind::Put),
        1 => Just(Kind::Get),
        3 => (prop_oneof![Just(0), 0..5000_usize, Just(usize::MAX >> 44)], any::<bool>())
            .prop_map(|(eager, use_offset)| Kind::Rendezvous { eager, use_offset }),
    ];
    let length = prop_oneof![1 => 0..17_usize, 3 => 0..longest];
    let offset = prop_oneof![2 => Just(0), 1 => 0..2000_usize, 1 => 0..LEN];
    let initiator = (1..3_u32).prop_map(move |node| pid << 23 | node);
    (kind, match_bits(), initiator, any::<u64>(), 0..LEN - 6000, length, offset).prop_map(
        |(kind, match_bits, initiator, header_data, local, length, remote_offset)| Send {
            kind,
            match_bits,
            initiator,
            header_data,
            local,
            length,
            remote_offset,
        },
    )
}

fn step(pid: u32) -> impl Strategy<Value = Step> {
    let search = (match_bits(), ignore_bits(), any::<bool>(), any::<bool>()).prop_map(
        |(match_bits, ignore_bits, first_only, delete)| Search {
            buffer_id: 0xbeef,
            match_bits,
            ignore_bits,
            match_id: ANY,
            first_only,
            delete,
        },
    );
    let message =
        send_step(pid, 193).prop_map(|send| Send { kind: Kind::Put, remote_offset: 0, ..send });
    prop_oneof![
        5 => append_step(pid).prop_map(Step::Append),
        1 => (any::<bool>(), 0..20_usize).prop_map(|(overflow, of)| Step::Unlink { overflow, of }),
        1 => search.prop_map(Step::Search),
        6 => send_step(pid, 6000).prop_map(Step::Send),
        2 => message.prop_map(Step::Message),
    ]
}

struct Bench {
    rig: Rig,
    source: Buffer,
    sink: Buffer,
    inbox: Buffer,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let [source, sink, inbox] = [(); 3].map(|()| rig.buffer(LEN));
        let pattern: Vec<u8> = (0..LEN).map(|at| (at * 7 % 251) as u8 + 1).collect();
        source.pages.write(0, &pattern);
        // The entry for rendezvous gets.
        let portal = rig.enabled(SOURCES, |options| options.set_is_matching(1));
        let nid = rig.nid;
        rig.append(portal, |entry| {
            whole(entry, &source);
            entry
                .set_op_put(false)
                .set_op_get(true)
                .set_match_id(511 << 23 | nid)
                .set_ignore_bits(u64::MAX)
                .set_event_comm_disable(true);
        });
        Self { rig, source, sink, inbox }
    }

    fn command(&self, send: &Send) -> Vec<u8> {
        let buffer = match send.kind {
            Kind::Get => &self.inbox,
            _ => &self.source,
        };
        self.rig.dma_put(buffer, send.local, send.length as u32, |put| {
            put.set_initiator(send.initiator)
                .set_match_bits(send.match_bits)
                .set_header_data(send.header_data)
                .set_remote_offset(send.remote_offset as u64);
            match send.kind {
                Kind::Put => {}
                Kind::Get => _ = put.set_opcode(C_CMD_GET as u8),
                Kind::Rendezvous { eager, use_offset } => {
                    put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                        .set_eager_length(eager as u32)
                        .set_rendezvous_id(rendezvous_id(send))
                        .set_use_offset_for_get(use_offset);
                }
            }
        })
    }

    fn send(&mut self, send: &Send) -> Outcome {
        let command = self.command(send);
        outcome(&self.rig.run(&command))
    }

    fn message(&mut self, send: &Send) -> Outcome {
        self.rig.tx.emit(&c_state(self.rig.eq.number, false, |state| {
            _ = state.set_initiator(send.initiator)
        }));
        let payload = self.source.pages.read(send.local, send.length);
        let dfa = self.rig.dfa(MATCHING);
        let command = idc_msg(&payload, |header| {
            header.set_dfa(dfa).set_match_bits(send.match_bits).set_header_data(send.header_data);
        });
        outcome(&self.rig.run(&command))
    }

    fn append(&mut self, portal: Portal, wanted: &Append) {
        self.rig.tgt.emit(&append(portal.number, |entry| {
            entry
                .set_ptl_list(wanted.overflow.into())
                .set_buffer_id(wanted.buffer_id)
                .set_lac(self.sink.lac)
                .set_start(self.sink.iova(wanted.start))
                .set_length(wanted.length as u64)
                .set_match_bits(wanted.match_bits)
                .set_ignore_bits(wanted.ignore_bits)
                .set_match_id(wanted.match_id)
                .set_use_once(wanted.use_once)
                .set_manage_local(wanted.manage_local)
                .set_no_truncate(wanted.no_truncate)
                .set_min_free(wanted.min_free as u32)
                .set_op_put(wanted.op_put)
                .set_op_get(wanted.op_get)
                .set_unexpected_hdr_disable(wanted.headerless)
                .set_event_unlink_disable(wanted.unlink_disable)
                .set_event_success_disable(wanted.success_disable)
                .set_event_comm_disable(wanted.comm_disable)
                .set_event_link_disable(wanted.link_disable);
        }));
        self.rig.tgt.ring();
    }

    fn search(&mut self, portal: Portal, wanted: &Search) {
        let opcode = if wanted.delete { C_CMD_TGT_SEARCH_AND_DELETE } else { C_CMD_TGT_SEARCH };
        self.rig.tgt.emit(&target(opcode, portal.number, |search| {
            search
                .set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
                .set_buffer_id(wanted.buffer_id)
                .set_match_bits(wanted.match_bits)
                .set_ignore_bits(wanted.ignore_bits)
                .set_match_id(wanted.match_id)
                .set_length(u64::MAX)
                .set_use_once(wanted.first_only);
        }));
        self.rig.tgt.ring();
    }

    /// The events of the target's queue: waits for the expected number, then takes the rest.
    fn reported(&mut self, expected: usize) -> Vec<Reported> {
        self.rig.tgt.drain();
        let mut reported = vec![];
        while reported.len() < expected {
            reported.push(translated(&self.rig.teq.wait()));
        }
        progress(self.rig.dev);
        while let Some(event) = self.rig.teq.take() {
            reported.push(translated(&event));
            self.rig.teq.acknowledge();
        }
        reported
    }
}

fn translated(event: &Event) -> Reported {
    if is_completion(event) {
        let reply = Completion::of(event);
        assert_eq!((reply.kind, reply.rendezvous), (C_EVENT_REPLY, true));
        return Reported::Fetched(reply.code, reply.mlength);
    }
    Reported::Event(TargetEvent::of(event))
}

fn outcome(event: &Event) -> Outcome {
    let completion = Completion::of(event);
    (completion.code, completion.mlength, completion.ptl_list)
}

fn run(bench: &mut Bench, steps: &[Step]) {
    bench.sink.pages.fill(0);
    bench.inbox.pages.fill(0);
    let portal = bench.rig.portal(MATCHING, |options| options.set_is_matching(1));
    assert_eq!(bench.rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
    let dfa = bench.rig.nid << 12 | (SOURCES >> 5 << 9);
    let source = bench.source.pages.read(0, LEN);
    let base = bench.sink.iova(0);
    let mut model = Model::new(source, LEN, base, portal.number, VNI as u16, dfa);
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Append(append) => {
                let append = Append { buffer_id: number as u16, ..*append };
                bench.append(portal, &append);
                model.append(append);
            }
            Step::Unlink { overflow, of } => {
                let unlink = target(C_CMD_TGT_UNLINK, portal.number, |entry| {
                    _ = entry.set_ptl_list((*overflow).into()).set_buffer_id(*of as u16)
                });
                bench.rig.tgt.issue(&unlink);
                model.unlink(*overflow, *of as u16);
            }
            Step::Search(search) => {
                bench.search(portal, search);
                model.search(*search);
            }
            Step::Send(send) => assert_eq!(bench.send(send), model.send(*send), "{number}"),
            Step::Message(send) => assert_eq!(bench.message(send), model.send(*send), "{number}"),
        }
        let mut expected = std::mem::take(&mut model.reported);
        let mut reported = bench.reported(expected.len());
        // The completion of a get has no fixed order with other events.
        for reported in [&mut expected, &mut reported] {
            reported.sort_by_key(|reported| match reported {
                Reported::Event(_) => (0, 0, 0),
                Reported::Fetched(code, length) => (1, *code, *length),
            });
        }
        assert_eq!(reported, expected, "step {number}");
        // A get without event is complete when the NIC has no more work.
        for _ in 0..4 {
            progress(bench.rig.dev);
        }
    }
    assert!(bench.sink.pages.read(0, LEN) == model.sink, "target memory");
    assert!(bench.inbox.pages.read(0, LEN) == model.inbox, "fetched data");
    portal.close();
}

#[test]
fn any_sequence_agrees_with_model() {
    alone!();
    let bench = Bench::new();
    let pid = bench.rig.pid;
    // `None` while a case runs, and after a failed one.
    let bench = RefCell::new(Some(bench));
    let config = Config { cases: 128, failure_persistence: None, ..Config::default() };
    let steps = prop::collection::vec(step(pid), 1..40);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let mut fit = bench.take().unwrap_or_else(Bench::new);
        run(&mut fit, &steps);
        bench.replace(Some(fit));
        Ok(())
    });
    outcome.unwrap();
}
