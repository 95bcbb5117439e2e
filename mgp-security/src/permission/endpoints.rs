//! The server's side of the permission protocol: it receives notifications about decisions (MGP §3.5, §3.6).

use std::collections::BTreeMap;

use mgp_types::mcp::key;
use mgp_types::method::{
    PermissionAwait, PermissionGrant, PermissionRequest, PermissionResponse, Request,
};
use mgp_types::mgp::{
    Grant, Permission, PermissionAck, PermissionDecision, PermissionRequestParams,
    PermissionRequestResult,
};
use mgp_types::service::{Context, Params, Router};
use mgp_types::{Extras, Payload, RpcError};

use super::client_decisions::{Grants, NOTED_MAX};

impl Grants {
    /// Returns a router that receives decisions from a client, under both forms of the method names, and stores them
    /// for the client's connection.
    ///
    /// ```
    /// use mgp_security::Grants;
    /// use mgp_types::mgp::Permission;
    /// use mgp_types::service::{Stack, mock};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = mock::client(Stack::new(Grants::router()));
    /// let decision = r#"{"request_id":"p-1","grants":{"shell":"approved","camera":"denied"}}"#;
    /// let ack = client.request("mgp/permission/response", decision).await.unwrap();
    /// assert_eq!(ack.as_str(), r#"{"request_id":"p-1","acknowledged":true,"active":["shell.execute"]}"#);
    /// assert!(Grants::from_context(&client.cx).is_granted(&Permission::ShellExecute));
    /// # });
    /// ```
    #[must_use]
    pub fn router() -> Router {
        awaits::<PermissionAwait>(awaits::<PermissionRequest>(takes::<PermissionGrant>(takes::<
            PermissionResponse,
        >(
            Router::new(),
        ))))
    }

    /// Returns the decisions that a request of the modern protocol version contains in its `_meta`.
    ///
    /// The decisions apply to this call only: [apply](Self::apply) them to the [`Grants`] in the call's extensions.
    /// Decisions that cannot be parsed grant nothing.
    #[must_use]
    pub fn carried_by(params: &Params) -> Option<PermissionDecision> {
        let text = params.meta_str()?;
        // Search the text first: most requests contain no decisions, and this search takes less time than parsing.
        if !text.contains("grants") {
            return None;
        }
        let meta: Extras = serde_json::from_str(text).ok()?;
        let inside = |mgp: &Payload| mgp.get::<Extras>().ok()?.get("grants").cloned();
        let carried = meta.get(key::MGP).and_then(inside);
        let carried = carried.or_else(|| meta.get(key::MGP_GRANTS).cloned())?;
        let decision = read(&carried).unwrap_or_else(|error| {
            tracing::warn!(%error, "ignoring unreadable grants in `_meta`");
            PermissionDecision::new("", BTreeMap::new())
        });
        Some(decision)
    }
}

/// Parses a decision: either an object with the member `grants`, or the map of grants itself.
fn read(carried: &Payload) -> Result<PermissionDecision, RpcError> {
    let members: Extras = carried.get()?;
    let whole = members.get("grants").is_some_and(|inner| inner.as_str().starts_with('{'));
    let grants: BTreeMap<Permission, Grant> = match members.decode("grants")? {
        Some(inner) if whole => inner,
        _ => carried.get()?,
    };
    let mut decision = PermissionDecision::new("", grants);
    if whole {
        decision.expires_at = members.decode("expires_at")?;
    }
    few(decision.grants.len())?;
    Ok(decision)
}

/// Adds the endpoint for messages which state that permissions are being decided.
fn awaits<R>(router: Router) -> Router
where
    R: Request<Params = PermissionRequestParams, Result = PermissionRequestResult>,
{
    router.on::<R, _, _>(|cx, params| {
        let noted = few(params.permissions.len());
        if noted.is_ok() {
            of_connection(&cx).await_decision(&params.permissions);
        }
        async move {
            noted?;
            let mut result = PermissionRequestResult::default();
            result.request_id = Some(params.request_id);
            result.status = Some("waiting".to_owned());
            Ok(result)
        }
    })
}

/// Adds the endpoint for messages with decisions.
fn takes<R>(router: Router) -> Router
where
    R: Request<Params = PermissionDecision, Result = PermissionAck>,
{
    router.on::<R, _, _>(|cx, decision| {
        let grants = of_connection(&cx);
        // Store the decision before the future is returned, so that the next call already uses it.
        let noted = few(decision.grants.len());
        if noted.is_ok() {
            grants.apply(&decision);
        }
        async move {
            noted?;
            let mut ack = PermissionAck::new(decision.request_id, true);
            ack.active = grants.active().into();
            Ok(ack)
        }
    })
}

fn of_connection(cx: &Context) -> Grants {
    (*cx.scope.state::<Grants>()).clone()
}

fn few(permissions: usize) -> Result<(), RpcError> {
    if permissions > NOTED_MAX {
        return Err(RpcError::invalid_params(format_args!(
            "{permissions} permissions are too many: name at most {NOTED_MAX}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use mgp_types::ErrorCode;
    use mgp_types::service::{Stack, mock};

    use super::*;
    use crate::permission::client_decisions::GrantState;

    fn client() -> mock::Client {
        mock::client(Stack::new(Grants::router()))
    }

    #[tokio::test]
    async fn both_spellings_note_both_forms_of_a_decision() {
        for method in [PermissionResponse::METHOD, PermissionGrant::METHOD] {
            let mut client = client();
            let decision = r#"{"request_id":"a","grants":{"network":"approved","camera":"deferred",
                "shell":{"decision":"approved","scope":{"commands":["ls"]}},"com.example.x":"denied"}}"#;
            let ack = client.request(method, decision).await.unwrap();
            assert_eq!(
                ack.as_str(),
                r#"{"request_id":"a","acknowledged":true,"active":["network.outbound","shell.execute"]}"#
            );
            let grants = Grants::from_context(&client.cx);
            for (name, standing) in [
                ("shell", GrantState::Granted),
                ("network.outbound", GrantState::Granted),
                ("camera", GrantState::Deferred),
                ("com.example.x", GrantState::Denied),
                ("memory.read", GrantState::Deferred),
            ] {
                assert_eq!(grants.standing(&name.into()), standing, "{name}");
            }
            let ended = r#"{"request_id":"b","grants":{"shell":"approved"},"expires_at":"2020-01-01T00:00:00Z"}"#;
            let ack = client.request(method, ended).await.unwrap();
            assert!(!ack.as_str().contains("shell"), "{}", ack.as_str());
            assert_eq!(grants.standing(&Permission::ShellExecute), GrantState::Expired);
        }
    }

    #[tokio::test]
    async fn a_server_that_waits_forgets_nothing() {
        for method in [PermissionRequest::METHOD, PermissionAwait::METHOD] {
            let mut client = client();
            let approved = r#"{"request_id":"a","grants":{"camera":"approved"}}"#;
            client.request(PermissionResponse::METHOD, approved).await.unwrap();
            let asked =
                r#"{"request_id":"b","permissions":["camera","shell"],"policy":"interactive"}"#;
            let answer = client.request(method, asked).await.unwrap();
            assert_eq!(answer.as_str(), r#"{"request_id":"b","status":"waiting"}"#);
            let grants = Grants::from_context(&client.cx);
            assert_eq!(grants.standing(&Permission::Camera), GrantState::Granted);
            assert_eq!(grants.standing(&Permission::ShellExecute), GrantState::Deferred);
        }
    }

    #[tokio::test]
    async fn a_peer_cannot_make_a_server_remember_everything() {
        let mut client = client();
        let many = |from: usize, to: usize| {
            let names = (from..to).map(|at| format!(r#""com.example.p{at}":"approved""#));
            format!(r#"{{"request_id":"a","grants":{{{}}}}}"#, names.collect::<Vec<_>>().join(","))
        };
        let error = client.request(PermissionGrant::METHOD, &many(0, 257)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_PARAMS);
        let grants = Grants::from_context(&client.cx);
        assert!(!grants.is_told());
        client.request(PermissionGrant::METHOD, &many(0, 200)).await.unwrap();
        client.request(PermissionGrant::METHOD, &many(200, 400)).await.unwrap();
        assert_eq!(grants.active().len(), NOTED_MAX);
        assert_eq!(grants.standing(&"com.example.p255".into()), GrantState::Granted);
        assert_eq!(grants.standing(&"com.example.p256".into()), GrantState::Deferred);
    }

    #[test]
    fn a_modern_request_carries_its_grants() {
        #[track_caller]
        fn check(meta: &str, expected: Option<GrantState>) {
            let params = format!(r#"{{"name":"run","_meta":{meta}}}"#);
            let params = Params::split("tools/call", params.into()).unwrap();
            let standing = Grants::carried_by(&params).map(|decision| {
                let grants = Grants::default();
                grants.apply(&decision);
                grants.standing(&Permission::ShellExecute)
            });
            assert_eq!(standing, expected, "{meta}");
        }
        check("{}", None);
        check(r#"{"x":"grants"}"#, None);
        check(r#"{"dev.cloto/mgp":{"grants":{"shell":"approved"}}}"#, Some(GrantState::Granted));
        check(
            r#"{"dev.cloto/mgp/grants":{"shell.execute":"approved"}}"#,
            Some(GrantState::Granted),
        );
        check(r#"{"dev.cloto/mgp":{"grants":{"shell":"denied"}}}"#, Some(GrantState::Denied));
        check(
            r#"{"dev.cloto/mgp":{"grants":{"grants":{"shell":{"decision":"approved"}},"expires_at":"2020-01-01T00:00:00Z"}}}"#,
            Some(GrantState::Expired),
        );
        check(r#"{"dev.cloto/mgp":{"grants":[1]}}"#, Some(GrantState::Deferred));
        check(r#"{"dev.cloto/mgp/grants":{"shell":7}}"#, Some(GrantState::Deferred));
    }
}
