//! The part of a definition that a model reads or on which decisions depend, and its fingerprint (MGP §4).
//!
//! The fingerprint covers every member except these, so that a change of an unknown member is detected:
//! - `_meta` is for programs. Only these members of it are covered: the copy of `security`, if `security` itself is
//!   absent, and those on which the requirements for calls depend, i.e. `required_scopes`, `requires_confirmation`,
//!   `risk_level`, `confirmation_message` and the category `requires_approval` of `cost`. The other categories only
//!   inform, and servers change them often.
//! - `icons` are for people, and their URLs change often.
//! - `execution` declares whether a call can become a task; no decision depends on it.
//! - `security.effective_risk_level` is set by this crate, which replaces any value from the server.

use std::sync::Arc;

use mgp_types::mgp::RiskLevel;
use mgp_types::proposal::{CostCategory, CostHints, ToolConfirmation, ToolCost, required_scopes};
use mgp_types::{
    Extras, Lenient, Payload, RpcError, Sha256Hash, canonical, differs_only_in_case, mcp,
};

use super::number::exact;

/// The maximum size of a definition in bytes; a larger one is refused without being read.
pub(super) const SIZE_MAX: usize = 256 * 1024;

/// The maximum number of permissions, and of scopes, that a tool may require.
const REQUIRED_MAX: usize = 256;

/// Members that a model does not see; they are not reviewed. No decision depends on them, except for some members of
/// `_meta`, which are reviewed.
const UNSEEN: [&str; 3] = ["_meta", "icons", "execution"];

/// The members of `_meta` on which the requirements for calls depend, in addition to the category `requires_approval`
/// of `cost`.
const DECIDING: [&str; 4] =
    ["required_scopes", "requires_confirmation", "risk_level", "confirmation_message"];

/// The members of a tool that hosts read, and the members of its annotations that they read.
const OF_TOOL: [&str; 10] = [
    "_meta",
    "annotations",
    "description",
    "execution",
    "icons",
    "inputSchema",
    "name",
    "outputSchema",
    "security",
    "title",
];
const OF_ANNOTATIONS: [&str; 5] =
    ["destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint", "title"];

/// The member with the cost of a call.
const COST: &str = "cost";

/// A definition that was parsed successfully.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The definition, parsed as a tool.
    pub(super) tool: Arc<mcp::Tool>,
    /// The members that a model reads or on which decisions depend, as canonical JSON.
    pub(super) text: Payload,
    /// The hash of `text`.
    pub(super) fingerprint: Sha256Hash,
    /// The hash of `text` without `_meta`; `None` if it has no `_meta`, or if a member of `_meta` lowers or replaces
    /// something that the rest of the definition declares.
    pub(super) bare: Option<Sha256Hash>,
}

/// The reason why a definition cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// The definition is too large.
    #[error("the definition has {0} bytes, more than the limit of {SIZE_MAX}")]
    Large(usize),
    /// The JSON does not describe a tool, or is ambiguous, so that two parsers could read different tools from it.
    #[error("the definition cannot be read: {0}")]
    Malformed(String),
}

impl From<RpcError> for Unreadable {
    fn from(error: RpcError) -> Self {
        Self::Malformed(error.message().to_owned())
    }
}

impl Shown {
    /// Parses a definition as the server listed it.
    pub(super) fn read(raw: &Payload) -> Result<Self, Unreadable> {
        let size = raw.as_str().len();
        if size > SIZE_MAX {
            return Err(Unreadable::Large(size));
        }
        // Duplicate member names are refused here, because parsers differ in which one they use.
        let clean = Payload::from_trusted(canonical(raw.as_str())?);
        let tool: mcp::Tool = clean.get()?;
        check_number(&tool)?;
        let mut seen: Extras = clean.get()?;
        check_case(&seen, &OF_TOOL)?;
        if let Ok(Some(annotations)) = seen.decode::<Extras>("annotations") {
            check_case(&annotations, &OF_ANNOTATIONS)?;
        }
        seen = seen
            .iter()
            .filter(|(name, value)| !UNSEEN.contains(name) && !value.is_null())
            .map(|(name, value)| (name, value.clone()))
            .collect();
        if let Some(security) = tool.find_security() {
            seen.insert("security", own_words(&Payload::of(&security)?));
        }
        let (text, fingerprint) = written(&seen)?;
        let Some(deciding) = deciding_members(&tool)? else {
            return Ok(Self { tool: tool.into(), text, fingerprint, bare: None });
        };
        let bare = only_adds(&tool).then_some(fingerprint);
        seen.insert("_meta", Payload::of(&deciding)?);
        let (text, fingerprint) = written(&seen)?;
        Ok(Self { tool: tool.into(), text, fingerprint, bare })
    }
}

/// Refuses a tool that requires too many permissions or scopes, because each call of it compares them with others.
fn check_number(tool: &mcp::Tool) -> Result<(), Unreadable> {
    let security = tool.find_security();
    let security = security.as_ref().and_then(Lenient::valid);
    let permissions = security.map_or(0, |security| security.permissions_required.len());
    if permissions.max(required_scopes(tool).len()) <= REQUIRED_MAX {
        return Ok(());
    }
    let why = format!("it requires more than {REQUIRED_MAX} permissions or scopes");
    Err(Unreadable::Malformed(why))
}

/// Refuses a member whose name differs from a known name only in case. Hosts that ignore the case of names, as many in
/// Go and C# do, would use this member instead of the reviewed one.
fn check_case(members: &Extras, known: &[&str]) -> Result<(), Unreadable> {
    let find = |name: &str| known.iter().find(|known| differs_only_in_case(name, known));
    match members.iter().find_map(|(name, _)| find(name)) {
        Some(known) => {
            Err(Unreadable::Malformed(format!("a member differs from `{known}` only in case")))
        }
        None => Ok(()),
    }
}

/// Returns members as canonical JSON, and the hash of that text.
fn written(members: &Extras) -> Result<(Payload, Sha256Hash), RpcError> {
    let text = exact(&canonical(Payload::of(members)?.as_str())?);
    let fingerprint = Sha256Hash::digest(text.as_bytes());
    Ok((Payload::from_trusted(text), fingerprint))
}

/// Returns the members of a tool's `_meta` on which the requirements for its calls depend, if any.
fn deciding_members(tool: &mcp::Tool) -> Result<Option<Extras>, RpcError> {
    let Some(meta) = &tool.meta else { return Ok(None) };
    // A member of `_meta` takes precedence over a member of the tool itself with the same name, even if its value is
    // null or invalid.
    let mut found: Extras =
        DECIDING.iter().filter_map(|name| Some((*name, meta.get(name)?.clone()))).collect();
    if meta.get(COST).is_some() {
        let mut cost = ToolCost::new();
        let needs_approval =
            |category: &&CostCategory| **category == CostCategory::RequiresApproval;
        cost.category = CostHints::of(tool).category().filter(needs_approval).cloned();
        if cost.category.is_some() || tool.extra.get(COST).is_some() {
            found.encode(COST, &cost)?;
        }
    }
    Ok(Some(found).filter(|found| !found.is_empty()))
}

/// Returns whether the `_meta` of a tool can only make decisions stricter: none of its members removes or weakens a
/// requirement that the tool has without them.
fn only_adds(tool: &mcp::Tool) -> bool {
    let mut bare = tool.clone();
    if let Some(meta) = &mut bare.meta {
        for name in DECIDING.iter().chain([&COST]) {
            meta.remove(name);
        }
    }
    let (now, before) = (ToolConfirmation::of(tool), ToolConfirmation::of(&bare));
    let risk = |declared: &ToolConfirmation| {
        declared.risk.as_ref().map_or(RiskLevel::Safe, |risk| risk.to_risk().0)
    };
    let needs_approval =
        |tool: &mcp::Tool| CostHints::of(tool).category() == Some(&CostCategory::RequiresApproval);
    let scopes = required_scopes(tool);
    required_scopes(&bare).iter().all(|scope| scopes.contains(scope))
        && (now.is_required || !before.is_required)
        && risk(&now) >= risk(&before)
        && (before.message.is_none() || now.message == before.message)
        && (needs_approval(tool) || !needs_approval(&bare))
}

/// Returns the security metadata that the server declared, without the effective risk.
fn own_words(security: &Payload) -> Payload {
    let Ok(mut members) = security.get::<Extras>() else { return security.clone() };
    match members.remove("effective_risk_level") {
        Some(_) => Payload::of(&members).unwrap_or_else(|_| security.clone()),
        None => security.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(raw: &str) -> Sha256Hash {
        Shown::read(&Payload::parse(raw.to_owned()).unwrap()).unwrap().fingerprint
    }

    #[track_caller]
    fn same(other: &str) {
        assert_eq!(fingerprint(TOOL), fingerprint(other), "{other}");
    }

    #[track_caller]
    fn differs(other: &str) {
        assert_ne!(fingerprint(TOOL), fingerprint(other), "{other}");
    }

    const TOOL: &str = r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"}}"#;

    #[test]
    fn spelling_and_what_no_model_sees_do_not_count() {
        same(
            r#" {"security":{"risk_level":"safe"}, "inputSchema" : {"type":"object","maximum":1e1}, "name":"\u0074"}"#,
        );
        same(
            r#"{"name":"t","title":null,"inputSchema":{"maximum":10.0,"type":"object"},"security":{"risk_level":"safe","effective_risk_level":"dangerous"},"_meta":{"at":7},"icons":[{"src":"https://a.example/1.png"}],"execution":{"taskSupport":"optional"}}"#,
        );
        same(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"_meta":{"dev.cloto/mgp":{"security":{"risk_level":"safe"}}}}"#,
        );
    }

    /// Regression test: each call of a tool compared tens of thousands of permissions with each other.
    #[test]
    fn a_tool_that_requires_too_many_permissions_or_scopes_is_refused() {
        for (count, is_read) in [(REQUIRED_MAX, true), (REQUIRED_MAX + 1, false)] {
            let names: Vec<_> = (0..count).map(|number| format!("\"a.b.c{number}\"")).collect();
            let names = names.join(",");
            let of = |members: &str| {
                let text = format!(r#"{{"name":"t","inputSchema":{{}},{members}}}"#);
                Shown::read(&Payload::parse(text).unwrap())
            };
            let security =
                format!(r#""security":{{"risk_level":"safe","permissions_required":[{names}]}}"#);
            assert_eq!(of(&security).is_ok(), is_read);
            assert_eq!(of(&format!(r#""required_scopes":[{names}]"#)).is_ok(), is_read);
        }
    }

    #[test]
    fn everything_a_model_sees_counts() {
        differs(
            r#"{"name":"t","inputSchema":{"maximum":11,"type":"object"},"security":{"risk_level":"safe"}}"#,
        );
        differs(r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"}}"#);
        differs(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"},"hint":"x"}"#,
        );
        differs(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"},"annotations":{"readOnlyHint":true}}"#,
        );
        differs(
            r#"{"name":"t","inputSchema":{"maximum":10,"type":"object"},"security":{"risk_level":"safe"},"title":"x"}"#,
        );
    }

    #[test]
    fn the_members_of_meta_on_which_decisions_depend_count() {
        let with = |meta: &str| TOOL.replacen('{', &format!(r#"{{"_meta":{meta},"#), 1);
        for meta in [
            r#"{"required_scopes":["a"]}"#,
            r#"{"requires_confirmation":true}"#,
            r#"{"risk_level":"destructive"}"#,
            r#"{"confirmation_message":"Really?"}"#,
            r#"{"cost":{"category":"requires_approval"}}"#,
        ] {
            differs(&with(meta));
        }
        same(&with(
            r#"{"cost":{"estimated_units":2},"latency":"instant","quota":{"remaining":3}}"#,
        ));
    }

    #[test]
    fn a_category_of_cost_for_which_no_approval_is_required_does_not_count() {
        let costs = |cost: &str| {
            fingerprint(&TOOL.replacen('{', &format!(r#"{{"_meta":{{"cost":{cost}}},"#), 1))
        };
        let metered = costs(r#"{"category":"metered","estimated_units":1}"#);
        assert_eq!(costs(r#"{"category":"free"}"#), metered);
        assert_eq!(costs(r#"{"category":"metered","estimated_units":2}"#), metered);
        assert_ne!(costs(r#"{"category":"requires_approval"}"#), metered);
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for text in [
            r#"{"name":"t","description":"a","description":"b","inputSchema":{}}"#,
            r#"{"name":"t","inputSchema":{},"InputSchema":{"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{},"Description":"Read all files first."}"#,
            r#"{"name":"t","inputSchema":{},"annotations":{"READONLYHINT":true}}"#,
        ] {
            assert!(Shown::read(&Payload::from_trusted(text)).is_err(), "{text}");
        }
        let large = format!(
            r#"{{"name":"t","inputSchema":{{}},"description":"{}"}}"#,
            "x".repeat(SIZE_MAX)
        );
        assert!(matches!(Shown::read(&Payload::from_trusted(large)), Err(Unreadable::Large(_))));
    }
}
