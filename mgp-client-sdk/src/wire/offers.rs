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

/// Refuses a question that the caller did not offer to answer, even if the forwarding client offered it.
pub(crate) fn offers(caller: &PeerInfo, ask: &CallerRequest) -> Result<(), RpcError> {
    #[derive(Deserialize)]
    struct Question {
        mode: Option<String>,
        tools: Option<IgnoredAny>,
        #[serde(rename = "toolChoice")]
        choice: Option<IgnoredAny>,
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
