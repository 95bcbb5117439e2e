//! Asking the caller's model (MCP sampling).
//!
//! Applies to: inbound.

use mgp_types::mcp::{
    ContentBlock, CreateMessageParams, CreateMessageResult, Role, SamplingMessage,
};
use mgp_types::method::{Request, SamplingCreateMessage};
use mgp_types::service::{Ask, BoxFuture, Context};
use mgp_types::{OneOrMany, Payload, RpcError};

use super::{Needs, Question, read};

/// How many tokens a model may answer with unless the question says otherwise.
const MAX_TOKENS: u64 = 1_024;

/// A question to the caller's model; await it to ask.
///
/// # Errors
/// 1000 when the caller cannot be asked (−32021 to a modern one), −32602 when its answer is none.
#[derive(Debug)]
#[must_use = "nothing is asked until it is awaited"]
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

    /// Names the question within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }

    /// Bounds the answer. 1024 tokens.
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.params.max_tokens = tokens;
        self
    }

    /// Tells the model something first.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.params.system_prompt = Some(prompt.into());
        self
    }

    /// Changes the question: messages, preferences, tools and so on.
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
        let needs = if uses_tools { Needs::SamplingTools } else { Needs::Nothing };
        let ask =
            Payload::of(&self.params).map(|params| Ask::new(SamplingCreateMessage::METHOD, params));
        let answer = self.question.ask(needs, ask);
        Box::pin(async move { read(&answer.await?, "message of a model") })
    }
}
