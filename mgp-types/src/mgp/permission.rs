//! Permissions: names, risk, requests and grants (MGP §3).

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RiskLevel;
use crate::record::{List, Object, decode, open_enum, record, string_enum};
use crate::{Payload, Timestamp};

open_enum! {
    /// A permission: the eleven of §3.2, or a custom one in reverse-domain notation.
    pub enum Permission {
        /// Read files.
        FilesystemRead = "filesystem.read",
        /// Write, create, delete files.
        FilesystemWrite = "filesystem.write",
        /// Make requests to the network.
        NetworkOutbound = "network.outbound",
        /// Listen on a port.
        NetworkListen = "network.listen",
        /// Run shell commands.
        ShellExecute = "shell.execute",
        /// Run code.
        CodeExecution = "code_execution",
        /// Read memory stores.
        MemoryRead = "memory.read",
        /// Write memory stores.
        MemoryWrite = "memory.write",
        /// Read facts of the system.
        SystemInfo = "system.info",
        /// Use cameras.
        Camera = "camera",
        /// Notify the user.
        Notification = "notification",
    }

    /// The client's way to decide about permissions (§3.3).
    pub enum ApprovalPolicy {
        /// Ask the operator.
        Interactive = "interactive",
        /// Approve everything.
        AutoApprove = "auto_approve",
        /// Approve only the permissions listed in the configuration, and those that an operator approved; ask no one.
        DenyAll = "deny_all",
        /// Approve only the permissions listed in the configuration.
        ConfigOnly = "config_only",
    }
}

string_enum! {
    /// A decision about a permission (§3.6).
    pub enum GrantDecision {
        /// The permission is granted.
        Approved = "approved",
        /// The permission is denied.
        Denied = "denied",
        /// Nothing is decided yet.
        Deferred = "deferred",
    }
}

impl PartialOrd for Permission {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Permission {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Permission {
    /// Returns the risk of the permission (§3.2); custom permissions are dangerous.
    #[must_use]
    pub fn risk(&self) -> RiskLevel {
        match self {
            Self::MemoryRead | Self::SystemInfo | Self::Notification => RiskLevel::Safe,
            Self::FilesystemRead | Self::NetworkOutbound | Self::MemoryWrite => RiskLevel::Moderate,
            Self::FilesystemWrite
            | Self::NetworkListen
            | Self::ShellExecute
            | Self::CodeExecution
            | Self::Camera
            | Self::Other(_) => RiskLevel::Dangerous,
        }
    }

    /// Expands a short name such as `shell` to the standard permissions that it includes; returns any other name
    /// unchanged.
    #[must_use]
    pub fn expand(&self) -> Vec<Self> {
        match self.as_str() {
            "shell" => vec![Self::ShellExecute],
            "network" => vec![Self::NetworkOutbound],
            "filesystem" => vec![Self::FilesystemRead, Self::FilesystemWrite],
            "memory" => vec![Self::MemoryRead, Self::MemoryWrite],
            "code" => vec![Self::CodeExecution],
            _ => vec![self.clone()],
        }
    }

    /// Expands short names to standard permissions, and removes duplicates; the order is preserved.
    #[must_use]
    pub fn canonical<'a, I: IntoIterator<Item = &'a Self>>(permissions: I) -> Vec<Self> {
        let mut seen = HashSet::new();
        let all = permissions.into_iter().flat_map(Self::expand);
        all.filter(|permission| seen.insert(permission.clone())).collect()
    }

    /// Returns whether the name is valid: a standard name, a short name, or a name in reverse-domain notation.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
        };
        match self {
            Self::Other(name) => {
                self.expand()[0] != *self || name.contains('.') && name.split('.').all(is_label)
            }
            _ => true,
        }
    }
}

record! {
    /// Limits of a grant (later revisions of MGP). A value in a `deny_*` list is denied even if another list allows it.
    pub struct PermissionScope {
        /// Paths that are allowed.
        list paths: List<String>,
        /// Paths that are denied.
        list deny_paths: List<String>,
        /// Commands that are allowed.
        list commands: List<String>,
        /// Commands that are denied.
        list deny_commands: List<String>,
        /// `true` if `sudo` is allowed.
        opt allow_sudo: Option<bool>,
        /// Hosts that are allowed.
        list hosts: List<String>,
        /// Hosts that are denied.
        list deny_hosts: List<String>,
        /// Ports that are allowed.
        list ports: List<u16>,
        /// Programming languages that are allowed.
        list languages: List<String>,
        /// The maximum execution time in milliseconds.
        opt max_execution_time_ms: Option<u64>,
    }

    /// A decision with limits (later revisions of MGP).
    pub struct ScopedGrant {
        /// The decision.
        req decision: GrantDecision,
        /// The limits of the decision.
        opt scope: Option<PermissionScope>,
    }

    /// Parameters of `mgp/permission/request`, later `mgp/permission/await` (§3.5).
    pub struct PermissionRequestParams {
        /// The id of the request.
        req request_id: String,
        /// The requested permissions.
        req permissions: Vec<Permission>,
        /// The policy by which the client decides.
        opt policy: Option<ApprovalPolicy>,
        /// A message for display.
        opt message: Option<String>,
    }

    /// Result of `mgp/permission/request`: an acknowledgement or, from a client, the decision.
    pub struct PermissionRequestResult {
        /// The id of the request.
        opt request_id: Option<String>,
        /// `waiting`, in the answer of a server.
        opt status: Option<String>,
        /// The decision about each permission.
        opt grants: Option<BTreeMap<Permission, Grant>>,
        /// The operator or policy that decided.
        opt approved_by: Option<String>,
        /// The time at which the decision expires.
        opt expires_at: Option<Timestamp>,
    }

    /// The decision: parameters of `mgp/permission/response`, later `mgp/permission/grant` (§3.6).
    pub struct PermissionDecision {
        /// The id of the request.
        req request_id: String,
        /// The decision about each permission.
        req grants: BTreeMap<Permission, Grant>,
        /// The operator or policy that decided.
        opt approved_by: Option<String>,
        /// The time at which the decision expires.
        opt expires_at: Option<Timestamp>,
    }

    /// Result of `mgp/permission/response`.
    pub struct PermissionAck {
        /// The id of the request.
        req request_id: String,
        /// Always true.
        req acknowledged: bool,
        /// The permissions that the server now has and uses.
        list active: List<Permission>,
        /// Further details.
        opt details: Option<Object>,
    }
}

/// A decision about one permission: a plain word or, in later revisions, an object that also has limits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Grant {
    /// A decision that applies without limits.
    Plain(GrantDecision),
    /// A decision that applies within limits.
    Scoped(Box<ScopedGrant>),
}

impl Grant {
    /// Returns the decision without its limits.
    #[must_use]
    pub fn decision(&self) -> GrantDecision {
        match self {
            Self::Plain(decision) => *decision,
            Self::Scoped(grant) => grant.decision,
        }
    }

    /// Returns the limits of the decision, if it has any.
    #[must_use]
    pub fn scope(&self) -> Option<&PermissionScope> {
        match self {
            Self::Plain(_) => None,
            Self::Scoped(grant) => grant.scope.as_ref(),
        }
    }
}

impl From<GrantDecision> for Grant {
    fn from(decision: GrantDecision) -> Self {
        Self::Plain(decision)
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(decision) => decision.serialize(serializer),
            Self::Scoped(grant) => grant.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Payload::deserialize(deserializer)?;
        if raw.as_str().trim_start().starts_with('{') {
            decode(&raw).map(Self::Scoped)
        } else {
            decode(&raw).map(Self::Plain)
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Grant {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Grant".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [
                generator.subschema_for::<GrantDecision>(),
                generator.subschema_for::<ScopedGrant>(),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_become_standard_ones() {
        let names: Vec<Permission> =
            ["shell", "network", "filesystem", "filesystem.read", "com.example.x"]
                .map(Into::into)
                .into();
        let canonical = Permission::canonical(&names);
        let canonical: Vec<_> = canonical.iter().map(Permission::as_str).collect();
        assert_eq!(
            canonical,
            [
                "shell.execute",
                "network.outbound",
                "filesystem.read",
                "filesystem.write",
                "com.example.x"
            ]
        );
    }

    /// Regression test: the time was quadratic, and a server chooses the number of permissions.
    #[test]
    fn many_names_become_standard_ones_in_linear_time() {
        let name = |at: u32| Permission::from(&*format!("com.example.p{at}"));
        let names: Vec<_> = (0..100_000).map(name).collect();
        assert_eq!(Permission::canonical(&names), names);
    }

    #[test]
    fn custom_names_need_a_domain() {
        for (name, valid) in [
            ("com.example.x", true),
            ("foo", false),
            ("shell", true),
            ("a..b", false),
            (".a", false),
            ("camera", true),
            ("a b.c", false),
        ] {
            assert_eq!(Permission::from(name).is_valid(), valid, "{name}");
        }
        assert_eq!(Permission::KNOWN.len(), 11);
        assert_eq!(Permission::from("com.example.x").risk(), RiskLevel::Dangerous);
    }
}
