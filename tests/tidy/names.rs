//! Names are nouns for things: a preposition, such as `of`, names nothing.

use std::fs;

use super::scanner::words;
use super::{files, root};

/// What introduces a name.
const BEFORE: [&str; 5] = ["let", "mut", "for", "fn", "|"];

/// Heads of names that say what a thing belongs to, not what it is.
const HEADS: [&str; 1] = ["of"];

#[test]
fn names_do_not_begin_with_a_preposition() {
    let mut offences = Vec::new();
    for path in ["src", "ffi", "tests"].iter().flat_map(|directory| files(directory, "rs")) {
        let below = path.strip_prefix(root()).expect("below the root");
        if below.components().any(|part| part.as_os_str() == "target") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let lines = misnamed(&text).into_iter();
        offences.extend(lines.map(|(line, name)| format!("{}:{line}: {name}", below.display())));
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// The names in `text` that begin with a preposition, each with its line. `fn of` makes a value of
/// its type, as in `Load::of(packet)`.
fn misnamed(text: &str) -> Vec<(usize, &str)> {
    let words = words(text);
    let is_bad = |three: &[(usize, &str)]| {
        let [(_, before), (_, name), (_, after)] = [three[0], three[1], three[2]];
        let head = name.split('_').next().unwrap_or(name);
        let is_constructor = before == "fn" && name == head;
        // The second bar of a closure stands before a use.
        let is_use = before == "|" && !["|", ",", ":"].contains(&after);
        BEFORE.contains(&before) && HEADS.contains(&head) && !is_constructor && !is_use
    };
    words.windows(3).filter(|three| is_bad(three)).map(|three| three[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_that_begin_with_a_preposition() {
        for (text, expected) in [
            ("let of = 1;", vec![(1, "of")]),
            ("fn f() {\n    for of in all {}\n}", vec![(2, "of")]),
            ("all.map(|of| of.value)", vec![(1, "of")]),
            ("let mut of_nics = 1;", vec![(1, "of_nics")]),
            ("fn of_nics() {}", vec![(1, "of_nics")]),
            ("fn of(packet: &Packet) -> Self {}", vec![]),
            ("let nic = Nic::of(1); // let of = 1", vec![]),
            ("let offset = \"let of\";", vec![]),
        ] {
            assert_eq!(misnamed(text), expected, "{text}");
        }
    }
}
