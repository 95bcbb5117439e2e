//! Checks arguments and structured results against the JSON Schemas in a tool's definition.
//!
//! A definition comes from a server that may be hostile. Therefore a schema is used only if checking with it takes
//! bounded time: it has no recursive or external references, is small after its references are replaced, and its
//! patterns run in linear time. If a tool has no such schema, nothing is checked here, and only the server checks its
//! arguments. If it has one, arguments and results that cannot be checked are refused, i.e. texts that are too large,
//! are not valid JSON, or repeat a member. Parsers differ in which of two members of the same name they use, so the
//! server could use another value than the checked one.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use mgp_types::{Object, UniqueJson, mcp};
use serde::Serialize;
use serde_json::{Map, Value};

/// The maximum number of values in a schema after its references are replaced. A value that is checked repeatedly
/// counts repeatedly.
const MAX_SCHEMA_VALUES: usize = 10_000;

/// The maximum depth of a schema after its references are replaced. The parser of JSON already refuses a deeper text,
/// but replaced references can add levels.
const MAX_SCHEMA_DEPTH: usize = 128;

/// The maximum number of schemas with `unevaluatedProperties` or `unevaluatedItems` around each other. Each one can
/// multiply the number of checks.
const MAX_UNEVALUATED_DEPTH: usize = 3;

/// The maximum number of times that `unevaluatedProperties` checks a condition (`MAX_PARTS` of `jsonschema`).
const MAX_CONDITION_CHECKS: usize = 64;

/// The maximum length of a chain of references in a tool's input schema.
const MAX_REFERENCE_DEPTH: usize = 32;

/// The maximum cost of a check: the number of values in the schema, multiplied by the size of the text in KiB.
/// This allows 1 MiB for the largest schema, and 16 MiB (the default size of a message) for one of up to 600 values.
const MAX_COST: usize = MAX_SCHEMA_VALUES * 1024;

/// The maximum size of a text whose violations are listed, in bytes, because there can be very many violations, and
/// they can quote large parts of the text. `tools/validate` refuses longer arguments.
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
    /// The number of values in the schema, as in [`MAX_SCHEMA_VALUES`].
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

/// Returns all reasons why arguments do not fit the input schema of a tool, up to a limit. The text before each reason
/// is the JSON pointer to the wrong argument.
///
/// # Errors
/// A description of the reason why the schema or the arguments cannot be used for a check.
pub fn argument_errors(
    tool: &mcp::Tool,
    arguments: &str,
) -> Result<Vec<(String, mcp::ArgumentError)>, &'static str> {
    let schema = compile(tool.input_schema.as_payload().as_str());
    let schema = schema.ok_or("the input schema of the tool cannot be used for a check")?;
    if arguments.len() > MAX_VALIDATED_BYTES {
        return Err("the arguments are too large for a check");
    }
    let UniqueJson(value) = serde_json::from_str(arguments)
        .map_err(|_| "the arguments are not JSON, or repeat a member")?;
    let named = |error: jsonschema::ValidationError<'_>| {
        let SchemaViolation { path, message } = read(&error);
        let field = path.trim_start_matches('/').replace('/', ".");
        let schema_path = error.schema_path().to_string();
        let keyword = schema_path.rsplit('/').next().unwrap_or_default();
        let [path, field] = [path, field].map(|text| mgp_types::clip(&text, MAX_TEXT));
        (path, mcp::ArgumentError::new(field, keyword, message))
    };
    Ok(schema.validator.iter_errors(&value).take(MAX_ARGUMENT_ERRORS).map(named).collect())
}

impl ToolSchemas {
    /// Checks the arguments of a call of the tool. Returns `None` if its input schema cannot be used for a check.
    pub(crate) fn check_arguments(
        &self,
        tool: &mcp::Tool,
        arguments: Option<&str>,
    ) -> Option<Result<(), Box<ArgumentsRefused>>> {
        let schema = || compile(tool.input_schema.as_payload().as_str());
        let schema = self.arguments.get_or_init(schema).as_ref()?;
        let violations = schema.violations(arguments.unwrap_or("{}"));
        if violations.is_empty() {
            return Some(Ok(()));
        }
        Some(Err(Box::new(ArgumentsRefused { tool: tool.name.clone(), violations })))
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
        // Use the name `field`, as the server SDK does, so that a program can read the refusals of both in the same
        // way.
        let field = self.violations.first().map(|first| first.path.trim_start_matches('/'));
        let field = field.filter(|field| !field.is_empty()).map(|field| field.replace('/', "."));
        Object::new()
            .with("tool", &self.tool)
            .with("violations", &self.violations)
            .with_optional("field", field.as_ref())
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
    if changes_base(&schema) {
        return None;
    }
    let mut size = SchemaSize { root: &schema, open: Vec::new(), values: 0 };
    size.add(&schema, Place { depth: 0, times: 1, again: 0, unevaluated: 0 })?;
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

/// Returns whether a part of a schema might have an id. References inside such a part, and references that lead through
/// it, are relative to the part and not to the root of the schema.
fn changes_base(schema: &Value) -> bool {
    let is_old = |name: &str, text: &str| {
        name == "$schema" && (text.contains("draft-03") || text.contains("draft-04"))
    };
    let is_old = any_text(schema, &is_old);
    any_text(schema, &|name: &str, _: &str| name == "$id" || is_old && name == "id")
}

/// Returns whether a test is true for any member of a value, at any depth, that is a string.
fn any_text(value: &Value, test: &impl Fn(&str, &str) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| any_text(item, test)),
        Value::Object(members) => members.iter().any(|(name, member)| match member {
            Value::String(text) => test(name, text),
            member => any_text(member, test),
        }),
        _ => false,
    }
}

/// The position of a part in a schema, as far as it determines the cost of checking a value against the part.
#[derive(Clone, Copy)]
struct Place {
    /// The number of lists and objects around the part, after references are replaced.
    depth: usize,
    /// The maximum number of checks of the part for one value.
    times: usize,
    /// The number by which `times` grows with each level below the part.
    again: usize,
    /// The number of schemas with `unevaluatedProperties` or `unevaluatedItems` around the part.
    unevaluated: usize,
}

impl Place {
    /// Returns the position of the members of a schema whose own position is `self`.
    ///
    /// A schema with `unevaluatedProperties` or `unevaluatedItems` has to find out which members the schemas inside it
    /// evaluate, so each level inside it is checked more often.
    fn inside(self, schema: &Map<String, Value>) -> Self {
        let repeats = ["unevaluatedProperties", "unevaluatedItems"];
        let repeats = repeats.iter().any(|name| schema.contains_key(*name));
        let again = if repeats { self.again + self.times } else { self.again };
        let unevaluated = self.unevaluated + usize::from(repeats);
        Self { depth: self.depth + 1, times: self.times + again, again, unevaluated }
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
    fn add(&mut self, part: &'a Value, place: Place) -> Option<()> {
        self.values += place.times;
        if self.values > MAX_SCHEMA_VALUES || place.depth > MAX_SCHEMA_DEPTH {
            return None;
        }
        match part {
            Value::Array(parts) => self.add_all(parts, Place { depth: place.depth + 1, ..place }),
            Value::Object(members) => self.add_members(members, place),
            _ => Some(()),
        }
    }

    fn add_all(&mut self, parts: impl IntoIterator<Item = &'a Value>, place: Place) -> Option<()> {
        parts.into_iter().try_for_each(|part| self.add(part, place))
    }

    fn add_members(&mut self, members: &'a Map<String, Value>, place: Place) -> Option<()> {
        let inside = place.inside(members);
        if inside.unevaluated > MAX_UNEVALUATED_DEPTH {
            return None;
        }
        let (mut condition, mut branches) = (0_usize, 0_usize);
        for (name, part) in members {
            let before = self.values;
            match (name.as_str(), part) {
                ("$ref", Value::String(to)) => self.follow(to, inside)?,
                ("$dynamicRef" | "$recursiveRef" | "$anchor", _) => return None,
                // Skip the definitions: the size of a definition is added where the definition is used.
                ("$defs" | "definitions", _) => {}
                // The members of these values are names, not keywords. The names in `properties` suffice to find the
                // evaluated members, so its schemas are not checked once more, and do not count as inside this schema.
                ("properties", Value::Object(named)) => {
                    let named_place = Place { depth: inside.depth, again: 0, ..place };
                    self.add_all(named.values(), named_place)?;
                }
                (
                    "patternProperties" | "dependentSchemas" | "dependencies",
                    Value::Object(named),
                ) => {
                    self.add_all(named.values(), inside)?;
                }
                (_, part) => self.add(part, inside)?,
            }
            let added = self.values - before;
            if name == "if" {
                condition = added;
            }
            if matches!(name.as_str(), "if" | "then" | "else") {
                branches += added;
            }
        }
        // To find the members that `unevaluatedProperties` applies to, `jsonschema` checks the condition (`if`) once,
        // and once more for each condition inside its branches. The branches have at most one condition per value.
        let copies = (branches / inside.times + 1).min(MAX_CONDITION_CHECKS);
        self.values += condition.saturating_mul(copies * inside.again) / inside.times;
        (self.values <= MAX_SCHEMA_VALUES).then_some(())
    }

    fn follow(&mut self, to: &'a str, place: Place) -> Option<()> {
        // The validator decodes these characters in another way than the lookup below, so such references are refused.
        let is_odd = to.contains('%') || to.contains("~~");
        if is_odd || self.open.contains(&to) || self.open.len() >= MAX_REFERENCE_DEPTH {
            return None;
        }
        let part = self.root.pointer(to.strip_prefix('#')?)?;
        self.open.push(to);
        self.add(part, place)?;
        self.open.pop();
        Some(())
    }
}

impl CompiledSchema {
    /// Returns the first violations of the schema by a JSON text. A text that cannot be checked yields a single
    /// violation: a text that is too large, repeats a member, or is not JSON for every parser.
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
        // Do not list the errors of a long text: the validator collects all of them before it returns the first one.
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
