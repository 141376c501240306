//! What the files of a NIC and its node say: the items of `cxidiag check`, as the documents have
//! them.

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has no limit, or no value.
    Shown,
    /// Within its limit.
    Good,
    /// Not as it should be, but the NIC works.
    Suspect,
    /// The check has failed.
    Bad,
}

/// An item of a NIC or of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Code of the item, such as `pcie-width`.
    pub code: String,
    /// Name of the item.
    pub name: String,
    /// Its value; `None` if it cannot be read.
    pub value: Option<String>,
    /// Its state.
    pub state: State,
    /// What is wrong with it, or its value, as part of a sentence.
    pub text: String,
    /// Whether good NICs of one kind have the same value.
    pub is_attribute: bool,
}

/// The items of a NIC and its node.
pub type Readings = Vec<Reading>;

/// Returns the item with this code, if it has a value.
pub fn find<'a>(readings: &'a [Reading], code: &str) -> Option<&'a Reading> {
    readings
        .iter()
        .find(|of| of.code == code && of.value.is_some())
}
