//! The drawings of packages and floors in documents and at the heads of packages, made from
//! `houses.rs`. They stand between a line with [`START`] and a line with [`END`];
//! `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes them.

use std::collections::BTreeMap;
use std::fs;

use super::houses::{House, PACKAGES, Package};
use super::{read, root};

const START: &str = "<!-- From tests/tidy/houses.rs: ";
const END: &str = "<!-- End of what tests/tidy/houses.rs says. -->";

/// Columns of the widest line.
const WIDTH: usize = 96;

/// The page with the table of packages.
const PAGE: &str = "docs/architecture.md";

#[test]
fn drawings_show_the_list_of_rooms() {
    for (file, drawings) in drawings() {
        let text = read(file);
        let made = drawn(&text, &drawings);
        let made = made.unwrap_or_else(|error| panic!("{file}: {error}"));
        if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_none() {
            assert!(text == made, "{file} is out of date");
        } else if text != made {
            fs::write(root().join(file), &made).expect("a writable file");
        }
    }
}

/// The drawings of a file, by what they show: a directory, or the packages.
type Drawings = BTreeMap<&'static str, String>;

/// The drawings of each file that has any.
fn drawings() -> BTreeMap<&'static str, Drawings> {
    let mut files: BTreeMap<_, Drawings> = BTreeMap::new();
    let page_texts = files.entry(PAGE).or_default();
    page_texts.insert("packages", packages(PACKAGES));
    for house in PACKAGES.iter().flat_map(Package::houses) {
        for file in house.shown_in {
            let file_texts = files.entry(file).or_default();
            file_texts.insert(house.directory, floors(house));
        }
    }
    files
}

/// Returns `text` with each of `drawings` in its place.
fn drawn(text: &str, drawings: &Drawings) -> Result<String, String> {
    let mut made = String::new();
    let mut left = drawings.clone();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made += line;
        made.push('\n');
        let (comment, name) = match line.split_once(START) {
            Some((comment, name)) => (comment, name.trim_end_matches(" -->")),
            None => continue,
        };
        let drawing = left.remove(name);
        let drawing = drawing.ok_or_else(|| format!("{name}: not shown here, or twice"))?;
        for line in drawing.lines().chain([END]) {
            made += format!("{comment}{line}").trim_end();
            made.push('\n');
        }
        let end = format!("{comment}{END}");
        if !lines.any(|line| line == end) {
            return Err(format!("{name}: the line {END} is missing"));
        }
    }
    let missing = left.keys().next();
    missing
        .map_or(Ok(made), |name| Err(format!("the lines {START}{name} --> and {END} are missing")))
}

/// The table of packages, each above the packages that it uses.
fn packages(packages: &[Package]) -> String {
    let mut table =
        "\n| package | what it holds | what it must not do |\n|---|---|---|\n".to_owned();
    for package in packages.iter().rev() {
        table += &format!(
            "| `{}/` | {} | {} |\n",
            package.house.directory.trim_end_matches("/src"),
            package.holds,
            package.must_not
        );
    }
    table + "\n"
}

/// The floors of a house, highest first.
fn floors(house: &House) -> String {
    let names = house.floors.iter().flat_map(|rooms| rooms.iter());
    let longest = names.map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = format!("   +{}+\n", "-".repeat(WIDTH - 5));
    let mut drawing = format!("\n```text\n{line}");
    for (floor, rooms) in house.floors.iter().enumerate().rev() {
        for (index, (name, holds)) in rooms.iter().enumerate() {
            let number = if index == 0 { floor.to_string() } else { String::new() };
            let room = format!("{name:longest$}   {holds}");
            drawing += &format!("{number:>2} | {room:0$} |\n", WIDTH - 7);
        }
        drawing += &line;
    }
    drawing + "```\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House = House {
        directory: "src",
        module: "",
        shown_in: &[],
        floors: &[&[("error", "failures")], &[("bench/api", "a trait"), ("plan", "a plan")]],
    };

    #[test]
    fn draws_the_highest_floor_first() {
        let drawing = floors(&HOUSE);
        let lines: Vec<&str> =
            drawing.lines().map(|line| line.trim_end_matches([' ', '|', '-', '+'])).collect();
        assert_eq!(
            lines,
            [
                "",
                "```text",
                "",
                " 1 | bench/api   a trait",
                "   | plan        a plan",
                "",
                " 0 | error       failures",
                "",
                "```",
                "",
            ]
        );
        assert!(drawing.lines().all(|line| line.len() <= WIDTH), "{drawing}");
    }

    #[test]
    fn rooms_fit_into_their_drawings() {
        for house in PACKAGES.iter().flat_map(Package::houses) {
            for line in floors(house).lines() {
                assert!(line.chars().count() <= WIDTH, "{}: {line}", house.directory);
            }
        }
    }

    #[test]
    fn replaces_a_drawing_between_its_lines() {
        let drawings = Drawings::from([("src", "new\n".to_owned())]);
        let text =
            |drawing: &str| format!("before\n//! {START}src -->\n{drawing}//! {END}\nafter\n");
        let made = text("//! new\n");
        assert_eq!(drawn(&text("//! old\n//! older\n"), &drawings), Ok(made.clone()));
        assert_eq!(drawn(&text(""), &drawings), Ok(made.clone()));
        assert_eq!(drawn(&made, &drawings), Ok(made.clone()));
    }

    #[test]
    fn reports_missing_lines() {
        let drawings = Drawings::from([("src", "new\n".to_owned())]);
        for text in [
            "before\n".to_owned(),
            format!("{START}src -->\nold\n"),
            format!("{START}other -->\n{END}\n"),
            format!("{START}src -->\n{END}\n{START}src -->\n{END}\n"),
        ] {
            assert!(drawn(&text, &drawings).is_err(), "{text}");
        }
    }
}
