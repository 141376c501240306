//! Checks of the packages that need no build of them. `packaging/test-packages` installs and uses
//! them.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::harness::{Command, assert_status, stdout};
use cxidiag::command::{COMMANDS, LEGACY_COMMANDS};
use plan::tools::TOOLS;

const VERSION: &str = env!("CARGO_PKG_VERSION");

const EXAMPLE_FOR_ALERTMANAGER: &str = "packaging/prometheus/alertmanager.yml";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of all programs that tools and commands replace.
fn legacy_names() -> impl Iterator<Item = &'static str> {
    let commands = LEGACY_COMMANDS.iter().map(|legacy| legacy.command.name);
    TOOLS.iter().map(|tool| tool.legacy_name).chain(commands)
}

fn run(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Scripts that build for long check first what they need.
#[test]
fn scripts_refuse_unknown_targets_before_they_build() {
    if !root().join(".git").exists() {
        println!("not tested: these sources are no clone");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    for script in ["make-archives", "make-release", "make-wheel"] {
        let output = Command::new(root().join("packaging").join(script))
            .arg("--target=arm")
            .arg(directory.path())
            .output()
            .expect("the script starts");
        let said = assert_status(&output, 2);
        let expected = format!("{script}: error: --target=arm: expected x86_64 or aarch64\n");
        assert_eq!(said, expected);
    }
}

#[test]
fn scripts_say_what_to_install_for_a_target_that_rust_lacks() {
    if !root().join(".git").exists() {
        println!("not tested: these sources are no clone");
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let rustc = directory.path().join("rustc");
    let program = "#!/bin/sh\ncase $* in\n*--verbose) echo host: x86_64-unknown-linux-gnu ;;\n\
                   *aarch64*) echo /none ;;\n*) echo / ;;\nesac\n";
    fs::write(&rustc, program).expect("a file");
    fs::set_permissions(&rustc, Permissions::from_mode(0o755)).expect("permissions");
    let path = env::var("PATH").expect("PATH");
    let path = format!("{}:{path}", directory.path().display());
    let target = "aarch64-unknown-linux-gnu";
    let lacks = format!("no standard library for {target}: run \"rustup target add {target}\"");
    for (script, option, alternative) in [
        ("make-archives", None, ", or build for this machine alone with --target=x86_64"),
        ("make-wheel", None, ", or build for this machine alone with --target=x86_64"),
        ("make-wheel", Some("--target=aarch64"), ""),
    ] {
        let output = Command::new(root().join("packaging").join(script))
            .args(option)
            .arg(directory.path())
            .env("PATH", &path)
            .output()
            .expect("the script starts");
        let expected = format!("{script}: error: Rust has {lacks}{alternative}\n");
        assert_eq!(assert_status(&output, 1), expected);
    }
}

#[test]
fn all_files_name_the_version() {
    let spec = read("packaging/cxidiag.spec");
    let in_spec = spec.lines().find_map(|line| line.strip_prefix("Version:"));
    assert_eq!(in_spec.map(str::trim), Some(VERSION));
    let (_, changes) = spec.split_once("%changelog\n").expect("a change log");
    let newest = changes.lines().next().expect("an entry");
    assert!(newest.ends_with(&format!(" - {VERSION}-1")), "{newest}");

    let debian = read("packaging/debian/changelog");
    assert!(debian.starts_with(&format!("cxidiag ({VERSION}-1) ")), "{debian}");

    for (file, line) in [
        ("packaging/spack/package.py", format!("version(\"{VERSION}\")")),
        (
            "packaging/wheel/pyproject.toml",
            format!("legacy-names = [\"cxidiag-legacy-names=={VERSION}\"]"),
        ),
        ("packaging/wheel/legacy-names/pyproject.toml", format!("version = \"{VERSION}\"")),
        (
            "packaging/wheel/legacy-names/pyproject.toml",
            format!("dependencies = [\"cxidiag=={VERSION}\"]"),
        ),
    ] {
        let found = read(file).lines().any(|found| found.trim() == line);
        assert!(found, "{file}: {line}");
    }

    let changes = read("CHANGELOG.md");
    let newest = changes.lines().find_map(|line| line.strip_prefix("## "));
    let newest = newest.and_then(|title| title.split([',', ' ']).next());
    assert_eq!(newest, Some(VERSION));
}

#[test]
fn all_files_name_the_same_rust_release() {
    let release = env!("CARGO_PKG_RUST_VERSION");
    let spec = read("packaging/cxidiag.spec");
    for compiler in ["cargo", "rust"] {
        assert!(spec.contains(&format!("\nBuildRequires:  {compiler} >= {release}\n")));
    }
    for page in ["README.md", "CONTRIBUTING.md"] {
        let words = format!("Rust {release} or later");
        assert!(read(page).contains(&words), "{page}: {words}");
    }
}

/// Both kinds of packages have the same names and descriptions, with each legacy name.
#[test]
fn spec_and_control_files_describe_the_same_packages() {
    let spec = read("packaging/cxidiag.spec");
    for (package, section) in [
        ("cxidiag", "%description\n"),
        ("cxidiag-legacy-names", "%description legacy-names\n"),
        ("cxidiag-softnic", "%description softnic\n"),
    ] {
        let (_, text) = spec.split_once(section).expect(section);
        let (text, _) = text.split_once("\n\n").expect("an end");
        let control = read(&format!("packaging/debian/{package}.control"));
        assert!(control.starts_with(&format!("Package: {package}\n")));
        assert!(control.contains("\nMaintainer: The cxidiag project <"));
        let (_, described) = control.split_once("\nDescription: ").expect("a description");
        let described: Vec<&str> = described.lines().skip(1).map(str::trim).collect();
        assert_eq!(described.join("\n"), text, "{package}");
        if package == "cxidiag-legacy-names" {
            for name in legacy_names() {
                assert!(text.contains(name), "{name}");
            }
        }
    }
    let control_files = fs::read_dir(root().join("packaging/debian")).expect("a directory");
    let count = control_files
        .filter(|entry| {
            let path: PathBuf = entry.as_ref().expect("an entry").path();
            path.extension().is_some_and(|extension| extension == "control")
        })
        .count();
    assert_eq!(count, 3);
}

#[test]
fn wheel_has_an_entry_point_for_each_legacy_name() {
    let project = read("packaging/wheel/legacy-names/pyproject.toml");
    let (_, scripts) = project.split_once("\n[project.scripts]\n").expect("scripts");
    let (scripts, _) = scripts.split_once("\n\n").expect("an end");
    let scripts: BTreeSet<&str> = scripts.lines().collect();
    let expected: Vec<String> =
        legacy_names().map(|name| format!("{name} = \"cxidiag_legacy_names:main\"")).collect();
    assert_eq!(scripts, expected.iter().map(String::as_str).collect());
}

/// `cargo about`, which writes the licences of the packages, and `cargo deny` accept the same.
#[test]
fn both_lists_of_accepted_licences_are_the_same() {
    let list = |file: &str, key: &str| {
        let text = read(file);
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("{file}: {key}")).to_owned()
    };
    assert_eq!(list("packaging/licences/about.toml", "accepted = "), list("deny.toml", "allow = "));
}

/// The library is installed where its wrapper looks for it.
#[test]
fn all_files_name_the_private_directory() {
    let directory = "usr/lib/cxidiag/softnic";
    for file in [
        "packaging/install",
        "ffi/softnic/src/bin/cxi-softnic/main.rs",
        "packaging/man/cxi-softnic.1",
    ] {
        assert!(read(file).contains(&format!("/{directory}")), "{file}");
    }
    let spec = read("packaging/cxidiag.spec");
    let in_spec = directory.replace("usr/", "%{_prefix}/");
    assert!(spec.contains(&format!("\n{in_spec}\n")), "not in %files");
    // RPM must not offer the library to packages that need a libcxi.
    assert!(spec.contains(&format!("\n%global __provides_exclude_from ^{in_spec}/.*$\n")));
}

/// Empty files stand in for those that a build makes.
#[test]
fn spec_lists_the_installed_files() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let built = directory.path().join("target/package");
    for page in pages() {
        write(&built.join(page));
    }
    for file in [
        "bash/cxidiag",
        "zsh/_cxidiag",
        "fish/cxidiag.fish",
        "softnic/libcxi.so.1.7.0",
        "softnic/libsoftnic-faults.so",
        "softnic/cxi-softnic",
    ] {
        write(&built.join(file));
    }
    run(Command::new("cp").arg(env!("CARGO_BIN_EXE_cxidiag")).arg(&built));

    // RPM sees the files of all packages in one place: a file must be in the list of its package
    // only.
    let mut files = Vec::new();
    let mut patterns = Vec::new();
    let spec = read("packaging/cxidiag.spec");
    for (package, section) in [
        ("cxidiag", "%files\n"),
        ("cxidiag-legacy-names", "%files legacy-names\n"),
        ("cxidiag-softnic", "%files softnic\n"),
    ] {
        let installed = directory.path().join(package);
        run(Command::new(root().join("packaging/install"))
            .arg(package)
            .arg(&installed)
            .env("CARGO_TARGET_DIR", directory.path().join("target")));
        let found = run(Command::new("find")
            .current_dir(&installed)
            .args([".", "!", "-type", "d", "-printf", "/%P\n"]));
        files.extend(found.lines().map(|file| (package, file.to_owned())));

        let (_, list) = spec.split_once(section).expect(section);
        let (list, _) = list.split_once("\n\n").expect("an end");
        let listed = list
            .lines()
            .filter(|line| !line.starts_with("%dir") && !line.starts_with("%license"))
            .map(|line| (package, expanded(line.trim_start_matches("%doc "))));
        patterns.extend(listed);
    }
    for (package, file) in &files {
        let listed: Vec<&str> = patterns
            .iter()
            .filter(|(_, pattern)| matches(pattern, file))
            .map(|(package, _)| *package)
            .collect();
        assert_eq!(listed, [*package], "{file}");
    }
    for (package, pattern) in &patterns {
        let found = files.iter().any(|(_, file)| matches(pattern, file));
        assert!(found, "{package}: no file matches {pattern}");
    }
    assert_ships_pages_for_users(&directory.path().join("cxidiag/usr/share/doc/cxidiag"));
    let library = "/usr/lib/cxidiag/softnic/libcxi.so.1";
    assert!(files.iter().any(|(_, file)| file == library));
}

/// Asserts that the directory has the pages for users, and each file that one of them links to.
fn assert_ships_pages_for_users(documents: &Path) {
    let docs = fs::read_dir(documents.join("docs")).expect("a directory");
    let names = docs.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("text"));
    let pages: BTreeSet<String> = names.filter(|name| name.ends_with(".md")).collect();
    assert_eq!(pages, pages_for_users());
    let docs = pages.iter().map(|name| format!("docs/{name}"));
    for page in docs.chain(["README.md".to_owned()]) {
        let path = documents.join(&page);
        let text = fs::read_to_string(&path).expect("text");
        let pictures = text.split("<img src=\"").skip(1);
        for link in text.split("](").skip(1).chain(pictures) {
            let file = link.split(['#', ')', '"']).next().expect("a link");
            let target = path.parent().expect("a directory").join(file);
            let is_here = file.starts_with("http") || target.exists();
            assert!(is_here, "{page} links to {file}, which is not installed");
        }
    }
}

/// mdBook is not needed for its sources. `packaging/test-site` makes and uses the whole site.
#[test]
fn site_has_each_page_in_its_sidebar() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    run(Command::new(root().join("packaging/make-site")).arg("--sources").arg(directory.path()));
    let sources = directory.path().join("src");
    let summary = fs::read_to_string(sources.join("SUMMARY.md")).expect("a sidebar");
    let links = summary.split("](").skip(1);
    let listed: Vec<&str> = links.filter_map(|link| link.split(')').next()).collect();
    let found = run(Command::new("find").current_dir(&sources).args([
        ".",
        "-name",
        "*.md",
        "!",
        "-name",
        "SUMMARY.md",
        "-printf",
        "%P\n",
    ]));
    let pages: BTreeSet<&str> = found.lines().collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
    let groups: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let expected =
        ["Summary", "Tutorial", "How to", "Explanation", "Reference", "For contributors"];
    assert_eq!(groups, expected);
}

/// The names of the pages below docs that README.md lists, except for contributors.
fn pages_for_users() -> BTreeSet<String> {
    let readme = read("README.md");
    let (_, list) = readme.split_once("\nTutorial:\n").expect("a list");
    let (list, _) = list.split_once("\nFor contributors:\n").expect("an end");
    let links = list.lines().filter_map(|line| line.strip_prefix("* [docs/"));
    let pages = links.map(|link| link.split_once(']').expect("a link").0.to_owned());
    pages.collect()
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    fs::write(path, "").expect("a file");
}

/// The manual pages of a package build.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = ["cxidiag.1", "cxidiag.7", "cxi_diags.7", "cxi-softnic.1"]
        .map(|page| format!("man/{page}"))
        .into();
    for command in COMMANDS {
        pages.push(format!("man/cxidiag-{}.1", command.name));
    }
    for tool in TOOLS {
        pages.push(format!("man/cxidiag-{}.1", tool.name));
        pages.push(format!("man/{}.1", tool.legacy_name));
    }
    pages
}

/// A line of `%files` with the directories of this distribution.
fn expanded(line: &str) -> String {
    [
        ("%{_bindir}", "/usr/bin"),
        ("%{_mandir}", "/usr/share/man"),
        ("%{_docdir}", "/usr/share/doc"),
        ("%{_datadir}", "/usr/share"),
        ("%{_prefix}", "/usr"),
        ("%{name}", "cxidiag"),
    ]
    .iter()
    .fold(line.to_owned(), |line, (macro_name, path)| line.replace(macro_name, path))
}

/// Whether a line of `%files` matches a file: by name, by a pattern with `*`, or by its directory.
fn matches(pattern: &str, file: &str) -> bool {
    if file.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('/')) {
        return true;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = file.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let found = match parts.peek() {
            None if part.is_empty() => return true,
            None => rest.ends_with(part).then_some(rest.len()),
            Some(_) => rest.find(part).map(|at| at + part.len()),
        };
        let Some(end) = found else {
            return false;
        };
        rest = &rest[end..];
    }
    true
}

/// `tests/run` installs rpmspec.
#[test]
fn rpm_parses_the_spec() {
    let is_installed = Command::new("rpmspec").arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("not tested here: rpmspec is not installed");
        return;
    }
    let query = ["--query", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\\n"];
    let packages = run(Command::new("rpmspec")
        .args(query)
        .args(["--define", "dist %{nil}"])
        .arg(root().join("packaging/cxidiag.spec")));
    let expected: String = ["cxidiag", "cxidiag-legacy-names", "cxidiag-softnic"]
        .map(|name| format!("{name} {VERSION}-1\n"))
        .concat();
    assert_eq!(packages, expected);
}

#[test]
fn bash_parses_the_scripts() {
    for script in [
        ".ci/run",
        "tests/run",
        "tests/summary",
        "packaging/build",
        "packaging/build-documents",
        "packaging/build-program",
        "packaging/install",
        "packaging/make-archives",
        "packaging/make-image",
        "packaging/make-packages",
        "packaging/reframe/src/pair",
        "packaging/make-release",
        "packaging/make-wheel",
        "packaging/test-aarch64",
        "packaging/test-image",
        "packaging/test-packages",
        "packaging/test-release",
        "ffi/softnic/build-library",
        "tests/fixtures/launcher",
        "tests/harness/build-library",
    ] {
        assert!(read(script).starts_with("#!/usr/bin/env bash\n"), "{script}");
        run(Command::new("bash").arg("-n").arg(root().join(script)));
    }
}

#[test]
fn dashboard_is_what_its_script_prints() {
    let script = "packaging/grafana/make-dashboard";
    let printed = run(&mut Command::new(root().join(script)));
    let committed = read("packaging/grafana/cxidiag.json");
    assert!(printed == committed, "`{script}` writes the dashboard");
}

#[test]
fn alerts_and_dashboard_ask_for_documented_metrics() {
    let page = read("docs/metrics.md");
    for (file, least) in [
        ("packaging/prometheus/alerts.yml", 10),
        ("packaging/prometheus/probe-rules.yml", 6),
        ("packaging/grafana/cxidiag.json", 30),
    ] {
        let text = read(file);
        let words = text.split(|c: char| !c.is_ascii_lowercase() && !"_:".contains(c));
        // Series that rules record have a colon.
        let words = words.map(|word| word.trim_end_matches(':'));
        let words = words.filter(|word| word.starts_with("cxidiag_") && !word.contains(':'));
        let metrics: BTreeSet<&str> = words.collect();
        assert!(metrics.len() >= least, "{file}: {metrics:?}");
        for metric in metrics {
            assert!(page.contains(&format!("| `{metric}` |")), "{file}: {metric}");
        }
    }
}

#[test]
fn each_alert_is_tested_and_explained() {
    let tests = read("packaging/prometheus/alerts-test.yml");
    check_alerts("alerts.yml", &tests);
    let tests = run(&mut Command::new(root().join("packaging/prometheus/make-probe-tests")));
    check_alerts("probe-rules.yml", &tests);
}

/// Checks the rules in this file with promtool's `tests`, and that a page explains each alert.
fn check_alerts(rules: &str, tests: &str) {
    const PAGE: &str = "docs/monitoring.md";
    let (alerts, text) = (read(&format!("packaging/prometheus/{rules}")), read(PAGE));
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 7, "{names:?}");
    for name in names {
        let runbook = format!("runbook: {PAGE}#{}\n", name.to_ascii_lowercase());
        assert!(alerts.contains(&runbook), "{runbook}");
        assert!(text.contains(&format!("\n### {name}\n")), "{name}");
        assert!(tests.contains(name), "no test of {name}");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join(rules), &alerts).expect("a file");
    fs::write(directory.path().join("tests.yml"), tests).expect("a file");
    let mut promtool = Command::new("promtool");
    promtool.args(["test", "rules", "tests.yml"]).current_dir(directory.path());
    let promtool = promtool.output();
    match promtool {
        Err(error) => println!("not tested: promtool: {error}"),
        Ok(output) => assert!(output.status.success(), "{}", stdout(&output)),
    }
}

/// Alertmanager would accept a rule of inhibition for an alert that does not exist.
#[test]
fn example_for_alertmanager_names_alerts_that_exist() {
    let example = read(EXAMPLE_FOR_ALERTMANAGER);
    let rules = read("packaging/prometheus/probe-rules.yml");
    let mut names = 0;
    for part in example.split("CxidiagProbe").skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && !"(|".contains(c));
        let part = &part[..end.unwrap_or(part.len())];
        for name in part.trim_start_matches('(').split('|').filter(|name| !name.is_empty()) {
            assert!(rules.contains(&format!("- alert: CxidiagProbe{name}\n")), "{name}");
            names += 1;
        }
    }
    assert!(names >= 10, "{names} names");
}

#[test]
fn alertmanager_routes_alerts_by_severity() {
    let example = root().join(EXAMPLE_FOR_ALERTMANAGER);
    let amtool = Command::new("amtool").arg("check-config").arg(&example).output();
    match amtool {
        Err(error) => return println!("not tested: amtool: {error}"),
        Ok(output) => assert!(output.status.success(), "{}", stdout(&output)),
    }
    for (receiver, labels) in [
        ("pager", ["alertname=CxidiagProbeSwitchSlow", "severity=critical", "switch=000.01"]),
        ("pager", ["alertname=CxidiagProbeNicDead", "severity=critical", "switch="]),
        ("mail", ["alertname=CxidiagProbeNicSlow", "severity=warning", "switch=000.01"]),
        ("mail", ["alertname=CxidiagProbeInitiatorSlow", "severity=info", "switch=000.01"]),
        ("mail", ["alertname=CxidiagProbeManyLate", "severity=warning", "switch="]),
    ] {
        let output = Command::new("amtool")
            .args(["config", "routes", "test"])
            .arg(format!("--config.file={}", example.display()))
            .arg(format!("--verify.receivers={receiver}"))
            .args(labels)
            .output()
            .expect("amtool starts");
        assert!(output.status.success(), "{labels:?}: {}", stdout(&output));
    }
}

/// Python compiles the recipe for Spack and the module of the wheel.
#[test]
fn python_parses_the_recipe_and_the_module() {
    for file in
        ["packaging/spack/package.py", "packaging/wheel/legacy-names/cxidiag_legacy_names.py"]
    {
        let compile = "import sys; compile(sys.stdin.read(), sys.argv[1], 'exec')";
        run(Command::new("python3")
            .args(["-c", compile, file])
            .stdin(fs::File::open(root().join(file)).expect("a file")));
    }
}

/// As `cargo test` prints them: `tests/summary` reads both.
#[test]
fn pool_of_test_programs_prints_each_with_its_result() {
    let artifact = |name: &str| {
        serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///source/ffi/cxi#0.1.0",
            "manifest_path": "/Cargo.toml",
            "target": { "kind": ["test"], "name": name, "src_path": "/tests/main.rs" },
            "profile": { "test": true },
            "executable": format!("/bin/{name}"),
        })
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("messages");
    let [prints, fails] = ["echo", "false"].map(artifact);
    fs::write(&file, format!("{prints}\n{fails}\n")).expect("a file");
    let output = Command::new(root().join("tests/pool"))
        .stdin(fs::File::open(file).expect("a file"))
        .current_dir("/")
        .env_remove("CXIDIAG_TEST_SOFTNIC")
        .output()
        .expect("python3 starts");
    assert_status(&output, 101);
    let printed = stdout(&output);
    let (times, lines): (Vec<&str>, Vec<&str>) =
        printed.lines().partition(|line| line.starts_with("        Took "));
    assert_eq!(times.len(), 2, "{printed}");
    assert_eq!(
        lines,
        [
            "     Running tests/main.rs (bin/echo)",
            "--show-output",
            "     Running tests/main.rs (bin/false)",
            "error: test failed, to rerun pass `-p cxi --test false`",
        ]
    );
}

#[test]
fn summarizes_tests_that_passed_failed_and_were_skipped() {
    let summary = |seconds: &str, output: &str| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("output");
        fs::write(&file, output).expect("a file");
        run(Command::new(root().join("tests/summary"))
            .arg(seconds)
            .stdin(fs::File::open(file).expect("a file")))
    };
    let passed = "     Running unittests src/lib.rs (target/debug/deps/cxidiag-0ecc82bcaaa22069)\n\
                  test plan::tests::refuses_zero ... ok\n\
                  test result: ok. 16 passed; 0 failed; 0 ignored; 0 measured\n\
                  \x20  Doc-tests cxi\n\
                  test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
    assert_eq!(summary("59", passed), "18 tests passed in 2 programs, 59 s\n");
    let skipped = "     Running tests/main.rs (target/debug/deps/node-b9dd157ab3f187d8)\n\
                   successes:\n\
                   ---- sys::finds_devices stdout ----\n\
                   not tested: no lspci\n\
                   ---- sys::reads_links stdout ----\n\
                   listed\n\
                   not tested here: no lspci\n\
                   test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n";
    assert_eq!(
        summary("5", skipped),
        "2 tests passed in 1 programs, 5 s\n\
         skipped: no lspci\n    node: sys::finds_devices\n    node: sys::reads_links\n"
    );
    let failed = "     Running tests/guide.rs (target/debug/deps/guide-b9dd157ab3f187d8)\n\
                  test runs_examples_of_guide ... FAILED\n\
                  ---- reads_links stdout ----\n\
                  thread 'reads_links' (1) panicked at tests/links.rs:1:2:\n\
                  ---- runs_examples_of_guide stdout ----\n\
                  listed\n\
                  thread 'runs_examples_of_guide' (2) panicked at tests/guide.rs:1:2:\n\
                  assertion failed\n\
                  test result: FAILED. 6 passed; 1 failed; 0 ignored; 0 measured\n";
    assert_eq!(
        summary("290", &format!("{passed}{failed}")),
        "1 of 25 tests failed, 4 min 50 s:\n    guide: runs_examples_of_guide\n        \
         thread 'runs_examples_of_guide' (2) panicked at tests/guide.rs:1:2:\n        \
         assertion failed\n"
    );
    let crashed = "     Running tests/link.rs (target/debug/deps/link-b9dd157ab3f187d8)\n\
                   error: test failed, to rerun pass `-p cxidiag --test link`\n";
    assert_eq!(
        summary("5", &format!("{passed}{crashed}")),
        "0 of 18 tests failed, 5 s:\n    link: crashed\n"
    );
}

#[test]
fn licence_files_match_the_manifest() {
    assert!(read("Cargo.toml").contains("license = \"MIT OR Apache-2.0\""));
    assert!(read("LICENSE-MIT").starts_with("MIT License\n"));
    assert!(
        read("LICENSE-APACHE")
            .contains("Apache License\n                           Version 2.0, January 2004\n")
    );
}
