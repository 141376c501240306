use std::collections::BTreeSet;
use std::time::Duration;

use cxi_sys::{C_RC_NO_SPACE, C_RC_PERM_VIOLATION, C_RC_PT_DISABLED};
use proptest::prelude::*;

use super::*;
use crate::fabric::Health;
use crate::fabric::link_settings::{
    Between, FailingOperations, InjectedError, PcieLanes, PcieLink, Slowness,
};

fn settings(link: &str, faults: &str) -> Result<LinkSettings, String> {
    read(0, Some(link.into()), Some(faults.into()))
}

#[test]
fn reads_every_item() {
    let found = settings(
        "latency=2000ns,jitter=0.5us,bandwidth=25.5GB/s,match=20ns",
        "rx-bandwidth=2GB/s,host-read=3us,host-write=4us,page-cost=300ns,wake=50us:0.5ms,class-ceiling=BULK_DATA:30,class-ceiling=BEST_EFFORT:100,class-delay=LOW_LATENCY:9us,fgfc=0.25,between=7-0:2us,between=7-0:3GB/s,between=1-2:1us,tx-paused=0.1,rx-paused=0.2,congestion=0.3,full=0.4,slow-host=5,lost-events=0.6,corrected=7.5,uncorrected=8,pcie-errors=9,pcie-path=8@32:16@32/16@16/1@2.5,pcie-width=4,pcie-speed=8.0,esm=25,up-fail=no-media,flaps=10,retry-handler=off,ama=off,atomic-completer=off,peer-memory=off,dma-buf=off,memory=0.6,set=port/speed:BJ_100G,set=fru/part_number:,seed=7,loss=0.01,retry=5ms,delay=0.25:50us,corrupt=0.75,error=PT_DISABLED@100,error=NO_SPACE:1,error=63@5,refuse=PERM_VIOLATION@9,down=1.5s:0.2s",
    )
    .unwrap();
    assert_eq!(found.latency, Duration::from_micros(2));
    assert_eq!(found.jitter, Duration::from_nanos(500));
    assert_eq!(found.match_time, Duration::from_nanos(20));
    assert_eq!(found.bandwidth, Some(25.5e9));
    let faults = found.faults;
    assert_eq!((faults.seed, faults.loss, faults.corrupt), (7, 0.01, 0.75));
    assert_eq!(faults.retry, Duration::from_millis(5));
    assert_eq!(faults.delay, Some((0.25, Duration::from_micros(50))));
    let down = (Duration::from_millis(1500), Some(Duration::from_millis(200)));
    assert_eq!(faults.down, Some(down));
    assert_eq!(faults.refusal, Some((C_RC_PERM_VIOLATION, 9)));
    let errors = [
        (C_RC_PT_DISABLED, FailingOperations::Number(100)),
        (C_RC_NO_SPACE, FailingOperations::Probability(1.0)),
        (63, FailingOperations::Number(5)),
    ];
    let errors = errors.map(|(code, selection)| InjectedError { code, selection });
    assert_eq!(faults.errors, errors);
    let slow = Between { delay: Duration::from_micros(2), bandwidth: Some(3e9) };
    let slowness = Slowness {
        rx_bandwidth: Some(2e9),
        host_read: Duration::from_micros(3),
        host_write: Duration::from_micros(4),
        page_cost: Duration::from_nanos(300),
        wake: Some((Duration::from_micros(50), Duration::from_micros(500))),
        ceilings: [Some(100), Some(30), None, None],
        class_delays: [0, 0, 9, 0].map(Duration::from_micros),
        fgfc: Some(0.25),
        between: [((0, 7), slow)].into(),
    };
    assert_eq!(found.slowness, slowness);
    let lanes = |width, speed| PcieLanes { width, speed };
    let health = Health {
        corrected: 7.5,
        uncorrected: 8.0,
        tx_paused: 0.1,
        rx_paused: 0.2,
        congestion: 0.3,
        full: 0.4,
        slow_host: 5,
        lost_events: 0.6,
        pcie_errors: 9.0,
        pcie: lanes(4, 8.0),
        pcie_path: vec![
            PcieLink { current: lanes(8, 32.0), max: lanes(16, 32.0) },
            PcieLink { current: lanes(16, 16.0), max: lanes(16, 16.0) },
            PcieLink { current: lanes(1, 2.5), max: lanes(16, 16.0) },
        ],
        esm: Some(25.0),
        up_fail: Some("no-media".into()),
        flaps: 10,
        has_retry_handler: false,
        ama: None,
        has_peer_memory: false,
        has_dma_bufs: false,
        has_atomic_completer: false,
        memory: 0.6,
        files: [("port/speed", "BJ_100G"), ("fru/part_number", "")]
            .map(|(file, content)| (file.to_owned(), content.to_owned()))
            .into(),
    };
    assert_eq!(found.health, health);
    assert_eq!(read(0, None, None), Ok(LinkSettings::default()));
    assert_eq!(settings("", ""), Ok(LinkSettings::default()));
}

#[test]
fn path_has_the_link_of_the_nic_last() {
    let found = settings("", "pcie-path=16@32/8@8:8@32").unwrap().health;
    let [above, nic_link] = found.pcie_path[..] else {
        panic!("{found:?}");
    };
    assert_eq!(found.pcie, nic_link.current);
    assert_eq!((above.max.width, above.max.speed), (16, 32.0), "at least");
    assert_eq!((nic_link.max.width, nic_link.max.speed), (8, 32.0));
}

#[test]
fn variable_is_about_one_nic() {
    let read = |nic| {
        let link = "latency=1us,nic=3".into();
        read(nic, Some(link), Some("nic=4,loss=0.5".into())).unwrap()
    };
    let latency = Duration::from_micros(1);
    assert_eq!((read(3).latency, read(3).faults.loss), (latency, 0.0));
    assert_eq!((read(4).latency, read(4).faults.loss), (Duration::ZERO, 0.5));
    assert_eq!(read(5), LinkSettings::default());
    // An item of another NIC is checked all the same.
    assert!(settings("nic=7,latency=1", "").is_err());
}

#[test]
fn later_list_is_about_another_nic() {
    let read = |nic| {
        let link = "latency=1us,jitter=2us;nic=3,latency=5us;nic=4,latency=6us".into();
        let settings = read(nic, Some(link), None).unwrap();
        (settings.latency.as_micros(), settings.jitter.as_micros())
    };
    assert_eq!([2, 3, 4].map(read), [(1, 2), (5, 2), (6, 2)]);
    let message = settings("latency=1us;;nic=3", "").unwrap_err();
    assert!(message.starts_with("CXIDIAG_LINK: '': expected "), "{message}");
}

#[test]
fn rejects_invalid_items_by_variable() {
    for item in [
        "nic=",
        "nic=soft3",
        "nic=100",
        "latency",
        "latency=",
        "latency=2000",
        "latency=-1ns",
        "latency=2h",
        "latency=1e3ns",
        "latency=.5us",
        "latency=5.us",
        "latency=3601s",
        "jitter=",
        "jitter=500",
        "jitter=-1ns",
        "jitter=2us:1us",
        "jitter=3601s",
        "bandwidth=25000",
        "bandwidth=0MB/s",
        "bandwidth=25000mb/s",
        "speed=1",
        " latency=1ns",
        "loss=0.1",
    ] {
        let message = settings(item, "").unwrap_err();
        assert!(message.starts_with(&format!("CXIDIAG_LINK: '{item}': expected ")));
    }
    for item in [
        "loss=1.1",
        "loss=x",
        "seed=-1",
        "seed=",
        "delay=0.1",
        "delay=1us:0.1",
        "corrupt=",
        "corrupt=1.5",
        "corrupt=@5",
        "error=NO_SPACE",
        "error=NO_SPACE@0",
        "error=OK@1",
        "error=NO_EVENT@1",
        "error=1@1",
        "error=64@1",
        "error=0x3f@1",
        "error=NONSENSE@1",
        "error=@1",
        "refuse=NO_SPACE",
        "refuse=NO_SPACE@0",
        "refuse=OK@1",
        "refuse=NO_SPACE:0.5",
        "down=",
        "down=1",
        "down=1s:",
        "rx-bandwidth=0.5MB/s",
        "rx-bandwidth=50%",
        "host-read=1",
        "host-write=2h",
        "page-cost=1",
        "wake=50us",
        "wake=50us:",
        "wake=:1ms",
        "class-ceiling=BEST_EFFORT",
        "class-ceiling=best_effort:50",
        "class-ceiling=ETH:50",
        "class-ceiling=BEST_EFFORT:0",
        "class-ceiling=BEST_EFFORT:101",
        "class-delay=BEST_EFFORT:20",
        "class-delay=:20us",
        "between=0:1us",
        "between=0-100:1us",
        "between=0-1",
        "between=0-1:5",
        "between=0-1:0.5MB/s",
        "esm=on",
        "esm=8",
        "esm=",
        "corrected=-1",
        "corrected=1e3",
        "uncorrected=1000000001",
        "tx-paused=1.1",
        "rx-paused=50%",
        "congestion=",
        "full=2",
        "slow-host=0.5",
        "slow-host=1000001",
        "lost-events=x",
        "pcie-errors=many",
        "pcie-width=3",
        "pcie-width=32",
        "pcie-speed=32",
        "pcie-path=",
        "pcie-path=16",
        "pcie-path=16@16/",
        "pcie-path=3@16",
        "pcie-path=16@17",
        "pcie-path=16@32",
        "pcie-path=16@16:8@16",
        "pcie-path=16@16:16@8",
        "pcie-path=16@16:16",
        "pcie-path=1@2.5/1@2.5/1@2.5/1@2.5/1@2.5",
        "up-fail=",
        "up-fail=no media",
        "flaps=11",
        "flaps=-1",
        "retry-handler=on",
        "retry-handler",
        "ama=",
        "memory=0",
        "memory=1.1",
        "set=",
        "set=port/speed",
        "set=:1",
        "set=/numa_node:1",
        "set=../numa_node:1",
        "set=port/../numa_node:1",
        "set=port/./speed:1",
        "set=port//speed:1",
        "set=port/:1",
        "set=telemetry/hni_tx_ok_opt:1",
        "set=/sys:1",
        "set=/run/cxi/soft0:1",
        "set=/run/lock/soft0/a:1",
        "fgfc=1",
        "set=/etc/passwd:1",
        "set=/proc/../etc/passwd:1",
        "set=//sys/a:1",
        "latency=1ns",
    ] {
        let message = settings("", item).unwrap_err();
        assert!(message.starts_with(&format!("CXIDIAG_FAULTS: '{item}': expected ")));
    }
}

/// The block of the README with the items of each variable.
#[test]
fn readme_has_the_forms_of_all_items() {
    let readme = include_str!("../../../README.md");
    let (_, block) = readme.split_once("\nCXIDIAG_LINK\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let (link, faults) = block.split_once("CXIDIAG_FAULTS").unwrap();
    for (documented, table) in [(link, LINK), (faults, FAULTS)] {
        let documented: BTreeSet<&str> =
            documented.split_whitespace().filter(|word| word.contains('=')).collect();
        let forms: BTreeSet<&str> = table.iter().flat_map(|item| item.form.split(" or ")).collect();
        assert_eq!(documented, forms);
    }
}

#[test]
fn names_what_is_allowed() {
    assert_eq!(
        settings("", "loss=2").unwrap_err(),
        "CXIDIAG_FAULTS: 'loss=2': expected loss=PROBABILITY, a number from 0 to 1"
    );
    assert_eq!(
        settings("speed=1", "").unwrap_err(),
        "CXIDIAG_LINK: 'speed=1': expected one of nic=, latency=, jitter=, bandwidth=, match="
    );
}

#[test]
fn rejects_duplicate_items() {
    let message = settings("latency=1ns,bandwidth=1GB/s,latency=2ns", "").unwrap_err();
    assert_eq!(message, "CXIDIAG_LINK: 'latency=2ns': latency is given twice");
    assert!(settings("jitter=1ns,jitter=1ns", "").is_err());
    assert!(settings("", "seed=1,seed=1").is_err());
    assert!(settings("", "class-delay=BULK_DATA:1us,class-delay=BULK_DATA:2us").is_err());
    assert!(settings("", "between=0-1:1us,between=0-1:2us").is_err());
    assert_eq!(
        settings("", "set=numa_node:1,set=numa_node:2").unwrap_err(),
        "CXIDIAG_FAULTS: 'set=numa_node:2': set=numa_node is given twice"
    );
}

#[test]
fn later_list_plants_further_files() {
    let read = |nic| {
        let faults = "set=a:1,set=b:2:3;nic=3,set=b:4,set=c:5";
        let found = read(nic, None, Some(faults.into())).unwrap();
        Vec::from_iter(found.health.files.into_values()).join(" ")
    };
    assert_eq!([0, 3].map(read), ["1 2:3", "1 4 5"]);
    assert!(settings("", "set=/sys/a/b:1,set=/proc/c:d,set=/run/cxi/soft0/e:1").is_ok());
    assert!(settings("", &format!("set={}:", "x".repeat(255))).is_ok());
    assert!(settings("", &format!("set={}:", "x".repeat(256))).is_err());
}

fn some_error() -> impl Strategy<Value = (String, InjectedError)> {
    let selection = prop_oneof![
        (1u64..).prop_map(|number| (format!("@{number}"), FailingOperations::Number(number))),
        (0.0..=1.0)
            .prop_map(|chance: f64| (format!(":{chance}"), FailingOperations::Probability(chance))),
    ];
    (2u32..64, selection).prop_map(|(code, (text, selection))| {
        let error = InjectedError { code, selection };
        (format!("error={code}{text}"), error)
    })
}

fn some_time() -> impl Strategy<Value = (String, Duration)> {
    let unit = prop_oneof![Just(("ns", 1)), Just(("us", 1_000)), Just(("ms", 1_000_000))];
    (0u64..3_600_000, unit).prop_map(|(value, (unit, nanoseconds))| {
        let time = Duration::from_nanos(value * nanoseconds);
        (format!("{value}{unit}"), time)
    })
}

proptest! {
    #[test]
    fn reads_all_valid_texts(
        (latency, latency_is) in some_time(),
        (jitter, jitter_is) in some_time(),
        megabytes in 1u32..1_000_000,
        seed: u64,
        loss in 0.0..=1.0f64,
        (late, late_is) in some_time(),
        errors in proptest::collection::vec(some_error(), 0..4),
        (from, from_is) in some_time(),
        (length, length_is) in some_time(),
    ) {
        let link = format!("bandwidth={megabytes}MB/s,latency={latency},jitter={jitter}");
        let mut faults = format!("seed={seed},loss={loss},delay={loss}:{late},down={from}:{length}");
        for (text, _) in &errors {
            faults += &format!(",{text}");
        }
        let found = settings(&link, &faults).unwrap();
        prop_assert_eq!(found.latency, latency_is);
        prop_assert_eq!(found.jitter, jitter_is);
        prop_assert_eq!(found.bandwidth, Some(f64::from(megabytes) * 1e6));
        prop_assert_eq!(found.faults.seed, seed);
        prop_assert_eq!(found.faults.loss, loss);
        prop_assert_eq!(found.faults.delay, Some((loss, late_is)));
        prop_assert_eq!(found.faults.down, Some((from_is, Some(length_is))));
        let errors_are: Vec<InjectedError> = errors.into_iter().map(|(_, error)| error).collect();
        prop_assert_eq!(found.faults.errors, errors_are);
    }

    #[test]
    fn survives_any_text(link in ".*", faults in "[a-z=@:,.0-9A-Z_]*") {
        let _ = settings(&link, &faults);
    }
}
