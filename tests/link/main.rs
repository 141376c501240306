//! The links of NICs: `cxidiag link`, and HPE's `cxi_stat`.

#[path = "../harness/mod.rs"]
mod harness;

mod cxi_stat;
mod links;
