//! Manual pages and completion scripts, as packages hold them, and the help texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::LazyLock;

use crate::documents::{self, File, manual, prose, roff, subcommands};
use crate::harness::{self, Command, assert_success, stderr, stdout};
use plan::cli::usage::{Entry, Usage};

fn pages() -> Vec<File> {
    manual::pages().expect("prose for all pages")
}

fn page(name: &str) -> String {
    let path = format!("man/{name}");
    let found = pages().into_iter().find(|(own, _)| *own == path);
    found.expect(name).1
}

/// Returns what each name of the program accepts: `cxidiag`, `cxidiag write-lat`, `cxi_write_lat`.
fn usages() -> Vec<(String, Usage)> {
    let mut usages = vec![("cxidiag".to_owned(), documents::overview())];
    for subcommand in subcommands() {
        usages.push((format!("cxidiag {}", subcommand.name), subcommand.usage));
        if let (Some(name), Some(usage)) = (subcommand.legacy_name, subcommand.legacy_usage) {
            usages.push((name.to_owned(), usage));
        }
    }
    usages
}

/// Whether a program is installed. `tests/run` installs all of them.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdin(Stdio::null()).output().is_ok();
    if !found {
        eprintln!("not tested: {program} is not installed");
    }
    found
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Returns a directory with all files.
fn written() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    documents::write(directory.path()).expect("files");
    directory
}

#[test]
fn prints_usage_as_help() {
    let links = tempfile::tempdir().expect("a temporary directory");
    for (name, usage) in usages() {
        let output = match name.split_once(' ') {
            Some((_, subcommand)) => run(harness::CXIDIAG, &[subcommand, "--help"]),
            None => {
                let link = links.path().join(&name);
                std::os::unix::fs::symlink(harness::CXIDIAG, &link).expect("a symlink");
                run(link.to_str().expect("text"), &["--help"])
            }
        };
        assert_success(&output);
        assert_eq!(stdout(&output), usage.to_string(), "{name}");
    }
}

#[test]
fn accepts_each_option_that_command_lists() {
    for command in subcommands().iter().filter(|own| own.legacy_name.is_none()) {
        let others = command.usage.all_options();
        for entry in others.filter(|entry| entry.long != "version") {
            let value = entry.value.map_or("", |_| "=value");
            let option = format!("--{}{value}", entry.long);
            let output = run(harness::CXIDIAG, &[command.name, &option, "--help"]);
            assert_success(&output);
            assert_eq!(stdout(&output), command.usage.to_string(), "{option}");
        }
    }
}

/// roff interprets nothing in the prose, and keeps the characters that a user types.
#[test]
fn escapes_prose_for_roff() {
    let mut page = roff::Page::new("some-page", 1, "2026-11-21", "cxidiag");
    page.section("TITLE");
    page.prose(
        "One-sided `--no-ll` and *V-1*,\n.hidden \\* \\\\ \"quoted\"\n\n\
         * first\n* second\n\n**term**\n: meaning\n\n\
         ```\n$ it's ~a^b `c`\n\n# last\n```\n\nAfter.\n\n## Sub\n\nEnd",
        false,
    );
    let expected = r#".TH "SOME\-PAGE" 1 "2026-11-21" "cxidiag" "CXI Diagnostics"
.nh
.ad l
.SH TITLE
One\-sided \fB\-\-no\-ll\fP and \fIV\-1\fP,
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

/// The help states the default of each value; a switch has none.
#[test]
fn states_default_of_each_value() {
    // Without them, nothing happens, or another option applies.
    let without = [
        "duration",
        "until",
        "rate",
        "interval",
        "percentiles",
        "output",
        "counters",
        "json",
        "jsonl",
        "openmetrics",
        "csv",
        "label",
        "samples",
        "hdr-log",
        "expect",
        "port-file",
        "load",
        "loopback",
        "bad-nodes",
        "ticket",
        "resume",
        "tx-gpu",
        "rx-gpu",
        "start",
        "stop",
        "fail-on",
    ];
    for (name, usage) in usages() {
        for entry in usage.all_options() {
            let takes_value = entry.value.is_some();
            let may_lack_it = takes_value && without.contains(&entry.long);
            let states = entry.default().is_some() || may_lack_it;
            assert_eq!(states, takes_value, "{name}: --{}", entry.long);
        }
    }
}

#[test]
fn explains_each_option_once_on_its_page() {
    for (name, usage) in usages() {
        let text = page(&format!("{}.1", name.replace(' ', "-")));
        let entries: Vec<&str> = text.split("\n.TP\n").collect();
        for entry in usage.all_options() {
            let tag = roff::option(entry);
            let found: Vec<_> =
                entries.iter().filter_map(|text| text.strip_prefix(&format!("{tag}\n"))).collect();
            assert_eq!(found.len(), 1, "{name}: {tag}");
            assert!(entry.manual.ends_with('.'), "{name}: {tag}");
            if let Some(default) = entry.default() {
                let last = format!("Default: {}.", default.replace('-', "\\-"));
                let found = found[0].replace('-', "\\-");
                assert!(found.contains(&last), "{name}: {tag}: {last}");
            }
        }
    }
}

#[test]
fn has_prose_for_each_subcommand_and_no_other() {
    let mut expected: BTreeSet<String> =
        ["common", "cxidiag", "overview"].map(str::to_owned).into();
    expected.extend(subcommands().iter().map(|tool| tool.name.to_owned()));
    let found: BTreeSet<String> = fs::read_dir(prose::directory())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| path.file_stem().expect("a name").display().to_string())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn orders_sections_as_manual_pages_do() {
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
        let mut in_options = false;
        let titles: Vec<&str> = text
            .lines()
            .filter_map(|line| {
                let section = line.strip_prefix(".SH ");
                in_options = section.map_or(in_options, |title| title == "OPTIONS");
                // The subsections of the options are their groups.
                section.or_else(|| line.strip_prefix(".SS ").filter(|_| !in_options))
            })
            .filter(|title| tool.contains(title))
            .collect();
        let expected: Vec<&str> = match path.as_str() {
            "man/cxidiag.1" => {
                tool.into_iter().filter(|title| !["How to run", "Output"].contains(title)).collect()
            }
            path if path.ends_with(".7") => vec!["NAME", "DESCRIPTION", "SEE ALSO"],
            _ => tool.to_vec(),
        };
        assert_eq!(titles, expected, "{path}");
        assert!(!text.contains(['{', '}']), "{path} has a placeholder left");
        assert!(text.is_ascii(), "{path}");
    }
}

/// A page refers to all pages with the same kind of names, and to `cxidiag(1)`.
#[test]
fn refers_to_other_pages_with_same_names() {
    let pages = pages();
    let name_of = |path: &str| {
        let (name, section) = path.trim_start_matches("man/").rsplit_once('.').expect("a section");
        (name.replace('-', "\\-"), section.to_owned())
    };
    for (path, text) in &pages {
        let (own, own_section) = name_of(path);
        let (_, others) = text.split_once("\n.SH SEE ALSO\n").expect("others");
        assert!(others.contains("\\fBcxi\\-softnic\\fP(1)"), "{path}");
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
            for tool in subcommands().iter().filter(|tool| !of_legacy || tool.legacy_name.is_some())
            {
                let about = tool.usage.about.replace('-', "\\-");
                let is_listed = text.contains(&format!("\n{about}.\n"));
                assert!(is_listed, "{path}: {}", tool.name);
            }
        }
    }
}

#[test]
fn shows_legacy_names_on_their_pages() {
    for subcommand in subcommands() {
        let Some(name) = subcommand.legacy_name else {
            continue;
        };
        let text = page(&format!("{name}.1"));
        let words = format!("cxidiag {}", subcommand.name);
        assert!(!text.contains(&words), "{name}: {words}");
        assert!(text.contains(&format!("\n\\fB{name}\\fP \\fI")), "{name}: synopsis");
        assert!(text.contains(&format!("$ {name} ")), "{name}: example");
    }
}

#[test]
fn renders_pages_without_warnings() {
    if !is_installed("groff") {
        return;
    }
    let directory = written();
    let man = directory.path().join("man");
    let made = fs::read_dir(man).expect("a directory").map(|entry| entry.expect("an entry").path());
    let by_hand = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/man/cxi-softnic.1");
    for path in made.chain([by_hand]) {
        let path = path.to_str().expect("text");
        let output = run("groff", &["-man", "-Tutf8", "-ww", "-rLL=80n", path]);
        assert!(output.status.success() && output.stderr.is_empty(), "{path}: {}", stderr(&output));
        assert!(output.stdout.len() > 1000, "{path}");
    }
}

/// A dash without a backslash becomes a hyphen in some terminals, and lines break at it.
#[test]
fn writes_names_and_options_with_ascii_dashes() {
    let by_hand = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/man/cxi-softnic.1");
    let text = fs::read_to_string(by_hand).expect("a page");
    for (path, text) in pages().into_iter().chain([("cxi-softnic.1".to_owned(), text)]) {
        for line in text.lines().filter(|line| !line.starts_with(".TH ")) {
            assert!(!line.replace("\\-", "").contains('-'), "{path}: {line}");
        }
    }
}

/// The examples run as they are, except for the number of iterations.
#[test]
fn runs_examples_for_one_machine() {
    let pages = pages();
    let lines = pages.iter().flat_map(|(_, text)| text.lines());
    let commands: BTreeSet<String> = lines
        .filter_map(|line| line.strip_prefix("$ cxidiag "))
        .map(|command| command.replace("\\-", "-"))
        // The first command does not end by itself; the others are undecided on a busy machine.
        .filter(|command| {
            let left_out = ["serve ", "survey ", "why "];
            !left_out.iter().any(|name| command.starts_with(name))
        })
        .collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let fabric = harness::Fabric::new();
        let mut arguments: Vec<&str> = command.split(' ').collect();
        if !["check", "devices", "ping", "selftest"].contains(&arguments[0]) {
            arguments.extend(["-n", "20"]);
        }
        assert_success(&fabric.run(&arguments));
    }
}

/// Returns what bash offers for the last of `words`, with `=` behind an option that no blank
/// follows.
fn offered_by_bash(directory: &Path, words: &[&str]) -> String {
    let script = r#"source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        nospace=
        compopt() { [[ $2 != nospace ]] || nospace="="; }
        _cxidiag "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}$nospace""#;
    let file = directory.join("bash/cxidiag");
    let file = file.to_str().expect("text");
    let output = run("bash", &[&["-euc", script, file], words].concat());
    assert!(output.stderr.is_empty(), "{words:?}: {}", stderr(&output));
    stdout(&output).trim_end().to_owned()
}

/// Returns what shells offer for `--cpu` on this machine.
fn cpu_words() -> BTreeSet<&'static str> {
    static LISTS: LazyLock<String> = LazyLock::new(|| {
        let nodes = fs::read_dir("/sys/devices/system/node").into_iter().flatten();
        nodes
            .filter_map(|node| fs::read_to_string(node.ok()?.path().join("cpulist")).ok())
            .chain(fs::read_to_string("/sys/devices/system/cpu/online"))
            .collect()
    });
    LISTS.lines().chain(["auto"]).collect()
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let directory = written();
    let offered = |words: &[&str]| offered_by_bash(directory.path(), words);
    assert_eq!(offered(&["cxidiag", "write-l"]), "write-lat");
    assert_eq!(offered(&["cxidiag", "--l"]), "--list");
    assert_eq!(offered(&["cxidiag", "help", "comp"]), "compare");
    assert_eq!(offered(&["cxidiag", "write-lat", "--js"]), "--json --jsonl");
    assert_eq!(offered(&["cxidiag", "write-lat", "--cs"]), "--csv=");
    let cpus = offered(&["cxidiag", "write-lat", "--cpu", ""]);
    assert_eq!(cpus.split(' ').collect::<BTreeSet<_>>(), cpu_words());
    assert_eq!(offered(&["cxi_read_lat", "--cpu", "=", "au"]), "auto");
    assert_eq!(offered(&["cxidiag", "write-lat", "--no-"]), "--no-idc --no-ll");
    assert_eq!(offered(&["cxi_read_lat", "--no-"]), "--no-ll");
    assert_eq!(offered(&["/usr/bin/cxi_read_lat", "--no-"]), "--no-ll");
    assert!(offered(&["cxidiag", "write-lat", "-d", "so"]).starts_with("soft0 soft1"));
    // The shell splits words at '='.
    assert!(offered(&["cxidiag", "write-lat", "--device", "=", "so"]).starts_with("soft0 soft1"));
    assert!(offered(&["cxidiag", "write-lat", "--device", "="]).contains("soft0 soft1"));
    assert_eq!(offered(&["cxi_atomic_lat", "--atomic-op", "=", "CS"]), "CSWAP");
    assert_eq!(offered(&["cxi_atomic_lat", "-C", "E"]), "EQ");
    // Anything may follow a switch; nothing is offered for a number.
    assert_eq!(offered(&["cxi_atomic_lat", "--fetching", "--fe"]), "--fetching");
    assert_eq!(offered(&["cxi_atomic_lat", "-n", ""]), "");
    assert_eq!(offered(&["cxidiag", "nothing", "-"]), "");
    assert_eq!(offered(&["cxidiag", "devices", "soft1"]), "soft1");
    assert_eq!(offered(&["cxidiag", "compare", "--figure", "b"]), "bw");
    let toml = offered(&["cxidiag", "write-lat", "--libcxi", "=", "Cargo.to"]);
    assert_eq!(toml, "Cargo.toml");
}

/// Each shell offers each option of each subcommand, under each name.
#[test]
fn completes_each_option() {
    let directory = written();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect(name);
    let (zsh, fish) = (read("zsh/_cxidiag"), read("fish/cxidiag.fish"));
    for tool in subcommands() {
        let options: Vec<Entry> = tool.usage.all_options().cloned().collect();
        let forms: Vec<String> = options.iter().map(|own| format!("--{}", own.long)).collect();
        let (_, zsh) = zsh.split_once(&format!("    {}", tool.name)).expect(tool.name);
        let (zsh, _) = zsh.split_once(";;").expect("an end");
        for form in &forms {
            assert!(zsh.contains(form), "zsh: {} {form}", tool.name);
        }
        let condition = format!("__fish_seen_subcommand_from {}'", tool.name);
        assert_in_fish(&fish, &condition, &options);
        let offered = |words: &[&str]| offered_by_bash(directory.path(), words);
        assert_eq!(offered(&["cxidiag", tool.name, "--"]), forms.join(" "));
        if let Some(name) = tool.legacy_name {
            assert_eq!(offered(&[name, "--"]), forms.join(" "));
            let fish = read(&format!("fish/{name}.fish"));
            assert_in_fish(&fish, &format!("complete -c {name} "), &options);
        }
    }
    for (name, _) in usages().iter().filter(|(name, _)| !name.contains(' ')) {
        for line in [zsh.lines().next(), read("bash/cxidiag").lines().last()] {
            assert!(line.expect("a line").contains(name.as_str()), "{name}");
        }
    }
}

/// Asserts that each of `options` has a line with `start` in a script for fish.
#[track_caller]
fn assert_in_fish(script: &str, start: &str, options: &[Entry]) {
    for entry in options {
        let long = format!("-l {} ", entry.long);
        let mut lines = script.lines();
        let found = lines.any(|line| line.contains(start) && line.contains(&long));
        assert!(found, "fish: {start} --{}", entry.long);
    }
}

#[test]
fn zsh_passes_specifications_to_arguments() {
    if !is_installed("zsh") {
        return;
    }
    let directory = written();
    let script = directory.path().join("zsh/_cxidiag");
    let script = script.to_str().expect("text");
    assert_success(&run("zsh", &["-n", script]));
    // The specifications reach _arguments with their quotes removed.
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
    // Without remarks.
    assert!(text.contains("--report-all[Print each sample]\n"), "{text}");
    // `=-`: the value follows after `=`, without a blank.
    assert!(text.contains("\n--json=-["), "{text}");
    assert!(text.contains(":LIST|auto:_cxidiag_cpus\n"), "{text}");
    assert!(text.ends_with(":server:_hosts\n"), "{text}");
    // As a subcommand, the tool is the second word.
    let check = check.replace(
        "service=cxi_atomic_lat",
        "service=cxidiag CURRENT=3; words=(cxidiag atomic-lat --)",
    );
    let output = run("zsh", &["-fc", &check, script]);
    assert_success(&output);
    assert_eq!(stdout(&output), text);
    // It offers what the variable holds.
    let check = r#"_arguments() { :; }
        compadd() { print -l -- ${(P)2} }
        service=cxi_atomic_lat; source $0; _cxidiag_cpus"#;
    let output = run("zsh", &["-fc", check, script]);
    assert_success(&output);
    assert_eq!(stdout(&output).lines().collect::<BTreeSet<_>>(), cpu_words());
}

#[test]
fn fish_completes_subcommands_options_and_values() {
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
    assert_eq!(offered("cxidiag.fish", "cxidiag write-l"), "write-lat");
    assert_eq!(offered("cxidiag.fish", "cxidiag atomic-lat -A CS"), "CSWAP");
    assert_eq!(offered("cxidiag.fish", "cxidiag write-lat --no-"), "--no-idc --no-ll");
    assert_eq!(offered("cxi_read_lat.fish", "cxi_read_lat --no-"), "--no-ll");
    assert_eq!(offered("cxi_read_lat.fish", "cxi_read_lat -d so"), "soft0 soft1 soft2 soft3");
    let cpus = offered("cxidiag.fish", "cxidiag write-lat --cpu ");
    assert_eq!(cpus.split(' ').collect::<BTreeSet<_>>(), cpu_words());
    assert_eq!(offered("cxidiag.fish", "cxidiag write-lat --cs"), "--csv --csv=");
    assert_eq!(offered("cxidiag.fish", "cxidiag write-lat --json=Cargo.to"), "--json=Cargo.toml");
    assert!(offered("cxidiag.fish", "cxidiag compare --figure p").starts_with("p50 "));
    assert_eq!(offered("cxidiag.fish", "cxidiag help comp"), "compare");
}
