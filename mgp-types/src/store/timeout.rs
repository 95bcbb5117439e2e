//! Waits for the result of a store operation, with a timeout (MGP §14.3, code 3003, timeout).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use super::StoreError;

/// Waits for the result of a store operation; `limit` is usually
/// [`Store::answer_timeout`](super::Store::answer_timeout).
///
/// After a timeout, a change might nevertheless be applied, so the caller must read the records again before it reports
/// a result. An operation that completes immediately needs no timer; any other operation needs a runtime with timers
/// (`enable_all`, as in `#[tokio::main]`).
///
/// ```
/// use mgp_types::store::{Change, MemoryStore, Store, StoreError, with_timeout};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// assert!(with_timeout(store.answer_timeout(), store.load("fruit")).await.is_ok());
///
/// let late = with_timeout(Duration::from_millis(1), std::future::pending::<Result<(), _>>()).await;
/// assert!(matches!(late, Err(StoreError::Timeout(_))));
/// # });
/// ```
///
/// # Errors
/// Returns [`StoreError::Timeout`] if there was no answer in time, else the error of the operation.
///
/// # Panics
/// Panics if the operation does not complete immediately and the runtime has no timers.
///
/// # Cancel safety
/// If the future is dropped, the operation may or may not be applied.
pub async fn with_timeout<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut operation = pin!(operation);
    // Poll the operation once without a timer: a store in memory answers immediately, and must work in runtimes without
    // timers too.
    if let Poll::Ready(answer) = poll_fn(|task| Poll::Ready(operation.as_mut().poll(task))).await {
        return answer;
    }
    timeout(limit, operation).await.unwrap_or(Err(StoreError::Timeout(limit)))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn an_immediate_answer_needs_no_timer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(with_timeout(Duration::ZERO, ready(Ok(7)))).unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_operation_times_out() {
        let slow = |secs| async move {
            tokio::time::sleep(Duration::from_secs(secs)).await;
            Ok(secs)
        };
        assert_eq!(with_timeout(Duration::from_secs(2), slow(1)).await.unwrap(), 1);
        let late = with_timeout(Duration::from_secs(2), slow(3)).await.unwrap_err();
        let error = crate::RpcError::from(late);
        assert_eq!(
            error.to_string(),
            "the store did not answer within 2 s; the change may still be kept, so read again before retrying (3003)"
        );
        assert!(!error.as_recovery().unwrap().is_retryable());
    }
}
