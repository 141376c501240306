//! Low-latency writes (nic.md 2.8): every window, mixed with doorbells, each command executed once.

use crate::driver::prelude::*;
use crate::driver::queue::Store::{Doorbell, Window};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

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
