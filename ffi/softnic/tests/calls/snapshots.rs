//! The files of a NIC, written on request (health.md 2, 3).

use std::fs;
use std::path::{Path, PathBuf};

use softnic::Snapshot;
use softnic::sysfs::SysfsEntry;

use crate::driver::prelude::*;

/// The files of the first NIC, with these faults.
struct Files(Snapshot);

impl Files {
    fn with(faults: &str) -> Self {
        set("CXIDIAG_FAULTS", faults);
        Self(Snapshot::new(0).unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.root().join(name)
    }

    fn text(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name));
        let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
        let padding = text.trim_start_matches(|char| char != '\0');
        if name.starts_with("run/cxi") {
            assert_eq!(text.len(), 1024, "{name}");
            assert!(padding.bytes().all(|byte| byte == 0), "{name}");
        } else {
            assert_eq!(padding, "", "{name}");
        }
        let line = text.split('\0').next().and_then(|text| text.strip_suffix('\n'));
        line.expect("a whole line").to_owned()
    }

    /// A file of the PCI device.
    fn device_text(&self, name: &str) -> String {
        self.text(&format!("sys/class/cxi/soft0/device/{name}"))
    }

    /// A counter, and when it was read, in seconds.
    fn stamped(&self, name: &str) -> (u64, f64) {
        let line = self.device_text(&format!("telemetry/{name}"));
        let (value, stamp) = line.split_once('@').expect("a stamp");
        let (_, nanoseconds) = stamp.split_once('.').expect("nanoseconds");
        assert_eq!(nanoseconds.len(), 9, "{line}");
        (value.parse().unwrap(), stamp.parse().unwrap())
    }

    fn counter(&self, name: &str) -> u64 {
        self.stamped(name).0
    }
}

/// A counter of the first NIC, by the name of its file.
pub fn counter(name: &str) -> u64 {
    Files::with("").counter(name)
}

#[test]
fn shows_files_of_a_healthy_nic() {
    alone!();
    let files = Files::with("");
    for (name, content) in [
        ("properties/nid", "0x12"),
        ("properties/link", "1"),
        ("properties/speed", "200000"),
        ("properties/hpc_mtu", "2112"),
        ("properties/pct_eq", "2047"),
        ("properties/pcie_corr_err", "0"),
        ("port/0/link/state", "up"),
        ("port/0/link/speed", "bs200G"),
        ("port/0/link/config/loopback", "disabled"),
        ("port/0/link/config/pause_map", "none"),
        ("port/0/llr/state", "running"),
        ("port/0/media/type", "electrical"),
        ("port/0/link/fec/monitor_check/ccw_warn_limit", "0"),
        ("port/0/link/fec/monitor_check/ucw_warn_limit", "0"),
        ("link_restarts/time_0", "0"),
        ("link_restarts/time_9", "0"),
        ("traffic_classes/active_qos_profile", "LL_BE_BD_ET"),
        ("traffic_classes/low_latency/ceiling_bw", "5"),
        ("traffic_classes/best_effort/assured_bw", "10"),
        ("current_link_speed", "16.0 GT/s PCIe"),
        ("current_link_width", "16"),
        ("aer_dev_correctable", "TOTAL_ERR_COR 0"),
        ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0"),
        ("aer_dev_fatal", "TOTAL_ERR_FATAL 0"),
    ] {
        assert_eq!(files.device_text(name), content, "{name}");
    }
    for (name, content) in [
        ("sys/class/net/hsn-soft0/address", "02:00:00:00:00:12"),
        ("sys/class/net/hsn-soft0/addr_assign_type", "3"),
        ("sys/class/net/hsn-soft0/operstate", "up"),
        ("sys/class/net/hsn-soft0/device/port/0/link/state", "up"),
        ("run/cxi/soft0/spt_timeouts", "0"),
        ("run/cxi/soft0/config/max_spt_retries", "4"),
    ] {
        assert_eq!(files.text(name), content, "{name}");
    }
    assert!(files.path("sys/class/net/hsn-soft0/device/cxi/soft0").is_dir());
    let telemetry = fs::read_dir(files.path("sys/class/cxi/soft0/device/telemetry")).unwrap();
    assert!(telemetry.count() > 1500);
}

#[test]
fn shows_rgids_without_lnis() {
    alone!();
    let shown = || Files::with("").device_text("properties/rgids_avail");
    assert_eq!(shown(), "255");
    let (dev, other) = (open(0), open(0));
    let lnis = [dev, dev, other].map(alloc_lni);
    assert_eq!(shown(), "252");
    assert_eq!(call!(cxil_destroy_lni(lnis[1])), 0);
    assert_eq!(shown(), "253");
    close(other);
    assert_eq!(shown(), "254");
    close(dev);
    assert_eq!(shown(), "255");
}

/// The kernel shows a switch as two bridges, each with the link that it is an end of, and a NIC
/// below the bridges above it.
#[test]
fn shows_bridges_of_planted_path() {
    alone!();
    let files = Files::with("pcie-path=8@32:16@32/4@16:8@16");
    let device = fs::canonicalize(files.path("sys/class/cxi/soft0/device")).unwrap();
    let upwards: Vec<&str> = device
        .ancestors()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .take_while(|name| !name.starts_with("pci"))
        .collect();
    let [nic, below, above, root_port] = upwards[..] else {
        panic!("{}", device.display());
    };
    assert_eq!(nic, "5f00:00:00.0");
    assert!([below, above, root_port].iter().all(|name| *name != nic));
    for (up, width, max_width, speed, max_speed) in [
        ("", "4", "16", "16.0", "16.0"),
        ("../", "4", "8", "16.0", "16.0"),
        ("../../", "8", "16", "32.0", "32.0"),
        ("../../../", "8", "16", "32.0", "32.0"),
    ] {
        let shown = |name: &str| files.device_text(&format!("{up}{name}"));
        assert_eq!(shown("current_link_width"), width, "{up}");
        assert_eq!(shown("max_link_width"), max_width, "{up}");
        assert_eq!(shown("current_link_speed"), format!("{speed} GT/s PCIe"));
        assert_eq!(shown("max_link_speed"), format!("{max_speed} GT/s PCIe"));
        assert_eq!(shown("aer_dev_correctable"), "TOTAL_ERR_COR 0");
        let class = if up.is_empty() { "0x020000" } else { "0x060400" };
        assert_eq!(shown("class"), class, "{up}");
    }
    assert_eq!(files.device_text("../../../aer_rootport_total_err_cor"), "0");
    let driver = fs::canonicalize(device.join("driver")).unwrap();
    assert!(driver.ends_with("softnic/drivers/softnic"), "{driver:?}");
    let again = fs::canonicalize(driver.join(nic)).unwrap();
    assert_eq!(again, device, "the driver leads to the device");

    // The width of the NIC is the width of its link, at both ends.
    let files = Files::with("pcie-path=16@16,pcie-width=2");
    for up in ["", "../"] {
        let width = files.device_text(&format!("{up}current_link_width"));
        assert_eq!(width, "2", "{up}");
    }
}

/// Counters that rise by themselves, and nothing else.
#[test]
fn counts_code_words_by_the_time() {
    alone!();
    let before = Files::with("");
    let (first, began) = before.stamped("hni_pcs_good_cw");
    let (last, ended, after) = wait_for("a hundredth of a second", || {
        let after = Files::with("");
        let (last, ended) = after.stamped("hni_pcs_good_cw");
        (ended - began > 0.01).then_some((last, ended, after))
    });
    let rate = (last - first) as f64 / (ended - began);
    assert!((20e6..80e6).contains(&rate), "{rate}");
    assert_eq!(after.counter("hni_pcs_corrected_cw"), 0);
    // Zero has the time of its reading, too.
    assert!(after.stamped("hni_pfc_fifo_oflw_cntr_0").1 > began);
}

#[test]
fn shows_state_of_an_unhealthy_nic() {
    alone!();
    let device = "sys/class/cxi/soft0/device";
    let interface = "sys/class/net/hsn-soft0";
    for (faults, file, content) in [
        ("down=0ns", format!("{device}/port/0/link/state"), "down"),
        ("down=0ns", format!("{device}/properties/link"), "0"),
        ("down=0ns", format!("{interface}/operstate"), "down"),
        ("pcie-width=8", format!("{device}/current_link_width"), "8"),
        ("pcie-width=8", format!("{device}/max_link_width"), "16"),
        ("pcie-speed=2.5", format!("{device}/current_link_speed"), "2.5 GT/s PCIe"),
        ("retry-handler=off", format!("{device}/properties/pct_eq"), "0"),
        ("ama=off", format!("{interface}/addr_assign_type"), "0"),
        ("ama=06", format!("{interface}/address"), "06:00:00:00:00:12"),
        (
            "class-ceiling=BEST_EFFORT:50",
            format!("{device}/traffic_classes/best_effort/ceiling_bw"),
            "50",
        ),
        (
            "class-ceiling=BEST_EFFORT:50",
            format!("{device}/traffic_classes/bulk_data/ceiling_bw"),
            "100",
        ),
        ("esm=25", format!("{device}/properties/current_esm_link_speed"), "25.0 GT/s"),
        ("esm=25", format!("{device}/uc/qspi_blob_version"), "--ESM"),
        ("esm=off", format!("{device}/properties/current_esm_link_speed"), "Disabled"),
        ("esm=off", format!("{device}/uc/qspi_blob_version"), "-"),
        ("ama=off", format!("{interface}/address"), "00:00:5e:00:53:12"),
    ] {
        assert_eq!(Files::with(faults).text(&file), content, "{faults}: {file}");
    }
    let files = Files::with("flaps=2");
    let restart = |number| -> u64 {
        let file = format!("link_restarts/time_{number}");
        files.device_text(&file).parse().unwrap()
    };
    assert_eq!(restart(0), restart(1) + 60);
    assert_eq!(restart(2), 0);
    let files = Files::with("down=0ns:1ns");
    assert!(files.device_text("link_restarts/time_0").parse::<u64>().unwrap() > 0);
    assert_eq!(files.device_text("port/0/link/state"), "up");
    // The information about the device agrees.
    set("CXIDIAG_FAULTS", "retry-handler=off,down=0ns");
    let dev = open(0);
    assert_eq!((info(dev).pct_eq, info(dev).link_state), (0, 0));
    close(dev);
    assert!(!Files::with("retry-handler=off").path("run/cxi").exists());
}

/// health.md 2.1.2: names and words by release, and times before dates.
#[test]
fn causes_of_a_link_have_the_form_of_each_release() {
    alone!();
    const LINK: &str = "port/0/link";
    const SINGLE: [&str; 3] = ["last_up_fail_cause_map", "last_up_fail_time", "last_down_time"];
    for (release, names, word) in [
        ("13", SINGLE, "no-fail"),
        ("14", SINGLE, "no-fail"),
        (
            "14.0.1",
            ["last_up_fail/up_fail_cause_map_0", "last_up_fail/up_fail_time_0", "last_down/time_9"],
            "none",
        ),
    ] {
        set("CXIDIAG_SHS", release);
        let [cause, time, down] = names.map(|name| format!("{LINK}/{name}"));
        let files = Files::with("");
        assert_eq!([&cause, &time].map(|name| files.device_text(name)), [word, word]);
        assert_eq!(files.device_text(&down), "none");
        let files = Files::with("up-fail=unsupported-cable");
        assert_eq!(files.device_text(&cause), "unsupported-cable");
        let form = files.device_text(&time).replace(|digit: char| digit.is_ascii_digit(), "0");
        assert_eq!(form, "00:00:00 0000-00-00");
    }
    set("CXIDIAG_SHS", "12");
    let files = Files::with("up-fail=unsupported-cable");
    for name in ["last_down_cause", "last_down_time"] {
        assert_eq!(files.device_text(&format!("{LINK}/{name}")), "no record");
    }
    let entries = fs::read_dir(files.path(&format!("sys/class/cxi/soft0/device/{LINK}"))).unwrap();
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.all(|name| !name.contains("up_fail")));
    set("CXIDIAG_SHS", "");
}

/// health.md 2.1.5.
#[test]
fn virtual_function_has_properties_only() {
    alone!();
    set("CXIDIAG_SHS", "next");
    set("CXIDIAG_NIDS", "0x200012");
    let files = Files::with("");
    for name in ["pct_eq", "link", "speed"] {
        assert_eq!(files.device_text(&format!("properties/{name}")), "0");
    }
    let device = files.path("sys/class/cxi/soft0/device");
    for name in [
        "telemetry",
        "port",
        "fru",
        "uc",
        "traffic_classes",
        "settings",
        "link_restarts",
        "err_flgs_irqa",
    ] {
        assert!(!device.join(name).exists(), "{name}");
    }
    assert!(!files.path("run/cxi").exists());
    let dev = open(0);
    let info = info(dev);
    assert_eq!((info.pct_eq, info.link_state, info.link_speed, info.is_vf), (0, 0, 0, true));
    close(dev);
    set("CXIDIAG_NIDS", "");
    set("CXIDIAG_SHS", "");
}

#[test]
fn plants_contents_of_files() {
    alone!();
    let files = Files::with(
        "pcie-errors=1000,set=properties/pcie_corr_err:7,set=uc/qspi_blob_version:1.5.53-ESM,\
         set=iommu_group/type:DMA-FQ,set=numa_node:1,set=port/speed:BJ_100G,set=port/0/llr:off,\
         set=driver:none,set=fru/description/text:,set=net/hsn-soft0/mtu:1500",
    );
    for (name, content) in [
        ("properties/pcie_corr_err", "7"),
        ("uc/qspi_blob_version", "1.5.53-ESM"),
        ("iommu_group/type", "DMA-FQ"),
        ("numa_node", "1"),
        ("port/speed", "BJ_100G"),
        ("driver", "none"),
        // A file in place of a directory, and a directory in place of a file.
        ("port/0/llr", "off"),
        ("fru/description/text", ""),
        // Files beside these remain.
        ("port/0/link/state", "up"),
        ("properties/link", "1"),
    ] {
        assert_eq!(files.device_text(name), content, "{name}");
    }
    assert_eq!(files.text("sys/class/net/hsn-soft0/mtu"), "1500");
    // `cxi-softnic` shows the same.
    let shown = softnic::sysfs::class_directory(Path::new("/no/sys")).unwrap();
    let entry = |file| shown.get(&Path::new("softnic/pci5f00:00/5f00:00:00.0").join(file));
    assert_eq!(entry("numa_node"), Some(&SysfsEntry::File("1\n".into())));
    assert_eq!(entry("port/0/llr"), Some(&SysfsEntry::File("off\n".into())));
    assert_eq!(entry("port/0/llr/state"), None);
    // The NIC works all the same, and has no other files without the fault.
    let (mut rig, source, _) = Rig::with_target();
    assert_eq!(rig.code(&rig.dma_put(&source, 0, 8, |_| {})), C_RC_OK);
    let files = Files::with("");
    assert_eq!(files.device_text("numa_node"), "-1");
    assert!(!files.path("sys/class/cxi/soft0/device/port/speed").exists());
}

#[test]
fn faults_move_their_counters() {
    alone!();
    for (faults, counters) in [
        ("corrected=1000000", &["hni_pcs_corrected_cw", "hni_pcs_fecl_errors_7"][..]),
        ("uncorrected=1000000", &["hni_pcs_uncorrected_cw", "hni_llr_rx_replay_event"]),
        ("tx-paused=0.5", &["hni_tx_paused_0"]),
        ("rx-paused=0.5", &["hni_rx_paused_0"]),
        (
            "congestion=0.5",
            &["ixe_tc_req_ecn_pkts_0", "ixe_tc_rsp_ecn_pkts_1", "ixe_pool_ecn_pkts_0"],
        ),
        ("full=0.5", &["pct_no_trs_nacks", "pct_no_tct_nacks"]),
        ("slow-host=9", &["parbs_tarb_pi_posted_blocked_cnt"]),
        ("lost-events=0.5", &["ee_events_dropped_ordinary_cntr_0"]),
    ] {
        set("CXIDIAG_FAULTS", faults);
        let (mut rig, source, _) = Rig::with_target();
        let put = rig.dma_put(&source, 0, 8, |_| {});
        for _ in 0..10 {
            assert_eq!(rig.code(&put), C_RC_OK);
        }
        let healthy = Files::with("");
        // Some counters rise with the time.
        wait_for(faults, || {
            let files = Files::with(faults);
            let moved = counters.iter().all(|name| files.counter(name) > 0);
            moved.then_some(())
        });
        for name in counters {
            assert_eq!(healthy.counter(name), 0, "{name}");
        }
    }
}

/// The exact numbers of faults that are a share of what the NIC counts.
#[test]
fn shares_of_packets_are_exact() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 1000, |_| {});
    for _ in 0..20 {
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    let files = Files::with("congestion=0.25,full=0.5,slow-host=3,lost-events=0.1");
    for (name, value) in [
        ("hni_tx_ok_opt", 40),
        ("hni_sts_tx_ok_octets", 20 * (1064 + 64)),
        ("hni_sts_rx_octets_opt", 20 * (1064 + 64)),
        ("lpe_net_match_requests_0", 20),
        ("lpe_sts_net_match_attempts_0", 20),
        ("lpe_sts_net_max_attempts_max_0", 1),
        ("ixe_tc_req_ecn_pkts_0", 5),
        ("ixe_tc_req_no_ecn_pkts_0", 15),
        ("ixe_tc_rsp_ecn_pkts_1", 5),
        ("ixe_pool_ecn_pkts_0", 10),
        ("ixe_pool_no_ecn_pkts_0", 30),
        ("pct_no_trs_nacks", 10),
        ("pct_no_tct_nacks", 10),
    ] {
        assert_eq!(files.counter(name), value, "{name}");
    }
    let writes = files.counter("parbs_tarb_pi_posted_pkts");
    let events = files.counter("ee_events_enqueued_cntr_0");
    assert_eq!(writes, 40 + events);
    assert_eq!(files.counter("parbs_tarb_pi_posted_blocked_cnt"), 3 * writes);
    assert_eq!(files.counter("ee_events_dropped_ordinary_cntr_0"), events / 10);
    assert_eq!(files.text("run/cxi/soft0/nack_no_target_trs"), "10");
    assert_eq!(files.text("run/cxi/soft0/nacks"), "20");
}

#[test]
fn planted_files_replace_files_of_the_retry_handler() {
    alone!();
    let planted = "set=/run/cxi/soft0/parked_nids:3,set=/proc/cmdline:quiet";
    let files = Files::with(planted);
    assert_eq!(files.text("run/cxi/soft0/parked_nids"), "3");
    assert_eq!(files.text("run/cxi/soft0/trs_in_use"), "0");
    assert_eq!(files.text("proc/cmdline"), "quiet");
    let files = Files::with(&format!("retry-handler=off,{planted}"));
    assert_eq!(files.text("run/cxi/soft0/parked_nids"), "3");
    assert!(!files.path("run/cxi/soft0/trs_in_use").exists());
}

#[test]
fn lost_packets_count_as_timeouts_of_the_retry_handler() {
    alone!();
    set("CXIDIAG_FAULTS", "loss=0.5,retry=1us");
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..50 {
        rig.run(&put);
    }
    let files = Files::with("");
    let timeouts = files.counter("pct_spt_timeouts");
    assert!(timeouts > 0 && files.counter("pct_retry_srb_requests") > 0);
    let handler_count = |name: &str| -> u64 {
        let text = files.text(&format!("run/cxi/soft0/{name}"));
        text.parse().unwrap()
    };
    assert_eq!(handler_count("spt_timeouts"), timeouts);
    let by_order = ["spt_timeouts_o", "spt_timeouts_u"].map(handler_count);
    assert_eq!(by_order.iter().sum::<u64>(), timeouts);
}

#[test]
fn counts_pcie_errors_by_the_time() {
    alone!();
    let _counting = Files::with("");
    wait_for("PCIe errors", || {
        let files = Files::with("pcie-errors=100000");
        let errors: u64 = files.device_text("properties/pcie_corr_err").parse().unwrap();
        let aer = files.device_text("aer_dev_correctable");
        assert_eq!(aer, format!("TOTAL_ERR_COR {errors}"));
        (errors > 0).then_some(())
    });
}

#[test]
fn counters_continue_while_a_snapshot_exists() {
    alone!();
    let put = || {
        let (mut rig, source, _) = Rig::with_target();
        let put = rig.dma_put(&source, 0, 8, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
    };
    put();
    assert!(!fabric().exists());
    let first = Files::with("");
    assert_eq!(first.counter("hni_tx_ok_opt"), 0, "restarted");
    put();
    let second = Files::with("");
    assert_eq!(second.counter("hni_tx_ok_opt"), 2);
    drop(first);
    put();
    assert_eq!(Files::with("").counter("hni_tx_ok_opt"), 4);
    drop(second);
    assert!(!fabric().exists());
}

#[test]
fn survives_what_others_left_in_the_directory() {
    alone!();
    fs::create_dir(fabric()).unwrap();
    let counters = fabric().join("counters-12");
    fs::write(&counters, "no counters").unwrap();
    // A snapshot whose owner was killed, and a file of the user's with such a name.
    fs::create_dir_all(fabric().join("files-12.0/sys")).unwrap();
    let theirs = fabric().join("files-12.1");
    fs::write(&theirs, "notes").unwrap();
    let dev = open(0);
    assert!(!fabric().join("files-12.0").exists());
    let files = Files::with("");
    assert!(files.0.root().ends_with("files-12.0"));
    let next = Files::with("");
    assert!(next.0.root().ends_with("files-12.2"));
    assert_eq!(next.counter("hni_tx_ok_opt"), 0);
    drop((files, next));
    close(dev);
    assert_eq!(ports(), ["files-12.1"]);
    fs::remove_file(theirs).unwrap();
    fs::create_dir(&counters).unwrap();
    // Devices work without counters, which then cannot be read.
    let dev = open(0);
    assert!(Snapshot::new(0).is_err());
    assert_eq!(call!(cxil_read_cntr(dev, 1556, &mut 0, null_mut())), -libc::EISDIR);
    close(dev);
    fs::remove_dir(counters).unwrap();
    fs::remove_dir(fabric()).unwrap();
}

#[test]
fn writes_only_wanted_telemetry() {
    alone!();
    set("CXIDIAG_FAULTS", "");
    let wanted = ["hni_pcs_good_cw", "hni_tx_ok_opt", "pct_spt_timeouts"];
    let files = Files(Snapshot::with_counters(0, |name| wanted.contains(&name)).unwrap());
    let telemetry = fs::read_dir(files.path("sys/class/cxi/soft0/device/telemetry"));
    let mut names: Vec<_> = telemetry.unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, wanted);
    assert_eq!(files.counter("pct_spt_timeouts"), 0);
    assert_eq!(files.device_text("properties/nid"), "0x12");
}

#[test]
fn refuses_unknown_nics_and_invalid_faults() {
    alone!();
    let error = |number| Snapshot::new(number).err().and_then(|error| error.raw_os_error());
    assert_eq!(error(100), Some(ENODEV));
    set("CXIDIAG_FAULTS", "flaps=11");
    assert_eq!(error(0), Some(EINVAL));
    assert!(!fabric().exists());
}
