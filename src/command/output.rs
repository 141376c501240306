//! What a command prints and writes: its text, the document of `--json`, the metrics of
//! `--openmetrics`.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use facts::error::Failure;
use plan::cli::definition::OptionDef;
use plan::cli::usage::Completion;
use plan::outputs::Place;
use report::documents::Documents;
use report::openmetrics::Dialect;
use report::outcome::Problem;

/// Returns `--json`.
pub fn json() -> OptionDef<Option<Place>> {
    OptionDef::document("json", |place| place).explained(
        "Print one JSON document instead of the text, or\nwrite it to FILE",
        "Write a JSON document to *FILE*, in addition to the text. Without *FILE*, the \
         document goes to standard output, in place of the text.",
    )
}

/// Prints what `text` writes, unless the document has standard output, and writes the document.
///
/// # Errors
///
/// Standard output or the file cannot be written.
pub fn write<T: Serialize>(
    documents: &Documents,
    document: &T,
    text: impl FnOnce(&mut Vec<u8>, &T) -> io::Result<()>,
) -> Result<(), Failure> {
    documents.print(|bytes| text(bytes, document))?;
    documents.write_json(document)
}

/// The document of a command that fails before it has results.
#[derive(Debug, Serialize)]
struct FailedCommand {
    schema_version: u32,
    cxidiag_version: &'static str,
    error: Problem,
}

/// Returns `outcome`; a failure is written to the document of `--json`, too.
///
/// # Errors
///
/// The failure.
pub fn or_failure<T>(documents: &Documents, outcome: Result<T, Failure>) -> Result<T, Failure> {
    outcome.inspect_err(|failure| {
        // The failure itself goes to standard error in any case.
        let _ = documents.write_json(&FailedCommand {
            schema_version: 1,
            cxidiag_version: env!("CARGO_PKG_VERSION"),
            error: failure.into(),
        });
    })
}

/// The metrics that the arguments ask for.
#[derive(Clone, Debug, Default)]
pub struct MetricsRequest {
    file: Option<PathBuf>,
    dialect: Option<Dialect>,
}

/// Returns `--openmetrics` and `--openmetrics-format`.
pub fn metrics() -> [OptionDef<MetricsRequest>; 2] {
    let file = OptionDef::file("openmetrics", |metrics: &mut MetricsRequest| {
        &mut metrics.file
    });
    let format = OptionDef::text(
        "openmetrics-format",
        "FORMAT",
        |metrics: &mut MetricsRequest, typed| {
            let mut dialects = Dialect::ALL.into_iter();
            let found = dialects.find(|(name, _)| *name == typed);
            let (_, dialect) =
                found.ok_or_else(|| format!("expected {}", formats().join(" or ")))?;
            metrics.dialect = Some(dialect);
            Ok(())
        },
    );
    [
        file.explained(
            "Write metrics to FILE: for the node exporter of\nPrometheus if it is *.prom, else OpenMetrics",
            "Write metrics to *FILE*, which is replaced in one step and readable by all. \
             A *FILE* whose name ends in .prom has the form for the textfile collector \
             of Prometheus' node exporter, others have OpenMetrics 1.0.",
        ),
        format.completed_by(Completion::Words(formats)).explained(
            format!("Form of this file: {}\n(default: by its name)", formats().join(", ")),
            "The form of this file, whatever its name: node-exporter or openmetrics.",
        ),
    ]
}

/// Returns the names of the dialects.
fn formats() -> Vec<String> {
    Dialect::ALL.map(|(name, _)| name.to_owned()).to_vec()
}

impl MetricsRequest {
    /// Returns where metrics go, and in which form; `None` if they are not asked for.
    ///
    /// # Errors
    ///
    /// A form without a file.
    pub fn place(&self) -> Result<Option<(Place, Dialect)>, Failure> {
        match (&self.file, self.dialect) {
            (Some(path), dialect) => {
                let dialect = dialect.unwrap_or_else(|| Dialect::of(path));
                Ok(Some((Place::File(path.clone()), dialect)))
            }
            (None, Some(_)) => Err(Failure::usage(
                "--openmetrics-format needs --openmetrics=FILE",
            )),
            (None, None) => Ok(None),
        }
    }
}
