//! A request for the caller's working directories (MCP roots).

use mgp_types::mcp::{ListRootsResult, Root};
use mgp_types::method::{Request, RootsList};
use mgp_types::service::{BoxFuture, CallerRequest, Context};
use mgp_types::{Payload, RpcError};

use super::{ClientCapability, Question, read};

/// A request for the caller's roots; awaiting this value sends it.
///
/// Ask for the roots in each call that needs them: each caller has its own. A handler of a notification, e.g. that the
/// roots changed, cannot ask its sender anything.
///
/// ```
/// use mgp_server_sdk::prelude::*;
///
/// let folders = Tool::new("folders", "Lists the folders of the project", |cx: Context| async move {
///     let roots = cx.roots().await?;
///     let folders: Vec<_> = roots.iter().filter_map(|root| root.to_path()).collect();
///     Ok::<_, RpcError>(format!("{folders:?}"))
/// });
/// # drop(folders);
/// ```
///
/// # Errors
/// Code 1000 (permission denied) if the caller does not support roots; for callers of 2026-07-28, code −32021 (missing
/// client capability) instead.
#[derive(Debug)]
#[must_use = "the request is sent when it is awaited"]
pub struct RootsRequest(Question);

impl RootsRequest {
    pub(super) fn new(cx: &Context) -> Self {
        Self(Question::new(cx, "roots"))
    }

    /// Sets the key of the question, which must be unique within the call.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }
}

impl IntoFuture for RootsRequest {
    type Output = Result<Vec<Root>, RpcError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let ask = CallerRequest::new(RootsList::METHOD, Payload::empty_object());
        let answer = self.0.ask(ClientCapability::Nothing, Ok(ask));
        Box::pin(async move {
            read::<ListRootsResult>(&answer.await?, "list of roots").map(|result| result.roots)
        })
    }
}
