//! The ring of a command queue: order, wrap, padding, status, and commands that are none (nic.md 2,
//! 3). Low-latency writes (nic.md 2.8): every window, mixed with doorbells, each command executed
//! once.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::driver::command_queue::Store::{Doorbell, Window};
use crate::driver::prelude::*;

/// A queue that reports failures on the initiator's event queue.
fn observed(rig: &Rig, flags: u32) -> Queue {
    Queue::with(rig.dev, rig.lni, rig.eq.handle, |options| options.flags = flags)
}

/// Number of a transmit or target queue.
fn index(queue: &Queue) -> u32 {
    // SAFETY: the handle was not destroyed yet.
    unsafe { (*queue.handle).idx }
}

#[test]
fn executes_commands_of_all_sizes_around_ring() {
    alone!();
    let (mut rig, source, sink) = Rig::with_target();
    rig.tx.emit(&c_state(rig.eq.number, true, |_| {}));
    // Immediate commands of 32, 64, 128 and 256 bytes, and DMA commands of 32 and 64. The
    // order changes from lap to lap, so that every size meets every place with every padding.
    let mut state = 1_u32;
    for round in 0..3000_u32 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mark = (round as u8).wrapping_add(1);
        let (command, len) = match state >> 29 {
            kind @ 0..=3 => {
                let len = [16, 48, 112, 224][kind as usize];
                (idc_put(rig.dfa(0), 0, &vec![mark; len]), len)
            }
            kind => {
                source.pages.fill(mark);
                let put = if kind < 6 {
                    rig.nomatch_put(&source, 0, 100, |_| {})
                } else {
                    rig.dma_put(&source, 0, 100, |_| {})
                };
                (put, 100)
            }
        };
        assert_eq!(rig.code(&command), C_RC_OK, "round {round}");
        assert!(sink.pages.is(0, len, mark), "round {round}");
    }
    assert_eq!(usize::from(rig.tx.status().rd_ptr()), rig.tx.wp / 2);
    assert_eq!(u32::from(rig.tx.status().return_code()), C_RC_OK);
}

#[test]
fn executes_every_command_of_full_ring_once() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let free = rig.tx.free();
    assert_eq!(free, rig.tx.size32 - 10, "an empty queue");
    let put = rig.nomatch_put(&source, 0, 8, |_| {});
    for lap in 0..5 {
        for _ in 0..free {
            rig.tx.write(&put);
        }
        assert_eq!(rig.tx.free(), 0);
        rig.tx.ring();
        for _ in 0..free {
            assert_eq!(rig.eq.wait().code(), C_RC_OK, "lap {lap}");
        }
        rig.tx.drain();
        assert_eq!(rig.eq.poll(), None, "lap {lap}");
        assert_eq!(rig.tx.free(), free);
    }
}

#[test]
fn recognizes_padding_by_header_alone() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.nomatch_put(&source, 0, 8, |_| {});
    // A NOOP of each size; all bytes but the first are garbage of the lap before.
    for (code, len) in [(0, 32), (1, 64), (2, 128), (3, 256)] {
        let mut noop = vec![0xff; len];
        noop[0] = code << 2;
        rig.tx.emit(&noop);
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    rig.tx.emit(&cq(C_CMD_CQ_NOOP, 0));
    assert_eq!(rig.code(&put), C_RC_OK);
}

#[test]
fn new_queue_starts_at_slot_four() {
    alone!();
    let mut rig = Rig::new();
    assert_eq!(rig.tx.status().bytes(), &[4, 0, 0, 0, 0, 0, 1, 0]);
    // The vector of nic.md 2.8: fresh queue, LCID pair, doorbell.
    rig.tx.emit_lcid(rig.lcid);
    assert_eq!(rig.tx.ring(), [Store::Doorbell(6)]);
    rig.tx.drain();
    assert_eq!(rig.tx.status().rd_ptr(), 6);
}

#[test]
fn writes_status_by_policy() {
    alone!();
    let rig = Rig::new();
    let noop = cq(C_CMD_CQ_NOOP, 0);
    for (policy, cadence, on_empty) in [
        (CXI_CQ_UPDATE_ALWAYS, 1, true),
        (CXI_CQ_UPDATE_HIGH_FREQ_EMPTY, 16, true),
        (CXI_CQ_UPDATE_LOW_FREQ_EMPTY, 256, true),
        (CXI_CQ_UPDATE_LOW_FREQ, 256, false),
    ] {
        let mut queue = Queue::with(rig.dev, rig.lni, std::ptr::null_mut(), |options| {
            options.flags = CXI_CQ_IS_TX;
            options.count = 1024;
            options.policy = policy;
        });
        for _ in 0..400 {
            queue.write(&noop);
        }
        queue.ring();
        let last = if on_empty { 404 } else { 4 + 400 / cadence * cadence };
        wait_for("the last status", || {
            progress(rig.dev);
            let seen = queue.status().rd_ptr();
            let step = (seen - 4) % cadence;
            assert!(step == 0 || seen == 404 && on_empty, "policy {policy}: {seen}");
            (seen == last).then_some(())
        });
    }
}

/// Checks status and event of commands that no transmit queue accepts.
#[test]
fn invalid_command_stops_its_queue() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let edited = |mut command: Vec<u8>, at: usize, value: u8| {
        command[at] = value;
        command
    };
    let header = |kind: u32, code: u32, opcode: u32| (kind | code << 2 | opcode << 4) as u8;
    let bare = |header: u8| {
        let len = 32 << (header >> 2 & 3);
        edited(vec![0; len], 0, header)
    };
    let nomatch = rig.nomatch_put(&source, 0, 8, |_| {});
    let full = rig.dma_put(&source, 0, 8, |_| {});
    let put = idc_put(rig.dfa(0), 0, &[1; 16]);
    let unrestricted = c_state(0, false, |_| {});
    let mut wide = nomatch.clone();
    wide.resize(64, 0);
    // A C_STATE and NOOPs precede the put that is too long for unrestricted ones.
    let too_long = [vec![0; 224], idc_put(rig.dfa(0), 0, &[1; 193])].concat();
    let illegal = [
        bare(header(C_CMD_TYPE_IDC, 0, 15)),
        bare(header(C_CMD_TYPE_IDC, 1, C_CMD_NOMATCH_PUT)),
        bare(header(C_CMD_TYPE_DMA, 2, 15)),
        bare(header(C_CMD_TYPE_DMA, 0, C_CMD_CSTATE)),
        bare(header(C_CMD_TYPE_DMA, 0, C_CMD_CLEAR)),
        bare(header(C_CMD_TYPE_DMA, 0, C_CMD_CLOSE)),
        bare(header(C_CMD_TYPE_CQ, 1, 3)),
        bare(header(C_CMD_TYPE_CT, 1, 3)),
        append(1, |_| {}),
    ];
    let invalid = [
        // Wider, narrower, shorter or longer than commands of their kind.
        edited(wide, 0, nomatch[0] | 1 << 2),
        edited(full[..32].to_vec(), 0, full[0] & !0xc),
        edited(put.clone(), 1, 15),
        edited(put, 1, 33),
        edited(unrestricted.clone(), 1, 31),
        [unrestricted, too_long].concat(),
    ];
    let forbidden =
        [cq(C_CMD_CQ_LCID, 15), rig.nomatch_put(&source, 0, 8, |put| _ = put.set_eq(2047))];
    let cases = (illegal.into_iter().map(|command| (command, C_RC_ILLEGAL_OP)))
        .chain(invalid.into_iter().map(|command| (command, C_RC_CMD_INVALID_ARG)))
        .chain(forbidden.into_iter().map(|command| (command, C_RC_PERM_VIOLATION)));
    for (command, code) in cases {
        let what = format!("{:x?}", &command[..16]);
        let mut queue = observed(&rig, CXI_CQ_IS_TX);
        let failing = 4 + (command.len().saturating_sub(256) / 64) as u16;
        let head = command[if command.len() > 256 { 256 } else { 0 }];
        queue.write(&command);
        queue.issue(&nomatch);
        let status = queue.wait_error();
        assert_eq!(u32::from(status.return_code()), code, "{what}");
        let failed = (status.rd_ptr(), status.fail_command());
        assert_eq!(failed, (failing, head), "{what}");
        assert!(!status.fail_ll() && !status.fail_loc_32(), "{what}");
        let event = rig.eq.expect(C_EVENT_COMMAND_FAILURE, code);
        let event = EventCmdFail::from_bytes(event.bytes());
        let at = (u32::from(event.cq_id()), event.is_target(), event.fail_loc());
        assert_eq!(at, (index(&queue), false, failing), "{what}");
        assert_eq!(event.bytes()[4], head, "{what}");
        // This queue executes no further command; other queues continue.
        assert_eq!(rig.code(&nomatch), C_RC_OK, "{what}");
        assert_eq!(rig.eq.poll(), None, "{what}");
        assert_eq!(queue.status().rd_ptr(), failing, "{what}");
    }
}

#[test]
fn rejects_misaligned_commands() {
    alone!();
    let rig = Rig::new();
    let cases = [
        // (halves of padding, size code, in the upper half)
        (1, 1, true),
        (2, 2, false),
        (3, 2, true),
        (4, 3, false),
        (6, 3, false),
    ];
    for (halves, code, upper) in cases {
        let mut queue = observed(&rig, CXI_CQ_IS_TX);
        for _ in 0..halves {
            queue.write(&[0; 32]);
        }
        let mut noop = vec![0; 32 << code];
        noop[0] = code << 2;
        queue.write_and_ring(&noop);
        let status = queue.wait_error();
        assert_eq!(u32::from(status.return_code()), C_RC_CMD_ALIGN_ERROR);
        assert_eq!(status.rd_ptr(), 4 + halves / 2);
        assert_eq!(status.fail_loc_32(), upper);
    }
    // The LCID pair must start at an even slot.
    let mut queue = observed(&rig, CXI_CQ_IS_TX);
    queue.emit(&cq(C_CMD_CQ_NOOP, 0));
    queue.issue(&cq(C_CMD_CQ_LCID, rig.lcid as u8));
    let status = queue.wait_error();
    assert_eq!(u32::from(status.return_code()), C_RC_CMD_ALIGN_ERROR);
    assert_eq!(status.rd_ptr(), 5);
}

#[test]
fn rejects_partly_announced_command() {
    alone!();
    let rig = Rig::new();
    let mut queue = observed(&rig, CXI_CQ_IS_TX);
    queue.write(&idc_put(rig.dfa(0), 0, &[0; 200]));
    queue.store_doorbell(6);
    assert_eq!(queue.wait_failure(), C_RC_CMD_INVALID_ARG);
}

#[test]
fn counts_rejected_doorbells() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let count = (rig.tx.size32 / 2) as u64;
    let garbage = [0, 3, count, count + 1, 0xffff, 0x1_0005, u64::MAX - 1, u64::MAX / 3];
    for (number, value) in garbage.into_iter().enumerate() {
        rig.tx.store_doorbell(value);
        wait_for("a refusal", || {
            progress(rig.dev);
            let seen = usize::from(rig.tx.status().num_write_cmds_rejected());
            assert!(seen <= number + 1);
            (seen == number + 1).then_some(())
        });
        // The queue is none the worse.
        let put = rig.nomatch_put(&source, 0, 8, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK, "after {value:#x}");
    }
    assert_eq!(rig.eq.poll(), None);
}

#[test]
fn fence_waits_for_earlier_operations() {
    alone!();
    let mut rig = Rig::new();
    let len = 256 << 10;
    let source = rig.buffer(len);
    let sink = rig.buffer(len);
    rig.target(0, &sink);
    // The long put is acknowledged before the short one behind the fence starts.
    for _ in 0..20 {
        let long = rig.dma_put(&source, 0, len as u32, |put| _ = put.set_user_ptr(1));
        let short = rig.dma_put(&source, 0, 1, |put| _ = put.set_user_ptr(2));
        rig.tx.emit(&long);
        rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
        rig.tx.issue(&short);
        assert_eq!([rig.eq.wait().0[0], rig.eq.wait().0[0]], [1, 2]);
    }
    // A failed operation is complete.
    let failing = rig.dma_put(&source, 0, 8, |put| _ = put.set_remote_offset(len as u64));
    rig.tx.emit(&failing);
    rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
    assert_eq!(rig.eq.wait().code(), C_RC_NO_SPACE);
    rig.tx.drain();
}

#[test]
fn target_queue_accepts_only_target_commands() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = rig.portal(0, |_| {});
    let other = alloc_lni(rig.dev);
    let good = set_state(portal.number, C_PTLTE_ENABLED);
    let edited = |at: usize, value: u8| {
        let mut command = good.clone();
        command[at] = value;
        command
    };
    let unknown = append(2047, |_| {});
    let cases = [
        ("opcode 15", edited(0, 0xf7), C_RC_ILLEGAL_OP),
        ("opcode 1", edited(0, 0x17), C_RC_ILLEGAL_OP),
        ("a put", edited(0, 0x15), C_RC_ILLEGAL_OP),
        ("32 bytes", edited(0, 0xc3), C_RC_CMD_INVALID_ARG),
        ("state 7", edited(1, 7), C_RC_CMD_INVALID_ARG),
        ("no such portal", unknown, C_RC_PERM_VIOLATION),
    ];
    for (what, command, code) in cases {
        let mut queue = observed(&rig, 0);
        assert!(index(&queue) >= 1024);
        queue.write_and_ring(&command);
        let status = queue.wait_error();
        assert_eq!(u32::from(status.return_code()), code, "{what}");
        let event = EventCmdFail::from_bytes(rig.eq.wait().bytes());
        assert_eq!(u32::from(event.cq_id()), index(&queue) - 1024, "{what}");
        assert!(event.is_target(), "{what}");
    }
    // A portal of another LNI.
    let mut queue = Queue::target(rig.dev, other);
    queue.write_and_ring(&good);
    assert_eq!(queue.wait_failure(), C_RC_PERM_VIOLATION);
    // The other queue still works.
    assert_eq!(rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
    assert_eq!(rig.append(portal, |entry| whole(entry, &sink)).code(), C_RC_OK);
}

#[test]
fn trigger_queue_rejects_32_byte_commands() {
    alone!();
    let rig = Rig::new();
    let mut queue = observed(&rig, CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS);
    // Padding is a NOOP of 64 bytes.
    let mut noop = vec![0xee; 64];
    noop[..8].copy_from_slice(&[6, 0, 0, 0, 0, 0, 0, 0]);
    queue.write_and_ring(&noop);
    queue.drain();
    assert_eq!(u32::from(queue.status().return_code()), C_RC_OK);
    queue.write(&[0; 32]);
    queue.ring();
    let status: CqStatus = queue.wait_error();
    assert_eq!(u32::from(status.return_code()), C_RC_CMD_INVALID_ARG);
}

/// More queues than the NIC handles in one pass.
#[test]
fn serves_many_queues() {
    alone!();
    let mut rig = Rig::new();
    let sinks: Vec<Buffer> = (0..8).map(|_| rig.buffer(PAGE)).collect();
    let source = rig.buffer(PAGE);
    for (number, sink) in sinks.iter().enumerate() {
        rig.target(32 * (number as u32 % 8), sink);
    }
    let mut queues: Vec<Queue> =
        (0..40).map(|_| Queue::transmit(rig.dev, rig.lni, rig.lcid)).collect();
    source.pages.fill(0x77);
    for round in 0..20 {
        for (number, queue) in queues.iter_mut().enumerate() {
            let dfa = rig.dfa(32 * (number as u32 % 8));
            queue.issue(&rig.nomatch_put(&source, 0, 64, |put| {
                _ = put.set_dfa(dfa).set_remote_offset(64 * number as u64)
            }));
        }
        for _ in 0..queues.len() {
            assert_eq!(rig.eq.wait().code(), C_RC_OK, "round {round}");
        }
    }
    for number in 0..queues.len() {
        assert!(sinks[number % 8].pages.is(64 * number, 64, 0x77), "queue {number}");
    }
}

const LL64: usize = 1024;
const LL128A: usize = 2048;
const LL128U: usize = 3072;

/// A rig with a target at index 0, and numbered puts.
struct Bench {
    rig: Rig,
    sink: Buffer,
    puts: usize,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let sink = rig.buffer(4 * PAGE);
        rig.target(0, &sink);
        Self { rig, sink, puts: 0 }
    }

    fn c_state(&self) -> Vec<u8> {
        c_state(self.rig.eq.number, true, |_| {})
    }

    /// A put in a command of 32 to 256 bytes, which fills a separate place with its number.
    fn put(&mut self, size: usize) -> Vec<u8> {
        let len = match size {
            32 => 16,
            64 => 48,
            128 => 112,
            _ => 224,
        };
        let at = self.puts % 64;
        self.puts += 1;
        let command = idc_put(self.rig.dfa(0), 256 * at as u64, &vec![self.puts as u8; len]);
        assert_eq!(command.len(), size);
        command
    }

    /// Checks that exactly the last `puts` puts were acknowledged and wrote their bytes.
    fn check(&mut self, puts: usize) {
        for _ in 0..puts {
            self.rig.eq.expect(C_EVENT_ACK, C_RC_OK);
        }
        self.rig.tx.drain();
        assert_eq!(self.rig.eq.poll(), None, "a command was executed twice");
        for number in self.puts - puts..self.puts {
            let mark = number as u8 + 1;
            assert!(self.sink.pages.is(256 * (number % 64), 16, mark), "put {number}");
        }
    }

    fn commit(&mut self, low_latency: bool) -> Vec<Store> {
        if low_latency { self.rig.tx.ll_ring() } else { self.rig.tx.ring() }
    }
}

/// Vectors 1 to 6 follow each other on one queue: command size, write pointer behind it, store.
const VECTORS: [(usize, usize, Store); 5] = [
    (64, 12, Window(LL64 + 320)),
    (128, 16, Window(LL128A + 384)),
    (64, 18, Window(LL64 + 512)),
    (128, 24, Window(LL128U + 640)),
    (256, 32, Doorbell(16)),
];

#[test]
fn commits_vectors_of_specification() {
    alone!();
    // The NIC runs after every commit, or only at the end.
    for (low_latency, watched) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bench = Bench::new();
        let c_state = bench.c_state();
        bench.rig.tx.emit(&c_state);
        assert_eq!(bench.rig.tx.ring(), [Doorbell(5)]);
        assert_eq!(bench.rig.tx.wp, 10);
        for (size, wp, store) in VECTORS {
            let put = bench.put(size);
            bench.rig.tx.emit(&put);
            assert_eq!(bench.rig.tx.wp, wp);
            let stores = bench.commit(low_latency);
            let expected = if low_latency { store } else { Doorbell(wp as u64 / 2) };
            assert_eq!(stores, [expected]);
            if watched {
                bench.check(1);
            }
        }
        if !watched {
            bench.check(VECTORS.len());
        }
    }
}

#[test]
fn commits_vectors_with_padding() {
    alone!();
    let mut bench = Bench::new();
    let c_state = bench.c_state();
    bench.rig.tx.issue(&c_state);
    bench.rig.tx.emit_lcid(bench.rig.lcid);
    assert_eq!(bench.rig.tx.ring(), [Doorbell(8)], "vector 7");
    while bench.rig.tx.wp != 122 {
        bench.rig.tx.emit(&[0; 32]);
    }
    bench.rig.tx.ring();
    bench.rig.tx.drain();
    let put = bench.put(256);
    bench.rig.tx.emit(&put);
    assert_eq!(bench.rig.tx.wp, 16);
    assert_eq!(bench.rig.tx.ring(), [Doorbell(8)], "vector 8");
    bench.check(1);
}

#[test]
fn doorbell_follows_commands_beyond_window() {
    alone!();
    let mut bench = Bench::new();
    let c_state = bench.c_state();
    bench.rig.tx.emit(&c_state);
    for _ in 0..7 {
        let put = bench.put(64);
        bench.rig.tx.emit(&put);
    }
    let stores = bench.rig.tx.ll_ring();
    // The C_STATE and its padding are the first slot.
    assert_eq!(stores, [Window(LL128A + 256), Doorbell(12)]);
    bench.check(7);
}

#[test]
fn status_shows_failure_of_low_latency_command() {
    alone!();
    for low_latency in [true, false] {
        let mut bench = Bench::new();
        let mut illegal = vec![0; 64];
        illegal[0] = 0xf4;
        bench.rig.tx.emit(&illegal);
        bench.commit(low_latency);
        let status = bench.rig.tx.wait_error();
        assert_eq!(u32::from(status.return_code()), C_RC_ILLEGAL_OP);
        assert_eq!(status.fail_ll(), low_latency);
    }
}

/// A commit of a program, and whether the NIC runs after it.
#[derive(Clone, Debug)]
struct Commit {
    sizes: Vec<usize>,
    low_latency: bool,
    watched: bool,
}

fn commit() -> impl Strategy<Value = Commit> {
    let size = prop_oneof![Just(32), Just(64), Just(128), Just(256)];
    let sizes = prop::collection::vec(size, 1..4);
    (sizes, prop::bool::weighted(0.8), any::<bool>())
        .prop_map(|(sizes, low_latency, watched)| Commit { sizes, low_latency, watched })
}

#[test]
fn any_mixture_of_commits_executes_each_command_once() {
    alone!();
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let commits = prop::collection::vec(commit(), 1..60);
    TestRunner::new(config)
        .run(&commits, |commits| {
            let mut bench = Bench::new();
            let c_state = bench.c_state();
            bench.rig.tx.emit(&c_state);
            let (mut open, mut unseen) = (0, 0);
            for commit in commits {
                let before = bench.rig.tx.wp;
                for size in commit.sizes {
                    let put = bench.put(size);
                    bench.rig.tx.emit(&put);
                    open += 1;
                }
                bench.commit(commit.low_latency);
                let size32 = bench.rig.tx.size32;
                unseen += (bench.rig.tx.wp + size32 - before) % size32 / 2;
                // The NIC does not support more than 16 unseen slots of windows
                // (nic.md 2.10); a commit takes up to 11 slots.
                if commit.watched || unseen > 4 {
                    bench.check(open);
                    (open, unseen) = (0, 0);
                }
            }
            bench.check(open);
            Ok(())
        })
        .unwrap();
}
