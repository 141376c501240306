//! The control groups that this process is in.

use std::path::{Path, PathBuf};

use super::Machine;

/// The cgroup version, which determines a group's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupVersion {
    /// Version 1: one hierarchy for each controller.
    V1,
    /// Version 2: one hierarchy for all controllers.
    V2,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    pub version: GroupVersion,
    /// Its name in the part of the hierarchy that this process sees: `/batch/job7`.
    pub name: String,
    /// Its directory, without the leading slash.
    pub directory: PathBuf,
}

impl Machine {
    /// Returns the groups of this process that may have limits of `controller`: its own and all
    /// parents.
    pub(super) fn groups(&self, controller: &str) -> Vec<ControlGroup> {
        let own = self.read("proc/self/cgroup").unwrap_or_default();
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
                continue;
            };
            let version = match controllers {
                "" => GroupVersion::V2,
                v1 if v1.split(',').any(|name| name == controller) => GroupVersion::V1,
                _ => continue,
            };
            let is_its = |mount: &&Mount| mount.holds(version, controller);
            if let Some(mount) = mounts.iter().find(is_its) {
                groups.extend(mount.groups(version, path));
            }
        }
        groups
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// The mounted part of the file system.
    root: &'a str,
    /// The mount point.
    place: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        let mut fields = system.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        Some(Self { root, place, kind, options })
    }

    fn holds(&self, version: GroupVersion, controller: &str) -> bool {
        match version {
            GroupVersion::V1 => {
                self.kind == "cgroup" && self.options.split(',').any(|name| name == controller)
            }
            GroupVersion::V2 => self.kind == "cgroup2",
        }
    }

    /// Returns the group at `path` and its parents, as far as they are mounted.
    fn groups(&self, version: GroupVersion, path: &str) -> Vec<ControlGroup> {
        // In a container, the root of the mount may be the group with its full path on the host.
        let below = Path::new(path).strip_prefix(self.root);
        let below = below.unwrap_or(Path::new("")).to_owned();
        let place = Path::new(self.place.trim_start_matches('/'));
        below
            .ancestors()
            .map(|below| ControlGroup {
                version,
                name: format!("/{}", below.display()),
                directory: place.join(below),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::MadeUp;
    use super::*;

    fn names(groups: &[ControlGroup]) -> Vec<(GroupVersion, &str, &str)> {
        let text = |group: &ControlGroup| {
            let directory = group.directory.to_str().unwrap();
            (group.version, group.name.clone(), directory.to_owned())
        };
        let texts: Vec<_> = groups.iter().map(text).collect();
        texts
            .leak()
            .iter()
            .map(|(version, name, directory)| (*version, name.as_str(), directory.as_str()))
            .collect()
    }

    #[test]
    fn finds_groups_of_version_2() {
        let made_up = MadeUp::new(&[
            ("proc/self/cgroup", "0::/batch/job7\n"),
            (
                "proc/self/mountinfo",
                "22 1 0:20 / / rw - ext4 /dev/vda rw\n\
                 30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
            ),
        ]);
        let groups = made_up.machine().groups("memory");
        assert_eq!(
            names(&groups),
            [
                (GroupVersion::V2, "/batch/job7", "sys/fs/cgroup/batch/job7"),
                (GroupVersion::V2, "/batch", "sys/fs/cgroup/batch"),
                (GroupVersion::V2, "/", "sys/fs/cgroup/"),
            ]
        );
    }

    #[test]
    fn finds_groups_of_version_1() {
        let made_up = MadeUp::new(&[
            ("proc/self/cgroup", "5:cpuset:/x\n4:memory,hugetlb:/docker/abc\n0::/\nnonsense\n"),
            (
                "proc/self/mountinfo",
                "14 32 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory,hugetlb\n",
            ),
        ]);
        let groups = made_up.machine().groups("hugetlb");
        let root = (GroupVersion::V1, "/", "sys/fs/cgroup/memory/");
        assert_eq!(names(&groups), [root]);
        assert!(made_up.machine().groups("cpuset").is_empty());
        assert!(MadeUp::new(&[]).machine().groups("memory").is_empty());
    }
}
