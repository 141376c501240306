//! The service, VNI and traffic class of a run (jobs.md 1.3). They come from the job, from the
//! options, or from the service that can be used.

use serde_json::{Value, json};

use crate::harness::{
    Command, Fabric, assert_status, assert_success, finish, named, stderr, stdout,
};

/// The variables of a step with a service on soft0 and none on soft1.
const STEP: [(&str, &str); 5] = [
    ("CXIDIAG_SERVICES", "job"),
    ("SLINGSHOT_DEVICES", "soft0,soft1"),
    ("SLINGSHOT_SVC_IDS", "5,-1"),
    ("SLINGSHOT_VNIS", "1358,1214"),
    ("SLINGSHOT_TCS", "0xa"),
];

/// A loopback run with `options`, and with these variables; an empty value is as good as none.
fn run_with(fabric: &Fabric, variables: &[(&str, &str)], options: &str) -> Command {
    let mut command = fabric.command(&format!("{options} --loopback"));
    for (name, value) in variables {
        command.env(name, named(value));
    }
    command
}

#[test]
fn uses_service_vni_and_class_of_job() {
    let fabric = Fabric::new();
    let run = |options: &str| finish(run_with(&fabric, &STEP, options));
    let output = run("write-lat -d soft0 -n 3");
    let notes = assert_status(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("\nService ID       : 5\n"), "{text}");
    assert!(text.contains(" PID 1 VNI 1358\n"), "{text}");
    assert_eq!(
        notes,
        named("cxidiag write-lat: soft0: using service 5, VNI 1358, BEST_EFFORT (SLINGSHOT_*)\n")
    );
    let output = run("write-bw -d soft0 -n 3 -s 8 --vni=job --traffic-class=tc_low-latency");
    assert_eq!(
        stderr(&output),
        named(
            "cxidiag write-bw: soft0: using service 5 (SLINGSHOT_*); VNI 1214, LOW_LATENCY (options)\n\
             cxidiag write-bw: soft0: the NIC limits LOW_LATENCY to 5 % of its bandwidth\n"
        )
    );
    let output = run("write-bw -d soft0 -n 3 -s 8 --traffic-class=low-latency --quiet --json");
    assert_eq!(stderr(&output), "");
    let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let device = &document["device"];
    assert_eq!(device["svc_id"], 5);
    assert_eq!(document["addresses"]["vni"], 1358);
    assert_eq!(
        json!([
            device["svc_id_source"],
            device["vni_source"],
            device["traffic_class"],
            device["traffic_class_source"],
        ]),
        json!(["slingshot", "slingshot", "LOW_LATENCY", "option"])
    );
    // Of this class the NIC has none.
    assert_eq!(document["options"]["hrp"], false);
    fabric.assert_nothing_left();
}

#[test]
fn searches_list_where_default_service_cannot_be_used() {
    let fabric = Fabric::new();
    let [services, devices, svc_ids, ..] = STEP;
    let output = finish(run_with(&fabric, &[services], "write-lat -d soft0 -n 3"));
    let note = "cxidiag write-lat: soft0: using service 5, VNI 1358 (service list)\n";
    assert_eq!(assert_status(&output, 0), named(note));
    for (variables, device, reason) in [
        (&STEP[..], "soft1", "no service on soft1 in this job (SLINGSHOT_*)"),
        (&[services, devices, svc_ids], "soft0", "SLINGSHOT_VNIS is missing or empty"),
    ] {
        let output = finish(run_with(&fabric, variables, &format!("write-lat -d {device} -n 3")));
        let note = format!(
            "cxidiag write-lat: {device}: {reason}; using service 5, VNI 1358 (service list)\n"
        );
        assert_eq!(assert_status(&output, 0), named(&note));
    }
}

/// Scripts shorten the other lists, not always this one.
#[test]
fn notes_that_classes_of_a_longer_list_are_not_used() {
    let fabric = Fabric::new();
    let [services, ..] = STEP;
    let variables = [
        services,
        ("SLINGSHOT_DEVICES", "soft0"),
        ("SLINGSHOT_SVC_IDS", "5"),
        ("SLINGSHOT_VNIS", "1358"),
        ("SLINGSHOT_TCS", "0xa,0x8"),
    ];
    let output = finish(run_with(&fabric, &variables, "write-lat -d soft0 -n 3"));
    let note = "cxidiag write-lat: soft0: SLINGSHOT_DEVICES=soft0 and SLINGSHOT_TCS=0xa,0x8 have \
                different lengths (1 and 2): its traffic classes are not used; using service 5, VNI \
                1358 (SLINGSHOT_*)\n";
    assert_eq!(assert_status(&output, 0), named(note));
}

/// Service 1 could be used, but has no such VNI.
#[test]
fn searches_list_for_the_vni_of_the_options() {
    let fabric = Fabric::new();
    let output = finish(run_with(&fabric, &[], "write-lat -d soft0 -n 3 --vni=16"));
    let notes = assert_status(&output, 0);
    assert_eq!(
        notes,
        named("cxidiag write-lat: soft0: using service 2 (service list); VNI 16 (options)\n")
    );
    assert!(stdout(&output).contains(" PID 1 VNI 16\n"));
}

#[test]
fn names_what_service_grants_instead() {
    let fabric = Fabric::new();
    for (options, message) in [
        ("--vni=10", "soft0: service 5 does not grant VNI 10; it grants 1358, 1214"),
        (
            "--traffic-class=bulk-data",
            "soft0: service 5 does not grant the traffic class BULK_DATA; it grants LOW_LATENCY, BEST_EFFORT",
        ),
    ] {
        let output = finish(run_with(&fabric, &STEP, &format!("write-lat -d soft0 {options}")));
        let error = assert_status(&output, 1);
        assert!(error.contains(&named(message)), "{error}");
    }
    // The class is not in the QoS profile.
    let output = fabric.run("write-lat --loopback -d soft0 --traffic-class=DEDICATED_ACCESS");
    let error = assert_status(&output, 1);
    let message = "cannot allocate a communication profile for DEDICATED_ACCESS on VNI 1: ";
    assert!(error.contains(message), "{error}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn refuses_invalid_variables_and_options_before_device_is_opened() {
    let fabric = Fabric::new();
    let [_, devices, svc_ids, vnis, _] = STEP;
    for (variables, options, message) in [
        (
            &[devices, ("SLINGSHOT_SVC_IDS", "5"), vnis][..],
            "",
            "SLINGSHOT_DEVICES=soft0,soft1 and SLINGSHOT_SVC_IDS=5 have different lengths",
        ),
        (
            &[devices, svc_ids, ("SLINGSHOT_VNIS", "70000")],
            "",
            "SLINGSHOT_VNIS=70000: '70000': expected a decimal number from 1 to 65535",
        ),
        (&[], "--vni=job", "--vni=job: the launcher has granted no VNI of the job"),
        (
            &[],
            "--vni=0",
            "invalid value '0' for --vni: expected a decimal number from 1 to 65535, or job",
        ),
        (
            &[],
            "--traffic-class=fast",
            "invalid value 'fast' for --traffic-class: expected DEDICATED_ACCESS, LOW_LATENCY",
        ),
    ] {
        let output = finish(run_with(&fabric, variables, &format!("write-lat -d soft0 {options}")));
        let error = assert_status(&output, 2);
        assert!(error.contains(&named(message)), "{error}");
        assert!(fabric.left().is_empty());
    }
}

/// jobs.md 1.5
#[test]
fn explains_variables_of_a_step_that_has_ended() {
    let fabric = Fabric::new();
    let [_, devices, _, vnis, _] = STEP;
    for (svc_ids, message) in [
        ("9,9", "the service of SLINGSHOT_*: cannot use service 9 of soft0: "),
        ("3,3", "the service of SLINGSHOT_*: service 3 of soft0 is disabled"),
        ("1,1", "soft0: SLINGSHOT_*: service 1 does not grant VNI 1358; it grants 1, 10"),
    ] {
        let variables = [devices, ("SLINGSHOT_SVC_IDS", svc_ids), vnis];
        let output = finish(run_with(&fabric, &variables, "write-lat -d soft0"));
        let error = assert_status(&output, 1);
        assert!(error.contains(&named(message)), "{error}");
        assert!(
            error.contains("\nhint: the variables are those of a step that has ended"),
            "{error}"
        );
    }
}

/// jobs.md 1.5
#[test]
fn explains_step_on_one_node_without_service() {
    let fabric = Fabric::new();
    let disabled = ("CXIDIAG_SERVICES", "disabled");
    let step = ("SLURM_STEP_NUM_NODES", "1");
    let error = |variables: &[(&str, &str)]| {
        let output = finish(run_with(&fabric, variables, "write-lat -d soft0"));
        let error = assert_status(&output, 1);
        assert!(error.contains(&named("service 1 of soft0 is disabled")), "{error}");
        error
    };
    let hint = "srun --network=single_node_vni";
    assert!(error(&[disabled, step]).contains(hint));
    assert!(!error(&[disabled]).contains(hint));
}

#[test]
fn refuses_other_class_where_server_issues_operations() {
    let fabric = Fabric::new();
    let server = fabric.server("write-bw", "-d soft0 --traffic-class=bulk-data");
    let refused = fabric.client("write-bw", &server, "-d soft1 -n 3 -s 8 -b");
    let error = assert_status(&refused, 1);
    let message = "different traffic classes: BEST_EFFORT here, BULK_DATA at the peer";
    assert!(error.contains(message), "{error}");
    assert_success(&fabric.client("write-bw", &server, "-d soft1 -n 3 -s 8"));
    let error = assert_status(&server.finish(), 0);
    assert!(error.contains("BULK_DATA here, BEST_EFFORT at the peer"), "{error}");
}
