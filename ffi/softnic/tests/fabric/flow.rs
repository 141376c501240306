//! Flows of puts between NICs on a fabric of switches, each in a process of its own.
//!
//! A busy machine only makes packets late, and its scheduler counts for how long processes waited
//! for a CPU. So a measurement is repeated until its figures are as expected, and fails after some
//! in which no process had to wait; `not tested here` says that there were none.

use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::driver::prelude::*;

pub const TOPOLOGY: &str = "CXIDIAG_TOPOLOGY";

const MS: u64 = 1_000_000;

/// Nanoseconds after which a measurement begins: the queues have filled.
const RAMP: u64 = 200 * MS;

/// Measurements at most, and those in which no process waited for a CPU.
const TRIES: usize = 12;
const UNDISTURBED: usize = 3;

/// The time for which a process may wait for a CPU while it is measured, as a part of that time.
const MOST_WAITED: f64 = 0.005;

/// Time on the clock that processes share, in nanoseconds.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1000 * MS + now.tv_nsec as u64
}

/// For how long the threads of this process have waited for a CPU, in nanoseconds.
fn waited() -> u64 {
    let threads = fs::read_dir("/proc/self/task").expect("the kernel has /proc");
    let thread_wait = |thread: std::io::Result<fs::DirEntry>| {
        let times = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    threads.filter_map(thread_wait).sum()
}

/// Puts from one NIC to another, `window` of them outstanding.
#[derive(Clone, Copy)]
pub struct Flow {
    pub from: u32,
    pub to: u32,
    pub size: usize,
    pub window: usize,
}

impl Flow {
    /// 16 KiB each, 256 KiB outstanding.
    pub fn new(from: u32, to: u32) -> Self {
        Self { from, to, size: 16 << 10, window: 16 }
    }

    /// Single small puts, one after another.
    pub fn small(from: u32, to: u32) -> Self {
        Self { size: 8, window: 1, ..Self::new(from, to) }
    }

    /// Starts its process, and waits until it is ready.
    pub fn start(self) -> Partner {
        let Self { from, to, size, window } = self;
        let mut partner = Partner::start(&format!("flow {from} {to} {size} {window}"));
        assert_eq!(partner.receive(), "ready");
        partner
    }

    fn from_role(role: &str) -> Option<Self> {
        let numbers = role.strip_prefix("flow ")?.split(' ');
        let numbers: Vec<u32> = numbers.map(|word| word.parse().unwrap()).collect();
        Some(Self {
            from: numbers[0],
            to: numbers[1],
            size: numbers[2] as usize,
            window: numbers[3] as usize,
        })
    }
}

/// What a flow did in the measured time.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Payload in MB/s.
    pub rate: f64,
    /// The median time until the response, in milliseconds.
    pub median: f64,
    is_disturbed: bool,
}

/// The process of a flow: `measure FROM TO` puts until a time, and answers with what happened from
/// another time on; `move BYTES` puts some bytes.
fn serve(flow: Flow) {
    let mut target = Rig::on(flow.to);
    let sink = target.buffer(flow.size);
    target.target(0, &sink);
    let mut rig = Rig::on(flow.from);
    let source = rig.buffer(flow.size);
    let dfa = address(target.nid, target.pid, 0).0;
    let put = rig.nomatch_put(&source, 0, flow.size as u32, |put| _ = put.set_dfa(dfa));
    say("ready");
    while let Some(line) = listen() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().expect("a number");
        let mut times = Vec::new();
        let mut begun = VecDeque::new();
        let (mut left, [from, to]) = match words[0] {
            "move" => (number(1).div_ceil(flow.size as u64), [0, u64::MAX]),
            _ => (u64::MAX, [number(1), number(2)]),
        };
        let (mut waited_before, mut waited_after) = (None, None);
        loop {
            let time = now();
            if time >= from {
                waited_before = waited_before.or_else(|| Some(waited()));
            }
            if time >= to {
                waited_after = waited_after.or_else(|| Some(waited()));
            }
            while time < to && left > 0 && begun.len() < flow.window {
                begun.push_back(time);
                left -= 1;
                rig.tx.issue(&put);
            }
            if begun.is_empty() {
                break;
            }
            progress(target.dev);
            while let Some(event) = rig.eq.poll() {
                assert_eq!((event.kind(), event.code()), (C_EVENT_ACK, C_RC_OK));
                let (time, begun) = (now(), begun.pop_front().expect("a put"));
                if (from..to).contains(&time) {
                    times.push(time - begun);
                }
            }
            rig.eq.acknowledge();
            // The other processes need the CPUs too. Queues outlast this.
            std::thread::sleep(Duration::from_micros(500));
        }
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied().unwrap_or(u64::MAX);
        let waited = waited_after.zip(waited_before).map_or(0, |(after, before)| after - before);
        say(&format!("{} {median} {waited}", times.len() * flow.size));
    }
}

/// Runs the process of a flow, if this is one. Returns whether it was.
pub fn is_flow() -> bool {
    let flow = role().and_then(|role| Flow::from_role(&role));
    flow.map(serve).is_some()
}

/// Flows whose processes run.
pub struct Flows {
    flows: Vec<Flow>,
    pub partners: Vec<Partner>,
}

impl Flows {
    /// Starts flows on a fabric.
    pub fn start(fabric: &str, flows: &[Flow]) -> Self {
        set(TOPOLOGY, fabric);
        Self { flows: flows.to_vec(), partners: flows.iter().map(|flow| flow.start()).collect() }
    }

    fn measure(&mut self, milliseconds: u64) -> Vec<Measured> {
        let from = now() + RAMP;
        let to = from + milliseconds * MS;
        let partners = &mut self.partners;
        for partner in partners.iter_mut() {
            partner.send(&format!("measure {from} {to}"));
        }
        let measured = |partner: &mut Partner| {
            let line = partner.receive();
            let numbers = line.split(' ').map(|word| word.parse::<u64>().unwrap());
            let numbers: Vec<u64> = numbers.collect();
            Measured {
                rate: numbers[0] as f64 / milliseconds as f64 / 1e3,
                median: numbers[1] as f64 / MS as f64,
                is_disturbed: numbers[2] as f64 > MOST_WAITED * (milliseconds * MS) as f64,
            }
        };
        partners.iter_mut().map(measured).collect()
    }

    /// Measures all flows at once for some milliseconds, until they are as `check` expects.
    pub fn expect(
        mut self,
        milliseconds: u64,
        check: impl Fn(&[Measured]) -> Result<(), String>,
    ) -> Self {
        let mut undisturbed = 0;
        for _ in 0..TRIES {
            let measured = self.measure(milliseconds);
            let Err(wrong) = check(&measured) else {
                return self;
            };
            if !measured.iter().any(|flow| flow.is_disturbed) {
                undisturbed += 1;
                println!("undisturbed, but {wrong}");
            }
            assert!(undisturbed < UNDISTURBED, "{wrong}");
        }
        println!("not tested here: processes waited for a CPU in most measurements");
        self
    }

    /// Expects these rates in MB/s, within a part of them.
    pub fn expect_rates(self, milliseconds: u64, expected: &[f64], within: f64) -> Self {
        assert_eq!(self.flows.len(), expected.len());
        self.expect(milliseconds, |measured| {
            let rates: Vec<f64> = measured.iter().map(|flow| flow.rate).collect();
            let mut pairs = rates.iter().zip(expected);
            let is_near = pairs.all(|(rate, expected)| (rate / expected - 1.0).abs() <= within);
            is_near
                .then_some(())
                .ok_or_else(|| format!("rates are {rates:.2?}, expected {expected:.2?}"))
        })
    }

    /// Ends the processes.
    pub fn end(mut self) {
        self.partners.iter_mut().for_each(Partner::end);
    }
}
