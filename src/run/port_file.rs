//! `--port-file`: the number of a server's port, in a file for scripts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Failure;
use crate::plan::Plan;
use crate::report::destination::Destination;

/// A file that can be written, if one is asked for.
pub struct PortFile(Option<Destination>);

impl PortFile {
    /// Checks that the file of `plan` can be written.
    ///
    /// # Errors
    ///
    /// The file or its directory cannot be written.
    pub fn of(plan: &Plan) -> Result<Self, Failure> {
        let path = plan.listening.port_file.as_deref();
        path.map(Destination::file).transpose().map(Self)
    }

    /// Writes the port. A file appears at once, with the complete line; it is removed when the
    /// returned value is dropped.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn publish(self, port: u16) -> Result<Published, Failure> {
        let Some(destination) = self.0 else {
            return Ok(Published(None));
        };
        let path = destination.target().map(PathBuf::from);
        destination.write(format!("{port}\n").as_bytes())?;
        Ok(Published(path.and_then(|path| {
            let id = identity(&path)?;
            Some((path, id))
        })))
    }
}

/// The file of a server that listens, with its identity; none for a device or a pipe.
pub struct Published(Option<(PathBuf, (u64, u64))>);

impl Drop for Published {
    fn drop(&mut self) {
        // Another server may have replaced the file.
        if let Some((path, id)) = &self.0
            && identity(path) == Some(*id)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(path: &Path, port: u16) -> Published {
        let file = PortFile(Some(Destination::file(path).unwrap()));
        file.publish(port).unwrap()
    }

    #[test]
    fn removes_own_file_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        fs::write(&path, "of an earlier server\n").unwrap();
        let published = published(&path, 49194);
        assert_eq!(fs::read_to_string(&path).unwrap(), "49194\n");
        drop(published);
        assert!(!path.exists());
    }

    #[test]
    fn keeps_file_of_another_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        let first = published(&path, 1);
        let second = published(&path, 2);
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
        drop(second);
        assert!(!path.exists());
    }
}
