//! Writes the manual pages and the completion scripts for packages:
//! `cargo run --example documents -- DIRECTORY`.

#[path = "mod.rs"]
mod documents;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: documents DIRECTORY");
        return ExitCode::from(2);
    };
    match documents::write(&PathBuf::from(directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("documents: {error}");
            ExitCode::FAILURE
        }
    }
}
