//! Rules about documents: they name what exists, and what exists is documented.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use explain::table::{Row, TABLE};
use facts::advice::{EXPLANATIONS, What};
use plan::tools::TOOLS;
use why::causes::cause::Sign;
use why::causes::procedure::TESTS;
use why::causes::table::CAUSES;

use super::houses::{PACKAGES, Package};
use super::{files, read, root};

/// One registration is enough: everything else that must know a tool is missed here.
#[test]
fn each_tool_is_tested_and_documented() {
    let mut missing = Vec::new();
    for tool in TOOLS {
        let tests = format!("tests/tools/{}.rs", tool.name.replace('-', "_"));
        if !root().join(&tests).exists() {
            missing.push(tests);
        }
        for (page, text) in [
            ("README.md", format!("| `{}` |", tool.name)),
            ("docs/measuring.md", format!("One iteration of `{}`", tool.name)),
        ] {
            if !read(page).contains(&text) {
                missing.push(format!("{page}: {text}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Each defect of the legacy tools that is known (tools.md 12, node-tools.md 4.4) has an answer.
#[test]
fn differences_name_each_defect_of_the_legacy_tools() {
    let page = read("docs/differences.md");
    let words: Vec<&str> = page.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let numbers = (1..=33).map(|number| format!("T{number}"));
    for number in numbers.chain((20..=24).map(|number| format!("N{number}"))) {
        assert!(words.contains(&number.as_str()), "{number}");
    }
}

/// What the map for contributors names is there.
#[test]
fn the_map_names_what_there_is() {
    let page = read("docs/architecture.md");
    // Paths are relative to the root, to a package or its sources, or to a room.
    let mut rooms = vec![root().to_owned()];
    for house in PACKAGES.iter().flat_map(Package::houses) {
        let directory = root().join(house.directory);
        let names = house.floors.concat();
        rooms.extend(names.iter().map(|(room, _)| directory.join(room)));
        rooms.extend(directory.parent().map(Path::to_owned));
        rooms.push(directory);
    }
    let is_path =
        |word: &&str| (word.ends_with(".rs") || word.ends_with('/')) && !word.contains(['*', ' ']);
    let paths: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_path).collect();
    assert!(paths.len() > 40, "{paths:?}");
    for path in paths {
        let found = rooms.iter().any(|room| room.join(path).exists());
        assert!(found, "docs/architecture.md: {path}");
    }
}

/// The tables of docs/troubleshooting.md match the program.
/// `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes them.
#[test]
fn troubleshooting_shows_the_table_of_explanations() {
    const PAGE: &str = "docs/troubleshooting.md";
    let page = read(PAGE);
    let (intro, _) = page.split_once("\n## ").expect("a first section");
    let mut made = intro.to_owned();
    for (title, column, belongs) in [
        (
            "What the program finds out",
            "`situation` and message",
            (|what| matches!(what, What::Found(_))) as fn(&What) -> bool,
        ),
        ("What libcxi refuses", "call and error", |what| matches!(what, What::Call(..))),
        ("What the NIC reports", "return code", |what| matches!(what, What::Code(_))),
    ] {
        made += &format!("\n## {title}\n\n| {column} | cause | what to check and do |\n");
        made += "|---|---|---|\n";
        for row in EXPLANATIONS.iter().filter(|row| belongs(&row.what)) {
            let name = match row.what {
                What::Found(situation) => format!("`{}`: ", situation.name()),
                _ => String::new(),
            };
            made += &format!("| {name}{} | {} | {} |\n", row.what, row.cause, row.remedy);
        }
    }
    made += "\n## What logs of jobs say\n\n[`cxidiag explain`](explain.md) finds \
             these messages in logs. `docs/reference/messages.md` of\nthe sources has their forms \
             and where they come from.\n\n";
    made += "| message | what happened | causes | what to check and do |\n|---|---|---|---|\n";
    for row in TABLE.rows.iter().filter(|row| !row.forms.is_empty()) {
        let says = row.says.last().expect("each message says something");
        let causes: Vec<&str> = row.causes.iter().map(|cause| cause.text).collect();
        let action = row.action.unwrap_or_default();
        let text = row.forms[0].fragment.replace('|', "\\|");
        made += &format!("| `{text}` | {says} | {} | {action} |\n", causes.join("; "));
    }
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), &made).expect("a writable page");
    } else {
        assert!(page == made, "{PAGE} is out of date");
    }
}

/// docs/reference/messages.md has each message and return code of `messages.txt`, with its texts
/// and its role. `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy` writes them into the lines that are
/// there.
#[test]
fn reference_has_each_message_of_explain() {
    const PAGE: &str = "docs/reference/messages.md";
    let page = read(PAGE);
    let mut missing: Vec<&str> = TABLE.rows.iter().map(|row| row.id).collect();
    missing.retain(|id| !matches!(*id, "OWN" | "FABRIC"));
    let mut made = String::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let id = cells[0].trim_start_matches("| ");
        let message = TABLE.rows.iter().find(|row| row.id == id && !row.forms.is_empty());
        let code = cells.get(1).and_then(|name| {
            let is_code = |row: &&Row| row.forms.is_empty() && row.id == *name && row.level == id;
            TABLE.rows.iter().find(is_code)
        });
        missing.retain(|id| ![message, code].iter().flatten().any(|row| row.id == *id));
        let columns = match (message, code) {
            (Some(row), _) => {
                let texts = row.forms.iter().map(|form| form.fragment.replace('|', "\\|"));
                let texts: Vec<String> = texts.map(|text| format!("`{text}`")).collect();
                vec![id.to_owned(), texts.join("; "), row.role.name().to_owned()]
            }
            (None, Some(row)) => {
                [id, row.id, row.role.name(), row.origin].map(str::to_owned).to_vec()
            }
            (None, None) => Vec::new(),
        };
        let rest = cells.get(columns.len()..).unwrap_or_default();
        let cells: Vec<&str> =
            columns.iter().map(String::as_str).chain(rest.iter().copied()).collect();
        let start = if columns.is_empty() { "" } else { "| " };
        made += &format!("{start}{}\n", cells.join(" | "));
    }
    assert_eq!(missing, [""; 0], "{PAGE} lacks rows");
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), &made).expect("a writable page");
    } else {
        assert!(page == made, "{PAGE} is out of date");
    }
}

/// The tables of docs/causes.md match the program. `CXIDIAG_UPDATE_DOCS=1 cargo test --test tidy`
/// writes them.
#[test]
fn causes_shows_the_tables_of_causes_and_tests() {
    const PAGE: &str = "docs/causes.md";
    let page = read(PAGE);
    let (intro, rest) = page.split_once("\n## Causes\n\n").expect("a section of causes");
    let (_, rest) = rest.split_once("\n\n").expect("an end of the table of causes");
    let (words, rest) = rest.split_once("\n## Tests\n\n").expect("a section of tests");
    let (_, end) = rest.split_once("\n\n").expect("an end of the table of tests");
    let mut made = format!(
        "{intro}\n## Causes\n\n\
| id | cause | proved by | decisive test | what to do | who |\n|---|---|---|---|---|---|\n"
    );
    for cause in CAUSES {
        let signs = cause.signs.iter().map(|sign| match sign {
            Sign::Wrong(code) => format!("`{code}`"),
            Sign::Bad(code) => format!("`{code}` bad"),
            Sign::BadAlone(code) => format!("`{code}` bad, unlike most"),
            Sign::Differs(code) => format!("`{code}` differs"),
            Sign::Less(code) => format!("`{code}` less"),
            Sign::More(code, least) => format!("`{code}` more, above {:.0} us", least * 1e6),
            Sign::Cures(column) => format!("{} cures", column.code()),
        });
        let decisive = cause.expected.iter().filter(|(_, expected)| expected.is_decisive());
        let decisive =
            decisive.map(|(column, expected)| format!("{} {}", column.code(), expected.words()));
        let mut tests: Vec<String> = decisive.collect();
        if cause.fails {
            tests.push("operations fail".into());
        }
        made += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            cause.id,
            cause.what,
            signs.collect::<Vec<_>>().join(", "),
            tests.join("; "),
            cause.advice,
            cause.by.name(),
        );
    }
    made += "| | not measured: CPUs busy | | | measure again when the CPUs are free | user |\n";
    made += &format!("\n{words}\n## Tests\n\n| code | measures | tool |\n|---|---|---|\n");
    made += "| S | the culprit and a good NIC as in the survey | the tool of the survey |\n";
    for test in &TESTS {
        let arguments = test.arguments.join(" ");
        made += &format!(
            "| {:?} | {} | `{} --size={} {arguments}` |\n",
            test.code, test.name, test.tool, test.size_bytes
        );
    }
    made += "| M | copies of memory on four to eight CPUs near the NIC | none |\n";
    made += &format!("\n{end}");
    if std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), &made).expect("a writable page");
    } else {
        assert!(page == made, "{PAGE} is out of date");
    }
}

/// The page of the software NIC explains the words that the READMEs of `softnic` and `topology`
/// list, and the manual page names the words of `softnic`.
#[test]
fn software_nic_page_explains_the_words_of_its_variables() {
    let page = read("docs/software-nic-reference.md");
    let manual = read("packaging/man/cxi-softnic.1").replace("\\-", "-");
    let readme = read("ffi/softnic/README.md");
    let items = block(&readme, "\nCXIDIAG_LINK\n").split_once("CXIDIAG_FAULTS");
    let (link, faults) = items.expect("both variables");
    let is_for_one_nic = |form: &str| form.starts_with("nic=");
    for (variable, listed) in [("CXIDIAG_LINK", link), ("CXIDIAG_FAULTS", faults)] {
        let rows = page.split("\n\n").filter_map(|table| {
            let (head, rows) = table.split_once("\n|---|")?;
            head.trim().starts_with(&format!("| `{variable}` |")).then_some(rows)
        });
        let explained: BTreeSet<&str> = rows
            .flat_map(str::lines)
            .filter_map(|row| row.strip_prefix("| ")?.split(" | ").next())
            .flat_map(|column| column.split('`').skip(1).step_by(2))
            .filter(|form| !is_for_one_nic(form))
            .collect();
        let listed = listed.split_whitespace().filter(|word| word.contains('='));
        let listed: BTreeSet<&str> = listed.filter(|form| !is_for_one_nic(form)).collect();
        assert_eq!(explained, listed, "{variable}");
        for form in listed {
            let name = form.split_inclusive('=').next().expect("a name");
            assert!(manual.contains(name), "packaging/man/cxi-softnic.1: {name}");
        }
    }
    // The first column of the tables of items and faults.
    let tables = page.find("| `dragonfly ").zip(page.find("The addresses of the NICs"));
    let tables = &page[tables.map(|(begin, end)| begin..end).expect("tables of items")];
    let explained: Vec<&str> = tables
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .flat_map(|column| column.split(['`', ' ', ',']))
        .collect();
    let readme = read("ffi/topology/README.md");
    let listed = block(&readme, "\ndragonfly ").split_whitespace();
    let names = listed.filter_map(|word| word.split_inclusive('=').next());
    // Words in capitals stand for values.
    for name in names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())) {
        assert!(
            explained.iter().any(|word| word.starts_with(name)),
            "docs/software-nic-reference.md: {name}"
        );
    }
}

/// The text after `start`, to the end of its block of code.
fn block<'a>(page: &'a str, start: &str) -> &'a str {
    let (_, rest) = page.split_once(start).expect(start);
    rest.split("```").next().unwrap_or_default()
}

/// The manual page and the docs name every environment variable that the software NIC reads.
#[test]
fn variables_of_the_software_nic_are_documented() {
    let mut variables = BTreeSet::new();
    for path in files("ffi/softnic/src", "rs") {
        let text = fs::read_to_string(&path).expect("text");
        let quoted = text.split('"').skip(1).step_by(2);
        let is_name = |word: &&str| {
            word.starts_with("CXIDIAG_") && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        variables.extend(quoted.filter(is_name).map(str::to_owned));
    }
    assert!(variables.len() >= 6, "{variables:?}");
    let help = "ffi/softnic/src/bin/cxi-softnic/main.rs";
    for page in ["docs/software-nic-reference.md", "packaging/man/cxi-softnic.1", help] {
        for variable in &variables {
            assert!(read(page).contains(variable.as_str()), "{page} does not name {variable}");
        }
    }
}
