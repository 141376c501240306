//! What members do for their coordinator, besides checks of their nodes.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What orders and reports carry.
pub trait Payload: Clone + Debug + PartialEq + Serialize + DeserializeOwned {}

impl<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned> Payload for T {}

/// A kind of work. Orders and reports are checked here before anything else reads them.
pub trait Work: Copy + Debug + Default + PartialEq {
    /// What a member prepares for.
    type TestSetup: Payload;
    /// What it does, and when.
    type Block: Payload;
    /// What it has done in a block.
    type Report: Payload;

    /// Returns whether a member can prepare for this order of its coordinator.
    fn is_valid_setup(setup: &Self::TestSetup) -> bool;

    /// Returns whether a member with this many `nics`, prepared for `test setup`, can carry out
    /// this order of its coordinator.
    fn is_valid_block(block: &Self::Block, nics: usize, setup: Option<&Self::TestSetup>) -> bool;

    /// Returns when a block ends, on the clock of the coordinator, in nanoseconds.
    fn end_ns(block: &Self::Block) -> u64;

    /// Checks a report, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    fn accept(report: &mut Self::Report, expected: Expected<Self>) -> Result<(), String>;
}

/// What the next report of a process is about.
#[derive(Debug)]
pub struct Expected<'a, W: Work> {
    /// Rank of the process.
    pub rank: u32,
    /// Number of its NICs.
    pub nics: usize,
    /// The last test setup of the coordinator.
    pub setup: Option<&'a W::TestSetup>,
    /// The block that it answers.
    pub block: &'a W::Block,
}

/// No work: the members only check their nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NoWork;

/// An order or a report that nobody can send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Never {}

impl Work for NoWork {
    type TestSetup = Never;
    type Block = Never;
    type Report = Never;

    fn is_valid_setup(setup: &Never) -> bool {
        match *setup {}
    }

    fn is_valid_block(block: &Never, _: usize, _: Option<&Never>) -> bool {
        match *block {}
    }

    fn end_ns(block: &Never) -> u64 {
        match *block {}
    }

    fn accept(report: &mut Never, _: Expected<Self>) -> Result<(), String> {
        match *report {}
    }
}
