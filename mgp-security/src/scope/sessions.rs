//! Sessions that grant scopes for a limited time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgp_types::mgp::{AuditResult, EventType};
use mgp_types::proposal::{
    DeniedScope, NegotiateScopesParams, NegotiateScopesResult, ScopeSession, temporary,
};
use mgp_types::service::{AuditSink, Principal};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{
    ErrorCode, List, Payload, RpcError, Sha256Hash, Timestamp, clip, millis, random_name,
};
use serde::{Deserialize, Serialize};

use super::held::{HeldScopes, covers};
use super::layer::ScopeLayer;
use super::refused::SessionEnded;
use crate::audit::Event;
use crate::error::Refusal;

const SPACE: &str = "security.scopes";

/// The duration of a session if the caller requests none.
const DEFAULT_TTL: Duration = Duration::from_mins(30);
const MAX_TTL: Duration = Duration::from_hours(24);

/// The time without a call after which a session ends.
const INACTIVITY_TIMEOUT: Duration = Duration::from_mins(15);

/// The maximum number of scopes that a caller may request for a session.
const MAX_REQUESTED: usize = 64;
/// The maximum length of a requested scope, in bytes.
const MAX_SCOPE: usize = 128;

/// The maximum number of sessions of one caller.
const MAX_SESSIONS_EACH: usize = 16;
/// The maximum number of sessions of all callers together.
const MAX_SESSIONS: usize = 10_000;

/// The maximum length of a token, in bytes. A longer token is not looked up.
const MAX_TOKEN: usize = 256;

/// The function that returns the scopes that the operator allows a caller; `None` if the caller's calls need no scopes.
type Allowed = dyn Fn(&Principal) -> Option<Arc<[String]>> + Send + Sync;

/// The sessions with scopes; a handle that is cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use mgp_security::Scopes;
/// use mgp_types::proposal::NegotiateScopesParams;
/// use mgp_types::service::{MemoryAudit, Principal};
/// use mgp_types::store::MemoryStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let allowed = |_: &Principal| Some(vec!["read:*".to_owned()].into());
/// let scopes = Scopes::new(Arc::new(MemoryStore::new()), Arc::new(MemoryAudit::new()), allowed);
/// let mut wanted = NegotiateScopesParams::new();
/// wanted.requested_scopes = vec!["read:tickets".to_owned(), "write:tickets".to_owned()].into();
/// let result = scopes.negotiate(&Principal::local(), wanted).await.unwrap();
/// assert_eq!(result.granted_scopes, ["read:tickets"]);
/// assert_eq!(result.denied_scopes[0].scope, "write:tickets");
/// # });
/// ```
#[derive(Clone)]
pub struct Scopes(Arc<ScopeBook>);

struct ScopeBook {
    store: Arc<dyn Store>,
    audit: Arc<dyn AuditSink>,
    allowed: Box<Allowed>,
    sessions: Mutex<HashMap<String, Session>>,
}

mgp_types::opaque_debug!(Scopes);

/// A session, stored under the hash of its token. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Session {
    /// The hash of the principal who owns the session.
    owner: String,
    scopes: Vec<String>,
    ends: u64,
    /// The time of the last call; calls update it only in memory.
    used: u64,
    /// The hash of the session's refresh token.
    refresh: String,
    revoked: bool,
    /// `true` while a revocation of the session is not stored yet. If storing it fails, `revoke` can be called once
    /// more.
    #[serde(skip)]
    is_unstored: bool,
}

/// The granted and the denied scopes of a request, and the duration of the grant.
struct Granted {
    scopes: Vec<String>,
    denied: Vec<DeniedScope>,
    ttl: Duration,
}

impl Scopes {
    /// Creates sessions in a store. `allowed` returns the scopes that a caller may obtain, or `None` if calls of this
    /// caller need no scopes. A scope that ends with `*` includes all scopes with the same beginning.
    pub fn new(
        store: Arc<dyn Store>,
        audit: Arc<dyn AuditSink>,
        allowed: impl Fn(&Principal) -> Option<Arc<[String]>> + Send + Sync + 'static,
    ) -> Self {
        let (allowed, sessions) = (Box::new(allowed), Mutex::default());
        Self(Arc::new(ScopeBook { store, audit, allowed, sessions }))
    }

    /// Reads the sessions that an earlier process stored.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn open(&self) -> Result<(), StoreError> {
        let records = self.0.store.load(SPACE).await?.records.into_iter();
        let read = records.filter_map(|one| Some((one.key, one.value?.get::<Session>().ok()?)));
        self.0.sessions.lock().extend(read);
        Ok(())
    }

    /// Returns whether the calls of a caller are limited to scopes.
    #[must_use]
    pub fn is_limited(&self, principal: &Principal) -> bool {
        (self.0.allowed)(principal).is_some()
    }

    /// Returns the layer that adds the scopes of the caller's session to each request.
    #[must_use]
    pub fn layer(&self) -> ScopeLayer {
        ScopeLayer(self.clone())
    }

    /// Grants the requested scopes that the operator allows, in a new session. If the params contain a refresh token,
    /// the new session replaces the session to which the token belongs.
    ///
    /// # Errors
    /// Code −32602 (invalid params) if a scope is not valid, code 1003 (authentication expired) if the refresh token is
    /// not valid, code 3001 (resource exhausted) if the caller has too many sessions, or the error of the store or the
    /// audit log.
    pub async fn negotiate(
        &self,
        by: &Principal,
        params: NegotiateScopesParams,
    ) -> Result<NegotiateScopesResult, RpcError> {
        let owner = owner(by);
        let refreshed = match &params.refresh_token {
            Some(token) => Some(self.find_refresh(&owner, token)?),
            None => None,
        };
        let mut requested: Vec<String> = params.requested_scopes.iter().cloned().collect();
        if let Some((_, session)) = refreshed.as_ref().filter(|_| requested.is_empty()) {
            requested.clone_from(&session.scopes);
        }
        let granted = self.grant(by, &requested, params.ttl_seconds)?;
        let mut result = NegotiateScopesResult::new(granted.scopes.clone());
        result.denied_scopes = List::written(granted.denied);
        if granted.scopes.is_empty() {
            return Ok(result);
        }
        let (token, refresh) = (new_token()?, new_token()?);
        let ends = now() + millis(granted.ttl);
        let expires_at = timestamp(ends);
        let session = Session {
            owner,
            scopes: granted.scopes.clone(),
            ends,
            used: now(),
            refresh: hash(&refresh),
            revoked: false,
            is_unstored: false,
        };
        let event = Event::new(EventType::PermissionGranted, by, AuditResult::Success)
            .detail("scopes", &granted.scopes)
            .justification(params.justification.as_deref())
            .expires_at(&expires_at);
        self.0.audit.record(event.build()).await.map_err(Refusal::Unaudited)?;
        self.insert(hash(&token), session, refreshed.map(|(key, _)| key)).await?;
        let mut session = ScopeSession::new(token, granted.scopes, expires_at);
        session.refresh_token = Some(refresh);
        session.inactivity_timeout_seconds = Some(INACTIVITY_TIMEOUT.as_secs());
        result.session = Some(session);
        Ok(result)
    }

    /// Ends a session of the caller; returns `false` if it does not exist or was already revoked.
    ///
    /// # Errors
    /// The error of the store or the audit log.
    pub async fn revoke(&self, by: &Principal, token: &str) -> Result<bool, RpcError> {
        let (key, owner) = (hash(token), owner(by));
        let found = {
            let mut sessions = self.0.sessions.lock();
            let found = sessions.get_mut(&key).filter(|one| one.owner == owner);
            found.filter(|one| !one.revoked || one.is_unstored).map(|session| {
                (session.revoked, session.is_unstored) = (true, true);
                session.clone()
            })
        };
        let Some(session) = found else { return Ok(false) };
        let event = Event::new(EventType::PermissionRevoked, by, AuditResult::Success)
            .detail("scopes", &session.scopes);
        self.0.audit.record(event.build()).await.map_err(Refusal::Unaudited)?;
        self.0.store.commit(Change::new().put(SPACE, key.clone(), Payload::of(&session)?)).await?;
        if let Some(session) = self.0.sessions.lock().get_mut(&key) {
            session.is_unstored = false;
        }
        Ok(true)
    }

    /// Returns the scopes that a call has; `None` if it needs none.
    ///
    /// A caller that has a session has no scopes in calls without the session's token. A caller without a session, e.g.
    /// because it does not know the extension, has all scopes that the operator allows.
    pub(super) fn held(&self, by: &Principal, token: Option<&str>) -> Option<HeldScopes> {
        let allowed = (self.0.allowed)(by)?;
        Some(HeldScopes(match token {
            Some(token) => self.use_session(&owner(by), token, &allowed),
            None if self.has_session(&owner(by)) => Ok(Arc::default()),
            None => Ok(allowed),
        }))
    }

    fn has_session(&self, owner: &str) -> bool {
        let (sessions, now) = (self.0.sessions.lock(), now());
        // Usually there are no sessions, so a linear search is fast enough.
        sessions.values().any(|one| one.owner == owner && one.check(now).is_ok())
    }

    /// Returns the scopes of a session that the operator still allows, and notes that the session was used.
    fn use_session(
        &self,
        owner: &str,
        token: &str,
        allowed: &[String],
    ) -> Result<Arc<[String]>, SessionEnded> {
        if token.len() > MAX_TOKEN {
            return Err(SessionEnded::Unknown);
        }
        let (mut sessions, now) = (self.0.sessions.lock(), now());
        let session = sessions.get_mut(&hash(token)).filter(|session| session.owner == owner);
        let session = session.ok_or(SessionEnded::Unknown)?;
        session.check(now)?;
        session.used = now;
        let held = session.scopes.iter().filter(|scope| covers(allowed, scope));
        Ok(held.cloned().collect())
    }

    fn grant(
        &self,
        by: &Principal,
        requested: &[String],
        ttl: Option<u64>,
    ) -> Result<Granted, RpcError> {
        if requested.is_empty() || requested.len() > MAX_REQUESTED {
            let message = format!("name 1 to {MAX_REQUESTED} scopes");
            return Err(RpcError::invalid_params(message));
        }
        let ttl = ttl.map_or(DEFAULT_TTL, Duration::from_secs);
        let mut granted = Granted { scopes: Vec::new(), denied: Vec::new(), ttl: ttl.min(MAX_TTL) };
        let allowed = (self.0.allowed)(by);
        for scope in requested {
            if let Some(limit) = temporary(scope)? {
                granted.ttl = granted.ttl.min(limit);
                continue;
            }
            let why = match &allowed {
                _ if scope.len() > MAX_SCOPE || scope.contains('*') => {
                    "name one scope, of at most 128 bytes"
                }
                None => "an operator must list scopes for this agent: `agents.NAME.scopes`",
                Some(allowed) if covers(allowed, scope) => {
                    if !granted.scopes.contains(scope) {
                        granted.scopes.push(scope.clone());
                    }
                    continue;
                }
                Some(_) => "the operator does not allow it to this agent",
            };
            let mut denied = DeniedScope::new(clip(scope, MAX_SCOPE));
            denied.reason = Some(why.to_owned());
            granted.denied.push(denied);
        }
        if granted.ttl.is_zero() {
            return Err(RpcError::invalid_params("`ttl_seconds` must be at least 1"));
        }
        Ok(granted)
    }

    /// Finds the session to which a refresh token belongs. After the session has ended, the token stays valid for the
    /// maximum duration of a session.
    fn find_refresh(&self, owner: &str, token: &str) -> Result<(String, Session), RpcError> {
        let (refresh, now) = (hash(token), now());
        let sessions = self.0.sessions.lock();
        let found = sessions.iter().find(|(_, one)| one.owner == owner && one.refresh == refresh);
        let valid = found.filter(|(_, one)| !one.revoked && one.ends + millis(MAX_TTL) > now);
        valid.map(|(key, session)| (key.clone(), session.clone())).ok_or_else(|| {
            let message = "the refresh token is not valid; request scopes without it";
            RpcError::new(ErrorCode::AUTH_EXPIRED, message)
        })
    }

    /// Adds a session, and removes other sessions: the session that it replaces, and sessions that can no longer be
    /// extended. If there would still be too many, also removes the sessions that ended first. If this cannot be
    /// stored, changes nothing.
    async fn insert(
        &self,
        key: String,
        session: Session,
        replaced: Option<String>,
    ) -> Result<(), RpcError> {
        let (committed, removed) = {
            let (mut sessions, now) = (self.0.sessions.lock(), now());
            let is_past = |key: &String, one: &Session| {
                replaced.as_ref() == Some(key) || one.ends + millis(MAX_TTL) <= now
            };
            let mut removed: Vec<_> = sessions.extract_if(|key, one| is_past(key, one)).collect();
            let is_own = |one: &Session| one.owner == session.owner && !one.revoked;
            removed.extend(make_room(&mut sessions, MAX_SESSIONS_EACH, now, is_own));
            removed.extend(make_room(&mut sessions, MAX_SESSIONS, now, |_| true));
            let own = sessions.values().filter(|one| is_own(one));
            if own.count() >= MAX_SESSIONS_EACH || sessions.len() >= MAX_SESSIONS {
                sessions.extend(removed);
                let message = "there are too many sessions with scopes; revoke one first";
                return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
            }
            let change = Change::new().put(SPACE, key.as_str(), Payload::of(&session)?);
            let keys = removed.iter().map(|(key, _)| key.as_str());
            let change = keys.fold(change, |all, key| all.remove(SPACE, key));
            sessions.insert(key.clone(), session);
            (self.0.store.commit(change), removed)
        };
        if let Err(error) = committed.await {
            // Remove the session again, because its caller gets no token. While a caller has a session, its calls
            // without the token of that session have no scopes.
            let mut sessions = self.0.sessions.lock();
            sessions.remove(&key);
            sessions.extend(removed);
            return Err(error.into());
        }
        Ok(())
    }
}

impl Session {
    fn check(&self, now: u64) -> Result<(), SessionEnded> {
        if self.revoked {
            Err(SessionEnded::Revoked)
        } else if now >= self.ends {
            Err(SessionEnded::Expired)
        } else if now.saturating_sub(self.used) >= millis(INACTIVITY_TIMEOUT) {
            Err(SessionEnded::Inactive)
        } else {
            Ok(())
        }
    }
}

/// Removes sessions that have ended, in the order of their end, until there is room for another session below `max`.
/// Returns the removed sessions. `counts` returns whether a session counts towards `max`.
fn make_room(
    sessions: &mut HashMap<String, Session>,
    max: usize,
    now: u64,
    counts: impl Fn(&Session) -> bool,
) -> Vec<(String, Session)> {
    let count = sessions.values().filter(|one| counts(one)).count();
    if count < max {
        return Vec::new();
    }
    let ended = sessions.iter().filter(|(_, one)| counts(one) && one.check(now).is_err());
    let mut ended: Vec<_> = ended.map(|(key, one)| (one.ends, key.clone())).collect();
    ended.sort_unstable();
    ended.truncate(count + 1 - max);
    let keys: Vec<String> = ended.into_iter().map(|(_, key)| key).collect();
    sessions.extract_if(|key, _| keys.contains(key)).collect()
}

/// Returns the hash that identifies a principal as the owner of sessions.
fn owner(principal: &Principal) -> String {
    let agent = principal.as_agent().map(mgp_types::service::AgentId::as_str);
    let parts = (principal.tenant().as_str(), principal.subject().as_str(), agent);
    // The debug format escapes quotes, so different principals have different texts.
    hash(&format!("{parts:?}"))
}

fn hash(token: &str) -> String {
    Sha256Hash::digest(token.as_bytes()).to_string()
}

/// Returns a random token of 256 bits, which cannot be guessed.
fn new_token() -> Result<String, RpcError> {
    Ok(random_name()? + &random_name()?)
}

fn now() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn timestamp(at: u64) -> Timestamp {
    (UNIX_EPOCH + Duration::from_millis(at)).into()
}
