//! NICs that `cxi-softnic` shows in `/sys` to the programs that it runs.

use std::process::Output;

use super::{Command, SOFTWARE_NIC};

/// The command that runs programs on the library.
pub fn wrapper() -> Command {
    Command::new(SOFTWARE_NIC.join("cxi-softnic"))
}

/// Whether this machine permits the mount namespaces in which the NICs are in `/sys/class`. Says so
/// if it does not.
pub fn shows_nics_in_sys() -> bool {
    let shown =
        wrapper().args(["test", "-e", "/sys/class/softnic"]).output().expect("the wrapper starts");
    let is_permitted = shown.status.success();
    if !is_permitted {
        println!("not tested: no mount namespaces");
    }
    is_permitted
}

/// A check of the NIC that `cxi-softnic` shows, with these faults; `None` where it can show none.
pub fn check_shown_nic(faults: &str) -> Option<Output> {
    if !shows_nics_in_sys() {
        return None;
    }
    let fabric = tempfile::tempdir().expect("a temporary directory");
    let check = wrapper()
        .args([env!("CARGO_BIN_EXE_cxidiag"), "check", "--quick", "cxi0"])
        .env("CXIDIAG_FABRIC_DIR", fabric.path())
        .env("CXIDIAG_FAULTS", faults)
        .output();
    Some(check.expect("the wrapper starts"))
}
