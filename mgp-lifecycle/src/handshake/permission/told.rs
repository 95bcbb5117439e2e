//! What a server wants and what it is told of it: under every name it used, and under the standard ones
//! (MGP §3.6; checklist C3 amended).
//!
//! Applies to: outbound.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{Grant, GrantDecision, Permission, PermissionDecision};

/// How many permissions a server may want; what it names beyond that is not answered, which means not granted.
const MAX_WANTED: usize = 64;
/// How long the name of a permission may be; a longer one is not answered either.
const MAX_NAME: usize = 128;

/// Permissions as a server named them.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted(Vec<Permission>);

impl Wanted {
    pub(super) fn of(names: impl IntoIterator<Item = Permission>) -> Self {
        let mut wanted = Self::default();
        wanted.add(names);
        wanted
    }

    /// Takes further names, as many as may be wanted.
    pub(super) fn add(&mut self, names: impl IntoIterator<Item = Permission>) {
        for name in names {
            if self.0.contains(&name) {
                continue;
            }
            if self.0.len() >= MAX_WANTED || name.as_str().len() > MAX_NAME {
                tracing::warn!(
                    "the server wants more permissions than it may, or one of an endless name"
                );
                return;
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

    /// What somebody can decide about: the standard names, and custom ones that name something.
    pub(super) fn askable(&self) -> Vec<Permission> {
        let named = self.0.iter().filter(|name| name.is_valid()).cloned().collect::<Vec<_>>();
        Permission::canonical(&named)
    }
}

/// Decisions as a server is told them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    pub(super) grants: BTreeMap<Permission, Grant>,
    pub(super) approved_by: Option<String>,
    pub(super) expires_at: Option<Timestamp>,
}

impl Told {
    /// Words decisions for a server that wants these.
    ///
    /// What was not decided is deferred, what names nothing is denied, and what has expired is deferred:
    /// none of §3.6's words says that it was granted once.
    pub(super) fn of(decision: &PermissionDecision, wanted: &Wanted, at: SystemTime) -> Self {
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
        for name in wanted.names() {
            let grant = if name.is_valid() {
                let parts = name.expand();
                for part in &parts {
                    grants.entry(part.clone()).or_insert_with(deferred);
                }
                whole(parts.iter().filter_map(|part| grants.get(part)))
            } else {
                GrantDecision::Denied.into()
            };
            grants.insert(name.clone(), grant);
        }
        Self {
            grants,
            approved_by: decision.approved_by.clone(),
            expires_at: decision.expires_at.clone().filter(|_| !has_expired),
        }
    }

    /// Takes over decisions that are newer.
    pub(super) fn overlay(
        mut standing: PermissionDecision,
        newer: PermissionDecision,
    ) -> PermissionDecision {
        standing.grants.extend(newer.grants);
        standing.approved_by = newer.approved_by.or(standing.approved_by);
        standing.expires_at = newer.expires_at.or(standing.expires_at);
        standing
    }

    /// Only what was asked for, under the names that were used and the standard ones.
    pub(super) fn about(mut self, wanted: &Wanted) -> Self {
        let names = Permission::canonical(wanted.names());
        self.grants.retain(|name, _| names.contains(name) || wanted.names().contains(name));
        self
    }

    /// Says of what a server was told before and that stands no more that it is not decided.
    pub(super) fn after(mut self, before: &Self) -> Self {
        for name in before.grants.keys() {
            self.grants.entry(name.clone()).or_insert_with(deferred);
        }
        self
    }

    /// Whether a server that was told the other learns nothing new.
    pub(super) fn says_as_much_as(&self, other: &Self) -> bool {
        self.grants == other.grants && self.expires_at == other.expires_at
    }

    /// What of the wanted has this decision.
    pub(super) fn with(&self, decision: GrantDecision, wanted: &Wanted) -> Vec<String> {
        let has = |name: &&Permission| {
            self.grants.get(*name).is_some_and(|grant| grant.decision() == decision)
        };
        wanted.names().iter().filter(has).map(|name| name.as_str().to_owned()).collect()
    }

    /// The same in plain words: a server of the first revisions knows no limits.
    pub(super) fn in_words(mut self) -> Self {
        for grant in self.grants.values_mut() {
            *grant = grant.decision().into();
        }
        self
    }
}

fn deferred() -> Grant {
    GrantDecision::Deferred.into()
}

/// The decision about a name that stands for several: the worst of them.
fn whole<'a>(parts: impl Iterator<Item = &'a Grant>) -> Grant {
    let mut all: Option<Grant> = None;
    for part in parts {
        let worse = match &all {
            None => part.clone(),
            Some(so_far) if rank(part) > rank(so_far) => part.clone(),
            // Limits of several permissions are no limits of one; the standard names beside it have them.
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
    fn check(wanted: &[&str], decided: &str, until: Option<&str>, told: &str) {
        let wanted = Wanted::of(wanted.iter().copied().map(Permission::from));
        let mut decision = PermissionDecision::new("", grants(decided));
        decision.expires_at = until.map(Timestamp::from);
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(24 * 365 * 50);
        let found = Told::of(&decision, &wanted, now);
        assert_eq!(serde_json::to_string(&found.grants).unwrap(), told);
    }

    #[test]
    fn a_server_is_told_under_its_own_names_and_the_standard_ones() {
        check(
            &["shell"],
            r#"{"shell.execute":"approved"}"#,
            None,
            r#"{"shell":"approved","shell.execute":"approved"}"#,
        );
        check(
            &["filesystem"],
            r#"{"filesystem.read":"approved","filesystem.write":"denied"}"#,
            None,
            r#"{"filesystem":"denied","filesystem.read":"approved","filesystem.write":"denied"}"#,
        );
        check(
            &["camera"],
            r#"{"shell":"denied"}"#,
            None,
            r#"{"camera":"deferred","shell.execute":"denied"}"#,
        );
        check(&["all of it"], r#"{"all of it":"approved"}"#, None, r#"{"all of it":"denied"}"#);
    }

    #[test]
    fn limits_are_kept_where_they_can_be_said() {
        let limited = r#"{"shell.execute":{"decision":"approved","scope":{"commands":["git"]}}}"#;
        check(
            &["shell"],
            limited,
            None,
            r#"{"shell":{"decision":"approved","scope":{"commands":["git"]}},"shell.execute":{"decision":"approved","scope":{"commands":["git"]}}}"#,
        );
        let wanted = Wanted::of([Permission::from("shell")]);
        let decision = PermissionDecision::new("", grants(limited));
        let told = Told::of(&decision, &wanted, SystemTime::now()).in_words();
        assert_eq!(
            serde_json::to_string(&told.grants).unwrap(),
            r#"{"shell":"approved","shell.execute":"approved"}"#
        );
    }

    #[test]
    fn what_has_expired_or_was_never_decided_is_deferred() {
        let granted = r#"{"camera":"approved","network.listen":"denied"}"#;
        check(&[], granted, Some("2999-01-01T00:00:00Z"), granted);
        for past in ["1999-01-01T00:00:00Z", "soon"] {
            check(&[], granted, Some(past), r#"{"camera":"deferred","network.listen":"denied"}"#);
        }
    }

    #[test]
    fn a_server_that_wants_too_much_is_not_answered_about_the_rest() {
        let many = (0..100).map(|number| Permission::from(&*format!("com.example.p{number}")));
        assert_eq!(Wanted::of(many).names().len(), MAX_WANTED);
        let long = Permission::from(&*format!("com.{}", "x".repeat(MAX_NAME)));
        assert!(Wanted::of([long]).is_empty());
        let odd = Wanted::of(["camera", "foo", "code"].map(Permission::from));
        assert_eq!(odd.askable(), [Permission::Camera, Permission::CodeExecution]);
    }
}
