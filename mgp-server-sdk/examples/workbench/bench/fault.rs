//! The faults that flags enable: a handshake that hangs, and an exit after a number of calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_types::method::{Initialize, ServerDiscover, ToolsCall};
use mgp_types::service::{Call, Stack, around};
use tower_layer::Layer;

use super::Settings;

/// The exit status of the process after `--exit-after`.
const EXIT_STATUS: i32 = 3;

/// Creates the layer that adds the faults to a server.
pub(crate) fn layer(
    settings: &Settings,
) -> impl Layer<Stack, Service = Stack> + Send + 'static + use<> {
    let hang_init = settings.hang_init;
    let calls_left = settings.exit_after.map(|calls| Arc::new(AtomicU64::new(calls)));
    around(move |call: Call, inner: Stack| {
        let hangs = hang_init && (call.is::<Initialize>() || call.is::<ServerDiscover>());
        if let Some(left) = calls_left.as_ref().filter(|_| call.is::<ToolsCall>()) {
            let spent =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if spent.is_err() {
                std::process::exit(EXIT_STATUS);
            }
        }
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            inner.send(call).await
        }
    })
}
