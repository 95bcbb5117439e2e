//! The `mgp` object of the handshake (MGP §2.2, §2.3, §2.4).

use std::fmt;

use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use super::{Extension, ExtensionSet, Permission, TrustLevel};
use crate::record::{List, record};

/// A version of MGP, as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MgpVersion(ByteString);

impl MgpVersion {
    /// The version that this implementation offers; §16 requires this version.
    pub const DEFAULT: Self = Self(ByteString::from_static("0.3.0"));

    /// Borrows the version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the major version, or `None` if the text does not begin with a number.
    #[must_use]
    pub fn major(&self) -> Option<u64> {
        self.0.split('.').next()?.parse().ok()
    }

    /// Returns whether two versions are compatible: their major versions must be equal (§2.4).
    #[must_use]
    pub fn is_compatible(&self, other: &Self) -> bool {
        self.major().is_some() && self.major() == other.major()
    }
}

impl Default for MgpVersion {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<&str> for MgpVersion {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for MgpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::record::schema_of!(MgpVersion as "MgpVersion", { "type": "string" });

record! {
    /// The MGP capability of a peer; only servers send the last four members.
    pub struct MgpCapability {
        /// The MGP version that the peer speaks.
        req version: MgpVersion,
        /// The extensions that the peer offers; unknown extensions are preserved.
        req extensions: Vec<String>,
        /// The permissions that the server claims to need.
        list permissions_required: List<Permission>,
        /// The id that the server claims; shown to users, but never used as a key.
        opt server_id: Option<String>,
        /// The trust level that the server claims; it never raises the configured level.
        opt trust_level: Option<TrustLevel>,
        /// `true` if the server can send to modern callers, in results that require input, all questions that it sends
        /// to legacy callers. A gateway with legacy callers then needs no legacy connection to this server.
        opt asks_in_rounds: Option<bool>,
    }

    /// An object with the member `mgp`, which declares a capability (§12.2, §16.2).
    pub struct MgpDeclaration {
        /// The MGP capability.
        req mgp: MgpCapability,
    }
}

impl MgpCapability {
    /// Returns the extensions in this capability that this version of the crate knows.
    #[must_use]
    pub fn extension_set(&self) -> ExtensionSet {
        ExtensionSet::from_offer(&self.extensions)
    }

    /// Returns whether the peer offers a known extension that §2.2 does not list, e.g. one that a later revision of MGP
    /// added.
    #[must_use]
    pub fn speaks_later_words(&self) -> bool {
        let is_later = |name: &String| {
            Extension::from_word(name).is_some_and(|known| !Extension::STANDARD.contains(&known))
        };
        self.extensions.iter().any(is_later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, expected: bool) {
        assert_eq!(MgpVersion::from(a).is_compatible(&b.into()), expected, "{a} {b}");
    }

    #[test]
    fn major_versions_must_match() {
        check("0.1.0", "0.3.0", true);
        check("0.1", "0.8.0-draft", true);
        check("1.0.0", "0.3.0", false);
        check("1.2.0", "1.0.0", true);
        check("x", "x", false);
        check("", "0.1.0", false);
    }
}
