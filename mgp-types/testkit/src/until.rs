//! Waits for a condition, for a limited time, or for a fixed time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Checks a condition repeatedly until the condition is true.
///
/// # Panics
/// Panics with `what` if the condition does not become true within 30 seconds of real time.
#[track_caller]
pub fn until<F: AsyncFnMut() -> bool>(what: &str, mut holds: F) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let end = now() + TIMEOUT;
        while !holds().await {
            assert!(now() < end, "never: {what} (waited for at {place})");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Calls `look` repeatedly until the first value that it returns is `true`, like [`until`].
///
/// # Panics
/// Panics with the second value if the first value does not become `true` within 30 seconds of real time.
#[track_caller]
pub fn until_shown<T: Debug>(mut look: impl FnMut() -> (bool, T)) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let end = now() + TIMEOUT;
        while !look().0 {
            assert!(now() < end, "never, but {:?} (waited for at {place})", look().1);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Checks a condition repeatedly until the condition is true, like [`until`]; blocks the thread.
///
/// # Panics
/// Panics with `what` if the condition does not become true within 30 seconds of real time.
#[track_caller]
pub fn until_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let end = now() + TIMEOUT;
    while !holds() {
        assert!(now() < end, "never: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits in ten parts, so that other tasks run before the end of the wait even if this process is suspended meanwhile.
pub async fn sleep_in_parts(time: Duration) {
    for _ in 0..10 {
        tokio::time::sleep(time / 10).await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the bound is one of real time, also when tokio's clock is paused"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_returns_as_soon_as_the_condition_holds() {
        let mut looks = 0;
        until("three looks", async || {
            looks += 1;
            looks == 3
        })
        .await;
        assert_eq!(looks, 3);
        until_blocking("at once", || true);
    }
}
