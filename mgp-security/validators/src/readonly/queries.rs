//! Statements in query languages that arguments contain: SQL, GraphQL, Cypher, and the shell of MongoDB.

use super::{name::is_write, sql};
use crate::argument_values::{key_words, leaves};
use crate::words::{Words, has};
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
/// Words of JavaScript that directly precede a value.
static BEFORE_VALUES: Words =
    Words::new("await case delete do else in instanceof new of return throw typeof void yield");
/// Functions of the shell of MongoDB that create a value.
static VALUES: Words = Words::new(
    "ObjectId ISODate Date NumberLong NumberInt NumberDecimal UUID RegExp Timestamp BinData",
);

/// Returns whether the tool's name contains a word for databases.
pub(super) fn is_database(tool: &[String]) -> bool {
    tool.iter().any(|word| DATABASES.has(word))
}

/// Returns whether an argument is an SQL statement, according to its key or, for a tool for databases (`database`), to
/// its key and its text.
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
    let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let text = text.trim_start_matches(is_blank);
    if is_mongo(key, database, text) {
        return mongo(text);
    }
    if !database || !QUERY_KEYS.has(key) {
        return Ok(());
    }
    text.lines().map(str::trim_start).try_for_each(line_command)?;
    if is_cypher(text) { clauses(text) } else { Ok(()) }
}

/// Refuses a line with a command of `sqlite3` or `psql` that executes programs or writes files.
fn line_command(line: &str) -> Result<(), String> {
    if line.starts_with("\\!") {
        return Err("the command `\\!` executes a program".to_owned());
    }
    let Some(rest) = line.strip_prefix('.') else { return Ok(()) };
    let word = rest.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let word = word.to_ascii_lowercase();
    let acts = matches!(word.as_str(), "system" | "read" | "output" | "once" | "load" | "excel");
    if acts || is_write(&word) {
        return Err(format!("the command `.{word}` writes or executes"));
    }
    Ok(())
}

/// Returns whether a text begins like a statement in Cypher, e.g. `MATCH (n)` or `MATCH p = (a)`.
fn is_cypher(text: &str) -> bool {
    let mut rest = text;
    while let Some(comment) = rest.strip_prefix("//") {
        rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
    }
    let start: String = rest.chars().take(120).collect::<String>().to_ascii_lowercase();
    let start = start.strip_prefix("cypher ").map_or(start.as_str(), without_options);
    let pattern = ["profile ", "optional "]
        .iter()
        .fold(start, |start, prefix| start.strip_prefix(prefix).unwrap_or(start));
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

/// Returns the statement after the options of Cypher, e.g. after `5 runtime=slotted`.
fn without_options(text: &str) -> &str {
    let is_option =
        |word: &str| word.contains('=') || word.starts_with(|c: char| c.is_ascii_digit());
    let mut rest = text.trim_start();
    while let Some((word, after)) = rest.split_once(char::is_whitespace)
        && is_option(word)
    {
        rest = after.trim_start();
    }
    rest
}

/// Returns whether a text is a call in the shell of MongoDB, e.g. `db.users.find({})`. In the statements of tools for
/// databases, other code may precede the call.
pub(super) fn is_mongo(key: &str, database: bool, text: &str) -> bool {
    let is_query = database && QUERY_KEYS.has(key);
    let is_statement = is_query || matches!(key, "command" | "cmd");
    let start = text.trim_start();
    let begins = (start.starts_with("db.") || start.starts_with("db[")) && text.contains('(');
    is_statement && begins || is_query && text.contains('(') && calls_db(text)
}

/// Refuses a text that SQL reads as a statement that only reads, but another language as one that writes: the shell of
/// MongoDB as a label or block with a call, e.g. `select : db.users.deleteMany({})`, or Cypher, in which `//` begins a
/// comment.
pub(super) fn only_sql(text: &str) -> Result<(), String> {
    let upper = text.to_ascii_uppercase();
    if text.contains("//") && upper.split_once("MATCH").is_some_and(|(_, rest)| rest.contains('('))
    {
        clauses(text)?;
    }
    let calls = |part: &str| part.trim_start().strip_prefix("db").is_some_and(|rest| chain(rest).0);
    let has_call = text.contains('(') && text.split([':', '{', '}', ';']).skip(1).any(calls);
    if has_call { mongo(text) } else { Ok(()) }
}

/// Returns whether a text calls a method of `db` where code can have a value. In prose, `db` follows a word.
fn calls_db(text: &str) -> bool {
    let mut from = 0;
    while let Some(found) = text[from..].find("db") {
        let at = from + found;
        from = at + "db".len();
        if begins_value(&text[..at]) {
            let (is_call, length) = chain(&text[from..]);
            if is_call {
                return true;
            }
            from += length;
        }
    }
    false
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns whether a value can begin after this code: on a new line, after a mark, or after certain words.
fn begins_value(before: &str) -> bool {
    let is_quote = |c: char| matches!(c, '"' | '\'' | '`');
    let code = before.trim_end();
    let blanks = &before[code.len()..];
    if blanks.is_empty() {
        return !code.ends_with(|c: char| is_part_of_name(c) || is_quote(c));
    }
    let word = code.rsplit(|c: char| !is_part_of_name(c)).next().unwrap_or_default();
    blanks.contains(['\n', '\r'])
        || BEFORE_VALUES.has(word)
        || word.is_empty() && !code.ends_with(|c: char| c == '.' || is_quote(c))
}

/// Returns whether a text begins with names of members that lead to a call, e.g. `.users.drop()`, and the length of
/// the names.
fn chain(text: &str) -> (bool, usize) {
    let (mut rest, mut has_name) = (text, false);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '?' | '!' | ')'));
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(name) = rest.strip_prefix('.') {
            let is_part = |c: char| is_part_of_name(c) || c == '\\';
            rest = name.trim_start().trim_start_matches(is_part);
            has_name = true;
        } else {
            // A name in brackets can be computed, so it counts as a call.
            let is_call = rest.starts_with('(') && has_name || rest.starts_with('[');
            return (is_call, text.len() - rest.len());
        }
    }
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
            "" => {
                let code = before.trim_end();
                code.is_empty()
                    || code.ends_with(['(', ',', ':', '[', '{', '=', '>', '!', '&', '|'])
            }
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

/// Words that begin a statement in SQL.
static STARTS: Words = Words::new(
    "\
    select with insert update delete drop alter create truncate merge replace grant revoke copy call exec \
    execute vacuum attach pragma set do begin lock explain show reindex rename use load upsert detach",
);
/// Words that begin a statement in SQL together with the word after them, and otherwise begin texts for people.
const PAIRS: [(&str, &str); 17] = [
    ("analyze", "table"),
    ("backup", "database log"),
    ("bulk", "insert"),
    ("change", "master replication"),
    ("exchange", "tables"),
    ("flush", "binary hosts logs privileges status tables"),
    ("import", "foreign"),
    ("install", "component plugin"),
    ("kill", "connection query"),
    ("optimize", "table"),
    ("purge", "binary master"),
    ("reassign", "owned"),
    ("repair", "table"),
    ("reset", "master replica slave"),
    ("restore", "database log"),
    ("start", "replica slave transaction"),
    ("stop", "replica slave"),
];
/// Words before a statement in SQL that writes. They also begin texts for people.
static CONDITIONS: Words = Words::new("declare from if while");
/// Beginnings of statements in SQL that write, where only a part of a text can be SQL.
const WRITES: [&str; 21] = [
    "alter ",
    "alter table",
    "copy ",
    "create table",
    "delete from",
    "drop ",
    "drop table",
    "exec ",
    "execute ",
    "grant ",
    "insert into",
    "insert overwrite",
    "merge into",
    "replace into",
    "revoke ",
    "set global",
    "set password",
    "truncate ",
    "truncate table",
    "update ",
    "vacuum",
];

/// Returns whether a text looks like SQL: it begins with a comment or like a statement, or a later statement writes.
fn looks_like_sql(text: &str) -> bool {
    let start = text.trim_start();
    let is_comment = ["/*", "--"].iter().any(|mark| start.starts_with(mark));
    is_comment
        || begins_like_sql(text)
        || text.split(';').skip(1).chain([without_first_lines(start)]).any(begins_like_write)
}

/// Returns a text without the comments of `MySQL` and the words `GO` in its first lines.
fn without_first_lines(mut text: &str) -> &str {
    while let Some((line, after)) = text.split_once('\n')
        && (line.starts_with('#') || line.trim_end().eq_ignore_ascii_case("go"))
    {
        text = after.trim_start();
    }
    text
}

fn begins_like_write(text: &str) -> bool {
    let lower: String = text.trim_start().chars().take(20).collect::<String>().to_lowercase();
    let is_update = || text.contains('=');
    let mut writes = WRITES.iter().filter(|write| lower.starts_with(**write));
    writes.any(|write| *write != "update " || is_update())
}

fn begins_like_sql(text: &str) -> bool {
    let start = text.trim_start_matches(|c: char| !c.is_alphabetic());
    let end = start.find(|c: char| !c.is_alphabetic()).unwrap_or(start.len());
    let first = start[..end].to_lowercase();
    if STARTS.has(&first) {
        // A text with `UPDATE` but without these marks and this word is not a statement, but e.g. a search in
        // documentation such as `update state`.
        let is_search = first == "update"
            && !text.contains(['=', ';'])
            && !text.to_lowercase().contains("statistics");
        return text.trim().contains(char::is_whitespace) && !is_search;
    }
    let second = start[end..].trim_start();
    let second = second.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let second = second.to_lowercase();
    PAIRS.iter().any(|(one, others)| *one == first && has(others, &second))
        || CONDITIONS.has(&first) && writes_after_condition(start)
}

fn writes_after_condition(text: &str) -> bool {
    let lower = text.to_lowercase();
    let has_phrase = |write: &&str| write.trim_end().contains(' ') && lower.contains(*write);
    let updates = [" update ", " set ", "="].iter().all(|part| lower.contains(part));
    updates || WRITES.iter().any(has_phrase)
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
