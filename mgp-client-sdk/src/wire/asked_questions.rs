//! The questions of a server that wait for the answers of callers, and their limit while other callers wait.
//!
//! While a question to one caller is open, a further question of the server could also be for that caller. So the
//! client refuses the further question for all other callers. A caller that never answers would block the other callers
//! until the time limit of its question. Therefore the client gives up a question that has been open for two minutes if
//! the server has another question that could then be asked.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::{AgentId, Principal, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError, clip, escape_hidden};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::log_limit::LogLimit;

/// The time after which the open question of one caller no longer delays questions to other callers.
const SHARED_TIME: Duration = Duration::from_mins(2);

/// The maximum length of a logged reason, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// The questions that are open on one connection to a server.
#[derive(Default)]
pub(super) struct AskedQuestions {
    open: Mutex<Vec<Arc<Asked>>>,
    /// Counts the refused questions of the connection.
    refused: LogLimit,
}

struct Asked {
    caller: Principal,
    since: Instant,
    given_up: Notify,
}

/// A guard of an open question. Dropping the guard removes the question.
pub(super) struct AskedQuestion {
    all: Arc<AskedQuestions>,
    asked: Arc<Asked>,
}

impl AskedQuestions {
    pub(super) fn add(self: &Arc<Self>, caller: &Principal) -> AskedQuestion {
        let (since, given_up) = (Instant::now(), Notify::new());
        let asked = Arc::new(Asked { caller: caller.clone(), since, given_up });
        self.open.lock().push(Arc::clone(&asked));
        AskedQuestion { all: Arc::clone(self), asked }
    }

    /// Gives up all questions of the callers that have left a question open for too long, if `helps` returns `true` for
    /// these callers. Returns whether it gave up any.
    pub(super) fn give_up_old(&self, helps: impl FnOnce(&[Principal]) -> bool) -> bool {
        let is_old = |asked: &&Arc<Asked>| asked.since.elapsed() >= SHARED_TIME;
        let caller = |asked: &Arc<Asked>| asked.caller.clone();
        let callers: Vec<_> = self.open.lock().iter().filter(is_old).map(caller).collect();
        if callers.is_empty() || !helps(&callers) {
            return false;
        }
        for asked in self.open.lock().iter().filter(|asked| callers.contains(&asked.caller)) {
            asked.given_up.notify_one();
        }
        true
    }

    /// Logs that a question of a server was refused, with the reason that the server receives.
    pub(super) fn log_refused(
        &self,
        server: Option<&ServerId>,
        method: &str,
        caller: Option<&Principal>,
        error: &RpcError,
    ) {
        if !self.refused.admits() {
            return;
        }
        tracing::info!(
            server = server.map(ServerId::as_str),
            method,
            agent = caller.and_then(Principal::as_agent).map(AgentId::as_str),
            code = error.code().0,
            reason = escape_hidden(&clip(error.message(), MAX_REASON_BYTES)).as_str(),
            "question of a server refused"
        );
    }
}

impl AskedQuestion {
    /// Waits until the question is given up; returns the error for the server.
    pub(super) async fn given_up(&self) -> RpcError {
        self.asked.given_up.notified().await;
        RpcError::new(
            ErrorCode::TIMEOUT,
            "the question had no answer for two minutes, and another caller was to be asked; go on without an answer; \
             `isolation = \"per_agent\"` gives each caller an instance of its own",
        )
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        self.all.open.lock().retain(|asked| !Arc::ptr_eq(asked, &self.asked));
    }
}
