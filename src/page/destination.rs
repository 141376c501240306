//! Where a document goes. A file is replaced at the end, by the complete document.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid, fchown};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::NamedTempFile;

use super::stream::Stream;
use facts::error::{Failure, cause};
use facts::interrupt;
use facts::text::shown_lines;

/// The destination of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Standard output, which then holds nothing else.
    Stdout,
    File(PathBuf),
}

impl Place {
    /// The file, if the destination is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Stdout => None,
            Self::File(path) => Some(path),
        }
    }
}

/// Bytes of a document that are written at once.
const BUFFER: usize = 1 << 16;

/// The permission bit of a directory in which users may replace their own files only.
const STICKY: u32 = 0o1000;

/// Most symlinks that lead from one to the next, as in the kernel.
const MOST_SYMLINKS: usize = 40;

/// A place that can be written.
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A device or a pipe, which cannot be replaced.
    Device(File, PathBuf),
    File(OutputFile),
}

/// A file that a document will be in.
pub struct OutputFile {
    path: PathBuf,
    permissions: Permissions,
    writing: WriteMethod,
}

/// How a document gets into its file.
#[derive(Clone, Copy)]
enum WriteMethod {
    /// A new file takes the name, and the owner of the earlier file.
    NewFile(Option<(Uid, Gid)>),
    /// The earlier file gets new bytes: it has further names, or an owner that this user cannot
    /// give to a new file.
    InPlace,
}

impl Destination {
    /// Checks that a document can be written to `place`.
    pub fn open(place: &Place) -> Result<Self, Failure> {
        match place {
            Place::Stdout => Ok(Self::Stdout),
            Place::File(path) => Self::file(path),
        }
    }

    /// Checks that a document can be written to `path`.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let refused = |error: io::Error| cannot_write(path, &error);
        if let Some(own) = own_stream(path) {
            return Ok(Self::Device(own.map_err(refused)?, path.to_owned()));
        }
        let target = match fs::metadata(path) {
            Ok(found) => {
                // Fails for a directory and for a file without write permission.
                let file = File::options().write(true).open(path).map_err(refused)?;
                if !found.is_file() {
                    return Ok(Self::Device(file, path.to_owned()));
                }
                // The file that a symlink names is replaced, not the symlink.
                let path = path.canonicalize().map_err(refused)?;
                OutputFile::existing(path, &found).map_err(refused)?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                followed(path).and_then(|path| OutputFile::missing(&path)).map_err(refused)?
            }
            Err(error) => return Err(refused(error)),
        };
        Ok(Self::File(target))
    }

    /// The file that the document replaces, if it replaces one.
    pub fn target(&self) -> Option<&Path> {
        match self {
            Self::File(target) => Some(&target.path),
            Self::Stdout | Self::Device(..) => None,
        }
    }

    /// Writes the complete document.
    pub fn write(&self, document: &[u8]) -> Result<(), Failure> {
        self.write_by(|out| out.write_all(document)).map(drop)
    }

    /// Writes the complete document for programs of other users: all may read the file, whatever
    /// the umask. Until it is complete, its name does not end in `.prom`.
    pub fn write_for_all(&self, document: &[u8]) -> Result<(), Failure> {
        let Self::File(target) = self else {
            return self.write(document);
        };
        let for_all = Permissions::from_mode(0o644);
        target
            .write(Some(for_all), |mut file| file.write_all(document))
            .map(drop)
            .map_err(|error| cannot_write(&target.path, &error))
    }

    /// The failure of a document that cannot be written here.
    pub fn failure(&self, error: &io::Error) -> Failure {
        match self {
            Self::Stdout => cannot_write(Path::new("standard output"), error),
            Self::Device(_, path) => cannot_write(path, error),
            Self::File(target) => cannot_write(&target.path, error),
        }
    }

    /// Writes the complete document that `from` contains. Returns the new file; `None` for a device
    /// or a pipe.
    pub fn replace(&self, from: &mut dyn Read) -> Result<Option<File>, Failure> {
        self.write_by(|out| io::copy(from, out).map(drop))
    }

    /// Writes the complete document that `write` makes, piece by piece. Returns the new file;
    /// `None` for a device or a pipe.
    ///
    /// # Errors
    ///
    /// The document cannot be made or written.
    pub fn write_by(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Option<File>, Failure> {
        let written = |out: &mut dyn Write| {
            let mut out = BufWriter::with_capacity(BUFFER, out);
            write(&mut out)?;
            out.flush()
        };
        match self {
            Self::Stdout => written(&mut Stream::to(io::stdout()))
                .map(|()| None)
                .map_err(interrupt::output_failed),
            Self::Device(file, path) => written(&mut Stream::to(file))
                .map(|()| None)
                .map_err(|error| cannot_write(path, &error)),
            Self::File(target) => target
                .write(None, |mut file| written(&mut file))
                .map(Some)
                .map_err(|error| cannot_write(&target.path, &error)),
        }
    }
}

impl OutputFile {
    /// Checks that a file can be made.
    fn missing(path: &Path) -> io::Result<Self> {
        let target = Self {
            path: resolved(path)?,
            permissions: Permissions::from_mode(0o666),
            writing: WriteMethod::NewFile(None),
        };
        // Removed at once: a run that is killed must leave nothing behind.
        target.temporary()?;
        Ok(target)
    }

    /// Checks that a regular file, which can be written now, can get its document at the end.
    fn existing(path: PathBuf, found: &Metadata) -> io::Result<Self> {
        let mut target =
            Self { path, permissions: found.permissions(), writing: WriteMethod::InPlace };
        // Its further names must keep naming this file.
        if found.nlink() > 1 {
            return Ok(target);
        }
        let own = geteuid();
        let directory = fs::metadata(directory(&target.path))?;
        let is_protected = directory.mode() & STICKY != 0;
        let owners = [found.uid(), directory.uid()];
        if is_protected && !own.is_root() && !owners.contains(&own.as_raw()) {
            return Err(Errno::PERM.into());
        }
        let owner = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        target.writing = WriteMethod::NewFile(Some(owner));
        match target.temporary() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {
                target.writing = WriteMethod::InPlace
            }
            made => drop(made?),
        }
        Ok(target)
    }

    /// Creates a file in the same directory that can replace this one. EPERM if this user cannot
    /// give it the owner.
    fn temporary(&self) -> io::Result<NamedTempFile> {
        let file = tempfile::Builder::new()
            .prefix(".cxidiag-")
            .permissions(self.permissions.clone())
            .tempfile_in(directory(&self.path))
            // Without the name of the temporary file, which the user does not know.
            .map_err(|error| bare(&error))?;
        if let WriteMethod::NewFile(Some((user, group))) = self.writing {
            let made = file.as_file().metadata()?;
            if (made.uid(), made.gid()) != (user.as_raw(), group.as_raw()) {
                fchown(file.as_file(), Some(user), Some(group))?;
            }
            // The umask has taken some away.
            file.as_file().set_permissions(self.permissions.clone())?;
        }
        Ok(file)
    }

    /// Writes the complete document. Returns its file, which has other `permissions` if there are
    /// any.
    fn write(
        &self,
        permissions: Option<Permissions>,
        write: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<File> {
        match self.writing {
            WriteMethod::NewFile(_) => {
                let file = self.temporary()?;
                write(file.as_file())?;
                if let Some(permissions) = permissions {
                    file.as_file().set_permissions(permissions)?;
                }
                Ok(file.persist(&self.path)?)
            }
            WriteMethod::InPlace => {
                let mut options = File::options();
                let file = options.write(true).truncate(true).open(&self.path)?;
                write(&file)?;
                Ok(file)
            }
        }
    }
}

/// The path behind the symlinks of a file that does not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_SYMLINKS {
        // The name of a directory.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(ErrorKind::IsADirectory.into());
        }
        match fs::read_link(&path) {
            Ok(target) => path = directory(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// A document that grows in a temporary file without a name, so that a program that is killed
/// leaves nothing. It replaces its file at the end.
pub struct Growing {
    destination: Destination,
    file: File,
}

impl Growing {
    /// Begins the document that will be written to `destination`.
    ///
    /// # Errors
    ///
    /// The temporary file cannot be created.
    pub fn begin(destination: Destination) -> Result<Self, Failure> {
        let file = match &destination {
            Destination::File(target) => tempfile::tempfile_in(directory(&target.path)),
            Destination::Stdout | Destination::Device(..) => tempfile::tempfile(),
        };
        match file {
            Ok(file) => Ok(Self { destination, file }),
            Err(error) => Err(destination.failure(&bare(&error))),
        }
    }

    /// The failure of a document that cannot be written.
    pub fn failure(&self, error: &io::Error) -> Failure {
        self.destination.failure(error)
    }

    /// Writes the complete document.
    pub fn end(&self) -> Result<(), Failure> {
        let mut file = &self.file;
        file.rewind().map_err(|error| self.failure(&error))?;
        self.destination.replace(&mut file).map(drop)
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The standard stream of this process that is the file `path`, such as `/dev/stdout`: a shell may
/// have redirected it to a file, which is not to be replaced.
fn own_stream(path: &Path) -> Option<io::Result<File>> {
    let same = |stream: io::Result<OwnedFd>| {
        let stream = File::from(stream.ok()?);
        let (own, asked) = (stream.metadata().ok()?, fs::metadata(path).ok()?);
        ((own.dev(), own.ino()) == (asked.dev(), asked.ino())).then_some(Ok(stream))
    };
    same(io::stdout().as_fd().try_clone_to_owned())
        .or_else(|| same(io::stderr().as_fd().try_clone_to_owned()))
}

/// The canonical name of a file that does not exist.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(ErrorKind::IsADirectory)?;
    Ok(directory(path).canonicalize()?.join(name))
}

/// The directory in which a file is.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

fn bare(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|error| error.source());
    let number =
        inner.and_then(|inner| inner.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error);
    match number {
        Some(number) => io::Error::from_raw_os_error(number),
        None => error.kind().into(),
    }
}

/// The failure to write a file.
pub(super) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {}", path.display(), cause(error)))
        .with_hint(hint(path, error))
}

fn hint(path: &Path, error: &io::Error) -> String {
    let directory = directory(path);
    match error.kind() {
        ErrorKind::NotFound if !directory.exists() => {
            format!("the directory {} does not exist: create it first", directory.display())
        }
        ErrorKind::StorageFull if !path.is_file() && path.exists() => {
            format!("{} is a device without space: name a file", path.display())
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free space in {}, or name a file on another file system", directory.display())
        }
        ErrorKind::IsADirectory => "name a file in this directory".into(),
        _ if Errno::from_io_error(error) == Some(Errno::IO) => {
            "the disk or the file server has failed: see the kernel log, or name a file elsewhere"
                .into()
        }
        ErrorKind::PermissionDenied if Errno::from_io_error(error) == Some(Errno::PERM) => {
            "the file of another user cannot be replaced in this directory: name another file"
                .into()
        }
        _ => "name a file in a directory that exists and that you may write to".into(),
    }
}

/// Writes a text to standard output. Names in it may come from files or from other hosts: control
/// characters are shown.
pub fn write_text(text: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(text);
    io::stdout().write_all(shown_lines(&text).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_file_by_complete_document() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result.json");
        fs::write(&path, "old and longer").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let destination = Destination::file(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old and longer");
        destination.write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["result.json"]);
    }

    #[test]
    fn leaves_nothing_of_an_unwritten_document() {
        let directory = tempfile::tempdir().unwrap();
        drop(Destination::file(&directory.path().join("x")).unwrap());
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn replaces_file_by_one_that_all_may_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.prom");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Destination::file(&path).unwrap().write_for_all(b"new\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn keeps_symlink() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        Destination::file(&link).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn creates_the_file_that_a_symlink_names() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("below")).unwrap();
        std::os::unix::fs::symlink("below/link", at("first")).unwrap();
        std::os::unix::fs::symlink("file", at("below/link")).unwrap();
        Destination::file(&at("first")).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(at("below/file")).unwrap(), "new");
        assert!(fs::symlink_metadata(at("first")).unwrap().is_symlink());
        std::os::unix::fs::symlink("round", at("round")).unwrap();
        assert!(Destination::file(&at("round")).is_err());
    }

    #[test]
    fn writes_file_with_several_names_in_place() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("file"), directory.path().join("other"));
        fs::write(&file, "old and longer").unwrap();
        fs::hard_link(&file, &other).unwrap();
        Destination::file(&file).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
    }

    #[test]
    fn keeps_the_owner_of_a_file() {
        if !geteuid().is_root() {
            println!("not tested: needs root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::chown(&file, Some(1234), Some(4321)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o664)).unwrap();
        Destination::file(&file).unwrap().write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        let found = fs::metadata(&file).unwrap();
        assert_eq!((found.uid(), found.gid()), (1234, 4321));
        assert_eq!(found.mode() & 0o777, 0o664);
    }

    #[test]
    fn writes_to_device() {
        let destination = Destination::file(Path::new("/dev/null")).unwrap();
        assert!(matches!(destination, Destination::Device(..)));
        destination.write(b"new").unwrap();
        let full = Destination::file(Path::new("/dev/full")).unwrap();
        let failure = full.write(b"new").unwrap_err();
        assert_eq!(failure.message(), "cannot write /dev/full: No space left on device");
    }

    #[test]
    fn rejects_unwritable_paths_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let cases = [
            directory.path().to_owned(),
            directory.path().join("no/such/result.json"),
            "/proc/result.json".into(),
            "..".into(),
            directory.path().join("x2/"),
        ];
        for path in cases {
            let Err(failure) = Destination::file(&path) else {
                panic!("{}", path.display());
            };
            let named = format!("cannot write {}", path.display());
            assert!(failure.message().starts_with(&named), "{}", failure.message());
        }
    }
}
