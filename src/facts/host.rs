//! This host and this process.

use rustix::system::uname;

/// The executable of this process, also after another one has replaced its file.
pub const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// Returns the name of this host.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
