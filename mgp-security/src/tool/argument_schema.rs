//! Checks arguments and structured results against the JSON Schemas in a tool's definition.
//!
//! A definition comes from a server that may be hostile, so a schema is used only if checking with it takes bounded
//! time: it has no recursive or external references, is small after its references are replaced, and its patterns run
//! in linear time. Without such a schema nothing is checked here, and only the server checks its arguments. With such a
//! schema, a text that cannot be checked is refused: readers of JSON differ in what they make of it.

use std::fmt;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use mgp_types::{Object, UniqueJson, mcp};
use serde::Serialize;
use serde_json::Value;

/// The maximum number of values in a schema after its references are replaced.
const MAX_SCHEMA_VALUES: usize = 10_000;

/// The maximum length of a chain of references in a tool's input schema.
const MAX_REFERENCE_DEPTH: usize = 32;

/// The maximum cost of a check: the number of values in the schema, multiplied by the size of the text in KiB.
/// This allows 1 MiB for the largest schema, and 16 MiB (the default size of a message) for one of up to 600 values.
const MAX_COST: usize = MAX_SCHEMA_VALUES * 1024;

/// The maximum size of a text whose violations are listed, in bytes: there can be very many, and they can quote large
/// parts of the text. `tools/validate` refuses longer arguments.
const MAX_VALIDATED_BYTES: usize = 1 << 20;

/// The maximum number of violations that the refusal of a call's arguments names.
const MAX_VIOLATIONS: usize = 5;

/// The maximum number of reasons in a result of `tools/validate`.
const MAX_ARGUMENT_ERRORS: usize = 100;

/// The maximum length of a violation's text, in bytes.
const MAX_TEXT: usize = 300;

/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// The schemas of a tool, compiled when they are first needed.
#[derive(Default)]
pub(crate) struct ToolSchemas {
    arguments: OnceLock<Option<CompiledSchema>>,
    results: OnceLock<Option<CompiledSchema>>,
}

mgp_types::opaque_debug!(ToolSchemas);

/// A schema that can be used for a check.
struct CompiledSchema {
    validator: Validator,
    /// The number of values in the schema after its references are replaced.
    values: usize,
}

/// A member of arguments that does not fit the schema of its tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SchemaViolation {
    /// The place in the arguments, as a JSON pointer; empty for the arguments as a whole.
    pub path: String,
    /// The reason why the value there does not fit.
    pub message: String,
}

/// The error for arguments that do not fit the schema of their tool.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ArgumentsRefused {
    tool: String,
    violations: Vec<SchemaViolation>,
}

/// The error for structured content that does not fit the schema of its tool.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "the structured content of the result does not fit the output schema of `{tool}`: {violation}"
)]
pub struct ResultRefused {
    tool: String,
    violation: SchemaViolation,
}

/// Returns all reasons why arguments do not fit the input schema of a tool, up to a limit.
///
/// # Errors
/// A description of the reason why the schema or the arguments cannot be used for a check.
pub fn argument_errors(
    tool: &mcp::Tool,
    arguments: &str,
) -> Result<Vec<mcp::ArgumentError>, &'static str> {
    let schema = compile(tool.input_schema.as_payload().as_str());
    let schema = schema.ok_or("the input schema of the tool cannot be used for a check")?;
    if arguments.len() > MAX_VALIDATED_BYTES {
        return Err("the arguments are too large for a check");
    }
    let UniqueJson(value) = serde_json::from_str(arguments)
        .map_err(|_| "the arguments are not JSON, or repeat a member")?;
    let read = |error: jsonschema::ValidationError<'_>| {
        let path = error.instance_path().to_string();
        let mut field = path.trim_start_matches('/').replace('/', ".");
        if let ValidationErrorKind::Required { property } = error.kind()
            && let Some(name) = property.as_str()
        {
            let dot = if field.is_empty() { "" } else { "." };
            field = format!("{field}{dot}{name}");
        }
        let schema_path = error.schema_path().to_string();
        let keyword = schema_path.rsplit('/').next().unwrap_or_default();
        let message = mgp_types::clip(&error.to_string(), MAX_TEXT);
        mcp::ArgumentError::new(mgp_types::clip(&field, MAX_TEXT), keyword, message)
    };
    Ok(schema.validator.iter_errors(&value).take(MAX_ARGUMENT_ERRORS).map(read).collect())
}

impl ToolSchemas {
    /// Checks the arguments of a call of the tool.
    ///
    /// # Errors
    /// [`ArgumentsRefused`] if the arguments do not fit the schema.
    pub(crate) fn check_arguments(
        &self,
        tool: &mcp::Tool,
        arguments: Option<&str>,
    ) -> Result<(), Box<ArgumentsRefused>> {
        let schema = || compile(tool.input_schema.as_payload().as_str());
        let Some(schema) = self.arguments.get_or_init(schema) else { return Ok(()) };
        let violations = schema.violations(arguments.unwrap_or("{}"));
        if violations.is_empty() {
            return Ok(());
        }
        Err(Box::new(ArgumentsRefused { tool: tool.name.clone(), violations }))
    }

    /// Checks the structured content of a result of the tool.
    ///
    /// # Errors
    /// [`ResultRefused`] if the content does not fit the schema.
    pub(crate) fn check_result(
        &self,
        tool: &mcp::Tool,
        content: &str,
    ) -> Result<(), ResultRefused> {
        let schema = || compile(tool.output_schema.as_ref()?.as_payload().as_str());
        let Some(schema) = self.results.get_or_init(schema) else { return Ok(()) };
        match schema.violations(content).into_iter().next() {
            Some(violation) => Err(ResultRefused { tool: tool.name.clone(), violation }),
            None => Ok(()),
        }
    }
}

impl ArgumentsRefused {
    /// Returns the error's structured details for the caller (§14.5).
    pub(crate) fn details(&self) -> Object {
        let mut details = Object::new();
        // Encoding strings cannot fail.
        let _ = details.encode("tool", &self.tool);
        let _ = details.encode("violations", &self.violations);
        details
    }
}

impl fmt::Display for ArgumentsRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the arguments do not fit the input schema of `{}`: ", self.tool)?;
        for (at, violation) in self.violations.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{violation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Compiles a schema. Returns `None` if it is not a valid schema, or if checking with it could take unbounded time.
fn compile(schema: &str) -> Option<CompiledSchema> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    let mut size = SchemaSize { root: &schema, open: Vec::new(), values: 0 };
    size.add(&schema)?;
    let values = size.values;
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    let options = jsonschema::options().should_validate_formats(false);
    let options = options.with_pattern_options(patterns);
    match options.build(&schema) {
        Ok(validator) => Some(CompiledSchema { validator, values }),
        Err(error) => {
            tracing::debug!(%error, "the schema of a tool cannot be used");
            None
        }
    }
}

/// The size of a schema after its references are replaced.
struct SchemaSize<'a> {
    root: &'a Value,
    /// The references that are currently being followed, to detect recursion.
    open: Vec<&'a str>,
    values: usize,
}

impl<'a> SchemaSize<'a> {
    /// Adds the size of a part of the schema; returns `None` if the schema is too large, recursive, or not
    /// self-contained.
    fn add(&mut self, part: &'a Value) -> Option<()> {
        self.values += 1;
        if self.values > MAX_SCHEMA_VALUES {
            return None;
        }
        match part {
            Value::Array(parts) => parts.iter().try_for_each(|part| self.add(part)),
            Value::Object(members) => {
                for (name, part) in members {
                    match (name.as_str(), part) {
                        ("$ref", Value::String(to)) => self.follow(to)?,
                        ("$dynamicRef" | "$recursiveRef" | "$id" | "$anchor", Value::String(_)) => {
                            return None;
                        }
                        // The size of a definition is added where the definition is used.
                        ("$defs" | "definitions", _) => {}
                        (_, part) => self.add(part)?,
                    }
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    fn follow(&mut self, to: &'a str) -> Option<()> {
        if self.open.contains(&to) || self.open.len() >= MAX_REFERENCE_DEPTH {
            return None;
        }
        let part = self.root.pointer(to.strip_prefix('#')?)?;
        self.open.push(to);
        self.add(part)?;
        self.open.pop();
        Some(())
    }
}

impl CompiledSchema {
    /// Returns the first places at which a JSON text violates the schema. A text that cannot be checked violates it as
    /// a whole: one that is too large, that repeats a member, or that is not JSON to every reader.
    fn violations(&self, text: &str) -> Vec<SchemaViolation> {
        if self.values.saturating_mul(text.len() / 1024) > MAX_COST {
            return vec![unchecked("it is too large for a schema of this size")];
        }
        let mut value = match serde_json::from_str(text) {
            Ok(UniqueJson(value)) => value,
            Err(error) => return vec![unchecked(&error.to_string())],
        };
        if self.validator.is_valid(&value) {
            return Vec::new();
        }
        remove_nulls(&mut value);
        // The validator collects all errors before it returns the first one.
        if text.len() > MAX_VALIDATED_BYTES {
            if self.validator.is_valid(&value) {
                return Vec::new();
            }
            return vec![whole(
                "it does not fit, and is too large to name the members that are wrong",
            )];
        }
        let errors = self.validator.iter_errors(&value);
        errors.take(MAX_VIOLATIONS).map(|error| read(&error)).collect()
    }
}

/// Returns the violation of a text that cannot be checked.
fn unchecked(reason: &str) -> SchemaViolation {
    whole(&format!("cannot be checked: {reason}"))
}

/// Returns a violation that names no member.
fn whole(reason: &str) -> SchemaViolation {
    SchemaViolation { path: String::new(), message: mgp_types::clip(reason, MAX_TEXT) }
}

/// Removes members that are `null`, because models send `null` for an optional member that they mean to leave out.
///
/// Only the check uses the result. The original arguments are forwarded, because exactly what was approved must be
/// sent.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Converts an error to a violation. If a member is missing, the path includes the name of that member.
fn read(error: &jsonschema::ValidationError<'_>) -> SchemaViolation {
    let mut path = error.instance_path().to_string();
    if let ValidationErrorKind::Required { property: Value::String(name) } = error.kind() {
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    SchemaViolation { path, message: mgp_types::clip(&error.to_string(), MAX_TEXT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(schema: &str) -> mcp::Tool {
        serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap()
    }

    #[track_caller]
    fn check(schema: &str, arguments: &str) -> Option<String> {
        let refused = ToolSchemas::default().check_arguments(&tool(schema), Some(arguments));
        refused.err().map(|refused| refused.to_string())
    }

    #[test]
    fn a_violation_names_its_member() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"to":{"type":"object","required":["mail"]}},"required":["n"],"additionalProperties":false}"#;
        assert_eq!(check(schema, r#"{"n":1}"#), None);
        let said = |arguments: &str| check(schema, arguments).unwrap();
        assert!(said(r#"{"n":"x"}"#).contains("`/n`: \"x\" is not of type \"integer\""));
        assert!(said("{}").contains("`/n`: \"n\" is a required property"));
        assert!(said(r#"{"n":1,"to":{}}"#).contains("`/to/mail`: \"mail\" is a required property"));
        assert!(said(r#"{"n":1,"m":2}"#).contains("'m' was unexpected"));
        assert!(ToolSchemas::default().check_arguments(&tool(schema), None).is_err());
    }

    #[test]
    fn all_errors_of_arguments_are_named() {
        let tool = tool(
            r#"{"type":"object","properties":{"n":{"type":"integer","maximum":3},"to":{"type":"object","required":["mail"]}},"required":["m"]}"#,
        );
        let found = argument_errors(&tool, r#"{"n":9,"to":{}}"#).unwrap();
        let mut found: Vec<_> =
            found.iter().map(|one| (one.field.as_str(), one.error_type.as_str())).collect();
        found.sort_unstable();
        assert_eq!(found, [("m", "required"), ("n", "maximum"), ("to.mail", "required")]);
        assert!(argument_errors(&tool, r#"{"m":1}"#).unwrap().is_empty());
    }

    #[test]
    fn null_counts_as_an_absent_member_unless_the_schema_allows_it() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"to":{"type":"object","properties":{"cc":{"type":"string"}}}},"required":["n"]}"#;
        assert_eq!(check(schema, r#"{"n":1,"to":null}"#), None);
        assert_eq!(check(schema, r#"{"n":1,"to":{"cc":null}}"#), None);
        assert!(check(schema, r#"{"n":null}"#).unwrap().contains("`/n`: \"n\" is a required"));
        let nullable =
            r#"{"type":"object","properties":{"n":{"type":["integer","null"]}},"required":["n"]}"#;
        assert_eq!(check(nullable, r#"{"n":null}"#), None);
    }

    #[test]
    fn a_schema_whose_check_is_not_bounded_is_not_used() {
        let doubling = |n: usize| {
            let defs: Vec<_> = (0..n)
                .map(|at| {
                    let next = if at + 1 == n {
                        "{\"type\":\"string\"}".to_owned()
                    } else {
                        format!("{{\"$ref\":\"#/$defs/d{}\"}}", at + 1)
                    };
                    format!("\"d{at}\":{{\"anyOf\":[{next},{next}]}}")
                })
                .collect();
            format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{}}}}}", defs.join(","))
        };
        assert!(check(&doubling(3), "{}").is_some());
        for schema in [
            doubling(40).as_str(),
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}"##,
            r#"{"$ref":"https://example.com/schema.json"}"#,
            r#"{"type":"no such type"}"#,
            r#"{"pattern":"(?=x)","type":"string"}"#,
            r##"{"$dynamicRef":"#x","type":"string"}"##,
        ] {
            assert_eq!(check(schema, "{}"), None, "{schema}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_checked_is_refused() {
        let schema = r#"{"type":"object","properties":{"to":{"enum":["test"]}}}"#;
        let deep = format!(r#"{{"to":"test","x":{}{}}}"#, "[".repeat(130), "]".repeat(130));
        for arguments in [
            r#"{"to":"test","x":1e400}"#,
            r#"{"to":"test","x":"\ud800"}"#,
            r#"{"to":"live","to":"test"}"#,
            r#"{"to":"live","\u0074o":"test"}"#,
            r#"{"to":"test","x":[{"a":1,"a":1}]}"#,
            r#"{"to":"test""#,
            &deep,
        ] {
            let refused = check(schema, arguments).unwrap();
            assert!(refused.contains("cannot be checked: "), "{arguments}: {refused}");
        }
        let repeated = check(schema, r#"{"to":"live","to":"test"}"#).unwrap();
        assert!(repeated.contains("the member `to` is repeated"), "{repeated}");
        assert!(argument_errors(&tool(schema), r#"{"to":"live","to":"test"}"#).is_err());
        let with_output = serde_json::from_str::<mcp::Tool>(&format!(
            r#"{{"name":"t","inputSchema":{{}},"outputSchema":{schema}}}"#
        ));
        let (tool, schemas) = (with_output.unwrap(), ToolSchemas::default());
        assert!(schemas.check_result(&tool, r#"{"to":"test"}"#).is_ok());
        assert!(schemas.check_result(&tool, r#"{"to":"live","to":"test"}"#).is_err());
        assert!(schemas.check_result(&tool, r#"{"to":"test","x":1e400}"#).is_err());
    }

    #[test]
    fn large_arguments_are_checked_as_long_as_the_check_takes_bounded_time() {
        let padded =
            |to: &str, pad: usize| format!(r#"{{"to":"{to}","pad":"{}"}}"#, "x".repeat(pad));
        let schema = r#"{"type":"object","properties":{"to":{"enum":["test"]}}}"#;
        let nearly_all = (16 << 20) - 64;
        assert_eq!(check(schema, &padded("test", nearly_all)), None);
        for pad in [1_100_000, nearly_all] {
            assert!(check(schema, &padded("live", pad)).unwrap().contains("does not fit"));
        }
        let ids = format!(r#"{{"ids":[{}0]}}"#, "0,".repeat(1 << 20));
        let numbers = check(r#"{"properties":{"ids":{"items":{"type":"string"}}}}"#, &ids).unwrap();
        assert!(numbers.contains("too large to name the members"), "{numbers}");
        let many: Vec<_> = (0..4_000).map(|n| format!(r#""m{n}":{{}}"#)).collect();
        let large = format!(r#"{{"properties":{{{}}}}}"#, many.join(","));
        assert_eq!(check(&large, &padded("test", 1 << 20)), None);
        assert!(
            check(&large, &padded("test", 4 << 20)).unwrap().contains("too large for a schema")
        );
    }

    #[test]
    fn texts_of_violations_are_bounded() {
        let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(10_000));
        let refused = check(r#"{"properties":{"n":{"type":"integer"}}}"#, &long).unwrap();
        assert!(refused.len() < 2 * MAX_TEXT, "{refused}");
        let many: Vec<_> = (0..100).map(|n| format!("\"m{n}\":1")).collect();
        let tool = tool(r#"{"additionalProperties":{"type":"string"}}"#);
        let refused = ToolSchemas::default()
            .check_arguments(&tool, Some(&format!("{{{}}}", many.join(","))))
            .unwrap_err();
        assert_eq!(refused.violations.len(), MAX_VIOLATIONS);
    }
}
