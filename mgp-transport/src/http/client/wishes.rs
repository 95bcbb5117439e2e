//! What a legacy session was asked to do of its own, so that the next one can be asked the same (MCP resources, logging; MGP §3.6).
//!
//! Applies to: outbound, legacy.

use mgp_types::mcp::SubscribeParams;
use mgp_types::method::{
    LoggingSetLevel, PermissionGrant, PermissionResponse, ResourcesSubscribe, ResourcesUnsubscribe,
};
use mgp_types::service::{Call, CallKey, Deadline, Extensions, Outlet};

/// How many watched resources are remembered; those above it are not watched in a new session.
const WATCHED: usize = 4096;

/// What a session does until it is told otherwise.
#[derive(Default)]
pub(super) struct Wishes {
    level: Option<Call>,
    /// What its server was told last of its permissions, which is all of them.
    permissions: Option<Call>,
    watched: Vec<(String, Call)>,
}

/// A request that changes them, once it is granted.
pub(super) enum Wish {
    Level(Call),
    Permissions(Call),
    Watch(String, Call),
    Unwatch(String),
}

/// Stands in the extensions of a request that is made again in a new session, and opens no further one.
pub(super) struct Repeated;

impl Wish {
    /// What a request wants for the rest of the session, if that is anything.
    pub(super) fn of(call: &Call) -> Option<Self> {
        if call.is::<LoggingSetLevel>() {
            return Some(Self::Level(again(call)));
        }
        if call.is::<PermissionResponse>() || call.is::<PermissionGrant>() {
            return Some(Self::Permissions(again(call)));
        }
        let watches = call.is::<ResourcesSubscribe>();
        if !watches && !call.is::<ResourcesUnsubscribe>() {
            return None;
        }
        let uri = call.params().get::<SubscribeParams>().ok()?.uri;
        Some(if watches { Self::Watch(uri, again(call)) } else { Self::Unwatch(uri) })
    }
}

impl Wishes {
    pub(super) fn note(&mut self, wish: Wish) {
        match wish {
            Wish::Level(call) => self.level = Some(call),
            Wish::Permissions(call) => self.permissions = Some(call),
            Wish::Unwatch(uri) => self.watched.retain(|(known, _)| *known != uri),
            Wish::Watch(uri, call) => {
                self.watched.retain(|(known, _)| *known != uri);
                if self.watched.len() < WATCHED {
                    self.watched.push((uri, call));
                } else {
                    tracing::warn!(
                        uri,
                        bound = WATCHED,
                        "too many watched resources: if the session is lost, this one is not watched in the next"
                    );
                }
            }
        }
    }

    /// The requests that ask a new session for the same.
    pub(super) fn requests(&self) -> Vec<Call> {
        let watched = self.watched.iter().map(|(_, call)| call);
        // A new session knows of no permission, and calls that need some may follow at once.
        self.permissions.iter().chain(&self.level).chain(watched).map(again).collect()
    }
}

/// The same request, which nobody waits for.
fn again(call: &Call) -> Call {
    let mut again = call.clone();
    let cx = again.cx_mut();
    cx.key = CallKey::next();
    cx.logical = None;
    cx.deadline = Deadline::none();
    cx.outlet = Outlet::none();
    cx.extensions = Extensions::default();
    cx.extensions.insert(Repeated);
    again
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Request as _, ToolsCall};
    use mgp_types::service::{Context, Method, Params, Peer, Principal, Scope, ScopeKind};

    use super::*;

    fn wish(method: &str, params: &str) -> Option<Wish> {
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Session), Principal::local());
        let params = Params::split(method, params.to_owned().into()).unwrap();
        Wish::of(&Call::request(Method::of(method), params, cx))
    }

    #[test]
    fn the_last_word_counts() {
        let mut wishes = Wishes::default();
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
            wishes.note(wish(method, params).unwrap());
        }
        let asked: Vec<_> =
            wishes.requests().iter().map(|call| format!("{:?}", call.params())).collect();
        assert_eq!(asked.len(), 3, "{asked:?}");
        assert!(asked[0].contains("denied"), "{asked:?}");
        assert!(asked[1].contains("debug") && asked[2].contains("a:2"), "{asked:?}");
        assert!(wish(ToolsCall::METHOD, r#"{"name":"t"}"#).is_none());
    }

    #[test]
    fn they_are_bounded() {
        let mut wishes = Wishes::default();
        for number in 0..WATCHED + 10 {
            let params = format!(r#"{{"uri":"a:{number}"}}"#);
            wishes.note(wish(ResourcesSubscribe::METHOD, &params).unwrap());
        }
        assert_eq!(wishes.requests().len(), WATCHED);
    }
}
