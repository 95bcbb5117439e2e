//! The client's side of checkpoints: if the connection is lost, sends a call again, from the last checkpoint on.
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{CallMembers, Checkpoint, WantsCheckpoints};
use mgp_types::service::{
    BoxFuture, Call, Deadline, Either, HttpFailure, JoinedContent, MgpService, Outlet,
    OutletItemKind, Reply, Sink,
};
use mgp_types::{Backoff, ErrorCode, Object, Payload, RpcError};
use tokio::time::sleep;
use tower_service::Service;

use super::received::Received;

/// The default time after which a call fails if its lost connection is not restored.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The maximum number of checkpoints from which one call is resumed.
const MAX_RESUMPTIONS: u32 = 100;

/// Layer that resumes streamed tool calls whose connection was lost. The consumer gets each chunk only once.
///
/// A call is resumed only if its server sent a checkpoint. Chunks after the last checkpoint are delivered when the next
/// checkpoint or the result arrives. If the connection is lost before, this layer drops these chunks and requests them
/// again.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct ResumeLayer {
    max_wait: Duration,
}

impl Default for ResumeLayer {
    fn default() -> Self {
        Self { max_wait: MAX_WAIT }
    }
}

mgp_types::layer_service! {
    /// The service that [`ResumeLayer`] creates.
    pub ResumeService for ResumeLayer
}

impl ResumeLayer {
    /// Creates the layer with the default value of [`max_wait`](Self::max_wait).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time within which the connection must be restored. Default: 30 s.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }
}

impl<S: MgpService> Service<Call> for ResumeService<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        let is_own = call.cx().extensions.get::<CallMembers>().is_some_and(asks);
        let wants = call.tool().is_some() && call.cx().outlet.wants(OutletItemKind::Chunk);
        if is_own || !wants {
            return Either::Left { future: self.inner.call(call) };
        }
        let received = Received::new(std::mem::take(&mut call.cx_mut().outlet));
        call.cx_mut().outlet = Outlet::new(Arc::clone(&received) as Arc<dyn Sink>);
        let (inner, max_wait) = (self.inner.clone(), self.layer.max_wait);
        Either::Right { future: Box::pin(run(inner, call, received, max_wait)) }
    }
}

/// Returns whether the caller itself requests checkpoints or resumes from a checkpoint, so that this layer must not do
/// so.
fn asks(members: &CallMembers) -> bool {
    members.for_peer(ExtensionSet::EMPTY.with(Extension::Checkpoint)).next().is_some()
}

async fn run<S: MgpService>(
    mut inner: S,
    call: Call,
    received: Arc<Received>,
    max_wait: Duration,
) -> Result<Reply, RpcError> {
    let mut from: Option<Checkpoint> = None;
    let mut resumptions = 0;
    let (mut backoff, mut deadline) = (new_backoff(), None);
    loop {
        let outcome = inner.call(attempt(&call, from.as_ref())?).await;
        let error = match outcome {
            Err(error) if is_lost(&error) => error,
            outcome => {
                let before = received.finish().await;
                return if from.is_some() { complete(outcome?, before) } else { outcome };
            }
        };
        let Some(next) = received.restart().filter(|_| resumptions < MAX_RESUMPTIONS) else {
            return Err(error);
        };
        if from.as_ref() != Some(&next) {
            // The failed attempt reached a new checkpoint. Therefore start again with the shortest delay and a new
            // deadline.
            (backoff, deadline, resumptions) = (new_backoff(), None, resumptions + 1);
        }
        from = Some(next);
        let until = *deadline.get_or_insert_with(|| Deadline::after(max_wait));
        let delay = backoff.next_delay();
        if until.remaining().is_some_and(|left| delay > left) {
            return Err(error);
        }
        tracing::debug!(%error, "resuming a stream from its last checkpoint");
        sleep(delay).await;
    }
}

fn new_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), Duration::from_secs(2))
}

/// Returns the call to send as the next attempt: it requests checkpoints and, with `from`, resumes from that
/// checkpoint.
fn attempt(call: &Call, from: Option<&Checkpoint>) -> Result<Call, RpcError> {
    let mut call = call.clone();
    let mut members = call.cx().extensions.get::<CallMembers>().cloned().unwrap_or_default();
    members.set(&WantsCheckpoints(true))?;
    if let Some(from) = from {
        members.set(from)?;
    }
    call.cx_mut().extensions.insert(members);
    Ok(call)
}

/// Returns whether an error means that the connection was lost, or is not restored yet.
fn is_lost(error: &RpcError) -> bool {
    let code = error.code();
    code == ErrorCode::SERVER_NOT_READY
        || code == ErrorCode::UPSTREAM_UNAVAILABLE
        || matches!(
            HttpFailure::from_error(error),
            Some(HttpFailure::Unreachable | HttpFailure::ConnectionLost)
        )
}

/// Inserts the content of earlier attempts before the content in the reply to the last attempt. A reply that is not a
/// complete result, e.g. a task, is returned unchanged.
fn complete(reply: Reply, before: JoinedContent) -> Result<Reply, RpcError> {
    if !matches!(reply, Reply::Complete(_)) {
        return Ok(reply);
    }
    let mut result: Object = reply.get()?;
    if result.get("isError").is_some_and(|failed| failed.as_str() == "true") {
        return Ok(reply);
    }
    let last: Vec<Payload> = result.decode("content")?.unwrap_or_default();
    let mut whole = before;
    for block in &last {
        whole.push(block);
    }
    result.insert("content", Payload::of(&whole.to_blocks())?);
    Reply::of(&result)
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Body, InputRequired};

    use super::*;

    #[test]
    fn only_a_complete_result_gets_the_content_of_earlier_attempts() {
        let mut before = JoinedContent::default();
        before.push_text("to ");
        let body = |text: &'static str| Body::new(Payload::from_trusted(text));
        let result = Reply::Complete(body(r#"{"content":[{"type":"text","text":"be"}]}"#));
        let result: Object = complete(result, before.clone()).unwrap().get().unwrap();
        let content = result.get("content").unwrap();
        assert_eq!(content.as_str(), r#"[{"type":"text","text":"to be"}]"#);

        let task = complete(Reply::Task(body(r#"{"taskId":"t"}"#)), before.clone()).unwrap();
        assert!(matches!(&task, Reply::Task(_)), "{task:?}");
        assert_eq!(task.as_body().unwrap().to_json(), br#"{"taskId":"t"}"#);
        let question = Reply::InputRequired(InputRequired { asks: Vec::new(), state: None });
        let question = complete(question, before).unwrap();
        assert!(matches!(&question, Reply::InputRequired(_)), "{question:?}");
    }
}
