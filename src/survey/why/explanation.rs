//! Why culprits are slow, as data. The doc comments are descriptions in the schema of surveys.

use serde::{Deserialize, Serialize};

use crate::causes::why::Why;
use campaign::quiet::findings::Unit;
use campaign::quiet::ids::NicId;
use health::majority::Difference;

/// What is known about the cause of a culprit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The part that is bad or suspect, or an untested NIC whose files show what is wrong with it.
    pub culprit: Unit,
    /// The NIC that was measured for it; null if nothing was measured.
    pub nic: Option<NicId>,
    /// The good NICs beside which it was measured.
    pub controls: Vec<NicId>,
    /// The causes, the surest first; empty if it is the same as another culprit, or was not
    /// diagnosed.
    pub causes: Vec<Why>,
    /// Items in which its NIC differs from most good NICs.
    pub differs: Vec<Difference>,
    /// Ids of the causes that files or tests exclude.
    pub excluded: Vec<String>,
    /// Ids of the causes that explain what is slow and are not excluded; empty if a cause is named.
    #[serde(default)]
    pub not_excluded: Vec<String>,
    /// A culprit with the same files and failing tests, which was diagnosed for both; null if it
    /// was diagnosed itself.
    pub same_as: Option<Unit>,
    /// Why it was not diagnosed, or not completely; null if it was.
    pub left_out: Option<String>,
}

impl Explanation {
    /// Returns the explanation of a part about which nothing is known yet.
    pub fn new(culprit: Unit) -> Self {
        Self {
            culprit,
            nic: None,
            controls: Vec::new(),
            causes: Vec::new(),
            differs: Vec::new(),
            excluded: Vec::new(),
            not_excluded: Vec::new(),
            same_as: None,
            left_out: None,
        }
    }
}
