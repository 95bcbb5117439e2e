//! A router for the methods that query, grant and revoke access (MGP §5.4).

use mgp_types::RpcError;
use mgp_types::method::{AccessGrant, AccessQuery, AccessRevoke, Request};
use mgp_types::mgp::AccessQueryParams;
use mgp_types::service::{Call, Context, Params, Reply, Router, ServerId, Stack};
use serde::Deserialize;

use super::admin_check::AdminCheck;
use super::book::Access;
use super::pass::Need;
use super::refused::About;

impl Access {
    /// Returns a router that answers `mgp/access/query`, `mgp/access/grant` and `mgp/access/revoke`.
    ///
    /// The principal of the call counts as the caller, whatever the params claim. Only operators are allowed to grant
    /// and revoke access, and to query the access of other agents. Other callers are refused with code 1000 (permission
    /// denied), and the refusal is recorded.
    #[must_use]
    pub fn router(&self) -> Router {
        let (query, grant, revoke) = (self.clone(), self.clone(), self.clone());
        Router::new()
            // Check the authority before the params, so that a caller without it is refused for that reason even if its
            // params cannot be parsed.
            .route(
                AccessQuery::METHOD,
                Stack::from_fn(move |call| {
                    let access = query.clone();
                    async move {
                        let (params, cx) = access.asked(&call).await?;
                        Reply::of(&access.answer(AdminCheck::of(cx).within_tenant(), params).await?)
                    }
                }),
            )
            .route(
                AccessGrant::METHOD,
                Stack::from_fn(move |call| {
                    let access = grant.clone();
                    async move {
                        let (params, cx) = access.admit::<AccessGrant>(&call).await?;
                        Reply::of(&access.make(AdminCheck::of(cx).within_tenant(), params).await?)
                    }
                }),
            )
            .route(
                AccessRevoke::METHOD,
                Stack::from_fn(move |call| {
                    let access = revoke.clone();
                    async move {
                        let (params, cx) = access.admit::<AccessRevoke>(&call).await?;
                        Reply::of(
                            &access.take_back(AdminCheck::of(cx).within_tenant(), params).await?,
                        )
                    }
                }),
            )
    }

    async fn asked<'a>(
        &self,
        call: &'a Call,
    ) -> Result<(AccessQueryParams, &'a Context), RpcError> {
        let (params, cx) = (call.params(), call.cx());
        let unread = match params.get() {
            Ok(params) => return Ok((params, cx)),
            Err(unread) => unread,
        };
        let check = AdminCheck::of(cx).within_tenant();
        match check.check(Need::Read, AccessQuery::METHOD, About::Others) {
            Ok(()) => Err(unread),
            Err(refusal) => {
                let server = server_of(params);
                Err(self.refuse(check, AccessQuery::METHOD, server.as_deref(), refusal).await)
            }
        }
    }

    async fn admit<'a, R: Request>(
        &self,
        call: &'a Call,
    ) -> Result<(R::Params, &'a Context), RpcError> {
        let (params, cx) = (call.params(), call.cx());
        self.authorise::<R>(AdminCheck::of(cx).within_tenant(), server_of(params).as_deref())
            .await?;
        Ok((params.get()?, cx))
    }
}

/// Returns the server that the params name, for the audit event; `None` if they name no server.
pub(crate) fn named_server(params: &Params) -> Option<ServerId> {
    server_of(params).as_deref().map(ServerId::from)
}

fn server_of(params: &Params) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        server_id: String,
    }
    let Named { server_id } = params.get().ok()?;
    Some(server_id.chars().take(256).collect())
}
