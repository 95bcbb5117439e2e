//! Answers what a server asks for itself: its request in the legacy era, its question in the modern one (MGP §3.5).
//!
//! Applies to: inbound.

use mgp_lifecycle::Session;
use mgp_types::method::{PermissionRequest, Request};
use mgp_types::service::Router;

use crate::config::ClientConfig;
use crate::wire::not_offered;

/// Has requests for permissions answered where somebody decides, unless the user answers them.
pub(crate) fn answered(mut config: ClientConfig) -> ClientConfig {
    let is_taken = config.answers.methods().any(|known| known == PermissionRequest::METHOD);
    if config.connect.grantor.is_none() || is_taken {
        return config;
    }
    config.answers = config.answers.merge(Router::new().on::<PermissionRequest, _, _>(
        |cx, params| async move {
            let flow = cx.scope.state::<Session>().permissions();
            flow.ok_or_else(|| not_offered(PermissionRequest::METHOD))?.answer(cx, params).await
        },
    ));
    config
}
