//! The functions of all ranks of a node, read with a stack tool in a given time: one rank after the
//! other.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::calls::RankCall;
use crate::process;
use crate::stacks::{StackFailure, StackTool};
use facts::error::Failure;
use facts::interrupt;
use node::machine::Machine;

/// Part of the time for stacks that the last reading takes: its files are in memory.
const LAST_SHARE: f64 = 0.65;

/// Where stacks come from.
#[derive(Clone, Debug)]
pub enum StackSource {
    /// The user wants none, or the files of processes are made up.
    LeftOut,
    /// No tool is installed.
    Missing,
    /// This tool, with this time for all ranks at a reading.
    Tool(StackTool, Duration),
}

/// The functions of the ranks.
pub struct CallWatch<'a> {
    source: &'a StackSource,
    machine: &'a Machine,
    calls: BTreeMap<u32, RankCall>,
    /// Why the functions of a rank are not known.
    pub failures: BTreeMap<u32, StackFailure>,
    is_over: bool,
}

impl StackSource {
    /// Finds the tool of this machine; without a time, none is wanted.
    pub fn find(machine: &Machine, time: Option<Duration>) -> Self {
        // Numbers in made-up files may be processes of this machine.
        let Some(time) = time.filter(|_| machine.root() == Path::new("/")) else {
            return Self::LeftOut;
        };
        let tool = StackTool::find(env::var_os("PATH").as_deref());
        tool.map_or(Self::Missing, |tool| Self::Tool(tool, time))
    }
}

impl<'a> CallWatch<'a> {
    pub fn new(source: &'a StackSource, machine: &'a Machine) -> Self {
        let (calls, failures) = (BTreeMap::new(), BTreeMap::new());
        Self { source, machine, calls, failures, is_over: false }
    }

    /// Reads the stacks of these processes, as far as the time is enough.
    ///
    /// # Errors
    ///
    /// A request to end the run.
    pub fn read(&mut self, pids: &[u32]) -> Result<(), Failure> {
        self.read_for(pids, 1.0)
    }

    fn read_for(&mut self, pids: &[u32], share: f64) -> Result<(), Failure> {
        let StackSource::Tool(tool, time) = self.source else { return Ok(()) };
        let end = Instant::now() + time.mul_f64(share);
        let mut last = Duration::ZERO;
        for &pid in pids {
            interrupt::check()?;
            let left = end.saturating_duration_since(Instant::now());
            // A tool that is begun in vain would be ended while it holds a rank.
            if self.is_over || left <= last {
                self.failures.entry(pid).or_insert(StackFailure::NoTime);
                continue;
            }
            let directory = process::directory(self.machine, pid);
            let begin = Instant::now();
            let stacks = tool.read(&directory, pid, left);
            last = begin.elapsed();
            match stacks {
                Ok(stacks) => {
                    let program = fs::read_link(directory.join("exe"));
                    let program = program.ok().map(|path| path.to_string_lossy().into_owned());
                    if let Some(call) = RankCall::new(pid, &stacks, program.as_deref()) {
                        self.add(pid, call);
                    }
                }
                Err(failure) => {
                    self.is_over |= matches!(failure, StackFailure::Late(_));
                    self.failures.insert(pid, failure);
                }
            }
        }
        Ok(())
    }

    /// Reads the stacks again of those processes whose stacks are known.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_again(&mut self, pids: &[u32]) -> Result<(), Failure> {
        let is_known = |pid: &u32| self.calls.contains_key(pid);
        let pids: Vec<u32> = pids.iter().copied().filter(is_known).collect();
        self.read_for(&pids, LAST_SHARE)
    }

    fn add(&mut self, pid: u32, call: RankCall) {
        let call = match self.calls.get(&pid) {
            Some(earlier) => call.after(earlier),
            None => call,
        };
        self.calls.insert(pid, call);
    }

    /// The functions of a process.
    pub fn call(&self, pid: u32) -> Option<&RankCall> {
        self.calls.get(&pid)
    }
}
