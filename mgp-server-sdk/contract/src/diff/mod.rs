//! Compares two definitions of a tool, and determines which part of the semantic version must be raised.
//!
//! Arguments and results are judged in opposite ways: a caller can fail if the tool accepts fewer arguments than
//! before, or if it returns more kinds of results.

mod keywords;
mod normal;
mod schema;

use std::cmp::Ordering;
use std::fmt;

use mgp_types::mcp::ToolIdempotency;
use serde::Serialize;
use serde_json::Value;

use crate::contract::Contract;
use schema::{SchemaDiff, Side};

/// The maximum number of changes that are reported for a tool.
const MAX_CHANGES: usize = 200;

/// The part of a semantic version that a change raises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Bump {
    /// The definition did not change.
    #[default]
    None,
    /// Only texts changed; calls are not affected.
    Patch,
    /// More than texts changed, e.g. a new optional argument, but every caller of the earlier definition still works.
    Minor,
    /// A caller that was written for the earlier definition can fail.
    Major,
}

/// One change of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The part of the tool's version that this change raises.
    pub bump: Bump,
    /// The JSON pointer to the changed member of the definition.
    pub path: String,
    /// The description of the change, for people.
    pub what: String,
}

/// The differences between two definitions of the same tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolDifference {
    /// The name of the tool.
    pub tool: String,
    /// The part of the version that all changes together raise.
    pub bump: Bump,
    /// The changes; if there are more than 200, those that raise the highest part of the version.
    pub changes: Vec<Change>,
}

impl Bump {
    /// Returns the name of the part of the version in lower case, or `none`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Patch => "patch",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }
}

impl fmt::Display for Bump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.bump, self.path, self.what)
    }
}

impl ToolDifference {
    fn new(tool: &str, mut changes: Vec<Change>) -> Self {
        let bump = changes.iter().map(|change| change.bump).max().unwrap_or_default();
        if changes.len() > MAX_CHANGES {
            // Report the changes that raise the highest part of the version; the others are left out.
            changes.sort_by_key(|change| std::cmp::Reverse(change.bump));
            changes.truncate(MAX_CHANGES);
        }
        Self { tool: tool.to_owned(), bump, changes }
    }

    fn whole(tool: &str, bump: Bump, what: &str) -> Self {
        Self::new(tool, vec![Change { bump, path: String::new(), what: what.to_owned() }])
    }
}

/// Compares two lists of tools; returns the tools that differ, in the order of their names.
#[must_use]
pub fn compare_all(old: &[Contract], new: &[Contract]) -> Vec<ToolDifference> {
    let mut names: Vec<&str> = old.iter().chain(new).map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let find = |tools: &'_ [Contract], name: &str| tools.iter().position(|tool| tool.name == name);
    let differ = |name: &str| match (find(old, name), find(new, name)) {
        (Some(before), Some(after)) => compare(&old[before], &new[after]),
        (Some(_), None) => ToolDifference::whole(name, Bump::Major, "the tool is removed"),
        _ => ToolDifference::whole(name, Bump::Minor, "the tool is added"),
    };
    names.into_iter().map(differ).filter(|found| found.bump != Bump::None).collect()
}

/// Compares an old and a new definition of a tool; returns the changes, and the part of the version that they raise.
///
/// If one of the two definitions was read from a specification, only the description and the schemas are compared,
/// because a specification contains nothing else.
#[must_use]
pub fn compare(old: &Contract, new: &Contract) -> ToolDifference {
    let mut changes = Vec::new();
    if old.is_whole && new.is_whole {
        compare_texts(old, new, &mut changes);
        compare_task_support(old, new, &mut changes);
        compare_hints(old, new, &mut changes);
        compare_idempotency(old, new, &mut changes);
        compare_security(old, new, &mut changes);
        compare_confirmation(old, new, &mut changes);
        compare_scopes(old, new, &mut changes);
        compare_deprecation(old, new, &mut changes);
    } else if !has_same_lines(old.description(), new.description()) {
        // A specification has no texts except the description, and none of the members that the functions above
        // compare, so compare only the description.
        changes.push(change(Bump::Patch, "/description", "the description changed"));
    }
    changes.extend(SchemaDiff::of(&old.input, &new.input, Side::Input, "/inputSchema"));
    let path = "/outputSchema";
    match (&old.output, &new.output) {
        (Some(old), Some(new)) => changes.extend(SchemaDiff::of(old, new, Side::Output, path)),
        (Some(_), None) => changes.push(change(Bump::Major, path, "the output schema is removed")),
        (None, Some(_)) => changes.push(change(Bump::Minor, path, "the output schema is added")),
        (None, None) => {}
    }
    ToolDifference::new(&new.name, changes)
}

fn change(bump: Bump, path: impl Into<String>, what: impl Into<String>) -> Change {
    Change { bump, path: path.into(), what: what.into() }
}

/// Returns whether two descriptions are equal except for the space around them and the kind of their line breaks, which
/// a specification does not keep.
fn has_same_lines(old: &str, new: &str) -> bool {
    old.trim().lines().eq(new.trim().lines())
}

fn compare_texts(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    for member in ["title", "description", "icons"] {
        if old.definition.get(member) != new.definition.get(member) {
            let what = format!("the {member} changed");
            changes.push(change(Bump::Patch, format!("/{member}"), what));
        }
    }
}

fn compare_task_support(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let support = |contract: &Contract| {
        let support = contract.definition.get("execution").and_then(|part| part.get("taskSupport"));
        support.and_then(Value::as_str).unwrap_or("forbidden").to_owned()
    };
    let bump = match (support(old).as_str(), support(new).as_str()) {
        (before, after) if before == after => return,
        (_, "optional") => Bump::Minor,
        _ => Bump::Major,
    };
    changes.push(change(bump, "/execution/taskSupport", "the support for tasks changed"));
}

/// The hints of MCP, each with the value that demands more caution from callers.
const HINTS: &[(&str, bool)] = &[
    ("readOnlyHint", false),
    ("destructiveHint", true),
    ("idempotentHint", false),
    ("openWorldHint", true),
];

fn compare_hints(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    for &(hint, careful) in HINTS {
        let (before, after) = (old.hint(hint), new.hint(hint));
        if before != after {
            let bump = if after == careful { Bump::Major } else { Bump::Minor };
            let what = format!("changed from {before} to {after}");
            changes.push(change(bump, format!("/annotations/{hint}"), what));
        }
    }
    let title = |contract: &Contract| contract.definition.get("annotations")?.get("title").cloned();
    if title(old) != title(new) {
        changes.push(change(Bump::Patch, "/annotations/title", "the title changed"));
    }
}

/// Compares what `_meta.idempotency` declares about repeated calls. [`compare_hints`] compares the MCP hint on the same
/// subject.
fn compare_idempotency(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let rank = |contract: &Contract| match contract.idempotency() {
        Some(ToolIdempotency::Yes) => 2,
        Some(ToolIdempotency::Partial) => 1,
        _ => 0,
    };
    let bump = match rank(new).cmp(&rank(old)) {
        _ if old.meta("idempotency") == new.meta("idempotency") => return,
        Ordering::Less => Bump::Major,
        Ordering::Greater => Bump::Minor,
        Ordering::Equal => return,
    };
    changes.push(change(bump, "/_meta/idempotency", "the effect of repeated calls changed"));
}

fn compare_security(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let (Some(before), Some(after)) = (old.security(), new.security()) else {
        match (old.security(), new.security()) {
            (Some(_), None) => {
                changes.push(change(Bump::Major, "/security", "the security metadata is removed"));
            }
            (None, Some(after)) => {
                let bump = if has_demands(after) { Bump::Major } else { Bump::Minor };
                changes.push(change(bump, "/security", "the security metadata is added"));
            }
            _ => {}
        }
        return;
    };
    let rank = |security: &Value| {
        let level = security.get("risk_level").and_then(Value::as_str).unwrap_or("dangerous");
        ["safe", "moderate", "dangerous"].iter().position(|known| *known == level).unwrap_or(2)
    };
    if rank(before) != rank(after) {
        let bump = if rank(after) > rank(before) { Bump::Major } else { Bump::Minor };
        changes.push(change(bump, "/security/risk_level", "the risk level changed"));
    }
    // If a tool names another validator or other rules for code, the kernel can refuse a call that it allowed before,
    // so such a change is a major one.
    for (member, bump) in [
        ("validator", Bump::Major),
        ("code_safety", Bump::Major),
        ("side_effects", Bump::Minor),
        ("reversible", Bump::Minor),
    ] {
        if before.get(member) != after.get(member) {
            changes.push(change(bump, format!("/security/{member}"), "it changed"));
        }
    }
    let [before, after] =
        [before, after].map(|security| names(security.get("permissions_required")));
    compare_names(&before, &after, "/security/permissions_required", "permission", changes);
}

/// Returns whether the kernel can refuse calls because of this security metadata: it names a permission that the tool
/// needs, or a validator or a code check that must accept the arguments.
fn has_demands(security: &Value) -> bool {
    let given = |member: &str| security.get(member).filter(|value| !value.is_null());
    !names(security.get("permissions_required")).is_empty()
        || given("validator").is_some_and(|validator| validator.as_str() != Some("none"))
        || given("code_safety").is_some()
}

/// Compares the requirement that a person confirm each call.
fn compare_confirmation(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let is_true = |value: Option<&Value>| value == Some(&Value::Bool(true));
    let confirms = |tool: &Contract| {
        is_true(tool.meta_or_member("requires_confirmation"))
            || is_true(tool.security().and_then(|security| security.get("confirmation_required")))
    };
    let path = "/security/confirmation_required";
    match (confirms(old), confirms(new)) {
        (false, true) => changes.push(change(Bump::Major, path, "calls must be confirmed")),
        (true, false) => {
            changes.push(change(Bump::Minor, path, "calls need no confirmation any more"));
        }
        _ => {}
    }
}

/// Compares the scopes that a call needs if its session has limited scopes.
fn compare_scopes(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let [before, after] = [old, new].map(|tool| names(tool.meta_or_member("required_scopes")));
    compare_names(&before, &after, "/_meta/required_scopes", "scope", changes);
}

/// Compares two lists of permissions or scopes that a caller needs; `kind` is the word for them in descriptions of
/// changes.
fn compare_names(
    before: &[&str],
    after: &[&str],
    path: &str,
    kind: &str,
    changes: &mut Vec<Change>,
) {
    for added in after.iter().filter(|name| !before.contains(name)) {
        changes.push(change(Bump::Major, path, format!("the {kind} `{added}` is added")));
    }
    for removed in before.iter().filter(|name| !after.contains(name)) {
        changes.push(change(Bump::Minor, path, format!("the {kind} `{removed}` is removed")));
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn compare_deprecation(old: &Contract, new: &Contract, changes: &mut Vec<Change>) {
    let path = "/_meta/deprecated";
    match (old.is_deprecated(), new.is_deprecated()) {
        (false, true) => changes.push(change(Bump::Minor, path, "the tool is deprecated")),
        (true, false) => changes.push(change(Bump::Patch, path, "the deprecation is withdrawn")),
        _ => {}
    }
}
