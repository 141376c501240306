//! A libcxi that lacks functions, as an older one does: every tool that can do without them works,
//! and a call of one names it.

use std::fs;
use std::process::Output;

use crate::harness::{Fabric, LIBCXI, assert_status, assert_success, finish};
use cxi::sys::Api;

/// Runs `args` with a copy of the library that lacks these functions.
fn run_without(functions: &[&str], args: &str) -> Output {
    let mut library = fs::read(&*LIBCXI).expect("the library");
    for function in functions {
        // The dynamic linker compares names, so that it does not find a function under another one.
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let at =
            library.windows(name.len()).position(|bytes| bytes == name).expect("a dynamic symbol");
        library[at + 1] = b'_';
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("libcxi.so.1");
    fs::write(&path, library).expect("a copy of the library");
    let fabric = Fabric::new();
    let mut command = fabric.command(args);
    command.env("CXIDIAG_LIBCXI", &path);
    finish(command)
}

/// Fails unless the run failed with an error that ends with this text.
#[track_caller]
fn assert_failure(output: &Output, text: &str) {
    let errors = assert_status(output, 1);
    let line = errors.lines().find(|line| line.ends_with(text));
    assert!(line.is_some(), "{errors}");
}

#[test]
fn measures_without_each_optional_function() {
    for tool in ["write-lat -n 10", "send-bw -n 10"] {
        for (function, _) in Api::OPTIONAL {
            let output = run_without(&[function], &format!("{tool} --loopback -d cxi0"));
            assert_success(&output);
        }
    }
    let every: Vec<&str> = Api::OPTIONAL.iter().map(|(function, _)| *function).collect();
    assert_failure(
        &run_without(&every, "write-lat --loopback -d cxi0"),
        "cannot use service 1 of cxi0: cxil_get_svc: this libcxi lacks the function, which libcxi \
         has since symbol node LIBCXI_1.2",
    );
}

#[test]
fn names_missing_function_where_it_is_called() {
    let run = |options: &str| {
        run_without(
            &["cxil_svc_get_vni_range"],
            &format!("write-lat --loopback -d cxi0 -n 10 --svc-id=2 {options}"),
        )
    };
    assert_failure(
        &run(""),
        "cxil_svc_get_vni_range: this libcxi lacks the function, which libcxi has since symbol \
         node LIBCXI_1.9",
    );
    assert_status(&run("--vni=17"), 0);
}

#[test]
fn lists_devices_without_optional_functions() {
    let lists: &[&[&str]] = &[
        &["cxil_get_svc"],
        &["cxil_get_svc_list", "cxil_free_svc_list"],
        &["cxil_get_svc_rsrc_use", "cxil_svc_get_vni_range"],
    ];
    for missing in lists {
        assert_success(&run_without(missing, "devices cxi0"));
    }
}
