//! A request to the caller's model (MCP sampling).

use mgp_types::mcp::{
    ContentBlock, CreateMessageParams, CreateMessageResult, Role, SamplingMessage,
};
use mgp_types::method::{Request, SamplingCreateMessage};
use mgp_types::service::{BoxFuture, CallerRequest, Context};
use mgp_types::{OneOrMany, Payload, RpcError};

use super::{ClientCapability, Question, read};

/// The default of the maximum number of tokens in an answer.
const MAX_TOKENS: u64 = 1_024;

/// A request to the caller's model; await it to send it.
///
/// # Errors
/// Code 1000 if the caller does not support sampling (−32021 in the modern era), −32602 if its answer is not a
/// message.
#[derive(Debug)]
#[must_use = "the request is sent when it is awaited"]
pub struct Sampling {
    question: Question,
    params: CreateMessageParams,
}

impl Sampling {
    pub(super) fn new(cx: &Context, prompt: String) -> Self {
        let message = SamplingMessage::new(Role::User, OneOrMany::One(ContentBlock::text(prompt)));
        let params = CreateMessageParams::new(vec![message], MAX_TOKENS);
        Self { question: Question::new(cx, "sampling"), params }
    }

    /// Sets the name of the question within the call.
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

impl IntoFuture for Sampling {
    type Output = Result<CreateMessageResult, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let uses_tools = !self.params.tools.is_empty() || self.params.tool_choice.is_some();
        let needs =
            if uses_tools { ClientCapability::SamplingTools } else { ClientCapability::Nothing };
        let ask = Payload::of(&self.params)
            .map(|params| CallerRequest::new(SamplingCreateMessage::METHOD, params));
        let answer = self.question.ask(needs, ask);
        Box::pin(async move { read(&answer.await?, "message of a model") })
    }
}
