//! What a command prints and writes: its text, and the document of `--json`.

use std::ffi::OsString;
use std::io::{self, Write};

use serde::Serialize;

use crate::cli::usage::{Completion, Entry, Value};
use crate::cli::values::place;
use crate::error::{Failure, invalid};
use crate::interrupt;
use crate::plan::outputs::Place;
use crate::report::{Destination, json};

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
