//! What lets a NIC reach others: its algorithmic MAC address, and its retry handler.

use super::item::{Finding, Item, NONE_OF_ITS_OWN, unless_good};
use cxi::address::sent_nid;
use facts::number::decimal;
use facts::severity::Severity;
use node::nic::files::Files;

/// Whether the MAC address is the one that switches route to.
pub static ALGORITHMIC: Item = Item {
    code: "ama",
    name: "algorithmic address",
    source: "libfabric",
    remedy: "the MAC address must be 02:00 (on some fabrics 06:00, 0a:00 or others), then the NID, set by \
             software: check the network configuration of the interface and lldpad",
};

/// Whether lost packets are sent again.
pub static RETRY_HANDLER: Item = Item {
    code: "retry-handler",
    name: "retry handler",
    source: "libfabric",
    remedy: "lost packets are never sent again: start the service cxi_rh of this NIC",
};

/// Whether the retry handler regards peers as down.
pub static PARKED: Item = Item {
    code: "parked-peers",
    name: "parked peers",
    source: "HPE",
    remedy: "the retry handler regards peers as down, because they did not answer: measure again \
             after 136 s",
};

/// Value of `addr_assign_type` for an address that software has set.
const SET_BY_SOFTWARE: u64 = 3;

/// The octets of a MAC address that software gives to a NIC or to a port of a switch: its first
/// octet has the local bit, and is not for groups.
pub(super) fn local_octets(mac: &str) -> Option<[u8; 6]> {
    let octets: Option<Vec<u8>> =
        (mac.split(':')).map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets?.try_into().ok().filter(|octets: &[u8; 6]| octets[0] & 3 == 2)
}

/// The low 24 bits of an algorithmic MAC address, whose low 20 are the NID. Such an address begins
/// with 02:00, or with another local prefix of the fabric (health.md 2.2). `None` for any other
/// address: switches do not route to it.
pub fn algorithmic_bits(mac: &str) -> Option<u32> {
    let [_, second, _, high, middle, low] = local_octets(mac)?;
    (second == 0).then(|| u32::from_be_bytes([0, high, middle, low]))
}

/// The MAC address: an algorithmic one with the NID, set by software. No page says which one a
/// virtual function has.
pub fn algorithmic(files: &Files) -> Finding {
    let Some(mac) = files.interface_text("address") else {
        return Finding::absent(&ALGORITHMIC);
    };
    if files.is_virtual_function() {
        return Finding::shown(&ALGORITHMIC, mac);
    }
    let address = algorithmic_bits(&mac);
    let nid = files.nid();
    let assigned =
        files.interface_text("addr_assign_type").and_then(|text| text.parse::<u64>().ok());
    let problem = match (address, nid, assigned) {
        (_, _, Some(assigned)) if assigned != SET_BY_SOFTWARE => {
            Some(format!("addr_assign_type {assigned}"))
        }
        (Some(address), Some(nid), _) if sent_nid(address) != sent_nid(nid) => {
            Some(format!("NID is {nid:#x}"))
        }
        _ => None,
    };
    let verdict = unless_good(address.is_none() || problem.is_some(), Severity::Bad);
    let value = problem.map_or(mac.clone(), |problem| format!("{mac}, {problem}"));
    let limit = "02:00 or another local prefix, then the NID";
    Finding::compared(&ALGORITHMIC, value, limit, verdict)
}

/// Makes the address bad that several NICs of a node have, among the findings of all of them.
pub fn compare<'a>(findings: impl Iterator<Item = &'a mut Finding>) {
    let is_address = |found: &&mut Finding| {
        let is_judged = !matches!(found.verdict, Severity::Shown | Severity::NotAvailable);
        found.code == ALGORITHMIC.code && is_judged
    };
    let mut nics: Vec<_> = findings.filter(is_address).collect();
    for at in 0..nics.len() {
        let count = nics.iter().filter(|other| other.value == nics[at].value).count();
        if count > 1 {
            nics[at].verdict = Severity::Bad;
            nics[at].note = Some(format!("{count} NICs of this node have it"));
        }
    }
}

/// The retry handler: it has an event queue. The one of a virtual function runs on its NIC.
pub fn retry_handler(files: &Files) -> Finding {
    if files.is_virtual_function() {
        return Finding::untested(&RETRY_HANDLER, NONE_OF_ITS_OWN);
    }
    files.number("properties/pct_eq").map_or_else(
        || Finding::absent(&RETRY_HANDLER),
        |queue| {
            if queue == 0 {
                let value = "not running";
                return Finding::compared(&RETRY_HANDLER, value, "running", Severity::Bad);
            }
            let timeouts = files.retry_handler_text("spt_timeouts");
            let value = timeouts
                .map_or("running".to_owned(), |timeouts| format!("running, {timeouts} timeouts"));
            Finding::compared(&RETRY_HANDLER, value, "running", Severity::Good)
        },
    )
}

/// The peers that the retry handler regards as down (health.md 1.6), and for how long.
pub fn parked(files: &Files) -> Finding {
    let number = |name: &str| decimal(&files.retry_handler_text(name)?);
    let Some(peers) = number("parked_nids") else {
        return Finding::absent(&PARKED);
    };
    let value = match number("config/down_nid_wait_time").filter(|_| peers > 0) {
        Some(seconds) => format!("{peers}, each for {seconds} s"),
        None => peers.to_string(),
    };
    let verdict = unless_good(peers > 0, Severity::Suspect);
    Finding::compared(&PARKED, value, "0", verdict).with_number(peers as f64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_verdicts;
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::nic::testing::MadeUp;

    #[test]
    fn equal_addresses_on_one_node_are_bad() {
        let found = |mac: &str| {
            algorithmic(
                &MadeUp::new(&[
                    ("net/hsn0/address", mac),
                    ("net/hsn0/addr_assign_type", "3"),
                    ("properties/nid", "0x7ea"),
                ])
                .files,
            )
        };
        let [one, other] = ["02:00:00:00:07:ea", "02:00:00:10:07:ea"];
        for (macs, verdicts) in [
            ([one, other, ""], [Good, Good, NotAvailable]),
            ([one, other, one], [Bad, Good, Bad]),
            ([one, "", ""], [Good, NotAvailable, NotAvailable]),
            ([one, one, one], [Bad, Bad, Bad]),
        ] {
            let mut nics = macs.map(found);
            compare(nics.iter_mut());
            assert_eq!(nics.each_ref().map(|nic| nic.verdict), verdicts, "{macs:?}");
        }
    }

    #[test]
    fn address_has_prefix_and_nid_and_was_set_by_software() {
        for (mac, assigned, nid, verdict) in [
            ("02:00:00:00:07:ea\n", "3\n", "0x7ea\n", Good),
            ("02:00:00:10:07:ea\n", "3\n", "0x7ea\n", Good),
            ("06:00:00:00:07:ea\n", "3\n", "0x7ea\n", Good),
            ("0a:00:00:00:07:ea\n", "3\n", "0x7ea\n", Good),
            ("12:00:00:00:07:ea\n", "3\n", "0x7ea\n", Good),
            ("fe:00:00:00:07:ea\n", "3\n", "0x7ea\n", Good),
            ("08:00:00:00:07:ea\n", "3\n", "0x7ea\n", Bad),
            ("03:00:00:00:07:ea\n", "3\n", "0x7ea\n", Bad),
            ("06:12:00:00:07:ea\n", "3\n", "0x7ea\n", Bad),
            ("06:00:00:00:07:eb\n", "3\n", "0x7ea\n", Bad),
            ("02:00:00:00:07:ea\n", "3\n", "0x2007ea\n", Shown),
            ("00:40:a6:83:07:ea\n", "0\n", "0x2007ea\n", Shown),
            ("02:12:34:00:07:ea\n", "3\n", "0x7ea\n", Bad),
            ("02:00:00:00:07:ea\n", "", "", Good),
            ("02:00:00:00:07:ea\n", "0\n", "0x7ea\n", Bad),
            ("02:00:00:00:07:eb\n", "3\n", "0x7ea\n", Bad),
            ("00:40:a6:83:07:ea\n", "3\n", "0x7ea\n", Bad),
            ("", "3\n", "0x7ea\n", NotAvailable),
        ] {
            let made_up = MadeUp::new(&[
                ("net/hsn0/address", mac),
                ("net/hsn0/addr_assign_type", assigned),
                ("properties/nid", nid),
            ]);
            let found = algorithmic(&made_up.files);
            assert_eq!(found.verdict, verdict, "{mac} {assigned} {nid}: {found:?}");
        }
    }

    #[test]
    fn retry_handler_needs_an_event_queue() {
        let cases = [("1\n", Good), ("0\n", Bad), ("", NotAvailable)];
        assert_verdicts("properties/pct_eq", retry_handler, &cases);
        let virtual_function = MadeUp::new(&[("device", "0x0372\n"), ("properties/pct_eq", "0\n")]);
        assert_eq!(retry_handler(&virtual_function.files).verdict, NotAvailable);
        let made_up = MadeUp::new(&[("properties/pct_eq", "1\n")]);
        made_up.write_of_host("run/cxi/cxi0/spt_timeouts", "7\n");
        let value = retry_handler(&made_up.files).value;
        assert_eq!(value.as_deref(), Some("running, 7 timeouts"));
    }

    #[test]
    fn parked_peers_are_suspect() {
        let made_up = MadeUp::new(&[]);
        assert_eq!(parked(&made_up.files).verdict, NotAvailable);
        for (peers, limit, verdict, value) in [
            ("0\n", "136\n", Good, "0"),
            ("3\n", "", Suspect, "3"),
            ("3\n", "136\n", Suspect, "3, each for 136 s"),
        ] {
            made_up.write_of_host("run/cxi/cxi0/parked_nids", peers);
            made_up.write_of_host("run/cxi/cxi0/config/down_nid_wait_time", limit);
            let found = parked(&made_up.files);
            assert_eq!((found.verdict, found.value.as_deref()), (verdict, Some(value)));
        }
    }
}
