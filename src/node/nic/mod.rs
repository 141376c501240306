//! What the driver of a NIC shows to any user in files (health.md): telemetry counters, link, PCIe,
//! firmware, services.
//!
//! * `files`: reads the files of one NIC below a root directory.
//! * `counter`: a reading of one counter, and the difference of two.
//! * `counter_table`: the counters that are read beside a result, and their presets.
//! * `counters`: the counters of one NIC, read before and after a run.
//! * `error_masks`: the error flags that the driver has switched off.
//! * `generation`: Cassini 1 or 2, and what depends on it.
//! * `link_speed`: the modes of a link, and limits of its errors.
//! * `pcie_path`: the links between the NIC and its host, one behind the other, their speed, and
//!   limits of their errors.
//!
//! Hardware and software NICs have the same files; only the root directory differs
//! (`backend::files`).

pub mod counter;
pub mod counter_table;
pub mod counters;
pub mod error_masks;
pub mod files;
pub mod generation;
pub mod link_speed;
pub mod pcie_path;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
