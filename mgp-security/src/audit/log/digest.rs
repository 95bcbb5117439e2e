//! Digests of what may not stand in a log: equal texts are seen to be equal, and nothing more.
//!
//! Applies to: both.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use mgp_types::{PrivateFile, PrivateFileError, to_hex};

use super::chain::unhex;

/// The length of a file with a key: the key, a blank, half its hash, the end of the line.
const LENGTH: usize = 64 + 1 + 32 + 1;

/// How long another process may hold the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// A key for digests of arguments and other secrets.
///
/// Without it nobody can try which text has a given digest.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Takes a key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Reads the key in a private file, which is made with a new one where it is missing; it blocks.
    ///
    /// # Errors
    /// [`PrivateFileError`].
    pub fn open(path: &Path) -> Result<Self, PrivateFileError> {
        let file = PrivateFile::new(path, LENGTH as u64);
        let turn = file.turn(PATIENCE)?;
        let odd = || PrivateFileError::NotPlain { path: path.to_owned() };
        if let Some(text) = file.read()? {
            return Self::parse(&text).ok_or_else(odd);
        }
        let secret = mgp_types::unguessable().map_err(|_| odd())?;
        let key = Self(blake3::derive_key("mgp audit digests, version 1", secret.as_bytes()));
        file.replace(&turn, &key.file())?;
        Ok(key)
    }

    /// Reads the key in a file; none where it is no key as we write them.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, PrivateFileError> {
        let text = PrivateFile::new(path, LENGTH as u64).read()?;
        Ok(text.and_then(|text| Self::parse(&text)))
    }

    /// The digest of a text: 32 hexadecimal digits.
    #[must_use]
    pub fn digest(&self, text: &str) -> String {
        to_hex(&blake3::keyed_hash(&self.0, text.as_bytes()).as_bytes()[..16])
    }

    /// The key itself, for a recorder.
    pub(in crate::audit) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn parse(file: &[u8]) -> Option<Self> {
        let key = Self(unhex(std::str::from_utf8(file.get(..64)?).ok()?)?);
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

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}
