//! The choice between the two sessions that an instance of a server can have, one for each protocol era.
//!
//! Servers that use some SDKs can ask their callers (elicitation, sampling, roots) in the legacy era only, although
//! they also serve the modern era. So the kernel speaks the era of the caller to the server. The main session has the
//! newest era of the server. The kernel opens a second, legacy session for the first legacy caller that can be asked or
//! that subscribes to a resource. Some servers at URLs cannot ask in the legacy era, because they keep no sessions or
//! answer in JSON. Then the main session serves all calls, and the legacy session only subscriptions, if it has a
//! stream for messages outside of calls.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::FailsAtProbe;
use mgp_types::mcp::{Era, Revision};
use mgp_types::mgp::ExtensionSet;
use mgp_types::service::{Context, PeerInfo};
use mgp_types::sync::{Mutex, RwLock};
use tokio::time::Instant;

use super::task_tools::{InMainSession, TaskTools};

/// The time until the kernel tries again to open a legacy session with a server that has refused one.
const REFUSED_TTL: Duration = Duration::from_mins(10);

/// The minimum time between two attempts to open a legacy session with a server that did not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The kinds of the two sessions that an instance of a server can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionKind {
    /// The session of the configured era, or of the newest era that the server supports.
    Main,
    /// The session for legacy callers of a server that serves both eras.
    Legacy,
}

/// The purpose for which a caller uses a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionUse {
    Call,
    /// Notifications of a changed resource, which some servers send in the legacy era only.
    Subscription,
    /// Notifications of a changed resource, after the server has refused the subscription in the legacy era.
    ModernSubscription,
}

impl SessionUse {
    /// Returns whether the caller might miss questions or notifications of the server in a session of the modern era.
    pub(super) fn needs_legacy(self, cx: &Context) -> bool {
        let is_affected = match self {
            Self::Call => cx.caller.accepts.any() && cx.extensions.get::<InMainSession>().is_none(),
            Self::Subscription => true,
            Self::ModernSubscription => false,
        };
        cx.caller.era == Era::Legacy && is_affected
    }
}

/// The properties of a server that are related to eras. The kernel knows them from the last connection, or an earlier
/// kernel has stored them. All instances of the server share them.
#[derive(Default)]
pub(super) struct KnownEras {
    needs: AtomicU8,
    /// Set if the server's program fails at the request that detects its era (the probe).
    fails_at_probe: FailsAtProbe,
    /// `true` if the last connection used MCP 2025-03-26 or an earlier revision.
    is_early: AtomicBool,
    /// The times until which the kernel does not use a legacy session: the first time applies to calls, the second to
    /// subscriptions.
    refused_until: Mutex<[Option<Instant>; 2]>,
    /// The tools that run only as tasks of the main session.
    pub(super) task_tools: TaskTools,
}

/// The number of sessions that a server needs to serve callers of both eras.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionNeeds {
    /// Unknown: the server has never been connected.
    Unknown,
    /// One session: the server is legacy, or it can ask modern callers all kinds of questions.
    One,
    /// One session per era: the server is modern, but may be able to ask further kinds of questions in the legacy era,
    /// if it supports that era.
    OnePerEra,
}

/// The reason why the kernel could not use a legacy session.
#[derive(Clone, Copy, Debug)]
pub(super) enum LegacyFailure {
    /// The server has answered the attempt, so it does not support the legacy era for this purpose.
    Refused,
    /// The server may have been unreachable, so the kernel tries again soon.
    Unanswered,
}

impl KnownEras {
    /// Records whether the server needs one session per era, or only one session. The properties of its main session
    /// determine this.
    pub(super) fn observe(&self, facts: &PeerInfo) {
        self.is_early.store(facts.revision <= Revision::V2025_03_26, Ordering::Relaxed);
        let is_enough = facts.era == Era::Legacy || facts.asks_in_rounds;
        self.set(if is_enough { SessionNeeds::One } else { SessionNeeds::OnePerEra });
    }

    pub(super) fn set(&self, needs: SessionNeeds) {
        self.needs.store(needs as u8, Ordering::Relaxed);
    }

    /// Returns whether the server needs one session, or one per era, for calls or for subscriptions.
    pub(super) fn needs(&self, session_use: SessionUse) -> SessionNeeds {
        let until = || self.refused_until.lock()[usize::from(session_use != SessionUse::Call)];
        let is_refused = || until().is_some_and(|until| until > Instant::now());
        match self.needs.load(Ordering::Relaxed) {
            0 => SessionNeeds::Unknown,
            2 if !is_refused() => SessionNeeds::OnePerEra,
            _ => SessionNeeds::One,
        }
    }

    /// Records that the kernel could not use a legacy session.
    pub(super) fn refuse_legacy(&self, session_use: SessionUse, failure: LegacyFailure) {
        let ttl = match failure {
            LegacyFailure::Refused => REFUSED_TTL,
            LegacyFailure::Unanswered => RETRY_INTERVAL,
        };
        let mut refused_until = self.refused_until.lock();
        let refused_until = &mut refused_until[usize::from(session_use != SessionUse::Call)];
        // Concurrent calls can report different outcomes. A refusal, which has the later time, takes precedence over a
        // missing answer.
        *refused_until = (*refused_until).max(Some(Instant::now() + ttl));
    }

    /// Returns the flag that is set if the program fails at the probe. All clients of the program share the flag.
    pub(super) fn fails_at_probe(&self) -> &FailsAtProbe {
        &self.fails_at_probe
    }

    /// Restores the flag that an earlier kernel stored about the probe.
    pub(super) fn restore_probe_failure(&self, fails: bool) {
        self.fails_at_probe.set(fails);
        self.is_early.store(fails, Ordering::Relaxed);
    }

    /// Returns, for the store, whether the program fails at the probe; `false` if its last connection used a revision
    /// after 2025-03-26. Programs with early SDKs, e.g. the Python SDK before 1.8, do not answer the probe at all,
    /// which delays each start by seconds. After an update to a later SDK, the kernel must probe them again.
    pub(super) fn stores_probe_failure(&self) -> bool {
        self.fails_at_probe.get() && self.is_early.load(Ordering::Relaxed)
    }

    /// Returns, for the store, whether the server needs one session per era; `None` if it has never been connected.
    pub(super) fn stored_needs(&self) -> Option<bool> {
        match self.needs.load(Ordering::Relaxed) {
            0 => None,
            needs => Some(needs == SessionNeeds::OnePerEra as u8),
        }
    }
}

/// The extensions that a server negotiated in the last main session and in the last legacy session. An earlier kernel
/// may have stored them. All instances of the server share them.
#[derive(Default)]
pub(super) struct NegotiatedExtensions(RwLock<[Option<ExtensionSet>; 2]>);

impl NegotiatedExtensions {
    /// Records the extensions that a server negotiated in a session of this kind.
    pub(super) fn set(&self, session: SessionKind, extensions: ExtensionSet) {
        self.0.write()[session as usize] = Some(extensions);
    }

    /// Returns the extensions negotiated in the session that serves a caller's calls: the legacy session if the caller
    /// needs one and it has been connected, otherwise the main session.
    pub(super) fn for_calls(&self, cx: &Context, eras: &KnownEras) -> ExtensionSet {
        let [main, legacy] = *self.0.read();
        let session_use = SessionUse::Call;
        let is_legacy =
            session_use.needs_legacy(cx) && eras.needs(session_use) == SessionNeeds::OnePerEra;
        legacy.filter(|_| is_legacy).or(main).unwrap_or_default()
    }

    /// Returns the extensions that the server negotiated in any kind of session.
    pub(super) fn all(&self) -> ExtensionSet {
        let [main, legacy] = *self.0.read();
        main.unwrap_or_default() | legacy.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::mgp::Extension;
    use mgp_types::service::{Peer, Principal, Scope, ScopeKind};

    use super::*;

    #[test]
    fn only_the_extensions_of_the_session_that_takes_a_call_apply_to_it() {
        let caller = |revision: Revision, accepts_questions: bool| {
            let mut facts = PeerInfo::new(revision);
            facts.accepts.elicitation = accepts_questions;
            let scope = Scope::new(ScopeKind::Request);
            let mut cx = Context::new(Peer::none(), scope, Principal::local());
            cx.caller = Arc::new(facts);
            cx
        };
        let modern = caller(Revision::V2026_07_28, true);
        let (asked, silent) =
            (caller(Revision::V2025_06_18, true), caller(Revision::V2025_06_18, false));
        let of_main = ExtensionSet::EMPTY.with(Extension::DataReferences);
        let of_legacy = ExtensionSet::EMPTY.with(Extension::SessionState);
        let (negotiated, eras) = (NegotiatedExtensions::default(), KnownEras::default());
        eras.set(SessionNeeds::OnePerEra);
        negotiated.set(SessionKind::Main, of_main);
        assert_eq!(negotiated.for_calls(&asked, &eras), of_main, "it has no legacy session yet");
        negotiated.set(SessionKind::Legacy, of_legacy);
        assert_eq!(negotiated.for_calls(&asked, &eras), of_legacy);
        for other in [&modern, &silent] {
            assert_eq!(negotiated.for_calls(other, &eras), of_main);
        }
        assert_eq!(negotiated.all(), of_main | of_legacy);
        eras.refuse_legacy(SessionUse::Call, LegacyFailure::Refused);
        assert_eq!(
            negotiated.for_calls(&asked, &eras),
            of_main,
            "the main session takes all calls"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_answered_is_taken_as_one_without_the_legacy_era() {
        let eras = KnownEras::default();
        eras.set(SessionNeeds::OnePerEra);
        for (failure, ttl) in
            [(LegacyFailure::Unanswered, RETRY_INTERVAL), (LegacyFailure::Refused, REFUSED_TTL)]
        {
            let needs = || eras.needs(SessionUse::Call);
            eras.refuse_legacy(SessionUse::Call, failure);
            tokio::time::advance(ttl / 2).await;
            assert_eq!(needs(), SessionNeeds::One, "{failure:?}");
            assert_eq!(eras.needs(SessionUse::Subscription), SessionNeeds::OnePerEra);
            tokio::time::advance(ttl).await;
            assert_eq!(needs(), SessionNeeds::OnePerEra, "{failure:?}");
        }
    }
}
