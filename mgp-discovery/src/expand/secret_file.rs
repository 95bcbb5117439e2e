//! The user's secrets by name, for `${keyring:NAME}`, in a file that only its owner can read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mgp_types::{PrivateFile, PrivateFileError};
use serde::{Deserialize, Serialize};

use crate::config::{limits, valid_id};

const FILE: &str = "secrets.json";
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_SECRETS: usize = 1000;
/// The maximum time to wait for another process that is changing the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The version of the format of the secret file.
const VERSION: u32 = 1;

/// The user's secrets in a state folder; all functions block.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("mgp-secrets-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// use mgp_discovery::SecretFile;
///
/// let secrets = SecretFile::in_folder(&folder);
/// secrets.set("github", "s3cret").unwrap();
/// assert_eq!(secrets.get("github").unwrap().as_deref(), Some("s3cret"));
/// assert!(secrets.remove("github").unwrap());
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SecretFile(PrivateFile);

/// The error of an access to the file of secrets; it contains no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretFileError {
    /// The secret file cannot be used.
    #[error(transparent)]
    File(#[from] PrivateFileError),
    /// The secret file has content other than secrets.
    #[error(
        "`secrets.json` in the state folder is damaged, or a newer version of this program wrote it; restore it from a back-up, update this program, or move it away to start again"
    )]
    Damaged,
    /// A name or value cannot be stored.
    #[error("{0}")]
    Invalid(&'static str),
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    secrets: BTreeMap<String, String>,
}

impl SecretFile {
    /// Returns the file of secrets in a state folder; the file is created when the first secret is stored.
    #[must_use]
    pub fn in_folder(state: &Path) -> Self {
        Self(PrivateFile::new(state.join(FILE), MAX_FILE_BYTES))
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.0.path().parent()
    }

    /// Returns the secret with a name; `None` if no secret has this name.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file cannot be read or trusted.
    pub fn get(&self, name: &str) -> Result<Option<String>, SecretFileError> {
        Ok(self.read()?.secrets.remove(name))
    }

    /// Returns the names of all secrets.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file cannot be read or trusted.
    pub fn names(&self) -> Result<Vec<String>, SecretFileError> {
        Ok(self.read()?.secrets.into_keys().collect())
    }

    /// Stores a secret; replaces an earlier secret with the same name.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file cannot be read or written, or the name or the value cannot be stored.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SecretFileError> {
        if !valid_id(name) {
            return Err(SecretFileError::Invalid(
                "the name of a secret begins with a letter or digit, and has only letters, digits, `.`, `_` and `-`, at most 128",
            ));
        }
        if value.is_empty() || value.len() > limits::MAX_VALUE_BYTES || value.contains('\0') {
            return Err(SecretFileError::Invalid(
                "the value is empty, too long, or contains a NUL",
            ));
        }
        self.change(|secrets| {
            if secrets.len() >= MAX_SECRETS && !secrets.contains_key(name) {
                return Err(SecretFileError::Invalid(
                    "there are 1000 secrets already; remove some",
                ));
            }
            secrets.insert(name.to_owned(), value.to_owned());
            Ok(())
        })
    }

    /// Removes a secret; returns `false` if no secret has that name.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file cannot be read or written.
    pub fn remove(&self, name: &str) -> Result<bool, SecretFileError> {
        self.change(|secrets| Ok(secrets.remove(name).is_some()))
    }

    fn read(&self) -> Result<Content, SecretFileError> {
        let Some(text) = self.0.read()? else { return Ok(Content::default()) };
        // Do not include the error of serde in the message, because it quotes the text, which is secret.
        let content: Content =
            serde_json::from_slice(&text).map_err(|_| SecretFileError::Damaged)?;
        if content.version == VERSION { Ok(content) } else { Err(SecretFileError::Damaged) }
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, String>) -> Result<T, SecretFileError>,
    ) -> Result<T, SecretFileError> {
        let lock = self.0.lock(LOCK_TIMEOUT)?;
        let mut content = self.read()?;
        let changed = change(&mut content.secrets)?;
        content.version = VERSION;
        let text = serde_json::to_vec(&content).map_err(|_| SecretFileError::Damaged)?;
        // Refuse the change, because a longer file could not be read any more.
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(SecretFileError::Invalid(
                "all secrets together would be longer than 4 MiB; remove some",
            ));
        }
        self.0.replace(&lock, &text)?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_for_which_the_file_has_no_room_is_refused_and_the_others_stay_readable() {
        let folder = mgp_testkit::temp_dir();
        let secrets = SecretFile::in_folder(folder.path());
        // In JSON each of these characters takes six bytes, so eleven such values exceed 4 MiB.
        let value = "\u{1}".repeat(limits::MAX_VALUE_BYTES);
        for number in 0..10 {
            secrets.set(&number.to_string(), &value).unwrap();
        }
        let refused = secrets.set("10", &value).unwrap_err().to_string();
        assert!(refused.contains("longer than 4 MiB"), "{refused}");
        assert_eq!(secrets.names().unwrap().len(), 10);
        assert!(secrets.remove("0").unwrap());
        secrets.set("10", &value).unwrap();
    }
}
