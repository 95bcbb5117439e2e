//! Progress while a call waits for a person, so that its caller keeps waiting (MCP progress).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

use super::{Outlet, OutletItem, OutletItemKind, Progress};

/// The time between two notifications: less than the shortest time limit of a host.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The progress that one notification adds. It is small, so that progress of the tool itself, which follows, is larger.
const STEP: f64 = 1.0 / 1024.0;

/// Waits for a future, and sends progress every five seconds if the caller of the call accepts it.
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
