//! How good something is that was checked.

use serde::{Deserialize, Serialize};

/// How good something is that was checked, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "String")]
pub enum Severity {
    /// There is no limit: the value is for the reader.
    Shown,
    /// It cannot be read here.
    NotAvailable,
    /// Within its limit.
    Good,
    /// Not as it should be, but the NIC works: results may be worse.
    Suspect,
    /// The check has failed.
    Bad,
}

impl Severity {
    const ALL: [Self; 5] = [Self::Shown, Self::NotAvailable, Self::Good, Self::Suspect, Self::Bad];

    /// Returns its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::NotAvailable => "not_available",
            Self::Good => "good",
            Self::Suspect => "suspect",
            Self::Bad => "bad",
        }
    }

    /// Returns whether it is suspect or bad.
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
