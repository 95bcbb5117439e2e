//! Forwards progress to a server that has asked a question: the progress that the caller reports while it answers the
//! question (MCP progress).

use std::sync::Arc;

use mgp_types::Id;
use mgp_types::method::Progress;
use mgp_types::service::{
    BoxFuture, Call, ConsumerGone, Outlet, OutletItem, OutletItemKind, Peer, Scope, Sink,
};

/// The outlet of a forwarded question. A progress token is valid on one connection only, so the server and the caller
/// have different tokens.
struct QuestionProgress {
    server: Peer,
    scope: Scope,
    token: Id,
}

/// Returns the outlet for the progress of a server's question; it accepts nothing if the server requested no progress.
pub(super) fn progress_outlet(question: &Call) -> Outlet {
    let Some(token) = question.params().progress_token() else { return Outlet::none() };
    let (server, scope) = (question.cx().peer.clone(), question.cx().scope.clone());
    Outlet::new(Arc::new(QuestionProgress { server, scope, token }))
}

impl Sink for QuestionProgress {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        Box::pin(async move {
            let OutletItem::Progress(step) = item else { return Ok(()) };
            let params = step.to_params(self.token.clone());
            let cx = self.server.context(&self.scope);
            let call = Call::tell::<Progress>(&params, cx).map_err(|_| ConsumerGone)?;
            self.server.send(call).await.map(drop).map_err(|_| ConsumerGone)
        })
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        kind == OutletItemKind::Progress
    }
}
