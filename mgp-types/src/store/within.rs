//! Waits for a store, and not for ever (MGP §14.3: 3003).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use super::StoreError;

/// Waits so long for what a store was asked, [`Store::answers_within`](super::Store::answers_within) as a rule.
///
/// A change that was handed over may be made all the same, so whoever gives up looks again before it tells anybody.
/// What is answered at once needs no timer; anything else needs a runtime with timers (`enable_all`, as `#[tokio::main]` has).
///
/// ```
/// use mgp_types::store::{Change, MemoryStore, Store, StoreError, within};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// assert!(within(store.answers_within(), store.load("fruit")).await.is_ok());
///
/// let late = within(Duration::from_millis(1), std::future::pending::<Result<(), _>>()).await;
/// assert!(matches!(late, Err(StoreError::Late(_))));
/// # });
/// ```
///
/// # Errors
/// [`StoreError::Late`] when there was no answer in time, else what the store answers.
///
/// # Panics
/// Where it has to wait and the runtime has no timers.
///
/// # Cancel safety
/// As what was asked.
pub async fn within<T>(
    patience: Duration,
    asked: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut asked = pin!(asked);
    // A store in memory answers at once, on a runtime of any kind.
    if let Poll::Ready(answer) = poll_fn(|task| Poll::Ready(asked.as_mut().poll(task))).await {
        return answer;
    }
    timeout(patience, asked).await.unwrap_or(Err(StoreError::Late(patience)))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn what_is_answered_at_once_needs_no_timer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(within(Duration::ZERO, ready(Ok(7)))).unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_and_says_so() {
        let slow = |secs| async move {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            Ok(secs)
        };
        assert_eq!(within(Duration::from_secs(2), slow(1)).await.unwrap(), 1);
        let late = within(Duration::from_secs(2), slow(3)).await.unwrap_err();
        let told = crate::RpcError::from(late);
        assert_eq!(
            told.to_string(),
            "the store did not answer within 2s; what it was given may still be kept: look before you try again (3003)"
        );
        assert!(!told.as_recovery().unwrap().is_retryable());
    }
}
