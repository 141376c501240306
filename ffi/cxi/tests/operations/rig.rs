//! A software NIC that addresses itself, with the objects of both ends.

use std::thread;
use std::time::{Duration, Instant};

use cxi::records::{CStateCmd, DmaAmoCmd, FullDmaCmd, NomatchDmaCmd, SetStateCmd, TargetCmd};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Device, Domain, Event, EventQueue, EventRecord, EventType, Library, Lni,
    MemoryRegion, Pages, PortalTableEntry, ReturnCode, TargetQueue, TransmitQueue, address,
};

/// Portal index of the portals table entry without matching lists.
pub const PLAIN: u32 = 0;
/// Portal index of the portals table entry with matching lists. It differs from `PLAIN` in both
/// parts of the index.
pub const MATCHING: u32 = 33;

/// Bytes of each buffer.
pub const LEN: usize = 64 * 1024;

pub const USER_PTR: u64 = 0x1234_5678_9abc_def0;

/// Time limit of every wait.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

pub struct Rig {
    pub library: Library,
    pub device: Device,
    pub lni: Lni,
    pub domain: Domain,
    pub profile: CommunicationProfile,
    /// Memory of the initiator.
    pub local: MemoryRegion,
    /// Memory of the target.
    pub remote: MemoryRegion,
    pub events: EventQueue,
    pub target_events: EventQueue,
    pub transmit: TransmitQueue,
    pub commands: TargetQueue,
    pub plain: PortalTableEntry,
    pub matching: PortalTableEntry,
}

/// The fields of an initiator event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub kind: EventType,
    pub code: &'static str,
    pub user_ptr: u64,
    pub mlength: u32,
    pub tgt_error: bool,
}

/// Waits for the next event and returns what `look` reads from it.
pub fn next<T>(events: &mut EventQueue, look: impl Fn(&Event<'_>) -> T) -> T {
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        if let Some(event) = events.poll() {
            let seen = look(&event);
            events.acknowledge();
            return seen;
        }
        assert!(Instant::now() < deadline, "no event");
        // A thread of the other end may need this CPU.
        thread::yield_now();
    }
}

pub fn code(event: &Event<'_>) -> &'static str {
    event.return_code().name().expect("a known return code")
}

impl Rig {
    pub fn new() -> Self {
        Self::with_queues(CXI_EQ_EC_DISABLE)
    }

    /// A rig whose event queues have these flags.
    pub fn with_queues(flags: u32) -> Self {
        Self::on(0, flags)
    }

    /// A rig on the NIC with this number.
    pub fn on(number: u32, flags: u32) -> Self {
        let library = Library::from_api(softnic::api());
        let device = Device::open(&library, number).unwrap();
        let service = device.service(CXI_DEFAULT_SVC_ID).unwrap();
        let vni = u32::from(service.vnis[0]);
        let lni = Lni::new(&device, service.id).unwrap();
        let domain = Domain::new(&lni, vni, C_PID_ANY).unwrap();
        let profile =
            CommunicationProfile::new(&lni, vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
        let rights = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
        let map = || MemoryRegion::map(&lni, Pages::anonymous(LEN).unwrap(), rights).unwrap();
        let (local, remote) = (map(), map());
        let queue = || EventQueue::new(&lni, 64, flags.into()).unwrap();
        let (events, target_events) = (queue(), queue());
        let transmit = TransmitQueue::new(&profile, 64, &events, None).unwrap();
        let commands = TargetQueue::new(&lni, 64, None).unwrap();
        let mut plain = PortalTableEntry::new(&lni, &target_events, false).unwrap();
        plain.map(&domain, PLAIN).unwrap();
        let mut matching = PortalTableEntry::new(&lni, &target_events, true).unwrap();
        matching.map(&domain, MATCHING).unwrap();
        let mut rig = Self {
            library,
            device,
            lni,
            domain,
            profile,
            local,
            remote,
            events,
            target_events,
            transmit,
            commands,
            plain,
            matching,
        };
        for number in [rig.plain.number(), rig.matching.number()] {
            rig.set_state(number, C_PTLTE_ENABLED);
        }
        rig
    }

    pub fn set_state(&mut self, portal: u16, state: c_ptlte_state) {
        let mut command = SetStateCmd::new();
        command.set_ptlte_index(portal);
        command.set_ptlte_state(state as u8);
        let mut batch = self.commands.batch();
        batch.emit_set_state(&command).unwrap();
        batch.commit_doorbell();
        self.expect_target_event(EventType::STATE_CHANGE);
    }

    /// Returns a persistent list entry over all of `remote` that allows everything and reports only
    /// errors.
    pub fn entry(&self, portal: u16) -> TargetCmd {
        let mut entry = TargetCmd::new();
        entry.set_ptl_list(C_PTL_LIST_PRIORITY as u8);
        entry.set_ptlte_index(portal);
        entry.set_event_unlink_disable(true);
        entry.set_event_success_disable(true);
        entry.set_op_put(true);
        entry.set_op_get(true);
        entry.set_start(self.remote.iova(0));
        entry.set_lac(self.remote.lac());
        entry.set_length(LEN as u64);
        entry
    }

    pub fn append(&mut self, entry: &TargetCmd) {
        self.change_list(entry, C_CMD_TGT_APPEND, EventType::LINK);
    }

    pub fn unlink(&mut self, entry: &TargetCmd) {
        self.change_list(entry, C_CMD_TGT_UNLINK, EventType::UNLINK);
    }

    fn change_list(&mut self, entry: &TargetCmd, opcode: c_tgt_op, event: EventType) {
        let mut command = *entry;
        command.set_opcode(opcode as u8);
        let mut batch = self.commands.batch();
        batch.emit_target(&command).unwrap();
        batch.commit_doorbell();
        self.expect_target_event(event);
    }

    fn expect_target_event(&mut self, kind: EventType) {
        let seen = next(&mut self.target_events, |event| (event.event_type(), event.return_code()));
        assert_eq!(seen, (kind, ReturnCode::OK));
    }

    /// The fabric address of portal index `index` of this process.
    pub fn dfa(&self, index: u32) -> u32 {
        let info = self.device.info();
        address::dfa(info.nid, self.domain.pid(), index, info.pid_bits)
    }

    /// A full DMA command between the starts of the buffers.
    pub fn dma(&self, opcode: c_dma_op, index: u32, length: u32) -> FullDmaCmd {
        let mut command = FullDmaCmd::new();
        command.set_opcode(opcode as u8);
        command.set_event_send_disable(true);
        command.set_eq(self.events.number());
        command.set_dfa(self.dfa(index));
        command.set_index_ext(address::index_ext(index));
        command.set_lac(self.local.lac());
        command.set_local_addr(self.local.iova(0));
        command.set_request_len(length);
        command.set_user_ptr(USER_PTR);
        command
    }

    /// The context of immediate data commands to portal index `index`.
    pub fn c_state(&self, index: u32, restricted: bool) -> CStateCmd {
        let mut command = CStateCmd::new();
        command.set_restricted(restricted);
        command.set_event_send_disable(true);
        command.set_eq(self.events.number());
        command.set_index_ext(address::index_ext(index));
        command.set_write_lac(self.local.lac());
        command.set_user_ptr(USER_PTR);
        command
    }

    /// Issues one full DMA command and waits for its event.
    pub fn run(&mut self, command: &FullDmaCmd) -> Completion {
        let mut batch = self.transmit.batch();
        batch.emit_dma(command).unwrap();
        batch.commit_low_latency();
        self.completion()
    }

    pub fn completion(&mut self) -> Completion {
        next(&mut self.events, |event| {
            let EventRecord::InitiatorShort(record) = event.record() else {
                panic!("{event:?}");
            };
            Completion {
                kind: event.event_type(),
                code: code(event),
                user_ptr: record.user_ptr(),
                mlength: record.mlength(),
                tgt_error: record.tgt_error(),
            }
        })
    }

    pub fn bytes_of(region: &MemoryRegion, offset: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        region.copy_out(offset, &mut bytes).unwrap();
        bytes
    }
}

/// Returns nonzero bytes that differ from their neighbours.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 + 1).collect()
}

/// The non-matching command with the first fields of `command`.
pub fn nomatch(command: &FullDmaCmd) -> NomatchDmaCmd {
    NomatchDmaCmd::from_bytes(*command.bytes().first_chunk().unwrap())
}

/// An atomic command with the fields of `command`.
pub fn dma_amo(command: &FullDmaCmd) -> DmaAmoCmd {
    let mut bytes = [0; DmaAmoCmd::SIZE];
    bytes[..FullDmaCmd::SIZE].copy_from_slice(command.bytes());
    DmaAmoCmd::from_bytes(bytes)
}
