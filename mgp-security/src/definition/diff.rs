//! The differences between two definitions, for a person to read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::review::visible;

/// The maximum number of differences that are listed; the rest is left out.
const CHANGES_MAX: usize = 32;

/// One difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The location, as a JSON pointer into the definition.
    pub at: String,
    /// The earlier value, shortened and with invisible characters escaped; `None` if the member is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The current value, shortened and with invisible characters escaped; `None` if the member was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Difference {
    /// Returns the difference without any text of the server: only the top-level member that changed.
    pub(super) fn place(&self) -> Self {
        Self { at: top(&self.at).to_owned(), before: None, after: None }
    }
}

/// Returns the top-level member that a pointer leads into, as one of our own constants, because deeper names are
/// chosen by the server.
pub(super) fn top(at: &str) -> &'static str {
    const MEMBERS: [&str; 7] = [
        "/name",
        "/title",
        "/description",
        "/inputSchema",
        "/outputSchema",
        "/annotations",
        "/security",
    ];
    let inside = |member: &&str| {
        at.strip_prefix(*member).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    MEMBERS.into_iter().find(inside).unwrap_or("another member")
}

/// Returns the differences between two values.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), &mut String::new(), &mut found);
    found
}

fn compare(
    before: Option<&Value>,
    after: Option<&Value>,
    at: &mut String,
    found: &mut Vec<Difference>,
) {
    if before == after || found.len() == CHANGES_MAX {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before, after) {
        let length = at.len();
        for name in names(old, new) {
            at.push('/');
            at.push_str(name);
            compare(old.get(name), new.get(name), at, found);
            at.truncate(length);
        }
        return;
    }
    let told = |value: Option<&Value>| {
        value.map(|value| match value {
            Value::String(text) => visible(text),
            other => visible(&other.to_string()),
        })
    };
    found.push(Difference { at: visible(at), before: told(before), after: told(after) });
}

fn names<'a>(
    old: &'a Map<String, Value>,
    new: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a String> {
    old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_says_where_and_what() {
        let before = json!({"description": "Adds.", "inputSchema": {"a": 1}});
        let after = json!({"description": "Adds\u{200b}.", "inputSchema": {"a": 1, "b": {"c": 2}}});
        let found = differences(&before, &after);
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.at.as_str(), one.before.as_deref(), one.after.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("/description", Some("Adds."), Some(r"Adds\u{200b}.")),
                ("/inputSchema/b", None, Some(r#"{"c":2}"#)),
            ]
        );
    }
}
