//! Each failure of GPUs and their runtimes.

use std::collections::BTreeMap;

use super::FROM_A_GPU;
use crate::harness::gpu_machine::{ALL, Amd, Intel, Machine, Nvidia};
use crate::harness::{assert_status, assert_success};

const WRITES: &str = "write-lat --loopback -d soft0 -n 2";

/// Runs with `gpus`, which fails, and returns the message without the name of the program, and the
/// hint.
#[track_caller]
fn refused(machine: &Machine, variable: (&str, &str), gpus: &str) -> (String, String) {
    let output = machine.run_with(variable, &format!("{WRITES} {gpus}"));
    let error = assert_status(&output, 1);
    let lines: Vec<&str> = error.lines().collect();
    let [message, hint] = lines[..] else {
        panic!("a line and a hint: {error}");
    };
    let (_, message) = message.split_once(": ").expect("a program");
    let hint = hint.strip_prefix("hint: ").expect("a hint");
    machine.fabric.assert_nothing_left();
    (message.to_owned(), hint.to_owned())
}

const NOTHING: (&str, &str) = ("STANDIN_NOTHING", "");

#[test]
fn names_the_libraries_that_cannot_be_loaded() {
    let machine = Machine::with(&[]);
    let (message, hint) = refused(&machine, NOTHING, "-t 0");
    assert!(
        message.ends_with(
            "no GPU found: none of libamdhip64.so, libcuda.so.1, libze_loader.so.1 can be loaded"
        ),
        "{message}"
    );
    assert!(hint.contains("LD_LIBRARY_PATH"), "{hint}");
    for runtime in ALL {
        let (message, hint) = refused(&machine, NOTHING, &format!("-r 0 -g {}", runtime.name()));
        let start = format!("cannot use {} GPUs: ", runtime.name());
        assert!(message.contains(&start), "{message}");
        for name in runtime.libraries().iter().filter(|name| !name.contains("hsa")) {
            assert!(message.contains(name), "{message}");
        }
        assert!(hint.contains("not installed"), "{hint}");
    }
}

#[test]
fn names_the_installed_type_for_a_missing_one() {
    let machine = Machine::with(&[Nvidia]);
    let (message, hint) = refused(&machine, NOTHING, "-t 0 -g AMD");
    assert!(message.contains("cannot use AMD GPUs: "), "{message}");
    assert_eq!(hint, "this machine has GPUs of another type: use --gpu-type=NVIDIA");
}

#[test]
fn reports_a_runtime_without_gpus() {
    for runtime in ALL {
        let machine = Machine::with(&[runtime]);
        let none = ("STANDIN_GPUS", "0");
        let name = runtime.name();
        for options in ["-t 0", &format!("-t 0 -g {name}")] {
            let (message, hint) = refused(&machine, none, options);
            let expected = format!("no {name} GPU found by its runtime");
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("driver is not loaded"), "{hint}");
        }
    }
}

#[test]
fn t31_rejects_gpu_numbers_beyond_the_count() {
    for runtime in ALL {
        let machine = Machine::with(&[runtime]);
        let name = runtime.name();
        for gpus in ["-t 2 -r 0", "-t 0 -r 2"] {
            let (message, hint) = refused(&machine, NOTHING, gpus);
            let expected = format!("no GPU 2: there are 2 {name} GPUs, numbers 0 to 1");
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("numbered from 0"), "{hint}");
        }
        let (message, _) = refused(&machine, ("STANDIN_GPUS", "1"), "-t 1");
        let expected = format!("no GPU 1: there is one {name} GPU, number 0");
        assert!(message.ends_with(&expected), "{message}");
        assert_eq!(machine.done(), BTreeMap::new());
    }
}

#[test]
fn reports_a_runtime_that_fails_to_start() {
    for (runtime, function, error) in [
        (Amd, "hipInit", "hipInit: unknown error (HIP error 999)"),
        (Nvidia, "cuInit", "cuInit: unknown error (CUDA error 999)"),
        (Intel, "zeInit", "zeInit: unknown error (Level Zero error 0x7ffffffe)"),
    ] {
        let machine = Machine::with(&[runtime]);
        for options in ["-t 0", &format!("-t 0 -g {}", runtime.name())] {
            let (message, hint) = refused(&machine, ("STANDIN_FAIL", function), options);
            let expected = format!("cannot use {} GPUs: {error}", runtime.name());
            assert!(message.ends_with(&expected), "{message}");
            assert!(hint.contains("does not match the runtime"), "{hint}");
        }
    }
}

#[test]
fn reports_a_gpu_without_enough_memory() {
    for (runtime, error) in [
        (Amd, "hipMalloc: out of memory (HIP error 2)"),
        (Nvidia, "cuMemAlloc_v2: out of memory (CUDA error 2)"),
        (Intel, "zeMemAllocDevice: out of device memory (Level Zero error 0x70000003)"),
    ] {
        let machine = Machine::with(&[runtime]);
        let little = ("STANDIN_MEMORY", "1000000");
        let (message, hint) = refused(&machine, little, "-t 1 -s 1048576");
        let expected =
            format!("cannot get a buffer of 1048576 bytes on {} GPU 1: {error}", runtime.name());
        assert!(message.ends_with(&expected), "{message}");
        assert!(hint.contains("smaller --size"), "{hint}");
        machine.assert_buffers(&[(0, 0), (1, 0)]);
    }
}

#[test]
fn names_refusals_of_both_ways() {
    let machine = Machine::with(&[Nvidia]);
    let faults = ("CXIDIAG_FAULTS", "peer-memory=off,dma-buf=off");
    let (message, hint) = refused(&machine, faults, "-t 0");
    let expected = "cannot map a buffer of 8 bytes on NVIDIA GPU 0 for the NIC: cxil_map: as peer \
                    memory: No such device (errno 19); as dma-buf: Operation not supported (errno 95)";
    assert!(message.ends_with(expected), "{message}");
    assert!(hint.contains("nvidia-peermem"), "{hint}");
    let (message, _) = refused(&machine, faults, "-t 0 --gpu-map=peer");
    let expected = ": cxil_map: as peer memory: No such device (errno 19)";
    assert!(message.ends_with(expected), "{message}");
    assert!(!machine.done().keys().any(|what| what.starts_with("left")));
}

/// The NIC reaches memory of Level Zero by a dma-buf only; CUDA and HIP have kernel modules for it.
#[test]
fn needs_exported_memory_with_level_zero_only() {
    let unexported = ("STANDIN_FAIL", "export");
    let machine = Machine::with(&[Intel]);
    let (message, hint) = refused(&machine, unexported, "-t 0");
    let expected = "cannot map a buffer of 8 bytes on INTEL GPU 0 for the NIC: cxil_map: as \
                    dma-buf: the runtime of the GPU exports none; as peer memory: No such device \
                    (errno 19)";
    assert!(message.ends_with(expected), "{message}");
    assert!(hint.contains("nvidia-peermem"), "{hint}");
    assert!(machine.done().contains_key("free 0"));
    for runtime in [Amd, Nvidia] {
        let machine = Machine::with(&[runtime]);
        let output = machine.run_with(unexported, &format!("{WRITES} -t 0 -r 1"));
        assert_success(&output);
        assert!(!machine.done().keys().any(|what| what.starts_with("export")));
    }
}

#[test]
fn frees_all_memory_after_a_failed_call() {
    let level_zero = "Level Zero error 0x7ffffffe";
    for (runtime, function, code) in [
        (Amd, "hipMemset", "HIP error 999"),
        (Amd, "hipMemcpy", "HIP error 999"),
        (Nvidia, "cuDevicePrimaryCtxRetain", "CUDA error 999"),
        (Nvidia, "cuPointerSetAttribute", "CUDA error 999"),
        (Nvidia, "cuMemsetD8_v2", "CUDA error 999"),
        (Nvidia, "cuMemcpyHtoD_v2", "CUDA error 999"),
        (Intel, "zeContextCreate", level_zero),
        (Intel, "zeCommandListCreateImmediate", level_zero),
        (Intel, "zeCommandListAppendMemoryFill", level_zero),
        (Intel, "zeCommandListAppendMemoryCopy", level_zero),
    ] {
        let machine = Machine::with(&[runtime]);
        let output = machine.run_with(("STANDIN_FAIL", function), FROM_A_GPU);
        let error = assert_status(&output, 1);
        let expected = format!("{function}: unknown error ({code})");
        assert!(error.contains(&expected), "{function}: {error}");
        let left = machine.done().keys().any(|what| what.starts_with("left"));
        assert!(!left, "{function}: {:?}", machine.done());
        machine.fabric.assert_nothing_left();
    }
}

#[test]
fn reports_memory_that_the_nic_cannot_reach() {
    let machine = Machine::with(&[Nvidia]);
    let output = machine.run_with(("STANDIN_FAIL", "cuMemcpyDtoH_v2"), FROM_A_GPU);
    let error = assert_status(&output, 1);
    assert!(error.contains("PCIE_UNSUCCESS_CMPL"), "{error}");
    machine.assert_buffers(&[(0, 1)]);
}

#[test]
fn rejects_invalid_options() {
    let machine = Machine::with(&ALL);
    for (option, allowed) in [
        ("--tx-gpu=x", "0 to 255"),
        ("--rx-gpu=256", "0 to 255"),
        ("--tx-gpu=-1", "0 to 255"),
        ("--gpu-type=CUDA", "expected AMD, NVIDIA or INTEL"),
        ("--gpu-map=dma-buf", "expected auto, peer or dmabuf"),
    ] {
        let output = machine.run(&format!("send-bw h -d soft0 {option}"));
        let error = assert_status(&output, 2);
        assert!(error.contains(allowed), "{error}");
    }
    // atomic-lat has no buffers on GPUs (tools.md 2.3).
    assert_status(&machine.run("atomic-lat h -d soft0 -t 0"), 2);
}
