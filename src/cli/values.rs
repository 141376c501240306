//! The values of options: from what was typed to what is set.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::PathBuf;

use facts::error::cause;
use facts::user_file;
use page::destination::Place;

/// The value of an option whose value was omitted: `--json` is `--json=-`.
pub const LEFT_OUT: &str = "-";

/// What is allowed in place of a value that is not UTF-8.
pub const NO_TEXT: &str = "expected plain text";

/// Returns where a document goes: to a file, or to standard output if the name was omitted.
///
/// # Errors
///
/// What is allowed, if the name is empty.
pub fn place(value: &OsStr) -> Result<Place, String> {
    if value == LEFT_OUT {
        return Ok(Place::Stdout);
    }
    file(value).map(Place::File)
}

/// The path of a file that is not standard output.
pub fn named_file(value: &OsStr) -> Result<PathBuf, String> {
    if value == LEFT_OUT {
        return Err("expected the name of a file: this format cannot go to standard output".into());
    }
    file(value)
}

/// The path of a file that is not standard output, for options of commands.
pub fn file_only(value: &OsStr) -> Result<PathBuf, String> {
    if value == LEFT_OUT {
        return Err("expected the name of a file".into());
    }
    file(value)
}

pub fn file(value: &OsStr) -> Result<PathBuf, String> {
    if value.is_empty() {
        return Err("expected the name of a file".into());
    }
    Ok(value.into())
}

/// The text of the file at `path`.
pub fn contents(path: &str) -> Result<String, String> {
    user_file::text(path.as_ref())
        .map_err(|error| format!("cannot read the file: {}", cause(&error)))
}

/// A value as text.
///
/// # Errors
///
/// What is allowed, if the value is not UTF-8.
pub fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| NO_TEXT.into())
}

pub fn names(values: &[impl Display]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}
