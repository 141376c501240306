//! What is found about a node, and what it amounts to.

use serde::Serialize;

facts::named_enum! {
    /// What a node, or a finding about it, amounts to: the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum NodeVerdict {
        /// Nothing is wrong.
        Good = "good",
        /// The node works, but not as it should, or not as most others.
        Suspect = "suspect",
        /// Something could not be checked.
        Untested = "untested",
        /// The node has not sent a check.
        NoAnswer = "no_answer",
        /// Something does not work as it should.
        Bad = "bad",
    }
    /// Returns its name in documents.
    pub fn name(self);
}

impl NodeVerdict {
    /// Returns its name in sentences.
    pub fn text(self) -> &'static str {
        if self == Self::NoAnswer { "without answer" } else { self.name() }
    }
}

/// One thing that was found about a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct NodeFinding {
    /// What it amounts to.
    pub verdict: NodeVerdict,
    /// The code of the item, or untested.
    pub code: String,
    /// The device, or host.
    pub device: String,
    /// What it is.
    pub what: String,
}
