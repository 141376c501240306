//! This host.

use rustix::system::uname;

/// Returns the name of this host.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
