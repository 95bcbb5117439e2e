//! The review of definitions: it reads what a model would read, and finds what does not belong there (MGP §4).
//!
//! - Invisible characters, and those that make text look like other text, are refused: no tool needs them.
//! - Schemas that cannot be checked or point elsewhere are refused too.
//! - Text that addresses the model instead of describing the tool is flagged: an operator must review it first.
//!   No rule separates advice from a trap every time, so the weights of several signs are added up.

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

/// The number of findings of one definition that are kept; the first ones are enough to decide.
const FINDINGS_MAX: usize = 16;

/// Looks at what a model sees of a tool.
pub(super) fn review(shown: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    walk(shown, &mut String::new(), &mut findings);
    for member in ["inputSchema", "outputSchema"] {
        if let Some(schema) = shown.get(member) {
            schema::review(schema, member, &mut findings);
        }
    }
    parameter::review(shown, &mut findings);
    // Refused parts come first.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Visits every name and text of a value; `at` is the way there.
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
    // Thousands of them are not needed for a decision.
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
