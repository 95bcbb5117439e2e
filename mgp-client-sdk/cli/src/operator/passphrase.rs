//! The operator's passphrase: `operator.json` in the state folder stores a salted, slow hash of it.

use std::path::Path;
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use mgp_types::PrivateFile;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::exit::{CliResult, Failure};

pub(crate) const MIN_PASSPHRASE_CHARS: usize = 8;

pub(crate) const MAX_PASSPHRASE_BYTES: usize = 1024;

const MAX_FILE_BYTES: u64 = 4096;

const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The format revision of the file; it also fixes the cost parameters of the hash.
const REVISION: u8 = 1;

/// The memory for one hash; with two passes a hash takes some tens of milliseconds.
const MEMORY_KIB: u32 = 19 * 1024;

const PASSES: u32 = 2;

#[derive(Clone, Debug)]
pub(crate) struct PassphraseFile(PrivateFile);

/// The content of the file that stores the hash of the passphrase.
#[derive(Serialize, Deserialize)]
struct Stored {
    revision: u8,
    salt: [u8; 16],
    hash: [u8; 32],
}

impl PassphraseFile {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(PrivateFile::new(folder.join("operator.json"), MAX_FILE_BYTES))
    }

    pub(crate) fn is_set(&self) -> CliResult<bool> {
        Ok(self.read()?.is_some())
    }

    /// Sets the passphrase, or replaces the previous one.
    pub(crate) fn set(&self, passphrase: &str) -> CliResult {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt)
            .map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
        let stored = Stored { revision: REVISION, salt, hash: hash(passphrase, &salt)? };
        let turn = self.0.lock(LOCK_TIMEOUT)?;
        Ok(self.0.replace(&turn, &serde_json::to_vec(&stored)?)?)
    }

    /// Removes the passphrase, and returns whether one was set.
    pub(crate) fn remove(&self) -> CliResult<bool> {
        let _turn = self.0.lock(LOCK_TIMEOUT)?;
        match std::fs::remove_file(self.0.path()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Compares a passphrase with the stored hash in constant time; returns `None` if no passphrase is set.
    ///
    /// Blocks for tens of milliseconds.
    pub(crate) fn verify(&self, passphrase: &str) -> CliResult<Option<bool>> {
        let Some(stored) = self.read()? else { return Ok(None) };
        let is_equal = hash(passphrase, &stored.salt)?.ct_eq(&stored.hash);
        Ok(Some(is_equal.into()))
    }

    fn read(&self) -> CliResult<Option<Stored>> {
        let Some(text) = self.0.read()? else { return Ok(None) };
        let stored: Option<Stored> = serde_json::from_slice(&text).ok();
        let stored = stored.filter(|stored| stored.revision == REVISION);
        stored.map(Some).ok_or_else(|| {
            let path = self.0.path().display();
            Failure::failed(format!(
                "`{path}` was not written by this version; remove it, and set the passphrase again"
            ))
        })
    }
}

fn hash(passphrase: &str, salt: &[u8]) -> CliResult<[u8; 32]> {
    let failed = |error| Failure::failed(format!("the passphrase cannot be hashed: {error}"));
    let params = Params::new(MEMORY_KIB, PASSES, 1, Some(32)).map_err(failed)?;
    let mut hash = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(passphrase.as_bytes(), salt, &mut hash)
        .map_err(failed)?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_a_salted_hash_that_only_the_passphrase_fits() {
        let folder = mgp_testkit::temp_dir();
        let file = PassphraseFile::in_folder(folder.path());
        assert_eq!(file.verify("open sesame").unwrap(), None);
        file.set("open sesame").unwrap();
        let text = std::fs::read_to_string(folder.path().join("operator.json")).unwrap();
        assert!(!text.contains("sesame"));
        assert_eq!(file.verify("open sesame").unwrap(), Some(true));
        assert_eq!(file.verify("open sesam").unwrap(), Some(false));
        file.set("open sesame").unwrap();
        let again = std::fs::read_to_string(folder.path().join("operator.json")).unwrap();
        assert_ne!(text, again, "salted");
        assert!(file.remove().unwrap() && !file.remove().unwrap());
    }

    #[test]
    fn a_file_of_another_version_is_not_taken_for_no_passphrase() {
        let folder = mgp_testkit::temp_dir();
        let file = PassphraseFile::in_folder(folder.path());
        file.set("open sesame").unwrap();
        std::fs::write(folder.path().join("operator.json"), "{}").unwrap();
        assert!(file.verify("open sesame").is_err() && file.is_set().is_err());
    }
}
