//! What is at the ends of the cable: the firmware of its head, and the port of the switch.

use super::address::{algorithmic_bits, local_octets};
use super::item::{Finding, Item, unless_good};
use facts::severity::Severity;
use node::nic::files::Files;
use node::nic::generation::Generation;
use node::programs;

/// The firmware of an active cable.
pub static FIRMWARE: Item = Item {
    code: "media-firmware",
    name: "media firmware",
    source: "driver",
    remedy: "the firmware of the cable is older than the driver asks for: update it (dgchs_fw)",
};

/// The port of the switch that the link leads to.
pub static SWITCH_PORT: Item = Item {
    code: "switch-port",
    name: "switch port",
    source: "slingshot-utils",
    remedy: "the address of the NIC is not the address of the switch port: check the cabling, and renew \
             the address of the interface (lldpad)",
};

/// Words in place of a version.
const NO_VERSIONS: [&str; 3] = ["invalid-type", "unsupported", "ss200-cable"];

/// The second octet of the MAC addresses of ports (health.md 2.4.1).
const PORT: u8 = 0xfe;

/// The firmware at this end of a Cassini 2's cable (health.md 2.1.4). SHS 13.0 has other names; the
/// form of its versions is not known, so that only the form of later ones is compared.
pub fn firmware(files: &Files) -> Finding {
    let value = |name: &str| {
        files.link_value(&format!("media/{name}_hex")).or_else(|why| {
            files.link_value(&format!("media/{name}")).map_err(|later| why.or(later))
        })
    };
    let version = match value("firmware_version") {
        Ok(version) if NO_VERSIONS.contains(&version.as_str()) => {
            return Finding::untested(&FIRMWARE, "the driver knows no firmware of this cable");
        }
        Ok(version) => version,
        Err(why) => return Finding::without(&FIRMWARE, why),
    };
    let target = value("target_firmware_version").unwrap_or_default();
    match (parts(&version), parts(&target)) {
        (Some(found), Some(wanted)) => {
            let verdict = unless_good(found < wanted, Severity::Suspect);
            Finding::compared(&FIRMWARE, version, format!("{target} or later"), verdict)
        }
        _ => Finding::shown(&FIRMWARE, version),
    }
}

/// The bytes of a version `MM.mm` in hexadecimal.
fn parts(version: &str) -> Option<[u8; 2]> {
    let (major, minor) = version.split_once('.')?;
    let byte = |digits: &str| u8::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 2);
    Some([byte(major)?, byte(minor)?])
}

/// The port of the switch, which LLDP shows to root where lldpad runs. A software NIC has none.
pub fn switch_port(files: &Files, generation: Option<Generation>) -> Finding {
    let name = files.interface_name().filter(|_| generation.is_some());
    let Some((name, own)) = name.zip(files.interface_text("address")) else {
        return Finding::absent(&SWITCH_PORT);
    };
    let shown = programs::output("lldptool", &["-n", "-i", &name, "-t"]);
    shown.map_or_else(|| Finding::absent(&SWITCH_PORT), |shown| neighbour(&shown, &own))
}

/// Compares the neighbour that lldptool shows with the MAC address of the NIC (health.md 2.4.1).
fn neighbour(shown: &str, own: &str) -> Finding {
    let Some(mac) = shown.lines().find_map(|line| line.strip_prefix("\tMAC: ")).map(str::trim)
    else {
        return Finding::untested(&SWITCH_PORT, "lldptool shows no neighbour");
    };
    // The texts of TLVs follow their titles [I: health.md 2.4.1].
    let text = |title: &str| {
        let mut lines = shown.lines().skip_while(|line| !line.starts_with(title));
        lines.nth(1).and_then(|line| line.strip_prefix('\t')).map(str::trim)
    };
    let parts = [Some(mac), text("Port Description"), text("System Name")];
    let value = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match (local_octets(mac), local_octets(own)) {
        (Some([first, PORT, port @ ..]), Some([own_first, _, nic @ ..]))
            if algorithmic_bits(own).is_some() =>
        {
            let verdict = unless_good((first, port) != (own_first, nic), Severity::Bad);
            Finding::compared(&SWITCH_PORT, value, format!("the address of {own}"), verdict)
        }
        _ => Finding::shown(&SWITCH_PORT, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn firmware_below_target_is_suspect() {
        for (version, target, verdict) in [
            ("02.0a", "02.0a", Good),
            ("02.0b", "02.0a", Good),
            ("03.00", "02.0a", Good),
            ("02.09", "02.0a", Suspect),
            ("01.ff", "02.00", Suspect),
            ("2.9", "02.0a", Shown),
            ("02.09", "unsupported", Shown),
            ("invalid-type", "invalid-type", NotAvailable),
            ("no-cable", "no-cable", NotAvailable),
        ] {
            for end in ["_hex", ""] {
                let made_up = MadeUp::new(&[
                    (&format!("port/0/media/firmware_version{end}"), version),
                    (&format!("port/0/media/target_firmware_version{end}"), target),
                ]);
                assert_eq!(firmware(&made_up.files).verdict, verdict, "{version} {target} {end}");
            }
        }
    }

    #[test]
    fn switch_port_has_the_octets_of_the_nic() {
        let finding = |mac: &str, own: &str| {
            let shown = format!(
                "Chassis ID TLV\n\tMAC: {mac}\nPort ID TLV\n\tMAC: {mac}\nTime to Live TLV\n\t120\n\
                 Port Description TLV\n\tInterface 55 as ros0p51\nSystem Name TLV\n\tx9000c3r3b0\n"
            );
            neighbour(&shown, own)
        };
        let good = finding("02:fe:00:00:07:ea", "02:00:00:00:07:ea");
        let value = "02:fe:00:00:07:ea, Interface 55 as ros0p51, x9000c3r3b0";
        assert_eq!((good.verdict, good.value.as_deref()), (Good, Some(value)));
        for (mac, own, verdict) in [
            ("06:fe:00:00:07:ea", "06:00:00:00:07:ea", Good),
            ("06:fe:00:00:07:ea", "02:00:00:00:07:ea", Bad),
            ("02:fe:00:00:07:eb", "02:00:00:00:07:ea", Bad),
            // No port of a switch, and a NIC whose own address is what is wrong.
            ("02:00:00:00:07:eb", "02:00:00:00:07:ea", Shown),
            ("00:40:a6:00:07:eb", "02:00:00:00:07:ea", Shown),
            ("02:fe:00:00:07:ea", "00:40:a6:00:07:ea", Shown),
        ] {
            assert_eq!(finding(mac, own).verdict, verdict, "{mac} {own}");
        }
        let untitled =
            "Port ID TLV\n\tMAC: 02:fe:00:00:07:ea\nPort Description TLV\nSystem Name TLV\n\tx9\n";
        let found = neighbour(untitled, "02:00:00:00:07:ea").value;
        assert_eq!(found.as_deref(), Some("02:fe:00:00:07:ea, x9"));
        assert_eq!(neighbour("Agent instance for device not found\n", "").verdict, NotAvailable);
    }
}
