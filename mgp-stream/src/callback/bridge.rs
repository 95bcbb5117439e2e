//! Callbacks for callers that did not negotiate them, in the form of MCP's elicitation, sampling and log messages.

use mgp_types::mcp::{
    ClientCapabilities, ContentBlock, CreateMessageParams, CreateMessageResult, ElicitAction,
    ElicitParams, ElicitResult, Era, LogLevel, LogMessageParams, ModelHint, ModelPreferences, Role,
    SamplingMessage,
};
use mgp_types::method::{ElicitationCreate, Request as _, SamplingCreateMessage};
use mgp_types::mgp::{CallbackRequestParams, CallbackType};
use mgp_types::service::{CallerRequest, Context};
use mgp_types::{ErrorCode, Number, Object, Payload, RawObject, RpcError};
use serde::{Deserialize, Serialize};

use super::answer::CallbackAnswer;

/// The name of the only field in an elicitation's form; the field holds the answer.
const ANSWER: &str = "answer";

/// The maximum number of tokens in a completion if the question does not set one.
const MAX_TOKENS: u64 = 1_024;

/// Asks a question by MCP elicitation, or by sampling if it requests a completion.
pub(super) async fn ask(
    cx: &Context,
    key: &str,
    question: &CallbackRequestParams,
) -> Result<CallbackAnswer, RpcError> {
    if question.kind == CallbackType::LlmCompletion {
        let ask = CallerRequest::new(SamplingCreateMessage::METHOD, sampling(question)?);
        return completion(&cx.ask(key, ask).await?).map(CallbackAnswer::Given);
    }
    if cx.caller.accepts.elicitation && !is_offered(cx, question) {
        return Err(no_forms(cx.caller.era));
    }
    let mut form = ElicitParams::new(question.message.clone().unwrap_or_default());
    form.requested_schema = Some(schema(question)?);
    let ask = CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&form)?);
    // The answer can permit an action. Therefore ask with `ask_again`, which ignores an answer that the caller sent
    // before it received the question.
    let answer: ElicitResult = cx.ask_again(key, ask).await?.get()?;
    match answer.action {
        ElicitAction::Accept => {
            let content = Payload::of(&answer.content.unwrap_or_default())?.get::<Object>()?;
            let response = content.get(ANSWER).cloned();
            let missing = || {
                let message = format!(
                    "the form was accepted without `{ANSWER}`, so nothing was confirmed; call again to be asked again"
                );
                RpcError::new(ErrorCode::TIMEOUT, message)
            };
            CallbackAnswer::read(question, &response.ok_or_else(missing)?)
        }
        ElicitAction::Decline => Ok(CallbackAnswer::Declined),
        _ => Ok(CallbackAnswer::Dismissed),
    }
}

/// Returns whether the caller offers the MCP method for the question: sampling for a completion, otherwise elicitation
/// with forms.
pub(super) fn is_offered(cx: &Context, question: &CallbackRequestParams) -> bool {
    if question.kind == CallbackType::LlmCompletion {
        return cx.caller.accepts.sampling;
    }
    let offered = cx.caller.capabilities.as_ref().and_then(|all| all.get().ok());
    let offered: ClientCapabilities = offered.unwrap_or_default();
    let has_forms =
        offered.elicitation.is_none_or(|modes| modes.form.is_some() || modes.url.is_none());
    cx.caller.accepts.elicitation && has_forms
}

/// Returns the error for a caller that offers elicitation, but neither forms nor callbacks.
fn no_forms(era: Era) -> RpcError {
    let message = "the caller can be asked neither by callbacks nor by forms";
    match era {
        Era::Legacy => RpcError::new(ErrorCode::PERMISSION_DENIED, message).after_start(),
        Era::Modern => RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message)
            .data(Payload::from_trusted(r#"{"requiredCapabilities":{"elicitation":{"form":{}}}}"#)),
    }
}

/// Returns the schema of the form that asks the question by elicitation. The form has one field, for the answer.
fn schema(question: &CallbackRequestParams) -> Result<RawObject, RpcError> {
    #[derive(Serialize)]
    struct Field<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        title: &'a str,
        #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
        options: Option<&'a [String]>,
    }
    let options = Some(&question.options[..]).filter(|options| !options.is_empty());
    let is_yes_or_no = question.kind == CallbackType::Confirmation && options.is_none();
    let kind = if is_yes_or_no { "boolean" } else { "string" };
    let field = Payload::of(&Field { kind, title: "Answer", options })?;
    let schema = format!(
        r#"{{"type":"object","properties":{{"{ANSWER}":{}}},"required":["{ANSWER}"]}}"#,
        field.as_str()
    );
    Payload::from_trusted(schema).get()
}

/// Converts a callback of the type `notification` to the params of a log message.
pub(super) fn log_message(note: &CallbackRequestParams) -> Result<Payload, RpcError> {
    let text = Payload::of(note.message.as_deref().unwrap_or_default())?;
    Payload::of(&LogMessageParams::new(LogLevel::Notice, text))
}

// === Completions ===

/// The members of a question of the type `llm_completion`, as later revisions of MGP define them.
#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    messages: Vec<Message>,
    #[serde(default)]
    model_hints: ModelHints,
    max_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

#[derive(Default, Deserialize)]
struct ModelHints {
    provider: Option<String>,
    speed_priority: Option<f64>,
    intelligence_priority: Option<f64>,
}

fn sampling(question: &CallbackRequestParams) -> Result<Payload, RpcError> {
    let Completion { messages, model_hints: hints, max_tokens } = Payload::of(question)?.get()?;
    let mut asked = Vec::new();
    // Without `messages`, the text of the question is the prompt; otherwise it is the system prompt.
    let (system, prompt) = match question.message.clone() {
        Some(text) if messages.is_empty() => (None, Some(text)),
        text => (text, None),
    };
    let mut system: Vec<String> = system.into_iter().collect();
    let prompt = prompt.map(|content| Message { role: "user".to_owned(), content });
    for Message { role, content } in messages.into_iter().chain(prompt) {
        let role = match role.as_str() {
            "system" => {
                system.push(content);
                continue;
            }
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        asked.push(SamplingMessage::new(role, ContentBlock::text(content)));
    }
    let mut params = CreateMessageParams::new(asked, max_tokens.unwrap_or(MAX_TOKENS));
    params.system_prompt = (!system.is_empty()).then(|| system.join("\n"));
    let mut preferences = ModelPreferences::new();
    preferences.speed_priority = hints.speed_priority.map(Number::from);
    preferences.intelligence_priority = hints.intelligence_priority.map(Number::from);
    if let Some(provider) = hints.provider {
        let mut hint = ModelHint::new();
        hint.name = Some(provider);
        preferences.hints = vec![hint].into();
    }
    params.model_preferences = Some(preferences);
    Payload::of(&params)
}

/// Converts the message of a model to the response for an `llm_completion`.
fn completion(message: &Payload) -> Result<Payload, RpcError> {
    #[derive(Serialize)]
    struct Response {
        content: String,
        model: String,
        tool_calls: [(); 0],
    }
    let message: CreateMessageResult = message.get()?;
    let texts = message.content.as_slice().iter().filter_map(ContentBlock::as_text);
    let content = texts.collect::<Vec<_>>().join("\n");
    Payload::of(&Response { content, model: message.model, tool_calls: [] })
}
