//! Adds servers to the text of a configuration, and preserves the user's formatting (MGP §15.2).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use mgp_types::is_hidden;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Key, Table, Value, value};

use super::Entry;

/// Adds a server at the end of the file; returns `false` if the file lists its servers in a form that cannot be
/// extended. `from`, which becomes a comment, must not contain line ends.
pub(super) fn add(document: &mut DocumentMut, id: &str, entry: &Entry, from: &str) -> bool {
    // If the file contains only comments, write the new table after them.
    let comments = if document.is_empty() {
        document.trailing().as_str().unwrap_or_default().to_owned()
    } else {
        String::new()
    };
    let servers = document.entry("servers").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let mut table = table(id, entry);
    if let Some(tables) = servers.as_array_of_tables_mut() {
        table.decor_mut().set_prefix(format!("{comments}\n# From {from}\n"));
        tables.push(table);
        if !comments.is_empty() {
            document.set_trailing("");
        }
        return true;
    }
    match servers.as_array_mut() {
        Some(array) => {
            array.push(Value::InlineTable(table.into_inline_table()));
            true
        }
        None => false,
    }
}

fn table(id: &str, entry: &Entry) -> Table {
    let mut table = Table::new();
    table.insert("id", value(id));
    let texts = [("command", &entry.command), ("url", &entry.url), ("cwd", &entry.cwd)];
    for (name, text) in texts {
        if let Some(text) = text {
            table.insert(name, value(escaped::<Value>(text)));
        }
    }
    if !entry.args.is_empty() {
        table.insert("args", value(array(&entry.args)));
    }
    for (name, word) in [("era", entry.era), ("transport", entry.transport)] {
        if let Some(word) = word {
            table.insert(name, value(word));
        }
    }
    if let Some(published) = &entry.published {
        table.insert("published", value(escaped::<Value>(published)));
    }
    for (name, time) in [("start_timeout", entry.start_timeout), ("timeout", entry.timeout)] {
        if let Some(time) = time {
            table.insert(name, value(duration(time)));
        }
    }
    if !entry.pass_env.is_empty() {
        table.insert("pass_env", value(array(&entry.pass_env)));
    }
    for (name, map) in [("env", &entry.env), ("headers", &entry.headers)] {
        if !map.is_empty() {
            table.insert(name, value(inline(map)));
        }
    }
    table
}

/// Returns a duration as `mgp.toml` writes it, in seconds or milliseconds.
pub(super) fn duration(time: Duration) -> String {
    let milliseconds = time.as_millis().max(1);
    match milliseconds % 1000 {
        0 => format!("{}s", milliseconds / 1000),
        _ => format!("{milliseconds}ms"),
    }
}

fn array(texts: &[String]) -> Array {
    texts.iter().map(|text| escaped::<Value>(text)).collect()
}

fn inline(map: &BTreeMap<String, String>) -> InlineTable {
    map.iter().map(|(name, text)| (escaped::<Key>(name), escaped::<Value>(text))).collect()
}

/// Returns a text as a value or key in which hidden characters are escaped, so that an editor shows them. `toml_edit`
/// itself escapes only the hidden characters of ASCII.
fn escaped<T: FromStr + for<'a> From<&'a str>>(text: &str) -> T {
    if !text.contains(|c: char| is_hidden(c) && !c.is_ascii()) {
        return text.into();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Ignore the result, because writing into a string cannot fail.
            c if is_hidden(c) => drop(write!(quoted, "\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted.parse().unwrap_or_else(|_| text.into())
}
