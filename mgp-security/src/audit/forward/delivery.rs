//! Asking a sink which events it has.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{Call, Method, Params, Stack};
use mgp_types::{Payload, RpcError};
use tokio::time::{sleep, timeout};

use super::task::context;

/// How long a sink may take to answer one question.
const ANSWER: Duration = Duration::from_secs(10);

/// How often it is asked in vain: notifications and requests have lanes of their own, so an event may come in after the question.
const TRIES: u32 = 6;

/// The first wait between two questions; each further one is twice as long.
const BETWEEN: Duration = Duration::from_millis(20);

/// Why a sink is taken not to have what it was sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconfirmed {
    #[error("the sink cannot be asked: {0}")]
    Failed(#[from] RpcError),
    #[error("the sink does not answer")]
    Silent,
    #[error("the sink does not have event {0}")]
    Missing(u64),
}

/// Asks until a sink has all of the events it was just sent; `at` moves to the last of those it has without a gap.
pub(super) async fn confirmed(sink: &Stack, sent: &[u64], at: &mut u64) -> Result<(), Unconfirmed> {
    let (mut wait, mut tries, mut left) = (BETWEEN, 0, sent);
    while let Some(next) = left.first() {
        let asked = timeout(ANSWER, has(sink, *at, left.len())).await;
        let found = asked.map_err(|_| Unconfirmed::Silent)??;
        let count = left.iter().zip(&found).take_while(|(sent, found)| sent == found).count();
        if let Some(last) = left.get(..count).and_then(|there| there.last()) {
            *at = *last;
            left = &left[count..];
            continue;
        }
        tries += 1;
        if tries == TRIES {
            return Err(Unconfirmed::Missing(*next));
        }
        sleep(wait).await;
        wait *= 2;
    }
    Ok(())
}

/// The numbers of the events that a sink has after one, at most so many.
async fn has(sink: &Stack, after: u64, most: usize) -> Result<Vec<u64>, RpcError> {
    let mut params = AuditReplayParams::default();
    params.since_seq = Some(after);
    params.limit = Some(most as u64);
    let params = Params::tool(AUDIT_REPLAY, &Payload::of(&params)?);
    let asked = Call::request(Method::from_static(ToolsCall::METHOD), params, context());
    let reply = sink.send(asked).await?;
    let Some(body) = reply.as_body() else {
        return Err(RpcError::internal("the sink answered without a result"));
    };
    let result: CallToolResult = body.as_raw().get()?;
    let Some(found) = result.structured_content else {
        return Err(RpcError::internal("the sink answered without structured content"));
    };
    let found: AuditReplayResult = found.get()?;
    let number = |event: &AuditEvent| event.mgp.as_ref()?.seq;
    Ok(found.events.iter().filter_map(number).collect())
}
