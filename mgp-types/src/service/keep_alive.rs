//! Progress notifications while a call waits for a person, so that the caller does not time out (MCP progress).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use super::{ConsumerGone, Outlet, OutletItem, OutletItemKind, Progress};

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
        let mut sending = pin!(outlet.send(OutletItem::Progress(step.clone())));
        // Also poll the awaited future while the consumer makes the sender wait, because its time limit may pass
        // meanwhile.
        let sent = poll_fn(|task| match waiting.as_mut().poll(task) {
            Poll::Ready(output) => Poll::Ready(Err(output)),
            Poll::Pending => sending.as_mut().poll(task).map(Ok),
        });
        match sent.await {
            Err(output) => return output,
            Ok(Err(ConsumerGone)) => return waiting.await,
            Ok(Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_consumer_that_does_not_read_does_not_delay_the_end() {
        let (outlet, _items) = Outlet::channel(1);
        let begin = Instant::now();
        keep_alive(&outlet, "waiting", sleep(Duration::from_secs(12))).await;
        assert_eq!(begin.elapsed().as_secs(), 12);
    }
}
