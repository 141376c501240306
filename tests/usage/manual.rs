//! Manual pages and completion scripts, as packages hold them, and the help texts.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::LazyLock;

use clap_mangen::roff::Roff;

use crate::documents::{self, File, manual, prose, roff, subcommands};
use crate::harness::terminal::{shown, terminal};
use crate::harness::{self, Command, assert_success, stderr, stdout};
use cli::usage::Usage;
use cxidiag::command::{COMMANDS, LEGACY_COMMANDS};

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

/// A directory with all files.
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
    let commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    for command in subcommands().iter().filter(|own| commands.contains(&own.name)) {
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

/// roff interprets nothing in the prose.
#[test]
fn turns_forms_of_prose_into_roff() {
    let mut page = Roff::new();
    roff::add_prose(
        page.control("SH", ["TITLE"]),
        "One-sided `--no-ll` and *V-1*,\n.hidden \"quoted\"\n\n\
         * first\n* second\n\n**term**\n: meaning\n\n\
         ```\n$ it's a \\\n\n# last\n```\n\nAfter.\n\n## Sub\n\nEnd",
    );
    let expected = r#".SH TITLE
.PP
One\-sided \fB\-\-no\-ll\fR and \fIV\-1\fR,
\&.hidden "quoted"
.IP \(bu 2
first
.IP \(bu 2
second
.TP
\fBterm\fR
meaning
.PP
.RS 4
.nf
$ it\*(Aqs a \\

# last
.fi
.RE
.PP
After.
.SS Sub
.PP
End
"#;
    assert_eq!(page.render(), Roff::new().render() + expected);
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
        "probe",
        "pause-file",
        "load",
        "loopback",
        "bad-nodes",
        "ticket",
        "resume",
        "tx-gpu",
        "rx-gpu",
        "start",
        "trace",
        "stop",
        "fail-on",
        "nids",
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
        let text =
            page(&format!("{}.1", name.replace(' ', "-"))).replace("\\*(Aq", "'").replace('\\', "");
        let entries: Vec<&str> = text.split("\n.TP\n").collect();
        for entry in usage.all_options() {
            let name_of_it = format!("fB--{}fR", entry.long);
            let tags = entries.iter().filter_map(|text| text.split_once('\n'));
            let mut found = tags.filter(|(tag, _)| {
                let (_, rest) = tag.split_once(&name_of_it).unwrap_or(("", "x"));
                rest.is_empty() || rest.starts_with([' ', '['])
            });
            let (_, explanation) = found.next().unwrap_or_else(|| panic!("{name}: {}", entry.long));
            assert!(found.next().is_none(), "{name}: {}", entry.long);
            let last =
                entry.default().map_or(String::new(), |default| format!(" Default: {default}."));
            let explanation = explanation.lines().next().expect("a line");
            assert!(explanation.ends_with(&last), "{name}: {}: {explanation}", entry.long);
            assert!(explanation.ends_with(['.', '?']), "{name}: {explanation}");
        }
    }
}

#[test]
fn has_prose_for_each_subcommand_and_no_other() {
    let mut expected: BTreeSet<String> =
        ["common", "cxidiag", "overview"].map(str::to_owned).into();
    expected.extend(subcommands().iter().map(|tool| tool.name.to_owned()));
    expected.extend(LEGACY_COMMANDS.iter().map(|legacy| legacy.command.name.to_owned()));
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
            .map(|title| title.trim_matches('"'))
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
        let (_, others) = text.split_once("\n.SH \"SEE ALSO\"\n").expect("others");
        assert!(others.contains("\\fBcxi\\-softnic\\fR(1)"), "{path}");
        let is_legacy = own.starts_with("cxi_");
        for (other, _) in &pages {
            let (name, section) = name_of(other);
            let is_wanted =
                name == "cxidiag" && section == "1" || name.starts_with("cxi_") == is_legacy;
            let is_self = (&name, &section) == (&own, &own_section);
            let is_named = others.contains(&format!("\\fB{name}\\fR({section})"));
            assert_eq!(is_named, is_wanted && !is_self, "{path}: {other}");
        }
        if own_section == "7" || own == "cxidiag" {
            // Commands have no legacy name.
            for tool in subcommands().iter().filter(|tool| !is_legacy || tool.legacy_name.is_some())
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
        let words = format!("cxidiag {}", subcommand.name).replace('-', "\\-");
        assert!(!text.contains(&words), "{name}: {words}");
        assert!(text.contains(&format!("\n\\fB{name}\\fR [")), "{name}: synopsis");
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
        if !["check", "devices", "link", "ping", "selftest"].contains(&arguments[0]) {
            arguments.extend(["-n", "20"]);
        }
        assert_success(&fabric.run(&arguments));
    }
}

/// A directory in which `cxidiag` is the program, and a command that finds it there.
fn shell(name: &str) -> (tempfile::TempDir, Command) {
    let directory = written();
    let program = directory.path().join("cxidiag");
    std::os::unix::fs::symlink(harness::CXIDIAG, program).expect("a symlink");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{}:{path}", directory.path().display()));
    command.env("HOME", directory.path());
    (directory, command)
}

/// Returns what bash offers for the last of `words`, which it has split at `=`.
fn offered_by_bash(words: &[&str]) -> String {
    let script = r#"source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        compopt() { :; }
        current=${COMP_WORDS[COMP_CWORD]}
        [[ $(complete -p "${1##*/}") =~ -F\ ([^ ]*) ]]
        "${BASH_REMATCH[1]}" "$1" "${current#=}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}""#;
    let (directory, mut bash) = shell("bash");
    let file = directory.path().join("bash/cxidiag");
    let known = directory.path().join(".ssh/known_hosts");
    fs::create_dir_all(known.parent().expect("a parent")).expect("a directory");
    fs::write(
        known,
        "nid7,10.1.1.7 ssh-rsa A\n[nid8]:22 ssh-rsa B\n|1|nid9 ssh-rsa C\nnid$(id) a\n-nid b\n",
    )
    .expect("a file");
    let output = bash.args(["-euc", script]).arg(file).args(words).output().expect("bash starts");
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
    let offered = offered_by_bash;
    assert_eq!(offered(&["cxidiag", "write-l"]), "write-lat");
    assert_eq!(offered(&["cxidiag", "write_l"]), "write_lat");
    assert_eq!(offered(&["cxidiag", "cxi_write_l"]), "cxi_write_lat");
    assert_eq!(offered(&["cxidiag", "--l"]), "--list");
    assert_eq!(offered(&["cxidiag", "help", "compa"]), "compare");
    assert_eq!(offered(&["cxidiag", "completion", "z"]), "zsh");
    assert_eq!(offered(&["cxidiag", "write-lat", "--js"]), "--json --jsonl");
    let cpus = offered(&["cxidiag", "write-lat", "--cpu", ""]);
    assert_eq!(cpus.split(' ').collect::<BTreeSet<_>>(), cpu_words());
    assert_eq!(offered(&["cxi_read_lat", "--cpu", "=", "au"]), "auto");
    for tool in ["write-lat", "write_lat", "cxi_write_lat"] {
        assert_eq!(offered(&["cxidiag", tool, "--no-"]), "--no-idc --no-ll");
    }
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
    assert_eq!(offered(&["cxidiag", "devices", "soft1"]), "soft1");
    assert_eq!(offered(&["cxidiag", "write-lat", "nid"]), "nid7 nid8");
    assert_eq!(offered(&["cxidiag", "compare", "--figure", "b"]), "bw");
    // bash finds files itself.
    assert_eq!(offered(&["cxidiag", "write-lat", "--json", "=", "Cargo.to"]), "");
}

/// The names of files reach the program as they are, whatever they hold: nothing in them is run.
#[test]
fn bash_quotes_names_of_files() {
    const NAMES: [&str; 8] = [
        "1 a$(touch X).json",
        "2 a`touch X`.json",
        "3;touch X;.json",
        "4'a \"b\".json",
        "5a\nb.json",
        "-6.json",
        "7*?[a].json",
        "8$HOME\\~!1.json",
    ];
    let (directory, mut bash) = shell("bash");
    // The path of the program is quoted too.
    let place = directory.path().join("it's $(touch X)");
    fs::create_dir(&place).expect("a directory");
    for name in NAMES {
        fs::write(place.join(name), "").expect("a file");
    }
    let program = place.join("cxidiag");
    std::os::unix::fs::symlink(harness::CXIDIAG, &program).expect("a symlink");
    let script = Command::new(&program).args(["completion", "bash"]).output();
    fs::write(directory.path().join("script"), script.expect("cxidiag starts").stdout)
        .expect("a file");
    let (mut ours, device) = terminal();
    let copy = || device.try_clone().expect("a terminal");
    bash.args(["--norc", "--noprofile", "-i"]).current_dir(&place).env("TERM", "dumb");
    bash.stdin(copy()).stdout(copy()).stderr(device);
    let child = bash.spawn().expect("bash starts");
    drop(bash);
    // The command notes its last word.
    let note = "source ../script; cxidiag() { printf '%s\\0' \"${@: -1}\" >>../words; \
                echo noted:$((number += 1)); }\n";
    ours.write_all(note.as_bytes()).expect("a terminal");
    let commands = ["report ", "survey --json ", "write-lat --loopback --jsonl "];
    let mut wanted = String::new();
    let mut number = 0;
    for command in commands {
        for name in NAMES {
            let begin = if name.starts_with('-') { "./-" } else { &name[..1] };
            ours.write_all(format!("cxidiag {command}{begin}\t\n").as_bytes()).expect("a terminal");
            number += 1;
            shown(&mut ours, |text| text.contains(&format!("noted:{number}\r\n")));
            let whole = if name.starts_with('-') { format!("./{name}") } else { name.to_owned() };
            wanted += &format!("{whole}\0");
        }
    }
    ours.write_all(b"exit\n").expect("a terminal");
    shown(&mut ours, |_| false);
    assert_success(&child.finish());
    let words = fs::read_to_string(directory.path().join("words")).expect("a file");
    assert_eq!(words, wanted);
    assert!(!place.join("X").exists());
}

/// The program offers each option of each subcommand, under each name.
#[test]
fn completes_each_option() {
    for tool in subcommands() {
        let own = (vec!["cxidiag", tool.name], &tool.usage);
        let legacy = tool.legacy_name.zip(tool.legacy_usage.as_ref());
        let legacy = legacy.map(|(name, usage)| (vec![name], usage));
        for (name, usage) in [own].into_iter().chain(legacy) {
            let forms: Vec<String> =
                usage.all_options().map(|own| format!("--{}", own.long)).collect();
            let output = Command::new(harness::CXIDIAG)
                .env("_CXIDIAG_COMPLETE", "fish")
                .arg("--")
                .args(&name)
                .arg("--")
                .output()
                .expect("cxidiag starts");
            let text = stdout(&output);
            let offered = text.lines().filter_map(|line| line.split('\t').next());
            assert_eq!(offered.collect::<Vec<_>>(), forms, "{name:?}");
        }
    }
}

#[test]
fn offers_nothing_without_words() {
    for shell in ["bash", "zsh", "fish", "tcsh"] {
        for words in [&["--"][..], &["devices"], &[]] {
            let mut command = Command::new(harness::CXIDIAG);
            let output = command.env("_CXIDIAG_COMPLETE", shell).args(words).output();
            let output = output.expect("cxidiag starts");
            assert_success(&output);
            assert_eq!((stdout(&output), stderr(&output)), (String::new(), String::new()));
        }
    }
}

/// Packages install the same scripts.
#[test]
fn prints_script_of_each_shell_for_all_names() {
    let (directory, mut command) = shell("sh");
    command.args(["-c", "for shell in bash zsh fish; do cxidiag completion $shell; done"]);
    let printed = stdout(&command.output().expect("sh starts"));
    let files = ["bash/cxidiag", "zsh/_cxidiag", "fish/cxidiag.fish"];
    let read = |file| fs::read_to_string(directory.path().join(file)).expect(file);
    assert_eq!(printed, files.map(read).concat());
    for file in files {
        for tool in subcommands() {
            assert!(tool.legacy_name.is_none_or(|name| read(file).contains(name)), "{file}");
        }
    }
    for (words, error) in [
        (&["completion"][..], "expected one SHELL: bash, zsh or fish (see --help)"),
        (&["completion", "tcsh"], "unknown shell 'tcsh': expected bash, zsh or fish"),
    ] {
        let output = run(harness::CXIDIAG, words);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr(&output), format!("cxidiag completion: error: {error}\n"));
    }
}

#[test]
fn zsh_completes_subcommands_options_and_values() {
    if !is_installed("zsh") {
        return;
    }
    // `_describe` gets the words with their explanations. As a file in `fpath`, the script is the
    // function `_cxidiag`.
    let check = r#"compdef() { : }
        _describe() { print -l -- ${(P)3} }
        words=("${@[2,-1]}") CURRENT=$(($# - 1)) fpath=(${1:h})
        autoload _cxidiag; _cxidiag; [[ -n $functions[_clap_dynamic_completer_cxidiag] ]]"#;
    let offered = |words: &[&str]| {
        let (directory, mut zsh) = shell("zsh");
        let script = directory.path().join("zsh/_cxidiag");
        let output = zsh.args(["-fc", check, "zsh"]).arg(script).args(words).output();
        let output = output.expect("zsh starts");
        assert_success(&output);
        assert!(output.stderr.is_empty(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(offered(&["cxidiag", "write-l"]), "write-lat:One-sided RDMA write latency\n");
    let comparison = "--cswap-op:Comparison of CSWAP\n";
    assert_eq!(
        offered(&["cxidiag", "atomic-lat", "--cs"]).lines().next(),
        comparison.lines().next()
    );
    assert_eq!(offered(&["cxi_atomic_lat", "--cswap-op=E"]), "--cswap-op=EQ\n");
    // Without remarks.
    assert_eq!(offered(&["cxi_read_lat", "--report-a"]), "--report-all:Print each sample\n");
    assert!(offered(&["cxi_read_lat", "-d", "so"]).starts_with("soft0\nsoft1\n"));
    let cpus = offered(&["cxidiag", "write-lat", "--cpu", ""]);
    assert_eq!(cpus.lines().collect::<BTreeSet<_>>(), cpu_words());
}

#[test]
fn fish_completes_subcommands_options_and_values() {
    if !is_installed("fish") {
        return;
    }
    let offered = |line: &str| {
        let (directory, mut fish) = shell("fish");
        let script = directory.path().join("fish/cxidiag.fish");
        let output = fish
            .args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"])
            .arg(script)
            .arg(line)
            .output()
            .expect("fish starts");
        assert!(output.stderr.is_empty(), "{line}: {}", stderr(&output));
        let text = stdout(&output);
        let words = text.lines().filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(offered("cxidiag write-l"), "write-lat");
    assert_eq!(offered("cxidiag atomic-lat -A CS"), "CSWAP");
    assert_eq!(offered("cxidiag write_lat --no-"), "--no-idc --no-ll");
    assert_eq!(offered("cxi_read_lat --no-"), "--no-ll");
    assert_eq!(offered("cxi_read_lat -d so"), "soft0 soft1 soft2 soft3");
    let cpus = offered("cxidiag write-lat --cpu ");
    assert_eq!(cpus.split(' ').collect::<BTreeSet<_>>(), cpu_words());
    assert_eq!(offered("cxidiag write-lat --json=Cargo.to"), "--json=Cargo.toml");
    assert!(offered("cxidiag compare --figure p").starts_with("p50 "));
    assert_eq!(offered("cxidiag help compa"), "compare");
}
