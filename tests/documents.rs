//! Manual pages and completion, as packages hold them, and the help texts that they are made from.

#[path = "../packaging/documents/mod.rs"]
mod documents;
mod harness;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use documents::completion::{Values, values};
use documents::{File, manual, prose, roff, subcommands};
use harness::{assert_success, stderr, stdout};

fn pages() -> Vec<File> {
    manual::pages().expect("prose for all pages")
}

fn page(name: &str) -> String {
    let (_, text) = pages()
        .into_iter()
        .find(|(path, _)| path == &format!("man/{name}"))
        .expect(name);
    text
}

/// Whether a program is installed. `tests/run` sees to it.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .is_ok();
    if !found {
        eprintln!("{program} is not installed: not tested with it");
    }
    found
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// All files in a directory.
fn written() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    documents::write(directory.path()).expect("files");
    directory
}

#[test]
fn help_is_that_of_the_program_and_fits_80_columns() {
    let links = tempfile::tempdir().expect("a temporary directory");
    let mut texts = vec![run(harness::CXIDIAG, &["--help"])];
    for subcommand in subcommands() {
        texts.push(run(harness::CXIDIAG, &[subcommand.name, "--help"]));
        if let Some(name) = subcommand.legacy_name {
            let link = links.path().join(name);
            std::os::unix::fs::symlink(harness::CXIDIAG, &link).expect("a symlink");
            texts.push(run(link.to_str().expect("text"), &["--help"]));
        }
    }
    assert!(texts.len() >= 11);
    for output in &texts {
        assert_success(output);
        for line in stdout(output).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

/// What the parser of help texts makes of each form that there is.
#[test]
fn help_texts_are_read_back() {
    let text = "\
What it does

Usage:
  tool ADDR [OPTIONS]
                          Explained

Options:
  -s, --size=MIN[:MAX]    Sizes (default: 8), or
                          more; and so on
      --json[=FILE]       Results
      --a-long-name-of-an-option=VALUE
                          Below it
  -b, --both              A switch

Some words:
  A, B,
  C

The end.
";
    let usage = documents::usage::Usage::read(text);
    assert_eq!(usage.about, "What it does");
    assert_eq!(usage.synopsis, ["tool ADDR [OPTIONS]"]);
    assert_eq!(usage.list("Some words"), ["A", "B", "C"]);
    let read: Vec<String> = usage
        .options
        .iter()
        .map(|entry| {
            let syntax = roff::option(
                entry.short,
                &entry.long,
                entry.value.as_deref(),
                entry.value_is_optional,
            );
            format!("{syntax} {:?} {}", entry.default(), entry.help)
        })
        .collect();
    let expected = [
        r#"\fB\-s\fP, \fB\-\-size\fP=\fIMIN[:MAX]\fP Some("8") Sizes (default: 8), or more; and so on"#,
        r"\fB\-\-json\fP[=\fIFILE\fP] None Results",
        r"\fB\-\-a\-long\-name\-of\-an\-option\fP=\fIVALUE\fP None Below it",
        r"\fB\-b\fP, \fB\-\-both\fP None A switch",
    ];
    assert_eq!(read, expected);
    let summary = documents::usage::summary(&usage.options[0].help);
    assert_eq!(summary, "Sizes");
}

/// Nothing in the prose is taken for a request of roff, and what is to be typed is not made pretty.
#[test]
fn prose_becomes_roff() {
    let mut page = roff::Page::new("some-page", 1, "2026-11-21", "cxidiag");
    page.section("TITLE");
    page.prose(
        "One-sided `--no-ll` and *V-1*,\n.hidden \\* \\\\ \"quoted\"\n\n\
         * first\n* second\n\n**term**\n: meaning\n\n```\n$ it's ~a^b `c`\n\n# last\n```\n\nAfter.\n\n## Sub\n\nEnd",
        false,
    );
    let expected = r#".TH "SOME\-PAGE" 1 "2026-11-21" "cxidiag" "CXI Diagnostics"
.nh
.ad l
.SH TITLE
One-sided \fB\-\-no\-ll\fP and \fIV-1\fP,
\&.hidden * \e \(dqquoted\(dq
.IP \(bu 2
first
.IP \(bu 2
second
.TP
\fBterm\fP
meaning
.PP
.RS 4
.nf
$ it\(aqs \(tia\(hab \(gac\(ga

# last
.fi
.RE
.PP
After.
.SS Sub
End
"#;
    assert_eq!(page.finish(), expected);
}

/// The help shows what is used where an option is not given; switches have no default.
#[test]
fn help_shows_defaults() {
    for subcommand in subcommands() {
        // What ends in nothing, or in another option, where it is not given.
        let without = [
            "duration", "json", "csv", "hdr-log", "expect", "record", "tx-gpu", "rx-gpu",
        ];
        for entry in &subcommand.usage.options {
            let shown = entry.default().is_some() || without.contains(&entry.long.as_str());
            assert_eq!(
                shown,
                entry.value.is_some(),
                "{}: --{}",
                subcommand.name,
                entry.long
            );
        }
    }
}

#[test]
fn each_option_has_an_entry_in_the_manual() {
    for subcommand in subcommands() {
        let names = [
            Some(format!("cxidiag-{}", subcommand.name)),
            subcommand.legacy_name.map(str::to_owned),
        ];
        for name in names.into_iter().flatten() {
            let text = page(&format!("{name}.1"));
            let entries = text.split("\n.TP\n");
            let tags: Vec<&str> = entries.filter_map(|entry| entry.lines().next()).collect();
            for entry in &subcommand.usage.options {
                let tag = roff::option(
                    entry.short,
                    &entry.long,
                    entry.value.as_deref(),
                    entry.value_is_optional,
                );
                let found = tags.iter().filter(|found| **found == tag).count();
                assert_eq!(found, 1, "{name}: {tag}");
                if let Some(default) = entry.default() {
                    let shown = format!("Default: {default}");
                    assert!(text.contains(&shown), "{name}: {shown}");
                }
            }
        }
    }
}

#[test]
fn each_entry_of_the_manual_is_an_option() {
    let options = prose::read("options").expect("options.md");
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let overview = documents::overview();
    let program = overview.options.iter().map(|entry| ("cxidiag", entry));
    let subcommands = subcommands();
    let all = subcommands
        .iter()
        .flat_map(|tool| tool.usage.options.iter().map(|entry| (tool.name, entry)));
    for (name, entry) in all.chain(program) {
        let text = manual::option_prose(&options, entry, name);
        used.insert(text.unwrap_or_else(|| panic!("no section '# --{}'", entry.long)));
    }
    for (title, text) in &options.sections {
        assert!(
            used.contains(text.trim()),
            "docs/manual/options.md: no option of '# {title}'"
        );
        let Some((long, names)) = title.split_once(" of ") else {
            continue;
        };
        // A section of its own is for tools that take the option.
        for name in names.split(", ") {
            let taken = subcommands
                .iter()
                .find(|tool| tool.name == name)
                .map_or(&overview, |tool| &tool.usage);
            let takes = taken
                .options
                .iter()
                .any(|entry| format!("--{}", entry.long) == long);
            assert!(takes, "docs/manual/options.md: '# {title}'");
        }
    }
}

#[test]
fn each_file_of_prose_is_of_a_subcommand() {
    let mut expected: BTreeSet<String> = ["common", "options", "cxidiag", "diagnostics"]
        .map(str::to_owned)
        .into();
    expected.extend(subcommands().iter().map(|tool| tool.name.to_owned()));
    let found: BTreeSet<String> = std::fs::read_dir(prose::directory())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_str()
                .expect("text")
                .to_owned()
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn pages_have_the_sections_of_a_manual_in_their_order() {
    let tool = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "How to run",
        "Output",
        "OPTIONS",
        "EXAMPLES",
        "EXIT STATUS",
        "ENVIRONMENT",
        "SEE ALSO",
    ];
    for (path, text) in pages() {
        let titles: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix(".SH ").or(line.strip_prefix(".SS ")))
            .filter(|title| tool.contains(title))
            .collect();
        let expected: Vec<&str> = match path.as_str() {
            "man/cxidiag.1" => tool
                .into_iter()
                .filter(|title| !["How to run", "Output"].contains(title))
                .collect(),
            path if path.ends_with(".7") => vec!["NAME", "DESCRIPTION", "SEE ALSO"],
            _ => tool.to_vec(),
        };
        assert_eq!(titles, expected, "{path}");
        assert!(!text.contains(['{', '}']), "{path} has a placeholder left");
        assert!(text.is_ascii(), "{path}");
    }
}

/// A page ends with all others of its family.
#[test]
fn pages_name_each_other() {
    let pages = pages();
    let name_of = |path: &str| {
        let (name, section) = path
            .trim_start_matches("man/")
            .rsplit_once('.')
            .expect("a section");
        (name.replace('-', "\\-"), section.to_owned())
    };
    for (path, text) in &pages {
        let (own, own_section) = name_of(path);
        let (_, others) = text.split_once("\n.SH SEE ALSO\n").expect("others");
        assert!(others.contains("\\fBcxi\\-softnic\\fP(7)"), "{path}");
        let of_legacy = own.starts_with("cxi_");
        for (other, _) in &pages {
            let (name, section) = name_of(other);
            let is_wanted =
                name == "cxidiag" && section == "1" || name.starts_with("cxi_") == of_legacy;
            let is_self = (&name, &section) == (&own, &own_section);
            let is_named = others.contains(&format!("\\fB{name}\\fP({section})"));
            assert_eq!(is_named, is_wanted && !is_self, "{path}: {other}");
        }
        if own_section == "7" || own == "cxidiag" {
            // Commands have no legacy name.
            for tool in subcommands()
                .iter()
                .filter(|tool| !of_legacy || tool.legacy_name.is_some())
            {
                assert!(
                    text.contains(&format!("\n{}.\n", tool.usage.about)),
                    "{path}: {}",
                    tool.name
                );
            }
        }
    }
}

/// A page under a legacy name speaks of that name.
#[test]
fn pages_under_legacy_names_show_them() {
    for subcommand in subcommands() {
        let Some(name) = subcommand.legacy_name else {
            continue;
        };
        let text = page(&format!("{name}.1"));
        let words = format!("cxidiag {}", subcommand.name);
        assert!(!text.contains(&words), "{name}: {words}");
        assert!(
            text.contains(&format!("\n\\fB{name}\\fP \\fI")),
            "{name}: synopsis"
        );
        assert!(text.contains(&format!("$ {name} ")), "{name}: example");
    }
}

#[test]
fn pages_render_without_warnings() {
    if !is_installed("groff") {
        return;
    }
    let directory = written();
    let man = directory.path().join("man");
    let made = std::fs::read_dir(man)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    let by_hand = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/man/cxi-softnic.7");
    for path in made.chain([by_hand]) {
        let path = path.to_str().expect("text");
        let output = run("groff", &["-man", "-Tutf8", "-ww", "-rLL=80n", path]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{path}: {}",
            stderr(&output)
        );
        assert!(output.stdout.len() > 1000, "{path}");
    }
}

/// Examples for one machine work as they stand, but for how long they take.
#[test]
fn examples_without_hardware_run() {
    let mut commands = BTreeSet::new();
    for (_, text) in pages() {
        for line in text.lines() {
            if let Some(command) = line.strip_prefix("$ cxidiag ") {
                commands.insert(command.replace("\\-", "-"));
            }
        }
    }
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let fabric = harness::Fabric::new();
        let mut arguments: Vec<&str> = command.split(' ').collect();
        if arguments[0] != "devices" {
            arguments.extend(["-n", "20"]);
        }
        assert_success(&fabric.run(&arguments));
    }
}

#[test]
fn values_are_offered_where_they_are_known() {
    let known = |tool: &str, long: &str| {
        let subcommands = subcommands();
        let tool = subcommands.iter().find(|own| own.name == tool).expect(tool);
        let entry = tool.usage.options.iter().find(|entry| entry.long == long);
        values(&tool.usage, entry.expect(long))
    };
    assert_eq!(known("write-lat", "device"), Values::Devices);
    assert_eq!(known("write-lat", "libcxi"), Values::Files);
    assert_eq!(known("write-lat", "iters"), Values::Free);
    let words = |words: &str| Values::Words(words.split(' ').map(str::to_owned).collect());
    assert_eq!(known("atomic-lat", "cswap-op"), words("EQ NE LE LT GE GT"));
    for long in ["atomic-op", "atomic-type"] {
        assert!(matches!(known("atomic-lat", long), Values::Words(words) if words.len() >= 12));
    }
}

/// What bash offers for the last of `words`.
fn offered_by_bash(directory: &Path, words: &[&str]) -> String {
    let script = r#"source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() { :; }
        _cxidiag "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}""#;
    let file = directory.join("bash/cxidiag");
    let file = file.to_str().expect("text");
    let output = run("bash", &[&["-euc", script, file], words].concat());
    assert!(output.stderr.is_empty(), "{words:?}: {}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let directory = written();
    let offered = |words: &[&str]| offered_by_bash(directory.path(), words);
    assert_eq!(offered(&["cxidiag", "wr"]), "write-lat");
    assert_eq!(offered(&["cxidiag", "--l"]), "--list");
    assert_eq!(
        offered(&["cxidiag", "write-lat", "--no-"]),
        "--no-idc --no-ll"
    );
    assert_eq!(offered(&["cxi_read_lat", "--no-"]), "--no-ll");
    assert_eq!(offered(&["/usr/bin/cxi_read_lat", "--no-"]), "--no-ll");
    assert!(offered(&["cxidiag", "write-lat", "-d", "so"]).starts_with("soft0 soft1"));
    // The shell splits words at '='.
    assert!(offered(&["cxidiag", "write-lat", "--device", "=", "so"]).starts_with("soft0 soft1"));
    assert!(offered(&["cxidiag", "write-lat", "--device", "="]).contains("soft0 soft1"));
    assert_eq!(
        offered(&["cxi_atomic_lat", "--atomic-op", "=", "CS"]),
        "CSWAP"
    );
    assert_eq!(offered(&["cxi_atomic_lat", "-C", "E"]), "EQ");
    // A switch is followed by anything, a number by nothing that could be guessed.
    assert_eq!(
        offered(&["cxi_atomic_lat", "--fetching", "--fe"]),
        "--fetching"
    );
    assert_eq!(offered(&["cxi_atomic_lat", "-n", ""]), "");
    assert_eq!(offered(&["cxidiag", "nothing", "-"]), "");
    let toml = offered(&["cxidiag", "write-lat", "--libcxi", "=", "Cargo.to"]);
    assert_eq!(toml, "Cargo.toml");
}

/// Each option of each subcommand is offered, under each name.
#[test]
fn completion_knows_all_options() {
    let directory = written();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
    let (bash, zsh) = (read("bash/cxidiag"), read("zsh/_cxidiag"));
    for tool in subcommands() {
        let mut fishes = vec![(
            read("fish/cxidiag.fish"),
            format!("__fish_seen_subcommand_from {}'", tool.name),
        )];
        if let Some(name) = tool.legacy_name {
            fishes.push((
                read(&format!("fish/{name}.fish")),
                format!("complete -c {name} "),
            ));
            assert!(zsh.lines().next().expect("a line").contains(name));
            assert!(bash.lines().last().expect("a line").contains(name));
        }
        let options: Vec<String> = tool
            .usage
            .options
            .iter()
            .map(|entry| format!("--{}", entry.long))
            .collect();
        let offered = offered_by_bash(directory.path(), &["cxidiag", tool.name, "--"]);
        assert_eq!(offered, options.join(" "));
        let (_, zsh) = zsh
            .split_once(&format!("    {}", tool.name))
            .expect(tool.name);
        let (zsh, _) = zsh.split_once(";;").expect("an end");
        for entry in &tool.usage.options {
            assert!(
                zsh.contains(&format!("--{}", entry.long)),
                "zsh: {} --{}",
                tool.name,
                entry.long
            );
            for (fish, start) in &fishes {
                let found = fish.lines().any(|line| {
                    line.contains(start) && line.contains(&format!("-l {} ", entry.long))
                });
                assert!(found, "fish: {start} --{}", entry.long);
            }
        }
    }
}

#[test]
fn zsh_takes_its_script() {
    if !is_installed("zsh") {
        return;
    }
    let directory = written();
    let script = directory.path().join("zsh/_cxidiag");
    let script = script.to_str().expect("text");
    assert_success(&run("zsh", &["-n", script]));
    // The options reach _arguments as it wants them.
    let check = r#"_arguments() { shift 2; print -l -- "$@" }
        service=cxi_atomic_lat; source $0"#;
    let output = run("zsh", &["-fc", check, script]);
    assert_success(&output);
    let text = stdout(&output);
    assert!(
        text.contains("(-C --cswap-op)--cswap-op=[Comparison of CSWAP]:CMP:(EQ NE LE LT GE GT)\n"),
        "{text}"
    );
    assert!(text.contains("(-C --cswap-op)-C+["), "{text}");
    assert!(text.contains("--fetching["), "{text}");
    assert!(text.ends_with(":server:_hosts\n"), "{text}");
    // As a subcommand, the tool is the second word.
    let check = check.replace(
        "service=cxi_atomic_lat",
        "service=cxidiag CURRENT=3; words=(cxidiag atomic-lat --)",
    );
    let output = run("zsh", &["-fc", &check, script]);
    assert_success(&output);
    assert_eq!(stdout(&output), text);
}

#[test]
fn fish_completes() {
    if !is_installed("fish") {
        return;
    }
    let directory = written();
    let home = tempfile::tempdir().expect("a temporary directory");
    let offered = |script: &str, line: &str| {
        let script = directory.path().join("fish").join(script);
        let output = Command::new("fish")
            .env("HOME", home.path())
            .arg("--no-config")
            .args(["-c", "source $argv[1]; complete -C $argv[2]"])
            .arg(script)
            .arg(line)
            .output()
            .expect("fish starts");
        assert!(output.stderr.is_empty(), "{line}: {}", stderr(&output));
        let text = stdout(&output);
        let words = text.lines().filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(offered("cxidiag.fish", "cxidiag wr"), "write-lat");
    assert_eq!(offered("cxidiag.fish", "cxidiag atomic-lat -A CS"), "CSWAP");
    assert_eq!(
        offered("cxidiag.fish", "cxidiag write-lat --no-"),
        "--no-idc --no-ll"
    );
    assert_eq!(
        offered("cxi_read_lat.fish", "cxi_read_lat --no-"),
        "--no-ll"
    );
    assert_eq!(
        offered("cxi_read_lat.fish", "cxi_read_lat -d so"),
        "soft0 soft1 soft2 soft3"
    );
}
