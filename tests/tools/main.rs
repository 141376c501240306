//! The measuring tools: what each prints, counts and refuses, and the options that several share.

#[path = "../harness/mod.rs"]
mod harness;

mod atomic_bw;
mod atomic_lat;
mod legacy_lines;
mod loopback_bw;
mod pairs;
mod rate;
mod read_bw;
mod read_lat;
mod send_bw;
mod send_lat;
mod trig_lat;
mod verify;
mod write_bw;
mod write_lat;
