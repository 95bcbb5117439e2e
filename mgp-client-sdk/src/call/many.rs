//! Many calls, so many at once.
//!
//! Applies to: outbound.

use std::future::IntoFuture;

use futures_util::stream::{StreamExt, iter};
use mgp_types::mcp::CallToolResult;

use super::ToolCall;
use crate::error::Error;

/// Makes calls; a slow one holds back neither those after it nor their results' places.
pub(crate) async fn many(
    calls: impl IntoIterator<Item = ToolCall>,
    max_in_flight: usize,
) -> Vec<Result<CallToolResult, Error>> {
    // A call is no call before it is polled, so all of them may be there at once.
    let calls: Vec<_> = calls.into_iter().map(IntoFuture::into_future).collect();
    let (mut results, running): (Vec<_>, Vec<_>) =
        (calls.iter().map(|_| None).collect(), calls.into_iter().enumerate().collect());
    let mut running = iter(running)
        .map(|(place, call)| async move { (place, call.await) })
        .buffer_unordered(max_in_flight.max(1));
    while let Some((place, result)) = running.next().await {
        results[place] = Some(result);
    }
    results.into_iter().flatten().collect()
}
