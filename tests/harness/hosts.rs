//! Two hosts on one machine.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{CXIDIAG, Command, Fabric};

/// Two hosts on a cable: network namespaces, which only root may make. Dropping removes them.
pub struct Hosts {
    /// Their names.
    pub names: [String; 2],
}

impl Hosts {
    /// The first has 10.99.0.1, the second 10.99.0.2. `None` if they cannot be made.
    pub fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let names = ["a", "b"].map(|name| format!("cxidiag-{process}-{number}-{name}"));
        let hosts = Self { names };
        let [a, b] = &hosts.names;
        let is_made = ip(&format!("netns add {a}"))
            && ip(&format!("netns add {b}"))
            && ip(&format!("link add cable netns {a} type veth peer cable netns {b}"))
            && ip(&format!("-n {a} address add 10.99.0.1/24 dev cable"))
            && ip(&format!("-n {b} address add 10.99.0.2/24 dev cable"))
            && ip(&format!("-n {b} link set cable up"))
            && hosts.names.iter().all(|name| ip(&format!("-n {name} link set lo up")));
        is_made.then_some(hosts)
    }

    pub fn set_cable(&self, state: &str) {
        assert!(ip(&format!("-n {} link set cable {state}", self.names[0])));
    }

    /// The program on one of the hosts.
    pub fn command(&self, host: usize, fabric: &Fabric, args: &str) -> Command {
        let args = format!("netns exec {} {CXIDIAG} {args}", self.names[host]);
        fabric.command_of(Path::new("ip"), &args)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns delete {name}"));
        }
    }
}

/// Runs `ip`. Returns whether it succeeds.
pub fn ip(args: &str) -> bool {
    let mut command = Command::new("ip");
    let status = command.args(args.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
