//! The idempotency key of a retried call: a server that keeps keys (extension `idempotency`) runs only one attempt with
//! a key.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::mgp::Extension;
use mgp_types::proposal::{IdempotencyHeader, IdempotencyKey, IdempotencyTtl, Member as _};
use mgp_types::service::{Call, PeerInfo};
use mgp_types::{Payload, RpcError};
use tokio::time::Instant;

use super::config::KeyPolicy;
use crate::error::LifecycleError;

/// The lifetime that the layer requests for a key that it adds to a call itself.
const ADDED_TTL: Duration = Duration::from_hours(1);
/// The lifetime of a key for which the caller sets no lifetime.
const DEFAULT_TTL: Duration = Duration::from_hours(24);

/// The idempotency key of a call. All attempts of the call share this value through the extensions of the call.
#[derive(Debug, Default)]
pub(crate) struct AttemptKey {
    /// The key that is added to the call; `None` if the caller gave the call a key.
    added: Option<IdempotencyKey>,
    ttl: Duration,
    /// The time when an attempt was first sent with the key to a server that keeps keys.
    sent: OnceLock<Instant>,
    /// `true` if an earlier attempt may have run, so that the server must recognise the next attempt by its key.
    is_required: AtomicBool,
}

impl AttemptKey {
    /// Creates this value for a tool call, and stores it among the call's extensions; returns `None` if the attempts of
    /// the call have no key.
    pub(super) fn attach(call: &mut Call, policy: KeyPolicy) -> Option<Arc<Self>> {
        let cx = call.cx();
        // A malformed key or time is refused by the layer that reads it, so only the presence of the key matters here.
        let given = cx.member::<IdempotencyKey>().ok()?.is_some()
            || cx.extensions.get::<IdempotencyHeader>().is_some();
        let key = if given {
            let chosen = cx.member::<IdempotencyTtl>().ok()?;
            let ttl = chosen.map(|IdempotencyTtl(seconds)| Duration::from_secs(seconds));
            Self { ttl: ttl.unwrap_or(DEFAULT_TTL), ..Self::default() }
        } else if policy == KeyPolicy::Added {
            let added = Some(IdempotencyKey(mgp_types::random_name().ok()?));
            Self { added, ttl: ADDED_TTL, ..Self::default() }
        } else {
            return None;
        };
        let key = Arc::new(key);
        call.cx_mut().extensions.insert_shared(Arc::clone(&key));
        Some(key)
    }

    /// Returns whether a server has the key, and will keep it while another attempt is made. Only half of the key's
    /// lifetime counts, because an attempt takes time to reach the server.
    pub(super) fn is_kept(&self) -> bool {
        self.sent.get().is_some_and(|sent| sent.elapsed() < self.ttl / 2)
    }

    /// Requires that the server recognises further attempts by their key, because an earlier attempt may have run.
    pub(super) fn require(&self) {
        self.is_required.store(true, Ordering::Relaxed);
    }

    /// Adds the key to an attempt if `callee` keeps keys, unless the hop members of the call contain a key already. So
    /// a key of the caller must be among the hop members before this call.
    ///
    /// # Errors
    /// Returns 5000 (upstream error) if an earlier attempt may have run, and the server would not recognise this
    /// attempt as its repetition.
    pub(crate) fn add_to(&self, call: &mut Call, callee: &PeerInfo) -> Result<(), RpcError> {
        // Add no key to other requests that are made on behalf of the call. They carry the same extensions, but are not
        // tool calls.
        if call.tool().is_none() {
            return Ok(());
        }
        let keeps_keys = callee.has(Extension::Idempotency);
        let is_known = keeps_keys && self.is_kept();
        if !is_known && self.is_required.load(Ordering::Relaxed) {
            return Err(LifecycleError::KeyNotKept.into());
        }
        if !keeps_keys {
            return Ok(());
        }
        let has_key = call.hop().meta.iter().any(|(name, _)| name == IdempotencyKey::NAME);
        if !has_key {
            let Some(added) = &self.added else { return Ok(()) };
            let (key, ttl) = (Payload::of(added)?, Payload::of(&ADDED_TTL.as_secs())?);
            call.hop_mut().meta.extend([
                (Cow::Borrowed(IdempotencyKey::NAME), key),
                (Cow::Borrowed(IdempotencyTtl::NAME), ttl),
            ]);
        }
        self.sent.get_or_init(Instant::now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Request as _, ToolsCall};
    use mgp_types::mgp::ExtensionSet;
    use mgp_types::service::{Context, Method, Params, Peer, Principal, Scope, ScopeKind};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_the_server_would_not_recognise_by_its_key_is_refused() {
        let params = Params::split(ToolsCall::METHOD, r#"{"name":"t"}"#.to_owned().into()).unwrap();
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Connection), Principal::local());
        let mut call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
        let (forgets, mut keeps) = (PeerInfo::default(), PeerInfo::default());
        keeps.mgp = Some(ExtensionSet::PROPOSALS);
        let key = AttemptKey::attach(&mut call, KeyPolicy::Added).unwrap();
        let is_sent = |callee: &PeerInfo| key.add_to(&mut call.clone(), callee).is_ok();
        assert!(is_sent(&forgets) && !key.is_kept());
        assert!(is_sent(&keeps) && key.is_kept() && is_sent(&forgets));
        key.require();
        assert!(is_sent(&keeps) && !is_sent(&forgets));
        tokio::time::advance(ADDED_TTL).await;
        assert!(!is_sent(&keeps), "the server may have dropped the key");
    }
}
