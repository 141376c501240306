//! Doorbells that trap, in programs in C on the library of the software NIC.

use crate::harness::{Command, SOFTWARE_NIC};
use crate::libcxi::{parts, run, run_by, run_under, run_with, succeed};

// All doorbells trap by default.
parts! {
    counters:
    counts_each_store_to_doorbell: "stores"
    executes_commands_before_later_stores: "order"
    counts_stores_of_all_forms: "forms"
    leaves_faults_of_program_to_its_handler: "handlers"
    traps_where_signals_are_blocked: "blocked"
    fault_kills_program_without_handler: "kills"
    calls_handler_that_resets_itself_once: "once"
    children_change_no_counter_of_parent: "children"
    doorbell_of_destroyed_counter_is_not_memory: "destroyed"
}

parts! {
    signals:
    gives_faults_to_handlers_of_each_signal_function: "names"
    leaves_other_signals_as_they_are: "others"
    child_of_vfork_leaves_handler_of_parent: "child_of_vfork"
    children_of_threads_set_handlers: "children"
    ends_traps_where_system_call_sets_handler: "system_call"
}

#[test]
fn programs_do_not_inherit_blocked_faults() {
    let mask = |blocked: &str| {
        let mut command = Command::new("env");
        command.arg(format!("--block-signal={blocked}"));
        command.arg(SOFTWARE_NIC.join("cxi-softnic"));
        let output = succeed(command.args(["grep", "SigBlk", "/proc/self/status"]));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(mask("SEGV"), "SigBlk:\t0000000000000000\n");
    assert_eq!(mask("SEGV,TERM"), "SigBlk:\t0000000000004000\n");
}

/// A program that some other way than `cxi-softnic` has led to the library.
#[test]
fn doorbells_of_counters_trap_without_the_preloaded_library() {
    for test in ["handlers", "kills", "once"] {
        run_under(&["env", "--unset=LD_PRELOAD"], "counters", test);
    }
}

/// Without the traps of queues, which are usual, and under them.
#[test]
fn programs_run_with_each_choice_of_traps() {
    for trapped in ["none", "counters"] {
        for test in ["forks", "threads", "several_devices", "several_processes"] {
            run_with("life", test, trapped);
        }
    }
    run_with("smoke", "", "counters");
    run_with("smoke", "", "none");
}

/// The list of libraries to preload cannot have such a path.
#[test]
fn preloads_library_from_directory_with_space() {
    let directory = tempfile::Builder::new().prefix("soft nic").tempdir();
    let directory = directory.expect("a temporary directory");
    let files = ["cxi-softnic", "libcxi.so.1", "libsoftnic-faults.so"];
    succeed(
        Command::new("cp").args(files.map(|file| SOFTWARE_NIC.join(file))).arg(directory.path()),
    );
    let mut moved = Command::new(directory.path().join("cxi-softnic"));
    run_by(moved.arg("--no-sys"), "counters", "blocked");
}
