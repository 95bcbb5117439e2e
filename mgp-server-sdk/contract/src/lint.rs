//! Finds the flaws of a tool's definition that make it a poor contract between the tool and its callers.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::checker;
use crate::contract::Contract;
use crate::example::examples;

/// The maximum depth to which schemas are examined.
const MAX_DEPTH: usize = 24;

/// The maximum number of flaws that are reported for a tool.
const MAX_LINTS: usize = 100;

/// The severity of a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LintLevel {
    /// The contract lacks a part that it should have.
    Warning,
    /// The contract is wrong, or a required part is missing.
    Error,
}

/// A flaw of a definition or a specification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// The severity of the flaw.
    pub level: LintLevel,
    /// The line of the document, from 1; `None` for a definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The name of the tool; empty for a flaw of the whole document.
    pub tool: String,
    /// The description of the flaw.
    pub message: String,
}

impl Lint {
    pub(crate) fn new(level: LintLevel, tool: &str, message: impl Into<String>) -> Self {
        Self { level, line: None, tool: tool.to_owned(), message: message.into() }
    }

    pub(crate) fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.level == LintLevel::Error { "error" } else { "warning" };
        write!(f, "{level}: ")?;
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.tool.is_empty() {
            write!(f, "`{}`: ", self.tool)?;
        }
        f.write_str(&self.message)
    }
}

/// Returns the flaws of a definition.
#[must_use]
pub fn lint(contract: &Contract) -> Vec<Lint> {
    let mut found = Vec::new();
    let mut add = |level, message: String| {
        if found.len() < MAX_LINTS {
            found.push(Lint::new(level, &contract.name, message));
        }
    };
    if !is_tool_name(&contract.name) {
        let message = "the name must have 1 to 128 letters, digits, `_`, `-` or `.`";
        add(LintLevel::Error, message.to_owned());
    }
    if contract.description().trim().is_empty() {
        add(LintLevel::Error, "the description is missing; say what the tool does".to_owned());
    }
    let version = contract.meta("version");
    if version.is_some() && contract.version().is_none() {
        add(LintLevel::Error, "`_meta.version` is not a semantic version, e.g. 1.2.0".to_owned());
    } else if version.is_none() {
        add(LintLevel::Warning, "it has no version; set `_meta.version`".to_owned());
    }
    if contract.input.get("type").and_then(Value::as_str) != Some("object") {
        add(LintLevel::Error, "the input schema must have the type `object`".to_owned());
    }
    for (what, schema) in [("input", Some(&contract.input)), ("output", contract.output.as_ref())] {
        let Some(schema) = schema else {
            add(
                LintLevel::Warning,
                "it has no output schema; results cannot be checked".to_owned(),
            );
            continue;
        };
        match checker::compile(schema) {
            Err(reason) => {
                add(LintLevel::Error, format!("the {what} schema is not usable: {reason}"));
            }
            Ok(_) => {
                if let Err(error) = examples(schema) {
                    add(LintLevel::Warning, format!("the {what} schema: {error}"));
                }
            }
        }
        lint_schema(schema, &format!("{what} schema"), 0, &mut add);
    }
    found
}

/// Returns whether MCP permits a name for a tool.
fn is_tool_name(name: &str) -> bool {
    let permits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(permits)
}

fn lint_schema(schema: &Value, place: &str, depth: usize, add: &mut impl FnMut(LintLevel, String)) {
    let Some(members) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return };
    let properties = members.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let has = |keyword: &str| property.get(keyword).is_some();
        if !has("description") && !has("$ref") {
            add(LintLevel::Warning, format!("{place}: `{name}` has no description"));
        }
        let is_typed = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not"];
        if property.is_object() && !is_typed.into_iter().any(has) {
            add(LintLevel::Warning, format!("{place}: `{name}` has no type"));
        }
        lint_schema(property, &format!("{place}, `{name}`"), depth + 1, add);
    }
    let required = members.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if properties.is_some_and(|properties| !properties.contains_key(name)) {
            let message = format!("{place}: `{name}` is required, but not under `properties`");
            add(LintLevel::Error, message);
        }
    }
    let is_array = members.get("type").and_then(Value::as_str) == Some("array");
    if is_array && !members.contains_key("items") && !members.contains_key("prefixItems") {
        add(LintLevel::Warning, format!("{place}: the array has no `items`"));
    }
    if let Some(items) = members.get("items") {
        lint_schema(items, &format!("{place}, items"), depth + 1, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(definition: Value, expected: &[&str]) {
        let found = lint(&Contract::from_definition(definition).unwrap());
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:#?}");
        for (text, expected) in texts.iter().zip(expected) {
            assert!(text.contains(expected), "{text} lacks {expected}");
        }
    }

    #[test]
    fn a_whole_contract_has_no_flaws() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer", "description": "A number." } }, "required": ["n"] });
        check(
            json!({ "name": "m.t", "description": "Counts.", "inputSchema": schema, "outputSchema": schema, "_meta": { "version": "1.0.0" } }),
            &[],
        );
    }

    #[test]
    fn each_missing_part_is_named() {
        check(
            json!({ "name": "a b", "inputSchema": { "properties": { "x": {}, "l": { "type": "array", "description": "L." } }, "required": ["y"] }, "_meta": { "version": "new" } }),
            &[
                "the name",
                "description is missing",
                "not a semantic version",
                "type `object`",
                "the array has no `items`",
                "`x` has no description",
                "`x` has no type",
                "`y` is required",
                "no output schema",
            ],
        );
        check(
            json!({ "name": "t", "description": "T.", "inputSchema": { "type": "object", "properties": { "p": { "type": "string", "pattern": "(", "description": "P." } } }, "outputSchema": {}, "_meta": { "version": "1.0.0" } }),
            &["the input schema is not usable"],
        );
    }

    #[test]
    fn a_pattern_with_lookaround_is_no_error() {
        let name = json!({ "type": "string", "pattern": "^(?!_)[a-z_]+$", "description": "N." });
        let schema = json!({ "type": "object", "properties": { "n": name } });
        let found = lint(
            &Contract::from_definition(json!({ "name": "t", "inputSchema": schema })).unwrap(),
        );
        assert!(found.iter().all(|one| !one.to_string().contains("not usable")), "{found:?}");
    }
}
