//! Versions of tools: the version that a change demands, and the versions that a caller accepts.

use std::fmt;

use semver::{Version, VersionReq};

use crate::diff::Bump;

/// The versions of a tool that a caller accepts, e.g. `^1.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionPin(VersionReq);

/// The error for a text that is not a version or a range of versions.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{text}` is not a version range ({reason}); write e.g. `^1.2` or `>=1.2, <3`")]
pub struct VersionError {
    text: String,
    reason: String,
}

impl VersionPin {
    /// Reads a range of versions; `1.2` means `^1.2`.
    ///
    /// # Errors
    /// [`VersionError`] if the text is not a range.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let failed = |error: semver::Error| VersionError {
            text: text.to_owned(),
            reason: error.to_string(),
        };
        VersionReq::parse(text).map(Self).map_err(failed)
    }

    /// Returns whether the range contains a version; a tool without a version is in no range.
    #[must_use]
    pub fn accepts(&self, version: Option<&str>) -> bool {
        let version = version.and_then(|version| Version::parse(version).ok());
        version.is_some_and(|version| self.0.matches(&version))
    }
}

impl fmt::Display for VersionPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the lowest version that a tool needs after a change.
///
/// Before 1.0.0 a breaking change raises the minor version, and any other the patch version.
#[must_use]
pub fn required_version(old: &Version, bump: Bump) -> Version {
    let (major, minor, patch) = (old.major, old.minor, old.patch);
    match (bump, major) {
        (Bump::None, _) => old.clone(),
        (Bump::Major, 0) => Version::new(0, minor + 1, 0),
        (Bump::Major, _) => Version::new(major + 1, 0, 0),
        (Bump::Minor, 1..) => Version::new(major, minor + 1, 0),
        (Bump::Minor | Bump::Patch, _) => Version::new(major, minor, patch + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, bump: Bump, expected: &str) {
        let old = Version::parse(old).unwrap();
        assert_eq!(required_version(&old, bump).to_string(), expected);
    }

    #[test]
    fn a_change_demands_the_next_version_of_its_kind() {
        check("1.2.3", Bump::None, "1.2.3");
        check("1.2.3", Bump::Patch, "1.2.4");
        check("1.2.3", Bump::Minor, "1.3.0");
        check("1.2.3", Bump::Major, "2.0.0");
        check("0.2.3", Bump::Major, "0.3.0");
        check("0.2.3", Bump::Minor, "0.2.4");
    }

    #[test]
    fn a_pin_accepts_compatible_versions_only() {
        let pin = VersionPin::parse("^1.2").unwrap();
        assert!(pin.accepts(Some("1.2.0")) && pin.accepts(Some("1.9.3")));
        assert!(!pin.accepts(Some("1.1.9")) && !pin.accepts(Some("2.0.0")));
        assert!(!pin.accepts(None) && !pin.accepts(Some("one")));
        assert!(VersionPin::parse("newest").unwrap_err().to_string().contains("`newest`"));
    }
}
