//! Checks that a sink has received the events that were sent to it.

use std::time::Duration;

use mgp_types::mcp::CallToolResult;
use mgp_types::method::{AUDIT_REPLAY, Request, ToolsCall};
use mgp_types::mgp::{AuditEvent, AuditReplayParams, AuditReplayResult};
use mgp_types::service::{Call, Method, Params, Stack};
use mgp_types::{Backoff, Payload, RpcError};
use tokio::time::{sleep, timeout};

use super::sink::context;

/// The time limit for a sink's answer to one query.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of queries without a new event after which the next event counts as missing. One query is not enough:
/// events are notifications, so a query can overtake them.
const MAX_ATTEMPTS: u32 = 6;

/// The delays between two queries of a sink.
const RETRY: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// The reason why events count as not delivered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconfirmed {
    #[error("the sink cannot be queried: {0}")]
    Failed(#[from] RpcError),
    #[error("the sink does not answer in time")]
    Silent,
    #[error("the sink does not have event {0}")]
    Missing(u64),
}

/// Queries a sink until it has all events whose numbers are in `sent`. Fails after [`MAX_ATTEMPTS`] queries that found
/// no further event. Sets `at` to the number of the last event before the first missing one.
pub(super) async fn confirm_all(
    sink: &Stack,
    sent: &[u64],
    at: &mut u64,
) -> Result<(), Unconfirmed> {
    let (mut retry, mut attempts, mut left) = (RETRY, 0, sent);
    while let Some(next) = left.first() {
        let asked = timeout(ANSWER_TIMEOUT, numbers_after(sink, *at, left.len())).await;
        let found = asked.map_err(|_| Unconfirmed::Silent)??;
        let count = left.iter().zip(&found).take_while(|(sent, found)| sent == found).count();
        if let Some(last) = left.get(..count).and_then(|there| there.last()) {
            *at = *last;
            left = &left[count..];
            continue;
        }
        attempts += 1;
        if attempts == MAX_ATTEMPTS {
            return Err(Unconfirmed::Missing(*next));
        }
        sleep(retry.next_delay()).await;
    }
    Ok(())
}

/// Returns the numbers of up to `most` events that a sink has after the given number.
async fn numbers_after(sink: &Stack, after: u64, most: usize) -> Result<Vec<u64>, RpcError> {
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
