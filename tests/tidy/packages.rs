//! Rules about packages: who depends on whom, and where unsafe code stands.

use std::fs;
use std::path::PathBuf;

use super::houses::PACKAGES;
use super::{files, read, root};

/// The tables of dependencies of a Cargo.toml that ships: those for tests left out.
fn dependencies(manifest: &str) -> String {
    let text = read(manifest);
    let (_, rest) = text.split_once("\n[dependencies]\n").unwrap_or_default();
    rest.split("\n[").next().unwrap_or_default().to_owned()
}

/// All other code asks `facts::device`.
#[test]
fn only_the_backend_distinguishes_kinds_of_nics() {
    let allowed = ["src/facts/device.rs", "src/node/backend.rs"];
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let is_allowed = allowed.iter().any(|allowed| path.ends_with(allowed));
        assert!(is_allowed || !code.contains("DeviceKind::"), "{}", path.display());
    }
}

#[test]
fn only_the_backend_names_the_software_nic() {
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let is_backend = path.ends_with("backend.rs");
        assert_eq!(code.contains("softnic"), is_backend, "{}", path.display());
    }
}

/// Benchmarks and targets treat all NICs alike: what differs, `LocalAddress` and `Platform` say.
#[test]
fn benchmarks_do_not_know_kinds_of_nics() {
    let rooms = ["src/diag/bench", "src/survey/members/targets"];
    for path in rooms.into_iter().flat_map(|room| files(room, "rs")) {
        let text = fs::read_to_string(&path).expect("text");
        for name in ["simulated", "SOFTWARE_NIC", "backend::links"] {
            assert!(!text.contains(name), "{}: {name}", path.display());
        }
    }
}

#[test]
fn packages_use_what_the_list_says() {
    let names: Vec<&str> = PACKAGES.iter().map(|package| package.name).collect();
    for (at, package) in PACKAGES.iter().enumerate() {
        let dependencies = dependencies(&package.manifest());
        let lines = dependencies.lines();
        let mut found: Vec<&str> = lines
            .filter_map(|line| line.split(['.', ' ', '=']).next())
            .filter(|name| names.contains(name))
            .collect();
        let mut listed = package.uses.to_vec();
        found.sort_unstable();
        listed.sort_unstable();
        assert_eq!(found, listed, "{}", package.name);
        let is_below = |name: &&str| names[..at].contains(name);
        assert!(listed.iter().all(is_below), "{}", package.name);
    }
}

#[test]
fn each_package_is_in_the_list() {
    let listed = PACKAGES.iter().map(|package| root().join(package.manifest()));
    let listed: Vec<PathBuf> = listed.collect();
    let below = ["src", "ffi"].into_iter().flat_map(|directory| files(directory, "rs"));
    for path in below {
        let manifests = path.ancestors().map(|above| above.join("Cargo.toml"));
        let own = manifests.into_iter().find(|manifest| manifest.exists()).expect("a package");
        assert!(listed.contains(&own), "{}", own.display());
    }
}

#[test]
fn the_program_has_no_unsafe_code() {
    let packages = PACKAGES.iter();
    for package in packages.filter(|package| package.house.directory.starts_with("src")) {
        for file in ["lib.rs", "main.rs"] {
            let path = format!("{}/{file}", package.house.directory);
            let is_safe = || read(&path).contains("#![forbid(unsafe_code)]");
            assert!(!root().join(&path).exists() || is_safe(), "{path}");
        }
    }
}

/// A reason names the invariant and who upholds it.
#[test]
fn reasons_of_unsafe_blocks_are_not_empty() {
    let mut empty = Vec::new();
    for path in ["src", "ffi", "tests"].into_iter().flat_map(|directory| files(directory, "rs")) {
        let text = fs::read_to_string(&path).expect("text");
        for (line, text) in text.lines().enumerate() {
            let reason = text.trim_start().strip_prefix("// SAFETY:").unwrap_or_default();
            let reason = reason.trim_start().to_lowercase();
            let is_empty = |phrase: &&str| reason.starts_with(phrase);
            if ["as above", "c contract", "the same"].iter().any(is_empty) {
                empty.push(format!("{}:{}: {}", path.display(), line + 1, text.trim()));
            }
        }
    }
    assert!(empty.is_empty(), "\n{}\n", empty.join("\n"));
}

#[test]
fn each_dependency_says_what_it_is_for() {
    for package in PACKAGES {
        let manifest = package.manifest();
        let text = read(&manifest);
        let mut in_table = false;
        let mut previous = "";
        for line in text.lines() {
            if line.starts_with('[') {
                in_table = line.ends_with("dependencies]");
            } else if in_table && !line.is_empty() && !line.starts_with('#') {
                let is_ours = line.contains("workspace = true") || line.contains("path = ");
                assert!(
                    is_ours || line.contains('#') || previous.starts_with('#'),
                    "{manifest}: {line}"
                );
            }
            previous = line;
        }
    }
}

#[test]
fn the_top_level_holds_what_the_design_names() {
    let known = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "Makefile",
        "README.md",
        "build.rs",
        "clippy.toml",
        "deny.toml",
        "docs",
        "ffi",
        "packaging",
        "rust-toolchain.toml",
        "rustfmt.toml",
        "src",
        "target",
        "tests",
        // The crates, in a source tarball.
        "vendor",
    ];
    for entry in fs::read_dir(root()).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("text");
        assert!(name.starts_with('.') || known.contains(&name), "{name}");
    }
}
