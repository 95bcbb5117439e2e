//! A session the server has opened and this side has not begun yet: it is begun, or ended at the server.
//!
//! Applies to: outbound, legacy.

use std::sync::Arc;

use http::HeaderMap;
use mgp_types::RpcError;
use mgp_types::service::Call;
use tokio::runtime::Handle;

use super::core::{Core, gone};
use super::session::Opened;

/// Ends the session when it is dropped, in the background: whoever opened it may stop waiting at any moment.
pub(super) struct Fresh {
    core: Arc<Core>,
    opened: Option<Opened>,
    /// Where it was opened, as it may be dropped elsewhere.
    runtime: Option<Handle>,
}

impl Fresh {
    pub(super) fn new(core: &Arc<Core>, opened: Opened) -> Self {
        let runtime = Handle::try_current().ok();
        Self { core: Arc::clone(core), opened: Some(opened), runtime }
    }

    pub(super) fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Makes it the session of the connection, unless that was closed meanwhile.
    pub(super) fn begin(mut self, by: Call) -> Result<(), RpcError> {
        let Some(opened) = self.opened.take() else { return Ok(()) };
        self.core.session.open(opened, by).map_err(|unwanted| {
            self.opened = Some(unwanted);
            gone()
        })
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let Some(opened) = self.opened.take().filter(|opened| opened.id.is_some()) else { return };
        let mut headers = HeaderMap::new();
        opened.stamp(&mut headers);
        if let Some(runtime) = &self.runtime {
            let core = Arc::clone(&self.core);
            runtime.spawn(async move { core.tell_end(headers).await });
        }
    }
}
