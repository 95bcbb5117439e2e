//! The permission flow during the handshake, after the server has answered and before the first call (MGP §3.4).

use std::future::{Future, pending, ready};
use std::sync::Arc;

use mgp_types::method::{
    PermissionAwait, PermissionGrant, PermissionRequest, PermissionResponse, Request,
};
use mgp_types::mgp::{
    ApprovalPolicy, GrantDecision, Permission, PermissionDecision, PermissionRequestParams,
};
use mgp_types::service::{BoxFuture, Call, CallKey, Context, MgpService, PeerInfo};
use mgp_types::{ErrorCode, RpcError};
use tokio::time::timeout;

use super::notice::{GrantNotice, RequestedPermissions};
use super::{ACK_TIMEOUT, Dialect, PermissionFlow};
use crate::handshake::client::{ConnectConfig, ConnectError, UngrantedPolicy};

/// The result of a request that notifies a server of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// The server answered the request with a result; the content of the result is not checked.
    Acknowledged,
    /// The server does not know the method of the request.
    Unsupported,
    /// The server refused the request, did not answer it, or disconnected.
    Failed,
}

impl PermissionFlow {
    /// Requests decisions about the permissions that the server needs, and notifies the server of the decisions.
    pub(in crate::handshake) async fn run<S: MgpService>(
        &self,
        stack: &S,
        facts: &PeerInfo,
        cx: &Context,
        config: &ConnectConfig,
    ) -> Result<(), ConnectError> {
        self.read_handshake(facts);
        let (requested, dialect) = {
            let state = self.0.state.lock();
            (state.requested.clone(), state.dialect)
        };
        self.0.grantor.declared(&self.0.server, &requested.decidable());
        if requested.is_empty() {
            return Ok(());
        }
        let name = self.next_name();
        let decided = self.decide(stack, cx, &requested, dialect, &name).await;
        let standing = self.0.grantor.standing(cx, &self.0.server, &requested.decidable());
        let decision = match decided {
            Some(decided) => GrantNotice::overlay(standing, decided),
            None => standing,
        };
        let notice = GrantNotice::of(&decision, &requested, std::time::SystemTime::now());
        if let Some(dialect) = dialect {
            self.notify_server(stack, cx, dialect, name, notice.clone()).await;
        }
        check_grants(&notice, &requested, config)
    }

    /// Waits for a decision; returns `None` if there is none within the time limit. If an operator is asked, and the
    /// decision is not available immediately, the server is notified that it is pending.
    async fn decide<S: MgpService>(
        &self,
        stack: &S,
        cx: &Context,
        requested: &RequestedPermissions,
        dialect: Option<Dialect>,
        name: &str,
    ) -> Option<PermissionDecision> {
        let asks = self.0.grantor.asks_operator(cx, &self.0.server, &requested.decidable());
        let mut deciding = self.deciding(cx, requested.decidable());
        if let Some(decided) = if_ready(&mut deciding).await {
            return Some(decided);
        }
        let announcing = async {
            if let Some(dialect) = dialect.filter(|_| asks) {
                announce(stack, cx, dialect, name, requested).await;
            }
            pending::<()>().await;
        };
        let decided = tokio::select! {
            biased;
            decided = timeout(self.0.limit, &mut deciding) => decided.ok(),
            () = announcing => None,
        };
        if decided.is_none() {
            tracing::warn!(server = %self.0.server, "permission request timed out; deferred");
            self.0.state.lock().late = Some(deciding);
        }
        decided
    }

    /// Returns the decision as a future that can be polled after the negotiation has ended.
    fn deciding(
        &self,
        cx: &Context,
        permissions: Vec<Permission>,
    ) -> BoxFuture<'static, PermissionDecision> {
        let (grantor, server) = (Arc::clone(&self.0.grantor), self.0.server.clone());
        let cx = cx.clone();
        Box::pin(async move { grantor.decide(&cx, &server, permissions).await })
    }

    /// Notifies the server of the grants, and stores the grants once the server has acknowledged them. A server that
    /// does not know the method is not notified again.
    pub(super) async fn notify_server<S: MgpService>(
        &self,
        stack: &S,
        cx: &Context,
        dialect: Dialect,
        name: String,
        notice: GrantNotice,
    ) {
        let sent = match dialect {
            Dialect::Seed => notice.clone().without_limits(),
            Dialect::Later => notice.clone(),
        };
        let mut params = PermissionDecision::new(name, sent.grants);
        (params.approved_by, params.expires_at) = (sent.approved_by, sent.expires_at);
        let delivery = match dialect {
            Dialect::Seed => send::<PermissionResponse, _>(stack, cx, &params).await,
            Dialect::Later => send::<PermissionGrant, _>(stack, cx, &params).await,
        };
        let mut state = self.0.state.lock();
        match delivery {
            Delivery::Acknowledged => state.last = notice,
            // The next change of permissions causes another attempt. Clear `expires_at`, so that an expiry does not
            // cause an attempt.
            Delivery::Failed => state.last.expires_at = None,
            Delivery::Unsupported => state.dialect = None,
        }
    }

    /// Returns a new name for a request about permissions, such as `perm-1`; the names are unique on this connection.
    pub(super) fn next_name(&self) -> String {
        let mut state = self.0.state.lock();
        state.number += 1;
        format!("perm-{}", state.number)
    }
}

/// Returns a decision if it is ready at the first poll, otherwise `None`. Decisions from a configuration are ready
/// immediately.
async fn if_ready(
    deciding: &mut BoxFuture<'static, PermissionDecision>,
) -> Option<PermissionDecision> {
    tokio::select! {
        biased;
        decided = deciding => Some(decided),
        () = ready(()) => None,
    }
}

/// Notifies the server that a decision is pending.
async fn announce<S: MgpService>(
    stack: &S,
    cx: &Context,
    dialect: Dialect,
    name: &str,
    requested: &RequestedPermissions,
) {
    let mut params = PermissionRequestParams::new(name, requested.decidable());
    params.policy = Some(ApprovalPolicy::Interactive);
    params.message = Some("Waiting for operator approval".to_owned());
    match dialect {
        Dialect::Seed => send::<PermissionRequest, _>(stack, cx, &params).await,
        Dialect::Later => send::<PermissionAwait, _>(stack, cx, &params).await,
    };
}

/// Sends a request of the permission flow, and waits for the answer at most [`ACK_TIMEOUT`]. Any result counts as an
/// acknowledgement, an error does not.
fn send<R: Request, S: MgpService>(
    stack: &S,
    cx: &Context,
    params: &R::Params,
) -> impl Future<Output = Delivery> {
    let mut cx = cx.clone();
    cx.key = CallKey::next();
    let call = Call::ask::<R>(params, cx);
    let mut stack = stack.clone();
    async move {
        let answer = match call {
            Ok(call) => timeout(ACK_TIMEOUT, stack.call(call)).await,
            Err(error) => Ok(Err(error)),
        };
        match answer {
            Ok(Ok(_)) => Delivery::Acknowledged,
            Ok(Err(error)) if is_unsupported(&error) => Delivery::Unsupported,
            Ok(Err(error)) => {
                tracing::warn!(method = R::METHOD, %error, "permission notification refused by the server");
                Delivery::Failed
            }
            Err(_) => {
                tracing::warn!(method = R::METHOD, "permission notification timed out");
                Delivery::Failed
            }
        }
    }
}

/// Returns whether an error means that the method is unknown; some servers send −32602 for that.
fn is_unsupported(error: &RpcError) -> bool {
    matches!(error.code(), ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_PARAMS)
}

/// Checks the decisions against the configured policies; fails if the connection must be closed.
fn check_grants(
    notice: &GrantNotice,
    requested: &RequestedPermissions,
    config: &ConnectConfig,
) -> Result<(), ConnectError> {
    let denied = notice.names_with(GrantDecision::Denied, requested);
    if !denied.is_empty() && config.on_denied == UngrantedPolicy::Close {
        return Err(ConnectError::Rejected(denied));
    }
    let deferred = notice.names_with(GrantDecision::Deferred, requested);
    if !deferred.is_empty() && config.on_deferred == UngrantedPolicy::Close {
        return Err(ConnectError::Deferred(deferred));
    }
    Ok(())
}
