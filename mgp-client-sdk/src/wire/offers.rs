//! Checks whether a caller offered to answer a question (MCP elicitation modes, sampling with tools).

use mgp_types::mcp::ClientCapabilities;
use mgp_types::method::{ElicitationCreate, Request, SamplingCreateMessage};
use mgp_types::service::{CallerRequest, PeerInfo, ServerId};
use mgp_types::{Object, Payload, RpcError};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Adds the server's name to a question that a person or a model reads, so that it cannot be taken for another server's
/// question.
pub(crate) fn name_server(server: Option<&ServerId>, method: &str, params: &Payload) -> Payload {
    let (Some(server), Ok(mut named)) = (server, params.get::<Object>()) else {
        return params.clone();
    };
    let (member, words) = match method {
        ElicitationCreate::METHOD => ("message", format!("The server `{server}` asks:\n")),
        SamplingCreateMessage::METHOD => {
            ("systemPrompt", format!("The server `{server}` makes this request.\n"))
        }
        _ => return params.clone(),
    };
    let text: String = named.decode(member).ok().flatten().unwrap_or_default();
    // Texts can always be encoded.
    let _ = named.encode(member, &(words + &text));
    Payload::of(&named).unwrap_or_else(|_| params.clone())
}

/// The maximum depth of lists and objects in a question. Many readers of JSON refuse more, and a caller might lose its
/// connection then.
const MAX_DEPTH: usize = 120;

/// Refuses a question that the caller did not offer to answer, even if the forwarding client offered it, or that the
/// caller might not be able to read.
pub(crate) fn offers(caller: &PeerInfo, ask: &CallerRequest) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Question {
        mode: Option<String>,
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
    let Ok(question) = ask.params().get::<Question>() else { return Ok(()) };
    let offered = caller.capabilities.as_ref().and_then(|all| all.get().ok());
    let offered: ClientCapabilities = offered.unwrap_or_default();
    let missing = if ask.method() == ElicitationCreate::METHOD {
        let Some(elicitation) = offered.elicitation else { return Ok(()) };
        match question.mode.as_deref() {
            Some("url") if elicitation.url.is_none() => Some("elicitation of mode `url`"),
            // By specification, a caller that names neither mode supports forms.
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

#[cfg(test)]
mod tests {
    use mgp_types::mcp::Revision;

    use super::*;

    #[test]
    fn a_question_that_is_nested_too_deeply_for_callers_is_refused() {
        let caller = PeerInfo::new(Revision::V2025_06_18);
        for method in ["roots/list", "elicitation/create", "sampling/createMessage"] {
            for (levels, is_passed) in [(100, true), (3_000, false)] {
                let (open, close) = ("[".repeat(levels), "]".repeat(levels));
                let params = Payload::from_trusted(format!(r#"{{"_meta":{{"a":{open}{close}}}}}"#));
                let ask = CallerRequest::new(method.to_owned(), params);
                assert_eq!(offers(&caller, &ask).is_ok(), is_passed, "{method} {levels}");
            }
        }
    }
}
