use super::super::testing::assert_verdicts;
use super::*;
use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
use node::nic::testing::MadeUp;

/// A NIC at a root port.
const AT_ROOT_PORT: &str = "pci0000:40/0000:40:01.1/0000:41:00.0";

/// A NIC behind a switch.
const BEHIND_SWITCH: &str = "pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:43:00.0";

/// Writes the lanes and the speed in use and the most of a device, whose files are at `place`.
fn set(made_up: &MadeUp, place: &str, current: (u64, f64), max: (u64, f64)) {
    for (which, (width, speed)) in [("current", current), ("max", max)] {
        made_up.write(&format!("{place}{which}_link_width"), &format!("{width}\n"));
        let speed = format!("{speed:.1} GT/s PCIe\n");
        made_up.write(&format!("{place}{which}_link_speed"), &speed);
    }
}

/// A NIC for 16 lanes at 16 GT/s in a slot for `slot`, at which it does `current`.
fn in_slot(current: (u64, f64), slot: (u64, f64)) -> MadeUp {
    let made_up = MadeUp::at(AT_ROOT_PORT);
    set(&made_up, "", current, (16, 16.0));
    set(&made_up, "../", current, slot);
    made_up
}

/// A NIC for 16 lanes at 16 GT/s that does all of it, behind a switch whose link to the root port
/// does `current`. Switch and root port can do 16 lanes at `most`.
fn behind_switch(current: (u64, f64), most: f64) -> MadeUp {
    let made_up = MadeUp::at(BEHIND_SWITCH);
    let most = (16, most);
    set(&made_up, "", (16, 16.0), (16, 16.0));
    set(&made_up, "../", (16, 16.0), most);
    set(&made_up, "../../", current, most);
    set(&made_up, "../../../", current, most);
    made_up
}

/// Returns what is found of lanes, speed, and the links above the slot.
fn found(made_up: &MadeUp) -> [Finding; 3] {
    let path = PciePath::read(&made_up.files);
    [width(&made_up.files, &path), speed(&made_up.files, &path, None), upstream(&path)]
}

fn verdicts(made_up: &MadeUp) -> [Severity; 3] {
    found(made_up).map(|finding| finding.verdict)
}

fn texts(finding: &Finding) -> [&str; 3] {
    [&finding.value, &finding.limit, &finding.note].map(|text| text.as_deref().unwrap_or(""))
}

#[test]
fn links_that_do_all_are_good() {
    for made_up in [
        in_slot((16, 16.0), (16, 16.0)),
        in_slot((16, 16.0), (16, 32.0)),
        // Between the two ports of the switch is no link: a NIC that is slower than the switch
        // is good.
        behind_switch((16, 16.0), 16.0),
        behind_switch((16, 32.0), 32.0),
    ] {
        let [width, speed, upstream] = found(&made_up);
        assert_eq!(texts(&width), ["x16", "x16", ""]);
        assert_eq!(texts(&speed), ["16.0 GT/s", "16.0 GT/s", ""]);
        let verdicts = [width, speed, upstream].map(|finding| finding.verdict);
        assert_eq!(verdicts, [Good, Good, Shown]);
    }
}

#[test]
fn degraded_link_of_nic_is_bad() {
    let [width, speed, upstream] = found(&in_slot((8, 8.0), (16, 32.0)));
    let between = "between 0000:40:01.1 and 0000:41:00.0";
    let note = format!("{between}; they can do x16 and x16");
    assert_eq!(texts(&width), ["x8", "x16", &note]);
    assert_eq!((width.number, width.numbers.get(LIMIT)), (Some(8.0), Some(&16.0)));
    let note = format!("{between}; they can do 32.0 GT/s and 16.0 GT/s");
    assert_eq!(texts(&speed), ["8.0 GT/s", "16.0 GT/s", &note]);
    assert_eq!((speed.number, speed.numbers.get(LIMIT)), (Some(8e9), Some(&16e9)));
    assert_eq!([width.number, speed.number], [Some(8.0), Some(8e9)]);
    assert_eq!([width.verdict, speed.verdict], [Bad, Bad]);
    assert_eq!([&width.place, &speed.place], [&Some(between.into()); 2]);
    assert_eq!(texts(&upstream), ["none", "", ""]);
}

#[test]
fn degraded_link_behind_a_switch_is_bad() {
    let made_up = behind_switch((4, 16.0), 16.0);
    let [width, speed, upstream] = found(&made_up);
    let note = "between 0000:40:01.1 and 0000:41:00.0; they can do x16 and x16";
    assert_eq!(texts(&width), ["x4", "x16", note]);
    assert_eq!((width.verdict, width.number), (Bad, Some(4.0)));
    assert_eq!(speed.verdict, Good);
    let note = "slower than the link of the NIC between 0000:40:01.1 and 0000:41:00.0";
    assert_eq!(texts(&upstream), ["x4 16.0 GT/s", "", note]);

    let slower = behind_switch((16, 2.5), 16.0);
    assert_eq!(verdicts(&slower), [Good, Bad, Shown]);

    made_up.write("current_link_width", "2\n");
    let [width, ..] = found(&made_up);
    let note = "between 0000:42:04.0 and 0000:43:00.0; they can do x16 and x16; \
                also x4 between 0000:40:01.1 and 0000:41:00.0; they can do x16 and x16";
    assert_eq!(texts(&width), ["x2", "x16", note], "the worst is first");
}

#[test]
fn slow_slot_is_no_defect() {
    let [width, speed, _] = found(&in_slot((8, 8.0), (8, 8.0)));
    let note = "limited by the slot 0000:40:01.1, x8; the NIC can do x16";
    assert_eq!(texts(&width), ["x8", "x8", note]);
    let note = "limited by the slot 0000:40:01.1, 8.0 GT/s; the NIC can do 16.0 GT/s";
    assert_eq!(texts(&speed), ["8.0 GT/s", "8.0 GT/s", note]);
    assert_eq!([width.verdict, speed.verdict], [Good, Good]);
    assert_eq!([width.place, speed.place], [None, None]);
    let less_than_slot = in_slot((4, 8.0), (8, 8.0));
    assert_eq!(verdicts(&less_than_slot), [Bad, Good, Shown]);

    let made_up = in_slot((16, 16.0), (16, 16.0));
    set(&made_up, "", (16, 16.0), (16, 32.0));
    let path = PciePath::read(&made_up.files);
    let found = super::speed(&made_up.files, &path, Some(Generation::Cassini2));
    assert_eq!(found.verdict, Good, "a Cassini 2 in an older slot");
}

#[test]
fn slow_link_above_a_switch_is_no_defect() {
    let made_up = behind_switch((8, 16.0), 16.0);
    made_up.write("../../../max_link_width", "8\n");
    let [width, _, upstream] = found(&made_up);
    assert_eq!(texts(&width), ["x16", "x16", ""]);
    let note = "slower than the link of the NIC between 0000:40:01.1 and 0000:41:00.0";
    assert_eq!(texts(&upstream), ["x8 16.0 GT/s", "", note]);
    let faster = behind_switch((8, 32.0), 32.0);
    faster.write("../../../max_link_width", "8\n");
    let [_, _, upstream] = found(&faster);
    assert_eq!(texts(&upstream), ["x8 32.0 GT/s", "", ""]);
}

#[test]
fn nic_without_bridges_is_compared_with_itself() {
    for (current, max, verdict) in [
        ("16", "16", Good),
        ("8", "16", Bad),
        ("8", "8", Suspect),
        ("16", "", Good),
        ("0", "0", NotAvailable),
        ("Unknown", "16", NotAvailable),
    ] {
        let made_up = MadeUp::new(&[("current_link_width", current), ("max_link_width", max)]);
        let [width, _, upstream] = found(&made_up);
        assert_eq!(width.verdict, verdict, "{current} of {max}");
        assert_eq!(width.note, None);
        let why = upstream.note.as_deref();
        assert_eq!(why, Some("no bridge is visible above the NIC"));
        assert_eq!(upstream.verdict, NotAvailable);
    }
}

#[test]
fn link_without_known_ends_is_not_judged() {
    let made_up = in_slot((8, 8.0), (16, 16.0));
    made_up.write("../max_link_width", "");
    made_up.write("../max_link_speed", "Unknown\n");
    assert_eq!(verdicts(&made_up), [Shown, Shown, Shown]);
    let made_up = behind_switch((4, 2.5), 16.0);
    made_up.write("../../max_link_width", "Unknown\n");
    made_up.write("../../current_link_speed", "");
    let [width, speed, upstream] = found(&made_up);
    assert_eq!([width.verdict, speed.verdict], [Good, Good]);
    assert_eq!(texts(&upstream), ["x4 ? GT/s", "", ""]);
    assert_eq!(verdicts(&MadeUp::at(BEHIND_SWITCH)), [NotAvailable, NotAvailable, Shown]);
}

#[test]
fn speed_below_maximum_is_bad_unless_extended() {
    let without_bridges = |files: &Files, generation| {
        let path = PciePath::read(files);
        speed(files, &path, generation)
    };
    for (current, max, extended, verdict) in [
        ("16.0 GT/s PCIe", "16.0 GT/s PCIe", "Disabled", Good),
        ("16 GT/s", "16 GT/s", "Disabled", Good),
        ("8.0 GT/s PCIe", "16.0 GT/s PCIe", "Absent", Bad),
        ("8.0 GT/s PCIe", "16.0 GT/s PCIe", "25.0 GT/s", Good),
        ("Unknown", "16.0 GT/s PCIe", "", NotAvailable),
    ] {
        let made_up = MadeUp::new(&[
            ("current_link_speed", current),
            ("max_link_speed", max),
            ("properties/current_esm_link_speed", extended),
        ]);
        let found = without_bridges(&made_up.files, None);
        assert_eq!(found.verdict, verdict, "{current} {max} {extended}");
    }
    let finding = |generation| move |files: &Files| without_bridges(files, generation);
    let name = "current_link_speed";
    assert_verdicts(name, finding(Some(Generation::Cassini2)), &[("16 GT/s", Bad)]);
    assert_verdicts(name, finding(Some(Generation::Cassini1)), &[("16 GT/s", Good)]);
    assert_verdicts(name, finding(None), &[("16 GT/s", Shown)]);
    for (generation, speed, verdict) in [
        (Generation::Cassini1, "16.0 GT/s", Good),
        (Generation::Cassini1, "8.0 GT/s", Suspect),
        (Generation::Cassini2, "16.0 GT/s", Suspect),
        (Generation::Cassini2, "32.0 GT/s", Good),
    ] {
        let made_up = MadeUp::new(&[(name, speed), ("max_link_speed", speed)]);
        let found = without_bridges(&made_up.files, Some(generation));
        assert_eq!(found.verdict, verdict, "{generation:?} {speed}");
    }
    let extended = MadeUp::new(&[
        (name, "16.0 GT/s"),
        ("max_link_speed", "16.0 GT/s"),
        ("properties/current_esm_link_speed", "25.0 GT/s"),
    ]);
    let found = without_bridges(&extended.files, Some(Generation::Cassini2));
    assert_eq!(found.verdict, Good);
}
