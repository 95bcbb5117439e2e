//! Checks that servers at URLs still answer: periodically, after a failed call, and when an operator lists the servers.
//!
//! Without these checks the kernel would not notice that such a server has ended, because it has no process or pipe of
//! the server.

use std::sync::atomic::{AtomicBool, Ordering};
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

/// The time for which the answer to a check is valid; meanwhile no further check is made.
const ANSWER_TTL: Duration = Duration::from_millis(200);

/// The health of a session with a server at a URL; sessions with other servers are not checked.
pub(super) struct RemoteHealth {
    is_remote: bool,
    /// The time of the last answer to a check. The lock is held while a check is running.
    answered_at: Mutex<Option<Instant>>,
    /// `true` if the server did not answer the last check but still has running calls, so that it might only be busy.
    is_silent: AtomicBool,
}

impl RemoteHealth {
    pub(super) fn new(is_remote: bool) -> Self {
        Self { is_remote, answered_at: Mutex::default(), is_silent: AtomicBool::new(false) }
    }

    pub(super) fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Returns whether the server is connected but did not answer the last check.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Returns whether the error of a failed call is a reason to check the server.
    pub(super) fn is_doubtful_after(&self, error: &RpcError) -> bool {
        self.is_remote && lack_of_answer(error).is_some()
    }

    /// Pings the server unless it answered a check just now; marks it as unhealthy if it does not answer.
    ///
    /// While calls are running, a time-out of the ping does not count, because the server might only be busy. Returns
    /// whether a ping succeeded.
    pub(super) async fn check(
        &self,
        client: &SupervisedClient,
        is_busy: impl Fn() -> bool,
    ) -> bool {
        let live = client.supervised().current().borrow().clone();
        let Some(live) = live.filter(|_| self.is_remote) else { return false };
        let mut answered_at = self.answered_at.lock().await;
        if answered_at.is_some_and(|at| at.elapsed() < ANSWER_TTL) {
            return false;
        }
        let answer = timeout(ANSWER_TIMEOUT, ping(&live.client)).await;
        let is_well = matches!(answer, Ok(Ok(())));
        let lack = match answer {
            Ok(Ok(())) => None,
            Ok(Err(error)) => lack_of_answer(&error),
            Err(_) if is_busy() => {
                self.is_silent.store(true, Ordering::Relaxed);
                return false;
            }
            Err(_) => Some(format!("it does not answer within {ANSWER_TIMEOUT:?}")),
        };
        self.is_silent.store(false, Ordering::Relaxed);
        match lack {
            None => *answered_at = Some(Instant::now()),
            Some(why) => {
                tracing::info!(server = ?client.server_id(), %why, "server lost");
                client.mark_unhealthy(live.run, why).await;
            }
        }
        is_well
    }
}

/// Sends a request that every server can answer; the request passes no security checks, because it is the kernel's own.
async fn ping(client: &Client) -> Result<(), RpcError> {
    let cx = client.context();
    let call = match client.server().era {
        Era::Legacy => Call::ask::<Ping>(&EmptyParams::new(), cx)?,
        // The modern era has no `ping`.
        Era::Modern => Call::ask::<ServerDiscover>(&DiscoverParams::new(), cx)?,
    };
    gateway::ungated(client).send(call).await.map(drop)
}

/// If an error shows that the server does not work, returns a text that explains this, without anything that the server
/// has sent. Returns `None` if a working server can cause the error, too.
fn lack_of_answer(error: &RpcError) -> Option<String> {
    match HttpFailure::from_error(error) {
        Some(HttpFailure::Status(401) | HttpFailure::StatusWithError(401)) => Some(
            "it requires credentials (HTTP 401): log in, or set a header, and start it again"
                .into(),
        ),
        Some(HttpFailure::StatusWithError(status)) => {
            let is_refusal = matches!(status, 403 | 500..=599);
            is_refusal.then(|| format!("it answers with HTTP {status}"))
        }
        None | Some(HttpFailure::NoAnswer) => match error.code() {
            ErrorCode::SERVER_RESTARTING => Some("its session is lost".to_owned()),
            ErrorCode::UPSTREAM_ERROR => Some("it does not answer as an MCP server".to_owned()),
            _ => None,
        },
        Some(_) => {
            let message = error.message();
            Some(message.split_once("; challenge").map_or(message, |(ours, _)| ours).to_owned())
        }
    }
}
