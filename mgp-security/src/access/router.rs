//! The methods of §5.4 as endpoints.
//!
//! Applies to: inbound.

use mgp_types::RpcError;
use mgp_types::method::{AccessGrant, AccessQuery, AccessRevoke, Request};
use mgp_types::service::{Call, Params, Reply, Router, Stack};
use serde::Deserialize;

use super::asker::Asker;
use super::book::Access;

impl Access {
    /// Answers `mgp/access/query`, `mgp/access/grant` and `mgp/access/revoke`.
    ///
    /// Who calls is the principal of the call, whatever the params claim.
    /// Only an operator grants, revokes and asks about others; everybody else gets 1000, and it is recorded.
    #[must_use]
    pub fn router(&self) -> Router {
        let (query, grant, revoke) = (self.clone(), self.clone(), self.clone());
        Router::new()
            .on::<AccessQuery, _, _>(move |cx, params| {
                let access = query.clone();
                async move { access.answer(Asker::of(&cx), params).await }
            })
            // Who may not administer is told so before anything else of the call is looked at.
            .route(
                AccessGrant::METHOD,
                Stack::from_fn(move |call| {
                    let access = grant.clone();
                    async move {
                        let (params, cx) = access.admit::<AccessGrant>(&call).await?;
                        Reply::of(&access.make(Asker::of(cx), params).await?)
                    }
                }),
            )
            .route(
                AccessRevoke::METHOD,
                Stack::from_fn(move |call| {
                    let access = revoke.clone();
                    async move {
                        let (params, cx) = access.admit::<AccessRevoke>(&call).await?;
                        Reply::of(&access.take_back(Asker::of(cx), params).await?)
                    }
                }),
            )
    }

    /// The params of somebody who may change something.
    async fn admit<'a, R: Request>(
        &self,
        call: &'a Call,
    ) -> Result<(R::Params, &'a mgp_types::service::Context), RpcError> {
        let (params, cx) = (call.params(), call.cx());
        self.authorise::<R>(Asker::of(cx), server_of(params).as_deref()).await?;
        Ok((params.get()?, cx))
    }
}

/// The server that params name, for the record.
fn server_of(params: &Params) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        server_id: String,
    }
    let Named { server_id } = params.get().ok()?;
    Some(server_id.chars().take(256).collect())
}
