//! SQL statements: only those that cannot write are allowed.

use crate::words::Words;

/// Words that mean writing anywhere outside of quotes.
static WRITES: Words = Words::new(
    "\
    INSERT UPDATE DELETE MERGE UPSERT INTO DROP ALTER CREATE TRUNCATE GRANT REVOKE CALL EXEC \
    EXECUTE LOCK COPY VACUUM REINDEX ATTACH DETACH OUTFILE DUMPFILE RENAME REFRESH IMPORT DO \
    PREPARE DEALLOCATE HANDLER PROGRAM BULK OPENROWSET",
);
/// The first words of statements that read.
const READS: &[&str] = &[
    "SELECT", "WITH", "EXPLAIN", "SHOW", "DESCRIBE", "DESC", "VALUES", "TABLE", "PRAGMA", "FROM",
    "LIST",
];
/// Prefixes of the names of functions that have side effects.
static FUNCTIONS: Words = Words::new(
    "\
    PG_TERMINATE PG_CANCEL PG_RELOAD PG_ROTATE PG_ADVISORY PG_TRY_ADVISORY PG_FILE_ PG_WRITE \
    PG_CREATE PG_DROP PG_SWITCH PG_PROMOTE PG_STAT_RESET PG_LOGICAL PG_NOTIFY PG_START PG_STOP \
    PG_WAL_REPLAY PG_REPLICATION LO_ LOWRITE DBLINK NEXTVAL SETVAL SET_CONFIG LOAD_EXTENSION \
    WRITEFILE EDIT SYS_EXEC SYS_EVAL XP_ SP_ DBMS_ UTL_ GET_LOCK RELEASE_LOCK RELEASE_ALL \
    QUERY_TO_XML DATABASE_TO_XML FTS3_TOKENIZER MASTER_POS_WAIT OPENQUERY HTTP_POST HTTP_PUT \
    HTTP_DELETE PG_SLEEP SLEEP BENCHMARK WAITFOR SHELL LAST_INSERT_ID",
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

/// Checks that all statements of a text only read, for each meaning of a `#`.
pub(super) fn check(text: &str) -> Result<(), String> {
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
    if !READS.contains(&first) {
        return Err(format!("the SQL statement `{first}` does not only read"));
    }
    if first == "PRAGMA" {
        let name = tokens
            .iter()
            .rev()
            .find(|token| PRAGMAS.has(token.as_str()) || SETTINGS.has(token.as_str()));
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
        if (WRITES.has(token) || token == "REPLACE") && !is_function
            || locks
            || at > 0 && begins_statement(token, next(1))
        {
            // `SHOW CREATE TABLE` only prints a definition.
            if !(first == "SHOW" && at == 1 && token == "CREATE") {
                return Err(format!("`{token}` in SQL writes or locks"));
            }
        }
        // The name of a function can be in quotes or in brackets.
        let named = called || next(1) == Some("]") && next(2) == Some("(");
        let bare = token.strip_prefix('"').unwrap_or(token);
        // `UESCAPE` chooses another character than the backslash for escapes.
        if called && bare.len() < token.len() && bare.contains('\\') || token == "UESCAPE" {
            return Err("a name of a function in SQL with escapes".to_owned());
        }
        let is_distance = ["EDIT_DISTANCE", "EDITDIST"].iter().any(|name| bare.starts_with(name));
        if named && !is_distance && FUNCTIONS.iter().any(|name| bare.starts_with(name)) {
            return Err(format!("the SQL function `{token}` has effects"));
        }
    }
    Ok(())
}

/// Returns whether a word begins a statement with effects: SQL Server needs no semicolon between statements. For other
/// servers, most of these words are names.
fn begins_statement(token: &str, next: Option<&str>) -> bool {
    match token {
        "SHUTDOWN" => matches!(next, None | Some("WITH")),
        "KILL" => next.is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit())),
        "BACKUP" | "RESTORE" => matches!(next, Some("DATABASE" | "LOG")),
        "DBCC" | "RECONFIGURE" => true,
        _ => false,
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Splits SQL into words, in upper case, and single marks. Comments are left out, and each text becomes `''`; a
/// name in quotes is the name after one quote.
///
/// Returns an error for an unclosed quote or comment, and for syntax that database servers read in different ways.
fn tokens(text: &str, hash: Hash) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    // For some servers, brackets quote a name, in which `]]` is a `]`.
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
                if matches!(chars.peek(), Some('!' | 'M' | '+')) && chars.peek() != Some(&'+') {
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
                while chars.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
                if chars.next_if_eq(&'$').is_some() {
                    return Err("a dollar quote is one for some servers only".to_owned());
                }
            }
            _ if c.is_alphanumeric() || c == '_' => {
                let mut word: String = c.to_uppercase().collect();
                while let Some(next) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                    word.extend(next.to_uppercase());
                }
                tokens.push(word);
            }
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

/// Returns an error for a `]` in a quote or comment that began after a `[`: servers for which brackets quote a name see
/// neither the quote nor the comment, and read what follows the `]` as statements.
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

/// Returns the text up to the end of the quotes, in upper case.
fn quoted(end: char, chars: &mut Chars<'_>, in_brackets: bool) -> Result<String, String> {
    let mut text = String::new();
    loop {
        match chars.next() {
            // Database servers differ in whether a backslash escapes a quote, so this is refused.
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

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn statements_that_read_pass() {
        for text in [
            "select 1",
            "(SELECT a FROM t)",
            "SELECT replace(a,'b','c') FROM t; SHOW TABLES",
            "explain select 1",
            "SHOW CREATE TABLE t",
            "PRAGMA user_version",
            "select 'it''s'",
            "select 5 - 1 -- x",
            "select $1, a[1], ARRAY[['x', 'y'], ['z', \"b\"]] from t --\n",
            "SELECT 1 AS [x y]",
            "SELECT \"setval\", `sleep` FROM \"update\"",
            "WITH \"x\" (\"a\") AS (SELECT 1) SELECT \"lower\"('A') FROM \"x\"",
            "SELECT a #>> '{b,c}', a #> '{b}' FROM t WHERE a #- '{b}' ? 'c'",
            "SELECT * FROM #temp",
            "SELECT 1 # the answer\nFROM t",
            "SELECT truncate(1.5, 0), edit_distance(a, b), backup FROM t",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn statements_that_may_write_are_refused() {
        for text in [
            "",
            "REPLACE INTO t VALUES (1)",
            "explain analyze delete from t",
            "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d",
            "select nextval('s')",
            "SELECT 1 /*! DELETE */",
            "select '\\'; delete from t --'",
            "PRAGMA user_version=2",
            "SELECT \"setval\"('s', 1)",
            "SELECT pg_catalog.\"PG_TERMINATE_BACKEND\" (1)",
            "SELECT `sleep`(10)",
            "SELECT [xp_cmdshell]('x')",
            "SELECT U&\"s\\0065tval\"('s', 1)",
            "SELECT U&\"s!0065tval\" UESCAPE '!' ('s', 1)",
            "select 1 for share",
            "VACUUM",
            "BEGIN",
            "select 'x",
            "SELECT 5--1 INTO OUTFILE '/tmp/x'",
            "SELECT 5--\u{a0}1 INTO OUTFILE '/tmp/x'",
            "SELECT 1 -- x\r; DELETE FROM t",
            "SELECT a #> '\n; DELETE FROM t #'",
            "SELECT a #> b; DELETE FROM t",
            "SELECT 1 # x\n; DELETE FROM t",
            "SELECT 1 # x\r; DELETE FROM t",
            "SELECT 1 # /*\n; DELETE FROM t # */",
            "SELECT 1 AS [# ]; DELETE FROM t",
            "SELECT 1 SHUTDOWN WITH NOWAIT",
            "SELECT 1 KILL 53",
            "SELECT 1 BACKUP DATABASE a TO DISK = 'x'",
            "EXPLAIN TRUNCATE t",
            "SELECT $a$; DELETE FROM t; SELECT $a$",
            "SELECT $$; DELETE FROM t; SELECT $$",
            "SELECT 1 AS [x'y]; DELETE FROM t; SELECT 1 AS [x'y]",
            "SELECT 1 AS ['\"'\"]; DELETE FROM t; SELECT 1 AS [\"]",
            "SELECT 1 AS [a]]'b]; DELETE FROM t; SELECT 1 AS [a]]'b]",
            "SELECT 1 AS [-- ]; DELETE FROM t",
            "SELECT 1 AS [/* ]; DELETE FROM t; SELECT 1 AS [*/]",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
