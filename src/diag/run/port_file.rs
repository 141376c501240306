//! `--port-file`: the number of a server's port, in a file for scripts.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use facts::error::{Failure, invalid};
use facts::user_file;
use page::destination::Destination;
use plan::Plan;

/// A file that can be written, if one is asked for.
pub struct PortFile(Option<Destination>);

impl PortFile {
    /// Checks that the file of `plan` can be written, and removes the one of an earlier server.
    ///
    /// # Errors
    ///
    /// The file or its directory cannot be written, or the file does not belong to a server.
    pub fn of(plan: &Plan) -> Result<Self, Failure> {
        Self::at(plan.listening.port_file.as_deref())
    }

    fn at(path: Option<&Path>) -> Result<Self, Failure> {
        let destination = path.map(Destination::file).transpose()?;
        if let Some(destination) = &destination
            && let Some(target) = destination.target()
        {
            if !holds_a_port(target) {
                let allowed =
                    "the file exists and does not hold the number of a port: name another one";
                return Err(Failure::usage(invalid("port-file", target.display(), allowed)));
            }
            // A server that was killed has left its file: a script must not read that number.
            match fs::remove_file(target) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(destination.failure(&error));
                }
                _ => {}
            }
        }
        Ok(Self(destination))
    }

    /// Writes the port. A file appears at once, with the complete line; it is removed when the
    /// returned value is dropped.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn publish(self, port: u16) -> Result<PublishedPort, Failure> {
        let Some(destination) = self.0 else {
            return Ok(PublishedPort(None));
        };
        let path = destination.target().map(PathBuf::from);
        let file = destination.replace(&mut format!("{port}\n").as_bytes())?;
        Ok(PublishedPort(path.zip(file)))
    }
}

/// Whether nothing is lost with this file: it is missing or empty, or has the number of a port.
fn holds_a_port(path: &Path) -> bool {
    match user_file::text(path) {
        Ok(text) => text.is_empty() || text.trim_end().parse::<u16>().is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// The file of a server that listens, with its name; none for a device or a pipe. The file is open,
/// so that no other one gets its inode.
pub struct PublishedPort(Option<(PathBuf, File)>);

impl Drop for PublishedPort {
    fn drop(&mut self) {
        let Some((path, file)) = &self.0 else {
            return;
        };
        // Another server may have replaced the file.
        if let (Ok(found), Ok(own)) = (fs::metadata(path), file.metadata())
            && identity(&found) == identity(&own)
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Device and inode of a file.
fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(path: &Path, port: u16) -> PublishedPort {
        PortFile::at(Some(path)).unwrap().publish(port).unwrap()
    }

    #[test]
    fn removes_file_of_a_killed_server_before_the_next_one_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        fs::write(&path, "1\n").unwrap();
        let file = PortFile::at(Some(&path)).unwrap();
        assert!(!path.exists());
        drop(file.publish(2).unwrap());
    }

    #[test]
    fn removes_own_file_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("port");
        fs::write(&path, "49193\n").unwrap();
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
        let third = published(&path, 3);
        for earlier in [first, second] {
            drop(earlier);
            assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
        }
        drop(third);
        assert!(!path.exists());
    }

    #[test]
    fn keeps_a_file_that_is_not_of_a_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notes.txt");
        fs::write(&path, "keep me\n").unwrap();
        let Err(failure) = PortFile::at(Some(&path)) else {
            panic!("the file was taken");
        };
        assert!(failure.message().contains("does not hold the number of a port"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "keep me\n");
    }
}
