//! Answers a server's requests for permissions. In the legacy era they arrive as requests, in the modern era as
//! questions (MGP §3.5).

use mgp_lifecycle::HandshakeState;
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::service::Router;

use crate::config::ClientConfig;
use crate::wire::not_offered;

/// Adds the handler of requests for permissions, if there is an authority and the user did not set a handler.
pub(crate) fn answer_permissions(mut config: ClientConfig) -> ClientConfig {
    let is_taken = config.handlers.methods().any(|known| known == PermissionRequest::METHOD);
    if config.connect.grantor.is_none() || is_taken {
        return config;
    }
    config.handlers = config.handlers.merge(Router::new().on::<PermissionRequest, _, _>(
        |cx, params| async move {
            let flow = cx.scope.state::<HandshakeState>().permissions();
            flow.ok_or_else(|| not_offered(PermissionRequest::METHOD))?.answer(cx, params).await
        },
    ));
    config
}
