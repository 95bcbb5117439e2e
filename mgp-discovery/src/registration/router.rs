//! `mgp/discovery/register` and `mgp/discovery/deregister` as endpoints (MGP §15.4, §15.5).

use mgp_types::RpcError;
use mgp_types::method::{DiscoveryDeregister, DiscoveryRegister, Request};
use mgp_types::service::{Call, Context, Reply, Router, ServerId, Stack};
use serde::Deserialize;

use super::registrations::Registrations;

impl Registrations {
    /// Returns a router for `mgp/discovery/register` and `mgp/discovery/deregister`, to be used together with
    /// [`list_router`](crate::list_router).
    ///
    /// The router refuses a caller without the right before it checks the params, and records the refusal in the audit
    /// log. The kernel can also offer the methods as tools, under names with dots or underscores; the same rules apply
    /// to these tools.
    #[must_use]
    pub fn router(&self) -> Router {
        let (register, deregister) = (self.clone(), self.clone());
        Router::new()
            .route(
                DiscoveryRegister::METHOD,
                Stack::from_fn(move |call| {
                    let registrations = register.clone();
                    async move {
                        let (cx, params) = registrations.entered::<DiscoveryRegister>(call).await?;
                        Reply::of(&registrations.0.register(&cx, params).await?)
                    }
                }),
            )
            .route(
                DiscoveryDeregister::METHOD,
                Stack::from_fn(move |call| {
                    let registrations = deregister.clone();
                    async move {
                        let (cx, params) =
                            registrations.entered::<DiscoveryDeregister>(call).await?;
                        Reply::of(&registrations.0.deregister(&cx, params).await?)
                    }
                }),
            )
    }

    async fn entered<R: Request>(&self, call: Call) -> Result<(Context, R::Params), RpcError> {
        let (_, params, cx) = call.into_parts();
        let server = params.get::<Named>().ok().map(|named| ServerId::from(named.id.as_str()));
        self.0.admit(&cx, R::METHOD, server).await?;
        Ok((cx, params.get()?))
    }
}

/// The part of the params with the id of the server, for the audit event of a refusal.
#[derive(Deserialize)]
struct Named {
    id: String,
}
