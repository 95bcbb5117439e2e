//! The flow between the server's answer to `initialize` and `initialized` (MGP §3.4; checklist C4–C6).
//!
//! Applies to: outbound.

use std::future::{Future, pending, ready};

use mgp_types::method::{
    PermissionAwait, PermissionGrant, PermissionRequest, PermissionResponse, Request,
};
use mgp_types::mgp::{ApprovalPolicy, GrantDecision, PermissionDecision, PermissionRequestParams};
use mgp_types::service::{BoxFuture, Call, CallKey, Context, Facts, MgpService};
use mgp_types::{ErrorCode, RpcError};
use tokio::time::timeout;

use super::told::{Told, Wanted};
use super::{ANSWER, PermissionFlow, Spelling};
use crate::handshake::client::{ConnectConfig, ConnectError, Ungranted};

/// What became of something a server was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// It took it, in whatever words.
    Yes,
    /// It does not know the method.
    Unsupported,
    /// It refused, said nothing, or is gone.
    No,
}

impl PermissionFlow {
    /// Has what the server needs decided, and tells it.
    pub(in crate::handshake) async fn run<S: MgpService>(
        &self,
        stack: &S,
        facts: &Facts,
        cx: &Context,
        config: &ConnectConfig,
    ) -> Result<(), ConnectError> {
        self.meet(facts);
        let (wanted, spelling) = {
            let state = self.state();
            (state.wanted.clone(), state.spelling)
        };
        if wanted.is_empty() {
            return Ok(());
        }
        let name = self.next_name();
        let decided = self.decide(stack, cx, &wanted, spelling, &name).await;
        let standing = self.0.grantor.standing(cx, &self.0.server);
        let decision = match decided {
            Some(decided) => Told::overlay(standing, decided),
            None => standing,
        };
        let told = Told::of(&decision, &wanted, std::time::SystemTime::now());
        if let Some(spelling) = spelling {
            self.tell(stack, cx, spelling, name, told.clone()).await;
        }
        verdict(&told, &wanted, config)
    }

    /// Waits for a decision, which the server hears about unless it is there at once.
    async fn decide<S: MgpService>(
        &self,
        stack: &S,
        cx: &Context,
        wanted: &Wanted,
        spelling: Option<Spelling>,
        name: &str,
    ) -> Option<PermissionDecision> {
        let mut deciding = self.0.grantor.decide(cx, &self.0.server, wanted.askable());
        if let Some(decided) = at_once(&mut deciding).await {
            return Some(decided);
        }
        let announcing = async {
            if let Some(spelling) = spelling {
                announce(stack, cx, spelling, name, wanted).await;
            }
            pending::<()>().await;
        };
        let decided = tokio::select! {
            biased;
            decided = timeout(self.0.limit, &mut deciding) => decided.ok(),
            () = announcing => None,
        };
        if decided.is_none() {
            tracing::warn!(server = %self.0.server, "nobody decided about the permissions in time: deferred");
            self.state().late = Some(deciding);
        }
        decided
    }

    /// Tells the server what stands, and remembers it where it was heard; one that does not know how is not told again.
    pub(super) async fn tell<S: MgpService>(
        &self,
        stack: &S,
        cx: &Context,
        spelling: Spelling,
        name: String,
        told: Told,
    ) {
        let worded = match spelling {
            Spelling::Seed => told.clone().in_words(),
            Spelling::Later => told.clone(),
        };
        let mut params = PermissionDecision::new(name, worded.grants);
        (params.approved_by, params.expires_at) = (worded.approved_by, worded.expires_at);
        let heard = match spelling {
            Spelling::Seed => send::<PermissionResponse, _>(stack, cx, &params).await,
            Spelling::Later => send::<PermissionGrant, _>(stack, cx, &params).await,
        };
        let mut state = self.state();
        match heard {
            Heard::Yes => state.last = told,
            // It is told with the next change, and not again and again because of an expiry.
            Heard::No => state.last.expires_at = None,
            Heard::Unsupported => state.spelling = None,
        }
    }

    /// A name for the next exchange.
    pub(super) fn next_name(&self) -> String {
        let mut state = self.state();
        state.number += 1;
        format!("perm-{}", state.number)
    }
}

/// Polls a decision once: one from a configuration needs nobody to wait.
async fn at_once(
    deciding: &mut BoxFuture<'static, PermissionDecision>,
) -> Option<PermissionDecision> {
    tokio::select! {
        biased;
        decided = deciding => Some(decided),
        () = ready(()) => None,
    }
}

/// Says that somebody is deciding.
async fn announce<S: MgpService>(
    stack: &S,
    cx: &Context,
    spelling: Spelling,
    name: &str,
    wanted: &Wanted,
) {
    let mut params = PermissionRequestParams::new(name, wanted.askable());
    params.policy = Some(ApprovalPolicy::Interactive);
    params.message = Some("Waiting for operator approval".to_owned());
    match spelling {
        Spelling::Seed => send::<PermissionRequest, _>(stack, cx, &params).await,
        Spelling::Later => send::<PermissionAwait, _>(stack, cx, &params).await,
    };
}

/// Sends a request of the flow; whatever comes back is an acknowledgement, and nothing is never waited for (C5).
fn send<R: Request, S: MgpService>(
    stack: &S,
    cx: &Context,
    params: &R::Params,
) -> impl Future<Output = Heard> {
    let mut cx = cx.clone();
    cx.key = CallKey::next();
    let call = Call::ask::<R>(params, cx);
    let mut stack = stack.clone();
    async move {
        let answer = match call {
            Ok(call) => timeout(ANSWER, stack.call(call)).await,
            Err(error) => Ok(Err(error)),
        };
        match answer {
            Ok(Ok(_)) => Heard::Yes,
            Ok(Err(error)) if is_unsupported(&error) => Heard::Unsupported,
            Ok(Err(error)) => {
                tracing::warn!(method = R::METHOD, %error, "the server did not take what it was told");
                Heard::No
            }
            Err(_) => {
                tracing::warn!(method = R::METHOD, "the server did not answer what it was told");
                Heard::No
            }
        }
    }
}

/// Some servers answer an unknown method with −32602.
fn is_unsupported(error: &RpcError) -> bool {
    matches!(error.code(), ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_PARAMS)
}

/// Whether the connection goes on.
fn verdict(told: &Told, wanted: &Wanted, config: &ConnectConfig) -> Result<(), ConnectError> {
    let denied = told.with(GrantDecision::Denied, wanted);
    if !denied.is_empty() && config.denied == Ungranted::Close {
        return Err(ConnectError::Rejected(denied));
    }
    let deferred = told.with(GrantDecision::Deferred, wanted);
    if !deferred.is_empty() && config.deferred == Ungranted::Close {
        return Err(ConnectError::Deferred(deferred));
    }
    Ok(())
}
