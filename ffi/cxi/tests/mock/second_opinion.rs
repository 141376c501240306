//! Random commands of all kinds through the public interface and to the second opinion, which must
//! leave the same bytes in the command memory and on the launch page.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use cxi::records::{
    CStateCmd, DmaAmoCmd, FullDmaCmd, IdcAmoCmd, IdcHdr, IdcMsgHdr, NomatchDmaCmd, SetStateCmd,
    TargetCmd,
};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Counter, Counts, Device, EmitError, EventQueue, Library, Lni,
    MAX_SUCCESSES, TargetQueue, TransmitBatch, TransmitQueue, TriggerBatch, TriggerQueue,
    idc_amo_words, idc_put_words,
};

use crate::api;
use crate::steps::{Fields, Kind, Producer, Refusal};

/// Slots of the queues: few, so that the rings wrap and fill.
const SLOTS: u32 = 64;

/// Room for the events of a test, which the NIC never sends.
const EVENTS: u32 = 4000;

/// A record whose fields, also those that emitting sets, have the values of `fields`.
macro_rules! record {
    ($record:ident, $fields:expr) => {{
        let mut record = $record::new();
        for field in $record::FIELDS {
            (field.set)(&mut record, $fields.get(field.name));
        }
        record
    }};
}

/// A command: its kind, the seed of its fields and the length of its payload.
#[derive(Clone, Copy, Debug)]
struct Command {
    kind: Kind,
    seed: u64,
    payload: usize,
}

impl Command {
    /// The values of the fields. The command reports to event queue 1 or to none.
    fn fields(&self) -> Fields {
        Fields::new(self.seed).fix("eq", self.seed & 1)
    }

    fn payload(&self) -> Vec<u8> {
        let bytes = (self.seed >> 8..).step_by(7);
        bytes.take(self.payload).map(|byte| byte as u8).collect()
    }
}

#[derive(Clone, Debug)]
enum Action {
    Batch(Vec<Command>, End),
    /// A command that is prepared and issued at once, by low-latency write or by doorbell.
    Issue(Command, bool),
    /// The NIC fetches up to this number of slots.
    Fetch(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Doorbell,
    LowLatency,
    Dropped,
}

fn command(kinds: &'static [Kind]) -> impl Strategy<Value = Command> {
    let payload = prop_oneof![0..=48usize, 0..=230usize];
    let command = (prop::sample::select(kinds), any::<u64>(), payload);
    command.prop_map(|(kind, seed, payload)| {
        let takes_payload = [Kind::IdcPut, Kind::IdcMsg].contains(&kind);
        Command { kind, seed, payload: if takes_payload { payload } else { 0 } }
    })
}

/// Returns batches of fewer than `most` commands.
fn batch(
    kinds: &'static [Kind],
    most: usize,
    ends: &'static [End],
) -> impl Strategy<Value = Action> {
    let commands = prop::collection::vec(command(kinds), 0..most);
    (commands, prop::sample::select(ends)).prop_map(|(commands, end)| Action::Batch(commands, end))
}

fn fetch() -> impl Strategy<Value = Action> {
    (0..60usize).prop_map(Action::Fetch)
}

/// Returns actions with a queue that has no low-latency path.
fn batches(kinds: &'static [Kind]) -> impl Strategy<Value = Vec<Action>> {
    let ends = &[End::Doorbell, End::Doorbell, End::Dropped];
    let action = prop_oneof![4 => batch(kinds, 16, ends), 1 => fetch()];
    prop::collection::vec(action, 1..100)
}

fn transmit_actions() -> impl Strategy<Value = Vec<Action>> {
    let ends = &[End::Doorbell, End::LowLatency, End::LowLatency, End::Dropped];
    let issue = (command(PREPARED), any::<bool>());
    let issue = issue.prop_map(|(command, low_latency)| Action::Issue(command, low_latency));
    let action = prop_oneof![4 => batch(TRANSMIT, 5, ends), 4 => issue, 1 => fetch()];
    prop::collection::vec(action, 1..100)
}

/// A queue of the wrapper: command queue 0 of the mock.
trait Queue {
    /// The values of the fields of a command.
    fn fields(&self, command: Command) -> Fields {
        command.fields()
    }

    /// Emits commands as one batch. Returns what became of each.
    fn batch(&mut self, commands: &[(Command, Fields)], end: End) -> Vec<Result<(), EmitError>>;

    fn issue(&mut self, _: Command, _: &Fields, _low_latency: bool) -> Result<(), EmitError> {
        unreachable!("transmit queues only");
    }
}

/// Fails unless the wrapper emits the commands that the second opinion emits.
fn same_answer(
    theirs: Result<(), EmitError>,
    second: Result<(), Refusal>,
) -> Result<(), TestCaseError> {
    let theirs = theirs.map_err(|error| match error {
        EmitError::QueueFull => Refusal::Full,
        EmitError::NoCState | EmitError::PayloadTooLong { .. } | EmitError::RestrictedMessage => {
            Refusal::Illegal
        }
        _ => panic!("{error}"),
    });
    prop_assert_eq!(theirs, second);
    Ok(())
}

/// Does `actions` with `queue` and with the second opinion, which must agree.
fn agree(
    mut queue: impl Queue,
    is_trigger: bool,
    actions: Vec<Action>,
) -> Result<(), TestCaseError> {
    api::make_stale(0, SLOTS);
    let mut second = Producer::new(SLOTS as usize, is_trigger);
    for action in actions {
        match action {
            Action::Batch(commands, end) => {
                let commands = commands.into_iter();
                let commands: Vec<_> =
                    commands.map(|command| (command, queue.fields(command))).collect();
                second.begin();
                for (emitted, (command, fields)) in
                    queue.batch(&commands, end).iter().zip(&commands)
                {
                    let answer = second.emit(command.kind, fields, &command.payload());
                    same_answer(*emitted, answer)?;
                }
                if end == End::Dropped {
                    second.discard();
                } else {
                    second.commit(end == End::LowLatency);
                }
            }
            Action::Issue(command, low_latency) => {
                let fields = queue.fields(command);
                let issued = queue.issue(command, &fields, low_latency);
                let answer = second.emit(command.kind, &fields, &command.payload());
                same_answer(issued, answer)?;
                second.commit(low_latency);
            }
            Action::Fetch(slots) => api::set_read_pointer(0, second.fetch(slots)),
        }
        let (commands, launch) = api::queue_memory(0, SLOTS);
        second.compare_ring(&commands)?;
        second.compare_launch(&launch)?;
        // The tests of the library compare the order of accesses.
        second.forget();
    }
    Ok(())
}

/// What queues need.
struct Setting {
    lni: Lni,
    profiles: Vec<CommunicationProfile>,
    events: EventQueue,
}

impl Setting {
    fn new() -> Self {
        api::reset();
        let device = Device::open(&Library::from_api(api::api()), 0).unwrap();
        let lni = Lni::new(&device, 1).unwrap();
        let profile =
            || CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT).unwrap();
        let profiles = (0..4).map(|_| profile()).collect();
        let events = EventQueue::new(&lni, EVENTS, CXI_EQ_EC_DISABLE.into()).unwrap();
        Self { lni, profiles, events }
    }
}

const TRANSMIT: &[Kind] = &[
    Kind::CState,
    Kind::IdcPut,
    Kind::IdcMsg,
    Kind::IdcAmo,
    Kind::NomatchDma,
    Kind::Dma,
    Kind::DmaAmo,
    Kind::Lcid,
    Kind::Fence,
];

const PREPARED: &[Kind] = &[Kind::IdcPut, Kind::IdcAmo, Kind::NomatchDma, Kind::Dma, Kind::DmaAmo];

struct Transmit {
    queue: TransmitQueue,
    profiles: Vec<CommunicationProfile>,
}

impl Queue for Transmit {
    fn fields(&self, command: Command) -> Fields {
        let lcid = command.seed % self.profiles.len() as u64;
        command.fields().fix("lcid", lcid)
    }

    fn batch(&mut self, commands: &[(Command, Fields)], end: End) -> Vec<Result<(), EmitError>> {
        let mut batch = self.queue.batch();
        let emit = |(command, fields): &(Command, Fields)| {
            emit_transmit(&mut batch, *command, fields, &self.profiles)
        };
        let answers = commands.iter().map(emit).collect();
        match end {
            End::Doorbell => batch.commit_doorbell(),
            End::LowLatency => batch.commit_low_latency(),
            End::Dropped => drop(batch),
        }
        answers
    }

    fn issue(
        &mut self,
        command: Command,
        fields: &Fields,
        low_latency: bool,
    ) -> Result<(), EmitError> {
        issue(&mut self.queue, command, fields, low_latency)
    }
}

fn emit_transmit(
    batch: &mut TransmitBatch<'_>,
    command: Command,
    fields: &Fields,
    profiles: &[CommunicationProfile],
) -> Result<(), EmitError> {
    let fetching = fields.get("fetching") & 1 != 0;
    match command.kind {
        Kind::CState => batch.emit_c_state(&record!(CStateCmd, fields)),
        Kind::IdcPut => batch.emit_idc_put(&record!(IdcHdr, fields), &command.payload()),
        Kind::IdcMsg => batch.emit_idc_msg(&record!(IdcMsgHdr, fields), &command.payload()),
        Kind::IdcAmo => batch.emit_idc_amo(&record!(IdcAmoCmd, fields), fetching),
        Kind::NomatchDma => batch.emit_nomatch_dma(&record!(NomatchDmaCmd, fields)),
        Kind::Dma => batch.emit_dma(&record!(FullDmaCmd, fields)),
        Kind::DmaAmo => batch.emit_dma_amo(&record!(DmaAmoCmd, fields), fetching),
        Kind::Lcid => batch.emit_lcid(&profiles[fields.get("lcid") as usize]),
        Kind::Fence => batch.emit_fence(),
        kind => unreachable!("{kind:?} is no command of a transmit queue"),
    }
}

/// Prepares a command and issues it.
fn issue(
    queue: &mut TransmitQueue,
    command: Command,
    fields: &Fields,
    low_latency: bool,
) -> Result<(), EmitError> {
    let fetching = fields.get("fetching") & 1 != 0;
    macro_rules! issue {
        ($prepared:expr) => {{
            let prepared = $prepared?;
            if low_latency {
                queue.issue_low_latency(&prepared)
            } else {
                queue.issue_doorbell(&prepared)
            }
        }};
    }
    match command.kind {
        Kind::IdcPut => {
            let (header, payload) = (record!(IdcHdr, fields), command.payload());
            match idc_put_words(payload.len()) {
                4 => issue!(queue.prepare_idc_put::<4>(&header, &payload)),
                8 => issue!(queue.prepare_idc_put::<8>(&header, &payload)),
                16 => issue!(queue.prepare_idc_put::<16>(&header, &payload)),
                _ => issue!(queue.prepare_idc_put::<32>(&header, &payload)),
            }
        }
        Kind::IdcAmo => {
            let command = record!(IdcAmoCmd, fields);
            match idc_amo_words(&command, fetching) {
                4 => issue!(queue.prepare_idc_amo::<4>(&command, fetching)),
                _ => issue!(queue.prepare_idc_amo::<8>(&command, fetching)),
            }
        }
        Kind::NomatchDma => issue!(queue.prepare_nomatch_dma(&record!(NomatchDmaCmd, fields))),
        Kind::Dma => issue!(queue.prepare_dma(&record!(FullDmaCmd, fields))),
        Kind::DmaAmo => issue!(queue.prepare_dma_amo(&record!(DmaAmoCmd, fields), fetching)),
        kind => unreachable!("{kind:?} is never prepared"),
    }
}

const TARGET: &[Kind] = &[Kind::Target, Kind::SetState];

impl Queue for TargetQueue {
    fn batch(&mut self, commands: &[(Command, Fields)], end: End) -> Vec<Result<(), EmitError>> {
        let mut batch = TargetQueue::batch(self);
        let emit = |(command, fields): &(Command, Fields)| match command.kind {
            Kind::Target => batch.emit_target(&record!(TargetCmd, fields)),
            _ => batch.emit_set_state(&record!(SetStateCmd, fields)),
        };
        let answers = commands.iter().map(emit).collect();
        if end != End::Dropped {
            batch.commit_doorbell();
        }
        answers
    }
}

const TRIGGER: &[Kind] = &[
    Kind::CounterSet,
    Kind::CounterGet,
    Kind::CounterIncrement,
    Kind::CounterCancel,
    Kind::TriggerSet,
    Kind::TriggerIncrement,
    Kind::TriggerEvent,
    Kind::TriggerDma,
    Kind::TriggerNomatchDma,
    Kind::TriggerDmaAmo,
];

struct Trigger {
    queue: TriggerQueue,
    counters: [Counter; 2],
}

impl Queue for Trigger {
    /// The wrapper takes counters for `ct` and `trig_ct`, and counts with their flags.
    fn fields(&self, command: Command) -> Fields {
        let fields = command.fields();
        let [first, second] = self.counters.each_ref().map(|counter| counter.number().into());
        let (success, failure) = (fields.get("ct_success"), fields.get("ct_failure") & 0x7f);
        let with_success = fields.get("set_ct_success") & 1;
        let with_failure = fields.get("set_ct_failure") & 1;
        let threshold = fields.get("threshold") & MAX_SUCCESSES;
        let fields = fields
            .fix("trig_ct", first)
            .fix("threshold", threshold)
            .fix("ct_success", with_success * (success & MAX_SUCCESSES | 1))
            .fix("ct_failure", with_failure * (failure | 1))
            .fix("set_ct_success", with_success)
            .fix("set_ct_failure", with_failure);
        match command.kind {
            Kind::TriggerSet | Kind::TriggerIncrement => fields.fix("ct", second),
            Kind::TriggerEvent => fields.fix("eq", 1),
            Kind::TriggerDma | Kind::TriggerNomatchDma | Kind::TriggerDmaAmo => fields,
            _ => fields.fix("ct", first),
        }
    }

    fn batch(&mut self, commands: &[(Command, Fields)], end: End) -> Vec<Result<(), EmitError>> {
        let mut batch = self.queue.batch();
        let emit = |(command, fields): &(Command, Fields)| {
            emit_trigger(&mut batch, command.kind, fields, &self.counters)
        };
        let answers = commands.iter().map(emit).collect();
        if end != End::Dropped {
            batch.commit_doorbell();
        }
        answers
    }
}

fn emit_trigger(
    batch: &mut TriggerBatch<'_>,
    kind: Kind,
    fields: &Fields,
    [first, second]: &[Counter; 2],
) -> Result<(), EmitError> {
    let threshold = fields.get("threshold");
    let by = Counts { success: fields.get("ct_success"), failure: fields.get("ct_failure") as u8 };
    let success = (fields.get("set_ct_success") == 1).then_some(by.success);
    let failure = (fields.get("set_ct_failure") == 1).then_some(by.failure);
    match kind {
        Kind::CounterSet => batch.emit_set(first, success, failure),
        Kind::CounterGet => batch.emit_get(first),
        Kind::CounterIncrement => batch.emit_increment(first, by),
        Kind::CounterCancel => batch.emit_cancel(first),
        Kind::TriggerSet => batch.emit_trigger_set(first, threshold, second, success, failure),
        Kind::TriggerIncrement => batch.emit_trigger_increment(first, threshold, second, by),
        Kind::TriggerEvent => batch.emit_trigger_event(first, threshold),
        Kind::TriggerDma => batch.emit_trigger_dma(first, threshold, &record!(FullDmaCmd, fields)),
        Kind::TriggerNomatchDma => {
            batch.emit_trigger_nomatch_dma(first, threshold, &record!(NomatchDmaCmd, fields))
        }
        Kind::TriggerDmaAmo => {
            let fetching = fields.get("fetching") & 1 != 0;
            batch.emit_trigger_dma_amo(first, threshold, &record!(DmaAmoCmd, fields), fetching)
        }
        kind => unreachable!("{kind:?} is no command of a trigger queue"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn transmit_queue_writes_as_second_opinion(actions in transmit_actions()) {
        let Setting { profiles, events, .. } = Setting::new();
        let queue = TransmitQueue::new(&profiles[0], SLOTS, &events, None).unwrap();
        agree(Transmit { queue, profiles }, false, actions)?;
    }

    #[test]
    fn target_queue_writes_as_second_opinion(actions in batches(TARGET)) {
        let setting = Setting::new();
        let queue = TargetQueue::new(&setting.lni, SLOTS, None).unwrap();
        agree(queue, false, actions)?;
    }

    #[test]
    fn trigger_queue_writes_as_second_opinion(actions in batches(TRIGGER)) {
        let setting = Setting::new();
        let counters = [(); 2].map(|()| Counter::new(&setting.lni).unwrap());
        let queue = TriggerQueue::new(&setting.profiles[0], SLOTS, &setting.events).unwrap();
        agree(Trigger { queue, counters }, true, actions)?;
    }
}
