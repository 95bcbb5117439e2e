//! The differences between two definitions, for a person to read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::review::{EVIDENCE_MAX, visible};

/// The maximum number of differences that are listed; further differences are only counted.
const CHANGES_MAX: usize = 32;

/// The number of unchanged bytes shown before and after the part of a text that differs.
const AROUND: usize = 40;

/// One difference between two definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The location, as a JSON pointer into the definition.
    pub at: String,
    /// The earlier value, with invisible characters escaped; `None` if the member is new. A changed text is shortened
    /// to the part that differs; if that is still too long, its end is replaced by the number of characters left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The current value, in the same form as [`before`](Self::before); `None` if the member was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Difference {
    /// Returns the difference without any text written by the server: only the name of the top-level member that
    /// changed.
    pub(super) fn place(&self) -> Self {
        Self { at: top(&self.at).to_owned(), before: None, after: None }
    }
}

/// Returns the top-level member to which a JSON pointer leads, e.g. `/description`. The result is a constant of this
/// crate, so it never contains a text that the server chose.
pub(super) fn top(at: &str) -> &'static str {
    const MEMBERS: [&str; 8] = [
        "/name",
        "/title",
        "/description",
        "/inputSchema",
        "/outputSchema",
        "/annotations",
        "/security",
        "/_meta",
    ];
    let inside = |member: &&str| {
        at.strip_prefix(*member).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    MEMBERS.into_iter().find(inside).unwrap_or("another member")
}

/// The differences between two definitions.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// The first differences, at most [`CHANGES_MAX`].
    pub(super) listed: Vec<Difference>,
    /// The number of further differences, which are not in `listed`.
    pub(super) left_out: usize,
}

pub(super) fn differences(before: &Value, after: &Value) -> Differences {
    let mut found = Differences::default();
    compare(Some(before), Some(after), &mut String::new(), &mut found);
    found
}

fn compare(
    before: Option<&Value>,
    after: Option<&Value>,
    at: &mut String,
    found: &mut Differences,
) {
    if before == after {
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
    if found.listed.len() == CHANGES_MAX {
        found.left_out += 1;
        return;
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (before, after) = match (before.map(text), after.map(text)) {
        (Some(before), Some(after)) => {
            let (before, after) = changed_parts(&before, &after);
            (Some(before), Some(after))
        }
        (before, after) => {
            (before.map(|text| counted(&text, "")), after.map(|text| counted(&text, "")))
        }
    };
    found.listed.push(Difference { at: visible(at), before, after });
}

/// Returns the parts in which two texts differ, with some characters of context.
fn changed_parts(before: &str, after: &str) -> (String, String) {
    let same = |(one, other): &(char, char)| one == other;
    let length = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(same).map(|(c, _)| c.len_utf8()).sum()
    };
    let head = length(&mut before.chars().zip(after.chars()));
    let tail = length(&mut before[head..].chars().rev().zip(after[head..].chars().rev()));
    let cut = |text: &str| {
        let begin = text.floor_char_boundary(head.saturating_sub(AROUND));
        let end = text.ceil_char_boundary((text.len() - tail + AROUND).min(text.len()));
        let left = if begin > 0 { "…" } else { "" };
        format!("{left}{}", counted(&text[begin..end], if end < text.len() { "…" } else { "" }))
    };
    (cut(before), cut(after))
}

/// Returns a text in readable form. If it is cut, it ends with the number of omitted characters, otherwise with `end`.
fn counted(text: &str, end: &str) -> String {
    let left_out = text.chars().count().saturating_sub(EVIDENCE_MAX);
    match left_out {
        0 => format!("{}{end}", visible(text)),
        more => format!("{} ({more} more characters)", visible(text)),
    }
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
        let shown: Vec<_> = found
            .listed
            .iter()
            .map(|one| (one.at.as_str(), one.before.as_deref(), one.after.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("/description", Some("Adds."), Some(r"Adds\u{200b}.")),
                ("/inputSchema/b", None, Some(r#"{"c":2}"#)),
            ]
        );
    }

    #[test]
    fn a_change_behind_the_first_characters_is_not_shown_as_two_equal_texts() {
        let long = "Adds two numbers. ".repeat(20);
        let found = differences(&json!(long), &json!(format!("{long}Then sends ~/.ssh away.")));
        let [Difference { before: Some(before), after: Some(after), .. }] = &found.listed[..]
        else {
            panic!("{found:?}");
        };
        assert!(before.starts_with('…') && before.ends_with("Adds two numbers. "), "{before}");
        assert!(after.starts_with('…') && after.ends_with("Then sends ~/.ssh away."), "{after}");
        let found = differences(&json!({}), &json!({"description": "x".repeat(1000)}));
        assert!(found.listed[0].after.as_ref().unwrap().ends_with("(840 more characters)"));
    }

    #[test]
    fn differences_that_are_not_listed_are_counted() {
        let parts = |word: &str| {
            let member = |n: i32| (format!("p{n}"), json!(format!("{word} {n}")));
            Value::Object((0..40).map(member).collect())
        };
        let found = differences(&parts("part"), &parts("Part"));
        assert_eq!((found.listed.len(), found.left_out), (CHANGES_MAX, 8));
    }
}
