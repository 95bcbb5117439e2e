//! The permissions that a server requests, and the notice of its grants. The notice contains each grant under every
//! name that the server used, and under the standard name (MGP §3.6).

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{Grant, GrantDecision, Permission, PermissionDecision};

/// Maximum number of permissions that a server can request; further permissions are ignored, so they are not granted.
const MAX_REQUESTED: usize = 64;
/// Maximum length of a permission name, in bytes; longer names are ignored.
const MAX_NAME_BYTES: usize = 128;

/// The permissions that a server requests, under the names that the server used.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedPermissions(Vec<Permission>);

impl RequestedPermissions {
    pub(super) fn of(names: impl IntoIterator<Item = Permission>) -> Self {
        let mut requested = Self::default();
        requested.add(names);
        requested
    }

    /// Adds permission names. Leaves out names that are too long, and stops when the maximum number of names is stored.
    pub(super) fn add(&mut self, names: impl IntoIterator<Item = Permission>) {
        for name in names {
            if self.0.contains(&name) {
                continue;
            }
            if self.0.len() >= MAX_REQUESTED {
                tracing::warn!("too many permissions requested; the rest is ignored");
                return;
            }
            if name.as_str().len() > MAX_NAME_BYTES {
                tracing::warn!("the name of a requested permission is too long; it is ignored");
                continue;
            }
            self.0.push(name);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> &[Permission] {
        &self.0
    }

    /// Returns the permissions about which a decision is possible: standard names, and custom names with a valid form.
    pub(super) fn decidable(&self) -> Vec<Permission> {
        let named = self.0.iter().filter(|name| name.is_valid()).cloned().collect::<Vec<_>>();
        Permission::canonical(&named)
    }
}

/// The decisions about a server's permissions, in the form in which the server is notified of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GrantNotice {
    pub(super) grants: BTreeMap<Permission, Grant>,
    pub(super) approved_by: Option<String>,
    pub(super) expires_at: Option<Timestamp>,
}

impl GrantNotice {
    /// Creates the notice of a decision for a server that requests these permissions.
    ///
    /// Undecided permissions count as deferred, and undecided invalid names as denied. Expired grants count as deferred
    /// too, because §3.6 has no word for an expired grant.
    pub(super) fn of(
        decision: &PermissionDecision,
        requested: &RequestedPermissions,
        at: SystemTime,
    ) -> Self {
        let is_past = |until: &Timestamp| until.to_system_time().is_none_or(|until| until <= at);
        let has_expired = decision.expires_at.as_ref().is_some_and(is_past);
        let mut grants: BTreeMap<Permission, Grant> = BTreeMap::new();
        for (name, grant) in &decision.grants {
            let is_granted = grant.decision() == GrantDecision::Approved;
            let grant = if is_granted && has_expired { deferred() } else { grant.clone() };
            for name in name.expand() {
                grants.insert(name, grant.clone());
            }
        }
        for name in requested.names() {
            let grant = if name.is_valid() {
                let parts = name.expand();
                for part in &parts {
                    grants.entry(part.clone()).or_insert_with(deferred);
                }
                combined(parts.iter().filter_map(|part| grants.get(part)))
            } else {
                // An operator can approve an invalid name, but no policy does, so a name without a decision is denied.
                grants.get(name).cloned().unwrap_or_else(|| GrantDecision::Denied.into())
            };
            grants.insert(name.clone(), grant);
        }
        Self {
            grants,
            approved_by: decision.approved_by.clone(),
            expires_at: decision.expires_at.clone().filter(|_| !has_expired),
        }
    }

    /// Merges newer decisions into existing decisions; for the same permission, the newer decision applies.
    pub(super) fn overlay(
        mut standing: PermissionDecision,
        newer: PermissionDecision,
    ) -> PermissionDecision {
        standing.grants.extend(newer.grants);
        standing.approved_by = newer.approved_by.or(standing.approved_by);
        standing.expires_at = newer.expires_at.or(standing.expires_at);
        standing
    }

    /// Removes the decisions about all names except the requested names and their standard forms.
    pub(super) fn restricted_to(mut self, requested: &RequestedPermissions) -> Self {
        let names = Permission::canonical(requested.names());
        self.grants.retain(|name, _| names.contains(name) || requested.names().contains(name));
        self
    }

    /// Adds, as deferred, those permissions of an earlier notice that have no decision any more.
    pub(super) fn with_withdrawn(mut self, before: &Self) -> Self {
        for name in before.grants.keys() {
            self.grants.entry(name.clone()).or_insert_with(deferred);
        }
        self
    }

    /// Returns whether both notices have the same grants and expiry.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        self.grants == other.grants && self.expires_at == other.expires_at
    }

    pub(super) fn names_with(
        &self,
        decision: GrantDecision,
        requested: &RequestedPermissions,
    ) -> Vec<String> {
        let has = |name: &&Permission| {
            self.grants.get(*name).is_some_and(|grant| grant.decision() == decision)
        };
        requested.names().iter().filter(has).map(|name| name.as_str().to_owned()).collect()
    }

    /// Replaces each decision that has limits by its single word, such as `approved`, because servers of the first
    /// revisions do not know limits.
    pub(super) fn without_limits(mut self) -> Self {
        for grant in self.grants.values_mut() {
            *grant = grant.decision().into();
        }
        self
    }
}

fn deferred() -> Grant {
    GrantDecision::Deferred.into()
}

/// Returns the decision about a name that represents several permissions: the strictest of their decisions.
fn combined<'a>(parts: impl Iterator<Item = &'a Grant>) -> Grant {
    let mut all: Option<Grant> = None;
    for part in parts {
        let worse = match &all {
            None => part.clone(),
            Some(so_far) if rank(part) > rank(so_far) => part.clone(),
            // Different limits cannot be combined, so this name gets only the word for the decision. The notice
            // contains the limits under the standard names.
            Some(so_far) if rank(part) == rank(so_far) && so_far != part => part.decision().into(),
            Some(so_far) => so_far.clone(),
        };
        all = Some(worse);
    }
    all.unwrap_or_else(deferred)
}

fn rank(grant: &Grant) -> u8 {
    match grant.decision() {
        GrantDecision::Approved => 0,
        GrantDecision::Deferred => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(text: &str) -> BTreeMap<Permission, Grant> {
        serde_json::from_str(text).unwrap()
    }

    #[track_caller]
    fn check(requested: &[&str], decided: &str, until: Option<&str>, expected: &str) {
        let requested = RequestedPermissions::of(requested.iter().copied().map(Permission::from));
        let mut decision = PermissionDecision::new("", grants(decided));
        decision.expires_at = until.map(Timestamp::from);
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(24 * 365 * 50);
        let notice = GrantNotice::of(&decision, &requested, now);
        assert_eq!(serde_json::to_string(&notice.grants).unwrap(), expected);
    }

    #[test]
    fn an_expired_or_undecided_permission_is_deferred() {
        let granted = r#"{"camera":"approved","network.listen":"denied"}"#;
        check(&[], granted, Some("2999-01-01T00:00:00Z"), granted);
        for past in ["1999-01-01T00:00:00Z", "soon"] {
            check(&[], granted, Some(past), r#"{"camera":"deferred","network.listen":"denied"}"#);
        }
    }

    #[test]
    fn an_invalid_name_is_denied_unless_an_operator_approved_it() {
        check(&["foo"], "{}", None, r#"{"foo":"denied"}"#);
        check(&["foo"], r#"{"foo":"approved"}"#, None, r#"{"foo":"approved"}"#);
    }

    #[test]
    fn a_server_that_requests_too_much_is_not_answered_about_the_rest() {
        let many = (0..100).map(|number| Permission::from(&*format!("com.example.p{number}")));
        assert_eq!(RequestedPermissions::of(many).names().len(), MAX_REQUESTED);
        let long = Permission::from(&*format!("com.{}", "x".repeat(MAX_NAME_BYTES)));
        assert!(RequestedPermissions::of([long]).is_empty());
        let odd = RequestedPermissions::of(["camera", "foo", "code"].map(Permission::from));
        assert_eq!(odd.decidable(), [Permission::Camera, Permission::CodeExecution]);
    }
}
