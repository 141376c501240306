//! What is shown while a size is measured: rows of intervals, or a line of progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::columns::Layout;
use super::progress::{Current, ProgressDisplay};
use super::sampler::{Sampled, Sampler};
use facts::error::Failure;
use measure::Gauge;
use page::stream::SharedOutput;
use plan::depths::Row;
use plan::{Plan, Role};

/// Both threads. Dropping this value ends them.
#[derive(Default)]
pub struct LiveOutput {
    /// Prints the intervals of each size, if they are asked for.
    sampler: Option<Sampler>,
    progress: Option<ProgressDisplay>,
}

impl LiveOutput {
    /// Starts the line of progress of a run. A server has none, and the rows of intervals show the
    /// progress as well.
    pub fn start(plan: &Plan) -> Self {
        let outputs = &plan.outputs;
        let is_hidden =
            matches!(plan.role, Role::Server) || outputs.quiet || outputs.interval.is_some();
        Self {
            sampler: None,
            progress: if is_hidden { None } else { ProgressDisplay::start(plan.run) },
        }
    }

    /// Starts the rows of intervals of this length. Call it before this thread moves to its CPUs,
    /// which the other one would inherit.
    ///
    /// # Errors
    ///
    /// A thread that the system refuses.
    pub fn start_intervals(
        &mut self,
        layout: Layout,
        length: Duration,
        one_of_two: bool,
        out: SharedOutput,
    ) -> Result<(), Failure> {
        self.sampler = Some(Sampler::start(layout, length, one_of_two, out)?);
        Ok(())
    }

    /// Returns whether rows of intervals are printed.
    pub fn has_intervals(&self) -> bool {
        self.sampler.is_some()
    }

    /// Begins a size, whose number and the number of all sizes are `place`, and whose counters the
    /// measuring loop sets in `gauge`.
    pub fn begin(&mut self, row: Row, place: (usize, usize), gauge: &Arc<Gauge>) {
        if let Some(sampler) = &mut self.sampler {
            sampler.begin(row.size, gauge);
        }
        if let Some(progress) = &mut self.progress {
            let (gauge, started) = (Arc::clone(gauge), Instant::now());
            progress.show(Current { row, place, gauge, started });
        }
    }

    /// Ends the intervals of a size, in which this side has counted this number of operations.
    pub fn end_intervals(&mut self, count: u64) -> Sampled {
        let sampled = self.sampler.as_mut().and_then(|sampler| sampler.end(count));
        sampled.unwrap_or_default()
    }

    /// Erases the line of progress, because text follows.
    pub fn hide(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.hide();
        }
    }
}
