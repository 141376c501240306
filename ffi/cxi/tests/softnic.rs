//! The wrapper on a whole NIC, in software: one process that addresses itself.

use std::time::{Duration, Instant};

use cxi::records::{CStateCmd, IdcHdr, NomatchDmaCmd, SetStateCmd, TargetCmd};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Device, Domain, EventQueue, EventType, Library, Lni, MemoryRegion, Pages,
    PortalTableEntry, Record, ReturnCode, TargetQueue, TransmitQueue, address,
};

const PAGE: usize = 4096;

/// Both ends of a put.
struct Loop {
    library: Library,
    device: Device,
    domain: Domain,
    source: MemoryRegion,
    sink: MemoryRegion,
    initiator_events: EventQueue,
    target_events: EventQueue,
    transmit: TransmitQueue,
    portal: PortalTableEntry,
}

/// The next event's type and return code, and whether it is a change to ENABLED.
fn wait(events: &mut EventQueue) -> (EventType, ReturnCode, bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(event) = events.poll() {
            let enabled = matches!(
                event.record(),
                Record::TargetLong(record) if u32::from(record.ptlte_state()) == C_PTLTE_ENABLED
            );
            let seen = (event.event_type(), event.return_code(), enabled);
            events.acknowledge();
            return seen;
        }
        assert!(Instant::now() < deadline, "no event");
    }
}

impl Loop {
    fn new() -> Self {
        let library = Library::from_api(softnic::api());
        let device = Device::open(&library, 0).unwrap();
        let service = device.service(CXI_DEFAULT_SVC_ID).unwrap();
        let vni = u32::from(service.vnis[0]);
        let lni = Lni::new(&device, service.id).unwrap();
        let domain = Domain::new(&lni, vni, C_PID_ANY).unwrap();
        let profile =
            CommunicationProfile::new(&lni, vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
        let flags = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
        let map = || MemoryRegion::map(&lni, Pages::anonymous(PAGE).unwrap(), flags).unwrap();
        let (source, sink) = (map(), map());
        let initiator_events = EventQueue::new(&lni, 1, CXI_EQ_EC_DISABLE.into()).unwrap();
        let mut target_events = EventQueue::new(&lni, 1, CXI_EQ_EC_DISABLE.into()).unwrap();
        let mut transmit = TransmitQueue::new(&profile, 1, &initiator_events, None).unwrap();
        transmit.keep_mapped(&source);
        let mut commands = TargetQueue::new(&lni, 1, None).unwrap();
        let mut portal = PortalTableEntry::new(&lni, &target_events, false).unwrap();
        portal.map(&domain, 0).unwrap();
        portal.keep_mapped(&sink);

        let mut enable = SetStateCmd::new();
        enable.set_ptlte_index(portal.number());
        enable.set_ptlte_state(C_PTLTE_ENABLED as u8);
        let mut batch = commands.batch();
        batch.emit_set_state(&enable).unwrap();
        batch.commit_doorbell();
        let changed = (EventType::STATE_CHANGE, ReturnCode::OK, true);
        assert_eq!(wait(&mut target_events), changed);

        let mut append = TargetCmd::new();
        append.set_opcode(C_CMD_TGT_APPEND as u8);
        append.set_ptl_list(C_PTL_LIST_PRIORITY as u8);
        append.set_ptlte_index(portal.number());
        append.set_event_unlink_disable(true);
        append.set_event_success_disable(true);
        append.set_event_comm_disable(true);
        append.set_op_put(true);
        append.set_start(sink.iova(0));
        append.set_lac(sink.lac());
        append.set_length(PAGE as u64);
        let mut batch = commands.batch();
        batch.emit_target(&append).unwrap();
        batch.commit_doorbell();
        let (event, code, _) = wait(&mut target_events);
        assert_eq!((event, code), (EventType::LINK, ReturnCode::OK));

        Self {
            library,
            device,
            domain,
            source,
            sink,
            initiator_events,
            target_events,
            transmit,
            portal,
        }
    }

    /// The address of portal index `index` of this process.
    fn dfa(&self, index: u32) -> u32 {
        let info = self.device.info();
        address::dfa(info.nid, self.domain.pid(), index, info.pid_bits)
    }

    fn put(&self, length: usize) -> NomatchDmaCmd {
        let mut put = NomatchDmaCmd::new();
        put.set_opcode(C_CMD_NOMATCH_PUT as u8);
        put.set_restricted(true);
        put.set_event_send_disable(true);
        put.set_eq(self.initiator_events.number());
        put.set_dfa(self.dfa(0));
        put.set_lac(self.source.lac());
        put.set_local_addr(self.source.iova(0));
        put.set_request_len(length as u32);
        put
    }

    fn sink_bytes(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.sink.copy_out(0, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn puts_of_both_kinds_arrive_by_doorbell_and_by_low_latency() {
    let mut nic = Loop::new();
    let mut c_state = CStateCmd::new();
    c_state.set_restricted(true);
    c_state.set_event_send_disable(true);
    c_state.set_eq(nic.initiator_events.number());
    let mut batch = nic.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.commit_doorbell();
    let mut header = IdcHdr::new();
    header.set_dfa(nic.dfa(0));

    // Several times around the rings of commands and of events.
    for round in 1..=1000_usize {
        let byte = round as u8 | 1;
        let length = [1, 8, 17, 64, 224][round % 5];
        let immediate = round % 2 == 0;
        nic.sink.fill(0).unwrap();
        nic.source.fill(byte).unwrap();
        let put = nic.put(length);
        let mut batch = nic.transmit.batch();
        if immediate {
            batch.emit_idc_put(&header, &vec![byte; length]).unwrap();
        } else {
            batch.emit_nomatch_dma(&put).unwrap();
        }
        if round % 3 == 0 {
            batch.commit_doorbell();
        } else {
            batch.commit_low_latency();
        }
        let (event, code, _) = wait(&mut nic.initiator_events);
        assert_eq!(
            (event, code),
            (EventType::ACK, ReturnCode::OK),
            "round {round}"
        );
        let mut expected = vec![byte; length];
        expected.push(0);
        assert_eq!(nic.sink_bytes(length + 1), expected, "round {round}");
    }
    assert!(nic.target_events.poll().is_none());
}

#[test]
fn a_put_to_nobody_is_reported() {
    let mut nic = Loop::new();
    let mut put = nic.put(8);
    put.set_dfa(nic.dfa(32));
    let mut batch = nic.transmit.batch();
    batch.emit_nomatch_dma(&put).unwrap();
    batch.commit_low_latency();
    let (event, code, _) = wait(&mut nic.initiator_events);
    assert_eq!(
        (event, code.name()),
        (EventType::ACK, Some("PTLTE_NOT_FOUND"))
    );
}

#[test]
fn everything_is_released() {
    let nic = Loop::new();
    let library = nic.library;
    nic.portal.close().unwrap();
    nic.transmit.close().unwrap();
    nic.initiator_events.close().unwrap();
    nic.target_events.close().unwrap();
    nic.source.close().unwrap();
    nic.sink.close().unwrap();
    nic.domain.close().unwrap();
    // The last owner of the interface is gone with it.
    nic.device.close().unwrap();
    assert_eq!(library.failed_release(), None);
}
