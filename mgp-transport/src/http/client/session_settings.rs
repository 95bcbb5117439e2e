//! Settings of a legacy session, which are replayed in the session that replaces it (MCP resources, logging; MGP §3.6,
//! §13.2).

use mgp_types::mcp::SubscribeParams;
use mgp_types::method::{
    LoggingSetLevel, PermissionGrant, PermissionResponse, ResourcesSubscribe, ResourcesUnsubscribe,
};
use mgp_types::service::{Call, CallKey, Deadline, Extensions, Outlet, SessionReplay};

/// The maximum number of subscriptions to resources that are recorded. The same maximum applies separately to the other
/// recorded calls. Calls above a maximum are not replayed.
const MAX_WATCHED: usize = 4096;

#[derive(Default)]
pub(super) struct SessionSettings {
    level: Option<Call>,
    /// The latest call that set the permissions; each such call replaces all earlier calls.
    permissions: Option<Call>,
    watched: Vec<(String, Call)>,
    /// The calls that are replayed with other params, e.g. subscriptions to events.
    replays: Vec<(Call, SessionReplay)>,
}

/// A change of the settings, which a request makes when the server accepts it.
pub(super) enum SettingChange {
    Level(Call),
    Permissions(Call),
    Watch(String, Call),
    Unwatch(String),
    Replay(Call, SessionReplay),
}

/// A marker in the extensions of a replayed request, which must not open another session if it finds its own session
/// lost.
pub(super) struct Replayed;

impl SettingChange {
    /// Returns the change of the session's settings that a request makes, if any.
    pub(super) fn of(call: &Call) -> Option<Self> {
        if call.is::<LoggingSetLevel>() {
            return Some(Self::Level(replay_of(call)));
        }
        if call.is::<PermissionResponse>() || call.is::<PermissionGrant>() {
            return Some(Self::Permissions(replay_of(call)));
        }
        if let Some(replay) = call.cx().extensions.get::<SessionReplay>() {
            return Some(Self::Replay(replay_of(call), replay.clone()));
        }
        let watches = call.is::<ResourcesSubscribe>();
        if !watches && !call.is::<ResourcesUnsubscribe>() {
            return None;
        }
        let uri = call.params().get::<SubscribeParams>().ok()?.uri;
        Some(if watches { Self::Watch(uri, replay_of(call)) } else { Self::Unwatch(uri) })
    }
}

impl SessionSettings {
    pub(super) fn keep(&mut self, change: SettingChange) {
        match change {
            SettingChange::Level(call) => self.level = Some(call),
            SettingChange::Permissions(call) => self.permissions = Some(call),
            SettingChange::Unwatch(uri) => self.watched.retain(|(known, _)| *known != uri),
            SettingChange::Watch(uri, call) => {
                self.watched.retain(|(known, _)| *known != uri);
                if self.watched.len() < MAX_WATCHED {
                    self.watched.push((uri, call));
                } else {
                    tracing::warn!(
                        uri,
                        bound = MAX_WATCHED,
                        "too many watched resources: this one is not restored if the session is lost"
                    );
                }
            }
            SettingChange::Replay(call, replay) => {
                self.replays.retain(|(_, known)| !known.is_over());
                if self.replays.len() < MAX_WATCHED {
                    self.replays.push((call, replay));
                }
            }
        }
    }

    /// Returns the requests to replay in a new session.
    pub(super) fn requests(&self) -> Vec<Call> {
        let watched = self.watched.iter().map(|(_, call)| call);
        let replays = self.replays.iter().filter_map(|(call, replay)| {
            let mut call = replay_of(call);
            *call.params_mut() = replay.params()?;
            Some(call)
        });
        // The permissions are replayed first: a new session has no permissions, and calls that need some can follow
        // immediately.
        let settings = self.permissions.iter().chain(&self.level).chain(watched);
        settings.map(replay_of).chain(replays).collect()
    }
}

/// Clones a request without the parts that belong to its caller.
fn replay_of(call: &Call) -> Call {
    let mut replay_of = call.clone();
    let cx = replay_of.cx_mut();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.deadline = Deadline::none();
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx.extensions.insert(Replayed);
    replay_of
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::method::{EventsSubscribe, Request as _, ToolsCall};
    use mgp_types::service::{
        Context, Method, Params, Peer, Principal, Scope, ScopeKind, SessionReplayFn,
    };

    use super::*;

    fn change(method: &str, params: &str) -> Option<SettingChange> {
        change_in(context(), method, params)
    }

    fn context() -> Context {
        Context::new(Peer::none(), Scope::new(ScopeKind::Session), Principal::local())
    }

    fn change_in(cx: Context, method: &str, params: &str) -> Option<SettingChange> {
        let params = Params::split(method, params.to_owned().into()).unwrap();
        SettingChange::of(&Call::request(Method::of(method), params, cx))
    }

    #[test]
    fn the_latest_change_counts() {
        let mut settings = SessionSettings::default();
        for (method, params) in [
            (LoggingSetLevel::METHOD, r#"{"level":"info"}"#),
            (LoggingSetLevel::METHOD, r#"{"level":"debug"}"#),
            (PermissionResponse::METHOD, r#"{"request_id":"1","grants":{"camera":"approved"}}"#),
            (ResourcesSubscribe::METHOD, r#"{"uri":"a:1"}"#),
            (PermissionGrant::METHOD, r#"{"request_id":"2","grants":{"camera":"denied"}}"#),
            (ResourcesSubscribe::METHOD, r#"{"uri":"a:2"}"#),
            (ResourcesSubscribe::METHOD, r#"{"uri":"a:2"}"#),
            (ResourcesUnsubscribe::METHOD, r#"{"uri":"a:1"}"#),
        ] {
            settings.keep(change(method, params).unwrap());
        }
        let asked: Vec<_> =
            settings.requests().iter().map(|call| format!("{:?}", call.params())).collect();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[0].contains("denied"), "{asked:?}");
        assert!(asked[1].contains("debug") && asked[2].contains("a:2"), "{asked:?}");
        assert!(change(ToolsCall::METHOD, r#"{"name":"t"}"#).is_none());
    }

    #[test]
    fn a_call_is_replayed_with_other_params_until_its_caller_drops_it() {
        let mut settings = SessionSettings::default();
        let params = || Params::split(EventsSubscribe::METHOD, r#"{"after_seq":7}"#.into()).ok();
        let replay: Arc<SessionReplayFn> = Arc::new(params);
        let mut cx = context();
        cx.extensions.insert(SessionReplay::new(&replay));
        settings.keep(change_in(cx, EventsSubscribe::METHOD, "{}").unwrap());
        let requests = settings.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].params().body().as_deref(), Some(r#""after_seq":7"#));
        drop(replay);
        assert!(settings.requests().is_empty());
    }

    #[test]
    fn they_are_bounded() {
        let mut settings = SessionSettings::default();
        for number in 0..MAX_WATCHED + 10 {
            let params = format!(r#"{{"uri":"a:{number}"}}"#);
            settings.keep(change(ResourcesSubscribe::METHOD, &params).unwrap());
        }
        assert_eq!(settings.requests().len(), MAX_WATCHED);
    }
}
