//! A request to the caller's model (MCP sampling).

use mgp_stream::{CallbackAnswer, ask_callback, can_ask_callback};
use mgp_types::mcp::{
    ContentBlock, CreateMessageParams, CreateMessageResult, Role, SamplingMessage,
};
use mgp_types::method::{Request, SamplingCreateMessage};
use mgp_types::mgp::{CallbackRequestParams, CallbackType};
use mgp_types::service::{BoxFuture, CallerRequest, Context};
use mgp_types::{OneOrMany, Payload, RpcError};
use serde::{Deserialize, Serialize};

use super::{ClientCapability, Question, read};

/// The default maximum number of tokens in an answer.
const MAX_TOKENS: u64 = 1_024;

/// A request to the caller's model; awaiting this value sends it.
///
/// If the caller does not offer sampling but negotiated MGP callbacks, it receives a callback `llm_completion` instead,
/// unless the request contains tools, or content other than text.
///
/// ```
/// use mgp_server_sdk::prelude::*;
///
/// let title = Tool::new("title", "Finds a title", |cx: Context| async move {
///     let request = cx.sample("A title for a story about rain").system("Answer with the title only.").max_tokens(50);
///     let answer = request.define(|request| request.temperature = Some(0.2.into())).await?;
///     Ok::<_, RpcError>(answer.to_text())
/// });
/// # drop(title);
/// ```
///
/// # Errors
/// Code 1000 (permission denied) if the caller supports neither sampling nor callbacks; for callers of 2026-07-28, code
/// −32021 (missing client capability) instead. Code −32602 (invalid params) if its answer is not a message. Code 3003
/// (timeout) if a callback was not answered in time.
#[derive(Debug)]
#[must_use = "the request is sent when it is awaited"]
pub struct Sampling {
    question: Question,
    params: CreateMessageParams,
}

impl Sampling {
    pub(super) fn new(cx: &Context, prompt: String) -> Self {
        let message = SamplingMessage::new(Role::User, ContentBlock::text(prompt));
        let params = CreateMessageParams::new(vec![message], MAX_TOKENS);
        Self { question: Question::new(cx, "sampling"), params }
    }

    /// Sets the key of the question, which must be unique within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }

    /// Sets the maximum number of tokens in the answer. Default: 1024.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.params.max_tokens = tokens;
        self
    }

    /// Sets the system prompt.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.params.system_prompt = Some(prompt.into());
        self
    }

    /// Changes the request: messages, preferences, tools and so on.
    pub fn define(mut self, change: impl FnOnce(&mut CreateMessageParams)) -> Self {
        change(&mut self.params);
        self
    }
}

impl Sampling {
    /// Returns the sampling request in the form of a callback, if the caller supports callbacks but not sampling.
    fn completion(&self) -> Option<CallbackRequestParams> {
        #[derive(Serialize)]
        struct Message<'a> {
            role: &'a str,
            content: String,
        }
        let mut params = CallbackRequestParams::new("", CallbackType::LlmCompletion);
        let cx = &self.question.cx;
        if cx.caller.accepts.sampling || !can_ask_callback(cx, &params) {
            return None;
        }
        let system = self.params.system_prompt.clone();
        let system = system.map(|content| Message { role: "system", content });
        let messages = self.params.messages.iter().map(|message| {
            Some(Message { role: message.role.as_str(), content: text(&message.content)? })
        });
        let messages: Option<Vec<_>> = system.map(Some).into_iter().chain(messages).collect();
        let messages = messages?;
        params.extra.encode("messages", &messages).ok()?;
        params.extra.encode("max_tokens", &self.params.max_tokens).ok()?;
        Some(params)
    }
}

/// Returns the text of a message; `None` if the message has other content, which a callback cannot contain.
fn text(content: &OneOrMany<ContentBlock>) -> Option<String> {
    let texts: Option<Vec<_>> = content.as_slice().iter().map(ContentBlock::as_text).collect();
    Some(texts?.join("\n"))
}

/// Sends the request to the caller as a callback and returns the message of its model. Returns `None` if the caller
/// closed the callback without an answer, as a kernel does if its own caller offers no sampling.
async fn complete(
    question: &Question,
    params: CallbackRequestParams,
) -> Result<Option<CreateMessageResult>, RpcError> {
    #[derive(Deserialize)]
    struct Response {
        content: String,
        #[serde(default)]
        model: String,
    }
    let key = question.key()?;
    let CallbackAnswer::Given(response) = ask_callback(&question.cx, &key, params).await? else {
        return Ok(None);
    };
    let Response { content, model } = response.get()?;
    Ok(Some(CreateMessageResult::text(content, model)))
}

impl IntoFuture for Sampling {
    type Output = Result<CreateMessageResult, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let uses_tools = !self.params.tools.is_empty() || self.params.tool_choice.is_some();
        let needs =
            if uses_tools { ClientCapability::SamplingTools } else { ClientCapability::Nothing };
        let ask = Payload::of(&self.params)
            .map(|params| CallerRequest::new(SamplingCreateMessage::METHOD, params));
        let completion = self.completion().filter(|_| !uses_tools);
        let question = self.question;
        Box::pin(async move {
            if let Some(params) = completion
                && let Some(message) = complete(&question, params).await?
            {
                return Ok(message);
            }
            read(&question.ask(needs, ask).await?, "message of a model")
        })
    }
}
