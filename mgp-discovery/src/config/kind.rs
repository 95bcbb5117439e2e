//! The kinds of values of a key, and the check of a value against its kind (MGP §15.2).

use std::collections::BTreeMap;
use std::time::Duration;

use toml_edit::{Item, Value};

use super::{limits, nearest};

/// The kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyKind {
    /// The value of the key is a string.
    Text,
    /// The value of the key is a list of strings.
    Texts,
    /// A table whose values are strings.
    TextMap,
    /// A whole number from the first bound to the second.
    Number(u64, u64),
    /// A duration, e.g. `90s`.
    Duration,
    /// A table whose values are durations.
    DurationMap,
    /// A table whose values are whole numbers from the first bound to the second.
    NumberMap(u64, u64),
    /// `true` or `false`.
    Switch,
    /// The value of the key is one of these words.
    Word(&'static [&'static str]),
    /// A list of words. Other words than these are allowed; a word that is similar to one of these gets a warning.
    Words(&'static [&'static str]),
    /// A table; each of its values must be one of these words.
    WordMap(&'static [&'static str]),
    /// A table with a fixed set of keys.
    Table,
    /// A table with a fixed set of keys, or `false`.
    TableOrFalse,
    /// A list of tables.
    Tables,
    /// A table of tables, each under a name that the user chooses.
    TableMap,
}

impl KeyKind {
    pub(super) fn name(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Texts => "a list of texts".into(),
            Self::TextMap => "a table of texts".into(),
            Self::Number(least, most) => format!("a whole number from {least} to {most}"),
            Self::Duration => "a duration, e.g. \"90s\"".into(),
            Self::DurationMap => "a table of durations, e.g. { build = \"10m\" }".into(),
            Self::NumberMap(least, most) => {
                format!("a table of whole numbers from {least} to {most}")
            }
            Self::Switch => "`true` or `false`".into(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Words(_) => "a list of words".into(),
            Self::WordMap(words) => format!("a table of {}", words.join(", ")),
            Self::Table => "a table".into(),
            Self::TableOrFalse => "a table or `false`".into(),
            Self::Tables => "a list of tables".into(),
            Self::TableMap => "a table of tables".into(),
        }
    }
}

/// The value of a key, converted to a type that matches its kind.
pub(super) enum Checked {
    Text(String),
    Texts(Vec<String>),
    Map(BTreeMap<String, String>),
    Number(u64),
    Duration(Duration),
    Durations(BTreeMap<String, Duration>),
    Numbers(BTreeMap<String, u64>),
    Switch(bool),
}

/// The error for a value that does not match the kind of its key. `at` is the position of the wrong part, if only a
/// part of the value is wrong.
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) remedy: Option<String>,
    pub(super) at: Option<usize>,
}

impl Wrong {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None, at: None }
    }

    fn in_value(mut self, value: &Value) -> Self {
        self.at = self.at.or(value.span().map(|span| span.start));
        self
    }
}

/// Returns the converted value of an item, or an error if it does not match the kind.
pub(super) fn check(item: &Item, kind: KeyKind) -> Result<Checked, Wrong> {
    let wrong_type = || wrong_type(item, kind);
    match kind {
        KeyKind::Text => text(item.as_str().ok_or_else(wrong_type)?).map(Checked::Text),
        KeyKind::Word(words) => {
            let word = item.as_str().ok_or_else(wrong_type)?;
            known(word, words).map(|word| Checked::Text(word.to_owned()))
        }
        KeyKind::Switch => item.as_bool().map(Checked::Switch).ok_or_else(wrong_type),
        KeyKind::Number(least, most) => number(item, least, most).map(Checked::Number),
        KeyKind::Duration => duration(item.as_str().ok_or_else(wrong_type)?).map(Checked::Duration),
        KeyKind::DurationMap => {
            let table = item.as_table_like().ok_or_else(wrong_type)?;
            few(table.len())?;
            let one = |(name, item): (&str, &Item)| {
                let text = item.as_str().ok_or_else(|| wrong_entry(name, item, KeyKind::Duration));
                entry(name, item, text.and_then(duration))
            };
            table.iter().map(one).collect::<Result<_, _>>().map(Checked::Durations)
        }
        KeyKind::NumberMap(least, most) => {
            let table = item.as_table_like().ok_or_else(wrong_type)?;
            few(table.len())?;
            let one = |(name, item): (&str, &Item)| {
                let kind = KeyKind::Number(least, most);
                let number = in_range(item, least, most);
                entry(name, item, number.ok_or_else(|| wrong_entry(name, item, kind)))
            };
            table.iter().map(one).collect::<Result<_, _>>().map(Checked::Numbers)
        }
        KeyKind::Texts | KeyKind::Words(_) => {
            let list = item.as_array().ok_or_else(wrong_type)?;
            few(list.len())?;
            let one = |value: &Value| {
                let one = value.as_str().ok_or_else(|| no_text(value)).and_then(text);
                one.map_err(|wrong| wrong.in_value(value))
            };
            list.iter().map(one).collect::<Result<_, _>>().map(Checked::Texts)
        }
        KeyKind::TextMap | KeyKind::WordMap(_) => {
            let table = item.as_table_like().ok_or_else(wrong_type)?;
            few(table.len())?;
            let one = |(name, item): (&str, &Item)| {
                let value = item.as_str().ok_or_else(|| wrong_entry(name, item, KeyKind::Text));
                let value = value.and_then(|value| match kind {
                    KeyKind::WordMap(words) => known(value, words).map(str::to_owned),
                    _ => text(value),
                });
                entry(name, item, value)
            };
            table.iter().map(one).collect::<Result<_, _>>().map(Checked::Map)
        }
        KeyKind::Table | KeyKind::TableOrFalse | KeyKind::Tables | KeyKind::TableMap => {
            Err(wrong_type())
        }
    }
}

/// Returns a whole number, or an error if it is not between the two bounds.
fn number(item: &Item, least: u64, most: u64) -> Result<u64, Wrong> {
    let kind = KeyKind::Number(least, most);
    let wrong = || Wrong::new(format!("is {}, not {}", shown_item(item, kind), kind.name()));
    in_range(item, least, most).ok_or_else(wrong)
}

/// Returns a whole number; `None` if the item is not a whole number, or the number is not between the two bounds.
fn in_range(item: &Item, least: u64, most: u64) -> Option<u64> {
    let number = u64::try_from(item.as_integer()?).ok();
    number.filter(|number| (least..=most).contains(number))
}

fn wrong_type(item: &Item, kind: KeyKind) -> Wrong {
    let remedy = retyped(item.as_value(), kind);
    Wrong { remedy, ..Wrong::new(format!("is {}, not {}", article(item.type_name()), kind.name())) }
}

/// Returns the error for a list of texts that contains this value of another type.
fn no_text(value: &Value) -> Wrong {
    let remedy = retyped(Some(value), KeyKind::Text);
    let what = format!("has {} in it, not a text", article(value.type_name()));
    Wrong { remedy, ..Wrong::new(what) }
}

/// Returns the error for an entry of a table if the entry's value is not of this kind.
fn wrong_entry(name: &str, item: &Item, kind: KeyKind) -> Wrong {
    let (value, name) = (shown_item(item, kind), shown(name));
    let remedy = retyped(item.as_value(), kind);
    Wrong { remedy, ..Wrong::new(format!("has {value} under `{name}`, not {}", kind.name())) }
}

/// Returns the remedy for a value of the wrong type, if other quotes or brackets would make it valid.
fn retyped(value: Option<&Value>, kind: KeyKind) -> Option<String> {
    let remedy = match (kind, value?) {
        (KeyKind::Texts | KeyKind::Words(_), Value::String(_)) => {
            "write a list, e.g. `[\"one\", \"two\"]`"
        }
        (KeyKind::Text, Value::Integer(_) | Value::Float(_) | Value::Boolean(_)) => {
            "put it in quotes"
        }
        (KeyKind::Switch | KeyKind::Number(..), Value::String(_)) => "write it without quotes",
        _ => return None,
    };
    Some(remedy.to_owned())
}

/// Returns a description of a wrong item for a message: the number itself if the key needs a number, otherwise only the
/// type, because the value may be secret.
fn shown_item(item: &Item, kind: KeyKind) -> String {
    match (kind, item.as_integer()) {
        (KeyKind::Number(..), Some(number)) => number.to_string(),
        _ => article(item.type_name()),
    }
}

/// Returns an entry of a table as a pair of name and value. If one of them is invalid, returns the error with its
/// position.
fn entry<T>(name: &str, item: &Item, value: Result<T, Wrong>) -> Result<(String, T), Wrong> {
    let at = item.span().map(|span| span.start);
    value
        .and_then(|value| Ok((text(name)?, value)))
        .map_err(|wrong| Wrong { at: wrong.at.or(at), ..wrong })
}

/// Parses a duration: a number and `ms`, `s`, `m`, `h`, `d` or `w`.
///
/// ```
/// use std::time::Duration;
/// use mgp_discovery::parse_duration;
///
/// assert_eq!(parse_duration("90s"), Some(Duration::from_secs(90)));
/// assert_eq!(parse_duration("90"), None);
/// ```
///
/// Returns `None` for any other text, and for a duration of more than a hundred years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(ms)?;
    let hundred_years = 100 * 366 * 86_400_000;
    (ms <= hundred_years).then(|| Duration::from_millis(ms))
}

/// Parses a duration; zero is an error, because a time limit of zero would end every call immediately.
fn duration(text: &str) -> Result<Duration, Wrong> {
    let duration = parse_duration(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| Wrong {
        remedy: Some(
            "write a number and a unit, e.g. \"500ms\", \"90s\", \"10m\" or \"2h\"".to_owned(),
        ),
        ..Wrong::new(format!("has the value `{}`, which is not a duration", shown_duration(text)))
    })
}

/// Returns an invalid duration for use in a message. A short text that begins with a digit, e.g. `60 sec`, is shown
/// unchanged, any other by the rule of [`shown`].
fn shown_duration(text: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._-,".contains(c);
    let is_like_one = text.starts_with(|c: char| c.is_ascii_digit());
    if is_like_one && text.len() <= 16 && text.chars().all(plain) { text } else { shown(text) }
}

fn few(entries: usize) -> Result<(), Wrong> {
    if entries <= limits::MAX_ENTRIES {
        return Ok(());
    }
    Err(Wrong::new(format!("has {entries} entries; {} are possible", limits::MAX_ENTRIES)))
}

fn text(text: &str) -> Result<String, Wrong> {
    if text.len() > limits::MAX_TEXT_BYTES {
        return Err(Wrong::new(format!("is longer than {} bytes", limits::MAX_TEXT_BYTES)));
    }
    // Refuse NUL, which neither an argument of a program nor a variable nor a header can contain.
    if text.contains('\0') {
        return Err(Wrong::new("has a NUL in it"));
    }
    Ok(text.to_owned())
}

fn known<'a>(word: &str, words: &[&'a str]) -> Result<&'a str, Wrong> {
    // Accept `_` for `-`: §5.5 writes the names of policies with `_`, later revisions write them with `-`.
    let dashed = word.replace('_', "-");
    if let Some(found) = words.iter().find(|known| **known == word || **known == dashed) {
        return Ok(found);
    }
    let remedy = match nearest(word, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? known: {}", words.join(", ")),
        None => format!("known: {}", words.join(", ")),
    };
    let what = format!("is the unknown word `{}`", shown(word));
    Err(Wrong { remedy: Some(remedy), ..Wrong::new(what) })
}

/// Returns a word for use in a message; a long or unusual word is replaced, because it may be a secret that the user
/// wrote in the wrong key.
pub(super) fn shown(word: &str) -> &str {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if word.len() <= 32 && word.chars().all(plain) { word } else { "…" }
}

fn article(name: &str) -> String {
    match name.chars().next() {
        Some('a' | 'e' | 'i' | 'o' | 'u') => format!("an {name}"),
        _ => format!("a {name}"),
    }
}
