//! Side effects and risk of tools, and trust in servers (MGP §4, §2.3).

use std::cmp::Ordering;

use super::{CodeSafety, Permission};
use crate::record::{List, open_enum, record};

open_enum! {
    /// The risk of a tool or permission, safest first; an unknown value counts as worse than `dangerous`.
    pub enum RiskLevel {
        /// Without side effects.
        Safe = "safe",
        /// Limited side effects.
        Moderate = "moderate",
        /// Effects on the system, irreversible.
        Dangerous = "dangerous",
    }

    /// A side effect of a tool (§4.3).
    pub enum SideEffect {
        /// Access to files.
        Filesystem = "filesystem",
        /// Access to the network.
        Network = "network",
        /// Effects on processes.
        Process = "process",
        /// Access to databases.
        Database = "database",
        /// Notifications to the user.
        Notification = "notification",
    }

    /// A check that a kernel makes before a call (§4.5); a check that the kernel does not know blocks the call.
    pub enum Validator {
        /// Blocks shell patterns, metacharacters, recursive delete.
        Sandbox = "sandbox",
        /// Blocks writes.
        Readonly = "readonly",
        /// Blocks localhost, private addresses, metadata endpoints.
        NetworkRestricted = "network_restricted",
        /// Applies the code safety rules (§7) to code arguments.
        CodeSafety = "code_safety",
        /// Makes no check.
        None = "none",
    }

    /// The trust in a server: the values of §2.3, followed by the values of later revisions.
    pub enum TrustLevel {
        /// Highest trust.
        Trusted = "trusted",
        /// Normal trust.
        Standard = "standard",
        /// Lowest trust.
        Sandboxed = "sandboxed",
        /// The name of `trusted` in later revisions.
        Core = "core",
        /// A level of later revisions between `untrusted` and `standard`.
        Experimental = "experimental",
        /// The name of `sandboxed` in later revisions.
        Untrusted = "untrusted",
    }
}

impl RiskLevel {
    fn rank(&self) -> u8 {
        match self {
            Self::Safe => 0,
            Self::Moderate => 1,
            Self::Dangerous => 2,
            Self::Other(_) => 3,
        }
    }
}

impl PartialOrd for RiskLevel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RiskLevel {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank()).then_with(|| self.as_str().cmp(other.as_str()))
    }
}

impl TrustLevel {
    /// Returns the rank of the level, from 0 (lowest) to 3; an unknown level has rank 0.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Sandboxed | Self::Untrusted | Self::Other(_) => 0,
            Self::Experimental => 1,
            Self::Standard => 2,
            Self::Trusted | Self::Core => 3,
        }
    }

    /// Returns the level of the first specification (§2.3) that corresponds to this level; `experimental` and unknown
    /// levels become `sandboxed`.
    #[must_use]
    pub fn seed(&self) -> Self {
        match self.rank() {
            3 => Self::Trusted,
            2 => Self::Standard,
            _ => Self::Sandboxed,
        }
    }

    /// Returns the level of later revisions of MGP that corresponds to this level; an unknown level becomes
    /// `untrusted`.
    #[must_use]
    pub fn later(&self) -> Self {
        match self.rank() {
            3 => Self::Core,
            2 => Self::Standard,
            1 => Self::Experimental,
            _ => Self::Untrusted,
        }
    }
}

record! {
    /// The security metadata of a tool, as its server declares it (§4.3).
    pub struct ToolSecurity {
        /// The risk that the server declares.
        req risk_level: RiskLevel,
        /// The permissions that a call needs, as the server declares them.
        list permissions_required: List<Permission>,
        /// The side effects of the tool.
        list side_effects: List<SideEffect>,
        /// The check that the kernel makes before a call.
        opt validator: Option<Validator>,
        /// `true` if the effects can be undone.
        opt reversible: Option<bool>,
        /// `true` if the user must confirm a call.
        opt confirmation_required: Option<bool>,
        /// Rules for code arguments (§7.3).
        opt code_safety: Option<CodeSafety>,
        /// The risk that the kernel assigns to the tool. The kernel sets this member, and ignores a value from the
        /// server (later revisions of MGP).
        opt effective_risk_level: Option<RiskLevel>,
    }

    /// A tool with only its name, description and security metadata, as in the examples of §7.3.
    pub struct ToolDeclaration {
        /// The name that identifies the tool.
        req name: String,
        /// A description of the tool.
        opt description: Option<String>,
        /// The security metadata.
        req security: ToolSecurity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risk_and_trust_are_ordered() {
        assert!(
            RiskLevel::Safe < RiskLevel::Moderate && RiskLevel::Moderate < RiskLevel::Dangerous
        );
        assert!(RiskLevel::Dangerous < RiskLevel::from("harmless"));
        assert!(TrustLevel::from("core").rank() == TrustLevel::Trusted.rank());
        assert!(TrustLevel::from("experimental").rank() < TrustLevel::Standard.rank());
        assert_eq!(TrustLevel::from("untrusted").seed(), TrustLevel::Sandboxed);
        assert_eq!(TrustLevel::from("root").rank(), 0);
    }
}
