//! Compares the replies to a test case (row) with its expected reaction (the label). These functions are
//! pure: they use no process and no clock.

use super::row::Expect;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The parts of a reply that are compared with the label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// The id as the server wrote it; `None` if the reply has no id.
    pub(super) id: Option<String>,
    /// The error code of the reply; `None` for a result.
    pub(super) code: Option<i64>,
}

/// The kind of a line that the server wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// One or more replies; a batch contains several.
    Replies(Vec<Reply>),
    /// A request or notification that the server sent by itself.
    Own,
    /// The server sent text that is not JSON-RPC.
    Noise,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Parses a line that the server wrote.
pub(super) fn read(line: &str) -> Line {
    let messages: Vec<&RawValue> = if line.trim_start().starts_with('[') {
        serde_json::from_str(line).unwrap_or_default()
    } else {
        serde_json::from_str(line).into_iter().collect()
    };
    let mut replies = Vec::new();
    for raw in &messages {
        let Ok(message) = serde_json::from_str::<Message<'_>>(raw.get()) else {
            return Line::Noise;
        };
        if message.method.is_some() {
            continue;
        }
        let code = match (message.result, message.error) {
            (Some(_), None) => None,
            (None, Some(error)) => {
                let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
                let Some(code) = error["code"].as_i64() else { return Line::Noise };
                Some(code)
            }
            _ => return Line::Noise,
        };
        replies.push(Reply { id: id_text(raw.get()), code });
    }
    match (messages.is_empty(), replies.is_empty()) {
        (true, _) => Line::Noise,
        (false, true) => Line::Own,
        (false, false) => Line::Replies(replies),
    }
}

/// Returns the id of a message as written; the id `null` is returned as the text `null`; `None` means that the message
/// has no id.
pub(super) fn id_text(message: &str) -> Option<String> {
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(message).ok()?;
    members.get("id").map(|id| id.get().to_owned())
}

/// Compares the replies with the label; `sent` is the id of the row's first message, `messages` the number of messages
/// that the row sends.
pub(super) fn judge(
    expect: &Expect,
    sent: Option<&str>,
    messages: usize,
    replies: &[Reply],
) -> Result<(), String> {
    let allowed = expect.max_replies.unwrap_or(messages);
    if replies.len() > allowed {
        return Err(format!("{} replies, at most {allowed} expected", replies.len()));
    }
    let mut judged: Vec<&Reply> = replies.iter().collect();
    if let Some(later) = &expect.then_ok {
        let place = judged.iter().position(|reply| {
            reply.code.is_none() && reply.id.as_deref().is_some_and(|id| same(id, later.get()))
        });
        let place = place.ok_or_else(|| format!("no result for the later id {later}"))?;
        judged.remove(place);
    }
    let (error, result, silence) = match &*expect.reaction {
        "error" => (true, false, false),
        "no_reply" => (false, false, true),
        "result" => (false, true, false),
        "result_or_error" | "either" => (true, true, false),
        "error_or_ignore" => (true, false, true),
        "any" => (true, true, true),
        unknown => return Err(format!("unknown reaction `{unknown}`")),
    };
    if judged.is_empty() && !silence {
        return Err("no reply".to_owned());
    }
    let codes = expect.codes();
    for reply in judged {
        let shown = show(reply);
        match reply.code {
            Some(_) if !error => return Err(format!("{shown}: an error was not expected")),
            None if !result => return Err(format!("{shown}: a result was not expected")),
            Some(code) if !codes.is_empty() && !codes.contains(&code) => {
                return Err(format!("{shown}: expected code {codes:?}"));
            }
            _ => {}
        }
        if let Some(rule) = &expect.id
            && !id_matches(rule.get(), sent, reply)
        {
            return Err(format!("{shown}: expected id {rule}"));
        }
    }
    Ok(())
}

/// Describes a reply in a few words, for a failure message.
pub(super) fn show(reply: &Reply) -> String {
    let id = reply.id.as_deref().unwrap_or("absent");
    let id = if id.chars().count() > 40 {
        format!("{}…", id.chars().take(40).collect::<String>())
    } else {
        id.to_owned()
    };
    match reply.code {
        Some(code) => format!("error {code} id {id}"),
        None => format!("result id {id}"),
    }
}

/// Returns whether the id of a reply matches the rule in the label.
fn id_matches(rule: &str, sent: Option<&str>, reply: &Reply) -> bool {
    let none = reply.id.as_deref().is_none_or(|id| id == "null");
    let exact = reply.id.is_some() && reply.id.as_deref() == sent;
    let Ok(word) = serde_json::from_str::<String>(rule) else {
        // The rule is not a string, so it is the expected id itself, e.g. a number.
        return reply.id.as_deref().is_some_and(|id| same(id, rule));
    };
    // Accepts a missing id only in an error, because a result without an id belongs to no request. The rule `absent` is
    // an exception.
    let none = none && reply.code.is_some();
    match &*word {
        "null_or_absent" | "absent_or_null" => none || (exact && reply.code.is_none()),
        "null" => none && reply.id.is_some(),
        "absent" => reply.id.is_none(),
        "exact" => exact,
        "exact_or_null" => exact || none,
        "any" => true,
        word => {
            let (id, may_be_null) = match word.strip_suffix("_or_null") {
                Some(id) => (id, true),
                None => (word, false),
            };
            let quoted = Value::from(id).to_string();
            let equal = |got: &str| same(got, &quoted) || same(got, id);
            reply.id.as_deref().is_some_and(equal) || (may_be_null && none)
        }
    }
}

/// Returns whether two ids are equal: as written, as strings, or as small numbers (`1` equals `1.0`).
fn same(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (read(one), read(other)) {
        (Some(Value::String(one)), Some(Value::String(other))) => one == other,
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            let small = |number: f64| number.abs() < 9e15;
            let (one, other) = (one.as_f64(), other.as_f64());
            one.zip(other).is_some_and(|(one, other)| {
                small(one) && small(other) && (one - other).abs() < f64::EPSILON
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expect: &str, sent: &str, lines: &[&str], ok: bool) {
        let expect: Expect = serde_json::from_str(expect).unwrap();
        let mut replies = Vec::new();
        for line in lines {
            if let Line::Replies(more) = read(line) {
                replies.extend(more);
            }
        }
        let verdict = judge(&expect, id_text(sent).as_deref(), 1, &replies);
        assert_eq!(verdict.is_ok(), ok, "{verdict:?}");
    }

    const PARSE: &str = r#"{"reaction":"error","code":-32700,"id":"null_or_absent"}"#;
    const EITHER: &str = r#"{"reaction":"either","code":-32600,"id":"1_or_null"}"#;

    #[test]
    fn errors_are_judged_by_code_and_id() {
        check(PARSE, "[", &[r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#], true);
        check(PARSE, "[", &[r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#], true);
        check(PARSE, "[", &[r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32700}}"#], false);
        check(PARSE, "[", &[r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600}}"#], false);
        check(PARSE, "[", &[r#"{"jsonrpc":"2.0","id":null,"result":{}}"#], false);
        check(PARSE, "[", &[], false);
    }

    #[test]
    fn one_message_has_one_reply() {
        let error = r#"{"id":null,"error":{"code":-32700}}"#;
        check(PARSE, "[", &[error, error], false);
        check(r#"{"reaction":"no_reply"}"#, "{}", &[], true);
        check(r#"{"reaction":"no_reply"}"#, "{}", &[r#"{"id":1,"result":{}}"#], false);
    }

    #[test]
    fn a_result_needs_its_id_even_where_null_is_allowed() {
        check(EITHER, "", &[r#"{"id":1,"result":{}}"#], true);
        check(EITHER, "", &[r#"{"id":1.0,"result":{}}"#], true);
        check(EITHER, "", &[r#"{"id":null,"result":{}}"#], false);
        check(EITHER, "", &[r#"{"id":null,"error":{"code":-32600}}"#], true);
        check(EITHER, "", &[r#"{"id":2,"error":{"code":-32600}}"#], false);
    }

    #[test]
    fn large_ids_are_compared_as_written() {
        let exact = r#"{"reaction":"either","id":"exact_or_null"}"#;
        let sent = r#"{"id":99999999999999999999}"#;
        check(exact, sent, &[r#"{"id":99999999999999999999,"result":{}}"#], true);
        check(exact, sent, &[r#"{"id":100000000000000000000,"result":{}}"#], false);
        let number = r#"{"reaction":"result_or_error","id":9007199254740993}"#;
        check(number, "", &[r#"{"id":9007199254740993,"result":{}}"#], true);
        check(number, "", &[r#"{"id":9007199254740992,"result":{}}"#], false);
        let text = r#"{"reaction":"result_or_error","id":"a"}"#;
        check(text, "", &[r#"{"id":"\u0061","result":{}}"#], true);
    }

    #[test]
    fn a_later_message_must_succeed() {
        let expect = r#"{"reaction":"error","code":-32700,"id":"null_or_absent","then_ok":1,
            "max_replies":2}"#;
        let error = r#"{"id":null,"error":{"code":-32700}}"#;
        check(expect, "", &[error, r#"{"id":1,"result":{}}"#], true);
        check(expect, "", &[error], false);
    }

    #[test]
    fn lines_of_a_server_are_classified() {
        assert_eq!(read("oops"), Line::Noise);
        assert_eq!(read(r#"{"id":1}"#), Line::Noise);
        assert_eq!(read(r#"{"method":"a"}"#), Line::Own);
        let batch = r#"[{"id":1,"result":{}},{"id":2,"error":{"code":-1}}]"#;
        assert!(matches!(read(batch), Line::Replies(replies) if replies.len() == 2));
    }
}
