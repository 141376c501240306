//! The part of a survey under load: scenes of aggressors and victims, after the quiet part.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::CoordinatorLoop;
use super::member_control::{BlockLoad, MemberControl};
use crate::command::survey::request::LoadRequest;
use cluster::campaign::pairs::LostMembers;
use cluster::load::conductor::{LoadConductor, LoadSetup, LoadSizes};
use cluster::load::findings::LoadFindings;
use cluster::load::foreign::foreign_traffic;
use cluster::load::scene::Scene;
use cluster::load::slots::slot;
use cluster::survey::findings::Findings;
use cluster::survey::ids::NicId;
use cluster::survey::roster::Roster;
use cluster::timetable::blocks::by_slot;
use cluster::timetable::{Course, Slot, Times};
use facts::device::DeviceName;
use facts::error::Failure;
use facts::interrupt;
use facts::number::time_text;
use report::destination::write_text;
use report::survey::load_plan::plan_text;
use report::survey::nics::{State, states};

/// How long the load goes on at most, unless the user gives a limit for the survey.
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);

/// How long the fabric is idle between two blocks: a tenth of the longest block.
const IDLE: Duration = Duration::from_millis(200);

/// How long NICs are watched for traffic of others before the load.
const WATCHED: Duration = Duration::from_secs(2);

/// Bytes that an aggressor has under way: ten times rate times round trip at 25 GB/s and 4 us.
const WINDOW: u64 = 1 << 20;
const WINDOW_OF_SOFTWARE: u64 = 256 << 10;

/// The rate of a hardware NIC before it is measured, in bytes per second.
const LINE_RATE: f64 = 25e9;

/// A usual slot, whose counted part is how long victims measure.
const SLOT: Duration = Duration::from_millis(250);

impl CoordinatorLoop<'_> {
    /// Loads the fabric with what the quiet part has not found bad. Returns what it does, and
    /// whether the load was interrupted.
    ///
    /// # Errors
    ///
    /// A load that is not possible with these NICs, and an interruption before it.
    pub(super) fn load(
        &mut self,
        load: &LoadRequest,
        verdict: &Findings,
    ) -> Result<(LoadFindings, Result<(), Failure>), Failure> {
        let mut conductor = self.load_conductor(load, verdict)?;
        let roster = self.control.members.roster.clone();
        let present = roster.nodes.iter().filter(|node| node.absent.is_none());
        let ranks: BTreeSet<u32> = present.map(|node| node.rank).collect();
        let lost = self.control.prepare(ranks, preparing, |first_nic| {
            let tests = load.tests.iter();
            Course {
                tests: tests.clone().map(|test| test.test.clone()).collect(),
                arguments: tests.map(|test| test.arguments.clone()).collect(),
                pair_ns: Times::from_slot(SLOT.as_nanos() as u64).counted(),
                first_nic,
            }
        })?;
        lose(&mut self.control, &mut conductor, lost);
        if has_hardware(&roster) {
            let watched = self.control.watch(WATCHED, preparing)?;
            let results = by_slot(watched.reports, 1).concat();
            if let Some(why) = foreign_traffic(&results, WATCHED.as_secs_f64()) {
                conductor.set_busy(why);
            }
            lose(&mut self.control, &mut conductor, watched.lost);
        }
        let plan = conductor.preview();
        self.control.notes.add(&format!(
            "loading the fabric: at most {} of {} NICs send at once, {} slots in {:.0} s \
             at least; retests take as long again, and busy hosts longer",
            plan.most_aggressors, plan.nics, plan.slots, plan.seconds
        ));
        let ended = self.run_scenes(load, &mut conductor);
        Ok((conductor.findings(), ended))
    }

    /// Loads the fabric until the conductor has no further scenes, or the time is up.
    fn run_scenes(
        &mut self,
        load: &LoadRequest,
        conductor: &mut LoadConductor,
    ) -> Result<(), Failure> {
        let own = Instant::now() + TIME_LIMIT;
        let (until, why) = match (self.request.time_limit, self.ends) {
            (Some(limit), ends) => {
                let why = format!("the time was up after {}", time_text(limit));
                (ends.unwrap_or(own), why)
            }
            (None, Some(end_of_job)) if end_of_job < own => {
                (end_of_job, "the time of the job was up".into())
            }
            (None, _) => {
                let limit = time_text(TIME_LIMIT);
                (own, format!("the time was up after {limit} (--time-limit)"))
            }
        };
        loop {
            interrupt::check()?;
            if Instant::now() >= until {
                conductor.stop(&why);
            }
            let mut scenes = conductor.next_scenes();
            if scenes.is_empty() {
                break;
            }
            let (done, planned, pattern) = conductor.progress();
            let line = |_: &Roster, _| format!("load: slot {done} of {planned}, {pattern}");
            let addresses = &self.control.members.addresses;
            let has_address = |nic: NicId| addresses[nic.index()].is_some();
            let scene_slot = |scene: &mut Scene| slot(scene, load.is_two_sided(), has_address);
            let slots: Vec<Slot> = scenes.iter_mut().map(scene_slot).collect();
            let length = Duration::from_nanos(scenes[0].slot_ns);
            let block_load = BlockLoad { window_bytes: scenes[0].window_bytes, idle: IDLE };
            let answered = self.control.run_slots(&slots, length, Some(block_load), line)?;
            for (nic, reason) in answered.failed {
                conductor.lose(nic, &reason);
                let name = self.control.members.roster.name(nic);
                conductor.stop(&format!("{name} cannot go on: {reason}"));
            }
            lose(&mut self.control, conductor, answered.lost);
            let results = by_slot(answered.reports, scenes.len());
            for (scene, results) in scenes.iter().zip(&results) {
                conductor.add(scene, results);
            }
        }
        Ok(())
    }

    /// Prints what the load would be. Nothing is sent.
    ///
    /// # Errors
    ///
    /// A load that is not possible with these NICs, and an output that cannot be written.
    pub(super) fn print_plan(&mut self, load: &LoadRequest) -> Result<(), Failure> {
        let plan = self.load_conductor(load, &Findings::default())?.preview();
        let text: String = plan_text(&plan).iter().map(|line| format!("{line}\n")).collect();
        self.control.notes.progress.hide();
        write_text(text.as_bytes()).map_err(interrupt::output_failed)
    }

    pub(super) fn load_conductor(
        &mut self,
        load: &LoadRequest,
        verdict: &Findings,
    ) -> Result<LoadConductor, Failure> {
        let known = self.locations.shape;
        let shape = known.filter(|shape| shape.is_of(&self.control.members.roster));
        if known.is_some() && shape.is_none() {
            self.control
                .notes
                .add("no share of theory: the NICs of the survey are not all those of --topology");
        }
        let members = &self.control.members;
        let states = states(&members.roster, verdict);
        let is_usable = |nic: &NicId| {
            members.addresses[nic.index()].is_some() && states[nic.index()] != State::Bad
        };
        let usable: Vec<NicId> = members.roster.nic_ids().filter(is_usable).collect();
        let is_hardware = has_hardware(&members.roster);
        let window = if is_hardware { WINDOW } else { WINDOW_OF_SOFTWARE };
        let setup = LoadSetup {
            wanted: load.wanted.clone(),
            sizes: LoadSizes {
                size_bytes: load.size_bytes,
                window_bytes: load.window_bytes.unwrap_or(window).max(load.size_bytes),
            },
            victims_percent: load.victims_percent,
            cap: load.cap,
            seed: self.request.seed,
            is_hardware,
            nic_rate: shape.map(|shape| shape.nic_rate).or(is_hardware.then_some(LINE_RATE)),
            theory: shape,
            victim_test: load.victim_test().test.clone(),
            other_class: Some(load.other_class.to_string()),
        };
        LoadConductor::new(&members.roster, usable, setup).map_err(Failure::usage)
    }
}

/// Leaves lost processes out of all further scenes.
fn lose(control: &mut MemberControl, conductor: &mut LoadConductor, lost: LostMembers) {
    for (rank, reason) in lost {
        let Some(node) = control.members.lose(rank, &reason) else {
            continue;
        };
        let roster = &control.members.roster;
        for nic in roster.nic_ids().filter(|nic| roster.nic(*nic).node == node) {
            conductor.lose(nic, &reason);
        }
    }
}

/// Returns the line of progress before the load.
fn preparing(_: &Roster, _: usize) -> String {
    "preparing the load".into()
}

/// Returns whether a NIC is not a software NIC.
fn has_hardware(roster: &Roster) -> bool {
    let mut devices = roster.nics.iter().map(|nic| &nic.device);
    devices.any(|device| !DeviceName::names(device, |platform| platform.is_simulated))
}
