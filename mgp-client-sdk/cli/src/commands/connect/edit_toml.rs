//! Edits single tables in the TOML file of a host and keeps every other byte.

use mgp_discovery::keep_line_ends;
use mgp_types::Extras;
use serde_json::Value as Json;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value, value};

pub(super) fn members(text: &str, path: &[String]) -> Result<Vec<(String, String)>, String> {
    let document = parse(text)?;
    let Some(table) = find(document.as_table(), path)? else { return Ok(Vec::new()) };
    let own = table.iter().map(|(name, item)| (name.to_owned(), to_json(item).to_string()));
    Ok(own.collect())
}

pub(super) fn put(text: &str, path: &[String], name: &str, entry: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let entry: Extras = serde_json::from_str(entry).map_err(|error| error.to_string())?;
    let mut own = Table::new();
    if !text.trim().is_empty() {
        own.decor_mut().set_prefix("\n");
    }
    for (name, member) in entry.iter() {
        let member = serde_json::from_str(member.as_str()).map_err(|error| error.to_string())?;
        own.insert(name, value(of_json(&member)));
    }
    table_or_new(&mut document, path)?.insert(name, Item::Table(own));
    Ok(keep_line_ends(text, &document.to_string()))
}

pub(super) fn insert(
    text: &str,
    path: &[String],
    name: &str,
    removed: &str,
) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let item = table_or_new(&mut parse(removed)?, path)?.remove(name);
    let item = item.ok_or_else(|| format!("the stored text of `{name}` is damaged"))?;
    table_or_new(&mut document, path)?.insert(name, item);
    Ok(Some(keep_line_ends(text, &document.to_string())))
}

pub(super) fn remove(
    text: &str,
    path: &[String],
    name: &str,
) -> Result<Option<(String, String)>, String> {
    let mut document = parse(text)?;
    let Some(item) = table_or_new(&mut document, path)?.remove(name) else { return Ok(None) };
    // Return the removed table as the second text: a document that contains only this table, at the same path.
    let mut removed = DocumentMut::new();
    table_or_new(&mut removed, path)?.insert(name, item);
    Ok(Some((keep_line_ends(text, &document.to_string()), removed.to_string())))
}

/// Returns the table at a path; a missing table is created without a header of its own.
fn table_or_new<'a>(
    document: &'a mut DocumentMut,
    path: &[String],
) -> Result<&'a mut dyn TableLike, String> {
    let mut table = document.as_table_mut() as &mut dyn TableLike;
    for key in path {
        let mut empty = Table::new();
        empty.set_implicit(true);
        let item = table.entry(key).or_insert(Item::Table(empty));
        table = item.as_table_like_mut().ok_or_else(|| format!("its `{key}` is not a table"))?;
    }
    Ok(table)
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    // Drop the parser's error text: it can quote values of the file, which might be secret.
    text.parse().map_err(|error: TomlError| {
        let before = error.span().and_then(|span| text.get(..span.start));
        format!("it is not TOML at line {}", before.unwrap_or_default().split('\n').count())
    })
}

fn find<'a>(root: &'a Table, path: &[String]) -> Result<Option<&'a dyn TableLike>, String> {
    let mut table = root as &dyn TableLike;
    for key in path {
        let Some(item) = table.get(key) else { return Ok(None) };
        table = item.as_table_like().ok_or_else(|| format!("its `{key}` is not a table"))?;
    }
    Ok(Some(table))
}

fn of_json(json: &Json) -> Value {
    match json {
        Json::Array(list) => list.iter().map(of_json).collect::<Array>().into(),
        Json::Object(members) => members
            .iter()
            .map(|(name, member)| (name.as_str(), of_json(member)))
            .collect::<InlineTable>()
            .into(),
        Json::Bool(flag) => (*flag).into(),
        Json::String(text) => text.as_str().into(),
        Json::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().unwrap_or_default().into(),
        },
        Json::Null => "".into(),
    }
}

fn to_json(item: &Item) -> Json {
    if let Some(table) = item.as_table_like() {
        return table.iter().map(|(name, item)| (name.to_owned(), to_json(item))).collect();
    }
    match item.as_value() {
        Some(Value::Array(list)) => {
            list.iter().map(|value| to_json(&Item::Value(value.clone()))).collect()
        }
        Some(Value::String(text)) => text.value().as_str().into(),
        Some(Value::Boolean(flag)) => (*flag.value()).into(),
        Some(Value::Integer(number)) => (*number.value()).into(),
        Some(Value::Float(number)) => (*number.value()).into(),
        // Represent a value of any other type, i.e. a date, by its TOML text.
        _ => item.to_string().trim().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\nmodel = \"o\" # the best\n\n[mcp_servers.files] # notes\ncommand = 'npx'\nargs = [\"-y\",\n  \"files\"]\n\n[mcp_servers.files.env]\nA = '1'\n\n[tools]\nweb = true\n";

    fn servers() -> Vec<String> {
        vec!["mcp_servers".to_owned()]
    }

    #[test]
    fn the_members_of_a_table_keep_their_types() {
        let entry = r#"{"command":"a","env":{"A":"b"},"limit":20,"rest":2.5}"#;
        let text = put("", &servers(), "own", entry).unwrap();
        assert!(text.contains("limit = 20\nrest = 2.5\n"), "{text}");
        assert_eq!(members(&text, &servers()).unwrap(), [("own".to_owned(), entry.to_owned())]);
    }

    #[test]
    fn a_table_is_added_and_removed_and_every_other_byte_is_kept() {
        let entry = r#"{"command": "/bin/mgp", "args": ["serve", "--stdio"]}"#;
        let with = put(FILE, &servers(), "mgp", entry).unwrap();
        assert!(
            with.contains(
                "[mcp_servers.mgp]\ncommand = \"/bin/mgp\"\nargs = [\"serve\", \"--stdio\"]\n"
            ),
            "{with}"
        );
        let names: Vec<_> =
            members(&with, &servers()).unwrap().into_iter().map(|one| one.0).collect();
        assert_eq!(names, ["files", "mgp"]);
        let (without, removed) = remove(&with, &servers(), "mgp").unwrap().unwrap();
        assert_eq!(without, FILE);
        assert!(removed.contains("/bin/mgp"));
        let returns = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(put(&returns(FILE), &servers(), "mgp", entry).unwrap(), returns(&with));
        let (without, _) = remove(&returns(&with), &servers(), "mgp").unwrap().unwrap();
        assert_eq!(without, returns(FILE));
        assert_eq!(
            put("", &servers(), "mgp", r#"{"command": "m"}"#).unwrap(),
            "[mcp_servers.mgp]\ncommand = \"m\"\n"
        );
    }

    #[test]
    fn a_removed_table_is_put_back_with_its_comments() {
        let (without, removed) = remove(FILE, &servers(), "files").unwrap().unwrap();
        assert!(!without.contains("npx") && without.contains("# the best"), "{without}");
        // The removal of the last server also removed the table of servers, which has no header of its own. So this
        // call must create the table again.
        let again = insert(&without, &servers(), "files", &removed).unwrap().unwrap();
        assert!(
            again.contains("[mcp_servers.files] # notes") && again.contains("A = '1'"),
            "{again}"
        );
        assert!(remove(FILE, &servers(), "other").unwrap().is_none());
        assert!(put("mcp_servers = 1", &servers(), "mgp", "{}").is_err());
        assert!(members("= 1", &servers()).is_err());
    }
}
