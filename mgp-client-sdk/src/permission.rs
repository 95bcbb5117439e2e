//! Answers a server's requests for permissions. In the legacy era such a request is a JSON-RPC request to the client;
//! in the modern era it is a question in the server's answer to a call (MGP §3.5).

use mgp_lifecycle::HandshakeState;
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::service::Router;

use crate::config::ClientConfig;
use crate::wire::not_offered;

/// Adds a handler of permission requests to the configuration, unless the configuration has no permission authority or
/// already has such a handler.
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
