//! What the shape of a fabric allows (load.md 2.1).

/// A regular dragonfly. Rates are in bytes per second and direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FabricShape {
    /// Groups.
    pub groups: u32,
    /// Switches of a group.
    pub switches: u32,
    /// NICs of a switch.
    pub nics: u32,
    /// Links between two groups.
    pub links: u32,
    /// Rate of a NIC.
    pub nic_rate: f64,
    /// Rate of the links between two switches of a group, together.
    pub local_rate: f64,
    /// Rate of one link between groups.
    pub global_rate: f64,
    /// Whether each packet takes the minimal path.
    pub is_minimal: bool,
}
