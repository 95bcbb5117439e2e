//! Arguments that would make a tool write although its name means reading.

use super::{
    commands,
    name::{Intent, intent, is_write},
    sql,
};
use crate::argument_values::{Leaf, key_words, leaves};
use serde_json::Value;

/// Words in the names of tools that run SQL.
const DATABASES: &[&str] = &[
    "sql",
    "db",
    "database",
    "postgres",
    "postgresql",
    "pg",
    "mysql",
    "mariadb",
    "sqlite",
    "query",
    "bigquery",
    "snowflake",
    "redshift",
    "duckdb",
    "clickhouse",
    "oracle",
    "mssql",
    "table",
    "warehouse",
    "athena",
    "cockroach",
];
const SQL_KEYS: &[&str] = &[
    "sql",
    "statement",
    "stmt",
    "sqlquery",
    "sqlstatement",
    "ddl",
    "dml",
    "sqltext",
    "sqlcommand",
    "rawsql",
    "sqls",
    "statements",
];
const COMMANDS: &[&str] =
    &["command", "cmd", "subcommand", "args", "argv", "commandline", "arguments"];
const ACTIONS: &[&str] = &[
    "action",
    "operation",
    "op",
    "verb",
    "actiontype",
    "operationtype",
    "mutationtype",
    "task",
    "act",
    "operationname",
];
const METHODS: &[&str] = &[
    "method",
    "httpmethod",
    "verb",
    "requestmethod",
    "xhttpmethodoverride",
    "xhttpmethod",
    "xmethodoverride",
    "methodoverride",
];
const MODES: &[&str] =
    &["mode", "openmode", "filemode", "flags", "flag", "access", "accessmode", "permissions"];
const OUTPUTS: &[&str] = &[
    "output",
    "out",
    "dest",
    "destination",
    "outfile",
    "saveto",
    "writeto",
    "target",
    "dumpto",
    "saveas",
    "save",
    "exportto",
    "downloadto",
];

/// Checks the arguments of a tool whose name means reading.
pub(super) fn check(tool: &str, arguments: &Value) -> Result<(), String> {
    let words = key_words(tool);
    let leaves = leaves(arguments)?;
    let requests =
        leaves.iter().any(|leaf| matches!(leaf.key(), "url" | "uri" | "endpoint" | "path"))
            || words.iter().any(|word| word == "http" || word == "request");
    for leaf in &leaves {
        of_leaf(&words, leaf, requests).map_err(|why| format!("`{}`: {why}", leaf.path))?;
        if requests && leaf.value.as_str().is_some_and(overrides_method) {
            return Err(format!(
                "`{}`: a parameter of the URL sets a method that writes",
                leaf.path
            ));
        }
    }
    lists(&words, arguments, 0)
}

fn of_leaf(tool: &[String], leaf: &Leaf<'_>, requests: bool) -> Result<(), String> {
    if let Some(key) = leaf.keys.iter().find(|key| {
        matches!(**key, "$out" | "$merge" | "$function" | "$accumulator" | "$where" | "$eval")
    }) {
        return Err(format!("the stage `{key}` writes or executes"));
    }
    let key = key_words(leaf.key());
    let joined = key.concat();
    let Value::String(text) = leaf.value else {
        let set = *leaf.value == Value::Bool(true) && writes_when_set(&key);
        return if set { Err("this option writes".to_owned()) } else { Ok(()) };
    };
    let is = |names: &[&str]| names.contains(&joined.as_str());
    let graph = tool.iter().any(|word| matches!(word.as_str(), "graphql" | "gql"))
        || joined.contains("graphql")
        || joined.contains("gql");
    if is(METHODS) && writes_method(text, requests) {
        return Err(format!("the method `{text}` writes"));
    }
    if joined == "mutation"
        || (graph || joined == "query" && text.trim_start().starts_with("mutation"))
            && mutates(text)
    {
        return Err("a GraphQL operation that is not a query".to_owned());
    }
    let database = !graph && tool.iter().any(|word| DATABASES.contains(&word.as_str()));
    if is(SQL_KEYS)
        || database
            && matches!(
                joined.as_str(),
                "query" | "queries" | "q" | "text" | "script" | "command" | "input"
            )
            && looks_like_sql(text)
    {
        return sql::check(text);
    }
    if in_graph_language(tool, &joined) {
        return clauses(text);
    }
    if is(MODES) && writes_mode(text) {
        return Err(format!("the mode `{text}` writes"));
    }
    written_file(&key, text)?;
    if is(ACTIONS)
        && let Intent::Write(word) = intent(text)
    {
        return Err(format!("the action `{word}` writes"));
    }
    if is(COMMANDS)
        && leaf.value.is_string()
        && !text.trim().is_empty()
        && !matches!(joined.as_str(), "args" | "argv" | "arguments")
    {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        return commands::check(tool, &words);
    }
    Ok(())
}

/// Returns whether a parameter such as `_method=DELETE` of a URL makes a server handle a request as one that writes.
fn overrides_method(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.match_indices("_method=").any(|(at, name)| {
        // Each of these marks also ends the value before it, so that no part of the text is read twice.
        lower[..at].ends_with(['?', '&', ';']) && {
            let mut rest = lower[at + name.len()..].split(['?', '&', ';', '#']);
            writes_method(rest.next().unwrap_or_default(), true)
        }
    })
}

/// Returns whether an argument is a statement in a graph query language, by its name or by that of the tool.
fn in_graph_language(tool: &[String], key: &str) -> bool {
    let is_one = |word: &str| {
        matches!(word, "cypher" | "sparql" | "aql" | "flux" | "kql" | "neo4j" | "memgraph")
    };
    is_one(key)
        || matches!(key, "query" | "q" | "statement") && tool.iter().any(|word| is_one(word))
}

/// Returns whether an option with this name means writing when it is `true`.
fn writes_when_set(key: &[String]) -> bool {
    let harmless = |word: &str| matches!(word, "open" | "sort" | "type" | "follow" | "mark");
    key.first().is_some_and(|word| is_write(word) && !harmless(word))
        || matches!(key.concat().as_str(), "inplace" | "overwrite" | "force")
}

/// Returns whether an HTTP method writes. If the call sends a request (`requests`), an unknown method counts as
/// writing.
fn writes_method(text: &str, requests: bool) -> bool {
    let upper = text.trim().to_ascii_uppercase();
    let reads = matches!(
        upper.as_str(),
        "GET" | "HEAD" | "OPTIONS" | "PROPFIND" | "REPORT" | "SEARCH" | "TRACE"
    );
    let writes = matches!(
        upper.as_str(),
        "POST"
            | "PUT"
            | "PATCH"
            | "DELETE"
            | "CONNECT"
            | "MOVE"
            | "COPY"
            | "MKCOL"
            | "PURGE"
            | "LOCK"
            | "UNLOCK"
            | "PROPPATCH"
    );
    // A method of a tool, e.g. `get_diff` of `pull_request_read`, is not one of HTTP.
    writes || requests && !reads && !matches!(intent(text), Intent::Read)
}

/// Refuses an argument that names a file to be written.
fn written_file(key: &[String], text: &str) -> Result<(), String> {
    let joined = key.concat();
    let place = key.last().is_some_and(|word| {
        matches!(word.as_str(), "path" | "file" | "filename" | "dir" | "directory" | "folder")
    });
    let written = key.iter().any(|word| {
        matches!(
            word.as_str(),
            "output"
                | "out"
                | "dest"
                | "destination"
                | "save"
                | "write"
                | "export"
                | "download"
                | "dump"
                | "log"
                | "target"
        )
    });
    let path_like = text.contains('/') && !text.contains("://")
        || text.rsplit_once('.').is_some_and(|(start, end)| {
            !start.is_empty()
                && (1..=5).contains(&end.len())
                && end.bytes().all(|b| b.is_ascii_alphanumeric())
                && !text.contains(' ')
        });
    if !text.is_empty()
        && (place && written
            || OUTPUTS.contains(&joined.as_str()) && path_like
            || matches!(joined.as_str(), "outfile" | "saveto" | "writeto" | "saveas"))
    {
        return Err("the argument names a file that is written".to_owned());
    }
    Ok(())
}

/// Checks lists of arguments, and objects that are commands for a document database.
fn lists(tool: &[String], value: &Value, depth: usize) -> Result<(), String> {
    let Value::Object(members) = value else {
        return match value {
            Value::Array(items) if depth < 64 => {
                items.iter().try_for_each(|item| lists(tool, item, depth + 1))
            }
            _ => Ok(()),
        };
    };
    for (key, value) in members {
        let joined = key_words(key).concat();
        match value {
            Value::Array(items) if COMMANDS.contains(&joined.as_str()) => {
                let words: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                commands::check(
                    tool,
                    &words.ok_or_else(|| format!("`{key}` has an item that is not text"))?,
                )?;
            }
            Value::String(text) if matches!(joined.as_str(), "args" | "argv" | "arguments") => {
                let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                commands::check(tool, &words)?;
            }
            Value::Object(document)
                if COMMANDS.contains(&joined.as_str()) || ACTIONS.contains(&joined.as_str()) =>
            {
                if let Some(verb) =
                    document.keys().find(|verb| key_words(verb).iter().any(|word| is_write(word)))
                {
                    return Err(format!("`{key}`: the command `{verb}` writes"));
                }
            }
            _ => {}
        }
        if depth < 64 {
            lists(tool, value, depth + 1)?;
        }
    }
    Ok(())
}

/// Returns whether a GraphQL document has an operation other than a query.
fn mutates(text: &str) -> bool {
    let (mut depth, mut word, mut chars) = (0usize, String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '#' => while chars.next_if(|&c| c != '\n').is_some() {},
            '"' => while chars.next().is_some_and(|c| c != '"') {},
            '{' | '(' => depth += 1,
            '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
        } else {
            word.clear();
        }
        let ends = !chars.peek().is_some_and(|next| next.is_alphanumeric() || *next == '_');
        if depth == 0 && ends && matches!(word.as_str(), "mutation" | "subscription") {
            return true;
        }
    }
    false
}

fn looks_like_sql(text: &str) -> bool {
    let first: String = text
        .trim_start_matches(|c: char| !c.is_alphabetic())
        .chars()
        .take_while(|c| c.is_alphabetic())
        .collect();
    let comment = text.trim_start().starts_with("/*") || text.trim_start().starts_with("--");
    let starts = [
        "select", "with", "insert", "update", "delete", "drop", "alter", "create", "truncate",
        "merge", "replace", "grant", "revoke", "copy", "call", "exec", "execute", "vacuum",
        "attach", "pragma", "set", "do", "begin", "lock", "explain", "show", "reindex", "rename",
        "use", "load", "upsert", "detach",
    ];
    let first = first.to_lowercase();
    // Without these, an `UPDATE` is a search such as `update state` for documentation.
    let is_search = first == "update"
        && !text.contains(['=', ';'])
        && !text.to_lowercase().contains("statistics");
    comment
        || starts.contains(&first.as_str())
            && text.trim().contains(char::is_whitespace)
            && !is_search
}

/// Refuses a text in a graph query language that has a clause which writes.
fn clauses(text: &str) -> Result<(), String> {
    let mut open = None;
    let plain: String = text
        .chars()
        .map(|c| match open {
            Some(quote) => {
                if c == quote {
                    open = None;
                }
                ' '
            }
            None if matches!(c, '"' | '\'' | '`') => {
                open = Some(c);
                ' '
            }
            None => c.to_ascii_uppercase(),
        })
        .collect();
    let writes = [
        "CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "DROP", "CALL", "LOAD", "INSERT",
        "CLEAR", "MOVE", "COPY", "ADD", "UPDATE", "REPLACE", "UPSERT", "FOREACH", "TO",
    ];
    match plain.split(|c: char| !c.is_alphanumeric() && c != '_').find(|word| writes.contains(word))
    {
        Some(word) => Err(format!("the clause `{word}` writes")),
        None => Ok(()),
    }
}

fn writes_mode(text: &str) -> bool {
    let lower = text.trim().to_ascii_lowercase();
    let letters = !lower.is_empty()
        && lower.len() <= 4
        && lower.bytes().all(|b| b"rwaxbt+u".contains(&b))
        && lower.bytes().any(|b| b"wax+".contains(&b));
    let words = key_words(text);
    letters
        || words.iter().any(|word| {
            is_write(word)
                || matches!(
                    word.as_str(),
                    "wronly" | "rdwr" | "creat" | "trunc" | "excl" | "rw" | "readwrite"
                )
        })
        || lower.contains("read-write")
}
