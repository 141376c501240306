//! Files that users name: regular files and pipes, up to a limit for each kind.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Largest file that people write by hand, or that a script writes for them, in bytes.
pub const LARGEST_TEXT: u64 = 32 << 20;

/// Largest document with results, in bytes.
pub const LARGEST_DOCUMENT: u64 = 2 << 30;

/// What editors of other systems write before a text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens a file to read it.
///
/// # Errors
///
/// A file that is neither regular nor a pipe, and errors of the system.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() && !kind.is_fifo() {
        return Err(io::Error::other("neither a regular file nor a pipe"));
    }
    File::open(path)
}

/// The bytes of a file, without a byte order mark. `most` is the limit for its kind.
///
/// # Errors
///
/// The errors of [`open`] and [`limited`].
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    limited(open(path)?, most)
}

/// The bytes of an open file or a stream, as [`bytes`] does.
///
/// # Errors
///
/// More bytes than `most`, and errors of the system.
pub fn limited(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let mebibytes = most >> 20;
        let why = format!("larger than {mebibytes} MiB, the limit for such a file");
        return Err(io::Error::other(why));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// The text of a file of at most [`LARGEST_TEXT`] bytes, without a byte order mark.
///
/// # Errors
///
/// The errors of [`bytes`], and a file that is not UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let bytes = bytes(path, LARGEST_TEXT)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("not a text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_devices_and_directories() {
        for (path, why) in [
            ("/dev/zero", "neither a regular file nor a pipe"),
            ("/", "is a directory"),
            ("/none/x", "No such file or directory (os error 2)"),
        ] {
            assert_eq!(text(Path::new(path)).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn names_the_limit() {
        assert_eq!(limited(io::repeat(1).take(1 << 20), 1 << 20).unwrap().len(), 1 << 20);
        let error = limited(io::repeat(1), 1 << 20).unwrap_err().to_string();
        assert_eq!(error, "larger than 1 MiB, the limit for such a file");
    }

    #[test]
    fn leaves_out_a_byte_order_mark() {
        assert_eq!(limited("\u{feff}a\u{feff}".as_bytes(), 9).unwrap(), "a\u{feff}".as_bytes());
    }
}
