//! The links of NICs as metrics (docs/metrics.md lists them): the metrics of `check` about
//! the same items, and the rates.

use crate::document::LinkReport;
use page::openmetrics::{Family, Sample};

/// Returns the metrics of links.
pub fn families(report: &LinkReport) -> Vec<Family> {
    let mut families = check::metrics::families_of("link", &report.check);
    let devices = report.check.devices.iter().zip(&report.links);
    let known = devices.filter_map(|(device, link)| Some((&device.name, link.rates.as_ref()?)));
    let mut code_words = Vec::new();
    let mut paused = Vec::new();
    for (name, rates) in known {
        for (kind, value) in [
            ("good", rates.good_code_words_per_s),
            ("corrected", rates.corrected_code_words_per_s),
            ("uncorrected", rates.uncorrected_code_words_per_s),
        ] {
            let labels = [("device", name.clone()), ("kind", kind.to_owned())];
            code_words.extend(value.map(|value| Sample::new(labels, value)));
        }
        for (direction, ratios) in
            [("received", rates.rx_paused_ratio), ("sent", rates.tx_paused_ratio)]
        {
            for (pcp, value) in ratios.into_iter().enumerate() {
                let labels = [
                    ("device", name.clone()),
                    ("direction", direction.to_owned()),
                    ("pcp", pcp.to_string()),
                ];
                paused.extend(value.map(|value| Sample::new(labels, value)));
            }
        }
    }
    families.extend([
        Family::new(
            "cxidiag_link_code_words_per_second",
            "Code words of the link per second.",
            code_words,
        ),
        Family::new(
            "cxidiag_link_paused_ratio",
            "Share of the time for which a priority of the link was paused.",
            paused,
        ),
    ]);
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::testing::report;
    use check::document::testing::bad;
    use page::openmetrics::{Dialect, text};

    #[test]
    fn has_the_items_of_check_and_rates() {
        let text = text(&families(&report(vec![bad()])), Dialect::NodeExporter);
        for line in [
            "cxidiag_build_info{command=\"link\",version=\"0.1.0\"} 1",
            "cxidiag_check_exit_status 3",
            "cxidiag_check_ok{device=\"cxi0\",check=\"pcie-width\"} 0",
            "cxidiag_link_code_words_per_second{device=\"cxi0\",kind=\"good\"} 39062500",
            "cxidiag_link_paused_ratio{device=\"cxi0\",direction=\"received\",pcp=\"7\"} 0",
            "cxidiag_link_paused_ratio{device=\"cxi0\",direction=\"sent\",pcp=\"1\"} 0.125",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("direction=\"sent\",pcp=\"2\""), "unknown is not 0: {text}");
    }
}
