//! Reads a fabric from a file or from the short form.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::description::Topology;
use crate::dragonfly::Dragonfly;
use crate::items::Draft;

/// Largest file, in bytes.
const LARGEST_FILE: u64 = 256 << 20;

/// How the short form starts.
const SHORT: &str = "dragonfly:";

impl Topology {
    /// Reads the fabric that a value of the variable stands for: the items of the short form,
    /// `dragonfly:groups=4,switches=2,nics=2;route minimal`, or the file with this name.
    ///
    /// # Errors
    ///
    /// One line that names the file and its line, or the item of the short form, and the word that
    /// is wrong.
    pub fn from_variable(value: &str) -> Result<Self, String> {
        if let Some(rest) = value.strip_prefix(SHORT) {
            return short_form(value, rest);
        }
        let text = text_of(value.as_ref()).map_err(|error| format!("{value}: {error}"))?;
        Self::from_file(value, text.trim_start_matches('\u{feff}'))
    }

    /// Reads the fabric in the file `name` with this text: one item on each line. A word that
    /// starts with `#` begins a comment.
    ///
    /// # Errors
    ///
    /// One line that names the file, its line and the word that is wrong.
    pub fn from_file(name: &str, text: &str) -> Result<Self, String> {
        let mut draft = Draft::default();
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> =
                line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            draft.add(&words).map_err(|error| format!("{name}: line {number}: {error}"))?;
        }
        let fabric = draft.finish(name);
        fabric.map_err(|error| format!("{name}: {error}"))
    }
}

impl Dragonfly {
    /// The dragonfly of the short form, of any size, if its other items add or change no switches,
    /// NICs and links. `None` for a file, and for another fabric.
    pub fn from_variable(value: &str) -> Option<Self> {
        let mut items = value.strip_prefix(SHORT)?.split(';');
        let words: Vec<&str> = items.next()?.split(',').collect();
        let is_regular = |item: &str| {
            let name = item.split_whitespace().next();
            !matches!(name, Some("switch" | "nic" | "link"))
        };
        let found = Self::read(&words, &mut 0).ok()?;
        items.all(is_regular).then_some(found)
    }
}

/// The text of a regular file or a pipe, up to [`LARGEST_FILE`].
fn text_of(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_fifo() {
        return Err(io::Error::other("neither a regular file nor a pipe"));
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_FILE {
        let mebibytes = LARGEST_FILE >> 20;
        return Err(io::Error::other(format!("larger than {mebibytes} MiB, the limit for it")));
    }
    Ok(text)
}

/// Reads the short form: the item `dragonfly`, whose words commas separate, and after semicolons
/// the items that a file can have.
fn short_form(name: &str, rest: &str) -> Result<Topology, String> {
    let mut draft = Draft::default();
    for (number, item) in (1..).zip(rest.split(';')) {
        let mut words: Vec<&str> = item.split_whitespace().collect();
        if number == 1 {
            words = ["dragonfly"].into_iter().chain(item.split(',')).collect();
        }
        draft.add(&words).map_err(|error| format!("{name}: item {number}: {error}"))?;
    }
    draft.finish(name).map_err(|error| format!("{name}: {error}"))
}

#[cfg(test)]
mod tests;
