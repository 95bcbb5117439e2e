//! Statements in query languages that arguments contain: SQL, GraphQL, Cypher, and the shell of MongoDB.

use super::{name::is_write, sql};
use crate::argument_values::{key_words, leaves};
use crate::words::Words;
use serde_json::Value;

/// Words in the names of tools that run SQL.
static DATABASES: Words = Words::new(
    "\
    sql db database postgres postgresql pg mysql mariadb sqlite query bigquery snowflake redshift \
    duckdb clickhouse oracle mssql table warehouse athena cockroach",
);
/// Keys of arguments that contain SQL, regardless of the tool's name.
static SQL_KEYS: Words = Words::new(
    "\
    sql statement stmt sqlquery sqlstatement ddl dml sqltext sqlcommand rawsql sqls statements",
);
/// Keys of arguments of tools for databases that contain a statement.
static QUERY_KEYS: Words = Words::new("query queries q text script command input");
/// Words in the name of a tool that executes a statement, in addition to the words for databases.
static PLAIN: Words =
    Words::new("raw read readonly only select statement statements queries custom");
/// Words that end the name of a tool that executes statements, whatever precedes them.
static LANGUAGES: Words = Words::new("sql query graphql gql");
/// Keys of arguments that contain values for the parameters of a statement, or texts for people.
static VALUE_KEYS: Words = Words::new(
    "\
    params parameters bindings binds values variables description explanation reason purpose title \
    name",
);
/// Stages and operators of MongoDB that write or execute.
const MONGO: [&str; 6] = ["$out", "$merge", "$where", "$function", "$accumulator", "$eval"];

/// Methods of the shell of MongoDB that only read.
static METHODS: Words = Words::new(
    "\
    find findOne count countDocuments estimatedDocumentCount distinct aggregate explain sort limit skip \
    toArray projection project pretty hint collation maxTimeMS batchSize comment size itcount hasNext \
    next min max returnKey showRecordId readConcern readPref allowDiskUse getCollection collection \
    getCollectionNames getCollectionInfos listCollections getSiblingDB getName getIndexes getIndices \
    indexes listIndexes stats dataSize storageSize totalSize totalIndexSize isCapped latencyStats \
    serverStatus serverBuildInfo hostInfo version hello isMaster currentOp getUsers getUser getRoles \
    getRole getShardDistribution",
);
/// Functions of the shell of MongoDB that create a value.
static VALUES: Words = Words::new(
    "ObjectId ISODate Date NumberLong NumberInt NumberDecimal UUID RegExp Timestamp BinData",
);

/// Returns whether the tool's name contains a word for databases.
pub(super) fn is_database(tool: &[String]) -> bool {
    tool.iter().any(|word| DATABASES.has(word))
}

/// Returns whether an argument is an SQL statement. The argument's key, its text, and whether the tool is for databases
/// decide.
pub(super) fn is_sql(key: &str, database: bool, text: &str) -> bool {
    SQL_KEYS.has(key) || database && QUERY_KEYS.has(key) && looks_like_sql(text)
}

/// Returns whether the name of a tool means only that it executes statements, e.g. `execute_sql`, and the statements
/// in its arguments only read.
pub(super) fn runs_queries(tool: &str, definition: &Value, arguments: &Value) -> bool {
    let words = key_words(tool);
    let executes = |word: &String| matches!(word.as_str(), "execute" | "exec" | "run");
    let Some(at) = words.iter().position(executes) else { return false };
    let (before, after) = (&words[..at], &words[at + 1..]);
    let names_database = |word: &String| DATABASES.has(word);
    let is_named = match after {
        [] => before.last().is_some_and(names_database),
        after => {
            after.iter().any(names_database)
                && after.iter().all(|word| DATABASES.has(word) || PLAIN.has(word))
        }
    };
    is_named
        && !before.iter().any(|word| is_write(word))
        && only_reads(&words, definition, arguments)
}

/// Returns whether the name of a tool without a verb means that it executes statements, e.g. `postgres`, and the
/// statements in its arguments only read.
pub(super) fn is_query(tool: &str, definition: &Value, arguments: &Value) -> bool {
    let words = key_words(tool);
    let Some(last) = words.last() else { return false };
    // Without this condition, a statement that the server ignores would admit any tool with a word for databases in its
    // name.
    let is_named = LANGUAGES.has(last)
        || last == "aggregate"
        || words.iter().all(|word| DATABASES.has(word) || PLAIN.has(word) || LANGUAGES.has(word));
    is_named && only_reads(&words, definition, arguments)
}

/// Returns whether the arguments of a tool for databases or GraphQL have at least one statement, and all statements
/// only read. The operators in the stages of a pipeline are not checked here, but together with all other arguments.
fn only_reads(tool: &[String], definition: &Value, arguments: &Value) -> bool {
    let (graph, database) = (is_graphql(tool), is_database(tool));
    let is_aggregate = tool.last().is_some_and(|last| last == "aggregate");
    let Ok(leaves) = leaves(arguments) else { return false };
    let stages = arguments.get("pipeline").and_then(Value::as_array);
    let mut any = is_aggregate
        && is_declared(definition, "pipeline")
        && stages.is_some_and(|stages| stages.iter().all(Value::is_object));
    for leaf in &leaves {
        let Value::String(text) = leaf.value else { continue };
        let key = key_words(leaf.key()).concat();
        let is_statement = if graph {
            matches!(key.as_str(), "query" | "document")
        } else {
            database && (SQL_KEYS.has(&key) || QUERY_KEYS.has(&key))
        };
        let is_value = || {
            let is_one = |key: &&str| VALUE_KEYS.has(&key_words(key).concat());
            leaf.keys.iter().any(is_one) || is_aggregate && leaf.keys.first() == Some(&"pipeline")
        };
        let reads = match () {
            () if is_statement && text.is_empty() => continue,
            () if !is_statement => is_value() || !may_write(text, graph),
            () if graph => text.contains('{') && !mutates(text),
            () => sql::check(text).is_ok(),
        };
        if !reads {
            return false;
        }
        any |= is_statement && leaf.keys.first().is_some_and(|key| is_declared(definition, key));
    }
    any
}

/// Returns whether a tool's definition declares an argument; also `true` if it declares no arguments at all. Servers
/// usually ignore arguments that they have not declared.
pub(super) fn is_declared(definition: &Value, key: &str) -> bool {
    let properties = definition.get("inputSchema").and_then(|schema| schema.get("properties"));
    properties.and_then(Value::as_object).is_none_or(|all| all.is_empty() || all.contains_key(key))
}

/// Returns whether a text can be a statement that writes, whatever its key is.
fn may_write(text: &str, graph: bool) -> bool {
    graph && text.contains("mutation")
        || MONGO.iter().any(|stage| text.contains(*stage))
        || text.split(';').any(|part| looks_like_sql(part) && sql::check(part).is_err())
}

pub(super) fn is_graphql(tool: &[String]) -> bool {
    tool.iter().any(|word| matches!(word.as_str(), "graphql" | "gql"))
}

/// Refuses a text that makes a database write in a language other than SQL: calls in the shell of MongoDB, clauses of
/// Cypher, and commands that begin with a dot.
pub(super) fn other_language(key: &str, database: bool, text: &str) -> Result<(), String> {
    let text = text.trim_start();
    if is_mongo(key, database, text) {
        return mongo(text);
    }
    if !database || !QUERY_KEYS.has(key) {
        return Ok(());
    }
    if let Some(rest) = text.strip_prefix('.')
        && let Some(word) = rest.split(|c: char| !c.is_ascii_alphabetic()).next()
    {
        let word = word.to_ascii_lowercase();
        // Refuse these commands of `sqlite3`, which execute programs or write files.
        let acts =
            matches!(word.as_str(), "system" | "read" | "output" | "once" | "load" | "excel");
        if acts || is_write(&word) {
            return Err(format!("the command `.{word}` writes or executes"));
        }
    }
    if is_cypher(text) { clauses(text) } else { Ok(()) }
}

/// Returns whether a text begins like a statement in Cypher, e.g. `MATCH (n)` or `MATCH p = (a)`.
fn is_cypher(text: &str) -> bool {
    let mut rest = text;
    while let Some(comment) = rest.strip_prefix("//") {
        rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
    }
    let start: String = rest.chars().take(80).collect::<String>().to_ascii_lowercase();
    let pattern = ["profile ", "optional "]
        .iter()
        .fold(start.as_str(), |start, prefix| start.strip_prefix(prefix).unwrap_or(start));
    let opens = |rest: &str| {
        rest.split_once('(')
            .is_some_and(|(name, _)| name.trim().is_empty() || name.trim_end().ends_with('='))
    };
    pattern.starts_with("unwind ")
        || ["match", "merge", "create"]
            .iter()
            .filter_map(|clause| pattern.strip_prefix(clause))
            .any(opens)
}

/// Returns whether a text is a call in the shell of MongoDB, e.g. `db.users.find({})`.
pub(super) fn is_mongo(key: &str, database: bool, text: &str) -> bool {
    let is_statement = database && QUERY_KEYS.has(key) || matches!(key, "command" | "cmd");
    let text = text.trim_start();
    is_statement && (text.starts_with("db.") || text.starts_with("db[")) && text.contains('(')
}

/// Refuses a text for the shell of MongoDB unless it calls only methods that read.
fn mongo(text: &str) -> Result<(), String> {
    // A backslash before an ordinary letter has no meaning in JavaScript, so search the text without backslashes.
    let bare = text.replace('\\', "");
    if let Some(found) = MONGO.iter().find(|found| bare.contains(**found)) {
        return Err(format!("`{found}` writes or executes"));
    }
    let is_escape = |pair: &[u8]| {
        let has_meaning = !pair[1].is_ascii() || matches!(pair[1], b'u' | b'x' | b'\n' | b'\r');
        pair[0] == b'\\' && (has_meaning || pair[1].is_ascii_digit())
    };
    let is_computed = |rest: &str| rest.trim_start().starts_with([':', '/']);
    if text.as_bytes().windows(2).any(is_escape)
        || text.trim_end().trim_end_matches(';').contains([';', '`'])
        || text.split(']').skip(1).any(is_computed)
    {
        return Err("more than calls that read".to_owned());
    }
    for (at, _) in text.match_indices('(') {
        let before = &text[..at];
        let is_mark = |c: char| !c.is_alphanumeric() && c != '_';
        let method = before.rsplit(is_mark).next().unwrap_or_default();
        let reads = match method {
            "" => before.trim_end().ends_with(['(', ',', ':', '[', '{', '=', '>', '!', '&', '|']),
            method if before[..at - method.len()].ends_with('.') => METHODS.has(method),
            method => VALUES.has(method),
        };
        if !reads {
            return Err(format!("the call `{method}(` is not known to only read"));
        }
    }
    Ok(())
}

/// Returns whether a GraphQL document has an operation other than a query.
pub(super) fn mutates(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut depth, mut rest, mut has_texts) = (0usize, text, true);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '#' => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            '"' if has_texts => text_length(rest).unwrap_or_else(|| {
                has_texts = false;
                1
            }),
            c if is_word(c) => {
                let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                if depth == 0 && matches!(&rest[..length], "mutation" | "subscription") {
                    return true;
                }
                length
            }
            c => {
                match c {
                    '{' | '(' => depth += 1,
                    '}' | ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    false
}

/// Returns the length of the quoted text at the beginning of `rest`, a part of a GraphQL document; `None` if the quote
/// is not closed.
fn text_length(rest: &str) -> Option<usize> {
    if rest.starts_with("\"\"\"") {
        let mut from = 3;
        loop {
            let end = from + rest[from..].find("\"\"\"")?;
            from = end + 3;
            if !rest[..end].ends_with('\\') {
                return Some(from);
            }
        }
    }
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            '\n' | '\r' => return None,
            _ => {}
        }
    }
    None
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
    // A text with `UPDATE` but without these marks and this word is not a statement, but e.g. a search in documentation
    // such as `update state`.
    let is_search = first == "update"
        && !text.contains(['=', ';'])
        && !text.to_lowercase().contains("statistics");
    comment
        || starts.contains(&first.as_str())
            && text.trim().contains(char::is_whitespace)
            && !is_search
}

/// Refuses a text in a graph query language that has a clause which writes.
pub(super) fn clauses(text: &str) -> Result<(), String> {
    if text.contains("\\u") {
        return Err("an escape that some servers read before quotes".to_owned());
    }
    let writes = [
        "CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "DROP", "CALL", "LOAD", "INSERT",
        "CLEAR", "MOVE", "COPY", "ADD", "UPDATE", "REPLACE", "UPSERT", "FOREACH", "TO",
    ];
    // Two slashes begin a comment in some languages. In other languages, they are a part of an address. So check the
    // text with both meanings.
    for has_comments in [false, true] {
        let plain = without_texts(text, has_comments);
        let mut words = plain.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| writes.contains(word)) {
            return Err(format!("the clause `{word}` writes"));
        }
    }
    Ok(())
}

/// Returns a text in upper case, with a blank in place of each quoted text and, if the language has comments, of each
/// comment.
fn without_texts(text: &str, has_comments: bool) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' | '\'' | '`' => {
                while let Some(next) = chars.next_if(|&next| next != c) {
                    if next == '\\' && c != '`' {
                        chars.next();
                    }
                }
                chars.next();
                plain.push(' ');
            }
            '/' if has_comments && chars.next_if_eq(&'/').is_some() => {
                while chars.next_if(|&next| !matches!(next, '\n' | '\r')).is_some() {}
                plain.push(' ');
            }
            '/' if has_comments && chars.next_if_eq(&'*').is_some() => {
                let mut before = ' ';
                for next in chars.by_ref() {
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
                plain.push(' ');
            }
            c => plain.push(c.to_ascii_uppercase()),
        }
    }
    plain
}
