//! Keyed digests of texts that must not appear in a log. A digest reveals only whether two texts are equal.

use std::io;
use std::path::Path;
use std::time::Duration;

use mgp_types::{PrivateFile, PrivateFileError, to_hex};

use super::chain::parse_hash;

/// The length of a key file: the key in hexadecimal, a space, the first half of its hash, and a newline.
const LENGTH: usize = 64 + 1 + 32 + 1;

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The error text for a key file whose content this program did not write: the reason and the remedy.
const DAMAGED: &str = "it is damaged; restore it from a back-up, or move it away, so that later records have the digests of a new key";

/// A key for digests of arguments and other secrets.
///
/// Without the key, a reader of the log cannot test guesses against a digest.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Creates the digest key from its 32 bytes.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Reads the key in a private file, or creates the file with a random key if it is missing; blocks the thread.
    ///
    /// # Errors
    /// [`PrivateFileError`] if the file cannot be read or created, is damaged, or is accessible to other users.
    pub fn open(path: &Path) -> Result<Self, PrivateFileError> {
        let file = PrivateFile::new(path, LENGTH as u64);
        let turn = file.lock(LOCK_TIMEOUT)?;
        if let Some(key) = Self::existing(&file)? {
            return Ok(key);
        }
        let failed = |verb, source| PrivateFileError::Io { path: path.to_owned(), verb, source };
        let secret =
            mgp_types::random_name().map_err(|why| failed("made", io::Error::other(why)))?;
        let key = Self(blake3::derive_key("mgp audit digests, version 1", secret.as_bytes()));
        file.replace(&turn, &key.file())?;
        Ok(key)
    }

    /// Checks that the key in a file can be used; a missing file can be created.
    #[cfg(feature = "sqlite")]
    pub(crate) fn check(path: &Path) -> Result<(), PrivateFileError> {
        Self::existing(&PrivateFile::new(path, LENGTH as u64)).map(drop)
    }

    /// Reads the key in a file; returns `None` if the file is missing.
    fn existing(file: &PrivateFile) -> Result<Option<Self>, PrivateFileError> {
        let damaged = || PrivateFileError::Io {
            path: file.path().to_owned(),
            verb: "used",
            source: io::Error::other(DAMAGED),
        };
        let text = file.read()?;
        text.map(|text| Self::parse(&text).ok_or_else(damaged)).transpose()
    }

    /// Reads the key in a file; returns `None` if the file is missing or damaged.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, PrivateFileError> {
        let text = PrivateFile::new(path, LENGTH as u64).read()?;
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    /// Returns the digest of a text: 32 hexadecimal digits.
    #[must_use]
    pub fn digest(&self, text: &str) -> String {
        to_hex(&blake3::keyed_hash(&self.0, text.as_bytes()).as_bytes()[..16])
    }

    pub(in crate::audit) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn parse(file: &[u8]) -> Option<Self> {
        let key = Self(parse_hash(std::str::from_utf8(file.get(..64)?).ok()?)?);
        (key.file() == file).then_some(key)
    }

    fn file(&self) -> Vec<u8> {
        let mut out = to_hex(&self.0).into_bytes();
        out.push(b' ');
        out.extend_from_slice(&to_hex(blake3::hash(&self.0).as_bytes()).as_bytes()[..32]);
        out.push(b'\n');
        out
    }
}

impl From<[u8; 32]> for DigestKey {
    fn from(key: [u8; 32]) -> Self {
        Self::new(key)
    }
}

mgp_types::opaque_debug!(DigestKey);
