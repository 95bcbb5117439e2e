//! Adds servers to the text of a configuration, and preserves the user's formatting (MGP §15.2).

use std::collections::BTreeMap;
use std::time::Duration;

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use super::Entry;

/// Adds a server at the end of the file; returns `false` if the file lists its servers in a form that cannot be
/// extended.
pub(super) fn add(document: &mut DocumentMut, id: &str, entry: &Entry, from: &str) -> bool {
    // If the file contains only comments, the new table follows them.
    let comments = if document.is_empty() {
        document.trailing().as_str().unwrap_or_default().to_owned()
    } else {
        String::new()
    };
    let servers = document.entry("servers").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    let mut table = table(id, entry);
    if let Some(tables) = servers.as_array_of_tables_mut() {
        let line: String = from.chars().filter(|c| !c.is_control()).collect();
        table.decor_mut().set_prefix(format!("{comments}\n# From {line}\n"));
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
            table.insert(name, value(text));
        }
    }
    if !entry.args.is_empty() {
        table.insert("args", value(entry.args.iter().collect::<Array>()));
    }
    for (name, word) in [("era", entry.era), ("transport", entry.transport)] {
        if let Some(word) = word {
            table.insert(name, value(word));
        }
    }
    if let Some(published) = &entry.published {
        table.insert("published", value(published));
    }
    for (name, time) in [("start_timeout", entry.start_timeout), ("timeout", entry.timeout)] {
        if let Some(time) = time {
            table.insert(name, value(duration(time)));
        }
    }
    if !entry.pass_env.is_empty() {
        table.insert("pass_env", value(entry.pass_env.iter().collect::<Array>()));
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

fn inline(map: &BTreeMap<String, String>) -> InlineTable {
    map.iter().map(|(name, text)| (name.as_str(), Value::from(text))).collect()
}
