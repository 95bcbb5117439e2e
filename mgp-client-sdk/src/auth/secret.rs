//! Strings that must not be printed: tokens, client secrets, assertions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A secret string. `Debug` does not show it; serialization writes it in clear, for token stores.
///
/// ```
/// use mgp_client_sdk::auth::Secret;
///
/// assert_eq!(format!("{:?}", Secret::new("hunter2")), "…");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from its text.
    pub fn new(word: impl Into<String>) -> Self {
        Self(word.into())
    }

    /// Returns the text, which must not be logged.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(word: String) -> Self {
        Self(word)
    }
}

impl From<&str> for Secret {
    fn from(word: &str) -> Self {
        Self(word.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
