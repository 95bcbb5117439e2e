//! A form for the user (MCP elicitation).

use std::marker::PhantomData;

use mgp_types::mcp::{ElicitAction, ElicitParams, ElicitResult};
use mgp_types::method::{ElicitationCreate, Request};
use mgp_types::service::{BoxFuture, CallerRequest, Context};
use mgp_types::{Payload, RawObject, RpcError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{ClientCapability, Question, form, read};

/// The user's answer to a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// The user filled in the form.
    Accepted(T),
    /// The user declined.
    Declined,
    /// The user dismissed the form.
    Cancelled,
}

impl<T> Elicited<T> {
    /// Returns the filled-in form, or `None` if the user declined or dismissed it.
    pub fn accepted(self) -> Option<T> {
        match self {
            Self::Accepted(value) => Some(value),
            Self::Declined | Self::Cancelled => None,
        }
    }
}

/// A request to show a form to the user; awaiting this value sends it.
///
/// # Errors
/// Code 1000 (permission denied) if the caller does not support forms; for callers of 2026-07-28, code −32021 (missing
/// client capability) instead. Code −32602 (invalid params) if the answer is not a `T`. Code −32603 (internal error) if
/// `T` is not a flat struct.
#[derive(Debug)]
#[must_use = "the request is sent when it is awaited"]
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

    /// Replaces the form that is generated from `T`; the answer must still be a `T`.
    pub fn schema(mut self, schema: RawObject) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets the key of the question, which must be unique within the call. By default, questions are numbered in order
    /// of creation.
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
            Ok(CallerRequest::new(ElicitationCreate::METHOD, Payload::of(&params)?))
        });
        let answer = self.question.ask(ClientCapability::Form, ask);
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
