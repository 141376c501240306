//! What a survey writes: each result as it comes, a line of progress, and at the end text and documents.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use serde::Serialize;

use super::asked::Written;
use crate::command::output::Destinations;
use crate::error::{Failure, cause};
use crate::plan::outputs::Place;
use crate::report::Destination;
use crate::report::openmetrics::{self, Dialect};
use crate::report::survey::lines::{Header, Line};
use crate::report::survey::pair_table::PairTable;
use crate::report::survey::progress::Progress;
use crate::report::survey::{Setup, Survey, metrics, nics, text};
use crate::survey::answer::PairResult;
use crate::survey::roster::Roster;
use crate::survey::verdict::Test;

/// The outputs of a survey, which can all be written.
pub struct Outputs {
    document: Destinations,
    /// The document has standard output.
    has_text: bool,
    is_quiet: bool,
    lines: Option<Lines>,
    table: Option<PairTable>,
    metrics: Option<(Destination, Dialect)>,
    bad_nodes: Option<Destination>,
    /// The line of progress.
    pub progress: Progress,
}

impl Outputs {
    /// Opens all outputs.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and two documents for standard output.
    pub fn open(written: &Written) -> Result<Self, Failure> {
        let places = [&written.json, &written.csv];
        let on_stdout = |place: &&&Option<Place>| ***place == Some(Place::Stdout);
        if places.iter().filter(on_stdout).count() > 1 {
            return Err(Failure::usage(
                "--json and --csv cannot both go to standard output: name a file",
            ));
        }
        let table = written.csv.as_ref().map(Destination::open).transpose()?;
        let metrics = match &written.metrics {
            Some((place, dialect)) => Some((Destination::open(place)?, *dialect)),
            None => None,
        };
        let bad_nodes = written.bad_nodes.as_deref().map(Destination::file);
        Ok(Self {
            document: Destinations::open(written.json.as_ref())?,
            has_text: !places.iter().any(|place| on_stdout(&place)),
            is_quiet: written.is_quiet,
            lines: written.jsonl.as_deref().map(Lines::open).transpose()?,
            table: table.map(PairTable::begin).transpose()?,
            metrics,
            bad_nodes: bad_nodes.transpose()?,
            progress: Progress::new(!written.is_quiet),
        })
    }

    /// Writes a line that is not part of the result.
    pub fn note(&mut self, line: &str) {
        self.progress.hide();
        if !self.is_quiet {
            // The survey goes on if a line cannot be written.
            let _ = writeln!(io::stderr(), "cxidiag survey: {line}");
        }
    }

    /// Writes what is known before the first pair is measured.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn begin(
        &mut self,
        started: SystemTime,
        setup: &Setup,
        roster: &Roster,
    ) -> Result<(), Failure> {
        match &mut self.lines {
            Some(lines) => lines.append(&[Header::new(started, setup, roster)]),
            None => Ok(()),
        }
    }

    /// Writes results.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn add(
        &mut self,
        results: &[PairResult],
        roster: &Roster,
        tests: &[Test],
    ) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            for result in results {
                table.add(result, roster, tests)?;
            }
        }
        match &mut self.lines {
            Some(lines) => {
                let of_results = results
                    .iter()
                    .map(|result| Line::new(result, roster, tests));
                lines.append(&of_results.collect::<Vec<_>>())
            }
            None => Ok(()),
        }
    }

    /// Writes text and documents.
    ///
    /// # Errors
    ///
    /// An output that cannot be written, and what the survey has found.
    pub fn end(mut self, survey: &Survey) -> Result<(), Failure> {
        self.progress.hide();
        if let Some(table) = self.table {
            table.end()?;
        }
        if let Some((destination, dialect)) = &self.metrics {
            let text = openmetrics::text(&metrics::families(survey), *dialect);
            openmetrics::write(destination, &text)?;
        }
        if let Some(destination) = &self.bad_nodes {
            destination.write(nics::bad_nodes(survey).as_bytes())?;
        }
        let (has_text, is_quiet) = (self.has_text, self.is_quiet);
        self.document.write(survey, |out: &mut Vec<u8>, survey| {
            match (has_text, is_quiet) {
                (false, _) => Ok(()),
                (true, true) => writeln!(out, "{}", survey.summary),
                (true, false) => text::write(out, survey),
            }
        })?;
        let ended = survey.result();
        ended.map_err(|failure| if has_text { failure.printed() } else { failure })
    }
}

/// A file that grows by lines of JSON.
struct Lines {
    file: File,
    path: std::path::PathBuf,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(path);
        match file {
            Ok(file) => Ok(Self {
                file,
                path: path.to_owned(),
            }),
            Err(error) => Err(refused(path, &error)),
        }
    }

    /// Writes all lines at once: a survey that is killed leaves whole lines, as far as possible.
    fn append(&mut self, lines: &[impl Serialize]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)
                .map_err(|error| refused(&self.path, &error.into()))?;
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes);
        written.map_err(|error| refused(&self.path, &error))
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {}", path.display(), cause(error)))
}
