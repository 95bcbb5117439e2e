//! Arguments that would make a tool write although its name means reading.

use super::{
    commands,
    name::{Intent, intent, is_write},
    queries::{
        clauses, is_database, is_declared, is_graphql, is_mongo, is_sql, mutates, only_sql,
        other_language,
    },
    sql,
};
use crate::argument_values::{Leaf, key_words, leaves};
use crate::words::{Words, has};
use serde_json::Value;

static COMMANDS: Words = Words::new("command cmd subcommand args argv commandline arguments");
static ACTIONS: Words = Words::new(
    "\
    action operation op verb actiontype operationtype mutationtype task act operationname",
);
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
static MODES: Words = Words::new("mode openmode filemode flags flag access accessmode permissions");
static OUTPUTS: Words = Words::new(
    "\
    output out dest destination outfile saveto writeto target dumpto saveas save exportto \
    downloadto",
);

/// Checks the arguments of a tool whose name means reading.
pub(super) fn check(tool: &str, arguments: &Value) -> Result<(), String> {
    let words = key_words(tool);
    let leaves = leaves(arguments)?;
    let requests =
        leaves.iter().any(|leaf| matches!(leaf.key(), "url" | "uri" | "endpoint" | "path"))
            || words.iter().any(|word| word == "http" || word == "request");
    let has_own_methods = intent(tool) != Intent::Read;
    let is_redis = words.iter().any(|word| word == "redis");
    for leaf in &leaves {
        // A list for Redis is one command, which `lists` checks as a whole.
        let is_word = is_redis
            && leaf.keys.len() == 1
            && arguments.get(leaf.key()).is_some_and(Value::is_array)
            && leaf.value.as_str().is_some_and(is_argument);
        of_leaf(&words, leaf, requests, is_word)
            .map_err(|why| format!("`{}`: {why}", leaf.path))?;
        if has_own_methods && names_action(leaf) {
            return Err(format!("`{}`: the method writes", leaf.path));
        }
        if requests && leaf.value.as_str().is_some_and(overrides_method) {
            return Err(format!(
                "`{}`: a parameter of the URL sets a method that writes",
                leaf.path
            ));
        }
        if names_method(leaf) {
            return Err(format!("`{}`: a header can set a method that writes", leaf.path));
        }
    }
    if sends_body(&words, &leaves) {
        return Err("a request with a body can write".to_owned());
    }
    lists(&words, arguments, 0)
}

/// Returns whether a call sends a request with a method that only reads. The name of the tool must mean nothing more
/// than sending requests, e.g. `http_request`.
pub(super) fn requests_to_read(tool: &str, definition: &Value, arguments: &Value) -> bool {
    const PROTOCOLS: &str = "http https rest api web request requests";
    const OTHERS: &str = "call make send raw";
    const PLACES: &str = "url uri endpoint path";
    let Some(members) = arguments.as_object() else { return false };
    let is_method = |key: &str| METHODS.contains(&key_words(key).concat().as_str());
    let reads = |method: &str| {
        ["GET", "HEAD", "OPTIONS"].iter().any(|reads| method.eq_ignore_ascii_case(reads))
    };
    let methods: Vec<_> = members.iter().filter(|(key, _)| is_method(key)).collect();
    let words = key_words(tool);
    let places: Vec<_> =
        members.iter().filter(|(key, _)| has(PLACES, &key_words(key).concat())).collect();
    // A server can read the text after a line break as another request, so a call with a line break in its URL does not
    // count.
    let has_break = |value: &Value| value.as_str().is_some_and(|text| text.contains(['\r', '\n']));
    words.iter().any(|word| has(PROTOCOLS, word))
        && words.iter().all(|word| has(PROTOCOLS, word) || has(OTHERS, word))
        && !places.is_empty()
        && !places.iter().any(|(_, value)| has_break(value))
        && !methods.is_empty()
        && methods
            .iter()
            .all(|(key, value)| value.as_str().is_some_and(reads) && is_declared(definition, key))
}

/// Returns whether a text in a list for Redis can only be an argument. A server that executes each text of the list
/// could also execute a text with blanks, or one of the commands that need no arguments.
fn is_argument(text: &str) -> bool {
    const COMPLETE: &str = "\
        flushall flushdb shutdown save bgsave bgrewriteaof exec reset failover";
    !text.contains(|c: char| c.is_control() || c.is_whitespace())
        && !has(COMPLETE, &text.to_ascii_lowercase())
}

/// Returns whether an argument names a method that writes, e.g. `create`. Tools whose names mean reading are not
/// checked: their methods are mostly ways to calculate, e.g. `complete`.
fn names_action(leaf: &Leaf<'_>) -> bool {
    let is_method = METHODS.contains(&key_words(leaf.key()).concat().as_str());
    is_method
        && !is_filtered(leaf)
        && leaf.value.as_str().is_some_and(|text| matches!(intent(text), Intent::Write(_)))
}

/// Returns whether a text among headers contains a header that changes the method, e.g. `X-HTTP-Method-Override:
/// DELETE` as an item of a list. If the name of the header is a key instead, the check of keys and values finds it.
fn names_method(leaf: &Leaf<'_>) -> bool {
    let is_header = |key: &&str| key.to_ascii_lowercase().contains("header");
    leaf.value.as_str().is_some_and(|text| {
        let lower = text.to_ascii_lowercase();
        lower.contains("x-http-method") || lower.contains("method-override")
    }) && leaf.keys.iter().any(is_header)
}

/// Returns whether a call sends a body to a URL without naming a method. For such a request, many clients choose
/// `POST`.
fn sends_body(tool: &[String], leaves: &[Leaf<'_>]) -> bool {
    let has = |names: &[&str]| {
        let is_one = |key: &&str| names.contains(&key_words(key).concat().as_str());
        let mut given = leaves.iter().filter(|leaf| {
            !leaf.value.is_null() && leaf.value.as_str().is_none_or(|text| !text.is_empty())
        });
        // Skip `json: true`, which is not a body: it asks for an answer in JSON.
        given.any(|leaf| {
            leaf.keys.iter().any(is_one) && !(leaf.value.is_boolean() && is_one(&leaf.key()))
        })
    };
    let is_client =
        tool.iter().any(|word| matches!(word.as_str(), "http" | "request" | "requests"));
    (has(&["body", "requestbody", "postdata", "formdata"]) || is_client && has(&["json"]))
        && has(&["url", "uri"])
        && !has(METHODS)
}

/// Checks one value. `is_word` means that the value is a word of a command, and not a command itself.
fn of_leaf(tool: &[String], leaf: &Leaf<'_>, requests: bool, is_word: bool) -> Result<(), String> {
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
    let graph = is_graphql(tool) || joined.contains("graphql") || joined.contains("gql");
    if METHODS.contains(&joined.as_str()) && writes_method(text, requests) {
        return Err(format!("the method `{text}` writes"));
    }
    if joined == "mutation"
        || (graph || joined == "query" && text.trim_start().starts_with("mutation"))
            && mutates(text)
    {
        return Err("a GraphQL operation that is not a query".to_owned());
    }
    let database = !graph && is_database(tool);
    keeps_result(tool, leaf, database)?;
    if is_sql(&joined, database, text) {
        sql::check(text)?;
        return only_sql(text);
    }
    other_language(&joined, database, text)?;
    if in_graph_language(tool, &joined) {
        return clauses(text);
    }
    if MODES.has(&joined) && writes_mode(text) {
        return Err(format!("the mode `{text}` writes"));
    }
    written_file(&key, text)?;
    // In a list `actions`, the member `type` names what a browser does before it reads the page, so check it like an
    // action.
    let is_step = joined == "type" && leaf.keys.contains(&"actions");
    if (ACTIONS.has(&joined) || is_step)
        && !is_filtered(leaf)
        && let Intent::Write(word) = intent(text)
    {
        return Err(format!("the action `{word}` writes"));
    }
    let is_call = (database || tool.iter().any(|word| word.starts_with("mongo")))
        && is_mongo(&joined, database, text);
    if COMMANDS.has(&joined)
        && !is_call
        && !text.trim().is_empty()
        && !matches!(joined.as_str(), "args" | "argv" | "arguments")
        && !is_word
    {
        return commands::check_text(tool, text);
    }
    Ok(())
}

/// Returns whether a value only selects what is read, e.g. the records whose member `action` has this value.
fn is_filtered(leaf: &Leaf<'_>) -> bool {
    const FILTERS: &str = "filter filters where match conditions criteria";
    leaf.keys.iter().rev().skip(1).any(|key| has(FILTERS, &key_words(key).concat()))
}

/// Refuses an argument that makes a tool write what it has read into a table of a database or into a file.
fn keeps_result(tool: &[String], leaf: &Leaf<'_>, database: bool) -> Result<(), String> {
    const TABLES: [&str; 4] =
        ["destinationtable", "destinationdataset", "writedisposition", "createdisposition"];
    let is_table = |key: &&str| TABLES.contains(&key_words(key).concat().as_str());
    let is_empty = leaf.value.as_str().is_some_and(str::is_empty);
    if database && !is_empty && leaf.keys.iter().any(is_table) {
        return Err("the argument names a table that is written".to_owned());
    }
    // Refuse the argument `filename` of tools that read a browser's page or console: they write their result to this
    // file instead of returning it.
    let is_reader = tool
        .last()
        .is_some_and(|last| matches!(last.as_str(), "snapshot" | "messages" | "logs" | "errors"));
    let is_browser =
        tool.iter().any(|word| matches!(word.as_str(), "browser" | "page" | "console"));
    if is_reader && is_browser && !is_empty && key_words(leaf.key()).concat() == "filename" {
        return Err("the argument names a file that is written".to_owned());
    }
    Ok(())
}

/// Returns whether a URL has a parameter such as `_method=DELETE`, which makes a server handle the request as a writing
/// request.
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

/// Returns whether the name of an argument or of its tool means that the argument is a statement in a graph query
/// language.
fn in_graph_language(tool: &[String], key: &str) -> bool {
    let is_one = |word: &str| {
        matches!(word, "cypher" | "sparql" | "aql" | "flux" | "kql" | "neo4j" | "memgraph")
    };
    is_one(key)
        || matches!(key, "query" | "q" | "statement") && tool.iter().any(|word| is_one(word))
}

/// Returns whether an option with this name means writing when it is `true`.
fn writes_when_set(key: &[String]) -> bool {
    const HARMLESS: &str = "\
        open sort type follow mark confirm ensure enforce suppress label extend throttle mirror make";
    let harmless = |word: &str| has(HARMLESS, word);
    key.first().is_some_and(|word| is_write(word) && !harmless(word))
        || matches!(
            key.concat().as_str(),
            "inplace" | "overwrite" | "force" | "markasread" | "markread" | "markasseen"
        )
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
    // Some tools have methods of their own, e.g. `get_diff` of `pull_request_read`; these are not HTTP methods.
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
            || OUTPUTS.has(&joined) && path_like
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
            Value::Array(items) if COMMANDS.has(&joined) => {
                let words: Option<Vec<String>> =
                    items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                commands::check(
                    tool,
                    &words.ok_or_else(|| format!("`{key}` has an item that is not text"))?,
                )?;
            }
            Value::String(text) if matches!(joined.as_str(), "args" | "argv" | "arguments") => {
                commands::check_text(tool, text)?;
            }
            Value::Object(document) if COMMANDS.has(&joined) || ACTIONS.has(&joined) => {
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
