//! The extractor of the member `_meta` of a request.

use std::ops::Deref;

use mgp_types::mcp::Meta;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{ConfirmationToken, Member as _, SessionToken};
use mgp_types::service::Call;
use mgp_types::{Payload, RpcError};

use super::{FromCall, ToolRequest};

/// The object `_meta` that the caller sent with the request; empty if it sent none. Tokens of sessions and of
/// confirmations (extensions `scopes` and `human_in_the_loop`) are left out, so that a tool cannot pass them on.
///
/// The caller chooses the members, so they prove nothing about the caller. They come from the direct peer: a kernel in
/// between writes its own, and forwards those of its client only for traces and for negotiated extensions.
///
/// ```
/// use mgp_server_sdk::prelude::*;
/// use mgp_server_sdk::RequestMeta;
///
/// /// Returns the language that the caller prefers.
/// #[tool(read_only)]
/// async fn language(meta: RequestMeta) -> Result<String, RpcError> {
///     Ok(meta.decode("com.example/language")?.unwrap_or_else(|| "en".to_owned()))
/// }
///
/// # drop(Server::new("greeter", "1.0").tool(language()));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestMeta(pub Meta);

impl Deref for RequestMeta {
    type Target = Meta;

    fn deref(&self) -> &Meta {
        &self.0
    }
}

impl FromCall for RequestMeta {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        request.meta().map_or_else(|| Ok(Self::default()), |meta| meta.get().map(Self))
    }
}

/// The members that contain tokens of the caller, which prove its rights to this server. Each has the extension that
/// defines it.
const TOKENS: [(Extension, &str); 2] = [
    (SessionToken::EXTENSION, SessionToken::NAME),
    (ConfirmationToken::EXTENSION, ConfirmationToken::NAME),
];

/// Returns the object `_meta` of a request without the caller's tokens. A value that is not an object counts as absent:
/// some clients write `null` or, in PHP, `[]`.
pub(crate) fn received_meta(call: &Call) -> Option<Payload> {
    let meta = call.params().meta().filter(|meta| meta.as_str().starts_with('{'))?;
    let caller = &call.cx().caller;
    if !TOKENS.iter().any(|(extension, _)| caller.has(*extension)) {
        return Some(meta);
    }
    let mut members: Meta = meta.get().ok()?;
    let before = members.len();
    for (_, token) in TOKENS.iter().filter(|(extension, _)| caller.has(*extension)) {
        members.remove(token);
    }
    if members.len() == before {
        return Some(meta);
    }
    Payload::of(&members).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mgp_types::mcp::Revision;
    use mgp_types::method::{Request, ToolsCall};
    use mgp_types::mgp::ExtensionSet;
    use mgp_types::service::{
        Context, Method, Params, Peer, PeerInfo, Principal, Scope, ScopeKind,
    };

    use super::*;

    #[track_caller]
    fn check(meta: &str, negotiated: ExtensionSet, expected: Option<&str>) {
        let text = Payload::from_trusted(format!(r#"{{"name":"t","_meta":{meta}}}"#));
        let params = Params::of(ToolsCall::METHOD, &text).unwrap();
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), Principal::local());
        let mut caller = PeerInfo::new(Revision::V2025_11_25);
        caller.mgp = Some(negotiated);
        cx.caller = Arc::new(caller);
        let call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
        assert_eq!(received_meta(&call).as_ref().map(Payload::as_str), expected);
    }

    #[test]
    fn a_tool_does_not_receive_the_tokens_of_its_caller() {
        let sent = r#"{"session_token":"s","a":1,"confirmation_token":"c"}"#;
        let none = ExtensionSet::default();
        check(sent, none, Some(sent));
        let scopes = none.with(Extension::Scopes);
        check(sent, scopes, Some(r#"{"a":1,"confirmation_token":"c"}"#));
        check(sent, scopes.with(Extension::HumanInTheLoop), Some(r#"{"a":1}"#));
        check(r#"{"session\u005ftoken":"s"}"#, scopes, Some("{}"));
        check(r#"{ "a": 1 }"#, scopes, Some(r#"{ "a": 1 }"#));
    }

    #[test]
    fn a_meta_that_is_not_an_object_counts_as_absent() {
        for meta in ["null", "[]", "7"] {
            check(meta, ExtensionSet::default(), None);
        }
    }
}
