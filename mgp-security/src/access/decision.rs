//! A decision about access: whether it is allowed, which entry or policy decided, and a description of this rule for
//! people.

use std::sync::Arc;

use mgp_types::mgp::{AccessPermission, AccessSource, DefaultPolicy, EntryType};
use mgp_types::service::Rule;

use super::entry::Entry;
use super::pass::Lacking;

/// A decision about the access of a caller to a tool or a server, and the reason for it.
///
/// The reason is converted to text only when [`rule`](Self::rule) is called.
#[derive(Clone, Debug)]
pub struct AccessDecision(Cause<Arc<Entry>>);

/// An [`AccessDecision`] that borrows its entry instead of sharing it. Most decisions are used once and dropped, so
/// they need no owned copy.
pub(crate) type AccessRuling<'a> = Cause<&'a Arc<Entry>>;

/// The reason for a decision: the entry that decided, or another rule.
#[derive(Clone, Debug)]
pub(crate) enum Cause<E> {
    Entry(E),
    Policy(DefaultPolicy),
    /// The entries cannot be read. Access is denied, because one of the unread entries might deny it.
    Unknown,
    /// The caller's name has a form that entries reserve for groups or for everyone; access is denied.
    Reserved,
    /// The policy of the server limits it to tenants to which the caller does not belong; access is denied, whatever
    /// the entries allow.
    OtherTenants,
    Lacking(Lacking),
}

impl AccessRuling<'_> {
    #[inline]
    pub(crate) fn is_allowed(&self) -> bool {
        match self {
            Self::Entry(entry) => entry.access.permission == AccessPermission::Allow,
            Self::Policy(policy) => *policy == DefaultPolicy::OptOut,
            _ => false,
        }
    }

    /// Returns the decision as an owned value, which shares the entry.
    pub(crate) fn to_decision(&self) -> AccessDecision {
        AccessDecision(match self {
            Self::Entry(entry) => Cause::Entry(Arc::clone(entry)),
            Self::Policy(policy) => Cause::Policy(*policy),
            Self::Unknown => Cause::Unknown,
            Self::Reserved => Cause::Reserved,
            Self::OtherTenants => Cause::OtherTenants,
            Self::Lacking(lacking) => Cause::Lacking(lacking.clone()),
        })
    }
}

impl AccessDecision {
    /// Returns whether access is allowed or denied.
    #[inline]
    #[must_use]
    pub fn permission(&self) -> AccessPermission {
        match &self.0 {
            Cause::Entry(entry) => entry.access.permission,
            Cause::Policy(DefaultPolicy::OptOut) => AccessPermission::Allow,
            _ => AccessPermission::Deny,
        }
    }

    /// Returns whether access is allowed.
    #[inline]
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.permission() == AccessPermission::Allow
    }

    /// Returns the source of the decision: an entry for the tool, an entry for the server, or the default policy.
    /// Returns `pass` if the entry or policy allows access, but the caller's credentials do not permit it. Returns the
    /// default policy also if the server is for other tenants, because refusals must not reveal that to the caller.
    #[must_use]
    pub fn source(&self) -> AccessSource {
        match &self.0 {
            Cause::Entry(entry) => match entry.access.entry_type {
                EntryType::ToolGrant => AccessSource::ToolGrant,
                _ => AccessSource::ServerGrant,
            },
            Cause::Lacking(_) => AccessSource::Other("pass".into()),
            _ => AccessSource::DefaultPolicy,
        }
    }

    /// Returns the entry that decided, or `None` if no entry did, e.g. because the default policy decided.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match &self.0 {
            Cause::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    /// Returns whether access is denied because the entries cannot be read.
    pub(super) fn is_unreadable(&self) -> bool {
        matches!(self.0, Cause::Unknown)
    }

    /// Returns whether access is denied because the caller's name has a form that entries reserve for groups or for
    /// everyone. No entry can allow it.
    pub(super) fn is_of_reserved_name(&self) -> bool {
        matches!(self.0, Cause::Reserved)
    }

    /// Returns whether access is denied because the policy of the server limits it to other tenants. No entry can allow
    /// it.
    pub(super) fn is_of_other_tenants(&self) -> bool {
        matches!(self.0, Cause::OtherTenants)
    }

    /// Returns a description of the rule that decided, e.g. `server_grant deny for group:interns on files (by ann)`.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match &self.0 {
            Cause::Entry(entry) => Rule::new(text_of(entry)),
            Cause::Policy(DefaultPolicy::OptOut) => Rule::new("default_policy opt-out"),
            Cause::Policy(_) => Rule::new("default_policy opt-in"),
            Cause::Unknown => Rule::new("default_policy: the entries cannot be read"),
            Cause::Reserved => {
                Rule::new("default_policy: no agent is called `*` or begins with `group:`")
            }
            Cause::OtherTenants => Rule::new("tenants: the server is for other tenants"),
            Cause::Lacking(lacking) => Rule::new(lacking.to_string()),
        }
    }
}

fn text_of(entry: &Entry) -> String {
    let entry = &entry.access;
    let mut text = format!(
        "{} {} for {} on {}",
        entry.entry_type, entry.permission, entry.agent_id, entry.server_id
    );
    if let Some(tool) = &entry.tool_name {
        text.push('/');
        text.push_str(tool);
    }
    let by = entry.granted_by.as_ref().map(|by| format!("by {by}"));
    let until = entry.expires_at.as_ref().map(|until| format!("until {until}"));
    let more: Vec<String> = by.into_iter().chain(until).collect();
    if !more.is_empty() {
        text.push_str(" (");
        text.push_str(&more.join(", "));
        text.push(')');
    }
    text
}
