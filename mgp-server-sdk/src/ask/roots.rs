//! Asking which directories the caller works in (MCP roots).
//!
//! Applies to: inbound.

use mgp_types::mcp::{ListRootsResult, Root};
use mgp_types::method::{Request, RootsList};
use mgp_types::service::{Ask, BoxFuture, Context};
use mgp_types::{Payload, RpcError};

use super::{Needs, Question, read};

/// The question for the roots; await it to ask.
///
/// # Errors
/// 1000 when the caller cannot be asked (−32021 to a modern one).
#[derive(Debug)]
#[must_use = "nothing is asked until it is awaited"]
pub struct RootsQuestion(Question);

impl RootsQuestion {
    pub(super) fn new(cx: &Context) -> Self {
        Self(Question::new(cx, "roots"))
    }

    /// Names the question within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }
}

impl IntoFuture for RootsQuestion {
    type Output = Result<Vec<Root>, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let ask = Ask::new(RootsList::METHOD, Payload::empty_object());
        let answer = self.0.ask(Needs::Nothing, Ok(ask));
        Box::pin(async move {
            read::<ListRootsResult>(&answer.await?, "list of roots").map(|result| result.roots)
        })
    }
}
