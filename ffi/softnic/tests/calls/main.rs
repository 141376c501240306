//! The functions of libcxi: results, limits and errno values.

#[path = "../driver/mod.rs"]
mod driver;

mod device_memory;
mod devices;
mod memory;
mod objects;
mod on_demand;
mod snapshots;
mod telemetry;
mod traffic_counters;
mod wait_objects;
