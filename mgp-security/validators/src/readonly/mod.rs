//! The validator `readonly`: checks the name, the declarations and the arguments of a call (MGP §4.5).

mod commands;
mod name;
mod queries;
pub(crate) mod sql;
mod writing_arguments;

use crate::hidden::hidden;
use mgp_types::mgp::TrustLevel;
use name::Intent;
use serde_json::Value;

/// Checks that a call only reads, as far as its name, declarations and arguments show.
pub(crate) fn check(
    tool: &str,
    definition: &Value,
    arguments: &Value,
    trust: &TrustLevel,
) -> Result<(), String> {
    if let Some(c) = hidden(tool, false) {
        return Err(format!(
            "the name of the tool has the hidden character U+{:04X}",
            u32::from(c)
        ));
    }
    if tool.is_empty() || !tool.is_ascii() {
        return Err("the name of the tool is empty or not ASCII".to_owned());
    }
    let declared = declarations(definition)?;
    match name::intent(tool) {
        Intent::Write(word)
            if !queries::runs_queries(tool, definition, arguments)
                && !reads_by_arguments(tool, definition, arguments) =>
        {
            return Err(format!("`{word}` in the name of the tool is a write"));
        }
        Intent::Unknown
            if !queries::is_query(tool, definition, arguments)
                && !reads_by_arguments(tool, definition, arguments) =>
        {
            let believed =
                matches!(trust, TrustLevel::Trusted | TrustLevel::Core | TrustLevel::Standard);
            if !(declared && believed) {
                return Err(format!("nothing shows that `{tool}` only reads"));
            }
        }
        _ => {}
    }
    writing_arguments::check(tool, arguments)
}

/// Returns whether a tool runs commands of a program or sends requests, and the arguments of this call show that it
/// only reads.
fn reads_by_arguments(tool: &str, definition: &Value, arguments: &Value) -> bool {
    commands::runs_program(tool, definition, arguments)
        || writing_arguments::requests_to_read(tool, definition, arguments)
}

/// Returns whether the words in the name of a tool indicate that the tool only reads.
///
/// ```
/// assert!(mgp_validators::reads_by_name("list_issues"));
/// assert!(!mgp_validators::reads_by_name("get_or_create"));
/// assert!(!mgp_validators::reads_by_name("list_clear_all"));
/// ```
#[must_use]
pub fn reads_by_name(tool: &str) -> bool {
    hidden(tool, false).is_none() && tool.is_ascii() && name::only_reads(tool)
}

/// Returns whether any word of a text, e.g. of the value of an argument `action`, is a verb for writing or executing.
#[must_use]
pub fn has_write_verb(text: &str) -> bool {
    name::writes(text)
}

/// Checks annotations and security metadata. Refuses a tool that declares writing. Otherwise returns whether the server
/// declares the tool as only reading.
fn declarations(definition: &Value) -> Result<bool, String> {
    let member = |group: &str, name: &str| definition.get(group).and_then(|group| group.get(name));
    for group in ["annotations", "security"] {
        if definition.get(group).is_some_and(|group| !group.is_object() && !group.is_null()) {
            return Err(format!("`{group}` of the tool is not an object"));
        }
    }
    let hint = |name: &str| match member("annotations", name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(hint)) => Ok(Some(*hint)),
        Some(_) => Err(format!("`annotations.{name}` is not a boolean")),
    };
    let reads = hint("readOnlyHint")?;
    if reads == Some(false) || hint("destructiveHint")? == Some(true) {
        return Err("the annotations of the tool declare a write".to_owned());
    }
    match member("security", "risk_level") {
        None | Some(Value::Null) => {}
        Some(Value::String(level)) if matches!(level.as_str(), "safe" | "moderate") => {}
        Some(level) => return Err(format!("the risk level {level} does not fit a read")),
    }
    for name in ["side_effects", "permissions_required"] {
        let items = match member("security", name) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(items)) => items,
            Some(_) => return Err(format!("`security.{name}` is not a list")),
        };
        for item in items {
            let text = item
                .as_str()
                .ok_or_else(|| format!("`security.{name}` has an item that is not text"))?;
            let reads = text.rsplit_once('.').is_some_and(|(_, action)| action == "read")
                || matches!(text, "network.outbound" | "system.info" | "read" | "network");
            if name == "side_effects" || !reads {
                return Err(format!("the tool declares `{text}`"));
            }
        }
    }
    match member("security", "reversible") {
        None | Some(Value::Null | Value::Bool(true)) => Ok(reads == Some(true)),
        Some(_) => Err("the tool declares effects that cannot be undone".to_owned()),
    }
}

/// Returns whether all SQL statements in a text only read.
#[cfg(feature = "python")]
pub(crate) fn sql_reads(text: &str) -> bool {
    sql::check(text).is_ok()
}
