//! Determines the version that a tool must have after a change.

use semver::{Prerelease, Version};

use crate::diff::Bump;

/// Returns the lowest version that is allowed for a tool after a change.
///
/// Before 1.0.0, a breaking change raises the minor version, and any other change the patch version. After a
/// pre-release, which promises nothing, any higher version is allowed.
#[must_use]
pub fn required_version(old: &Version, bump: Bump) -> Version {
    let (major, minor, patch) = (old.major, old.minor, old.patch);
    if bump != Bump::None && !old.pre.is_empty() {
        // Return the lowest version above the pre-release, e.g. 1.0.0-rc.1.0 for 1.0.0-rc.1.
        let pre = Prerelease::new(&format!("{}.0", old.pre)).unwrap_or_else(|_| old.pre.clone());
        return Version { pre, ..Version::new(major, minor, patch) };
    }
    match (bump, major) {
        (Bump::None, _) => old.clone(),
        (Bump::Major, 0) => Version::new(0, minor.saturating_add(1), 0),
        (Bump::Major, _) => Version::new(major.saturating_add(1), 0, 0),
        (Bump::Minor, 1..) => Version::new(major, minor.saturating_add(1), 0),
        (Bump::Minor | Bump::Patch, _) => Version::new(major, minor, patch.saturating_add(1)),
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
        check("1.0.0-rc.1", Bump::None, "1.0.0-rc.1");
        check("1.0.0-rc.1", Bump::Major, "1.0.0-rc.1.0");
        check("0.2.3-alpha", Bump::Patch, "0.2.3-alpha.0");
        let highest = "1.18446744073709551615.0";
        check(highest, Bump::Minor, highest);
    }

    #[test]
    fn any_higher_version_may_follow_a_pre_release() {
        let version = |text: &str| Version::parse(text).unwrap();
        let required = required_version(&version("1.0.0-rc.1"), Bump::Major);
        for (after, expected) in
            [("1.0.0-rc.1", false), ("1.0.0-rc.2", true), ("1.0.0", true), ("0.9.0", false)]
        {
            assert_eq!(version(after) >= required, expected, "{after}");
        }
    }
}
