//! Records the build facts that `cxidiag --version` prints: the revision and the date of the
//! sources, never the time of the build, so that the same sources give the same program.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let mut seconds = env::var("SOURCE_DATE_EPOCH").ok();
    if in_own_checkout() {
        if let Some(revision) = run("git", &["rev-parse", "--short=12", "HEAD"]) {
            println!("cargo::rustc-env=CXIDIAG_REVISION={revision}");
        }
        // Every commit and every change of branch adds a line there.
        match run("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
            Some(log) if Path::new(&log).exists() => println!("cargo::rerun-if-changed={log}"),
            _ => {}
        }
        seconds = seconds.or_else(|| run("git", &["show", "--no-patch", "--format=%ct", "HEAD"]));
    }
    if let Some(date) =
        seconds.and_then(|s| run("date", &["--utc", &format!("--date=@{s}"), "+%F"]))
    {
        println!("cargo::rustc-env=CXIDIAG_DATE={date}");
    }
}

/// Whether these sources are the checkout that git speaks of, and not a package unpacked inside
/// somebody else's.
fn in_own_checkout() -> bool {
    let top = run("git", &["rev-parse", "--show-toplevel"]);
    let here =
        env::var("CARGO_MANIFEST_DIR").ok().and_then(|here| Path::new(&here).canonicalize().ok());
    matches!((top, here), (Some(top), Some(here)) if Path::new(&top) == here)
}

/// What a program prints, if it can be run and succeeds.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
