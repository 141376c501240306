//! How good something is that was checked.

use serde::{Deserialize, Serialize};

crate::named_enum! {
    /// How good something is that was checked, the worst last.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case", from = "String")]
    pub enum Severity {
        /// There is no limit: the value is for the reader.
        Shown = "shown",
        /// It cannot be read here.
        #[default]
        NotAvailable = "not_available",
        /// Within its limit.
        Good = "good",
        /// Not as it should be, but the NIC works: results may be worse.
        Suspect = "suspect",
        /// The check has failed.
        Bad = "bad",
    }
    /// Its name in documents.
    pub fn name(self);
}

impl Severity {
    /// Whether it is suspect or bad.
    pub fn is_wrong(self) -> bool {
        self >= Self::Suspect
    }
}

/// Reads a name in a document. A name that only later releases know is shown as it is.
impl From<String> for Severity {
    fn from(name: String) -> Self {
        Self::ALL.into_iter().find(|severity| severity.name() == name).unwrap_or(Self::Shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_its_name() {
        for severity in Severity::ALL {
            let text = serde_json::to_string(&severity).unwrap();
            assert_eq!(text, format!("{:?}", severity.name()));
            assert_eq!(serde_json::from_str::<Severity>(&text).unwrap(), severity);
        }
        assert_eq!(serde_json::from_str::<Severity>(r#""worse""#).unwrap(), Severity::Shown);
        assert!(serde_json::from_str::<Severity>("1").is_err());
    }

    #[test]
    fn worse_ones_are_greater() {
        assert!(Severity::ALL.is_sorted());
        let wrong = Severity::ALL.map(Severity::is_wrong);
        assert_eq!(wrong, [false, false, false, true, true]);
    }
}
