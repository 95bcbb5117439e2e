//! Checks whether servers at URLs still answer: periodically, after a failed call, and when an operator lists the
//! servers.
//!
//! Without these checks, the kernel would not notice that such a server has ended, because it has neither a process of
//! the server nor a pipe to it.

use std::time::Duration;

use mgp_client_sdk::{Client, SupervisedClient, gateway};
use mgp_types::mcp::{DiscoverParams, EmptyParams, Era};
use mgp_types::method::{Ping, ServerDiscover};
use mgp_types::service::{Call, HttpFailure};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// The time within which a server must answer a check.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// The time for which the result of a check is valid. The kernel makes no further check during this time.
const RESULT_TTL: Duration = Duration::from_millis(200);

/// The number of consecutive failed checks after which the session with a server ends, if the failures may have
/// temporary causes.
const MAX_FAILURES: u32 = 3;

/// The minimum interval between two failures that are counted separately: failures in quicker succession may have the
/// same cause.
const FAILURE_INTERVAL: Duration = Duration::from_secs(5);

/// The health of a session with a server. Checks apply only to a server at a URL.
pub(super) struct RemoteHealth {
    is_remote: bool,
    /// The history of failed checks. The lock is held while a check is running.
    checks: Mutex<CheckHistory>,
    /// The reason why the last check failed, if the session continues in spite of the failure.
    doubt: mgp_types::sync::Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct CheckHistory {
    checked_at: Option<Instant>,
    /// The run of the server (a run is the time between two starts) to which the failures belong.
    run: u64,
    /// The number of consecutive failed checks.
    failures: u32,
    /// The time of the last failed check that was counted.
    failed_at: Option<Instant>,
}

/// The failure of a check. The explanation contains no text that the server has sent.
#[derive(Debug, PartialEq, Eq)]
enum CheckFailure {
    /// A failure that ends the session at once, because it probably does not end by itself.
    Lasting(String),
    /// The failure may be temporary, e.g. because a proxy answers for a server that restarts.
    Passing(String),
}

impl CheckHistory {
    /// Counts a failed check in a run of the server (the time since its last start). Returns whether the session must
    /// end.
    fn count_failure(&mut self, run: u64, now: Instant) -> bool {
        if self.run != run {
            (self.run, self.failures, self.failed_at) = (run, 0, None);
        }
        if self.failed_at.is_none_or(|at| now.duration_since(at) >= FAILURE_INTERVAL) {
            self.failures += 1;
            self.failed_at = Some(now);
        }
        self.failures >= MAX_FAILURES
    }
}

impl RemoteHealth {
    pub(super) fn new(is_remote: bool) -> Self {
        Self { is_remote, checks: Mutex::default(), doubt: mgp_types::sync::Mutex::new(None) }
    }

    pub(super) fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns the reason why the last check failed, if the session continues in spite of the failure.
    pub(super) fn doubt(&self) -> Option<String> {
        self.doubt.lock().clone()
    }

    /// Returns whether the error of a failed call is a reason to check whether the server still answers.
    pub(super) fn is_doubtful_after(&self, error: &RpcError) -> bool {
        self.is_remote && check_failure(error, false).is_some()
    }

    /// Pings the server unless this was done a moment ago. Marks the server as unhealthy after a lasting failure, or
    /// after several failures that may have temporary causes.
    ///
    /// Returns whether a ping succeeded. While calls are running, ignores a time-out of the ping, because the server
    /// may just be busy.
    pub(super) async fn check(
        &self,
        client: &SupervisedClient,
        is_busy: impl Fn() -> bool,
    ) -> bool {
        let live = client.supervised().current().borrow().clone();
        let Some(live) = live.filter(|_| self.is_remote) else { return false };
        let mut checks = self.checks.lock().await;
        if checks.checked_at.is_some_and(|at| at.elapsed() < RESULT_TTL) {
            return false;
        }
        let answer = timeout(ANSWER_TIMEOUT, ping(&live.client)).await;
        let is_well = matches!(answer, Ok(Ok(())));
        let failure = match answer {
            Ok(Ok(())) => None,
            Ok(Err(error)) => check_failure(&error, is_busy()),
            Err(_) if is_busy() => {
                let why = "it does not answer; its running calls are still waited for";
                *self.doubt.lock() = Some(why.to_owned());
                checks.checked_at = Some(Instant::now());
                return false;
            }
            Err(_) => {
                let limit = mgp_types::duration_words(ANSWER_TIMEOUT);
                let why = format!("it does not answer within {limit}");
                Some(CheckFailure::Lasting(why))
            }
        };
        let now = Instant::now();
        checks.checked_at = Some(now);
        let (why, is_lost) = match failure {
            None => {
                (checks.failures, checks.failed_at) = (0, None);
                *self.doubt.lock() = None;
                return is_well;
            }
            Some(CheckFailure::Lasting(why)) => (why, true),
            Some(CheckFailure::Passing(why)) => (why, checks.count_failure(live.run, now)),
        };
        if is_lost {
            *self.doubt.lock() = None;
            tracing::info!(server = ?client.server_id(), %why, "server lost");
            client.mark_unhealthy(live.run, why).await;
        } else {
            tracing::debug!(server = ?client.server_id(), %why, "check failed");
            *self.doubt.lock() = Some(why);
        }
        false
    }
}

/// Sends a request that every server can answer. The request passes no security checks, because the kernel itself makes
/// it.
async fn ping(client: &Client) -> Result<(), RpcError> {
    let cx = client.context();
    let call = match client.server().era {
        Era::Legacy => Call::ask::<Ping>(&EmptyParams::new(), cx)?,
        // In the modern era, send a different request, because this era has no `ping`.
        Era::Modern => Call::ask::<ServerDiscover>(&DiscoverParams::new(), cx)?,
    };
    gateway::ungated(client).send(call).await.map(drop)
}

/// Returns the failure of the server that an error reveals; `None` if a server that works can also cause the error.
/// While calls are running (`is_busy`), a failed connection may be an exception and counts as temporary.
fn check_failure(error: &RpcError, is_busy: bool) -> Option<CheckFailure> {
    use CheckFailure::{Lasting, Passing};
    let own_text = || {
        let ours = error.message().split(" (challenge: ").next().unwrap_or_default();
        ours.split(" (server: `").next().unwrap_or_default().to_owned()
    };
    Some(match HttpFailure::from_error(error) {
        Some(HttpFailure::Status(401) | HttpFailure::StatusWithError(401)) => Lasting(
            "it requires valid credentials (HTTP 401): log in, or set or correct a header, and start it again"
                .into(),
        ),
        Some(
            HttpFailure::StatusWithError(status @ (403 | 500..=599))
            | HttpFailure::Status(status @ 500..=599),
        ) => Passing(format!("it answers with HTTP {status}")),
        Some(HttpFailure::StatusWithError(_)) => return None,
        Some(HttpFailure::Status(300..=399)) => {
            Lasting("it redirects to another URL; use that one if you trust it".to_owned())
        }
        Some(HttpFailure::Status(403 | 408 | 425 | 429)) => Passing(own_text()),
        Some(HttpFailure::Unreachable) if is_busy => Passing(own_text()),
        // Use the text of the failure. The text of the error can contain text of the server.
        Some(failure @ HttpFailure::ConnectionLost) => {
            let why = failure.to_string();
            if is_busy { Passing(why) } else { Lasting(why) }
        }
        None | Some(HttpFailure::NoAnswer) => match error.code() {
            ErrorCode::SERVER_RESTARTING => Lasting("its session is lost".to_owned()),
            ErrorCode::UPSTREAM_ERROR => Passing("it does not answer as an MCP server".to_owned()),
            _ => return None,
        },
        Some(_) => Lasting(own_text()),
    })
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::super::tests::silent_client;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_check_of_a_busy_server_that_does_not_answer_counts_for_all_that_wait_for_it() {
        let (client, health) = (silent_client().await, RemoteHealth::new(true));
        let begun = Instant::now();
        let found = join_all((0..5).map(|_| health.check(&client, || true))).await;
        assert!(found.iter().all(|is_well| !is_well) && health.doubt().is_some());
        assert!(begun.elapsed() < 2 * ANSWER_TIMEOUT, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_session_ends_after_three_failed_checks_that_are_apart() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut checks = CheckHistory::default();
        for seconds in [0, 1, 2, 5, 9] {
            assert!(!checks.count_failure(1, after(seconds)), "{seconds}: {checks:?}");
        }
        assert!(checks.count_failure(1, after(10)));
        assert!(!checks.count_failure(2, after(11)), "failures of an earlier run do not count");
    }

    #[test]
    fn a_refused_header_is_to_be_corrected() {
        let error = RpcError::new(ErrorCode::AUTH_REQUIRED, "why");
        let found = check_failure(&error.because(HttpFailure::Status(401)), false);
        let found = format!("{found:?}");
        assert!(found.contains("Lasting") && found.contains("set or correct a header"), "{found}");
    }

    #[test]
    fn only_a_failure_that_cannot_pass_ends_a_session_at_once() {
        #[track_caller]
        fn check(failure: HttpFailure, is_busy: bool, is_lasting: Option<bool>) {
            let error = RpcError::new(ErrorCode::SERVER_NOT_READY, "why").because(failure);
            let found = check_failure(&error, is_busy);
            let found = found.map(|failure| matches!(failure, CheckFailure::Lasting(_)));
            assert_eq!(found, is_lasting, "{failure:?}");
        }
        for status in [403, 500, 502, 503] {
            check(HttpFailure::Status(status), false, Some(false));
            check(HttpFailure::StatusWithError(status), false, Some(false));
        }
        check(HttpFailure::Status(429), false, Some(false));
        check(HttpFailure::StatusWithError(400), false, None);
        for theirs in ["(challenge: theirs)", "(server: `theirs`)"] {
            let error = RpcError::new(ErrorCode::PERMISSION_DENIED, format!("ours {theirs}"));
            let found = check_failure(&error.because(HttpFailure::Status(403)), false);
            assert_eq!(found, Some(CheckFailure::Passing("ours".to_owned())));
        }
        for status in [302, 401, 404] {
            check(HttpFailure::Status(status), true, Some(true));
        }
        for failure in [HttpFailure::Unreachable, HttpFailure::ConnectionLost] {
            check(failure, false, Some(true));
            check(failure, true, Some(false));
        }
        let error = RpcError::new(ErrorCode::UPSTREAM_ERROR, "the stream ended: theirs");
        let found = check_failure(&error.because(HttpFailure::ConnectionLost), false);
        let why = "the connection ended before the answer".to_owned();
        assert_eq!(found, Some(CheckFailure::Lasting(why)));
    }
}
