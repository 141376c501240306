//! The limits of PCIe links, as a hint: a bandwidth that is about the limit of a slower link than
//! the NIC needs names this link, also where no file shows it (diagnosis.md 3.1).

use crate::causes::columns::Column;
use crate::causes::comparison::{Compared, Comparison};
use health::item::{Readings, find};

/// PCIe links in words, and the product of their lanes and their speed in GT/s.
const LINKS: [(&str, f64); 6] = [
    ("8 lanes at 8 GT/s", 64.0),
    ("16 lanes at 8 GT/s or 8 lanes at 16 GT/s", 128.0),
    ("16 lanes at 16 GT/s", 256.0),
    ("16 lanes at 20 GT/s", 320.0),
    ("16 lanes at 25 GT/s", 400.0),
    ("16 lanes at 32 GT/s", 512.0),
];

/// Bytes of data per second of a lane at 1 GT/s, in one direction: 16 lanes at 8 GT/s carry 14 GB/s
/// (diagnosis.md 3.1).
const OF_LANE: f64 = 14e9 / 128.0;

/// A bandwidth is the limit of a link within this part of it.
const ABOUT: f64 = 0.12;

/// Returns what the bandwidth of a slow culprit in loopback says about PCIe; `None` if it is not
/// the limit of a link that carries less than good NICs do.
pub fn hint(comparisons: &[Comparison], own: &Readings) -> Option<String> {
    let is_slow = |comparison: &&Comparison| {
        comparison.column == Column::WriteBandwidth && comparison.outcome == Compared::Slower
    };
    let slow = comparisons.iter().find(is_slow)?;
    let is_limit = |(_, lanes): &&(&str, f64)| {
        let limit = lanes * OF_LANE;
        limit < slow.others && (slow.own / limit - 1.0).abs() <= ABOUT
    };
    let (link, _) = LINKS.iter().find(is_limit)?;
    let gigabytes = slow.own / 1e9;
    let text = format!("{gigabytes:.1} GB/s is about the limit of a PCIe link with {link}");
    let value = |code| find(own, code)?.value.as_deref();
    let shown = value("pcie-width").zip(value("pcie-speed"));
    let number = |code| find(own, code)?.number;
    let lanes = number("pcie-width").zip(number("pcie-speed"));
    let limit = lanes.map(|(lanes, speed)| lanes * speed / 1e9 * OF_LANE);
    Some(match (shown, limit) {
        (Some((width, speed)), Some(limit)) if limit > slow.own * (1.0 + ABOUT) => {
            format!("{text}; its files show {width} at {speed}, so the limit is elsewhere")
        }
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity;
    use health::item::testing::reading;

    fn comparison(own: f64, others: f64) -> Comparison {
        Comparison {
            column: Column::WriteBandwidth,
            is_bandwidth: true,
            own,
            others,
            shares: (own / others, own / others),
            outcome: Compared::Slower,
            is_beside_busy: false,
        }
    }

    fn pcie(width: &str, speed: &str) -> Readings {
        let items = [("pcie-width", width), ("pcie-speed", speed)];
        items.map(|(code, value)| reading(code, value, Severity::Good)).into()
    }

    #[test]
    fn bandwidth_names_the_link() {
        let text_for = |own: f64, others: f64| hint(&[comparison(own, others)], &Vec::new());
        let expected = "13.9 GB/s is about the limit of a PCIe link with 16 lanes at 8 GT/s or 8 \
                        lanes at 16 GT/s";
        assert_eq!(text_for(13.9e9, 23e9).as_deref(), Some(expected));
        // Within 12 % of 14 GB/s.
        for (own, is_near) in [(12.3e9, false), (12.4e9, true), (15.6e9, true), (15.7e9, false)] {
            assert_eq!(text_for(own, 23e9).is_some(), is_near, "{own}");
        }
        // The link of good NICs is the limit of a larger one.
        assert!(text_for(28e9, 46e9).is_some_and(|text| text.ends_with("16 lanes at 16 GT/s")));
        assert_eq!(text_for(28e9, 27.5e9), None);
        assert_eq!(text_for(0.1e9, 0.2e9), None);
    }

    #[test]
    fn other_outcomes_and_columns_say_nothing() {
        let same = Comparison { outcome: Compared::Same, ..comparison(14e9, 23e9) };
        let sent = Comparison { column: Column::Sent, ..comparison(14e9, 23e9) };
        assert_eq!(hint(&[same, sent], &Vec::new()), None);
    }

    #[test]
    fn faster_link_in_the_files_contradicts() {
        let text = |width, speed| hint(&[comparison(13.9e9, 23e9)], &pcie(width, speed)).unwrap();
        let end = "; its files show x16 at 16.0 GT/s, so the limit is elsewhere";
        assert!(text("x16", "16.0 GT/s").ends_with(end));
        // These carry about as much.
        assert!(text("x8", "16.0 GT/s").ends_with("8 lanes at 16 GT/s"));
        assert!(text("x16", "8.0 GT/s").ends_with("8 lanes at 16 GT/s"));
    }
}
