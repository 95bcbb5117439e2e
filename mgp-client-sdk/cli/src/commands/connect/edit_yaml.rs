//! Edits single members in the YAML file of a host and keeps every other byte.
//!
//! No library edits YAML and keeps its formatting. So these functions add and remove whole lines of a mapping in block
//! style. Then they parse the result, and refuse an edit that would change anything else.

use std::ops::Range;

use serde_json::{Map, Value};

use super::syntax;

/// Returns the members of the file or of a mapping at its top level, with their values as JSON.
pub(super) fn members(text: &str, path: &[String]) -> Result<Vec<(String, String)>, String> {
    let root = parse(text)?;
    let own = if path.is_empty() {
        Some(root.as_object().ok_or("it is not a mapping")?)
    } else {
        table(&root, path)?
    };
    let Some(own) = own else { return Ok(Vec::new()) };
    Ok(own.iter().map(|(name, value)| (name.clone(), value.to_string())).collect())
}

/// Sets a member of a mapping at the top level to a value, given as JSON; returns the new text.
pub(super) fn put(text: &str, path: &[String], name: &str, entry: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(entry).map_err(|error| error.to_string())?;
    let without = remove(text, path, name)?.map_or_else(|| text.to_owned(), |(rest, _)| rest);
    let key = key(path)?;
    let indent = Block::find(&without, key)?.map_or(2, |block| block.indent);
    let mut lines = String::new();
    write_member(&mut lines, indent, name, &value);
    let lines = lines.replace('\n', syntax::line_end(text));
    let after = insert_lines(&without, key, &lines)?;
    checked(text, after, key, |table| {
        table.insert(name.to_owned(), value);
    })
}

/// Puts back the lines that [`remove`] has removed; returns the new text.
pub(super) fn insert(
    text: &str,
    path: &[String],
    name: &str,
    removed: &str,
) -> Result<Option<String>, String> {
    let key = key(path)?;
    let root = parse(&format!("{key}:\n{removed}"))?;
    let value = table(&root, path)?.and_then(|table| table.get(name)).cloned();
    let value = value.ok_or_else(|| format!("the stored text of `{name}` is damaged"))?;
    let after = insert_lines(text, key, removed)?;
    let insert = |table: &mut Map<String, Value>| {
        table.insert(name.to_owned(), value);
    };
    checked(text, after, key, insert).map(Some)
}

/// Removes a member of a mapping. Returns the new text and the removed lines; `None` if the member is missing.
pub(super) fn remove(
    text: &str,
    path: &[String],
    name: &str,
) -> Result<Option<(String, String)>, String> {
    let key = key(path)?;
    if table(&parse(text)?, path)?.is_none_or(|table| !table.contains_key(name)) {
        return Ok(None);
    }
    let block = Block::find(text, key)?.ok_or_else(|| other_style(key))?;
    let lines = block.members.iter().find(|member| member.0 == name);
    let lines = lines.ok_or_else(|| other_style(key))?.1.clone();
    let removed = text[lines.clone()].to_owned();
    let rest = if block.members.len() == 1 {
        // Leave an empty mapping (`{}`), because a key without a value would not be a mapping.
        let line = line_end(text, block.header.start);
        format!(
            "{}{key}: {{}}{}{}{}",
            &text[..block.header.start],
            syntax::line_end(text),
            &text[line..lines.start],
            &text[lines.end..]
        )
    } else {
        format!("{}{}", &text[..lines.start], &text[lines.end..])
    };
    let rest = checked(text, rest, key, |table| {
        table.remove(name);
    })?;
    Ok(Some((rest, removed)))
}

struct Block {
    /// The range of the line that contains the key of the mapping.
    header: Range<usize>,
    /// The names of the mapping's members, with the ranges of their lines.
    members: Vec<(String, Range<usize>)>,
    indent: usize,
}

impl Block {
    /// Finds the mapping of a key at the top level; `None` if the file has no such key, or the mapping is empty.
    fn find(text: &str, key: &str) -> Result<Option<Self>, String> {
        let mut found: Option<Self> = None;
        for line in lines(text) {
            let content = text[line.clone()].trim_end();
            let indent = content.len() - content.trim_start_matches(' ').len();
            let is_blank = content.trim_start().is_empty() || content.trim_start().starts_with('#');
            let Some(block) = &mut found else {
                if indent == 0 && !is_blank && name_of(content).as_deref() == Some(key) {
                    found = Some(Self { header: line, members: Vec::new(), indent: 0 });
                }
                continue;
            };
            if is_blank {
                continue;
            }
            if indent == 0 {
                break;
            }
            if block.indent == 0 {
                block.indent = indent;
            }
            if indent == block.indent {
                let name = name_of(content.trim_start()).ok_or_else(|| other_style(key))?;
                block.members.push((name, line.clone()));
            }
            if let Some((_, lines)) = block.members.last_mut() {
                lines.end = line.end;
            }
        }
        Ok(found.filter(|block| !block.members.is_empty()))
    }
}

/// Adds lines at the end of a mapping, which is created if it is missing or empty.
fn insert_lines(text: &str, key: &str, new: &str) -> Result<String, String> {
    let line_end = syntax::line_end(text);
    if let Some(block) = Block::find(text, key)? {
        let end = block.members.last().map_or(block.header.end, |(_, lines)| lines.end);
        let gap = if text[..end].ends_with('\n') { "" } else { line_end };
        return Ok(format!("{}{gap}{new}{}", &text[..end], &text[end..]));
    }
    let header =
        lines(text).find(|line| name_of(text[line.clone()].trim_end()).as_deref() == Some(key));
    if let Some(header) = header {
        let (before, after) = (&text[..header.start], &text[header.end..]);
        return Ok(format!("{before}{key}:{line_end}{new}{after}"));
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { line_end };
    Ok(format!("{text}{gap}{key}:{line_end}{new}"))
}

/// Returns the edited text `after`, after checking that it differs from `before` only by what `edit` changes in the
/// mapping.
fn checked(
    before: &str,
    after: String,
    key: &str,
    edit: impl FnOnce(&mut Map<String, Value>),
) -> Result<String, String> {
    let mut expected = parse(before)?;
    let root = expected.as_object_mut().ok_or("it is not a mapping")?;
    let table = root.entry(key).or_insert_with(|| Map::new().into());
    if table.is_null() {
        *table = Map::new().into();
    }
    edit(table.as_object_mut().ok_or_else(|| other_style(key))?);
    match parse(&after) {
        Ok(result) if result == expected => Ok(after),
        _ => Err(other_style(key)),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Map::new().into());
    }
    // Drop the parser's error text: it can quote values of the file, which might be secret.
    let options = serde_saphyr::options! { strict_booleans: true };
    let root: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|_| "it is not YAML".to_owned())?;
    Ok(if root.is_null() { Map::new().into() } else { root })
}

fn table<'a>(root: &'a Value, path: &[String]) -> Result<Option<&'a Map<String, Value>>, String> {
    let key = key(path)?;
    let root = root.as_object().ok_or("it is not a mapping")?;
    match root.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(table) => {
            table.as_object().map(Some).ok_or_else(|| format!("its `{key}` is not a mapping"))
        }
    }
}

fn key(path: &[String]) -> Result<&str, String> {
    match path {
        [key] => Ok(key),
        _ => Err("its servers are not at the top level".to_owned()),
    }
}

fn other_style(key: &str) -> String {
    format!(
        "its `{key}` is not written as a mapping with one line for each name; change it by hand"
    )
}

fn name_of(line: &str) -> Option<String> {
    let (name, rest) = match line.chars().next()? {
        quote @ ('"' | '\'') => {
            let end = line[1..].find(quote)? + 2;
            line.split_at(end)
        }
        _ => line.split_at(line.find(':')?),
    };
    let rest = rest.trim_start().strip_prefix(':')?;
    let is_key = rest.is_empty() || rest.starts_with([' ', '\t']);
    serde_saphyr::from_str::<String>(name).ok().filter(|_| is_key)
}

fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut begin = 0;
    text.split_inclusive('\n').map(move |line| {
        let range = begin..begin + line.len();
        begin = range.end;
        range
    })
}

fn line_end(text: &str, begin: usize) -> usize {
    text[begin..].find('\n').map_or(text.len(), |at| begin + at + 1)
}

/// Writes a member in block style. Texts are quoted as in JSON, which YAML accepts.
fn write_member(out: &mut String, indent: usize, name: &str, value: &Value) {
    let margin = " ".repeat(indent);
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        && name.starts_with(|first: char| first.is_ascii_alphabetic());
    let name = if is_plain { name.to_owned() } else { Value::from(name).to_string() };
    match value {
        Value::Object(members) if !members.is_empty() => {
            out.extend([&margin, &name, ":\n"]);
            for (name, value) in members {
                write_member(out, indent + 2, name, value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            out.extend([&margin, &name, ":\n"]);
            for item in items {
                out.extend([&margin, "- ", &item.to_string(), "\n"]);
            }
        }
        value => out.extend([&margin, &name, ": ", &value.to_string(), "\n"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "GOOSE_MODEL: o # the best\nextensions:\n  # of goose\n  developer:\n    enabled: true\n    type: builtin\n\n  'my files': # notes\n    cmd: npx\n    args:\n    - -y\n    - files\n\n# keys\nOTHER: 1\n";

    fn path() -> Vec<String> {
        vec!["extensions".to_owned()]
    }

    fn names(text: &str) -> Vec<String> {
        members(text, &path()).unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn a_member_is_added_and_removed_and_every_other_byte_is_kept() {
        let entry = r#"{"cmd": "/bin/mgp", "args": ["serve", "--stdio"], "envs": {}}"#;
        let with = put(FILE, &path(), "mgp", entry).unwrap();
        let lines = "    - files\n  mgp:\n    args:\n    - \"serve\"\n    - \"--stdio\"\n    cmd: \"/bin/mgp\"\n    envs: {}\n\n# keys\n";
        assert!(with.contains(lines), "{with}");
        assert_eq!(names(&with), ["developer", "mgp", "my files"]);
        let changed = put(&with, &path(), "mgp", r#"{"cmd": "m"}"#).unwrap();
        assert_eq!(names(&changed).len(), 3);
        let (without, removed) = remove(&with, &path(), "mgp").unwrap().unwrap();
        assert_eq!(without, FILE);
        assert_eq!(insert(&without, &path(), "mgp", &removed).unwrap().unwrap(), with);
        assert!(remove(FILE, &path(), "other").unwrap().is_none());
        let top: Vec<_> = members(FILE, &[]).unwrap().into_iter().map(|one| one.0).collect();
        assert_eq!(top, ["GOOSE_MODEL", "OTHER", "extensions"]);
    }

    #[test]
    fn a_member_gets_the_line_ends_of_its_file() {
        for text in
            [FILE, "extensions:\n  own:\n    cmd: own\n", "extensions: {}\nA: 1\n", "A: 1\n"]
        {
            let with = put(text, &path(), "mgp", r#"{"args": ["serve"]}"#).unwrap();
            let text = text.replace('\n', "\r\n");
            let with_returns = put(&text, &path(), "mgp", r#"{"args": ["serve"]}"#).unwrap();
            assert_eq!(with_returns, with.replace('\n', "\r\n"));
            let (without, _) = remove(&with_returns, &path(), "mgp").unwrap().unwrap();
            assert_eq!(without.matches('\n').count(), without.matches("\r\n").count());
        }
    }

    #[test]
    fn words_that_are_booleans_in_yaml_1_1_only_are_texts() {
        let text = "extensions:\n  own:\n    args: [y, no]\n    enabled: true\n";
        let own = r#"{"args":["y","no"],"enabled":true}"#;
        assert_eq!(members(text, &path()).unwrap(), [("own".to_owned(), own.to_owned())]);
    }

    #[test]
    fn a_missing_or_empty_mapping_is_created() {
        let entry = r#"{"cmd": "m"}"#;
        let block = "extensions:\n  mgp:\n    cmd: \"m\"\n";
        for (text, expected) in [
            ("", block.to_owned()),
            ("extensions: {}\n", block.to_owned()),
            ("extensions:\nA: 1\n", format!("{block}A: 1\n")),
            ("A: 1", format!("A: 1\n{block}")),
        ] {
            assert_eq!(put(text, &path(), "mgp", entry).unwrap(), expected, "{text}");
        }
        let (without, removed) =
            remove(&format!("{block}A: 1\n"), &path(), "mgp").unwrap().unwrap();
        assert_eq!(without, "extensions: {}\nA: 1\n");
        let again = insert(&without, &path(), "mgp", &removed).unwrap().unwrap();
        assert_eq!(again, format!("{block}A: 1\n"));
    }

    #[test]
    fn a_file_in_another_style_is_refused_and_not_broken() {
        for text in [
            "extensions: {developer: {enabled: true}}\n",
            "extensions: [1]\n",
            "- 1\n",
            "extensions: 1\n",
            "a: [\n",
            "text: |\n  a\nextensions\n",
            "---\nextensions:\n  a: 1\n---\nb: 1\n",
        ] {
            let after = put(text, &path(), "mgp", r#"{"cmd": "m"}"#);
            assert!(after.is_err(), "{text}: {after:?}");
        }
        let text = "note: |\n  extensions:\n    no: 1\nextensions:\n    b: {c: 1}\n";
        let after = put(text, &path(), "mgp", r#"{"cmd": "m"}"#).unwrap();
        assert_eq!(after, format!("{text}    mgp:\n      cmd: \"m\"\n"));
    }
}
