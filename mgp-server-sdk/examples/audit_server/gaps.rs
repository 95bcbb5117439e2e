//! Receives audit events, and requests missing ones from the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mcp::Era;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{Call, Context, Method, Params};
use mgp_types::{ErrorCode, Object, Payload, RpcError};

use crate::journal::{Journal, Stored, number};
use crate::log_error;

/// The maximum number of missing events that one replay request asks the client to send.
const PAGE_SIZE: u64 = 1000;

/// The receiver of events: it stores them, and requests those that are missing.
#[derive(Clone)]
pub(crate) struct Gaps {
    journal: Arc<Journal>,
    /// `true` while a task requests missing events.
    is_requesting: Arc<AtomicBool>,
    /// `true` after the client refused a replay for good; then missing events are no longer requested.
    refused: Arc<AtomicBool>,
}

impl Gaps {
    pub(crate) fn new(journal: Arc<Journal>) -> Self {
        Self { journal, is_requesting: Arc::default(), refused: Arc::default() }
    }

    /// Stores an event, and requests the missing events before it.
    pub(crate) fn receive(&self, cx: &Context, mut event: AuditEvent) {
        // `_meta` belongs to the message that carried the event, not to the event, so it is not stored.
        event.extra.remove("_meta");
        self.store(&event);
        let is_legacy = cx.caller.era == Era::Legacy;
        let needs = !self.journal.missing().is_empty() && !self.refused.load(Ordering::Relaxed);
        if is_legacy && needs && !self.is_requesting.swap(true, Ordering::AcqRel) {
            // A handler of notifications must not wait for an answer from its peer, so a spawned task requests the
            // events.
            let (own, cx) = (self.clone(), cx.clone());
            tokio::spawn(async move { own.request_missing(&cx).await });
        }
    }

    /// Requests the missing events, until there are none, or another request would not help.
    async fn request_missing(&self, cx: &Context) {
        loop {
            let before = self.journal.missing();
            if let Err(error) = self.close(cx).await {
                log_error(&format!("replay of missing events failed: {error}"));
                let refused = [
                    ErrorCode::METHOD_NOT_FOUND,
                    ErrorCode::INVALID_PARAMS,
                    ErrorCode::PERMISSION_DENIED,
                ];
                // A refusal with one of these codes is permanent: another request would fail in the same way.
                self.refused.store(refused.contains(&error.code()), Ordering::Relaxed);
            }
            self.is_requesting.store(false, Ordering::Release);
            // An event that arrived before this line has started no task, so check for its gap here.
            let now = self.journal.missing();
            let is_over = now.is_empty() || now == before || self.refused.load(Ordering::Relaxed);
            if is_over || self.is_requesting.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    fn store(&self, event: &AuditEvent) {
        match self.journal.store(event) {
            Ok(Stored::New | Stored::Duplicate) => {}
            Ok(Stored::Full) => log_error("event dropped: the file is full"),
            Err(error) => log_error(&format!("event dropped: {error}")),
        }
    }

    /// Requests the events of each gap, until the gap is closed or the client no longer has them.
    async fn close(&self, cx: &Context) -> Result<(), RpcError> {
        while let Some((from, to)) = self.journal.missing().first().copied() {
            let page = replay(cx, from - 1, (to - from + 1).min(PAGE_SIZE)).await?;
            let inside =
                |event: &&AuditEvent| number(event).is_some_and(|seq| (from..=to).contains(&seq));
            let events: Vec<_> = page.events.iter().filter(inside).collect();
            for event in &events {
                self.store(event);
            }
            // Events that are still missing before the last replayed event are lost, because the client no longer has
            // them.
            let until = events.last().and_then(|event| number(event)).unwrap_or(to);
            self.journal.give_up(from, until);
            if self.journal.missing().first() == Some(&(from, to)) {
                // The gap is unchanged, because nothing could be stored. The next event starts another attempt.
                break;
            }
        }
        Ok(())
    }
}

/// Requests the events after a sequence number from the client.
async fn replay(cx: &Context, after: u64, most: u64) -> Result<AuditReplayResult, RpcError> {
    let mut params = AuditReplayParams::default();
    params.since_seq = Some(after);
    params.limit = Some(most);
    let params = Params::tool(AUDIT_REPLAY, &Payload::of(&params)?);
    let request =
        Call::request(Method::from_static(ToolsCall::METHOD), params, cx.peer.context(&cx.scope));
    let reply = cx.peer.send(request).await?;
    let body = reply.as_body().ok_or_else(|| RpcError::internal("no result"))?;
    let result: Object = body.as_raw().get()?;
    let page = result.decode("structuredContent")?;
    page.ok_or_else(|| RpcError::internal("no structured content"))
}
