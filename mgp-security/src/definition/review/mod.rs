//! The review of tool definitions: it searches everything a model would read for content that does not belong there
//! (MGP §4).
//!
//! - Invisible characters, and those that make text look like other text, are refused: no tool needs them.
//! - Schemas that cannot be checked, or that refer to other documents, are refused too.
//! - Text that addresses the model instead of describing the tool is flagged: an operator must review it first. No
//!   single rule reliably separates legitimate advice from an attack, so the weights of several signs are added up.

mod characters;
mod coded;
mod finding;
mod parameter;
mod payload;
mod phrases;
mod plain;
mod schema;
mod script;
#[cfg(test)]
mod tests;
mod text;
mod token;

use serde_json::Value;

use self::token::Place;
pub(super) use characters::is_suspect as is_hidden;
pub(crate) use characters::shows;
pub(super) use finding::visible;
pub use finding::{Finding, Severity};

/// The maximum number of findings that are kept per definition; the most severe ones come first.
const FINDINGS_MAX: usize = 16;

/// Reviews the part of a definition that a model sees.
pub(super) fn review(shown: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(shown, &mut String::new(), &mut findings);
    for member in ["inputSchema", "outputSchema"] {
        if let Some(schema) = shown.get(member) {
            schema::review(schema, member, &mut findings);
        }
    }
    parameter::review(shown, &mut findings);
    // The most severe findings come first, so that truncation keeps them.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Visits every name and string of a value; `at` is the current location as a JSON pointer.
fn walk(value: &Value, at: &mut String, findings: &mut Vec<Finding>) {
    let length = at.len();
    match value {
        Value::String(text) => one(text, at, findings),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                at.push('/');
                at.push_str(&index.to_string());
                walk(item, at, findings);
                at.truncate(length);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                at.push('/');
                at.push_str(name);
                one(name, at, findings);
                walk(member, at, findings);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

fn one(text: &str, at: &str, findings: &mut Vec<Finding>) {
    // Stop early: a decision does not need more findings.
    if findings.len() > 4 * FINDINGS_MAX {
        return;
    }
    if let Some((what, evidence)) = characters::hidden(text) {
        findings.push(Finding::new(Severity::Refused, at, what, &evidence));
    }
    if let Some(evidence) = script::mixed(text) {
        let what = "letters of another alphabet stand for Latin ones";
        findings.push(Finding::new(Severity::Flagged, at, what, &evidence));
    }
    let place = if at == "/description" { Place::Description } else { Place::Elsewhere };
    for (what, evidence) in text::instructions(text, place) {
        findings.push(Finding::new(Severity::Flagged, at, what, &evidence));
    }
}
