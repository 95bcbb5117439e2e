//! The values in the arguments of a call as a flat list.

use serde_json::Value;

/// The maximum number of values in the arguments of a call.
const MAX_VALUES: usize = 20_000;
/// The maximum depth of the arguments of a call.
const MAX_DEPTH: usize = 64;
/// The maximum total length of the paths of all values, in bytes. Each value of a list has its own copy of the keys
/// above it. Without this limit, a few long keys could therefore need any amount of memory.
const MAX_PATHS: usize = 1024 * 1024;

/// A value in the arguments that is neither an object nor a list.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    /// The keys on the way from the root to the value. The items of a list have the key of the list.
    pub(crate) keys: Vec<&'a str>,
    /// The keys joined by dots.
    pub(crate) path: String,
    pub(crate) value: &'a Value,
}

impl<'a> Leaf<'a> {
    /// Returns the innermost key of the value, or an empty text if there is none.
    pub(crate) fn key(&self) -> &'a str {
        self.keys.last().copied().unwrap_or_default()
    }

    /// Returns whether one of the value's keys equals `key`, ignoring the case of letters as some servers do.
    pub(crate) fn is_under(&self, key: &str) -> bool {
        let is_same = |own: &&str| own.chars().flat_map(folded).eq(key.chars().flat_map(folded));
        self.keys.iter().any(is_same)
    }
}

/// Returns all values in the arguments that are neither objects nor lists.
///
/// # Errors
/// A description of the problem if the arguments are not an object, are nested too deeply, or have too many values or
/// too long keys.
pub(crate) fn leaves(arguments: &Value) -> Result<Vec<Leaf<'_>>, String> {
    if !arguments.is_object() {
        return Err("the arguments are not an object".to_owned());
    }
    let mut open: Vec<(Vec<&str>, &Value)> = vec![(Vec::new(), arguments)];
    let (mut found, mut seen, mut length) = (Vec::new(), 0, 0);
    while let Some((keys, value)) = open.pop() {
        seen += 1;
        length += keys.iter().map(|key| key.len() + 1).sum::<usize>();
        let below = match value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if seen + open.len() + below > MAX_VALUES || keys.len() > MAX_DEPTH {
            return Err(format!(
                "the arguments have more than {MAX_VALUES} values or {MAX_DEPTH} levels"
            ));
        }
        if length > MAX_PATHS {
            return Err(format!("the keys above all values are longer than {MAX_PATHS} bytes"));
        }
        match value {
            Value::Object(members) => {
                for (key, value) in members.iter().rev() {
                    let mut keys = keys.clone();
                    keys.push(key);
                    open.push((keys, value));
                }
            }
            Value::Array(items) => open.extend(items.iter().rev().map(|item| (keys.clone(), item))),
            _ => found.push(Leaf { path: keys.join("."), keys, value }),
        }
    }
    Ok(found)
}

/// Returns a letter without its case. The letter is converted to upper case first, because this turns `ſ` into `S`: a
/// server that ignores case reads the key `hoſt` as `host`.
fn folded(c: char) -> impl Iterator<Item = char> {
    c.to_uppercase().flat_map(char::to_lowercase)
}

/// Splits a name into lower-case words: `getUserID_v2` becomes `get`, `user`, `id`, `v2`.
pub(crate) fn key_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let chars: Vec<char> = name.chars().collect();
    let mut fresh = true;
    for (at, &c) in chars.iter().enumerate() {
        if !c.is_alphanumeric() {
            fresh = true;
            continue;
        }
        let lower_before =
            at > 0 && (chars[at - 1].is_lowercase() || chars[at - 1].is_ascii_digit());
        let lower_after = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
        let upper_before = at > 0 && chars[at - 1].is_uppercase();
        if fresh || c.is_uppercase() && (lower_before || upper_before && lower_after) {
            words.push(String::new());
        }
        fresh = false;
        if let Some(word) = words.last_mut() {
            word.extend(folded(c));
        }
    }
    words
}
