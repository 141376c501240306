//! The packages below `ffi` are products of their own: each builds, tests and documents itself
//! without the rest of the repository.

use std::fs;

use super::houses::{PACKAGES, Package};
use super::links::plain;
use super::{all_files, read, root};

fn products() -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(|package| package.directory.starts_with("ffi/"))
}

#[test]
fn products_name_no_file_outside() {
    let mut outside = Vec::new();
    for product in products() {
        let directory = root().join(product.directory);
        for path in all_files(product.directory) {
            let extension = path.extension().and_then(|extension| extension.to_str());
            // Other files name none: licences, facts, regressions of random tests.
            let Some(extension @ ("rs" | "c" | "h" | "toml" | "md")) = extension else {
                continue;
            };
            let text = fs::read_to_string(&path).expect("text");
            let found = named_files(&text, extension).into_iter();
            let found = found.filter(|named| {
                let named = plain(&path.parent().expect("a directory").join(named));
                !named.starts_with(&directory)
            });
            outside.extend(found.map(|named| format!("{}: {named}", path.display())));
        }
    }
    assert!(outside.is_empty(), "\n{}\n", outside.join("\n"));
}

/// The files that a text with this extension names, as it names them.
fn named_files<'a>(text: &'a str, extension: &str) -> Vec<&'a str> {
    let marks: &[&str] = match extension {
        "rs" => &["include_str!(", "include_bytes!(", "include!(", "#[path = "],
        "toml" => &["path = ", "build = ", "readme = ", "license-file = "],
        "md" => return text.split("](").skip(1).filter_map(link).collect(),
        _ => &["#include "],
    };
    let mut found: Vec<&str> = marks
        .iter()
        .flat_map(|mark| text.split(mark).skip(1))
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    // A path that begins at the package needs no `..`.
    if text.contains("CARGO_MANIFEST_DIR") {
        let upward = |part: &'a str| part.find("/../").map(|at| &part[at..]);
        found.extend(text.split('"').filter_map(upward));
    }
    found
}

/// The file to which a link leads, unless it is on another host.
fn link(rest: &str) -> Option<&str> {
    let target = rest.split([')', '#']).next()?;
    (!target.contains("://")).then_some(target)
}

#[test]
fn products_have_pages_licences_and_metadata() {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let workspace = read("Cargo.toml");
    for Package { name, directory, .. } in products() {
        let own = |file: &str| read(&format!("{directory}/{file}"));
        let manifest = own("Cargo.toml");
        for key in ["description", "keywords", "categories", "rust-version", "license"] {
            assert!(manifest.contains(&format!("\n{key}")), "{directory}/Cargo.toml: {key}");
        }
        // `cargo package` refuses packages that depend on one with `publish = false`.
        assert!(!manifest.contains("\npublish"), "{directory}/Cargo.toml");
        let dependency =
            format!("\n{name} = {{ path = \"{directory}\", version = \"{VERSION}\" }}");
        assert!(workspace.contains(&dependency), "Cargo.toml: {dependency}");
        let readme = own("README.md");
        for part in [&*format!("# {name}: "), "\n```\n", "\n## Limits\n", "\n## Licence\n"] {
            assert!(readme.contains(part), "{directory}/README.md: {part}");
        }
        // The example is a doc test.
        let is_shown = own("src/lib.rs").contains("#![doc = include_str!(\"../README.md\")]");
        assert!(is_shown, "{directory}/src/lib.rs");
        let changes = own("CHANGELOG.md");
        assert!(changes.contains(&format!("\n## {VERSION}")), "{directory}/CHANGELOG.md");
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(own(licence) == read(licence), "{directory}/{licence}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_files_that_sources_name() {
        let text = "include_str!(\n    \"a.txt\"\n);\n#[path = \"../b.rs\"]\nmod b;\n\
                    concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../c\")\nlet path = \"d\";";
        assert_eq!(named_files(text, "rs"), ["a.txt", "../b.rs", "/../c"]);
        let text = "#include <stdio.h>\n#include \"../a.h\"\n";
        assert_eq!(named_files(text, "c"), ["../a.h"]);
        assert_eq!(named_files("[[test]]\npath = \"a/main.rs\"\n", "toml"), ["a/main.rs"]);
        let text = "[a](a.md#b), [here](#b), [there](https://example.com/c.md)";
        assert_eq!(named_files(text, "md"), ["a.md", ""]);
    }
}
