//! The secret of a pair of processes: `--token`, or the environment variable CXIDIAG_TOKEN.
//!
//! A process sends a proof that it has the token: a random salt and the HMAC-SHA256 of salt and
//! role under the token. The role keeps a peer without the token from returning the proof of the
//! other side. A proof that is to be worth nothing on another connection has a random text of the
//! peer in its role.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::{env, fmt};

use hmac_sha256::HMAC;
use rustix::rand::{GetRandomFlags, getrandom};

/// The environment variable that holds the token.
pub const TOKEN_VARIABLE: &str = "CXIDIAG_TOKEN";

/// Size of the salt, in bytes.
const SALT_SIZE: usize = 16;

/// Size of the hash, in bytes.
const HASH_SIZE: usize = 32;

/// First bytes of each salt of this release, whose clients answer the proof of their server with
/// another proof. The hash covers the salt, so that nobody can send the proof of a client in the
/// name of an older release, which does not answer.
const ANSWERS: &[u8; 8] = b"answers\n";

/// A token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(OsString);

impl Token {
    /// The token `text`, unless it is empty.
    pub fn new(text: &OsStr) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// A new random token of 32 hexadecimal digits.
    ///
    /// # Panics
    ///
    /// If the process has neither getrandom(2) nor /dev/urandom.
    pub fn random() -> Self {
        Self(digits(&random::<SALT_SIZE>()).into())
    }

    /// The token in the environment of this process, if there is one.
    pub fn from_environment() -> Option<Self> {
        env::var_os(TOKEN_VARIABLE).and_then(|text| Self::new(&text))
    }

    /// The bits of a random token of this length from the kinds of characters that this one has: a
    /// word of a dictionary has fewer.
    pub fn bits(&self) -> u32 {
        let bytes = self.0.as_bytes();
        let is_hexadecimal = bytes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let kind_number = |is_one: fn(&u8) -> bool, count: u32| {
            if bytes.iter().any(is_one) { count } else { 0 }
        };
        let alphabet = if is_hexadecimal {
            16
        } else {
            kind_number(u8::is_ascii_digit, 10)
                + kind_number(u8::is_ascii_lowercase, 26)
                + kind_number(u8::is_ascii_uppercase, 26)
                + kind_number(|byte| !byte.is_ascii_alphanumeric(), 33)
        };
        let distinct = bytes.iter().collect::<BTreeSet<_>>().len();
        // A few characters again and again are no choice among all.
        let choices = if distinct < 8 { distinct as u32 } else { alphabet };
        (bytes.len() as f64 * f64::from(choices).log2()) as u32
    }

    /// The token as it was given, for the environment of another process.
    pub fn text(&self) -> &OsStr {
        &self.0
    }

    /// A new proof of a process with this `role`: salt and hash as hexadecimal digits.
    ///
    /// # Panics
    ///
    /// If the process has neither getrandom(2) nor /dev/urandom.
    pub fn proof(&self, role: &str) -> String {
        let mut salt = random::<SALT_SIZE>();
        salt[..ANSWERS.len()].copy_from_slice(ANSWERS);
        let hash = HMAC::mac(input(&salt, role), self.0.as_bytes());
        digits(&salt) + &digits(&hash)
    }

    /// Whether `proof` comes from a process with this `role` and this token.
    pub fn confirms(&self, proof: &str, role: &str) -> bool {
        let Some(bytes) = bytes(proof) else {
            return false;
        };
        let Some((salt, hash)) = bytes.split_first_chunk::<SALT_SIZE>() else {
            return false;
        };
        <&[u8; HASH_SIZE]>::try_from(hash)
            .is_ok_and(|hash| HMAC::verify(input(salt, role), self.0.as_bytes(), hash))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Whether `proof` is of a release whose clients answer the proof of their server.
pub fn answers(proof: &str) -> bool {
    bytes(proof).is_some_and(|bytes| bytes.starts_with(ANSWERS))
}

/// Returns random bytes of the kernel. A filter of system calls may refuse getrandom(2), but not
/// the device.
///
/// # Panics
///
/// If the process has neither getrandom(2) nor /dev/urandom.
pub fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    if getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(LENGTH) {
        let device = File::open("/dev/urandom");
        let read = device.and_then(|mut device| device.read_exact(&mut bytes));
        read.expect("random bytes of getrandom(2) or /dev/urandom");
    }
    bytes
}

/// Bytes as hexadecimal digits.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what a proof hashes.
fn input(salt: &[u8; SALT_SIZE], role: &str) -> Vec<u8> {
    [salt, role.as_bytes()].concat()
}

/// The bytes of a text of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    pairs.iter().map(|[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> Token {
        Token::new(OsStr::new(text)).unwrap()
    }

    #[test]
    fn confirms_proof_of_same_token_and_role() {
        let proof = token("secret").proof("client");
        assert!(token("secret").confirms(&proof, "client"));
        assert!(!token("secret").confirms(&proof, "server"));
        assert!(!token("Secret").confirms(&proof, "client"));
    }

    #[test]
    fn proofs_differ_each_time_and_hide_token() {
        let proofs = [(); 2].map(|()| token("7365637265").proof("client"));
        assert_ne!(proofs[0], proofs[1]);
        assert!(!proofs[0].contains("7365637265"));
        assert_eq!(format!("{:?}", token("secret")), "Token(..)");
    }

    #[test]
    fn refuses_altered_proof() {
        let proof = token("secret").proof("client");
        assert_eq!(proof.len(), 2 * (SALT_SIZE + HASH_SIZE));
        assert!(answers(&proof) && !answers(""));
        for end in 0..proof.len() {
            assert!(!token("secret").confirms(&proof[..end], "client"));
        }
        let last = if proof.ends_with('0') { "1" } else { "0" };
        let altered = format!("{}{last}", &proof[..proof.len() - 1]);
        let older = format!("0{}", &proof[1..]);
        assert!(!answers(&older));
        for altered in [altered, older] {
            assert!(!token("secret").confirms(&altered, "client"));
        }
        assert!(!token("secret").confirms(&format!("{proof}00"), "client"));
    }

    #[test]
    fn random_tokens_differ() {
        let tokens = [(); 2].map(|()| Token::random());
        assert_ne!(tokens[0], tokens[1]);
        assert_eq!(tokens[0].text().len(), 32);
    }

    #[test]
    fn bits_grow_with_length_and_kinds_of_characters() {
        for (text, bits) in [
            ("secret", 13),
            ("aaaaaaaaaaaaaaaaaaaaaaaa", 0),
            ("0123456789abcdef", 64),
            ("0123456789abcdef0123", 80),
            ("abcdefghijklmnopq", 79),
            ("Tr0ub4dor&3xyz", 91),
        ] {
            assert_eq!(token(text).bits(), bits, "{text}");
        }
        assert_eq!(Token::random().bits(), 128);
    }

    #[test]
    fn empty_text_is_no_token() {
        assert_eq!(Token::new(OsStr::new("")), None);
    }

    proptest! {
        #[test]
        fn refuses_random_text(text in "\\PC{0,120}") {
            prop_assert!(!token("secret").confirms(&text, "client"));
        }
    }
}
