//! Checks SQL statements: only statements that cannot write are allowed.

use crate::words::Words;

/// The maximum length of SQL in bytes. Each word and mark of the SQL becomes a separate text, so this also limits the
/// memory.
const MAX_SQL: usize = 256 * 1024;

/// Words that mean writing wherever they occur outside of quotes.
static WRITES: Words = Words::new(
    "\
    INSERT UPDATE DELETE MERGE UPSERT INTO DROP ALTER CREATE TRUNCATE GRANT REVOKE CALL EXEC \
    EXECUTE LOCK COPY VACUUM REINDEX ATTACH DETACH OUTFILE DUMPFILE RENAME REFRESH IMPORT DO \
    PREPARE DEALLOCATE HANDLER PROGRAM BULK OPENROWSET",
);
/// Words of [`WRITES`] that are also names of columns. Unlike `DELETE`, they begin a statement only after a semicolon.
static COLUMNS: Words = Words::new("CALL COPY LOCK HANDLER PROGRAM REFRESH RENAME");
/// The first words of statements that read.
static READS: Words =
    Words::new("SELECT WITH EXPLAIN SHOW DESCRIBE DESC VALUES TABLE PRAGMA FROM LIST SUMMARIZE");
/// Prefixes of the names of functions that have side effects.
static FUNCTIONS: Words = Words::new(
    "\
    PG_TERMINATE PG_CANCEL PG_RELOAD PG_ROTATE PG_ADVISORY PG_TRY_ADVISORY PG_FILE_ PG_WRITE \
    PG_CREATE PG_DROP PG_SWITCH PG_PROMOTE PG_STAT_RESET PG_LOGICAL PG_NOTIFY PG_START PG_STOP \
    PG_WAL_REPLAY PG_REPLICATION LO_ LOWRITE DBLINK NEXTVAL SETVAL SET_CONFIG LOAD_EXTENSION \
    FILE_WRITE CSVWRITE LINK_SCHEMA \
    WRITEFILE EDIT SYS_EXEC SYS_EVAL XP_ SP_ DBMS_ UTL_ GET_LOCK RELEASE_LOCK RELEASE_ALL \
    QUERY_TO_XML DATABASE_TO_XML FTS3_TOKENIZER MASTER_POS_WAIT OPENQUERY HTTP_POST HTTP_PUT \
    HTTP_DELETE HTTP_PATCH PG_SLEEP SLEEP BENCHMARK WAITFOR SHELL LAST_INSERT_ID PG_STAT_STATEMENTS_RESET \
    PG_BACKUP_ PG_COPY_ PG_SYNC_ PG_IMPORT_ PG_SET_ PG_CLEAR_ PG_RESTORE_ TS_STAT CROSSTAB CONNECTBY \
    DROP_ DELETE_ PURGE_ TRUNCATE_ CREATE_ ALTER_ UPDATE_ INSERT_ UPSERT_ REMOVE_ DESTROY_ GRANT_ \
    REVOKE_ EXECUTE_ EXEC_ RUN_ SEND_ KILL_ TERMINATE_ ENABLE_ DISABLE_ ADD_JOB ADD_RETENTION \
    ADD_COMPRESSION COMPRESS_CHUNK DECOMPRESS_CHUNK MOVE_CHUNK DROPGEOMETRY ADDGEOMETRY \
    UPDATEGEOMETRY",
);
/// Whole names of functions that have side effects.
static EXACT: Words = Words::new("HTTP SYSTEM EXECUTABLE");
/// Packages of Oracle whose functions only read or compute; other packages whose names begin with `DBMS_` or `UTL_` can
/// have side effects.
static PACKAGES: Words = Words::new(
    "\
    DBMS_METADATA DBMS_LOB DBMS_RANDOM DBMS_XPLAN DBMS_CRYPTO UTL_RAW UTL_I18N UTL_MATCH UTL_ENCODE",
);
static PRAGMAS: Words = Words::new(
    "\
    TABLE_INFO TABLE_XINFO TABLE_LIST INDEX_LIST INDEX_INFO INDEX_XINFO FOREIGN_KEY_LIST \
    DATABASE_LIST COLLATION_LIST FUNCTION_LIST MODULE_LIST PRAGMA_LIST COMPILE_OPTIONS \
    INTEGRITY_CHECK QUICK_CHECK FOREIGN_KEY_CHECK",
);
static SETTINGS: Words = Words::new(
    "\
    USER_VERSION SCHEMA_VERSION JOURNAL_MODE PAGE_COUNT PAGE_SIZE ENCODING FREELIST_COUNT \
    FOREIGN_KEYS CACHE_SIZE SYNCHRONOUS APPLICATION_ID DATA_VERSION",
);

/// The meaning of a `#` outside of quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    /// A part of an operator, e.g. `#>>` of `PostgreSQL`, or of a name.
    Operator,
    /// The beginning of a comment, as for `MySQL`.
    Comment,
}

/// Checks that all statements of a text only read, whichever meaning a `#` has.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text.len() > MAX_SQL {
        return Err(format!("the SQL is longer than {MAX_SQL} bytes"));
    }
    with_hash(text, Hash::Operator)?;
    if text.contains('#') { with_hash(text, Hash::Comment) } else { Ok(()) }
}

fn with_hash(text: &str, hash: Hash) -> Result<(), String> {
    let tokens = tokens(text, hash)?;
    let mut any = false;
    for statement in tokens.split(|token| token == ";").filter(|statement| !statement.is_empty()) {
        any = true;
        of_statement(statement)?;
    }
    if any { Ok(()) } else { Err("there is no SQL statement".to_owned()) }
}

fn of_statement(tokens: &[String]) -> Result<(), String> {
    let first = tokens.iter().find(|token| *token != "(").map_or("", String::as_str);
    if !READS.has(first) {
        return Err(format!("the SQL statement `{first}` does not only read"));
    }
    // In SQL, a name follows `WITH` at the beginning. In JavaScript, `with (…)` begins a statement that executes code.
    if matches!(tokens, [with, open, ..] if with == "WITH" && open == "(") {
        return Err("`WITH (` begins code in another language".to_owned());
    }
    if first == "PRAGMA" {
        let has_schema = tokens.get(2).is_some_and(|token| token == ".");
        let name = tokens
            .get(if has_schema { 3 } else { 1 })
            .filter(|token| PRAGMAS.has(token.as_str()) || SETTINGS.has(token.as_str()));
        let plain = !tokens.iter().any(|token| token == "=" || token == "(");
        return match name {
            Some(name)
                if !tokens.contains(&"=".to_owned()) && (PRAGMAS.has(name.as_str()) || plain) =>
            {
                Ok(())
            }
            _ => Err("this PRAGMA can write".to_owned()),
        };
    }
    for (at, token) in tokens.iter().enumerate() {
        let next = |more: usize| tokens.get(at + more).map(String::as_str);
        let called = next(1) == Some("(");
        let locks = token == "FOR"
            && matches!(
                tokens.get(at + 1).map(String::as_str),
                Some("SHARE" | "KEY" | "NO" | "UPDATE")
            );
        let is_function = called && matches!(token.as_str(), "INSERT" | "TRUNCATE" | "REPLACE");
        if (WRITES.has(token) || token == "REPLACE") && !is_function && !is_name(tokens, at)
            || locks
            || at > 0 && begins_statement(token, next(1))
        {
            // `SHOW CREATE TABLE` only prints a definition, so it is allowed.
            if !(first == "SHOW" && at == 1 && token == "CREATE") {
                return Err(format!("`{token}` in SQL writes or locks"));
            }
        }
        // `UESCAPE` replaces the backslash by another escape character, so the name of the function would be unknown.
        let is_escaped = called && token.starts_with('"') && token.contains('\\');
        if is_escaped || token == "UESCAPE" {
            return Err("a name of a function in SQL with escapes".to_owned());
        }
        if acts(tokens, at) {
            return Err(format!("the SQL function `{token}` has effects"));
        }
    }
    Ok(())
}

/// Returns whether the token at a position is the name of a column, and not the beginning of a statement: it is alone
/// in brackets, or it is the member of another name or one of [`COLUMNS`], and what follows can only follow a column.
fn is_name(tokens: &[String], at: usize) -> bool {
    let before = |less: usize| at.checked_sub(less).map_or("", |at| tokens[at].as_str());
    let next = tokens.get(at + 1).map_or("", String::as_str);
    // After a number, a dot belongs to the number, and SQL Server reads the next word as a statement.
    let is_member = before(1) == "."
        && before(2).starts_with(|c: char| c.is_alphabetic() || c == '_')
        && !before(3).starts_with(|c: char| c.is_ascii_digit());
    let is_column = at > 0 && COLUMNS.has(&tokens[at]);
    // Anything else could be code in another language, e.g. a call in the shell of MongoDB.
    before(1) == "[" && next == "]"
        || (is_member || is_column) && matches!(next, "," | "FROM" | ")" | "=")
}

/// Returns whether the token at a position is the name of a function with side effects, or a part of an expression with
/// side effects.
fn acts(tokens: &[String], at: usize) -> bool {
    let next = |more: usize| tokens.get(at + more).map(String::as_str);
    let is_member = at > 0 && tokens[at - 1] == ".";
    let bare = tokens[at].strip_prefix('"').unwrap_or(&tokens[at]);
    // The name of a function can be in quotes or in brackets. So the parenthesis may follow after a closing bracket.
    let is_named = next(1) == Some("(") || next(1) == Some("]") && next(2) == Some("(");
    let is_distance = ["EDIT_DISTANCE", "EDITDIST"].iter().any(|name| bare.starts_with(name));
    // A name with parentheses after these words is not a function call: `WITH t (a)` lists columns, and `TABLESAMPLE
    // SYSTEM (1)` has a percentage.
    let is_other =
        at > 0 && matches!(tokens[at - 1].as_str(), "WITH" | "RECURSIVE" | "TABLESAMPLE");
    let is_scheduler =
        is_member && matches!(bare, "SCHEDULE" | "UNSCHEDULE" | "SCHEDULE_IN_DATABASE");
    match bare {
        // After a dot, as in `s.NEXTVAL`, this name advances a sequence without parentheses. So it has side effects.
        "NEXTVAL" if is_member => true,
        "NEXT" => next(1) == Some("VALUE") && next(2) == Some("FOR"),
        // Refuse a text after `USING`: it is the name of a program that receives the rows.
        "USING" => next(1) == Some("''"),
        _ if next(1) == Some(".") || next(1) == Some("]") && next(2) == Some(".") => {
            (bare.starts_with("DBMS_") || bare.starts_with("UTL_")) && !PACKAGES.has(bare)
        }
        _ => {
            let begins = || FUNCTIONS.iter().any(|name| bare.starts_with(name));
            is_named && !is_distance && !is_other && (is_scheduler || EXACT.has(bare) || begins())
        }
    }
}

/// Returns whether a word begins another statement, which has effects: SQL Server needs no semicolon between
/// statements. For other servers, most of these words are names.
fn begins_statement(token: &str, next: Option<&str>) -> bool {
    match token {
        "SHUTDOWN" => matches!(next, None | Some("WITH")),
        "KILL" => next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())),
        "BACKUP" | "RESTORE" => matches!(next, Some("DATABASE" | "LOG")),
        "DBCC" | "RECONFIGURE" | "WRITETEXT" | "UPDATETEXT" => true,
        "DISABLE" | "ENABLE" => next == Some("TRIGGER"),
        "DENY" => matches!(next, Some("SELECT" | "ALL" | "CONTROL" | "CONNECT" | "VIEW")),
        _ => false,
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Splits SQL into words, in upper case, and single marks. Drops comments, replaces each text by `''`, and marks each
/// quoted name by one quote in front of it.
///
/// Returns an error for an unclosed quote or comment, and for syntax that database servers read in different ways.
fn tokens(text: &str, hash: Hash) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    // For some servers, brackets quote a name, and `]]` in such a name is a `]`.
    let mut in_brackets = false;
    while let Some(c) = chars.next() {
        match c {
            '-' if chars.next_if_eq(&'-').is_some() => {
                if chars.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return Err("a `--` without a blank is a comment for some servers only".into());
                }
                line_comment(&mut chars, in_brackets)?;
            }
            '#' if hash == Hash::Comment => line_comment(&mut chars, in_brackets)?,
            '/' if chars.next_if_eq(&'*').is_some() => {
                if matches!(chars.peek(), Some('!' | 'M')) {
                    return Err("a comment that some servers execute".to_owned());
                }
                comment(&mut chars, in_brackets)?;
            }
            '\'' | '"' | '`' => {
                let name = quoted(c, &mut chars, in_brackets)?;
                // A name keeps its quote, so that it is not a keyword.
                tokens.push(if c == '\'' { "''".to_owned() } else { format!("\"{name}") });
            }
            '$' => {
                let value = word(None, &mut chars);
                if chars.next_if_eq(&'$').is_some() {
                    return Err("a dollar quote is one for some servers only".to_owned());
                }
                if value.starts_with(|c: char| c.is_ascii_digit()) {
                    tokens.extend(number(&value)?);
                } else if value.is_empty() {
                    // For SQL Server, this is a number, and a word can follow it after a dot.
                    tokens.push(c.to_string());
                }
            }
            _ if c.is_ascii_digit() => tokens.extend(number(&word(Some(c), &mut chars))?),
            _ if c.is_alphanumeric() || c == '_' => tokens.push(word(Some(c), &mut chars)),
            // Some clients execute a command after a backslash, e.g. `\!`, so a backslash is refused.
            '\\' => return Err("a backslash outside of quotes in SQL".to_owned()),
            _ if c.is_whitespace() => {}
            '[' | ']' => {
                let is_doubled = c == ']' && chars.next_if_eq(&c).is_some();
                in_brackets = c == '[' || in_brackets && is_doubled;
                tokens.push(c.to_string());
            }
            _ => tokens.push(c.to_string()),
        }
    }
    Ok(tokens)
}

/// Reads the rest of a word, and returns the word in upper case.
fn word(first: Option<char>, chars: &mut Chars<'_>) -> String {
    let mut word: String = first.into_iter().flat_map(char::to_uppercase).collect();
    while let Some(next) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
        word.extend(next.to_uppercase());
    }
    word
}

/// Returns a number and the word that follows it without a blank as two tokens: SQL Server reads both in `1DROP`.
fn number(text: &str) -> Result<impl Iterator<Item = String> + use<>, String> {
    // No keyword that writes is longer than 12 letters, so only the last 12 letters are searched.
    let mut ends = text.char_indices().rev().take(12).map(|(at, _)| text.split_at(at));
    if let Some((_, keyword)) = ends.find(|(start, end)| WRITES.has(end) && !start.ends_with('_')) {
        return Err(format!("`{keyword}` after a number in SQL"));
    }
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let parts = [&text[..text.len() - rest.len()], rest].map(str::to_owned);
    Ok(parts.into_iter().filter(|part| !part.is_empty()))
}

/// Returns an error for a `]` in a quote or comment that began after a `[`. Servers for which brackets quote a name do
/// not see the quote or comment, and read what follows the `]` as statements.
fn in_one_part(c: char, in_brackets: bool) -> Result<(), String> {
    if in_brackets && c == ']' {
        return Err("brackets in SQL around the beginning of a quote or comment".to_owned());
    }
    Ok(())
}

/// Reads a comment to the end of its line.
fn line_comment(chars: &mut Chars<'_>, in_brackets: bool) -> Result<(), String> {
    while let Some(c) = chars.next_if(|&c| c != '\n') {
        in_one_part(c, in_brackets)?;
        if c == '\r' && chars.peek().is_some_and(|&next| next != '\n') {
            return Err("a carriage return ends a comment for some servers only".to_owned());
        }
    }
    Ok(())
}

fn comment(chars: &mut Chars<'_>, in_brackets: bool) -> Result<(), String> {
    let mut before = ' ';
    loop {
        match chars.next() {
            Some('/') if before == '*' => return Ok(()),
            Some('*') if before == '/' => {
                return Err("a comment inside a comment in SQL".to_owned());
            }
            Some(c) => {
                in_one_part(c, in_brackets)?;
                before = c;
            }
            None => return Err("an unclosed comment in SQL".to_owned()),
        }
    }
}

/// Reads a quoted text up to its closing quote, and returns it in upper case.
fn quoted(end: char, chars: &mut Chars<'_>, in_brackets: bool) -> Result<String, String> {
    let mut text = String::new();
    loop {
        match chars.next() {
            // Some database servers read a backslash before a quote as an escape and others do not, so the check
            // refuses it.
            Some('\\') if chars.peek().is_some_and(|&next| next == end) => {
                return Err("a backslash before a quote in SQL".to_owned());
            }
            Some(c) if c == end => {
                if chars.next_if_eq(&end).is_none() {
                    return Ok(text);
                }
            }
            Some(c) => {
                in_one_part(c, in_brackets)?;
                text.extend(c.to_uppercase());
            }
            None => return Err("an unclosed quote in SQL".to_owned()),
        }
    }
}
