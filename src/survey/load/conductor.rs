//! A fabric under load in progress: its settings, which load slots come next, and what the results
//! so far say. The first slots have a part of the load, to see whether it is harmless (load.md
//! 3.8). The campaign of a survey drives it: load slots of aggressors and victims, until the
//! conductor has no more of them, or the time is up. So does a model of a fabric.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::bandwidths;
use super::course::{CourseFacts, CourseStep, course};
use super::findings::{Grade, LeftOut, LoadFindings, LoadJudgement, LoadSettings};
use super::flows::{flows, seeded_rng};
use super::results::{LoadResults, ResultFacts};
use super::roles::{RoleRules, part, placed, reordered};
use super::round::{LoadRound, RoundFacts, RoundNics, timing_of};
use super::safety::{Alarm, LEAST_LOST_NODES, alarms, foreign_traffic};
use super::slot::{LoadMeasurement, LoadSlot, slot};
use super::spec::LoadSpec;
use super::verdicts::{RETESTS, Retest, certainty, grade_patterns, remove_verdicts, steps_again};
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::{NicId, NodeId, Roster};
use campaign::slots::{BlockLoad, Crew, LostMembers, Members};
use campaign::timetable::{Slot, SlotTask, SlotTimes, TaskResult, TestSetup, by_slot};
use facts::error::Failure;
use facts::interrupt;

pub use super::round::LoadSizes;
pub use super::safety::Cap;

/// A fabric under load in progress.
#[derive(Debug)]
pub struct LoadConductor {
    roster: Roster,
    setup: LoadSetup,
    rules: RoleRules,
    /// What the load was so far.
    settings: LoadSettings,
    /// The first measurement, and retests.
    rounds: Vec<LoadRound>,
    /// Load slots with a part of the load, the next one last.
    ramp: Vec<LoadSlot>,
    lost: BTreeSet<NicId>,
    /// NICs all of whose operations failed in their last load slot.
    failed: BTreeSet<NicId>,
    lost_nodes: BTreeSet<NodeId>,
    left_out: Vec<LeftOut>,
    planned: u32,
    busy: Option<String>,
    aborted: Option<String>,
}

impl LoadConductor {
    /// Creates the load of a fabric among these NICs of a roster.
    ///
    /// # Errors
    ///
    /// None of the wanted patterns is possible among the NICs: the reason of each.
    pub fn new(roster: &Roster, usable: Vec<NicId>, setup: LoadSetup) -> Result<Self, String> {
        let all = placed(roster, &usable);
        let most = setup.cap.most(all.len(), !setup.facts.is_software);
        let rules = RoleRules { victims_percent: setup.victims_percent, most_aggressors: most };
        let is_partial = most < all.len();
        // With a cap, victims come in addition.
        let aggressors_percent = 100_usize.saturating_sub(setup.victims_percent.into()).max(1);
        let nics = RoundNics {
            nics: part(&all, most, &mut seeded_rng(setup.facts.seed, 0)),
            victim_nics: part(
                &all,
                most * 100 / aggressors_percent,
                &mut seeded_rng(setup.facts.seed, 0),
            ),
        };
        let course = course(
            &setup.wanted,
            CourseFacts {
                nics: &nics.nics,
                nics_of_victims: &nics.victim_nics,
                rules,
                seed: setup.facts.seed,
                has_other_class: setup.facts.other_class.is_some(),
            },
        );
        // The quiet bandwidth alone is no load.
        if course.steps.len() < 2 {
            return Err(why_impossible(&course.left_out, is_partial.then_some(most)));
        }
        let facts = setup.result_facts(is_partial, setup.facts.seed);
        let round =
            LoadRound::new(course.steps, nics, LoadResults::new(roster, facts), setup.facts.seed);
        let mut conductor = Self {
            roster: roster.clone(),
            rules,
            settings: LoadSettings {
                patterns: setup.wanted.to_string(),
                nics: all.len() as u32,
                is_partial,
                size_bytes: setup.sizes.size_bytes,
                window_bytes: setup.sizes.window_bytes,
                seed: setup.facts.seed,
                ..LoadSettings::default()
            },
            ramp: Vec::new(),
            lost: BTreeSet::new(),
            failed: BTreeSet::new(),
            lost_nodes: BTreeSet::new(),
            left_out: course.left_out,
            planned: round.planned(),
            busy: None,
            aborted: None,
            rounds: vec![round],
            setup,
        };
        conductor.ramp = ramp(&conductor.rounds[0], conductor.facts(), conductor.setup.facts.seed);
        conductor.planned += conductor.ramp.len() as u32;
        Ok(conductor)
    }

    /// Returns what will be sent. Bytes and rates are upper bounds.
    pub fn preview(&self) -> LoadPreview {
        let ramp = self.ramp.len() as u32;
        LoadPreview {
            nics: self.settings.nics,
            is_partial: self.settings.is_partial,
            left_out: self.left_out.clone(),
            ..preview(&self.rounds[0], self.facts(), ramp)
        }
    }

    /// The load slots of the next block, which have the same length and the same window: at most
    /// two seconds of them, at least one. It is empty when the load is over. The results of the
    /// block before must have been added.
    pub fn next_load_slots(&mut self) -> Vec<LoadSlot> {
        let load_slots = self.next_block();
        let settings = &mut self.settings;
        for load_slot in &load_slots {
            let senders = load_slot.flows.len() as u32;
            settings.most_aggressors = settings.most_aggressors.max(senders);
            settings.window_bytes = settings.window_bytes.min(load_slot.window_bytes);
            settings.slot_s = settings.slot_s.max(load_slot.slot_ns as f64 / 1e9);
        }
        load_slots
    }

    fn next_block(&mut self) -> Vec<LoadSlot> {
        while self.aborted.is_none() {
            if let Some(load_slot) = self.ramp.pop() {
                return vec![load_slot];
            }
            let rate = self.rate();
            let facts = self.setup.pass_facts(&self.roster, self.rules, rate);
            let load_slots = self.rounds.last_mut().map(|round| round.next_block(facts));
            let load_slots = load_slots.unwrap_or_default();
            if !load_slots.is_empty() || !self.begin_retest() {
                return load_slots;
            }
        }
        Vec::new()
    }

    /// The bandwidth of a NIC, as soon as it is known.
    fn rate(&self) -> Option<f64> {
        let measured = self.rounds[0].results.quiet_bandwidth();
        measured.or(self.setup.nic_rate)
    }

    fn facts(&self) -> RoundFacts<'_> {
        self.setup.pass_facts(&self.roster, self.rules, self.rate())
    }

    /// Begins the next retest. Returns false if there is none.
    fn begin_retest(&mut self) -> bool {
        if self.busy.is_some() || self.rounds.len() > RETESTS {
            return false;
        }
        let steps: Vec<CourseStep> = match self.rounds.get(1) {
            Some(retest) => retest.steps.clone(),
            None => {
                let findings = self.rounds[0].results.findings();
                steps_again(&self.rounds[0].steps, &findings.judgements)
            }
        };
        if steps.is_empty() {
            return false;
        }
        let number = self.rounds.len() as u32;
        let mut rng = seeded_rng(self.setup.facts.seed, number);
        let seed = rng.u64(..);
        let first = &self.rounds[0].nics;
        let nics = RoundNics {
            nics: reordered(&first.nics, &mut rng),
            victim_nics: reordered(&first.victim_nics, &mut rng),
        };
        let facts = self.setup.result_facts(self.settings.is_partial, seed);
        let round = LoadRound::new(steps, nics, LoadResults::new(&self.roster, facts), seed);
        self.planned += round.planned();
        self.rounds.push(round);
        true
    }

    /// Adds the results of a load slot of the last block. The load ends, or spares NICs, if they
    /// demand it.
    pub fn add(&mut self, load_slot: &LoadSlot, results: &[TaskResult]) {
        self.settings.slots += 1;
        for alarm in alarms(load_slot, results, &self.lost, &mut self.failed, &self.roster) {
            match alarm {
                Alarm::Stop(reason) => self.stop(&reason),
                Alarm::Spare(nic, reason) => self.remove(nic, &reason),
            }
        }
        if load_slot.purpose == LoadMeasurement::Ramp {
            return;
        }
        let Some(round) = self.rounds.last_mut() else {
            return;
        };
        if results.iter().any(|result| !result.is_untested()) {
            let step = CourseStep { purpose: load_slot.purpose, repetitions: 0 };
            round.measured.insert(step.name());
        }
        round.results.add(load_slot, results);
    }

    /// Leaves a NIC whose process is gone out of all further load slots. It is to be called before
    /// the results of the block in which the process ended are added. The loss of one node does not
    /// end the load, the loss of a second one does.
    pub fn lose(&mut self, nic: NicId, reason: &str) {
        if !self.lost.insert(nic) {
            return;
        }
        self.remove(nic, reason);
        self.lost_nodes.insert(self.roster.nic(nic).node);
        let has_begun = self.settings.most_aggressors > 0;
        if has_begun && self.lost_nodes.len() >= LEAST_LOST_NODES {
            let count = self.lost_nodes.len();
            self.stop(&format!("{count} nodes were lost under load"));
        }
    }

    fn remove(&mut self, nic: NicId, reason: &str) {
        let what = self.roster.name(nic);
        if self.left_out.iter().any(|left_out| left_out.what == what) {
            return;
        }
        self.left_out.push(LeftOut { what, reason: reason.to_owned() });
        self.rounds.iter_mut().for_each(|round| round.remove(nic));
        for load_slot in &mut self.ramp {
            load_slot.flows.retain(|flow| flow.source != nic && !flow.peers.contains(&nic));
        }
        self.ramp.retain(|load_slot| !load_slot.flows.is_empty());
    }

    /// Notes that others use the fabric: figures have no verdict, and nothing is measured again.
    pub fn set_busy(&mut self, why: String) {
        self.busy = Some(why);
    }

    /// Ends the load: there are no further load slots. The first reason counts.
    pub fn stop(&mut self, reason: &str) {
        self.aborted.get_or_insert_with(|| reason.to_owned());
    }

    /// The number of load slots with results, the number of planned load slots with retests so far,
    /// and the name of the current pattern.
    pub fn progress(&self) -> (u32, u32, String) {
        let title = if self.ramp.is_empty() {
            self.rounds.last().map(LoadRound::title).unwrap_or_default()
        } else {
            "ramp".into()
        };
        (self.settings.slots, self.planned, title)
    }

    /// Returns what the results so far say.
    pub fn findings(&self) -> LoadFindings {
        let retests: Vec<Retest> = self.rounds[1..].iter().map(retest).collect();
        let is_cleared = |judgement: &LoadJudgement| {
            judgement.grade == Grade::Bad && certainty(judgement, &retests) == Certainty::Transient
        };
        let mut findings = self.rounds[0].results.findings_after(is_cleared);
        for judgement in &mut findings.judgements {
            if judgement.grade == Grade::Bad {
                judgement.certainty = Some(certainty(judgement, &retests));
            }
        }
        grade_patterns(&mut findings);
        for bandwidth in &mut findings.bandwidths {
            bandwidths::shorten(&mut bandwidth.sets);
        }
        if self.busy.is_some() {
            remove_verdicts(&mut findings);
        }
        findings.settings = self.settings.clone();
        findings.left_out.extend(self.left_out.iter().cloned());
        let skipped: BTreeSet<&String> =
            self.rounds.iter().flat_map(|round| &round.skipped).collect();
        findings.left_out.extend(
            skipped.into_iter().map(|title| LeftOut {
                what: title.clone(),
                reason: "too few NICs were left".into(),
            }),
        );
        // A fault may hide in what a lost NIC did not measure.
        let lost = self.lost.iter().map(|nic| self.roster.name(*nic));
        findings.unmeasured.extend(lost);
        findings.unjudged = self.busy.clone();
        findings.aborted = self.aborted.clone();
        findings
    }
}

/// Returns what a retest has found.
fn retest(round: &LoadRound) -> Retest<'_> {
    let has_ended = round.has_ended();
    Retest {
        findings: round.results.findings(),
        measured: round.measured.iter().filter(|_| has_ended).collect(),
    }
}

/// Returns why there is no load.
fn why_impossible(left_out: &[LeftOut], cap: Option<usize>) -> String {
    let reasons = left_out.iter().map(|left_out| format!("{}: {}", left_out.what, left_out.reason));
    let reasons: Vec<String> = reasons.collect();
    let cap = cap
        .map_or(String::new(), |most| format!(" (at most {most} NICs may send: see --load-cap)"));
    format!("no load is possible{cap}: {}", reasons.join("; "))
}

/// The settings that the user has chosen, and what the coordinator knows about the fabric.
#[derive(Clone, Debug)]
pub struct LoadSetup {
    /// The patterns.
    pub wanted: LoadSpec,
    /// Bytes of the load.
    pub sizes: LoadSizes,
    /// Part of the nodes that are victims, in percent.
    pub victims_percent: u8,
    /// How many NICs may be aggressors.
    pub cap: Cap,
    /// Bandwidth of a NIC in bytes per second, if it is known.
    pub nic_rate: Option<f64>,
    /// What the verdict needs to know. The seed is of roles and peers, too.
    pub facts: ResultFacts,
}

impl LoadSetup {
    /// Returns what the verdict of a round needs to know.
    fn result_facts(&self, is_partial: bool, seed: u64) -> ResultFacts {
        ResultFacts { is_partial, seed, ..self.facts.clone() }
    }

    /// Returns what all rounds have in common. `rate` is the bandwidth of a NIC.
    fn pass_facts<'a>(
        &'a self,
        roster: &'a Roster,
        rules: RoleRules,
        rate: Option<f64>,
    ) -> RoundFacts<'a> {
        RoundFacts { roster, rate, theory: self.facts.theory.as_ref(), sizes: self.sizes, rules }
    }
}

/// Part of the time of slots in which nothing is sent between blocks.
const IDLE_SHARE: f64 = 0.1;

/// What a survey will send. Retests are not part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadPreview {
    /// Number of NICs that can be used.
    pub nics: u32,
    /// Most NICs that send at once.
    pub most_aggressors: u32,
    /// Whether a cap keeps the load below what the NICs can do.
    pub is_partial: bool,
    /// Number of slots.
    pub slots: u32,
    /// Time of the slots and between blocks.
    pub seconds: f64,
    /// Most bytes per second of all NICs together, if the rate of a NIC is known.
    pub peak: Option<f64>,
    /// Most bytes of all NICs together, if the rate of a NIC is known.
    pub total_bytes: Option<f64>,
    /// The patterns, and their numbers of slots.
    pub patterns: Vec<(String, u32)>,
    /// Patterns and NICs that are left out.
    pub left_out: Vec<LeftOut>,
}

/// Returns what the steps of a round will send, after `ramp` slots of its widest pattern.
fn preview(round: &LoadRound, facts: RoundFacts, ramp: u32) -> LoadPreview {
    let mut preview = LoadPreview { slots: ramp, ..LoadPreview::default() };
    // Seconds in which a NIC sends, added up over the NICs.
    let mut sending = 0.0;
    for step in &round.steps {
        let slots = round.slots(*step, 0, facts.rules);
        let timing = timing_of(&slots, facts);
        let times = SlotTimes::from_slot(timing.slot_ns);
        let loaded_s = (times.stop_ns - times.start_ns) as f64 / 1e9;
        for slot in &slots {
            let sources = slot.flows.len() as u32;
            preview.most_aggressors = preview.most_aggressors.max(sources);
            sending += f64::from(step.repetitions) * f64::from(sources) * loaded_s;
        }
        preview.slots += step.slots();
        preview.seconds += f64::from(step.slots()) * timing.slot_ns as f64 / 1e9;
        preview.patterns.push((step.title(), step.slots()));
    }
    let steps_slots = f64::from(preview.slots - ramp).max(1.0);
    preview.seconds *= (1.0 + f64::from(ramp) / steps_slots) * (1.0 + IDLE_SHARE);
    preview.peak = facts.rate.map(|rate| rate * f64::from(preview.most_aggressors));
    preview.total_bytes = facts.rate.map(|rate| rate * sending);
    preview
}

/// The parts of the aggressors.
const PARTS_OF_LOAD: [f64; 3] = [0.125, 0.25, 0.5];

/// Returns load slots with parts of the sources of the widest pattern of a round, the smallest part
/// last.
fn ramp(round: &LoadRound, facts: RoundFacts, seed: u64) -> Vec<LoadSlot> {
    let Some(pattern) = round.widest() else {
        return Vec::new();
    };
    let mut all = flows(pattern, &round.nics.nics, 0, seed);
    seeded_rng(seed, 0).shuffle(&mut all);
    let counts = PARTS_OF_LOAD.map(|part| (part * all.len() as f64) as usize);
    let load_slot = |(place, count): (u32, usize)| {
        let mut slot = LoadSlot {
            purpose: LoadMeasurement::Ramp,
            repetition: 0,
            place,
            flows: all[..count].to_vec(),
            victims: Vec::new(),
            slot_ns: 0,
            window_bytes: 0,
        };
        timing_of(std::slice::from_ref(&slot), facts).set(&mut slot);
        slot
    };
    let counts = (0..).zip(counts).filter(|(_, count)| *count > 0);
    let mut load_slots: Vec<LoadSlot> = counts.map(load_slot).collect();
    load_slots.reverse();
    load_slots
}

/// How long the fabric is idle between two blocks: a tenth of the longest block.
const IDLE: Duration = Duration::from_millis(200);

/// How long NICs are watched for traffic of others before the load.
const WATCHED: Duration = Duration::from_secs(2);

/// Prepares the members for the load, and finds out whether others use the fabric.
///
/// # Errors
///
/// An interruption.
pub fn begin(
    crew: &mut dyn Crew,
    conductor: &mut LoadConductor,
    course: &TestSetup,
) -> Result<(), Failure> {
    let roster = &crew.members().roster;
    let present = roster.nodes.iter().filter(|node| node.absent.is_none());
    let ranks: BTreeSet<u32> = present.map(|node| node.rank).collect();
    let lost = crew.prepare(&ranks, course, &preparing)?;
    lose(crew.members(), conductor, &lost);
    if crew.members().roster.has_hardware() {
        let members = crew.members();
        let open = members.roster.nic_ids().filter(|nic| members.has_address(*nic));
        let slot: Slot = open.map(|nic| (nic, SlotTask::Watch)).collect();
        let load = BlockLoad { window_bytes: 0, idle: Duration::ZERO };
        let watched = crew.run(&[slot], WATCHED, Some(load), &preparing)?;
        let results = by_slot(watched.reports, 1).concat();
        if let Some(why) = foreign_traffic(&results, WATCHED.as_secs_f64()) {
            conductor.set_busy(why);
        }
        for (nic, reason) in &watched.failed {
            conductor.lose(*nic, reason);
        }
        lose(crew.members(), conductor, &watched.lost);
    }
    let plan = conductor.preview();
    crew.note(&format!(
        "loading the fabric: at most {} of {} NICs send at once, {} slots in {:.0} s \
         at least; retests take as long again, and busy hosts longer",
        plan.most_aggressors, plan.nics, plan.slots, plan.seconds
    ));
    Ok(())
}

/// Loads the fabric until the conductor has no further load slots, or the time is up: at `until`,
/// with this sentence about it. The targets of victims answer if `is_two_sided`.
///
/// # Errors
///
/// An interruption.
pub fn run(
    crew: &mut dyn Crew,
    conductor: &mut LoadConductor,
    is_two_sided: bool,
    (until, why): (Instant, &str),
) -> Result<(), Failure> {
    loop {
        interrupt::check()?;
        if Instant::now() >= until {
            conductor.stop(why);
        }
        let mut load_slots = conductor.next_load_slots();
        if load_slots.is_empty() {
            break;
        }
        let (done, planned, pattern) = conductor.progress();
        let line = |_: &Roster, _| format!("load: slot {done} of {planned}, {pattern}");
        let members = crew.members();
        let has_address = |nic: NicId| members.has_address(nic);
        let load_slot_slot = |load_slot: &mut LoadSlot| slot(load_slot, is_two_sided, has_address);
        let slots: Vec<Slot> = load_slots.iter_mut().map(load_slot_slot).collect();
        let length = Duration::from_nanos(load_slots[0].slot_ns);
        let load = BlockLoad { window_bytes: load_slots[0].window_bytes, idle: IDLE };
        let answered = crew.run(&slots, length, Some(load), &line)?;
        for (nic, reason) in answered.failed {
            conductor.lose(nic, &reason);
            let name = crew.members().roster.name(nic);
            conductor.stop(&format!("{name} cannot go on: {reason}"));
        }
        lose(crew.members(), conductor, &answered.lost);
        for (load_slot, results) in
            load_slots.iter().zip(by_slot(answered.reports, load_slots.len()))
        {
            conductor.add(load_slot, &results);
        }
    }
    Ok(())
}

/// Leaves lost processes out of all further load slots.
fn lose(members: &Members, conductor: &mut LoadConductor, lost: &LostMembers) {
    for (rank, reason) in lost {
        let Some(node) = members.node(*rank) else {
            continue;
        };
        let roster = &members.roster;
        for nic in roster.nic_ids().filter(|nic| roster.nic(*nic).node == node) {
            conductor.lose(nic, reason);
        }
    }
}

/// The line of progress before the load.
fn preparing(_: &Roster, _: usize) -> String {
    "preparing the load".into()
}
