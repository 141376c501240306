//! Runs the steps of `packaging/action/action.yml` in bash, as a runner of workflows does.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::harness::{CXIDIAG, Command, Fabric, SOFTWARE_NIC, assert_status, stderr, stdout};

const ACTION: &str = "packaging/action/action.yml";

/// A step that runs commands.
#[derive(Default)]
struct Step {
    /// Variables, each with the name of the input that is its value.
    env: Vec<(String, String)>,
    commands: String,
}

/// The inputs with their defaults, and the steps with commands.
fn read_action() -> (HashMap<String, String>, Vec<Step>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(ACTION);
    let text = fs::read_to_string(path).expect(ACTION);
    let (inputs, rest) = text.split_once("\noutputs:\n").expect("outputs");
    let (_, inputs) = inputs.split_once("\ninputs:\n").expect("inputs");
    let mut defaults = HashMap::new();
    let mut input = "";
    for line in inputs.lines() {
        if let Some(value) = line.strip_prefix("    default: ") {
            defaults.insert(input.to_owned(), value.trim_matches('"').to_owned());
        } else if let Some(name) = line.strip_suffix(':') {
            input = name.trim();
            defaults.insert(input.to_owned(), String::new());
        }
    }
    let (_, steps) = rest.split_once("\n  steps:\n").expect("steps");
    let steps = steps.split("    - name: ").map(read_step);
    (defaults, steps.filter(|step| !step.commands.is_empty()).collect())
}

fn read_step(text: &str) -> Step {
    let (head, commands) = text.split_once("      run: |\n").unwrap_or((text, ""));
    let variable = |line: &str| {
        let (name, input) = line.trim().split_once(": ${{ inputs.")?;
        Some((name.to_owned(), input.trim_end_matches(" }}").to_owned()))
    };
    let commands = commands.lines().map(|line| line.strip_prefix("        ").unwrap_or_default());
    Step {
        env: head.lines().filter_map(variable).collect(),
        commands: commands.collect::<Vec<_>>().join("\n"),
    }
}

/// The files of a runner.
struct Runner {
    directory: tempfile::TempDir,
    fabric: Fabric,
}

impl Runner {
    /// Makes the Debian packages of these builds; `None` where there is no `dpkg-deb`.
    fn new() -> Option<Self> {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("not tested: no dpkg-deb");
            return None;
        }
        let runner = Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            fabric: Fabric::new(),
        };
        let library = "usr/lib/cxidiag/softnic";
        for (package, files) in [
            ("cxidiag", vec![("usr/bin/cxidiag".to_owned(), CXIDIAG.into())]),
            (
                "cxidiag-softnic",
                [
                    ("usr/bin", "cxi-softnic"),
                    (library, "libcxi.so.1"),
                    (library, "libsoftnic-faults.so"),
                ]
                .map(|(place, name)| (format!("{place}/{name}"), SOFTWARE_NIC.join(name)))
                .to_vec(),
            ),
        ] {
            let tree = runner.path(package);
            for (place, file) in files {
                let place = tree.join(place);
                fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
                // A link would lead `cxi-softnic` to the directory of the library.
                if package == "cxidiag" {
                    symlink(file, place).expect("a link");
                } else {
                    fs::copy(file, place).expect("a file");
                }
            }
            fs::create_dir(tree.join("DEBIAN")).expect("a directory");
            let control = format!(
                "Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: none\nDescription: for a test\n"
            );
            fs::write(tree.join("DEBIAN/control"), control).expect("a file");
            let output = Command::new("dpkg-deb")
                .args(["-Znone", "--build"])
                .args([&tree, &runner.path(&format!("{package}.deb"))])
                .output();
            assert_status(&output.expect("dpkg-deb starts"), 0);
        }
        Some(runner)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Runs all steps with these inputs. What a step writes to the files of the runner is the
    /// environment of the next ones. Returns the output of the last step that ran.
    fn run(&self, given: &[(&str, &str)]) -> Output {
        let (mut inputs, steps) = read_action();
        assert_eq!(steps.len(), 2);
        let packages = self.path("*.deb").display().to_string();
        for (name, value) in given.iter().copied().chain([("packages", packages.as_str())]) {
            assert!(inputs.insert(name.to_owned(), value.to_owned()).is_some(), "{name}");
        }
        let files = ["GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"];
        for file in files {
            fs::write(self.path(file), "").expect("a file");
        }
        let mut last = None;
        for step in steps {
            fs::write(self.path("step"), &step.commands).expect("a file");
            let added = self.content("GITHUB_PATH");
            let mut path = std::env::var("PATH").expect("a PATH");
            for directory in added.lines() {
                path = format!("{directory}:{path}");
            }
            let environment = self.content("GITHUB_ENV");
            let output = self
                .fabric
                .command_of(Path::new("bash"), &["--noprofile", "--norc", "-eo", "pipefail"])
                .arg(self.path("step"))
                .env("PATH", path)
                .env("RUNNER_TEMP", self.directory.path())
                .envs(files.map(|file| (file, self.path(file))))
                .envs(environment.lines().filter_map(|line| line.split_once('=')))
                .envs(step.env.iter().map(|(variable, input)| (variable, &inputs[input])))
                .output()
                .expect("bash starts");
            let is_successful = output.status.success();
            last = Some(output);
            if !is_successful {
                break;
            }
        }
        last.expect("a step")
    }

    fn output(&self, name: &str) -> String {
        let outputs = self.content("GITHUB_OUTPUT");
        let prefix = format!("{name}=");
        outputs.lines().find_map(|line| line.strip_prefix(&prefix)).expect(name).to_owned()
    }
}

#[test]
fn action_runs_commands_on_software_nics_and_counts_their_packets() {
    let Some(runner) = Runner::new() else { return };
    let output = runner.run(&[
        ("run", "echo cxi-softnic: note: the software NICs sent 7 packets for bash >&2\ncxidiag write-lat --loopback -d cxi0 -n 20\ncxidiag devices"),
        ("nics", "2"),
    ]);
    assert_status(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("software NIC"), "{text}");
    assert!(text.contains("\ncxi1 ") && !text.contains("\ncxi2 "), "{text}");
    let packets: u64 = runner.output("packets").parse().expect("a number");
    assert!(packets >= 20, "{packets}");
    let counts = fs::read_to_string(runner.output("counts")).expect("a file");
    assert_eq!(counts, format!("{packets} packets\n"));
    let summary = runner.content("GITHUB_STEP_SUMMARY");
    assert_eq!(summary, format!("Software NICs: {packets} packets, exit status 0\n"));
}

/// The packets of a killed process are not known: the output has no number, or the least one.
#[test]
fn action_says_that_packets_of_killed_processes_are_missing() {
    let Some(runner) = Runner::new() else { return };
    let kill_one = "cxidiag write-lat -d cxi0 --port 0 >/dev/null 2>&1 &\n\
                    until grep -q \"^$! open\" \"$CXIDIAG_SOFTNIC_SUMMARY\"; do sleep 0.01; done\n\
                    kill -KILL $!\n\
                    wait $! || true";
    assert_status(&runner.run(&[("run", kill_one)]), 0);
    assert_eq!(runner.output("packets"), "");
    let summary = runner.content("GITHUB_STEP_SUMMARY");
    assert!(summary.contains("an unknown number of packets (1 process was killed"), "{summary}");
    let measure_too = format!("cxidiag write-lat --loopback -d cxi0 -n 20\n{kill_one}");
    assert_status(&runner.run(&[("run", &measure_too)]), 0);
    let packets: u64 = runner.output("packets").parse().expect("a number");
    assert!(packets >= 20, "{packets}");
    let summary = runner.content("GITHUB_STEP_SUMMARY");
    assert!(summary.contains(&format!("at least {packets} packets (1 process was killed")));
}

#[test]
fn action_plants_faults_and_fails_as_its_commands_do() {
    let Some(runner) = Runner::new() else { return };
    let commands = "cxidiag read-lat --loopback -d cxi0 -n 20\necho not reached";
    let output = runner.run(&[("run", commands), ("faults", "error=PT_DISABLED@3")]);
    let errors = assert_status(&output, 1);
    assert!(errors.contains("PT_DISABLED"), "{errors}");
    assert!(!stdout(&output).contains("not reached"));
    assert!(runner.content("GITHUB_STEP_SUMMARY").ends_with("exit status 1\n"));
}

#[test]
fn action_warns_of_commands_that_do_not_use_the_nics() {
    let Some(runner) = Runner::new() else { return };
    let output = runner.run(&[("run", "true")]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("::warning::The software NICs sent no packets"));
    assert_eq!(runner.output("packets"), "0");
}

#[test]
fn example_of_workflow_uses_inputs_of_the_action() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/develop.md");
    let page = fs::read_to_string(page).expect("a page");
    let (inputs, _) = read_action();
    let mut count = 0;
    for use_of_action in page.split("uses: ./.github/actions/cxi-softnic\n        with:\n").skip(1)
    {
        for line in use_of_action.lines().map_while(|line| line.strip_prefix("          ")) {
            let Some((name, _)) = line.split_once(':').filter(|_| !line.starts_with(' ')) else {
                continue;
            };
            assert!(inputs.contains_key(name), "{name}");
            count += 1;
        }
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn each_input_of_the_action_is_a_variable_of_a_step() {
    let (inputs, steps) = read_action();
    let used: BTreeSet<&str> =
        steps.iter().flat_map(|step| &step.env).map(|(_, input)| input.as_str()).collect();
    // The step that keeps the number of packets runs no commands.
    let inputs: BTreeSet<&str> =
        inputs.keys().map(String::as_str).filter(|input| *input != "counts").collect();
    assert_eq!(used, inputs);
}
