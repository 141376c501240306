//! The C side of the comparison, compiled when the benchmark starts.

use cxi::sys::{C_CQ_FIRST_WR_PTR, C_EVENT_ACK, C_RC_OK};

use crate::library::{Library, functions};

/// A command as C has it, with room for the longest.
#[repr(C, align(64))]
pub struct Bytes([u8; 256]);

impl Bytes {
    pub fn new(leading: &[u8]) -> Self {
        let mut bytes = [0; 256];
        bytes[..leading.len()].copy_from_slice(leading);
        Self(bytes)
    }
}

/// `struct queue` of steps.h.
#[repr(C)]
struct Queue {
    ring: *mut u8,
    launch: *mut u8,
    size32: u32,
    wp: u32,
    hw_wp: u32,
    rp: u32,
    is_trigger: bool,
}

/// `struct events` of steps.h.
#[repr(C)]
struct Events {
    buf: *mut u8,
    sw_state: *mut u64,
    byte_size: u32,
    rd_offset: u32,
    prev_rd_offset: u32,
    state: u64,
}

functions! { "benches/issue_path/plain.c";
    plain_nomatch: fn(*mut Queue, *const Bytes, u32, bool) -> bool;
    plain_dma: fn(*mut Queue, *const Bytes, u32, bool) -> bool;
    plain_list: fn(*mut Queue, *mut Bytes, u32, u32) -> bool;
    plain_idc_put: fn(*mut Queue, *const Bytes, *const u8, u32, u32, bool) -> bool;
    plain_idc_list: fn(*mut Queue, *mut Bytes, *const u8, u32, u32) -> bool;
    plain_idc_amo: fn(*mut Queue, *mut Bytes, u32, bool) -> bool;
    plain_poll: fn(*mut Events, u32, u32) -> u32;
    floor_launch: fn(*mut Queue, *const u64, u32, u32, bool);
    floor_poll: fn(*mut Events, u32) -> u32;
}

/// Bytes of an event queue.
const EVENT_BYTES: usize = 8192;

/// A command queue and an event queue in ordinary memory, for the functions of plain.c.
pub struct Plain {
    queue: Queue,
    events: Events,
    functions: &'static Functions,
    write_at: usize,
    // The memory to which the pointers lead.
    _ring: Vec<Bytes>,
    _launch: Vec<Bytes>,
    _events: Vec<Bytes>,
    _sw_state: Box<u64>,
}

fn memory(bytes: usize) -> Vec<Bytes> {
    (0..bytes / 256).map(|_| Bytes([0; 256])).collect()
}

impl Plain {
    pub fn new(slots: u32) -> Self {
        let (mut ring, mut launch) = (memory(64 * slots as usize), memory(4096));
        let (mut events, mut sw_state) = (memory(EVENT_BYTES), Box::new(0));
        let first = 2 * C_CQ_FIRST_WR_PTR;
        Self {
            queue: Queue {
                ring: ring.as_mut_ptr().cast(),
                launch: launch.as_mut_ptr().cast(),
                size32: 2 * slots,
                wp: first,
                hw_wp: first,
                rp: first,
                is_trigger: false,
            },
            events: Events {
                buf: events.as_mut_ptr().cast(),
                sw_state: &raw mut *sw_state,
                byte_size: EVENT_BYTES as u32,
                rd_offset: 64,
                prev_rd_offset: 64,
                state: 0,
            },
            functions: Functions::get(),
            write_at: 64,
            _ring: ring,
            _launch: launch,
            _events: events,
            _sw_state: sw_state,
        }
    }

    /// Lets the NIC read all commands.
    pub fn catch_up(&mut self) {
        let status: *mut u16 = self.queue.ring.cast();
        // SAFETY: the ring begins with the status block and belongs to this queue.
        unsafe { status.write_volatile((self.queue.wp / 2) as u16) };
    }

    pub fn nomatch(&mut self, command: &Bytes, count: u32, low_latency: bool) {
        let issue = self.functions.plain_nomatch;
        // SAFETY: the queue and the command are as plain.c declares them.
        assert!(unsafe { issue(&raw mut self.queue, command, count, low_latency) });
    }

    pub fn dma(&mut self, command: &Bytes, count: u32, low_latency: bool) {
        let issue = self.functions.plain_dma;
        // SAFETY: the queue and the command are as plain.c declares them.
        assert!(unsafe { issue(&raw mut self.queue, command, count, low_latency) });
    }

    pub fn list(&mut self, command: &mut Bytes, count: u32, list: u32) {
        let issue = self.functions.plain_list;
        // SAFETY: the queue and the command are as plain.c declares them.
        assert!(unsafe { issue(&raw mut self.queue, command, count, list) });
    }

    pub fn idc_put(&mut self, header: &Bytes, payload: &[u8], count: u32, low_latency: bool) {
        let issue = self.functions.plain_idc_put;
        let (start, length) = (payload.as_ptr(), payload.len() as u32);
        // SAFETY: the queue and the header are as plain.c declares them; the payload has its
        // length.
        let issued =
            unsafe { issue(&raw mut self.queue, header, start, length, count, low_latency) };
        assert!(issued);
    }

    pub fn idc_list(&mut self, header: &mut Bytes, payload: &[u8; 224], count: u32, list: u32) {
        let issue = self.functions.plain_idc_list;
        // SAFETY: the queue and the header are as plain.c declares them; the payload holds 8 bytes
        // for each operation of a list.
        assert!(unsafe { issue(&raw mut self.queue, header, payload.as_ptr(), count, list) });
    }

    pub fn idc_amo(&mut self, command: &mut Bytes, count: u32, low_latency: bool) {
        let issue = self.functions.plain_idc_amo;
        // SAFETY: the queue and the command are as plain.c declares them.
        assert!(unsafe { issue(&raw mut self.queue, command, count, low_latency) });
    }

    /// Stores commands of `words` words without any arithmetic.
    pub fn floor_launch(&mut self, words: u32, count: u32, low_latency: bool) {
        let command = Bytes([1; 256]);
        let (launch, start) = (self.functions.floor_launch, (&raw const command).cast());
        // SAFETY: the queue is as plain.c declares it; the command has 256 bytes.
        unsafe { launch(&raw mut self.queue, start, words, count, low_latency) };
    }

    /// Writes `count` events where the NIC writes the next.
    pub fn deliver(&mut self, count: u32) {
        for _ in 0..count {
            self.event(self.write_at);
            self.write_at += 16;
            if self.write_at == EVENT_BYTES {
                self.write_at = 64;
            }
        }
    }

    /// Writes `count` events to the start of the queue.
    pub fn deliver_from_start(&mut self, count: u32) {
        for index in 0..count as usize {
            self.event(64 + 16 * index);
        }
    }

    fn event(&mut self, at: usize) {
        let head = u64::from(1 | C_EVENT_ACK << 2) << 48 | u64::from(C_RC_OK) << 56;
        let word: *mut u64 = self.events.buf.wrapping_add(at + 8).cast();
        // SAFETY: the callers pass offsets of events inside the queue.
        unsafe { word.write_volatile(head) };
    }

    /// Polls `count` times. Returns the number of events seen and acknowledged.
    pub fn poll(&mut self, count: u32) -> u32 {
        let poll = self.functions.plain_poll;
        // SAFETY: the event queue is as plain.c declares it.
        unsafe { poll(&raw mut self.events, C_EVENT_ACK, count) }
    }

    /// Loads and stores what `count` polls from the start of the queue need.
    pub fn floor_poll(&mut self, count: u32) -> u32 {
        let poll = self.functions.floor_poll;
        // SAFETY: the event queue is as plain.c declares it; it has room for `count` events.
        unsafe { poll(&raw mut self.events, count) }
    }
}
