//! The rules of the house that the compiler does not check.

mod citations;
mod documents;
mod drawings;
mod floors;
mod houses;
mod links;
mod names;
mod packages;
mod products;
mod prose;
mod scanner;
mod sources;
mod types;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below `directory` with this extension, at any depth.
fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = all_files(directory);
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    assert!(!found.is_empty(), "no {extension} files in {directory}");
    found
}

/// Files below `directory`, at any depth.
fn all_files(directory: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root().join(directory)];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}
