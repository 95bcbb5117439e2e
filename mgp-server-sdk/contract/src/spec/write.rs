//! Writes specifications in Markdown from definitions.

use std::fmt::Write as _;

use mgp_types::mcp::ToolIdempotency;
use serde_json::{Value, json};

use super::parts::Part;
use crate::contract::Contract;
use crate::example::examples;

/// Returns a specification of the tools, with eight parts for each tool.
#[must_use]
pub fn write_spec(title: &str, tools: &[Contract]) -> String {
    let mut text = format!("# {}\n", line_of(title));
    for tool in tools {
        let _ = write!(text, "\n## Tool: `{}`\n", line_of(&tool.name));
        for (part, heading, _) in Part::ALL {
            let _ = write!(text, "\n### {}. {heading}\n\n", part.index() + 1);
            match part {
                Part::Purpose => purpose(tool, &mut text),
                Part::Name => {
                    let _ = writeln!(text, "`{}`", line_of(&tool.name));
                }
                Part::Input => schema(&tool.input, &mut text),
                Part::Output => match &tool.output {
                    Some(output) => schema(output, &mut text),
                    None => text.push_str("The tool declares no output schema.\n"),
                },
                Part::Errors => errors(tool, &mut text),
                Part::Idempotency => text.push_str(idempotency(tool)),
                Part::Examples => usage(tool, &mut text),
                Part::Security => security(tool, &mut text),
            }
        }
    }
    text
}

/// Returns a text as a single line of limited length, without backquotes.
fn line_of(text: &str) -> String {
    mgp_types::clip(text, 200).replace('`', "'").trim().to_owned()
}

/// Writes a text from a definition as a quotation, because headings and fences in the text would otherwise become part
/// of the document's structure.
fn quote(text: &str, out: &mut String) {
    for line in text.lines() {
        let _ = writeln!(out, "> {line}");
    }
}

/// The line that marks a tool as deprecated. A reader of the document does not count this line as part of the tool's
/// description.
pub(super) const DEPRECATED: &str = "The tool is deprecated.";

/// The note in place of a missing description.
pub(super) const UNDESCRIBED: &str = "The tool has no description.";

fn purpose(tool: &Contract, out: &mut String) {
    if let Some(version) = tool.version() {
        let _ = writeln!(out, "**Version**: {version}\n");
    }
    if tool.is_deprecated() {
        let _ = writeln!(out, "{DEPRECATED}\n");
    }
    let text = tool.description().trim();
    if text.is_empty() {
        let _ = writeln!(out, "{UNDESCRIBED}");
    }
    quote(text, out);
}

fn fence(value: &Value, out: &mut String) {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = write!(out, "```json\n{json}\n```\n");
}

/// Writes a schema: a table of its members, and its JSON.
fn schema(schema: &Value, out: &mut String) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
        out.push_str("| Name | Type | Required | Description |\n|---|---|---|---|\n");
        for (name, property) in properties {
            let is_required = required.is_some_and(|names| names.iter().any(|one| one == name));
            let kind = property.get("type").map_or_else(String::new, Value::to_string);
            let text = property.get("description").and_then(Value::as_str).unwrap_or_default();
            let cell = |text: &str| line_of(text).replace('|', "\\|");
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                cell(name),
                cell(&kind.replace('"', "")),
                if is_required { "yes" } else { "no" },
                cell(text)
            );
        }
        out.push('\n');
    }
    fence(schema, out);
}

/// The errors that every tool can return, each with its type, code and cause.
const ERRORS: &[(&str, &str, &str)] = &[
    ("ValidationError", "4000", "The arguments do not fit the input schema."),
    ("ResourceNotFound", "4001", "There is no such tool."),
    ("PermissionError", "1000", "A permission of the tool is not granted."),
    ("ApiLimitExceeded", "3000", "A limit is reached; retry after the given time."),
    ("TimeoutError", "3003", "The tool did not answer in time."),
    ("ToolExecutionError", "5000", "The tool failed."),
];

fn errors(tool: &Contract, out: &mut String) {
    out.push_str("| Error type | Code | Cause |\n|---|---|---|\n");
    for (name, code, cause) in ERRORS {
        let _ = writeln!(out, "| `{name}` | {code} | {cause} |");
    }
    if tool.output.is_some() {
        out.push_str("\nA result that does not fit the output schema is refused.\n");
    }
}

fn idempotency(tool: &Contract) -> &'static str {
    match tool.idempotency() {
        Some(ToolIdempotency::Yes) => {
            "**Idempotent**: yes. A repeated call has no further effect.\n"
        }
        Some(ToolIdempotency::No) => "**Idempotent**: no. A repeated call has a further effect.\n",
        Some(ToolIdempotency::Partial) => {
            "**Idempotent**: partial. Some repeated calls have a further effect.\n"
        }
        _ => "**Idempotent**: not declared. Do not repeat a call without a check.\n",
    }
}

fn usage(tool: &Contract, out: &mut String) {
    let calls = examples(&tool.input).unwrap_or_default();
    if calls.is_empty() {
        out.push_str("The input schema has no example.\n");
    }
    for arguments in calls {
        fence(&json!({ "tool_name": tool.name, "arguments": arguments }), out);
        out.push('\n');
    }
    let result = tool.output.as_ref().and_then(|output| examples(output).ok()?.into_iter().next());
    if let Some(data) = result.filter(Value::is_object) {
        out.push_str("A successful result:\n\n");
        fence(&json!({ "status": "success", "data": data }), out);
        out.push('\n');
    }
    out.push_str("A failed result:\n\n");
    let error = json!({ "error_type": "ValidationError", "error_message": "the arguments do not fit the input schema" });
    fence(&json!({ "status": "failure", "data": null, "error": error }), out);
}

fn security(tool: &Contract, out: &mut String) {
    let security = tool.security();
    let level = security.and_then(|security| security.get("risk_level")?.as_str());
    let level = level.map_or_else(|| "dangerous (not declared)".to_owned(), line_of);
    let _ = writeln!(out, "- Risk level: {level}.");
    let permissions =
        security.and_then(|security| security.get("permissions_required")?.as_array());
    let names: Vec<_> =
        permissions.into_iter().flatten().filter_map(Value::as_str).map(line_of).collect();
    if !names.is_empty() {
        let _ = writeln!(out, "- Permissions: `{}`.", names.join("`, `"));
    }
    for (hint, yes, no) in [
        ("readOnlyHint", "changes nothing", "may change its environment"),
        ("destructiveHint", "may destroy data", "destroys no data"),
        ("openWorldHint", "reaches external systems", "reaches no external systems"),
    ] {
        let _ = writeln!(out, "- The tool {}.", if tool.hint(hint) { yes } else { no });
    }
    out.push_str("- Arguments are checked against the input schema before the tool runs.\n");
}
