//! Programs in C that tests run on the software NIC's library.

use std::path::Path;

use super::{Command, SOFTWARE_NIC, stderr};

/// Programs for libcxi, with what they share (`rig.c`).
pub const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libcxi");

/// Compiles a program from its source, given without `.c`, and links it with the library.
#[track_caller]
pub fn compile(directory: &Path, source: &Path, executable: &str, options: &[&str]) {
    let sources = [source, &Path::new(SOURCES).join("rig")].map(|path| path.with_extension("c"));
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2"])
        .arg("-pthread")
        .args(options)
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys"))
        .arg(format!("-I{SOURCES}"))
        .arg("-o")
        .arg(directory.join(executable))
        .args(sources)
        .arg(format!("-L{}", SOFTWARE_NIC.display()))
        .arg("-lcxi");
    let output = compiler.output().expect("the compiler starts");
    assert!(output.status.success(), "{compiler:?}: {}", stderr(&output));
}
