//! Taking events, and asking for those that did not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::mcp::Era;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{Call, Context, Method, Params};
use mgp_types::{ErrorCode, Object, Payload, RpcError};

use crate::journal::{Journal, Took, number};
use crate::say;

/// How many events are asked for at once.
const PAGE: u64 = 1000;

/// Keeps what comes and asks for what did not.
#[derive(Clone)]
pub(crate) struct Gaps {
    journal: Arc<Journal>,
    /// Whether somebody asks already.
    asks: Arc<AtomicBool>,
    /// Whether the client refused: it offers no replay.
    refused: Arc<AtomicBool>,
}

impl Gaps {
    pub(crate) fn new(journal: Arc<Journal>) -> Self {
        Self { journal, asks: Arc::default(), refused: Arc::default() }
    }

    /// Keeps an event that came.
    pub(crate) fn take(&self, cx: &Context, mut event: AuditEvent) {
        // What belongs to the message and not to the event.
        event.extra.remove("_meta");
        self.keep(&event);
        let is_legacy = cx.caller.era == Era::Legacy;
        let needs = !self.journal.missing().is_empty() && !self.refused.load(Ordering::Relaxed);
        if is_legacy && needs && !self.asks.swap(true, Ordering::AcqRel) {
            // A handler of notifications may not wait for its peer, so somebody else does.
            let (own, cx) = (self.clone(), cx.clone());
            tokio::spawn(async move {
                if let Err(error) = own.close(&cx).await {
                    say(&format!(
                        "events are missing, and the client does not replay them: {error}"
                    ));
                    let refused = [
                        ErrorCode::METHOD_NOT_FOUND,
                        ErrorCode::INVALID_PARAMS,
                        ErrorCode::PERMISSION_DENIED,
                    ];
                    // Asking again would help nobody.
                    own.refused.store(refused.contains(&error.code()), Ordering::Relaxed);
                }
                own.asks.store(false, Ordering::Release);
            });
        }
    }

    fn keep(&self, event: &AuditEvent) {
        match self.journal.take(event) {
            Ok(Took::New | Took::Again) => {}
            Ok(Took::Full) => say("the file is full: an event was not taken"),
            Err(error) => say(&format!("an event was not kept: {error}")),
        }
    }

    /// Asks for each gap until it is closed, or nobody has what is missing.
    async fn close(&self, cx: &Context) -> Result<(), RpcError> {
        while let Some((from, to)) = self.journal.missing().first().copied() {
            let found = replay(cx, from - 1, (to - from + 1).min(PAGE)).await?;
            let inside =
                |event: &&AuditEvent| number(event).is_some_and(|seq| (from..=to).contains(&seq));
            let helpful: Vec<_> = found.events.iter().filter(inside).collect();
            for event in &helpful {
                self.keep(event);
            }
            // What lies before an event that came is not there any more.
            let until = helpful.last().and_then(|event| number(event)).unwrap_or(to);
            self.journal.give_up(from, until);
        }
        Ok(())
    }
}

/// Asks the client for the events after a number.
async fn replay(cx: &Context, after: u64, most: u64) -> Result<AuditReplayResult, RpcError> {
    let mut params = AuditReplayParams::default();
    params.since_seq = Some(after);
    params.limit = Some(most);
    let params = Params::tool(AUDIT_REPLAY, &Payload::of(&params)?);
    let asked =
        Call::request(Method::from_static(ToolsCall::METHOD), params, cx.peer.context(&cx.scope));
    let reply = cx.peer.send(asked).await?;
    let body = reply.as_body().ok_or_else(|| RpcError::internal("no result"))?;
    let result: Object = body.as_raw().get()?;
    let found = result.decode("structuredContent")?;
    found.ok_or_else(|| RpcError::internal("no structured content"))
}
