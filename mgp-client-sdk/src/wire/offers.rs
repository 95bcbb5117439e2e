//! Checks a server's question before it is forwarded to a caller. The caller must have offered to answer questions of
//! this kind (a mode of elicitation, sampling with tools), and the question must be safe to show.

use mgp_types::mcp::{ClientCapabilities, key};
use mgp_types::method::{ElicitationCreate, Request, SamplingCreateMessage};
use mgp_types::service::{CallerRequest, PeerInfo, ServerId};
use mgp_types::{Object, Payload, RpcError, differs_only_in_case};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::page_address::check_page;

/// Returns the params of a server's question for a caller. If the id of the server is known, names it in the text that
/// a person or a model reads, so that the question is not taken for another server's, and escapes characters that could
/// change the look of a form. Leaves out the progress token and the id of the server's task, which are valid only on
/// the server's connection.
pub(crate) fn question_for_caller(
    server: Option<&ServerId>,
    method: &str,
    params: &Payload,
) -> Payload {
    let Ok(mut question) = params.get::<Object>() else { return params.clone() };
    remove_local_ids(&mut question);
    let named = server.and_then(|server| match method {
        ElicitationCreate::METHOD => Some(("message", format!("The server `{server}` asks:\n"))),
        SamplingCreateMessage::METHOD => {
            Some(("systemPrompt", format!("The server `{server}` makes this request.\n")))
        }
        _ => None,
    });
    if let Some((member, words)) = named {
        let mut text: String = question.decode(member).ok().flatten().unwrap_or_default();
        if method == ElicitationCreate::METHOD {
            text = shown_text(text);
            show_form(&mut question);
        }
        // Ignore the result, because texts can always be encoded.
        let _ = question.encode(member, &(words + &text));
    }
    Payload::of(&question).unwrap_or_else(|_| params.clone())
}

/// Escapes the texts of a form: its titles and descriptions, and the names of its choices. Values that the caller sends
/// back are not changed.
fn show_form(question: &mut Object) {
    let Ok(Some(mut form)) = question.decode::<Value>(FORM) else { return };
    // Write only a form that has changed, because its fields lose their order.
    if show_texts(&mut form) {
        // Ignore the result, because JSON values can always be encoded.
        let _ = question.encode(FORM, &form);
    }
}

/// Escapes the texts of a part of a form; returns whether any of them changed.
fn show_texts(form: &mut Value) -> bool {
    let mut has_changed = false;
    match form {
        Value::Array(items) => items.iter_mut().for_each(|item| has_changed |= show_texts(item)),
        Value::Object(members) => {
            for (name, member) in members {
                // Compare names without regard to case, because some hosts ignore it.
                has_changed |= match (name.to_ascii_lowercase().as_str(), member) {
                    ("title" | "description", Value::String(text)) => show_text(text),
                    ("enumnames", Value::Array(names)) => {
                        let texts = names.iter_mut().filter_map(|name| match name {
                            Value::String(text) => Some(text),
                            _ => None,
                        });
                        texts.fold(false, |changed, text| show_text(text) | changed)
                    }
                    (_, member) => show_texts(member),
                };
            }
        }
        _ => {}
    }
    has_changed
}

fn show_text(text: &mut String) -> bool {
    let shown = shown_text(text.clone());
    let has_changed = shown != *text;
    *text = shown;
    has_changed
}

/// Escapes the characters of a server's text that change the direction of text or control a terminal, so that a person
/// reads what the server wrote. A carriage return alone would let a terminal write one line over another.
pub(super) fn shown_text(text: String) -> String {
    let text = if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text };
    let is_escaped = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_escaped) {
        return text;
    }
    text.chars().fold(String::new(), |mut shown, c| {
        if is_escaped(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Removes the progress token and the id of a task from the `_meta` of a server's question or result, because they are
/// valid only on the server's connection.
pub(crate) fn remove_local_ids(message: &mut Object) {
    let Ok(Some(mut meta)) = message.decode::<Object>("_meta") else { return };
    let token = meta.remove(key::PROGRESS_TOKEN);
    if meta.remove(key::RELATED_TASK).or(token).is_none() {
        return;
    }
    if meta.is_empty() {
        message.remove("_meta");
    } else if let Ok(rest) = Payload::of(&meta) {
        message.insert("_meta", rest);
    }
}

/// The maximum depth of lists and objects in a question. Many readers of JSON refuse more, and a caller might lose its
/// connection then.
const MAX_DEPTH: usize = 120;

/// The members of an elicitation that decide how a host shows it.
pub(super) const SHOWN_MEMBERS: [&str; 5] = ["elicitationId", "message", "mode", FORM, "url"];

/// The member of an elicitation that has the form.
const FORM: &str = "requestedSchema";

/// Refuses an elicitation in a mode, and sampling with tools, that the caller did not offer, even if the forwarding
/// client offered it. Also refuses a question that is nested too deeply for the caller to read, or that asks a user to
/// open an unsafe page. It does not check whether the caller offers the method at all; asking the caller does.
pub(crate) fn offers(
    caller: &PeerInfo,
    server: Option<&ServerId>,
    ask: &CallerRequest,
) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Question {
        mode: Option<String>,
        url: Option<String>,
        tools: Option<IgnoredAny>,
        #[serde(rename = "toolChoice")]
        choice: Option<IgnoredAny>,
    }
    if ask.params().is_deeper_than(MAX_DEPTH) {
        let message = format!("the question is nested deeper than {MAX_DEPTH} levels");
        return Err(RpcError::invalid_params(message));
    }
    if !matches!(ask.method(), ElicitationCreate::METHOD | SamplingCreateMessage::METHOD) {
        return Ok(());
    }
    // Refuse a question that this client cannot read, e.g. with a repeated member, because the host could read it
    // differently.
    let question: Question = ask.params().get()?;
    let offered = caller.capabilities.as_ref().and_then(|all| all.get().ok());
    let offered: ClientCapabilities = offered.unwrap_or_default();
    let missing = if ask.method() == ElicitationCreate::METHOD {
        refuse_unread(ask.params())?;
        match &question.url {
            Some(page) => check_page(page, server)?,
            None if question.mode.as_deref() == Some("url") => {
                return Err(RpcError::invalid_params("`url` is missing"));
            }
            None => {}
        }
        let Some(elicitation) = offered.elicitation else { return Ok(()) };
        match question.mode.as_deref() {
            Some("url") if elicitation.url.is_none() => Some("elicitation of mode `url`"),
            // By the specification, a caller that names neither of the two modes supports forms. So refuse a form only
            // if it names the mode `url` alone.
            None | Some("form") if elicitation.form.is_none() && elicitation.url.is_some() => {
                Some("elicitation of mode `form`")
            }
            _ => None,
        }
    } else {
        let uses_tools = question.tools.is_some() || question.choice.is_some();
        let takes_tools = offered.sampling.is_some_and(|sampling| sampling.tools.is_some());
        (uses_tools && !takes_tools).then_some("sampling with tools")
    };
    match missing {
        Some(missing) => {
            Err(RpcError::invalid_params(format!("the caller does not offer {missing}")))
        }
        None => Ok(()),
    }
}

/// Refuses an elicitation with a member whose name differs from a checked name only in case, because a host that
/// ignores case could use this member instead. Also refuses a form that this kernel cannot read, because its texts
/// cannot be escaped.
fn refuse_unread(params: &Payload) -> Result<(), RpcError> {
    let members: Object = params.get()?;
    let known =
        |name: &str| SHOWN_MEMBERS.into_iter().find(|known| differs_only_in_case(name, known));
    match members.iter().find_map(|(name, _)| known(name)) {
        Some(known) => {
            let message = format!("a member differs from `{known}` only in case");
            Err(RpcError::invalid_params(message))
        }
        None => members.decode::<Value>(FORM).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::{ElicitParams, Revision};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_progress_token_and_task_of_a_question_stay_on_its_connection() {
        for (meta, expected) in [
            (r#""_meta":{"progressToken":7}"#, "{}"),
            (r#""_meta":{"progressToken":"t","a":1}"#, r#"{"_meta":{"a":1}}"#),
            (r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}"#, "{}"),
            (r#""_meta":{"a":1}"#, r#"{"_meta":{"a":1}}"#),
            (r#""_meta":7"#, r#"{"_meta":7}"#),
        ] {
            let params = Payload::parse(format!("{{{meta}}}")).unwrap();
            for server in [None, Some(ServerId::from("s"))] {
                let asked = question_for_caller(server.as_ref(), "roots/list", &params);
                assert_eq!(asked.as_str(), expected);
            }
        }
    }

    #[test]
    fn a_message_cannot_change_the_direction_in_which_a_person_reads_it() {
        for (message, expected) in [
            ("a\u{202e}b\u{2066}c\u{1b}[8md", r"a\u{202e}b\u{2066}c\u{1b}[8md"),
            ("Delete all?\rSay hello? ", r"Delete all?\rSay hello? "),
            ("one\r\ntwo", "one\ntwo"),
            ("one\n\ttwo \u{200f}שלום ✔\u{fe0f}", "one\n\ttwo \u{200f}שלום ✔\u{fe0f}"),
        ] {
            let params = Payload::of(&ElicitParams::new(message)).unwrap();
            let asked = question_for_caller(Some(&"s".into()), ElicitationCreate::METHOD, &params);
            let asked: ElicitParams = asked.get().unwrap();
            assert_eq!(asked.message, format!("The server `s` asks:\n{expected}"));
        }
    }

    #[test]
    fn the_texts_of_a_form_cannot_change_the_direction_in_which_a_person_reads_them() {
        for (text, expected) in [("\u{202e}a", r"\u{202e}a"), ("b\u{200f}", "b\u{200f}")] {
            let field = json!({
                "title": text, "description": text, "type": "string", "enum": [text],
                "enumNames": [text], "oneOf": [{"const": text, "title": text}], "default": text,
                "Title": text,
            });
            let form = json!({"message": "?", "requestedSchema": {"properties": {"x": field}}});
            let params = Payload::of(&form).unwrap();
            let asked = question_for_caller(Some(&"s".into()), ElicitationCreate::METHOD, &params);
            let asked: Value = asked.get().unwrap();
            let field = &asked["requestedSchema"]["properties"]["x"];
            let choice = &field["oneOf"][0];
            let titles = [&field["title"], &field["Title"], &field["description"]];
            for shown in titles.into_iter().chain([&field["enumNames"][0]]) {
                assert_eq!(shown, expected);
            }
            assert_eq!(choice["title"], expected);
            for value in [&field["enum"][0], &choice["const"], &field["default"]] {
                assert_eq!(value, text);
            }
        }
    }

    #[test]
    fn a_form_with_texts_that_cannot_be_escaped_is_refused() {
        let caller = PeerInfo::new(Revision::V2025_06_18);
        for (limit, is_read) in [("1e9", true), ("1e999", false), (r#""\ud800""#, false)] {
            let form =
                format!(r#"{{"properties":{{"x":{{"title":"\u202ea","maximum":{limit}}}}}}}"#);
            let params = format!(r#"{{"message":"?","requestedSchema":{form}}}"#);
            let ask =
                CallerRequest::new(ElicitationCreate::METHOD, Payload::parse(params).unwrap());
            assert_eq!(offers(&caller, None, &ask).is_ok(), is_read, "{form}");
        }
    }

    #[test]
    fn an_unchanged_form_keeps_the_order_of_its_fields() {
        let form = r#"{"properties":{"name":{"title":"Name"},"age":{"title":"Age"}}}"#;
        let params = Payload::parse(format!(r#"{{"message":"?","requestedSchema":{form}}}"#));
        let server = ServerId::from("s");
        let asked = question_for_caller(Some(&server), ElicitationCreate::METHOD, &params.unwrap());
        assert!(asked.as_str().contains(form), "{asked:?}");
    }

    #[test]
    fn a_question_that_is_nested_too_deeply_for_callers_is_refused() {
        let caller = PeerInfo::new(Revision::V2025_06_18);
        for method in ["roots/list", "elicitation/create", "sampling/createMessage"] {
            for (levels, is_passed) in [(100, true), (3_000, false)] {
                let (open, close) = ("[".repeat(levels), "]".repeat(levels));
                let params = Payload::from_trusted(format!(r#"{{"_meta":{{"a":{open}{close}}}}}"#));
                let ask = CallerRequest::new(method.to_owned(), params);
                assert_eq!(offers(&caller, None, &ask).is_ok(), is_passed, "{method} {levels}");
            }
        }
    }

    #[test]
    fn a_page_that_runs_a_script_never_reaches_a_host() {
        let mut caller = PeerInfo::new(Revision::V2025_11_25);
        caller.capabilities =
            Some(Payload::from_trusted(r#"{"elicitation":{"form":{},"url":{}}}"#));
        for (members, is_passed) in [
            (r#""mode":"url","url":"https://example.com/in""#, true),
            (r#""mode":"url","url":"http://127.0.0.1:9/in""#, true),
            (r#""mode":"form","requestedSchema":{}"#, true),
            (r#""mode":"url","url":"javascript:alert(1)""#, false),
            (r#""mode":"form","url":"file:///etc/passwd""#, false),
            (r#""mode":"url","url":"https://example.com/in","URL":"data:text/html,a""#, false),
            (r#""mode":"url","url":"https://example.com/in","url":"data:text/html,a""#, false),
            (r#""mode":"url""#, false),
        ] {
            let params = Payload::from_trusted(format!(r#"{{"message":"?",{members}}}"#));
            let ask = CallerRequest::new("elicitation/create", params);
            assert_eq!(offers(&caller, None, &ask).is_ok(), is_passed, "{members}");
        }
    }
}
