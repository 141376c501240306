//! Files of made-up NICs.

use std::fs;

use super::files::Files;

/// The files of `cxi0`, which are deleted on drop.
pub struct MadeUp {
    directory: tempfile::TempDir,
    pub files: Files,
}

impl MadeUp {
    /// Writes files of the device: path below it, and content.
    pub fn new(device_pairs: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path(), "cxi0");
        let made_up = Self { directory, files };
        for (name, content) in device_pairs {
            made_up.write(name, content);
        }
        made_up
    }

    /// Makes an empty directory of the device, and above it the directories of its bridges:
    /// `pci0000:40/0000:40:01.1/0000:41:00.0`.
    pub fn at(device: &str) -> Self {
        let made_up = Self::new(&[]);
        let root = made_up.directory.path();
        let class = root.join("sys/class/cxi/cxi0");
        fs::create_dir_all(root.join("sys/devices").join(device)).unwrap();
        fs::create_dir_all(&class).unwrap();
        let link = format!("../../../devices/{device}");
        std::os::unix::fs::symlink(link, class.join("device")).unwrap();
        made_up
    }

    /// Writes a file of the device.
    pub fn write(&self, name: &str, content: &str) {
        put(&self.files.path(name), content);
    }

    /// Writes a file of the host, named without the leading slash.
    pub fn write_of_host(&self, path: &str, content: &str) {
        put(&self.directory.path().join(path), content);
    }
}

fn put(path: &std::path::Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
