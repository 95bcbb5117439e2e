//! Checks of JSON values. An error names the member that is wrong.

use serde_json::Value;

/// A text that explains why a value is not as a rule requires.
pub(crate) type Wrong = String;

/// The maximum length, in bytes, of a value in the text of a failure. Longer values are shortened.
pub(crate) const MAX_SHOWN: usize = 160;

/// The JSON pointer to the revision in a modern message.
pub(crate) const REVISION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// Returns a value as text, shortened to [`MAX_SHOWN`] bytes.
pub(crate) fn shown(value: &Value) -> String {
    mgp_types::clip(&value.to_string(), MAX_SHOWN)
}

/// Returns a member of an object; fails if the member is missing.
pub(crate) fn member<'a>(of: &'a Value, name: &str) -> Result<&'a Value, Wrong> {
    of.get(name).ok_or_else(|| format!("the member `{name}` is missing in {}", shown(of)))
}

/// Returns a member; fails if it is not a string.
pub(crate) fn text<'a>(of: &'a Value, name: &str) -> Result<&'a str, Wrong> {
    let value = member(of, name)?;
    value.as_str().ok_or_else(|| format!("`{name}` must be a string, not {}", shown(value)))
}

/// Returns a member; fails if it is not a number.
pub(crate) fn number(of: &Value, name: &str) -> Result<f64, Wrong> {
    let value = member(of, name)?;
    value.as_f64().ok_or_else(|| format!("`{name}` must be a number, not {}", shown(value)))
}

/// Returns a member; fails if it is not a boolean.
pub(crate) fn boolean(of: &Value, name: &str) -> Result<bool, Wrong> {
    let value = member(of, name)?;
    value.as_bool().ok_or_else(|| format!("`{name}` must be true or false, not {}", shown(value)))
}

/// Returns a member; fails if it is not an object.
pub(crate) fn object<'a>(of: &'a Value, name: &str) -> Result<&'a Value, Wrong> {
    let value = member(of, name)?;
    if value.is_object() {
        return Ok(value);
    }
    Err(format!("`{name}` must be an object, not {}", shown(value)))
}

/// Returns a member; fails if it is not a list.
pub(crate) fn list<'a>(of: &'a Value, name: &str) -> Result<&'a [Value], Wrong> {
    let value = member(of, name)?;
    let list = value.as_array().map(Vec::as_slice);
    list.ok_or_else(|| format!("`{name}` must be a list, not {}", shown(value)))
}

/// Returns a member; fails if it is not a list of strings.
pub(crate) fn texts<'a>(of: &'a Value, name: &str) -> Result<Vec<&'a str>, Wrong> {
    let not_text = |value: &Value| format!("`{name}` must contain strings, not {}", shown(value));
    list(of, name)?.iter().map(|value| value.as_str().ok_or_else(|| not_text(value))).collect()
}

/// Checks that a member is one of the given words.
pub(crate) fn one_of(of: &Value, name: &str, words: &[&str]) -> Result<(), Wrong> {
    let found = text(of, name)?;
    if words.contains(&found) {
        return Ok(());
    }
    Err(format!("`{name}` must be one of {}, not `{found}`", words.join(", ")))
}

/// Checks that a member has the form of a time of RFC 3339.
pub(crate) fn time(of: &Value, name: &str) -> Result<(), Wrong> {
    let found = text(of, name)?;
    if mgp_types::Timestamp::from(found).to_system_time().is_some() {
        return Ok(());
    }
    Err(format!("`{name}` must be a time like `2026-01-31T12:00:00Z`, not `{found}`"))
}
