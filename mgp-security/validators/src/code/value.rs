//! The possible values of an expression. Each is a constant text, an unknown text, an object with a path, or unknown.

use crate::words::Words;
use std::collections::HashMap;

/// The number of values up to which the list of a name or expression is complete. A longer list may lack some values,
/// so [`Value::Unknown`] is added to it.
const MAX_VALUES: usize = 12;

/// One possible value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A text whose content is known.
    Text(String),
    /// A text whose content is unknown.
    AnyText,
    /// An object, described by a path of names: `@` begins a module, `?` is an unknown object, and `()` is a call.
    Path(String),
    Unknown,
}

/// All possible values of an expression. The list is empty only if it describes an argument which a call lacks.
pub(super) type Values = Vec<Value>;

/// Returns a list with a single value.
pub(super) fn one(value: Value) -> Values {
    vec![value]
}

/// Returns the values of both lists without duplicates.
pub(super) fn either(mut left: Values, right: Values) -> Values {
    for value in right {
        if !left.contains(&value) {
            left.push(value);
        }
    }
    if left.len() > MAX_VALUES && !left.contains(&Value::Unknown) {
        left.push(Value::Unknown);
    }
    left
}

/// Returns the possible results of concatenating texts.
pub(super) fn concatenated(left: &Values, right: &Values) -> Values {
    let pairs = left.iter().flat_map(|left| right.iter().map(move |right| (left, right)));
    let mut values: Values = pairs
        .take(MAX_VALUES)
        .map(|pair| match pair {
            (Value::Text(left), Value::Text(right)) if left.len() + right.len() < 4096 => {
                Value::Text(format!("{left}{right}"))
            }
            (Value::Text(_) | Value::AnyText, _) | (_, Value::Text(_) | Value::AnyText) => {
                Value::AnyText
            }
            _ => Value::Unknown,
        })
        .collect();
    if left.len() * right.len() > MAX_VALUES {
        values.push(Value::Unknown);
    }
    values
}

/// Returns the values that are constant texts.
pub(super) fn texts(values: &Values) -> impl Iterator<Item = &str> {
    values.iter().filter_map(|value| match value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// Returns the values that are paths.
pub(super) fn paths(values: &Values) -> impl Iterator<Item = &str> {
    values.iter().filter_map(|value| match value {
        Value::Path(path) => Some(path.as_str()),
        _ => None,
    })
}

/// The possible values of each name in a source text, regardless of where and when the name is bound.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Values>);

impl Names {
    pub(super) fn get(&self, name: &str) -> Option<&Values> {
        self.0.get(name)
    }

    /// Adds a value to a name, even if the name already has the maximum number of values.
    pub(super) fn insert(&mut self, name: &str, value: Value) {
        let known = self.0.entry(name.to_owned()).or_default();
        if !known.contains(&value) {
            known.push(value);
        }
    }

    /// Adds values to a name, up to the maximum number.
    pub(super) fn bind(&mut self, name: &str, values: Values) {
        let known = match self.0.get_mut(name) {
            Some(known) => known,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        for value in values {
            if known.len() <= MAX_VALUES && !known.contains(&value) {
                known.push(value);
            } else if known.len() > MAX_VALUES && !known.contains(&Value::Unknown) {
                known.push(Value::Unknown);
            }
        }
    }
}

/// The violations that were found, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<String>);

impl Findings {
    /// The maximum number of violations that are reported.
    const MAX: usize = 32;

    pub(super) fn import(&mut self, name: &str) {
        self.add(format!("Blocked import: '{name}'"));
    }

    pub(super) fn pattern(&mut self, pattern: &str) {
        self.add(format!("Blocked pattern: '{pattern}'"));
    }

    fn add(&mut self, violation: String) {
        if self.0.len() < Self::MAX && !self.0.contains(&violation) {
            self.0.push(violation);
        }
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Returns whether a path is `listed`, or a member or call below it. A `*` at the end of `listed` matches any ending.
pub(super) fn is_under(path: &str, listed: &str) -> bool {
    if let Some(start) = listed.strip_suffix('*') {
        return path.starts_with(start);
    }
    path.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '(']))
}

/// Returns the last name of a path, without the `()` of a call.
pub(super) fn last(path: &str) -> &str {
    path.trim_end_matches("()").rsplit(['.', '@']).next().unwrap_or(path)
}

/// Returns whether a reference matches a declared pattern. `written` is the name in the code, and `path` the object to
/// which the name refers.
pub(super) fn matches_pattern(pattern: &str, path: &str, written: &str, builtins: &Words) -> bool {
    let name = pattern.trim().trim_end_matches(['(', ' ']);
    let name = name.strip_prefix("new ").unwrap_or(name).trim();
    let plain = path.trim_start_matches('@');
    if let Some(attribute) = name.strip_prefix('.') {
        return path.ends_with(&format!(".{attribute}"));
    }
    if is_under(plain, name) || written == name {
        return true;
    }
    // A simple name that is not a builtin might have been imported from any module. So compare only the last name of
    // the path.
    !name.contains('.') && !builtins.has(name) && path.starts_with('@') && last(path) == name
}

/// Returns whether a declared pattern is a path of names, e.g. `os.system(`.
pub(super) fn is_path(pattern: &str) -> bool {
    let name = pattern.trim().trim_end_matches(['(', ' ']);
    let name = name.strip_prefix("new ").unwrap_or(name).trim().trim_start_matches('.');
    !name.is_empty()
        && name.split('.').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
        })
}
