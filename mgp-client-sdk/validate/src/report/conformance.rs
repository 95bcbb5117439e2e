//! A report in the schema of proposal 12 (conformance reports): a flat list of results, and their counts.

use serde_json::{Value, json};

use super::{Report, RuleResult, Status};
use crate::rule::RuleLevel;

/// The tests of the proposal's own suite, each with the rule of this package that checks the same behaviour.
const TESTS: [(&str, &str); 7] = [
    ("CONF-001", "proposals.manifest"),
    ("CONF-002", "proposals.permissions"),
    ("CONF-003", "proposals.permissions.unknown"),
    ("CONF-004", "mcp.tools.call.unknown"),
    ("CONF-005", "mcp.tools.list"),
    ("CONF-006", "mcp.method.unknown"),
    ("CONF-007", "mcp.parse_error"),
];

pub(super) fn write(report: &Report) -> String {
    let found = |rule: &str| report.results.iter().find(|result| result.rule.id == rule);
    let named = TESTS.iter().map(|(test, rule)| match found(rule) {
        Some(result) => entry(test, result),
        None => json!({ "test_id": test, "status": "skipped", "message": format!("`{rule}` was not played") }),
    });
    let own = report.results.iter().map(|result| entry(result.rule.id, result));
    let results: Vec<Value> = named.chain(own).collect();
    let count = |status: Status| {
        results.iter().filter(|result| result["status"] == status.as_str()).count()
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let whole = json!({
        "server_name": text(&report.subject.name),
        "server_version": text(&report.subject.version),
        "suite_version": report.suite_version,
        "tested_at": report.tested_at,
        "summary": {
            "passed": count(Status::Passed),
            "failed": count(Status::Failed),
            "skipped": count(Status::Skipped),
        },
        "results": results,
    });
    serde_json::to_string_pretty(&whole).unwrap_or_default()
}

/// Returns the entry for the result of a rule. The schema has no warnings, so a broken rule of level `should` passes
/// with a message.
fn entry(test: &str, result: &RuleResult) -> Value {
    let is_warning = result.status == Status::Failed && result.rule.level == RuleLevel::Should;
    let status = if is_warning { Status::Passed } else { result.status };
    let mut entry = json!({
        "test_id": test,
        "status": status.as_str(),
        "duration_ms": result.duration_ms,
    });
    if let Some(message) = &result.message {
        let kind = if is_warning { "warning: " } else { "" };
        entry["message"] = format!("{kind}{message}").into();
    }
    entry
}
