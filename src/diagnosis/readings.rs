//! What the files of a NIC and its node say: the items of `cxidiag check`, as the documents have
//! them.

use facts::severity::Severity;

/// An item of a NIC or of its node.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Code of the item, such as `pcie-width`.
    pub code: String,
    /// Name of the item.
    pub name: String,
    /// Its value; `None` if it cannot be read.
    pub value: Option<String>,
    pub state: Severity,
    /// What is wrong with it, or its value, as part of a sentence.
    pub text: String,
    /// Its value as a share of its limit, where both are numbers.
    pub share: Option<f64>,
    /// Whether good NICs of one kind have the same value.
    pub is_attribute: bool,
}

/// The items of a NIC and its node.
pub type Readings = Vec<Reading>;

/// Returns the first number in a text such as `x8` or `16.0 GT/s`.
pub fn number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let digits: String = text[start..].chars().take_while(|c| is_part(*c)).collect();
    digits.trim_end_matches('.').parse().ok()
}

/// Returns the item with this code, if it has a value.
pub fn find<'a>(readings: &'a [Reading], code: &str) -> Option<&'a Reading> {
    readings.iter().find(|reading| reading.code == code && reading.value.is_some())
}

#[cfg(any(test, feature = "testing"))]
pub mod testing {
    //! Readings of made-up NICs.

    use super::*;

    /// Returns an item that is compared between NICs. Its code is its name, too.
    pub fn reading(code: &str, value: &str, state: Severity) -> Reading {
        Reading {
            code: code.into(),
            name: code.into(),
            value: Some(value.into()),
            state,
            text: format!("{code} {value}"),
            share: None,
            is_attribute: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_first_number_of_values() {
        for (text, value) in [
            ("x8", Some(8.0)),
            ("16.0 GT/s", Some(16.0)),
            ("100 Gb/s (BJ_100G)", Some(100.0)),
            ("off, identity", None),
            ("", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
