//! What a command prints and writes: its text, the document of `--json`, the metrics of
//! `--openmetrics`.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches};
use serde::Serialize;

use facts::error::{Failure, invalid};
use facts::interrupt;
use plan::cli::usage::{Completion, Entry, Value};
use plan::cli::values::place;
use plan::outputs::Place;
use report::openmetrics::Dialect;
use report::{Destination, json};

/// Returns `--json`, as help and manual of each command show it.
pub fn json_entry() -> Entry {
    Entry {
        short: None,
        long: "json",
        value: Some(Value::optional("FILE", Completion::Files)),
        help: "Print one JSON document instead of the text, or\nwrite it to FILE".into(),
        manual: "Write a JSON document to *FILE*, in addition to the text. Without *FILE*, the \
                 document goes to standard output, in place of the text.",
    }
}

/// Returns where the document goes that `--json` asks for with this value, if it is given.
///
/// # Errors
///
/// An empty name of a file.
pub fn json_place(value: Option<&OsString>) -> Result<Option<Place>, Failure> {
    let read = |value: &OsString| {
        place(value).map_err(|why| Failure::usage(invalid("json", value.display(), why)))
    };
    value.map(read).transpose()
}

/// Where text and document of a command go.
pub struct Destinations {
    has_text: bool,
    document: Option<Destination>,
}

impl Destinations {
    /// Checks that the document can be written to `json`, if there is to be one.
    ///
    /// # Errors
    ///
    /// The file or its directory cannot be written.
    pub fn open(json: Option<&Place>) -> Result<Self, Failure> {
        Ok(Self {
            has_text: json != Some(&Place::Stdout),
            document: json.map(Destination::open).transpose()?,
        })
    }

    /// Prints what `text` writes, unless the document has standard output, and writes the document.
    ///
    /// # Errors
    ///
    /// Standard output or the file cannot be written.
    pub fn write<T: Serialize>(
        self,
        document: &T,
        text: impl FnOnce(&mut Vec<u8>, &T) -> io::Result<()>,
    ) -> Result<(), Failure> {
        if self.has_text {
            let mut bytes = Vec::new();
            text(&mut bytes, document)
                .and_then(|()| io::stdout().write_all(&bytes))
                .map_err(interrupt::output_failed)?;
        }
        match self.document {
            Some(destination) => destination.write(&json::document(document)?),
            None => Ok(()),
        }
    }
}

/// Returns `--openmetrics` and `--openmetrics-format`, as help and manual show them.
pub fn metrics_entries() -> [Entry; 2] {
    [
        Entry {
            short: None,
            long: "openmetrics",
            value: Some(Value::new("FILE", Completion::Files)),
            help: "Write metrics to FILE: for the node exporter of\nPrometheus if it is *.prom, else OpenMetrics".into(),
            manual: "Write metrics to *FILE*, which is replaced in one step and readable by all. \
                     A *FILE* whose name ends in .prom has the form for the textfile collector \
                     of Prometheus' node exporter, others have OpenMetrics 1.0.",
        },
        Entry {
            short: None,
            long: "openmetrics-format",
            value: Some(Value::new("FORMAT", Completion::Words(formats))),
            help: format!("Form of this file: {}\n(default: by its name)", formats().join(", ")),
            manual: "The form of this file, whatever its name: node-exporter or openmetrics.",
        },
    ]
}

/// Returns both options, as they are declared.
pub fn metrics_options() -> [Arg; 2] {
    let option = |name| Arg::new(name).long(name).allow_hyphen_values(true);
    [
        option("openmetrics").value_parser(ValueParser::os_string()),
        option("openmetrics-format"),
    ]
}

/// Returns the names of the dialects.
fn formats() -> Vec<String> {
    Dialect::ALL.map(|(name, _)| name.to_owned()).to_vec()
}

/// Returns where metrics go, and in which form; `None` if they are not asked for.
///
/// # Errors
///
/// A form that does not exist or has no file, and standard output.
pub fn metrics_place(matches: &ArgMatches) -> Result<Option<(Place, Dialect)>, Failure> {
    let format = matches.get_one::<String>("openmetrics-format");
    let named = format
        .map(|typed| {
            let mut dialects = Dialect::ALL.into_iter();
            let found = dialects.find(|(name, _)| name == typed);
            let allowed = || format!("expected {}", formats().join(" or "));
            let refused = || Failure::usage(invalid("openmetrics-format", typed, allowed()));
            found.map(|(_, dialect)| dialect).ok_or_else(refused)
        })
        .transpose()?;
    let Some(value) = matches.get_one::<OsString>("openmetrics") else {
        return match format {
            None => Ok(None),
            Some(_) => Err(Failure::usage(
                "--openmetrics-format needs --openmetrics=FILE",
            )),
        };
    };
    let refused = |why: String| Failure::usage(invalid("openmetrics", value.display(), why));
    let to = place(value).map_err(refused)?;
    let Some(path) = to.file() else {
        return Err(refused("expected the name of a file".into()));
    };
    let dialect = named.unwrap_or_else(|| Dialect::of(path));
    Ok(Some((to, dialect)))
}
