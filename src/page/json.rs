//! Data -> JSON, and back (docs/output-formats.md, docs/*.schema.json). All documents and lines are
//! written here.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use facts::error::{Context, Failure};
use facts::text;

/// Largest number of a result: no NIC can show as much, in any unit.
pub const LARGEST: f64 = 1e21;

/// What a failure is about.
const WHAT: &str = "cannot write JSON";

/// How values are laid out. With one type for both ways, each document is compiled once.
enum JsonLayout {
    /// With a line for each field and each entry.
    Lines(PrettyFormatter<'static>),
    Line(CompactFormatter),
}

/// Passes each call to the formatter of the layout.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $ty:ty)?)),*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, to: &mut W $(, $argument: $ty)?) -> io::Result<()> {
            match self {
                Self::Lines(formatter) => formatter.$name(to $(, $argument)?),
                Self::Line(formatter) => formatter.$name(to $(, $argument)?),
            }
        })*
    };
}

impl Formatter for JsonLayout {
    passed_on! {
        begin_array(), begin_array_value(is_first: bool), end_array_value(), end_array(),
        begin_object(), begin_object_key(is_first: bool), begin_object_value(),
        end_object_value(), end_object()
    }

    fn write_f64<W: ?Sized + Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(to, value.clamp(-LARGEST, LARGEST))
    }
}

/// Returns a document as a type, or a reason that names the key of what is wrong.
pub fn read<T: DeserializeOwned>(document: &[u8]) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(document);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let key = match error.path().to_string().as_str() {
            "." => String::new(),
            key => format!("{key}: "),
        };
        // Without the place in the document, whose lines people do not read.
        let error = error.into_inner();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let why = error.to_string();
        let why = why.strip_suffix(&place).unwrap_or(&why);
        let mut what = format!("{key}{why}");
        text::accept(&mut what);
        what
    })
}

/// Returns a value as a document of many lines.
///
/// # Errors
///
/// None in practice: the document is made in memory.
pub fn document(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    write_document(&mut bytes, value).environment(WHAT)?;
    Ok(bytes)
}

/// Writes a value as a document of many lines.
///
/// # Errors
///
/// Errors of `to`.
pub fn write_document(to: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(to, value, JsonLayout::Lines(PrettyFormatter::new()))
}

/// Returns a value as a document of one line.
///
/// # Errors
///
/// None in practice: the line is made in memory.
pub fn line(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    write(&mut bytes, value, JsonLayout::Line(CompactFormatter)).environment(WHAT)?;
    Ok(bytes)
}

fn write(to: &mut dyn Write, value: &impl Serialize, layout: JsonLayout) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *to, layout))?;
    to.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lays_values_out_as_serde_json_does() {
        let value = serde_json::json!({"a": [1, {}, []], "b": {"c": null, "d": [[0.5], "x"]}});
        let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
        assert_eq!(document(&value).unwrap(), expected.as_bytes());
        assert_eq!(line(&value).unwrap(), format!("{value}\n").as_bytes());
    }

    #[test]
    fn bounds_numbers_as_readers_do() {
        let numbers = [1e308, 1e21, -0.5, -1e22, 1e-320];
        assert_eq!(line(&numbers).unwrap(), b"[1e+21,1e+21,-0.5,-1e+21,1e-320]\n");
    }
}
