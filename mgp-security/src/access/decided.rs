//! A decision: what it is, what decided, and the rule in words.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_types::mgp::{AccessPermission, AccessSource, DefaultPolicy, EntryType};
use mgp_types::service::Rule;

use super::entry::Entry;
use super::pass::Lacking;

/// What was decided about a call or a list, and by what.
///
/// The words of the rule are made when they are asked for.
#[derive(Clone, Debug)]
pub struct Decided(Because);

#[derive(Clone, Debug)]
enum Because {
    Entry(Arc<Entry>),
    Policy(DefaultPolicy),
    /// The store cannot be read, so what it would say is not known.
    Unknown,
    /// The caller's name is one that entries keep for groups or for everyone.
    Reserved,
    Lacking(Lacking),
}

impl Decided {
    pub(super) fn by(entry: &Arc<Entry>) -> Self {
        Self(Because::Entry(Arc::clone(entry)))
    }

    pub(super) fn policy(policy: DefaultPolicy) -> Self {
        Self(Because::Policy(policy))
    }

    pub(super) fn unknown() -> Self {
        Self(Because::Unknown)
    }

    pub(super) fn reserved() -> Self {
        Self(Because::Reserved)
    }

    pub(super) fn lacking(lacking: Lacking) -> Self {
        Self(Because::Lacking(lacking))
    }

    /// The decision.
    #[must_use]
    pub fn permission(&self) -> AccessPermission {
        match &self.0 {
            Because::Entry(entry) => entry.access.permission,
            Because::Policy(DefaultPolicy::OptOut) => AccessPermission::Allow,
            _ => AccessPermission::Deny,
        }
    }

    /// Whether it is yes.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.permission() == AccessPermission::Allow
    }

    /// The level that decided; `pass` where the caller's credentials permit less than the entries do.
    #[must_use]
    pub fn source(&self) -> AccessSource {
        match &self.0 {
            Because::Entry(entry) => match entry.access.entry_type {
                EntryType::ToolGrant => AccessSource::ToolGrant,
                _ => AccessSource::ServerGrant,
            },
            Because::Lacking(_) => AccessSource::Other("pass".into()),
            _ => AccessSource::DefaultPolicy,
        }
    }

    /// The entry that decided.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match &self.0 {
            Because::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    /// The rule that decided, in words: `server_grant deny for group:interns on files (by ann)`.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match &self.0 {
            Because::Entry(entry) => Rule::new(words(entry)),
            Because::Policy(DefaultPolicy::OptOut) => Rule::new("default_policy opt-out"),
            Because::Policy(_) => Rule::new("default_policy opt-in"),
            Because::Unknown => Rule::new("default_policy: the entries cannot be read"),
            Because::Reserved => {
                Rule::new("default_policy: no agent is called `*` or begins with `group:`")
            }
            Because::Lacking(lacking) => Rule::new(lacking.to_string()),
        }
    }
}

fn words(entry: &Entry) -> String {
    let entry = &entry.access;
    let mut words = format!(
        "{} {} for {} on {}",
        entry.entry_type, entry.permission, entry.agent_id, entry.server_id
    );
    if let Some(tool) = &entry.tool_name {
        words.push('/');
        words.push_str(tool);
    }
    let by = entry.granted_by.as_ref().map(|by| format!("by {by}"));
    let until = entry.expires_at.as_ref().map(|until| format!("until {until}"));
    let more: Vec<String> = by.into_iter().chain(until).collect();
    if !more.is_empty() {
        words.push_str(" (");
        words.push_str(&more.join(", "));
        words.push(')');
    }
    words
}
