//! The NICs to show: those that the user names, or all.

use facts::device::DeviceName;
use facts::error::Failure;
use node::backend;
use node::machine::Machine;

/// The NICs to show.
pub struct ChosenNics {
    pub devices: Vec<DeviceName>,
    /// They are software NICs because the machine shows no hardware.
    pub is_without_hardware: bool,
}

/// Returns the NICs to show: those that the user names, else all hardware. A machine without
/// hardware has software NICs; the user has chosen them if a variable says how many there are.
///
/// # Errors
///
/// Invalid variables of software NICs.
pub fn chosen(named: &[DeviceName], machine: &Machine) -> Result<ChosenNics, Failure> {
    let devices = if named.is_empty() { machine.nics() } else { named.to_vec() };
    if !devices.is_empty() {
        return Ok(ChosenNics { devices, is_without_hardware: false });
    }
    backend::check(DeviceName::software(0))?;
    let is_without_hardware = !backend::has_chosen_software();
    Ok(ChosenNics { devices: backend::software(), is_without_hardware })
}
