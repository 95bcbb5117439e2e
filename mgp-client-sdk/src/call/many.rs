//! Many calls, so many at once.
//!
//! Applies to: outbound.

use futures_util::stream::{StreamExt, iter};
use mgp_types::mcp::CallToolResult;

use super::ToolCall;
use crate::error::Error;

/// Makes calls; a slow one holds back neither those after it nor their results' places.
pub(crate) async fn many(
    calls: impl IntoIterator<Item = ToolCall>,
    max_in_flight: usize,
) -> Vec<Result<CallToolResult, Error>> {
    let calls: Vec<_> = calls.into_iter().collect();
    let mut results: Vec<_> = calls.iter().map(|_| None).collect();
    let mut running = iter(calls.into_iter().enumerate())
        .map(|(place, call)| async move { (place, call.await) })
        .buffer_unordered(max_in_flight.max(1));
    while let Some((place, result)) = running.next().await {
        results[place] = Some(result);
    }
    results.into_iter().flatten().collect()
}
