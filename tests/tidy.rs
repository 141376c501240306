//! The rules of the house that the compiler does not know.

use std::fs;
use std::path::{Path, PathBuf};

use cxidiag::advice::{EXPLANATIONS, What};
use cxidiag::tools::TOOLS;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Files below `directory` with this extension, at any depth.
fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root().join(directory)];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no {extension} files in {directory}");
    found
}

/// The tables of dependencies of a Cargo.toml that ships: those for tests left out.
fn dependencies(manifest: &str) -> String {
    let text = read(manifest);
    let (_, rest) = text.split_once("\n[dependencies]\n").expect(manifest);
    rest.split("\n[").next().unwrap_or_default().to_owned()
}

#[test]
fn only_the_backend_names_the_software_nic() {
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        let is_backend = path.ends_with("src/backend.rs");
        assert_eq!(text.contains("softnic"), is_backend, "{}", path.display());
    }
}

#[test]
fn packages_depend_in_one_direction() {
    for (manifest, allowed) in [
        ("ffi/cxi-sys/Cargo.toml", &[][..]),
        ("ffi/cxi/Cargo.toml", &["cxi-sys"]),
        ("ffi/softnic/Cargo.toml", &["cxi-sys"]),
    ] {
        for line in dependencies(manifest).lines() {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let is_ours = ["cxi-sys", "cxi", "softnic", "cxidiag"].contains(&name);
            assert!(!is_ours || allowed.contains(&name), "{manifest}: {line}");
        }
    }
}

#[test]
fn the_program_has_no_unsafe_code() {
    for path in ["src/lib.rs", "src/main.rs"] {
        assert!(read(path).contains("#![forbid(unsafe_code)]"), "{path}");
    }
}

#[test]
fn each_dependency_says_what_it_is_for() {
    for manifest in [
        "Cargo.toml",
        "ffi/cxi-sys/Cargo.toml",
        "ffi/cxi/Cargo.toml",
        "ffi/softnic/Cargo.toml",
    ] {
        let text = read(manifest);
        let mut in_table = false;
        let mut previous = "";
        for line in text.lines() {
            if line.starts_with('[') {
                in_table = line.ends_with("dependencies]") && !line.contains("workspace");
            } else if in_table && !line.is_empty() && !line.starts_with('#') {
                let is_ours = line.contains(".workspace = true");
                assert!(
                    is_ours || line.contains('#') || previous.starts_with('#'),
                    "{manifest}: {line}"
                );
            }
            previous = line;
        }
    }
}

/// One registration is enough: everything else that must know a tool is missed here.
#[test]
fn each_tool_is_tested_and_documented() {
    let mut missing = Vec::new();
    for tool in TOOLS {
        let tests = format!("tests/{}.rs", tool.name.replace('-', "_"));
        if !root().join(&tests).exists() {
            missing.push(tests);
        }
        for (page, text) in [
            ("README.md", format!("| `{}` |", tool.name)),
            (
                "docs/measuring.md",
                format!("One iteration of `{}`", tool.name),
            ),
        ] {
            if !read(page).contains(&text) {
                missing.push(format!("{page}: {text}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Each defect of the legacy tools that is known (tools.md 12) has an answer.
#[test]
fn differences_name_each_defect_of_the_legacy_tools() {
    let page = read("docs/differences.md");
    let numbers: Vec<&str> = page
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(|word| word.strip_prefix('T'))
        .collect();
    for number in 1..=33 {
        assert!(numbers.contains(&number.to_string().as_str()), "T{number}");
    }
}

/// The README leads to every page, and no page to one that is not there.
#[test]
fn pages_are_found_from_the_readme() {
    let pages = files("docs", "md");
    let shown = |path: &Path| {
        path.strip_prefix(root())
            .expect("below")
            .display()
            .to_string()
    };
    let readme = read("README.md");
    for page in &pages {
        // What the manual is made of is no page.
        if page.parent() == Some(&root().join("docs")) {
            let link = format!("({})", shown(page));
            assert!(readme.contains(&link), "README.md: {link}");
        }
    }
    for page in pages.iter().chain([&root().join("README.md")]) {
        let text = fs::read_to_string(page).expect("text");
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if !target.contains("://") {
                let found = page.parent().expect("a directory").join(target);
                assert!(found.exists(), "{}: {target}", shown(page));
            }
        }
    }
}

/// What the map for contributors names is there.
#[test]
fn the_map_names_what_there_is() {
    let page = read("docs/architecture.md");
    let rooms = [
        "",
        "src",
        "src/report",
        "src/session",
        "ffi/cxi/src",
        "ffi/softnic/src",
    ];
    let is_path =
        |word: &&str| (word.ends_with(".rs") || word.ends_with('/')) && !word.contains(['*', ' ']);
    let paths: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 40, "{paths:?}");
    for path in paths {
        let found = rooms
            .iter()
            .any(|room| root().join(room).join(path).exists());
        assert!(found, "docs/architecture.md: {path}");
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

/// The tables of docs/troubleshooting.md are those of the program. `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy`
/// writes them anew.
#[test]
fn troubleshooting_shows_the_table_of_explanations() {
    const PAGE: &str = "docs/troubleshooting.md";
    let page = read(PAGE);
    let (intro, _) = page.split_once("\n## ").expect("a first section");
    let mut made = intro.to_owned();
    for (title, column, belongs) in [
        (
            "What the program finds out",
            "message",
            (|what| matches!(what, What::Found(_))) as fn(&What) -> bool,
        ),
        ("What libcxi refuses", "call and error", |what| {
            matches!(what, What::Call(..))
        }),
        ("What the NIC reports", "return code", |what| {
            matches!(what, What::Code(_))
        }),
    ] {
        made += &format!(
            "\n## {title}\n\n| {column} | cause | what to check and do |\n|---|---|---|\n"
        );
        for row in EXPLANATIONS.iter().filter(|row| belongs(&row.what)) {
            made += &format!("| {} | {} | {} |\n", row.what, row.cause, row.remedy);
        }
    }
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), &made).expect("a writable page");
    } else {
        assert!(page == made, "{PAGE} is out of date");
    }
}

/// The manual page and the docs name every environment variable that the software NIC reads.
#[test]
fn variables_of_the_software_nic_are_documented() {
    let mut variables = std::collections::BTreeSet::new();
    for path in files("ffi/softnic/src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        let quoted = text.split('"').skip(1).step_by(2);
        let is_name = |word: &&str| {
            (word.starts_with("CXIDIAG_") || word.starts_with("CXI_FORK"))
                && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        variables.extend(quoted.filter(is_name).map(str::to_owned));
    }
    assert!(variables.len() >= 8, "{variables:?}");
    for page in ["docs/software-nic.md", "packaging/man/cxi-softnic.7"] {
        for variable in &variables {
            assert!(
                read(page).contains(variable.as_str()),
                "{page} does not name {variable}"
            );
        }
    }
}
