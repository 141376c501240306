//! The second opinion on issuing commands and taking events: `recorded.c`, which follows nic.md and
//! shares nothing with the Rust code. Tests give both the same commands and events, and compare
//! what they write.

mod library;

use proptest::test_runner::TestCaseError;

use library::{Library, functions};

/// Commands, with the numbers of `enum kind` in commands.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// The bytes of a command, as its payload.
    AsGiven,
    CState,
    IdcPut,
    IdcMsg,
    IdcAmo,
    NomatchDma,
    Dma,
    DmaAmo,
    Lcid,
    Fence,
    Target,
    SetState,
    TriggerDma,
    TriggerNomatchDma,
    TriggerDmaAmo,
    // 15 and the opcode.
    CounterSet = 16,
    CounterGet = 17,
    CounterIncrement = 18,
    CounterCancel = 19,
    TriggerSet = 21,
    TriggerIncrement = 22,
    TriggerEvent = 23,
}

/// Why a command is not emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Full,
    Illegal,
}

/// What a producer or a consumer does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Stores to the ring, whose order does not matter.
    Ring,
    BeforeLaunch,
    /// A store of 64 bits to the launch page.
    Store {
        offset: usize,
        value: u64,
    },
    AfterLaunch,
    /// Eight zero bytes in an event queue.
    Zero(usize),
    BeforeAcknowledge,
    SwState(u64),
}

/// `struct step` of recorded.c.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Step {
    access: u32,
    offset: u32,
    value: u64,
    known: u64,
}

const MOST_STEPS: usize = 64;

/// `struct producer` and `struct consumer` of recorded.c.
enum Raw {}

functions! { "tests/steps/recorded.c";
    producer_new: fn(u32, bool) -> *mut Raw;
    producer_free: fn(*mut Raw);
    producer_begin: fn(*mut Raw);
    producer_drop: fn(*mut Raw);
    producer_commit: fn(*mut Raw, bool);
    producer_fetch: fn(*mut Raw, u32) -> u32;
    producer_take: fn(*mut Raw, *mut [Step; MOST_STEPS]) -> u32;
    producer_ring_difference: fn(*const Raw, *const u8) -> i64;
    producer_launch_difference: fn(*const Raw, *const u8) -> i64;
    producer_fields: fn() -> u32;
    producer_emit: fn(*mut Raw, u32, *const [u64; NAMES.len()], *const u8, u32) -> u32;
    consumer_new: fn(u32) -> *mut Raw;
    consumer_free: fn(*mut Raw);
    consumer_memory: fn(*mut Raw) -> *mut u8;
    consumer_poll: fn(*mut Raw) -> u32;
    consumer_acknowledge: fn(*mut Raw);
    consumer_take: fn(*mut Raw, *mut [Step; MOST_STEPS]) -> u32;
}

/// Fails unless `theirs` are the accesses of the second opinion, in the bits that nic.md defines.
fn compare(steps: &[Step], theirs: impl Iterator<Item = Access>) -> Result<(), TestCaseError> {
    let mut theirs: Vec<Access> = theirs.collect();
    theirs.dedup_by(|second, first| {
        let is_idempotent = [Access::Ring, Access::BeforeLaunch, Access::AfterLaunch];
        first == second && is_idempotent.contains(first)
    });
    let ours = |step: &Step| match step.access {
        0 => Access::Ring,
        1 => Access::BeforeLaunch,
        2 => Access::Store { offset: step.offset as usize, value: step.value & step.known },
        3 => Access::AfterLaunch,
        4 => Access::Zero(step.offset as usize),
        5 => Access::BeforeAcknowledge,
        _ => Access::SwState(step.value),
    };
    for (access, step) in theirs.iter_mut().zip(steps) {
        if let Access::Store { value, .. } = access {
            *value &= step.known;
        }
    }
    let ours: Vec<Access> = steps.iter().map(ours).collect();
    if ours == theirs {
        return Ok(());
    }
    let place = (ours.iter().zip(&theirs)).position(|(ours, theirs)| ours != theirs);
    let message = format!("step {place:?}: nic.md has\n{ours:x?}\nand the wrapper\n{theirs:x?}");
    Err(TestCaseError::fail(message))
}

/// Fails with the offset of a difference, unless it is negative.
fn same_bytes(name: &str, difference: i64) -> Result<(), TestCaseError> {
    if difference < 0 {
        return Ok(());
    }
    Err(TestCaseError::fail(format!("{name} differs at byte {difference}")))
}

/// The producer of a command queue after nic.md 2 and 3.
pub struct Producer {
    raw: *mut Raw,
    functions: &'static Functions,
    slots: usize,
}

impl Producer {
    /// A queue of `slots` slots, at most 128. Its memory is stale: all bytes after the 8 bytes of
    /// the status are 0xee.
    pub fn new(slots: usize, is_trigger: bool) -> Self {
        let functions = Functions::get();
        // SAFETY: the function takes numbers only.
        let fields = unsafe { (functions.producer_fields)() };
        assert_eq!(fields as usize, NAMES.len());
        Self {
            // SAFETY: the function takes numbers only.
            raw: unsafe { (functions.producer_new)(slots as u32, is_trigger) },
            functions,
            slots,
        }
    }

    /// Begins a batch.
    pub fn begin(&mut self) {
        // SAFETY: `raw` is the queue that `producer_new` returned.
        unsafe { (self.functions.producer_begin)(self.raw) };
    }

    /// Drops the batch.
    pub fn discard(&mut self) {
        // SAFETY: `raw` is the queue that `producer_new` returned.
        unsafe { (self.functions.producer_drop)(self.raw) };
    }

    /// Writes a command into the ring.
    pub fn emit(&mut self, kind: Kind, fields: &Fields, payload: &[u8]) -> Result<(), Refusal> {
        self.emit_values(kind, &NAMES.map(|name| fields.get(name)), payload)
    }

    /// Writes a command of these bytes into the ring.
    pub fn emit_bytes(&mut self, command: &[u8]) -> Result<(), Refusal> {
        self.emit_values(Kind::AsGiven, &[0; NAMES.len()], command)
    }

    fn emit_values(
        &mut self,
        kind: Kind,
        fields: &[u64; NAMES.len()],
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let (start, length) = (payload.as_ptr(), payload.len() as u32);
        let emit = self.functions.producer_emit;
        // SAFETY: `raw` is the queue that `producer_new` returned; there are as many fields as in
        // C, which `new` checks; the payload has its length.
        match unsafe { emit(self.raw, kind as u32, fields, start, length) } {
            0 => Ok(()),
            1 => Err(Refusal::Full),
            _ => Err(Refusal::Illegal),
        }
    }

    /// Hands the commands over, by low-latency write if `low_latency`, else by doorbell.
    pub fn commit(&mut self, low_latency: bool) {
        // SAFETY: `raw` is the queue that `producer_new` returned.
        unsafe { (self.functions.producer_commit)(self.raw, low_latency) };
    }

    /// Lets the NIC fetch up to `slots` slots. Returns its read pointer.
    pub fn fetch(&mut self, slots: usize) -> u32 {
        // SAFETY: `raw` is the queue that `producer_new` returned.
        unsafe { (self.functions.producer_fetch)(self.raw, slots as u32) }
    }

    /// Fails unless `theirs` are the accesses since the last call.
    pub fn compare(&mut self, theirs: impl Iterator<Item = Access>) -> Result<(), TestCaseError> {
        let mut steps = [Step::default(); MOST_STEPS];
        // SAFETY: `raw` is the queue that `producer_new` returned; `steps` has room for all steps.
        let count = unsafe { (self.functions.producer_take)(self.raw, &raw mut steps) };
        compare(&steps[..count as usize], theirs)
    }

    /// Forgets the accesses since the last call.
    pub fn forget(&mut self) {
        let mut steps = [Step::default(); MOST_STEPS];
        // SAFETY: `raw` is the queue that `producer_new` returned; `steps` has room for all steps.
        unsafe { (self.functions.producer_take)(self.raw, &raw mut steps) };
    }

    /// Fails if `memory` differs from the command memory in a byte that nic.md defines.
    pub fn compare_ring(&self, memory: &[u8]) -> Result<(), TestCaseError> {
        assert_eq!(memory.len(), self.slots * 64);
        let difference = self.functions.producer_ring_difference;
        // SAFETY: `raw` is the queue that `producer_new` returned, and `memory` is as long.
        same_bytes("the ring", unsafe { difference(self.raw, memory.as_ptr()) })
    }

    /// Fails if `page` differs from the launch page in a byte that nic.md defines.
    pub fn compare_launch(&self, page: &[u8; 4096]) -> Result<(), TestCaseError> {
        let difference = self.functions.producer_launch_difference;
        // SAFETY: `raw` is the queue that `producer_new` returned, and a page has 4096 bytes.
        same_bytes("the launch page", unsafe { difference(self.raw, page.as_ptr()) })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: `producer_new` returned `raw`, which is not used after this.
        unsafe { (self.functions.producer_free)(self.raw) };
    }
}

/// The consumer of an event queue after nic.md 5.
pub struct Consumer {
    raw: *mut Raw,
    functions: &'static Functions,
    slots: usize,
}

impl Consumer {
    /// An empty queue of `slots` slots, at most 128.
    pub fn new(slots: usize) -> Self {
        let functions = Functions::get();
        Self {
            // SAFETY: the function takes a number only.
            raw: unsafe { (functions.consumer_new)(slots as u32) },
            functions,
            slots,
        }
    }

    fn memory(&mut self) -> &mut [u64] {
        // SAFETY: `raw` is the queue that `consumer_new` returned.
        let start = unsafe { (self.functions.consumer_memory)(self.raw) };
        // SAFETY: the memory is aligned and as long as the queue, which is borrowed as long.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), self.slots * 8) }
    }

    /// Writes all words of the queue.
    pub fn write(&mut self, words: &[u64]) {
        self.memory().copy_from_slice(words);
    }

    /// The offset of the next event, which is consumed, if one is complete.
    pub fn poll(&mut self) -> Option<usize> {
        // SAFETY: `raw` is the queue that `consumer_new` returned.
        let at = unsafe { (self.functions.consumer_poll)(self.raw) };
        (at != 0).then_some(at as usize)
    }

    pub fn acknowledge(&mut self) {
        // SAFETY: `raw` is the queue that `consumer_new` returned.
        unsafe { (self.functions.consumer_acknowledge)(self.raw) };
    }

    /// Fails unless `theirs` are the accesses since the last call, and `words` the memory.
    pub fn compare(
        &mut self,
        theirs: impl Iterator<Item = Access>,
        words: &[u64],
    ) -> Result<(), TestCaseError> {
        let mut steps = [Step::default(); MOST_STEPS];
        // SAFETY: `raw` is the queue that `consumer_new` returned; `steps` has room for all steps.
        let count = unsafe { (self.functions.consumer_take)(self.raw, &raw mut steps) };
        compare(&steps[..count as usize], theirs)?;
        proptest::prop_assert_eq!(&*self.memory(), words);
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        // SAFETY: `consumer_new` returned `raw`, which is not used after this.
        unsafe { (self.functions.consumer_free)(self.raw) };
    }
}

/// The members of `struct fields` in commands.h.
const NAMES: [&str; 69] = [
    "opcode",
    "length",
    "index_ext",
    "lac",
    "write_lac",
    "event_send_disable",
    "event_success_disable",
    "event_ct_send",
    "event_ct_reply",
    "event_ct_ack",
    "event_ct_bytes",
    "get_with_local_flag",
    "restricted",
    "reduction",
    "flush",
    "use_offset_for_get",
    "dfa",
    "remote_offset",
    "local_addr",
    "local_read_addr",
    "local_write_addr",
    "request_len",
    "ct",
    "eq",
    "eager_length",
    "rendezvous_id",
    "initiator",
    "match_bits",
    "header_data",
    "user_ptr",
    "atomic_op",
    "atomic_type",
    "cswap_op",
    "op1_word1",
    "op1_word2",
    "op2_word1",
    "op2_word2",
    "fetching",
    "lcid",
    "trig_ct",
    "ct_success",
    "ct_failure",
    "set_ct_success",
    "set_ct_failure",
    "threshold",
    "ptl_list",
    "ptlte_index",
    "event_ct_overflow",
    "event_ct_comm",
    "event_unlink_disable",
    "event_comm_disable",
    "event_link_disable",
    "unrestricted_end_ro",
    "unrestricted_body_ro",
    "unexpected_hdr_disable",
    "use_once",
    "no_truncate",
    "manage_local",
    "op_get",
    "op_put",
    "buffer_id",
    "restart_seq",
    "start",
    "min_free",
    "match_id",
    "ignore_bits",
    "ptlte_state",
    "current_addr",
    "drop_count",
];

/// A value of 64 bits for each field, as random as a seed; a command takes the low bits that fit.
pub struct Fields {
    seed: u64,
    fixed: Vec<(&'static str, u64)>,
}

impl Fields {
    pub fn new(seed: u64) -> Self {
        let fixed = Vec::new();
        Self { seed, fixed }
    }

    /// Sets the value of the field `name`.
    pub fn fix(mut self, name: &'static str, value: u64) -> Self {
        self.fixed.push((name, value));
        self
    }

    /// The value of the field `name`.
    pub fn get(&self, name: &str) -> u64 {
        let fixed = self.fixed.iter().rfind(|(fixed, _)| *fixed == name);
        fixed.map_or_else(|| mixed(self.seed, name), |&(_, value)| value)
    }
}

/// Returns 64 bits from a seed and a name (FNV-1a, and the last step of SplitMix64).
fn mixed(seed: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
