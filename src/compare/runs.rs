//! Runs that tools wrote with `--json` or `--jsonl`, read back.

use std::io;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::de::IgnoredAny;

use facts::error::{Failure, cause};
use facts::text;
use facts::user_file::{self, LARGEST_DOCUMENT};
use plan::tool::Tool;
use plan::tools::TOOLS;
use report::outcome::{Outcome, Side};

/// The first bytes of a file of gzip.
const GZIP: &[u8] = b"\x1f\x8b";

/// A run, and the file that it was read from.
#[derive(Debug)]
pub struct ReadRun {
    /// Name of the file; `-` for standard input.
    pub file: String,
    pub outcome: Outcome,
}

impl ReadRun {
    /// Whether the run measures bandwidth, and not latency.
    pub fn measures_bandwidth(&self) -> bool {
        let tool = TOOLS.iter().find(|tool| tool.name == self.outcome.tool);
        let has_bandwidth = || self.outcome.results.iter().any(|result| result.bandwidth.is_some());
        tool.map_or_else(has_bandwidth, Tool::measures_bandwidth)
    }
}

/// Where runs are read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSource {
    /// Standard input.
    Stdin,
    File(PathBuf),
}

impl RunSource {
    /// The source that was typed: `-` is standard input.
    pub fn of(path: &Path) -> Self {
        if path == Path::new("-") { Self::Stdin } else { Self::File(path.into()) }
    }

    /// The name of the file; `-` for standard input.
    pub fn name(&self) -> String {
        match self {
            Self::Stdin => "-".into(),
            Self::File(path) => text::shown(&path.display().to_string()).into_owned(),
        }
    }

    /// The name of the source in messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Stdin => "standard input".into(),
            Self::File(_) => self.name(),
        }
    }

    /// Returns what the source holds, without its compression by gzip.
    ///
    /// # Errors
    ///
    /// The source cannot be read.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let read = match self {
            Self::File(path) => user_file::bytes(path, LARGEST_DOCUMENT),
            Self::Stdin => user_file::limited(io::stdin(), LARGEST_DOCUMENT),
        };
        let refused = |error| refused(&self.shown(), &cause(&error));
        let bytes = read.map_err(refused)?;
        if !bytes.starts_with(GZIP) {
            return Ok(bytes);
        }
        user_file::limited(MultiGzDecoder::new(&bytes[..]), LARGEST_DOCUMENT).map_err(refused)
    }
}

/// Leaves out the documents of servers if clients wrote any: both are of the same runs, which `run`
/// returns. Returns a warning if there were any.
pub fn leave_out_servers<T>(
    results: &mut Vec<T>,
    run: impl Fn(&T) -> Option<&Outcome>,
) -> Option<String> {
    let before = results.len();
    let has_side = |result: &T, side| run(result).is_some_and(|run| run.side == side);
    if results.iter().any(|result| has_side(result, Side::Client)) {
        results.retain(|result| !has_side(result, Side::Server));
    }
    match before - results.len() {
        0 => None,
        1 => Some("a document of a server is left out: a client's is used".into()),
        several => {
            Some(format!("{several} documents of servers are left out: those of clients are used"))
        }
    }
}

/// The documents in a text, one or one on each line, and a warning for each other line.
///
/// # Errors
///
/// Why there is no document.
pub(super) fn documents<'a>(
    bytes: &'a [u8],
    shown: &str,
) -> Result<(Vec<&'a [u8]>, Vec<String>), String> {
    let error = match serde_json::from_slice::<IgnoredAny>(bytes) {
        Ok(_) => return Ok((vec![bytes], Vec::new())),
        Err(error) => error,
    };
    let (mut documents, mut warnings) = (Vec::new(), Vec::new());
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<IgnoredAny>(line) {
            Ok(_) => documents.push(line),
            Err(error) => warnings
                .push(format!("{shown}: line {} is left out: not valid JSON: {error}", at + 1)),
        }
    }
    // A damaged document has lines that are valid by themselves, such as `],`, but no objects.
    if documents.iter().any(|line| line.starts_with(b"{")) {
        Ok((documents, warnings))
    } else if bytes.trim_ascii().is_empty() {
        Err("it is empty".into())
    } else {
        Err(format!("not valid JSON: {error}"))
    }
}

/// The failure of a source that cannot be used.
pub(super) fn refused(shown: &str, why: &str) -> Failure {
    Failure::environment(format!("cannot read {shown}: {why}"))
}

/// Checks the version of a document.
///
/// # Errors
///
/// The document has another version than `supported`.
pub(super) fn check_version(shown: &str, version: u64, supported: u32) -> Result<(), Failure> {
    if version == u64::from(supported) {
        return Ok(());
    }
    let why = format!("schema version {version} is not supported (expected {supported})");
    let hint = "measure again, or use the cxidiag that wrote it";
    Err(refused(shown, &why).with_hint(hint))
}
