//! The versions of the program, and of the programs that it replaces.

use std::io::{self, Write};

use facts::child::PROGRAM;
use facts::error::Failure;
use facts::release;

/// Returns the version of what was started as `name`: of the program that it replaces, if any.
pub fn version_under(name: &str, replaced: Option<&str>) -> String {
    match replaced {
        Some(replaced) => format!("{name} version: {replaced}\n"),
        None => subcommand_version(name),
    }
}

/// Prints the version of what was started as `name`. Scripts read the version of a program that it
/// replaces; the version of this program then follows on standard error.
pub fn print_version(name: &str, replaced: Option<&str>) -> Result<(), Failure> {
    page::print(&version_under(name, replaced))?;
    if replaced.is_some() {
        let _ = write!(io::stderr(), "{}", version());
    }
    Ok(())
}

/// Returns the version of a tool or a command that is a subcommand: `cxidiag compare`.
fn subcommand_version(name: &str) -> String {
    format!("{name} version: {}\n", release_text())
}

/// Returns the version of the program.
pub fn version() -> String {
    subcommand_version(PROGRAM)
}

/// Returns the release, with revision and date if `build.rs` found them.
fn release_text() -> String {
    let sources = release::sources();
    let known: Vec<&str> = [sources.revision, sources.date].into_iter().flatten().collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    format!("{}{known}", env!("CARGO_PKG_VERSION"))
}
