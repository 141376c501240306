//! One name for one type: no two types of a package share a name.

use std::collections::{BTreeMap, BTreeSet};

use super::houses::{PACKAGES, Package};
use super::sources::{self, Text};

#[test]
fn names_of_types_are_unique_in_a_package() {
    let mut offences = Vec::new();
    for package in PACKAGES {
        let texts: Vec<_> = package.crates().map(sources::read).collect();
        offences.extend(repeated(package, &texts.concat()));
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// One line for each name that several types have and the list lacks, and for each listed name that
/// one type has, or none.
fn repeated(package: &Package, texts: &[Text]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources::sources(&package.house, texts) {
        for (line, name) in source.names.types {
            let place = format!("{}:{line}", source.file);
            places.entry(name).or_default().push(place);
        }
    }
    places.retain(|_, places| places.len() > 1);
    let listed: BTreeSet<&str> = package.repeated_types.iter().copied().collect();
    let unlisted = places.iter().filter(|(name, _)| !listed.contains(name.as_str()));
    let unlisted = unlisted.map(|(name, places)| {
        format!("{}: several types are called {name}: {}", package.name, places.join(", "))
    });
    let unneeded = listed.iter().filter(|name| !places.contains_key(**name));
    let unneeded = unneeded
        .map(|name| format!("{}: one type at most is called {name}: strike it out", package.name));
    unlisted.chain(unneeded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_repeated_names_and_needless_entries() {
        let package = Package { repeated_types: &["Verdict", "Step"], ..PACKAGES[0] };
        let texts = [
            ("plan.rs", "pub struct Key;\nenum Verdict {}\nimpl A for Key { type Output = u8; }"),
            ("run/mod.rs", "fn f() {}\ntrait Key { type Output; }\ntype Verdict = u8;"),
            ("error.rs", "impl B for Key { type Output = (); } struct Step;"),
            ("error/tests.rs", "struct Step;"),
            ("lib.rs", "#[cfg(test)] mod tests { struct Step; }"),
        ]
        .map(|(file, text)| (file.to_owned(), text.to_owned()));
        assert_eq!(
            repeated(&package, &texts),
            [
                "cxi-sys: several types are called Key: plan.rs:1, run/mod.rs:2",
                "cxi-sys: one type at most is called Step: strike it out",
            ]
        );
    }
}
