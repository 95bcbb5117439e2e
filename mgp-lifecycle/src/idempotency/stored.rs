//! The stored form of a key and of the result of its call.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::proposal::{Member as _, ResultMembers, SessionState, StateChanged};
use mgp_types::service::{HttpFailure, Principal, Reply, TenantId, is_connection_lost};
use mgp_types::{ErrorCode, Object, Payload, Recovery, RpcError, Timestamp};
use serde::{Deserialize, Serialize};

use crate::retry::Failure;

pub(super) const SPACE: &str = "idempotency";

/// The stored state of an idempotency key and its call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredKey {
    /// The caller to whom the key belongs.
    pub(super) owner: String,
    /// The hash of the arguments of the call with the key.
    pub(super) arguments: String,
    /// The transaction of which the call was a step; empty if the call was not a step. `None` if an earlier version of
    /// the program stored the key, or the key cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) transaction: Option<String>,
    /// The hash of the session state that the call had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    /// The time when the call began, in milliseconds since 1970.
    pub(super) began_ms: u64,
    pub(super) expires_ms: u64,
    /// The end of the call; `None` while it is running or if it is unknown how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<StoredEnd>,
}

/// The end of a call. If it has neither a result nor an error, the result was too long to be stored, or was removed to
/// make room.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredEnd {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Box<StoredError>>,
    /// The members that the tool added to the result, as an object. They are written into the result later, and only
    /// those whose extensions the caller negotiated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) members: Option<Payload>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredError {
    code: ErrorCode,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
}

impl StoredKey {
    /// Returns the key that replaces a stored key that cannot be read. It has no owner, and its call runs again only if
    /// a second run does no harm.
    pub(super) fn unreadable(ttl: Duration) -> Self {
        let began_ms = now_ms();
        let expires_ms = began_ms.saturating_add(mgp_types::millis(ttl));
        let (owner, arguments) = (String::new(), String::new());
        Self { owner, arguments, transaction: None, state: None, began_ms, expires_ms, end: None }
    }

    /// Returns the caller to whom the key belongs, without administrative authority; `None` if it cannot be read.
    pub(super) fn caller(&self) -> Option<Principal> {
        let owner = serde_json::from_str::<(String, String, Option<String>)>(&self.owner);
        let (tenant, subject, agent) = owner.ok()?;
        let caller = Principal::new(tenant, subject);
        Some(match agent {
            Some(agent) => caller.agent(agent),
            None => caller,
        })
    }

    pub(super) fn is_of(&self, tenant: &TenantId) -> bool {
        self.caller().is_some_and(|caller| caller.tenant() == tenant)
    }

    pub(super) fn began_at(&self) -> Timestamp {
        (UNIX_EPOCH + Duration::from_millis(self.began_ms)).into()
    }
}

impl StoredEnd {
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.result, &self.members].into_iter().flatten();
        let texts: usize = texts.map(|text| text.as_str().len()).sum();
        let error = self.error.as_ref().map_or(0, |error| {
            error.message.len() + error.data.as_ref().map_or(0, |data| data.as_str().len())
        });
        texts + error
    }

    /// Removes the session state: the caller has a newer state, which a replay must not replace.
    pub(super) fn remove_session_state(&mut self) {
        let remove = |members: &mut Object| {
            members.remove(StateChanged::NAME);
            members.remove(SessionState::NAME).is_some()
        };
        let object = |text: Option<&Payload>| text?.get::<Object>().ok();
        if let Some(mut members) = object(self.members.as_ref())
            && remove(&mut members)
        {
            self.members = Payload::of(&members).ok();
        }
        // If the call was forwarded to a server, the result of that server contains its members.
        if let Some(mut result) = object(self.result.as_ref())
            && let Ok(Some(mut meta)) = result.decode::<Object>("_meta")
            && remove(&mut meta)
            && result.encode("_meta", &meta).is_ok()
        {
            self.result = Payload::of(&result).ok();
        }
    }

    /// Returns the stored answer, or `None` if it is not stored any more.
    pub(super) fn answer(self) -> Option<Result<Reply, RpcError>> {
        if let Some(result) = self.result {
            return Some(Ok(Reply::raw(result)));
        }
        let StoredError { code, message, data, recovery } = *self.error?;
        let mut error = RpcError::new(code, message);
        if let Some(data) = data {
            error = error.data(data);
        }
        Some(Err(match recovery {
            Some(recovery) => error.recovery(recovery),
            None => error,
        }))
    }
}

/// The consequence of a run's outcome for the key of the call.
pub(super) enum RunEnd {
    /// The call did not run, so the key can be used again.
    NotRun,
    /// The call might have run, but its outcome is unknown.
    Unknown,
    Ended(StoredEnd),
}

impl RunEnd {
    /// `added` are the members that were added to the result so far.
    pub(super) fn of(outcome: &Result<Reply, RpcError>, added: Option<&ResultMembers>) -> Self {
        if Failure::of(outcome).is_some_and(|failure| !failure.may_have_run()) {
            return Self::NotRun;
        }
        match outcome {
            Ok(Reply::Complete(body)) => {
                let text = String::from_utf8(body.to_json()).unwrap_or_default();
                let added = added.map(ResultMembers::to_object).filter(|added| !added.is_empty());
                Self::Ended(StoredEnd {
                    result: Some(Payload::from_trusted(text)),
                    error: None,
                    // Encoding an object cannot fail.
                    members: added.and_then(|added| Payload::of(&added).ok()),
                })
            }
            // The reply asks the caller questions. The key must be free again, because the caller repeats the call with
            // its answers.
            Ok(Reply::InputRequired(_)) => Self::NotRun,
            // The call became a task, which can still be running, so its outcome is unknown.
            Ok(_) => Self::Unknown,
            Err(error) if is_lost(error) => Self::Unknown,
            Err(error) => Self::Ended(StoredEnd {
                error: Some(Box::new(StoredError {
                    code: error.code(),
                    message: error.message().to_owned(),
                    data: error.as_data().cloned(),
                    recovery: error.as_recovery().cloned(),
                })),
                ..StoredEnd::default()
            }),
        }
    }
}

/// Returns whether it is unknown after an error how the call ended, e.g. because the connection was lost.
fn is_lost(error: &RpcError) -> bool {
    let is_timeout = matches!(
        error.code(),
        ErrorCode::TIMEOUT | ErrorCode::UPSTREAM_TIMEOUT | ErrorCode::UPSTREAM_UNAVAILABLE
    );
    // A server that stops or restarts may have started the call, and then its outcome is unknown.
    let is_away = matches!(
        error.code(),
        ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_DRAINING | ErrorCode::SERVER_RESTARTING
    );
    is_timeout || is_away || is_connection_lost(error) || HttpFailure::from_error(error).is_some()
}

/// Returns the current time in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, mgp_types::millis)
}
