//! Checks values against JSON Schemas; references to other documents are not followed.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// The maximum length of the reason that a failed check reports, in bytes.
const MAX_REASON: usize = 300;

/// Compiles a schema to a validator.
///
/// # Errors
/// Returns the reason why the value is not a usable schema.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    let linear = PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    // JSON Schema permits lookaround and references to groups, which only the engine of `fancy_regex` supports. It is
    // used only if the schema does not compile with the linear engine.
    let any = PatternOptions::fancy_regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN);
    let options = || jsonschema::options().should_validate_formats(false);
    let linear = options().with_pattern_options(linear).build(schema);
    let validator = linear.or_else(|_| options().with_pattern_options(any).build(schema));
    validator.map_err(|error| mgp_types::clip(&error.to_string(), MAX_REASON))
}

/// Returns the first reason why a value does not fit a schema, or why the schema is unusable; `None` if the value fits.
pub(crate) fn first_violation(schema: &Value, value: &Value) -> Option<String> {
    let validator = match compile(schema) {
        Ok(validator) => validator,
        Err(reason) => return Some(format!("the schema is not usable: {reason}")),
    };
    let error = validator.iter_errors(value).next()?;
    let place = error.instance_path().to_string();
    let reason = mgp_types::clip(&error.to_string(), MAX_REASON);
    Some(if place.is_empty() { reason } else { format!("`{place}`: {reason}") })
}
