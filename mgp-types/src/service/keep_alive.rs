//! Progress notifications while a call waits for a person, so that the caller does not time out (MCP progress).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::{Outlet, OutletItem, OutletItemKind, Progress};

/// The time between two notifications, shorter than the shortest timeout of any known host.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The progress that one notification adds. It is small, so that later progress reports of the tool itself are larger,
/// as MCP requires.
const STEP: f64 = 1.0 / 1024.0;

/// Waits for a future, and sends progress every five seconds if the caller accepts progress notifications.
///
/// # Cancel safety
/// Dropping the future also drops the awaited future.
pub async fn keep_alive<F: Future>(outlet: &Outlet, message: &str, waiting: F) -> F::Output {
    let mut waiting = pin!(waiting);
    if !outlet.wants(OutletItemKind::Progress) {
        return waiting.await;
    }
    let mut step = Progress { message: Some(message.to_owned()), ..Progress::default() };
    loop {
        if let Ok(output) = timeout(KEEP_ALIVE_INTERVAL, waiting.as_mut()).await {
            return output;
        }
        step.progress += STEP;
        if outlet.send(OutletItem::Progress(step.clone())).await.is_err() {
            return waiting.await;
        }
    }
}
