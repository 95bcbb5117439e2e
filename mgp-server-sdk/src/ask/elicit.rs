//! Asking the person with a form (MCP elicitation).
//!
//! Applies to: inbound.

use std::marker::PhantomData;

use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request};
use mgp_types::service::{Ask, BoxFuture, Context};
use mgp_types::{Payload, RawObject, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Needs, Question, form, read};

/// What the person did with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// Filled it in.
    Accepted(T),
    /// Said no.
    Declined,
    /// Went away.
    Cancelled,
}

impl<T> Elicited<T> {
    /// What was filled in, if it was.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

/// A form for the person; await it to ask.
///
/// # Errors
/// 1000 when the caller cannot be asked (−32021 to a modern one), −32602 when what was filled in does not fit `T`,
/// −32603 when `T` is no flat struct.
#[derive(Debug)]
#[must_use = "nothing is asked until it is awaited"]
pub struct Elicitation<T> {
    question: Question,
    message: String,
    schema: Option<RawObject>,
    form: PhantomData<fn() -> T>,
}

impl<T> Elicitation<T> {
    pub(super) fn new(cx: &Context, message: String) -> Self {
        let question = Question::new(cx, "elicitation");
        Self { question, message, schema: None, form: PhantomData }
    }

    /// Asks with this form instead of the one that `T` stands for; the answer must still fit `T`.
    pub fn schema(mut self, schema: RawObject) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Names the question within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.question.key = Some(key.into());
        self
    }
}

impl<T: DeserializeOwned + JsonSchema> IntoFuture for Elicitation<T> {
    type Output = Result<Elicited<T>, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let schema = self.schema.map_or_else(form::of::<T>, Ok);
        let ask = schema.and_then(|schema| {
            let mut params = ElicitParams::new(self.message);
            params.requested_schema = Some(schema);
            Ok(Ask::new(ElicitationCreate::METHOD, Payload::of(&params)?))
        });
        let answer = self.question.ask(Needs::Form, ask);
        Box::pin(async move {
            let answer: ElicitResult = read(&answer.await?, "result of an elicitation")?;
            match answer.action {
                ElicitAction::Accept => {
                    let content = Payload::of(&answer.content.unwrap_or_default())?;
                    read(&content, "filled-in form").map(Elicited::Accepted)
                }
                ElicitAction::Decline => Ok(Elicited::Declined),
                ElicitAction::Cancel => Ok(Elicited::Cancelled),
                other => Err(unknown(&other)),
            }
        })
    }
}

pub(super) fn unknown(action: &ElicitAction) -> RpcError {
    RpcError::invalid_params(format!(
        "the caller's answer has the unknown action `{action}`; known: accept, decline, cancel"
    ))
}
