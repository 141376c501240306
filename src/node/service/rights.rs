//! Whether this process may use a service.

use std::fs;
use std::os::unix::fs::MetadataExt;

use cxi::{Service, ServiceMember};

/// What decides whether this process is a member of a service: the effective user and group, and
/// the network namespace (libcxi.md 4). Root has no other rights.
pub struct Rights {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) network_namespace: Option<u64>,
}

impl Rights {
    pub fn from_this_process() -> Self {
        let namespace = fs::metadata("/proc/self/ns/net");
        Self {
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            network_namespace: namespace.ok().map(|namespace| namespace.ino()),
        }
    }

    /// Returns whether the process can use the service. A system service is the driver's own, also
    /// where root is its member.
    pub fn can_use(&self, service: &Service) -> bool {
        service.enabled && !service.system && self.admit(service)
    }

    /// Returns whether the process is a member of the service.
    pub fn admit(&self, service: &Service) -> bool {
        self.rank(service).is_some()
    }

    /// Returns how closely a service belongs to this process: 3 for its network namespace, 2 for
    /// its user, 1 for its group, 0 for anyone; `None` if the service is for others.
    pub fn rank(&self, service: &Service) -> Option<u8> {
        if !service.restricted_members {
            return Some(0);
        }
        let rank = |member: &ServiceMember| match *member {
            ServiceMember::NetworkNamespace(id) if self.network_namespace == Some(id.into()) => {
                Some(3)
            }
            ServiceMember::User(id) if id == self.user => Some(2),
            ServiceMember::Group(id) if id == self.group => Some(1),
            _ => None,
        };
        service.members.iter().filter_map(rank).max()
    }

    /// Returns the hint for a service that is for others.
    pub fn explain(&self, service: &Service) -> String {
        let members: Vec<String> = service.members.iter().map(name).collect();
        let members = if members.is_empty() { "no user".into() } else { members.join(", ") };
        format!(
            "user {} of group {} is not a member of the service, which is for {members}; choose \
             another service with --svc-id",
            self.user, self.group
        )
    }
}

fn name(member: &ServiceMember) -> String {
    match member {
        ServiceMember::User(id) => format!("user {id}"),
        ServiceMember::Group(id) => format!("group {id}"),
        ServiceMember::NetworkNamespace(id) => format!("network namespace {id}"),
        ServiceMember::Other(kind) => format!("members of kind {kind}"),
    }
}
